/* Whole solves of the least worst outcome of measures of log-ratios: minimax programs of one term of linear rows (LINEAR, role
   WORST, with a rate), which read A W_y <= peak rise W_y, or A W_y <= t_y (reference + peak turn) for some t_y, under
   budgets. Their value is the logarithm of the peak. */

#define LINEAR 1
#define WORST 0
#define LIMITED 0
#include "whole_body.h"
#include "whole_minimax.h"

/* ---- of a peak -------------------------------------------------------------------------------------- */

/* The rows and the normalisation as they are at a peak. */
static void put_peak(Space *w, double peak) {
  const long across = w->across / LANES;
  if (w->normalised) {
    for (long t = 0; t < w->private; t++)
      for (long v = 0; v < across; v++)
        ((Vector *)w->normal)[t * across + v] = all_of(w->reference[t] + peak * w->turn[t]);
    return;
  }
  for (long i = 0; i < w->private * w->columns; i++) w->rows[i] = w->stated[i] - peak * w->rise[i];
  for (long i = 0; i < w->inputs * w->lines; i++) w->turned[i] = w->stated_turned[i] - peak * w->rise_turned[i];
}

/* What a unit of the peak allows of the rows at x (X, Y) and t (Y): (T, Y). */
static void allowed_of(Space *w, const double *x, const double *t, double *to) {
  const long across = w->across / LANES;
  if (!w->normalised) {
    rows_of(w, w->rise_turned, x, to);
    return;
  }
  for (long i = 0; i < w->private; i++)
    for (long v = 0; v < across; v++) ((Vector *)to)[i * across + v] = w->turn[i] * ((const Vector *)t)[v];
}

/* Nothing is held against nothing where an output has no mass. */
INLINE Vector ratio(Vector leak, Vector held) {
  const Vector none = pick(leak > TINY, all_of(INFINITY), all_of(-INFINITY));
  return pick(held > TINY, leak / larger(held, all_of(TINY)), none);
}

static void ratios_of(Space *w, const double *x) {
  const long across = w->across / LANES;
  Vector *rows = (Vector *)w->ax, *held = (Vector *)w->valid;
  rows_of(w, w->stated_turned, x, w->ax);
  if (!w->normalised) rows_of(w, w->rise_turned, x, w->valid);
  for (long v = 0; v < across; v++) {
    Vector worst = all_of(-INFINITY), lower = all_of(INFINITY);
    for (long t = 0; t < w->private; t++) {
      const Vector own = rows[t * across + v];
      if (!w->normalised)
        worst = larger(worst, ratio(own, held[t * across + v]));
      else if (w->turn[t] > 0.0)
        worst = larger(worst, own / w->turn[t]);
      else
        lower = smaller(lower, own / w->reference[t]);
    }
    ((Vector *)w->ratios)[v] = w->normalised ? ratio(worst, lower) : worst;
  }
}

/* ---- the first point -------------------------------------------------------------------------------- */

/* The middle of the t with rows (T, Y) <= t normal, into t (Y). */
static void middle(const Space *w, const double *rows, double *t) {
  const long across = w->across / LANES;
  for (long v = 0; v < across; v++) {
    Vector lower = all_of(-FAR), upper = all_of(FAR);
    for (long i = v; i < w->private * across; i += across) {
      const Vector b = ((const Vector *)w->normal)[i], own = ((const Vector *)rows)[i] / b;
      lower = pick(b > 0.0, larger(lower, own), lower), upper = pick(b < 0.0, smaller(upper, own), upper);
    }
    ((Vector *)t)[v] = 0.5 * (lower + upper);
  }
}

/* t, k and s of a first point with x at the present peak: gaps, and equal products such that a unit of the peak allows
   `target` at these prices. The mean product. */
static double first_rows(Space *w, double target, Point *to) {
  const long across = w->across / LANES, table = w->private * across;
  rows_of(w, w->turned, to->x, w->ax);
  if (w->normalised) middle(w, w->ax, to->t);
  allowed_of(w, to->x, to->t, w->lost);
  Vector sum = {0}, *k = (Vector *)to->k, *s = (Vector *)to->s;
  for (long v = 0; v < across; v++) {
    const Vector present = pick(((const Vector *)w->absent)[v] == 0.0, all_of(1.0), (Vector){0});
    const Vector t = ((const Vector *)to->t)[v];
    for (long i = v; i < table; i += across) {
      const Vector held = ((const Vector *)w->lost)[i];
      const Vector gap = ((const Vector *)w->normal)[i] * t - ((const Vector *)w->ax)[i];
      s[i] = pick(present > 0.0, gap, all_of(1.0));
      k[i] = present / (s[i] * (double)w->private);
      sum += held / pick(held > 0.0, s[i], all_of(1.0)) * present;
    }
  }
  const double mu = target * w->private / sum_of(sum);
  for (long i = 0; i < table; i++) k[i] *= mu;
  return mu;
}

static void first_candidate(Space *w) {
  memcpy(w->mechanism, w->feasible, w->inputs * w->across * sizeof(double));
  memset(w->scores, 0, w->private * w->across * sizeof(double)), memset(w->price, 0, w->budgets * sizeof(double));
  w->value = INFINITY, w->bound = -INFINITY;
}

static void begin(Space *w, long attempt) {
  const double targets[] = {1.0, SECOND, THIRD};
  put_peak(w, first_peak(w));
  around(w, first_rows(w, targets[attempt < 2 ? attempt : 2], &w->point), &w->point);
}

/* ---- of a point ------------------------------------------------------------------------------------- */

static void residuals(Space *w) {
  const long across = w->across / LANES, matrix = w->inputs * across;
  const double total = inverses(w), share = 1.0 / w->private;
  Vector pairs = {0}, balance = {0};
  rows_of(w, w->turned, w->point.x, w->ax);
  allowed_of(w, w->point.x, w->point.t, w->lost);
  for (long v = 0; v < across; v++) {
    const Vector level = ((const Vector *)w->point.t)[v];
    Vector missing = {0}, turned = {0};
    for (long t = 0, i = v; t < w->private; t++, i += across) {
      const Vector k = ((const Vector *)w->point.k)[i], s = ((const Vector *)w->point.s)[i];
      const Vector b = ((const Vector *)w->normal)[i], held = ((const Vector *)w->lost)[i];
      const Vector inverse = pick(k > 0.0, 1.0 / k, (Vector){0});
      ((Vector *)w->inverse_k)[i] = inverse;
      ((Vector *)w->inverse_s)[i] = 1.0 / s;
      ((Vector *)w->curved)[i] = s * inverse;
      ((Vector *)w->weighted)[i] = share * inverse;
      ((Vector *)w->pushed)[i] = -s;
      ((Vector *)w->link)[i] = ((const Vector *)w->ax)[i] - b * level; /* with what the products ask of s */
      ((Vector *)w->lost)[i] = -held;
      pairs += k * s, balance += k * held;
      missing -= k * b, turned -= k * w->turn[t];
    }
    ((Vector *)w->missing)[v] = missing, ((Vector *)w->unturned)[v] = turned;
  }
  if (!w->normalised) columns_of(w, w->rise, w->point.k, w->rho + (2 + w->budgets) * matrix * LANES);
  w->mu = (total + sum_of(pairs)) / w->pairs, w->balance = sum_of(balance);
}

static void bend_of(Space *w, const Point *move) {
  if (w->normalised) return;
  columns_of(w, w->rise, move->k, w->bent);
  for (long i = 0; i < w->inputs * w->across / LANES; i++) ((Vector *)w->bent)[i] *= move->peak[0];
}

/* Linear rows stay in their sets: their prices are positive. */
static int held_back(Space *w, const Point *move, double a, double mean) {
  return (void)w, (void)move, (void)a, (void)mean, 1;
}

static void rescaled(Space *w) {
  const long across = w->across / LANES, table = w->private * across;
  Vector share = {0};
  allowed_of(w, w->point.x, w->point.t, w->lost);
  for (long i = 0; i < table; i++) share += ((const Vector *)w->point.k)[i] * ((const Vector *)w->lost)[i];
  scaled(w, 1.0 / sum_of(share));
  put_peak(w, w->point.peak[0]);
}

/* Its right-hand side is in `logs` (rho), `ax` (link), `after` (level) and `valid` (products). */
static Sides corrections(Space *w, const Point *move, double length, double sigma) {
  const long across = w->across / LANES;
  const double a = length + FURTHER < 1.0 ? length + FURTHER : 1.0, goal = ((1.0 - a) + a * sigma) * w->mu;
  const int usable = corrected(w, move, a, goal);
  const Vector aim = all_of(goal / w->private);
  const double second = usable ? -a * a * move->peak[0] : 0.0;
  Vector *link = (Vector *)w->ax, *level = (Vector *)w->after, *asked = (Vector *)w->valid, share = {0};
  allowed_of(w, move->x, move->t, w->ax);
  for (long v = 0; v < across; v++) {
    Vector turned = {0};
    for (long t = 0, i = v; t < w->private; t++, i += across) {
      const Vector dk = ((const Vector *)move->k)[i], k = ((const Vector *)w->point.k)[i] + a * dk;
      const Vector s = ((const Vector *)w->point.s)[i] + a * ((const Vector *)move->s)[i], held = link[i];
      share += dk * held, turned += w->turn[t] * dk;
      asked[i] = towards(k * s, aim) * ((const Vector *)w->inverse_k)[i];
      link[i] = asked[i] + or_zero(second * held);
    }
    level[v] = or_zero(second * turned);
  }
  return (Sides){.rho = w->logs, .link = w->ax, .level = w->after, .pair = w->pair, .limits = w->limit, .slacks = w->valid,
                 .balance = -a * a * sum_of(share)};
}

/* ---- candidates ------------------------------------------------------------------------------------- */

static void proof_of(Space *w) {
  const long across = w->across / LANES, matrix = w->inputs * across, table = w->private * across;
  const Vector *k = (const Vector *)w->point.k, *b = (const Vector *)w->normal;
  const double peak = w->point.peak[0];
  Vector *costs = (Vector *)w->after, *fall = (Vector *)w->logs, *valid = (Vector *)w->valid, *some = (Vector *)w->ax;
  if (w->normalised) {
    for (long v = 0; v < across; v++) {
      Vector plus_of = {0}, minus = {0};
      for (long i = v; i < table; i += across) {
        plus_of += larger(b[i], (Vector){0}) * k[i], minus += larger(-b[i], (Vector){0}) * k[i];
      }
      const Vector balanced = pick(plus_of > 0.0, minus / plus_of, (Vector){0});
      for (long i = v; i < table; i += across) valid[i] = pick(b[i] > 0.0, k[i] * balanced, k[i]);
    }
    /* At the peak e the lower rows have 1/e of what balances the others: they fall with the peak. */
    for (int rising = 0; rising < 2; rising++) {
      for (long t = 0; t < w->private; t++)
        for (long i = t * across; i < (t + 1) * across; i++)
          some[i] = (w->turn[t] != 0.0) == rising ? valid[i] : (Vector){0};
      columns_of(w, w->rows, w->ax, rising ? w->after : w->logs);
    }
    for (long i = 0; i < matrix; i++) fall[i] *= -1.0 / peak, costs[i] += ((const Vector *)w->cost)[i];
    for (long r = 0; r < w->budgets; r++)
      for (long i = 0; i < matrix; i++)
        costs[i] += w->point.price[r] * ((const Vector *)w->constraints)[r * matrix + i];
  } else {
    memcpy(w->valid, w->point.k, table * sizeof(Vector));
    columns_of(w, w->rise, w->point.k, w->logs);
    for (long i = 0; i < matrix; i++) costs[i] = ((const Vector *)w->costs)[i] + peak * fall[i];
  }
}

XLA_FFI_Error *NAME(jaxpriv_least_ratios_call)(XLA_FFI_CallFrame *frame) {
  return solve_batch(frame, WORDS("T TX T", "R", "P YT Y"));
}
