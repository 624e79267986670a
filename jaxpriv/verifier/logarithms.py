"""Logarithms of rational numbers between bounds, in whole numbers of 10^-40, and outward decimal rounding.

`Decimal.ln` and `Decimal.exp` round correctly (General Decimal Arithmetic, as in Python's documentation), with 60
digits here. A ratio is 2^k n (1 + u)/(1 - u) with a whole number n from 128 to 511 and u < 2^-8, and its logarithm
k ln 2 + ln n + 2 atanh u, in units of 2^-200: the roundings of at most 14 terms of the series of atanh, of the
quotients and of both logarithms make less than 200 + 2 |k| units. Everything is widened by 10^-50 (1 + |value|).
Standard library only.
"""

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import cache, lru_cache
from math import floor, isfinite
from typing import SupportsFloat

# Logarithms are whole numbers of 1/SCALE.
SCALE = 10**40
# Bits behind the point of what they are computed from.
_PRECISE = 200
# Values of e^x for x <= 0 are whole numbers of 1/FINE: with 60 digits they are wrong by less than 10^-56.
FINE = 10**55
# 60 digits, and no exponent that could overflow.
_CONTEXT = Context(prec=60, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
# Significant digits of the numbers that are stated, which are rounded outwards.
_DIGITS = 12


@lru_cache(maxsize=2**16)
def log(above: int, below: int) -> tuple[int, int]:
    """(lower, upper) with lower <= SCALE ln(above/below) <= upper, for positive whole numbers."""
    if above == below:
        return 0, 0
    shift = above.bit_length() - below.bit_length()
    places = _PRECISE + 8 - shift
    ratio = (above << places) // below if places > 0 else above // (below << -places)
    whole = ratio >> _PRECISE
    term = total = ((ratio - (whole << _PRECISE)) << _PRECISE) // (ratio + (whole << _PRECISE))
    square, odd = term * term >> _PRECISE, 1
    while term:
        term, odd = term * square >> _PRECISE, odd + 2
        total += term // odd
    value = 2 * total + _log_of_whole(whole) + (shift - 8) * _log_of_whole(2)
    exact, slack = value * 10**50, 2**_PRECISE + abs(value)
    unit = 2**_PRECISE * 10**50 // SCALE
    return (exact - slack) // unit, -(-(exact + slack) // unit)


@cache
def _log_of_whole(number: int) -> int:
    return floor(Fraction(_CONTEXT.ln(Decimal(number))) * 2**_PRECISE)


def log_of(value: Fraction) -> tuple[int, int]:
    """The same of a positive fraction."""
    return log(value.numerator, value.denominator)


def exp(power: float) -> Fraction:
    """An upper bound of e^power, for |power| <= 1000."""
    value = _CONTEXT.exp(Decimal(power))
    return Fraction(value) * Fraction(10**50 + 1, 10**50)


def exp_between(power: int) -> tuple[int, int]:
    """(lower, upper) with lower <= FINE e^(power/SCALE) <= upper, for power <= 0; exact at 0."""
    if power < -200 * SCALE:  # e^-200 < 10^-86
        return 0, 1
    value = floor(Fraction(_CONTEXT.exp(_CONTEXT.divide(Decimal(power), Decimal(SCALE)))) * FINE)
    return (value, value) if not power else (max(value - 1, 0), value + 2)


def down(value: Fraction) -> str:
    """At most `value`, as a decimal text of twelve significant digits."""
    return _text(value, ROUND_FLOOR)


def up(value: Fraction, digits: int = _DIGITS) -> str:
    """At least `value`."""
    return _text(value, ROUND_CEILING, digits)


def upper(value: SupportsFloat, digits: int = 6) -> str:
    """At least `value`, to `digits` significant digits: an upper bound stays one in print."""
    return _rounded(float(value), digits, ROUND_CEILING)


def lower(value: SupportsFloat, digits: int = 6) -> str:
    """At most `value`."""
    return _rounded(float(value), digits, ROUND_FLOOR)


def percent(share: float, *, up: bool = False, digits: int = 4, places: int | None = None) -> str:
    """A share that floating-point numbers hold but for their rounding, in percent, rounded down or up: to so many
    digits, or to so many `places` after the point. A bound on a share may exceed one: it is one then.
    """
    exact, rounding = Decimal(str(round(100 * min(share, 1.0), 10))), ROUND_CEILING if up else ROUND_FLOOR
    if places is not None:
        return f"{exact.quantize(Decimal(1).scaleb(-places), rounding)} %"
    return f"{_rounded(exact, digits, rounding)} %"


def _rounded(value: float | Decimal, digits: int, rounding: str) -> str:
    if not isfinite(value):
        return str(value)
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal(Decimal(value))):.{digits}g}"


def _text(value: Fraction, rounding: str, digits: int = _DIGITS) -> str:
    context = Context(prec=digits, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
    rounded = context.divide(
        Decimal(value.numerator), Decimal(value.denominator)
    )  # of exact whole numbers: one rounding
    return format(rounded.normalize(context), "g") if rounded else "0"
