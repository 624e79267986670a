/* The body of gibbs.c for one precision: SINGLE, float or double. FOR(f): f with its name. */

#if SINGLE
#define REAL float
#define INTEGER int32_t
#define UNSIGNED uint32_t
#define LOWEST (-0x1.fffffep127f)
#define TERMS 6
#define DIGITS 23
#else
#define REAL double
#define INTEGER int64_t
#define UNSIGNED uint64_t
#define LOWEST (-0x1.fffffffffffffp1023)
#define TERMS 11
#define DIGITS 52
#endif

typedef REAL Vector __attribute__((vector_size(WIDTH)));
typedef REAL Loose __attribute__((vector_size(WIDTH), aligned(sizeof(REAL)))); /* at any address */
typedef INTEGER Mask __attribute__((vector_size(WIDTH)));
typedef UNSIGNED Bits __attribute__((vector_size(WIDTH)));

INLINE Vector FOR(pick)(Mask mask, Vector yes, Vector no) {
  return (Vector)((mask & (Mask)yes) | (~mask & (Mask)no));
}

INLINE Vector FOR(larger)(Vector a, Vector b) { return FOR(pick)(a > b, a, b); }

/* Of `count` vectors, a power of two, and of `best`; pairs first, so that no long chain is waited for. */
INLINE Vector FOR(largest)(Vector *a, Vector best, const int count) {
  UNROLLED for (int half = count / 2; half > 0; half /= 2)
    UNROLLED for (int i = 0; i < half; i++) a[i] = FOR(larger)(a[i], a[i + half]);
  return FOR(larger)(a[0], best);
}

/* 2^x for x <= 0, good to one unit in the last place; 0 below the normal numbers; NaN stays NaN.
   x = n + r with n whole, 2^r = 1 + r q(r), whose largest relative error on [-1/2, 1/2] is as small as can be. */
typedef struct {
  Vector least, shift, q[TERMS];
} Constants;

/* HOLD keeps them in registers: compilers take constants for free and load all of them for every vector again. */
INLINE void FOR(constants)(Constants *c) {
#if SINGLE
  const REAL least = -126, shift = 0x1.8p23f;
  const REAL q[] = {0x1.62e43p-1f, 0x1.ebfbdcp-3f, 0x1.c6aee8p-5f, 0x1.3b2d4cp-7f, 0x1.5f3e52p-10f, 0x1.41fbbcp-13f};
#else
  const REAL least = -1022, shift = 0x1.8p52;
  const REAL q[] = {0.6931471805599453,     0.2402265069591013,     0.055504108664820084,   0.00961812910759412,
                    0.001333355814677462,   0.0001540353045711209,  1.5252733493127489e-05, 1.3215435282308488e-06,
                    1.0178199571842138e-07, 7.073783248503134e-09,  4.434771298200377e-10};
#endif
  c->least = (Vector){0} + least, c->shift = (Vector){0} + shift;
  HOLD(c->least);
  HOLD(c->shift);
  UNROLLED for (int i = 0; i < TERMS; i++) {
    c->q[i] = (Vector){0} + q[i];
    HOLD(c->q[i]);
  }
}

INLINE Vector FOR(power)(Vector x, const Constants *c) {
  const Vector near = x + c->shift, r = x - (near - c->shift); /* n: the last bits of `near` */
  const Vector rr = r * r;
  Vector one = c->q[TERMS - 1], two = c->q[TERMS - 2]; /* every other term: two shorter chains */
  UNROLLED for (int i = TERMS - 3; i >= 0; i -= 2) one = one * rr + c->q[i];
  UNROLLED for (int i = TERMS - 4; i >= 0; i -= 2) two = two * rr + c->q[i];
  const Vector sum = (TERMS % 2 ? two * r + one : one * r + two) * r + (REAL)1;
  return FOR(pick)(x < c->least, (Vector){0}, (Vector)((Bits)sum + ((Bits)near << DIGITS)));
}

/* ---- logits and exponentials --------------------------------------------------------------------- */

/* L of `rows` outputs from y on, into out (rows, LANES); their maxima with and without levels into `hard`, `most`. */
INLINE void FOR(logits)(const Block *b, long y, const REAL *side, const REAL *cost, long stride, long plane, REAL *out,
                Vector *most, Vector *hard, const int rows) {
  const REAL *scores = (const REAL *)b->scores + y * b->private, *levels = (const REAL *)b->lifts + y;
  for (long k = 0; k < b->costs; k++) /* of the outputs after these */
    for (int r = rows; r < 2 * rows; r++) {
      const char *next = (const char *)(cost + k * plane + r * stride);
      for (int line = 0; line < LANE_BYTES; line += 64) __builtin_prefetch(next + line);
    }
  for (int j = 0; j < SPAN; j += VECTORS) {
    Vector sum[ROWS][VECTORS];
    UNROLLED for (int r = 0; r < rows; r++)
      UNROLLED for (int v = 0; v < VECTORS; v++) sum[r][v] = (Vector){0};
    for (long s = 0; s < b->private; s++) {
      const Vector *right = (const Vector *)(side + s * LANES) + j;
      UNROLLED for (int r = 0; r < rows; r++)
        UNROLLED for (int v = 0; v < VECTORS; v++) sum[r][v] += scores[r * b->private + s] * right[v];
    }
    for (long k = 0; k < b->costs; k++) {
      const REAL price = LOG2_E * ((const REAL *)b->prices)[k], *at = cost + k * plane + j * PER;
      UNROLLED for (int r = 0; r < rows; r++)
        UNROLLED for (int v = 0; v < VECTORS; v++) sum[r][v] -= price * *(const Loose *)(at + r * stride + v * PER);
    }
    UNROLLED for (int v = 0; v < VECTORS; v++) {
      Vector tops[ROWS], lifted[ROWS];
      UNROLLED for (int r = 0; r < rows; r++) {
        ((Vector *)(out + r * LANES))[j + v] = tops[r] = sum[r][v];
        lifted[r] = sum[r][v] + levels[r];
      }
      most[j + v] = FOR(largest)(tops, most[j + v], rows);
      hard[j + v] = FOR(largest)(lifted, hard[j + v], rows);
    }
  }
}

/* row * scale + sum_y w a b over a tile; a are costs, b too or (NULL) ones. */
INLINE void FOR(add_moment)(REAL *row, const Vector *scale, const REAL *weights, const REAL *a, const REAL *b,
                long stride, long count) {
  Vector sum[SPAN] = {0};
  for (long y = 0; y < count; y++)
    UNROLLED for (int v = 0; v < SPAN; v++) {
      Vector term = ((const Vector *)(weights + y * LANES))[v] * *(const Loose *)(a + y * stride + v * PER);
      if (b) term *= *(const Loose *)(b + y * stride + v * PER);
      sum[v] += term;
    }
  for (int v = 0; v < SPAN; v++) ((Vector *)row)[v] = ((Vector *)row)[v] * scale[v] + sum[v];
}

/* Weights and sums of one group of symbols over one chunk of outputs. */
static void FOR(exponentiate)(const Block *b, long group, long chunk, void *memory) {
  const long end = (chunk + 1) * CHUNK < b->outputs ? (chunk + 1) * CHUNK : b->outputs;
  const long left = b->symbols - group * LANES, lanes = left < LANES ? left : LANES;
  const REAL *side = (const REAL *)b->sides + group * b->private * LANES;
  Constants powers;
  FOR(constants)(&powers);
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
      FOR(logits)(b, from + y, side, cost + y * stride, stride, plane, weights + y * LANES, most, hard, ROWS);
    for (; y < count; y++)
      FOR(logits)(b, from + y, side, cost + y * stride, stride, plane, weights + y * LANES, most, hard, 1);
    Vector *top = (Vector *)((REAL *)b->tops + (from / TILE * b->groups + group) * LANES);
    for (int j = 0; j < SPAN; j += VECTORS) { /* several vectors side by side need each constant once */
      Vector sum[VECTORS], mean[VECTORS], most_now[VECTORS], *w = (Vector *)weights + j;
      const REAL *first = cost + j * PER;
      UNROLLED for (int v = 0; v < VECTORS; v++) sum[v] = mean[v] = (Vector){0}, most_now[v] = top[j + v] = most[j + v];
      for (long i = 0; i < count; i++, w += SPAN, first += stride)
        UNROLLED for (int v = 0; v < VECTORS; v++) {
          const Vector weight = w[v] = FOR(power)(w[v] - most_now[v], &powers);
          sum[v] += weight, mean[v] += weight * *(const Loose *)(first + v * PER);
        }
      UNROLLED for (int v = 0; v < VECTORS; v++) {
        scale[j + v] = FOR(power)(before[j + v] - most_now[v], &powers);
        Vector *total = (Vector *)(part + LANES) + j + v;
        *total = *total * scale[j + v] + sum[v];
        total[2 * SPAN] = total[2 * SPAN] * scale[j + v] + mean[v];
      }
    }
    REAL *row = part + 4 * LANES;
    for (long k = 1; k < b->costs; k++, row += LANES)
      FOR(add_moment)(row, scale, weights, cost + k * plane, NULL, stride, count);
    for (long i = 0; b->spread && i < b->costs; i++)
      for (long k = 0; k < b->costs; k++, row += LANES)
        FOR(add_moment)(row, scale, weights, cost + i * plane, cost + k * plane, stride, count);
  }
  for (int v = 0; v < SPAN; v++) ((Vector *)part)[v] = most[v], ((Vector *)(part + 2 * LANES))[v] = hard[v];
}

/* The chunks' sums of one group put together; all but the maxima divided by the total. The result is in the first. */
static void FOR(join)(const Block *b, long group) {
  const long rows = rows_of_part(b), chunks = chunks_of(b), next = b->groups * rows * LANES;
  int no_level = 0;
  for (long y = 0; y < b->outputs; y++) no_level |= isnan(((const REAL *)b->levels)[y]) != 0;
  Constants powers;
  FOR(constants)(&powers);
  REAL *first = (REAL *)b->parts + group * rows * LANES;
  for (int v = 0; v < SPAN; v++) {
    Vector *own = (Vector *)first + v, most = *own;
    for (long c = 1; c < chunks; c++) most = FOR(larger)(((Vector *)(first + c * next))[v], most);
    for (long c = 0; c < chunks; c++) {
      const Vector *part = (Vector *)(first + c * next) + v, scale = FOR(power)(*part - most, &powers);
      for (long r = 1; r < rows; r++) {
        Vector *sum = own + r * SPAN;
        const Vector term = r == 2 ? part[r * SPAN] : part[r * SPAN] * scale;
        *sum = c == 0 ? term : r == 2 ? FOR(larger)(term, *sum) : *sum + term;
      }
    }
    /* Maxima pass over NaN. A total is 1 or more, unless a logit is NaN or none is finite. */
    const Vector fault = FOR(pick)(own[SPAN] > 0, (Vector){0}, (Vector){0} + (REAL)NAN);
    *own = most + fault, own[SPAN] += fault, own[2 * SPAN] += fault + (no_level ? (REAL)NAN : 0);
    for (long r = 3; r < rows; r++) own[r * SPAN] /= own[SPAN];
  }
}

/* ---- the second product -------------------------------------------------------------------------- */

/* out (rows, vectors PER) += w (rows, LANES) right (LANES, wide). */
INLINE void FOR(add_product)(const REAL *w, const REAL *right, REAL *out, long wide, const int rows, const int vectors) {
  Vector sum[ROWS][VECTORS];
  UNROLLED for (int r = 0; r < rows; r++)
    UNROLLED for (int v = 0; v < vectors; v++) sum[r][v] = ((Vector *)(out + r * wide))[v];
  for (long x = 0; x < LANES; x++, right += wide)
    UNROLLED for (int r = 0; r < rows; r++)
      UNROLLED for (int v = 0; v < vectors; v++) sum[r][v] += w[r * LANES + x] * ((const Vector *)right)[v];
  UNROLLED for (int r = 0; r < rows; r++)
    UNROLLED for (int v = 0; v < vectors; v++) ((Vector *)(out + r * wide))[v] = sum[r][v];
}

INLINE void FOR(add_products)(const REAL *w, const REAL *right, REAL *out, long wide, const int rows) {
  long j = 0;
  for (; j + VECTORS * PER <= wide; j += VECTORS * PER) FOR(add_product)(w, right + j, out + j, wide, rows, VECTORS);
  for (; j < wide; j += PER) FOR(add_product)(w, right + j, out + j, wide, rows, 1);
}

/* J times what the exponentials of a tile lack to the mechanism: factors (LANES,) of a group. */
INLINE void FOR(factors)(const Block *b, long tile, long group, Vector *factor) {
  const Vector *top = (const Vector *)((const REAL *)b->parts + group * rows_of_part(b) * LANES);
  const Vector *own = (const Vector *)((const REAL *)b->tops + (tile * b->groups + group) * LANES);
  Constants powers;
  FOR(constants)(&powers);
  for (int v = 0; v < SPAN; v++) factor[v] = FOR(power)(own[v] - top[v], &powers) / top[SPAN + v];
}

/* Columns of one tile of outputs. `memory`: TILE wide + LANES wide numbers. */
INLINE void FOR(multiply_many)(const Block *b, long tile, REAL *memory) {
  const long from = tile * TILE, count = from + TILE < b->outputs ? TILE : b->outputs - from, wide = b->wide;
  REAL *sum = memory, *right = sum + TILE * wide;
  memset(sum, 0, TILE * wide * sizeof(REAL));
  for (long group = 0; group < b->groups; group++) {
    const REAL *weights = (const REAL *)b->weights + (group * b->outputs + from) * LANES;
    const REAL *joint = (const REAL *)b->rights + group * LANES * wide;
    Vector factor[SPAN];
    FOR(factors)(b, tile, group, factor);
    for (long x = 0; x < LANES; x++) {
      const REAL f = ((REAL *)factor)[x], *row = joint + x * wide;
      for (long j = 0; j < wide; j += PER) *(Vector *)(right + x * wide + j) = f * *(const Vector *)(row + j);
    }
    long y = 0;
    for (; y + ROWS <= count; y += ROWS) {
      const char *next = (const char *)(weights + (b->outputs + y) * LANES); /* of the group after this */
      for (int line = 0; line < ROWS * LANE_BYTES; line += 64) __builtin_prefetch(next + line);
      FOR(add_products)(weights + y * LANES, right, sum + y * wide, wide, ROWS);
    }
    for (; y < count; y++) FOR(add_products)(weights + y * LANES, right, sum + y * wide, wide, 1);
  }
  for (long y = 0; y < count; y++)
    memcpy((REAL *)b->columns + (from + y) * b->private, sum + y * wide, b->private * sizeof(REAL));
}

/* The numbers of a and b at places that are constants only after loops are unrolled: clang's shuffle does not take
   these, and it makes one of the loop. */
INLINE Vector FOR(at)(Vector a, Vector b, const Mask places) {
#if defined(__clang__)
  Vector out;
  UNROLLED for (int i = 0; i < PER; i++) out[i] = places[i] < PER ? a[places[i] & (PER - 1)] : b[places[i] & (PER - 1)];
  return out;
#else
  return __builtin_shuffle(a, b, places);
#endif
}

/* The sums of PER vectors, in one: at every step two vectors become one, whose halves, quarters, ... are theirs. */
INLINE Vector FOR(totals)(const Vector *sums) {
  const Mask place = {
#if WIDTH == 16 && !SINGLE
      PLACES_2
#elif WIDTH == 16 || (WIDTH == 32 && !SINGLE)
      PLACES_4
#elif WIDTH == 32 || !SINGLE
      PLACES_8
#else
      PLACES_16
#endif
  };
  Vector rest[PER];
  UNROLLED for (int i = 0; i < PER; i++) rest[i] = sums[i];
  UNROLLED for (int half = PER / 2; half > 0; half /= 2) {
    const Mask second = ((place & half) != 0) & PER; /* the places that show the second vector */
    UNROLLED for (int i = 0; i < half; i++)
      rest[i] = FOR(at)(rest[i], rest[i + half], place + second) +
                FOR(at)(rest[i], rest[i + half], (place ^ half) + second);
  }
  return rest[0];
}

/* columns (rows, count) = sum over groups of w (rows, LANES) right (count, LANES), count <= FEW. */
INLINE void FOR(dots)(const Block *b, const REAL *weights, const REAL *right, REAL *columns, const int rows,
                const int count) {
  Vector sum[FEW_ROWS * FEW];
  UNROLLED for (int i = 0; i < FEW_ROWS * FEW; i++) sum[i] = (Vector){0};
  for (long group = 0; group < b->groups; group++) {
    const REAL *w = weights + group * b->outputs * LANES;
    const Vector *side = (const Vector *)(right + group * b->private * LANES);
    for (int r = rows; r < 2 * rows; r++)
      for (int line = 0; line < LANE_BYTES; line += 64) __builtin_prefetch((const char *)(w + r * LANES) + line);
    UNROLLED for (int v = 0; v < SPAN; v++)
      UNROLLED for (int r = 0; r < rows; r++) {
        const Vector own = ((const Vector *)(w + r * LANES))[v];
        UNROLLED for (int s = 0; s < count; s++) sum[r * FEW + s] += own * side[s * SPAN + v];
      }
  }
  REAL all[FEW_ROWS * FEW] __attribute__((aligned(WIDTH)));
  UNROLLED for (int i = 0; i < FEW_ROWS * FEW; i += PER) *(Vector *)(all + i) = FOR(totals)(sum + i);
  for (int r = 0; r < rows; r++) memcpy(columns + r * b->private, all + r * FEW, count * sizeof(REAL));
}

INLINE void FOR(few_columns)(const Block *b, const REAL *weights, const REAL *right, REAL *columns, const int rows) {
  for (long s = 0; s < b->private; s += FEW, right += FEW * LANES) {
    const long left = b->private - s;
    if (left >= 4)
      FOR(dots)(b, weights, right, columns + s, rows, 4);
    else if (left == 3)
      FOR(dots)(b, weights, right, columns + s, rows, 3);
    else if (left == 2)
      FOR(dots)(b, weights, right, columns + s, rows, 2);
    else
      FOR(dots)(b, weights, right, columns + s, rows, 1);
  }
}

/* The same for few private symbols: sums over the vectors of x, and over their numbers at the end. `memory`: groups S LANES numbers. */
INLINE void FOR(multiply_few)(const Block *b, long tile, REAL *right) {
  const long from = tile * TILE, count = from + TILE < b->outputs ? TILE : b->outputs - from;
  for (long group = 0; group < b->groups; group++) {
    Vector factor[SPAN];
    FOR(factors)(b, tile, group, factor);
    for (long i = group * b->private * SPAN, end = i + b->private * SPAN; i < end; i += SPAN)
      for (int v = 0; v < SPAN; v++) ((Vector *)right)[i + v] = factor[v] * ((const Vector *)b->rights)[i + v];
  }
  const REAL *weights = (const REAL *)b->weights + from * LANES;
  REAL *columns = (REAL *)b->columns + from * b->private;
  long y = 0;
  for (; y + FEW_ROWS <= count; y += FEW_ROWS)
    FOR(few_columns)(b, weights + y * LANES, right, columns + y * b->private, FEW_ROWS);
  for (; y < count; y++) FOR(few_columns)(b, weights + y * LANES, right, columns + y * b->private, 1);
}

static void FOR(multiply)(const Block *b, long tile, void *memory) {
  if (b->few)
    FOR(multiply_few)(b, tile, memory);
  else
    FOR(multiply_many)(b, tile, memory);
}

/* ---- in and out ---------------------------------------------------------------------------------- */

/* - P(s|x) with symbols side by side; J so too where it is wanted so, or with its rows padded. Beyond the last symbol
   are its P(s|x) once more, so that no other logits are infinite than its own, and J = 0. */
static void FOR(pack)(const Block *b) {
  REAL *rights = b->rights;
  for (long y = 0; y < b->outputs; y++) ((REAL *)b->lifts)[y] = LOG2_E * ((const REAL *)b->levels)[y];
  memset(rights, 0, b->groups * LANES * b->wide * sizeof(REAL));
  for (long x = 0; x < b->groups * LANES; x++) {
    const long symbol = x < b->symbols ? x : b->symbols - 1;
    const long place = x / LANES * b->private * LANES + x % LANES;
    const REAL *conditional = (const REAL *)b->conditional + symbol * b->private;
    const REAL *joint = (const REAL *)b->joint + symbol * b->private;
    for (long s = 0; s < b->private; s++) ((REAL *)b->sides)[place + s * LANES] = -LOG2_E * conditional[s];
    if (x > symbol) continue;
    for (long s = 0; b->few && s < b->private; s++) rights[place + s * LANES] = joint[s];
    if (!b->few) memcpy(rights + x * b->wide, joint, b->private * sizeof(REAL));
  }
}

/* Row r of the joined parts of all groups, to one number for each symbol; top and hard are logits. */
static void FOR(unpack)(const Block *b, long r, void *out) {
  const REAL unit = r == 0 || r == 2 ? LN_2 : 1;
  for (long x = 0; x < b->symbols; x++)
    ((REAL *)out)[x] = unit * ((REAL *)b->parts)[(x / LANES * rows_of_part(b) + r) * LANES + x % LANES];
}

#undef SINGLE
#undef REAL
#undef INTEGER
#undef UNSIGNED
#undef LOWEST
#undef TERMS
#undef DIGITS
#undef FOR
