/* Whole solves of the least relative entropy in the worst outcome: minimax programs of one term of a relative entropy
   (ENTROPIC, role WORST, with a rate), phi(A W_y) + offset . W_y <= peak rate . W_y, under budgets. */

#define LINEAR 0
#define WORST 1
#define LIMITED 0
#include "whole_body.h"
#include "whole_entropic.h"
#include "whole_minimax.h"

/* Numbers of `start.py`, by their names there. */
#define NEAR 0.3
#define LEAST_OF_OUTPUT 1e-12

/* k (T, Y) by prices (Y), 0 where these are: what it is the rules of. */
static void quotients(const Space *w, const Vector *k, const Vector *eta, Vector *rules) {
  const long across = w->across / LANES, table = w->private * across;
  for (long v = 0; v < across; v++) {
    const Vector inverse = pick(eta[v] > 0.0, 1.0 / eta[v], (Vector){0});
    for (long i = v; i < table; i += across) rules[i] = k[i] * inverse;
  }
}

static void ratios_of(Space *w, const double *x) {
  Vector *ratios = (Vector *)w->ratios, *offset = (Vector *)w->logs, *held = (Vector *)w->bent;
  leaks_of(w, x, w->ratios);
  weighted_by(w, w->offset, x, w->logs), weighted_by(w, w->rate, x, w->bent);
  for (long v = 0; v < w->across / LANES; v++) {
    const Vector own = (ratios[v] + offset[v]) / larger(held[v], all_of(TINY));
    ratios[v] = pick(held[v] > TINY, own, all_of(-INFINITY));
  }
}

/* ---- the first point -------------------------------------------------------------------------------- */

static void begin(Space *w, long attempt) {
  const double targets[] = {NEAR, SECOND, THIRD}, peak = first_peak(w);
  const long across = w->across / LANES, table = w->private * across;
  Vector *eta = (Vector *)w->point.eta, *sigma = (Vector *)w->point.sigma, *used = (Vector *)w->used, *k = (Vector *)w->point.k;
  const Vector *held = (const Vector *)w->held;
  prior_rules(w, w->point.k);
  rows_of(w, w->turned, w->point.x, w->ax);
  edges_of(w, w->point.k, w->normal, w->level);
  weighted_by(w, w->sums, w->point.x, w->t), weighted_by(w, w->rate, w->point.x, w->held);
  weighted_by(w, w->offset, w->point.x, w->used);
  Vector all = {0};
  for (long v = 0; v < across; v++) all += held[v];
  for (long v = 0; v < across; v++) {
    const Vector present = pick(((const Vector *)w->absent)[v] == 0.0, all_of(1.0), (Vector){0});
    used[v] -= peak * held[v] + ((const Vector *)w->t)[v] * ((const Vector *)w->level)[v];
    eta[v] = present / sum_of(all);
    for (long i = v; i < table; i += across) used[v] += k[i] * ((const Vector *)w->ax)[i], k[i] *= eta[v];
    sigma[v] = larger(-used[v], all_of(LEAST_OF_OUTPUT)) * present;
  }
  around(w, targets[attempt < 2 ? attempt : 2] / w->outputs * peak, &w->point);
}

/* ---- of a point ------------------------------------------------------------------------------------- */

static void residuals(Space *w) {
  const long across = w->across / LANES, matrix = w->inputs * across;
  const double peak = w->point.peak[0];
  const Vector *eta = (const Vector *)w->point.eta, *held = (const Vector *)w->held;
  Vector *fall = (Vector *)w->rho + (2 + w->budgets) * matrix, *used = (Vector *)w->used, balance = {0};
  w->mu = inverses(w) / w->pairs;
  quotients(w, (const Vector *)w->point.k, eta, (Vector *)w->rules);
  rows_of(w, w->turned, w->point.x, w->ax);
  edges_of(w, w->rules, w->normal, w->level);
  weighted_by(w, w->sums, w->point.x, w->t), weighted_by(w, w->rate, w->point.x, w->held);
  weighted_by(w, w->offset, w->point.x, w->used);
  for (long v = 0; v < across; v++) {
    const Vector sigma = ((const Vector *)w->point.sigma)[v], inverse = ((const Vector *)w->inverse_eta)[v];
    const Vector t = ((const Vector *)w->t)[v], claimed = t * ((const Vector *)w->level)[v];
    used[v] -= peak * held[v] + claimed;
    ((Vector *)w->missing)[v] = -claimed * eta[v];
    ((Vector *)w->claim)[v] = larger(claimed, -claimed);
    ((Vector *)w->tight)[v] = sigma * inverse;
    ((Vector *)w->spare)[v] = -sigma, ((Vector *)w->unheld)[v] = -held[v];
    balance += eta[v] * held[v];
    for (long t_at = 0, i = v; t_at < w->private; t_at++, i += across) {
      const Vector own = t * ((const Vector *)w->normal)[i];
      ((Vector *)w->curved)[i] = w->seen[t_at] > 0.0 ? own * inverse : all_of(1.0);
      ((Vector *)w->link)[i] = ((const Vector *)w->ax)[i] - own;
      used[v] += ((const Vector *)w->rules)[i] * ((const Vector *)w->ax)[i];
    }
  }
  columns_of(w, w->rows, w->rules, w->line);
  for (long i = 0; i < w->inputs; i++)
    for (long v = 0, at = i * across; v < across; v++, at++) {
      ((Vector *)w->line)[at] += w->offset[i] - peak * w->rate[i];
      fall[at] = w->rate[i] * eta[v];
    }
  w->balance = sum_of(balance);
}

static void bend_of(Space *w, const Point *move) {
  const long across = w->across / LANES;
  for (long i = 0; i < w->inputs; i++) {
    const double fall = move->peak[0] * w->rate[i];
    for (long v = 0; v < across; v++) ((Vector *)w->bent)[i * across + v] = fall * ((const Vector *)move->eta)[v];
  }
}

static void rescaled(Space *w) {
  Vector share = {0};
  weighted_by(w, w->rate, w->point.x, w->held);
  for (long v = 0; v < w->across / LANES; v++) share += ((const Vector *)w->point.eta)[v] * ((const Vector *)w->held)[v];
  scaled(w, 1.0 / sum_of(share));
}

static int held_back(Space *w, const Point *move, double a, double mean) {
  const long across = w->across / LANES, table = w->private * across;
  Vector *k = (Vector *)w->valid, *eta = (Vector *)w->rare, *level = (Vector *)w->after, *scale = level + across;
  for (long i = 0; i < table; i++) k[i] = ((const Vector *)w->point.k)[i] + a * ((const Vector *)move->k)[i];
  for (long v = 0; v < across; v++) eta[v] = ((const Vector *)w->point.eta)[v] + a * ((const Vector *)move->eta)[v];
  quotients(w, k, eta, k);
  edges_of(w, w->valid, w->left_link, w->after);
  weighted_by(w, w->sums, move->x, (double *)scale);
  Vector claimed = {0}, before = {0};
  for (long v = 0; v < across; v++) {
    const Vector own = (((const Vector *)w->t)[v] + a * scale[v]) * level[v];
    claimed += eta[v] * larger(own, -own), before += eta[v] * ((const Vector *)w->claim)[v];
  }
  const double known = w->method->dual_tolerance * w->pairs * mean, nearer = (1.0 - NEARER * a) * sum_of(before);
  return sum_of(claimed) <= (known > nearer ? known : nearer);
}

/* Its right-hand side is in `logs` (rho), `ax` (link), `after` (level), `worst` and `spare`. */
static Sides corrections(Space *w, const Point *move, double length, double sigma) {
  const long across = w->across / LANES, matrix = w->inputs * across, table = w->private * across;
  const double a = length + FURTHER < 1.0 ? length + FURTHER : 1.0, goal = ((1.0 - a) + a * sigma) * w->mu;
  const double rise = move->peak[0], peak = w->point.peak[0] + a * rise;
  Vector *x = (Vector *)w->left_rho, *g = (Vector *)w->valid, *normal = (Vector *)w->left_link, *link = (Vector *)w->ax;
  Vector *level = (Vector *)w->after, *scale = level + across, *worst = (Vector *)w->worst, *least = (Vector *)w->rare;
  Vector *held = (Vector *)w->ratios, share = {0};
  const Vector *eta = (const Vector *)w->point.eta, *turn = (const Vector *)move->eta;
  const Vector *inverse = (const Vector *)w->inverse_eta;
  int usable = corrected(w, move, a, goal);
  for (long v = 0; v < across; v++) {
    const Vector now = eta[v] + a * turn[v], present = pick(((const Vector *)w->absent)[v] == 0.0, now, all_of(1.0));
    usable = usable && smallest_of(present) > 0.0;
    least[v] = larger(now, LEAST_RATIO * eta[v]);
    const Vector product = now * (((const Vector *)w->point.sigma)[v] + a * ((const Vector *)move->sigma)[v]);
    ((Vector *)w->spare)[v] = towards(product, all_of(goal)) * inverse[v];
  }
  for (long i = 0; i < table; i++) g[i] = ((const Vector *)w->point.k)[i] + a * ((const Vector *)move->k)[i];
  quotients(w, g, least, g);
  edges_of(w, w->valid, w->left_link, w->after);
  weighted_by(w, w->rate, move->x, w->rare);
  for (long v = 0; v < across; v++) share += turn[v] * ((const Vector *)w->rare)[v];
  for (long i = 0; i < matrix; i++) x[i] = ((const Vector *)w->point.x)[i] + a * ((const Vector *)move->x)[i];
  rows_of(w, w->turned, w->left_rho, w->ax);
  weighted_by(w, w->sums, w->left_rho, (double *)scale), weighted_by(w, w->rate, w->left_rho, w->ratios);
  weighted_by(w, w->offset, w->left_rho, w->worst);
  for (long v = 0; v < across; v++) {
    const Vector t = ((const Vector *)w->t)[v];
    Vector turned = {0}, along = {0};
    worst[v] -= peak * held[v] + scale[v] * level[v] + ((const Vector *)w->used)[v];
    for (long i = v; i < table; i += across) {
      const Vector own = ((const Vector *)move->k)[i] - ((const Vector *)w->rules)[i] * turn[v];
      const Vector bent = ((const Vector *)w->normal)[i] * own * inverse[v];
      worst[v] += g[i] * link[i], turned += bent;
      link[i] = usable ? or_zero(t * (((const Vector *)w->normal)[i] + a * bent) - scale[v] * normal[i]) : (Vector){0};
    }
    for (long i = v; i < matrix; i += across) along += ((const Vector *)w->line)[i] * ((const Vector *)move->x)[i];
    worst[v] -= a * (along - rise * ((const Vector *)w->held)[v]);
    level[v] = -eta[v] * t * (level[v] - (((const Vector *)w->level)[v] + a * turned));
    level[v] = usable ? or_zero(level[v]) : (Vector){0};
    worst[v] = (usable ? or_zero(worst[v]) : (Vector){0}) + ((const Vector *)w->spare)[v];
  }
  return (Sides){.rho = w->logs, .link = w->ax, .level = w->after, .pair = w->pair, .limits = w->limit,
                 .balance = -a * a * sum_of(share), .worst = w->worst, .spare = w->spare};
}

/* ---- candidates ------------------------------------------------------------------------------------- */

static void proof_of(Space *w) {
  const long across = w->across / LANES, table = w->private * across;
  const double peak = w->point.peak[0];
  const Vector *eta = (const Vector *)w->point.eta, *level = (const Vector *)w->level;
  for (long i = 0; i < table; i++)
    ((Vector *)w->valid)[i] = ((const Vector *)w->point.k)[i] - eta[i % across] * level[i % across];
  for (long i = 0; i < w->inputs; i++)
    for (long v = 0, at = i * across; v < across; v++, at++) {
      const Vector fall = w->rate[i] * eta[v], moved_in = w->sums[i] * eta[v] * level[v];
      ((Vector *)w->logs)[at] = fall;
      ((Vector *)w->after)[at] = ((const Vector *)w->costs)[at] + peak * fall - moved_in;
    }
}

XLA_FFI_Error *NAME(jaxpriv_worst_information_call)(XLA_FFI_CallFrame *frame) {
  return solve_batch(frame, WORDS("T T X X", "R", "P Y Y Y"));
}
