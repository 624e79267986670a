"""L - l I(X;Y) of measures with a logarithm: no solve at a disclosure and no random mechanism goes below the bound."""

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage

from .cases import entropy, random_joint, source_of


@pytest.mark.parametrize(
    "measure", [leakage.MaximalLeakage(), leakage.Sibson(2.0), leakage.Arimoto(0.5)], ids=lambda one: one.label
)
def test_the_lagrangian_is_certified(measure):
    joint, price, rng = random_joint(4, 2, 4), 0.3, np.random.default_rng(4)
    problem = jp.FunnelProblem(joint, multiplier=price, leakage=measure)
    found = jp.solve(problem, tol=1e-3)
    assert found.status == "optimal"
    assert found.value == pytest.approx(found.leakage - price * found.disclosure, abs=1e-9)
    wanted = 0.9 * entropy(source_of(joint))
    one = jp.solve(jp.FunnelProblem(joint, disclosure=wanted, leakage=measure), tol=1e-3)
    assert found.lower_bound <= one.value - price * one.disclosure
    for mechanism in rng.dirichlet(np.full(5, 0.1), (200, 4)):
        leaked = leakage.evaluate(measure, joint, mechanism).value
        disclosed = leakage.evaluate(leakage.MutualInformation(), np.diag(source_of(joint)), mechanism).value
        assert found.lower_bound <= leaked - price * disclosed


def test_the_lagrangian_of_maximal_leakage_is_below_what_solves_at_disclosures_proved():
    joint = np.random.default_rng(0).dirichlet(np.ones(12)).reshape(3, 4)
    problem = jp.FunnelProblem(joint, multiplier=0.3, leakage=leakage.MaximalLeakage())
    found = jp.solve(problem)
    assert found.status == "optimal"
    assert found.value <= -0.14636
    assert jp.certify(problem, found).agrees
