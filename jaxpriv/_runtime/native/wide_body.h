/* Sums of squares R'R whose matrix is larger than the caches, for one instruction set.

   R comes in blocks of `deep` rows, packed: its columns in strips of STRIP, each strip with its rows one after another, so
   that what a product reads is contiguous. A block of the matrix that fits into a core's cache is brought up to date with
   all rows before the next block is read: the matrix is read and written once for `deep` rows. */

#define STRIP (VECTORS * LANES) /* columns of a product */

#define pack NAME(pack)

/* `rows` rows of R (x columns, x a multiple of 16) to rows `at`, ... of the packed block. */
INLINE void pack(long rows, long x, const double *r, double *packed, long deep, long at) {
  for (long j = 0; j < x; j += STRIP)
    for (long t = 0; t < rows; t++)
      for (int v = 0; v < VECTORS; v++)
        ((Vector *)(packed + j * deep + (at + t) * STRIP))[v] = ((const Vector *)(r + t * x + j))[v];
}

/* Rows [i0, i1) and columns [j0, j1) of the matrix (x, x) += R'R for a packed block of `rows` rows, where they are on or
   below the diagonal; all bounds are multiples of 16. */
TARGET static void NAME(add_block)(long rows, long x, const double *packed, long deep, long i0, long i1, long j0, long j1,
                                   double *sum) {
  for (long from = 0; from < rows; from += AT_A_TIME) {
    const long depth = from + AT_A_TIME < rows ? AT_A_TIME : rows - from;
    for (long j = j0; j < j1; j += STRIP)
      for (long i = i0 > j ? i0 : j; i < i1; i += ROWS)
        tile(depth, packed + i / STRIP * STRIP * deep + from * STRIP + i % STRIP, 1, STRIP,
             packed + j * deep + from * STRIP, STRIP, sum + i * x + j, x, 1, 1.0, ROWS, VECTORS);
  }
}
