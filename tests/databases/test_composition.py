"""Two answers about one database: what adds, and the three bits for which it does not."""

import math

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose
from scipy.special import entr

from jaxpriv import databases as db
from tests.cases import assert_refusals, assert_refused

from .conftest import mechanisms, random_mechanism


@given(mechanisms(zeros=True))
def test_guarantees_without_a_prior_add(case):
    mechanism, sizes, rng = case
    other = random_mechanism(int(rng.integers(1 << 30)), len(mechanism), 2)
    both = db.compose(mechanism, other)
    assert_allclose(both.sum(axis=1), 1.0)
    for k in range(1, len(sizes) + 1):
        first, second, together = (
            db.dependent_records_privacy(m, sizes, k).per_record for m in (mechanism, other, both)
        )
        assert np.all(together <= first + second + 1e-12)
        assert np.all(together >= np.maximum(first, second) - 1e-12)  # an answer is not taken back
    total = db.all_priors_privacy(mechanism).value + db.all_priors_privacy(other).value
    assert db.all_priors_privacy(both).value <= total + 1e-12


def test_the_sum_is_reached():
    one = db.perturbed_records((2, 2), 0.3)
    assert_allclose(db.dependent_records_privacy(db.compose(one, one, one), (2, 2), 1).value, 0.9)


def test_entropy_bounded_adversaries_do_not_add():
    """b = 3 ln 2: x1^x2^x3 tells nothing about any bit, x2^x3 neither, together they tell x1."""
    sizes, bits = (2, 2, 2), db.sequences((2, 2, 2))
    three = np.eye(2)[bits.sum(axis=1) % 2]
    two = np.eye(2)[(bits[:, 1] + bits[:, 2]) % 2]
    b = 3 * math.log(2)
    for alone in (three, two):
        found = db.entropy_bounded_privacy(alone, sizes, b)
        assert found.lower == found.upper == 0.0
    both = db.entropy_bounded_privacy(db.compose(three, two), sizes, b)
    assert both.lower == both.upper == pytest.approx(math.log(2))
    assert both.record == 0
    # Not an effect of the extreme b: the bounds themselves show it with room for the adversary.
    looser = 2.97 * math.log(2)
    parts = [db.entropy_bounded_privacy(m, sizes, looser).upper for m in (three, two)]
    assert sum(parts) < db.entropy_bounded_privacy(db.compose(three, two), sizes, looser).lower


def test_order_of_the_outputs_is_row_major():
    first, second = random_mechanism(1, 3, 2), random_mechanism(2, 3, 4)
    both = db.compose(first, second).reshape(3, 2, 4)
    assert_allclose(both[1, 1, 2], first[1, 1] * second[1, 2])


def test_bad_input():
    assert_refusals(
        db.compose,
        (r"mechanisms\[1\] has 4 rows", random_mechanism(0, 3, 2), random_mechanism(0, 4, 2)),
        ("at least one",),
        (r"mechanisms\[1\]: row 0", np.eye(2), np.ones((2, 2))),
    )


def test_bounded_knowledge_composes_with_what_the_first_result_leaves():
    """The chain rule, with the entropy of the knowledge after a result from its definition."""
    rng, sizes = np.random.default_rng(5), (2, 2)
    first, second = (0.95 / 3 + 0.05 * random_mechanism(seed, 4, 3) for seed in (1, 2))
    first, second = (m / m.sum(axis=1, keepdims=True) for m in (first, second))
    b = 0.9 * math.log(4)
    left = db.entropy_after(first, b)
    assert 0.3 < left < b
    share = math.exp(-db.all_priors_privacy(first).value)  # of P(.|r) in P
    assert left == pytest.approx((b - entr([share, 1 - share]).sum() - (1 - share) * math.log(4)) / share, abs=1e-12)
    for prior in rng.dirichlet(np.full(4, 3.0), 200):
        if entr(prior).sum() >= b:
            assert entr(prior[:, None] * first / (prior @ first)).sum(axis=0).min() >= left
    parts = [db.entropy_bounded_privacy(first, sizes, b), db.entropy_bounded_privacy(second, sizes, left)]
    both = db.entropy_bounded_privacy(db.compose(first, second), sizes, b)
    assert both.lower <= sum(part.upper for part in parts)
    assert db.entropy_after(np.eye(4), b) == 0.0
    assert db.entropy_after(np.ones((4, 1)), b) == pytest.approx(b, rel=1e-13)
    assert_refused("entropy", db.entropy_after, first, -1.0)
