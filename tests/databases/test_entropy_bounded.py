"""Adversaries with H(P) >= b: closed form for two sequences, both ends of b, and priors found by other means."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import brentq

from jaxpriv import databases as db
from tests.cases import assert_refused
from tests.funnels.cases import entropy

from .conftest import mechanisms, random_mechanism


def uncertain(prior, b):
    """The first mixture of `prior` with the uniform one whose entropy is at least b."""
    uniform = np.full(prior.size, 1.0 / prior.size)
    if entropy(prior) >= b:
        return prior
    share = brentq(lambda t: entropy((1 - t) * prior + t * uniform) - b, 0.0, 1.0)
    return (1 - share) * prior + share * uniform


@pytest.mark.parametrize("b", [0.01, 0.2, 0.5, 0.69])
@pytest.mark.parametrize("cells", [(0.9, 0.2), (0.6, 0.59), (1.0, 1e-6)])
def test_two_sequences_in_closed_form(cells, b):
    """H(P) >= b leaves P(x) between p and 1 - p, h2(p) = b, and the worst prior is at an end."""
    mechanism = np.array([[cells[0], 1 - cells[0]], [cells[1], 1 - cells[1]]])
    p = brentq(lambda q: entropy((q, 1 - q)) - b, 1e-300, 0.5)
    worst = max(
        math.log(mechanism[x, r] / (p * mechanism[x, r] + (1 - p) * mechanism[1 - x, r]))
        for x in range(2)
        for r in range(2)
        if mechanism[x, r] > 0
    )
    found = db.entropy_bounded_privacy(mechanism, (2,), b, tol=1e-6)
    assert found.lower <= worst + 1e-9
    assert found.upper >= worst - 1e-9
    assert found.gap <= 1e-6


@given(mechanisms(), st.floats(0.0, 1.0))
def test_bounds_hold_for_explicit_priors(case, share):
    mechanism, sizes, rng = case
    total = len(mechanism)
    b = share * math.log(total)
    found = db.entropy_bounded_privacy(mechanism, sizes, b, tol=1e-3)
    assert 0 <= found.lower <= found.upper <= db.all_priors_privacy(mechanism).value + 1e-9
    assert found.gap <= 1e-3 + 1e-12
    # The lower bound is the value of its prior, in the set.
    assert entropy(found.prior) >= b - 1e-12
    single = db.record_joint(mechanism, found.prior, sizes, found.record)
    lift = single[found.symbol, found.output] / single[found.symbol].sum() / single[:, found.output].sum()
    assert math.log(lift) == pytest.approx(found.lower, abs=1e-9)
    # No prior in the set exceeds the upper bound: spread, concentrated, and pushed from there.
    for concentration in (0.05, 0.5, 2.0):
        prior = uncertain(rng.dirichlet(np.full(total, concentration)), b)
        assert db.information_privacy(mechanism, prior, sizes).value <= found.upper + 1e-6


@pytest.mark.parametrize(("sizes", "outputs", "seed"), [((2, 2), 3, 0), ((3, 2), 3, 2), ((2, 2, 2), 4, 1)])
def test_the_two_ends_of_the_entropy(sizes, outputs, seed):
    total = math.prod(sizes)
    mechanism = random_mechanism(seed, total, outputs)
    everything = db.entropy_bounded_privacy(mechanism, sizes, 0.0)
    value = db.all_priors_privacy(mechanism).value
    # A supremum that no prior attains: below it, within the tolerance.
    assert value - 1e-4 <= everything.lower < value
    assert everything.upper == pytest.approx(value, abs=1e-12)
    uniform = db.information_privacy(mechanism, np.full(total, 1 / total), sizes)
    least = db.entropy_bounded_privacy(mechanism, sizes, len(sizes) * math.log(2) if total in (4, 8) else math.log(6))
    assert least.lower == least.upper == pytest.approx(uniform.value, abs=1e-12)
    # Continuous there: a little slack costs little more.
    near = db.entropy_bounded_privacy(mechanism, sizes, math.log(total) * (1 - 1e-9))
    assert near.gap <= 1e-4
    assert uniform.value <= near.lower + 1e-12 <= uniform.value + 1e-3
    bounds = [db.entropy_bounded_privacy(mechanism, sizes, f * math.log(total)) for f in (0.2, 0.5, 0.8, 0.95)]
    for less, more in zip(bounds[1:], bounds, strict=False):
        assert less.lower <= more.upper


def test_certainty_is_infinite_and_shown_by_a_prior():
    # Both zeros of the other symbol's column may be believed in while b <= ln 2, not beyond.
    mechanism = np.array([[0.5, 0.5], [1.0, 0.0], [0.5, 0.5], [0.5, 0.5], [0.0, 1.0], [0.0, 1.0]])
    inside = db.entropy_bounded_privacy(mechanism, (6,), math.log(2))
    assert inside.upper == np.inf
    assert inside.lower == pytest.approx(math.log(1e12), rel=1e-3)
    assert entropy(inside.prior) >= math.log(2)
    beyond = db.entropy_bounded_privacy(mechanism, (6,), math.log(2) + 0.1)
    assert beyond.upper < 10
    assert beyond.gap <= 1e-4
    barely = db.entropy_bounded_privacy(mechanism, (6,), math.log(2) * (1 + 1e-12), max_steps=50)
    assert barely.lower <= barely.upper < np.inf


def test_personal_values_and_silent_records():
    reads_first = np.array([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8], [0.2, 0.8]])
    both = db.entropy_bounded_privacy(reads_first, (2, 2), 0.9)
    first = db.entropy_bounded_privacy(reads_first, (2, 2), 0.9, records=[0])
    second = db.entropy_bounded_privacy(reads_first, (2, 2), 0.9, records=[1])
    assert first.lower == pytest.approx(both.lower, abs=1e-4)
    # Through dependence the second record is told about too, but less: two bits share 0.9 nats.
    assert 0 < second.upper < first.lower
    constant = db.entropy_bounded_privacy(np.full((4, 2), 0.5), (2, 2), 0.3)
    assert constant.lower == 0.0
    assert constant.upper <= 1e-4
    alone = db.entropy_bounded_privacy([[0.2, 0.8]], (1, 1), 0.0)
    assert alone.lower == alone.upper == 0.0


def test_an_early_stop_leaves_honest_bounds():
    mechanism = random_mechanism(1, 8, 4)
    exact = db.entropy_bounded_privacy(mechanism, (2, 2, 2), 1.2)
    rough = db.entropy_bounded_privacy(mechanism, (2, 2, 2), 1.2, max_steps=3)
    assert rough.steps == 3
    assert rough.lower <= exact.upper
    assert rough.upper >= exact.lower
    assert rough.gap > exact.gap


@pytest.mark.parametrize(
    ("b", "options", "message"),
    [
        (-0.1, {}, "entropy"),
        (np.nan, {}, "entropy"),
        (np.inf, {}, "entropy"),
        (1.4, {}, "above ln 4"),
        (0.5, {"tol": 0.0}, "tol"),
        (0.5, {"records": []}, "records must name at least one"),
        (0.5, {"records": 1.0}, r"records\[0\] must be a whole number"),
        (0.5, {"records": None, "max_steps": True}, "max_steps"),
        (0.5, {"records": [2]}, r"records\[0\]"),
        (0.5, {"max_steps": 0}, "max_steps"),
    ],
)
def test_bad_input(b, options, message):
    assert_refused(message, db.entropy_bounded_privacy, random_mechanism(0, 4, 2), (2, 2), b, **options)
