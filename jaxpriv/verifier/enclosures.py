"""Logarithms of rational numbers between bounds, in whole numbers of 10^-40, and outward decimal rounding.

`Decimal.ln` and `Decimal.exp` round correctly (General Decimal Arithmetic, as in Python's documentation), so with 60
digits the error of ln(a/b) is at most |ln(a/b)| 10^-59 plus that of the quotient, below 10^-58. Everything is widened
by 10^-50 (1 + |value|), which also covers the binary exponents beyond. Standard library only.
"""

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache

SCALE = 10**40
_CONTEXT = Context(prec=60, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
_DIGITS = 12


@lru_cache(maxsize=2**16)
def log(above: int, below: int) -> tuple[int, int]:
    """(lower, upper) with lower <= SCALE ln(above/below) <= upper, for positive whole numbers."""
    if above == below:
        return 0, 0
    return _widened(_CONTEXT.ln(_CONTEXT.divide(Decimal(above), Decimal(below))))


def log_of(value: Fraction) -> tuple[int, int]:
    """The same of a positive fraction."""
    return log(value.numerator, value.denominator)


def exp(power: float) -> Fraction:
    """An upper bound of e^power, for |power| <= 1000."""
    value = _CONTEXT.exp(Decimal(power))
    return Fraction(value) * Fraction(10**50 + 1, 10**50)


def _widened(value: Decimal) -> tuple[int, int]:
    exact = Fraction(value)
    slack = (1 + abs(exact)) / 10**50
    low, high = (exact - slack) * SCALE, (exact + slack) * SCALE
    return low.numerator // low.denominator, -(-high.numerator // high.denominator)


def down(value: Fraction) -> str:
    """At most `value`, as a decimal text of twelve significant digits."""
    return _text(value, ROUND_FLOOR)


def up(value: Fraction) -> str:
    """At least `value`."""
    return _text(value, ROUND_CEILING)


def _text(value: Fraction, rounding: str) -> str:
    context = Context(prec=_DIGITS, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
    rounded = context.divide(
        Decimal(value.numerator), Decimal(value.denominator)
    )  # of exact whole numbers: one rounding
    return format(rounded.normalize(context), "g") if rounded else "0"
