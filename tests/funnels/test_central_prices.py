"""Prices between the atoms of a linear program: inside of its dual, and near its optimum."""

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.column_generation import Objective, best_plan
from jaxpriv.column_generation.prices import central_prices, mended_prices
from jaxpriv.funnels.atoms import column_generation, generation
from jaxpriv.funnels.atoms.parts import first_atoms, pool_of
from jaxpriv.funnels.pricing import Priced, blocks_of
from jaxpriv.funnels.pricing.local import LocalPricer
from tests.cases import drawn_joint

from .cases import block_joint, conditional_of


@pytest.mark.parametrize("gap", [1e-2, 1e-5])
@pytest.mark.parametrize("form", ["disclosure", "side", "multiplier"])
@pytest.mark.parametrize("funnel", [True, False])
@pytest.mark.parametrize("joint", [drawn_joint(3, 3, 6), block_joint(4, [(2, 3), (2, 4)])], ids=["connected", "blocks"])
def test_central_prices_are_violated_by_no_atom_and_leave_a_share_of_the_gap(joint, funnel, form, gap):
    blocks = blocks_of(joint)
    random = np.random.default_rng(1)
    pools = tuple(
        pool_of(block, np.vstack([first_atoms(block), random.dirichlet(np.full(len(block.source), 0.3), 40)]))
        for block in blocks
    )
    objective = Objective(funnel, form, {"disclosure": 0.4, "side": 0.05, "multiplier": 0.2}[form])
    plan = best_plan(pools, objective)
    # From prices that the atoms of the plan violate.
    start = tuple(nu + objective.sign * gap * random.uniform(0, 1, nu.shape) for nu in plan.prices)
    prices, lam = central_prices(pools, objective, start, plan.lam, gap)
    line = 0.0
    for pool, nu in zip(pools, prices, strict=True):
        reduced = objective.sign * pool.reduced(nu, lam)
        assert reduced.min() > 0
        line += pool.mass * float(nu @ pool.source)
    left = plan.value - objective.bound(line, lam)
    assert 0 < left < gap


def test_a_search_returns_one_posterior_for_each_support():
    joint = drawn_joint(2, 3, 40)
    conditional = conditional_of(joint)
    prices = np.random.default_rng(0).normal(size=40) * 0.05
    found = LocalPricer(conditional, funnel=True).price(prices, 0.05, 200).posteriors
    assert len(found) > 40
    assert len(np.unique(found > 1e-2, axis=0)) == len(found)


@pytest.mark.parametrize("form", ["disclosure", "side"])
@pytest.mark.parametrize(
    "joint",
    [drawn_joint(3, 3, 6), drawn_joint(5, 4, 9), block_joint(4, [(2, 3), (3, 5)])],
    ids=["3x6", "4x9", "blocks"],
)
def test_mended_prices_are_lower_and_lose_a_part_of_the_violation(joint, form):
    blocks = blocks_of(joint)
    random = np.random.default_rng(2)
    objective = Objective(True, form, {"disclosure": 0.5, "side": 0.03}[form])
    known = tuple(pool_of(block, first_atoms(block)) for block in blocks)
    plan = best_plan(known, objective)
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
    for nu, same in zip(mended, mended_prices(known, mended, plan.lam), strict=True):
        assert np.abs(nu - same).max() <= 1e-6  # nothing is left to mend but rounding


def test_a_funnel_whose_quick_searches_find_symbols_alone_is_proved(monkeypatch):
    """What searches miss is found by proofs, each at prices that what it found has mended."""
    joint = drawn_joint(6, 3, 9)
    most = -float(joint.sum(axis=0) @ np.log(joint.sum(axis=0)))
    problem = jp.FunnelProblem(joint, disclosure=0.8 * most)
    right = jp.solve(problem)
    monkeypatch.setattr(column_generation, "_SMALL", 0)
    monkeypatch.setattr(generation, "_TRIED", 0)
    monkeypatch.setattr(generation, "_LIGHT", 0)
    alone = Priced(-np.inf, False, np.eye(9))
    monkeypatch.setattr(LocalPricer, "price", lambda *_: alone)
    mends = []

    def counted(*given):
        mends.append(given)
        return mended_prices(*given)

    monkeypatch.setattr(generation, "mended_prices", counted)
    found = jp.solve(problem)
    assert mends
    assert found.status == "optimal"
    assert found.lower_bound <= right.upper_bound
    assert right.lower_bound <= found.upper_bound
