"""Prices that a proof has shown to be violated are mended, and searches of many symbols end in a proof."""

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.column_generation import Objective, best_plan
from jaxpriv.column_generation.prices import mended_prices
from jaxpriv.funnels.atoms import column_generation, generation
from jaxpriv.funnels.atoms.parts import first_atoms, pool_of
from jaxpriv.funnels.pricing import Priced, blocks_of
from jaxpriv.funnels.pricing.local import LocalPricer
from tests.cases import drawn_joint

from .cases import block_joint, entropy_of


@pytest.mark.parametrize("joint", [drawn_joint(5, 4, 9), block_joint(4, [(2, 3), (3, 5)])], ids=["4x9", "blocks"])
def test_mended_prices_are_lower_and_lose_a_part_of_the_violation(joint):
    blocks = blocks_of(joint)
    random = np.random.default_rng(2)
    known = tuple(pool_of(block, first_atoms(block)) for block in blocks)
    plan = best_plan(known, Objective(True, "disclosure", 0.5))
    # Of each block the atom that violates the prices of the plan most, beside those that do not.
    others = tuple(pool_of(block, random.dirichlet(np.full(len(block.source), 0.3), 500)) for block in blocks)
    reduced = [other.reduced(nu, plan.lam) for other, nu in zip(others, plan.prices, strict=True)]
    pools = tuple(
        pool + other.take(np.append(np.flatnonzero(cost >= 0), np.argmin(cost)))
        for pool, other, cost in zip(known, others, reduced, strict=True)
    )
    violations = [-float(cost.min()) for cost in reduced]
    assert min(violations) > 1e-3
    mended = mended_prices(pools, plan.prices, plan.lam)
    for pool, old, nu, violation in zip(pools, plan.prices, mended, violations, strict=True):
        assert (nu <= old).all()
        left = pool.reduced(nu, plan.lam)
        source, atom = pool.source, pool.posteriors[-1]
        lost = source @ (old - nu) - min(0.0, left.min())
        cheapest = (source[atom > 0] / atom[atom > 0]).min()
        assert cheapest < 0.9
        assert 0 < lost <= cheapest * violation * (1 + 1e-7) + 1e-9


def test_a_funnel_whose_quick_searches_find_symbols_alone_is_proved(monkeypatch):
    """What searches miss is found by proofs, each at prices that what it found has mended."""
    joint = drawn_joint(6, 3, 9)
    problem = jp.FunnelProblem(joint, disclosure=0.8 * entropy_of(joint))
    right, mends = jp.solve(problem), []
    alone = Priced(-np.inf, False, np.eye(9))
    for owner, name, value in (
        (column_generation, "_SMALL", 0),
        (generation, "_TRIED", 0),
        (generation, "_LIGHT", 0),
        (LocalPricer, "price", lambda *_: alone),
        (generation, "mended_prices", lambda *given: mends.append(given) or mended_prices(*given)),
    ):
        monkeypatch.setattr(owner, name, value)
    found = jp.solve(problem)
    assert mends
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
