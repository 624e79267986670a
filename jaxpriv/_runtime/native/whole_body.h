/* The steps of whole solves (`whole.h`). What follows from the kind of program is declared here and stands in the file of its
   kernel. */

#include "whole.h"
#include "whole_system.h"
#include "whole_points.h"

/* Of the kind of program. */

/* The candidate before the first point. */
static void first_candidate(Space *w);
/* The point of start number `attempt`, with its `costs`. */
static void begin(Space *w, long attempt);
/* The residuals of the point. */
static void residuals(Space *w);
/* The value of the point's mechanism and the bound of its rules, each kept if it is better; `costs` are the point's. */
static void improved(Space *w);
/* Gondzio's corrector, of a move of that length: its right-hand side. */
static Sides corrections(Space *w, const Point *move, double length, double sigma);
/* Of minimax programs: what a move takes off z in proportion to its square, into `bent`. */
static void bend_of(Space *w, const Point *move);
/* Of minimax programs: the prices of the point such that the peak is worth one, and the rows as they are there. */
static void rescaled(Space *w);
/* Of limits in every outcome and on the sum: whether the rules of a step `a`, with that mean product, stay in their sets up to a
   share of the products, or come nearer to them. */
static int held_back(Space *w, const Point *move, double a, double mean);

/* ---- residuals -------------------------------------------------------------------------------------- */

/* Inverses of x and z, and of the prices and slacks of outputs, row sums and uses; the sum of their products. */
static double inverses(Space *w) {
  const long across = w->across / LANES;
  const Vector *x = (const Vector *)w->point.x, *z = (const Vector *)w->point.z;
  Vector pairs = {0};
  for (long i = 0; i < w->inputs; i++) {
    Vector held = {0};
    for (long at = i * across; at < (i + 1) * across; at++) {
      pairs += x[at] * z[at];
      held += x[at];
      ((Vector *)w->inverse_x)[at] = ((const Vector *)w->inside)[at] / (x[at] + ((const Vector *)w->far)[at]);
      ((Vector *)w->inverse_z)[at] = 1.0 / z[at];
    }
    w->row[i] = 1.0 - sum_of(held);
  }
  for (long v = 0; WORST && v < across; v++) {
    const Vector eta = ((const Vector *)w->point.eta)[v], sigma = ((const Vector *)w->point.sigma)[v];
    pairs += eta * sigma;
    ((Vector *)w->inverse_eta)[v] = pick(eta > 0.0, 1.0 / eta, (Vector){0});
    ((Vector *)w->inverse_sigma)[v] = pick(sigma > 0.0, 1.0 / sigma, (Vector){0});
  }
  double total = sum_of(pairs);
  for (long q = 0; q < w->prices; q++) total += w->point.slack[q] * w->point.price[q];
  for (long r = 0; r < w->budgets; r++) w->use[r] = spent_by(w, r, w->point.x);
  return total;
}

/* to = from + a move, all parts. */
static void plus(const Space *w, const Point *from, const Point *move, double a, Point *to) {
  const Vector *p = (const Vector *)from->x, *q = (const Vector *)move->x;
  for (long i = 0; i < w->whole / LANES; i++) ((Vector *)to->x)[i] = p[i] + a * q[i];
}

/* ---- directions ------------------------------------------------------------------------------------- */

/* What a move changes of the use of a budget or, of number `budgets`, of the limit on the sum, whose price moves by `turn`. */
static double use_rate(const Space *w, long r, const Point *move, double turn) {
  if (r < w->budgets) return spent_by(w, r, move->x);
  const long across = w->across / LANES, matrix = w->inputs * across, table = w->private * across;
  Vector sum = {0}, turned = {0};
  for (long i = 0; i < matrix; i++) sum += ((const Vector *)w->line)[i] * ((const Vector *)move->x)[i];
  for (long i = 0; i < table; i++) {
    const Vector own = ((const Vector *)move->k)[i] - turn * ((const Vector *)w->rules)[i];
    turned += ((const Vector *)w->link)[i] * own;
  }
  return sum_of(sum) + sum_of(turned) / w->point.price[r];
}

/* Of minimax programs: what a move changes of what a unit of the peak allows at its prices. */
static double share_of(const Space *w, const Point *move) {
  const long across = w->across / LANES, matrix = w->inputs * across, table = w->private * across;
  const Vector *fall = (const Vector *)w->rho + (2 + w->budgets) * matrix;
  Vector sum = {0};
  for (long i = 0; LINEAR && i < table; i++) sum -= ((const Vector *)move->k)[i] * ((const Vector *)w->lost)[i];
  for (long v = 0; WORST && v < across; v++) sum += ((const Vector *)move->eta)[v] * ((const Vector *)w->held)[v];
  if (w->normalised)
    for (long v = 0; v < across; v++) sum -= ((const Vector *)move->t)[v] * ((const Vector *)w->unturned)[v];
  else
    for (long i = 0; i < matrix; i++) sum += ((const Vector *)move->x)[i] * fall[i];
  return sum_of(sum);
}

/* Add the moves of the prices, and of the peak, to a direction where they are fixed. */
static void with_prices(Space *w, const Sides *asked, Point *move) {
  const long n = w->free, r = w->prices, wide = n + 1;
  double *m = w->matrix;
  for (long i = 0; i < r; i++) {
    for (long j = 0; j < n; j++) m[i * wide + j] = -w->slope[j * r + i];
    m[i * wide + i] += w->point.slack[i] / w->point.price[i];
    m[i * wide + n] = asked->pair[i] / w->point.price[i] - asked->limits[i] + use_rate(w, i, move, 0.0);
  }
  if (MINIMAX) {
    memcpy(m + r * wide, w->shares, n * sizeof(double));
    m[r * wide + n] = asked->balance - share_of(w, move);
  }
  eliminate(n, m);
  for (long i = 0; i < n; i++) plus(w, move, w->response + i, m[i * wide + n], move);
  for (long i = 0; i < r; i++) {
    move->price[i] = m[i * wide + n];
    move->slack[i] = (asked->pair[i] - w->point.slack[i] * move->price[i]) / w->point.price[i];
  }
  if (MINIMAX) move->peak[0] = m[r * wide + n];
}

/* The move along the path, into `along`: the peak rises by one, and what the equations miss and the products stay. */
static void path_move(Space *w) {
  const long r = w->prices, wide = r + 1;
  double *m = w->matrix;
  for (long i = 0; i < r; i++) {
    for (long j = 0; j < r; j++) m[i * wide + j] = -w->slope[j * r + i];
    m[i * wide + i] += w->point.slack[i] / w->point.price[i];
    m[i * wide + r] = w->slope[r * r + i];
  }
  eliminate(r, m);
  plus(w, w->response + r, w->response + r, 0.0, &w->along);
  for (long i = 0; i < r; i++) plus(w, &w->along, w->response + i, m[i * wide + r], &w->along);
  for (long i = 0; i < r; i++) {
    w->along.price[i] = m[i * wide + r];
    w->along.slack[i] = -w->point.slack[i] * w->along.price[i] / w->point.price[i];
  }
  w->along.peak[0] = 1.0;
}

/* A move, such that it changes the peak by `peak`. */
static void fallen(const Space *w, Point *move, double peak) {
  plus(w, move, &w->along, peak - move->peak[0], move);
}

/* ---- the length of a step --------------------------------------------------------------------------- */

/* The longest step, at most 1, that keeps all products nonnegative and rules from changing by more than they may. */
static double to_boundary(const Space *w, const Point *move) {
  const long across = w->across / LANES, matrix = w->inputs * across, table = w->private * across;
  const double furthest = OF_LOGARITHMS * w->method->score_change;
  const double inverse = LIMITED ? 1.0 / w->point.price[w->budgets] : 1.0;
  Vector most = {0}, change = {0};
  for (long i = 0; i < matrix; i++) {
    most = larger(most, -((const Vector *)move->x)[i] * ((const Vector *)w->inverse_x)[i]);
    most = larger(most, -((const Vector *)move->z)[i] * ((const Vector *)w->inverse_z)[i]);
  }
  for (long i = 0; i < table; i++) {
    const Vector dk = ((const Vector *)move->k)[i];
    if (LINEAR) {
      most = larger(most, -dk * ((const Vector *)w->inverse_k)[i]);
      most = larger(most, -((const Vector *)move->s)[i] * ((const Vector *)w->inverse_s)[i]);
    } else { /* rules are quotients by a price that moves, or in the objective by one */
      const Vector price = WORST ? ((const Vector *)move->eta)[i % across] : all_of(LIMITED ? move->price[w->budgets] : 0.0);
      const Vector by = WORST ? ((const Vector *)w->inverse_eta)[i % across] : all_of(inverse);
      const Vector turn = WORST || LIMITED ? dk - price * ((const Vector *)w->rules)[i] : dk;
      const Vector used = (larger(turn, -turn) - furthest * price) * by;
      change = larger(change, pick(turn != 0.0, used, (Vector){0}));
    }
  }
  for (long v = 0; WORST && v < across; v++) {
    most = larger(most, -((const Vector *)move->eta)[v] * ((const Vector *)w->inverse_eta)[v]);
    most = larger(most, -((const Vector *)move->sigma)[v] * ((const Vector *)w->inverse_sigma)[v]);
  }
  double worst = largest_of(most);
  const double turned = largest_of(change) / furthest;
  worst = turned > worst ? turned : worst;
  for (long i = 0; i < w->prices; i++) {
    const double price = -move->price[i] / w->point.price[i], slack = -move->slack[i] / w->point.slack[i];
    worst = price > worst ? price : worst;
    worst = slack > worst ? slack : worst;
  }
  return worst > 1.0 ? 1.0 / worst : 1.0;
}

/* The smallest product relative to its weight, and the mean product, a step further. */
static double products(const Space *w, const Point *move, double a, double *mean) {
  const long across = w->across / LANES;
  const Vector *x = (const Vector *)w->point.x, *z = (const Vector *)w->point.z, *far = (const Vector *)w->far;
  const Vector *dx = (const Vector *)move->x, *dz = (const Vector *)move->z;
  Vector total = {0}, least = all_of(FAR);
  for (long i = 0; i < w->inputs; i++) {
    const double under = w->under[i];
    for (long v = 0; v < across; v++) {
      const long at = i * across + v;
      Vector after = z[at] + a * dz[at];
      if (MINIMAX) after -= a * a * ((const Vector *)w->bent)[at];
      const Vector product = (x[at] + a * dx[at]) * after;
      total += product;
      least = smaller(least, product * under + far[at]);
    }
  }
  for (long v = 0; LINEAR && v < across; v++) {
    Vector own = all_of(FAR);
    for (long i = v; i < w->private * across; i += across) {
      const Vector k = ((const Vector *)w->point.k)[i] + a * ((const Vector *)move->k)[i];
      const Vector product = k * (((const Vector *)w->point.s)[i] + a * ((const Vector *)move->s)[i]);
      total += product, own = smaller(own, product);
    }
    least = smaller(least, own * (double)w->private + ((const Vector *)w->absent)[v]);
  }
  for (long v = 0; WORST && v < across; v++) {
    const Vector eta = ((const Vector *)w->point.eta)[v] + a * ((const Vector *)move->eta)[v];
    const Vector product = eta * (((const Vector *)w->point.sigma)[v] + a * ((const Vector *)move->sigma)[v]);
    total += product, least = smaller(least, product + ((const Vector *)w->absent)[v]);
  }
  double sum = sum_of(total), smallest = smallest_of(least);
  for (long i = 0; i < w->prices; i++) {
    const double product = (w->point.price[i] + a * move->price[i]) * (w->point.slack[i] + a * move->slack[i]);
    sum += product;
    smallest = product < smallest ? product : smallest;
  }
  *mean = sum / w->pairs;
  return smallest;
}

/* A step, back from the boundary until every product is a fair share of the mean; the mean after it. */
static double into_neighbourhood(Space *w, const Point *move, double share, double *mean) {
  double a = w->method->boundary * to_boundary(w, move);
  if (MINIMAX) bend_of(w, move);
  for (int count = 0; count < MOST_BACK; count++) {
    if (count) a *= BACK;
    const double least = products(w, move, a, mean);
    if (*mean > 0.0 && least >= share * *mean && held_back(w, move, a, *mean)) break;
  }
  return a;
}

/* ---- corrections ------------------------------------------------------------------------------------ */

INLINE Vector towards(Vector product, Vector aim) {
  return larger(smaller(larger(product, aim * (1.0 / INSIDE)), aim * INSIDE) - product, -INSIDE * aim);
}

/* The right-hand side of a corrector, after a step `a`, for the products of x and of the slacks, into `logs` (rho), `pair` and
   `limit`, which is zero for budgets since these are linear. Whether the prices are positive after the step. */
static int corrected(Space *w, const Point *move, double a, double goal) {
  const long across = w->across / LANES;
  int usable = 1;
  for (long i = 0; i < w->inputs; i++) {
    const Vector aim = all_of(goal * w->height[i]);
    for (long at = i * across; at < (i + 1) * across; at++) {
      const Vector x = ((const Vector *)w->point.x)[at] + a * ((const Vector *)move->x)[at];
      Vector z = ((const Vector *)w->point.z)[at] + a * ((const Vector *)move->z)[at];
      if (MINIMAX) z -= a * a * ((const Vector *)w->bent)[at];
      ((Vector *)w->logs)[at] = towards(x * z, aim) * ((const Vector *)w->inverse_x)[at];
    }
  }
  for (long i = 0; i < w->prices; i++) {
    const double price = w->point.price[i] + a * move->price[i], slack = w->point.slack[i] + a * move->slack[i];
    usable = usable && price > 0.0;
    w->pair[i] = towards(all_of(price * slack), all_of(goal))[0];
    w->limit[i] = 0.0;
  }
  return usable;
}

/* ---- a step ----------------------------------------------------------------------------------------- */

/* The point after a step: rows of sum one, reduced costs by their definition. */
static void moved(Space *w, const Point *move, double a) {
  const long across = w->across / LANES;
  plus(w, &w->point, move, a, &w->point);
  for (long i = 0; i < w->inputs; i++) {
    Vector *x = (Vector *)w->point.x + i * across, held = {0};
    for (long v = 0; v < across; v++) held += x[v];
    const double share = 1.0 / sum_of(held);
    for (long v = 0; v < across; v++) x[v] *= share;
  }
  if (MINIMAX) rescaled(w);
  reduced_costs(w, w->point.k, w->point.price);
  for (long i = 0; i < w->inputs; i++) {
    const double floor = LEAST_RATIO * w->mu * w->height[i], nu = w->point.nu[i];
    for (long at = i * across; at < (i + 1) * across; at++) {
      const Vector own = ((const Vector *)w->costs)[at] - nu, least = floor / ((const Vector *)w->point.x)[at];
      const Places inside = ((const Vector *)w->inside)[at] > 0.0;
      ((Vector *)w->point.z)[at] = pick(inside, pick(own > 0.0, own, least), all_of(1.0));
    }
  }
}

/* The predictor, the centring and the responses to the prices and the peak. */
static void directions(Space *w) {
  const long across = w->across / LANES, matrix = w->inputs * across, prices = w->prices;
  Vector *predicted = (Vector *)w->rho, *centred = predicted + matrix;
  for (long i = 0; i < w->inputs; i++)
    for (long v = 0; v < across; v++) {
      const long at = i * across + v;
      predicted[at] = -((const Vector *)w->point.z)[at] * ((const Vector *)w->inside)[at];
      centred[at] = w->height[i] * ((const Vector *)w->inverse_x)[at];
    }
  Sides asked[MOST_SIDES];
  Point moves[MOST_SIDES];
  asked[0] = (Sides){.rho = w->rho, .link = w->link, .level = w->missing, .row = w->row, .pair = w->pair, .limits = w->limit,
                     .slacks = w->pushed, .balance = 1.0 - w->balance};
  asked[1] = (Sides){.rho = (double *)centred};
  if (WORST) asked[0].worst = w->used, asked[0].spare = w->spare, asked[1].worst = asked[1].spare = w->inverse_eta;
  if (LINEAR) asked[1].link = asked[1].slacks = w->weighted, asked[1].level = w->nothing;
  moves[0] = w->predict, moves[1] = w->centring;
  for (long r = 0; r < w->free; r++) {
    asked[2 + r] = (Sides){.rho = (double *)(centred + (1 + r) * matrix)};
    moves[2 + r] = w->response[r];
  }
  if (LINEAR) asked[2 + prices].link = w->lost, asked[2 + prices].level = w->unturned;
  if (WORST) asked[2 + prices].worst = w->unheld;
  if (REFINED) /* each stack is refined as a whole */
    solve_refined(w, 2, asked, moves), solve_refined(w, w->free, asked + 2, moves + 2);
  else
    solve_refined(w, 2 + w->free, asked, moves);
  for (long r = 0; r < w->free; r++) {
    const Vector *rho = (const Vector *)asked[2 + r].rho, *inside = (const Vector *)w->inside;
    for (long i = 0; i < matrix; i++) ((Vector *)w->response[r].z)[i] -= rho[i] * inside[i];
    for (long q = 0; q < prices; q++) w->slope[r * prices + q] = use_rate(w, q, w->response + r, 0.0);
    if (MINIMAX) w->shares[r] = share_of(w, w->response + r);
  }
  for (long i = 0; LIMITED && i < w->private * across; i++) /* its rules are quotients by its price */
    ((Vector *)w->response[w->budgets].k)[i] += ((const Vector *)w->rules)[i];
  for (long r = 0; r < prices; r++) {
    w->pair[r] = -w->point.slack[r] * w->point.price[r];
    w->limit[r] = w->limits[r] - w->use[r] - w->point.slack[r];
  }
  with_prices(w, asked, &w->predict);
  for (long r = 0; r < prices; r++) w->pair[r] = 1.0, w->limit[r] = 0.0;
  asked[1].pair = w->pair, asked[1].limits = w->limit;
  with_prices(w, asked + 1, &w->centring);
}

/* One predictor-corrector step: its length. */
static double advance(Space *w) {
  const Method *method = w->method;
  if (!factor_system(w)) return 0.0;
  directions(w);
  const int turned = MINIMAX && !(w->centring.peak[0] > 0.0 && w->centring.peak[0] <= FARTHEST * w->pairs);
  if (turned) path_move(w);
  if (turned) fallen(w, &w->predict, -FALL * w->pairs * w->mu), fallen(w, &w->centring, FALL * w->pairs);
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
    solve_refined(w, 1, &sides, &w->own);
    with_prices(w, &sides, &w->own);
    if (turned) fallen(w, &w->own, 0.0);
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
static int met(const Space *w) {
  const double size = isfinite(w->value) ? w->rtol * fabs(w->value + w->shift) : 0.0;
  return w->value - w->bound <= (size > w->tol ? size : w->tol);
}

/* Steps from one start after another until the goal is met, the last one stalls or there are no more: how many. */
static long solved(Space *w) {
  const long most = (long)w->method->most_steps, attempts = (long)w->method->attempts;
  long steps = 0;
  first_candidate(w);
  for (long attempt = 0; attempt == 0 || (attempt < attempts && steps < most && !met(w)); attempt++) {
    begin(w, attempt);
    residuals(w);
    improved(w);
    int stalled = 0;
    for (long count = 0, brief = 0; !stalled && steps < most && !met(w); count++, steps++) {
      const double length = advance(w);
      residuals(w);
      improved(w);
      brief = length < SHORT ? brief + 1 : 0;
      stalled = !isfinite(w->mu) || !finite_of(w) || brief >= MOST_SHORT || (count >= LATE && length < STUCK);
    }
  }
  return steps;
}

/* ---- problems in a row ------------------------------------------------------------------------------ */

/* Sizes of the problems of a call. */
static Space shape_of(const Call *call) {
  return (Space){.private = SIZE('T'), .inputs = SIZE('X'), .outputs = SIZE('Y'), .budgets = SIZE('R')};
}

static void run_part(void *context, double *memory, long part) {
  const Call *call = context;
  const long end = (part + 1) * PART < call->batch ? (part + 1) * PART : call->batch;
  Space w = shape_of(call);
  memset(memory, 0, lay_out(&w, memory) * sizeof(double));
  for (long i = part * PART; i < end; i++) {
    double *arrays[MOST_ARRAYS];
    for (int j = 0; j < MOST_ARRAYS; j++) arrays[j] = array_of(call, j, i);
    lay_out(&w, memory);
    memset(w.point.x, 0, (POINTS + w.free) * w.whole * sizeof(double)); /* places that nothing writes */
    read_problem(&w, arrays);
    write_solution(&w, solved(&w), arrays);
  }
}

/* (what is given) -> (what is found), in these words, with a batch in front of all. */
static XLA_FFI_Error *solve_batch(XLA_FFI_CallFrame *frame, const char *words) {
  Call call[1];
  if (!shaped(frame, XLA_FFI_DataType_F64, words, call) || SIZE('G') != AIMS || SIZE('M') != CHOICES ||
      SIZE('N') != RESULTS || ((MINIMAX || LIMITED) && SIZE('P') != 1) || SIZE('R') > MOST_BUDGETS ||
      (LIMITED && SIZE('Q') != SIZE('R') + 1))
    return misshapen(frame);
  Space w = shape_of(call);
  const long doubles = lay_out(&w, NULL), parts = (call->batch + PART - 1) / PART;
  return share(frame, run_part, call, parts, doubles, 0) ? NULL : no_memory(frame);
}
