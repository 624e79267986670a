"""Numbers of the verifier against closed forms, against the library's float64, and against what it must not import."""

import dataclasses
import math
import random
import sys
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.errors import IntegrityError
from jaxpriv.leakage import by_name
from jaxpriv.verifier.bounds import Scores, least_linear, least_value
from jaxpriv.verifier.claims import as_integers, without_counts
from jaxpriv.verifier.logarithms import SCALE, down, exp, log, up
from jaxpriv.verifier.worst_outcome_bounds import WORST, least_worst
from tests.cases import raised, run_python
from tests.verifier.conftest import ONE, counted, integers, whole

IDENTITY = [[ONE, 0], [0, ONE]]


def between(claim, value: float, tolerance: float = 1e-11) -> bool:
    low, high = float(claim.lower), float(claim.upper)
    return low <= high and abs(low - value) <= tolerance and abs(high - value) <= tolerance


def test_no_numpy_and_no_jax():
    """The verifier and all that it imports, in a new process."""
    code = (
        "import sys; a = {*sys.modules}; import jaxpriv.verifier; print(*{m.split('.')[0] for m in {*sys.modules} - a})"
    )
    assert set(run_python("-c", code).split()) <= {"jaxpriv", *sys.stdlib_module_names}


def test_logarithms_are_enclosed():
    """Of ratios next to 1 and to a power of two, of whole numbers of all lengths, and of ratios beyond float64."""
    getcontext().prec = 140
    rng = random.Random(0)
    pairs = [(3, 7), (10**30 + 1, 10**30), (1, 2**200), (5**90, 3**20), (1, 1), (2**9 - 1, 1), (2**2000, 3)]
    for bits in (1, 9, 62, 125, 300):
        for _ in range(60):
            above, below = rng.getrandbits(bits) + 1, rng.getrandbits(rng.choice((1, bits, 200))) + 1
            pairs += [(above, below), (above, above + 1), ((above << bits) + rng.choice((-1, 0, 1)), above)]
    for above, below in pairs:
        exact = (Decimal(above).ln() - Decimal(below).ln()) * SCALE
        low, high = log(above, below)
        assert low <= exact <= high, (above, below)
        assert high - low <= 2 + abs(exact) * Decimal(10) ** -48, (above, below)
    assert exp(1.5) >= Fraction(Decimal("1.5").exp())
    assert exp(1.5) <= Fraction(Decimal("1.5").exp()) * Fraction(10**40 + 1, 10**40)


def test_decimal_texts_are_rounded_outwards():
    for value in (Fraction(1, 3), Fraction(2, 3) * 10**20, Fraction(-1, 3), Fraction(1, 7) / 10**30):
        assert Fraction(down(value)) < value < Fraction(up(value))
        assert Fraction(up(value)) - Fraction(down(value)) <= abs(value) / 10**11
    assert down(Fraction(0)) == up(Fraction(0)) == "0"
    assert down(Fraction(1, 4)) == up(Fraction(1, 4)) == "0.25"


def test_binary_symmetric_channel():
    """p = 1/4 and uniform counts: I = ln 2 - h(1/4), maximal leakage ln 3/2, LDP ln 3."""
    table = integers(np.array([[0.75, 0.25], [0.25, 0.75]]))
    released = counted(np.diag([5, 5]), table)
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert between(released.leakage("mutual-information"), math.log(2) - entropy)
    assert between(released.disclosure(table.tolist()), math.log(2) - entropy)
    for measure in ("maximal-leakage", "min-entropy", "max-lift"):
        assert between(released.leakage(measure), math.log(1.5))
    assert between(released.leakage("lift"), math.log(2))
    caps = without_counts(table.tolist())
    assert between(caps["maximal-leakage"], math.log(1.5))
    assert between(caps["ldp"], math.log(3))
    constant = without_counts([[ONE // 2] * 2] * 3)
    assert {claim.upper for claim in constant.values()} == {"0"}
    assert without_counts(IDENTITY)["ldp"].upper is None


def test_a_leakage_below_the_resolution_of_float64_is_exact():
    """I = 8 d^2 + O(d^4) for P = 1/4 +- d, d = 2^-30."""
    counts = 2**28 + np.array([[1, -1], [-1, 1]])
    claim = counted(counts, IDENTITY).leakage("mutual-information")
    assert 0 < Fraction(claim.lower) <= Fraction(claim.upper)
    assert float(claim.lower) == pytest.approx(8 * 2.0**-60, rel=1e-9)


def test_private_symbols_without_a_record_change_nothing():
    counts = np.array([[3, 4, 5], [0, 0, 0], [5, 1, 2]])
    table = integers(np.random.default_rng(1).dirichlet(np.ones(3), 3)).tolist()
    all_of_them = counted(counts, table)
    used = counted(counts[[0, 2]], table)
    for name in ("mutual-information", "maximal-leakage", "lift"):
        assert all_of_them.leakage(name) == used.leakage(name)


LINEAR = ("maximal-leakage", "min-entropy")


def least(name, released, *arguments):
    if name == "mutual-information":
        return least_value(released, range(len(released.private)), *arguments)
    return (least_worst if name in WORST else least_linear)(released, *arguments, name)


@pytest.mark.parametrize("name", [*LINEAR, *WORST])
@pytest.mark.parametrize("form", ["budget", "leakage-budget"])
def test_certificates_are_those_of_the_library(name, form):
    """The scores of a solution prove its bound, others at most the optimum; worst outcomes with proportional rows."""
    rng = np.random.default_rng(5)
    counts = rng.multinomial(3000, rng.dirichlet(np.ones(12 if name in LINEAR else 8))).reshape(-1, 4)
    if name in WORST:
        counts = np.vstack([counts + 3, 2 * (counts[0] + 3)])
    target = 0.2 if form == "budget" else 0.15 if name in LINEAR else 0.1
    joint, costs = counts / counts.sum(), 2.0 * (1 - np.eye(4))
    rows, unit = as_integers(whole(costs))
    limit = {form.replace("-", "_"): target}
    solution = jp.solve(jp.DistortionProblem(joint, costs, leakage=by_name(name), **limit), tol=1e-7)
    value = float(solution.value)
    assert value > 0.01
    released = counted(counts, integers(np.asarray(solution.mechanism)))
    numbers, price = np.asarray(solution.scores)[0], 0.0
    if form == "budget":
        price = float(solution.multipliers[0])
        if name in WORST:  # where the price is that of the distortion in units of its range
            each = joint.sum(axis=0)[:, None] * costs
            price /= each.sum(axis=0).max() - each.min(axis=1).sum()
    scores = Scores(whole(numbers), np.ravel(solution.weights).tolist() if name in WORST else (), price)
    bound = float(least(name, released, rows, unit, scores, target, form))
    assert float(solution.lower_bound) == pytest.approx(bound, abs=1e-6)
    assert bound <= value
    for _ in range(20):
        factors = rng.uniform(0.5, 1.5, numbers.shape)
        other = Scores(whole(numbers * factors - 0.02), scores.weights, price * float(rng.uniform(0.5, 1.5)))
        assert float(least(name, released, rows, unit, other, target, form)) <= value + 1e-9
    nothing = Scores(whole(0 * numbers), [0.0] * len(scores.weights), price)
    assert least(name, released, rows, unit, nothing, target, form) >= 0
    if name in WORST:
        short = Scores(whole(numbers[:, :1]), scores.weights, 1.0)
        assert least_worst(released, rows, unit, short, target, form, name) is None
    with raised(IntegrityError, "negative"):
        least(name, released, rows, unit, dataclasses.replace(scores, multiplier=-1.0), target, form)


def of_two(name, costs, multiplier):
    """A release of two symbols as they are, its costs and scores that are ones."""
    columns = 4 if name in ("lift", "ldp", "inferential") else 2
    scores = Scores(whole(np.ones((2, columns))), [1.0, 1.0], multiplier)
    return counted([[3, 1], [2, 5]], IDENTITY), *as_integers(whole(costs)), scores


@pytest.mark.parametrize("name", [*LINEAR, *WORST])
def test_limits_beyond_every_number_of_symbols_bind_nothing(name):
    """A design may state any limit: e^limit overflowed above 10^18 nats."""
    given = of_two(name, 1 - np.eye(2), 0.0)
    for limit in (699.0, 701.0, 1e19, 1e308):
        assert least(name, *given, limit, "leakage-budget") == 0


@pytest.mark.parametrize("name", WORST)
def test_a_budget_that_no_finite_value_meets_has_a_bound(name):
    """Every output costs more than the budget: any bound holds, and none is no number."""
    assert least_worst(*of_two(name, np.full((2, 2), 1e308), 1.0), 0.1, "budget", name) > 0


@pytest.mark.parametrize("name", ["mutual-information", *LINEAR, *WORST])
def test_no_scores_and_prices_prove_more_than_a_mechanism_reaches(name):
    rng = np.random.default_rng(6)
    counts, costs = rng.integers(1, 20, (3, 4)), 1.0 - np.eye(4)
    rows, unit = as_integers(whole(costs))
    columns = 6 if name in ("lift", "ldp", "inferential") else 3
    for _ in range(120):
        table = integers(rng.dirichlet(np.full(4, 2.0), 4)).tolist()
        released = counted(counts, table)
        spent, leaked = released.expectation(rows, table, unit), Fraction(released.leakage(name).upper)
        signed = rng.normal if name == "mutual-information" else rng.exponential
        scores = whole(signed(scale=rng.choice([0.01, 0.3, 1.0, 100.0]), size=(4, columns)) - 0.01)
        rules = Scores(scores, rng.exponential(size=4).tolist(), float(rng.exponential()))
        budget, limit = float(spent) + 1e-12, float(leaked) + 1e-12  # the mechanism meets both
        assert least(name, released, rows, unit, rules, budget, "budget") <= leaked
        assert least(name, released, rows, unit, rules, limit, "leakage-budget") <= spent
