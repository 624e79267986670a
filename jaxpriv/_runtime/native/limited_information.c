/* Whole solves of the least cost under a limit on mutual information: programs whose only term is a relative entropy that is
   limited (ENTROPIC, role AVERAGE), sum_y phi(A W_y) <= bound, under budgets. */

#define LINEAR 0
#define WORST 0
#define LIMITED 1
#include "whole.h"

#define BODY "limited_information_body.h"
#include "targets.h"

enum { REFERENCE = OWN, CENTRE, BOUND, GIVEN };

static void read_own(Space *w, const double *const *given) {
  read_entropic(w, given[ROWS_OF], given[REFERENCE], given[CENTRE]);
  w->limits[w->budgets] = given[BOUND][0];
}

XLA_FFI_Error *jaxpriv_limited_information_call(XLA_FFI_CallFrame *frame) {
  return solve_batch(frame, WORDS_GIVEN "T T P" WORDS_FOUND, GIVEN, PICK(solved), read_own);
}
