/* What `factor.c` does for every matrix, for one instruction set. */

#include "panels.h"

TARGET static int NAME(inverse_factor)(long n, const double *g, const double *scale, double *k, double *l, double *p) {
  return factor(n, g, scale, k, l, p);
}
