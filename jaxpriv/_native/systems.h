/* What the kernels for the systems of the outputs share: pieces of outputs, normalisations, arguments.

   Outputs are cut into chunks by the shapes alone and their sums are added in a fixed order: the result
   does not depend on the number of threads. */

#ifndef JAXPRIV_SYSTEMS_H
#define JAXPRIV_SYSTEMS_H

#include <stdlib.h>

#include "panels.h"

#define MOST_CHUNKS 32         /* outputs are shared out in at most so many pieces */
#define CHUNK_ROWS 256         /* a piece has about so many rows of factors: adding its sum up should cost little beside it */
#define PARTIAL_BYTES (64l << 20) /* what the pieces' sums may take */
#define WORTH_A_THREAD 100000  /* waking a thread costs about as much as so many numbers that are read twice */

/* How many pieces the outputs are cut into: by shapes alone. */
static long pieces(long batch, long outputs, long rows, long area) {
  long chunks = PARTIAL_BYTES / (batch * (area + 1) * (long)sizeof(double) + 1);
  chunks = chunks > MOST_CHUNKS ? MOST_CHUNKS : chunks;
  chunks = chunks > outputs * rows / CHUNK_ROWS ? outputs * rows / CHUNK_ROWS : chunks;
  chunks = chunks > outputs ? outputs : chunks;
  return chunks < 1 ? 1 : chunks;
}

typedef struct {
  const void *problems; /* one for each problem of the batch */
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

/* ---- normalisations ------------------------------------------------------------------------------ */

/* The vectors of `basis`, `stride` apart: orthonormal, basis = u tri, by Gram-Schmidt; u (n, count). */
INLINE void orthonormal(long count, long n, double *basis, long stride, double *u, double *tri) {
  memset(tri, 0, count * count * sizeof(double));
  for (long g = 0; g < count; g++) {
    double *own = basis + g * stride;
    for (long i = 0; i < g; i++) {
      const double part = dot(basis + i * stride, own, n);
      tri[i * count + g] = part;
      add_multiple(own, -part, basis + i * stride, n);
    }
    const double norm = sqrt(dot(own, own, n));
    tri[g * count + g] = norm;
    for (long t = 0; t < n; t++) u[t * count + g] = own[t] /= norm;
  }
}

/* tri'^-1 level. */
INLINE void coordinates(long count, const double *tri, const double *level, double *wanted) {
  for (long g = 0; g < count; g++) {
    wanted[g] = level[g];
    for (long i = 0; i < g; i++) wanted[g] -= tri[i * count + g] * wanted[i];
    wanted[g] /= tri[g * count + g];
  }
}

/* a <- a - u (u'a - wanted); wanted NULL: none. */
INLINE void set_level(long count, long n, const double *u, double *a, const double *wanted) {
  if (count == 1) { /* u is one vector */
    add_multiple(a, (wanted ? wanted[0] : 0.0) - dot(u, a, n), u, n);
    return;
  }
  for (long g = 0; g < count; g++) {
    double part = wanted ? -wanted[g] : 0.0;
    for (long t = 0; t < n; t++) part += u[t * count + g] * a[t];
    for (long t = 0; t < n; t++) a[t] -= part * u[t * count + g];
  }
}

/* ---- the Schur complement ------------------------------------------------------------------------ */

/* e = schur' schur right; `half` is working memory. */
INLINE void apply_inverse(long n, const double *schur, const double *right, double *half, double *e) {
  for (long i = 0; i < n; i++) half[i] = dot(schur + i * n, right, i + 1);
  memset(e, 0, n * sizeof(double));
  for (long i = 0; i < n; i++) add_multiple(e, half[i], schur + i * n, i + 1);
}

/* ---- the border to XLA --------------------------------------------------------------------------- */

/* The arguments, if there are as many and all are of doubles. */
static XLA_FFI_Buffer **arguments(XLA_FFI_CallFrame *frame, int64_t count) {
  XLA_FFI_Buffer **in = (XLA_FFI_Buffer **)frame->args.args;
  if (frame->args.size != count) return NULL;
  for (int64_t i = 0; i < count; i++)
    if (in[i]->dtype != XLA_FFI_DataType_F64) return NULL;
  return in;
}

static const double *numbers(const XLA_FFI_Buffer *b) { return b->data; }

static XLA_FFI_Error *no_memory(XLA_FFI_CallFrame *frame) {
  return complain(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "jaxpriv: no memory for the systems of the outputs");
}

#endif
