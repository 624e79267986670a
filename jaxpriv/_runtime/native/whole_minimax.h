/* What the kernels of minimax programs share (`whole.h`), for one instruction set: where they start, the mechanism of a point
   that leaks least, and the peak that lines prove. `jaxpriv.solvers.interior_point.candidate` and `start` have the same. */

/* Of the kind of program. */

/* The largest ratio of every output of a mechanism (X, Y), -inf of one without mass: (Y), in `ratios`. */
static void ratios_of(Space *w, const double *x);
/* The lines of `lowered` by the point's prices and its rules, moved into their sets, which are in `valid`. */
static void proof_of(Space *w);

static double largest_ratio(Space *w, const double *x) {
  Vector most = all_of(-INFINITY);
  ratios_of(w, x);
  for (long v = 0; v < w->across / LANES; v++) most = larger(most, ((const Vector *)w->ratios)[v]);
  return largest_of(most);
}

/* ---- the first point -------------------------------------------------------------------------------- */

/* How much of the feasible point a mixture with x takes that leaves a share of its slack in every budget. */
static double within_budgets(const Space *w, const double *x) {
  double share = 0.0;
  for (long r = 0; r < w->budgets; r++) {
    const double held = spent_by(w, r, w->feasible), slack = w->limits[r] - held;
    const double most = w->limits[r] - SLACK * (slack > 0.0 ? slack : 0.0);
    share = share_within(share, spent_by(w, r, x), held, most, MOST_FEASIBLE);
  }
  return share;
}

/* x of a first point, and its peak, which has room above the largest ratio. */
static double first_peak(Space *w) {
  uniform(w, w->after);
  mixed(w, w->after, within_budgets(w, w->after), w->feasible, w->point.x);
  return w->point.peak[0] = ABOVE * largest_ratio(w, w->point.x);
}

/* ---- of a point ------------------------------------------------------------------------------------- */

/* The prices of the point, scaled. */
static void scaled(Space *w, double scale) {
  const long table = w->private * w->across / LANES;
  for (long i = 0; i < table; i++) ((Vector *)w->point.k)[i] *= scale;
  for (long v = 0; WORST && v < w->across / LANES; v++) ((Vector *)w->point.eta)[v] *= scale;
  for (long i = 0; i < w->inputs; i++) w->point.nu[i] *= scale;
  for (long r = 0; r < w->budgets; r++) w->point.price[r] *= scale;
}

/* ---- candidates ------------------------------------------------------------------------------------- */

/* Whether a mechanism (X, Y) meets the budgets, up to rounding. */
static int meets(const Space *w, const double *x) {
  const long matrix = w->inputs * w->across / LANES;
  for (long r = 0; r < w->budgets; r++) {
    const Vector *c = (const Vector *)w->constraints + r * matrix;
    Vector used = {0}, size = {0};
    for (long i = 0; i < matrix; i++) {
      const Vector part = c[i] * ((const Vector *)x)[i];
      used += part, size += larger(part, -part);
    }
    if (!(sum_of(used) <= w->limits[r] + ROUNDINGS * EPS * sum_of(size))) return 0;
  }
  return 1;
}

/* The mechanism of the point, within the budgets, without outputs that exceed its peak by more than they have of all mass, in
   `left`: whether every useful symbol has another. What these had, the others get as each has them. */
static int without_rare(Space *w) {
  const long across = w->across / LANES, matrix = w->inputs * across;
  const Vector *x = (const Vector *)w->point.x;
  Vector *mass = (Vector *)w->after, *rare = (Vector *)w->rare, *left = (Vector *)w->left, *onto = (Vector *)w->onto;
  Vector *other = (Vector *)w->other, given = {0};
  double all = 0.0;
  memset(mass, 0, w->across * sizeof(double));
  for (long i = 0; i < w->inputs; i++) {
    all += w->mass[i];
    for (long v = 0; v < across; v++) mass[v] += w->mass[i] * x[i * across + v];
  }
  ratios_of(w, w->point.x);
  for (long v = 0; v < across; v++) {
    mass[v] *= 1.0 / all;
    const Places over = ((const Vector *)w->ratios)[v] > (1.0 + mass[v]) * w->point.peak[0];
    rare[v] = pick(over, all_of(1.0), (Vector){0});
    given += rare[v] * mass[v];
  }
  const double least = RARE * sqrt(sum_of(given));
  for (long v = 0; v < across; v++) rare[v] = pick(mass[v] < least, all_of(1.0), rare[v]);
  int usable = 1;
  for (long i = 0; i < w->inputs; i++) {
    Vector kept = {0}, freed = {0}, freely = {0};
    for (long v = 0, at = i * across; v < across; v++, at++) {
      onto[at] = pick(rare[v] > 0.0, (Vector){0}, x[at]);
      kept += onto[at], freed += x[at] - onto[at];
      freely += rare[v] * ((const Vector *)w->feasible)[at];
    }
    const double held = sum_of(kept), share = 1.0 / (held > TINY ? held : TINY);
    const double own = sum_of(freed), feasible = sum_of(freely);
    Vector sum = {0};
    for (long v = 0, at = i * across; v < across; v++, at++) {
      const Vector to = onto[at] * share;
      left[at] = onto[at] + own * to, sum += left[at];
      other[at] = pick(rare[v] > 0.0, (Vector){0}, ((const Vector *)w->feasible)[at]) + feasible * to;
    }
    usable = usable && sum_of(sum) > 0.5;
  }
  if (!w->budgets || !usable) return usable;
  if (!meets(w, w->other)) /* then what costs least at the prices, of one budget the least of all */
    for (long i = 0; i < w->inputs; i++) {
      double lowest = FAR;
      long cheapest_of = 0;
      for (long y = 0; y < w->outputs; y++) {
        const long at = i * w->across + y;
        double cost = w->rare[y] > 0.0 ? FAR : w->far[at];
        for (long r = 0; r < w->budgets; r++) cost += w->point.price[r] * w->constraints[r * matrix * LANES + at];
        w->other[at] = 0.0;
        if (cost < lowest) lowest = cost, cheapest_of = y;
      }
      w->other[i * w->across + cheapest_of] = 1.0;
    }
  mixed(w, w->left, used_over(w, w->left, w->other), w->other, w->onto);
  memcpy(w->left, w->onto, matrix * sizeof(Vector));
  return meets(w, w->left);
}

/* The better of the point's own mechanism and that without rare outputs, in `plain` or `left`; its peak. */
static double least_leaking(Space *w, const double **found) {
  mixed(w, w->point.x, used_over(w, w->point.x, w->feasible), w->feasible, w->plain);
  const double value = largest_ratio(w, w->plain), fewer = without_rare(w) ? largest_ratio(w, w->left) : INFINITY;
  *found = value <= fewer ? w->plain : w->left;
  return value <= fewer ? value : fewer;
}

/* sum_x min_y [costs - e fall] - spent, and minus its slope. */
static double lowered(const Space *w, const Vector *costs, const Vector *fall, double e, double *slope) {
  const long across = w->across / LANES;
  double sum = 0.0;
  *slope = 0.0;
  for (long i = 0; i < w->inputs; i++) {
    Vector least = all_of(INFINITY), along = {0};
    for (long at = i * across; at < (i + 1) * across; at++) {
      const Vector own = costs[at] + ((const Vector *)w->far)[at] - e * fall[at];
      along = pick(own < least, fall[at], along), least = smaller(least, own);
    }
    int first = 0;
    for (int j = 1; j < LANES; j++) first = least[j] < least[first] ? j : first;
    sum += least[first], *slope += along[first];
  }
  for (long r = 0; r < w->budgets; r++) sum -= w->point.price[r] * w->limits[r];
  return sum;
}

/* The peak up to which lines, costs in `after` that fall as `logs`, prove at the point's prices that no mechanism has it, from
   the start e; -inf: none. */
static double proved_peak(Space *w, double e) {
  const long across = w->across / LANES;
  const Vector *costs = (const Vector *)w->after, *fall = (const Vector *)w->logs;
  double slope, spent = 0.0, size = 0.0, left = 0.0;
  for (long i = 0; i < w->inputs; i++) {
    Vector most = {0};
    for (long at = i * across; at < (i + 1) * across; at++)
      most = larger(most, larger(costs[at], -costs[at]) * ((const Vector *)w->inside)[at]);
    size += largest_of(most);
  }
  for (long r = 0; r < w->budgets; r++) spent += w->point.price[r] * w->limits[r];
  for (int count = 0; count < NEWTON_STEPS; count++) {
    left = lowered(w, costs, fall, e, &slope);
    const double next = e + left / (slope > TINY ? slope : TINY);
    if (next == e) break;
    e = next;
  }
  const int proved = lowered(w, costs, fall, e, &slope) >= -ROUNDINGS * EPS * (fabs(spent) + size);
  return proved && e < 1.0 / EPS ? e : -INFINITY;
}

/* The rules in `valid` and the prices of the point in the place of the candidate's if their bound is higher. */
static void keep_bound(Space *w, double bound) {
  if (!(bound > w->bound)) return;
  w->bound = bound;
  memcpy(w->scores, w->valid, w->private * w->across * sizeof(double));
  memcpy(w->price, w->point.price, w->prices * sizeof(double));
  if (WORST) memcpy(w->eta, w->point.eta, w->across * sizeof(double));
}

/* The value of a measure of log-ratios is the logarithm of the peak. */
static void improved(Space *w) {
  const double *found;
  const double leaking = least_leaking(w, &found);
  keep_mechanism(w, found, LINEAR ? log(leaking > 0.0 ? leaking : 0.0) : leaking);
  proof_of(w);
  const double proved = proved_peak(w, LINEAR ? exp(w->bound) : w->bound > 0.0 ? w->bound : 0.0);
  keep_bound(w, LINEAR ? log(proved > 0.0 ? proved : 0.0) : proved);
}
