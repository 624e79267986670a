/* Newton systems by matrices of the order of the rows, on CPU, in double precision.

   For every output y, with A_y = [a; extra_y] (N, X), diagonals di_y, d_y >= 0, and G normals n_y:

       G_y = A_y diag(di_y) A_y' + diag(d_y) = (K_y'K_y)^-1,   K_y lower triangular,
       R_y = K_y A_y diag(di_y),   K_y n_y = u_y tri_y   (orthonormal columns, upper triangular),
       schur = sum_y [ diag(di_y) - R_y'(1 - u_y u_y') R_y ],

   and then the solutions for given right-hand sides, by the factors of R_y, which is not kept. `jaxpriv.solvers._newton_system` says what they are
   for and has the same in JAX, for every device; a matrix of a few dozen rows is too small for the batched
   kernels of XLA, which work at a tenth of the speed of the machine there. */

#include "systems.h"

#define GROUP_ROWS 64 /* rows of R that are collected before their sum of squares */
#define FEW 3         /* fewer last rows than this are taken one by one */

static long at_once(long i, long rows) { return rows - i < FEW ? 1 : PANEL; } /* rows, from row i on */
static long group_of(long rows) { return rows > 0 && rows < GROUP_ROWS ? GROUP_ROWS / rows : 1; }

/* From so many inputs on the Schur complement is larger than the caches: it is then one sum whose blocks are shared out,
   not a sum for every piece of the outputs, which would go through memory for every group of rows. */
#define WIDE 896
#define DEEP 768      /* rows of R that are packed before their sum of squares: they stay in the last cache */
#define MOST_OUTPUTS 8 /* or at least those of so many outputs, to share these out */
#define AT_A_TIME 192 /* rows of a product: a strip of them stays in the first cache */
#define TALL 128      /* rows and columns of a block of the sum: half a megabyte */
#define BROAD 512
static long width_of(long inputs) { return inputs < WIDE ? padded(inputs) : spread((inputs + 15) / 16 * 16); }

/* ---- factors ------------------------------------------------------------------------------------- */

typedef struct {
  long shared, extra, normals, inputs, outputs; /* rows of a, rows of extra, G, X, Y */
  const double *a, *lines, *di, *d, *n;         /* of one problem of the batch */
  double *k, *u, *tri;
  double *packed; /* where the rows of R go from output `first` on, of a block of `deep`; NULL: into the pieces' sums */
  long first, deep;
} Factors;

typedef struct {
  double *at, *bt, *g, *k, *l, *p, *b, *r, *scale, *basis;
} Space;

static Space lay_out(double *memory, const Factors *c, long *size) {
  const long n = padded(c->shared + c->extra), x = width_of(c->inputs);
  Space s;
  s.at = memory, s.bt = s.at + x * n, s.g = s.bt + x * n, s.k = s.g + n * n;
  s.l = s.k + n * n, s.p = s.l + PANEL * n, s.b = s.p + PANEL * n, s.r = s.b + n * x;
  s.scale = s.r + (n + (c->inputs < WIDE ? GROUP_ROWS : 0)) * x, s.basis = s.scale + padded(n);
  *size = s.basis + padded(c->normals * (n + x)) - memory;
  return s;
}

/* ---- solutions ----------------------------------------------------------------------------------- */

typedef struct {
  long sides, shared, extra, normals, inputs, outputs; /* right-hand sides M */
  const double *a, *lines, *di, *k, *u, *tri, *schur;  /* of one problem of the batch */
  const double *rho, *link, *level, *rest;
  double *kappa, *e;
} Solve;

#define BODY "rows_body.h"
#include "targets.h"

#include "systems_body.h"

/* ---- Schur complements larger than the caches ---------------------------------------------------- */

typedef void BlockOf(long, long, const double *, long, long, long, long, long, double *);

typedef struct {
  Factors *problem;
  long to, tasks, rows, x, across; /* outputs before `to`; rows that are packed; blocks beside each other */
  double *sum;
} Wide;

static void run_wide_factors(void *context, double *memory, long task) {
  const Wide *w = context;
  const long first = w->problem->first, count = w->to - first;
  long size;
  FactorsOf *run = PICK(factors);
  run(w->problem, lay_out(memory, w->problem, &size), first + task * count / w->tasks,
      first + (task + 1) * count / w->tasks, NULL);
}

static void run_block(void *context, double *memory, long task) {
  const Wide *w = context;
  const long i = task / w->across * TALL, j = task % w->across * BROAD, below = i + TALL, right = j + BROAD;
  BlockOf *run = PICK(add_block);
  (void)memory;
  if (j < below) run(w->rows, w->x, w->problem->packed, w->problem->deep, i, below < w->x ? below : w->x, j,
                     right < w->x ? right : w->x, w->sum);
}

/* Factors of one problem; the lower blocks of its sum of R'(1 - uu')R in `sum`. 0: no memory. */
static int factor_wide(XLA_FFI_CallFrame *frame, Factors *c, double *sum, long size) {
  const long rows = c->shared + c->extra, x = width_of(c->inputs);
  const long wanted = rows > 0 ? DEEP / rows : MOST_OUTPUTS, fewest = wanted < MOST_OUTPUTS ? MOST_OUTPUTS : wanted;
  const long step = fewest < c->outputs ? fewest : c->outputs, across = (x + BROAD - 1) / BROAD;
  c->deep = step * rows;
  c->packed = allocate(c->deep * x);
  int good = c->packed != NULL;
  memset(sum, 0, x * x * sizeof(double));
  for (c->first = 0; good && c->first < c->outputs; c->first += step) {
    const long to = c->first + step < c->outputs ? c->first + step : c->outputs;
    const long tasks = to - c->first < MOST_OUTPUTS ? to - c->first : MOST_OUTPUTS;
    Wide w = {c, to, tasks, (to - c->first) * rows, x, across, sum};
    good = share(frame, run_wide_factors, &w, tasks, size, 0) &&
           share(frame, run_block, &w, (x + TALL - 1) / TALL * across, 0, 0);
  }
  free(c->packed), c->packed = NULL;
  return good;
}

/* sum_y diag(di_y) minus the sum, of which the lower blocks are given. */
static void schur_of(const Factors *c, const double *sum, long x, double *schur) {
  for (long i = 0; i < c->inputs; i++) {
    double total = 0.0;
    for (long y = 0; y < c->outputs; y++) total += c->di[y * c->inputs + i];
    for (long j = 0; j < i; j++) schur[i * c->inputs + j] = schur[j * c->inputs + i] = -sum[i * x + j];
    schur[i * c->inputs + i] = total - sum[i * x + i];
  }
}

/* ---- the interface to XLA --------------------------------------------------------------------------- */

/* (a (T,X), extra (Y,W,X), di (Y,X), d (Y,N), normals (Y,G,N))
   -> (k (Y,N,N), u (Y,N,G), tri (Y,G,G), schur (X,X)), N = T + W; all with a batch in front. */
XLA_FFI_Error *jaxpriv_rows_factor(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  XLA_FFI_Buffer **in = (XLA_FFI_Buffer **)frame->args.args, **out = (XLA_FFI_Buffer **)frame->rets.rets;
  long sizes[LETTERS];
  if (!shaped(frame, XLA_FFI_DataType_F64, "TX YWX YX YN YGN | YNN YNG YGG XX", sizes) ||
      SIZE(sizes, 'N') != SIZE(sizes, 'T') + SIZE(sizes, 'W'))
    return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "rows_factor: arrays of float64 of other shapes");
  const long batch = leading(in[2], 2), outputs = SIZE(sizes, 'Y'), inputs = SIZE(sizes, 'X');
  const long shared = SIZE(sizes, 'T'), extra = SIZE(sizes, 'W'), rows = shared + extra, normals = SIZE(sizes, 'G');
  const long x = width_of(inputs), area = x * x;
  const long chunks = inputs < WIDE ? pieces(batch, outputs, rows, area) : 1;

  Factors *problems = malloc(batch * sizeof(Factors));
  double *partial = allocate(inputs < WIDE ? batch * chunks * area : area);
  if (!problems || !partial) {
    free(problems), free(partial);
    return no_memory(frame);
  }
  double *k = out[0]->data, *u = out[1]->data, *tri = out[2]->data;
  for (long b = 0; b < batch; b++)
    problems[b] = (Factors){shared, extra, normals, inputs, outputs,
                            numbers(in[0]) + b * shared * inputs,
                            numbers(in[1]) + b * outputs * extra * inputs,
                            numbers(in[2]) + b * outputs * inputs,
                            numbers(in[3]) + b * outputs * rows,
                            numbers(in[4]) + b * outputs * normals * rows,
                            k + b * outputs * rows * rows, u + b * outputs * rows * normals,
                            tri + b * outputs * normals * normals, NULL, 0, 0};
  Shared context = {problems, outputs, chunks, area, partial};
  const Factors shape = {.shared = shared, .extra = extra, .normals = normals, .inputs = inputs};
  long size;
  lay_out(NULL, &shape, &size); /* not of problems[0]: a batch may be empty */
  int good = inputs >= WIDE || share(frame, run_factors, &context, batch * chunks, size, 0);
  for (long b = 0; good && b < batch; b++) {
    good = inputs < WIDE || factor_wide(frame, problems + b, partial, size);
    if (good) schur_of(problems + b, inputs < WIDE ? total_of(&context, b) : partial, x, (double *)out[3]->data + b * inputs * inputs);
  }
  free(problems), free(partial);
  return good ? NULL : no_memory(frame);
}

/* (k (Y,N,N), u (Y,N,G), tri (Y,G,G), schur (X,X), a (T,X), extra (Y,W,X), di (Y,X),
    rho (M,Y,X), link (M,Y,N), level (M,Y,G), rest (M,X)) -> (kappa (M,Y,N), e (M,X)); all with a batch. */
XLA_FFI_Error *jaxpriv_rows_solve(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  XLA_FFI_Buffer **in = (XLA_FFI_Buffer **)frame->args.args, **out = (XLA_FFI_Buffer **)frame->rets.rets;
  long sizes[LETTERS];
  if (!shaped(frame, XLA_FFI_DataType_F64, "YNN YNG YGG XX TX YWX YX MYX MYN MYG MX | MYN MX", sizes) ||
      SIZE(sizes, 'N') != SIZE(sizes, 'T') + SIZE(sizes, 'W'))
    return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "rows_solve: arrays of float64 of other shapes");
  const long batch = leading(in[10], 2), sides = SIZE(sizes, 'M'), inputs = SIZE(sizes, 'X');
  const long outputs = SIZE(sizes, 'Y'), rows = SIZE(sizes, 'N'), normals = SIZE(sizes, 'G');
  const long shared = SIZE(sizes, 'T'), extra = SIZE(sizes, 'W');
  const long area = sides * inputs, chunks = pieces(batch, outputs, rows, area);

  Solve *problems = malloc(batch * sizeof(Solve));
  double *partial = allocate(batch * chunks * area + inputs);
  if (!problems || !partial) {
    free(problems), free(partial);
    return no_memory(frame);
  }
  double *kappa = out[0]->data, *e = out[1]->data;
  for (long b = 0; b < batch; b++)
    problems[b] = (Solve){sides, shared, extra, normals, inputs, outputs,
                          numbers(in[4]) + b * shared * inputs,
                          numbers(in[5]) + b * outputs * extra * inputs,
                          numbers(in[6]) + b * outputs * inputs,
                          numbers(in[0]) + b * outputs * rows * rows,
                          numbers(in[1]) + b * outputs * rows * normals,
                          numbers(in[2]) + b * outputs * normals * normals,
                          numbers(in[3]) + b * inputs * inputs,
                          numbers(in[7]) + b * sides * outputs * inputs,
                          numbers(in[8]) + b * sides * outputs * rows,
                          numbers(in[9]) + b * sides * outputs * normals,
                          numbers(in[10]) + b * sides * inputs,
                          kappa + b * sides * outputs * rows, e + b * sides * inputs};
  Shared context = {problems, outputs, chunks, area, partial};
  const int alone = batch * outputs * rows * (rows + inputs) < WORTH_A_THREAD;
  const long vectors = sides * (2 * rows + inputs);
  int good = share(frame, run_forward, &context, batch * chunks, vectors + normals, alone);

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
  good = good && share(frame, run_backward, &context, batch * chunks, vectors, alone);
  free(problems), free(partial);
  return good ? NULL : no_memory(frame);
}
