/* Newton systems by matrices of the order of the inputs, on CPU, in double precision.

   For every output y, with A_y = [a; extra_y] (N, X), diagonals di_y, d_y >= 0 with s = di^1/2 and h = d^-1/2 (with d raised
   to LEAST A_t di A_t', and h = 0 where that is 0 too), and G normals n_y:

       h n_y = u_y tri_y   (orthonormal columns, upper triangular),
       B_y = (1 - u_y u_y') diag(h) A_y diag(s),    1 + B_y'B_y = (K_y'K_y)^-1,   K_y lower triangular,
       schur = sum_y diag(s) K_y'K_y diag(s),

   and then the solutions for given right-hand sides. `jaxpriv.solvers._newton_system` says what they are for and has
   the same in JAX, for every device. */

#include "systems.h"
#include "panels.h"

#define LEAST 1e-16 /* what is smaller beside the square of its own row is lost there */

/* ---- factors ------------------------------------------------------------------------------------- */

typedef struct {
  long shared, extra, normals, inputs, outputs; /* rows of a, rows of extra, G, X, Y */
  union { /* arrays of one problem, in the order of the call */
    struct {
      double *a, *lines, *di, *d, *n, *s, *h, *k, *u, *tri, *schur;
    };
    double *arrays[11];
  };
} Factors;

typedef struct {
  double *a, *b, *c, *k, *l, *p, *s, *scale, *basis, *seen;
} Space;

static Space lay_out(double *memory, const Factors *f, long *size) {
  const long n = padded(f->shared + f->extra), x = spread(padded(f->inputs));
  Space s;
  s.a = memory, s.b = s.a + n * x, s.c = s.b + n * x, s.k = s.c + x * x, s.l = s.k + x * x;
  s.p = s.l + PANEL * x, s.s = s.p + PANEL * x, s.scale = s.s + x, s.basis = s.scale + x;
  s.seen = s.basis + f->normals * n;
  *size = s.seen + f->normals * x - memory;
  return s;
}

/* ---- solutions ----------------------------------------------------------------------------------- */

typedef struct {
  long sides, shared, extra, normals, inputs, outputs; /* right-hand sides M */
  union { /* arrays of one problem, in the order of the call */
    struct {
      double *a, *lines, *s, *h, *k, *u, *tri, *schur, *rho, *link, *level, *row, *kappa, *dx, *dz, *e;
    };
    double *arrays[16];
  };
} Solve;

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
APART void factors(const Factors *f, Space space, long from, long to, double *sum) {
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
APART void forward(const Solve *c, long from, long to, double *sum, double *memory) {
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
APART void backward(const Solve *c, long from, long to, double *memory) {
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

/* ---- tasks -------------------------------------------------------------------------------------- */

/* The sum, of which the lower blocks are given. */
static void schur_of(const Factors *f, const double *sum) {
  const long x = spread(padded(f->inputs));
  for (long i = 0; i < f->inputs; i++)
    for (long j = 0; j <= i; j++) f->schur[i * f->inputs + j] = f->schur[j * f->inputs + i] = sum[i * x + j];
}

#include "systems_body.h"

/* ---- the interface to XLA --------------------------------------------------------------------------- */

/* (a (T,X), extra (Y,W,X), di (Y,X), d (Y,N), normals (Y,G,N))
   -> (s (Y,X), h (Y,N), k (Y,X,X), u (Y,N,G), tri (Y,G,G), schur (X,X)), N = T + W; all with a batch in front. */
XLA_FFI_Error *NAME(jaxpriv_inputs_factor)(XLA_FFI_CallFrame *frame) {
  Call call[1];
  if (!of_systems(frame, "TX YWX YX YN YGN | YX YN YXX YNG YGG XX", call)) return misshapen(frame);
  const long inputs = SIZE('X'), x = spread(padded(inputs));
  in_huge_pages(array_of(call, 7, 0), call->batch * SIZE('Y') * inputs * inputs);
  return factored(call, inputs, x * x);
}

/* (a (T,X), extra (Y,W,X), s (Y,X), h (Y,N), k (Y,X,X), u (Y,N,G), tri (Y,G,G), schur (X,X),
    rho (M,Y,X), link (M,Y,N), level (M,Y,G), row (M,X))
   -> (kappa (M,Y,N), dx (M,Y,X), dz (M,Y,X), e (M,X)); all with a batch. */
XLA_FFI_Error *NAME(jaxpriv_inputs_solve)(XLA_FFI_CallFrame *frame) {
  Call call[1];
  if (!of_systems(frame, "TX YWX YX YN YXX YNG YGG XX MYX MYN MYG MX | MYN MYX MYX MX", call)) return misshapen(frame);
  return solutions(call, SIZE('X'));
}
