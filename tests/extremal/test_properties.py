"""Inequalities between optimal values."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from jaxpriv import leakage, maximum_utility
from tests.cases import value_of

MEASURES = st.sampled_from([leakage.LocalDifferentialPrivacy(), leakage.MaxLift(), leakage.Lift(), leakage.MinLift()])
LEVEL = st.floats(0.02, 4.0)
SOURCES = st.lists(st.integers(1, 20), min_size=2, max_size=6).map(lambda n: np.array(n) / sum(n))


@settings(max_examples=30)
@given(source=SOURCES, measure=MEASURES, eps=LEVEL, more=LEVEL)
def test_one_source(source, measure, eps, more):
    result = maximum_utility(source, (measure, eps))
    entropy = -source @ np.log(source)
    assert result.status == "optimal"
    assert 0 <= result.value <= result.upper_bound <= entropy + 1e-12
    if not isinstance(measure, leakage.MinLift):
        assert result.upper_bound <= eps
    assert result.leakage[0] <= eps
    np.testing.assert_allclose(result.mechanism.sum(axis=1), 1.0, atol=1e-12)
    assert result.mechanism.shape[1] <= len(source)
    found = value_of(leakage.MutualInformation(), np.diag(source), result.mechanism)
    assert result.value == pytest.approx(found, abs=1e-12)
    # A weaker limit allows more; so does an order of the symbols that only has another name.
    assert maximum_utility(source, (measure, eps + more)).upper_bound >= result.value
    assert maximum_utility(source[::-1], (measure, eps)).value == pytest.approx(result.value, abs=1e-9)


@settings(max_examples=15)
@given(source=SOURCES.filter(lambda p: len(p) > 2), measure=MEASURES, eps=LEVEL)
def test_merging_symbols_never_helps(source, measure, eps):
    """A mechanism for merged symbols is one for the symbols, with the same information and leakage."""
    merged = np.append(source[:-2], source[-2:].sum())
    assert maximum_utility(merged, (measure, eps)).value <= maximum_utility(source, (measure, eps)).upper_bound


@settings(max_examples=15)
@given(source=SOURCES, eps=LEVEL, other=LEVEL)
def test_order_of_the_limits(source, eps, other):
    """Lift is both one-sided limits; it implies LDP with twice its eps, and LDP implies lift with its own."""
    lift, ldp = leakage.Lift(), leakage.LocalDifferentialPrivacy()
    sides = [(leakage.MinLift(), other), (leakage.MaxLift(), eps)]
    both = maximum_utility(source, sides)
    assert both.value <= maximum_utility(source, sides[0]).upper_bound
    assert both.value <= maximum_utility(source, sides[1]).upper_bound
    assert both.value <= maximum_utility(source, (ldp, eps + other)).upper_bound
    assert len(both.leakage) == 2
    symmetric = maximum_utility(source, (lift, eps))
    same = maximum_utility(source, [(leakage.MinLift(), eps), (leakage.MaxLift(), eps)])
    assert symmetric.value == pytest.approx(same.value, abs=1e-9)
    assert maximum_utility(source, (ldp, eps)).value <= symmetric.upper_bound


@pytest.mark.parametrize("seed", [7, 13])
def test_very_rare_symbols_have_a_plan(seed):
    """Columns of types are those of symbols up to rounding, which no weights make good for a probability of 1e-13."""
    rng = np.random.default_rng(seed)
    prior = np.maximum(rng.dirichlet(np.full(rng.integers(20, 28), 0.2)), 1e-13)
    limits = [(leakage.MaxLift(), 0.1), (leakage.MinLift(), 3.0)]
    found = maximum_utility(prior / prior.sum(), limits, tol=1e-5)
    assert found.upper_bound - found.value <= 1e-5
    assert all(value <= eps for value, (_, eps) in zip(found.leakage, limits, strict=True))
