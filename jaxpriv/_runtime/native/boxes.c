/* Boxes of the branch and bound over posteriors, in double precision: each is tightened, bounded from below and given
   the cut that divides it.

   `jaxpriv.funnels.pricing.boxes` has the mathematics and the same in NumPy. It is called through ctypes, by several
   threads at a time. Every bound that leaves this file is rounded outwards. */

#include <float.h>
#include <math.h>
#include <string.h>

#include "common.h"

/* The oldest versions that glibc has of these, so that what is compiled with a new C library runs with that of 2012. */
#if defined(__GLIBC__) && defined(__x86_64__)
__asm__(".symver exp,exp@GLIBC_2.2.5");
__asm__(".symver log,log@GLIBC_2.2.5");
#elif defined(__GLIBC__) && defined(__aarch64__)
__asm__(".symver exp,exp@GLIBC_2.17");
__asm__(".symver log,log@GLIBC_2.17");
#endif

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

#define BODY "boxes_body.h"
#include "targets.h"

typedef void BoxesOf(const Search *, Workspace *, long, double *, double *, double *, long *, double *, double *);

/* `count` boxes, rows (l (X), u (X), q (X), r from (S), r to (S)) of `boxes`, tightened in place; `bounds` holds what is
   known of each and becomes what is known then, infinite where the box holds no minimiser of value F or less.
   `values`: of f at the q that is left behind. `symbols`, `cuts`, `gaps`: where to divide it (-1: nowhere), the left
   part up to the cut, the right part from the gap on. 0 if there was no memory. */
int jaxpriv_boxes(long count, long useful, long private, const double *t, const double *prices, double lam,
                  double level, double close, double *boxes, double *bounds, double *values, long *symbols,
                  double *cuts, double *gaps) {
  const Search search = {useful, private, t, prices, lam, level, close};
  Workspace *work = workspace(useful, private);
  if (!work) return 0;
  BoxesOf *run = PICK(run_boxes);
  run(&search, work, count, boxes, bounds, values, symbols, cuts, gaps);
  free(work);
  return 1;
}
