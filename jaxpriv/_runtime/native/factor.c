/* Inverse Cholesky factors for XLA, and what Python asks of the library. */

#include "systems.h"

#define LARGE 512          /* from this order on a matrix is factored by all threads */
#define STEP 128           /* rows of a large matrix that are factored at once: its triangle is read twice for them */
#define ACROSS (STEP + 8)  /* distance of rows of STEP numbers: see `spread` */
#define GROUP 64           /* rows, or columns, of a task */
#define DEPTH 256          /* rows of a product's right side that stay in the cache */

/* A large matrix at one of its steps. */
typedef struct {
  const double *matrix, *scale; /* (size, size) as it is given; (padded size) */
  double shift;
  long size, row, done, rows; /* order; distance of K's rows; rows of K that are known, and of the step */
  double *k;                  /* (padded size, row); zero above the diagonal */
  double *given, *left, *weights; /* (done, ACROSS): the step's columns of G, L', - (inverse L)' */
  double *corner, *inverse;       /* (rows, rows) */
  double *turned;                 /* (rows, ACROSS): the inverse transposed */
} Large;

typedef int FactorOf(long, const double *, const double *, double *, double *, double *);
typedef void PartOf(const Large *, long);
typedef int CornerOf(const Large *, double *, double *);

#define BODY "factor_body.h"
#include "targets.h"

UNUSED static const char name_plain[] = "baseline";
#if defined(__x86_64__)
UNUSED static const char name_avx2[] = "AVX2", name_avx512[] = "AVX-512";
#endif

/* What Python asks and says before it hands the kernels to XLA. */
int jaxpriv_widest = 64;
void jaxpriv_use_at_most(int bytes) { jaxpriv_widest = bytes; }
/* Whether a set that is compiled is one of this machine, and no wider than is allowed. */
int jaxpriv_usable(void) {
#if !defined(__x86_64__) || !defined(ONLY) || ONLY == 16
  return 1;
#elif ONLY == 32
  return HAS_AVX2;
#else
  return HAS_AVX512;
#endif
}
const char *jaxpriv_compiled_from(void) { return SOURCE_DIGEST; }
const char *jaxpriv_instructions(void) { return PICK(name); }

/* ---- a large matrix: the parts of a step as tasks ------------------------------------------------------ */

static void run_left(void *context, double *memory, long task) {
  PartOf *run = PICK(left_rows);
  (void)memory;
  run(context, task);
}

static void run_corner(void *context, double *memory, long task) {
  PartOf *run = PICK(corner_rows);
  (void)memory;
  run(context, task);
}

static void run_weights(void *context, double *memory, long task) {
  PartOf *run = PICK(weight_rows);
  (void)memory;
  run(context, task);
}

static void run_columns(void *context, double *memory, long task) {
  PartOf *run = PICK(new_columns);
  (void)memory;
  run(context, task);
}

/* The step's columns of G, as many as there are, for a group of the rows before it. */
static void run_given(void *context, double *memory, long task) {
  const Large *w = context;
  const long from = task * GROUP, to = from + GROUP < w->done ? from + GROUP : w->done;
  const long wide = w->size - w->done < w->rows ? w->size - w->done : w->rows;
  (void)memory;
  for (long i = from; i < to; i++) {
    memcpy(w->given + i * ACROSS, w->matrix + i * w->size + w->done, wide * sizeof(double));
    memset(w->given + i * ACROSS + wide, 0, (w->rows - wide) * sizeof(double));
  }
}

/* The step's own block of G; one on the diagonal where there is no row. */
static void put_corner(const Large *w) {
  for (long r = 0; r < w->rows; r++)
    for (long c = 0; c < w->rows; c++) {
      const long i = w->done + r, j = w->done + c, there = i < w->size && j < w->size;
      w->corner[r * w->rows + c] = there ? w->matrix[i * w->size + j] : r == c;
    }
}

/* K as `factor_once` has it, by all threads: the results depend on shapes alone. 1: done, 0: not positive, -1: no memory. */
static int factor_large(XLA_FFI_CallFrame *frame, Large *w, double *lt, double *bt) {
  CornerOf *corner = PICK(corner_factor);
  const long whole = padded(w->size);
  for (w->done = 0; w->done < whole; w->done += STEP) {
    w->rows = whole - w->done < STEP ? whole - w->done : STEP;
    const long groups = (w->done + GROUP - 1) / GROUP;
    put_corner(w);
    if (!share(frame, run_given, w, groups, 0, 0) || !share(frame, run_left, w, groups, 0, 0) ||
        !share(frame, run_corner, w, w->rows / PANEL, 0, 0))
      return -1;
    if (!corner(w, lt, bt)) return 0;
    if (!share(frame, run_weights, w, groups, 0, 0) || !share(frame, run_columns, w, groups, 0, 0)) return -1;
    for (long r = 0; r < w->rows; r++)
      memcpy(w->k + (w->done + r) * w->row + w->done, w->inverse + r * w->rows, w->rows * sizeof(double));
  }
  return 1;
}

/* All matrices of a batch, one after the other. 0: no memory. */
static int large_factors(XLA_FFI_CallFrame *frame, long batch, long size, const double *g, const double *scale, double *out) {
  const long whole = padded(size), row = spread(whole), side = STEP * STEP;
  double *memory = allocate(whole * row + 3 * whole * ACROSS + 2 * side + STEP * ACROSS + 2 * PANEL * STEP + whole);
  if (!memory) return 0;
  double *given = memory + whole * row, *left = given + whole * ACROSS, *weights = left + whole * ACROSS;
  double *corner = weights + whole * ACROSS, *inverse = corner + side, *turned = inverse + side;
  double *lt = turned + STEP * ACROSS, *bt = lt + PANEL * STEP, *padded_scale = bt + PANEL * STEP;
  int done = 1;
  in_huge_pages(out, batch * size * size);
  memset(memory, 0, whole * row * sizeof(double));
  memset(padded_scale, 0, whole * sizeof(double));
  for (long b = 0; b < batch && done >= 0; b++) {
    memcpy(padded_scale, scale + b * size, size * sizeof(double));
    Large w = {g + b * size * size, padded_scale, 0.0, size, row, 0, 0, memory, given, left, weights,
               corner, inverse, turned};
    done = 0;
    for (double shift = 0.0; !done && shift < 0.1; shift = shift > 0.0 ? shift * 100.0 : 1e-14) {
      w.shift = shift;
      done = factor_large(frame, &w, lt, bt);
    }
    double *result = out + b * size * size;
    for (long i = 0; done > 0 && i < size; i++) memcpy(result + i * size, memory + i * row, size * sizeof(double));
    for (long i = 0; done == 0 && i < size * size; i++) result[i] = NAN;
  }
  free(memory);
  return done >= 0;
}

/* ---- the interface to XLA --------------------------------------------------------------------------- */

/* (g (..., n, n), scale (..., n)) -> k (..., n, n), one matrix after the other. */
XLA_FFI_Error *jaxpriv_inverse_factor(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  XLA_FFI_Buffer **in = (XLA_FFI_Buffer **)frame->args.args, **out = (XLA_FFI_Buffer **)frame->rets.rets;
  long sizes[LETTERS];
  if (!shaped(frame, XLA_FFI_DataType_F64, "XX X | XX", sizes))
    return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "inverse_factor: arrays of float64 of other shapes");
  const long size = SIZE(sizes, 'X'), n = spread(padded(size)), batch = leading(in[0], 2);
  if (size >= LARGE)
    return large_factors(frame, batch, size, numbers(in[0]), numbers(in[1]), out[0]->data) ? NULL : no_memory(frame);
  double *memory = allocate(2 * n * n + 2 * PANEL * n + n);
  if (!memory) return no_memory(frame);
  double *g = memory, *k = g + n * n, *l = k + n * n, *p = l + PANEL * n, *scale = p + PANEL * n;
  FactorOf *run = PICK(inverse_factor);
  memset(memory, 0, 2 * n * n * sizeof(double));
  memset(scale, 0, n * sizeof(double));
  for (long i = size; i < n; i++) g[i * n + i] = 1.0;
  for (long b = 0; b < batch; b++) {
    const double *matrix = numbers(in[0]) + b * size * size;
    double *result = (double *)out[0]->data + b * size * size;
    for (long i = 0; i < size; i++) memcpy(g + i * n, matrix + i * size, size * sizeof(double));
    memcpy(scale, numbers(in[1]) + b * size, size * sizeof(double));
    const int factored = run(n, g, scale, k, l, p);
    for (long i = 0; i < size; i++) memcpy(result + i * size, k + i * n, size * sizeof(double));
    if (!factored) memset(k, 0, n * n * sizeof(double));
  }
  free(memory);
  return NULL;
}
