"""What an integer table of a mechanism proves, with and without counts: exact, or enclosed and rounded outwards.

The mechanism is W = T / 2^62, T (X, Y) whole numbers with rows that sum to 2^62. With counts N (S, X) of n records
w = N T is whole too, and every probability below is a ratio of whole numbers. Only logarithms are enclosed. Nothing
here is a statement about a population. Standard library only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import SupportsFloat

from jaxpriv.errors import IntegrityError
from jaxpriv.verifier.archive import Json, Table

# Logarithms of rational numbers between bounds, in whole numbers of 10^-40, and outward decimal rounding.
#
# `Decimal.ln` and `Decimal.exp` round correctly (General Decimal Arithmetic, as in Python's documentation), so with 60
# digits the error of ln(a/b) is at most |ln(a/b)| 10^-59 plus that of the quotient, below 10^-58. Everything is widened
# by 10^-50 (1 + |value|), which also covers the binary exponents beyond. Standard library only.


# Logarithms are whole numbers of 1/SCALE.
SCALE = 10**40
# 60 digits, and no exponent that could overflow.
_CONTEXT = Context(prec=60, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
# Significant digits of the numbers that are stated, which are rounded outwards.
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


def upper(value: SupportsFloat, digits: int = 6) -> str:
    """At least `value`, to `digits` significant digits: an upper bound stays one in print."""
    return _rounded(float(value), digits, ROUND_CEILING)


def lower(value: SupportsFloat, digits: int = 6) -> str:
    """At most `value`."""
    return _rounded(float(value), digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, rounding: str) -> str:
    if not isfinite(value):
        return str(value)
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal(Decimal(value))):.{digits}g}"


def _text(value: Fraction, rounding: str) -> str:
    context = Context(prec=_DIGITS, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
    rounded = context.divide(
        Decimal(value.numerator), Decimal(value.denominator)
    )  # of exact whole numbers: one rounding
    return format(rounded.normalize(context), "g") if rounded else "0"


# W = T/2^62: rows of unsigned 64-bit numbers add up without overflow.
BITS = 62
ONE = 2**BITS  # the sum of a row

Matrix = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Claim:
    """One number: it lies in [lower, upper], decimal texts rounded outwards; None where there is no number ("inf")."""

    lower: str | None
    upper: str | None
    unit: str

    @property
    def record(self) -> Json:
        """The claim as JSON."""
        return {"lower": self.lower, "upper": self.upper, "unit": self.unit}


INFINITE = Claim(None, None, "nats")


def _logarithm(value: Fraction) -> Claim:
    low, high = log_of(value)
    return Claim(down(Fraction(max(low, 0), SCALE)), up(Fraction(max(high, 0), SCALE)), "nats")


def matrix(table: Table, name: str) -> list[Sequence[int]]:
    """The rows of a mechanism's integer table; `IntegrityError` for a row that does not sum to 2^62."""
    rows = list(table.rows())
    if not rows or not rows[0]:
        raise IntegrityError(f"{name} is empty")
    for x, row in enumerate(rows):
        if sum(row) != ONE:
            raise IntegrityError(f"{name}: row {x} does not sum to 2^{BITS}")
    return rows


def without_counts(rows: Matrix) -> dict[str, Claim]:
    """What holds for every population and every adversary's knowledge: it needs the table alone.

    `maximal-leakage`: ln sum_y max_x W(y|x), a bound of I(S;Y) and of what a release adds to any guess of anything;
    `ldp`: the largest ln W(y|x)/W(y|x'), infinite where an output is possible for some records only.
    """
    columns = list(zip(*rows, strict=True))
    tops = [max(column) for column in columns]
    found = {"maximal-leakage": _logarithm(Fraction(sum(tops), ONE))}
    bottoms = [min(column) for column, top in zip(columns, tops, strict=True) if top]
    if 0 in bottoms:
        found["ldp"] = INFINITE
    else:
        tops = [top for top in tops if top]
        found["ldp"] = _logarithm(max(Fraction(a, b) for a, b in zip(tops, bottoms, strict=True)))
    return found


@dataclass(frozen=True)
class Counted:
    """Counts N (S, X), and w = N T (S, Y) in units of 1 / (n 2^62); private symbols without a record left out."""

    counts: Matrix
    outputs: Matrix
    records: int

    @classmethod
    def of(cls, counts: Table, rows: Matrix, name: str) -> "Counted":
        """`IntegrityError` for counts of another alphabet than the table's, or without a record."""
        if counts.shape[1] != len(rows) or any(number < 0 for number in counts.numbers):
            raise IntegrityError(f"{name} are no counts of the alphabet of the mechanism")
        kept = [row for row in counts.rows() if any(row)]
        if not kept:
            raise IntegrityError(f"{name} hold no record")
        columns = list(zip(*rows, strict=True))
        outputs = [[sum(map(int.__mul__, row, column)) for column in columns] for row in kept]
        return cls(kept, outputs, sum(map(sum, kept)))

    @property
    def private(self) -> list[int]:
        """N_s."""
        return [sum(row) for row in self.counts]

    @property
    def useful(self) -> list[int]:
        """N_x."""
        return [sum(column) for column in zip(*self.counts, strict=True)]

    def leakage(self, measure: str) -> Claim | None:
        """The measure of W on these counts; None for a measure that is not computed here."""
        outputs = [list(column) for column in zip(*self.outputs, strict=True) if any(column)]
        prior, n = self.private, self.records
        if measure == "mutual-information":
            return _information([list(row) for row in zip(*outputs, strict=True)], prior, n)
        if measure == "maximal-leakage":
            return _logarithm(
                sum(max(Fraction(w, p * ONE) for w, p in zip(y, prior, strict=True)) for y in outputs) or Fraction(1)
            )
        if measure == "min-entropy":
            return _logarithm(Fraction(sum(map(max, outputs)), max(prior) * ONE))
        if measure == "max-information":
            return _largest_gain(outputs, prior, n)
        ratios = [[Fraction(w * n, sum(y) * p) for w, p in zip(y, prior, strict=True)] for y in outputs]
        most, least = max(map(max, ratios)), min(map(min, ratios))
        if measure == "max-lift":
            return _logarithm(most)
        if measure not in ("min-lift", "lift", "ldp", "inferential"):
            return None
        if least == 0:
            return INFINITE
        if measure in ("ldp", "inferential"):
            return _logarithm(max(max(y) / min(y) for y in ratios))
        return _logarithm(1 / least if measure == "min-lift" else max(most, 1 / least))

    def disclosure(self, rows: Matrix) -> Claim:
        """I(X;Y)."""
        useful = self.useful
        kept = [[n * weight for weight in row] for n, row in zip(useful, rows, strict=True) if n]
        return _information(kept, [n for n in useful if n], self.records)

    def expectation(self, costs: Matrix, rows: Matrix, unit: Fraction) -> Fraction:
        """E d, exact, of costs that are whole multiples of `unit`."""
        total = sum(
            n * sum(map(int.__mul__, cost, row)) for n, cost, row in zip(self.useful, costs, rows, strict=True) if n
        )
        return total * unit / (self.records * ONE)


def _information(w: Matrix, prior: Sequence[int], n: int) -> Claim:
    """sum w ln( w n / (N_s w_y) ) / (n 2^62), every logarithm rounded against the claim."""
    outputs = [sum(column) for column in zip(*w, strict=True)]
    low = high = 0
    for row, mass in zip(w, prior, strict=True):
        for weight, total in zip(row, outputs, strict=True):
            if weight:
                below, above = log(weight * n, mass * total)
                low += weight * below
                high += weight * above
    whole = n * ONE * SCALE
    return Claim(down(max(Fraction(low, whole), Fraction(0))), up(Fraction(max(high, 0), whole)), "nats")


def _largest_gain(outputs: Matrix, prior: Sequence[int], n: int) -> Claim:
    """max_y H(S) - H(S | Y=y)."""
    gains = []
    for y in outputs:
        mass = sum(y)
        ends = zip(*(((w * low, w * high) for w in y if w for low, high in [log(w, mass)])), strict=True)
        gains.append([Fraction(sum(side), mass) for side in ends])
    entropy = [Fraction(sum(mass * log(n, mass)[side] for mass in prior), n) for side in (0, 1)]
    low, high = (max(gain[side] for gain in gains) + entropy[side] for side in (0, 1))
    return Claim(down(max(low, Fraction(0)) / SCALE), up(max(high, Fraction(0)) / SCALE), "nats")


def as_integers(costs: Table) -> tuple[list[list[int]], Fraction]:
    """A table of floats (X, Y) as whole multiples of one power of two, exactly."""
    fractions = [Fraction(value) for value in costs.numbers]
    below = max(value.denominator for value in fractions)
    width = costs.shape[1]
    whole = [value.numerator * (below // value.denominator) for value in fractions]
    return [whole[start : start + width] for start in range(0, len(whole), width)], Fraction(1, below)


def number(text: Json, name: str) -> float:
    """A finite number >= 0 that was stored as the text `repr(float)`."""
    try:
        value = float(text) if isinstance(text, str) else -1.0
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf") or repr(value) != text:
        raise IntegrityError(f"{name} is not the text of a number")
    return value
