"""L - l I(X;Y) of general measures: no solve at a disclosure and no random mechanism goes below the bound."""

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage
from tests.cases import drawn_joint, value_of

from .cases import entropy_of, proved, released


@pytest.mark.parametrize(
    ("measure", "tol"),
    [
        (leakage.MaximalLeakage(), 1e-3),
        (leakage.Sibson(2.0), 1e-3),
        (leakage.Arimoto(0.5), 1e-3),
        (leakage.FInformation(leakage.ChiSquared()), 1e-6),
    ],
    ids=lambda one: getattr(one, "label", ""),
)
def test_the_lagrangian_is_certified(measure, tol):
    joint, price, rng = drawn_joint(4, 2, 4), 0.3, np.random.default_rng(4)
    found = jp.solve(jp.FunnelProblem(joint, multiplier=price, leakage=measure), tol=tol)
    assert found.status == "optimal"
    assert found.value == pytest.approx(found.leakage - price * found.disclosure, abs=1e-9)
    one = jp.solve(jp.FunnelProblem(joint, disclosure=0.9 * entropy_of(joint), leakage=measure), tol=tol)
    assert found.lower_bound <= one.value - price * one.disclosure
    for shape in (0.05, 0.1, 0.2, 1.0):
        for mechanism in rng.dirichlet(np.full(5, shape), (100, 4)):
            leaked, (disclosed, _) = value_of(measure, joint, mechanism), released(joint, mechanism)
            assert found.lower_bound <= leaked - price * disclosed


def test_the_lagrangian_of_maximal_leakage_is_below_what_solves_at_disclosures_proved():
    joint = drawn_joint(0, 3, 4)
    assert proved(jp.FunnelProblem(joint, multiplier=0.3, leakage=leakage.MaximalLeakage())).value <= -0.14636
