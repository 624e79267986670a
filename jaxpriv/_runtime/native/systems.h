/* What the kernels for the systems of the outputs share: pieces of outputs, arguments.

   Outputs are cut into chunks by the shapes alone and their sums are added in a fixed order: the result
   does not depend on the number of threads. */

#ifndef JAXPRIV_SYSTEMS_H
#define JAXPRIV_SYSTEMS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define PANEL 8 /* rows that are factored at once */
#define PAD 8   /* dimensions are padded to this */

#define MOST_CHUNKS 32         /* outputs are shared out in at most so many pieces */
#define CHUNK_ROWS 256         /* a piece has about so many rows of factors: adding its sum up should cost little beside it */
#define PARTIAL_BYTES (64l << 20) /* what the pieces' sums may take */
#define WORTH_A_THREAD 100000  /* waking a thread costs about as much as so many numbers that are read twice */

static long padded(long n) { return (n + PAD - 1) / PAD * PAD; }

/* A length of rows of a large matrix that is no multiple of 512 bytes: what lies below each other would share few sets of
   the caches. */
static long spread(long n) { return n >= 256 && n % 64 == 0 ? n + 16 : n; }

/* How far a block of eight rows from row i on reaches: `triangular` rows are zero beyond their diagonal. */
static inline long reach(long i, long n, const int triangular) { return triangular && i + 8 < n ? i + 8 : n; }

/* How many pieces the outputs are cut into: by shapes alone. */
static long pieces(long batch, long outputs, long rows, long area) {
  long chunks = PARTIAL_BYTES / (batch * (area + 1) * (long)sizeof(double) + 1);
  chunks = chunks > MOST_CHUNKS ? MOST_CHUNKS : chunks;
  chunks = chunks > outputs * rows / CHUNK_ROWS ? outputs * rows / CHUNK_ROWS : chunks;
  chunks = chunks > outputs ? outputs : chunks;
  return chunks < 1 ? 1 : chunks;
}

typedef struct {
  const Call *call;
  long outputs, chunks, area;
  double *partial; /* (batch, chunks, area) */
} Shared;

/* Where a task is in its problem, and its sum. */
typedef struct {
  long problem, from, to;
  double *sum;
} Piece;

static Piece outputs_of(const Shared *shared, long task) {
  const long chunk = task % shared->chunks;
  return (Piece){task / shared->chunks, chunk * shared->outputs / shared->chunks,
                 (chunk + 1) * shared->outputs / shared->chunks, shared->partial + task * shared->area};
}

/* The same with its sum set to zero. */
static Piece piece_of(const Shared *shared, long task) {
  const Piece piece = outputs_of(shared, task);
  memset(piece.sum, 0, shared->area * sizeof(double));
  return piece;
}

/* The sum of the pieces of a problem, in the place of the first. */
static double *total_of(const Shared *shared, long problem) {
  double *sum = shared->partial + problem * shared->chunks * shared->area;
  for (long c = 1; c < shared->chunks; c++)
    for (long i = 0; i < shared->area; i++) sum[i] += sum[c * shared->area + i];
  return sum;
}

/* The sizes of `Factors` and `Solve`, which `rows.c` and `inputs.c` define: rows of a, rows of extra, G, X, Y. */
#define SIZES .shared = SIZE('T'), .extra = SIZE('W'), .normals = SIZE('G'), .inputs = SIZE('X'), .outputs = SIZE('Y')

#endif
