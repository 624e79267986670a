/* Includes BODY once for each instruction set: `plain` is what every machine of the kind has. ONLY: see `common.h`. */

#if !defined(ONLY) || ONLY == 16
#define NAME(f) f##_plain
#define TARGET
#define WIDTH 16
#define ROWS 2
#define VECTORS 4
#include BODY
#undef NAME
#undef TARGET
#undef WIDTH
#undef ROWS
#undef VECTORS
#endif

#if defined(__x86_64__) && (!defined(ONLY) || ONLY == 32)
#define NAME(f) f##_avx2
#define TARGET AVX2
#define WIDTH 32
#define ROWS 4
#define VECTORS 2
#include BODY
#undef NAME
#undef TARGET
#undef WIDTH
#undef ROWS
#undef VECTORS
#endif

#if defined(__x86_64__) && (!defined(ONLY) || ONLY == 64)
#define NAME(f) f##_avx512
#define TARGET AVX512
#define WIDTH 64
#define ROWS 8
#define VECTORS 2
#include BODY
#undef NAME
#undef TARGET
#undef WIDTH
#undef ROWS
#undef VECTORS
#endif
