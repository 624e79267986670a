/* The dense part of one Newton step of the interior-point method, on CPU, in double precision.

   For every output y, with A_y = [a; extra_y] (N, X), one positive diagonal di_y and one d_y:

       G_y = A_y diag(di_y) A_y' + diag(d_y) = (K_y'K_y)^-1,   K_y lower triangular,
       R_y = K_y A_y diag(di_y),   and in the end   schur = sum_y [ diag(di_y) - R_y'R_y ].

   The same numbers come from `jaxpriv.solvers._factors.dense_factor` on every device; a matrix of a few
   dozen rows is too small for the batched kernels of XLA, which work at a tenth of the speed of the
   machine there. Everything below is a product of panels: a tile of TILE_ROWS x TILE_COLUMNS sums in
   registers. Dimensions are padded (zeros, and ones on the diagonal), so that no loop has a remainder.

   Outputs are cut into chunks by the shapes alone and their sums are added in a fixed order: the result
   does not depend on the number of threads. Threads come from XLA's own pool. The caller works too and
   never waits for a thread that has not begun, so that a busy pool cannot lock it up. */

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

#define INLINE static inline __attribute__((always_inline))
#define PANEL 8                /* rows that are factored at once */
#define PAD 16                 /* dimensions are padded to this; rows to PANEL where one panel is enough */
#define GROUP_ROWS 64          /* rows of R that are collected before their sum of squares */
#define MOST_CHUNKS 32         /* outputs are shared out in at most so many pieces */
#define CHUNK_ROWS 256         /* a piece has about so many rows of R: adding its sum up should cost little beside it */
#define PARTIAL_BYTES (64l << 20) /* what the pieces' sums may take */

typedef double Vector __attribute__((vector_size(64)));

static long padded(long n) { return (n + PAD - 1) / PAD * PAD; }
static long padded_rows(long n) { return n <= PANEL ? PANEL : padded(n); }
static long group_of(long rows) { return rows < GROUP_ROWS ? GROUP_ROWS / rows : 1; }

/* ---- panels -------------------------------------------------------------------------------------- */

/* c (m, n) = a b, or c += sign a b; a has strides (ars, acs), b and c are rows. m is a multiple of `rows`,
   n of 8 `vectors`. */
INLINE void product(long m, long n, long depth, const double *a, long ars, long acs, const double *b, long ldb,
                    double *c, long ldc, int add, double sign, const int rows, const int vectors) {
  for (long i = 0; i < m; i += rows)
    for (long j = 0; j < n; j += 8 * vectors) {
      Vector sum[8][2];
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) sum[r][v] = (Vector){0};
      const double *at = a + i * ars, *bt = b + j;
      for (long k = 0; k < depth; k++, at += acs, bt += ldb) {
        Vector row[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) row[v] = *(const Vector *)(bt + 8 * v);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
          for (int v = 0; v < vectors; v++) sum[r][v] += at[r * ars] * row[v];
      }
#pragma GCC unroll 8
      for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
          Vector *out = (Vector *)(c + (i + r) * ldc + j + 8 * v);
          *out = add ? *out + sign * sum[r][v] : sign * sum[r][v];
        }
    }
}

/* Inverse Cholesky factor of a PANEL x PANEL matrix (lower triangle of s), row by row into k. 0: not positive. */
INLINE int small_inverse_factor(const double s[PANEL][PANEL], double k[PANEL][PANEL]) {
  double l[PANEL][PANEL], inverse[PANEL];
  for (int j = 0; j < PANEL; j++) {
    double pivot = s[j][j];
    for (int p = 0; p < j; p++) pivot -= l[j][p] * l[j][p];
    if (!(pivot > 0.0) || !isfinite(pivot)) return 0;
    inverse[j] = 1.0 / sqrt(pivot);
    for (int i = j + 1; i < PANEL; i++) {
      double sum = s[i][j];
      for (int p = 0; p < j; p++) sum -= l[i][p] * l[j][p];
      l[i][j] = sum * inverse[j];
    }
  }
  memset(k, 0, PANEL * PANEL * sizeof(double));
  for (int i = 0; i < PANEL; i++) {
    k[i][i] = inverse[i];
    for (int j = 0; j < i; j++) {
      double sum = 0.0;
      for (int p = j; p < i; p++) sum += l[i][p] * k[p][j];
      k[i][j] = -sum * inverse[i];
    }
  }
  return 1;
}

/* K with (g + shift diag(scale))^-1 = K'K; g is (n, n) padded, its lower triangle is read. `kt` is K', both
   must be zero above their diagonals on entry and keep the same blocks filled. */
INLINE int factor_once(long n, const double *g, double shift, const double *scale, double *k, double *kt,
                       double *l, double *p, const int rows, const int vectors) {
  const long step = 8 * vectors;
  for (long i = 0; i < n; i += PANEL) {
    const long wide = (i + step - 1) / step * step; /* columns, padded: what is beyond i is zero in kt */
    /* L = G K' of the rows before, block by block of columns: K' is upper triangular. */
    for (long j = 0; j < wide; j += step) {
      const long depth = j + step < i ? j + step : i;
      product(PANEL, step, depth, g + i * n, n, 1, kt + j, n, l + j, n, 0, 1.0, rows, vectors);
    }
    double s[PANEL][PANEL], block[PANEL][PANEL];
    for (int r = 0; r < PANEL; r++)
      for (int c = 0; c <= r; c++) {
        Vector sum = {0};
        for (long j = 0; j < i; j += 8) sum += *(const Vector *)(l + r * n + j) * *(const Vector *)(l + c * n + j);
        double total = 0.0;
        for (int v = 0; v < 8; v++) total += sum[v];
        s[r][c] = g[(i + r) * n + i + c] + (r == c ? shift * scale[i + r] : 0.0) - total;
      }
    if (!small_inverse_factor(s, block)) return 0;
    /* The rest of the rows: - block (L K). */
    for (long j = 0; j < wide; j += step)
      product(PANEL, step, i - j, l + j, n, 1, k + j * n + j, n, p + j, n, 0, 1.0, rows, vectors);
    product(PANEL, wide, PANEL, &block[0][0], PANEL, 1, p, n, k + i * n, n, 0, -1.0, rows, vectors);
    for (int r = 0; r < PANEL; r++) {
      for (int c = 0; c < PANEL; c++) k[(i + r) * n + i + c] = block[r][c];
      for (long j = i + PANEL; j < wide; j++) k[(i + r) * n + j] = 0.0;
      for (long j = 0; j < i + PANEL; j++) kt[j * n + i + r] = k[(i + r) * n + j];
    }
  }
  return 1;
}

/* The same with the least shift of 0, 1e-14, 1e-12, ... that works; NaN where none does. */
INLINE void factor(long n, const double *g, const double *scale, double *k, double *kt, double *l, double *p,
                   const int rows, const int vectors) {
  for (double shift = 0.0; shift < 1e-4; shift = shift > 0.0 ? shift * 100.0 : 1e-14) {
    memset(k, 0, n * n * sizeof(double));
    memset(kt, 0, n * n * sizeof(double));
    if (factor_once(n, g, shift, scale, k, kt, l, p, rows, vectors)) return;
  }
  for (long i = 0; i < n * n; i++) k[i] = NAN;
}

/* ---- the outputs of one problem ------------------------------------------------------------------ */

typedef struct {
  long shared, extra, inputs, outputs;   /* rows of a, rows of extra, X, Y */
  const double *a, *lines, *di, *d;      /* of one problem of the batch */
  double *k, *r;
} Columns;

typedef struct {
  double *at, *bt, *g, *k, *kt, *l, *p, *b, *r, *scale;
} Space;

static long space_size(long n, long x) {
  return 2 * x * n + 3 * n * n + 2 * PANEL * n + 2 * n * x + GROUP_ROWS * x + PAD * ((n + PAD - 1) / PAD);
}

static Space lay_out(double *memory, long n, long x) {
  Space s;
  s.at = memory, s.bt = s.at + x * n, s.g = s.bt + x * n, s.k = s.g + n * n, s.kt = s.k + n * n;
  s.l = s.kt + n * n, s.p = s.l + PANEL * n, s.b = s.p + PANEL * n, s.r = s.b + n * x;
  s.scale = s.r + (n + GROUP_ROWS) * x;
  return s;
}

/* Outputs from <= y < to; their sum of R'R (lower blocks, padded) is added to `sum`. Systems of one panel
   (`narrow`) are 8 columns wide. */
INLINE void columns(const Columns *c, Space s, long from, long to, double *sum, const int rows, const int vectors,
                    const int narrow) {
  const long rows_in = c->shared + c->extra, n = padded_rows(rows_in), x = padded(c->inputs), inputs = c->inputs;
  const long step = 8 * vectors, group = group_of(rows_in);
  const int own = narrow ? 1 : vectors; /* vectors across a row of the system */
  long held = 0;                        /* rows of R not yet in `sum` */
  memset(s.at, 0, x * n * sizeof(double));
  for (long t = 0; t < c->shared; t++)
    for (long i = 0; i < inputs; i++) s.at[i * n + t] = c->a[t * inputs + i];
  memset(s.b, 0, n * x * sizeof(double));
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
    for (long i = 0; i < n; i += PANEL) {
      const long wide = (i + PANEL + 8 * own - 1) / (8 * own) * (8 * own);
      product(PANEL, wide, inputs, s.bt + i, 1, n, s.at, n, s.g + i * n, n, 0, 1.0, rows, own);
    }
    for (long t = 0; t < n; t++) {
      s.g[t * n + t] += t < rows_in ? d[t] : 1.0;
      s.scale[t] = t < rows_in ? s.g[t * n + t] : 0.0;
    }
    factor(n, s.g, s.scale, s.k, s.kt, s.l, s.p, rows, own);
    double *r = s.r + held * x; /* padding rows reach into the next output's place, which comes later */
    for (long i = 0; i < n; i += PANEL)
      product(PANEL, x, i + PANEL, s.k + i * n, n, 1, s.b, x, r + i * x, x, 0, 1.0, rows, vectors);
    for (long t = 0; t < rows_in; t++) {
      memcpy(c->k + (y * rows_in + t) * rows_in, s.k + t * n, rows_in * sizeof(double));
      memcpy(c->r + (y * rows_in + t) * inputs, r + t * x, inputs * sizeof(double));
    }
    held += rows_in;
    if (held < group * rows_in && y + 1 < to) continue;
    for (long i = 0; i < x; i += PANEL) {
      const long wide = (i + PANEL + step - 1) / step * step;
      product(PANEL, wide, held, s.r + i, 1, x, s.r, x, sum + i * x, x, 1, 1.0, rows, vectors);
    }
    held = 0;
  }
}

/* ---- one body, compiled for the instruction sets ------------------------------------------------- */

typedef void ColumnsOf(const Columns *, Space, long, long, double *);
typedef void FactorOf(long, const double *, const double *, double *, double *, double *, double *);

#define FOR_TARGET(name, attribute, rows, vectors)                                                          \
  attribute static void columns_##name(const Columns *c, Space s, long from, long to, double *sum) {        \
    if (c->shared + c->extra <= PANEL)                                                                      \
      columns(c, s, from, to, sum, rows, vectors, 1);                                                       \
    else                                                                                                    \
      columns(c, s, from, to, sum, rows, vectors, 0);                                                       \
  }                                                                                                         \
  attribute static void factor_##name(long n, const double *g, const double *scale, double *k, double *kt,  \
                                      double *l, double *p) {                                               \
    factor(n, g, scale, k, kt, l, p, rows, vectors);                                                        \
  }

FOR_TARGET(plain, , 4, 1)
#if defined(__x86_64__)
FOR_TARGET(avx2, __attribute__((target("avx2,fma"))), 4, 1)
FOR_TARGET(avx512, __attribute__((target("avx512f,fma"))), 8, 2)
#define PICK(function)                                                       \
  (__builtin_cpu_supports("avx512f")                                         \
       ? function##_avx512                                                   \
       : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? function##_avx2 : function##_plain)
#else
#define PICK(function) function##_plain
#endif

static void say_plain(const char **name) { *name = "baseline"; }
#if defined(__x86_64__)
static void say_avx2(const char **name) { *name = "AVX2"; }
static void say_avx512(const char **name) { *name = "AVX-512"; }
#endif

/* What Python asks before it hands the kernels to XLA. */
const char *jaxpriv_compiled_for(void) { return JAXLIB_VERSION; }
const char *jaxpriv_instructions(void) {
  const char *name;
  PICK(say)(&name);
  return name;
}

/* ---- sharing the work ---------------------------------------------------------------------------- */

typedef struct {
  ColumnsOf *run;
  const Columns *problems;
  long batch, chunks, n, x;
  double *partial;       /* (batch, chunks, x, x) */
  atomic_long next, done, users, failed;
} Job;

static void leave(Job *job) {
  if (atomic_fetch_sub(&job->users, 1) == 1) free(job);
}

static void work(Job *job) {
  double *memory = NULL;
  const long tasks = job->batch * job->chunks, area = job->x * job->x;
  for (;;) {
    const long task = atomic_fetch_add(&job->next, 1);
    if (task >= tasks) break;
    if (!memory) memory = aligned_alloc(64, space_size(job->n, job->x) * sizeof(double));
    if (memory) {
      const Columns *c = job->problems + task / job->chunks;
      const long chunk = task % job->chunks;
      const long from = chunk * c->outputs / job->chunks, to = (chunk + 1) * c->outputs / job->chunks;
      memset(job->partial + task * area, 0, area * sizeof(double));
      job->run(c, lay_out(memory, job->n, job->x), from, to, job->partial + task * area);
    } else {
      atomic_store(&job->failed, 1);
    }
    atomic_fetch_add(&job->done, 1);
  }
  free(memory);
}

static void help(void *data) {
  work(data);
  leave(data);
}

/* ---- the border to XLA --------------------------------------------------------------------------- */

static XLA_FFI_Error *complain(XLA_FFI_CallFrame *frame, XLA_FFI_Error_Code code, const char *message) {
  XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, message, code};
  return frame->api->XLA_FFI_Error_Create(&args);
}

/* Whether XLA only asks which version of its interface this was compiled for; then it is told. */
static int asked_for_version(XLA_FFI_CallFrame *frame) {
  for (XLA_FFI_Extension_Base *e = frame->extension_start; e; e = e->next)
    if (e->type == XLA_FFI_Extension_Metadata) {
      XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)e)->metadata;
      metadata->api_version.major_version = XLA_FFI_API_MAJOR;
      metadata->api_version.minor_version = XLA_FFI_API_MINOR;
      return 1;
    }
  return 0;
}

static int doubles(const XLA_FFI_Buffer *b, int64_t least_rank) {
  return b->dtype == XLA_FFI_DataType_F64 && b->rank >= least_rank;
}

static long leading(const XLA_FFI_Buffer *b, int64_t inner) {
  long size = 1;
  for (int64_t i = 0; i < b->rank - inner; i++) size *= b->dims[i];
  return size;
}

/* (a (T,X), extra (Y,W,X), di (Y,X), d (Y,T+W)) -> (k (Y,N,N), r (Y,N,X), schur (X,X)); all with a batch. */
XLA_FFI_Error *jaxpriv_columns(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  if (frame->args.size != 4 || frame->rets.size != 3)
    return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "columns: 4 arguments and 3 results");
  XLA_FFI_Buffer **in = (XLA_FFI_Buffer **)frame->args.args, **out = (XLA_FFI_Buffer **)frame->rets.rets;
  if (!doubles(in[0], 2) || !doubles(in[1], 3) || !doubles(in[2], 2) || !doubles(in[3], 2))
    return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "columns: float64 arrays (T,X), (Y,W,X), (Y,X), (Y,N)");
  const long batch = leading(in[2], 2);
  const long shared = in[0]->dims[in[0]->rank - 2], inputs = in[0]->dims[in[0]->rank - 1];
  const long outputs = in[2]->dims[in[2]->rank - 2], extra = in[1]->dims[in[1]->rank - 2];
  const long rows = shared + extra, n = padded_rows(rows), x = padded(inputs), area = x * x;

  long chunks = PARTIAL_BYTES / (batch * area * (long)sizeof(double));
  chunks = chunks > MOST_CHUNKS ? MOST_CHUNKS : chunks;
  chunks = chunks > outputs * rows / CHUNK_ROWS ? outputs * rows / CHUNK_ROWS : chunks;
  chunks = chunks > outputs ? outputs : chunks;
  chunks = chunks < 1 ? 1 : chunks;

  Columns *problems = malloc(batch * sizeof(Columns));
  Job *job = malloc(sizeof(Job));
  double *partial = aligned_alloc(64, batch * chunks * area * sizeof(double));
  if (!problems || !job || !partial) {
    free(problems), free(job), free(partial);
    return complain(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "columns: no memory");
  }
  for (long b = 0; b < batch; b++)
    problems[b] = (Columns){shared, extra, inputs, outputs,
                            (const double *)in[0]->data + b * shared * inputs,
                            (const double *)in[1]->data + b * outputs * extra * inputs,
                            (const double *)in[2]->data + b * outputs * inputs,
                            (const double *)in[3]->data + b * outputs * rows,
                            (double *)out[0]->data + b * outputs * rows * rows,
                            (double *)out[1]->data + b * outputs * rows * inputs};
  job->run = PICK(columns), job->problems = problems, job->batch = batch, job->chunks = chunks;
  job->n = n, job->x = x, job->partial = partial;
  atomic_init(&job->next, 0), atomic_init(&job->done, 0), atomic_init(&job->users, 1), atomic_init(&job->failed, 0);

  const long tasks = batch * chunks;
  int64_t threads = 1;
  XLA_FFI_ThreadPool_NumThreads_Args count = {XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, NULL, frame->ctx, &threads};
  if (frame->api->XLA_FFI_ThreadPool_NumThreads(&count)) threads = 1;
  for (long helper = 1; helper < threads && helper < tasks; helper++) {
    atomic_fetch_add(&job->users, 1);
    XLA_FFI_ThreadPool_Schedule_Args ask = {XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, NULL, frame->ctx, help, job};
    if (frame->api->XLA_FFI_ThreadPool_Schedule(&ask)) {
      leave(job);
      break;
    }
  }
  work(job);
  while (atomic_load(&job->done) < tasks) sched_yield(); /* what others have begun */
  const int failed = atomic_load(&job->failed) != 0;
  leave(job); /* helpers that come late find nothing to do */

  for (long b = 0; b < batch; b++) {
    double *schur = (double *)out[2]->data + b * inputs * inputs, *sum = partial + b * chunks * area;
    for (long c = 1; c < chunks; c++)
      for (long i = 0; i < area; i++) sum[i] += sum[c * area + i];
    for (long i = 0; i < inputs; i++) {
      double total = 0.0;
      for (long y = 0; y < outputs; y++) total += problems[b].di[y * inputs + i];
      for (long j = 0; j < i; j++) schur[i * inputs + j] = schur[j * inputs + i] = -sum[i * x + j];
      schur[i * inputs + i] = total - sum[i * x + i];
    }
  }
  free(problems), free(partial);
  return failed ? complain(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "columns: no memory") : NULL;
}

/* (g (..., n, n), scale (..., n)) -> k (..., n, n), one matrix after the other. */
XLA_FFI_Error *jaxpriv_inverse_factor(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  if (frame->args.size != 2 || frame->rets.size != 1)
    return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "inverse_factor: 2 arguments and 1 result");
  XLA_FFI_Buffer **in = (XLA_FFI_Buffer **)frame->args.args, **out = (XLA_FFI_Buffer **)frame->rets.rets;
  if (!doubles(in[0], 2) || !doubles(in[1], 1))
    return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "inverse_factor: float64 arrays (n,n), (n,)");
  const long size = in[0]->dims[in[0]->rank - 1], n = padded(size), batch = leading(in[0], 2);
  double *memory = aligned_alloc(64, (3 * n * n + 2 * PANEL * n + n) * sizeof(double));
  if (!memory) return complain(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "inverse_factor: no memory");
  double *g = memory, *k = g + n * n, *kt = k + n * n, *l = kt + n * n, *p = l + PANEL * n, *scale = p + PANEL * n;
  FactorOf *run = PICK(factor);
  memset(g, 0, n * n * sizeof(double));
  memset(scale, 0, n * sizeof(double));
  for (long i = size; i < n; i++) g[i * n + i] = 1.0;
  for (long b = 0; b < batch; b++) {
    const double *matrix = (const double *)in[0]->data + b * size * size;
    double *result = (double *)out[0]->data + b * size * size;
    for (long i = 0; i < size; i++) memcpy(g + i * n, matrix + i * size, size * sizeof(double));
    memcpy(scale, (const double *)in[1]->data + b * size, size * sizeof(double));
    run(n, g, scale, k, kt, l, p);
    for (long i = 0; i < size; i++) memcpy(result + i * size, k + i * n, size * sizeof(double));
  }
  free(memory);
  return NULL;
}
