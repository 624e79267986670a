/* The end of `rows.c` and `inputs.c`: their factors, forward and backward as tasks that do one piece of the outputs each, and
   what is left of the systems by their sums. `order`: of an output's matrix. */

/* Whether a call is one of such systems. */
static int of_systems(XLA_FFI_CallFrame *frame, const char *words, Call *call) {
  return shaped(frame, XLA_FFI_DataType_F64, words, call) && SIZE('N') == SIZE('T') + SIZE('W');
}

static Factors factors_of(const Call *call, long problem) {
  Factors f = {SIZES};
  for (int i = 0; i < (int)(sizeof f.arrays / sizeof(double *)); i++) f.arrays[i] = array_of(call, i, problem);
  return f;
}

static Solve solve_of(const Call *call, long problem) {
  Solve c = {SIZES, .sides = SIZE('M')};
  for (int i = 0; i < (int)(sizeof c.arrays / sizeof(double *)); i++) c.arrays[i] = array_of(call, i, problem);
  return c;
}

static void run_factors(void *context, double *memory, long task) {
  const Shared *shared = context;
  const Piece piece = piece_of(shared, task);
  const Factors f = factors_of(shared->call, piece.problem);
  long size;
  factors(&f, lay_out(memory, &f, &size), piece.from, piece.to, piece.sum);
}

/* Factors, and the Schur complement of every problem by its sum (area). */
static XLA_FFI_Error *factored(const Call *call, long order, long area) {
  const long chunks = pieces(call->batch, SIZE('Y'), order, area), tasks = call->batch * chunks;
  const Factors shape = {SIZES};
  Shared context = {call, SIZE('Y'), chunks, area, allocate(tasks * area)};
  long size;
  lay_out(NULL, &shape, &size);
  const int good = context.partial && share(call->frame, run_factors, &context, tasks, size, 0);
  for (long b = 0; good && b < call->batch; b++) {
    const Factors f = factors_of(call, b);
    schur_of(&f, total_of(&context, b));
  }
  free(context.partial);
  return good ? NULL : no_memory(call->frame);
}

static void run_forward(void *context, double *memory, long task) {
  const Shared *shared = context;
  const Piece piece = piece_of(shared, task);
  const Solve c = solve_of(shared->call, piece.problem);
  forward(&c, piece.from, piece.to, piece.sum, memory);
}

static void run_backward(void *context, double *memory, long task) {
  const Shared *shared = context;
  const Piece piece = outputs_of(shared, task);
  const Solve c = solve_of(shared->call, piece.problem);
  backward(&c, piece.from, piece.to, memory);
}

/* Solutions: e = schur'schur (row + the sum of `forward`) stands between the two. */
static XLA_FFI_Error *solutions(const Call *call, long order) {
  const long sides = SIZE('M'), inputs = SIZE('X'), outputs = SIZE('Y'), rows = SIZE('N'), area = sides * inputs;
  const long chunks = pieces(call->batch, outputs, order, area), tasks = call->batch * chunks;
  const long size = sides * (2 * rows + inputs) + SIZE('G');
  const int alone = call->batch * outputs * order * (rows + inputs) < WORTH_A_THREAD;
  Shared context = {call, outputs, chunks, area, allocate(tasks * area + inputs)};
  int good = context.partial && share(call->frame, run_forward, &context, tasks, size, alone);
  for (long b = 0; good && b < call->batch; b++) {
    const Solve c = solve_of(call, b);
    double *sum = total_of(&context, b), *half = context.partial + tasks * area;
    for (long i = 0; i < area; i++) sum[i] += c.row[i];
    for (long m = 0; m < sides; m++) apply_inverse(inputs, c.schur, sum + m * inputs, half, c.e + m * inputs);
  }
  good = good && share(call->frame, run_backward, &context, tasks, size, alone);
  free(context.partial);
  return good ? NULL : no_memory(call->frame);
}
