/* The end of `rows.c` and `inputs.c`: their factors, forward and backward for the instruction set of the machine, as tasks
   that do one piece of the outputs each. */

typedef void FactorsOf(const Factors *, Space, long, long, double *);
typedef void ForwardOf(const Solve *, long, long, double *, double *);
typedef void BackwardOf(const Solve *, long, long, double *);
typedef void InverseOf(long, const double *, const double *, double *, double *);

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
