/* Newton systems by matrices of the order of the rows, on CPU, in double precision.

   For every output y, with A_y = [a; extra_y] (N, X), diagonals di_y, d_y >= 0, and G normals n_y:

       G_y = A_y diag(di_y) A_y' + diag(d_y) = (K_y'K_y)^-1,   K_y lower triangular,
       R_y = K_y A_y diag(di_y),   K_y n_y = u_y tri_y   (orthonormal columns, upper triangular),
       schur = sum_y [ diag(di_y) - R_y'(1 - u_y u_y') R_y ],

   and then the solutions for given right-hand sides. `jaxpriv.solvers._row_system` says what they are
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

/* B <- (1 - uu') B for B (n, width); `seen` is working memory. */
INLINE void deflate(long count, const double *basis, long stride, long n, double *b, long width, double *seen) {
  for (long g = 0; g < count; g++) {
    const double *u = basis + g * stride;
    memset(seen, 0, width * sizeof(double));
    for (long t = 0; t < n; t++) add_multiple(seen, u[t], b + t * width, width);
    for (long t = 0; t < n; t++) add_multiple(b + t * width, -u[t], seen, width);
  }
}

/* Outputs from <= y < to; their sum of R'(1 - uu')R (lower blocks, padded) is added to `sum`. */
INLINE void factors(const Factors *c, Space s, long from, long to, double *sum, const int rows, const int vectors) {
  const long rows_in = c->shared + c->extra, n = padded(rows_in), x = padded(c->inputs), inputs = c->inputs;
  const long group = group_of(rows_in);
  long held = 0; /* rows of R not yet in `sum` */
  memset(s.at, 0, x * n * sizeof(double));
  for (long t = 0; t < c->shared; t++)
    for (long i = 0; i < inputs; i++) s.at[i * n + t] = c->a[t * inputs + i];
  memset(s.b, 0, n * x * sizeof(double));
  memset(s.k, 0, n * n * sizeof(double));
  memset(s.g, 0, n * n * sizeof(double));
  memset(s.scale, 0, n * sizeof(double));
  for (long y = from; y < to; y++) {
    const double *di = c->di + y * inputs, *d = c->d + y * rows_in, *lines = c->lines + y * c->extra * inputs;
    for (long t = 0; t < c->extra; t++)
      for (long i = 0; i < inputs; i++) s.at[i * n + c->shared + t] = lines[t * inputs + i];
    for (long i = 0; i < inputs; i++)
      for (long t = 0; t < n; t++) s.bt[i * n + t] = di[i] * s.at[i * n + t];
    for (long t = 0; t < rows_in; t++) {
      const double *line = t < c->shared ? c->a + t * inputs : lines + (t - c->shared) * inputs;
      for (long i = 0; i < inputs; i++) s.b[t * x + i] = di[i] * line[i];
    }
    for (long i = 0, m; i < rows_in; i += m) {
      m = at_once(i, rows_in);
      const long j = i / PAD * PAD;
      product(m, n - j, inputs, s.bt + i, 1, n, s.at + j, n, s.g + i * n + j, n, 0, 1.0, rows, vectors);
    }
    for (long t = 0; t < rows_in; t++) s.scale[t] = s.g[t * n + t] += d[t];
    for (long t = rows_in; t < n; t++) s.g[t * n + t] = 1.0;
    const int factored = factor(n, s.g, s.scale, s.k, s.l, s.p, rows, vectors);
    for (long g = 0; g < c->normals; g++) {
      const double *normal = c->n + (y * c->normals + g) * rows_in;
      for (long t = 0; t < rows_in; t++) s.basis[g * n + t] = dot(s.k + t * n, normal, t + 1);
    }
    orthonormal(c->normals, rows_in, s.basis, n, c->u + y * rows_in * c->normals, c->tri + y * c->normals * c->normals);
    double *r = s.r + held * x; /* padding rows reach into the next output's place, which comes later */
    for (long i = 0, m; i < rows_in; i += m) {
      m = at_once(i, rows_in);
      product(m, x, i + m, s.k + i * n, n, 1, s.b, x, r + i * x, x, 0, 1.0, rows, vectors);
    }
    for (long t = 0; t < rows_in; t++) {
      memcpy(c->k + (y * rows_in + t) * rows_in, s.k + t * n, rows_in * sizeof(double));
      memcpy(c->r + (y * rows_in + t) * inputs, r + t * x, inputs * sizeof(double));
    }
    if (!factored) memset(s.k, 0, n * n * sizeof(double));
    deflate(c->normals, s.basis, n, rows_in, r, x, s.basis + c->normals * n);
    held += rows_in;
    if (held < group * rows_in && y + 1 < to) continue;
    for (long i = 0; i < x; i += PANEL)
      product(PANEL, i + PANEL, held, s.r + i, 1, x, s.r, x, sum + i * x, x, 1, 1.0, rows, vectors);
    held = 0;
  }
}

/* ---- solutions ----------------------------------------------------------------------------------- */

typedef struct {
  long sides, rows, normals, inputs, outputs; /* right-hand sides M, N, G, X, Y */
  const double *k, *r, *u, *tri, *schur;      /* of one problem of the batch */
  const double *rho, *link, *level, *rest;
  double *kappa, *e;
} Solve;

/* a = (1 - uu')(R rho + K link) + u tri'^-1 level, kept in kappa; R'a is added to sum (M, X). */
INLINE void forward(const Solve *c, long from, long to, double *sum, double *wanted, const int rows) {
  for (long y = from; y < to; y++) {
    const double *k = c->k + y * c->rows * c->rows, *r = c->r + y * c->rows * c->inputs;
    const double *u = c->u + y * c->rows * c->normals, *tri = c->tri + y * c->normals * c->normals;
    const long apart = c->outputs * c->rows;
    double *a = c->kappa + y * c->rows;
    for (long m = 0; m < c->sides; m++) memset(a + m * apart, 0, c->rows * sizeof(double));
    add_product(c->sides, c->rows, c->inputs, r, c->rho + y * c->inputs, c->outputs * c->inputs, a, apart, 0, rows);
    add_product(c->sides, c->rows, c->rows, k, c->link + y * c->rows, apart, a, apart, 1, rows);
    for (long m = 0; m < c->sides; m++) {
      coordinates(c->normals, tri, c->level + (m * c->outputs + y) * c->normals, wanted);
      set_level(c->normals, c->rows, u, a + m * apart, wanted);
    }
    add_transposed(c->sides, c->rows, c->inputs, r, a, apart, sum, c->inputs, 0, rows);
  }
}

/* kappa = K'( a + (1 - uu') R e ). */
INLINE void backward(const Solve *c, long from, long to, double *moved, const int rows) {
  for (long y = from; y < to; y++) {
    const double *k = c->k + y * c->rows * c->rows, *r = c->r + y * c->rows * c->inputs;
    const long apart = c->outputs * c->rows;
    double *kappa = c->kappa + y * c->rows;
    memset(moved, 0, c->sides * c->rows * sizeof(double));
    add_product(c->sides, c->rows, c->inputs, r, c->e, c->inputs, moved, c->rows, 0, rows);
    for (long m = 0; m < c->sides; m++) {
      double *own = moved + m * c->rows;
      set_level(c->normals, c->rows, c->u + y * c->rows * c->normals, own, NULL);
      for (long t = 0; t < c->rows; t++) own[t] += kappa[m * apart + t];
      memset(kappa + m * apart, 0, c->rows * sizeof(double));
    }
    add_transposed(c->sides, c->rows, c->rows, k, moved, c->rows, kappa, apart, 1, rows);
  }
}

#include "systems_body.h"

/* ---- the border to XLA --------------------------------------------------------------------------- */

/* (a (T,X), extra (Y,W,X), di (Y,X), d (Y,N), normals (Y,G,N))
   -> (k (Y,N,N), r (Y,N,X), u (Y,N,G), tri (Y,G,G), schur (X,X)), N = T + W; all with a batch in front. */
XLA_FFI_Error *jaxpriv_rows_factor(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  XLA_FFI_Buffer **in = arguments(frame, 5), **out = (XLA_FFI_Buffer **)frame->rets.rets;
  if (!in) return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "rows_factor: 5 arrays of float64");
  const long batch = leading(in[2], 2), outputs = size_of(in[2], 2), inputs = size_of(in[2], 1);
  const long shared = size_of(in[0], 2), extra = size_of(in[1], 2), rows = shared + extra, normals = size_of(in[4], 2);
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
  XLA_FFI_Buffer **in = arguments(frame, 9), **out = (XLA_FFI_Buffer **)frame->rets.rets;
  if (!in) return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "rows_solve: 9 arrays of float64");
  const long batch = leading(in[8], 2), sides = size_of(in[8], 2), inputs = size_of(in[8], 1);
  const long outputs = size_of(in[6], 2), rows = size_of(in[6], 1), normals = size_of(in[7], 1);
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

  double *half = partial + batch * chunks * area; /* e = schur' schur ( rest + sum_y R'a ) */
  for (long b = 0; good && b < batch; b++) {
    const Solve *c = problems + b;
    double *sum = total_of(&context, b);
    for (long m = 0; m < sides; m++) {
      for (long i = 0; i < inputs; i++) sum[m * inputs + i] += c->rest[m * inputs + i];
      apply_inverse(inputs, c->schur, sum + m * inputs, half, c->e + m * inputs);
    }
  }
  good = good && share(frame, run_backward, &context, batch * chunks, sides * rows, alone);
  free(problems), free(partial);
  return good ? NULL : no_memory(frame);
}
