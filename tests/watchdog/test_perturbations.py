"""`jaxpriv.watchdog`: perturbations, refusals, records with estimated scores."""

import math

import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st

from jaxpriv.data.datasets import census
from jaxpriv.errors import InfeasibleError
from jaxpriv.statistics.watchdog import (
    CompleteMerging,
    RandomisedResponse,
    SubsetMerging,
    estimated_staircase,
    estimated_watchdog,
    log_lift,
    scores,
    staircase,
)
from jaxpriv.statistics.watchdog.exact import compare, watchdog
from tests.cases import raised, refused

from .cases import ACCURACY, INF, PERTURBATIONS, by_definition, random_joint, seeds, zero_shares

# -- perturbations ---------------------------------------------------------------------------------


@given(seeds, st.sampled_from([0.05, 0.2, 0.5, 1.0]), zero_shares)
def test_no_perturbation_leaks_less_than_complete_merging(seed, epsilon, zeros):
    joint = random_joint(seed, useful=10, zeros=zeros)
    plain = watchdog(joint, epsilon=epsilon)
    rng = np.random.default_rng(seed)
    hidden = np.flatnonzero(~plain.released)
    if hidden.size:
        any_channel = plain.mechanism
        any_channel[np.ix_(hidden, hidden)] = rng.dirichlet(np.full(len(hidden), 0.5), len(hidden))
        assert plain.leakage <= by_definition(joint, any_channel)[0] + 1e-12
    for perturbation in PERTURBATIONS[3:]:
        other = watchdog(joint, epsilon=epsilon, perturbation=perturbation)
        # With no limit of its own it may leak as much, and never more.
        assert other.leakage <= plain.leakage + 1e-12
        assert other.utility >= plain.utility - 1e-12
        assert other.bounds is None


@given(seeds, st.sampled_from([0.1, 0.3, 0.8, 2.0]))
def test_alternatives_use_what_the_target_allows(seed, target):
    joint = random_joint(seed, useful=10)
    found = compare(joint, target_leakage=target)
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
    found = compare(joint, target_leakage=0.5)
    assert found["complete merging"].utility == pytest.approx(1.3084, abs=1e-3)
    assert found["subset merging"].utility > 2.3
    assert found["complete merging"].utility < found["randomised response"].utility


def test_subsets_of_two_pairs_that_cancel():
    """x = 0 and 1 together are independent of S, and so are 2 and 3: two groups, not one."""
    joint = np.array([[0.2, 0.05, 0.08, 0.17], [0.05, 0.2, 0.17, 0.08]])
    dog = watchdog(joint, epsilon=0.1, perturbation=SubsetMerging(limit=0.01))
    assert dog.group.tolist() == [0, 0, 1, 1]
    assert dog.leakage == pytest.approx(0, abs=1e-12)
    assert dog.utility == pytest.approx(math.log(2))
    assert watchdog(joint, epsilon=0.1).utility == pytest.approx(0, abs=1e-12)


def test_randomised_response_is_warners():
    joint = np.array([[0.4, 0.1], [0.1, 0.4]])
    limit = 0.2
    dog = watchdog(joint, epsilon=0.0, perturbation=RandomisedResponse(limit=limit))
    # P(s|y) = 1/2 +- 0.3 keep lies within the factors e^-limit and e^limit of 1/2; the lower one is reached first.
    assert dog.keep == pytest.approx((1 - math.exp(-limit)) / 0.6, abs=1e-9)
    assert dog.leakage == pytest.approx(limit, abs=1e-9)
    assert dog.leakage <= limit


def test_a_limit_below_complete_merging_is_refused_with_the_least_leakage():
    joint = random_joint(2)
    plain = watchdog(joint, epsilon=0.8)
    assert plain.leakage > 0.1
    for kind in (SubsetMerging, RandomisedResponse):
        with raised(InfeasibleError, "lower epsilon") as caught:
            watchdog(joint, epsilon=0.8, perturbation=kind(limit=plain.leakage / 2))
        assert caught.value.proof["least"] == plain.leakage
        exactly = watchdog(joint, epsilon=0.8, perturbation=kind(limit=plain.leakage))
        assert exactly.leakage <= plain.leakage + 1e-12
        everything = watchdog(joint, epsilon=0.0, perturbation=kind(limit=INF))
        assert everything.utility == pytest.approx(everything.entropy)


# -- bad input -------------------------------------------------------------------------------------

GOOD = random_joint(0)
BAD = {
    "nothing chosen": ({}, "exactly one"),
    "two choices": ({"epsilon": 1.0, "target_leakage": 1.0}, "exactly one"),
    "nan": ({"epsilon": math.nan}, "epsilon must be"),
    "negative": ({"target_leakage": -0.1}, "target_leakage must be"),
    "logical": ({"epsilon": True}, "epsilon must be a number"),
    "text": ({"epsilon": "1"}, "epsilon has dtype"),
    "infinite utility": ({"target_utility": INF}, "target_utility must be a finite"),
    "joint": ({"joint": GOOD * 2, "epsilon": 1.0}, "joint sums to 2"),
    "entry": ({"joint": np.where(np.eye(3, 7) > 0, np.nan, GOOD), "epsilon": 1.0}, r"joint\[0, 0\] is NaN"),
    "draw": ({"epsilon": 0.3, "perturbation": CompleteMerging("secret")}, "draw must be one of"),
    "draw size": ({"epsilon": 0.3, "perturbation": CompleteMerging(np.ones(3) / 3)}, "draw has 3 entries"),
    "draw sum": ({"epsilon": 0.0, "perturbation": CompleteMerging(np.ones(7))}, "draw must sum to 1"),
    "draw sign": ({"epsilon": 0.0, "perturbation": CompleteMerging(-np.ones(7))}, r"draw\[0\] is negative"),
    "draw on released": ({"epsilon": 2.0, "perturbation": CompleteMerging(np.ones(7) / 7)}, "is released"),
    "single": ({"epsilon": 0.0, "perturbation": RandomisedResponse("single")}, "draws a symbol"),
    "limit": ({"epsilon": 0.0, "perturbation": SubsetMerging(limit=-1)}, "limit must be"),
    "two limits": (
        {"target_leakage": 1.0, "perturbation": SubsetMerging(limit=1)},
        "limit is for a given epsilon",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    options, message = BAD[case]
    with refused(message) as caught:
        watchdog(**{"joint": GOOD, **options})
    assert "secret" not in str(caught.value)


def test_not_inside_a_traced_function():
    with refused("on the host"):
        jax.jit(scores)(GOOD)


# -- records with estimated scores -----------------------------------------------------------------


@pytest.fixture(scope="module")
def records():
    """500 records drawn from a joint, with their exact log-lifts: (joint, s, x, log-lift (n, s), prior)."""
    joint = random_joint(11, private=2, useful=6)
    rng = np.random.default_rng(1)
    drawn = rng.choice(12, size=500, p=joint.reshape(-1))
    s, x = drawn // 6, drawn % 6
    return joint, s, x, log_lift(joint).T[x], joint.sum(axis=1)


def test_true_scores_of_every_symbol_give_the_exact_watchdog():
    """Records in the proportions of the joint, with its log-lifts: the estimates are the exact numbers."""
    counts = np.array([[10, 4, 3, 8], [5, 4, 9, 7]])
    joint = counts / counts.sum()
    s, x = (np.repeat(part, counts.reshape(-1)) for part in np.divmod(np.arange(8), 4))
    table, prior = log_lift(joint).T[x], joint.sum(axis=1)
    exact = staircase(joint)
    for options in ({}, {"labels": s}):
        found = estimated_staircase(table, prior, symbols=x, **options)
        assert found.basis == ("labels" if options else "scores")
        assert found.epsilon == pytest.approx(exact.epsilon, abs=ACCURACY)
        assert found.estimated_leakage == pytest.approx(exact.leakage, abs=ACCURACY)
        assert found.estimated_utility == pytest.approx(exact.utility, abs=ACCURACY)
        assert found.released_fraction == pytest.approx(exact.released_mass, abs=ACCURACY)
        assert found.estimated_gamma == pytest.approx(exact.gamma, abs=1e-9)
        one = estimated_watchdog(table, prior, epsilon=0.3, symbols=x, **options)
        dog = watchdog(joint, epsilon=0.3)
        assert np.array_equal(one.released, dog.released[x])
        assert one.estimated_leakage == pytest.approx(dog.leakage, abs=ACCURACY)
        assert one.estimated_utility == pytest.approx(dog.utility, abs=ACCURACY)
        assert one.estimated_tight == pytest.approx(dog.bounds.tight, abs=1e-9)


def test_records_without_symbols_are_all_different(records):
    _, s, x, table, prior = records
    found = estimated_watchdog(table, prior, epsilon=INF)
    assert found.estimated_utility == pytest.approx(math.log(500))
    assert found.released.all()
    assert found.estimated_leakage_complement == 0
    joined = estimated_watchdog(table, prior, epsilon=INF, symbols=x, labels=s)
    shares = np.bincount(x) / 500
    assert joined.estimated_utility == pytest.approx(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())


def test_estimated_targets(records):
    _, s, x, table, prior = records
    for options in ({}, {"labels": s}, {"symbols": x}):
        stairs = estimated_staircase(table, prior, **options)
        found = estimated_watchdog(table, prior, target_leakage=0.4, **options)
        assert found.estimated_leakage <= 0.4
        assert found.estimated_utility == stairs.estimated_utility[stairs.estimated_leakage <= 0.4].max()
        assert found.released.mean() == pytest.approx(found.released_fraction)
        found = estimated_watchdog(table, prior, target_utility=1.0, **options)
        assert found.estimated_utility >= 1.0
        assert found.estimated_leakage == stairs.estimated_leakage[stairs.estimated_utility >= 1.0].min()
        with pytest.raises(InfeasibleError):
            estimated_watchdog(table, prior, target_utility=7.0, **options)


def test_a_target_that_no_threshold_meets():
    """Records with a score of exactly 0 go out at eps = 0, and leave labels that are not balanced behind."""
    table = np.log([[1.0, 1.0], [1.5, 0.5], [1.5, 0.5], [0.5, 1.5]])
    with raised(InfeasibleError, "least estimate") as caught:
        estimated_watchdog(table, np.array([0.5, 0.5]), target_leakage=0.01, labels=np.array([1, 0, 0, 1]))
    assert caught.value.proof["least"] > 0.01


def test_bad_records(records):
    _, s, _, table, prior = records

    def refuse(message, *arguments, **options):
        for function in (estimated_staircase, lambda *a, **o: estimated_watchdog(*a, epsilon=1, **o)):
            with refused(message):
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
    with refused("exactly one"):
        estimated_watchdog(table, prior)
