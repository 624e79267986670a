/* Products, inverse Cholesky factors and matrix-vector products for matrices of some dozens of rows.

   What costs is a product of panels with its sums in registers. Dimensions are padded (zeros, and ones on the
   diagonal), so that no such loop has a remainder. A compiler keeps vectors wider than those of its instruction set (WIDTH)
   in memory, at a quarter of the speed. */

#define LANES (WIDTH / 8)             /* numbers of a vector */
#define ROWS (WIDTH / 8)              /* rows, and */
#define VECTORS (WIDTH < 32 ? 4 : 2)  /* vectors, of the sums that a product holds */
#define SPAN (8 / LANES)              /* vectors of eight numbers */
#define BLOCK (ROWS < 4 ? 4 : ROWS)   /* rows that meet a vector at once */
#define AT_ONCE 3                     /* vectors that a matrix meets while it is in registers */

typedef double Vector __attribute__((vector_size(WIDTH)));
typedef double Loose __attribute__((vector_size(WIDTH), aligned(8))); /* at any address */
typedef long long Places __attribute__((vector_size(WIDTH)));

/* ---- panels -------------------------------------------------------------------------------------- */

/* c (rows, `vectors` vectors) = sign a b, or c += sign a b; a has strides (ars, acs), b and c are rows. */
INLINE void tile(long depth, const double *a, long ars, long acs, const double *b, long ldb, double *c, long ldc,
                 int add, double sign, const int rows, const int vectors) {
  Vector sum[ROWS][VECTORS];
  UNROLLED for (int r = 0; r < rows; r++)
    UNROLLED for (int v = 0; v < vectors; v++) sum[r][v] = (Vector){0};
  for (long k = 0; k < depth; k++, a += acs, b += ldb) {
    Vector row[VECTORS];
    UNROLLED for (int v = 0; v < vectors; v++) row[v] = ((const Vector *)b)[v];
    UNROLLED for (int r = 0; r < rows; r++)
      UNROLLED for (int v = 0; v < vectors; v++) sum[r][v] += a[r * ars] * row[v];
  }
  UNROLLED for (int r = 0; r < rows; r++)
    UNROLLED for (int v = 0; v < vectors; v++) {
      Vector *out = (Vector *)(c + r * ldc) + v;
      *out = add ? *out + sign * sum[r][v] : sign * sum[r][v];
    }
}

/* The same for c (m, n): m is 1 or a multiple of PANEL, n of PAD. */
INLINE void product(long m, long n, long depth, const double *a, long ars, long acs, const double *b, long ldb,
                    double *c, long ldc, int add, double sign) {
  if (m == 1) {
    for (long j = 0; j < n; j += LANES) tile(depth, a, ars, acs, b + j, ldb, c + j, ldc, add, sign, 1, 1);
    return;
  }
  for (long i = 0; i < m; i += ROWS) {
    long j = 0;
    for (; j + VECTORS * LANES <= n; j += VECTORS * LANES)
      tile(depth, a + i * ars, ars, acs, b + j, ldb, c + i * ldc + j, ldc, add, sign, ROWS, VECTORS);
    for (; j < n; j += LANES)
      tile(depth, a + i * ars, ars, acs, b + j, ldb, c + i * ldc + j, ldc, add, sign, ROWS, 1);
  }
}

/* Inverse Cholesky factor of a matrix of order PANEL, all of it given: s is used up. 0: not positive. */
INLINE int small_inverse_factor(Vector s[PANEL][SPAN], Vector k[PANEL][SPAN]) {
  UNROLLED for (int i = 0; i < PANEL; i++) {
    UNROLLED for (int v = 0; v < SPAN; v++) k[i][v] = (Vector){0};
    k[i][i / LANES][i % LANES] = 1.0;
  }
  UNROLLED for (int j = 0; j < PANEL; j++) { /* the steps that turn s into 1 turn 1 into k */
    const double pivot = s[j][j / LANES][j % LANES];
    if (!(pivot > 0.0) || !isfinite(pivot)) return 0;
    const double inverse = 1.0 / sqrt(pivot);
    UNROLLED for (int v = 0; v < SPAN; v++) s[j][v] *= inverse, k[j][v] *= inverse;
    UNROLLED for (int i = j + 1; i < PANEL; i++) {
      const double below = s[j][i / LANES][i % LANES];
      UNROLLED for (int v = 0; v < SPAN; v++) {
        s[i][v] -= below * s[j][v];
        k[i][v] -= below * k[j][v];
      }
    }
  }
  return 1;
}

/* K with (g + shift diag(scale))^-1 = K'K; of g (n, n), n a multiple of PANEL, the blocks on and above the diagonal are
   read. `lt` and `bt` (n, PANEL) are working memory. Where a tile is wider than the triangle the other half of K is
   read: zeros on entry, and left so. */
INLINE int factor_once(long n, const double *g, double shift, const double *scale, double *k, double *lt, double *bt) {
  for (long i = 0; i < n; i += PANEL) {
    /* L' = K G' of the rows before: K is lower triangular. */
    for (long j = 0; j < i; j += PANEL)
      product(PANEL, PANEL, j + PANEL, k + j * n, n, 1, g + i, n, lt + j * PANEL, PANEL, 0, 1.0);
    Vector s[PANEL][SPAN], block[PANEL][SPAN], turned[PANEL][SPAN];
    product(PANEL, PANEL, i, lt, 1, PANEL, lt, PANEL, (double *)s, PANEL, 0, -1.0);
    for (long r = 0; r < PANEL; r++) {
      for (int v = 0; v < SPAN; v++) s[r][v] += ((const Vector *)(g + (i + r) * n + i))[v];
      s[r][r / LANES][r % LANES] += shift * scale[i + r];
    }
    if (!small_inverse_factor(s, block)) return 0;
    for (int r = 0; r < PANEL; r++)
      for (int c = 0; c < PANEL; c++) turned[c][r / LANES][r % LANES] = block[r][c / LANES][c % LANES];
    /* The rest of the rows: - (block L) K. */
    product(i, PANEL, PANEL, lt, PANEL, 1, (const double *)turned, PANEL, bt, PANEL, 0, -1.0);
    for (long j = 0; j < i; j += VECTORS * LANES) {
      const long width = j + VECTORS * LANES < i ? VECTORS * LANES : i - j;
      product(PANEL, width, i - j, bt + j * PANEL, 1, PANEL, k + j * n + j, n, k + i * n + j, n, 0, 1.0);
    }
    for (long r = 0; r < PANEL; r++) memcpy(k + (i + r) * n + i, block[r], PANEL * sizeof(double));
  }
  return 1;
}

/* The same with the least shift of 0, 1e-14, 1e-12, ..., 1e-2 that works; where none does k is all NaN: not 0, then. */
INLINE int factor(long n, const double *g, const double *scale, double *k, double *lt, double *bt) {
  for (double shift = 0.0; shift < 0.1; shift = shift > 0.0 ? shift * 100.0 : 1e-14)
    if (factor_once(n, g, shift, scale, k, lt, bt)) return 1;
  for (long i = 0; i < n * n; i++) k[i] = NAN;
  return 0;
}

/* ---- vectors ------------------------------------------------------------------------------------- */

INLINE double dot(const double *a, const double *b, long n) {
  Vector even = {0}, odd = {0};
  long i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES) {
    even += *(const Loose *)(a + i) * *(const Loose *)(b + i);
    odd += *(const Loose *)(a + i + LANES) * *(const Loose *)(b + i + LANES);
  }
  even += odd;
  double sum = 0.0;
  for (int v = 0; v < LANES; v++) sum += even[v];
  for (; i < n; i++) sum += a[i] * b[i];
  return sum;
}

INLINE void add_multiple(double *a, double weight, const double *b, long n) {
  long i = 0;
  for (; i + LANES <= n; i += LANES) *(Loose *)(a + i) += weight * *(const Loose *)(b + i);
  for (; i < n; i++) a[i] += weight * b[i];
}

/* The sums of as many vectors as a vector has numbers. */
INLINE Vector sums_of(const Vector *s) {
#if WIDTH == 64
  Vector pair[4], four[2];
  UNROLLED for (int i = 0; i < 4; i++)
    pair[i] = SHUFFLE(s[2 * i], s[2 * i + 1], 0, 8, 2, 10, 4, 12, 6, 14) +
              SHUFFLE(s[2 * i], s[2 * i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  UNROLLED for (int i = 0; i < 2; i++)
    four[i] = SHUFFLE(pair[2 * i], pair[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13) +
              SHUFFLE(pair[2 * i], pair[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
  return SHUFFLE(four[0], four[1], 0, 1, 2, 3, 8, 9, 10, 11) +
         SHUFFLE(four[0], four[1], 4, 5, 6, 7, 12, 13, 14, 15);
#elif WIDTH == 32
  Vector pair[2];
  UNROLLED for (int i = 0; i < 2; i++)
    pair[i] = SHUFFLE(s[2 * i], s[2 * i + 1], 0, 4, 2, 6) +
              SHUFFLE(s[2 * i], s[2 * i + 1], 1, 5, 3, 7);
  return SHUFFLE(pair[0], pair[1], 0, 1, 4, 5) +
         SHUFFLE(pair[0], pair[1], 2, 3, 6, 7);
#else
  return SHUFFLE(s[0], s[1], 0, 2) + SHUFFLE(s[0], s[1], 1, 3);
#endif
}

INLINE void product_of(const int sides, long m, long n, const double *a, const double *b, long ldb, double *out,
                       long ldo, const int triangular) {
  long i = 0;
  for (; i + 8 <= m; i += 8) {
    const long wide = reach(i, n, triangular), whole = wide / LANES * LANES;
    Vector s[AT_ONCE][8] = {0};
    UNROLLED for (int from = 0; from < 8; from += BLOCK)
      for (long k = 0; k < whole; k += LANES)
        UNROLLED for (int r = from; r < from + BLOCK; r++) {
          const Vector row = *(const Loose *)(a + (i + r) * n + k);
          UNROLLED for (int c = 0; c < sides; c++) s[c][r] += row * *(const Loose *)(b + c * ldb + k);
        }
    UNROLLED for (int c = 0; c < sides; c++)
      UNROLLED for (int v = 0; v < SPAN; v++) ((Loose *)(out + c * ldo + i))[v] += sums_of(s[c] + v * LANES);
    for (long k = whole; k < wide; k++)
      for (int r = 0; r < 8; r++)
        for (int c = 0; c < sides; c++) out[c * ldo + i + r] += a[(i + r) * n + k] * b[c * ldb + k];
  }
  for (; i < m; i++)
    for (int c = 0; c < sides; c++) out[c * ldo + i] += dot(a + i * n, b + c * ldb, n);
}

INLINE void transposed_of(const int sides, const int rows, long m, long n, const double *a, const double *b, long ldb,
                          double *out, long ldo, const int triangular) {
  long i = 0;
  for (; i < m / 8 * 8; i += rows) {
    const long wide = reach(i / 8 * 8, n, triangular);
    double weight[AT_ONCE][8]; /* copies: the results might be where they are */
    UNROLLED for (int c = 0; c < sides; c++)
      UNROLLED for (int r = 0; r < rows; r++) weight[c][r] = b[c * ldb + i + r];
    long k = 0;
    for (; k + LANES <= wide; k += LANES) {
      Vector row[8];
      UNROLLED for (int r = 0; r < rows; r++) row[r] = *(const Loose *)(a + (i + r) * n + k);
      UNROLLED for (int c = 0; c < sides; c++) {
        Vector even = *(Loose *)(out + c * ldo + k), odd = weight[c][1] * row[1];
        even += weight[c][0] * row[0];
        UNROLLED for (int r = 2; r < rows; r += 2) {
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

/* out_c += A b_c for A (m, n) and every side c; the vectors are `ldb` and `ldo` apart. */
INLINE void add_product(long sides, long m, long n, const double *a, const double *b, long ldb, double *out, long ldo,
                        const int triangular) {
  for (; sides >= AT_ONCE; sides -= AT_ONCE, b += AT_ONCE * ldb, out += AT_ONCE * ldo)
    product_of(AT_ONCE, m, n, a, b, ldb, out, ldo, triangular);
  if (sides == 2) product_of(2, m, n, a, b, ldb, out, ldo, triangular);
  if (sides == 1) product_of(1, m, n, a, b, ldb, out, ldo, triangular);
}

/* out_c += A'b_c for A (m, n) and every side c. */
INLINE void add_transposed(long sides, long m, long n, const double *a, const double *b, long ldb, double *out, long ldo,
                           const int triangular) {
  for (; sides >= AT_ONCE; sides -= AT_ONCE, b += AT_ONCE * ldb, out += AT_ONCE * ldo)
    transposed_of(AT_ONCE, 4, m, n, a, b, ldb, out, ldo, triangular);
  if (sides == 2) transposed_of(2, 4, m, n, a, b, ldb, out, ldo, triangular);
  if (sides == 1) transposed_of(1, BLOCK, m, n, a, b, ldb, out, ldo, triangular);
}

/* ---- normalisations ------------------------------------------------------------------------------ */

/* The vectors of `basis`, `stride` apart: orthonormal, basis = u tri, by Gram-Schmidt; u (n, count). */
INLINE void orthonormal(long count, long n, double *basis, long stride, double *u, double *tri) {
  memset(tri, 0, count * count * sizeof(double));
  for (long g = 0; g < count; g++) {
    double *own = basis + g * stride;
    for (long i = 0; i < g; i++) {
      const double part = dot(basis + i * stride, own, n);
      tri[i * count + g] = part;
      add_multiple(own, -part, basis + i * stride, n);
    }
    const double norm = sqrt(dot(own, own, n));
    tri[g * count + g] = norm;
    for (long t = 0; t < n; t++) u[t * count + g] = own[t] /= norm;
  }
}

/* tri'^-1 level. */
INLINE void coordinates(long count, const double *tri, const double *level, double *wanted) {
  for (long g = 0; g < count; g++) {
    wanted[g] = level[g];
    for (long i = 0; i < g; i++) wanted[g] -= tri[i * count + g] * wanted[i];
    wanted[g] /= tri[g * count + g];
  }
}

/* a <- a - u (u'a - wanted); wanted NULL: none. */
INLINE void set_level(long count, long n, const double *u, double *a, const double *wanted) {
  if (count == 1) { /* u is one vector */
    add_multiple(a, (wanted ? wanted[0] : 0.0) - dot(u, a, n), u, n);
    return;
  }
  for (long g = 0; g < count; g++) {
    double part = wanted ? -wanted[g] : 0.0;
    for (long t = 0; t < n; t++) part += u[t * count + g] * a[t];
    for (long t = 0; t < n; t++) a[t] -= part * u[t * count + g];
  }
}

/* ---- the Schur complement ------------------------------------------------------------------------ */

/* e = schur' schur right; `half` is working memory. */
UNUSED static void apply_inverse(long n, const double *schur, const double *right, double *half, double *e) {
  for (long i = 0; i < n; i++) half[i] = dot(schur + i * n, right, i + 1);
  memset(e, 0, n * sizeof(double));
  for (long i = 0; i < n; i++) add_multiple(e, half[i], schur + i * n, i + 1);
}
