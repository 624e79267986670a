/* Whole solves of the least cost under a limit on mutual information: programs whose only term is a relative entropy that is
   limited (ENTROPIC, role AVERAGE), sum_y phi(A W_y) <= bound, under budgets. */

#define LINEAR 0
#define WORST 0
#define LIMITED 1
#include "whole_body.h"
#include "whole_entropic.h"
#include "whole_average.h"

/* A point around the independent release. It has all of the slack of the limit, however small. The targets are `_ATTEMPTS` of
   `start.py`. */
static void begin(Space *w, long attempt) {
  const double targets[] = {1.0, 30.0, 1000.0}, mu = targets[attempt < 2 ? attempt : 2] / w->outputs;
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

XLA_FFI_Error *NAME(jaxpriv_limited_information_call)(XLA_FFI_CallFrame *frame) {
  return solve_batch(frame, WORDS("T T P", "Q", ""));
}
