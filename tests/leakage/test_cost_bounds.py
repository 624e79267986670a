"""Mutual information bounds the gain of every adversary with a bounded cost; the constant is the best one."""

import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st

import jaxpriv.leakage as lk
from tests.cases import assert_refused, drawn_joint, value_of

SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def measured():
    """(losses (4, 3), joints, mechanisms) -> average gain, maximum gain, I(S;Y), max_y D, for each pair."""

    @jax.jit
    def compiled(losses, joints, mechanisms):
        cost = lk.LossMatrix(losses)
        measures = (
            lk.AverageCostGain(cost),
            lk.MaxCostGain(cost),
            lk.MutualInformation(),
            lk.RelativeEntropyPrivacy(),
        )
        return jax.vmap(lambda joint, mechanism: [measure(joint, mechanism) for measure in measures])(
            joints, mechanisms
        )

    return lambda *arguments: np.stack(compiled(*arguments))


def _losses(rng):
    """Costs of three actions: any numbers, one action right for each s, a few values only, tiny ones."""
    losses = rng.normal(size=(4, 3)) * rng.choice([1e-6, 1.0, 1e6])
    if rng.random() < 0.5:
        losses = np.where(rng.random((4, 3)) < 0.4, -1.0, rng.choice([0.0, 1.0, 5.0]))
    return losses


@given(SEEDS)
def test_no_adversary_gains_more_than_the_bound(measured, instances, seed):
    rng = np.random.default_rng(seed)
    joints, mechanisms = instances(seed)
    losses = _losses(rng)
    low, high, size = losses.min(), losses.max(), np.abs(losses).max()
    ranges = np.ptp(losses, axis=1).max()
    rounding = 1e-12 * size  # rounding of the gains, which are differences of costs
    for average, maximum, information, worst in measured(losses, joints, mechanisms).T:
        assert average <= lk.cost_gain_bound(information, low, high) + rounding
        assert maximum <= lk.cost_gain_bound(worst, low, high) + rounding
        # A part of the cost that depends on s alone changes nothing on average.
        assert average <= lk.cost_gain_bound(information, 0.0, ranges) + rounding
        # As Theorem 1 is stated, with |C| <= L, at half of its constant.
        assert average <= np.sqrt(2) * size * np.sqrt(information) + rounding
        assert maximum <= np.sqrt(2) * size * np.sqrt(worst) + rounding
        assert lk.cost_gain_bound(information, -size, size) <= 2 * size * (1 + 1e-15)


def test_the_constant_is_the_best_one(measured):
    """A fair bit (two of four symbols), posteriors 1/2 +- e, C = +-1: the gain comes to the bound as e falls."""
    losses = np.array([[-1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    for e in (0.3, 0.1, 1e-2, 1e-3, 1e-5):
        joint = np.zeros((1, 4, 5))
        joint[0, :2, :2] = np.array([[0.5 + e, 0.5 - e], [0.5 - e, 0.5 + e]]) / 2
        gains = measured(losses, joint, np.eye(5, 6)[None])[:, 0]
        assert gains[:2] == pytest.approx(2 * e, rel=1e-10)
        for gain, divergence in zip(gains[:2], gains[2:], strict=True):
            ratio = gain / lk.cost_gain_bound(divergence, -1.0, 1.0)
            # I = 2 e^2 (1 + 2/3 e^2 + ...): the ratio is 1 - e^2/3 + O(e^4).
            assert 1 - 0.4 * e**2 - 1e-9 <= ratio <= 1


def test_known_numbers():
    assert lk.cost_gain_bound(0.02, -1.0, 1.0) == pytest.approx(0.2, rel=1e-14)
    assert lk.cost_gain_bound(0.02, -1.0, 1.0) >= 0.2  # rounded up
    assert lk.cost_gain_bound(0.02, 0.0, 1.0) == pytest.approx(0.1, rel=1e-14)
    assert lk.cost_gain_bound(0.02, 5.0, 5.0) == 0
    assert lk.cost_gain_bound(0.0, -1.0, 1.0) == 0
    assert lk.cost_gain_bound(np.inf, -1.0, 1.0) == pytest.approx(2.0, rel=1e-14)  # nobody gains more than the range


def test_bounds_of_a_mechanism():
    joint = np.array([[0.3, 0.2], [0.1, 0.4]])
    mechanism = np.array([[0.9, 0.1], [0.2, 0.8]])
    found = lk.cost_gain_bounds(joint, mechanism, 0.0, 1.0)
    information = value_of(lk.MutualInformation(), joint, mechanism)
    worst = value_of(lk.RelativeEntropyPrivacy(), joint, mechanism)
    assert found.average == lk.cost_gain_bound(information, 0.0, 1.0)
    assert found.maximum == lk.cost_gain_bound(worst, 0.0, 1.0)
    assert value_of(lk.AverageCostGain(lk.ZeroOneLoss()), joint, mechanism) <= found.average <= found.maximum


@pytest.mark.parametrize("seed", range(4))
def test_the_announcement_of_an_output_saves_no_more_than_its_bound(seed):
    """Lemma 2: the best announcement after y against the best one without it, both under P(S|Y=y)."""
    rng = np.random.default_rng(seed)
    joint, mechanism = drawn_joint(rng, 4, 3), rng.dirichlet(np.full(6, 0.3), size=3)
    mechanism = np.column_stack([mechanism, np.zeros(3)])  # an output without mass
    losses = _losses(rng)
    found = lk.cost_gain_bounds(joint, mechanism, losses.min(), losses.max())
    posteriors = (joint @ mechanism)[:, :-1] / (joint @ mechanism)[:, :-1].sum(axis=0)
    prior = joint.sum(axis=1)
    kept = posteriors.T @ losses[:, np.argmin(prior @ losses)]
    saved = kept - (posteriors.T @ losses).min(axis=1)
    divergence = (posteriors * np.log(posteriors / prior[:, None])).sum(axis=0)
    most = np.ptp(losses) * np.minimum(np.sqrt(2 * divergence), 1.0)
    assert (saved <= found.outcomes[:-1] + 1e-12 * np.abs(losses).max()).all()
    np.testing.assert_allclose(found.outcomes, [*most, 0.0], rtol=1e-12)
    assert (most <= 2 * np.sqrt(2) * np.abs(losses).max() * np.sqrt(divergence) * (1 + 1e-12)).all()  # as printed


def test_the_printed_constant_of_lemma_2_is_the_best_one():
    e, losses = 1e-4, np.array([[1.0, -1.0], [-1.0, 1.0]])  # either announcement is best for a fair bit
    joint = np.array([[0.5 + e, 0.5 - e], [0.5 - e, 0.5 + e]]) / 2
    bound = lk.cost_gain_bounds(joint, np.eye(2), -1.0, 1.0).outcomes[0]
    assert joint[:, 0] @ (losses[:, 0] - losses[:, 1]) * 2 == pytest.approx(bound, rel=1e-7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1e-9, 0.0, 1.0), r"^divergence must be a number >= 0"),
        ((np.nan, 0.0, 1.0), r"^divergence must be"),
        ((0.1, np.nan, 1.0), r"^low must be a finite number"),
        ((0.1, 0.0, np.inf), r"^high must be a finite number"),
        ((0.1, 1.0, 0.0), r"^high must be a number >= low"),
        ((0.1, -1e308, 1e308), r"^high and low are too far apart"),
    ],
)
def test_bad_costs_are_refused(arguments, message):
    assert_refused(message, lk.cost_gain_bound, *arguments)
