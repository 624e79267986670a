"""`jaxpriv.watchdog`: exact numbers against the measures of the mechanism, bounds, thresholds, perturbations."""

import math

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxpriv import leakage, watchdog
from jaxpriv.datasets import census, census_small
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.watchdog import CompleteMerging, RandomisedResponse, SubsetMerging

INF = math.inf
ACCURACY = 1e-11
PERTURBATIONS = [
    CompleteMerging(),
    CompleteMerging("uniform"),
    CompleteMerging("single"),
    SubsetMerging(),
    SubsetMerging("single"),
    RandomisedResponse(),
    RandomisedResponse("marginal"),
]


def random_joint(seed: int, private: int = 3, useful: int = 7, *, zeros: float = 0.0, shape: float = 2.0) -> np.ndarray:
    """A joint with symbols of very different mass, nearer to independence for large `shape`; with empty cells."""
    rng = np.random.default_rng(seed)
    table = rng.gamma(shape, size=(private, useful)) * rng.gamma(1.0, size=useful) + 1e-9
    table = np.where(rng.random(table.shape) < zeros, 0.0, table)
    table[0, 0] += 0.1
    return table / table.sum()


def by_definition(joint: np.ndarray, mechanism: np.ndarray) -> tuple[float, float]:
    """(lift, I(X;Y)) of a mechanism, from their definitions and nothing else."""
    outputs = joint @ mechanism
    private, total = joint.sum(axis=1), outputs.sum(axis=0)
    lift = 0.0
    for s in np.flatnonzero(private > 0):
        for y in np.flatnonzero(total > 0):
            value = outputs[s, y] / total[y] / private[s]
            lift = max(lift, abs(math.log(value)) if value > 0 else INF)
    pairs = joint.sum(axis=0)[:, None] * mechanism
    product = joint.sum(axis=0)[:, None] * total
    inside = pairs > 0
    return lift, float((pairs[inside] * np.log(pairs[inside] / product[inside])).sum())


seeds = st.integers(0, 10**6)
thresholds = st.sampled_from([0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 5.0, INF])
zero_shares = st.sampled_from([0.0, 0.3])


# -- scores ----------------------------------------------------------------------------------------


@given(seeds, zero_shares)
def test_scores_are_the_largest_log_lifts(seed, zeros):
    joint = random_joint(seed, zeros=zeros)
    private, useful = joint.sum(axis=1), joint.sum(axis=0)
    score = watchdog.scores(joint)
    for x in range(joint.shape[1]):
        logs = [
            abs(math.log(joint[s, x] / private[s] / useful[x])) if joint[s, x] > 0 else INF
            for s in range(len(private))
            if private[s] > 0 and useful[x] > 0
        ]
        assert score[x] == pytest.approx(max(logs, default=INF), abs=1e-13)
    found = watchdog.log_lift(joint)
    lift = np.exp(np.where(np.isnan(found), -INF, found))
    # sum_s p_s e^i(s,x) = 1 and sum_x p_x e^i(s,x) = 1.
    assert np.allclose((private @ lift)[useful > 0], 1.0, atol=1e-12)
    assert np.allclose((lift @ useful)[private > 0], 1.0, atol=1e-12)


def test_symbols_without_mass():
    joint = np.array([[0.2, 0.3, 0.0], [0.3, 0.2, 0.0], [0.0, 0.0, 0.0]])
    found = watchdog.log_lift(joint)
    assert np.isnan(found[2]).all()
    assert np.isnan(found[:, 2]).all()
    assert np.isfinite(found[:2, :2]).all()
    assert watchdog.scores(joint)[2] == INF
    for epsilon in (0.0, 0.3, 9.0, INF):
        dog = watchdog.watchdog(joint, epsilon=epsilon)
        # Nothing is known about a symbol that never occurs: it is released only with everything.
        assert dog.released[2] == (epsilon == INF)
        assert dog.mechanism().sum(axis=1) == pytest.approx(np.ones(3))
        assert dog.leakage == pytest.approx(by_definition(joint, dog.mechanism())[0], abs=ACCURACY)


def test_masses_below_the_smallest_normal_number():
    joint = np.array([[1e-310, 2e-310, 0.0], [0.5, 0.25, 0.25]])
    joint[1, 0] = 1 - 0.5
    score = watchdog.scores(joint)
    # P(s=0) = 3e-310: i(0, 0) = ln( (1e-310/3e-310)/0.5 ).
    assert score[0] == pytest.approx(abs(math.log(1 / 3 / 0.5)), abs=1e-6)
    assert score[1] == pytest.approx(math.log(2 / 3 / 0.25), abs=1e-6)
    assert score[2] == INF


# -- the mechanism ---------------------------------------------------------------------------------


@given(seeds, thresholds, zero_shares, st.sampled_from(PERTURBATIONS))
def test_the_numbers_are_those_of_the_mechanism(seed, epsilon, zeros, perturbation):
    joint = random_joint(seed, zeros=zeros)
    dog = watchdog.watchdog(joint, epsilon=epsilon, perturbation=perturbation)
    mechanism = dog.mechanism()
    assert (mechanism >= 0).all()
    assert mechanism.sum(axis=1) == pytest.approx(np.ones(joint.shape[1]), abs=1e-12)
    lift, information = by_definition(joint, mechanism)
    assert dog.leakage == pytest.approx(lift, abs=ACCURACY)
    assert dog.utility == pytest.approx(information, abs=ACCURACY)
    assert dog.leakage == max(dog.leakage_released, dog.leakage_complement)
    # Released symbols stay what they are, and mean only themselves.
    inside = np.flatnonzero(dog.released)
    assert np.array_equal(mechanism[inside][:, inside], np.eye(len(inside)))
    assert (mechanism[~dog.released][:, inside] == 0).all()
    assert (watchdog.scores(joint)[inside] <= epsilon).all()
    assert dog.released_mass == pytest.approx(joint.sum(axis=0)[inside].sum(), abs=1e-15)


def test_every_measure_of_the_report_is_that_of_the_mechanism():
    joint = random_joint(3)
    for perturbation in (CompleteMerging(), SubsetMerging(), RandomisedResponse()):
        dog = watchdog.watchdog(joint, epsilon=0.8, perturbation=perturbation)
        assert 0 < dog.released.sum() < 6
        rows, wanted = dog.report().rows, leakage.report(joint, dog.mechanism()).rows
        assert [row.name for row in rows] == [row.name for row in wanted]
        for row, other in zip(rows, wanted, strict=True):
            assert row.value == pytest.approx(other.value, abs=1e-9)
        values = {row.name: row.value for row in rows}
        assert dog.leakage == pytest.approx(values["lift"], abs=ACCURACY)
        assert dog.information == pytest.approx(values["mutual-information"], abs=ACCURACY)


@pytest.mark.parametrize("joint", [random_joint(0), random_joint(1, zeros=0.3), census_small().joint, census().joint])
def test_an_infinite_threshold_is_the_identity(joint):
    dog = watchdog.watchdog(joint, epsilon=INF)
    assert np.array_equal(dog.mechanism(), np.eye(joint.shape[1]))
    assert dog.utility == dog.entropy
    assert dog.leakage_complement == 0
    assert dog.leakage == pytest.approx(by_definition(joint, np.eye(joint.shape[1]))[0], abs=ACCURACY)


def test_a_threshold_of_zero_merges_everything_that_is_not_independent():
    # Dyadic numbers: columns 1 and 3 are independent of S to the last bit.
    joint = np.array([[0.25, 0.125, 0.0625, 0.0625], [0.0625, 0.125, 0.25, 0.0625]])
    joint /= joint.sum()
    assert joint.sum(axis=1).tolist() == [0.5, 0.5]
    dog = watchdog.watchdog(joint, epsilon=0)
    assert dog.released.tolist() == [False, True, False, True]
    assert dog.leakage == 0
    assert dog.utility > 0
    everything = watchdog.watchdog(random_joint(4), epsilon=0)
    assert not everything.released.any()
    assert everything.leakage == 0
    assert everything.utility == pytest.approx(0, abs=1e-12)


def test_the_draw_changes_nothing_but_the_draw():
    joint = random_joint(5)
    hidden = ~watchdog.watchdog(joint, epsilon=0.4).released
    own = np.where(hidden, np.arange(7) + 1.0, 0.0)
    own /= own.sum()
    dogs = [
        watchdog.watchdog(joint, epsilon=0.4, perturbation=CompleteMerging(draw))
        for draw in ("marginal", "uniform", "single", own)
    ]
    assert len({(dog.leakage, dog.utility) for dog in dogs}) == 1
    useful = np.where(hidden, joint.sum(axis=0), 0.0)
    x = int(np.flatnonzero(hidden)[0])
    assert dogs[0].mechanism()[x] == pytest.approx(useful / useful.sum())
    assert dogs[1].mechanism()[x] == pytest.approx(hidden / hidden.sum())
    assert dogs[2].mechanism()[x].tolist() == [0.0] * 7 + [1.0]
    assert dogs[3].mechanism()[x] == pytest.approx(own)


# -- bounds ----------------------------------------------------------------------------------------


@given(seeds, st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0]), st.sampled_from([2.0, 50.0]))
def test_bounds_are_bounds(seed, epsilon, shape):
    joint = random_joint(seed, useful=9, shape=shape)
    dog = watchdog.watchdog(joint, epsilon=epsilon)
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
    dog = watchdog.watchdog(joint, epsilon=watchdog.scores(joint)[0])
    assert dog.epsilon == pytest.approx(0.4)
    assert dog.released.tolist() == [True, False]
    side = math.log((1 - lift * released) / (1 - released))
    assert watchdog.log_lift(joint)[0, 1] == pytest.approx(side, abs=1e-12)
    if sign > 0:
        assert dog.leakage == pytest.approx(dog.bounds.tight, abs=1e-9)


def test_arrays_of_bounds_agree_with_single_ones():
    joint = random_joint(8, useful=12)
    stairs = watchdog.staircase(joint)
    for k, epsilon in enumerate(stairs.epsilon):
        bounds = watchdog.watchdog(joint, epsilon=epsilon).bounds
        assert [bounds.tight, bounds.gamma] == pytest.approx([stairs.tight[k], stairs.gamma[k]], abs=1e-9)
    assert (stairs.tight >= stairs.leakage).all()
    assert (stairs.gamma >= stairs.tight - 1e-12).all()


@given(seeds)
def test_lemma_1_as_corrected(seed):
    """eps-lift privacy gives P(s|x) <= e^{2 eps} P(s|x'); the e^eps of the paper's (5) is too small."""
    joint = random_joint(seed)
    epsilon = float(watchdog.scores(joint).max())
    posterior = joint / joint.sum(axis=0)
    ratio = float((posterior.max(axis=1) / posterior.min(axis=1)).max())
    assert math.log(ratio) <= 2 * epsilon + 1e-12


def test_lemma_1_as_printed_is_wrong():
    joint = np.array([[0.3, 0.2], [0.2, 0.3]])
    epsilon = float(watchdog.scores(joint).max())
    posterior = joint / joint.sum(axis=0)
    assert math.exp(epsilon) < posterior[0, 0] / posterior[0, 1] <= math.exp(2 * epsilon)


@given(seeds, st.sampled_from([0.1, 0.4, 1.0]))
def test_proposition_1(seed, epsilon):
    """The exact lift leakage bounds the measures of Proposition 1 of the mechanism."""
    joint = random_joint(seed, private=2, useful=6)
    dog = watchdog.watchdog(joint, epsilon=epsilon)
    outputs = joint @ dog.mechanism()
    private, total = joint.sum(axis=1), outputs.sum(axis=0)
    outputs, total = outputs[:, total > 0], total[total > 0]
    lift = outputs / private[:, None] / total
    maximal = math.log((total * lift.max(axis=0)).sum())
    information = float((outputs * np.log(lift)).sum())
    assert dog.information == pytest.approx(information, abs=1e-12)
    guess = outputs.max(axis=0).sum()
    assert information <= maximal + 1e-12
    assert maximal <= dog.leakage + 1e-12
    assert guess <= private.max() * math.exp(dog.leakage) + 1e-12


# -- thresholds ------------------------------------------------------------------------------------


@given(seeds, zero_shares)
def test_the_staircase_is_every_watchdog(seed, zeros):
    joint = random_joint(seed, zeros=zeros, useful=10)
    stairs = watchdog.staircase(joint)
    assert (np.diff(stairs.epsilon) > 0).all()
    assert (np.diff(stairs.released) >= 0).all()
    assert (np.diff(stairs.utility) >= -1e-12).all()
    for k, epsilon in enumerate(stairs.epsilon):
        dog = watchdog.watchdog(joint, epsilon=epsilon)
        assert stairs.released[k] == dog.released.sum()
        for name in ("leakage", "leakage_released", "leakage_complement", "utility", "released_mass"):
            assert getattr(stairs, name)[k] == pytest.approx(getattr(dog, name), abs=ACCURACY)
    between = (stairs.epsilon[:-1] + stairs.epsilon[1:]) / 2
    for k, epsilon in enumerate(between):
        if np.isfinite(epsilon):
            assert watchdog.watchdog(joint, epsilon=epsilon).released.sum() == stairs.released[k]


@given(seeds, st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.5, INF]))
def test_a_target_of_leakage_is_met_with_the_most_utility(seed, target):
    joint = random_joint(seed, useful=10)
    dog = watchdog.watchdog(joint, target_leakage=target)
    stairs = watchdog.staircase(joint)
    assert dog.leakage <= target + 1e-12
    assert dog.utility == pytest.approx(stairs.utility[stairs.leakage <= target + 1e-12].max(), abs=ACCURACY)


def test_a_target_below_the_last_bit_of_the_joint_is_refused():
    """A mass of 1e-17 leaves the other score at zero: X_0 holds that symbol, and the rare one alone tells all."""
    joint = np.array([[0.5, 1e-17], [0.5, 0.0]])
    for target in (0.0, 0.1):
        with pytest.raises(InfeasibleError, match=r"at eps = 0.* inf nats leak") as caught:
            watchdog.watchdog(joint, target_leakage=target)
        assert caught.value.proof["least"] == INF
    assert watchdog.watchdog(joint, target_leakage=INF).released.all()


@pytest.mark.parametrize("seed", [1, 5])
@pytest.mark.parametrize("kind", [SubsetMerging(), RandomisedResponse()])
def test_a_target_that_is_the_leakage_of_a_threshold(seed, kind):
    """Steps within rounding of the limit, by running sums or by the sums proper, are no reason to fail."""
    rng = np.random.default_rng(seed)
    near = rng.gamma(2.0, size=(4, 1)) * rng.gamma(1.0, size=7) * (1 + 1e-6 * rng.normal(size=(4, 7)))
    twins = np.tile(rng.gamma(2.0, size=(3, 3)), 2)
    for table in (near, twins, twins[:, ::-1] * rng.gamma(1.0, size=6)):
        joint = table / table.sum()
        stairs = watchdog.staircase(joint)
        for target in stairs.leakage[np.isfinite(stairs.leakage)]:
            assert watchdog.watchdog(joint, target_leakage=target, perturbation=kind).leakage <= target + 1e-12
        for target in stairs.utility:
            assert watchdog.watchdog(joint, target_utility=target, perturbation=kind).utility >= target - 1e-12


@given(seeds, st.floats(0, 1))
def test_a_target_of_utility_is_met_with_the_least_leakage(seed, share):
    joint = random_joint(seed, useful=10)
    stairs = watchdog.staircase(joint)
    target = share * float(stairs.utility[-1])
    dog = watchdog.watchdog(joint, target_utility=target)
    assert dog.utility >= target - 1e-12
    assert dog.leakage == pytest.approx(stairs.leakage[stairs.utility >= target].min(), abs=ACCURACY)


def test_leakage_is_no_monotone_function_of_the_threshold():
    """So a target is searched for on the whole staircase."""
    stairs = watchdog.staircase(census_small().joint)
    assert (np.diff(stairs.leakage) < -0.01).any() or (stairs.leakage[:-1] > stairs.epsilon[:-1] + 0.01).any()


@pytest.mark.parametrize("perturbation", [3, "subsets", SubsetMerging])
def test_a_perturbation_that_is_none(perturbation):
    """A class in place of an instance was complete merging, without a word."""
    with pytest.raises(InputError, match="perturbation must be"):
        watchdog.watchdog(random_joint(0), epsilon=0.3, perturbation=perturbation)


def test_more_utility_than_there_is():
    joint = random_joint(6)
    entropy = watchdog.watchdog(joint, epsilon=INF).entropy
    assert watchdog.watchdog(joint, target_utility=entropy).utility == pytest.approx(entropy)
    with pytest.raises(InfeasibleError, match=r"I\(X;Y\) > H\(X\)") as caught:
        watchdog.watchdog(joint, target_utility=entropy + 1e-6)
    assert caught.value.proof["entropy"] == pytest.approx(entropy)


def test_permuted_symbols_and_relabelled_classes():
    joint = random_joint(9, useful=8)
    order = np.random.default_rng(0).permutation(8)
    for perturbation in PERTURBATIONS:
        one = watchdog.watchdog(joint, epsilon=0.4, perturbation=perturbation)
        other = watchdog.watchdog(joint[::-1][:, order], epsilon=0.4, perturbation=perturbation)
        assert [other.leakage, other.utility] == pytest.approx([one.leakage, one.utility], abs=ACCURACY)
        assert np.array_equal(other.released, one.released[order])


def test_a_split_symbol_leaks_the_same():
    joint = random_joint(10)
    split = np.concatenate([joint, joint[:, :1] * 0.25], axis=1)
    split[:, 0] *= 0.75
    for epsilon in (0.2, 0.6, 1.5):
        one, other = (watchdog.watchdog(table, epsilon=epsilon) for table in (joint, split))
        assert other.leakage == pytest.approx(one.leakage, abs=ACCURACY)
        assert other.released[0] == other.released[-1] == one.released[0]


# -- perturbations ---------------------------------------------------------------------------------


@given(seeds, st.sampled_from([0.05, 0.2, 0.5, 1.0]), zero_shares)
def test_no_perturbation_leaks_less_than_complete_merging(seed, epsilon, zeros):
    joint = random_joint(seed, useful=10, zeros=zeros)
    plain = watchdog.watchdog(joint, epsilon=epsilon)
    rng = np.random.default_rng(seed)
    hidden = np.flatnonzero(~plain.released)
    if hidden.size:
        any_channel = plain.mechanism()
        any_channel[np.ix_(hidden, hidden)] = rng.dirichlet(np.full(len(hidden), 0.5), len(hidden))
        assert plain.leakage <= by_definition(joint, any_channel)[0] + 1e-12
    for perturbation in PERTURBATIONS[3:]:
        other = watchdog.watchdog(joint, epsilon=epsilon, perturbation=perturbation)
        # With no limit of its own it may leak as much, and never more.
        assert other.leakage <= plain.leakage + 1e-12
        assert other.utility >= plain.utility - 1e-12
        assert other.bounds is None


@given(seeds, st.sampled_from([0.1, 0.3, 0.8, 2.0]))
def test_alternatives_use_what_the_target_allows(seed, target):
    joint = random_joint(seed, useful=10)
    found = watchdog.compare(joint, target_leakage=target)
    assert list(found) == ["complete merging", "subset merging", "randomised response"]
    plain = found["complete merging"]
    for dog in found.values():
        assert dog.leakage <= target + 1e-12
        assert dog.utility >= plain.utility - 1e-12
    keep, released = found["randomised response"].keep, found["randomised response"].released
    if 0 < keep < 1:
        # The largest: a little more keeping leaks too much.
        joint_hidden = joint[:, ~released]
        private = joint.sum(axis=1)
        more = min(1.0, keep + 1e-6)
        merged = joint_hidden.sum(axis=1, keepdims=True) / joint_hidden.shape[1]
        columns = more * joint_hidden + (1 - more) * merged
        assert np.abs(np.log(columns / columns.sum(axis=0) / private[:, None])).max() > target


def test_subsets_of_the_census_are_far_more_useful():
    """Figures of the experiment: at half a nat the merged symbols keep most of what they are."""
    joint = census().joint.reshape(7, 2, 55).sum(axis=0)
    found = watchdog.compare(joint, target_leakage=0.5)
    assert found["complete merging"].utility == pytest.approx(1.3084, abs=1e-3)
    assert found["subset merging"].utility > 2.3
    assert found["complete merging"].utility < found["randomised response"].utility


def test_subsets_of_two_pairs_that_cancel():
    """x = 0 and 1 together are independent of S, and so are 2 and 3: two groups, not one."""
    joint = np.array([[0.2, 0.05, 0.08, 0.17], [0.05, 0.2, 0.17, 0.08]])
    dog = watchdog.watchdog(joint, epsilon=0.1, perturbation=SubsetMerging(limit=0.01))
    assert dog.group.tolist() == [0, 0, 1, 1]
    assert dog.leakage == pytest.approx(0, abs=1e-12)
    assert dog.utility == pytest.approx(math.log(2))
    assert watchdog.watchdog(joint, epsilon=0.1).utility == pytest.approx(0, abs=1e-12)


def test_randomised_response_is_warners():
    joint = np.array([[0.4, 0.1], [0.1, 0.4]])
    limit = 0.2
    dog = watchdog.watchdog(joint, epsilon=0.0, perturbation=RandomisedResponse(limit=limit))
    # P(s|y) = 1/2 +- 0.3 keep lies within the factors e^-limit and e^limit of 1/2; the lower one is reached first.
    assert dog.keep == pytest.approx((1 - math.exp(-limit)) / 0.6, abs=1e-9)
    assert dog.leakage == pytest.approx(limit, abs=1e-9)
    assert dog.leakage <= limit


def test_a_limit_below_complete_merging_is_refused_with_the_least_leakage():
    joint = random_joint(2)
    plain = watchdog.watchdog(joint, epsilon=0.8)
    assert plain.leakage > 0.1
    for kind in (SubsetMerging, RandomisedResponse):
        with pytest.raises(InfeasibleError, match="lower epsilon") as caught:
            watchdog.watchdog(joint, epsilon=0.8, perturbation=kind(limit=plain.leakage / 2))
        assert caught.value.proof["least"] == plain.leakage
        exactly = watchdog.watchdog(joint, epsilon=0.8, perturbation=kind(limit=plain.leakage))
        assert exactly.leakage <= plain.leakage + 1e-12
        everything = watchdog.watchdog(joint, epsilon=0.0, perturbation=kind(limit=INF))
        assert everything.utility == pytest.approx(everything.entropy)


# -- bad input -------------------------------------------------------------------------------------

GOOD = random_joint(0)
BAD = {
    "nothing chosen": (GOOD, {}, "exactly one"),
    "two choices": (GOOD, {"epsilon": 1.0, "target_leakage": 1.0}, "exactly one"),
    "nan": (GOOD, {"epsilon": math.nan}, "epsilon must be"),
    "negative": (GOOD, {"target_leakage": -0.1}, "target_leakage must be"),
    "logical": (GOOD, {"epsilon": True}, "epsilon must be a number"),
    "text": (GOOD, {"epsilon": "1"}, "epsilon has dtype"),
    "infinite utility": (GOOD, {"target_utility": INF}, "target_utility must be a finite"),
    "joint": (GOOD * 2, {"epsilon": 1.0}, "joint sums to 2"),
    "entry": (np.where(np.eye(3, 7) > 0, np.nan, GOOD), {"epsilon": 1.0}, r"joint\[0, 0\] is NaN"),
    "draw": (GOOD, {"epsilon": 0.3, "perturbation": CompleteMerging("secret")}, "draw must be one of"),
    "draw size": (GOOD, {"epsilon": 0.3, "perturbation": CompleteMerging(np.ones(3) / 3)}, "draw has 3 entries"),
    "draw sum": (GOOD, {"epsilon": 0.0, "perturbation": CompleteMerging(np.ones(7))}, "draw must sum to 1"),
    "draw sign": (GOOD, {"epsilon": 0.0, "perturbation": CompleteMerging(-np.ones(7))}, r"draw\[0\] is negative"),
    "draw on released": (GOOD, {"epsilon": 2.0, "perturbation": CompleteMerging(np.ones(7) / 7)}, "is released"),
    "single": (GOOD, {"epsilon": 0.0, "perturbation": RandomisedResponse("single")}, "draws a symbol"),
    "limit": (GOOD, {"epsilon": 0.0, "perturbation": SubsetMerging(limit=-1)}, "limit must be"),
    "two limits": (
        GOOD,
        {"target_leakage": 1.0, "perturbation": SubsetMerging(limit=1)},
        "limit is for a given epsilon",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    joint, options, message = BAD[case]
    with pytest.raises(InputError, match=message) as caught:
        watchdog.watchdog(joint, **options)
    assert "secret" not in str(caught.value)


def test_not_inside_a_traced_function():
    with pytest.raises(InputError, match="on the host"):
        jax.jit(watchdog.scores)(GOOD)


# -- records with estimated scores -----------------------------------------------------------------


@pytest.fixture(scope="module")
def records():
    """500 records drawn from a joint, with their exact log-lifts: (joint, s, x, log-lift (n, s), prior)."""
    joint = random_joint(11, private=2, useful=6)
    rng = np.random.default_rng(1)
    drawn = rng.choice(12, size=500, p=joint.reshape(-1))
    s, x = drawn // 6, drawn % 6
    return joint, s, x, watchdog.log_lift(joint).T[x], joint.sum(axis=1)


def test_true_scores_of_every_symbol_give_the_exact_watchdog():
    """Records in the proportions of the joint, with its log-lifts: the estimates are the exact numbers."""
    counts = np.array([[10, 4, 3, 8], [5, 4, 9, 7]])
    joint = counts / counts.sum()
    s, x = (np.repeat(part, counts.reshape(-1)) for part in np.divmod(np.arange(8), 4))
    table, prior = watchdog.log_lift(joint).T[x], joint.sum(axis=1)
    exact = watchdog.staircase(joint)
    for options in ({}, {"labels": s}):
        found = watchdog.estimated_staircase(table, prior, symbols=x, **options)
        assert found.basis == ("labels" if options else "scores")
        assert found.epsilon == pytest.approx(exact.epsilon, abs=ACCURACY)
        assert found.estimated_leakage == pytest.approx(exact.leakage, abs=ACCURACY)
        assert found.estimated_utility == pytest.approx(exact.utility, abs=ACCURACY)
        assert found.released_fraction == pytest.approx(exact.released_mass, abs=ACCURACY)
        assert found.estimated_gamma == pytest.approx(exact.gamma, abs=1e-9)
        one = watchdog.estimated_watchdog(table, prior, epsilon=0.3, symbols=x, **options)
        dog = watchdog.watchdog(joint, epsilon=0.3)
        assert np.array_equal(one.released, dog.released[x])
        assert one.estimated_leakage == pytest.approx(dog.leakage, abs=ACCURACY)
        assert one.estimated_utility == pytest.approx(dog.utility, abs=ACCURACY)
        assert one.estimated_tight == pytest.approx(dog.bounds.tight, abs=1e-9)


def test_records_without_symbols_are_all_different(records):
    _, s, x, table, prior = records
    found = watchdog.estimated_watchdog(table, prior, epsilon=INF)
    assert found.estimated_utility == pytest.approx(math.log(500))
    assert found.released.all()
    assert found.estimated_leakage_complement == 0
    joined = watchdog.estimated_watchdog(table, prior, epsilon=INF, symbols=x, labels=s)
    shares = np.bincount(x) / 500
    assert joined.estimated_utility == pytest.approx(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())


def test_estimated_targets(records):
    _, s, x, table, prior = records
    for options in ({}, {"labels": s}, {"symbols": x}):
        stairs = watchdog.estimated_staircase(table, prior, **options)
        found = watchdog.estimated_watchdog(table, prior, target_leakage=0.4, **options)
        assert found.estimated_leakage <= 0.4
        assert found.estimated_utility == stairs.estimated_utility[stairs.estimated_leakage <= 0.4].max()
        assert found.released.mean() == pytest.approx(found.released_fraction)
        found = watchdog.estimated_watchdog(table, prior, target_utility=1.0, **options)
        assert found.estimated_utility >= 1.0
        assert found.estimated_leakage == stairs.estimated_leakage[stairs.estimated_utility >= 1.0].min()
        with pytest.raises(InfeasibleError):
            watchdog.estimated_watchdog(table, prior, target_utility=7.0, **options)


def test_a_target_that_no_threshold_meets():
    """Records with a score of exactly 0 go out at eps = 0, and leave labels that are not balanced behind."""
    table = np.log([[1.0, 1.0], [1.5, 0.5], [1.5, 0.5], [0.5, 1.5]])
    with pytest.raises(InfeasibleError, match="least estimate") as caught:
        watchdog.estimated_watchdog(table, np.array([0.5, 0.5]), target_leakage=0.01, labels=np.array([1, 0, 0, 1]))
    assert caught.value.proof["least"] > 0.01


def test_estimates_have_fields_of_their_own(records):
    """Nothing that was estimated can be read as an exact value or a proved bound."""
    exact = {"leakage", "leakage_released", "leakage_complement", "utility", "entropy", "bounds", "tight", "gamma"}
    for kind in (watchdog.EstimatedWatchdog, watchdog.EstimatedStaircase):
        assert not exact & set(kind.__dataclass_fields__)


def test_bad_records(records):
    _, s, _, table, prior = records

    def refuse(message, *arguments, **options):
        for function in (watchdog.estimated_staircase, lambda *a, **o: watchdog.estimated_watchdog(*a, epsilon=1, **o)):
            with pytest.raises(InputError, match=message):
                function(*arguments, **options)

    for value, word in ((np.nan, "NaN"), (np.inf, "infinite"), (-np.inf, "infinite")):
        broken = table.copy()
        broken[7, 1] = value
        refuse(rf"log_lift\[7, 1\] is {word}", broken, prior)
    shifted = table.copy()
    shifted[3] += 0.1
    refuse("log_lift, row 3: sum_s", shifted, prior)
    refuse("2 columns .* prior has 3", table, np.ones(3) / 3)
    refuse("prior must be positive", table, np.array([1.0, 0.0]))
    refuse("labels must be 500 whole numbers", table, prior, labels=s[:-1])
    refuse("labels must be 500 whole numbers", table, prior, labels=s.astype(float))
    refuse(r"labels\[\d+\] is not among the classes", table, prior, labels=s + 1)
    refuse("some class of prior has no record", table, prior, labels=np.zeros(500, dtype=int))
    refuse(r"symbols\[\d+\] is that of an earlier record with another score", table, prior, symbols=s)
    with pytest.raises(InputError, match="exactly one"):
        watchdog.estimated_watchdog(table, prior)
