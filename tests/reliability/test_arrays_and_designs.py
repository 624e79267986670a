"""Bad input and faults, one numbered case each: arrays (A), designs and solvers (B).

What happens is defined, and tested. Most cases have further tests beside the code that they are about; here every
number has one that can fail.
"""

import json
from fractions import Fraction

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import jaxpriv as jp
from jaxpriv.cli import _output, app
from jaxpriv.errors import (
    InfeasibleError,
)
from jaxpriv.funnels import AbstractFunnelSolver, PosteriorMeasure
from jaxpriv.leakage import LocalDifferentialPrivacy, MaximalLeakage, MutualInformation, by_name, evaluate
from jaxpriv.release import fit, release
from jaxpriv.statistics.confidence import l1_radius, mcdiarmid_radius, weissman_radius
from jaxpriv.verifier.archive import Table
from jaxpriv.verifier.claims import ONE, Counted
from tests.mechanism.conftest import COLUMNS, people
from tests.reliability.cases import CASES, HAMMING, JOINT, RESPONSE, case, refused, value

# -- A. probabilities and arrays -----------------------------------------------------------------------------------


@case(1)
def nan_and_infinity(**_):
    for bad in (np.nan, np.inf, -np.inf):
        joint = JOINT.copy()
        joint[1, 2] = bad
        refused(lambda joint=joint: jp.DistortionProblem(joint, HAMMING, budget=0.1), "joint[1, 2]")
    refused(lambda: jp.DistortionProblem(JOINT, HAMMING, leakage_budget=np.nan), "leakage_budget")
    for bad in (np.nan, -np.inf):
        refused(lambda bad=bad: jp.DistortionProblem(JOINT, HAMMING, budget=bad), "budget")
        refused(lambda bad=bad: jp.DistortionProblem(JOINT, HAMMING, multiplier=bad), "multiplier")
        refused(lambda bad=bad: jp.solve(jp.DistortionProblem(JOINT, HAMMING, budget=0.1), tol=bad), "tol")
        refused(lambda bad=bad: fit(people(100), **COLUMNS, budget=bad), "budget")
        refused(lambda bad=bad: fit(people(100), **COLUMNS, budget=0.2, confidence=bad), "confidence")
        refused(lambda bad=bad: jp.watchdog.watchdog(JOINT, epsilon=bad), "epsilon")
        costs = HAMMING.copy()
        costs[0, 2] = bad
        refused(lambda costs=costs: jp.DistortionProblem(JOINT, costs, budget=0.1), "distortion[0, 2]")


@case(2)
def negative_mass(**_):
    for amount in (1e-3, 1e-17):
        joint = JOINT.copy()
        joint[0, 1] = -amount
        refused(lambda joint=joint: value(joint, RESPONSE), "joint[0, 1]", "negative")


@case(3)
def totals(**_):
    for factor in (0.9, 1.1):
        refused(lambda factor=factor: value(JOINT * factor, RESPONSE), "joint", f"{factor:g}")
    assert value(JOINT * (1 + 1e-12), RESPONSE) == pytest.approx(value(JOINT, RESPONSE), abs=1e-9)
    refused(lambda: value(np.array([[30, 10, 5], [5, 10, 40]]), RESPONSE), "joint")  # counts are not guessed
    assert jp.probability.from_counts([[30, 10], [5, 55]]).sum() == pytest.approx(1, abs=1e-15)


@case(4)
def nothing_there(**_):
    for empty in (np.zeros((2, 3)), np.zeros((0, 3)), np.zeros((2, 0)), np.zeros(0)):
        refused(lambda empty=empty: jp.DistortionProblem(empty, HAMMING, budget=0.1), "joint")
    assert value(np.ones((1, 1)), np.ones((1, 1))) == 0


@case(5)
def zero_mass_rows_and_columns(**_):
    joint = np.array([[0.2, 0.3, 0.0], [0.0, 0.0, 0.0], [0.1, 0.4, 0.0]])
    plain = value(joint[[0, 2]], RESPONSE)
    assert value(joint, RESPONSE) == pytest.approx(plain, abs=1e-15)
    solution = jp.solve(jp.DistortionProblem(joint, HAMMING, budget=0.1))
    mechanism = np.asarray(solution.mechanism)
    assert np.allclose(mechanism.sum(axis=1), 1)
    np.testing.assert_allclose(mechanism[2], joint.sum(axis=0) @ mechanism, atol=1e-12)  # an x without mass: P_Y
    assert solution.status == "optimal"


@case(6)
def outputs_that_never_occur(**_):
    wide = np.hstack([RESPONSE, np.zeros((3, 2))])
    for measure in (MutualInformation(), MaximalLeakage(), LocalDifferentialPrivacy()):
        assert value(JOINT, wide, measure) == pytest.approx(value(JOINT, RESPONSE, measure), abs=1e-15)


@case(7)
def shapes(**_):
    skewed = np.array([[0.5, 0.5, 0.0], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8]])
    refused(lambda: value(JOINT, skewed.T), "mechanism", "row")
    refused(lambda: value(JOINT, np.eye(2)), "mechanism")
    refused(lambda: value(JOINT[0], RESPONSE), "joint")
    refused(lambda: jp.DistortionProblem(JOINT, HAMMING[:2], budget=0.1), "distortion")
    refused(lambda: jp.DistortionProblem(JOINT, HAMMING[None, None], budget=0.1), "distortion")


@case(8)
def kinds_of_numbers(**_):
    for bad in (JOINT.astype(bool), JOINT.astype(object), JOINT.astype(str), JOINT.astype(complex)):
        refused(lambda bad=bad: value(bad, RESPONSE), "joint")
    refused(lambda: value(JOINT.astype("datetime64[s]"), RESPONSE), "joint")
    refused(lambda: value(np.ma.masked_array(JOINT, JOINT[0, 0] == JOINT), RESPONSE), "joint", "masked")
    expected = value(JOINT, RESPONSE)
    fixed = JOINT.copy()
    fixed.setflags(write=False)
    for same in (JOINT.astype(">f8"), np.asfortranarray(JOINT), JOINT[::-1][::-1], fixed, JOINT.tolist()):
        assert value(same, RESPONSE) == pytest.approx(expected, rel=1e-14)
    assert value(JOINT.astype(np.float32), RESPONSE) == pytest.approx(expected, abs=1e-6)
    refused(lambda: jax.jit(lambda joint: value(joint, RESPONSE))(JOINT), "host")


@case(9)
def subnormal_masses(**_):
    """ln P(y|s)/P(y) of masses that XLA reads as 0 is that of exact arithmetic."""
    tiny = 1e-310
    joint = np.array([[0.5, tiny], [0.25, 0.25]])
    joint[0, 0] = 1 - joint[0, 1] - 0.5
    found = value(joint, np.eye(2), LocalDifferentialPrivacy())
    assert found == pytest.approx(2 * np.log(0.5) - np.log(tiny), rel=1e-9)
    assert np.isfinite(value(joint, np.eye(2)))


@case(10)
def near_perfect_privacy(made, tmp, **_):
    """Never negative, and in the verifier an enclosure that holds what is not 0."""
    joint = np.array([[0.25 + 1e-9, 0.25 - 1e-9], [0.25 - 1e-9, 0.25 + 1e-9]])
    assert 0 <= value(joint, np.eye(2)) < 1e-15
    assert value(np.full((2, 2), 0.25), np.eye(2)) == 0
    claim = made["fitted"].claims["leakage"]
    assert 0 <= Fraction(claim.lower) <= Fraction(claim.upper)
    # I = 8 d^2 + O(d^4) for P = 1/4 +- d, d = 2^-30: below what float64 resolves, exact in the verifier.
    counts = [[2**28 + 1, 2**28 - 1], [2**28 - 1, 2**28 + 1]]
    exact = Counted.of(Table((2, 2), [*counts[0], *counts[1]]), [[ONE, 0], [0, ONE]], "counts").leakage(
        "mutual-information"
    )
    assert exact is not None
    assert 0 < Fraction(exact.lower) <= Fraction(exact.upper)
    assert float(exact.lower) == pytest.approx(8 * 2.0**-60, rel=1e-9)


@case(11)
def degenerate_mechanisms(**_):
    uniform = np.eye(4) / 4
    assert value(uniform, np.eye(4)) == pytest.approx(np.log(4), abs=1e-15)
    assert value(uniform, np.ones((4, 1))) == 0
    assert value(uniform, np.full((4, 4), 0.25)) == 0
    assert value(np.full((1, 4), 0.25), np.eye(4)) == 0
    assert value(np.full((4, 1), 0.25), np.ones((1, 1))) == 0
    merged = np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    assert value(uniform, merged) == pytest.approx(np.log(2), abs=1e-15)


@case(12)
def infinite_leakage(**_):
    found = evaluate(LocalDifferentialPrivacy(), 0.5 * np.eye(2), np.array([[1.0, 0.0], [0.5, 0.5]]))
    assert found.value == np.inf
    assert found.witness.output == 1
    assert (found.witness.raised, found.witness.lowered) == (1, 0)

    assert json.loads(_output.json_text({"value": found.value}))["value"] == "inf"


@case(13)
def large_alphabets(**_):
    for cells in (64, 65, 1100, 10**6):
        assert 0 < weissman_radius(cells, 10**9, 0.05) < 2
        assert 0 < mcdiarmid_radius(cells, 10**9, 0.05) < 2
        assert l1_radius(cells, 10, 0.05) <= 2
    assert weissman_radius(65, 1000, 0.05) > weissman_radius(64, 1000, 0.05)


@case(14)
def relabelling_splitting_and_merging(**_):
    split = np.hstack([0.3 * RESPONSE[:, :1], 0.7 * RESPONSE[:, :1], RESPONSE[:, 1:]])
    merged = np.stack([RESPONSE[:, 0] + RESPONSE[:, 1], RESPONSE[:, 2]], axis=1)
    names = ("mutual-information", "maximal-leakage", "ldp", "min-entropy", "max-lift", "lift", "max-information")
    for measure in (*map(by_name, names), by_name("sibson", order=2.0), by_name("arimoto", order=2.0)):
        plain = value(JOINT, RESPONSE, measure)
        assert value(JOINT, RESPONSE[:, [2, 0, 1]], measure) == pytest.approx(plain, abs=1e-14)
        assert value(JOINT[::-1], RESPONSE, measure) == pytest.approx(plain, abs=1e-14)
        assert value(JOINT, split, measure) == pytest.approx(plain, abs=1e-14)
        assert value(JOINT, merged, measure) <= plain + 1e-14


# -- B. designs and solvers ----------------------------------------------------------------------------------------


@case(15)
def infeasible_targets(**_):
    with pytest.raises(InfeasibleError) as caught:
        jp.solve(jp.FunnelProblem(JOINT, disclosure=5.0))
    source = JOINT.sum(axis=0)
    assert caught.value.proof["disclosure"] == 5.0
    assert caught.value.proof["largest"] == pytest.approx(-source @ np.log(source))
    negative = jp.DistortionProblem(JOINT, HAMMING, leakage_budget=-0.1)
    refused(lambda: jp.solve(negative), "leakage", error=InfeasibleError)
    with pytest.raises(InfeasibleError) as caught:
        jp.solve(jp.DistortionProblem(JOINT, HAMMING + 1.0, budget=0.5))
    assert caught.value.proof["allowed"] == 0.5
    assert caught.value.proof["bound"] == pytest.approx(1.0)


@case(16)
def targets_on_the_boundary(**_):
    private = np.array([[0.25, 0.25, 0.0], [0.0, 0.0, 0.5]])
    nothing = jp.solve(jp.DistortionProblem(private, HAMMING, leakage_budget=0.0))
    assert float(nothing.leakage) == pytest.approx(0, abs=1e-12)
    everything = jp.solve(jp.DistortionProblem(private, HAMMING, leakage_budget=np.log(2)))
    assert float(everything.value) == pytest.approx(0, abs=1e-9)
    assert jp.solve(jp.FunnelProblem(JOINT, disclosure=0.0)).value == pytest.approx(0, abs=1e-9)
    source = JOINT.sum(axis=0)
    whole = jp.solve(jp.FunnelProblem(JOINT, disclosure=float(-source @ np.log(source))))
    assert whole.value == pytest.approx(value(JOINT, np.eye(3)), abs=1e-9)  # all of X: I(S;X)
    assert whole.gap <= 1e-6


@case(17)
def budgets_of_zero_and_of_everything(**_):
    identity = jp.solve(jp.DistortionProblem(JOINT, HAMMING, budget=0.0))
    np.testing.assert_allclose(identity.mechanism, np.eye(3), atol=1e-9)
    constant = jp.solve(jp.DistortionProblem(JOINT, HAMMING, budget=1.0))
    assert float(constant.value) == pytest.approx(0, abs=1e-9)


@case(18)
def redundant_limits_and_scales(**_):
    plain = jp.solve(jp.DistortionProblem(JOINT, HAMMING, budget=0.2), tol=1e-7)
    for scale in (1e-12, 1e-9, 1e9, 1e12):
        scaled = jp.solve(jp.DistortionProblem(JOINT, scale * HAMMING, budget=0.2 * scale), tol=1e-7)
        assert scaled.lower_bound - 1e-12 <= plain.value
        assert plain.lower_bound - 1e-12 <= scaled.value
    twice = jp.solve(jp.DistortionProblem(JOINT, (HAMMING, HAMMING), budget=(0.2, 0.2)), tol=1e-7)
    assert float(twice.value) == pytest.approx(float(plain.value), abs=2e-7)
    # Rows in proportion (S says no more than two classes), and a face of optima: every exchange of symbols is as good.
    doubled = jp.solve(jp.DistortionProblem(np.vstack([JOINT, JOINT]) / 2, HAMMING, budget=0.2), tol=1e-7)
    assert float(doubled.value) == pytest.approx(float(plain.value), abs=2e-7)
    flat = jp.solve(jp.DistortionProblem(np.eye(3) / 3, HAMMING, budget=0.4), tol=1e-7)
    exact = np.log(3) + 0.6 * np.log(0.6) + 0.4 * np.log(0.2)
    assert flat.lower_bound - 1e-12 <= exact <= float(flat.value) + 1e-12
    assert float(flat.gap) <= 1e-7


@case(19)
def too_few_steps(tmp, **_):
    full = jp.solve(jp.DistortionProblem(JOINT, HAMMING, budget=0.2), tol=1e-9)
    short = jp.solve(jp.DistortionProblem(JOINT, HAMMING, budget=0.2), solver="mirror-descent", max_steps=1, tol=1e-12)
    assert short.status == "not_certified"
    assert short.lower_bound <= full.value
    assert short.value >= full.lower_bound
    assert np.isfinite(short.gap)
    refused(lambda: jp.solve(jp.DistortionProblem(JOINT, HAMMING, budget=0.2), tol=0.0), "tol", "> 0")
    for limits in ({"tol": 1e-300}, {"time_limit": 1e-9, "tol": 1e-14}):
        found = jp.solve(jp.DistortionProblem(JOINT, HAMMING, budget=0.2), **limits)
        assert found.status in ("not_certified", "best_known")
        assert found.lower_bound <= full.value + 1e-12
        assert found.value >= full.lower_bound - 1e-12
    np.savez(tmp / "p.npz", joint=JOINT, distortion=HAMMING)
    line = ["solve", tmp / "p.npz", "--budget", 0.2, "--tol", 1e-18, "--out", tmp / "m.npz"]
    assert CliRunner().invoke(app, list(map(str, line))).exit_code == 4


@case(20)
def a_solver_that_returns_nonsense(**_):
    import dataclasses

    problem = jp.DistortionProblem(JOINT, HAMMING, budget=0.2)
    solution = jp.solve(problem)
    nothing = dataclasses.replace(solution, mechanism=np.full((3, 3), np.nan))
    assert not nothing.verify(problem).valid
    longer = dataclasses.replace(solution, mechanism=np.asarray(solution.mechanism) * (1 + 1e-4)).verify(problem)
    assert not (longer.valid and longer.agrees)

    @dataclasses.dataclass(frozen=True)
    class Nonsense(AbstractFunnelSolver):
        factor: float

        def find(self, problem, goal):
            del goal
            return PosteriorMeasure(self.factor * np.eye(3), problem.core.sum(axis=0))

    funnel = jp.FunnelProblem(JOINT, disclosure=0.5)
    assert jp.solve(funnel, solver=Nonsense(1.0)).value == pytest.approx(value(JOINT, np.eye(3)), rel=0.9)
    for factor in (np.nan, 1 + 1e-4):
        with pytest.raises(ArithmeticError):
            jp.solve(funnel, solver=Nonsense(factor))


@case(21)
def curves_do_not_turn_back(**_):
    curve = jp.frontier(jp.DistortionProblem(JOINT, HAMMING, budget=0.1), budgets=np.linspace(0.02, 0.5, 12))
    leakage = np.asarray(curve.value)
    assert np.all(np.diff(leakage) <= 1e-6)
    assert np.all(np.diff(np.diff(leakage)) >= -2e-6)  # convex


@case(22)
def a_local_optimum_shows_its_gap(**_):
    """Merging in the order that looks best ends far from the optimum, and what it returns says so."""
    joint = np.array([[9, 1, 4, 7, 2], [1, 8, 5, 2, 9]]) / 48
    source = joint.sum(axis=0)
    problem = jp.FunnelProblem(joint, disclosure=0.7 * float(-source @ np.log(source)))
    best, merged = jp.solve(problem), jp.solve(problem, solver="greedy")
    assert merged.value > 1.1 * best.value
    assert merged.status != "optimal"
    assert merged.gap >= merged.value - best.value - 1e-12  # the interval holds the optimum
    assert best.status == "optimal"
    hidden = np.array([[0.25, 0.25, 0, 0], [0, 0, 0.25, 0.25]])  # X = (S, B): B tells ln 2 and leaks nothing
    assert float(jp.solve(jp.FunnelProblem(hidden, disclosure=np.log(2))).value) == pytest.approx(0, abs=1e-5)


@case(23)
def seeds(**_):
    table = people(100)
    for bad in (-1, 0.5, None, True, "1"):
        refused(lambda bad=bad: fit(table, **COLUMNS, budget=0.2, seed=bad), "seed")
    refused(lambda: fit(table, **COLUMNS, budget=0.2, seed=np.nan), "seed")
    for large in (2**53, 2**64 + 1, 1e300):
        refused(lambda large=large: fit(table, **COLUMNS, budget=0.2, seed=large), "seed", "below 2^53")
    parts = [fit(table, **COLUMNS, budget=0.2, seed=2**53 - 1).evidence.counts for _ in range(2)]
    np.testing.assert_array_equal(*parts)
    assert "seed" not in release.__kwdefaults__


@pytest.mark.parametrize("number", range(1, 24))
def test_case(number, made, tmp_path, monkeypatch):
    CASES[number](made=made, tmp=tmp_path, patch=monkeypatch)
