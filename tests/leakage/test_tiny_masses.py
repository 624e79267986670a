"""Masses down to the smallest float64: every measure against its definition in decimal numbers of sixty digits."""

import math

import numpy as np
import pytest

import jaxpriv.leakage as lk
from tests.cases import drawn_joint, value_of

from .definitions import definitions

ORDERS = [("sibson", 0.5), ("sibson", 2.0), ("sibson", 1000.0), ("arimoto", 0.5), ("arimoto", 10.0)]
# Tables of gains, losses and neighbours are for four private symbols.
NAMES = [
    *("mutual-information", "relative-entropy", "max-information", "max-lift", "min-lift", "lift", "ldp"),
    *("maximal-leakage", "correct-guess", "min-entropy", "chi-squared", "total-variation", "hellinger"),
    *("jensen-shannon", "reverse-kl"),
]
KINDS = ("symbol", "rare symbol", "rare input", "rare output", "two rare symbols")


def instance(kind, tiny):
    rng = np.random.default_rng(0)
    if kind == "symbol":  # one that is seen with certainty
        return np.array([[tiny, 0.0], [0.0, 1.0]]), np.eye(2)
    joint, mechanism = drawn_joint(rng, 3, 3), rng.dirichlet(np.ones(4), size=3)
    own = np.array([[0.0, 0.0, 0.0, 1.0], [0.3, 0.2, 0.5, 0.0], [0.1, 0.6, 0.3, 0.0]])
    if kind == "rare symbol":
        joint[0] *= tiny
    if kind == "rare input":
        joint[:, 0] *= tiny
        mechanism = own
    if kind == "rare output":
        mechanism[:, 0] *= tiny
    if kind == "two rare symbols":
        joint[:2] *= tiny * np.array([[1.0], [3.0]])
        joint[2, 0] = 0.0
        mechanism = own
    return joint / joint.sum(), mechanism / mechanism.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tiny", [1e-160, 1e-289, 1e-300, 1e-307, 1e-310, 5e-324])
def test_every_measure_has_its_value(kind, tiny, measures):
    joint, mechanism = instance(kind, tiny)
    exact = definitions(joint, mechanism, measures, [order for _, order in ORDERS])
    chosen = {name: measures[name] for name in NAMES}
    chosen |= {f"{name} {order}": lk.by_name(name, order=order) for name, order in ORDERS}
    # Subnormal masses have fewer digits: 14 of 1e-310, and what they are multiplied by is less than one.
    accuracy = 1e-12 if tiny > 1e-308 else 1e-11
    found = lk.evaluate_all(tuple(chosen.values()), joint, mechanism)
    for (name, measure), one in zip(chosen.items(), found, strict=True):
        assert one.value == pytest.approx(exact[name], rel=accuracy, abs=accuracy), name
        if tiny > 1e-308:  # a measure that is called with arrays takes normal numbers
            assert float(measure(joint, mechanism)) == pytest.approx(exact[name], rel=1e-12, abs=1e-12), name


def test_a_product_that_is_no_float64_is_not_a_missing_pair():
    """A rare symbol and a rare output of a release that ignores the data: 0, also of what is infinite at a zero."""
    joint, mechanism = np.array([[1e-295], [1.0]]), np.array([[4e-290, 1.0 - 4e-290]])
    for divergence in (lk.ReverseKullbackLeibler(), lk.KullbackLeibler()):
        assert value_of(lk.FInformation(divergence), joint, mechanism) == pytest.approx(0.0, abs=1e-15)


def test_a_rare_output_takes_no_digits_from_the_others():
    joint = np.array([[0.18, 0.11], [0.05, 0.18], [0.02, 0.46]])
    mechanism = np.array([[6e-11, 6e-291, 1.0, 3e-10], [4e-11, 5e-292, 1.0, 2e-12]])
    joint, mechanism = joint / joint.sum(), mechanism / mechanism.sum(axis=1, keepdims=True)
    given = joint / joint.sum(axis=1, keepdims=True) @ mechanism
    exact = math.log1p(math.fsum((given.max(axis=0) - given[0]).tolist()))
    assert value_of(lk.MaximalLeakage(), joint, mechanism) == pytest.approx(exact, abs=1e-15)


def test_the_value_is_a_limit_of_the_certificate():
    """The value that `certify` computes of a design is that of `evaluate`, where a symbol is rare."""
    import jaxpriv as jp

    joint = np.array([[1e-300, 0.0], [0.0, 1.0]])
    for measure in (lk.MaxLift(), lk.RelativeEntropyPrivacy()):
        problem = jp.DistortionProblem(joint, 1 - np.eye(2), leakage=measure, budget=0.0)
        solution = jp.solve(problem)
        proof = jp.certify(problem, solution)
        value = value_of(measure, joint, np.asarray(solution.mechanism))
        assert proof.value == pytest.approx(value, rel=1e-12)
        assert proof.lower_bound <= value
        assert float(solution.value) == pytest.approx(value, rel=1e-12)
