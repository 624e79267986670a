/* What the kernels share: instruction sets, threads, and the interface to XLA.

   Threads come from XLA's own pool. The caller works too and never waits for a thread that has not begun, so
   that a busy pool cannot lock it up. */

#ifndef JAXPRIV_COMMON_H
#define JAXPRIV_COMMON_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "xla/ffi/api/c_api.h"

/* The oldest versions that glibc has of these, so that what is compiled with a new C library runs with that of 2012. */
#if defined(__GLIBC__) && defined(__x86_64__)
__asm__(".symver exp,exp@GLIBC_2.2.5");
__asm__(".symver log,log@GLIBC_2.2.5");
#elif defined(__GLIBC__) && defined(__aarch64__)
__asm__(".symver exp,exp@GLIBC_2.17");
__asm__(".symver log,log@GLIBC_2.17");
#endif

#define INLINE static inline __attribute__((always_inline))
/* Loops of so few turns, known when they are compiled, that what they count can be in registers. */
#define UNROLLED _Pragma("GCC unroll 16")
/* Inlined into what calls it, a function of many loops takes up to a fifth longer: too few registers are left. */
#define APART static __attribute__((noinline))
#define UNUSED __attribute__((unused)) /* by some of the files that it is included in */
/* The numbers of vectors a and b at constant places, those of b counted on from those of a; `Places` is the file's
   vector of integers. GCC before 12 has no __builtin_shufflevector, clang no __builtin_shuffle. */
#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (Places){__VA_ARGS__})
#endif

/* ---- one source, compiled for the instruction sets ----------------------------------------------- */

/* Every source but `dispatch.c` and `library.c` is compiled once for each set, with the bytes of its vectors as WIDTH: names
   that `dispatch.c` chooses among are those of a set. `plain` is what every machine of the kind has. */
#if WIDTH == 64
#define NAME(f) f##_avx512
#elif WIDTH == 32
#define NAME(f) f##_avx2
#else
#define NAME(f) f##_plain
#endif

extern int jaxpriv_widest; /* bytes of the widest vectors that may be used */

#if defined(__x86_64__)
#define HAS_AVX2 (jaxpriv_widest >= 32 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#define HAS_AVX512 (jaxpriv_widest >= 64 && __builtin_cpu_supports("avx512f"))
#endif

/* ONLY: the bytes of the vectors of the one set that is compiled, where a build is for its own machine. */
#if !defined(__x86_64__) || (defined(ONLY) && ONLY == 16)
#define PICK(function) function##_plain
#elif !defined(ONLY)
#define PICK(function) (HAS_AVX512 ? function##_avx512 : HAS_AVX2 ? function##_avx2 : function##_plain)
#elif ONLY == 32
#define PICK(function) function##_avx2
#else
#define PICK(function) function##_avx512
#endif

/* ---- sharing the work ---------------------------------------------------------------------------- */

typedef void Task(void *context, double *memory, long number);

typedef struct {
  Task *run;
  void *context;
  long tasks, doubles; /* doubles: working memory of a thread */
  atomic_long taken, first, last, done, users, failed;
} Job;

static void leave(Job *job) {
  if (atomic_fetch_sub(&job->users, 1) == 1) free(job);
}

/* Ask for huge pages where a large array is going to be written: XLA reserves its results anew for every step, and the
   system hands out pages of 4 KiB several times more slowly. */
UNUSED static void in_huge_pages(void *data, long doubles) {
#ifdef MADV_HUGEPAGE
  const uintptr_t huge = 1l << 21, from = ((uintptr_t)data + huge - 1) / huge * huge;
  const uintptr_t to = ((uintptr_t)data + doubles * sizeof(double)) / huge * huge;
  if (from + 2 * huge <= to) madvise((void *)from, to - from, MADV_HUGEPAGE); /* advice: an error changes nothing */
#else
  (void)data, (void)doubles;
#endif
}

static double *allocate(long doubles) {
  double *memory = aligned_alloc(64, (doubles * sizeof(double) + 64) / 64 * 64);
  if (memory) in_huge_pages(memory, doubles);
  return memory;
}

/* The caller takes tasks from the front, helpers from the back: what the next kernel asks of a task is then, with two
   threads, in the cache of the one that did it last. */
static void work(Job *job, int helps) {
  double *memory = NULL;
  while (atomic_fetch_add(&job->taken, 1) < job->tasks) {
    const long task = helps ? job->tasks - 1 - atomic_fetch_add(&job->last, 1) : atomic_fetch_add(&job->first, 1);
    if (!memory) memory = allocate(job->doubles);
    if (memory)
      job->run(job->context, memory, task);
    else
      atomic_store(&job->failed, 1);
    atomic_fetch_add(&job->done, 1);
  }
  free(memory);
}

static void help(void *data) {
  work(data, 1);
  leave(data);
}

/* Whether there was an error; it is ours to free. */
static int refused(XLA_FFI_CallFrame *frame, XLA_FFI_Error *error) {
  if (!error) return 0;
  XLA_FFI_Error_Destroy_Args args = {XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, NULL, error};
  frame->api->XLA_FFI_Error_Destroy(&args);
  return 1;
}

/* Run tasks 0, ..., tasks - 1; 0 if there was no memory. Helpers that come late find nothing to do. */
static int share(XLA_FFI_CallFrame *frame, Task *run, void *context, long tasks, long doubles, int alone) {
  Job *job = malloc(sizeof(Job));
  if (!job) return 0;
  job->run = run, job->context = context, job->tasks = tasks, job->doubles = doubles;
  atomic_init(&job->taken, 0), atomic_init(&job->first, 0), atomic_init(&job->last, 0);
  atomic_init(&job->done, 0), atomic_init(&job->users, 1), atomic_init(&job->failed, 0);
  int64_t threads = 1; /* also where there is no pool */
  XLA_FFI_ThreadPool_NumThreads_Args count = {XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, NULL, frame->ctx, &threads};
  if (alone || refused(frame, frame->api->XLA_FFI_ThreadPool_NumThreads(&count))) threads = 1;
  for (long helper = 1; helper < threads && helper < tasks; helper++) {
    atomic_fetch_add(&job->users, 1);
    XLA_FFI_ThreadPool_Schedule_Args ask = {XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, NULL, frame->ctx, help, job};
    if (refused(frame, frame->api->XLA_FFI_ThreadPool_Schedule(&ask))) {
      leave(job);
      break;
    }
  }
  work(job, 0);
  while (atomic_load(&job->done) < tasks) sched_yield(); /* what others have begun */
  const int good = !atomic_load(&job->failed);
  leave(job);
  return good;
}

/* ---- the interface to XLA --------------------------------------------------------------------------- */

UNUSED static XLA_FFI_Error *complain(XLA_FFI_CallFrame *frame, XLA_FFI_Error_Code code, const char *message) {
  XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, message, code};
  return frame->api->XLA_FFI_Error_Create(&args);
}

UNUSED static XLA_FFI_Error *misshapen(XLA_FFI_CallFrame *frame) {
  return complain(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "jaxpriv: arrays of another type or of other shapes");
}

UNUSED static XLA_FFI_Error *no_memory(XLA_FFI_CallFrame *frame) {
  return complain(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "jaxpriv: no memory for a kernel");
}

/* Whether XLA only asks which version of its interface this was compiled for; then it gets the answer. The extensions' type has
   another name in every few versions of the header: what the frame points to is taken. */
UNUSED static int asked_for_version(XLA_FFI_CallFrame *frame) {
  for (__typeof__(frame->extension_start) e = frame->extension_start; e; e = e->next)
    if (e->type == XLA_FFI_Extension_Metadata) {
      XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)e)->metadata;
      metadata->api_version.major_version = XLA_FFI_API_MAJOR;
      metadata->api_version.minor_version = XLA_FFI_API_MINOR;
      return 1;
    }
  return 0;
}

enum { LETTERS = 26, MOST_ARRAYS = 32 };

/* What a kernel is called with: the arguments and then the results of a batch of problems, and the sizes by their letters. */
typedef struct {
  XLA_FFI_CallFrame *frame;
  long batch, sizes[LETTERS];
  char *arrays[MOST_ARRAYS];
  long bytes[MOST_ARRAYS]; /* of one problem */
} Call;

#define SIZE(letter) (call->sizes[(letter) - 'A'])

UNUSED static void *array_of(const Call *call, int number, long problem) {
  return call->arrays[number] + problem * call->bytes[number];
}

/* Whether arguments | results are arrays of this kind and of these shapes, in words of letters: a letter is one size
   wherever it stands, and the same batch stands before every word. Nothing of the call is used before this has been asked. */
UNUSED static int shaped(XLA_FFI_CallFrame *frame, XLA_FFI_DataType kind, const char *words, Call *call) {
  const XLA_FFI_Buffer *first = NULL;
  const int64_t arguments = frame->args.size, arrays = arguments + frame->rets.size;
  int64_t lead = 0, number = 0;
  *call = (Call){.frame = frame, .batch = 1};
  for (int i = 0; i < LETTERS; i++) call->sizes[i] = -1;
  while (*words) {
    if (*words == ' ' || *words == '|') {
      if (*words++ == '|' && number != arguments) return 0;
      continue;
    }
    int64_t inner = 0;
    while (words[inner] >= 'A' && words[inner] <= 'Z') inner++;
    if (number == arrays || number == MOST_ARRAYS) return 0;
    const int64_t result = number - arguments;
    const int array = result < 0 ? frame->args.types[number] == XLA_FFI_ArgType_BUFFER
                                 : frame->rets.types[result] == XLA_FFI_RetType_BUFFER;
    if (!array) return 0;
    const XLA_FFI_Buffer *b = result < 0 ? frame->args.args[number] : frame->rets.rets[result];
    if (!first) {
      first = b, lead = b->rank - inner;
      for (int64_t i = 0; i < lead; i++) call->batch *= b->dims[i];
    }
    if (b->dtype != kind || lead < 0 || b->rank != lead + inner) return 0;
    for (int64_t i = 0; i < lead; i++)
      if (b->dims[i] != first->dims[i]) return 0;
    call->arrays[number] = b->data, call->bytes[number] = kind == XLA_FFI_DataType_F32 ? sizeof(float) : sizeof(double);
    for (int64_t i = 0; i < inner; i++) {
      long *size = &SIZE(words[i]);
      if (*size < 0) *size = b->dims[lead + i];
      if (*size != b->dims[lead + i]) return 0;
      call->bytes[number] *= *size;
    }
    number++, words += inner;
  }
  return number == arrays;
}

#endif
