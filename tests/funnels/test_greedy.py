"""Greedy merging: the definition, its invariants, the reference curves, time sharing, and refusals."""

import csv
import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays

import jaxpriv as jp
from jaxpriv.data.datasets import census
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.funnels.greedy import greedy, greedy_curve
from jaxpriv.leakage import FInformation, MaxCostGain, ReverseKullbackLeibler, ZeroOneLoss
from tests.cases import assert_refused, drawn_joint, raised
from tests.grid.measures import MEASURES

from .cases import entropy_of, information, released

# Small counts: zeros, duplicated symbols and ties all over.
JOINTS = (
    arrays(np.int64, (3, 5), elements=st.integers(0, 4))
    .filter(lambda counts: (counts.sum(axis=0) > 0).all() and (counts.sum(axis=1) > 0).all())
    .map(lambda counts: counts / counts.sum())
)
SHARES = st.floats(0.03, 0.97)


def told_of(groups: list) -> np.ndarray:
    """The mechanism that tells the group."""
    useful = sum(map(len, groups))
    return np.array([[float(x in group) for group in groups] for x in range(useful)])


def numbers(joint: np.ndarray, groups: list) -> tuple[float, float]:
    """(I(X;Y), I(S;Y)) of the release that tells the group."""
    return released(joint, told_of(groups))


def by_definition(joint, *, disclosure=None, relevance=None, ratio=False, measured=None):
    """The algorithms as they are written, every candidate measured from scratch: (labels, merges, ties)."""
    measured = measured or (lambda groups: numbers(joint, groups))
    groups = [[x] for x in range(joint.shape[1])]
    merges, ties = [], 0
    while True:
        told, leaked = measured(groups)
        options = []
        for i, j in itertools.combinations(range(len(groups)), 2):
            merged = [group for k, group in enumerate(groups) if k != j]
            merged[i] = groups[i] + groups[j]
            tells, leaks = measured(merged)
            allowed = tells >= disclosure - 1e-12 if relevance is None else leaks >= relevance - 1e-12
            gain = leaked - leaks if relevance is None else told - tells
            if ratio:
                gain /= told - tells
            if allowed:
                options.append((gain, (i, j), merged))
        if not options:
            break
        best = max(option[0] for option in options)
        alike = [option for option in options if option[0] >= best - (1e-10 if ratio else 1e-13)]
        ties += len(alike) > 1
        _, (i, j), merged = alike[0]
        merges.append((groups[i][0], groups[j][0]))
        groups = merged
    labels = np.empty(joint.shape[1], dtype=np.int64)
    for y, group in enumerate(groups):
        labels[group] = y
    return labels, np.array(merges).reshape(-1, 2), ties


# -- the definition --------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["privacy", "ratio", "relevance"])
@given(joint=JOINTS, share=SHARES)
def test_agrees_with_the_definition(rule, joint, share):
    whole, secret = numbers(joint, [[x] for x in range(joint.shape[1])])
    target = {"relevance": share * secret} if rule == "relevance" else {"disclosure": share * whole}
    labels, merges, ties = by_definition(joint, **target, ratio=rule == "ratio")
    run = greedy(joint, **target, ratio=rule == "ratio")
    assert np.array_equal(run.merges, merges)
    assert np.array_equal(run.labels, labels)
    assert run.ties == ties
    # The numbers are those of the release, by other formulas.
    told, leaked = numbers(joint, [np.flatnonzero(labels == y) for y in range(run.symbols)])
    assert run.disclosure == pytest.approx(told, abs=1e-14)
    assert run.leakage == pytest.approx(leaked, abs=1e-14)
    value = run.leakage if rule == "relevance" else run.disclosure
    assert value >= next(iter(target.values())) - 1e-12
    assert run.leakage <= secret + 1e-14
    # Post-processing on the way never raises either number.
    assert np.all(np.diff(run.disclosures) < 0)
    assert np.all(np.diff(run.totals) <= 1e-15)
    for k in range(len(merges) + 1):
        assert len(np.unique(run.after(k))) == joint.shape[1] - k


def test_reference_curves(shared):
    joint = census().joint
    with open(shared / "reference" / "census" / "greedy_curves_variant_A.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    for row in rows:
        name = {"1": "disclosure", "2": "relevance"}[row["alg"]]
        run = greedy(joint, **{name: float(row["target_nats"])})
        assert run.disclosure == pytest.approx(float(row["IXY_nats"]), abs=1e-12)
        assert run.leakage == pytest.approx(float(row["ISY_nats"]), abs=1e-12)
        assert run.symbols == int(row["n_symbols"])
        assert run.ties == int(row["n_ties"])
        assert run.margin == pytest.approx(float(row["min_margin_nats"]), abs=1e-14)


def test_ties_go_to_the_first_pair_whatever_the_rounding():
    # The pairs (0, 1), (2, 3), (4, 5) are each other's permutations, so they lose the same, but the sums over s
    # round differently; pairs across overlap more and lose less.
    rng = np.random.default_rng(0)
    halves = np.array([[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 4, 5, 2, 3, 6, 7], [0, 2, 4, 6, 1, 3, 5, 7]])
    for _ in range(20):
        one, two = (part * rng.dirichlet(np.full(4, 50.0), size=2) for part in (0.97, 0.03))
        columns = np.zeros((6, 8))
        for pair, half in enumerate(halves):
            places = np.concatenate([rng.permutation(half[:4]), rng.permutation(half[4:])])
            columns[2 * pair, places] = np.concatenate([one[0], two[0]])
            columns[2 * pair + 1, places] = np.concatenate([two[1], one[1]])
        joint = columns.T / 6
        run = greedy(joint, disclosure=1.0)
        assert run.ties >= 1
        assert tuple(run.merges[0]) == (0, 1)
    # A joint where all pairs are alike, and the merged output is like no other: (0,1), then (2,3).
    run = greedy(np.eye(5) / 5, disclosure=1.0)
    assert run.merges.tolist() == [[0, 1], [2, 3]]
    assert run.labels.tolist() == [0, 0, 1, 1, 2]
    assert run.ties == 2
    assert run.margin == np.inf


# -- invariances -----------------------------------------------------------------------------------


def test_symbols_without_mass_change_nothing():
    joint = census().joint[:, :12]
    joint = joint[joint.sum(axis=1) > 0] / joint.sum()
    padded = np.zeros((joint.shape[0] + 1, 15))
    kept = [1, 2, 3, 5, 6, 7, 8, 9, 10, 12, 13, 14]
    padded[np.ix_(range(joint.shape[0]), kept)] = joint
    one, two = greedy(joint, disclosure=1.2), greedy(padded, disclosure=1.2)
    assert np.array_equal(two.labels[kept], one.labels)
    assert two.labels[[0, 4, 11]].tolist() == [0, 0, 0]
    assert np.array_equal(np.searchsorted(kept, two.merges), one.merges)
    assert two.disclosure == pytest.approx(one.disclosure, abs=1e-14)
    assert two.leakage == pytest.approx(one.leakage, abs=1e-14)
    assert np.array_equal(two.after(3)[kept], one.after(3))


@pytest.mark.parametrize("ratio", [False, True])
def test_ends_of_the_curve(ratio):
    joint = census().joint
    whole = entropy_of(joint)
    everything, nothing = greedy_curve(joint, disclosures=[whole, 0.0], ratio=ratio)
    assert np.array_equal(everything.labels, np.arange(55))
    assert np.array_equal(everything.mechanism, np.eye(55))
    assert everything.leakage == pytest.approx(information(joint), abs=1e-13)
    assert len(everything.merges) == 0
    assert np.array_equal(nothing.mechanism, np.ones((55, 1)))
    assert nothing.disclosure == nothing.leakage == 0


def test_a_curve_is_its_single_calls():
    joint = census().joint
    targets = [2.5, 0.3, 1.7]
    for run, target in zip(greedy_curve(joint, disclosures=targets), targets, strict=True):
        single = greedy(joint, disclosure=target)
        assert np.array_equal(run.merges, single.merges)
        assert (run.disclosure, run.leakage, run.margin) == (single.disclosure, single.leakage, single.margin)
    for run, target in zip(greedy_curve(joint, relevances=targets[1:]), targets[1:], strict=True):
        assert np.array_equal(run.merges, greedy(joint, relevance=target).merges)


def test_one_useful_symbol():
    run = greedy(np.array([[0.25], [0.75]]), disclosure=0.0)
    assert run.mechanism.tolist() == [[1.0]]
    assert run.disclosure == run.leakage == run.ties == 0


# -- other measures --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["correct-guess", "sibson-2"])
def test_any_average_measure_is_a_criterion(name):
    joint, reference = drawn_joint(5, 3, 5, 0.4), MEASURES[name]
    measure, whole = reference.asked(joint.sum(axis=1)), entropy_of(joint)

    def leaked(groups):
        return reference.of(joint, told_of(groups))

    for ratio in (False, True):  # the criterion is the sum that a logarithm is taken of
        labels, merges, _ = by_definition(
            joint,
            disclosure=0.4 * whole,
            ratio=ratio,
            measured=lambda groups: (numbers(joint, groups)[0], reference.inner(leaked(groups))),
        )
        run = greedy(joint, disclosure=0.4 * whole, ratio=ratio, leakage=measure)
        assert np.array_equal(run.merges, merges)
        assert run.leakage == pytest.approx(leaked([np.flatnonzero(labels == y) for y in range(run.symbols)]))
    # Algorithm 2 keeps the leakage itself.
    target = 0.4 * leaked([list(range(5))]) + 0.6 * leaked([[x] for x in range(5)])
    _, merges, _ = by_definition(
        joint, relevance=target, measured=lambda groups: (numbers(joint, groups)[0], leaked(groups))
    )
    run = greedy(joint, relevance=target, leakage=measure)
    assert np.array_equal(run.merges, merges)
    assert run.leakage >= target - 1e-12


# -- solvers ---------------------------------------------------------------------------------------


METHODS = (("greedy", False), ("greedy-ratio", True))


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(3)
    return rng.dirichlet(0.3 * np.ones(32)).reshape(4, 8)


def test_solve_gives_the_release_of_the_algorithm(small):
    for name, ratio in METHODS:
        solution = jp.solve(jp.FunnelProblem(small, disclosure=1.0), name)
        run = greedy(small, disclosure=1.0, ratio=ratio)
        assert np.array_equal(solution.mechanism, run.mechanism)
        assert solution.value == pytest.approx(run.leakage, abs=1e-12)
        assert solution.lower_bound <= solution.value == solution.upper_bound
        assert solution.status in ("best_known", "optimal")
        assert solution.steps == len(run.merges)
        assert solution.solver == name
    solution = jp.solve(jp.BottleneckProblem(small, relevance=0.3), "greedy-bottleneck")
    assert np.array_equal(solution.mechanism, greedy(small, relevance=0.3).mechanism)
    assert solution.leakage >= 0.3


def test_other_targets_are_met_by_time_sharing(small):
    for solver, ratio in METHODS:
        solution = jp.solve(jp.FunnelProblem(small, leakage_budget=0.1), solver)
        assert solution.leakage == pytest.approx(0.1, abs=1e-9)
        assert solution.leakage <= 0.1
        run = greedy(small, disclosure=0.0, ratio=ratio)
        assert solution.disclosure >= run.disclosures[run.leakages <= 0.1].max() - 1e-12
        solution = jp.solve(jp.FunnelProblem(small, multiplier=0.5), solver)
        assert solution.value <= (run.leakages - 0.5 * run.disclosures).min() + 1e-12
    solution = jp.solve(jp.BottleneckProblem(small, disclosure=0.9), "greedy-bottleneck")
    assert solution.disclosure <= 0.9
    assert solution.disclosure == pytest.approx(0.9, abs=1e-9)
    secret = information(small)
    runs = greedy_curve(small, relevances=np.arange(8) / 8 * secret)
    below = [run for run in runs if run.disclosure <= 0.9]
    assert solution.value >= max(run.leakage for run in below) - 1e-12
    solution = jp.solve(jp.BottleneckProblem(small, multiplier=0.2), "greedy-bottleneck")
    assert solution.value >= max(run.leakage - 0.2 * run.disclosure for run in runs) - 1e-12


# -- bad input -------------------------------------------------------------------------------------

JOINT = np.array([[0.2, 0.1, 0.1], [0.1, 0.3, 0.2]])
BAD = {
    "no target": ({}, InputError, "exactly one"),
    "two targets": ({"disclosure": 0.1, "relevance": 0.1}, InputError, "exactly one"),
    "negative": ({"disclosure": -0.1}, InputError, "disclosure"),
    "infinite": ({"relevance": np.inf}, InputError, "relevance"),
    "above the entropy": ({"disclosure": 1.2}, InfeasibleError, "disclosure is above H"),
    "above the information": ({"relevance": 0.2}, InfeasibleError, "relevance is above the leakage"),
    "ratio of relevance": ({"relevance": 0.01, "ratio": True}, InputError, "ratio"),
    "worst outcome": ({"disclosure": 0.1, "leakage": MaxCostGain(ZeroOneLoss())}, InputError, "average measure"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_targets(case):
    given_, error, words = BAD[case]
    with raised(error, words):
        greedy(JOINT, **given_)


def test_bad_curves_joints_and_solvers():
    assert_refused(r"disclosures\[1\]", greedy_curve, JOINT, disclosures=[0.1, np.nan])
    with raised(InfeasibleError, r"disclosures\[1\] is above H"):
        greedy_curve(JOINT, disclosures=[0.1, 2.0])
    assert_refused(r"relevances\[0\] is negative", greedy_curve, JOINT, relevances=[-1.0])
    assert_refused("sums to", greedy, 2 * JOINT, disclosure=0.1)
    assert_refused(r"joint\[0, 1\] is negative", greedy, np.array([[0.7, -0.1], [0.2, 0.2]]), disclosure=0.1)
    assert_refused(
        "infinite when X itself", greedy, np.eye(3) / 3, disclosure=0.1, leakage=FInformation(ReverseKullbackLeibler())
    )
    assert_refused("funnel problems", jp.solve, jp.BottleneckProblem(JOINT, disclosure=0.1), "greedy")
    assert_refused("bottleneck problems", jp.solve, jp.FunnelProblem(JOINT, disclosure=0.1), "greedy-bottleneck")
