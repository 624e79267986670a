/* Newton systems by matrices of the order of the inputs, on CPU, in double precision.

   For every output y, with A_y = [a; extra_y] (N, X), diagonals di_y, d_y >= 0 with s = di^1/2 and h = d^-1/2 (with d raised
   to LEAST A_t di A_t', and h = 0 where that is 0 too), and G normals n_y:

       h n_y = u_y tri_y   (orthonormal columns, upper triangular),
       B_y = (1 - u_y u_y') diag(h) A_y diag(s),    1 + B_y'B_y = (K_y'K_y)^-1,   K_y lower triangular,
       schur = sum_y diag(s) K_y'K_y diag(s),

   and then the solutions for given right-hand sides. `jaxpriv.solvers._newton_system` says what they are for and has
   the same in JAX, for every device. */

#include "systems.h"

#define LEAST 1e-16 /* what is smaller beside the square of its own row is lost there */

/* ---- factors ------------------------------------------------------------------------------------- */

typedef struct {
  long shared, extra, normals, inputs, outputs; /* rows of a, rows of extra, G, X, Y */
  const double *a, *lines, *di, *d, *n;         /* of one problem of the batch */
  double *s, *h, *k, *u, *tri;
} Factors;

typedef struct {
  double *a, *b, *c, *k, *l, *p, *s, *scale, *basis, *seen;
} Space;

static Space lay_out(double *memory, const Factors *f, long *size) {
  const long n = padded(f->shared + f->extra), x = spread(padded(f->inputs));
  Space s;
  s.a = memory, s.b = s.a + n * x, s.c = s.b + n * x, s.k = s.c + x * x, s.l = s.k + x * x;
  s.p = s.l + PANEL * x, s.s = s.p + PANEL * x, s.scale = s.s + x, s.basis = s.scale + x;
  s.seen = s.basis + f->normals * n;
  *size = s.seen + f->normals * x - memory;
  return s;
}

/* ---- solutions ----------------------------------------------------------------------------------- */

typedef struct {
  long sides, shared, extra, normals, inputs, outputs; /* right-hand sides M */
  const double *a, *lines, *s, *h, *k, *u, *tri, *schur; /* of one problem of the batch */
  const double *rho, *link, *level, *row;
  double *kappa, *dx, *dz, *e;
} Solve;

#define BODY "inputs_body.h"
#include "targets.h"

#include "systems_body.h"

/* ---- the interface to XLA --------------------------------------------------------------------------- */

/* (a (T,X), extra (Y,W,X), di (Y,X), d (Y,N), normals (Y,G,N))
   -> (s (Y,X), h (Y,N), k (Y,X,X), u (Y,N,G), tri (Y,G,G), schur (X,X)), N = T + W; all with a batch in front. */
XLA_FFI_Error *jaxpriv_inputs_factor(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  XLA_FFI_Buffer **in = (XLA_FFI_Buffer **)frame->args.args, **out = (XLA_FFI_Buffer **)frame->rets.rets;
  long sizes[LETTERS];
  if (!shaped(frame, XLA_FFI_DataType_F64, "TX YWX YX YN YGN | YX YN YXX YNG YGG XX", sizes) ||
      SIZE(sizes, 'N') != SIZE(sizes, 'T') + SIZE(sizes, 'W'))
    return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "inputs_factor: arrays of float64 of other shapes");
  const long batch = leading(in[2], 2), outputs = SIZE(sizes, 'Y'), inputs = SIZE(sizes, 'X');
  const long shared = SIZE(sizes, 'T'), extra = SIZE(sizes, 'W'), rows = shared + extra, normals = SIZE(sizes, 'G');
  const long x = spread(padded(inputs)), area = x * x, chunks = pieces(batch, outputs, inputs, area);

  Factors *problems = malloc(batch * sizeof(Factors));
  double *partial = allocate(batch * chunks * area);
  if (!problems || !partial) {
    free(problems), free(partial);
    return no_memory(frame);
  }
  double *s = out[0]->data, *h = out[1]->data, *k = out[2]->data, *u = out[3]->data, *tri = out[4]->data;
  in_huge_pages(k, batch * outputs * inputs * inputs);
  for (long b = 0; b < batch; b++)
    problems[b] = (Factors){shared, extra, normals, inputs, outputs,
                            numbers(in[0]) + b * shared * inputs,
                            numbers(in[1]) + b * outputs * extra * inputs,
                            numbers(in[2]) + b * outputs * inputs,
                            numbers(in[3]) + b * outputs * rows,
                            numbers(in[4]) + b * outputs * normals * rows,
                            s + b * outputs * inputs, h + b * outputs * rows, k + b * outputs * inputs * inputs,
                            u + b * outputs * rows * normals, tri + b * outputs * normals * normals};
  Shared context = {problems, outputs, chunks, area, partial};
  const Factors shape = {.shared = shared, .extra = extra, .normals = normals, .inputs = inputs};
  long size;
  lay_out(NULL, &shape, &size); /* not of problems[0]: a batch may be empty */
  const int good = share(frame, run_factors, &context, batch * chunks, size, 0);

  for (long b = 0; good && b < batch; b++) {
    double *schur = (double *)out[5]->data + b * inputs * inputs;
    const double *sum = total_of(&context, b);
    for (long i = 0; i < inputs; i++)
      for (long j = 0; j <= i; j++) schur[i * inputs + j] = schur[j * inputs + i] = sum[i * x + j];
  }
  free(problems), free(partial);
  return good ? NULL : no_memory(frame);
}

/* (a (T,X), extra (Y,W,X), s (Y,X), h (Y,N), k (Y,X,X), u (Y,N,G), tri (Y,G,G), schur (X,X),
    rho (M,Y,X), link (M,Y,N), level (M,Y,G), row (M,X))
   -> (kappa (M,Y,N), dx (M,Y,X), dz (M,Y,X), e (M,X)); all with a batch. */
XLA_FFI_Error *jaxpriv_inputs_solve(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  XLA_FFI_Buffer **in = (XLA_FFI_Buffer **)frame->args.args, **out = (XLA_FFI_Buffer **)frame->rets.rets;
  long sizes[LETTERS];
  if (!shaped(frame, XLA_FFI_DataType_F64, "TX YWX YX YN YXX YNG YGG XX MYX MYN MYG MX | MYN MYX MYX MX", sizes) ||
      SIZE(sizes, 'N') != SIZE(sizes, 'T') + SIZE(sizes, 'W'))
    return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "inputs_solve: arrays of float64 of other shapes");
  const long batch = leading(in[11], 2), sides = SIZE(sizes, 'M'), inputs = SIZE(sizes, 'X');
  const long outputs = SIZE(sizes, 'Y'), rows = SIZE(sizes, 'N'), normals = SIZE(sizes, 'G');
  const long shared = SIZE(sizes, 'T'), extra = SIZE(sizes, 'W');
  const long area = sides * inputs, chunks = pieces(batch, outputs, inputs, area);

  Solve *problems = malloc(batch * sizeof(Solve));
  double *partial = allocate(batch * chunks * area + inputs);
  if (!problems || !partial) {
    free(problems), free(partial);
    return no_memory(frame);
  }
  double *kappa = out[0]->data, *dx = out[1]->data, *dz = out[2]->data, *e = out[3]->data;
  for (long b = 0; b < batch; b++)
    problems[b] = (Solve){sides, shared, extra, normals, inputs, outputs,
                          numbers(in[0]) + b * shared * inputs,
                          numbers(in[1]) + b * outputs * extra * inputs,
                          numbers(in[2]) + b * outputs * inputs,
                          numbers(in[3]) + b * outputs * rows,
                          numbers(in[4]) + b * outputs * inputs * inputs,
                          numbers(in[5]) + b * outputs * rows * normals,
                          numbers(in[6]) + b * outputs * normals * normals,
                          numbers(in[7]) + b * inputs * inputs,
                          numbers(in[8]) + b * sides * outputs * inputs,
                          numbers(in[9]) + b * sides * outputs * rows,
                          numbers(in[10]) + b * sides * outputs * normals,
                          numbers(in[11]) + b * sides * inputs,
                          kappa + b * sides * outputs * rows, dx + b * sides * outputs * inputs,
                          dz + b * sides * outputs * inputs, e + b * sides * inputs};
  Shared context = {problems, outputs, chunks, area, partial};
  const int alone = batch * outputs * inputs * (rows + inputs) < WORTH_A_THREAD;
  int good = share(frame, run_forward, &context, batch * chunks, sides * (rows + inputs) + normals, alone);

  InverseOf *solve_schur = PICK(apply_inverse);
  double *half = partial + batch * chunks * area; /* S e = row - sum_y dX without e */
  for (long b = 0; good && b < batch; b++) {
    const Solve *c = problems + b;
    double *short_of = total_of(&context, b);
    for (long m = 0; m < sides; m++) {
      for (long i = 0; i < inputs; i++) short_of[m * inputs + i] += c->row[m * inputs + i];
      solve_schur(inputs, c->schur, short_of + m * inputs, half, c->e + m * inputs);
    }
  }
  good = good && share(frame, run_backward, &context, batch * chunks, sides * (rows + inputs), alone);
  free(problems), free(partial);
  return good ? NULL : no_memory(frame);
}
