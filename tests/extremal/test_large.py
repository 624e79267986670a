"""Alphabets beyond listing: types, pools, rotations."""

import math

import numpy as np
import pytest

from jaxpriv import leakage, maximum_utility
from jaxpriv.extremal import search
from jaxpriv.extremal.search import BoxSearch, RatioSearch
from jaxpriv.extremal.split import split_at
from tests.cases import thorough
from tests.information import divergence

LDP = leakage.LocalDifferentialPrivacy()


@pytest.mark.parametrize("name", ["dirichlet", "zipf"])
def test_ldp_of_two_hundred_symbols_is_certified(name):
    symbols = 200
    p = np.random.default_rng(0).dirichlet(np.ones(symbols)) if name == "dirichlet" else 1 / np.arange(1, symbols + 1)
    result = maximum_utility(p / p.sum(), (LDP, 1.0))
    assert result.status == "optimal"
    assert result.leakage[0] <= 1.0
    # No source allows more than one whose subsets have any probability one likes.
    kappa = 1 / -math.expm1(-1)
    assert result.upper_bound <= kappa - 1 - math.log(kappa) + 1e-12


def test_few_types_are_exact_at_any_size():
    p = np.repeat([3.0, 2.0, 1.0], [10, 20, 30])
    for measure in (LDP, leakage.MaxLift(), leakage.Lift()):
        result = maximum_utility(p / p.sum(), (measure, 1.0))
        assert result.status == "optimal"
        assert result.gap < 1e-9


@pytest.mark.parametrize("measure", [LDP, leakage.MaxLift(), *thorough(leakage.Lift())])
def test_branch_and_bound_proves_what_pooling_cannot(measure):
    """Few symbols are raised at once: pooled ones would be too coarse."""
    eps = 3.0
    p = np.random.default_rng(0).dirichlet(np.ones(20))
    result = maximum_utility(p, (measure, eps))
    assert result.status == "optimal"
    assert result.mechanism.shape[1] <= 20
    assert result.leakage[0] <= eps


@pytest.mark.parametrize("make", ["ratio", "low", "box"])
def test_the_tree_is_exact(make):
    """Against all vertices, at prices that are not optimal; and cut short, where its bound must hold still."""
    rng = np.random.default_rng(1)
    for _ in range(5):
        p, prices = rng.dirichlet(np.ones(8)), rng.normal(size=8)
        split = split_at(p, 2**16)
        heavy = prices[np.concatenate(split.members)]
        if make == "ratio":
            tree = RatioSearch(p, 1.5)
        else:
            low = 0.0 if make == "low" else 0.4
            tree = BoxSearch(p, low, 2.5)
        wanted, _ = tree.pricer(split).price(heavy, 1)
        highest, lifts = tree.highest(prices, wanted - 0.1)
        assert highest == pytest.approx(wanted, abs=1e-12)
        gain = divergence(lifts, p) - (lifts * p) @ prices
        assert gain.max() == pytest.approx(wanted, abs=1e-12)
        assert tree.highest(prices, wanted + 1e-9)[0] == wanted + 1e-9
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(search, "_WORK", 40)
            assert tree.highest(prices, wanted - 10.0)[0] >= wanted - 1e-12
