/* Newton systems by matrices of the order of the rows, on CPU, in double precision.

   For every output y, with A_y = [a; extra_y] (N, X), diagonals di_y, d_y >= 0, and G normals n_y:

       G_y = A_y diag(di_y) A_y' + diag(d_y) = (K_y'K_y)^-1,   K_y lower triangular,
       R_y = K_y A_y diag(di_y),   K_y n_y = u_y tri_y   (orthonormal columns, upper triangular),
       schur = sum_y [ diag(di_y) - R_y'(1 - u_y u_y') R_y ],

   and then the solutions for given right-hand sides, by the factors of R_y, which is not kept. `jaxpriv.solvers._newton_system` says what they are
   for and has the same in JAX, for every device; a matrix of a few dozen rows is too small for the batched
   kernels of XLA, which work at a tenth of the speed of the machine there. */

#include "systems.h"
#include "panels.h"

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
  union { /* arrays of one problem, in the order of the call */
    struct {
      double *a, *lines, *di, *d, *n, *k, *u, *tri, *schur;
    };
    double *arrays[9];
  };
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
  union { /* arrays of one problem, in the order of the call */
    struct {
      double *k, *u, *tri, *schur, *a, *lines, *di, *rho, *link, *level, *row, *kappa, *e;
    };
    double *arrays[13];
  };
} Solve;

/* ---- sums of squares larger than the caches -------------------------------------------------------- */

/* R comes in blocks of `deep` rows, packed: its columns in strips of STRIP, each strip with its rows one after another, so
   that what a product reads is contiguous. A block of the matrix that fits into a core's cache is brought up to date with
   all rows before the next block is read: the matrix is read and written once for `deep` rows. */

#define STRIP (VECTORS * LANES) /* columns of a product */

/* `rows` rows of R (x columns, x a multiple of 16) to rows `at`, ... of the packed block. */
INLINE void pack(long rows, long x, const double *r, double *packed, long deep, long at) {
  for (long j = 0; j < x; j += STRIP)
    for (long t = 0; t < rows; t++)
      for (int v = 0; v < VECTORS; v++)
        ((Vector *)(packed + j * deep + (at + t) * STRIP))[v] = ((const Vector *)(r + t * x + j))[v];
}

/* Rows [i0, i1) and columns [j0, j1) of the matrix (x, x) += R'R for a packed block of `rows` rows, where they are on or
   below the diagonal; all bounds are multiples of 16. */
static void add_block(long rows, long x, const double *packed, long deep, long i0, long i1, long j0, long j1,
                      double *sum) {
  for (long from = 0; from < rows; from += AT_A_TIME) {
    const long depth = from + AT_A_TIME < rows ? AT_A_TIME : rows - from;
    for (long j = j0; j < j1; j += STRIP)
      for (long i = i0 > j ? i0 : j; i < i1; i += ROWS)
        tile(depth, packed + i / STRIP * STRIP * deep + from * STRIP + i % STRIP, 1, STRIP,
             packed + j * deep + from * STRIP, STRIP, sum + i * x + j, x, 1, 1.0, ROWS, VECTORS);
  }
}

/* ---- of every output ----------------------------------------------------------------------------- */

/* B <- (1 - uu') B for B (n, width); `seen` is working memory. */
INLINE void deflate(long count, const double *basis, long stride, long n, double *b, long width, double *seen) {
  for (long g = 0; g < count; g++) {
    const double *u = basis + g * stride;
    memset(seen, 0, width * sizeof(double));
    for (long t = 0; t < n; t++) add_multiple(seen, u[t], b + t * width, width);
    for (long t = 0; t < n; t++) add_multiple(b + t * width, -u[t], seen, width);
  }
}

/* Outputs from <= y < to; their sum of R'(1 - uu')R (lower blocks, padded) is added to `sum`, or (1 - uu')R is packed. */
APART void factors(const Factors *c, Space s, long from, long to, double *sum) {
  const long rows_in = c->shared + c->extra, n = padded(rows_in), x = width_of(c->inputs), inputs = c->inputs;
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
      product(m, n - j, inputs, s.bt + i, 1, n, s.at + j, n, s.g + i * n + j, n, 0, 1.0);
    }
    for (long t = 0; t < rows_in; t++) s.scale[t] = s.g[t * n + t] += d[t];
    for (long t = rows_in; t < n; t++) s.g[t * n + t] = 1.0;
    const int factored = factor(n, s.g, s.scale, s.k, s.l, s.p);
    for (long g = 0; g < c->normals; g++) {
      const double *normal = c->n + (y * c->normals + g) * rows_in;
      for (long t = 0; t < rows_in; t++) s.basis[g * n + t] = dot(s.k + t * n, normal, t + 1);
    }
    orthonormal(c->normals, rows_in, s.basis, n, c->u + y * rows_in * c->normals, c->tri + y * c->normals * c->normals);
    double *r = s.r + held * x; /* padding rows reach into the next output's place, which comes later */
    for (long i = 0, m; i < rows_in; i += m) {
      m = at_once(i, rows_in);
      product(m, x, i + m, s.k + i * n, n, 1, s.b, x, r + i * x, x, 0, 1.0);
    }
    for (long t = 0; t < rows_in; t++)
      memcpy(c->k + (y * rows_in + t) * rows_in, s.k + t * n, rows_in * sizeof(double));
    if (!factored) memset(s.k, 0, n * n * sizeof(double));
    deflate(c->normals, s.basis, n, rows_in, r, x, s.basis + c->normals * n);
    if (c->packed) {
      pack(rows_in, x, r, c->packed, c->deep, (y - c->first) * rows_in);
      continue;
    }
    held += rows_in;
    if (held < group * rows_in && y + 1 < to) continue;
    for (long i = 0; i < x; i += PANEL)
      product(PANEL, i + PANEL, held, s.r + i, 1, x, s.r, x, sum + i * x, x, 1, 1.0);
    held = 0;
  }
}

/* ---- solutions ----------------------------------------------------------------------------------- */

/* seen += A_y diag(di_y) v_y for every side; the vectors of v (M, X) are weighted in their place. */
INLINE void weighted_rows(const Solve *c, long y, double *v, double *seen, long apart) {
  const double *di = c->di + y * c->inputs, *lines = c->lines + y * c->extra * c->inputs;
  for (long m = 0; m < c->sides; m++)
    for (long i = 0; i < c->inputs; i++) v[m * c->inputs + i] *= di[i];
  add_product(c->sides, c->shared, c->inputs, c->a, v, c->inputs, seen, apart, 0);
  for (long m = 0; m < c->sides; m++)
    for (long w = 0; w < c->extra; w++)
      seen[m * apart + c->shared + w] += dot(lines + w * c->inputs, v + m * c->inputs, c->inputs);
}

/* a = (1 - uu')(R rho + K link) + u tri'^-1 level, kept in kappa; R'a is added to sum (M, X). */
APART void forward(const Solve *c, long from, long to, double *sum, double *memory) {
  const long rows = c->shared + c->extra, inputs = c->inputs, apart = c->outputs * rows;
  double *seen = memory, *v = seen + c->sides * rows, *wanted = v + c->sides * inputs;
  for (long y = from; y < to; y++) {
    const double *k = c->k + y * rows * rows, *di = c->di + y * inputs;
    const double *u = c->u + y * rows * c->normals, *tri = c->tri + y * c->normals * c->normals;
    double *a = c->kappa + y * rows;
    for (long m = 0; m < c->sides; m++) {
      memcpy(v + m * inputs, c->rho + (m * c->outputs + y) * inputs, inputs * sizeof(double));
      memcpy(seen + m * rows, c->link + (m * c->outputs + y) * rows, rows * sizeof(double));
      memset(a + m * apart, 0, rows * sizeof(double));
    }
    weighted_rows(c, y, v, seen, rows);
    add_product(c->sides, rows, rows, k, seen, rows, a, apart, 1);
    for (long m = 0; m < c->sides; m++) {
      coordinates(c->normals, tri, c->level + (m * c->outputs + y) * c->normals, wanted);
      set_level(c->normals, rows, u, a + m * apart, wanted);
    }
    memset(seen, 0, c->sides * (rows + inputs) * sizeof(double)); /* and v */
    add_transposed(c->sides, rows, rows, k, a, apart, seen, rows, 1);
    add_transposed(c->sides, c->shared, inputs, c->a, seen, rows, v, inputs, 0);
    for (long m = 0; m < c->sides; m++) {
      for (long w = 0; w < c->extra; w++)
        add_multiple(v + m * inputs, seen[m * rows + c->shared + w], c->lines + (y * c->extra + w) * inputs, inputs);
      for (long i = 0; i < inputs; i++) sum[m * inputs + i] += di[i] * v[m * inputs + i];
    }
  }
}

/* kappa = K'( a + (1 - uu') R e ). */
APART void backward(const Solve *c, long from, long to, double *memory) {
  const long rows = c->shared + c->extra, inputs = c->inputs, apart = c->outputs * rows;
  double *seen = memory, *moved = seen + c->sides * rows, *v = moved + c->sides * rows;
  for (long y = from; y < to; y++) {
    const double *k = c->k + y * rows * rows;
    double *kappa = c->kappa + y * rows;
    memset(seen, 0, 2 * c->sides * rows * sizeof(double)); /* and moved */
    memcpy(v, c->e, c->sides * inputs * sizeof(double));
    weighted_rows(c, y, v, seen, rows);
    add_product(c->sides, rows, rows, k, seen, rows, moved, rows, 1);
    for (long m = 0; m < c->sides; m++) {
      double *own = moved + m * rows;
      set_level(c->normals, rows, c->u + y * rows * c->normals, own, NULL);
      for (long t = 0; t < rows; t++) own[t] += kappa[m * apart + t];
      memset(kappa + m * apart, 0, rows * sizeof(double));
    }
    add_transposed(c->sides, rows, rows, k, moved, rows, kappa, apart, 1);
  }
}

/* ---- tasks -------------------------------------------------------------------------------------- */

/* sum_y diag(di_y) minus the sum, of which the lower blocks are given. */
static void schur_of(const Factors *c, const double *sum) {
  const long x = width_of(c->inputs);
  double *schur = c->schur;
  for (long i = 0; i < c->inputs; i++) {
    double total = 0.0;
    for (long y = 0; y < c->outputs; y++) total += c->di[y * c->inputs + i];
    for (long j = 0; j < i; j++) schur[i * c->inputs + j] = schur[j * c->inputs + i] = -sum[i * x + j];
    schur[i * c->inputs + i] = total - sum[i * x + i];
  }
}

#include "systems_body.h"

/* ---- Schur complements larger than the caches ---------------------------------------------------- */

typedef struct {
  Factors *problem;
  long to, tasks, rows, x, across; /* outputs before `to`; rows that are packed; blocks beside each other */
  double *sum;
} Wide;

static void run_wide_factors(void *context, double *memory, long task) {
  const Wide *w = context;
  const long first = w->problem->first, count = w->to - first;
  long size;
  factors(w->problem, lay_out(memory, w->problem, &size), first + task * count / w->tasks,
          first + (task + 1) * count / w->tasks, NULL);
}

static void run_block(void *context, double *memory, long task) {
  const Wide *w = context;
  const long i = task / w->across * TALL, j = task % w->across * BROAD, below = i + TALL, right = j + BROAD;
  (void)memory;
  if (j < below)
    add_block(w->rows, w->x, w->problem->packed, w->problem->deep, i, below < w->x ? below : w->x, j,
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

/* Problems with so many inputs one after the other. */
static XLA_FFI_Error *factored_wide(const Call *call) {
  const long x = width_of(SIZE('X'));
  double *sum = allocate(x * x);
  int good = sum != NULL;
  for (long b = 0; good && b < call->batch; b++) {
    Factors c = factors_of(call, b);
    long size;
    lay_out(NULL, &c, &size);
    good = factor_wide(call->frame, &c, sum, size);
    if (good) schur_of(&c, sum);
  }
  free(sum);
  return good ? NULL : no_memory(call->frame);
}

/* ---- the interface to XLA --------------------------------------------------------------------------- */

/* (a (T,X), extra (Y,W,X), di (Y,X), d (Y,N), normals (Y,G,N))
   -> (k (Y,N,N), u (Y,N,G), tri (Y,G,G), schur (X,X)), N = T + W; all with a batch in front. */
XLA_FFI_Error *NAME(jaxpriv_rows_factor)(XLA_FFI_CallFrame *frame) {
  Call call[1];
  if (!of_systems(frame, "TX YWX YX YN YGN | YNN YNG YGG XX", call)) return misshapen(frame);
  if (SIZE('X') >= WIDE) return factored_wide(call);
  return factored(call, SIZE('N'), width_of(SIZE('X')) * width_of(SIZE('X')));
}

/* (k (Y,N,N), u (Y,N,G), tri (Y,G,G), schur (X,X), a (T,X), extra (Y,W,X), di (Y,X),
    rho (M,Y,X), link (M,Y,N), level (M,Y,G), row (M,X)) -> (kappa (M,Y,N), e (M,X)); all with a batch. */
XLA_FFI_Error *NAME(jaxpriv_rows_solve)(XLA_FFI_CallFrame *frame) {
  Call call[1];
  if (!of_systems(frame, "YNN YNG YGG XX TX YWX YX MYX MYN MYG MX | MYN MX", call)) return misshapen(frame);
  return solutions(call, SIZE('N'));
}
