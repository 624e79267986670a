/* Inverse Cholesky factors for XLA, and what Python asks of the library. */

#include "systems.h"

typedef int FactorOf(long, const double *, const double *, double *, double *, double *);

#define BODY "factor_body.h"
#include "targets.h"

static const char name_plain[] = "baseline";
#if defined(__x86_64__)
static const char name_avx2[] = "AVX2", name_avx512[] = "AVX-512";
#endif

/* What Python asks and says before it hands the kernels to XLA. */
int jaxpriv_widest = 64;
void jaxpriv_use_at_most(int bytes) { jaxpriv_widest = bytes; }
const char *jaxpriv_compiled_from(void) { return SOURCE_DIGEST; }
const char *jaxpriv_instructions(void) { return PICK(name); }

/* (g (..., n, n), scale (..., n)) -> k (..., n, n), one matrix after the other. */
XLA_FFI_Error *jaxpriv_inverse_factor(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  XLA_FFI_Buffer **in = (XLA_FFI_Buffer **)frame->args.args, **out = (XLA_FFI_Buffer **)frame->rets.rets;
  long sizes[LETTERS];
  if (!shaped(frame, XLA_FFI_DataType_F64, "XX X | XX", sizes))
    return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "inverse_factor: arrays of float64 of other shapes");
  const long size = SIZE(sizes, 'X'), n = spread(padded(size)), batch = leading(in[0], 2);
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
