"""`jaxpriv.watchdog`: scores, the mechanism and its exact numbers, bounds."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from jaxpriv import leakage
from jaxpriv.data.datasets import census, census_small
from jaxpriv.statistics.watchdog import CompleteMerging, RandomisedResponse, SubsetMerging, log_lift, scores
from jaxpriv.statistics.watchdog.exact import watchdog
from jaxpriv.statistics.watchdog.perturbation import rounded_shares
from tests.cases import value_of

from .cases import ACCURACY, INF, PERTURBATIONS, by_definition, random_joint, seeds, thresholds, zero_shares

# -- scores ----------------------------------------------------------------------------------------


@given(seeds, zero_shares)
def test_scores_are_the_largest_log_lifts(seed, zeros):
    joint = random_joint(seed, zeros=zeros)
    private, useful = joint.sum(axis=1), joint.sum(axis=0)
    score = scores(joint)
    for x in range(joint.shape[1]):
        logs = [
            abs(math.log(joint[s, x] / private[s] / useful[x])) if joint[s, x] > 0 else INF
            for s in range(len(private))
            if private[s] > 0 and useful[x] > 0
        ]
        assert score[x] == pytest.approx(max(logs, default=INF), abs=1e-13)
    found = log_lift(joint)
    lift = np.exp(np.where(np.isnan(found), -INF, found))
    # sum_s p_s e^i(s,x) = 1 and sum_x p_x e^i(s,x) = 1.
    assert np.allclose((private @ lift)[useful > 0], 1.0, atol=1e-12)
    assert np.allclose((lift @ useful)[private > 0], 1.0, atol=1e-12)


def test_symbols_without_mass():
    joint = np.array([[0.2, 0.3, 0.0], [0.3, 0.2, 0.0], [0.0, 0.0, 0.0]])
    found = log_lift(joint)
    assert np.isnan(found[2]).all()
    assert np.isnan(found[:, 2]).all()
    assert np.isfinite(found[:2, :2]).all()
    assert scores(joint)[2] == INF
    for epsilon in (0.0, 0.3, 9.0, INF):
        dog = watchdog(joint, epsilon=epsilon)
        # Nothing is known about a symbol that never occurs: it is released only with everything.
        assert dog.released[2] == (epsilon == INF)
        assert dog.mechanism.sum(axis=1) == pytest.approx(1.0)
        assert dog.leakage == pytest.approx(by_definition(joint, dog.mechanism)[0], abs=ACCURACY)


def test_masses_below_the_smallest_normal_number():
    joint = np.array([[1e-310, 2e-310, 0.0], [0.5, 0.25, 0.25]])
    joint[1, 0] = 1 - 0.5
    score = scores(joint)
    # P(s=0) = 3e-310: i(0, 0) = ln( (1e-310/3e-310)/0.5 ).
    assert score[0] == pytest.approx(abs(math.log(1 / 3 / 0.5)), abs=1e-6)
    assert score[1] == pytest.approx(math.log(2 / 3 / 0.25), abs=1e-6)
    assert score[2] == INF


# -- the mechanism ---------------------------------------------------------------------------------


def test_the_mechanism_may_be_called_as_in_version_0_1():
    mechanism = watchdog(random_joint(3), epsilon=0.8).mechanism
    with pytest.warns(DeprecationWarning, match="called Watchdog.mechanism now") as caught:
        called = mechanism()
    assert caught[0].filename == __file__
    assert type(called) is np.ndarray
    assert np.array_equal(called, mechanism)
    assert np.array_equal(jax.jit(jnp.sum)(mechanism), called.sum())


@given(seeds, thresholds, zero_shares, st.sampled_from(PERTURBATIONS))
def test_the_numbers_are_those_of_the_mechanism(seed, epsilon, zeros, perturbation):
    joint = random_joint(seed, zeros=zeros)
    dog = watchdog(joint, epsilon=epsilon, perturbation=perturbation)
    mechanism = dog.mechanism
    assert (mechanism >= 0).all()
    assert mechanism.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    lift, information = by_definition(joint, mechanism)
    assert dog.leakage == pytest.approx(lift, abs=ACCURACY)
    assert dog.utility == pytest.approx(information, abs=ACCURACY)
    assert dog.leakage == max(dog.leakage_released, dog.leakage_complement)
    # Released symbols stay what they are, and mean only themselves.
    inside = np.flatnonzero(dog.released)
    assert np.array_equal(mechanism[inside][:, inside], np.eye(len(inside)))
    assert (mechanism[~dog.released][:, inside] == 0).all()
    assert (scores(joint)[inside] <= epsilon).all()
    assert dog.released_mass == pytest.approx(joint.sum(axis=0)[inside].sum(), abs=1e-15)


def test_every_measure_of_the_report_is_that_of_the_mechanism():
    joint = random_joint(3)
    for perturbation in (CompleteMerging(), SubsetMerging(), RandomisedResponse()):
        dog = watchdog(joint, epsilon=0.8, perturbation=perturbation)
        assert 0 < dog.released.sum() < 6
        rows, wanted = dog.report().rows, leakage.report(joint, dog.mechanism).rows
        assert [row.name for row in rows] == [row.name for row in wanted]
        for row, other in zip(rows, wanted, strict=True):
            assert row.value == pytest.approx(other.value, abs=1e-9)
        values = {row.name: row.value for row in rows}
        assert dog.leakage == pytest.approx(values["lift"], abs=ACCURACY)
        assert dog.information == pytest.approx(values["mutual-information"], abs=ACCURACY)


@pytest.mark.parametrize("joint", [random_joint(0), random_joint(1, zeros=0.3), census_small().joint, census().joint])
def test_an_infinite_threshold_is_the_identity(joint):
    dog = watchdog(joint, epsilon=INF)
    assert np.array_equal(dog.mechanism, np.eye(joint.shape[1]))
    assert dog.utility == dog.entropy
    assert dog.leakage_complement == 0
    assert dog.leakage == pytest.approx(by_definition(joint, np.eye(joint.shape[1]))[0], abs=ACCURACY)


def test_a_threshold_of_zero_merges_everything_that_is_not_independent():
    # Dyadic numbers: columns 1 and 3 are independent of S to the last bit.
    joint = np.array([[0.25, 0.125, 0.0625, 0.0625], [0.0625, 0.125, 0.25, 0.0625]])
    joint /= joint.sum()
    assert joint.sum(axis=1).tolist() == [0.5, 0.5]
    dog = watchdog(joint, epsilon=0)
    assert dog.released.tolist() == [False, True, False, True]
    assert dog.leakage == 0
    assert dog.utility > 0
    everything = watchdog(random_joint(4), epsilon=0)
    assert not everything.released.any()
    assert everything.leakage == 0
    assert everything.utility == pytest.approx(0, abs=1e-12)


def test_the_draw_changes_nothing_but_the_draw():
    joint = random_joint(5)
    hidden = ~watchdog(joint, epsilon=0.4).released
    own = np.where(hidden, np.arange(7) + 1.0, 0.0)
    own /= own.sum()
    dogs = [
        watchdog(joint, epsilon=0.4, perturbation=CompleteMerging(draw))
        for draw in ("marginal", "uniform", "single", own)
    ]
    assert len({(dog.leakage, dog.utility) for dog in dogs}) == 1
    useful = np.where(hidden, joint.sum(axis=0), 0.0)
    x = int(np.flatnonzero(hidden)[0])
    assert dogs[0].mechanism[x] == pytest.approx(useful / useful.sum(), abs=0.05)  # the shares, rounded
    assert np.all(dogs[0].mechanism[x][hidden] > 0)
    assert dogs[1].mechanism[x] == pytest.approx(hidden / hidden.sum())
    assert dogs[2].mechanism[x].tolist() == [0.0] * 7 + [1.0]
    assert dogs[3].mechanism[x] == pytest.approx(own)


def _smallest_integers(shares):
    """What an attacker does: the smallest whole numbers in the proportion of the shares."""
    for scale in range(1, 2000):
        numbers = shares / shares.min() * scale
        if np.allclose(numbers, np.rint(numbers), atol=1e-6):
            return tuple(np.rint(numbers).astype(int))
    raise AssertionError("no small scale")


@pytest.mark.parametrize("kind", ["marginal", "subsets"])
def test_a_mechanism_does_not_give_back_the_counts(kind):
    counts = np.array([[90, 3, 7, 41, 11, 200], [10, 40, 80, 2, 53, 190]])
    asked = {"marginal": CompleteMerging(), "subsets": SubsetMerging()}[kind]
    dog = watchdog(counts / counts.sum(), epsilon=0.2, perturbation=asked)
    useful, hidden = counts.sum(axis=0), ~dog.released
    assert hidden.sum() == 5
    for number in range(dog.group.max() + 1):
        inside = dog.group == number
        if inside.sum() == 1:
            continue
        exact = _smallest_integers(useful[inside] / useful[inside].sum())
        assert exact == tuple(useful[inside] // np.gcd.reduce(useful[inside]))  # the attack works on the shares
        assert _smallest_integers(dog.mechanism[np.flatnonzero(inside)[0], :6][inside]) != exact
    # What is said of the watchdog is true of the rounded mechanism.
    mechanism = dog.mechanism
    assert np.abs(mechanism.sum(axis=1) - 1).max() < 1e-15
    assert value_of(leakage.Lift(), dog.joint, mechanism) == pytest.approx(dog.leakage, rel=1e-12)
    value = value_of(leakage.MutualInformation(), dog.joint, mechanism)
    assert value == pytest.approx(dog.information, rel=1e-9)


def _tables(total, symbols):
    """All counts of `symbols` symbols with this total."""
    for cuts in itertools.combinations(range(total + symbols - 1), symbols - 1):
        ends = np.array([-1, *cuts, total + symbols - 1])
        yield np.diff(ends) - 1


@pytest.mark.parametrize(("total", "symbols"), [(15, 2), (40, 2), (170, 2), (321, 2), (500, 2), (40, 3), (85, 3)])
def test_at_least_ten_values_of_every_count_agree_with_the_rounded_shares(total, symbols):
    """All tables that round to the same draw, for an attacker who knows the rule and the number of records."""
    found: dict[tuple[int, ...], list[np.ndarray]] = {}
    for table in _tables(total, symbols):
        level = rounded_shares(table / total, 1 / total).astype(int)
        assert np.all(level >= 1)
        found.setdefault(tuple(level // np.gcd.reduce(level)), []).append(table)
    for tables in found.values():
        assert min(len(set(values)) for values in np.transpose(tables)) >= 10
    assert total < 300 or len(found) > 1  # with enough records the shares are told, roughly


# -- bounds ----------------------------------------------------------------------------------------


@given(seeds, st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0]), st.sampled_from([2.0, 50.0]))
def test_bounds_are_bounds(seed, epsilon, shape):
    joint = random_joint(seed, useful=9, shape=shape)
    dog = watchdog(joint, epsilon=epsilon)
    assert dog.bounds is not None
    assert dog.leakage <= dog.bounds.tight <= dog.bounds.gamma
    released = dog.released_mass
    if abs(math.exp(epsilon) * released - 1) > 1e-9:
        # Infinite exactly there; the tight one not where nothing is hidden.
        assert math.isinf(dog.bounds.gamma) == (math.exp(epsilon) * released >= 1)
        assert math.isinf(dog.bounds.tight) == (math.exp(epsilon) * released >= 1 and not dog.released.all())
    assert (dog.bounds.explanation is None) == math.isfinite(dog.bounds.gamma)
    if math.isfinite(dog.bounds.gamma):
        rest = 1 - released
        paper = max(
            math.log((1 - math.exp(epsilon) * released + math.exp(epsilon)) / rest),
            -math.log((1 - math.exp(epsilon) * released) / rest),
        )
        assert dog.bounds.gamma == pytest.approx(paper, abs=1e-9)


@pytest.mark.parametrize(("sign", "released", "rare"), [(-1, 0.7, 0.5), (1, 0.5, 0.2)])
def test_both_sides_of_the_tight_bound_are_attained(sign, released, rare):
    """One s takes all the slack: what is released has the lift e^eps or e^-eps for it."""
    lift = math.exp(sign * 0.4)
    inside = rare * released * lift
    joint = np.array([[inside, rare - inside], [released - inside, 1 - released - rare + inside]])
    dog = watchdog(joint, epsilon=scores(joint)[0])
    assert dog.epsilon == pytest.approx(0.4)
    assert dog.released.tolist() == [True, False]
    side = math.log((1 - lift * released) / (1 - released))
    assert log_lift(joint)[0, 1] == pytest.approx(side, abs=1e-12)
    if sign > 0:
        assert dog.leakage == pytest.approx(dog.bounds.tight, abs=1e-9)
