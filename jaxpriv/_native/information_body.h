/* What `information.c` does with one problem, for one instruction set. */

#include "panels.h"
#include "vectors.h"
#include "information_system.h"
#include "information_start.h"

#define residuals NAME(residuals)
#define plus NAME(plus)
#define with_prices NAME(with_prices)
#define to_boundary NAME(to_boundary)
#define products NAME(products)
#define into_neighbourhood NAME(into_neighbourhood)
#define towards NAME(towards)
#define corrections NAME(corrections)
#define moved NAME(moved)
#define improved NAME(improved)
#define advance NAME(advance)

/* ---- a point ---------------------------------------------------------------------------------------- */

/* What the equations of the present point miss; `costs` holds its reduced costs without nu. */
TARGET static void residuals(Space *w) {
  const long across = w->across / LANES;
  const Vector *x = (const Vector *)w->point.x, *z = (const Vector *)w->point.z;
  const Vector *inside = (const Vector *)w->inside, *far = (const Vector *)w->far;
  Vector pairs = {0}, *t = (Vector *)w->t, *level = (Vector *)w->level;
  memset(w->t, 0, w->across * sizeof(double));
  for (long i = 0; i < w->inputs; i++) {
    Vector held = {0};
    for (long v = 0; v < across; v++) {
      const long at = i * across + v;
      pairs += x[at] * z[at];
      held += x[at];
      t[v] += w->sums[i] * x[at];
      ((Vector *)w->inverse_x)[at] = inside[at] / (x[at] + far[at]);
      ((Vector *)w->inverse_z)[at] = 1.0 / z[at];
    }
    w->row[i] = 1.0 - sum_of(held);
  }
  double total = sum_of(pairs);
  for (long r = 0; r < w->budgets; r++) {
    total += w->point.slack[r] * w->point.price[r];
    w->use[r] = spent_by(w, r, w->point.x);
  }
  w->mu = total / w->pairs;
  rows_of(w, w->point.x, w->ax);
  edges_of(w, w->point.k, w->normal, w->level);
  for (long v = 0; v < across; v++) {
    ((Vector *)w->missing)[v] = -t[v] * level[v];
    for (long i = 0; i < w->private; i++) {
      const Vector own = t[v] * ((const Vector *)w->normal)[i * across + v];
      ((Vector *)w->curved)[i * across + v] = w->seen[i] > 0.0 ? own : all_of(1.0);
      ((Vector *)w->link)[i * across + v] = ((const Vector *)w->ax)[i * across + v] - own;
    }
  }
}

/* to = from + a move, all parts. */
TARGET static void plus(const Space *w, const Point *from, const Point *move, double a, Point *to) {
  const Vector *p = (const Vector *)from->x, *q = (const Vector *)move->x;
  for (long i = 0; i < w->whole / LANES; i++) ((Vector *)to->x)[i] = p[i] + a * q[i];
}

/* ---- directions ------------------------------------------------------------------------------------- */

/* Add the moves of the prices to a direction at fixed prices. */
TARGET static void with_prices(Space *w, const Sides *asked, Point *move) {
  const long n = w->budgets, wide = n + 1;
  double *m = w->matrix;
  for (long i = 0; i < n; i++) {
    for (long j = 0; j < n; j++) m[i * wide + j] = -w->slope[j * n + i];
    m[i * wide + i] += w->point.slack[i] / w->point.price[i];
    m[i * wide + n] = asked->pair[i] / w->point.price[i] - asked->limits[i] + spent_by(w, i, move->x);
  }
  eliminate(n, m);
  for (long i = 0; i < n; i++) plus(w, move, w->response + i, m[i * wide + n], move);
  for (long i = 0; i < n; i++) {
    move->price[i] = m[i * wide + n];
    move->slack[i] = (asked->pair[i] - w->point.slack[i] * move->price[i]) / w->point.price[i];
  }
}

/* ---- the length of a step --------------------------------------------------------------------------- */

/* The longest step, at most 1, that keeps all products nonnegative and the rules from changing by more than they may. */
TARGET static double to_boundary(const Space *w, const Point *move) {
  const long matrix = w->inputs * w->across / LANES, table = w->private * w->across / LANES;
  Vector most = {0}, change = {0};
  for (long i = 0; i < matrix; i++) {
    most = larger(most, -((const Vector *)move->x)[i] * ((const Vector *)w->inverse_x)[i]);
    most = larger(most, -((const Vector *)move->z)[i] * ((const Vector *)w->inverse_z)[i]);
  }
  for (long i = 0; i < table; i++) {
    const Vector dk = ((const Vector *)move->k)[i];
    change = larger(change, larger(dk, -dk));
  }
  double worst = largest_of(most);
  const double turned = largest_of(change) / (OF_LOGARITHMS * w->method->score_change);
  worst = turned > worst ? turned : worst;
  for (long i = 0; i < w->budgets; i++) {
    const double price = -move->price[i] / w->point.price[i], slack = -move->slack[i] / w->point.slack[i];
    worst = price > worst ? price : worst;
    worst = slack > worst ? slack : worst;
  }
  return worst > 1.0 ? 1.0 / worst : 1.0;
}

/* The smallest product relative to its weight, and the mean product, a step further. */
TARGET static double products(const Space *w, const Point *move, double a, double *mean) {
  const long across = w->across / LANES;
  const Vector *x = (const Vector *)w->point.x, *z = (const Vector *)w->point.z, *far = (const Vector *)w->far;
  const Vector *dx = (const Vector *)move->x, *dz = (const Vector *)move->z;
  Vector total = {0}, least = all_of(FAR);
  for (long i = 0; i < w->inputs; i++) {
    const double under = w->under[i];
    for (long v = 0; v < across; v++) {
      const long at = i * across + v;
      const Vector product = (x[at] + a * dx[at]) * (z[at] + a * dz[at]);
      total += product;
      least = smaller(least, product * under + far[at]);
    }
  }
  double sum = sum_of(total), smallest = smallest_of(least);
  for (long i = 0; i < w->budgets; i++) {
    const double product = (w->point.price[i] + a * move->price[i]) * (w->point.slack[i] + a * move->slack[i]);
    sum += product;
    smallest = product < smallest ? product : smallest;
  }
  *mean = sum / w->pairs;
  return smallest;
}

/* A step, back from the boundary until every product is a fair share of the mean; the mean after it. */
TARGET static double into_neighbourhood(const Space *w, const Point *move, double share, double *mean) {
  double a = w->method->boundary * to_boundary(w, move);
  for (int count = 0; count < MOST_BACK; count++) {
    if (count) a *= BACK;
    const double least = products(w, move, a, mean);
    if (*mean > 0.0 && least >= share * *mean) break;
  }
  return a;
}

/* ---- corrections ------------------------------------------------------------------------------------ */

INLINE Vector towards(Vector product, Vector aim) {
  return larger(smaller(larger(product, aim * (1.0 / INSIDE)), aim * INSIDE) - product, -INSIDE * aim);
}

/* Gondzio's corrector, of a move of that length: its right-hand side, in `logs` (rho), `ax` (link), `after` (level). */
TARGET static Sides corrections(Space *w, const Point *move, double length, double sigma) {
  const long across = w->across / LANES, table = w->private * across;
  const double a = length + FURTHER < 1.0 ? length + FURTHER : 1.0, goal = ((1.0 - a) + a * sigma) * w->mu;
  Vector *rho = (Vector *)w->logs, *link = (Vector *)w->ax, *level = (Vector *)w->after, *scale = level + across;
  memset(scale, 0, w->across * sizeof(double));
  int usable = 1;
  for (long i = 0; i < w->inputs; i++) {
    const Vector aim = all_of(goal * w->height[i]);
    for (long v = 0; v < across; v++) {
      const long at = i * across + v;
      const Vector x = ((const Vector *)w->point.x)[at] + a * ((const Vector *)move->x)[at];
      const Vector z = ((const Vector *)w->point.z)[at] + a * ((const Vector *)move->z)[at];
      rho[at] = towards(x * z, aim) * ((const Vector *)w->inverse_x)[at];
      scale[v] += w->sums[i] * x;
    }
  }
  for (long i = 0; i < w->budgets; i++) {
    const double price = w->point.price[i] + a * move->price[i], slack = w->point.slack[i] + a * move->slack[i];
    usable = usable && price > 0.0;
    w->pair[i] = towards(all_of(price * slack), all_of(goal))[0];
    w->limit[i] = 0.0; /* the budgets are linear */
  }
  Vector *k = (Vector *)w->trial.k, *normal = (Vector *)w->own.k;
  for (long i = 0; i < table; i++) k[i] = ((const Vector *)w->point.k)[i] + a * ((const Vector *)move->k)[i];
  edges_of(w, w->trial.k, w->own.k, w->after);
  for (long v = 0; v < across; v++) {
    const Vector t = ((const Vector *)w->t)[v];
    Vector turned = {0};
    for (long i = v; i < table; i += across) {
      const Vector bent = ((const Vector *)w->normal)[i] * ((const Vector *)move->k)[i];
      turned += bent;
      link[i] = t * (((const Vector *)w->normal)[i] + a * bent) - scale[v] * normal[i];
      link[i] = pick(link[i] - link[i] == 0.0, link[i], (Vector){0});
      if (!usable) link[i] = (Vector){0};
    }
    level[v] = -t * (level[v] - (((const Vector *)w->level)[v] + a * turned));
    level[v] = pick(level[v] - level[v] == 0.0, level[v], (Vector){0});
    if (!usable) level[v] = (Vector){0};
  }
  return (Sides){w->logs, w->ax, w->after, NULL, w->pair, w->limit};
}

/* ---- a step ----------------------------------------------------------------------------------------- */

/* The point after a step: rows of sum one, reduced costs by their definition. */
TARGET static void moved(Space *w, const Point *move, double a) {
  const long across = w->across / LANES;
  plus(w, &w->point, move, a, &w->point);
  reduced_costs(w, w->point.k, w->point.price);
  for (long i = 0; i < w->inputs; i++) {
    Vector *x = (Vector *)w->point.x + i * across, *z = (Vector *)w->point.z + i * across, held = {0};
    const Vector *costs = (const Vector *)w->costs + i * across, *inside = (const Vector *)w->inside + i * across;
    for (long v = 0; v < across; v++) held += x[v];
    const double share = 1.0 / sum_of(held), floor = LEAST_RATIO * w->mu * w->height[i], nu = w->point.nu[i];
    for (long v = 0; v < across; v++) {
      const Vector own = costs[v] - nu;
      x[v] *= share;
      z[v] = pick(inside[v] > 0.0, pick(own > 0.0, own, floor / x[v]), all_of(1.0));
    }
  }
}

/* What the point's mechanism and rules are worth, with the better of both kept; `costs` are the point's. */
TARGET static void improved(Space *w) {
  const long across = w->across / LANES, matrix = w->inputs * across, table = w->private * across;
  double share = 0.0, value = 0.0, bound = 0.0;
  for (long r = 0; r < w->budgets; r++) {
    const double used = w->use[r], there = spent_by(w, r, w->feasible);
    if (!(used > w->limits[r])) continue;
    double own = (used - w->limits[r]) / (used > there ? used - there : 1.0);
    own = own > 1.0 ? 1.0 : own;
    share = own > share ? own : share;
  }
  Vector *x = (Vector *)w->after, costly = {0};
  for (long i = 0; i < matrix; i++) {
    x[i] = (1.0 - share) * ((const Vector *)w->point.x)[i] + share * ((const Vector *)w->feasible)[i];
    costly += ((const Vector *)w->cost)[i] * x[i];
  }
  value = sum_of(costly) + leaked(w, w->after);
  if (value < w->value) {
    w->value = value;
    memcpy(w->mechanism, w->after, matrix * sizeof(Vector));
  }
  for (long i = 0; i < w->inputs; i++) {
    Vector least = all_of(FAR);
    for (long v = 0; v < across; v++) {
      const long at = i * across + v;
      const Vector own = ((const Vector *)w->costs)[at] - w->sums[i] * ((const Vector *)w->level)[v];
      least = smaller(least, own + ((const Vector *)w->far)[at]);
    }
    bound += smallest_of(least);
  }
  for (long r = 0; r < w->budgets; r++) bound -= w->point.price[r] * w->limits[r];
  if (bound > w->bound) {
    w->bound = bound;
    for (long i = 0; i < table; i++)
      ((Vector *)w->scores)[i] = ((const Vector *)w->point.k)[i] - ((const Vector *)w->level)[i % across];
    memcpy(w->price, w->point.price, w->budgets * sizeof(double));
  }
}

/* One predictor-corrector step: its length. */
TARGET static double advance(Space *w) {
  const Method *method = w->method;
  const long across = w->across / LANES, matrix = w->inputs * across, budgets = w->budgets;
  if (!factor_system(w)) return 0.0;
  Vector *predicted = (Vector *)w->rho, *centred = predicted + matrix;
  for (long i = 0; i < w->inputs; i++)
    for (long v = 0; v < across; v++) {
      const long at = i * across + v;
      predicted[at] = -((const Vector *)w->point.z)[at] * ((const Vector *)w->inside)[at];
      centred[at] = w->height[i] * ((const Vector *)w->inverse_x)[at];
    }
  Sides asked[MOST_SIDES];
  Point moves[MOST_SIDES];
  asked[0] = (Sides){w->rho, w->link, w->missing, w->row, w->pair, w->limit};
  asked[1] = (Sides){(double *)centred, NULL, NULL, NULL, NULL, NULL};
  moves[0] = w->predict, moves[1] = w->centring;
  for (long r = 0; r < budgets; r++) {
    asked[2 + r] = (Sides){(double *)(centred + (1 + r) * matrix), NULL, NULL, NULL, NULL, NULL};
    moves[2 + r] = w->response[r];
  }
  solve_system(w, 2 + budgets, asked, moves);
  for (long r = 0; r < budgets; r++) {
    const Vector *c = (const Vector *)w->constraints + r * matrix, *inside = (const Vector *)w->inside;
    for (long i = 0; i < matrix; i++) ((Vector *)w->response[r].z)[i] += c[i] * inside[i];
    for (long q = 0; q < budgets; q++) w->slope[r * budgets + q] = spent_by(w, q, w->response[r].x);
  }
  for (long r = 0; r < budgets; r++) {
    w->pair[r] = -w->point.slack[r] * w->point.price[r];
    w->limit[r] = w->limits[r] - w->use[r] - w->point.slack[r];
  }
  with_prices(w, asked, &w->predict);
  for (long r = 0; r < budgets; r++) w->pair[r] = 1.0, w->limit[r] = 0.0;
  asked[1].pair = w->pair, asked[1].limits = w->limit;
  with_prices(w, asked + 1, &w->centring);

  double mean, sigma = 1.0 - to_boundary(w, &w->predict);
  sigma = sigma * sigma * sigma * sigma * sigma;
  sigma = sigma < LEAST_SIGMA ? LEAST_SIGMA : sigma > MOST_SIGMA ? MOST_SIGMA : sigma;
  const double least = products(w, &w->predict, 0.0, &mean), at_start = OF_START * least / mean;
  const double share = at_start < method->neighbourhood ? at_start : method->neighbourhood;
  plus(w, &w->predict, &w->centring, sigma * w->mu, &w->move);
  double length = into_neighbourhood(w, &w->move, share, &mean);
  if (length < SHORT) {
    sigma = 1.0;
    plus(w, &w->predict, &w->centring, w->mu, &w->move);
    length = into_neighbourhood(w, &w->move, share, &mean);
  }
  for (long count = 0; count < method->correctors && length < method->long_enough; count++) {
    const Sides sides = corrections(w, &w->move, length, sigma);
    solve_system(w, 1, &sides, &w->own);
    with_prices(w, &sides, &w->own);
    plus(w, &w->move, &w->own, 1.0, &w->trial);
    double after;
    const double longest = into_neighbourhood(w, &w->trial, share, &after);
    if (!(after < LESS * mean || longest > LONGER * length)) break;
    const Point kept = w->move;
    w->move = w->trial, w->trial = kept, length = longest, mean = after;
  }
  moved(w, &w->move, length);
  return length;
}

/* Whether the candidate meets the goal. */
static int NAME(met)(const Space *w) {
  const double size = isfinite(w->value) ? w->rtol * fabs(w->value + w->shift) : 0.0;
  return w->value - w->bound <= (size > w->tol ? size : w->tol);
}

/* Steps from one start after another until the goal is met, the last one stalls or there are no more: how many. */
TARGET static long NAME(solved)(Space *w) {
  const long most = (long)w->method->most_steps, attempts = (long)w->method->attempts;
  long steps = 0;
  first_candidate(w);
  for (long attempt = 0; attempt == 0 || (attempt < attempts && steps < most && !NAME(met)(w)); attempt++) {
    begin(w, attempt);
    residuals(w);
    improved(w);
    int stalled = 0;
    for (long count = 0, brief = 0; !stalled && steps < most && !NAME(met)(w); count++, steps++) {
      const double length = advance(w);
      residuals(w);
      improved(w);
      brief = length < SHORT ? brief + 1 : 0;
      stalled = !isfinite(w->mu) || !finite_of(w) || brief >= MOST_SHORT || (count >= LATE && length < STUCK);
    }
  }
  return steps;
}
