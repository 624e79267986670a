"""Lower bounds on what any mapping could reach, from counts and the scores and prices of a design: exact, rounded
against the claim.

First for mutual information and sums of largest entries, with a distortion; then for the worst outcome; then for
funnels. Standard library only.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor

from jaxpriv.errors import IntegrityError
from jaxpriv.verifier.archive import Table
from jaxpriv.verifier.claims import SCALE, Counted, Matrix, as_integers, entropy, exp, log, log_of

# A limit above this is like this one: e^limit is more than any number of symbols, and e^-limit is 0 in 2^-_THETA.
_BEYOND = 700.0


@dataclass(frozen=True)
class Scores:
    """Scores (Y, T) that the adversary gives the outputs, weights of those, and the price of the distortion."""

    table: Table
    weights: Sequence[float]
    multiplier: float


def least_value(
    counted: Counted,
    present: Sequence[int],
    costs: Matrix,
    unit: Fraction,
    rules: Scores,
    budget: float,
    form: str,
    draws: int = 1,
) -> Fraction:
    """A lower bound on the objective of every mechanism that meets the limit, from any scores and prices >= 0.

    With sum_s p(s) e^{g_y(s)} <= 1 for every y (enforced here by lowering the scores), I(S;Y) >= sum P(s,x) W(y|x)
    g_y(s) for every W, so

        min I     s.t. E d <= D:   sum_x min_y [ sum_s P(s,x) g_y(s) + lambda P(x) d(x,y) ] - lambda D
        min E d   s.t. I <= eps:   sum_x min_y [ P(x) d(x,y) + eta sum_s P(s,x) g_y(s) ] - eta eps

    (forms "budget" and "leakage-budget"). `kept` are the rows of the scores that belong to the private symbols in
    `counted`. Where the symbols are pairs (x, z) of an earlier draw z, one of so many `draws`, and the outputs (z, y),
    a pair has those of its z.
    """
    n, prior = counted.records, counted.private
    _check(rules)
    price = Fraction(rules.multiplier) if form == "budget" else Fraction(1)
    share = Fraction(1) if form == "budget" else Fraction(rules.weights[0])
    levels = [lowered([row[s] for s in present], prior, n) for row in rules.table.rows()]
    total = _least_sum(counted, levels, share / SCALE, costs, price * unit, draws)
    spent = (price if form == "budget" else share) * Fraction(budget)
    return max(total - spent, Fraction(0))


def _least_sum(
    counted: Counted, scores: Matrix, worth: Fraction, costs: Matrix, price: Fraction, draws: int = 1
) -> Fraction:
    """sum_x min_y [ worth sum_s P(s,x) k_y(s) + price P(x) d(x,y) ], exact, of whole scores k and costs d."""
    whole = worth.denominator * price.denominator  # so that all terms are whole numbers of 1/whole
    gained, paid = worth.numerator * price.denominator, price.numerator * worth.denominator
    total = 0
    for place, (column, cost) in enumerate(zip(zip(*counted.counts, strict=True), costs, strict=True)):
        mass, first = sum(column), place % draws * len(cost)
        if mass:
            gains = (sum(map(int.__mul__, column, level)) for level in scores[first : first + len(cost)])
            total += min(gained * gain + paid * mass * d for gain, d in zip(gains, cost, strict=True))
    return Fraction(total, counted.records * whole)


def _check(rules: Scores) -> None:
    if not (rules.multiplier >= 0 and all(weight >= 0 for weight in rules.weights)):
        raise IntegrityError("a price in the certificate is negative")


def least_linear(
    counted: Counted, costs: Matrix, unit: Fraction, rules: Scores, limit: float, form: str, measure: str
) -> Fraction:
    """A lower bound on the objective of every mechanism that meets the limit, from any scores and price.

    With w_y(s) = P(s,y)/c_s the measure is ln M, M = sum_y max_s w_y(s): c_s = p_s for maximal leakage, c_s = max p for
    min-entropy leakage. For scores k >= 0 of P(s,y)/b_s, b_s = 1 or max p, let t >= sum_s k_y(s) c_s/b_s for every y;
    then sum_s k_y(s) P(s,y)/b_s <= t max_s w_y(s), and

        min M     s.t. E d <= D:   M >= ( sum_x min_y [ sum_s P(s,x) k_y(s)/b_s + lambda P(x) d(x,y) ] - lambda D ) / t
        min E d   s.t. M <= m:     E d >= sum_x min_y [ P(x) d(x,y) + sum_s P(s,x) k_y(s)/b_s ] - t m

    All is exact but for the logarithm and the exponential of the limit, which are rounded against the claim.
    """
    n, prior = counted.records, counted.private
    if not rules.multiplier >= 0:
        raise IntegrityError("a price in the certificate is negative")
    maximal = measure == "maximal-leakage"
    base = Fraction(1) if maximal else Fraction(max(prior), n)
    scores, step = as_integers(replace(rules.table, numbers=[max(score, 0.0) for score in rules.table.numbers]))
    most = step * max(sum(map(int.__mul__, row, prior)) if maximal else n * sum(row) for row in scores) / n
    price = Fraction(rules.multiplier) if form == "budget" else Fraction(1)
    total = _least_sum(counted, scores, step / base, costs, price * unit)
    if form == "leakage-budget":
        # M is at most the number of private symbols, whatever the limit.
        return max(total - most * min(exp(min(limit, _BEYOND)), Fraction(len(prior))), Fraction(0))
    least = (total - price * Fraction(limit)) / most if most else Fraction(0)
    return Fraction(max(log_of(least)[0], 0), SCALE) if least > 1 else Fraction(0)


def lowered(scores: Sequence[float], prior: Sequence[int], n: int) -> list[int]:
    """SCALE g' rounded down with sum_s p(s) e^{g'(s)} <= 1."""
    scores = [min(max(score, -700.0), 700.0) for score in scores]
    total = sum((mass * exp(score) for mass, score in zip(prior, scores, strict=True)), Fraction(0)) / n
    level = log_of(total)[1]
    return [floor(Fraction(score) * SCALE) - level for score in scores]


# Lower bounds for leakage in the worst outcome, from the scores of a design: exact, rounded against the claim.
#
# A measure is at most eps exactly where W meets inequalities that are linear in W for every output y. With any scores
# of at least 0 they add up, for each y, to one inequality sum_x W(y|x) (a_yx + theta b_yx) <= 0 with b >= 0, in a
# parameter theta that decreases in eps:
#
#     max-lift, min-lift, lift   P(y|s) <= e^eps P(y), P(y) <= e^eps P(y|s), or both; theta = e^-eps
#     ldp, inferential           theta c sum_s k_s P(y|s) <= sum_s l_s P(y|s), c = sum l/sum k; theta = e^-eps
#     max-information            sum_s g_s P(s,y) <= (eps - H(S)) P(y), sum_s e^(g_s) <= 1, times a price; theta = -eps
#
# With a price of the distortion (1 where E d is minimised)
#
#     F(theta) = sum_x min_y [ a_yx + theta b_yx + price P(x) d(x,y) ]
#
# is at most price E d for every W that meets the inequalities. So the least distortion within a limit is at least F at
# its theta, and no W with E d <= D has a value of eps if F(theta) > price D: the least value is at least the eps at
# which F is price D, which Newton's method finds from below, as F is concave. P(x), P(s,x) are ratios of counts, and
# all of it is whole numbers: scores are rounded to some, which are scores like others.

RATIOS = ("max-lift", "min-lift", "lift", "ldp", "inferential")
WORST = (*RATIOS, "max-information")
# Bits of theta, and of the largest score.
_THETA, _SCORE = 80, 100
# Newton's steps in theta: each goes on to another linear piece. Where they are not enough the bound is 0, which holds.
_STEPS = 200


@dataclass(frozen=True)
class _Inequalities:
    """a (Y, X) and b (Y, X), whole multiples of 1/(records scale); `scale` is that of a price of 1."""

    fixed: Matrix
    rising: Matrix
    scale: int


def least_worst(
    counted: Counted, costs: Matrix, unit: Fraction, rules: Scores, limit: float, form: str, measure: str
) -> Fraction | None:
    """A lower bound on the objective of every mechanism that meets the limit, from any scores and prices.

    None where the scores are not those of the private symbols of different P(x|s), as a solution has them. Raises
    `IntegrityError` for a negative price.
    """
    _check(rules)
    scale = 2**_SCORE * unit.denominator
    if measure == "max-information":
        lines = _information(counted, rules, scale)
    else:
        lines = _ratios(counted, rules.table, scale, measure)
    if lines is None:
        return None
    n, useful = counted.records, counted.useful
    price = floor((Fraction(rules.multiplier) if form == "budget" else 1) * unit * lines.scale)
    spent = [[price * n_x * d for d in row] for n_x, row in zip(useful, costs, strict=True)]

    def least(theta: int) -> tuple[int, int]:
        """2^_THETA F and its slope, at theta/2^_THETA."""
        total = slope = 0
        for x, row in enumerate(spent):
            if useful[x]:
                value, rise = min(
                    (((a[x] + d) << _THETA) + theta * b[x], b[x])
                    for a, b, d in zip(lines.fixed, lines.rising, row, strict=True)
                )
                total, slope = total + value, slope + rise
        return total, slope

    if form == "leakage-budget":
        ratio = measure in RATIOS
        theta = floor(2**_THETA / exp(min(limit, _BEYOND))) if ratio else -floor(Fraction(limit) * 2**_THETA) - 1
        return max(Fraction(least(theta)[0], n * lines.scale * 2**_THETA), Fraction(0))
    allowed = floor(price * n * Fraction(limit) / unit * 2**_THETA) + 1
    # From theta of the largest value that is possible to that of 0.
    theta, last = (0, 2**_THETA) if measure in RATIOS else (-(2**_THETA) * len(counted.counts).bit_length(), 0)
    for _ in range(_STEPS):
        value, slope = least(theta)
        if value > allowed:
            break
        if not slope:
            return Fraction(0)
        theta += (allowed - value) // slope + 1
        if theta >= last:
            return Fraction(0)
    else:
        return Fraction(0)
    if measure in RATIOS:  # theta is 0 where no finite value meets the limit
        return Fraction(max(log(2**_THETA, max(theta, 1))[0], 0), SCALE)
    return Fraction(-theta, 2**_THETA)


def _ratios(counted: Counted, scores: Table, scale: int, measure: str) -> _Inequalities | None:
    """The inequalities of a measure of ratios P(y|s)/P(y) or P(y|s)/P(y|s')."""
    sides = 1 if measure in ("max-lift", "min-lift") else 2
    groups = _of_columns(counted, scores.shape[1] // sides)
    if groups is None or scores.shape[1] % sides:
        return None
    firsts = [members[0] for members in groups]
    n, useful, prior = counted.records, counted.useful, counted.private
    size, none = len(firsts), ([0] * len(useful), 0)
    fixed, rising = [], []
    for row in scores.rows():
        sums = []
        for start in range(0, sides * size, size):
            # k_s/n_s: what multiplies P(x|s) = N_sx/n_s is then whole.
            part = [
                floor(Fraction(max(k, 0.0)) * scale / prior[s])
                for k, s in zip(row[start : start + size], firsts, strict=True)
            ]
            rows = [counted.counts[s] for s in firsts]
            given = [sum(map(int.__mul__, part, column)) for column in zip(*rows, strict=True)]
            sums.append((given, sum(k * prior[s] for k, s in zip(part, firsts, strict=True))))
        if measure in ("ldp", "inferential"):
            (upper, k), (lower, total) = sums if sums[0][1] else (none, none)
            fixed.append([-n * part for part in lower])
            rising.append([n * part * total // max(k, 1) for part in upper])
        else:
            above = none if measure == "min-lift" else sums[0]
            below = none if measure == "max-lift" else sums[-1]
            fixed.append([-n_x * above[1] - n * part for n_x, part in zip(useful, below[0], strict=True)])
            rising.append([n * part + n_x * below[1] for n_x, part in zip(useful, above[0], strict=True)])
    return _Inequalities(fixed, rising, scale)


def _information(counted: Counted, rules: Scores, scale: int) -> _Inequalities | None:
    """The inequalities of max-information: g = k/price about H(S), which is rounded down."""
    groups = _of_columns(counted, rules.table.shape[1])
    if groups is None or len(rules.weights) != rules.table.shape[0]:
        return None
    n, useful, prior = counted.records, counted.useful, counted.private
    before = entropy(prior, n)[0] // n
    fixed, rising = [], []
    for row, price in zip(rules.table.rows(), rules.weights, strict=True):
        scores = [0.0] * len(prior)
        for members, k in zip(groups, row, strict=True):
            mass = sum(prior[s] for s in members)
            within = -sum(prior[s] / mass * math.log(prior[s] / mass) for s in members)
            for s in members:  # a class of rows in proportion has one score, for their sum
                scores[s] = (k / price if price > 0 else 0.0) + within + math.log(prior[s] / mass)
        g = [score + before for score in lowered(scores, [1] * len(prior), 1)]
        whole = floor(Fraction(price) * scale)
        gains = [sum(map(int.__mul__, g, column)) for column in zip(*counted.counts, strict=True)]
        fixed.append([whole * gain // SCALE for gain in gains])
        rising.append([whole * n_x for n_x in useful])
    return _Inequalities(fixed, rising, scale)


def _of_columns(counted: Counted, columns: int) -> list[list[int]] | None:
    """The private symbols that the scores of each column are about: of one P(x|s), or every symbol by itself."""
    if columns == len(counted.counts):
        return [[s] for s in range(columns)]
    classes: dict[tuple[int, ...], list[int]] = {}
    for s, row in enumerate(counted.counts):
        common = math.gcd(*row)
        classes.setdefault(tuple(count // common for count in row), []).append(s)
    return list(classes.values()) if columns == len(classes) else None


# Lower bounds on the leakage of every mapping with enough disclosure, from counts and prices: exact, rounded outwards.
#
# min I(S;Y) subject to I(X;Y) >= R. Write q = P(X | Y=y), T = P(S|X), h the entropy of two coins. Without prices
#
#     I(S;Y) >= R - H(X|S),
#
# because I(X;Y) - I(S;Y) = I(X;Y|S) <= H(X|S). With prices nu (X,) and lambda in [0, 1], every mapping satisfies
#
#     I(S;Y) >= H(S) - lambda H(X) + nu.P_X + min_q [ -H(Tq) + lambda H(q) - nu.q ] + lambda I(X;Y).
#
# For two private symbols that minimum is proved here. With r = P(S=1 | Y) held fixed the bracket is concave in q, so
# some minimiser mixes at most two useful symbols i, j. With t_x = P(S=1 | x), D = t_j - t_i and r = t_i + D w the
# bracket is
#
#     f(w) = -h(r) + lambda h(w) - (1-w) nu_i - w nu_j,
#     f'(w) = D ln(r/(1-r)) - lambda ln(w/(1-w)) - (nu_j - nu_i),
#
# and f'' > 0 where A w^2 - B w + C < 0, A = (1-lambda) D^2, B = D^2 - lambda D (1 - 2 t_i), C = lambda t_i (1 - t_i):
# in one interval at most. On both sides of it f is concave, so it is at least the smallest of f(0), f(1) and what it is
# in the interval, which the tangent at any point v of the interval bounds from below. v is found with floating-point
# numbers; the tangent at it is enclosed. For more private symbols the minimum takes a branch and bound over posteriors,
# which is not repeated here: see `FunnelPrices.line`.

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
