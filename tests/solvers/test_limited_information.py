"""Mutual information and limits on it far below what the data tell, with all their digits."""

import decimal

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.program import program_of
from tests.information import certify


def exact_information(joint, mechanism):
    """I(S;Y) of normalised tables with fifty digits."""
    with decimal.localcontext() as context:
        context.prec = 50
        p, w = ([[decimal.Decimal(float(one)) for one in row] for row in table] for table in (joint, mechanism))
        w = [[one / sum(row) for one in row] for row in w]
        table = np.array(p, dtype=object) @ np.array(w, dtype=object)
        table = table / table.sum()
        independent = np.outer(table.sum(axis=1), table.sum(axis=0))
        terms = zip(table.ravel(), independent.ravel(), strict=True)
        return float(sum(one * (one / other).ln() for one, other in terms))


def nearly_independent(seed, size, apart):
    """P(s)P(x)(1 + apart z), whose information is of the order of apart^2."""
    rng = np.random.default_rng(seed)
    joint = np.outer(rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size)))
    joint = joint * (1.0 + apart * rng.standard_normal(joint.shape))
    return joint / joint.sum()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("apart", [1e-3, 1e-5, 1e-7])
def test_small_values_keep_their_digits(apart, seed):
    """In the certificate: rounding of the masses by eps changes them by eps/apart of themselves."""
    joint = nearly_independent(seed, 5, apart)
    mechanism = np.random.default_rng(seed).dirichlet(np.ones(4), 5)
    exact = exact_information(joint, mechanism)
    program = program_of(jp.DistortionProblem(joint, np.eye(5, 4), leakage_budget=exact))
    proof = certify(program, mechanism, np.zeros((1, 4, 5)), [1.0], [])
    assert proof.leakages[0] == pytest.approx(exact, rel=64 * np.finfo(float).eps / apart)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("apart", "share"), [(1e-3, 1e-3), (1e-5, 0.3), (1e-5, 1e-2)])
def test_small_limits_of_nearly_independent_joints_are_certified(apart, share, seed):
    """Limits of 3e-10 to 3e-13 nats, at prices of 7e7 to 3e11."""
    joint = nearly_independent(seed, 8, apart)
    limit = share * exact_information(joint, np.eye(8))
    problem = jp.DistortionProblem(joint, 1.0 - np.eye(8), leakage_budget=limit)
    found = jp.solve(problem)
    assert found.status == "optimal"
    assert exact_information(joint, np.asarray(found.mechanism)) <= limit * (1 + 1e-6)
    assert found.value < 0.99 * (1.0 - joint.sum(axis=0).max())  # what an independent release costs
