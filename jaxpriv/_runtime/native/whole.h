/* Whole solves by the interior-point method in double precision, from one start after another: what their kernels share.

   `jaxpriv.solvers.interior_point` has the mathematics and the same in NumPy and JAX, for every program. A problem takes its
   own steps and corrections, where a batch takes those of its slowest lane in every operation. The outputs lie side by
   side in vectors. The kernels are called through ctypes, by several threads at a time, and by XLA. They define before this

   * LINEAR: 1 for the least ratio of linear rows (`least_ratios.c`), 0 for relative entropies,
   * WORST: 1 for the least of a relative entropy that is limited in every outcome (`worst_information.c`), else 0, and
   * LIMITED: 1 for the least cost under a limit on the sum of a relative entropy over the outputs
     (`limited_information.c`), else 0. Without any of them a relative entropy is in the objective (`information.c`). */

#include "systems.h"
#include "panels.h"
#include "vectors.h"

#define PART 8          /* problems of a task: threads that are done early find some left */
#define SIDE 4          /* rows and columns of a block of the factors */
#define MOST_BUDGETS 14 /* of a problem */
#define MINIMAX (LINEAR || WORST) /* whether there is a peak */
#define REFINED (WORST || LIMITED) /* whether solutions are */
#define MOST_FREE (MOST_BUDGETS + LIMITED + MINIMAX) /* prices, and the peak */
#define MOST_SIDES (2 + MOST_FREE)
#define FAR 1e300       /* larger than anything that it is compared with */
#define LEAST 1e-16     /* least ratio of the curvature of a row to its square: `_LEAST` of `_newton_system` */
#define TINY 0x1p-1022
#define AROUND_ONE 1e-12 /* of `rule_sets._log_of_total` */
#define SMALL_RULE 0.5   /* of `rule_sets.Entropic.boundary` */

/* Numbers of `method.py` and `newton.py`, by their names there. */
#define BACK 0.85
#define MOST_BACK 30
#define SHORT 0.1
#define MOST_SHORT 6
#define LATE 30
#define STUCK 0.02
#define LEAST_SIGMA 1e-3
#define MOST_SIGMA 0.9
#define FURTHER 0.3
#define INSIDE 10.0
#define LESS 0.98
#define LONGER 1.1
#define OF_START 0.9
#define LEAST_RATIO 1e-3
#define OF_LOGARITHMS 2.0
#define NEARER 0.5
#define FARTHEST 1.5
#define FALL 0.5
/* Of minimax programs: numbers of `start.py` and `candidate.py`. */
#define SLACK 0.1
#define MOST_FEASIBLE 0.95
#define ABOVE 1.3
#define SECOND 0.1
#define THIRD 30.0
#define NEWTON_STEPS 12
#define RARE 0.1
#define ROUNDINGS 64
#define EPS 0x1p-52
#define ACCURATE 1e-3
#define MOST_REFINEMENTS 3

/* What the caller chooses: the fields of `InteriorPoint` in this order, and the most steps; and whether linear rows are
   normalised. */
typedef struct {
  double warm_steps, correctors, long_enough, boundary, neighbourhood, dual_tolerance, score_change, attempts, most_steps,
      normalised;
} Method;

enum { CHOICES = sizeof(Method) / sizeof(double), POINTS = 6 + MINIMAX /* beside the responses */ };

/* A point of the method, or a move of one (`system.Point`), as consecutive arrays: x, z (X, Y); k (T, Y); s (T, Y) and t (Y) of
   linear rows; nu (X); price and slack (Q), of the Q prices; peak (1) of minimax programs; eta and sigma (Y) of limits in every
   outcome. Arrays that a kind of program does not have are empty. */
typedef struct {
  double *x, *z, *k, *s, *t, *nu, *price, *slack, *peak, *eta, *sigma;
} Point;

/* The right-hand side of a Newton system (`newton.Sides`). NULL stands for zeros.
   rho (X, Y): the change of x z by x. link (T, Y), level (Y), row (X): of the rows, the normalisations and the row sums.
   pair, limits (Q): of price times slack, and of the limits. slacks (T, Y): the change of k s by k, for linear rows, which is also
   contained in link. balance: of what a unit of the peak allows at the prices. worst (Y): of the limits in every outcome, and
   spare (Y): the change of eta sigma by eta, which is also contained in worst. */
typedef struct {
  const double *rho, *link, *level, *row, *pair, *limits, *slacks;
  double balance;
  const double *worst, *spare;
} Sides;

/* Arrays of a problem and of working memory, with their numbers. The second axis of arrays (., Y) has `across` places, that of
   A (T, X) `columns`, that of its transpose `lines`: multiples of 8, SIDE and SIDE. Places beyond the outputs hold zeros, those
   of z and s ones.

   Of all programs: rows, turned: A with the rows first and with the inputs first; inside, far: 1 and 0 on the support, 0 and
   FAR outside; height: weights of the central path, under: their inverses; inverse_x, inverse_z: 1/x on the support and 0
   outside, 1/z; normal to row: residuals; t: multiples of the normals, missing: of the levels; h to gather: the Newton system;
   after to slope: of a step; mechanism, scores, price: the best candidate, (X, Y), (T, Y), (Q).

   Relative entropies: sums (X): column sums of A. seen (T): whether the reference is positive; bend: ln reference + centre, -FAR
   where it is not; part: the reference by its sum. level (Y): of the rules of the point.

   Minimax programs: bent (X, Y): the part of z that is quadratic in a move. absent (Y): FAR beyond the outputs. shares: the
   changes, by the responses, of what a unit of the peak allows. The others are of a candidate.

   The limit on the sum, and limits in every outcome: rules (T, Y): k by their prices. line (X, Y): the rows of the limits in
   the Newton system. claim (Y): |t level|, which rules outside of their set overstate. left_...: the residual of a solution.

   Limits in every outcome: offset, rate (X): the limit is phi + offset . W_y <= peak rate . W_y. tight (Y): sigma / eta. used:
   the left side less the right one, by the rules. held, unheld: rate . x and its negative. spare, worst: of a corrector. eta: the
   prices of the best candidate.

   Linear rows: stated, rise (T, X): the rows are stated - peak rise; both also with the inputs first. reference, turn (T): the
   normalisation is reference + peak turn. The others are of a point or a move. */
#define ARRAYS(ARRAY) \
  ARRAY(rows, flat) ARRAY(turned, upright) ARRAY(cost, matrix) ARRAY(constraints, r * matrix) ARRAY(inside, matrix) \
  ARRAY(far, matrix) ARRAY(feasible, matrix) ARRAY(mass, x) ARRAY(height, x) ARRAY(under, x) ARRAY(limits, q) \
  ARRAY(inverse_x, matrix) ARRAY(inverse_z, matrix) ARRAY(normal, table) ARRAY(curved, table) ARRAY(link, table) \
  ARRAY(t, across) ARRAY(missing, across) ARRAY(use, q) ARRAY(row, x) ARRAY(h, deep * across) ARRAY(u, table) \
  ARRAY(shorter, across) ARRAY(k, triangle * across) ARRAY(l, triangle * PAD) ARRAY(d, columns * SIDE * PAD) \
  ARRAY(total, triangle * PAD) ARRAY(sum, n * n) ARRAY(scale, n) ARRAY(schur, n * n) ARRAY(strip, 2 * PANEL * n) \
  ARRAY(half, 3 * columns * across) ARRAY(right, 3 * n + padded(w->private)) \
  ARRAY(gather, PAD * (of_factor > of_solve ? of_factor : of_solve)) ARRAY(after, matrix + 2 * across) \
  ARRAY(rho, (2 + free) * matrix) ARRAY(costs, matrix) ARRAY(ax, table) ARRAY(logs, matrix) ARRAY(pair, q) \
  ARRAY(limit, q) ARRAY(matrix, 2 * free * (free + 1)) ARRAY(slope, free * q) ARRAY(mechanism, matrix) ARRAY(scores, table) \
  ARRAY(price, q) ARRAY(sums, entropic * x) ARRAY(bend, entropic * w->private) ARRAY(seen, entropic * w->private) \
  ARRAY(centre, entropic * w->private) ARRAY(part, entropic * w->private) ARRAY(level, entropic * across) \
  ARRAY(bent, MINIMAX * matrix) ARRAY(absent, MINIMAX * across) ARRAY(shares, MINIMAX * free) \
  ARRAY(plain, MINIMAX * matrix) ARRAY(left, MINIMAX * matrix) ARRAY(onto, MINIMAX * matrix) \
  ARRAY(other, MINIMAX * matrix) ARRAY(ratios, MINIMAX * across) ARRAY(rare, MINIMAX * across) ARRAY(valid, table) \
  ARRAY(offset, WORST * x) ARRAY(rate, WORST * x) ARRAY(rules, (WORST || LIMITED) * table) \
  ARRAY(line, (WORST || LIMITED) * matrix) ARRAY(claim, (WORST || LIMITED) * across) ARRAY(tight, WORST * across) \
  ARRAY(used, WORST * across) ARRAY(held, WORST * across) ARRAY(unheld, WORST * across) ARRAY(spare, WORST * across) \
  ARRAY(worst, WORST * across) ARRAY(inverse_eta, WORST * across) ARRAY(inverse_sigma, WORST * across) \
  ARRAY(eta, WORST * across) ARRAY(left_rho, REFINED * matrix) ARRAY(left_link, REFINED * table) \
  ARRAY(left_worst, WORST * across) ARRAY(left_level, REFINED * across) ARRAY(left_row, REFINED * x) \
  ARRAY(stated, LINEAR * flat) ARRAY(rise, LINEAR * flat) ARRAY(stated_turned, LINEAR * upright) \
  ARRAY(rise_turned, LINEAR * upright) ARRAY(reference, LINEAR * w->private) ARRAY(turn, LINEAR * w->private) \
  ARRAY(inverse_k, LINEAR * table) ARRAY(inverse_s, LINEAR * table) ARRAY(pushed, LINEAR * table) \
  ARRAY(weighted, LINEAR * table) ARRAY(lost, LINEAR * table) ARRAY(unturned, LINEAR * across) \
  ARRAY(nothing, LINEAR * across)

typedef struct {
  long private, inputs, outputs, budgets;
  long prices;     /* Q: one for each budget, then that of the limit on the sum */
  long free;       /* the prices, and the peak */
  long normalised; /* whether linear rows are */
  long across, columns, lines;
  long deep;  /* rows of the Newton system: those of A, and that of the limit in every outcome */
  long whole; /* numbers of a point */
  const Method *method;
  double tol, rtol, shift, mu, value, bound, balance;
  double pairs;        /* the sum of the weights of all products */
  double whole_log;    /* the logarithm of the sum of the reference, 0 of one that is 1 up to rounding (`_log_of_total`) */
  double feasible_use; /* of the limit on the sum */
  Point point, predict, centring, move, trial, own, along, response[MOST_FREE]; /* along: the move along the path */
  Point more;                                                                   /* the correction of a solution */
#define DECLARED(name, count) double *name;
  ARRAYS(DECLARED)
} Space;

#define TAKE(name, count) w->name = at, at += padded(count);

static double *take_point(const Space *w, Point *p, double *at) {
  const long matrix = w->inputs * w->across, table = w->private * w->across;
  p->x = at, at += matrix, p->z = at, at += matrix, p->k = at, at += table;
  p->s = at, at += LINEAR * table, p->t = at, at += LINEAR * w->across, p->nu = at, at += padded(w->inputs);
  p->price = at, at += padded(w->prices), p->slack = at, at += padded(w->prices), p->peak = at, at += MINIMAX * PAD;
  p->eta = at, at += WORST * w->across, p->sigma = at, at += WORST * w->across;
  return at;
}

/* The numbers of working memory, laid out from `memory` on. */
static long lay_out(Space *w, double *memory) {
  const long x = w->inputs, r = w->budgets, q = w->prices = r + LIMITED, free = w->free = q + MINIMAX;
  const long across = padded(w->outputs);
  const long columns = (x + SIDE - 1) / SIDE * SIDE, lines = (w->private + SIDE - 1) / SIDE * SIDE;
  const long matrix = x * across, table = w->private * across, n = padded(x), triangle = columns * (columns + SIDE) / 2;
  const long deep = w->private + WORST, of_factor = (2 + deep) * columns, of_solve = 3 * (lines + 3 * columns);
  const long entropic = !LINEAR, flat = w->private * columns, upright = x * lines;
  w->across = across, w->columns = columns, w->lines = lines, w->deep = deep;
  double *at = memory;
  Point *points[] = {&w->point, &w->predict, &w->centring, &w->move, &w->trial, &w->own, &w->along};
  for (int i = 0; i < POINTS; i++) at = take_point(w, points[i], at);
  w->whole = (at - memory) / POINTS;
  for (long i = 0; i < free; i++) at = take_point(w, w->response + i, at);
  ARRAYS(TAKE)
  if (REFINED) at = take_point(w, &w->more, at);
  return at - memory;
}

/* ---- problems in a row ------------------------------------------------------------------------------ */

/* Rows (count, n) of `from` into rows of `wide` places, whose rest is `blank`. */
static void widen(long count, long n, const double *from, long wide, double *to, double blank) {
  for (long i = 0; i < count; i++)
    for (long j = 0; j < wide; j++) to[i * wide + j] = j < n ? from[i * n + j] : blank;
}

/* A table (T, X) as rows of `columns` places, and with the inputs first in rows of `lines`. */
static void both_ways(const Space *w, const double *from, double *rows, double *turned) {
  widen(w->private, w->inputs, from, w->columns, rows, 0.0);
  memset(turned, 0, w->inputs * w->lines * sizeof(double));
  for (long t = 0; t < w->private; t++)
    for (long i = 0; i < w->inputs; i++) turned[i * w->lines + t] = from[t * w->inputs + i];
}

/* What is given of every problem, in this order, and behind the method what a kind of program has of its own: (X) OFFSET and
   RATE; RISE (T, X) and TURN (T), zeros where the rows are normalised, and where they are not. */
enum { ROWS_OF, MASS, COST, CONSTRAINTS, BUDGETS, SUPPORT, FEASIBLE, GOAL, CHOSEN, REFERENCE, CENTRE, OFFSET, RATE };
enum { RISE = REFERENCE + 1, TURN, BOUND = CENTRE + 1 };
/* What is found, of the best candidate (X, Y), (Y, T), (Q), and the value, the bound and the steps; and the last point: x, z
   (Y, X), k (Y, T), nu (X), prices and slacks (Q); of minimax programs the peak; of linear rows s (Y, T) and t (Y); of limits in
   every outcome their prices in the best candidate, and prices and slacks (Y). */
enum { MECHANISM = (WORST ? RATE : LINEAR || LIMITED ? BOUND : CENTRE) + 1, SCORES, PRICE, NUMBERS, LAST_X, LAST_Z };
enum { LAST_K = LAST_Z + 1, LAST_NU, LAST_PRICE, LAST_SLACK, LAST_PEAK, LAST_S, LAST_T, ETA = LAST_S, LAST_ETA, LAST_SIGMA };
enum { AIMS = 3, RESULTS = 3 }; /* the numbers of GOAL and of NUMBERS */
/* The same as letters for `shaped`: the prices are as many as the budgets, or one more. */
#define WORDS(own, prices, more) \
  "TX X XY RXY R XY XY G M " own " | XY YT " prices " N YX YX YT X " prices " " prices " " more

static void copy(long n, const double *from, double *to) {
  for (long i = 0; i < n; i++) to[i] = from[i];
}

/* A term of a relative entropy: rows (T, X), reference (T) and centre (T). */
static void read_entropic(Space *w, const double *rows, const double *reference, const double *centre) {
  double whole = 0.0;
  for (long t = 0; t < w->private; t++) whole += reference[t];
  w->whole_log = fabs(whole - 1.0) > AROUND_ONE ? log(whole) : 0.0;
  memset(w->sums, 0, w->inputs * sizeof(double));
  for (long t = 0; t < w->private; t++) {
    for (long i = 0; i < w->inputs; i++) w->sums[i] += rows[t * w->inputs + i];
    w->seen[t] = reference[t] > 0.0;
    w->bend[t] = w->seen[t] > 0.0 ? log(reference[t]) + centre[t] : -FAR;
    w->centre[t] = centre[t], w->part[t] = reference[t] / whole;
  }
}

static void read_problem(Space *w, double *const *given) {
  const long x = w->inputs, y = w->outputs, r = w->budgets, across = w->across;
  both_ways(w, given[ROWS_OF], w->rows, w->turned);
  widen(x, y, given[COST], across, w->cost, 0.0), widen(r * x, y, given[CONSTRAINTS], across, w->constraints, 0.0);
  widen(x, y, given[SUPPORT], across, w->inside, 0.0), widen(x, y, given[FEASIBLE], across, w->feasible, 0.0);
  for (long i = 0; i < x * across; i++) w->far[i] = w->inside[i] > 0.0 ? 0.0 : FAR;
  for (long i = 0; i < r * x * across; i++) w->rho[2 * x * across + i] = -w->constraints[i];
  w->pairs = w->prices + MINIMAX * y; /* the weights of the linear rows of an output sum to one */
  for (long j = 0; MINIMAX && j < across; j++) w->absent[j] = j < y ? 0.0 : FAR;
  for (long i = 0; i < x; i++) {
    w->mass[i] = given[MASS][i], w->height[i] = 0.5 * w->mass[i] + 0.5 / x, w->under[i] = 1.0 / w->height[i];
    for (long j = 0; j < y; j++) w->pairs += w->height[i] * w->inside[i * across + j];
  }
  copy(r, given[BUDGETS], w->limits);
  w->tol = given[GOAL][0], w->rtol = given[GOAL][1], w->shift = given[GOAL][2];
  w->method = (const Method *)given[CHOSEN], w->normalised = w->method->normalised > 0.0;
  if (LINEAR) {
    both_ways(w, given[ROWS_OF], w->stated, w->stated_turned), both_ways(w, given[RISE], w->rise, w->rise_turned);
    copy(w->private, given[REFERENCE], w->reference), copy(w->private, given[TURN], w->turn);
    for (long j = 0; j < across; j++) w->t[j] = 1.0;
  } else {
    read_entropic(w, given[ROWS_OF], given[REFERENCE], given[CENTRE]);
  }
  if (WORST) copy(x, given[OFFSET], w->offset), copy(x, given[RATE], w->rate);
  if (LIMITED) w->limits[r] = given[BOUND][0];
}

/* Rows (count, n) of arrays of `across` places, as columns (n, count). */
static void turn(long count, long n, const double *from, long across, double *to) {
  for (long i = 0; i < count; i++)
    for (long j = 0; j < n; j++) to[j * count + i] = from[i * across + j];
}

static void write_solution(const Space *w, long steps, double *const *found) {
  const long t = w->private, x = w->inputs, y = w->outputs, q = w->prices, across = w->across;
  for (long i = 0; i < x; i++) copy(y, w->mechanism + i * across, found[MECHANISM] + i * y);
  turn(t, y, w->scores, across, found[SCORES]);
  copy(q, w->price, found[PRICE]);
  found[NUMBERS][0] = w->value, found[NUMBERS][1] = w->bound, found[NUMBERS][2] = steps;
  turn(x, y, w->point.x, across, found[LAST_X]), turn(x, y, w->point.z, across, found[LAST_Z]);
  turn(t, y, w->point.k, across, found[LAST_K]), copy(x, w->point.nu, found[LAST_NU]);
  copy(q, w->point.price, found[LAST_PRICE]), copy(q, w->point.slack, found[LAST_SLACK]);
  if (MINIMAX) found[LAST_PEAK][0] = w->point.peak[0];
  if (LINEAR) turn(t, y, w->point.s, across, found[LAST_S]), copy(y, w->point.t, found[LAST_T]);
  if (WORST) copy(y, w->eta, found[ETA]), copy(y, w->point.eta, found[LAST_ETA]), copy(y, w->point.sigma, found[LAST_SIGMA]);
}
