/* What `limited_information.c` does with one problem, for one instruction set, beside the steps themselves. */

#include "panels.h"
#include "vectors.h"
#include "whole_system.h"
#include "whole_points.h"
#include "whole_body.h"
#include "whole_entropic.h"

#define total_of NAME(total_of)
#define uses_of NAME(uses_of)

/* Of the three starts: `_ATTEMPTS` of `start.py`. */
#define FIRST_TARGET 1.0
#define SECOND_TARGET 30.0
#define THIRD_TARGET 1000.0

/* No part of z is quadratic, and no price is relative. */
TARGET static void bend_of(Space *w, const Point *move) { (void)w, (void)move; }
TARGET static void rescaled(Space *w) { (void)w; }

INLINE double total_of(const Space *w, const double *values) {
  Vector sum = {0};
  for (long v = 0; v < w->across / LANES; v++) sum += ((const Vector *)values)[v];
  return sum_of(sum);
}

/* The use of the limit by rules (T, Y) of that level (Y), from A x (T, Y) and the masses of the outputs (Y). */
TARGET static double uses_of(const Space *w, const Vector *rules, const Vector *level, const Vector *ax, const Vector *mass) {
  const long across = w->across / LANES, table = w->private * across;
  Vector sum = {0};
  for (long i = 0; i < table; i++) sum += rules[i] * ax[i];
  for (long v = 0; v < across; v++) sum -= mass[v] * level[v];
  return sum_of(sum);
}

/* ---- points ----------------------------------------------------------------------------------------- */

TARGET static void first_candidate(Space *w) {
  leaks_of(w, w->feasible, w->claim);
  w->feasible_use = total_of(w, w->claim);
  memcpy(w->mechanism, w->feasible, w->inputs * w->across * sizeof(double));
  memset(w->scores, 0, w->private * w->across * sizeof(double)), memset(w->price, 0, w->prices * sizeof(double));
  reduced_costs(w, w->scores, NULL);
  w->value = INFINITY, w->bound = cheapest(w);
}

/* A point around the independent release. It has all of the slack of the limit, however small. */
TARGET static void begin(Space *w, long attempt) {
  const double targets[] = {FIRST_TARGET, SECOND_TARGET, THIRD_TARGET}, mu = targets[attempt < 2 ? attempt : 2] / w->outputs;
  const long limit = w->budgets, table = w->private * w->across / LANES;
  uniform(w, w->point.x);
  prior_rules(w, w->point.k);
  rows_of(w, w->turned, w->point.x, w->ax);
  edges_of(w, w->point.k, w->normal, w->level);
  weighted_by(w, w->sums, w->point.x, w->t);
  const Vector *rules = (const Vector *)w->point.k, *level = (const Vector *)w->level;
  const double left = w->limits[limit] - uses_of(w, rules, level, (const Vector *)w->ax, (const Vector *)w->t);
  w->point.slack[limit] = left > 0.0 ? left : mu, w->point.price[limit] = mu / w->point.slack[limit];
  for (long i = 0; i < table; i++) ((Vector *)w->point.k)[i] *= w->point.price[limit];
  around(w, mu, &w->point);
}

TARGET static void residuals(Space *w) {
  const long across = w->across / LANES, matrix = w->inputs * across, table = w->private * across;
  const double price = w->point.price[w->budgets], inverse = 1.0 / price;
  Vector *rules = (Vector *)w->rules, *column = (Vector *)w->rho + (2 + w->budgets) * matrix, *line = (Vector *)w->line;
  const Vector *level = (const Vector *)w->level, *mass = (const Vector *)w->t, *ax = (const Vector *)w->ax;
  w->mu = inverses(w) / w->pairs;
  for (long i = 0; i < table; i++) rules[i] = ((const Vector *)w->point.k)[i] * inverse;
  weighted_by(w, w->sums, w->point.x, w->t);
  rows_of(w, w->turned, w->point.x, w->ax);
  edges_of(w, w->rules, w->normal, w->level);
  for (long v = 0; v < across; v++) {
    const Vector claimed = mass[v] * level[v];
    ((Vector *)w->missing)[v] = -claimed * price;
    ((Vector *)w->claim)[v] = larger(claimed, -claimed);
    for (long t = 0, i = v; t < w->private; t++, i += across) {
      const Vector own = mass[v] * ((const Vector *)w->normal)[i];
      ((Vector *)w->curved)[i] = w->seen[t] > 0.0 ? own * inverse : all_of(1.0);
      ((Vector *)w->link)[i] = ax[i] - own;
    }
  }
  w->use[w->budgets] = uses_of(w, rules, level, ax, mass);
  columns_of(w, w->rows, w->rules, w->line);
  for (long i = 0; i < w->inputs; i++)
    for (long v = 0, at = i * across; v < across; v++, at++) column[at] = -line[at], line[at] -= w->sums[i] * level[v];
}

TARGET static int held_back(Space *w, const Point *move, double a, double mean) {
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
  const double nearer = (1.0 - NEARER * a) * price * total_of(w, w->claim);
  return price * sum_of(claimed) <= (known > nearer ? known : nearer);
}

/* Its right-hand side is in `logs` (rho), `ax` (link) and `after` (level). */
TARGET static Sides corrections(Space *w, const Point *move, double length, double sigma) {
  const long across = w->across / LANES, matrix = w->inputs * across, table = w->private * across, limit = w->budgets;
  const double a = length + FURTHER < 1.0 ? length + FURTHER : 1.0, goal = ((1.0 - a) + a * sigma) * w->mu;
  const double price = w->point.price[limit], turn = move->price[limit], next = price + a * turn;
  const double inverse = 1.0 / (next > LEAST_RATIO * price ? next : LEAST_RATIO * price), per = 1.0 / price;
  Vector *x = (Vector *)w->costs, *rules = (Vector *)w->valid, *normal = (Vector *)w->own.k, *link = (Vector *)w->ax;
  Vector *level = (Vector *)w->after, *mass = level + across;
  const int usable = corrected(w, move, a, goal);
  for (long i = 0; i < matrix; i++) x[i] = ((const Vector *)w->point.x)[i] + a * ((const Vector *)move->x)[i];
  for (long i = 0; i < table; i++)
    rules[i] = (((const Vector *)w->point.k)[i] + a * ((const Vector *)move->k)[i]) * inverse;
  edges_of(w, w->valid, w->own.k, w->after);
  weighted_by(w, w->sums, w->costs, (double *)mass);
  rows_of(w, w->turned, w->costs, w->ax);
  const double missing = w->use[limit] + a * use_rate(w, limit, move, turn) - uses_of(w, rules, level, link, mass);
  for (long v = 0; v < across; v++) {
    const Vector t = ((const Vector *)w->t)[v];
    Vector turned = {0};
    for (long i = v; i < table; i += across) {
      const Vector own = ((const Vector *)move->k)[i] - turn * ((const Vector *)w->rules)[i];
      const Vector bent = ((const Vector *)w->normal)[i] * own * per;
      turned += bent;
      link[i] = t * (((const Vector *)w->normal)[i] + a * bent) - mass[v] * normal[i];
      link[i] = usable ? finite(link[i]) : (Vector){0};
    }
    level[v] = -price * t * (level[v] - (((const Vector *)w->level)[v] + a * turned));
    level[v] = usable ? finite(level[v]) : (Vector){0};
  }
  w->limit[limit] = usable && isfinite(missing) ? missing : 0.0;
  return (Sides){.rho = w->logs, .link = w->ax, .level = w->after, .pair = w->pair, .limits = w->limit};
}

/* ---- candidates ------------------------------------------------------------------------------------- */

TARGET static void improved(Space *w) {
  const long matrix = w->inputs * w->across / LANES, limit = w->budgets;
  const double allowed = w->limits[limit], held = w->feasible_use;
  leaks_of(w, w->point.x, w->after);
  const double used = total_of(w, w->after);
  double share = used_over(w, w->point.x, w->feasible);
  if (used > allowed && held < allowed) {
    const double own = (used - allowed) / (used > held ? used - held : 1.0);
    share = own > 1.0 ? 1.0 : own > share ? own : share;
  }
  mixed(w, w->point.x, share, w->feasible, w->after);
  Vector costly = {0};
  for (long i = 0; i < matrix; i++) costly += ((const Vector *)w->cost)[i] * ((const Vector *)w->after)[i];
  keep_mechanism(w, w->after, sum_of(costly));
  keep_rules(w, w->point.price[limit]);
}
