/* Exponentials, logarithms, selections and sums of vectors of doubles, for one instruction set (after `panels.h`).
   Relative errors are a few units of rounding. */

typedef unsigned long long Bits __attribute__((vector_size(WIDTH)));

INLINE Vector all_of(double value) { return (Vector){0} + value; }
INLINE Vector pick(Places which, Vector a, Vector b) { return (Vector)((which & (Places)a) | (~which & (Places)b)); }
/* a, 0 where it is no number. */
INLINE Vector or_zero(Vector a) { return pick(a - a == 0.0, a, (Vector){0}); }
INLINE Vector larger(Vector a, Vector b) { return pick(a > b, a, b); }
INLINE Vector smaller(Vector a, Vector b) { return pick(a < b, a, b); }

INLINE Vector root_of(Vector a) {
  UNROLLED for (int i = 0; i < LANES; i++) a[i] = sqrt(a[i]);
  return a;
}

INLINE double sum_of(Vector a) {
  double sum = a[0];
  UNROLLED for (int i = 1; i < LANES; i++) sum += a[i];
  return sum;
}

INLINE double largest_of(Vector a) {
  double most = a[0];
  UNROLLED for (int i = 1; i < LANES; i++) most = a[i] > most ? a[i] : most;
  return most;
}

INLINE double smallest_of(Vector a) { return -largest_of(-a); }

/* e^x: 2^n times the Taylor polynomial of the rest, which is at most ln(2)/2; 0 to rounding below -708. */
INLINE Vector exponential(Vector x) {
  const double turn = 0x1.8p52; /* adding it leaves n in the last bits */
  const double c[] = {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
                      1.0 / 720,       1.0 / 120,      1.0 / 24,      1.0 / 6,      0.5,         1.0};
  x = smaller(larger(x, all_of(-708.0)), all_of(709.0));
  const Vector near = x * 0x1.71547652b82fep0 + turn, n = near - turn;
  const Vector r = (x - n * 0x1.62e42fefa3800p-1) - n * 0x1.ef35793c76730p-45, rr = r * r;
  Vector even = all_of(c[0]), odd = all_of(c[1]);
  UNROLLED for (int i = 2; i < 12; i += 2) even = even * rr + c[i], odd = odd * rr + c[i + 1];
  return (Vector)((Bits)(even * rr + odd * r + 1.0) + ((Bits)near << 52));
}

/* ln x of normal x > 0: the exponent's part, and the series of artanh for what lies between the roots of 1/2 and 2. */
INLINE Vector logarithm(Vector x) {
  const unsigned long long root = 0x3fe6a09e667f3bcdull, one = 1023ull << 52;
  const Bits power = ((Bits)x - root + one) >> 52; /* of two, plus 1023 */
  const Vector n = (Vector)(power | 0x4330000000000000ull) - (0x1p52 + 1023.0);
  const Vector f = (Vector)((Bits)x - (power << 52) + one) - 1.0, s = f / (2.0 + f), z = s * s, w = z * z;
  const Vector even = w * (0.3999999999940941908 + w * (0.2222219843214978396 + w * 0.1531383769920937332));
  const Vector odd = z * (0.6666666666666735130 +
                          w * (0.2857142874366239149 + w * (0.1818357216161805012 + w * 0.1479819860511658591)));
  const Vector half = 0.5 * f * f;
  return n * 0x1.62e42fee00000p-1 - ((half - (s * (half + (even + odd)) + n * 0x1.a39ef35793c76p-33)) - f);
}
