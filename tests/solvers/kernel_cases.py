"""The kernels of whole solves against the method: problems, and what has to be equal."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv import InteriorPoint, leakage as lk
from jaxpriv.testing import random_joint
from tests.cases import assert_one_optimum, assert_proved, spent

each = pytest.mark.usefixtures("instructions")

RATIOS = {
    "ldp": lk.LocalDifferentialPrivacy(),
    "lift": lk.Lift(),
    "max-lift": lk.MaxLift(),
    "min-lift": lk.MinLift(),
    "inferential": lk.InferentialPrivacy(),
}
WORST = RATIOS | {
    "max-information": lk.MaxInformation(),
    "relative-entropy": lk.RelativeEntropyPrivacy(),
    "hidden": lk.MaxInformation(hidden=np.linspace(0.0, 1.5, 5)),
}
# The least cost under a limit on mutual information; the others are least values of a measure within budgets.
LIMITED = "limited information"
INFORMATION = "information"
MEASURES = {**WORST, INFORMATION: lk.MutualInformation()}

SIZES = {
    "cube": (8, 8, 8),
    "odd": (5, 7, 9),
    "few-rows": (2, 13, 6),
    "many-rows": (17, 4, 3),
    "large": (19, 21, 23),
}


class Stepped(InteriorPoint):
    """The method as another class: no kernel takes its place, and it has steps where `kernels_alone` leaves none."""

    step = InteriorPoint.step


def problem_of(name, seed, sizes, budgets=1, joint=None, forbidden=0.0):
    """Random tables and budgets that a random mechanism meets with little room; LIMITED: a limit of .03 nats.

    Without budgets the sum of the leakage and of .3 of the costs; `forbidden`: the share of the pairs, but for cheapest
    ones.
    """
    (private, inputs, outputs), rng = sizes, default_rng(seed)
    joint = random_joint(seed, private, inputs) if joint is None else joint
    if name == LIMITED:
        return limited(seed, sizes, joint=joint)
    tables = [rng.uniform(size=(inputs, outputs)) for _ in range(max(budgets, 1))]
    if not budgets:
        return jp.DistortionProblem(joint, tables[0], leakage=MEASURES[name], multiplier=0.3)
    cheapest = tables[0] == tables[0].min(axis=1, keepdims=True)
    inside = 0.8 * cheapest + 0.2 * rng.dirichlet(np.ones(outputs), size=inputs)
    limits = [1.02 * spent(joint, table, inside) for table in tables]
    tables[0][(rng.uniform(size=(inputs, outputs)) < forbidden) & ~cheapest] = np.inf
    return jp.DistortionProblem(joint, tables, leakage=MEASURES[name], budget=limits)


def limited(seed, sizes, limit=0.03, joint=None):
    private, inputs, outputs = sizes
    joint = random_joint(seed, private, inputs) if joint is None else joint
    table = default_rng(seed).uniform(size=(inputs, outputs))
    return jp.DistortionProblem(joint, table, leakage_budget=limit)


def both(problem, tol=1e-8, max_steps=None, **options):
    """The solution by the kernel and the one by steps; `options` are fields of the method."""
    return [jp.solve(problem, kind(**options), tol=tol, max_steps=max_steps) for kind in (InteriorPoint, Stepped)]


def degenerate(kind):
    joint = random_joint(3, 5, 5)
    if kind == "zero-mass":
        joint[-1], joint[:, -1] = 0.0, 0.0
    elif kind == "diagonal":
        joint = np.diag(np.diag(joint))
    elif kind == "equal-rows":
        joint[1] = 2.0 * joint[0]
    elif kind == "zeros":
        joint = joint * (default_rng(0).uniform(size=joint.shape) > 0.4) + 1e-3 * np.eye(5)
    elif kind == "rare":
        joint[:, 0] *= 1e-9
    return joint / joint.sum()


def compare(problem):
    """A solve by the kernel and by the method: the kernel's is proved, in about as many steps."""
    found, wanted = both(problem)
    assert_proved(problem, found, 1e-8)
    assert_one_optimum(found, wanted, 1e-12)
    # With few rows the method takes a less accurate form of the Newton system.
    assert found.steps <= wanted.steps + 2
    if found.steps == wanted.steps and not problem.form.minimax:
        assert found.value == pytest.approx(wanted.value, abs=1e-9)
        assert found.lower_bound == pytest.approx(wanted.lower_bound, abs=1e-9)


def assert_same_run(found, wanted, tolerance):
    """As many steps, and everything that is found in them to rounding."""
    assert found.steps == wanted.steps
    for name in ("mechanism", "value", "scores", "weights", "multipliers", "lower_bound"):
        expected = np.asarray(getattr(wanted, name))
        assert_allclose(getattr(found, name), expected, rtol=0, atol=tolerance * (1.0 + abs(expected).max(initial=0.0)))
