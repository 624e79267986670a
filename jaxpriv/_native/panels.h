/* Products, inverse Cholesky factors and matrix-vector products for matrices of some dozens of rows.

   What costs is a product of panels with its sums in registers. Dimensions are padded (zeros, and ones on the
   diagonal), so that no such loop has a remainder. Every function here is inlined into a kernel that is compiled for
   each instruction set, with the size of its panels (`rows`, `vectors`) as a constant. */

#ifndef JAXPRIV_PANELS_H
#define JAXPRIV_PANELS_H

#include <math.h>
#include <string.h>

#include "common.h"

#define PANEL 8 /* rows that are factored at once */
#define PAD 8   /* dimensions are padded to this */

typedef double Vector __attribute__((vector_size(64)));
typedef double Loose __attribute__((vector_size(64), aligned(8))); /* at any address */
typedef long long Places __attribute__((vector_size(64)));

static long padded(long n) { return (n + PAD - 1) / PAD * PAD; }

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

/* The same for c (m, n): m is 1 or a multiple of PANEL, n of 8. */
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

/* Inverse Cholesky factor of a matrix of order PANEL, all of it given: s is used up. 0: not positive. */
INLINE int small_inverse_factor(Vector s[PANEL], Vector k[PANEL]) {
#pragma GCC unroll 8
  for (int i = 0; i < PANEL; i++) {
    k[i] = (Vector){0};
    k[i][i] = 1.0;
  }
#pragma GCC unroll 8
  for (int j = 0; j < PANEL; j++) { /* the steps that turn s into 1 turn 1 into k */
    const double pivot = s[j][j];
    if (!(pivot > 0.0) || !isfinite(pivot)) return 0;
    const double inverse = 1.0 / sqrt(pivot);
    s[j] *= inverse, k[j] *= inverse;
#pragma GCC unroll 8
    for (int i = j + 1; i < PANEL; i++) {
      const double below = s[j][i];
      s[i] -= below * s[j];
      k[i] -= below * k[j];
    }
  }
  return 1;
}

/* K with (g + shift diag(scale))^-1 = K'K; of g (n, n), n a multiple of PANEL, the blocks on and above the diagonal are
   read. `lt` and `bt` (n, PANEL) are working memory. Where a tile is wider than the triangle the other half of K is
   read: zeros on entry, and left so. */
INLINE int factor_once(long n, const double *g, double shift, const double *scale, double *k, double *lt, double *bt,
                       const int rows, const int vectors) {
  for (long i = 0; i < n; i += PANEL) {
    /* L' = K G' of the rows before: K is lower triangular. */
    for (long j = 0; j < i; j += PANEL)
      product(PANEL, PANEL, j + PANEL, k + j * n, n, 1, g + i, n, lt + j * PANEL, PANEL, 0, 1.0, rows, 1);
    Vector s[PANEL], block[PANEL], turned[PANEL];
    product(PANEL, PANEL, i, lt, 1, PANEL, lt, PANEL, (double *)s, PANEL, 0, -1.0, rows, 1);
    for (long r = 0; r < PANEL; r++) {
      s[r] += *(const Vector *)(g + (i + r) * n + i);
      s[r][r] += shift * scale[i + r];
    }
    if (!small_inverse_factor(s, block)) return 0;
    for (int r = 0; r < PANEL; r++)
      for (int c = 0; c < PANEL; c++) turned[c][r] = block[r][c];
    /* The rest of the rows: - (block L) K. */
    product(i, PANEL, PANEL, lt, PANEL, 1, (const double *)turned, PANEL, bt, PANEL, 0, -1.0, rows, 1);
    for (long j = 0; j < i; j += 8 * vectors) {
      const long width = j + 8 * vectors < i ? 8 * vectors : i - j;
      product(PANEL, width, i - j, bt + j * PANEL, 1, PANEL, k + j * n + j, n, k + i * n + j, n, 0, 1.0, rows, vectors);
    }
    for (long r = 0; r < PANEL; r++) *(Vector *)(k + (i + r) * n + i) = block[r];
  }
  return 1;
}

/* The same with the least shift of 0, 1e-14, 1e-12, ..., 1e-2 that works; where none does k is all NaN: not 0, then. */
INLINE int factor(long n, const double *g, const double *scale, double *k, double *lt, double *bt, const int rows,
                  const int vectors) {
  for (double shift = 0.0; shift < 0.1; shift = shift > 0.0 ? shift * 100.0 : 1e-14)
    if (factor_once(n, g, shift, scale, k, lt, bt, rows, vectors)) return 1;
  for (long i = 0; i < n * n; i++) k[i] = NAN;
  return 0;
}

/* ---- vectors ------------------------------------------------------------------------------------- */

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
  long i = 0;
  for (; i + 8 <= n; i += 8) *(Loose *)(a + i) += factor * *(const Loose *)(b + i);
  for (; i < n; i++) a[i] += factor * b[i];
}

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

#define AT_ONCE 3 /* vectors that a matrix is applied to while it is in registers, where there are 32 of those */

/* `rows`: how many rows of A are in registers at once, 4 or 8. */
INLINE void product_of(const int sides, long m, long n, const double *a, const double *b, long ldb, double *out, long ldo,
                       const int triangular, const int rows) {
  long i = 0;
  for (; i + 8 <= m; i += 8) {
    const long wide = reach(i, n, triangular), even = wide / 8 * 8;
    Vector s[AT_ONCE][8] = {0};
#pragma GCC unroll 2
    for (int from = 0; from < 8; from += rows)
      for (long k = 0; k < even; k += 8)
#pragma GCC unroll 8
        for (int r = from; r < from + rows; r++) {
          const Vector row = *(const Loose *)(a + (i + r) * n + k);
#pragma GCC unroll 3
          for (int c = 0; c < sides; c++) s[c][r] += row * *(const Loose *)(b + c * ldb + k);
        }
#pragma GCC unroll 3
    for (int c = 0; c < sides; c++) *(Loose *)(out + c * ldo + i) += sums_of(s[c]);
    for (long k = even; k < wide; k++)
      for (int r = 0; r < 8; r++)
        for (int c = 0; c < sides; c++) out[c * ldo + i + r] += a[(i + r) * n + k] * b[c * ldb + k];
  }
  for (; i < m; i++)
    for (int c = 0; c < sides; c++) out[c * ldo + i] += dot(a + i * n, b + c * ldb, n);
}

INLINE void transposed_of(const int sides, long m, long n, const double *a, const double *b, long ldb, double *out,
                          long ldo, const int triangular, const int rows) {
  long i = 0;
  for (; i + 8 <= m; i += rows) {
    const long wide = reach(i / 8 * 8, n, triangular);
    double weight[AT_ONCE][8]; /* copies: the results might be where they are */
#pragma GCC unroll 3
    for (int c = 0; c < sides; c++)
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++) weight[c][r] = b[c * ldb + i + r];
    long k = 0;
    for (; k + 8 <= wide; k += 8) {
      Vector row[8];
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++) row[r] = *(const Loose *)(a + (i + r) * n + k);
#pragma GCC unroll 3
      for (int c = 0; c < sides; c++) {
        Vector even = *(Loose *)(out + c * ldo + k), odd = weight[c][1] * row[1];
        even += weight[c][0] * row[0];
#pragma GCC unroll 4
        for (int r = 2; r < rows; r += 2) {
          even += weight[c][r] * row[r];
          odd += weight[c][r + 1] * row[r + 1];
        }
        *(Loose *)(out + c * ldo + k) = even + odd;
      }
    }
    for (; k < wide; k++)
      for (int c = 0; c < sides; c++)
        for (int r = 0; r < rows; r++) out[c * ldo + k] += weight[c][r] * a[(i + r) * n + k];
  }
  for (; i < m; i++)
    for (int c = 0; c < sides; c++) add_multiple(out + c * ldo, b[c * ldb + i], a + i * n, n);
}

/* out_c += A b_c for A (m, n) and every side c; the vectors are `ldb` and `ldo` apart. `rows` is 8 with 32 registers. */
INLINE void add_product(long sides, long m, long n, const double *a, const double *b, long ldb, double *out, long ldo,
                        const int triangular, const int rows) {
  if (rows == 8) {
    for (; sides >= AT_ONCE; sides -= AT_ONCE, b += AT_ONCE * ldb, out += AT_ONCE * ldo)
      product_of(AT_ONCE, m, n, a, b, ldb, out, ldo, triangular, 8);
    for (; sides >= 2; sides -= 2, b += 2 * ldb, out += 2 * ldo)
      product_of(2, m, n, a, b, ldb, out, ldo, triangular, 8);
  }
  for (; sides >= 1; sides--, b += ldb, out += ldo) product_of(1, m, n, a, b, ldb, out, ldo, triangular, rows);
}

/* out_c += A'b_c for A (m, n) and every side c. */
INLINE void add_transposed(long sides, long m, long n, const double *a, const double *b, long ldb, double *out, long ldo,
                           const int triangular, const int rows) {
  if (rows == 8) {
    for (; sides >= AT_ONCE; sides -= AT_ONCE, b += AT_ONCE * ldb, out += AT_ONCE * ldo)
      transposed_of(AT_ONCE, m, n, a, b, ldb, out, ldo, triangular, 4);
    for (; sides >= 2; sides -= 2, b += 2 * ldb, out += 2 * ldo)
      transposed_of(2, m, n, a, b, ldb, out, ldo, triangular, 4);
  }
  for (; sides >= 1; sides--, b += ldb, out += ldo) transposed_of(1, m, n, a, b, ldb, out, ldo, triangular, rows);
}

#endif
