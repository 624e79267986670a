"""`certify(problem, solution)`: every form and measure confirmed, every forged number exposed."""

import dataclasses
import functools
import re

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from tests.cases import assert_refused

from .measured_cases import BUDGET, DISTORTION, JOINT, MEASURES, OWN, TWINS, N, problem_of

HAMMING = 1.0 - np.eye(N)
JOINTS = np.stack([JOINT, JOINT[::-1] * 0.5 + JOINT * 0.5])
NO_LEAKAGE = {"leakage_budget": 0.0}
QUERY = jp.databases.counting_query(4, 0.3)
AUTO = {
    "budget": problem_of(None, budget=BUDGET),
    "two budgets": problem_of(None, distortion=[DISTORTION, HAMMING], budget=[BUDGET, 0.5]),
    "multiplier": problem_of(None, multiplier=0.3),
    "leakage budget": problem_of(None, leakage_budget=0.05),
    "zero leakage": problem_of(None, **NO_LEAKAGE),
    "set of joints": problem_of(None, JOINTS, budget=BUDGET),
    "private input": jp.with_private_input(JOINT[:2] / JOINT[:2].sum(), DISTORTION, budget=0.1),
    "sibson-2": problem_of(MEASURES["sibson-2"], budget=BUDGET),
    "sibson-0.5, leakage budget": problem_of(MEASURES["sibson-0.5"], leakage_budget=0.05),
    "chi-squared, multiplier": problem_of(MEASURES["chi-squared"], multiplier=0.3),
    "limits beside I": problem_of(None, budget=0.6, limits=[(lk.MaxInformation(), 0.3)]),
    "max-information": problem_of(MEASURES["max-information"], budget=BUDGET),
    **{
        f"user's {name}, leakage budget": problem_of(OWN[name], leakage_budget=0.03)
        for name in ("le-cam", "bounded-domain", "quartic")
    },
    "user's brier, budget": problem_of(TWINS["gain-brier"], budget=BUDGET),
    **{
        f"{name}, leakage budget": problem_of(MEASURES[name], leakage_budget=0.02)
        for name in ("arimoto-0.3", "arimoto-3", "hellinger", "jensen-shannon", "reverse-kl", "relative-entropy")
    },
    "databases behind counts": jp.DistortionProblem(
        np.diag(QUERY.prior),
        jp.distortion.absolute(np.arange(5.0)),
        leakage=lk.MaxInformation(QUERY.hidden),
        leakage_budget=0.5,
    ),
    **{
        f"{name}, no leakage": problem_of(MEASURES[name], **NO_LEAKAGE)
        for name in ("sibson-2", "sibson-0.5", "chi-squared", "gain-brier", "max-information")
    },
}
# Linear programs are not compiled.
SIMPLEX = {
    "a set of joints": problem_of(MEASURES["maximal-leakage"], JOINTS, budget=BUDGET),
    "limits": problem_of(
        MEASURES["maximal-leakage"],
        distortion=[DISTORTION, HAMMING],
        budget=[0.8, 0.6],
        limits=[(lk.MaxLift(), 0.3), (lk.CorrectGuess(), 0.6)],
    ),
    "maximal leakage": problem_of(MEASURES["maximal-leakage"], budget=BUDGET),
    "total variation, leakage budget": problem_of(MEASURES["total-variation"], leakage_budget=0.1),
    **{
        f"{name}, {next(iter(form))}": problem_of(MEASURES[name], **form)
        for name in ("lift", "max-lift", "ldp", "ldp-chain", "max-gain-zero-one")
        for form in ({"budget": BUDGET}, {"leakage_budget": 0.2})
    },
    "no leakage at all": problem_of(MEASURES["max-lift"], budget=50.0),
    "no slack": problem_of(MEASURES["lift"], **NO_LEAKAGE),
}
PROBLEMS = AUTO | SIMPLEX


@functools.cache
def solved(name):
    problem = PROBLEMS[name]
    return problem, jp.solve(problem, "linear-program" if name in SIMPLEX else "auto")


# Programs of a structure of their own, that take seconds to compile.
_SLOW = (
    "two budgets", "multiplier", "private input", "set of joints", "sibson-0.5, leakage budget",
    "chi-squared, multiplier", "limits beside I",
)  # fmt: skip
ALL = [pytest.param(name, marks=[pytest.mark.slow] * (name in _SLOW)) for name in PROBLEMS]


@pytest.mark.parametrize("name", ALL)
def test_an_honest_solution_is_confirmed(name):
    problem, solution = solved(name)
    assert solution.status == "optimal"
    found = jp.certify(problem, solution)
    assert found.valid
    assert found.agrees, found.message
    assert found.gap <= 1e-6 + 1e-9
    stated = re.fullmatch(
        r"The optimum lies in \[(\S+), (\S+)\]: the gap is at most (\S+)\. The stored numbers agree\.", found.message
    )
    assert stated is not None, found.message
    low, high, gap = map(float, stated.groups())  # rounded outwards
    assert low <= found.lower_bound <= found.upper_bound <= high
    assert gap >= found.gap
    assert solution.verify(problem).lower_bound == found.lower_bound


@pytest.mark.parametrize("name", ALL)
def test_a_forged_number_is_exposed(name):
    problem, solution = solved(name)
    for field, change in (("value", -1e-4), ("lower_bound", 1e-4), ("leakage", -1e-4)):
        forged = dataclasses.replace(solution, **{field: getattr(solution, field) + change})
        found = jp.certify(problem, forged)
        assert not found.agrees
        assert f"{field} " in found.message
        again = jp.certify(problem, solution)
        assert found.value == again.value  # what is stored does not enter
        assert found.lower_bound == pytest.approx(again.lower_bound, abs=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_another_mechanism_is_exposed(name):
    problem, solution = solved(name)
    moved = 0.99 * solution.mechanism + 0.01 * np.eye(*solution.mechanism.shape)[::-1]
    found = jp.certify(problem, dataclasses.replace(solution, mechanism=moved))
    assert not (found.valid and found.agrees)
    rows = solution.mechanism.copy()
    rows[0] *= 1.001
    assert not jp.certify(problem, dataclasses.replace(solution, mechanism=rows)).valid
    unknown = np.full_like(solution.mechanism, np.nan)
    found = jp.certify(problem, dataclasses.replace(solution, mechanism=unknown))
    assert not found.valid
    assert not found.agrees


@pytest.mark.parametrize("name", [one for one in ALL if one.values != ("no leakage at all",)])
def test_the_rules_of_another_solution_are_exposed(name):
    """Wrong duals lower the bound, which the stored one then exceeds."""
    problem, solution = solved(name)
    factor = 1.0 + 0.2 * np.random.default_rng(3).normal(size=np.shape(solution.scores))
    found = jp.certify(problem, dataclasses.replace(solution, scores=solution.scores * factor))
    assert found.lower_bound < solution.lower_bound - 1e-6
    assert not found.agrees
    assert "lower_bound" in found.message


@pytest.mark.parametrize("name", ALL)
def test_no_rules_and_prices_prove_more_than_the_value(name):
    """Pushed off their sets by any amount, some of them no numbers, and priced too low or too high."""
    problem, solution = solved(name)
    rng = np.random.default_rng(0)
    for size in (1e-6, 1e-3, 0.1, 1.0, 100.0, 1e6):
        for factor in (0.0, 0.5, 1.0, 3.0):
            k, eta, price = (
                np.asarray(part) * (1 + size * rng.normal(size=np.shape(part)))
                for part in (solution.scores, solution.weights, solution.multipliers)
            )
            k = k + size * rng.normal(size=k.shape) * (rng.random(k.shape) < 0.2)
            junk = rng.choice([1e300, -1e300, np.inf, -np.inf, np.nan])
            scores = np.where(rng.random(k.shape) < 0.03, junk, k)
            other = dataclasses.replace(solution, scores=scores, weights=factor * eta, multipliers=factor * price)
            assert jp.certify(problem, other).lower_bound <= solution.value


def test_another_problem_is_not_confirmed():
    problem, solution = solved("sibson-2")
    tighter = problem_of(problem.leakage, budget=0.9 * BUDGET)
    assert jp.certify(tighter, solution).violation > 0
    assert_refused(r"solution\.weights has shape", jp.certify, problem_of(lk.MaxInformation(), budget=BUDGET), solution)
    assert_refused(
        "mechanism has shape", jp.certify, problem_of(None, distortion=DISTORTION[:, :3], budget=BUDGET), solution
    )


def test_operators_are_certified_block_by_block():
    problem = PROBLEMS["budget"]
    solution = jp.solve(problem, "accelerated", rtol=1e-3)
    found = jp.certify(problem, solution)
    assert found.valid
    assert found.agrees, found.message
    forged = dataclasses.replace(solution, lower_bound=solution.lower_bound * 1.1)
    assert not jp.certify(problem, forged).agrees
    wrong = dataclasses.replace(solution, scores=0.5 * solution.scores)
    assert jp.certify(problem, wrong).lower_bound < solution.lower_bound


def test_additive_noise():
    problem = jp.NoiseProblem(JOINT, np.array([0.0, 1.0, 2.0, 1.0]), budget=0.5)
    solution = jp.solve(problem)
    found = jp.certify(problem, solution)
    assert found.valid
    assert found.agrees, found.message
    uneven = solution.mechanism.copy()
    uneven[1] = np.roll(uneven[1], 1)
    assert not jp.certify(problem, dataclasses.replace(solution, mechanism=uneven)).valid
    assert not jp.certify(problem, dataclasses.replace(solution, multipliers=2 * solution.multipliers)).agrees


def test_a_batch_an_infeasible_result_and_other_kinds_are_refused():
    problem = PROBLEMS["budget"]
    curve = jp.frontier(problem, budgets=[BUDGET, -1.0])
    assert_refused(r"solution\[i\]", jp.certify, problem, curve.solutions)
    assert jp.certify(problem, curve.solutions[0]).agrees
    assert_refused("infeasible", jp.certify, problem, curve.solutions[1])
    funnel = jp.FunnelProblem(JOINT[:2] / JOINT[:2].sum(), disclosure=0.1)
    assert_refused("frontier", jp.certify, problem, curve)
    assert_refused("problem must be", jp.certify, funnel, curve.solutions[0])
