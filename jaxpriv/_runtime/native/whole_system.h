/* The Newton system of whole solves (`whole.h`), for one instruction set: the outputs of a vector side by side.

   With s = (x/z)^1/2, h = d^-1/2 and u the direction of h times the normal, B_y = (1 - u u') h A s and
   1 + B_y'B_y = (K_y'K_y)^-1; what is kept is K_y s, in panels of SIDE columns: rows from the diagonal on, SIDE vectors
   each. `jaxpriv.solvers._newton_system` has the equations (`input_system`). */

/* How much a diagonal is raised first, and from where on no more: of `_newton_system`. */
#define LEAST_SHIFT 1e-14
#define MOST_SHIFT 1e-4
#define HALF (ROWS < 8 ? 2 : 4) /* rows of a block whose sums are in registers */

static inline long panel_at(long columns, long j) { return (columns - (j - SIDE) / 2) * j; }

/* s += sign a'b for columns of SIDE vectors. */
INLINE void multiply(long depth, const Vector *a, long lda, const Vector *b, long ldb, double sign, Vector *s) {
  UNROLLED for (int from = 0; from < SIDE; from += HALF) {
    Vector sum[HALF][SIDE];
    UNROLLED for (int i = 0; i < HALF; i++)
      UNROLLED for (int j = 0; j < SIDE; j++) sum[i][j] = (Vector){0};
    for (long k = 0; k < depth; k++) {
      const Vector *left = a + k * lda + from, *right = b + k * ldb;
      UNROLLED for (int i = 0; i < HALF; i++)
        UNROLLED for (int j = 0; j < SIDE; j++) sum[i][j] += left[i] * right[j];
    }
    UNROLLED for (int i = 0; i < HALF; i++)
      UNROLLED for (int j = 0; j < SIDE; j++) s[(from + i) * SIDE + j] += sign * sum[i][j];
  }
}

/* The inverse d of the lower triangular factor of s (SIDE, SIDE), of which the lower half is used up; above the diagonal
   d is zero. */
INLINE void corner_factor(Vector *s, Vector *d) {
  UNROLLED for (int i = 0; i < SIDE; i++)
    UNROLLED for (int j = 0; j < SIDE; j++) d[i * SIDE + j] = all_of(i == j);
  UNROLLED for (int j = 0; j < SIDE; j++) {
    const Vector inverse = 1.0 / root_of(s[j * SIDE + j]);
    Vector below[SIDE];
    UNROLLED for (int c = 0; c <= j; c++) d[j * SIDE + c] *= inverse;
    UNROLLED for (int i = j + 1; i < SIDE; i++) {
      below[i] = s[i * SIDE + j] * inverse;
      UNROLLED for (int c = j + 1; c <= i; c++) s[i * SIDE + c] -= below[i] * below[c];
      UNROLLED for (int c = 0; c <= j; c++) d[i * SIDE + c] -= below[i] * d[j * SIDE + c];
    }
  }
}

/* K s of the outputs of one vector, from B (T, columns) and s (columns): panels into `k`. `l`: row panels of the factor
   below the diagonal; `d`: inverses of its blocks on it. The diagonal of 1 + B'B is raised by `shift` times itself. Whether
   all was positive, of every output. */
static Places factor_outputs(long depth, long columns, const Vector *b, const Vector *s, Vector shift, Vector *k,
                             Vector *l, Vector *d) {
  for (long i = 0; i < columns; i += SIDE) {
    Vector *own = l + i * (i - SIDE) / 2, *corner = d + i * SIDE, block[SIDE * SIDE];
    for (long j = 0; j <= i; j += SIDE) {
      UNROLLED for (int r = 0; r < SIDE; r++)
        UNROLLED for (int c = 0; c < SIDE; c++) block[r * SIDE + c] = all_of(i == j && r == c);
      multiply(depth, b + i, columns, b + j, columns, 1.0, block);
      for (int r = 0; i == j && r < SIDE; r++) block[r * SIDE + r] += shift * block[r * SIDE + r];
      multiply(j, own, SIDE, l + j * (j - SIDE) / 2, SIDE, -1.0, block);
      if (j == i) break;
      const Vector *inverse = d + j * SIDE;
      UNROLLED for (int c = 0; c < SIDE; c++)
        UNROLLED for (int r = 0; r < SIDE; r++) {
          Vector sum = block[r * SIDE] * inverse[c * SIDE];
          UNROLLED for (int e = 1; e <= c; e++) sum += block[r * SIDE + e] * inverse[c * SIDE + e];
          own[(j + c) * SIDE + r] = sum;
        }
    }
    corner_factor(block, corner);
    for (long j = 0; j <= i; j += SIDE) {
      Vector *panel = k + panel_at(columns, j), *row = panel + (i - j) * SIDE;
      if (j == i) {
        for (int r = 0; r < SIDE; r++)
          for (int c = 0; c < SIDE; c++) row[r * SIDE + c] = corner[r * SIDE + c] * s[i + c];
        break;
      }
      memset(block, 0, sizeof block);
      multiply(i - j, own + j * SIDE, SIDE, panel, SIDE, -1.0, block);
      UNROLLED for (int r = 0; r < SIDE; r++)
        UNROLLED for (int c = 0; c < SIDE; c++) {
          Vector sum = corner[r * SIDE] * block[c];
          UNROLLED for (int e = 1; e <= r; e++) sum += corner[r * SIDE + e] * block[e * SIDE + c];
          row[r * SIDE + c] = sum;
        }
    }
  }
  Vector last = {0}; /* what is not positive makes all of the last row no number */
  for (long j = 0; j < columns; j += SIDE)
    for (int c = 0; c < SIDE; c++) last += k[panel_at(columns, j) + (columns - 1 - j) * SIDE + c];
  return last - last == 0.0;
}

/* ---- products with A -------------------------------------------------------------------------------- */

/* out_m (n) = sum_t a[t] v_m[t] of the outputs of one vector, for `sides` of them; a (count, n), n a multiple of SIDE; v_m
   and out_m are `ldv` and `ldo` apart. */
INLINE void weighted_rows(const int sides, long count, long n, const double *a, const Vector *v, long ldv, Vector *out,
                          long ldo) {
  for (long i = 0; i < n; i += SIDE) {
    Vector sum[AT_ONCE][SIDE];
    UNROLLED for (int m = 0; m < sides; m++)
      UNROLLED for (int j = 0; j < SIDE; j++) sum[m][j] = (Vector){0};
    for (long t = 0; t < count; t++)
      UNROLLED for (int m = 0; m < sides; m++)
        UNROLLED for (int j = 0; j < SIDE; j++) sum[m][j] += a[t * n + i + j] * v[m * ldv + t];
    UNROLLED for (int m = 0; m < sides; m++)
      UNROLLED for (int j = 0; j < SIDE; j++) out[m * ldo + i + j] = sum[m][j];
  }
}

/* The same for every output, of v (count, Y) into out (found, Y); n is `found` as a multiple of SIDE. */
static void weighted(const Space *w, long count, long found, long n, const double *a, const double *v, double *out) {
  const long across = w->across / LANES;
  for (long y = 0; y < across; y++) {
    Vector *in = (Vector *)w->gather, *sums = in + count;
    for (long t = 0; t < count; t++) in[t] = ((const Vector *)v)[t * across + y];
    weighted_rows(1, count, n, a, in, 0, sums, 0);
    for (long i = 0; i < found; i++) ((Vector *)out)[i * across + y] = sums[i];
  }
}

/* A x of every output, (T, Y), of x (X, Y) and A with the inputs first. */
static void rows_of(const Space *w, const double *turned, const double *x, double *out) {
  weighted(w, w->inputs, w->private, w->lines, turned, x, out);
}

/* A'k of every output, (X, Y), of k (T, Y). */
static void columns_of(const Space *w, const double *rows, const double *k, double *out) {
  weighted(w, w->private, w->inputs, w->columns, rows, k, out);
}

/* ---- factors ---------------------------------------------------------------------------------------- */

/* Everything that the solutions need, at the point. 0: the sum of the outputs has no factor. */
APART int factor_system(Space *w) {
  const long across = w->across / LANES, columns = w->columns, count = w->private, n = padded(w->inputs);
  const long triangle = panel_at(columns, columns);
  const long deep = w->deep;
  Vector *s = (Vector *)w->gather, *seen = s + columns, *b = seen + columns, *total = (Vector *)w->total;
  const Vector *x = (const Vector *)w->point.x, *inverse = (const Vector *)w->inverse_z;
  const Vector *wanted = (const Vector *)w->curved, *mass = (const Vector *)w->t;
  memset(total, 0, columns * (columns + SIDE) / 2 * sizeof(Vector));
  memset(s, 0, columns * sizeof(Vector));
  for (long v = 0; v < across; v++) {
    Vector *h = (Vector *)w->h + v * deep, *u = (Vector *)w->u + v * count;
    for (long i = 0; i < w->inputs; i++) s[i] = root_of(x[i * across + v] * inverse[i * across + v]);
    Vector length = {0};
    for (long t = 0; t < count; t++) {
      const double *a = w->rows + t * columns;
      Vector square = {0}, d = wanted[t * across + v];
      for (long i = 0; i < columns; i++) {
        const Vector part = a[i] * s[i];
        square += part * part;
      }
      d = larger(d, LEAST * square);
      h[t] = pick(d > 0.0, 1.0 / root_of(d), (Vector){0});
      u[t] = h[t] * ((const Vector *)w->normal)[t * across + v] * mass[v];
      length += u[t] * u[t];
    }
    length = root_of(length);
    const Vector shorter = pick(length > 0.0, 1.0 / length, (Vector){0});
    ((Vector *)w->shorter)[v] = shorter;
    for (long t = 0; t < count; t++) b[t] = (u[t] *= shorter) * h[t];
    weighted_rows(1, count, columns, w->rows, b, 0, seen, 0);
    for (long t = 0; t < count; t++)
      for (long i = 0; i < columns; i++)
        b[t * columns + i] = (h[t] * w->rows[t * columns + i] - u[t] * seen[i]) * s[i];
    if (WORST) {
      Vector square = {0}, *own = b + count * columns;
      memset(own, 0, columns * sizeof(Vector));
      for (long i = 0; i < w->inputs; i++) {
        own[i] = ((const Vector *)w->line)[i * across + v] * s[i];
        square += own[i] * own[i];
      }
      const Vector d = larger(((const Vector *)w->tight)[v], LEAST * square);
      h[count] = pick(d > 0.0, 1.0 / root_of(d), (Vector){0});
      for (long i = 0; i < w->inputs; i++) own[i] *= h[count];
    }
    Vector *k = (Vector *)w->k + v * triangle;
    Vector shift = {0};
    for (int again = 1; again;) {
      const Places good = factor_outputs(deep, columns, b, s, shift, k, (Vector *)w->l, (Vector *)w->d);
      const Vector more = larger(shift * 100.0, all_of(LEAST_SHIFT));
      const Vector next = pick(good | (shift >= MOST_SHIFT), shift, more);
      again = largest_of(next - shift) > 0.0, shift = next;
    }
    for (long i = 0, at = 0; i < columns; i += SIDE)
      for (long j = 0; j <= i; j += SIDE, at += SIDE * SIDE)
        multiply(columns - i, k + panel_at(columns, i), SIDE, k + panel_at(columns, j) + (i - j) * SIDE, SIDE, 1.0,
                 total + at);
  }
  memset(w->sum, 0, n * n * sizeof(double));
  for (long i = 0, at = 0; i < columns; i += SIDE)
    for (long j = 0; j <= i; j += SIDE, at += SIDE * SIDE) {
      double sums[SIDE * SIDE] __attribute__((aligned(64)));
      UNROLLED for (int c = 0; c < SIDE * SIDE; c += LANES) *(Vector *)(sums + c) = sums_of(total + at + c);
      for (int r = 0; r < SIDE; r++)
        for (int c = 0; c < SIDE; c++) w->sum[(i + r) * n + j + c] = w->sum[(j + c) * n + i + r] = sums[r * SIDE + c];
    }
  for (long i = w->inputs; i < n; i++) w->sum[i * n + i] = 1.0;
  memset(w->scale, 0, n * sizeof(double));
  for (long i = 0; i < w->inputs; i++) {
    Vector sum = {0};
    for (long v = 0; v < across; v++) sum += x[i * across + v] * inverse[i * across + v];
    w->scale[i] = sum_of(sum);
  }
  memset(w->schur, 0, n * n * sizeof(double));
  return factor(n, w->sum, w->scale, w->schur, w->strip, w->strip + PANEL * n);
}

/* ---- solutions -------------------------------------------------------------------------------------- */

/* out_m += K v_m for panels K; v_m and out_m (columns). */
INLINE void down(const int sides, long columns, const Vector *k, const Vector *v, Vector *out) {
  for (long j = 0; j < columns; j += SIDE) {
    const Vector *panel = k + panel_at(columns, j);
    Vector own[AT_ONCE][SIDE];
    UNROLLED for (int m = 0; m < sides; m++)
      UNROLLED for (int c = 0; c < SIDE; c++) own[m][c] = v[m * columns + j + c];
    for (long i = j; i < columns; i++, panel += SIDE)
      UNROLLED for (int m = 0; m < sides; m++) {
        Vector sum = out[m * columns + i];
        UNROLLED for (int c = 0; c < SIDE; c++) sum += panel[c] * own[m][c];
        out[m * columns + i] = sum;
      }
  }
}

/* out_m = K'v_m. */
INLINE void up(const int sides, long columns, const Vector *k, const Vector *v, Vector *out) {
  for (long j = 0; j < columns; j += SIDE) {
    const Vector *panel = k + panel_at(columns, j);
    Vector sum[AT_ONCE][SIDE];
    UNROLLED for (int m = 0; m < sides; m++)
      UNROLLED for (int c = 0; c < SIDE; c++) sum[m][c] = (Vector){0};
    for (long i = j; i < columns; i++, panel += SIDE)
      UNROLLED for (int m = 0; m < sides; m++)
        UNROLLED for (int c = 0; c < SIDE; c++) sum[m][c] += panel[c] * v[m * columns + i];
    UNROLLED for (int m = 0; m < sides; m++)
      UNROLLED for (int c = 0; c < SIDE; c++) out[m * columns + j + c] = sum[m][c];
  }
}

/* `sides` solutions: dX (with K s (rho - A'h b) in its place meanwhile), dZ inside of the support, dk and d nu; of linear
   rows ds and dt, too: what the equation of a row leaves of it is a multiple dt of the normal, and of that dt the
   component along u is all there is. */
INLINE void solve_some(const int sides, Space *w, const Sides *asked, Point *moves) {
  const long across = w->across / LANES, columns = w->columns, count = w->private, inputs = w->inputs, n = padded(inputs);
  const long triangle = panel_at(columns, columns), lines = w->lines, deep = w->deep;
  Vector *q = (Vector *)w->gather, *v = q + sides * lines, *half = v + sides * columns, *short_of = half + sides * columns;
  memset(short_of, 0, sides * columns * sizeof(Vector));
  memset(v, 0, sides * columns * sizeof(Vector));
  for (long y = 0; y < across; y++) {
    const Vector *h = (const Vector *)w->h + y * deep, *u = (const Vector *)w->u + y * count;
    for (int m = 0; m < sides; m++) {
      Vector along = {0}, *b = (Vector *)moves[m].k;
      if (asked[m].link) {
        for (long t = 0; t < count; t++) {
          q[m * lines + t] = h[t] * ((const Vector *)asked[m].link)[t * across + y];
          along += u[t] * q[m * lines + t];
        }
        along = ((const Vector *)asked[m].level)[y] * ((const Vector *)w->shorter)[y] - along;
        if (LINEAR) ((Vector *)moves[m].t)[y] = along;
        for (long t = 0; t < count; t++) b[t * across + y] = q[m * lines + t] += along * u[t];
        for (long t = 0; t < count; t++) q[m * lines + t] *= h[t];
      } else {
        for (long t = 0; t < count; t++) b[t * across + y] = q[m * lines + t] = (Vector){0};
        if (LINEAR) ((Vector *)moves[m].t)[y] = (Vector){0};
      }
    }
    weighted_rows(sides, count, columns, w->rows, q, lines, v, columns);
    for (int m = 0; m < sides; m++)
      for (long i = 0; i < inputs; i++)
        v[m * columns + i] = ((const Vector *)asked[m].rho)[i * across + y] - v[m * columns + i];
    for (int m = 0; WORST && m < sides; m++) {
      const Vector own = asked[m].worst ? h[count] * ((const Vector *)asked[m].worst)[y] : (Vector){0}, by = h[count] * own;
      ((Vector *)moves[m].eta)[y] = own;
      for (long i = 0; i < inputs; i++) v[m * columns + i] -= ((const Vector *)w->line)[i * across + y] * by;
    }
    memset(half, 0, sides * columns * sizeof(Vector));
    down(sides, columns, (const Vector *)w->k + y * triangle, v, half);
    up(sides, columns, (const Vector *)w->k + y * triangle, half, v);
    for (int m = 0; m < sides; m++)
      for (long i = 0; i < columns; i++) {
        short_of[m * columns + i] += v[m * columns + i];
        ((Vector *)w->half)[(y * AT_ONCE + m) * columns + i] = half[m * columns + i];
      }
  }
  for (int m = 0; m < sides; m++) {
    double *right = w->right, *e = w->right + n;
    memset(right, 0, n * sizeof(double));
    for (long i = 0; i < inputs; i++) right[i] = (asked[m].row ? asked[m].row[i] : 0.0) - sum_of(short_of[m * columns + i]);
    apply_inverse(n, w->schur, right, w->right + 2 * n, e);
    memcpy(moves[m].nu, e, inputs * sizeof(double));
  }
  memset(v, 0, sides * columns * sizeof(Vector));
  for (long y = 0; y < across; y++) {
    const Vector *h = (const Vector *)w->h + y * deep, *u = (const Vector *)w->u + y * count;
    const Vector *k = (const Vector *)w->k + y * triangle;
    for (int m = 0; m < sides; m++)
      for (long i = 0; i < inputs; i++) v[m * columns + i] = all_of(moves[m].nu[i]);
    memcpy(half, (Vector *)w->half + y * AT_ONCE * columns, sides * columns * sizeof(Vector));
    down(sides, columns, k, v, half);
    up(sides, columns, k, half, v);
    for (int m = 0; m < sides; m++)
      for (long i = 0; i < inputs; i++)
        ((Vector *)moves[m].x)[i * across + y] = v[m * columns + i];
    for (int m = 0; WORST && m < sides; m++) {
      Vector own = {0}, *eta = (Vector *)moves[m].eta, *sigma = (Vector *)moves[m].sigma;
      for (long i = 0; i < inputs; i++) own += ((const Vector *)w->line)[i * across + y] * v[m * columns + i];
      eta[y] = h[count] * (h[count] * own + eta[y]);
      sigma[y] = -((const Vector *)w->tight)[y] * eta[y];
      if (asked[m].spare) sigma[y] += ((const Vector *)asked[m].spare)[y];
    }
    weighted_rows(sides, inputs, lines, w->turned, v, columns, q, lines);
    for (int m = 0; m < sides; m++) {
      Vector along = {0}, *b = (Vector *)moves[m].k, *own = q + m * lines;
      for (long t = 0; t < count; t++) along += u[t] * (own[t] *= h[t]);
      for (long t = 0; t < count; t++) b[t * across + y] = own[t] = h[t] * (own[t] - along * u[t] + b[t * across + y]);
      if (LINEAR) {
        Vector *level = (Vector *)moves[m].t, *slack = (Vector *)moves[m].s;
        level[y] = (along - level[y]) * ((const Vector *)w->shorter)[y];
        for (long t = y; t < count * across; t += across) {
          slack[t] = -((const Vector *)w->curved)[t] * b[t];
          if (asked[m].slacks) slack[t] += ((const Vector *)asked[m].slacks)[t];
        }
      }
    }
    weighted_rows(sides, count, columns, w->rows, q, lines, half, columns);
    for (int m = 0; m < sides; m++)
      for (long i = 0; i < inputs; i++) {
        Vector own = half[m * columns + i];
        if (WORST) own += ((const Vector *)w->line)[i * across + y] * ((const Vector *)moves[m].eta)[y];
        ((Vector *)moves[m].z)[i * across + y] = (own - moves[m].nu[i]) * ((const Vector *)w->inside)[i * across + y];
      }
  }
}

/* Solutions for `count` right-hand sides. */
APART void solve_system(Space *w, long count, const Sides *asked, Point *moves) {
  for (; count >= AT_ONCE; count -= AT_ONCE, asked += AT_ONCE, moves += AT_ONCE) solve_some(AT_ONCE, w, asked, moves);
  if (count == 2) solve_some(2, w, asked, moves);
  if (count == 1) solve_some(1, w, asked, moves);
}

/* ---- of limits in every outcome and on the sum ------------------------------------------------------ */

/* The residual of a solution in all equations, of the rows without multiples of the normals, into `left_...`: see `Equations`. */
UNUSED static void left_over(Space *w, const Sides *asked, const Point *move) {
  const long across = w->across / LANES, table = w->private * across;
  const Vector *normal = (const Vector *)w->normal, *kappa = (const Vector *)move->k;
  Vector *link = (Vector *)w->left_link;
  rows_of(w, w->turned, move->x, w->left_link);
  for (long y = 0; y < across; y++) {
    Vector size = {0}, along = {0}, level = {0};
    for (long t = y; t < table; t += across) {
      if (asked->link) link[t] += ((const Vector *)asked->link)[t];
      link[t] -= ((const Vector *)w->curved)[t] * kappa[t];
      size += normal[t] * normal[t], along += normal[t] * link[t], level += normal[t] * kappa[t];
    }
    along = pick(size > 0.0, along / size, (Vector){0});
    for (long t = y; t < table; t += across) link[t] -= along * normal[t];
    ((Vector *)w->left_level)[y] = -((const Vector *)w->t)[y] * level;
    if (asked->level) ((Vector *)w->left_level)[y] += ((const Vector *)asked->level)[y];
    if (!WORST) continue;
    Vector own = asked->worst ? ((const Vector *)asked->worst)[y] : (Vector){0};
    own -= ((const Vector *)w->tight)[y] * ((const Vector *)move->eta)[y];
    for (long i = 0, at = y; i < w->inputs; i++, at += across)
      own += ((const Vector *)w->line)[at] * ((const Vector *)move->x)[at];
    ((Vector *)w->left_worst)[y] = own;
  }
  for (long i = 0; i < w->inputs; i++) {
    Vector sum = {0};
    for (long at = i * across; at < (i + 1) * across; at++) {
      const Vector dx = ((const Vector *)move->x)[at], z = ((const Vector *)w->point.z)[at];
      const Vector own = ((const Vector *)asked->rho)[at] - dx * (z * ((const Vector *)w->inverse_x)[at]);
      ((Vector *)w->left_rho)[at] = (own - ((const Vector *)move->z)[at]) * ((const Vector *)w->inside)[at];
      sum += dx;
    }
    w->left_row[i] = (asked->row ? asked->row[i] : 0.0) - sum_of(sum);
  }
}

/* The largest size of `count` vectors, by factors if there are any. */
INLINE double size_of(long count, const double *values, const double *factors) {
  Vector most = {0};
  for (long i = 0; values && i < count; i++) {
    const Vector own = ((const Vector *)values)[i] * (factors ? ((const Vector *)factors)[i] : all_of(1.0));
    most = larger(most, larger(own, -own));
  }
  return largest_of(most);
}

/* Solutions whose residual in the limits of the outputs, or the rows of the limit on the sum, is at most a share of their terms,
   by refinement (`Equations`); then k of limits in every outcome by the moves of their prices. */
static void solve_refined(Space *w, long count, const Sides *asked, Point *moves) {
  const long across = w->across / LANES, table = w->private * across, refined = WORST ? across : table;
  solve_system(w, count, asked, moves);
  if (!REFINED) return;
  double wanted[MOST_SIDES];
  for (long m = 0; m < count; m++)
    wanted[m] = ACCURATE * (size_of(refined, WORST ? asked[m].worst : asked[m].link, NULL) +
                            size_of(refined, WORST ? moves[m].eta : moves[m].k, WORST ? w->tight : w->curved));
  for (int again = 0; again < MOST_REFINEMENTS; again++) {
    int short_of = 0;
    for (long m = 0; m < count && !short_of; m++) {
      left_over(w, asked + m, moves + m);
      short_of = size_of(refined, WORST ? w->left_worst : w->left_link, NULL) > wanted[m];
    }
    if (!short_of) break;
    for (long m = 0; m < count; m++) {
      left_over(w, asked + m, moves + m);
      const Sides left = {.rho = w->left_rho, .link = w->left_link, .level = w->left_level, .row = w->left_row,
                          .worst = w->left_worst};
      solve_system(w, 1, &left, &w->more);
      for (long i = 0; i < w->whole / LANES; i++) ((Vector *)moves[m].x)[i] += ((const Vector *)w->more.x)[i];
    }
  }
  for (long m = 0; WORST && m < count; m++)
    for (long t = 0; t < table; t++)
      ((Vector *)moves[m].k)[t] += ((const Vector *)w->rules)[t] * ((const Vector *)moves[m].eta)[t % across];
}
