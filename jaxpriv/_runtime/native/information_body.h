/* What `information.c` does with one problem, for one instruction set, beside the steps themselves. */

#include "panels.h"
#include "vectors.h"
#include "whole_system.h"
#include "whole_points.h"
#include "whole_body.h"
#include "whole_entropic.h"
#include "information_start.h"

/* Rules turn by themselves: no part of z is quadratic, and no price is relative. */
TARGET static void bend_of(Space *w, const Point *move) { (void)w, (void)move; }
TARGET static void rescaled(Space *w) { (void)w; }
TARGET static int held_back(Space *w, const Point *move, double a, double mean) {
  return (void)w, (void)move, (void)a, (void)mean, 1;
}

TARGET static void residuals(Space *w) {
  const long across = w->across / LANES;
  Vector *t = (Vector *)w->t, *level = (Vector *)w->level;
  w->mu = inverses(w) / w->pairs, w->balance = 1.0;
  weighted_by(w, w->sums, w->point.x, w->t);
  rows_of(w, w->turned, w->point.x, w->ax);
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

/* Its right-hand side is in `logs` (rho), `ax` (link) and `after` (level). */
TARGET static Sides corrections(Space *w, const Point *move, double length, double sigma) {
  const long across = w->across / LANES, table = w->private * across;
  const double a = length + FURTHER < 1.0 ? length + FURTHER : 1.0, goal = ((1.0 - a) + a * sigma) * w->mu;
  Vector *link = (Vector *)w->ax, *level = (Vector *)w->after, *scale = level + across;
  const int usable = corrected(w, move, a, goal);
  weighted_by(w, w->sums, move->x, (double *)scale);
  for (long v = 0; v < across; v++) scale[v] = ((const Vector *)w->t)[v] + a * scale[v];
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
  return (Sides){.rho = w->logs, .link = w->ax, .level = w->after, .pair = w->pair, .limits = w->limit};
}

TARGET static void improved(Space *w) {
  const long across = w->across / LANES, matrix = w->inputs * across;
  const Vector *x = (const Vector *)w->after;
  Vector costly = {0}, *leaks = (Vector *)w->own.k;
  mixed(w, w->point.x, used_over(w, w->point.x, w->feasible), w->feasible, w->after);
  for (long i = 0; i < matrix; i++) costly += ((const Vector *)w->cost)[i] * x[i];
  leaks_of(w, w->after, w->own.k);
  for (long v = 0; v < across; v++) costly += leaks[v];
  keep_mechanism(w, w->after, sum_of(costly));
  keep_rules(w, 1.0);
}
