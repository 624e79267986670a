"""Statements of the papers that do not hold as printed, each with its counterexample."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import entr

import jaxpriv.leakage as lk
from jaxpriv import databases as db


def two_posteriors(m):
    """p = (1/2, m times 1/(2m)); two equally likely outputs with posteriors (3/4, ..), (1/4, ..)."""
    prior = np.append(0.5, np.full(m, 0.5 / m))
    mechanism = np.vstack([[0.75, 0.25], np.tile([0.25, 0.75], (m, 1))])
    return np.diag(prior), mechanism


def test_theorem_3_does_not_bound_the_worst_outcome():
    """Calmon-Fawaz, Theorem 3's remark: information privacy eps bounds H(S) - H(S|U=u) on average only.

    Their proof writes H(S) - H(S|U=u) as a divergence from the prior, which it is for a uniform prior only.
    """
    eps = math.log(2)
    worst = []
    measures = (lk.Lift(), lk.MaxInformation(), lk.RelativeEntropyPrivacy(), lk.MutualInformation())
    for m in (1000, 2000):
        joint, mechanism = two_posteriors(m)
        found = [result.value for result in lk.evaluate_all(measures, joint, mechanism)]
        values = dict(zip(("lift", "definition 4", "divergence", "average"), found, strict=True))
        assert values["lift"] == pytest.approx(eps)
        assert values["average"] <= values["divergence"] + 1e-12 <= eps
        assert values["definition 4"] <= eps + (1 - math.exp(-eps)) * entr(np.diag(joint)).sum()
        worst.append(values["definition 4"])
        if m == 1000:
            assert values["definition 4"] == pytest.approx(1.86, abs=0.005)
    # Grows like (ln m)/4, so no function of eps bounds it.
    assert worst[1] - worst[0] == pytest.approx(math.log(2) / 4, abs=1e-3)


def test_information_privacy_of_wu_is_one_sided():
    """Wu's Definition 4 holds with ln 2 for a mechanism that excludes a symbol: no differential privacy follows."""
    certain = np.eye(2)
    found = db.ladder(certain, [0.5, 0.5], (2,))
    assert found.information.value == pytest.approx(math.log(2))
    assert found.inferential.value == np.inf
    assert db.information_privacy(certain, [0.5, 0.5], (2,), two_sided=True).value == np.inf


def test_the_steps_of_wus_proposition_2_are_strict():
    """eps of one rung bounds the next; the other direction fails by any factor."""
    rare = np.array([[1.0, 0.0], [0.999, 0.001]])
    steps = db.ladder(rare, [0.5, 0.5], (2,))
    assert steps.mutual_information.value < 1e-3
    assert steps.relative_entropy.value == pytest.approx(math.log(2))
    often = db.ladder(np.array([[0.5, 0.5], [0.01, 0.99]]), [0.001, 0.999], (2,))
    assert often.relative_entropy.value < 0.1 * often.information.value


def test_theorem_4_differential_privacy_bounds_no_leakage():
    """eps = 0.1 for one record, yet more than any fixed number of nats, growing with n/k at fixed k eps."""
    values = [db.sparse_count_leakage(100 * groups, 100, 0.1) for groups in (10, 100, 1000, 10_000)]
    assert all(later - earlier > 2 for earlier, later in itertools.pairwise(values))
