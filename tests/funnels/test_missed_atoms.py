"""Funnels whose quick searches miss atoms, or have many symbols, are proved."""

import numpy as np

import jaxpriv as jp
from jaxpriv.funnels.atoms import column_generation, generation
from jaxpriv.funnels.pricing import Priced
from jaxpriv.funnels.pricing.local import LocalPricer
from tests.cases import drawn_joint

from .cases import entropy_of


def test_a_funnel_whose_quick_searches_find_symbols_alone_is_proved(monkeypatch):
    """What searches miss is found by proofs."""
    joint = drawn_joint(6, 3, 9)
    problem = jp.FunnelProblem(joint, disclosure=0.8 * entropy_of(joint))
    right = jp.solve(problem)
    alone = Priced(-np.inf, False, np.eye(9))
    for owner, name, value in (
        (column_generation, "_SMALL", 0),
        (generation, "_TRIED", 0),
        (generation, "_LIGHT", 0),
        (LocalPricer, "price", lambda *_: alone),
    ):
        monkeypatch.setattr(owner, name, value)
    found = jp.solve(problem)
    assert found.status == "optimal"
    assert found.lower_bound <= right.upper_bound
    assert right.lower_bound <= found.upper_bound


def test_a_funnel_of_forty_symbols_is_proved():
    """Beyond 32 symbols searches go on within the largest entries of what they reached."""
    joint = drawn_joint(3, 3, 40)
    most = entropy_of(joint)
    found, whole = (jp.solve(jp.FunnelProblem(joint, disclosure=share * most)) for share in (0.9, 1.0))
    assert found.status == "optimal"
    assert found.gap <= 1e-6
    assert found.disclosure >= 0.9 * most - 1e-12
    # The funnel is convex and starts at 0 or above: a mixture of saying all and saying nothing is no better.
    assert found.value <= 0.9 * whole.value + 1e-6
    assert found.verify(jp.FunnelProblem(joint, disclosure=0.9 * most)).valid
