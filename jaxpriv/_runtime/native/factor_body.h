/* What `factor.c` does for every matrix, for one instruction set. */

#include "panels.h"

#define deep_product NAME(deep_product)

TARGET static int NAME(inverse_factor)(long n, const double *g, const double *scale, double *k, double *l, double *p) {
  return factor(n, g, scale, k, l, p);
}

/* ---- a large matrix, STEP rows at a time ------------------------------------------------------------ */

/* c (m, n) = sign a b as `product`, in pieces of the depth whose rows of b stay in the cache. */
INLINE void deep_product(long m, long n, long depth, const double *a, long ars, long acs, const double *b, long ldb,
                         double *c, long ldc, double sign) {
  for (long k = 0; k < depth; k += DEPTH)
    product(m, n, depth - k < DEPTH ? depth - k : DEPTH, a + k * acs, ars, acs, b + k * ldb, ldb, c, ldc, k > 0, sign);
}

/* Rows of L' = K G', of those before the step: a group of GROUP. */
TARGET static void NAME(left_rows)(const Large *w, long task) {
  const long from = task * GROUP, to = from + GROUP < w->done ? from + GROUP : w->done;
  deep_product(to - from, w->rows, to, w->k + from * w->row, w->row, 1, w->given, ACROSS, w->left + from * ACROSS, ACROSS,
               1.0);
}

/* Eight rows of G - LL' of the step, on and above the diagonal; G is there. */
TARGET static void NAME(corner_rows)(const Large *w, long task) {
  const long r = task * PANEL;
  double rest[PANEL * ACROSS] __attribute__((aligned(64)));
  deep_product(PANEL, w->rows - r, w->done, w->left + r, 1, ACROSS, w->left + r, ACROSS, rest, ACROSS, 1.0);
  for (long i = 0; w->done > 0 && i < PANEL; i++)
    for (long j = 0; j < w->rows - r; j++) w->corner[(r + i) * w->rows + r + j] -= rest[i * ACROSS + j];
}

/* The corner's own inverse factor, and it transposed. 0: not positive. */
TARGET static int NAME(corner_factor)(const Large *w, double *lt, double *bt) {
  memset(w->inverse, 0, w->rows * w->rows * sizeof(double));
  if (!factor_once(w->rows, w->corner, w->shift, w->scale + w->done, w->inverse, lt, bt)) return 0;
  for (long r = 0; r < w->rows; r++)
    for (long c = 0; c < w->rows; c++) w->turned[c * ACROSS + r] = w->inverse[r * w->rows + c];
  return 1;
}

/* Rows of - (inverse L)': a group of GROUP. */
TARGET static void NAME(weight_rows)(const Large *w, long task) {
  const long from = task * GROUP, to = from + GROUP < w->done ? from + GROUP : w->done;
  product(to - from, w->rows, w->rows, w->left + from * ACROSS, ACROSS, 1, w->turned, ACROSS,
          w->weights + from * ACROSS, ACROSS, 0, -1.0);
}

/* GROUP columns of the step's rows of K, - (inverse L) K. */
TARGET static void NAME(new_columns)(const Large *w, long task) {
  const long from = task * GROUP, to = from + GROUP < w->done ? from + GROUP : w->done;
  deep_product(w->rows, to - from, w->done - from, w->weights + from * ACROSS, 1, ACROSS, w->k + from * w->row + from,
               w->row, w->k + w->done * w->row + from, w->row, 1.0);
}
