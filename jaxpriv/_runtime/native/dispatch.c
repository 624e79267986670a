/* The kernels by the names that Python knows: each is that of the instruction set of the machine. */

#include "common.h"

typedef XLA_FFI_Error *Kernel(XLA_FFI_CallFrame *);

/* XLA asks all of them for the version first. */
#define KERNEL(name)                               \
  Kernel name##_plain, name##_avx2, name##_avx512; \
  XLA_FFI_Error *name(XLA_FFI_CallFrame *frame) { return asked_for_version(frame) ? NULL : PICK(name)(frame); }

KERNEL(jaxpriv_rows_factor)
KERNEL(jaxpriv_rows_solve)
KERNEL(jaxpriv_inputs_factor)
KERNEL(jaxpriv_inputs_solve)
KERNEL(jaxpriv_inverse_factor)
KERNEL(jaxpriv_information_call)
KERNEL(jaxpriv_limited_information_call)
KERNEL(jaxpriv_least_ratios_call)
KERNEL(jaxpriv_worst_information_call)
KERNEL(jaxpriv_gibbs)

/* A number of the host that a loop of XLA's reads between two steps, as what runs cannot be interrupted otherwise:
   (the address of an int32 of the host (1) as uint64, a number that differs from turn to turn (1))
   -> what is at the address (1), all uint64; with a batch in front. */
XLA_FFI_Error *jaxpriv_stop(XLA_FFI_CallFrame *frame) {
  Call call[1];
  if (asked_for_version(frame)) return NULL;
  if (!shaped(frame, XLA_FFI_DataType_U64, "A A | A", call)) return misshapen(frame);
  const uint64_t *addresses = array_of(call, 0, 0);
  uint64_t *results = array_of(call, 2, 0);
  for (long i = 0; i < call->batch * SIZE('A'); i++) {
    const uint64_t at = addresses[i];
    results[i] = at ? (uint64_t)atomic_load((_Atomic int32_t *)(uintptr_t)at) : 0;
  }
  return NULL;
}

typedef int Boxes(long, long, long, const double *, const double *, double, double, double, double *, double *, double *,
                  long *, double *, double *);
Boxes jaxpriv_boxes_plain, jaxpriv_boxes_avx2, jaxpriv_boxes_avx512;

/* Called through ctypes: see `boxes.c`. */
int jaxpriv_boxes(long count, long useful, long private, const double *t, const double *prices, double lam, double level,
                  double close, double *boxes, double *bounds, double *values, long *symbols, double *cuts, double *gaps) {
  return PICK(jaxpriv_boxes)(count, useful, private, t, prices, lam, level, close, boxes, bounds, values, symbols, cuts, gaps);
}
