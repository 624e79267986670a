/* Whole solves of the least relative entropy in the worst outcome: minimax programs of one term of a relative entropy
   (ENTROPIC, role WORST, with a rate), phi(A W_y) + offset . W_y <= peak rate . W_y, under budgets. */

#define LINEAR 0
#define WORST 1
#define LIMITED 0
#include "whole.h"

/* Numbers of `start.py`, by their names there. */
#define NEAR 0.3
#define LEAST_OF_OUTPUT 1e-12

#define BODY "worst_information_body.h"
#include "targets.h"

enum { REFERENCE = OWN, CENTRE, OFFSET, RATE, GIVEN };

static void read_own(Space *w, const double *const *given) {
  read_entropic(w, given[ROWS_OF], given[REFERENCE], given[CENTRE]);
  copy(w->inputs, given[OFFSET], w->offset), copy(w->inputs, given[RATE], w->rate);
}

XLA_FFI_Error *jaxpriv_worst_information_call(XLA_FFI_CallFrame *frame) {
  return solve_batch(frame, WORDS_GIVEN "T T X X" WORDS_FOUND " P Y Y Y", GIVEN, PICK(solved), read_own);
}
