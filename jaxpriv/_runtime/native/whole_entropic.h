/* What the kernels of relative entropies share (`whole.h`), for one instruction set. */

/* sum_x weights_x x of every output, (Y), of x (X, Y). */
static void weighted_by(const Space *w, const double *weights, const double *x, double *to) {
  const long across = w->across / LANES;
  memset(to, 0, w->across * sizeof(double));
  for (long i = 0; i < w->inputs; i++)
    for (long v = 0; v < across; v++) ((Vector *)to)[v] += weights[i] * ((const Vector *)x)[i * across + v];
}

/* The level of rules g = k + centre, k (T, Y) of the outputs of vector v, that are small: ln R + ln(1 + sum p (e^g - 1)), R the sum
   and p R the reference. With e^g - 1 as a series and ln(1 + x) = x ln(1 + x)/((1 + x) - 1) it keeps its digits. */
static Vector small_level(const Space *w, const Vector *k, long v) {
  const long across = w->across / LANES;
  Vector gain = {0};
  for (long t = 0; t < w->private; t++) {
    const Vector g = larger(smaller(k[t * across + v] + w->centre[t], all_of(SMALL_RULE)), all_of(-SMALL_RULE));
    Vector series = all_of(1.0 / 15.0);
    for (int i = 14; i > 1; i--) series = (1.0 + g * series) * (1.0 / i);
    gain += w->part[t] * (g * (1.0 + g * series));
  }
  const Vector sum = 1.0 + gain, apart = sum - 1.0;
  return w->whole_log + pick(apart != 0.0, logarithm(sum) * (gain / pick(apart != 0.0, apart, all_of(1.0))), gain);
}

/* The boundary of the set at rules k (T, Y): its normal (T, Y) and level (Y). */
static void edges_of(const Space *w, const double *k, double *normal, double *level) {
  const long across = w->across / LANES;
  for (long v = 0; v < across; v++) {
    const Vector *own = (const Vector *)k + v;
    Vector *e = (Vector *)normal + v, top = all_of(-FAR), most = {0}, total = {0};
    for (long t = 0; t < w->private; t++) {
      const Vector g = own[t * across] + w->centre[t];
      top = larger(top, own[t * across] + w->bend[t]), most = larger(most, larger(g, -g));
    }
    for (long t = 0; t < w->private; t++)
      total += e[t * across] = exponential(own[t * across] + w->bend[t] - top) * w->seen[t];
    const Vector share = 1.0 / total;
    for (long t = 0; t < w->private; t++) e[t * across] *= share;
    const Vector plain = top + logarithm(total);
    const int some = smallest_of(most) < SMALL_RULE;
    ((Vector *)level)[v] = some ? pick(most < SMALL_RULE, small_level(w, (const Vector *)k, v), plain) : plain;
  }
}

/* What every output of a mechanism (X, Y) leaks, as in `Entropic.columns`, less what the rule of the prior claims: (Y). */
static void leaks_of(Space *w, const double *x, double *to) {
  const long across = w->across / LANES;
  rows_of(w, w->turned, x, w->ax);
  for (long v = 0; v < across; v++) {
    const Vector *own = (const Vector *)w->ax + v;
    Vector mass = {0}, sum = {0}, claimed = {0};
    for (long t = 0; t < w->private; t++) mass += own[t * across];
    const Vector inverse = 1.0 / larger(mass, all_of(TINY));
    for (long t = 0; t < w->private; t++) {
      if (!(w->seen[t] > 0.0)) continue;
      const Vector ratio = own[t * across] * inverse * (1.0 / w->part[t]);
      sum += w->part[t] * (ratio * logarithm(larger(ratio, all_of(TINY))) - (ratio - 1.0));
      claimed += own[t * across] * w->centre[t];
    }
    ((Vector *)to)[v] = mass * (sum - w->whole_log) - claimed;
  }
}

/* The rules of the prior (T, Y). */
static void prior_rules(const Space *w, double *rules) {
  const long across = w->across / LANES;
  double total = 0.0;
  for (long t = 0; t < w->private; t++) {
    double sum = 0.0;
    for (long i = 0; i < w->inputs; i++) sum += w->rows[t * w->columns + i];
    w->right[t] = sum, total += sum;
  }
  for (long t = 0; t < w->private; t++) {
    const double held = w->right[t] / total;
    const Vector own = w->seen[t] > 0.0 ? logarithm(all_of(held > TINY ? held : TINY)) - w->bend[t] : all_of(0.0);
    for (long v = 0; v < across; v++) ((Vector *)rules)[t * across + v] = own;
  }
}

/* The cheapest entries at `costs`, summed. */
static double cheapest(const Space *w) {
  const long across = w->across / LANES;
  double sum = 0.0;
  for (long i = 0; i < w->inputs; i++) {
    Vector least = all_of(FAR);
    for (long at = i * across; at < (i + 1) * across; at++)
      least = smaller(least, ((const Vector *)w->costs)[at] + ((const Vector *)w->far)[at]);
    sum += smallest_of(least);
  }
  return sum;
}

/* The feasible point, and what is proved by the rules of the prior, or without a relative entropy in the objective by none. */
static void first_candidate(Space *w) {
  memcpy(w->mechanism, w->feasible, w->inputs * w->across * sizeof(double));
  memset(w->scores, 0, w->private * w->across * sizeof(double)), memset(w->price, 0, w->prices * sizeof(double));
  if (WORST) memset(w->eta, 0, w->across * sizeof(double));
  if (LIMITED) leaks_of(w, w->feasible, w->claim), w->feasible_use = sum_over(w, w->claim);
  if (!WORST && !LIMITED) prior_rules(w, w->scores);
  reduced_costs(w, w->scores, NULL);
  w->value = INFINITY, w->bound = cheapest(w);
}

/* The rules of the point, whose set has that price, moved into it, and the prices in the place of the candidate's if their bound
   is higher; `costs` and `level` are the point's. */
static void keep_rules(Space *w, double price) {
  const long across = w->across / LANES, table = w->private * across;
  const Vector *level = (const Vector *)w->level;
  double bound = 0.0;
  for (long i = 0; i < w->inputs; i++) {
    Vector least = all_of(FAR);
    for (long v = 0, at = i * across; v < across; v++, at++) {
      const Vector own = ((const Vector *)w->costs)[at] - price * w->sums[i] * level[v];
      least = smaller(least, own + ((const Vector *)w->far)[at]);
    }
    bound += smallest_of(least);
  }
  for (long q = 0; q < w->prices; q++) bound -= w->point.price[q] * w->limits[q];
  if (!(bound > w->bound)) return;
  w->bound = bound;
  for (long i = 0; i < table; i++)
    ((Vector *)w->scores)[i] = ((const Vector *)w->point.k)[i] - price * level[i % across];
  memcpy(w->price, w->point.price, w->prices * sizeof(double));
}
