/* Inverse Cholesky factors. */

#include "systems.h"
#include "panels.h"

#define LARGE 512          /* from this order on a matrix is factored by all threads */
#define STEP 128           /* rows of a large matrix that are factored at once: its triangle is read twice for them */
#define ACROSS (STEP + 8)  /* distance of rows of STEP numbers: see `spread` */
#define GROUP 64           /* rows, or columns, of a task */
#define DEPTH 256          /* rows of a product's right side that stay in the cache */

/* A large matrix at one of its steps. */
typedef struct {
  const double *matrix, *scale; /* (size, size) as it is given; (padded size) */
  double shift;
  long size, row, done, rows; /* order; distance of K's rows; rows of K that are known, and of the step */
  double *k;                  /* (padded size, row); zero above the diagonal */
  double *given, *left, *weights; /* (done, ACROSS): the step's columns of G, L', - (inverse L)' */
  double *corner, *inverse;       /* (rows, rows) */
  double *turned;                 /* (rows, ACROSS): the inverse transposed */
} Large;

/* ---- a large matrix, STEP rows at a time ------------------------------------------------------------ */

/* c (m, n) = sign a b as `product`, in pieces of the depth whose rows of b stay in the cache. */
INLINE void deep_product(long m, long n, long depth, const double *a, long ars, long acs, const double *b, long ldb,
                         double *c, long ldc, double sign) {
  for (long k = 0; k < depth; k += DEPTH)
    product(m, n, depth - k < DEPTH ? depth - k : DEPTH, a + k * acs, ars, acs, b + k * ldb, ldb, c, ldc, k > 0, sign);
}

/* Rows of L' = K G', of those before the step: a group of GROUP. */
static void left_rows(void *context, double *memory, long task) {
  const Large *w = context;
  (void)memory;
  const long from = task * GROUP, to = from + GROUP < w->done ? from + GROUP : w->done;
  deep_product(to - from, w->rows, to, w->k + from * w->row, w->row, 1, w->given, ACROSS, w->left + from * ACROSS, ACROSS,
               1.0);
}

/* Eight rows of G - LL' of the step, on and above the diagonal; G is there. */
static void corner_rows(void *context, double *memory, long task) {
  const Large *w = context;
  (void)memory;
  const long r = task * PANEL;
  double rest[PANEL * ACROSS] __attribute__((aligned(64)));
  deep_product(PANEL, w->rows - r, w->done, w->left + r, 1, ACROSS, w->left + r, ACROSS, rest, ACROSS, 1.0);
  for (long i = 0; w->done > 0 && i < PANEL; i++)
    for (long j = 0; j < w->rows - r; j++) w->corner[(r + i) * w->rows + r + j] -= rest[i * ACROSS + j];
}

/* The corner's own inverse factor, and it transposed. 0: not positive. */
static int corner_factor(const Large *w, double *lt, double *bt) {
  memset(w->inverse, 0, w->rows * w->rows * sizeof(double));
  if (!factor_once(w->rows, w->corner, w->shift, w->scale + w->done, w->inverse, lt, bt)) return 0;
  for (long r = 0; r < w->rows; r++)
    for (long c = 0; c < w->rows; c++) w->turned[c * ACROSS + r] = w->inverse[r * w->rows + c];
  return 1;
}

/* Rows of - (inverse L)': a group of GROUP. */
static void weight_rows(void *context, double *memory, long task) {
  const Large *w = context;
  (void)memory;
  const long from = task * GROUP, to = from + GROUP < w->done ? from + GROUP : w->done;
  product(to - from, w->rows, w->rows, w->left + from * ACROSS, ACROSS, 1, w->turned, ACROSS,
          w->weights + from * ACROSS, ACROSS, 0, -1.0);
}

/* GROUP columns of the step's rows of K, - (inverse L) K. */
static void new_columns(void *context, double *memory, long task) {
  const Large *w = context;
  (void)memory;
  const long from = task * GROUP, to = from + GROUP < w->done ? from + GROUP : w->done;
  deep_product(w->rows, to - from, w->done - from, w->weights + from * ACROSS, 1, ACROSS, w->k + from * w->row + from,
               w->row, w->k + w->done * w->row + from, w->row, 1.0);
}

/* The step's columns of G, as many as there are, for a group of the rows before it. */
static void run_given(void *context, double *memory, long task) {
  const Large *w = context;
  const long from = task * GROUP, to = from + GROUP < w->done ? from + GROUP : w->done;
  const long wide = w->size - w->done < w->rows ? w->size - w->done : w->rows;
  (void)memory;
  for (long i = from; i < to; i++) {
    memcpy(w->given + i * ACROSS, w->matrix + i * w->size + w->done, wide * sizeof(double));
    memset(w->given + i * ACROSS + wide, 0, (w->rows - wide) * sizeof(double));
  }
}

/* The step's own block of G; one on the diagonal where there is no row. */
static void put_corner(const Large *w) {
  for (long r = 0; r < w->rows; r++)
    for (long c = 0; c < w->rows; c++) {
      const long i = w->done + r, j = w->done + c, there = i < w->size && j < w->size;
      w->corner[r * w->rows + c] = there ? w->matrix[i * w->size + j] : r == c;
    }
}

/* K as `factor_once` has it, by all threads: the results depend on shapes alone. 1: done, 0: not positive, -1: no memory. */
static int factor_large(XLA_FFI_CallFrame *frame, Large *w, double *lt, double *bt) {
  const long whole = padded(w->size);
  for (w->done = 0; w->done < whole; w->done += STEP) {
    w->rows = whole - w->done < STEP ? whole - w->done : STEP;
    const long groups = (w->done + GROUP - 1) / GROUP;
    put_corner(w);
    if (!share(frame, run_given, w, groups, 0, 0) || !share(frame, left_rows, w, groups, 0, 0) ||
        !share(frame, corner_rows, w, w->rows / PANEL, 0, 0))
      return -1;
    if (!corner_factor(w, lt, bt)) return 0;
    if (!share(frame, weight_rows, w, groups, 0, 0) || !share(frame, new_columns, w, groups, 0, 0)) return -1;
    for (long r = 0; r < w->rows; r++)
      memcpy(w->k + (w->done + r) * w->row + w->done, w->inverse + r * w->rows, w->rows * sizeof(double));
  }
  return 1;
}

/* All matrices of a batch, one after the other. 0: no memory. */
static int large_factors(const Call *call, long size) {
  const long whole = padded(size), row = spread(whole), side = STEP * STEP;
  double *memory = allocate(whole * row + 3 * whole * ACROSS + 2 * side + STEP * ACROSS + 2 * PANEL * STEP + whole);
  if (!memory) return 0;
  double *given = memory + whole * row, *left = given + whole * ACROSS, *weights = left + whole * ACROSS;
  double *corner = weights + whole * ACROSS, *inverse = corner + side, *turned = inverse + side;
  double *lt = turned + STEP * ACROSS, *bt = lt + PANEL * STEP, *padded_scale = bt + PANEL * STEP;
  int done = 1;
  in_huge_pages(array_of(call, 2, 0), call->batch * size * size);
  memset(memory, 0, whole * row * sizeof(double));
  memset(padded_scale, 0, whole * sizeof(double));
  for (long b = 0; b < call->batch && done >= 0; b++) {
    memcpy(padded_scale, array_of(call, 1, b), size * sizeof(double));
    Large w = {array_of(call, 0, b), padded_scale, 0.0, size, row, 0, 0, memory, given, left, weights,
               corner, inverse, turned};
    done = 0;
    for (double shift = 0.0; !done && shift < 0.1; shift = shift > 0.0 ? shift * 100.0 : 1e-14) {
      w.shift = shift;
      done = factor_large(call->frame, &w, lt, bt);
    }
    double *result = array_of(call, 2, b);
    for (long i = 0; done > 0 && i < size; i++) memcpy(result + i * size, memory + i * row, size * sizeof(double));
    for (long i = 0; done == 0 && i < size * size; i++) result[i] = NAN;
  }
  free(memory);
  return done >= 0;
}

/* ---- the interface to XLA --------------------------------------------------------------------------- */

/* (g (..., n, n), scale (..., n)) -> k (..., n, n), one matrix after the other. */
XLA_FFI_Error *NAME(jaxpriv_inverse_factor)(XLA_FFI_CallFrame *frame) {
  Call call[1];
  if (!shaped(frame, XLA_FFI_DataType_F64, "XX X | XX", call)) return misshapen(frame);
  const long size = SIZE('X'), n = spread(padded(size));
  if (size >= LARGE) return large_factors(call, size) ? NULL : no_memory(frame);
  double *memory = allocate(2 * n * n + 2 * PANEL * n + n);
  if (!memory) return no_memory(frame);
  double *g = memory, *k = g + n * n, *l = k + n * n, *p = l + PANEL * n, *scale = p + PANEL * n;
  memset(memory, 0, 2 * n * n * sizeof(double));
  memset(scale, 0, n * sizeof(double));
  for (long i = size; i < n; i++) g[i * n + i] = 1.0;
  for (long b = 0; b < call->batch; b++) {
    const double *matrix = array_of(call, 0, b);
    double *result = array_of(call, 2, b);
    for (long i = 0; i < size; i++) memcpy(g + i * n, matrix + i * size, size * sizeof(double));
    memcpy(scale, array_of(call, 1, b), size * sizeof(double));
    const int factored = factor(n, g, scale, k, l, p);
    for (long i = 0; i < size; i++) memcpy(result + i * size, k + i * n, size * sizeof(double));
    if (!factored) memset(k, 0, n * n * sizeof(double));
  }
  free(memory);
  return NULL;
}
