"""Lower bounds on the leakage of every mapping with enough disclosure, from counts and prices: exact, rounded outwards.

min I(S;Y) subject to I(X;Y) >= R. Write q = P(X | Y=y), T = P(S|X), h the entropy of two coins. Without prices

    I(S;Y) >= R - H(X|S),

because I(X;Y) - I(S;Y) = I(X;Y|S) <= H(X|S). With prices nu (X,) and lambda in [0, 1], every mapping satisfies

    I(S;Y) >= H(S) - lambda H(X) + nu.P_X + min_q [ -H(Tq) + lambda H(q) - nu.q ] + lambda I(X;Y).

For two private symbols that minimum is proved here. With r = P(S=1 | Y) held fixed the bracket is concave in q, so
some minimiser mixes at most two useful symbols i, j. With t_x = P(S=1 | x), D = t_j - t_i and r = t_i + D w the
bracket is

    f(w) = -h(r) + lambda h(w) - (1-w) nu_i - w nu_j,
    f'(w) = D ln(r/(1-r)) - lambda ln(w/(1-w)) - (nu_j - nu_i),

and f'' > 0 where A w^2 - B w + C < 0, A = (1-lambda) D^2, B = D^2 - lambda D (1 - 2 t_i), C = lambda t_i (1 - t_i):
in one interval at most. On both sides of it f is concave, so it is at least the smallest of f(0), f(1) and what it is
in the interval, which the tangent at any point v of the interval bounds from below. v is found with floating-point
numbers; the tangent at it is enclosed. For more private symbols the minimum takes a branch and bound over posteriors,
which is not repeated here: see `FunnelPrices.line`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from jaxpriv.errors import IntegrityError
from jaxpriv.verifier.claims import Counted, entropy
from jaxpriv.verifier.logarithms import SCALE, log

# Pairs of useful symbols that are gone through: about a millisecond each.
MOST_PAIRS = 100_000
# lambda and w are whole multiples of 2^-_BITS.
_BITS = 80
_ONE = 1 << _BITS  # 1, so counted
# Halvings of an interval of log-odds, at most 76 wide: more than float64 resolves.
_BISECTIONS = 80


@dataclass(frozen=True)
class FunnelPrices:
    """What proves the bound of a funnel.

    Attributes:
        useful: nu (X,), a price for each useful symbol.
        multiplier: lambda in [0, 1], the leakage for one nat of disclosure.
        line: c with I(S;Y) >= c + lambda I(X;Y) for every mapping, as the solver proved it in float64.
    """

    useful: Sequence[float]
    multiplier: float
    line: float

    def __post_init__(self) -> None:
        if not 0 <= self.multiplier <= 1:
            raise IntegrityError("the price of disclosure in the certificate is not in [0, 1]")

    def solver_bound(self, disclosure: Fraction) -> Fraction:
        """c + lambda R: a lower bound if `line` is right."""
        return max(Fraction(self.line) + Fraction(self.multiplier) * disclosure, Fraction(0))


def elementary(counted: Counted, disclosure: Fraction) -> Fraction:
    """R - H(X|S), rounded down; 0 if that is negative."""
    hidden = sum(entropy(row, sum(row))[1] for row in counted.counts)
    return max(disclosure - Fraction(hidden, counted.records * SCALE), Fraction(0))


def pairs(counted: Counted) -> int:
    """How many pairs of useful symbols with different P(S|x) there are; 0 unless there are two private symbols."""
    return 0 if len(counted.counts) != 2 else len(_symbols(counted, [0] * len(counted.useful))) ** 2 // 2


def of_prices(counted: Counted, prices: FunnelPrices, disclosure: Fraction) -> Fraction:
    """The bound that the prices prove for two private symbols, rounded down; 0 if that is negative.

    Raises `IntegrityError` for prices that are not one for each useful symbol.
    """
    if len(prices.useful) != len(counted.useful):
        raise IntegrityError("the prices of the certificate are not those of the useful symbols")
    n, lam = counted.records, floor(Fraction(prices.multiplier) * _ONE)
    nu = [floor(Fraction(price) * SCALE) for price in prices.useful]
    least = _least(_symbols(counted, nu), lam)
    secret, source = entropy(counted.private, n)[0], entropy(counted.useful, n)[1]
    bought = sum(mass * price for mass, price in zip(counted.useful, nu, strict=True))
    share = Fraction(lam, _ONE)
    line = (Fraction(secret + bought) - share * source) / n + least
    return max(line / SCALE + share * disclosure, Fraction(0))


@dataclass(frozen=True)
class _Symbol:
    """Useful symbols of one t = ones/total, and the highest of their prices in units of 1/SCALE.

    f is concave along a mixture of two of them, and smaller at the one with the higher price.
    """

    ones: int
    total: int
    price: int

    @property
    def share(self) -> Fraction:
        return Fraction(self.ones, self.total)


def _symbols(counted: Counted, nu: Sequence[int]) -> list[_Symbol]:
    highest: dict[Fraction, int] = {}
    for ones, mass, price in zip(counted.counts[1], counted.useful, nu, strict=True):
        if mass:
            share = Fraction(ones, mass)
            highest[share] = max(price, highest.get(share, price))
    return [_Symbol(share.numerator, share.denominator, price) for share, price in sorted(highest.items())]


def _least(symbols: Sequence[_Symbol], lam: int) -> int:
    """SCALE min_q [ ... ], rounded down."""
    least = min(-_coins(symbol.ones, symbol.total)[1] - symbol.price for symbol in symbols)
    for place, first in enumerate(symbols):
        for second in symbols[place + 1 :]:
            inside = _convex_part(first.share, second.share, Fraction(lam, _ONE))
            if inside is not None:
                least = min(least, _tangent(first, second, lam, *inside))
    return least


def _convex_part(start: Fraction, end: Fraction, lam: Fraction) -> tuple[int, int, int, int] | None:
    """The interval of w in (0, 1) where f'' > 0, in units of 2^-_BITS; None if there is none.

    (at most its lower end, at least it, at most its upper end, at least it). The second is above the third where the
    interval is too short for these units.
    """
    d = end - start
    a, b, c = (1 - lam) * d * d, d * d - lam * d * (1 - 2 * start), lam * start * (1 - start)
    disc = b * b - 4 * a * c
    # A w^2 - B w + C is not negative at 0 and at 1: with its least value outside of (0, 1) it is not in between.
    if disc <= 0 or not 0 < b < 2 * a:
        return None
    root = Fraction(math.isqrt(disc.numerator * disc.denominator << 2 * _BITS), disc.denominator << _BITS)
    beyond = root + Fraction(1, disc.denominator << _BITS)  # the square root of disc is between both
    ends = [_ONE * (b - beyond) / (2 * a), _ONE * (b - root) / (2 * a)]
    ends += [_ONE * (b + root) / (2 * a), _ONE * (b + beyond) / (2 * a)]
    low, high = -floor(-ends[1]), floor(ends[2])
    return max(floor(ends[0]), 0), max(low, 1), min(high, _ONE - 1), min(-floor(-ends[3]), _ONE)


def _coins(ones: int, total: int) -> tuple[int, int]:
    """(lower, upper) bounds of SCALE h(one/total)."""
    if not 0 < ones < total:
        return 0, 0
    zeros = total - ones
    (a, b), (c, d) = log(total, ones), log(total, zeros)
    return (ones * a + zeros * c) // total, -(-(ones * b + zeros * d) // total)


def _tangent(first: _Symbol, second: _Symbol, lam: int, outside: int, low: int, high: int, beyond: int) -> int:
    """SCALE times a lower bound of f over [outside, beyond], which holds the convex interval."""
    short = low > high
    v = min(low, _ONE - 1) if short else min(max(_stationary(first, second, lam, low, high), low), high)
    mixed = first.ones * second.total * (_ONE - v) + second.ones * first.total * v  # r = mixed/whole
    whole = first.total * second.total * _ONE
    rise = second.price - first.price
    value = -_coins(mixed, whole)[1] + (lam * _coins(v, _ONE)[0] >> _BITS) - first.price - -(-rise * v >> _BITS)
    d, share = second.share - first.share, Fraction(lam, _ONE)
    steep, flat = log(mixed, whole - mixed), log(v, _ONE - v)
    if short:  # -h(r) is above its tangent everywhere, and h(w) moves by at most h of the distance
        width = beyond - outside
        lost = (d * max(map(abs, steep)) + abs(rise)) * Fraction(width, _ONE) + share * _coins(width, _ONE)[1]
    else:
        least, most = d * steep[0] - share * flat[1] - rise, d * steep[1] - share * flat[0] - rise
        lost = max(most * (v - outside), -least * (beyond - v), Fraction(0)) / _ONE
    return value + floor(-lost)


def _stationary(first: _Symbol, second: _Symbol, lam: int, low: int, high: int) -> int:
    """Where f' = 0, nearly; an end of the interval where f' has one sign. Any answer gives a valid bound."""
    start, d = first.ones / first.total, float(second.share - first.share)
    rise, price = (second.price - first.price) / SCALE, lam / _ONE

    def slope(w: float) -> float:
        r = start + d * w
        steep = math.log(r / (1 - r)) if 0 < r < 1 else math.inf if r >= 1 else -math.inf
        return d * steep - price * math.log(w / (1 - w)) - rise

    # In the log-odds of w, which resolve small weights.
    ends = [min(max(end / _ONE, 1e-18), 1 - 1e-15) for end in (low, high)]
    below, above = (math.log(end / (1 - end)) for end in ends)
    for _ in range(_BISECTIONS):
        odds = (below + above) / 2
        if slope(1 / (1 + math.exp(-odds))) < 0:
            below = odds
        else:
            above = odds
    return floor(Fraction(1 / (1 + math.exp(-(below + above) / 2))) * _ONE)
