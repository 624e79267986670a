"""Baselines: erasure and merging."""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import jaxpriv.leakage as lk
from jaxpriv import baselines
from tests.cases import assert_values
from tests.funnels.cases import entropy

# Erasure and merging


@pytest.mark.parametrize("probability", [0.0, 0.2, 0.9, 1.0])
def test_erasure_in_closed_form(probability):
    prior = np.array([0.5, 0.3, 0.15, 0.05])
    table, joint = baselines.erasure(4, probability), np.diag(prior)
    assert_array_equal(table, np.hstack([(1 - probability) * np.eye(4), np.full((4, 1), probability)]))
    kept = 1 - probability
    expected = {
        lk.MutualInformation(): kept * entropy(prior),
        lk.MaximalLeakage(): math.log1p(kept * 3),
        **dict.fromkeys((lk.MaxLift(), lk.RelativeEntropyPrivacy()), math.log(20) if kept else 0.0),
        lk.MaxInformation(): entropy(prior) if kept else 0.0,
        lk.MinEntropyLeakage(): math.log1p(kept),
        lk.AverageCostGain(lk.BrierLoss()): kept * (1 - prior @ prior),
        **dict.fromkeys((lk.Lift(), lk.LocalDifferentialPrivacy(), lk.MinLift()), math.inf if kept else 0.0),
    }
    assert_values(expected, joint, table, abs=1e-14)
    # f(t) = |t - 1|/2: a kept symbol of mass p has total variation 1 - p.
    distance = kept * np.sum(prior * (1 - prior))
    exact = {lk.CorrectGuess(): kept + probability * 0.5, lk.FInformation(lk.TotalVariation()): distance}
    assert_values(exact, joint, table, abs=1e-15)
    for order in (0.5, 2.0):
        sums = kept * np.sum(prior ** (1 / order)), kept / np.sum(prior**order) ** (1 / order)
        sibson, arimoto = (order / (order - 1) * math.log(one + probability) for one in sums)
        assert_values({lk.Sibson(order): sibson, lk.Arimoto(order): arimoto}, joint, table, abs=1e-13)


def test_complete_merging_is_one_output():
    assert_array_equal(baselines.merging(4), np.ones((4, 1)))
    assert lk.prior_free_cap(baselines.merging(4)) == 0


def test_merging_by_class_leaks_the_class():
    classes = np.array([1, 0, 2, 0, 1])
    table = baselines.merge(classes)
    assert table.dtype == np.float64
    assert_array_equal(table, [[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]])
    joint = np.diag([0.1, 0.2, 0.3, 0.25, 0.15])
    assert_values({lk.MutualInformation(): entropy([0.45, 0.25, 0.3])}, joint, table, abs=1e-14)
    assert_values({lk.MaximalLeakage(): math.log(3), lk.CorrectGuess(): 0.7}, joint, table, abs=1e-15)
    assert_array_equal(baselines.merge([0] * 4), baselines.merging(4))
    assert_array_equal(baselines.merge(np.arange(3.0)), np.eye(3))


def test_dropping_releases_the_other_attributes():
    codes = np.array([[0, 1], [0, 0], [1, 0], [1, 1], [0, 1]])
    assert_array_equal(baselines.dropping(codes, [1]), baselines.merge([0, 0, 1, 1, 0]))
    assert_array_equal(baselines.dropping(codes, (0,)), baselines.merge([1, 0, 0, 1, 1]))
    assert_array_equal(baselines.dropping(codes, [0, 1]), baselines.merging(5))
    # Two symbols of the same attributes are one output; combinations come in sorted order.
    assert_array_equal(baselines.dropping(codes, []), baselines.merge([1, 0, 2, 3, 1]))
