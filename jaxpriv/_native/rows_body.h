/* What `rows.c` does for every output, for one instruction set. */

#include "panels.h"
#include "wide_body.h"

#define deflate NAME(deflate)

/* B <- (1 - uu') B for B (n, width); `seen` is working memory. */
INLINE void deflate(long count, const double *basis, long stride, long n, double *b, long width, double *seen) {
  for (long g = 0; g < count; g++) {
    const double *u = basis + g * stride;
    memset(seen, 0, width * sizeof(double));
    for (long t = 0; t < n; t++) add_multiple(seen, u[t], b + t * width, width);
    for (long t = 0; t < n; t++) add_multiple(b + t * width, -u[t], seen, width);
  }
}

/* Outputs from <= y < to; their sum of R'(1 - uu')R (lower blocks, padded) is added to `sum`, or (1 - uu')R is packed. */
TARGET static void NAME(factors)(const Factors *c, Space s, long from, long to, double *sum) {
  const long rows_in = c->shared + c->extra, n = padded(rows_in), x = width_of(c->inputs), inputs = c->inputs;
  const long group = group_of(rows_in);
  long held = 0; /* rows of R not yet in `sum` */
  memset(s.at, 0, x * n * sizeof(double));
  for (long t = 0; t < c->shared; t++)
    for (long i = 0; i < inputs; i++) s.at[i * n + t] = c->a[t * inputs + i];
  memset(s.b, 0, n * x * sizeof(double));
  memset(s.k, 0, n * n * sizeof(double));
  memset(s.g, 0, n * n * sizeof(double));
  memset(s.scale, 0, n * sizeof(double));
  for (long y = from; y < to; y++) {
    const double *di = c->di + y * inputs, *d = c->d + y * rows_in, *lines = c->lines + y * c->extra * inputs;
    for (long t = 0; t < c->extra; t++)
      for (long i = 0; i < inputs; i++) s.at[i * n + c->shared + t] = lines[t * inputs + i];
    for (long i = 0; i < inputs; i++)
      for (long t = 0; t < n; t++) s.bt[i * n + t] = di[i] * s.at[i * n + t];
    for (long t = 0; t < rows_in; t++) {
      const double *line = t < c->shared ? c->a + t * inputs : lines + (t - c->shared) * inputs;
      for (long i = 0; i < inputs; i++) s.b[t * x + i] = di[i] * line[i];
    }
    for (long i = 0, m; i < rows_in; i += m) {
      m = at_once(i, rows_in);
      const long j = i / PAD * PAD;
      product(m, n - j, inputs, s.bt + i, 1, n, s.at + j, n, s.g + i * n + j, n, 0, 1.0);
    }
    for (long t = 0; t < rows_in; t++) s.scale[t] = s.g[t * n + t] += d[t];
    for (long t = rows_in; t < n; t++) s.g[t * n + t] = 1.0;
    const int factored = factor(n, s.g, s.scale, s.k, s.l, s.p);
    for (long g = 0; g < c->normals; g++) {
      const double *normal = c->n + (y * c->normals + g) * rows_in;
      for (long t = 0; t < rows_in; t++) s.basis[g * n + t] = dot(s.k + t * n, normal, t + 1);
    }
    orthonormal(c->normals, rows_in, s.basis, n, c->u + y * rows_in * c->normals, c->tri + y * c->normals * c->normals);
    double *r = s.r + held * x; /* padding rows reach into the next output's place, which comes later */
    for (long i = 0, m; i < rows_in; i += m) {
      m = at_once(i, rows_in);
      product(m, x, i + m, s.k + i * n, n, 1, s.b, x, r + i * x, x, 0, 1.0);
    }
    for (long t = 0; t < rows_in; t++) {
      memcpy(c->k + (y * rows_in + t) * rows_in, s.k + t * n, rows_in * sizeof(double));
      memcpy(c->r + (y * rows_in + t) * inputs, r + t * x, inputs * sizeof(double));
    }
    if (!factored) memset(s.k, 0, n * n * sizeof(double));
    deflate(c->normals, s.basis, n, rows_in, r, x, s.basis + c->normals * n);
    if (c->packed) {
      pack(rows_in, x, r, c->packed, c->deep, (y - c->first) * rows_in);
      continue;
    }
    held += rows_in;
    if (held < group * rows_in && y + 1 < to) continue;
    for (long i = 0; i < x; i += PANEL)
      product(PANEL, i + PANEL, held, s.r + i, 1, x, s.r, x, sum + i * x, x, 1, 1.0);
    held = 0;
  }
}

/* ---- solutions ----------------------------------------------------------------------------------- */

/* a = (1 - uu')(R rho + K link) + u tri'^-1 level, kept in kappa; R'a is added to sum (M, X). */
TARGET static void NAME(forward)(const Solve *c, long from, long to, double *sum, double *wanted) {
  for (long y = from; y < to; y++) {
    const double *k = c->k + y * c->rows * c->rows, *r = c->r + y * c->rows * c->inputs;
    const double *u = c->u + y * c->rows * c->normals, *tri = c->tri + y * c->normals * c->normals;
    const long apart = c->outputs * c->rows;
    double *a = c->kappa + y * c->rows;
    for (long m = 0; m < c->sides; m++) memset(a + m * apart, 0, c->rows * sizeof(double));
    add_product(c->sides, c->rows, c->inputs, r, c->rho + y * c->inputs, c->outputs * c->inputs, a, apart, 0);
    add_product(c->sides, c->rows, c->rows, k, c->link + y * c->rows, apart, a, apart, 1);
    for (long m = 0; m < c->sides; m++) {
      coordinates(c->normals, tri, c->level + (m * c->outputs + y) * c->normals, wanted);
      set_level(c->normals, c->rows, u, a + m * apart, wanted);
    }
    add_transposed(c->sides, c->rows, c->inputs, r, a, apart, sum, c->inputs, 0);
  }
}

/* kappa = K'( a + (1 - uu') R e ). */
TARGET static void NAME(backward)(const Solve *c, long from, long to, double *moved) {
  for (long y = from; y < to; y++) {
    const double *k = c->k + y * c->rows * c->rows, *r = c->r + y * c->rows * c->inputs;
    const long apart = c->outputs * c->rows;
    double *kappa = c->kappa + y * c->rows;
    memset(moved, 0, c->sides * c->rows * sizeof(double));
    add_product(c->sides, c->rows, c->inputs, r, c->e, c->inputs, moved, c->rows, 0);
    for (long m = 0; m < c->sides; m++) {
      double *own = moved + m * c->rows;
      set_level(c->normals, c->rows, c->u + y * c->rows * c->normals, own, NULL);
      for (long t = 0; t < c->rows; t++) own[t] += kappa[m * apart + t];
      memset(kappa + m * apart, 0, c->rows * sizeof(double));
    }
    add_transposed(c->sides, c->rows, c->rows, k, moved, c->rows, kappa, apart, 1);
  }
}
