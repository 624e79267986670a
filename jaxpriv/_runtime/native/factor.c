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
  const double *matrix, *scale; /* (order, order) and (order), padded */
  double shift;
  long order, row, done, rows; /* row: the distance of rows; rows of K that are known, and of the step */
  double *k;                   /* (order, order); zero above the diagonal */
  double *left, *weights;      /* (done, ACROSS): L', - (inverse L)' */
  double *corner, *inverse;    /* (rows, rows) */
  double *turned;              /* (rows, ACROSS): the inverse transposed */
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
  deep_product(to - from, w->rows, to, w->k + from * w->row, w->row, 1, w->matrix + w->done, w->row, w->left + from * ACROSS, ACROSS,
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

/* K as `factor_once` has it, by all threads: the results depend on shapes alone. 1: done, 0: not positive, -1: no memory. */
static int factor_shifted(XLA_FFI_CallFrame *frame, Large *w, double *lt, double *bt) {
  for (w->done = 0; w->done < w->order; w->done += STEP) {
    w->rows = w->order - w->done < STEP ? w->order - w->done : STEP;
    const long groups = (w->done + GROUP - 1) / GROUP;
    for (long r = 0; r < w->rows; r++)
      memcpy(w->corner + r * w->rows, w->matrix + (w->done + r) * w->row + w->done, w->rows * sizeof(double));
    if (!share(frame, left_rows, w, groups, 0, 0) || !share(frame, corner_rows, w, w->rows / PANEL, 0, 0)) return -1;
    if (!corner_factor(w, lt, bt)) return 0;
    if (!share(frame, weight_rows, w, groups, 0, 0) || !share(frame, new_columns, w, groups, 0, 0)) return -1;
    for (long r = 0; r < w->rows; r++)
      memcpy(w->k + (w->done + r) * w->row + w->done, w->inverse + r * w->rows, w->rows * sizeof(double));
  }
  return 1;
}

/* The same as `factor` has it. */
static int factor_large(XLA_FFI_CallFrame *frame, Large *w, double *lt, double *bt) {
  int done = 0;
  for (w->shift = 0.0; !done && w->shift < 0.1; w->shift = w->shift > 0.0 ? w->shift * 100.0 : 1e-14)
    done = factor_shifted(frame, w, lt, bt);
  for (long i = 0; !done && i < w->order * w->row; i++) w->k[i] = NAN;
  return done;
}

/* ---- the interface to XLA --------------------------------------------------------------------------- */

/* (g (..., n, n), scale (..., n)) -> k (..., n, n), one matrix after the other. */
XLA_FFI_Error *NAME(jaxpriv_inverse_factor)(XLA_FFI_CallFrame *frame) {
  Call call[1];
  if (!shaped(frame, XLA_FFI_DataType_F64, "XX X | XX", call)) return misshapen(frame);
  const long size = SIZE('X'), n = spread(padded(size));
  const long large = size >= LARGE;
  double *memory = allocate(2 * n * n + 2 * PANEL * n + n + large * (2 * n * ACROSS + 3 * STEP * ACROSS));
  if (!memory) return no_memory(frame);
  double *g = memory, *k = g + n * n, *l = k + n * n, *p = l + PANEL * n, *scale = p + PANEL * n, *left = scale + n;
  double *corner = left + 2 * n * ACROSS;
  Large w = {.matrix = g, .scale = scale, .order = padded(size), .row = n, .k = k, .left = left, .weights = left + n * ACROSS,
             .corner = corner, .inverse = corner + STEP * ACROSS, .turned = corner + 2 * STEP * ACROSS};
  int done = 1;
  in_huge_pages(array_of(call, 2, 0), call->batch * size * size);
  memset(memory, 0, 2 * n * n * sizeof(double));
  memset(scale, 0, n * sizeof(double));
  for (long i = size; i < n; i++) g[i * n + i] = 1.0;
  for (long b = 0; b < call->batch && done >= 0; b++) {
    const double *matrix = array_of(call, 0, b);
    double *result = array_of(call, 2, b);
    for (long i = 0; i < size; i++) memcpy(g + i * n, matrix + i * size, size * sizeof(double));
    memcpy(scale, array_of(call, 1, b), size * sizeof(double));
    done = large ? factor_large(frame, &w, l, p) : factor(n, g, scale, k, l, p);
    for (long i = 0; i < size; i++) memcpy(result + i * size, k + i * n, size * sizeof(double));
    if (!done) memset(k, 0, n * n * sizeof(double));
  }
  free(memory);
  return done < 0 ? no_memory(frame) : NULL;
}
