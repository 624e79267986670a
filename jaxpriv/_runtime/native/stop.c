/* A number of the host that a loop of XLA's reads between two steps: what runs cannot be interrupted otherwise. */

#include "common.h"

/* (the address of an int32 of the host (1) as uint64, a number that differs from turn to turn (1))
   -> what is at the address (1), all uint64; with a batch in front. */
XLA_FFI_Error *jaxpriv_stop(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  long sizes[LETTERS];
  if (!shaped(frame, XLA_FFI_DataType_U64, "A A | A", sizes))
    return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "stop: arrays of uint64 of other shapes");
  const XLA_FFI_Buffer *address = frame->args.args[0], *result = frame->rets.rets[0];
  for (long i = 0; i < leading(address, 0); i++) {
    const uint64_t at = ((const uint64_t *)address->data)[i];
    ((uint64_t *)result->data)[i] = at ? (uint64_t)atomic_load((_Atomic int32_t *)(uintptr_t)at) : 0;
  }
  return NULL;
}
