/* The dense part of one Newton step of the interior-point methods, on CPU, in double precision.

   For every output y, with A_y = [a; extra_y] (N, X), positive diagonals di_y and d_y, and G normals n_y:

       G_y = A_y diag(di_y) A_y' + diag(d_y) = (K_y'K_y)^-1,   K_y lower triangular,
       R_y = K_y A_y diag(di_y),   K_y n_y = u_y tri_y   (orthonormal columns, upper triangular),
       schur = sum_y [ diag(di_y) - R_y'(1 - u_y u_y') R_y ],

   and then the solutions for given right-hand sides. `jaxpriv.solvers._row_system` says what they are
   for and has the same in JAX, for every device; a matrix of a few dozen rows is too small for the batched
   kernels of XLA, which work at a tenth of the speed of the machine there. What costs is a product of
   panels with its sums in registers. Dimensions are padded (zeros, and ones on the diagonal), so that no
   such loop has a remainder.

   Outputs are cut into chunks by the shapes alone and their sums are added in a fixed order: the result
   does not depend on the number of threads. Threads come from XLA's own pool. The caller works too and
   never waits for a thread that has not begun, so that a busy pool cannot lock it up. */

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

#define INLINE static inline __attribute__((always_inline))
#define PANEL 8                /* rows that are factored at once */
#define PAD 8                  /* dimensions are padded to this */
#define FEW 3                  /* fewer last rows than this are factored one by one */
#define GROUP_ROWS 64          /* rows of R that are collected before their sum of squares */
#define MOST_CHUNKS 32         /* outputs are shared out in at most so many pieces */
#define CHUNK_ROWS 256         /* a piece has about so many rows of R: adding its sum up should cost little beside it */
#define PARTIAL_BYTES (64l << 20) /* what the pieces' sums may take */

typedef double Vector __attribute__((vector_size(64)));
typedef double Loose __attribute__((vector_size(64), aligned(8))); /* at any address */
typedef long long Places __attribute__((vector_size(64)));

static long padded(long n) { return (n + PAD - 1) / PAD * PAD; }
static long at_once(long i, long rows) { return rows - i < FEW ? 1 : PANEL; } /* rows, from row i on */
static long group_of(long rows) { return rows > 0 && rows < GROUP_ROWS ? GROUP_ROWS / rows : 1; }

/* ---- panels -------------------------------------------------------------------------------------- */

/* c (rows, 8 vectors) = sign a b, or c += sign a b; a has strides (ars, acs), b and c are rows. */
INLINE void tile(long depth, const double *a, long ars, long acs, const double *b, long ldb, double *c, long ldc,
                 int add, double sign, const int rows, const int vectors) {
  Vector sum[8][2];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) sum[r][v] = (Vector){0};
  for (long k = 0; k < depth; k++, a += acs, b += ldb) {
    Vector row[2];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) row[v] = *(const Vector *)(b + 8 * v);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) sum[r][v] += a[r * ars] * row[v];
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      Vector *out = (Vector *)(c + r * ldc + 8 * v);
      *out = add ? *out + sign * sum[r][v] : sign * sum[r][v];
    }
}

/* The same for c (m, n): m is PANEL or 1, n a multiple of 8. */
INLINE void product(long m, long n, long depth, const double *a, long ars, long acs, const double *b, long ldb,
                    double *c, long ldc, int add, double sign, const int rows, const int vectors) {
  if (m == 1) {
    for (long j = 0; j < n; j += 8) tile(depth, a, ars, acs, b + j, ldb, c + j, ldc, add, sign, 1, 1);
    return;
  }
  for (long i = 0; i < m; i += rows) {
    long j = 0;
    for (; j + 8 * vectors <= n; j += 8 * vectors)
      tile(depth, a + i * ars, ars, acs, b + j, ldb, c + i * ldc + j, ldc, add, sign, rows, vectors);
    if (j < n) tile(depth, a + i * ars, ars, acs, b + j, ldb, c + i * ldc + j, ldc, add, sign, rows, 1);
  }
}

/* Inverse Cholesky factor of a matrix of order n <= PANEL (lower triangle of s), row by row into k. 0: not positive. */
INLINE int small_inverse_factor(long n, const double s[PANEL][PANEL], double k[PANEL][PANEL]) {
  double l[PANEL][PANEL], inverse[PANEL];
  for (int j = 0; j < n; j++) {
    double pivot = s[j][j];
    for (int p = 0; p < j; p++) pivot -= l[j][p] * l[j][p];
    if (!(pivot > 0.0) || !isfinite(pivot)) return 0;
    inverse[j] = 1.0 / sqrt(pivot);
    for (int i = j + 1; i < n; i++) {
      double sum = s[i][j];
      for (int p = 0; p < j; p++) sum -= l[i][p] * l[j][p];
      l[i][j] = sum * inverse[j];
    }
  }
  memset(k, 0, PANEL * PANEL * sizeof(double));
  for (int i = 0; i < n; i++) {
    k[i][i] = inverse[i];
    for (int j = 0; j < i; j++) {
      double sum = 0.0;
      for (int p = j; p < i; p++) sum += l[i][p] * k[p][j];
      k[i][j] = -sum * inverse[i];
    }
  }
  return 1;
}

/* K with (g + shift diag(scale))^-1 = K'K of order `size`; g is (n, n) padded, its lower triangle is read. `kt` is K'.
   Where a block is wider than the triangle the other half of both is read: zeros on entry, and left so. */
INLINE int factor_once(long size, long n, const double *g, double shift, const double *scale, double *k, double *kt,
                       double *l, double *p, const int rows, const int vectors) {
  const long step = 8 * vectors;
  for (long i = 0, m; i < size; i += m) {
    m = at_once(i, size);
    const long wide = padded(i);
    /* L = G K' of the rows before, block by block of columns: K' is upper triangular. */
    for (long j = 0; j < wide; j += step) {
      const long width = j + step < wide ? step : wide - j, depth = j + step < i ? j + step : i;
      product(m, width, depth, g + i * n, n, 1, kt + j, n, l + j, n, 0, 1.0, rows, vectors);
    }
    double s[PANEL][PANEL], block[PANEL][PANEL];
    for (long r = 0; r < m; r++) {
      for (long j = i; j < wide; j++) l[r * n + j] = 0.0; /* columns of K' that are yet to come */
      for (long c = 0; c <= r; c++) {
        Vector sum = {0};
        for (long j = 0; j < i; j += 8) sum += *(const Vector *)(l + r * n + j) * *(const Vector *)(l + c * n + j);
        double total = 0.0;
        for (int v = 0; v < 8; v++) total += sum[v];
        s[r][c] = g[(i + r) * n + i + c] + (r == c ? shift * scale[i + r] : 0.0) - total;
      }
    }
    if (!small_inverse_factor(m, s, block)) return 0;
    /* The rest of the rows: - block (L K). */
    for (long j = 0; j < wide; j += step) {
      const long width = j + step < wide ? step : wide - j;
      product(m, width, i - j, l + j, n, 1, k + j * n + j, n, p + j, n, 0, 1.0, rows, vectors);
    }
    product(m, wide, m, &block[0][0], PANEL, 1, p, n, k + i * n, n, 0, -1.0, rows, vectors);
    for (long r = 0; r < m; r++) {
      for (long c = 0; c < m; c++) k[(i + r) * n + i + c] = block[r][c];
      for (long j = i + m; j < wide; j++) k[(i + r) * n + j] = 0.0;
      for (long j = 0; j < i + m; j++) kt[j * n + i + r] = k[(i + r) * n + j];
    }
  }
  return 1;
}

/* The same with the least shift of 0, 1e-14, 1e-12, ..., 1e-2 that works; where none does k is all NaN: not 0, then. */
INLINE int factor(long size, long n, const double *g, const double *scale, double *k, double *kt, double *l, double *p,
                  const int rows, const int vectors) {
  for (double shift = 0.0; shift < 0.1; shift = shift > 0.0 ? shift * 100.0 : 1e-14)
    if (factor_once(size, n, g, shift, scale, k, kt, l, p, rows, vectors)) return 1;
  for (long i = 0; i < n * n; i++) k[i] = NAN;
  return 0;
}

/* ---- the systems of the outputs ------------------------------------------------------------------ */

INLINE double dot(const double *a, const double *b, long n) {
  Vector even = {0}, odd = {0};
  long i = 0;
  for (; i + 16 <= n; i += 16) {
    even += *(const Loose *)(a + i) * *(const Loose *)(b + i);
    odd += *(const Loose *)(a + i + 8) * *(const Loose *)(b + i + 8);
  }
  even += odd;
  double sum = 0.0;
  for (int v = 0; v < 8; v++) sum += even[v];
  for (; i < n; i++) sum += a[i] * b[i];
  return sum;
}

INLINE void add_multiple(double *a, double factor, const double *b, long n) {
  for (long i = 0; i < n; i++) a[i] += factor * b[i];
}

typedef struct {
  long shared, extra, normals, inputs, outputs; /* rows of a, rows of extra, G, X, Y */
  const double *a, *lines, *di, *d, *n;         /* of one problem of the batch */
  double *k, *r, *u, *tri;
} Columns;

typedef struct {
  double *at, *bt, *g, *k, *kt, *l, *p, *b, *r, *scale, *basis;
} Space;

static Space lay_out(double *memory, const Columns *c, long *size) {
  const long n = padded(c->shared + c->extra), x = padded(c->inputs);
  Space s;
  s.at = memory, s.bt = s.at + x * n, s.g = s.bt + x * n, s.k = s.g + n * n, s.kt = s.k + n * n;
  s.l = s.kt + n * n, s.p = s.l + PANEL * n, s.b = s.p + PANEL * n, s.r = s.b + n * x;
  s.scale = s.r + (n + GROUP_ROWS) * x, s.basis = s.scale + padded(n);
  *size = s.basis + padded(c->normals * (n + x)) - memory;
  return s;
}

/* K n = u tri by Gram-Schmidt; `basis` holds u', one vector after another, then R'u. */
INLINE void orthonormal(const Columns *c, long y, const double *k, long n, double *basis) {
  const long rows_in = c->shared + c->extra, count = c->normals;
  double *tri = c->tri + y * count * count, *u = c->u + y * rows_in * count;
  memset(tri, 0, count * count * sizeof(double));
  for (long g = 0; g < count; g++) {
    const double *normal = c->n + (y * count + g) * rows_in;
    double *own = basis + g * n;
    for (long t = 0; t < rows_in; t++) own[t] = dot(k + t * n, normal, t + 1);
    for (long i = 0; i < g; i++) {
      const double part = dot(basis + i * n, own, rows_in);
      tri[i * count + g] = part;
      add_multiple(own, -part, basis + i * n, rows_in);
    }
    const double norm = sqrt(dot(own, own, rows_in));
    tri[g * count + g] = norm;
    for (long t = 0; t < rows_in; t++) u[t * count + g] = own[t] /= norm;
  }
}

/* Outputs from <= y < to; their sum of R'(1 - uu')R (lower blocks, padded) is added to `sum`. */
INLINE void columns(const Columns *c, Space s, long from, long to, double *sum, const int rows, const int vectors) {
  const long rows_in = c->shared + c->extra, n = padded(rows_in), x = padded(c->inputs), inputs = c->inputs;
  const long group = group_of(rows_in);
  long held = 0; /* rows of R not yet in `sum` */
  memset(s.at, 0, x * n * sizeof(double));
  for (long t = 0; t < c->shared; t++)
    for (long i = 0; i < inputs; i++) s.at[i * n + t] = c->a[t * inputs + i];
  memset(s.b, 0, n * x * sizeof(double));
  memset(s.k, 0, n * n * sizeof(double));
  memset(s.kt, 0, n * n * sizeof(double));
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
      product(m, padded(i + m), inputs, s.bt + i, 1, n, s.at, n, s.g + i * n, n, 0, 1.0, rows, vectors);
    }
    for (long t = 0; t < n; t++) {
      s.g[t * n + t] += t < rows_in ? d[t] : 1.0;
      s.scale[t] = t < rows_in ? s.g[t * n + t] : 0.0;
    }
    const int factored = factor(rows_in, n, s.g, s.scale, s.k, s.kt, s.l, s.p, rows, vectors);
    orthonormal(c, y, s.k, n, s.basis);
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
    for (long g = 0; g < c->normals; g++) { /* R <- (1 - uu') R */
      const double *u = s.basis + g * n;
      double *seen = s.basis + c->normals * n;
      memset(seen, 0, x * sizeof(double));
      for (long t = 0; t < rows_in; t++) add_multiple(seen, u[t], r + t * x, x);
      for (long t = 0; t < rows_in; t++) add_multiple(r + t * x, -u[t], seen, x);
    }
    held += rows_in;
    if (held < group * rows_in && y + 1 < to) continue;
    for (long i = 0; i < x; i += PANEL)
      product(PANEL, i + PANEL, held, s.r + i, 1, x, s.r, x, sum + i * x, x, 1, 1.0, rows, vectors);
    held = 0;
  }
}

/* ---- their solutions ----------------------------------------------------------------------------- */

typedef struct {
  long sides, rows, normals, inputs, outputs; /* right-hand sides M, N, G, X, Y */
  const double *k, *r, *u, *tri, *schur;      /* of one problem of the batch */
  const double *rho, *link, *level, *rest;
  double *kappa, *e;
} Solve;

/* The sums of eight vectors, as one. */
INLINE Vector sums_of(const Vector s[8]) {
  Vector pair[4], four[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
    pair[i] = __builtin_shuffle(s[2 * i], s[2 * i + 1], (Places){0, 8, 2, 10, 4, 12, 6, 14}) +
              __builtin_shuffle(s[2 * i], s[2 * i + 1], (Places){1, 9, 3, 11, 5, 13, 7, 15});
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++)
    four[i] = __builtin_shuffle(pair[2 * i], pair[2 * i + 1], (Places){0, 1, 8, 9, 4, 5, 12, 13}) +
              __builtin_shuffle(pair[2 * i], pair[2 * i + 1], (Places){2, 3, 10, 11, 6, 7, 14, 15});
  return __builtin_shuffle(four[0], four[1], (Places){0, 1, 2, 3, 8, 9, 10, 11}) +
         __builtin_shuffle(four[0], four[1], (Places){4, 5, 6, 7, 12, 13, 14, 15});
}

/* How far a block of eight rows from row i on reaches: `triangular` rows are zero beyond their diagonal. */
INLINE long reach(long i, long n, const int triangular) { return triangular && i + 8 < n ? i + 8 : n; }

/* out += A b for A (m, n). */
INLINE void add_product(long m, long n, const double *a, const double *b, double *out, const int triangular) {
  long i = 0;
  for (; i + 8 <= m; i += 8) {
    const long wide = reach(i, n, triangular);
    Vector s[8] = {0};
    long k = 0;
    for (; k + 8 <= wide; k += 8) {
      const Vector v = *(const Loose *)(b + k);
#pragma GCC unroll 8
      for (int r = 0; r < 8; r++) s[r] += *(const Loose *)(a + (i + r) * n + k) * v;
    }
    *(Loose *)(out + i) += sums_of(s);
    for (; k < wide; k++)
      for (int r = 0; r < 8; r++) out[i + r] += a[(i + r) * n + k] * b[k];
  }
  for (; i < m; i++) out[i] += dot(a + i * n, b, n);
}

/* out += A'c for A (m, n). */
INLINE void add_transposed(long m, long n, const double *a, const double *c, double *out, const int triangular) {
  long i = 0;
  for (; i + 8 <= m; i += 8) {
    const long wide = reach(i, n, triangular);
    long k = 0;
    for (; k + 8 <= wide; k += 8) {
      Vector even = *(Loose *)(out + k), odd = {0};
#pragma GCC unroll 4
      for (int r = 0; r < 8; r += 2) {
        even += c[i + r] * *(const Loose *)(a + (i + r) * n + k);
        odd += c[i + r + 1] * *(const Loose *)(a + (i + r + 1) * n + k);
      }
      *(Loose *)(out + k) = even + odd;
    }
    for (; k < wide; k++)
      for (int r = 0; r < 8; r++) out[k] += c[i + r] * a[(i + r) * n + k];
  }
  for (; i < m; i++) add_multiple(out, c[i], a + i * n, n);
}

/* a <- a - u (u'a - wanted); wanted NULL: none. */
INLINE void set_level(const Solve *c, const double *u, double *a, const double *wanted) {
  for (long g = 0; g < c->normals; g++) {
    double part = wanted ? -wanted[g] : 0.0;
    for (long t = 0; t < c->rows; t++) part += u[t * c->normals + g] * a[t];
    for (long t = 0; t < c->rows; t++) a[t] -= part * u[t * c->normals + g];
  }
}

/* a = (1 - uu')(R rho + K link) + u tri'^-1 level, kept in kappa; R'a is added to sum (M, X). */
INLINE void forward(const Solve *c, long from, long to, double *sum, double *wanted) {
  for (long y = from; y < to; y++) {
    const double *k = c->k + y * c->rows * c->rows, *r = c->r + y * c->rows * c->inputs;
    const double *u = c->u + y * c->rows * c->normals, *tri = c->tri + y * c->normals * c->normals;
    for (long m = 0; m < c->sides; m++) {
      const long at = m * c->outputs + y;
      const double *level = c->level + at * c->normals;
      double *a = c->kappa + at * c->rows;
      memset(a, 0, c->rows * sizeof(double));
      add_product(c->rows, c->inputs, r, c->rho + at * c->inputs, a, 0);
      add_product(c->rows, c->rows, k, c->link + at * c->rows, a, 1);
      for (long g = 0; g < c->normals; g++) {
        wanted[g] = level[g];
        for (long i = 0; i < g; i++) wanted[g] -= tri[i * c->normals + g] * wanted[i];
        wanted[g] /= tri[g * c->normals + g];
      }
      set_level(c, u, a, wanted);
      add_transposed(c->rows, c->inputs, r, a, sum + m * c->inputs, 0);
    }
  }
}

/* kappa = K'( a + (1 - uu') R e ). */
INLINE void backward(const Solve *c, long from, long to, double *moved) {
  for (long y = from; y < to; y++) {
    const double *k = c->k + y * c->rows * c->rows, *r = c->r + y * c->rows * c->inputs;
    for (long m = 0; m < c->sides; m++) {
      double *kappa = c->kappa + (m * c->outputs + y) * c->rows;
      memset(moved, 0, c->rows * sizeof(double));
      add_product(c->rows, c->inputs, r, c->e + m * c->inputs, moved, 0);
      set_level(c, c->u + y * c->rows * c->normals, moved, NULL);
      for (long t = 0; t < c->rows; t++) moved[t] += kappa[t];
      memset(kappa, 0, c->rows * sizeof(double));
      add_transposed(c->rows, c->rows, k, moved, kappa, 1);
    }
  }
}

/* ---- one body, compiled for the instruction sets ------------------------------------------------- */

typedef void ColumnsOf(const Columns *, Space, long, long, double *);
typedef int FactorOf(long, long, const double *, const double *, double *, double *, double *, double *);
typedef void ForwardOf(const Solve *, long, long, double *, double *);
typedef void BackwardOf(const Solve *, long, long, double *);

#define FOR_TARGET(name, attribute, rows, vectors)                                                          \
  attribute static void columns_##name(const Columns *c, Space s, long from, long to, double *sum) {        \
    columns(c, s, from, to, sum, rows, vectors);                                                            \
  }                                                                                                         \
  attribute static int factor_##name(long size, long n, const double *g, const double *scale, double *k,    \
                                     double *kt, double *l, double *p) {                                    \
    return factor(size, n, g, scale, k, kt, l, p, rows, vectors);                                           \
  }                                                                                                         \
  attribute static void forward_##name(const Solve *c, long from, long to, double *sum, double *wanted) {   \
    forward(c, from, to, sum, wanted);                                                                      \
  }                                                                                                         \
  attribute static void backward_##name(const Solve *c, long from, long to, double *moved) {                \
    backward(c, from, to, moved);                                                                           \
  }

FOR_TARGET(plain, , 4, 1)
#if defined(__x86_64__)
FOR_TARGET(avx2, __attribute__((target("avx2,fma"))), 4, 1)
FOR_TARGET(avx512, __attribute__((target("avx512f,fma"))), 8, 2)
#define PICK(function)                                                       \
  (__builtin_cpu_supports("avx512f")                                         \
       ? function##_avx512                                                   \
       : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? function##_avx2 : function##_plain)
#else
#define PICK(function) function##_plain
#endif

static const char name_plain[] = "baseline";
#if defined(__x86_64__)
static const char name_avx2[] = "AVX2", name_avx512[] = "AVX-512";
#endif

/* What Python asks before it hands the kernels to XLA. */
const char *jaxpriv_compiled_for(void) { return JAXLIB_VERSION; }
const char *jaxpriv_compiled_from(void) { return SOURCE_DIGEST; }
const char *jaxpriv_instructions(void) { return PICK(name); }

/* ---- sharing the work ---------------------------------------------------------------------------- */

typedef void Task(void *context, double *memory, long number);

typedef struct {
  Task *run;
  void *context;
  long tasks, doubles; /* doubles: working memory of a thread */
  atomic_long next, done, users, failed;
} Job;

static void leave(Job *job) {
  if (atomic_fetch_sub(&job->users, 1) == 1) free(job);
}

static double *allocate(long doubles) {
  return aligned_alloc(64, (doubles * sizeof(double) + 64) / 64 * 64);
}

static void work(Job *job) {
  double *memory = NULL;
  for (;;) {
    const long task = atomic_fetch_add(&job->next, 1);
    if (task >= job->tasks) break;
    if (!memory) memory = allocate(job->doubles);
    if (memory)
      job->run(job->context, memory, task);
    else
      atomic_store(&job->failed, 1);
    atomic_fetch_add(&job->done, 1);
  }
  free(memory);
}

static void help(void *data) {
  work(data);
  leave(data);
}

/* Whether there was an error; it is ours to free. */
static int refused(XLA_FFI_CallFrame *frame, XLA_FFI_Error *error) {
  if (!error) return 0;
  XLA_FFI_Error_Destroy_Args args = {XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, NULL, error};
  frame->api->XLA_FFI_Error_Destroy(&args);
  return 1;
}

/* Run tasks 0, ..., tasks - 1; 0 if there was no memory. Helpers that come late find nothing to do. */
static int share(XLA_FFI_CallFrame *frame, Task *run, void *context, long tasks, long doubles, int alone) {
  Job *job = malloc(sizeof(Job));
  if (!job) return 0;
  job->run = run, job->context = context, job->tasks = tasks, job->doubles = doubles;
  atomic_init(&job->next, 0), atomic_init(&job->done, 0), atomic_init(&job->users, 1), atomic_init(&job->failed, 0);
  int64_t threads = 1; /* also where there is no pool */
  XLA_FFI_ThreadPool_NumThreads_Args count = {XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, NULL, frame->ctx, &threads};
  if (alone || refused(frame, frame->api->XLA_FFI_ThreadPool_NumThreads(&count))) threads = 1;
  for (long helper = 1; helper < threads && helper < tasks; helper++) {
    atomic_fetch_add(&job->users, 1);
    XLA_FFI_ThreadPool_Schedule_Args ask = {XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, NULL, frame->ctx, help, job};
    if (refused(frame, frame->api->XLA_FFI_ThreadPool_Schedule(&ask))) {
      leave(job);
      break;
    }
  }
  work(job);
  while (atomic_load(&job->done) < tasks) sched_yield(); /* what others have begun */
  const int good = !atomic_load(&job->failed);
  leave(job);
  return good;
}

/* How many pieces the outputs are cut into: by shapes alone. */
static long pieces(long batch, long outputs, long rows, long area) {
  long chunks = PARTIAL_BYTES / (batch * (area + 1) * (long)sizeof(double) + 1);
  chunks = chunks > MOST_CHUNKS ? MOST_CHUNKS : chunks;
  chunks = chunks > outputs * rows / CHUNK_ROWS ? outputs * rows / CHUNK_ROWS : chunks;
  chunks = chunks > outputs ? outputs : chunks;
  return chunks < 1 ? 1 : chunks;
}

typedef struct {
  const void *problems; /* Columns or Solve, one for each problem of the batch */
  long outputs, chunks, area;
  double *partial; /* (batch, chunks, area) */
} Shared;

static void run_columns(void *context, double *memory, long task) {
  const Shared *shared = context;
  const Columns *c = (const Columns *)shared->problems + task / shared->chunks;
  const long chunk = task % shared->chunks;
  double *sum = shared->partial + task * shared->area;
  long size;
  memset(sum, 0, shared->area * sizeof(double));
  ColumnsOf *run = PICK(columns);
  run(c, lay_out(memory, c, &size), chunk * c->outputs / shared->chunks, (chunk + 1) * c->outputs / shared->chunks, sum);
}

static void run_forward(void *context, double *memory, long task) {
  const Shared *shared = context;
  const Solve *c = (const Solve *)shared->problems + task / shared->chunks;
  const long chunk = task % shared->chunks;
  double *sum = shared->partial + task * shared->area;
  memset(sum, 0, shared->area * sizeof(double));
  ForwardOf *run = PICK(forward);
  run(c, chunk * c->outputs / shared->chunks, (chunk + 1) * c->outputs / shared->chunks, sum, memory);
}

static void run_backward(void *context, double *memory, long task) {
  const Shared *shared = context;
  const Solve *c = (const Solve *)shared->problems + task / shared->chunks;
  const long chunk = task % shared->chunks;
  BackwardOf *run = PICK(backward);
  run(c, chunk * c->outputs / shared->chunks, (chunk + 1) * c->outputs / shared->chunks, memory);
}

/* ---- the border to XLA --------------------------------------------------------------------------- */

static XLA_FFI_Error *complain(XLA_FFI_CallFrame *frame, XLA_FFI_Error_Code code, const char *message) {
  XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, message, code};
  return frame->api->XLA_FFI_Error_Create(&args);
}

/* Whether XLA only asks which version of its interface this was compiled for; then it is told. */
static int asked_for_version(XLA_FFI_CallFrame *frame) {
  for (XLA_FFI_Extension_Base *e = frame->extension_start; e; e = e->next)
    if (e->type == XLA_FFI_Extension_Metadata) {
      XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)e)->metadata;
      metadata->api_version.major_version = XLA_FFI_API_MAJOR;
      metadata->api_version.minor_version = XLA_FFI_API_MINOR;
      return 1;
    }
  return 0;
}

/* The arguments, if there are as many and all are of doubles. */
static XLA_FFI_Buffer **arguments(XLA_FFI_CallFrame *frame, int64_t count) {
  XLA_FFI_Buffer **in = (XLA_FFI_Buffer **)frame->args.args;
  if (frame->args.size != count) return NULL;
  for (int64_t i = 0; i < count; i++)
    if (in[i]->dtype != XLA_FFI_DataType_F64) return NULL;
  return in;
}

static const double *numbers(const XLA_FFI_Buffer *b) { return b->data; }
static long size_of(const XLA_FFI_Buffer *b, int64_t from_last) { return b->dims[b->rank - from_last]; }

static long leading(const XLA_FFI_Buffer *b, int64_t inner) {
  long size = 1;
  for (int64_t i = 0; i < b->rank - inner; i++) size *= b->dims[i];
  return size;
}

static XLA_FFI_Error *no_memory(XLA_FFI_CallFrame *frame) {
  return complain(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "jaxpriv: no memory for the systems of the outputs");
}

/* (a (T,X), extra (Y,W,X), di (Y,X), d (Y,N), normals (Y,G,N))
   -> (k (Y,N,N), r (Y,N,X), u (Y,N,G), tri (Y,G,G), schur (X,X)), N = T + W; all with a batch in front. */
XLA_FFI_Error *jaxpriv_columns(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  XLA_FFI_Buffer **in = arguments(frame, 5), **out = (XLA_FFI_Buffer **)frame->rets.rets;
  if (!in) return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "columns: 5 arrays of float64");
  const long batch = leading(in[2], 2), outputs = size_of(in[2], 2), inputs = size_of(in[2], 1);
  const long shared = size_of(in[0], 2), extra = size_of(in[1], 2), rows = shared + extra, normals = size_of(in[4], 2);
  const long x = padded(inputs), area = x * x, chunks = pieces(batch, outputs, rows, area);

  Columns *problems = malloc(batch * sizeof(Columns));
  double *partial = allocate(batch * chunks * area);
  if (!problems || !partial) {
    free(problems), free(partial);
    return no_memory(frame);
  }
  double *k = out[0]->data, *r = out[1]->data, *u = out[2]->data, *tri = out[3]->data;
  for (long b = 0; b < batch; b++)
    problems[b] = (Columns){shared, extra, normals, inputs, outputs,
                            numbers(in[0]) + b * shared * inputs,
                            numbers(in[1]) + b * outputs * extra * inputs,
                            numbers(in[2]) + b * outputs * inputs,
                            numbers(in[3]) + b * outputs * rows,
                            numbers(in[4]) + b * outputs * normals * rows,
                            k + b * outputs * rows * rows, r + b * outputs * rows * inputs,
                            u + b * outputs * rows * normals, tri + b * outputs * normals * normals};
  Shared context = {problems, outputs, chunks, area, partial};
  const Columns shape = {.shared = shared, .extra = extra, .normals = normals, .inputs = inputs};
  long size;
  lay_out(NULL, &shape, &size); /* not of problems[0]: a batch may be empty */
  const int good = share(frame, run_columns, &context, batch * chunks, size, 0);

  for (long b = 0; good && b < batch; b++) {
    double *schur = (double *)out[4]->data + b * inputs * inputs, *sum = partial + b * chunks * area;
    for (long c = 1; c < chunks; c++) add_multiple(sum, 1.0, sum + c * area, area);
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
XLA_FFI_Error *jaxpriv_solve(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  XLA_FFI_Buffer **in = arguments(frame, 9), **out = (XLA_FFI_Buffer **)frame->rets.rets;
  if (!in) return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "solve: 9 arrays of float64");
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
  /* Waking a thread costs about as much as a hundred thousand numbers that are read twice. */
  const int alone = batch * outputs * rows * (rows + inputs) < 100000;
  int good = share(frame, run_forward, &context, batch * chunks, normals, alone);

  double *half = partial + batch * chunks * area; /* e = schur' schur ( rest + sum_y R'a ) */
  for (long b = 0; good && b < batch; b++) {
    const Solve *c = problems + b;
    double *sum = partial + b * chunks * area;
    for (long part = 1; part < chunks; part++) add_multiple(sum, 1.0, sum + part * area, area);
    add_multiple(sum, 1.0, c->rest, area);
    for (long m = 0; m < sides; m++) {
      for (long i = 0; i < inputs; i++) half[i] = dot(c->schur + i * inputs, sum + m * inputs, i + 1);
      memset(c->e + m * inputs, 0, inputs * sizeof(double));
      for (long i = 0; i < inputs; i++) add_multiple(c->e + m * inputs, half[i], c->schur + i * inputs, i + 1);
    }
  }
  good = good && share(frame, run_backward, &context, batch * chunks, rows, alone);
  free(problems), free(partial);
  return good ? NULL : no_memory(frame);
}

/* (g (..., n, n), scale (..., n)) -> k (..., n, n), one matrix after the other. */
XLA_FFI_Error *jaxpriv_inverse_factor(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  XLA_FFI_Buffer **in = arguments(frame, 2), **out = (XLA_FFI_Buffer **)frame->rets.rets;
  if (!in) return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "inverse_factor: 2 arrays of float64");
  const long size = size_of(in[0], 1), n = padded(size), batch = leading(in[0], 2);
  double *memory = allocate(3 * n * n + 2 * PANEL * n + n);
  if (!memory) return no_memory(frame);
  double *g = memory, *k = g + n * n, *kt = k + n * n, *l = kt + n * n, *p = l + PANEL * n, *scale = p + PANEL * n;
  FactorOf *run = PICK(factor);
  memset(memory, 0, 3 * n * n * sizeof(double));
  memset(scale, 0, n * sizeof(double));
  for (long i = size; i < n; i++) g[i * n + i] = 1.0;
  for (long b = 0; b < batch; b++) {
    const double *matrix = numbers(in[0]) + b * size * size;
    double *result = (double *)out[0]->data + b * size * size;
    for (long i = 0; i < size; i++) memcpy(g + i * n, matrix + i * size, size * sizeof(double));
    memcpy(scale, numbers(in[1]) + b * size, size * sizeof(double));
    const int factored = run(size, n, g, scale, k, kt, l, p);
    for (long i = 0; i < size; i++) memcpy(result + i * size, k + i * n, size * sizeof(double));
    if (!factored) memset(k, 0, n * n * sizeof(double));
  }
  free(memory);
  return NULL;
}
