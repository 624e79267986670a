"""Lower bounds on what any mapping could reach, from counts and the scores and prices of a design: exact, rounded
against the claim.

For mutual information and sums of largest entries, with a distortion; `worst_outcome_bounds` and `disclosure_bounds`
have the others. Standard library only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor

from jaxpriv.errors import IntegrityError
from jaxpriv.verifier.archive import Table
from jaxpriv.verifier.claims import Counted, Matrix, as_integers
from jaxpriv.verifier.logarithms import SCALE, exp, log_of

# A limit above this is like this one: e^limit is more than any number of symbols, and e^-limit is 0 in 2^-_THETA.
BEYOND = 700.0


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
    check_scores(rules)
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


def check_scores(rules: Scores) -> None:
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
        return max(total - most * min(exp(min(limit, BEYOND)), Fraction(len(prior))), Fraction(0))
    least = (total - price * Fraction(limit)) / most if most else Fraction(0)
    return Fraction(max(log_of(least)[0], 0), SCALE) if least > 1 else Fraction(0)


def lowered(scores: Sequence[float], prior: Sequence[int], n: int) -> list[int]:
    """SCALE g' rounded down with sum_s p(s) e^{g'(s)} <= 1."""
    scores = [min(max(score, -700.0), 700.0) for score in scores]
    total = sum((mass * exp(score) for mass, score in zip(prior, scores, strict=True)), Fraction(0)) / n
    level = log_of(total)[1]
    return [floor(Fraction(score) * SCALE) - level for score in scores]
