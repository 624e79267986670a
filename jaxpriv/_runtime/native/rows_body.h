/* What `rows.c` does for every output, for one instruction set. */

#include "panels.h"
#include "wide_body.h"

#define deflate NAME(deflate)
#define weighted_rows NAME(weighted_rows)

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
    for (long t = 0; t < rows_in; t++)
      memcpy(c->k + (y * rows_in + t) * rows_in, s.k + t * n, rows_in * sizeof(double));
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

/* seen += A_y diag(di_y) v_y for every side; the vectors of v (M, X) are weighted in their place. */
INLINE void weighted_rows(const Solve *c, long y, double *v, double *seen, long apart) {
  const double *di = c->di + y * c->inputs, *lines = c->lines + y * c->extra * c->inputs;
  for (long m = 0; m < c->sides; m++)
    for (long i = 0; i < c->inputs; i++) v[m * c->inputs + i] *= di[i];
  add_product(c->sides, c->shared, c->inputs, c->a, v, c->inputs, seen, apart, 0);
  for (long m = 0; m < c->sides; m++)
    for (long w = 0; w < c->extra; w++)
      seen[m * apart + c->shared + w] += dot(lines + w * c->inputs, v + m * c->inputs, c->inputs);
}

/* a = (1 - uu')(R rho + K link) + u tri'^-1 level, kept in kappa; R'a is added to sum (M, X). */
TARGET static void NAME(forward)(const Solve *c, long from, long to, double *sum, double *memory) {
  const long rows = c->shared + c->extra, inputs = c->inputs, apart = c->outputs * rows;
  double *seen = memory, *v = seen + c->sides * rows, *wanted = v + c->sides * inputs;
  for (long y = from; y < to; y++) {
    const double *k = c->k + y * rows * rows, *di = c->di + y * inputs;
    const double *u = c->u + y * rows * c->normals, *tri = c->tri + y * c->normals * c->normals;
    double *a = c->kappa + y * rows;
    for (long m = 0; m < c->sides; m++) {
      memcpy(v + m * inputs, c->rho + (m * c->outputs + y) * inputs, inputs * sizeof(double));
      memcpy(seen + m * rows, c->link + (m * c->outputs + y) * rows, rows * sizeof(double));
      memset(a + m * apart, 0, rows * sizeof(double));
    }
    weighted_rows(c, y, v, seen, rows);
    add_product(c->sides, rows, rows, k, seen, rows, a, apart, 1);
    for (long m = 0; m < c->sides; m++) {
      coordinates(c->normals, tri, c->level + (m * c->outputs + y) * c->normals, wanted);
      set_level(c->normals, rows, u, a + m * apart, wanted);
    }
    memset(seen, 0, c->sides * (rows + inputs) * sizeof(double)); /* and v */
    add_transposed(c->sides, rows, rows, k, a, apart, seen, rows, 1);
    add_transposed(c->sides, c->shared, inputs, c->a, seen, rows, v, inputs, 0);
    for (long m = 0; m < c->sides; m++) {
      for (long w = 0; w < c->extra; w++)
        add_multiple(v + m * inputs, seen[m * rows + c->shared + w], c->lines + (y * c->extra + w) * inputs, inputs);
      for (long i = 0; i < inputs; i++) sum[m * inputs + i] += di[i] * v[m * inputs + i];
    }
  }
}

/* kappa = K'( a + (1 - uu') R e ). */
TARGET static void NAME(backward)(const Solve *c, long from, long to, double *memory) {
  const long rows = c->shared + c->extra, inputs = c->inputs, apart = c->outputs * rows;
  double *seen = memory, *moved = seen + c->sides * rows, *v = moved + c->sides * rows;
  for (long y = from; y < to; y++) {
    const double *k = c->k + y * rows * rows;
    double *kappa = c->kappa + y * rows;
    memset(seen, 0, 2 * c->sides * rows * sizeof(double)); /* and moved */
    memcpy(v, c->e, c->sides * inputs * sizeof(double));
    weighted_rows(c, y, v, seen, rows);
    add_product(c->sides, rows, rows, k, seen, rows, moved, rows, 1);
    for (long m = 0; m < c->sides; m++) {
      double *own = moved + m * rows;
      set_level(c->normals, rows, c->u + y * rows * c->normals, own, NULL);
      for (long t = 0; t < rows; t++) own[t] += kappa[m * apart + t];
      memset(kappa + m * apart, 0, rows * sizeof(double));
    }
    add_transposed(c->sides, rows, rows, k, moved, rows, kappa, apart, 1);
  }
}
