"""One shape for the whole folder: compiling a new one costs seconds, another budget or joint costs nothing."""

import itertools

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.testing import random_joint
from tests.cases import budget_at

from .measured_cases import DISTORTION


def _distinct(rows):
    """Whether no two rows are nearly proportional: equal ones would be merged into a smaller problem."""
    rows = rows / rows.sum(axis=1, keepdims=True)
    return all(np.abs(a - b).max() > 1e-2 for a, b in itertools.combinations(rows, 2))


@pytest.fixture(scope="session")
def joint_of():
    """seed -> a joint (3, 4) with zeros that reduces to nothing smaller."""

    def make(seed):
        rng = np.random.default_rng(seed)
        while True:
            joint = random_joint(rng, 3, 4, zeros=0.3)
            if _distinct(joint) and _distinct(joint.T):
                return joint

    return make


@pytest.fixture(scope="session")
def ask(joint_of):
    """(seed, form) -> a problem on `joint_of(seed)` with absolute distortion; `share` sets the budget."""

    def make(seed=0, share=0.4, distortion=DISTORTION, **form):
        joint = joint_of(seed)
        if not form:
            form = {"budget": budget_at(joint, DISTORTION, share)}
        return jp.DistortionProblem(joint, distortion, **form)

    return make


@pytest.fixture(scope="session")
def same():
    """Two certified intervals for one optimum: each must reach into the other, up to `scale` times rounding."""

    def check(a, b, scale=1.0, slack=1e-12):
        assert a.status == "optimal", a.message
        assert b.status == "optimal", b.message
        assert a.lower_bound * scale <= b.value + slack
        assert b.lower_bound <= a.value * scale + slack

    return check
