/* Whole solves of the least worst outcome of measures of log-ratios: minimax programs of one term of linear rows (LINEAR, role
   WORST, with a rate), which read A W_y <= peak rise W_y, or A W_y <= t_y (reference + peak turn) for some t_y, under
   budgets. Their value is the logarithm of the peak. */

#define LINEAR 1
#define WORST 0
#define LIMITED 0
#include "whole.h"

#define BODY "least_ratios_body.h"
#include "targets.h"

/* RISE (T, X) and TURN (T): zeros where the rows are normalised, and where they are not. */
enum { REFERENCE = OWN, RISE, TURN, GIVEN };

static void read_own(Space *w, const double *const *given) {
  both_ways(w, given[ROWS_OF], w->stated, w->stated_turned), both_ways(w, given[RISE], w->rise, w->rise_turned);
  copy(w->private, given[REFERENCE], w->reference), copy(w->private, given[TURN], w->turn);
  for (long y = 0; y < w->across; y++) w->t[y] = 1.0;
}

XLA_FFI_Error *jaxpriv_least_ratios_call(XLA_FFI_CallFrame *frame) {
  return solve_batch(frame, WORDS_GIVEN "T TX T" WORDS_FOUND " P YT Y", GIVEN, PICK(solved), read_own);
}
