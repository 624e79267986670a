"""Baselines: randomised response and subset selection in closed form."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaxpriv.leakage as lk
from jaxpriv import baselines

from .cases import EPSILONS, entropy, ldp, uniform, value

# Randomised response and subset selection


@pytest.mark.parametrize("size", [2, 3, 10])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_randomized_response_in_closed_form(size, epsilon):
    table, joint = baselines.randomized_response(size, epsilon), uniform(size)
    total = math.exp(epsilon) + size - 1
    truth, lie = math.exp(epsilon) / total, 1 / total
    np.testing.assert_allclose(table, np.where(np.eye(size), truth, lie), rtol=1e-14)
    near = {"rel": 1e-12, "abs": 1e-15}
    assert ldp(table) == pytest.approx(epsilon, rel=1e-13, abs=2e-15)
    assert value(lk.InferentialPrivacy(), joint, table) == pytest.approx(epsilon, rel=1e-13, abs=2e-15)
    assert value(lk.MaximalLeakage(), joint, table) == pytest.approx(math.log(size * truth), **near)
    assert value(lk.MinEntropyLeakage(), joint, table) == pytest.approx(math.log(size * truth), **near)
    assert value(lk.MaxLift(), joint, table) == pytest.approx(math.log(size * truth), **near)
    assert value(lk.MinLift(), joint, table) == pytest.approx(-math.log(size * lie), **near)
    assert value(lk.CorrectGuess(), joint, table) == pytest.approx(truth, **near)
    assert float(lk.prior_free_cap(table)) == pytest.approx(math.log(size * truth), **near)
    information = math.log(size) - entropy([truth] + [lie] * (size - 1))
    assert value(lk.MutualInformation(), joint, table) == pytest.approx(information, abs=1e-14)
    assert value(lk.MaxInformation(), joint, table) == pytest.approx(information, abs=1e-14)
    for order in (0.5, 2.0, 10.0):
        renyi = math.log(truth**order + (size - 1) * lie**order) / (1 - order)
        # For a uniform prior Sibson's and Arimoto's informations agree.
        for measure in (lk.Sibson(order), lk.Arimoto(order)):
            assert value(measure, joint, table) == pytest.approx(math.log(size) - renyi, abs=1e-13)
    distance = (truth - 1 / size + (size - 1) * (1 / size - lie)) / 2
    assert value(lk.FInformation(lk.TotalVariation()), joint, table) == pytest.approx(distance, abs=1e-15)
    chi = size * (truth**2 + (size - 1) * lie**2) - 1
    assert value(lk.FInformation(lk.ChiSquared()), joint, table) == pytest.approx(chi, rel=1e-13, abs=1e-14)


@given(size=st.integers(2, 6), epsilon=st.floats(0, 50), seed=st.integers(0, 10**6))
def test_randomized_response_does_not_know_names(size, epsilon, seed):
    table = baselines.randomized_response(size, epsilon)
    order = np.random.default_rng(seed).permutation(size)
    np.testing.assert_array_equal(table[order][:, order], table)


def test_two_randomized_responses_are_a_weaker_one():
    first, second = (baselines.randomized_response(3, eps) for eps in (1.0, 2.0))
    both = first @ second
    np.testing.assert_allclose(both, baselines.randomized_response(3, ldp(both)), rtol=1e-14)
    assert ldp(both) < 1.0


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
    cap = math.log(math.comb(size, subset) * math.exp(epsilon) / total)
    assert value(lk.MaximalLeakage(), uniform(size), table) == pytest.approx(cap, abs=1e-14)
    # The posterior given a set: m on each member, m e^-eps on the others.
    weights = np.array([1.0] * subset + [math.exp(-epsilon)] * (size - subset))
    information = math.log(size) - entropy(weights / weights.sum())
    assert value(lk.MutualInformation(), uniform(size), table) == pytest.approx(information, abs=1e-14)
    assert value(lk.CorrectGuess(), uniform(size), table) == pytest.approx(1 / weights.sum(), abs=1e-15)


def test_one_member_subsets_are_randomized_response():
    for epsilon in EPSILONS:
        np.testing.assert_allclose(
            baselines.subset_selection(6, epsilon, 1), baselines.randomized_response(6, epsilon), rtol=1e-15
        )
