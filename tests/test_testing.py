"""The shipped instances are what they promise: joints that keep their symbols, mechanisms, named families."""

import numpy as np
import pytest

from jaxpriv.testing import DEGENERATE, binary_entropy, degenerate, known_problems, random_joint, random_mechanisms
from tests.cases import refused


def test_random_joints_keep_every_symbol():
    for seed in range(20):
        joint = random_joint(seed, 3, 5, zeros=0.9, concentration=0.1)
        assert joint.sum() == pytest.approx(1, abs=1e-15)
        assert joint.sum(axis=0).min() > 0
        assert joint.sum(axis=1).min() > 0
        assert (joint == 0).sum() >= 3
    np.testing.assert_array_equal(random_joint(1, 3, 5), random_joint(1, 3, 5))
    assert (random_joint(1, 3, 5) > 0).all()


def test_random_mechanisms_are_mechanisms_of_every_kind():
    many = random_mechanisms(0, 64, 4, 5)
    np.testing.assert_allclose(many.sum(axis=2), 1, atol=1e-15)
    assert many.min() >= 0
    deterministic = (many.max(axis=2) == 1).all(axis=1)
    assert 8 <= deterministic.sum() < 48


@pytest.mark.parametrize("name", DEGENERATE)
def test_families_have_their_property(name):
    problem = degenerate(name, 8, seed=3)
    joint = problem.joints[0]
    assert joint.sum() == pytest.approx(1, abs=1e-12)
    present, posterior, mass = joint > 0, joint / joint.sum(axis=0), joint.sum(axis=0)
    holds = {
        "zeros": lambda: (~present).mean() > 0.4,
        "S=X": lambda: np.array_equal(present, np.eye(8, dtype=bool)),
        "X=f(S)": lambda: (present.sum(axis=1) == 1).all() and joint.shape == (8, 2),
        "S=f(X)": lambda: (present.sum(axis=0) == 1).all() and joint.shape == (2, 8),
        "independent": lambda: np.ptp(posterior, axis=1).max() < 1e-14,
        "tiny masses": lambda: mass.min() < 1e-4 * mass.max(),
        "twins": lambda: np.array_equal(joint[:, :4], joint[:, 4:]),
    }
    assert holds[name]()


def test_unknown_families_are_refused():
    with refused(r"^name 'sparse' is unknown; known: zeros, S=X"):
        degenerate("sparse", 8)
    with refused(r"^n must be at least 4"):
        degenerate("zeros", 3)


def test_known_values_are_consistent():
    known = known_problems()
    assert len({one.name for one in known}) == len(known)
    assert all(one.lower <= one.upper for one in known)
    assert binary_entropy(0.5) == pytest.approx(np.log(2), rel=1e-15)
    assert binary_entropy(0.0) == binary_entropy(1.0) == 0
