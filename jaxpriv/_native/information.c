/* Whole solves of the least mutual information, by the interior-point method, in double precision.

   `jaxpriv.solvers.interior_point` has the mathematics and the same in NumPy and JAX, for every program; this is its first
   starts for those whose only term is a relative entropy in the objective. A problem takes its own steps and corrections,
   where a batch takes those of its slowest lane in every operation. The outputs lie side by side in vectors. It is
   called through ctypes, by several threads at a time, and by XLA. */

#include "systems.h"

#define PART 8          /* problems of a task: threads that are done early find some left */
#define SIDE 4          /* rows and columns of a block of the factors */
#define MOST_BUDGETS 14 /* of a problem */
#define MOST_SIDES (2 + MOST_BUDGETS)
#define FAR 1e300       /* larger than anything that it is compared with */
#define LEAST 1e-16     /* least ratio of the curvature of a row to its square: `_LEAST` of `_newton_system` */

/* Numbers of `method.py`, by their names there. */
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

/* Numbers of `start.py`. */
#define LEAST_SHARE 1e-12
#define SPREAD 0.02
#define LEAST_GAP 1e-9
#define LEAST_PRICE 1e-3
#define NEAR 0.3
#define RIDGE 1e-12 /* of `meet_budgets`, and as a share of its largest entry */
#define RIDGE_SHARE 1e-9
#define FARTHER 30.0 /* the products of the third start, in those of the second */

/* What the caller chooses: the fields of `InteriorPoint` in this order, and the most steps. */
typedef struct {
  double warm_steps, correctors, long_enough, boundary, neighbourhood, score_change, attempts, most_steps;
} Method;

enum { CHOICES = sizeof(Method) / sizeof(double) };

/* Arrays (X, Y), (T, Y), (X), (R) and (R), one behind the other: a point, or a move of one. */
typedef struct {
  double *x, *z, *k, *nu, *price, *slack;
} Point;

/* A right-hand side: rho (X, Y), link (T, Y) and level (Y) (NULL: zeros), row (X) (NULL: zeros), pair and limits (R). */
typedef struct {
  const double *rho, *link, *level, *row, *pair, *limits;
} Sides;

/* One problem, and all working memory. The second axis of arrays (., Y) has `across` places, those of A `columns`, those of
   A' `lines`: multiples of 8, SIDE and SIDE. */
typedef struct {
  long private, inputs, outputs, budgets, across, columns, lines, whole; /* whole: numbers of a point */
  const Method *method;
  double tol, rtol, shift;
  double *rows, *turned, *cost, *constraints, *inside, *far, *feasible; /* inside: 1 on the support; far: FAR outside */
  double *mass, *height, *under, *limits, *sums, *bend, *seen, *centre; /* bend: ln reference + centre, -FAR unseen */
  double pairs;
  Point point, predict, centring, move, trial, own, *response;
  double *inverse_x, *inverse_z;                        /* 1/x on the support and 0 outside, 1/z */
  double *normal, *curved, *link, *level, *t, *missing, *use, *row; /* residuals; missing: minus t level */
  double mu;
  double *h, *u, *shorter, *k, *l, *d, *total, *sum, *scale, *schur, *strip, *half, *right, *gather; /* the system */
  double *after, *rho, *costs, *ax, *logs, *pair, *limit, *matrix, *slope; /* of a step */
  double *mechanism, *scores, *price;                    /* the best candidate, (X, Y), (T, Y), (R) */
  double value, bound;
} Space;

#define TAKE(name, count) (w->name = at, at += padded(count))

static double *take_point(Point *p, double *at, long matrix, long rows, long inputs, long budgets) {
  p->x = at, at += matrix, p->z = at, at += matrix, p->k = at, at += rows, p->nu = at, at += padded(inputs);
  p->price = at, at += padded(budgets), p->slack = at, at += padded(budgets);
  return at;
}

/* The numbers of working memory, laid out from `memory` on; `response` is there. */
static long lay_out(Space *w, double *memory) {
  const long x = w->inputs, r = w->budgets, across = padded(w->outputs);
  const long columns = (x + SIDE - 1) / SIDE * SIDE, lines = (w->private + SIDE - 1) / SIDE * SIDE;
  const long matrix = x * across, table = w->private * across, n = padded(x), triangle = columns * (columns + SIDE) / 2;
  const long of_factor = (2 + w->private) * columns, of_solve = 3 * (lines + 3 * columns);
  w->across = across, w->columns = columns, w->lines = lines;
  double *at = memory;
  Point *points[] = {&w->point, &w->predict, &w->centring, &w->move, &w->trial, &w->own};
  for (int i = 0; i < 6; i++) at = take_point(points[i], at, matrix, table, x, r);
  for (long i = 0; i < r; i++) at = take_point(w->response + i, at, matrix, table, x, r);
  w->whole = 2 * matrix + table + padded(x) + 2 * padded(r);
  TAKE(rows, w->private * columns), TAKE(turned, x * lines), TAKE(cost, matrix), TAKE(constraints, r * matrix);
  TAKE(inside, matrix), TAKE(far, matrix), TAKE(feasible, matrix), TAKE(mass, x), TAKE(height, x), TAKE(under, x);
  TAKE(limits, r), TAKE(sums, x), TAKE(bend, w->private), TAKE(seen, w->private), TAKE(centre, w->private);
  TAKE(inverse_x, matrix), TAKE(inverse_z, matrix), TAKE(normal, table), TAKE(curved, table), TAKE(link, table);
  TAKE(level, across), TAKE(t, across), TAKE(missing, across), TAKE(use, r), TAKE(row, x);
  TAKE(h, table), TAKE(u, table), TAKE(shorter, across), TAKE(k, triangle * across), TAKE(l, triangle * PAD);
  TAKE(d, columns * SIDE * PAD), TAKE(total, triangle * PAD), TAKE(sum, n * n), TAKE(scale, n), TAKE(schur, n * n);
  TAKE(strip, 2 * PANEL * n), TAKE(half, 3 * columns * across), TAKE(right, 3 * n + padded(w->private));
  TAKE(gather, PAD * (of_factor > of_solve ? of_factor : of_solve));
  TAKE(after, matrix + 2 * across), TAKE(rho, (2 + r) * matrix), TAKE(costs, matrix), TAKE(ax, table), TAKE(logs, matrix);
  TAKE(pair, r), TAKE(limit, r), TAKE(matrix, r * (r + 1)), TAKE(slope, r * r);
  TAKE(mechanism, matrix), TAKE(scores, table), TAKE(price, r);
  return at - memory;
}

#define BODY "information_body.h"
#include "targets.h"

typedef long SolvedOf(Space *);

/* ---- problems in a row ------------------------------------------------------------------------------ */

/* Rows (count, n) of `from` into rows of `wide` places, whose rest is `blank`. */
static void widen(long count, long n, const double *from, long wide, double *to, double blank) {
  for (long i = 0; i < count; i++)
    for (long j = 0; j < wide; j++) to[i * wide + j] = j < n ? from[i * n + j] : blank;
}

/* What is given of every problem, in this order; CENTRE: ln reference + centre, CHOSEN: the method. */
enum { ROWS_OF, REFERENCE, CENTRE, MASS, COST, CONSTRAINTS, BUDGETS, SUPPORT, FEASIBLE, GOAL, CHOSEN, GIVEN };
/* What is found, of the best candidate (X, Y), (Y, T), (R), and the value, the bound and the steps; and the last point: x, z
   (Y, X), k (Y, T), nu (X), prices and slacks (R). */
enum { MECHANISM, SCORES, PRICE, NUMBERS, LAST_X, LAST_Z, LAST_K, LAST_NU, LAST_PRICE, LAST_SLACK, FOUND };
enum { AIMS = 3, RESULTS = 3 }; /* the numbers of GOAL and of NUMBERS */

static void copy(long n, const double *from, double *to) {
  for (long i = 0; i < n; i++) to[i] = from[i];
}

static void read_problem(Space *w, const double *const given[GIVEN]) {
  const long x = w->inputs, y = w->outputs, r = w->budgets, across = w->across;
  widen(w->private, x, given[ROWS_OF], w->columns, w->rows, 0.0);
  memset(w->turned, 0, x * w->lines * sizeof(double)), memset(w->sums, 0, x * sizeof(double));
  for (long t = 0; t < w->private; t++)
    for (long i = 0; i < x; i++) {
      w->turned[i * w->lines + t] = given[ROWS_OF][t * x + i];
      w->sums[i] += given[ROWS_OF][t * x + i];
    }
  widen(x, y, given[COST], across, w->cost, 0.0), widen(r * x, y, given[CONSTRAINTS], across, w->constraints, 0.0);
  widen(x, y, given[SUPPORT], across, w->inside, 0.0), widen(x, y, given[FEASIBLE], across, w->feasible, 0.0);
  for (long i = 0; i < x * across; i++) w->far[i] = w->inside[i] > 0.0 ? 0.0 : FAR;
  for (long i = 0; i < r * x * across; i++) w->rho[2 * x * across + i] = -w->constraints[i];
  w->pairs = r;
  for (long i = 0; i < x; i++) {
    w->mass[i] = given[MASS][i], w->height[i] = 0.5 * w->mass[i] + 0.5 / x, w->under[i] = 1.0 / w->height[i];
    for (long j = 0; j < y; j++) w->pairs += w->height[i] * w->inside[i * across + j];
  }
  copy(r, given[BUDGETS], w->limits);
  for (long t = 0; t < w->private; t++) {
    w->seen[t] = given[REFERENCE][t] > 0.0;
    w->bend[t] = w->seen[t] > 0.0 ? given[CENTRE][t] : -FAR;
  }
  w->tol = given[GOAL][0], w->rtol = given[GOAL][1], w->shift = given[GOAL][2];
  w->method = (const Method *)given[CHOSEN];
}

/* Rows (count, n) of arrays of `across` places, as columns (n, count). */
static void turn(long count, long n, const double *from, long across, double *to) {
  for (long i = 0; i < count; i++)
    for (long j = 0; j < n; j++) to[j * count + i] = from[i * across + j];
}

static void write_solution(const Space *w, long steps, double *const found[FOUND]) {
  const long t = w->private, x = w->inputs, y = w->outputs, r = w->budgets, across = w->across;
  for (long i = 0; i < x; i++) copy(y, w->mechanism + i * across, found[MECHANISM] + i * y);
  turn(t, y, w->scores, across, found[SCORES]);
  copy(r, w->price, found[PRICE]);
  found[NUMBERS][0] = w->value, found[NUMBERS][1] = w->bound, found[NUMBERS][2] = steps;
  turn(x, y, w->point.x, across, found[LAST_X]), turn(x, y, w->point.z, across, found[LAST_Z]);
  turn(t, y, w->point.k, across, found[LAST_K]), copy(x, w->point.nu, found[LAST_NU]);
  copy(r, w->point.price, found[LAST_PRICE]), copy(r, w->point.slack, found[LAST_SLACK]);
}

/* Problems of equal sizes (T, X, Y, R): number j of `given` of problem i is at given[j] + i apart[j] (0: the same for all),
   what is found at found[j] + i numbers of it. */
typedef struct {
  const long *sizes, *apart;
  const double *const *given;
  double *const *found;
} Problems;

static Space space_of(const long *sizes) {
  return (Space){.private = sizes[0], .inputs = sizes[1], .outputs = sizes[2], .budgets = sizes[3]};
}

/* The numbers of working memory of problems of these sizes. */
static long room(const long *sizes) {
  Space w = space_of(sizes);
  Point responses[MOST_BUDGETS];
  w.response = responses;
  return lay_out(&w, NULL);
}

/* Problems from <= i < to. */
static void solve_row(const Problems *all, long from, long to, double *memory) {
  Space w = space_of(all->sizes);
  Point responses[MOST_BUDGETS];
  w.response = responses;
  memset(memory, 0, lay_out(&w, memory) * sizeof(double));
  const long matrix = w.inputs * w.outputs, table = w.outputs * w.private, r = w.budgets;
  const long wide[FOUND] = {matrix, table, r, RESULTS, matrix, matrix, table, w.inputs, r, r};
  SolvedOf *run = PICK(solved);
  for (long i = from; i < to; i++) {
    const double *own[GIVEN];
    double *results[FOUND];
    for (int j = 0; j < GIVEN; j++) own[j] = all->given[j] + i * all->apart[j];
    for (int j = 0; j < FOUND; j++) results[j] = all->found[j] + i * wide[j];
    lay_out(&w, memory);
    memset(w.point.x, 0, (6 + w.budgets) * w.whole * sizeof(double)); /* places that nothing writes */
    read_problem(&w, own);
    write_solution(&w, run(&w), results);
  }
}

/* Problems from <= i < to; see `Problems`. 0 if there was no memory. */
int jaxpriv_information(long from, long to, const long *sizes, const double *const *given, const long *apart,
                        double *const *found) {
  double *memory = allocate(room(sizes));
  if (!memory) return 0;
  solve_row(&(Problems){sizes, apart, given, found}, from, to, memory);
  free(memory);
  return 1;
}

/* ---- the interface to XLA --------------------------------------------------------------------------- */

typedef struct {
  Problems all;
  long count;
} Batch;

static void run_part(void *context, double *memory, long part) {
  const Batch *batch = context;
  const long from = part * PART, to = from + PART;
  solve_row(&batch->all, from, to < batch->count ? to : batch->count, memory);
}

/* (what is given) -> (what is found), with a batch in front of all. */
XLA_FFI_Error *jaxpriv_information_call(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  XLA_FFI_Buffer **in = (XLA_FFI_Buffer **)frame->args.args, **out = (XLA_FFI_Buffer **)frame->rets.rets;
  long found_sizes[LETTERS];
  if (!shaped(frame, XLA_FFI_DataType_F64, "TX T T X XY RXY R XY XY G M | XY YT R N YX YX YT X R R", found_sizes) ||
      SIZE(found_sizes, 'G') != AIMS || SIZE(found_sizes, 'M') != CHOICES || SIZE(found_sizes, 'N') != RESULTS ||
      SIZE(found_sizes, 'R') > MOST_BUDGETS)
    return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "information: arrays of float64 of other shapes");
  const long t = SIZE(found_sizes, 'T'), x = SIZE(found_sizes, 'X'), y = SIZE(found_sizes, 'Y'), r = SIZE(found_sizes, 'R');
  const long sizes[] = {t, x, y, r}, apart[GIVEN] = {t * x, t, t, x, x * y, r * x * y, r, x * y, x * y, AIMS, CHOICES};
  const double *given[GIVEN];
  double *found[FOUND];
  for (int j = 0; j < GIVEN; j++) given[j] = numbers(in[j]);
  for (int j = 0; j < FOUND; j++) found[j] = out[j]->data;
  Batch batch = {{sizes, apart, given, found}, leading(in[CHOSEN], 1)};
  return share(frame, run_part, &batch, (batch.count + PART - 1) / PART, room(sizes), 0) ? NULL : no_memory(frame);
}
