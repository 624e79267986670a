"""Log-ratios with a scale for each symbol or pair: values, designs against linear programs, and what is refused."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.errors import InputError
from jaxpriv.testing import random_joint

JOINT = random_joint(3, 3, 4)
TABLE = abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
SCALES = np.array([[0.0, 0.4, 0.9], [0.3, 0.0, 0.5], [math.inf, 0.6, 0.0]])
EACH = np.array([0.2, 0.5, 0.3])


def value(measure, joint=JOINT, mechanism=None):
    mechanism = np.random.default_rng(1).dirichlet(np.ones(5), 4) if mechanism is None else mechanism
    return lk.evaluate(measure, joint, mechanism).value


def least_distortion(rows):
    """min E d over mechanisms (X, Y) with rows @ W <= 0."""
    inputs, outputs = TABLE.shape
    cost = (JOINT.sum(axis=0)[:, None] * TABLE).ravel()
    above = np.kron(rows, np.eye(outputs))
    whole = np.kron(np.eye(inputs), np.ones(outputs))
    return linprog(cost, above, np.zeros(len(above)), whole, np.ones(inputs), bounds=(0, 1)).fun


def solved(measure, limit=1.0):
    return jp.solve(jp.DistortionProblem(JOINT, TABLE, leakage=measure, leakage_budget=limit))


def test_scales_of_one_give_the_measures_without():
    assert value(lk.SymbolMaxLift(np.ones(3))) == pytest.approx(value(lk.MaxLift()), rel=1e-14)
    assert value(lk.MetricPrivacy(np.ones((3, 3)))) == pytest.approx(value(lk.LocalDifferentialPrivacy()), rel=1e-14)
    chain = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    apart = np.where(chain, 1.0, math.inf)
    assert value(lk.MetricPrivacy(apart)) == pytest.approx(value(lk.LocalDifferentialPrivacy(chain)), rel=1e-14)


def test_its_value_is_the_least_multiple_of_the_scales_and_its_witness_attains_it():
    mechanism = np.random.default_rng(1).dirichlet(np.ones(5), 4)
    rows = JOINT / JOINT.sum(axis=1, keepdims=True) @ mechanism
    found = lk.evaluate(lk.MetricPrivacy(SCALES), JOINT, mechanism)
    ratios = np.log(rows[:, None] / rows[None]).max(axis=2)
    pairs = [(a, b) for a in range(3) for b in range(3) if a != b]
    assert found.value == pytest.approx(max(ratios[pair] / SCALES[pair] for pair in pairs), rel=1e-12)
    at = found.witness
    apart = math.log(rows[at.raised, at.output] / rows[at.lowered, at.output])
    assert apart / SCALES[at.raised, at.lowered] == pytest.approx(found.value, rel=1e-12)
    lifts = np.log(rows / (JOINT.sum(axis=0) @ mechanism)).max(axis=1)
    assert value(lk.SymbolMaxLift(EACH)) == pytest.approx((lifts / EACH).max(), rel=1e-12)


def test_designs_are_the_linear_programs_of_the_definitions():
    given, mass = JOINT / JOINT.sum(axis=1, keepdims=True), JOINT.sum(axis=0)
    for limit in (1.0, 0.5):
        by_symbol = solved(lk.SymbolMaxLift(EACH), limit)
        expected = least_distortion(given - np.exp(limit * EACH)[:, None] * mass)
        assert by_symbol.value == pytest.approx(expected, abs=1e-6)
        assert by_symbol.lower_bound <= expected + 1e-9
        metric = solved(lk.MetricPrivacy(SCALES), limit)
        pairs = [(a, b) for a in range(3) for b in range(3) if a != b and np.isfinite(SCALES[a, b])]
        rows = np.array([given[a] - math.exp(limit * SCALES[a, b]) * given[b] for a, b in pairs])
        assert metric.value == pytest.approx(least_distortion(rows), abs=1e-6)
        assert value(lk.MetricPrivacy(SCALES), mechanism=metric.mechanism) <= limit + 1e-7


def test_an_absent_symbol_is_left_out_with_its_scale():
    joint = np.insert(JOINT, 1, 0.0, axis=0)
    scales = np.insert(np.insert(SCALES, 1, 0.01, axis=0), 1, 0.01, axis=1)
    assert value(lk.MetricPrivacy(scales), joint) == pytest.approx(value(lk.MetricPrivacy(SCALES)), rel=1e-12)
    form = {"leakage": lk.MetricPrivacy(scales), "leakage_budget": 1.0}
    found = jp.solve(jp.DistortionProblem(joint, TABLE, **form)).value
    assert found == pytest.approx(solved(lk.MetricPrivacy(SCALES)).value, abs=1e-7)
    each = np.insert(EACH, 1, 0.01)
    assert value(lk.SymbolMaxLift(each), joint) == pytest.approx(value(lk.SymbolMaxLift(EACH)), rel=1e-12)


def test_what_is_refused():
    for scales in ([0.1, 0.0], [0.1, math.inf]):
        with pytest.raises(InputError, match="scales"):
            lk.SymbolMaxLift(scales)
    for scales in (np.zeros((2, 2)), np.ones((2, 3))):
        with pytest.raises(InputError, match="scales"):
            lk.MetricPrivacy(scales)
    with pytest.raises(InputError, match="scales is for 2 private symbols"):
        value(lk.MetricPrivacy(np.ones((2, 2))))
    with pytest.raises(InputError, match="frontier over leakage_budgets"):
        jp.solve(jp.DistortionProblem(JOINT, TABLE, leakage=lk.MetricPrivacy(SCALES), budget=0.3))
    with pytest.raises(InputError, match="limits of its own"):
        jp.maximum_utility(JOINT, (lk.SymbolMaxLift(EACH), 1.0))
