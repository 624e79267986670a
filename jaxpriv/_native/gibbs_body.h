/* The body of gibbs.c for one precision and one instruction set: included once for each.

   SINGLE: float or double. WIDTH: bytes of a vector. ROWS, VECTORS: how many sums a product holds in registers.
   TARGET: attribute of the functions that are called from outside. NAME(f): f with the name of both. */

#define Vector NAME(Vector)
#define Loose NAME(Loose)
#define Mask NAME(Mask)
#define Bits NAME(Bits)
#if SINGLE
#define REAL float
#define INTEGER int32_t
#define UNSIGNED uint32_t
#define LOWEST (-0x1.fffffep127f)
#else
#define REAL double
#define INTEGER int64_t
#define UNSIGNED uint64_t
#define LOWEST (-0x1.fffffffffffffp1023)
#endif
#define LANES (LANE_BYTES / (long)sizeof(REAL))
#define PER (WIDTH / (long)sizeof(REAL)) /* numbers of a vector */
#define SPAN (LANE_BYTES / WIDTH)        /* vectors of a group */

typedef REAL Vector __attribute__((vector_size(WIDTH)));
typedef REAL Loose __attribute__((vector_size(WIDTH), aligned(sizeof(REAL)))); /* at any address */
typedef INTEGER Mask __attribute__((vector_size(WIDTH)));
typedef UNSIGNED Bits __attribute__((vector_size(WIDTH)));

INLINE Vector NAME(pick)(Mask mask, Vector yes, Vector no) {
  return (Vector)((mask & (Mask)yes) | (~mask & (Mask)no));
}

INLINE Vector NAME(larger)(Vector a, Vector b) { return NAME(pick)(a > b, a, b); }

/* Of `count` vectors, a power of two, and of `best`; pairs first, so that no long chain is waited for. */
INLINE Vector NAME(largest)(Vector *a, Vector best, const int count) {
#pragma GCC unroll 8
  for (int half = count / 2; half > 0; half /= 2)
#pragma GCC unroll 8
    for (int i = 0; i < half; i++) a[i] = NAME(larger)(a[i], a[i + half]);
  return NAME(larger)(a[0], best);
}

/* e^x for x <= 0, to about one unit in the last place; 0 below the normal numbers; NaN stays NaN.
   x = n ln 2 + r, e^r = 1 + r + r^2 q(r) with q interpolated at Chebyshev's points. */
INLINE Vector NAME(exponential)(Vector x) {
#if SINGLE
  const REAL least = -87.0f, shift = 0x1.8p23f + 127, high = 0x1.63p-1f, low = -0x1.bd0106p-13f;
  const REAL q[] = {0.5f, 0.16666576989698775f, 0.041666554617204574f, 0.0083631790527225781f, 0.0013926183587713494f};
  const int digits = 23;
#else
  const REAL least = -708.0, shift = 0x1.8p52 + 1023, high = 0x1.62e42feep-1, low = 0x1.a39ef35793c76p-33;
  const REAL q[] = {0.50000000000000011,   0.16666666666666669,    0.041666666666624129,   0.0083333333333300615,
                    0.0013888888917213717, 0.00019841269863053618, 2.4801521295954376e-05, 2.7557268459997064e-06,
                    2.7620088445409746e-07, 2.510038549551032e-08};
  const int digits = 52;
#endif
  const int terms = sizeof(q) / sizeof(REAL);
  const Vector near = x * (REAL)1.4426950408889634 + shift, n = near - shift; /* n + bias: last bits of `near` */
  const Vector r = x - n * high - n * low;
  const Vector rr = r * r;
  Vector one = (Vector){0} + q[terms - 1], two = (Vector){0} + q[terms - 2]; /* every other term: two shorter chains */
#pragma GCC unroll 8
  for (int i = terms - 3; i >= 0; i -= 2) one = one * rr + q[i];
#pragma GCC unroll 8
  for (int i = terms - 4; i >= 0; i -= 2) two = two * rr + q[i];
  const Vector sum = terms % 2 ? two * r + one : one * r + two;
  const Vector power = (Vector)((Bits)near << digits);
  return NAME(pick)(x < least, (Vector){0}, (sum * rr + r + (REAL)1) * power);
}

/* ---- logits and exponentials --------------------------------------------------------------------- */

/* L of `rows` outputs from y on, into out (rows, LANES); their maxima with and without levels into `hard`, `most`. */
INLINE void NAME(logits)(const Block *b, long y, const REAL *side, const REAL *cost, long stride, long plane, REAL *out,
                         Vector *most, Vector *hard, const int rows) {
  const REAL *scores = (const REAL *)b->scores + y * b->private, *levels = (const REAL *)b->levels + y;
  for (long k = 0; k < b->costs; k++) /* of the outputs after these */
    for (int r = rows; r < 2 * rows; r++) {
      const char *next = (const char *)(cost + k * plane + r * stride);
      for (int line = 0; line < LANE_BYTES; line += 64) __builtin_prefetch(next + line);
    }
  for (int j = 0; j < SPAN; j += VECTORS) {
    Vector sum[ROWS][VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; v++) sum[r][v] = (Vector){0};
    for (long s = 0; s < b->private; s++) {
      const Vector *right = (const Vector *)(side + s * LANES) + j;
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; v++) sum[r][v] += scores[r * b->private + s] * right[v];
    }
    for (long k = 0; k < b->costs; k++) {
      const REAL price = ((const REAL *)b->prices)[k], *at = cost + k * plane + j * PER;
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; v++) sum[r][v] -= price * *(const Loose *)(at + r * stride + v * PER);
    }
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; v++) {
      Vector tops[ROWS], lifted[ROWS];
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++) {
        ((Vector *)(out + r * LANES))[j + v] = tops[r] = sum[r][v];
        lifted[r] = sum[r][v] + levels[r];
      }
      most[j + v] = NAME(largest)(tops, most[j + v], rows);
      hard[j + v] = NAME(largest)(lifted, hard[j + v], rows);
    }
  }
}

/* row * scale + sum_y w a b over a tile; a are costs, b too or (NULL) ones. */
INLINE void NAME(add_moment)(REAL *row, const Vector *scale, const REAL *weights, const REAL *a, const REAL *b,
                             long stride, long count) {
  Vector sum[SPAN] = {0};
  for (long y = 0; y < count; y++)
#pragma GCC unroll 8
    for (int v = 0; v < SPAN; v++) {
      Vector term = ((const Vector *)(weights + y * LANES))[v] * *(const Loose *)(a + y * stride + v * PER);
      if (b) term *= *(const Loose *)(b + y * stride + v * PER);
      sum[v] += term;
    }
  for (int v = 0; v < SPAN; v++) ((Vector *)row)[v] = ((Vector *)row)[v] * scale[v] + sum[v];
}

/* Weights and sums of one group of symbols over one chunk of outputs. */
TARGET static void NAME(exponentiate)(const Block *b, long group, long chunk, void *memory) {
  const long end = (chunk + 1) * CHUNK < b->outputs ? (chunk + 1) * CHUNK : b->outputs;
  const long left = b->symbols - group * LANES, lanes = left < LANES ? left : LANES;
  const REAL *side = (const REAL *)b->sides + group * b->private * LANES;
  REAL *part = (REAL *)b->parts + (chunk * b->groups + group) * rows_of_part(b) * LANES;
  Vector most[SPAN], hard[SPAN];
  for (int v = 0; v < SPAN; v++) most[v] = hard[v] = (Vector){0} + LOWEST;
  memset(part, 0, rows_of_part(b) * LANES * sizeof(REAL));
  for (long from = chunk * CHUNK; from < end; from += TILE) {
    const long count = from + TILE < end ? TILE : end - from;
    const REAL *cost = (const REAL *)b->cost + from * b->symbols + group * LANES;
    long stride = b->symbols, plane = b->outputs * b->symbols;
    if (lanes < LANES) { /* the last group: a copy with zeros beyond the last symbol */
      memset(memory, 0, b->costs * TILE * LANE_BYTES);
      for (long k = 0; k < b->costs; k++)
        for (long y = 0; y < count; y++)
          memcpy((REAL *)memory + (k * TILE + y) * LANES, cost + k * plane + y * stride, lanes * sizeof(REAL));
      cost = memory, stride = LANES, plane = TILE * LANES;
    }
    REAL *weights = (REAL *)b->weights + (group * b->outputs + from) * LANES;
    Vector before[SPAN], scale[SPAN];
    for (int v = 0; v < SPAN; v++) before[v] = most[v];
    long y = 0;
    for (; y + ROWS <= count; y += ROWS)
      NAME(logits)(b, from + y, side, cost + y * stride, stride, plane, weights + y * LANES, most, hard, ROWS);
    for (; y < count; y++)
      NAME(logits)(b, from + y, side, cost + y * stride, stride, plane, weights + y * LANES, most, hard, 1);
    Vector *top = (Vector *)((REAL *)b->tops + (from / TILE * b->groups + group) * LANES);
#pragma GCC unroll 8
    for (int v = 0; v < SPAN; v++) {
      const Vector most_now = top[v] = most[v];
      Vector *w = (Vector *)weights + v, sum = {0};
      for (long i = 0; i < count; i++, w += SPAN) sum += *w = NAME(exponential)(*w - most_now);
      scale[v] = NAME(exponential)(before[v] - most_now);
      Vector *total = (Vector *)(part + LANES) + v;
      *total = *total * scale[v] + sum;
    }
    REAL *row = part + 3 * LANES;
    for (long k = 0; k < b->costs; k++, row += LANES)
      NAME(add_moment)(row, scale, weights, cost + k * plane, NULL, stride, count);
    for (long i = 0; b->spread && i < b->costs; i++)
      for (long k = 0; k < b->costs; k++, row += LANES)
        NAME(add_moment)(row, scale, weights, cost + i * plane, cost + k * plane, stride, count);
  }
  for (int v = 0; v < SPAN; v++) ((Vector *)part)[v] = most[v], ((Vector *)(part + 2 * LANES))[v] = hard[v];
}

/* The chunks' sums of one group put together; all but the maxima divided by the total. The result is in the first. */
TARGET static void NAME(join)(const Block *b, long group) {
  const long rows = rows_of_part(b), chunks = chunks_of(b), next = b->groups * rows * LANES;
  int no_level = 0;
  for (long y = 0; y < b->outputs; y++) no_level |= isnan(((const REAL *)b->levels)[y]) != 0;
  REAL *first = (REAL *)b->parts + group * rows * LANES;
  for (int v = 0; v < SPAN; v++) {
    Vector *own = (Vector *)first + v, most = *own;
    for (long c = 1; c < chunks; c++) most = NAME(larger)(((Vector *)(first + c * next))[v], most);
    for (long c = 0; c < chunks; c++) {
      const Vector *part = (Vector *)(first + c * next) + v, scale = NAME(exponential)(*part - most);
      for (long r = 1; r < rows; r++) {
        Vector *sum = own + r * SPAN;
        const Vector term = r == 2 ? part[r * SPAN] : part[r * SPAN] * scale;
        *sum = c == 0 ? term : r == 2 ? NAME(larger)(term, *sum) : *sum + term;
      }
    }
    /* Maxima pass over NaN. A total is 1 or more, unless a logit is NaN or none is finite. */
    const Vector fault = NAME(pick)(own[SPAN] > 0, (Vector){0}, (Vector){0} + (REAL)NAN);
    *own = most + fault, own[SPAN] += fault, own[2 * SPAN] += fault + (no_level ? (REAL)NAN : 0);
    for (long r = 3; r < rows; r++) own[r * SPAN] /= own[SPAN];
  }
}

/* ---- the second product -------------------------------------------------------------------------- */

/* out (rows, vectors PER) += w (rows, LANES) right (LANES, wide). */
INLINE void NAME(add_product)(const REAL *w, const REAL *right, REAL *out, long wide, const int rows,
                              const int vectors) {
  Vector sum[ROWS][VECTORS];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) sum[r][v] = ((Vector *)(out + r * wide))[v];
  for (long x = 0; x < LANES; x++, right += wide)
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; v++) sum[r][v] += w[r * LANES + x] * ((const Vector *)right)[v];
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) ((Vector *)(out + r * wide))[v] = sum[r][v];
}

INLINE void NAME(add_products)(const REAL *w, const REAL *right, REAL *out, long wide, const int rows) {
  long j = 0;
  for (; j + VECTORS * PER <= wide; j += VECTORS * PER) NAME(add_product)(w, right + j, out + j, wide, rows, VECTORS);
  for (; j < wide; j += PER) NAME(add_product)(w, right + j, out + j, wide, rows, 1);
}

/* Columns of one tile of outputs. `memory`: TILE wide + LANES wide numbers. */
TARGET static void NAME(multiply)(const Block *b, long tile, void *memory) {
  const long from = tile * TILE, count = from + TILE < b->outputs ? TILE : b->outputs - from, wide = b->wide;
  REAL *sum = memory, *right = sum + TILE * wide;
  memset(sum, 0, TILE * wide * sizeof(REAL));
  for (long group = 0; group < b->groups; group++) {
    const REAL *weights = (const REAL *)b->weights + (group * b->outputs + from) * LANES;
    const REAL *joint = (const REAL *)b->rights + group * LANES * wide;
    const Vector *top = (const Vector *)((const REAL *)b->parts + group * rows_of_part(b) * LANES);
    const Vector *own = (const Vector *)((const REAL *)b->tops + (tile * b->groups + group) * LANES);
    Vector factor[SPAN];
    for (int v = 0; v < SPAN; v++) factor[v] = NAME(exponential)(own[v] - top[v]) / top[SPAN + v];
    for (long x = 0; x < LANES; x++) {
      const REAL f = ((REAL *)factor)[x], *row = joint + x * wide;
      for (long j = 0; j < wide; j += PER) *(Vector *)(right + x * wide + j) = f * *(const Vector *)(row + j);
    }
    long y = 0;
    for (; y + ROWS <= count; y += ROWS) {
      const char *next = (const char *)(weights + (b->outputs + y) * LANES); /* of the group after this */
      for (int line = 0; line < ROWS * LANE_BYTES; line += 64) __builtin_prefetch(next + line);
      NAME(add_products)(weights + y * LANES, right, sum + y * wide, wide, ROWS);
    }
    for (; y < count; y++) NAME(add_products)(weights + y * LANES, right, sum + y * wide, wide, 1);
  }
  for (long y = 0; y < count; y++)
    memcpy((REAL *)b->columns + (from + y) * b->private, sum + y * wide, b->private * sizeof(REAL));
}

/* ---- in and out ---------------------------------------------------------------------------------- */

/* - P(s|x) with symbols side by side, and J with its rows padded. Beyond the last symbol are its P(s|x) once more, so
   that no other logits are infinite than its own, and J = 0. */
TARGET static void NAME(pack)(const Block *b) {
  REAL *sides = b->sides, *rights = b->rights;
  for (long x = 0; x < b->groups * LANES; x++) {
    const REAL *conditional = (const REAL *)b->conditional + (x < b->symbols ? x : b->symbols - 1) * b->private;
    REAL *side = sides + x / LANES * b->private * LANES + x % LANES;
    for (long s = 0; s < b->private; s++) side[s * LANES] = -conditional[s];
  }
  memset(rights, 0, b->groups * LANES * b->wide * sizeof(REAL));
  for (long x = 0; x < b->symbols; x++)
    memcpy(rights + x * b->wide, (const REAL *)b->joint + x * b->private, b->private * sizeof(REAL));
}

/* Row r of the joined parts of all groups, to one number for each symbol. */
TARGET static void NAME(unpack)(const Block *b, long r, void *out) {
  for (long x = 0; x < b->symbols; x++)
    ((REAL *)out)[x] = ((REAL *)b->parts)[(x / LANES * rows_of_part(b) + r) * LANES + x % LANES];
}

#undef SINGLE
#undef Vector
#undef Loose
#undef Mask
#undef Bits
#undef REAL
#undef INTEGER
#undef UNSIGNED
#undef LOWEST
#undef LANES
#undef PER
#undef SPAN
#undef WIDTH
#undef ROWS
#undef VECTORS
#undef TARGET
#undef NAME
