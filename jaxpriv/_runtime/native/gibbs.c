/* A block of useful symbols under a Gibbs mechanism, on CPU, in single and double precision.

   With logits L[y, x] = - P(.|x) . A_y - sum_k t_k d_k(x, y), levels l_y, and W[., x] = softmax_y L[., x],

       columns = W J,    top = max_y L,    total = sum_y e^(L - top),    hard = max_y (L + l),
       mean_k = sum_y W d_k,    square_jk = sum_y W d_j d_k.

   `jaxpriv.data.streaming` has the same in JAX, for every device. What costs are the two products, and the memory between
   them where each operation goes through the whole block. Here a tile of logits stays in the first-level cache
   from its product to its exponentials, so that the block is written once and read once. Symbols x lie side by side in
   vectors: sums and maxima over y need no shuffles.

   Inside, logits have base 2, which saves every exponential the reduction by ln 2: - P(s|x), prices and levels are
   multiplied by log2 e when they are read, the maxima by ln 2 when they are written.

   A tile's exponentials are relative to the largest logit so far; what is missing to the largest of the row
   multiplies J, tile by tile, in the second product. Tiles and the order of all sums depend on shapes alone: the
   result does not depend on the number of threads. A NaN reaches the maxima of its symbol, which XLA's may lose. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common.h"

#define TILE 64        /* outputs whose logits are in the first-level cache at once */
#define LANE_BYTES 128 /* symbols side by side, a group: 32 floats or 16 doubles */
#define CHUNK 1024     /* outputs of one piece of work, a multiple of TILE */
#define FEW 4          /* private symbols, and */
#define FEW_ROWS 4     /* outputs, whose sums the second product for few private symbols holds in registers */

typedef struct {
  long symbols, outputs, private, costs; /* B, Y, S, M */
  long groups, wide;                     /* groups of symbols; S padded to whole vectors */
  int single, spread, few;               /* float; squares are wanted; S numbers are 32 bytes at most */
  const void *conditional, *joint, *scores, *cost, *prices, *levels;
  void *columns;
  void *weights; /* (groups, Y, lanes) */
  void *sides;   /* (groups, S, lanes): - P(s|x) log2 e */
  void *rights;  /* (groups, lanes, wide): J; (groups, S, lanes) if few */
  void *lifts;   /* (Y,): levels log2 e */
  void *tops;    /* (tiles, groups, lanes): what a tile's exponentials are relative to */
  void *parts;   /* (chunks, groups, rows, lanes): top, total, hard, means, squares */
} Block;

#if defined(__x86_64__)
#define HOLD(vector) __asm__("" : "+v"(vector))
#elif defined(__aarch64__)
#define HOLD(vector) __asm__("" : "+w"(vector))
#else
#define HOLD(vector)
#endif

/* 0, 1, ... up to the numbers of a vector */
#define PLACES_2 0, 1
#define PLACES_4 PLACES_2, 2, 3
#define PLACES_8 PLACES_4, 4, 5, 6, 7
#define PLACES_16 PLACES_8, 8, 9, 10, 11, 12, 13, 14, 15

static long pieces(long n, long size) { return (n + size - 1) / size; }
static long chunks_of(const Block *b) { return pieces(b->outputs, CHUNK); }
static long rows_of_part(const Block *b) { return 3 + b->costs + b->spread * b->costs * b->costs; }

/* Sums that a product holds in registers. */
#define ROWS (WIDTH < 64 ? 4 : 8)
#define VECTORS 2

/* Of the precision that `gibbs_body.h` is included for. */
#define Vector FOR(Vector)
#define Loose FOR(Loose)
#define Mask FOR(Mask)
#define Bits FOR(Bits)
#define Constants FOR(Constants)
#define LOG2_E ((REAL)1.4426950408889634)
#define LN_2 ((REAL)0.6931471805599453)
#define LANES (LANE_BYTES / (long)sizeof(REAL))
#define PER (WIDTH / (long)sizeof(REAL)) /* numbers of a vector */
#define SPAN (LANE_BYTES / WIDTH)        /* vectors of a group */

#define SINGLE 1
#define FOR(f) f##_float
#include "gibbs_body.h"
#define SINGLE 0
#define FOR(f) f##_double
#include "gibbs_body.h"

/* The function of the block's precision. */
#define OF(block, function) ((block)->single ? function##_float : function##_double)

/* ---- sharing the work ---------------------------------------------------------------------------- */

static void run_exponentiate(void *context, double *memory, long task) {
  const Block *b = context;
  OF(b, exponentiate)(b, task % b->groups, task / b->groups, memory);
}

static void run_multiply(void *context, double *memory, long task) {
  const Block *b = context;
  OF(b, multiply)(b, task, memory);
}

/* One block; `rows`: where top, total, hard, means and squares go. 0 if there was no memory. */
static int run_block(XLA_FFI_CallFrame *frame, Block *b, void **rows) {
  const long size = b->single ? sizeof(float) : sizeof(double), lanes = LANE_BYTES / size;
  const long tiles = pieces(b->outputs, TILE);
  const long sides = b->groups * b->private * lanes, rights = b->groups * lanes * b->wide;
  const long tops = tiles * b->groups * lanes, parts = chunks_of(b) * b->groups * rows_of_part(b) * lanes;
  char *memory = (char *)allocate(((sides + rights + tops + parts + b->outputs) * size + 7) / 8);
  if (!memory) return 0;
  b->sides = memory, b->rights = memory + sides * size;
  b->tops = (char *)b->rights + rights * size, b->parts = (char *)b->tops + tops * size;
  b->lifts = (char *)b->parts + parts * size;
  OF(b, pack)(b);
  int good = share(frame, run_exponentiate, b, chunks_of(b) * b->groups, b->costs * TILE * LANE_BYTES / 8, 0);
  for (long group = 0; good && group < b->groups; group++) OF(b, join)(b, group);
  const long needed = b->few ? b->groups * b->private * lanes : (TILE + lanes) * b->wide;
  good = good && share(frame, run_multiply, b, tiles, needed * size / 8, 0);
  for (long field = 0, r = 0; good && field < 5; field++) {
    const long count = field < 3 ? 1 : field == 3 ? b->costs : b->spread * b->costs * b->costs;
    for (long i = 0; i < count; i++, r++) OF(b, unpack)(b, r, (char *)rows[field] + i * b->symbols * size);
  }
  free(memory);
  return good;
}

/* (conditional (B,S), joint (B,S), scores (Y,S), costs (M,Y,B), prices (M,), levels (Y,))
   -> (columns (Y,S), top (B,), total (B,), hard (B,), mean (M,B), square (M,M,B) or (0,0,B)), and space for the
   weights; all with a batch in front. */
XLA_FFI_Error *NAME(jaxpriv_gibbs)(XLA_FFI_CallFrame *frame) {
  const XLA_FFI_Args *args = &frame->args;
  const int single = args->size > 0 && args->types[0] == XLA_FFI_ArgType_BUFFER &&
                     ((XLA_FFI_Buffer *)args->args[0])->dtype == XLA_FFI_DataType_F32;
  const long size = single ? sizeof(float) : sizeof(double), lanes = LANE_BYTES / size;
  Call call[1];
  const XLA_FFI_DataType kind = single ? XLA_FFI_DataType_F32 : XLA_FFI_DataType_F64;
  int good = shaped(frame, kind, "BS BS YS MYB M Y | YS B B B MB QQB GYL", call);
  good = good && SIZE('M') > 0 && (SIZE('Q') == 0 || SIZE('Q') == SIZE('M')) && SIZE('L') == lanes &&
         SIZE('G') == pieces(SIZE('B'), lanes);
  if (!good) return misshapen(frame);
  Block b = {.symbols = SIZE('B'), .outputs = SIZE('Y'), .private = SIZE('S'), .costs = SIZE('M'), .single = single,
             .spread = SIZE('Q') > 0, .groups = SIZE('G'), .weights = array_of(call, 12, 0)};
  b.wide = pieces(b.private, 64 / size) * (64 / size), b.few = b.private * size <= 32;
  for (long i = 0; good && i < call->batch; i++) {
    void *rows[5];
    b.conditional = array_of(call, 0, i), b.joint = array_of(call, 1, i), b.scores = array_of(call, 2, i);
    b.cost = array_of(call, 3, i), b.prices = array_of(call, 4, i), b.levels = array_of(call, 5, i);
    b.columns = array_of(call, 6, i);
    for (int field = 0; field < 5; field++) rows[field] = array_of(call, 7 + field, i);
    good = run_block(frame, &b, rows);
  }
  return good ? NULL : no_memory(frame);
}
