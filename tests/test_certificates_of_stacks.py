"""One pass over a stack of problems proves what the certificates of its problems prove one by one."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv as jp
from jaxpriv.leakage import by_name
from jaxpriv.program.certificates.verification import certify_stack
from jaxpriv.program.lower import ProblemStack
from jaxpriv.testing import random_joint, random_mechanisms
from tests.cases import AVERAGES

_COUNT, _SIZES = 5, (3, 4, 3)
_MEASURES = [*AVERAGES, by_name("f-information", divergence="total-variation")]


def _problems(measure, joints, form):
    """The second has a private symbol without mass, the third a useful one, two distortions each."""
    private, inputs, outputs = _SIZES
    problems = []
    for i in range(_COUNT):
        each = np.stack([random_joint(7 * i + k, private, inputs) for k in range(joints)])
        if i == 1:
            each[:, 0] = 0.0
        if i == 2:
            each[:, :, 0] = 0.0
        each /= each.sum(axis=(1, 2), keepdims=True)
        tables = np.random.default_rng(i).random((2, inputs, outputs))
        target = {form: [0.3 + 0.1 * i, 0.5]}
        problems.append(jp.DistortionProblem(each, tables, leakage=measure, **target))
    return problems


# The logarithm of an average has no multiplier form.
_STATED = [(one, joints, "budget") for one in _MEASURES for joints in (1, 2)]
_STATED += [(one, 1, "multiplier") for one in _MEASURES if one.scale_for(3).proportional]


@pytest.mark.parametrize(("measure", "joints", "form"), _STATED)
def test_a_stack_proves_what_its_problems_prove(measure, joints, form):
    problems = _problems(measure, joints, form)
    draw, solved = np.random.default_rng(0), jp.solve(problems[-1])  # for the shapes of rules and prices
    mechanisms = random_mechanisms(3, _COUNT, *_SIZES[1:])
    k = draw.normal(size=(_COUNT, *solved.scores.shape[1:]))
    eta, price = np.zeros((_COUNT, *solved.weights.shape)), draw.random((_COUNT, *solved.multipliers.shape))
    found = certify_stack(ProblemStack.of(problems), mechanisms, k, eta, price)
    for i, problem in enumerate(problems):
        own = {"mechanism": mechanisms[i], "scores": k[None, i], "weights": eta[i], "multipliers": price[i]}
        alone = jp.certify(problem, dataclasses.replace(solved, **own))
        assert_allclose(found.value[i], alone.value, rtol=1e-14, atol=1e-15)
        assert_allclose(found.lower_bound[i], alone.lower_bound, rtol=1e-14, atol=1e-15)
        assert_allclose(found.violation[i], alone.violation, rtol=1e-12, atol=1e-15)
        exact = max(float(measure(joint, mechanisms[i])) for joint in problem.joints)
        assert_allclose(found.leakage[i], exact, rtol=1e-9, atol=1e-12)
        masses = problem.joints.sum(axis=1)
        costs = (masses[:, None, :, None] * problem.tables() * mechanisms[i]).sum(axis=(2, 3)).max(axis=0)
        assert_allclose(found.distortion[i], costs, rtol=1e-13)


_LIMITED = ["max-information", "relative-entropy", "max-lift", "lift", "min-lift", "ldp", "inferential"]
_LIMITED_CASES = [(name, joints, form) for name in _LIMITED for joints, form in ((1, "leakage_budget"), (2, "budget"))]
_LIMITED_CASES += [("mutual-information", 2, "leakage_budget"), ("max-information", 2, "leakage_budget")]


@pytest.mark.parametrize(("name", "joints", "form"), _LIMITED_CASES)
def test_a_stack_of_limits_proves_what_its_problems_prove(name, joints, form):
    """Outputs of a mechanism near independence, whose rules are those of a solve: some prove more than 0."""
    draw = np.random.default_rng(1)
    problems = []
    for i in range(3):
        each = np.stack([random_joint(5 * i + k, 3, 4) + 0.3 * np.eye(3, 4) for k in range(joints)])
        if i == 1:
            each[:, :, 3] = 0.0
        each /= each.sum(axis=(1, 2), keepdims=True)
        target = {form: 0.05 + 0.05 * i if form == "leakage_budget" else [0.05 + 0.02 * i]}
        table = draw.random((1, 4, 3))
        table -= table.min(axis=2, keepdims=True)
        problems.append(jp.DistortionProblem(each, table, leakage=by_name(name), **target))
    solved = [jp.solve(problem) for problem in problems]
    parts = (np.stack([np.asarray(getattr(one, part)) for one in solved]) for part in ("scores", "weights"))
    scores, weights = parts
    prices = np.stack([np.asarray(one.multipliers) for one in solved])
    mechanisms = 0.98 * np.stack([np.asarray(one.mechanism) for one in solved]) + 0.02 / 3
    claimed = np.array([float(one.lower_bound) for one in solved])
    claimed[0] *= 1.1  # more than the rules prove
    found = certify_stack(ProblemStack.of(problems), mechanisms, scores[:, 0], weights, prices, claimed)
    for i, problem in enumerate(problems):
        own = dataclasses.replace(solved[i], mechanism=mechanisms[i])
        alone = jp.certify(problem, own)
        assert_allclose(found.value[i], alone.value, rtol=1e-12, atol=1e-14)
        assert_allclose(found.lower_bound[i], alone.lower_bound, rtol=1e-9, atol=1e-9)
        assert_allclose(found.violation[i], alone.violation, rtol=1e-9, atol=1e-15)
        assert_allclose(found.leakage[i], alone.leakage, rtol=1e-12, atol=1e-14)
        assert_allclose(found.distortion[i], alone.distortion, rtol=1e-13)
    assert (found.lower_bound > 0).any()


def test_what_is_no_mechanism_proves_nothing_and_spoils_nothing():
    stack = ProblemStack.of(_problems(by_name("mutual-information"), 1, "budget"))
    mechanisms = random_mechanisms(3, _COUNT, *_SIZES[1:])
    k, eta = np.zeros((_COUNT, 3, 3)), np.zeros((_COUNT, 3, 0))
    price = np.ones((_COUNT, 2))
    whole = certify_stack(stack, mechanisms, k, eta, price)
    broken = mechanisms.copy()
    broken[0, 1, 2] = np.nan
    broken[1] *= 0.5
    broken[2, 0] = [1.5, -0.5, 0.0]
    k[3] = np.nan
    k[4] = np.inf
    found = certify_stack(stack, broken, k, eta, price)
    assert (found.violation[:3] == np.inf).all()
    assert_array_equal(found.violation[3:], whole.violation[3:])
    assert_array_equal(found.value[3:], whole.value[3:])
    assert (found.lower_bound <= found.value)[3:].all()
