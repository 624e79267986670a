/* What whole solves (`whole.h`) compute of points and mechanisms, for one instruction set. */

/* ---- of a point ------------------------------------------------------------------------------------- */

/* The sum of values (Y). */
INLINE double sum_over(const Space *w, const double *values) {
  Vector sum = {0};
  for (long v = 0; v < w->across / LANES; v++) sum += ((const Vector *)values)[v];
  return sum_of(sum);
}

/* <constraint r, x>, (X, Y) each. */
INLINE double spent_by(const Space *w, long r, const double *x) {
  const long matrix = w->inputs * w->across / LANES;
  const Vector *c = (const Vector *)w->constraints + r * matrix;
  Vector sum = {0};
  for (long i = 0; i < matrix; i++) sum += c[i] * ((const Vector *)x)[i];
  return sum_of(sum);
}

/* The reduced costs without nu, into `costs`, at the point's prices of outputs; price NULL: those of the budgets are zero. */
static void reduced_costs(Space *w, const double *k, const double *price) {
  const long matrix = w->inputs * w->across / LANES;
  Vector *costs = (Vector *)w->costs;
  columns_of(w, w->rows, k, w->costs);
  for (long i = 0; i < matrix; i++) costs[i] += ((const Vector *)w->cost)[i];
  for (long r = 0; price && r < w->budgets; r++)
    for (long i = 0; i < matrix; i++) costs[i] += price[r] * ((const Vector *)w->constraints)[r * matrix + i];
  const long across = w->across / LANES;
  for (long i = 0; WORST && i < w->inputs; i++) {
    const double offset = w->offset[i] - w->point.peak[0] * w->rate[i];
    for (long v = 0; v < across; v++) costs[i * across + v] += offset * ((const Vector *)w->point.eta)[v];
  }
}

/* Solve a system (n, n + 1) whose last column is its right side, by the largest pivots: the solution in that column. */
static void eliminate(long n, double *m) {
  const long wide = n + 1;
  for (long c = 0; c < n; c++) {
    long best = c;
    for (long i = c + 1; i < n; i++)
      if (fabs(m[i * wide + c]) > fabs(m[best * wide + c])) best = i;
    for (long j = c; best != c && j < wide; j++) {
      const double kept = m[c * wide + j];
      m[c * wide + j] = m[best * wide + j], m[best * wide + j] = kept;
    }
    for (long i = c + 1; i < n; i++) {
      const double share = m[i * wide + c] / m[c * wide + c];
      for (long j = c; j < wide; j++) m[i * wide + j] -= share * m[c * wide + j];
    }
  }
  for (long i = n - 1; i >= 0; i--) {
    double left = m[i * wide + n];
    for (long j = i + 1; j < n; j++) left -= m[i * wide + j] * m[j * wide + n];
    m[i * wide + n] = left / m[i * wide + i];
  }
}

/* Whether all numbers of the point are. */
static int finite_of(const Space *w) {
  Vector sum = {0};
  for (long i = 0; i < w->whole / LANES; i++) sum += ((const Vector *)w->point.x)[i];
  return isfinite(sum_of(sum));
}

/* ---- first points ----------------------------------------------------------------------------------- */

/* The uniform mechanism (X, Y). */
static void uniform(const Space *w, double *x) {
  const long across = w->across / LANES;
  for (long i = 0; i < w->inputs; i++) {
    Vector count = {0};
    for (long at = i * across; at < (i + 1) * across; at++) count += ((const Vector *)w->inside)[at];
    const double share = 1.0 / sum_of(count);
    for (long at = i * across; at < (i + 1) * across; at++) ((Vector *)x)[at] = share * ((const Vector *)w->inside)[at];
  }
}

/* The reduced costs at multipliers. */
static void put_costs(const Space *w, Point *to) {
  const long across = w->across / LANES;
  for (long i = 0; i < w->inputs; i++)
    for (long at = i * across; at < (i + 1) * across; at++) {
      const Vector own = ((const Vector *)w->costs)[at] - to->nu[i];
      ((Vector *)to->z)[at] = pick(((const Vector *)w->inside)[at] > 0.0, own, all_of(1.0));
    }
}

/* Prices, slacks, multipliers and reduced costs of a first point with x and k, whose mean product is to be mu. */
static void around(Space *w, double mu, Point *to) {
  const long across = w->across / LANES;
  for (long r = 0; r < w->budgets; r++) {
    const double left = w->limits[r] - spent_by(w, r, to->x);
    to->slack[r] = left > mu ? left : mu, to->price[r] = mu / to->slack[r];
  }
  reduced_costs(w, to->k, to->price);
  for (long i = 0; i < w->inputs; i++) {
    Vector sum = {0}, held = {0}, least = all_of(FAR);
    for (long at = i * across; at < (i + 1) * across; at++) {
      const Vector own = ((const Vector *)w->costs)[at], inside = ((const Vector *)w->inside)[at];
      sum += own * inside, held += inside, least = smaller(least, own + ((const Vector *)w->far)[at]);
    }
    const double count = sum_of(held), weight = mu * w->height[i] * count;
    const double mean = sum_of(sum) / count - weight, lowest = smallest_of(least) - 0.1 * weight;
    to->nu[i] = mean < lowest ? mean : lowest;
  }
  put_costs(w, to);
}

/* ---- of candidates ---------------------------------------------------------------------------------- */

/* `share`, or what more of a feasible point, which uses `held` of a limit, a mixture with a mechanism that uses `used` needs to use
   `most`; no more than `cap`. */
static double share_within(double share, double used, double held, double most, double cap) {
  if (!(used > most)) return share;
  const double own = (used - most) / (used > held ? used - held : 1.0);
  return own > cap ? cap : own > share ? own : share;
}

/* The least share of a feasible point in a mixture with a mechanism (X, Y) that meets the budgets. */
static double used_over(const Space *w, const double *x, const double *feasible) {
  double share = 0.0;
  for (long r = 0; r < w->budgets; r++)
    share = share_within(share, spent_by(w, r, x), spent_by(w, r, feasible), w->limits[r], 1.0);
  return share;
}

/* The mixture of x with that share of y, (X, Y) each. */
static void mixed(const Space *w, const double *x, double share, const double *y, double *to) {
  for (long i = 0; i < w->inputs * w->across / LANES; i++)
    ((Vector *)to)[i] = (1.0 - share) * ((const Vector *)x)[i] + share * ((const Vector *)y)[i];
}

/* A mechanism in the place of the candidate's if it is worth less. */
static void keep_mechanism(Space *w, const double *found, double value) {
  if (!(value < w->value)) return;
  w->value = value;
  memcpy(w->mechanism, found, w->inputs * w->across * sizeof(double));
}
