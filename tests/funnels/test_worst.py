"""Funnels of pointwise measures: a release within the limit, and a proof that a smaller limit is too small."""

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage
from jaxpriv.errors import InputError
from jaxpriv.extremal import maximum_utility

from .cases import entropy, random_joint, source_of

MEASURES = [leakage.MaxLift(), leakage.Lift(), leakage.LocalDifferentialPrivacy()]


@pytest.mark.parametrize("measure", MEASURES, ids=lambda one: type(one).__name__)
def test_the_least_limit_is_certified(measure):
    joint, rng = random_joint(8, 3, 6), np.random.default_rng(8)
    target = 0.85 * entropy(source_of(joint))
    problem = jp.FunnelProblem(joint, disclosure=target, leakage=measure)
    found = jp.solve(problem)
    assert found.status == "optimal"
    assert found.disclosure >= target
    assert leakage.evaluate(measure, joint, found.mechanism).value <= found.upper_bound
    assert jp.certify(problem, found).agrees
    assert maximum_utility(joint, (measure, found.lower_bound)).upper_bound < target
    # Posteriors within the bound, at random, disclose less.
    best = 0.0
    for _ in range(300):
        mechanism = found.mechanism * np.exp(0.2 * rng.normal(size=found.mechanism.shape))
        mechanism /= mechanism.sum(axis=1, keepdims=True)
        if leakage.evaluate(measure, joint, mechanism).value <= found.lower_bound:
            best = max(best, leakage.evaluate(leakage.MutualInformation(), np.diag(source_of(joint)), mechanism).value)
    assert best < target
    back = jp.solve(jp.FunnelProblem(joint, leakage_budget=found.value, leakage=measure))
    assert back.status == "optimal"
    assert back.value >= target - 1e-9


def test_without_time_the_target_is_met():
    joint = random_joint(8, 3, 6)
    for form, target in (("disclosure", 1.0), ("leakage_budget", 0.1)):
        problem = jp.FunnelProblem(joint, leakage=leakage.MaxLift(), **{form: target})
        found = jp.solve(problem, time_limit=1e-9)
        assert found.status == "best_known"
        assert found.disclosure >= 1.0 if form == "disclosure" else found.leakage <= 0.1
        assert found.lower_bound <= found.value <= found.upper_bound


def test_no_leakage_is_found_where_it_is_enough():
    joint = random_joint(9, 3, 8)
    found = jp.solve(jp.FunnelProblem(joint, disclosure=0.05, leakage=leakage.MaxLift()))
    assert found.status == "optimal"
    assert found.value <= 1e-6


def test_what_is_no_funnel_of_a_worst_outcome_is_named():
    joint = random_joint(9, 3, 5)
    neighbours = np.ones((3, 3), dtype=bool)
    for wanted, word in (
        ({"multiplier": 0.3, "leakage": leakage.MaxLift()}, "multiplier"),
        ({"disclosure": 0.3, "leakage": leakage.MaxInformation()}, "MaxInformation"),
        ({"disclosure": 0.3, "leakage": leakage.LocalDifferentialPrivacy(neighbours)}, "neighbours"),
    ):
        with pytest.raises(InputError, match=word):
            jp.FunnelProblem(joint, **wanted)
    problem = jp.FunnelProblem(joint, disclosure=0.3, leakage=leakage.MaxLift())
    with pytest.raises(InputError, match="average measures"):
        jp.solve(problem, "difference-of-convex")
    with pytest.raises(InputError, match="limit on every posterior"):
        jp.solve(jp.FunnelProblem(joint, disclosure=0.3), "posterior-limit")
