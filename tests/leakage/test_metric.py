"""Log-ratios with a scale for each symbol or pair: values, and what is refused (designs: `tests/grid`)."""

import math

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.testing import random_joint
from tests.cases import assert_refused, distances, value_of

JOINT = random_joint(3, 3, 4)
TABLE = distances(4)
SCALES = np.array([[0.0, 0.4, 0.9], [0.3, 0.0, 0.5], [math.inf, 0.6, 0.0]])
EACH = np.array([0.2, 0.5, 0.3])


def value(measure, joint=JOINT, mechanism=None):
    mechanism = np.random.default_rng(1).dirichlet(np.ones(5), 4) if mechanism is None else mechanism
    return value_of(measure, joint, mechanism)


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


def test_an_absent_symbol_is_left_out_with_its_scale():
    joint = np.insert(JOINT, 1, 0.0, axis=0)
    scales = np.insert(np.insert(SCALES, 1, 0.01, axis=0), 1, 0.01, axis=1)
    assert value(lk.MetricPrivacy(scales), joint) == pytest.approx(value(lk.MetricPrivacy(SCALES)), rel=1e-12)
    found, expected = (
        jp.solve(jp.DistortionProblem(table, TABLE, leakage=lk.MetricPrivacy(apart), leakage_budget=1.0)).value
        for table, apart in ((joint, scales), (JOINT, SCALES))
    )
    assert found == pytest.approx(expected, abs=1e-7)
    each = np.insert(EACH, 1, 0.01)
    assert value(lk.SymbolMaxLift(each), joint) == pytest.approx(value(lk.SymbolMaxLift(EACH)), rel=1e-12)


def test_what_is_refused():
    for scales in ([0.1, 0.0], [0.1, math.inf]):
        assert_refused("scales", lk.SymbolMaxLift, scales)
    for scales in (np.zeros((2, 2)), np.ones((2, 3))):
        assert_refused("scales", lk.MetricPrivacy, scales)
    assert_refused("scales is for 2 private symbols", value, lk.MetricPrivacy(np.ones((2, 2))))
    assert_refused(
        "use leakage_budget, which minimises the distortion",
        jp.solve,
        jp.DistortionProblem(JOINT, TABLE, leakage=lk.MetricPrivacy(SCALES), budget=0.3),
    )
    assert_refused("limits of its own", jp.maximum_utility, JOINT, (lk.SymbolMaxLift(EACH), 1.0))
