"""Lower bounds for leakage in the worst outcome, from the scores of a design: exact, rounded against the claim.

A measure is at most eps exactly where W meets inequalities that are linear in W for every output y. With any scores
of at least 0 they add up, for each y, to one inequality sum_x W(y|x) (a_yx + theta b_yx) <= 0 with b >= 0, in a
parameter theta that decreases in eps:

    max-lift, min-lift, lift   P(y|s) <= e^eps P(y), P(y) <= e^eps P(y|s), or both; theta = e^-eps
    ldp, inferential           theta c sum_s k_s P(y|s) <= sum_s l_s P(y|s), c = sum l/sum k; theta = e^-eps
    max-information            sum_s g_s P(s,y) <= (eps - H(S)) P(y), sum_s e^(g_s) <= 1, times a price; theta = -eps

With a price of the distortion (1 where E d is minimised)

    F(theta) = sum_x min_y [ a_yx + theta b_yx + price P(x) d(x,y) ]

is at most price E d for every W that meets the inequalities. So the least distortion within a limit is at least F at
its theta, and no W with E d <= D has a value of eps if F(theta) > price D: the least value is at least the eps at
which F is price D, which Newton's method finds from below, as F is concave. P(x), P(s,x) are ratios of counts, and
all of it is whole numbers: scores are rounded to some, which are scores like others.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from jaxpriv.verifier.archive import Table
from jaxpriv.verifier.bounds import BEYOND, Scores, check_scores, lowered
from jaxpriv.verifier.claims import Counted, Matrix, entropy
from jaxpriv.verifier.logarithms import SCALE, exp, log

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
    check_scores(rules)
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
        theta = floor(2**_THETA / exp(min(limit, BEYOND))) if ratio else -floor(Fraction(limit) * 2**_THETA) - 1
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
