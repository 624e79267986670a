/* Newton systems by matrices of the order of the rows, on CPU, in double precision.

   For every output y, with A_y = [a; extra_y] (N, X), diagonals di_y, d_y >= 0, and G normals n_y:

       G_y = A_y diag(di_y) A_y' + diag(d_y) = (K_y'K_y)^-1,   K_y lower triangular,
       R_y = K_y A_y diag(di_y),   K_y n_y = u_y tri_y   (orthonormal columns, upper triangular),
       schur = sum_y [ diag(di_y) - R_y'(1 - u_y u_y') R_y ],

   and then the solutions for given right-hand sides. `jaxpriv.solvers._newton_system` says what they are
   for and has the same in JAX, for every device; a matrix of a few dozen rows is too small for the batched
   kernels of XLA, which work at a tenth of the speed of the machine there. */

#include "systems.h"

#define GROUP_ROWS 64 /* rows of R that are collected before their sum of squares */
#define FEW 3         /* fewer last rows than this are taken one by one */

static long at_once(long i, long rows) { return rows - i < FEW ? 1 : PANEL; } /* rows, from row i on */
static long group_of(long rows) { return rows > 0 && rows < GROUP_ROWS ? GROUP_ROWS / rows : 1; }

/* ---- factors ------------------------------------------------------------------------------------- */

typedef struct {
  long shared, extra, normals, inputs, outputs; /* rows of a, rows of extra, G, X, Y */
  const double *a, *lines, *di, *d, *n;         /* of one problem of the batch */
  double *k, *r, *u, *tri;
} Factors;

typedef struct {
  double *at, *bt, *g, *k, *l, *p, *b, *r, *scale, *basis;
} Space;

static Space lay_out(double *memory, const Factors *c, long *size) {
  const long n = padded(c->shared + c->extra), x = padded(c->inputs);
  Space s;
  s.at = memory, s.bt = s.at + x * n, s.g = s.bt + x * n, s.k = s.g + n * n;
  s.l = s.k + n * n, s.p = s.l + PANEL * n, s.b = s.p + PANEL * n, s.r = s.b + n * x;
  s.scale = s.r + (n + GROUP_ROWS) * x, s.basis = s.scale + padded(n);
  *size = s.basis + padded(c->normals * (n + x)) - memory;
  return s;
}

/* ---- solutions ----------------------------------------------------------------------------------- */

typedef struct {
  long sides, rows, normals, inputs, outputs; /* right-hand sides M, N, G, X, Y */
  const double *k, *r, *u, *tri, *schur;      /* of one problem of the batch */
  const double *rho, *link, *level, *rest;
  double *kappa, *e;
} Solve;

#define BODY "rows_body.h"
#include "targets.h"

#include "systems_body.h"

/* ---- the border to XLA --------------------------------------------------------------------------- */

/* (a (T,X), extra (Y,W,X), di (Y,X), d (Y,N), normals (Y,G,N))
   -> (k (Y,N,N), r (Y,N,X), u (Y,N,G), tri (Y,G,G), schur (X,X)), N = T + W; all with a batch in front. */
XLA_FFI_Error *jaxpriv_rows_factor(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  XLA_FFI_Buffer **in = (XLA_FFI_Buffer **)frame->args.args, **out = (XLA_FFI_Buffer **)frame->rets.rets;
  long sizes[LETTERS];
  if (!shaped(frame, XLA_FFI_DataType_F64, "TX YWX YX YN YGN | YNN YNX YNG YGG XX", sizes) ||
      SIZE(sizes, 'N') != SIZE(sizes, 'T') + SIZE(sizes, 'W'))
    return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "rows_factor: arrays of float64 of other shapes");
  const long batch = leading(in[2], 2), outputs = SIZE(sizes, 'Y'), inputs = SIZE(sizes, 'X');
  const long shared = SIZE(sizes, 'T'), extra = SIZE(sizes, 'W'), rows = shared + extra, normals = SIZE(sizes, 'G');
  const long x = padded(inputs), area = x * x, chunks = pieces(batch, outputs, rows, area);

  Factors *problems = malloc(batch * sizeof(Factors));
  double *partial = allocate(batch * chunks * area);
  if (!problems || !partial) {
    free(problems), free(partial);
    return no_memory(frame);
  }
  double *k = out[0]->data, *r = out[1]->data, *u = out[2]->data, *tri = out[3]->data;
  for (long b = 0; b < batch; b++)
    problems[b] = (Factors){shared, extra, normals, inputs, outputs,
                            numbers(in[0]) + b * shared * inputs,
                            numbers(in[1]) + b * outputs * extra * inputs,
                            numbers(in[2]) + b * outputs * inputs,
                            numbers(in[3]) + b * outputs * rows,
                            numbers(in[4]) + b * outputs * normals * rows,
                            k + b * outputs * rows * rows, r + b * outputs * rows * inputs,
                            u + b * outputs * rows * normals, tri + b * outputs * normals * normals};
  Shared context = {problems, outputs, chunks, area, partial};
  const Factors shape = {.shared = shared, .extra = extra, .normals = normals, .inputs = inputs};
  long size;
  lay_out(NULL, &shape, &size); /* not of problems[0]: a batch may be empty */
  const int good = share(frame, run_factors, &context, batch * chunks, size, 0);

  for (long b = 0; good && b < batch; b++) {
    double *schur = (double *)out[4]->data + b * inputs * inputs, *sum = total_of(&context, b);
    for (long i = 0; i < inputs; i++) {
      double total = 0.0;
      for (long y = 0; y < outputs; y++) total += problems[b].di[y * inputs + i];
      for (long j = 0; j < i; j++) schur[i * inputs + j] = schur[j * inputs + i] = -sum[i * x + j];
      schur[i * inputs + i] = total - sum[i * x + i];
    }
  }
  free(problems), free(partial);
  return good ? NULL : no_memory(frame);
}

/* (k (Y,N,N), r (Y,N,X), u (Y,N,G), tri (Y,G,G), schur (X,X),
    rho (M,Y,X), link (M,Y,N), level (M,Y,G), rest (M,X)) -> (kappa (M,Y,N), e (M,X)); all with a batch. */
XLA_FFI_Error *jaxpriv_rows_solve(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  XLA_FFI_Buffer **in = (XLA_FFI_Buffer **)frame->args.args, **out = (XLA_FFI_Buffer **)frame->rets.rets;
  long sizes[LETTERS];
  if (!shaped(frame, XLA_FFI_DataType_F64, "YNN YNX YNG YGG XX MYX MYN MYG MX | MYN MX", sizes))
    return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "rows_solve: arrays of float64 of other shapes");
  const long batch = leading(in[8], 2), sides = SIZE(sizes, 'M'), inputs = SIZE(sizes, 'X');
  const long outputs = SIZE(sizes, 'Y'), rows = SIZE(sizes, 'N'), normals = SIZE(sizes, 'G');
  const long area = sides * inputs, chunks = pieces(batch, outputs, rows, area);

  Solve *problems = malloc(batch * sizeof(Solve));
  double *partial = allocate(batch * chunks * area + inputs);
  if (!problems || !partial) {
    free(problems), free(partial);
    return no_memory(frame);
  }
  double *kappa = out[0]->data, *e = out[1]->data;
  for (long b = 0; b < batch; b++)
    problems[b] = (Solve){sides, rows, normals, inputs, outputs,
                          numbers(in[0]) + b * outputs * rows * rows, numbers(in[1]) + b * outputs * rows * inputs,
                          numbers(in[2]) + b * outputs * rows * normals,
                          numbers(in[3]) + b * outputs * normals * normals,
                          numbers(in[4]) + b * inputs * inputs,
                          numbers(in[5]) + b * sides * outputs * inputs,
                          numbers(in[6]) + b * sides * outputs * rows,
                          numbers(in[7]) + b * sides * outputs * normals,
                          numbers(in[8]) + b * sides * inputs,
                          kappa + b * sides * outputs * rows, e + b * sides * inputs};
  Shared context = {problems, outputs, chunks, area, partial};
  const int alone = batch * outputs * rows * (rows + inputs) < WORTH_A_THREAD;
  int good = share(frame, run_forward, &context, batch * chunks, normals, alone);

  InverseOf *solve_schur = PICK(apply_inverse);
  double *half = partial + batch * chunks * area; /* e = schur' schur ( rest + sum_y R'a ) */
  for (long b = 0; good && b < batch; b++) {
    const Solve *c = problems + b;
    double *sum = total_of(&context, b);
    for (long m = 0; m < sides; m++) {
      for (long i = 0; i < inputs; i++) sum[m * inputs + i] += c->rest[m * inputs + i];
      solve_schur(inputs, c->schur, sum + m * inputs, half, c->e + m * inputs);
    }
  }
  good = good && share(frame, run_backward, &context, batch * chunks, sides * rows, alone);
  free(problems), free(partial);
  return good ? NULL : no_memory(frame);
}
