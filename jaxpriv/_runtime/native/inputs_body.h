/* What `inputs.c` does for every output, for one instruction set. */

#include "panels.h"

#define weighted_square NAME(weighted_square)
#define weigh NAME(weigh)
#define rmatvec NAME(rmatvec)
#define through NAME(through)

/* sum_i (a_i s_i)^2 of padded vectors. */
INLINE double weighted_square(const double *a, const double *s, long x) {
  Vector sum = {0};
  for (long i = 0; i < x; i += LANES) {
    const Vector v = *(const Vector *)(a + i) * *(const Vector *)(s + i);
    sum += v * v;
  }
  double total = 0.0;
  for (int v = 0; v < LANES; v++) total += sum[v];
  return total;
}

/* B = (h A - u u'h A) s for padded A and s, with u in `basis`, `stride` apart. */
INLINE void weigh(long count, long normals, long x, const double *a, const double *h, const double *s,
                  const double *basis, long stride, double *seen, double *b) {
  memset(seen, 0, normals * x * sizeof(double));
  for (long g = 0; g < normals; g++)
    for (long t = 0; t < count; t++) add_multiple(seen + g * x, basis[g * stride + t] * h[t], a + t * x, x);
  for (long t = 0; t < count; t++)
    for (long i = 0; i < x; i += LANES) {
      Vector v = h[t] * *(const Vector *)(a + t * x + i);
      for (long g = 0; g < normals; g++) v -= basis[g * stride + t] * *(const Vector *)(seen + g * x + i);
      *(Vector *)(b + t * x + i) = v * *(const Vector *)(s + i);
    }
}

/* Outputs from <= y < to; their sum of diag(s) K'K diag(s) (lower blocks, padded) is added to `sum`. */
TARGET static void NAME(factors)(const Factors *f, Space space, long from, long to, double *sum) {
  const long count = f->shared + f->extra, inputs = f->inputs, n = padded(count), x = spread(padded(inputs));
  memset(space.a, 0, n * x * sizeof(double));
  memset(space.k, 0, x * x * sizeof(double));
  memset(space.s, 0, 2 * x * sizeof(double)); /* and scale */
  for (long t = 0; t < f->shared; t++) memcpy(space.a + t * x, f->a + t * inputs, inputs * sizeof(double));
  for (long y = from; y < to; y++) {
    const double *di = f->di + y * inputs, *d = f->d + y * count, *lines = f->lines + y * f->extra * inputs;
    double *s = f->s + y * inputs, *h = f->h + y * count;
    for (long i = 0; i < inputs; i++) space.s[i] = s[i] = sqrt(di[i]);
    for (long t = 0; t < f->extra; t++)
      memcpy(space.a + (f->shared + t) * x, lines + t * inputs, inputs * sizeof(double));
    for (long t = 0; t < count; t++) {
      const double least = LEAST * weighted_square(space.a + t * x, space.s, x), own = d[t] < least ? least : d[t];
      h[t] = own == 0.0 ? 0.0 : 1.0 / sqrt(own);
    }
    for (long g = 0; g < f->normals; g++)
      for (long t = 0; t < count; t++) space.basis[g * n + t] = h[t] * f->n[(y * f->normals + g) * count + t];
    orthonormal(f->normals, count, space.basis, n, f->u + y * count * f->normals,
                f->tri + y * f->normals * f->normals);
    weigh(count, f->normals, x, space.a, h, space.s, space.basis, n, space.seen, space.b);
    for (long i = 0; i < x; i += PANEL) {
      product(PANEL, x - i, count, space.b + i, 1, x, space.b + i, x, space.c + i * x + i, x, 0, 1.0);
      for (long r = i; r < i + PANEL; r++) space.c[r * x + r] += 1.0;
    }
    for (long i = 0; i < inputs; i++) space.scale[i] = space.c[i * x + i];
    const int factored = factor(x, space.c, space.scale, space.k, space.l, space.p);
    for (long t = 0; t < inputs; t++) {
      memcpy(f->k + (y * inputs + t) * inputs, space.k + t * x, inputs * sizeof(double));
      for (long i = 0; i < t / PANEL * PANEL + PANEL; i += LANES)
        *(Vector *)(space.c + t * x + i) = *(Vector *)(space.k + t * x + i) * *(Vector *)(space.s + i);
    }
    if (!factored) memset(space.k, 0, x * x * sizeof(double));
    for (long i = 0; i < x; i += PANEL) /* K has nothing above its diagonal */
      product(PANEL, i + PANEL, inputs - i, space.c + i * x + i, 1, x, space.c + i * x, x, sum + i * x, x, 1, 1.0);
  }
}

/* ---- solutions ----------------------------------------------------------------------------------- */

/* out += A_y'v for every side; the vectors are `ldv` and `ldo` apart. */
INLINE void rmatvec(const Solve *c, const double *lines, const double *v, long ldv, double *out, long ldo) {
  add_transposed(c->sides, c->shared, c->inputs, c->a, v, ldv, out, ldo, 0);
  for (long m = 0; m < c->sides; m++)
    for (long w = 0; w < c->extra; w++)
      add_multiple(out + m * ldo, v[m * ldv + c->shared + w], lines + w * c->inputs, c->inputs);
}

/* v <- K'(start + K v), start <- start + K v for every side; v (M, X), start `apart`. */
INLINE void through(const Solve *c, const double *k, double *start, long apart, double *v) {
  const long n = c->inputs;
  add_product(c->sides, n, n, k, v, n, start, apart, 1);
  memset(v, 0, c->sides * n * sizeof(double));
  add_transposed(c->sides, n, n, k, start, apart, v, n, 1);
}

/* b and K s (rho - A'h b), kept in kappa and dx; what row still lacks without e is added to sum (M, X). */
TARGET static void NAME(forward)(const Solve *c, long from, long to, double *sum, double *memory) {
  const long count = c->shared + c->extra, inputs = c->inputs, apart = c->outputs * inputs;
  double *moved = memory, *v = moved + c->sides * count, *wanted = v + c->sides * inputs;
  for (long y = from; y < to; y++) {
    const double *s = c->s + y * inputs, *h = c->h + y * count, *lines = c->lines + y * c->extra * inputs;
    double *half = c->dx + y * inputs;
    for (long m = 0; m < c->sides; m++) {
      const long at = m * c->outputs + y;
      const double *link = c->link + at * count;
      double *b = c->kappa + at * count;
      coordinates(c->normals, c->tri + y * c->normals * c->normals, c->level + at * c->normals, wanted);
      for (long t = 0; t < count; t++) b[t] = h[t] * link[t];
      set_level(c->normals, count, c->u + y * count * c->normals, b, wanted);
      for (long t = 0; t < count; t++) moved[m * count + t] = -h[t] * b[t];
      memcpy(v + m * inputs, c->rho + at * inputs, inputs * sizeof(double));
    }
    rmatvec(c, lines, moved, count, v, inputs);
    for (long m = 0; m < c->sides; m++) {
      for (long i = 0; i < inputs; i++) v[m * inputs + i] *= s[i];
      memset(half + m * apart, 0, inputs * sizeof(double));
    }
    through(c, c->k + y * inputs * inputs, half, apart, v);
    for (long m = 0; m < c->sides; m++)
      for (long i = 0; i < inputs; i++) sum[m * inputs + i] -= s[i] * v[m * inputs + i];
  }
}

/* dX, kappa and dZ, given e. */
TARGET static void NAME(backward)(const Solve *c, long from, long to, double *memory) {
  const long count = c->shared + c->extra, inputs = c->inputs, apart = c->outputs * inputs;
  double *seen = memory, *v = seen + c->sides * count;
  for (long y = from; y < to; y++) {
    const double *s = c->s + y * inputs, *h = c->h + y * count, *lines = c->lines + y * c->extra * inputs;
    double *dx = c->dx + y * inputs, *dz = c->dz + y * inputs;
    for (long m = 0; m < c->sides; m++)
      for (long i = 0; i < inputs; i++) v[m * inputs + i] = s[i] * c->e[m * inputs + i];
    through(c, c->k + y * inputs * inputs, dx, apart, v);
    for (long m = 0; m < c->sides; m++)
      for (long i = 0; i < inputs; i++) dx[m * apart + i] = s[i] * v[m * inputs + i];
    memset(seen, 0, c->sides * count * sizeof(double));
    add_product(c->sides, c->shared, inputs, c->a, dx, apart, seen, count, 0);
    for (long m = 0; m < c->sides; m++) {
      double *own = seen + m * count, *kappa = c->kappa + (m * c->outputs + y) * count;
      for (long w = 0; w < c->extra; w++) own[c->shared + w] = dot(lines + w * inputs, dx + m * apart, inputs);
      for (long t = 0; t < count; t++) own[t] *= h[t];
      set_level(c->normals, count, c->u + y * count * c->normals, own, NULL);
      for (long t = 0; t < count; t++) kappa[t] = h[t] * (own[t] + kappa[t]);
      for (long i = 0; i < inputs; i++) dz[m * apart + i] = -c->e[m * inputs + i];
    }
    rmatvec(c, lines, c->kappa + y * count, c->outputs * count, dz, apart);
  }
}
