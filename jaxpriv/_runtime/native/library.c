/* What Python asks of the library, and the kernels on arrays of the host without XLA: they get a frame as XLA would hand it
   over. */

#include "common.h"

UNUSED static const char name_plain[] = "baseline";
#if defined(__x86_64__)
UNUSED static const char name_avx2[] = "AVX2", name_avx512[] = "AVX-512";
#endif

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

typedef XLA_FFI_Error *Kernel(XLA_FFI_CallFrame *);

/* What kernels ask of XLA. An error is its message, which is constant; there are no other threads. */
static XLA_FFI_Error *error_of(XLA_FFI_Error_Create_Args *args) { return (XLA_FFI_Error *)args->message; }

static XLA_FFI_Error *one_thread(XLA_FFI_ThreadPool_NumThreads_Args *args) {
  *args->num_threads = 1;
  return NULL;
}

/* Run a kernel of float64. Its arguments and results stand one after the other in `described`: the address, the number of axes,
   the sizes. The message of an error, or NULL. */
const char *jaxpriv_on_host(Kernel *kernel, long arguments, long results, int64_t *described) {
  XLA_FFI_Buffer buffers[MOST_ARRAYS];
  void *places[MOST_ARRAYS];
  XLA_FFI_ArgType given[MOST_ARRAYS];
  XLA_FFI_RetType found[MOST_ARRAYS];
  const long arrays = arguments + results;
  if (arrays > MOST_ARRAYS) return "too many arrays";
  for (long i = 0; i < arrays; i++) {
    buffers[i] = (XLA_FFI_Buffer){.dtype = XLA_FFI_DataType_F64, .data = (void *)described[0], .rank = described[1], .dims = described + 2};
    described += 2 + buffers[i].rank;
    places[i] = buffers + i, given[i] = XLA_FFI_ArgType_BUFFER, found[i] = XLA_FFI_RetType_BUFFER;
  }
  const XLA_FFI_Api api = {.XLA_FFI_Error_Create = error_of, .XLA_FFI_ThreadPool_NumThreads = one_thread};
  XLA_FFI_CallFrame frame = {.api = &api,
                             .args = {.size = arguments, .types = given, .args = places},
                             .rets = {.size = results, .types = found, .rets = places + arguments}};
  return (const char *)kernel(&frame);
}
