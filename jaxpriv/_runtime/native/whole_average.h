/* What the two kernels share whose relative entropy is summed over the outputs, in the objective or under a limit (`whole.h`):
   rules are prices of the outputs by the price of the sum, which is one in the objective. */

/* No part of z is quadratic, and no price is relative. */
static void bend_of(Space *w, const Point *move) { (void)w, (void)move; }
static void rescaled(Space *w) { (void)w; }

/* The use of the limit by rules (T, Y) of that level (Y), from A x (T, Y) and the masses of the outputs (Y). */
static double uses_of(const Space *w, const Vector *rules, const Vector *level, const Vector *ax, const Vector *mass) {
  const long across = w->across / LANES, table = w->private * across;
  Vector sum = {0};
  for (long i = 0; i < table; i++) sum += rules[i] * ax[i];
  for (long v = 0; v < across; v++) sum -= mass[v] * level[v];
  return sum_of(sum);
}

/* ---- of a point ------------------------------------------------------------------------------------- */

static void residuals(Space *w) {
  const long across = w->across / LANES, matrix = w->inputs * across, table = w->private * across;
  const double price = LIMITED ? w->point.price[w->budgets] : 1.0, inverse = 1.0 / price;
  const double *rules = LIMITED ? w->rules : w->point.k;
  const Vector *level = (const Vector *)w->level, *mass = (const Vector *)w->t, *ax = (const Vector *)w->ax;
  w->mu = inverses(w) / w->pairs, w->balance = 1.0;
  for (long i = 0; LIMITED && i < table; i++) ((Vector *)w->rules)[i] = ((const Vector *)w->point.k)[i] * inverse;
  weighted_by(w, w->sums, w->point.x, w->t);
  rows_of(w, w->turned, w->point.x, w->ax);
  edges_of(w, rules, w->normal, w->level);
  for (long v = 0; v < across; v++) {
    const Vector claimed = mass[v] * level[v];
    ((Vector *)w->missing)[v] = -claimed * price;
    if (LIMITED) ((Vector *)w->claim)[v] = larger(claimed, -claimed);
    for (long t = 0, i = v; t < w->private; t++, i += across) {
      const Vector own = mass[v] * ((const Vector *)w->normal)[i];
      ((Vector *)w->curved)[i] = w->seen[t] > 0.0 ? own * inverse : all_of(1.0);
      ((Vector *)w->link)[i] = ax[i] - own;
    }
  }
  if (!LIMITED) return;
  Vector *column = (Vector *)w->rho + (2 + w->budgets) * matrix, *line = (Vector *)w->line;
  w->use[w->budgets] = uses_of(w, (const Vector *)rules, level, ax, mass);
  columns_of(w, w->rows, rules, w->line);
  for (long i = 0; i < w->inputs; i++)
    for (long v = 0, at = i * across; v < across; v++, at++) column[at] = -line[at], line[at] -= w->sums[i] * level[v];
}

/* In the objective rules turn by themselves. */
static int held_back(Space *w, const Point *move, double a, double mean) {
  if (!LIMITED) return 1;
  const long across = w->across / LANES, table = w->private * across;
  const double price = w->point.price[w->budgets] + a * move->price[w->budgets], inverse = 1.0 / price;
  Vector *rules = (Vector *)w->valid, *level = (Vector *)w->after, *mass = level + across, claimed = {0};
  for (long i = 0; i < table; i++)
    rules[i] = (((const Vector *)w->point.k)[i] + a * ((const Vector *)move->k)[i]) * inverse;
  edges_of(w, w->valid, w->ax, w->after);
  weighted_by(w, w->sums, move->x, (double *)mass);
  for (long v = 0; v < across; v++) {
    const Vector own = (((const Vector *)w->t)[v] + a * mass[v]) * level[v];
    claimed += larger(own, -own);
  }
  const double known = w->method->dual_tolerance * w->pairs * mean;
  const double nearer = (1.0 - NEARER * a) * price * sum_over(w, w->claim);
  return price * sum_of(claimed) <= (known > nearer ? known : nearer);
}

/* Its right-hand side is in `logs` (rho), `ax` (link) and `after` (level). */
static Sides corrections(Space *w, const Point *move, double length, double sigma) {
  const long across = w->across / LANES, matrix = w->inputs * across, table = w->private * across, limit = w->budgets;
  const double a = length + FURTHER < 1.0 ? length + FURTHER : 1.0, goal = ((1.0 - a) + a * sigma) * w->mu;
  const double price = LIMITED ? w->point.price[limit] : 1.0, turn = LIMITED ? move->price[limit] : 0.0;
  const double next = price + a * turn, per = 1.0 / price, least = LEAST_RATIO * price;
  const double inverse = 1.0 / (next > least ? next : least);
  const Vector *before = LIMITED ? (const Vector *)w->rules : (const Vector *)w->point.k;
  Vector *x = (Vector *)w->costs, *rules = (Vector *)w->valid, *normal = (Vector *)w->own.k, *link = (Vector *)w->ax;
  Vector *level = (Vector *)w->after, *mass = level + across;
  const int usable = corrected(w, move, a, goal);
  for (long i = 0; i < matrix; i++) x[i] = ((const Vector *)w->point.x)[i] + a * ((const Vector *)move->x)[i];
  for (long i = 0; i < table; i++)
    rules[i] = (((const Vector *)w->point.k)[i] + a * ((const Vector *)move->k)[i]) * inverse;
  edges_of(w, w->valid, w->own.k, w->after);
  weighted_by(w, w->sums, w->costs, (double *)mass);
  if (LIMITED) {
    rows_of(w, w->turned, w->costs, w->ax);
    const double missing = w->use[limit] + a * use_rate(w, limit, move, turn) - uses_of(w, rules, level, link, mass);
    w->limit[limit] = usable && isfinite(missing) ? missing : 0.0;
  }
  for (long v = 0; v < across; v++) {
    const Vector t = ((const Vector *)w->t)[v];
    Vector turned = {0};
    for (long i = v; i < table; i += across) {
      const Vector own = ((const Vector *)move->k)[i] - turn * before[i];
      const Vector bent = ((const Vector *)w->normal)[i] * own * per;
      turned += bent;
      link[i] = t * (((const Vector *)w->normal)[i] + a * bent) - mass[v] * normal[i];
      link[i] = usable ? or_zero(link[i]) : (Vector){0};
    }
    level[v] = -price * t * (level[v] - (((const Vector *)w->level)[v] + a * turned));
    level[v] = usable ? or_zero(level[v]) : (Vector){0};
  }
  return (Sides){.rho = w->logs, .link = w->ax, .level = w->after, .pair = w->pair, .limits = w->limit};
}

/* ---- candidates ------------------------------------------------------------------------------------- */

static void improved(Space *w) {
  const long matrix = w->inputs * w->across / LANES, limit = w->budgets;
  double share = used_over(w, w->point.x, w->feasible);
  if (LIMITED) {
    const double allowed = w->limits[limit], held = w->feasible_use;
    leaks_of(w, w->point.x, w->after);
    if (held < allowed) share = share_within(share, sum_over(w, w->after), held, allowed, 1.0);
  }
  mixed(w, w->point.x, share, w->feasible, w->after);
  Vector costly = {0};
  for (long i = 0; i < matrix; i++) costly += ((const Vector *)w->cost)[i] * ((const Vector *)w->after)[i];
  double leaking = 0.0;
  if (!LIMITED) leaks_of(w, w->after, w->own.k), leaking = sum_over(w, w->own.k);
  keep_mechanism(w, w->after, sum_of(costly) + leaking);
  keep_rules(w, LIMITED ? w->point.price[limit] : 1.0);
}
