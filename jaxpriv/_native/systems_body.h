/* The end of `rows.c` and `inputs.c`: their Factors, Solve, lay_out, factors, forward and backward, compiled for the
   instruction sets, as tasks that do one piece of the outputs each. */

typedef void FactorsOf(const Factors *, Space, long, long, double *);
typedef void ForwardOf(const Solve *, long, long, double *, double *);
typedef void BackwardOf(const Solve *, long, long, double *);

#define FOR_TARGET(name, attribute, rows, vectors)                                                        \
  attribute static void factors_##name(const Factors *f, Space s, long from, long to, double *sum) {      \
    factors(f, s, from, to, sum, rows, vectors);                                                          \
  }                                                                                                       \
  attribute static void forward_##name(const Solve *c, long from, long to, double *sum, double *memory) { \
    forward(c, from, to, sum, memory, rows);                                                                    \
  }                                                                                                       \
  attribute static void backward_##name(const Solve *c, long from, long to, double *memory) {             \
    backward(c, from, to, memory, rows);                                                                       \
  }

FOR_TARGET(plain, , 4, 1)
#if defined(__x86_64__)
FOR_TARGET(avx2, AVX2, 4, 1)
FOR_TARGET(avx512, AVX512, 8, 2)
#endif

static void run_factors(void *context, double *memory, long task) {
  const Shared *shared = context;
  const Piece piece = piece_of(shared, task);
  const Factors *f = (const Factors *)shared->problems + piece.problem;
  long size;
  FactorsOf *run = PICK(factors);
  run(f, lay_out(memory, f, &size), piece.from, piece.to, piece.sum);
}

static void run_forward(void *context, double *memory, long task) {
  const Shared *shared = context;
  const Piece piece = piece_of(shared, task);
  ForwardOf *run = PICK(forward);
  run((const Solve *)shared->problems + piece.problem, piece.from, piece.to, piece.sum, memory);
}

static void run_backward(void *context, double *memory, long task) {
  const Shared *shared = context;
  const Piece piece = outputs_of(shared, task);
  BackwardOf *run = PICK(backward);
  run((const Solve *)shared->problems + piece.problem, piece.from, piece.to, memory);
}
