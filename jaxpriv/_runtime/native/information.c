/* Whole solves of the least mutual information, of programs whose only term is a relative entropy in the objective. */

#define LINEAR 0
#define WORST 0
#define LIMITED 0
#include "whole_body.h"
#include "whole_entropic.h"
#include "whole_average.h"

/* Numbers of `start.py`. */
#define LEAST_SHARE 1e-12
#define SPREAD 0.02
#define LEAST_GAP 1e-9
#define LEAST_PRICE 1e-3
#define NEAR 0.3
#define RIDGE 1e-12 /* of `meet_budgets`, and as a share of its largest entry */
#define RIDGE_SHARE 1e-9
#define FARTHER 30.0 /* the products of the third start, in those of the second */

/* ---- mirror steps ----------------------------------------------------------------------------------- */

/* The rules (T, Y) of the outputs of a mechanism (X, Y). */
static void rules_of(Space *w, const double *x, double *rules) {
  const long across = w->across / LANES;
  rows_of(w, w->turned, x, w->ax);
  for (long v = 0; v < across; v++) {
    Vector *own = (Vector *)w->ax + v, *g = (Vector *)rules + v, top = all_of(TINY), total = {0};
    for (long t = 0; t < w->private; t++) top = larger(top, own[t * across]);
    const Vector inverse = 1.0 / top;
    for (long t = 0; t < w->private; t++)
      total += own[t * across] = larger(own[t * across] * inverse, all_of(LEAST_SHARE));
    const Vector share = 1.0 / total;
    for (long t = 0; t < w->private; t++)
      g[t * across] = (logarithm(own[t * across] * share) - w->bend[t]) * w->seen[t];
  }
}

/* The softmax of a row of logits (Y) into x; the logarithm of the sum of their exponentials. */
INLINE double softmax(long across, const Vector *logits, const Vector *inside, Vector *x) {
  Vector top = all_of(-FAR), total = {0};
  for (long v = 0; v < across; v++) top = larger(top, logits[v]);
  const double most = largest_of(top);
  for (long v = 0; v < across; v++) total += x[v] = exponential(logits[v] - most) * inside[v];
  const double sum = sum_of(total), share = 1.0 / sum;
  for (long v = 0; v < across; v++) x[v] *= share;
  return most + logarithm(all_of(sum))[0];
}

/* One Newton step of the prices at logits that are `tilts` times too cheap in the budgets: see `newton_prices`. `x` (X, Y) is
   working memory. */
static void meet_budgets(Space *w, const Vector *logs, const double *tilts, double *price, double *x) {
  const long across = w->across / LANES, matrix = w->inputs * across, n = w->budgets, wide = n + 1;
  const Vector *c = (const Vector *)w->constraints;
  Vector *logits = (Vector *)w->after, *own = (Vector *)x;
  double *m = w->matrix, *system = m + n * wide, most = 0.0;
  memset(m, 0, n * wide * sizeof(double));
  for (long i = 0; i < w->inputs; i++) {
    const long at = i * across;
    for (long v = 0; v < across; v++) {
      logits[v] = logs[at + v];
      for (long r = 0; r < n; r++) logits[v] -= tilts[i] * price[r] * c[r * matrix + at + v];
    }
    softmax(across, logits, (const Vector *)w->inside + at, own + at);
    for (long r = 0; r < n; r++) {
      Vector sum = {0};
      for (long v = 0; v < across; v++) sum += own[at + v] * c[r * matrix + at + v];
      m[r * wide + n] += w->slope[r] = sum_of(sum);
      for (long q = 0; q <= r; q++) {
        Vector both = {0};
        for (long v = 0; v < across; v++) both += own[at + v] * c[r * matrix + at + v] * c[q * matrix + at + v];
        m[r * wide + q] += tilts[i] * (sum_of(both) - w->slope[r] * w->slope[q]);
      }
    }
  }
  for (long r = 0; r < n; r++) most = m[r * wide + r] > most ? m[r * wide + r] : most;
  for (long r = 0; r < n; r++) m[r * wide + n] -= w->limits[r];
  for (long r = 0; r < n; r++) w->slope[r] = price[r] > 0.0 || m[r * wide + n] > 0.0;
  for (long r = 0; r < n; r++)
    for (long q = 0; q <= r; q++) m[q * wide + r] = m[r * wide + q];
  /* Prices that the move of the free ones takes to half of them stay there, and the others move given that. */
  for (int held = 1; held;) {
    for (long r = 0; r < n; r++) {
      for (long q = 0; q < n; q++) system[r * wide + q] = m[r * wide + q] * w->slope[r] * w->slope[q];
      system[r * wide + r] += w->slope[r] > 0.0 ? RIDGE + RIDGE_SHARE * most : 1.0;
      system[r * wide + n] = m[r * wide + n] * w->slope[r];
    }
    eliminate(n, system), held = 0;
    for (long r = 0; r < n; r++) {
      if (w->slope[r] == 0.0 || price[r] + system[r * wide + n] > 0.5 * price[r]) continue;
      w->slope[r] = 0.0, price[r] *= 0.5, held = 1;
      for (long q = 0; q < n; q++) m[q * wide + n] += m[q * wide + r] * price[r];
    }
  }
  for (long r = 0; r < n; r++) {
    const double now = price[r] + system[r * wide + n], most = 2.0 * price[r] + 1.0;
    price[r] = w->slope[r] == 0.0 || now < most ? now : most;
  }
}

/* The mechanism and the prices after mirror steps from the uniform mechanism, into `to`. */
static void mirror_steps(Space *w, Point *to) {
  const long across = w->across / LANES, matrix = w->inputs * across;
  const Vector *inside = (const Vector *)w->inside, *c = (const Vector *)w->constraints;
  Vector *logs = (Vector *)w->logs, *x = (Vector *)to->x, *costs = (Vector *)w->costs;
  double *tilts = w->right;
  for (long i = 0; i < w->inputs; i++) {
    tilts[i] = 1.0 / (w->mass[i] > TINY ? w->mass[i] : TINY);
    for (long at = i * across; at < (i + 1) * across; at++) logs[at] = -((const Vector *)w->far)[at];
    softmax(across, logs + i * across, inside + i * across, x + i * across);
  }
  memset(to->price, 0, w->budgets * sizeof(double));
  for (long step = 0; step < (long)w->method->warm_steps; step++) {
    rules_of(w, to->x, to->k);
    reduced_costs(w, to->k, NULL);
    for (long i = 0; i < w->inputs; i++)
      for (long at = i * across; at < (i + 1) * across; at++) logs[at] -= tilts[i] * costs[at];
    if (w->budgets) meet_budgets(w, logs, tilts, to->price, to->x);
    for (long i = 0; i < w->inputs; i++) {
      for (long r = 0; r < w->budgets; r++)
        for (long at = i * across; at < (i + 1) * across; at++) logs[at] -= tilts[i] * to->price[r] * c[r * matrix + at];
      const double level = softmax(across, logs + i * across, inside + i * across, x + i * across);
      for (long at = i * across; at < (i + 1) * across; at++) logs[at] -= level;
    }
  }
}

/* ---- first points ----------------------------------------------------------------------------------- */

/* What a mechanism costs beyond them. */
static double gap_of(const Space *w, const double *x) {
  const long matrix = w->inputs * w->across / LANES;
  Vector sum = {0};
  for (long at = 0; at < matrix; at++) sum += ((const Vector *)x)[at] * ((const Vector *)w->costs)[at];
  return sum_of(sum) - cheapest(w);
}

/* The multiplier of a row with `costs` (Y): see `path_multipliers`. */
static double multiplier(long across, const Vector *costs, const Vector *inside, const Vector *far, double weight) {
  Vector least = all_of(FAR);
  for (long v = 0; v < across; v++) least = smaller(least, costs[v] + far[v]);
  const double lowest = smallest_of(least), most = lowest - weight * 0.999999;
  double nu = lowest - weight, error = FAR;
  for (int count = 0; error > 1e-10 && count < 80; count++) {
    Vector sum = {0}, slope = {0};
    for (long v = 0; v < across; v++) {
      const Vector inverse = inside[v] / (costs[v] + far[v] - nu), q = weight * inverse;
      sum += q, slope += q * inverse;
    }
    const double f = sum_of(sum), next = nu - (f - 1.0) * f / sum_of(slope);
    nu = next < most ? next : most;
    error = fabs(f - 1.0);
  }
  return nu;
}

/* A point after mirror steps, in the place of the present one if it is as near to the solution as it should be. */
static void average_point(Space *w, Point *to) {
  const long across = w->across / LANES, matrix = w->inputs * across;
  Vector *x = (Vector *)to->x, *even = (Vector *)w->after;
  mirror_steps(w, to);
  uniform(w, w->after);
  for (long at = 0; at < matrix; at++) x[at] = (1.0 - SPREAD) * x[at] + SPREAD * even[at];
  for (long r = 0; r < w->budgets; r++) to->price[r] = to->price[r] > LEAST_PRICE ? to->price[r] : LEAST_PRICE;
  rules_of(w, to->x, to->k);
  reduced_costs(w, to->k, to->price);
  const double gap = gap_of(w, to->x), mu = NEAR * (gap > LEAST_GAP ? gap : LEAST_GAP) / w->outputs;
  for (long i = 0; i < w->inputs; i++) {
    const Vector *costs = (const Vector *)w->costs + i * across, *inside = (const Vector *)w->inside + i * across;
    to->nu[i] = multiplier(across, costs, inside, (const Vector *)w->far + i * across, mu * w->height[i]);
  }
  put_costs(w, to);
  for (long i = 0; i < w->inputs; i++) {
    Vector sum = {0};
    for (long at = i * across; at < (i + 1) * across; at++)
      sum += x[at] = root_of(x[at] * (mu * w->height[i] / ((const Vector *)to->z)[at]));
    const double share = 1.0 / sum_of(sum);
    for (long at = i * across; at < (i + 1) * across; at++) x[at] *= share;
  }
  for (long r = 0; r < w->budgets; r++) {
    const double left = w->limits[r] - spent_by(w, r, to->x), least = mu / to->price[r];
    to->slack[r] = left > least ? left : least;
  }
  /* `costs` without the rules: what the uniform mechanism costs at these prices. */
  memcpy(w->costs, w->cost, matrix * sizeof(Vector));
  for (long r = 0; r < w->budgets; r++)
    for (long at = 0; at < matrix; at++)
      ((Vector *)w->costs)[at] += to->price[r] * ((const Vector *)w->constraints)[r * matrix + at];
  const double most = 1.0 + gap_of(w, w->after);
  Vector near = {0}, there = {0};
  for (long at = 0; at < matrix; at++) {
    near += x[at] * ((const Vector *)to->z)[at];
    there += ((const Vector *)w->point.x)[at] * ((const Vector *)w->point.z)[at];
  }
  if (sum_of(near) <= most * sum_of(there)) {
    const Point kept = w->point;
    w->point = *to, *to = kept;
  }
}

/* A point around the independent release, of which the third is further inside. */
static void begin(Space *w, long attempt) {
  uniform(w, w->point.x);
  prior_rules(w, w->point.k);
  around(w, (attempt < 2 ? 1.0 : FARTHER) / w->outputs, &w->point);
  if (attempt == 0) average_point(w, &w->trial);
  reduced_costs(w, w->point.k, w->point.price);
}

XLA_FFI_Error *NAME(jaxpriv_information_call)(XLA_FFI_CallFrame *frame) {
  return solve_batch(frame, WORDS("T T", "R", ""));
}
