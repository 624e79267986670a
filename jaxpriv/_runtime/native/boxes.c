/* Boxes of the branch and bound over posteriors, in double precision: each is tightened, bounded from below and given
   the cut that divides it.

   `jaxpriv.funnels.pricing.boxes` has the mathematics and the same in NumPy. It is called through ctypes, by several
   threads at a time. Every bound that leaves this file is rounded outwards. */

#include <float.h>
#include <math.h>
#include <string.h>

#include "common.h"

#define VERTICES 24  /* of the inner approximation of one relaxation */
#define ORACLES 60   /* linear programs in one relaxation, at most */
#define MIRROR 8     /* steps of mirror descent of its weights after each, */
#define WEIGHTS 12   /* and then of Newton's method */
#define FLOOR 1e-8   /* of weights before them: a vertex that was dropped may be added again */
#define RIDGE 1e-10  /* of Newton's matrix, as a share of its trace */
#define NEWTON 6     /* steps towards an end of an interval of a symbol */
#define PASSES 2     /* tightenings before each relaxation */
#define ROUNDS 4     /* relaxations of one box, at most */
#define SHARE 0.15   /* a relaxation ends at this share of what is left to be shown */
#define LOSS 0.2     /* boxes whose intervals lose less than this together are not relaxed again */
#define INSET 0.15   /* cuts stay this share of a width inside */
#define TO_MIDDLE 0.6 /* from the relaxed minimiser to the middle of its interval */
#define OUTWARD 1e-12 /* outward rounding of ends of intervals */
#define DISTANT 1e-2 /* coordinates of z further than this from 1 are used by the divergence test */

/* One search: T (useful, private) by symbols, prices and lambda; the level F. */
typedef struct {
  long useful, private;
  const double *t, *prices;
  double lam, level;
  double close; /* relaxations are solved to this, where they are not ended by SHARE */
} Search;

typedef struct {
  double *s, *c, *base, *v, *old_l, *old_u, *key, *vq, *vr, *vc, *w, *t0;
  double *r, *lr, *r2, *rlo, *rhi, *raw, *mn, *mx, *loglo, *loghi, *z, *rho;
  long *active, *order, *forced;
} Workspace;

static inline double xlogx(double x) { return x > 0 ? x * log(x) : 0.0; }
static inline double least(double a, double b) { return a < b ? a : b; }
static inline double most(double a, double b) { return a > b ? a : b; }

static Workspace *workspace(long n, long S) {
  const long doubles = 9 * n + VERTICES * (n + S + 2) + 12 * S;
  char *memory = malloc(sizeof(Workspace) + doubles * sizeof(double) + 3 * n * sizeof(long));
  if (!memory) return NULL;
  Workspace *m = (Workspace *)memory;
  double *d = (double *)(memory + sizeof(Workspace));
#define TAKE(name, count) m->name = d, d += (count)
  TAKE(s, n), TAKE(c, n), TAKE(base, n), TAKE(v, n), TAKE(old_l, n), TAKE(old_u, n), TAKE(key, n), TAKE(t0, 2 * n);
  TAKE(vq, VERTICES * n), TAKE(vr, VERTICES * S), TAKE(vc, VERTICES), TAKE(w, VERTICES);
  TAKE(r, S), TAKE(lr, S), TAKE(r2, S), TAKE(rlo, S), TAKE(rhi, S), TAKE(raw, S), TAKE(mn, S), TAKE(mx, S);
  TAKE(loglo, S), TAKE(loghi, S), TAKE(z, S), TAKE(rho, S);
#undef TAKE
  m->active = (long *)d, m->order = m->active + n, m->forced = m->order + n;
  return m;
}

/* lambda y - sum_s T_s ln max(lo_s, rho_s + e^y b_s) + nu + F at q = e^y, its derivative in y and its rounding error. */
static double first_order(const Search *p, const Workspace *m, const double *t, double nu, const double *drop, double q,
                          double *slope, double *error) {
  double value = p->lam * log(q) + nu + p->level, size = fabs(p->lam * log(q)) + fabs(nu) + fabs(p->level), d = p->lam;
  for (long s = 0; s < p->private; s++)
    if (t[s] > 0) {
      const double b = drop ? t[s] - drop[s] : t[s], z = m->rho[s] + q * b;
      if (z < m->rlo[s])
        value -= t[s] * m->loglo[s], size += fabs(t[s] * m->loglo[s]);
      else {
        const double term = t[s] * log(z);
        value -= term, size += fabs(term), d -= t[s] * q * b / z;
      }
    }
  *slope = d, *error = 4e-16 * (p->private + 8) * (size + 1.0);
  return value;
}

/* Intervals of every coordinate tightened by what holds at a global minimiser of value F or less; 0 if there is none.
   `gap[x]`: q_x is 0 or at least that. */
static int tighten(const Search *p, Workspace *m, double *l, double *u, const double *kl, const double *kh, double bound,
                   double *gap) {
  const long n = p->useful, S = p->private;
  const double lam = p->lam, cancelled = 1e-13;
  double sl = 0, su = 0;
  for (long s = 0; s < S; s++) m->raw[s] = 0, m->mn[s] = 1, m->mx[s] = 0;
  long forced = 0;
  for (long x = 0; x < n; x++) {
    const double *t = p->t + x * S;
    m->old_l[x] = l[x], m->old_u[x] = u[x];
    sl += l[x], su += u[x];
    if (l[x] > 0) {
      m->forced[forced++] = x;
      for (long s = 0; s < S; s++) m->raw[s] += l[x] * t[s];
    }
    if (u[x] > l[x])
      for (long s = 0; s < S; s++) m->mn[s] = least(m->mn[s], t[s]), m->mx[s] = most(m->mx[s], t[s]);
  }
  if (sl > 1 + 1e-10 || su < 1 - 1e-10) return 0;
  const double rest = most(0.0, 1 - sl) + OUTWARD, sure = most(0.0, 1 - sl - OUTWARD);
  for (long s = 0; s < S; s++) {
    const double low = (m->raw[s] + (sure > 0 ? sure * m->mn[s] : 0.0)) * (1 - OUTWARD);
    const double high = (m->raw[s] + rest * m->mx[s]) * (1 + OUTWARD) + OUTWARD;
    m->rlo[s] = most(kl[s], low), m->rlo[s] = m->rlo[s] > 1e-300 ? m->rlo[s] : 0.0, m->rhi[s] = least(kh[s], high);
    if (m->rlo[s] > m->rhi[s] + 1e-12) return 0;
    m->rhi[s] = most(m->rhi[s], m->rlo[s]);
    m->loglo[s] = log(most(m->rlo[s], DBL_MIN)), m->loghi[s] = log(most(m->rhi[s], DBL_MIN));
  }
  for (long x = 0; x < n; x++) {
    gap[x] = 0;
    if (!(u[x] > 0)) continue;
    const double *t = p->t + x * S, nu = p->prices[x], lx = m->old_l[x], ux = m->old_u[x];
    const int freely = ux > lx && sure > 0;
    double cap = 1 - (sl - lx) + OUTWARD, at_lo = 0, at_hi = 0, size = fabs(nu) + fabs(p->level) + fabs(bound);
    int vanishes = 0;
    for (long s = 0; s < S; s++)
      if (t[s] > 0) {
        if (t[s] > 1e-6) cap = least(cap, (m->rhi[s] - m->raw[s] + cancelled) / t[s] * (1 + OUTWARD) + lx);
        if (m->rlo[s] > 0) at_lo += t[s] * m->loglo[s];
        else vanishes = 1;
        at_hi += t[s] * m->loghi[s];
        size += t[s] * (fabs(m->loglo[s]) + fabs(m->loghi[s]));
      }
    u[x] = least(u[x], cap);
    l[x] = most(l[x], 1 - (su - ux) - OUTWARD);
    if (u[x] < l[x]) return 0;
    double t0 = 0;
    int dead = 0;
    if (lam > 1e-12) {
      const double error = 4e-16 * (S + 8) * (size + 1.0);
      if (bound > -1e29) { /* lambda ln q = T.ln r - nu - m, m >= bound */
        const double end = (at_hi - nu - bound + error) / lam;
        if (end < 0) u[x] = least(u[x], exp(end) * (1 + OUTWARD));
      }
      if (!vanishes) { /* the same with m <= F */
        const double end = (at_lo - nu - p->level - error) / lam;
        if (end > 0) dead = 1;
        else t0 = exp(end) * (1 - OUTWARD);
      }
      if (t0 > u[x]) dead = 1;
      /* r grows with q_x: Newton's method on a concave function never passes a root. */
      if (!dead && u[x] > 0) {
        int above = 0;
        for (long s = 0; s < S; s++) {
          m->rho[s] = most(0.0, m->raw[s] - lx * t[s] - cancelled + (freely ? (sure + lx) * m->mn[s] : 0.0)) * (1 - OUTWARD);
          above |= m->rho[s] + u[x] * t[s] > m->rlo[s];
        }
        if (above) {
          const double *drop = freely ? m->mn : NULL;
          double slope, e, value = first_order(p, m, t, nu, drop, u[x], &slope, &e), y = log(u[x]);
          int moved = 0;
          for (int k = 0; k < NEWTON && value + e < 0; k++) {
            if (slope + 1e-13 >= 0) {
              dead = slope - 1e-13 >= 0;
              break;
            }
            y -= (value + e) / (slope - 1e-13) * (1 - 1e-12), moved = 1;
            if (y < -690) break;
            value = first_order(p, m, t, nu, drop, exp(y), &slope, &e);
          }
          if (!dead && moved) u[x] = least(u[x], exp(y) * (1 + OUTWARD));
          const double begin = most(most(t0, l[x]), 1e-10);
          if (!dead && begin <= u[x]) {
            value = first_order(p, m, t, nu, drop, begin, &slope, &e), y = log(begin), moved = 0;
            for (int k = 0; k < NEWTON && value + e < 0; k++) {
              if (slope - 1e-13 <= 0) { /* nothing from here on, and nothing before it from t0 on */
                if (slope + 1e-13 <= 0 && !moved) dead = begin <= most(t0, l[x]), u[x] = most(least(u[x], begin), l[x]);
                else if (slope + 1e-13 <= 0) dead = 1;
                break;
              }
              y -= (value + e) / (slope + 1e-13) * (1 - 1e-12), moved = 1;
              if (y > 0) {
                dead = 1;
                break;
              }
              value = first_order(p, m, t, nu, drop, exp(y), &slope, &e);
            }
            if (!dead && moved) t0 = most(t0, exp(y) * (1 - OUTWARD));
          }
        }
      }
      /* Second order, along e_x - q: lambda (1 - q_x)/q_x <= sum_s T_sx^2/r_s - 1. */
      if (!dead) {
        double spread = -1, ratio = 0;
        for (long s = 0; s < S; s++)
          if (t[s] > 0) {
            const double r = most(m->rlo[s], most(0.0, m->raw[s] - lx * t[s] - cancelled) * (1 - OUTWARD) + t0 * t[s]);
            ratio += r > 0 ? t[s] * t[s] / r : INFINITY;
          }
        spread += ratio * (1 + 1e-11);
        if (ratio < 1e12) t0 = most(t0, lam / (lam + most(spread, 0.0)) * (1 - 1e-10));
      }
      /* And along e_x - e_y for every y that is surely there: lambda (1/q_x + 1/q_y) <= sum_s (T_sx - T_sy)^2/r_s. */
      for (long k = 0; !dead && k < forced; k++) {
        const long y = m->forced[k];
        if (y == x) continue;
        const double *ty = p->t + y * S, ly = m->old_l[y];
        double apart = 0;
        for (long s = 0; s < S; s++) {
          const double d = fabs(t[s] - ty[s]) + 1e-15 * most(t[s], ty[s]);
          if (d > 0) {
            const double r = most(m->rlo[s], (ly * ty[s] + t0 * t[s]) * (1 - OUTWARD));
            apart += r > 0 ? d * d / r : INFINITY;
          }
        }
        const double inverse = apart * (1 + 1e-11) / lam - 1 / m->old_u[y] * (1 - 1e-11);
        if (inverse < 1) dead = 1;
        else if (inverse < 1e12) t0 = most(t0, (1 - 1e-10) / inverse);
      }
      if (t0 > u[x]) dead = 1;
    }
    if (dead) {
      if (l[x] > 0) return 0;
      u[x] = 0;
    } else {
      if (l[x] > 0 && t0 > l[x]) l[x] = t0;
      gap[x] = t0;
    }
  }
  return 1;
}

/* min c.q over l <= q <= u, sum q = 1, over the active symbols: the vertex, the marginal cost, 0 if empty. `order` lists
   the `count` of them with l < u, as the last call left them: costs change little, and it is nearly sorted. */
static int knapsack(Workspace *m, long k, long count, const double *l, const double *u, double *mu) {
  double rest = 1;
  for (long i = 0; i < k; i++) m->v[i] = l[m->active[i]], rest -= m->v[i];
  for (long step = count > 40 ? 40 : count > 13 ? 13 : count > 4 ? 4 : 1; step; step = step == 40 ? 13 : step == 13 ? 4 : step == 4 ? 1 : 0)
    for (long i = step; i < count; i++) {
      const long it = m->order[i];
      const double key = m->c[it];
      long j = i;
      for (; j >= step && m->c[m->order[j - step]] > key; j -= step) m->order[j] = m->order[j - step];
      m->order[j] = it;
    }
  *mu = count ? m->c[m->order[0]] : 0;
  for (long j = 0; j < count && rest > 0; j++) {
    const long i = m->order[j], x = m->active[i];
    const double width = u[x] - l[x];
    *mu = m->c[i];
    if (width >= rest) {
      m->v[i] += rest, rest = 0;
      break;
    }
    m->v[i] += width, rest -= width;
  }
  return rest <= 1e-9;
}

/* sum_s r_s ln r_s + w.vc at r = sum_j w_j vr_j. */
static double mixed(const Search *p, const Workspace *m, long K, const double *w, double *restrict r) {
  const long S = p->private;
  double value = 0;
  for (long s = 0; s < S; s++) r[s] = 0;
  for (long j = 0; j < K; j++) {
    const double *vr = m->vr + j * S, each = w[j];
    for (long s = 0; s < S; s++) r[s] += each * vr[s];
    value += each * m->vc[j];
  }
  for (long s = 0; s < S; s++) value += xlogx(r[s]);
  return value;
}

/* Newton's equations for the A weights of positive value: h = V R^-1 V' with a ridge, V the rows of vr that `used` lists,
   R = diag(r); a and b (A) become h^-1 a and h^-1 b. Rows have the fixed length VERTICES, zero from A on: every inner loop
   runs over whole vectors, and none sums into one number. */
static void newton(const Search *p, const Workspace *m, long A, const long *used, double *restrict a,
                   double *restrict b) {
  const long S = p->private;
  double h[VERTICES][VERTICES], row[VERTICES], trace = 0;
  memset(h, 0, sizeof h);
  for (long j = A; j < VERTICES; j++) row[j] = a[j] = b[j] = 0;
  for (long s = 0; s < S; s++) {
    if (!(m->r[s] > 0)) continue;
    const double inverse = 1 / m->r[s];
    for (long j = 0; j < A; j++) row[j] = m->vr[used[j] * S + s];
    for (long j = 0; j < A; j++) {
      const double c = row[j] * inverse;
      for (long i = 0; i < VERTICES; i++) h[j][i] += c * row[i];
    }
  }
  for (long j = 0; j < A; j++) trace += h[j][j];
  for (long j = 0; j < A; j++) h[j][j] += RIDGE * trace;
  for (long j = 0; j < A; j++) { /* h = U'U, and both right-hand sides on the way down */
    const double pivot = sqrt(most(h[j][j], RIDGE * RIDGE * trace)), inverse = 1 / pivot;
    for (long i = 0; i < VERTICES; i++) h[j][i] *= inverse;
    h[j][j] = pivot;
    const double x = a[j] * inverse, y = b[j] * inverse;
    for (long k = j + 1; k < A; k++) {
      const double c = h[j][k];
      for (long i = 0; i < VERTICES; i++) h[k][i] -= c * h[j][i];
      a[k] -= c * x, b[k] -= c * y;
    }
    a[j] = x, b[j] = y;
  }
  for (long j = A - 1; j >= 0; j--) {
    const double inverse = 1 / h[j][j], x = a[j] * inverse, y = b[j] * inverse;
    for (long i = 0; i < j; i++) a[i] -= h[i][j] * x, b[i] -= h[i][j] * y;
    a[j] = x, b[j] = y;
  }
}

/* The best weights of the K vertices: some steps of mirror descent, then Newton's method on those that are positive. */
static double weigh(const Search *p, Workspace *m, long K) {
  const long S = p->private;
  double *w = m->w, g[VERTICES], trial[VERTICES], total = 0, length = 1;
  for (long j = 0; j < K; j++) w[j] = most(w[j], FLOOR), total += w[j];
  for (long j = 0; j < K; j++) w[j] /= total;
  double plain = mixed(p, m, K, w, m->r);
  for (int step = 0; K > 1 && step < MIRROR + WEIGHTS; step++) {
    double mean = 0, low = INFINITY;
    for (long s = 0; s < S; s++) m->lr[s] = log(most(m->r[s], 1e-300));
    for (long j = 0; j < K; j++) {
      g[j] = m->vc[j];
      for (long s = 0; s < S; s++) g[j] += m->vr[j * S + s] * m->lr[s];
      mean += w[j] * g[j], low = least(low, g[j]);
    }
    if (mean - low < 0.3 * p->close) break;
    if (step < MIRROR) {
      if (length < 1e-3) continue;
      total = 0;
      for (long j = 0; j < K; j++) trial[j] = w[j] * exp(-length * (g[j] - low)), total += trial[j];
      for (long j = 0; j < K; j++) trial[j] /= total;
      const double value = mixed(p, m, K, trial, m->r2);
      length *= value <= plain ? 2 : 0.25;
      if (value > plain) continue;
      plain = value;
      memcpy(w, trial, K * sizeof(double)), memcpy(m->r, m->r2, S * sizeof(double));
      continue;
    }
    double a[VERTICES], b[VERTICES], up = 0, down = 0, reach = 1, d[VERTICES];
    long used[VERTICES], place[VERTICES], A = 0;
    for (long j = 0; j < K; j++)
      if (w[j] > 0) place[j] = A, used[A] = j, a[A] = g[j] - mean, b[A++] = 1;
    newton(p, m, A, used, a, b);
    for (long j = 0; j < A; j++) up += a[j], down += b[j];
    long last = -1;
    for (long j = 0; j < K; j++) {
      d[j] = w[j] > 0 ? up / down * b[place[j]] - a[place[j]] : 0.0;
      if (d[j] < 0 && w[j] + reach * d[j] < 0) reach = -w[j] / d[j], last = j;
    }
    double value = INFINITY;
    for (int tries = 0; tries < 8; tries++) {
      for (long j = 0; j < K; j++) trial[j] = j == last && !tries ? 0.0 : most(0.0, w[j] + reach * d[j]);
      value = mixed(p, m, K, trial, m->r2);
      if (value <= plain) break;
      reach *= 0.3;
    }
    if (!(value <= plain)) break;
    plain = value;
    memcpy(w, trial, K * sizeof(double)), memcpy(m->r, m->r2, S * sizeof(double));
  }
  return plain;
}

/* The convex relaxation: -H(Tq) + (chords of lambda H(q)) - nu.q. Returns a proved bound; q, the marginal costs `base`
   of the active symbols less `mu`, and z of that bound. */
static double relax(const Search *p, Workspace *m, const double *l, const double *u, double *q, long *active,
                    double *mu_out, double *error_out) {
  const long n = p->useful, S = p->private;
  double fixed = 0, sizes = 0, steep = 0;
  long k = 0, loose = 0;
  for (long x = 0; x < n; x++) {
    if (!(u[x] > 0)) continue;
    const double a = l[x], b = u[x], ha = -xlogx(a), hb = -xlogx(b), slope = b > a ? (hb - ha) / (b - a) : 0.0;
    const double under = p->lam * least(ha - slope * a, hb - slope * b);
    if (b > a) m->order[loose++] = k;
    m->active[k] = x, m->s[k] = p->lam * slope - p->prices[x], k++;
    fixed += under, sizes += fabs(under) + p->lam * (fabs(ha) + fabs(slope * a) + fabs(slope * b) + fabs(hb));
    steep = most(steep, p->lam * fabs(slope) + fabs(p->prices[x]));
  }
  *active = k;
  { /* the point of before, inside */
    double sum = 0, slack = 0;
    for (long i = 0; i < k; i++) {
      const long x = m->active[i];
      m->v[i] = least(most(q[x], l[x]), u[x]), sum += m->v[i];
    }
    for (long i = 0; i < k; i++) {
      const long x = m->active[i];
      slack += sum > 1 ? m->v[i] - l[x] : u[x] - m->v[i];
    }
    const double move = slack > 0 ? (1 - sum) / slack : 0;
    for (long i = 0; i < k; i++) {
      const long x = m->active[i];
      m->v[i] += move * (sum > 1 ? m->v[i] - l[x] : u[x] - m->v[i]);
    }
  }
  double best = -INFINITY, plain = 0, *w = m->w;
  long K = 0;
  for (int turn = 0; turn < ORACLES; turn++) {
    if (K == VERTICES) {
      long out = 0;
      for (long j = 1; j < K; j++)
        if (w[j] < w[out]) out = j;
      K--;
      if (out != K) {
        memcpy(m->vr + out * S, m->vr + K * S, S * sizeof(double));
        memcpy(m->vq + out * n, m->vq + K * n, k * sizeof(double));
        m->vc[out] = m->vc[K], w[out] = w[K];
      }
      double total = 0;
      for (long j = 0; j < K; j++) total += w[j];
      for (long j = 0; j < K; j++) w[j] /= total;
    }
    double *vr = m->vr + K * S, cost = 0;
    for (long s = 0; s < S; s++) vr[s] = 0;
    for (long i = 0; i < k; i++)
      if (m->v[i] > 0) {
        const double *t = p->t + m->active[i] * S;
        cost += m->v[i] * m->s[i];
        for (long s = 0; s < S; s++) vr[s] += m->v[i] * t[s];
      }
    memcpy(m->vq + K * n, m->v, k * sizeof(double));
    m->vc[K] = cost;
    if (K == 0) w[0] = 1;
    else {
      for (long j = 0; j < K; j++) w[j] *= 0.8;
      w[K] = 0.2;
    }
    K++;
    plain = weigh(p, m, K);
    double total = 0, largest = 0;
    for (long s = 0; s < S; s++) m->r2[s] = most(m->r[s], 1e-12), total += m->r2[s];
    const double lse = log(total);
    for (long s = 0; s < S; s++) m->lr[s] = log(m->r2[s]), largest = most(largest, fabs(m->lr[s]));
    for (long i = 0; i < k; i++) {
      const double *t = p->t + m->active[i] * S;
      double c = m->s[i];
      for (long s = 0; s < S; s++) c += t[s] * m->lr[s];
      m->c[i] = c;
    }
    double mu;
    if (!knapsack(m, k, loose, l, u, &mu)) return INFINITY;
    /* The dual of the knapsack at mu: a bound for any mu. */
    double bound = mu, size = fabs(mu) + fabs(lse) + sizes;
    for (long i = 0; i < k; i++) {
      const long x = m->active[i];
      const double d = m->c[i] - mu, term = d > 0 ? d * l[x] : d * u[x];
      bound += term, size += fabs(term);
    }
    bound += fixed - lse;
    const double marginal = 4e-16 * (S + 8) * (steep + largest + 1.0);
    bound -= 4e-16 * (k + S + 10) * (size + 1.0) + marginal;
    if (bound > best) {
      best = bound, *mu_out = mu, *error_out = marginal;
      memcpy(m->base, m->c, k * sizeof(double));
      for (long s = 0; s < S; s++) m->z[s] = m->r2[s] / total;
    }
    if (best > p->level) break;
    const double whole = plain + fixed;
    if (whole - best < p->close || whole - best < SHARE * (p->level - best) + p->close) break;
  }
  for (long x = 0; x < n; x++) q[x] = 0;
  for (long i = 0; i < k; i++) {
    double sum = 0;
    for (long j = 0; j < K; j++) sum += w[j] * m->vq[j * n + i];
    q[m->active[i]] = sum;
  }
  return best;
}

/* a ln(a/b) + (1-a) ln((1-a)/(1-b)) */
INLINE double divergence(double a, double b) {
  return (a > 0 ? a * log(a / b) : 0.0) + (a < 1 ? (1 - a) * log((1 - a) / (1 - b)) : 0.0);
}

/* The end of an interval from b, whose divergence from b is at most `radius`, to `out`, where it may be more: outside. */
static double end_of_ball(double b, double out, double radius) {
  if (!(divergence(out, b) > radius)) return out;
  double in = b;
  for (int k = 0; k < 20; k++) {
    const double middle = 0.5 * (out + in);
    if (divergence(middle, b) > radius) out = middle;
    else in = middle;
  }
  return out;
}

/* r with D(r || z) <= F - bound, by coordinates. */
static void ball(const Search *p, const Workspace *m, double margin, double *kl, double *kh) {
  const double radius = margin * (1 + 1e-9) + 1e-12;
  for (long s = 0; s < p->private; s++) {
    const double b = m->z[s];
    if (!(b > 1e-11 && b < 1 - DISTANT)) continue;
    if (kl[s] < b) kl[s] = end_of_ball(b, kl[s], radius);
    if (kh[s] > b) kh[s] = end_of_ball(b, kh[s], radius);
  }
}

static double value_at(const Search *p, Workspace *m, const double *q) {
  double value = 0, total = 0;
  for (long s = 0; s < p->private; s++) m->r2[s] = 0;
  for (long x = 0; x < p->useful; x++)
    if (q[x] > 0) {
      const double *t = p->t + x * p->private;
      total += q[x], value -= p->lam * xlogx(q[x]) + p->prices[x] * q[x];
      for (long s = 0; s < p->private; s++) m->r2[s] += q[x] * t[s];
    }
  for (long s = 0; s < p->private; s++) value += xlogx(m->r2[s]);
  return fabs(total - 1) < 1e-9 ? value : INFINITY;
}

static void run_boxes(const Search *p, Workspace *m, long count, double *boxes, double *bounds, double *values,
                      long *symbols, double *cuts, double *gaps) {
  const long n = p->useful, S = p->private, width = 3 * n + 2 * S;
  double *gap = m->t0;
  for (long number = 0; number < count; number++) {
    double *l = boxes + number * width, *u = l + n, *q = u + n, *kl = q + n, *kh = kl + S;
    double bound = bounds[number];
    int open = 1;
    values[number] = INFINITY, symbols[number] = -1, cuts[number] = gaps[number] = 0;
    for (int turn = 0; open && turn < ROUNDS; turn++) {
      for (int pass = 0; open && pass < PASSES; pass++) open = tighten(p, m, l, u, kl, kh, bound, gap);
      if (!open) break;
      double mu, error;
      long k;
      const double low = relax(p, m, l, u, q, &k, &mu, &error);
      bound = most(bound, low);
      if (!(bound <= p->level)) {
        open = 0;
        break;
      }
      values[number] = least(values[number], value_at(p, m, q));
      const double margin = p->level - low;
      double lost = 0;
      ball(p, m, margin, kl, kh);
      for (long i = 0; i < k; i++) {
        const long x = m->active[i];
        const double d = m->base[i] - mu, wide = u[x] - l[x];
        if (!(wide > 0)) continue;
        if (d > 4 * error) {
          const double end = (l[x] + margin / (d - 2 * error)) * (1 + OUTWARD);
          if (end < u[x]) lost += u[x] - end, u[x] = end;
        } else if (d < -4 * error) {
          const double end = (u[x] - margin / (-d - 2 * error)) * (1 - OUTWARD) - OUTWARD;
          if (end > l[x]) lost += end - l[x], l[x] = end;
        }
      }
      if (lost < LOSS) break;
    }
    bounds[number] = open ? bound : INFINITY;
    if (!open) continue;
    double widest = 0;
    long x = -1;
    for (long i = 0; i < n; i++)
      if (u[i] > l[i]) {
        const double ha = -xlogx(l[i]), hb = -xlogx(u[i]), at = least(most(q[i], l[i]), u[i]);
        const double above = -xlogx(at) - ha - (hb - ha) / (u[i] - l[i]) * (at - l[i]);
        if (above > widest) widest = above, x = i;
      }
    if (x < 0 || p->lam * widest < 1e-14) continue;
    const double wide = u[x] - l[x];
    double cut = q[x] + TO_MIDDLE * (l[x] + 0.5 * wide - q[x]);
    cut = least(most(cut, l[x] + INSET * wide), u[x] - INSET * wide);
    symbols[number] = x;
    if (l[x] <= 0 && cut < gap[x])
      cuts[number] = 0, gaps[number] = least(gap[x], u[x]);
    else
      cuts[number] = gaps[number] = cut;
  }
}

/* `count` boxes, rows (l (X), u (X), q (X), r from (S), r to (S)) of `boxes`, tightened in place; `bounds` holds what is
   known of each and becomes what is known then, infinite where the box holds no minimiser of value F or less.
   `values`: of f at the q that is left behind. `symbols`, `cuts`, `gaps`: where to divide it (-1: nowhere), the left
   part up to the cut, the right part from the gap on. 0 if there was no memory. */
int NAME(jaxpriv_boxes)(long count, long useful, long private, const double *t, const double *prices, double lam,
         double level, double close, double *boxes, double *bounds, double *values, long *symbols, double *cuts,
         double *gaps) {
  const Search search = {useful, private, t, prices, lam, level, close};
  Workspace *work = workspace(useful, private);
  if (!work) return 0;
  run_boxes(&search, work, count, boxes, bounds, values, symbols, cuts, gaps);
  free(work);
  return 1;
}
