"""Baselines: randomised response and subset selection in closed form."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv.leakage as lk
from jaxpriv import baselines
from tests.cases import assert_values
from tests.funnels.cases import entropy

from .cases import EPSILONS, ldp, uniform

# Randomised response and subset selection


@pytest.mark.parametrize("size", [2, 3, 10])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_randomized_response_in_closed_form(size, epsilon):
    table, joint = baselines.randomized_response(size, epsilon), uniform(size)
    total = math.exp(epsilon) + size - 1
    truth, lie = math.exp(epsilon) / total, 1 / total
    assert_allclose(table, np.where(np.eye(size), truth, lie), rtol=1e-14)
    highest, near = math.log(size * truth), {"rel": 1e-12, "abs": 1e-15}
    ratios = dict.fromkeys((lk.LocalDifferentialPrivacy(), lk.InferentialPrivacy()), epsilon)
    assert_values(ratios, joint, table, rel=1e-13, abs=2e-15)
    lifts = dict.fromkeys((lk.MaximalLeakage(), lk.MinEntropyLeakage(), lk.MaxLift()), highest)
    lowest = -math.log(size * lie)
    sides = {lk.MinLift(): lowest, lk.Lift(): max(lowest, highest), lk.CorrectGuess(): truth}
    assert_values(lifts | sides, joint, table, **near)
    assert float(lk.prior_free_cap(table)) == pytest.approx(highest, **near)
    information = math.log(size) - entropy([truth] + [lie] * (size - 1))
    assert_values({lk.MutualInformation(): information, lk.MaxInformation(): information}, joint, table, abs=1e-14)
    for order in (0.5, 2.0, 10.0):
        renyi = math.log(truth**order + (size - 1) * lie**order) / (1 - order)
        # For a uniform prior Sibson's and Arimoto's informations agree.
        both = dict.fromkeys((lk.Sibson(order), lk.Arimoto(order)), math.log(size) - renyi)
        assert_values(both, joint, table, abs=1e-13)
    distance = (truth - 1 / size + (size - 1) * (1 / size - lie)) / 2
    assert_values({lk.FInformation(lk.TotalVariation()): distance}, joint, table, abs=1e-15)
    chi = size * (truth**2 + (size - 1) * lie**2) - 1
    assert_values({lk.FInformation(lk.ChiSquared()): chi}, joint, table, rel=1e-13, abs=1e-14)


@pytest.mark.parametrize("subset", [1, 2, 3, 4, 5])
def test_subset_selection_in_closed_form(subset):
    size, epsilon = 5, 1.7
    table = baselines.subset_selection(size, epsilon, subset)
    inside, outside = math.comb(size - 1, subset - 1), math.comb(size - 1, subset)
    total = inside * math.exp(epsilon) + outside
    for y, members in enumerate(itertools.combinations(range(size), subset)):
        for x in range(size):
            assert table[x, y] == pytest.approx((math.exp(epsilon) if x in members else 1) / total, rel=1e-14)
    assert ldp(table) == pytest.approx(epsilon if subset < size else 0.0, abs=1e-14)
    # The posterior given a set: m on each member, m e^-eps on the others.
    weights = np.array([1.0] * subset + [math.exp(-epsilon)] * (size - subset))
    expected = {
        lk.MaximalLeakage(): math.log(math.comb(size, subset) * math.exp(epsilon) / total),
        lk.MutualInformation(): math.log(size) - entropy(weights / weights.sum()),
    }
    assert_values(expected, uniform(size), table, abs=1e-14)
    assert_values({lk.CorrectGuess(): 1 / weights.sum()}, uniform(size), table, abs=1e-15)
