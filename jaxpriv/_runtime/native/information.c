/* Whole solves of the least mutual information, of programs whose only term is a relative entropy in the objective. */

#define LINEAR 0
#define WORST 0
#define LIMITED 0
#include "whole.h"

/* Numbers of `start.py`. */
#define LEAST_SHARE 1e-12
#define SPREAD 0.02
#define LEAST_GAP 1e-9
#define LEAST_PRICE 1e-3
#define NEAR 0.3
#define RIDGE 1e-12 /* of `meet_budgets`, and as a share of its largest entry */
#define RIDGE_SHARE 1e-9
#define FARTHER 30.0 /* the products of the third start, in those of the second */

#define BODY "information_body.h"
#include "targets.h"

enum { REFERENCE = OWN, CENTRE, GIVEN };

static void read_own(Space *w, const double *const *given) {
  read_entropic(w, given[ROWS_OF], given[REFERENCE], given[CENTRE]);
}

XLA_FFI_Error *jaxpriv_information_call(XLA_FFI_CallFrame *frame) {
  return solve_batch(frame, WORDS_GIVEN "T T" WORDS_FOUND, GIVEN, PICK(solved), read_own);
}
