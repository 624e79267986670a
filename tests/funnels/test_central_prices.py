"""Prices between the atoms of a linear program: inside of its dual, and near its optimum."""

import numpy as np
import pytest

from jaxpriv.funnels.atoms.master import Objective, Part, best_plan, central_prices, first_atoms, pool_of
from jaxpriv.funnels.pricing import blocks_of
from jaxpriv.funnels.pricing.local import LocalPricer

from .cases import block_joint, random_joint


@pytest.mark.parametrize("gap", [1e-2, 1e-5])
@pytest.mark.parametrize("form", ["disclosure", "side", "multiplier"])
@pytest.mark.parametrize("funnel", [True, False])
@pytest.mark.parametrize(
    "joint", [random_joint(3, 3, 6), block_joint(4, [(2, 3), (2, 4)])], ids=["connected", "blocks"]
)
def test_central_prices_are_violated_by_no_atom_and_leave_a_share_of_the_gap(joint, funnel, form, gap):
    parts = tuple(Part(block, None, None) for block in blocks_of(joint))
    random = np.random.default_rng(1)
    pools = tuple(
        pool_of(
            part.block, np.vstack([first_atoms(part.block), random.dirichlet(np.full(len(part.block.source), 0.3), 40)])
        )
        for part in parts
    )
    objective = Objective(funnel, form, {"disclosure": 0.4, "side": 0.05, "multiplier": 0.2}[form])
    plan = best_plan(parts, pools, objective)
    # From prices that the atoms of the plan violate.
    start = tuple(nu + objective.sign * gap * random.uniform(0, 1, nu.shape) for nu in plan.prices)
    prices, lam = central_prices(parts, pools, objective, start, plan.lam, gap)
    line = 0.0
    for part, pool, nu in zip(parts, pools, prices, strict=True):
        reduced = objective.sign * (pool.a - lam * pool.b - pool.posteriors @ nu)
        assert reduced.min() > 0
        line += part.block.mass * float(nu @ part.block.source)
    left = plan.value - objective.bound(line, lam)
    assert 0 < left < gap


def test_a_search_returns_one_posterior_for_each_support():
    joint = random_joint(2, 3, 40)
    conditional = joint / joint.sum(axis=0)
    prices = np.random.default_rng(0).normal(size=40) * 0.05
    found = LocalPricer(conditional, funnel=True).price(prices, 0.05, 200).posteriors
    assert len(found) > 40
    assert len(np.unique(found > 1e-2, axis=0)) == len(found)
