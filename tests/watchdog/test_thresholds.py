"""`jaxpriv.watchdog`: the threshold for an asked utility or lift."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.statistics.watchdog import RandomisedResponse, SubsetMerging, staircase
from jaxpriv.statistics.watchdog.exact import watchdog
from tests.cases import raised

from .cases import ACCURACY, INF, random_joint, seeds, zero_shares

# -- thresholds ------------------------------------------------------------------------------------


@given(seeds, zero_shares)
def test_the_staircase_is_every_watchdog(seed, zeros):
    joint = random_joint(seed, zeros=zeros, useful=10)
    stairs = staircase(joint)
    assert (np.diff(stairs.epsilon) > 0).all()
    assert (np.diff(stairs.released) >= 0).all()
    assert (np.diff(stairs.utility) >= -1e-12).all()
    for k, epsilon in enumerate(stairs.epsilon):
        dog = watchdog(joint, epsilon=epsilon)
        assert stairs.released[k] == dog.released.sum()
        for name in ("leakage", "leakage_released", "leakage_complement", "utility", "released_mass"):
            assert getattr(stairs, name)[k] == pytest.approx(getattr(dog, name), abs=ACCURACY)
        bounds = dog.bounds
        assert [stairs.tight[k], stairs.gamma[k]] == pytest.approx([bounds.tight, bounds.gamma], abs=1e-9)
    between = (stairs.epsilon[:-1] + stairs.epsilon[1:]) / 2
    for k, epsilon in enumerate(between):
        if np.isfinite(epsilon):
            assert watchdog(joint, epsilon=epsilon).released.sum() == stairs.released[k]


@given(seeds, st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.5, INF]))
def test_a_target_of_leakage_is_met_with_the_most_utility(seed, target):
    joint = random_joint(seed, useful=10)
    dog = watchdog(joint, target_leakage=target)
    stairs = staircase(joint)
    assert dog.leakage <= target + 1e-12
    assert dog.utility == pytest.approx(stairs.utility[stairs.leakage <= target + 1e-12].max(), abs=ACCURACY)


def test_a_target_below_the_last_bit_of_the_joint_is_refused():
    """A mass of 1e-17 leaves the other score at zero: X_0 holds that symbol, and the rare one alone tells all."""
    joint = np.array([[0.5, 1e-17], [0.5, 0.0]])
    for target in (0.0, 0.1):
        with raised(InfeasibleError, r"at eps = 0.* inf nats leak") as caught:
            watchdog(joint, target_leakage=target)
        assert caught.value.proof["least"] == INF
    assert watchdog(joint, target_leakage=INF).released.all()


@pytest.mark.parametrize("seed", [1, 5])
@pytest.mark.parametrize("kind", [SubsetMerging(), RandomisedResponse()])
def test_a_target_that_is_the_leakage_of_a_threshold(seed, kind):
    """Steps within rounding of the limit, by running sums or by the sums proper, are no reason to fail."""
    rng = np.random.default_rng(seed)
    near = rng.gamma(2.0, size=(4, 1)) * rng.gamma(1.0, size=7) * (1 + 1e-6 * rng.normal(size=(4, 7)))
    twins = np.tile(rng.gamma(2.0, size=(3, 3)), 2)
    for table in (near, twins, twins[:, ::-1] * rng.gamma(1.0, size=6)):
        joint = table / table.sum()
        stairs = staircase(joint)
        for target in stairs.leakage[np.isfinite(stairs.leakage)]:
            assert watchdog(joint, target_leakage=target, perturbation=kind).leakage <= target + 1e-12
        for target in stairs.utility:
            assert watchdog(joint, target_utility=target, perturbation=kind).utility >= target - 1e-12


@given(seeds, st.floats(0, 1))
def test_a_target_of_utility_is_met_with_the_least_leakage(seed, share):
    joint = random_joint(seed, useful=10)
    stairs = staircase(joint)
    target = share * float(stairs.utility[-1])
    dog = watchdog(joint, target_utility=target)
    assert dog.utility >= target - 1e-12
    assert dog.leakage == pytest.approx(stairs.leakage[stairs.utility >= target].min(), abs=ACCURACY)


@pytest.mark.parametrize("perturbation", [3, "subsets", SubsetMerging])
def test_a_perturbation_that_is_none(perturbation):
    """A class in place of an instance was complete merging, without a word."""
    with raised(InputError, "perturbation must be"):
        watchdog(random_joint(0), epsilon=0.3, perturbation=perturbation)


def test_more_utility_than_there_is():
    joint = random_joint(6)
    entropy = watchdog(joint, epsilon=INF).entropy
    assert watchdog(joint, target_utility=entropy).utility == pytest.approx(entropy)
    with raised(InfeasibleError, r"I\(X;Y\) > H\(X\)") as caught:
        watchdog(joint, target_utility=entropy + 1e-6)
    assert caught.value.proof["entropy"] == pytest.approx(entropy)
