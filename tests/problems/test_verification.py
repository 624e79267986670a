"""`certify(problem, solution)`: every form and measure confirmed, every forged number exposed."""

import dataclasses
import functools

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import leakage as lk
from jaxpriv.errors import InputError

from .measured_cases import BUDGET, DISTORTION, JOINT, MEASURES, N

HAMMING = 1.0 - np.eye(N)
OTHER = JOINT[::-1] * 0.5 + JOINT * 0.5


def _of(leakage, joint=JOINT, distortion=DISTORTION, **form):
    return jp.DistortionProblem(joint, distortion, leakage=leakage, **form)


PLAIN = {
    "budget": lambda: _of(None, budget=BUDGET),
    "two budgets": lambda: _of(None, distortion=[DISTORTION, HAMMING], budget=[BUDGET, 0.5]),
    "multiplier": lambda: _of(None, multiplier=0.3),
    "leakage budget": lambda: _of(None, leakage_budget=0.05),
    "zero leakage": lambda: _of(None, leakage_budget=0.0),
    "set of joints": lambda: _of(None, joint=np.stack([JOINT, OTHER]), budget=BUDGET),
    "private input": lambda: jp.with_private_input(JOINT[:2] / JOINT[:2].sum(), DISTORTION, budget=0.1),
}
# (problem, solver): linear programs are not compiled.
MEASURED = {
    "sibson-2": (lambda: _of(MEASURES["sibson-2"], budget=BUDGET), "auto"),
    "sibson-0.5, leakage budget": (lambda: _of(MEASURES["sibson-0.5"], leakage_budget=0.05), "auto"),
    "chi-squared, multiplier": (lambda: _of(MEASURES["chi-squared"], multiplier=0.3), "auto"),
    "a set of joints": (
        lambda: _of(MEASURES["maximal-leakage"], joint=np.stack([JOINT, OTHER]), budget=BUDGET),
        "linear-program",
    ),
    "limits": (
        lambda: _of(
            MEASURES["maximal-leakage"],
            distortion=[DISTORTION, HAMMING],
            budget=[0.8, 0.6],
            limits=[(lk.MaxLift(), 0.3), (lk.CorrectGuess(), 0.6)],
        ),
        "linear-program",
    ),
    "limits beside I": (lambda: _of(None, budget=0.6, limits=[(lk.MaxInformation(), 0.3)]), "auto"),
    "maximal leakage": (lambda: _of(MEASURES["maximal-leakage"], budget=BUDGET), "linear-program"),
    "total variation, leakage budget": (
        lambda: _of(MEASURES["total-variation"], leakage_budget=0.1),
        "linear-program",
    ),
    **{
        f"{name}, {form}": (lambda name=name, asked=asked: _of(MEASURES[name], **asked), "linear-program")
        for name in ("lift", "max-lift", "ldp", "ldp-chain", "max-gain-zero-one")
        for form, asked in (("budget", {"budget": BUDGET}), ("leakage budget", {"leakage_budget": 0.2}))
    },
    "max-information": (lambda: _of(MEASURES["max-information"], budget=BUDGET), "auto"),
    "no leakage at all": (lambda: _of(MEASURES["max-lift"], budget=50.0), "linear-program"),
    "no slack": (lambda: _of(MEASURES["lift"], leakage_budget=0.0), "linear-program"),
}


@functools.cache
def solved(name):
    if name in PLAIN:
        problem = PLAIN[name]()
        return problem, jp.solve(problem)
    make, solver = MEASURED[name]
    problem = make()
    return problem, jp.solve(problem, solver)


# Programs of a structure of their own, that take seconds to compile.
_SLOW = (
    "two budgets", "multiplier", "private input", "set of joints", "sibson-0.5, leakage budget",
    "chi-squared, multiplier", "limits beside I",
)  # fmt: skip
ALL = [pytest.param(name, marks=[pytest.mark.slow] * (name in _SLOW)) for name in (*PLAIN, *MEASURED)]


@pytest.mark.parametrize("name", ALL)
def test_an_honest_solution_is_confirmed(name):
    problem, solution = solved(name)
    assert solution.status == "optimal"
    found = jp.certify(problem, solution)
    assert found.valid
    assert found.agrees, found.message
    assert found.gap <= 1e-6 + 1e-9
    assert "The stored numbers agree." in found.message
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
def test_other_rules_prove_no_more_than_they_do(name):
    """Wrong duals lower the bound, which the stored one then exceeds; and whatever they are, the bound is valid."""
    problem, solution = solved(name)
    rng = np.random.default_rng(3)
    factor = 1.0 + 0.2 * rng.normal(size=np.shape(solution.scores))
    found = jp.certify(problem, dataclasses.replace(solution, scores=solution.scores * factor))
    assert found.lower_bound < solution.lower_bound - 1e-6
    assert not found.agrees
    assert "lower_bound" in found.message
    if np.size(solution.multipliers) and np.any(solution.multipliers):
        found = jp.certify(problem, dataclasses.replace(solution, multipliers=1.1 * solution.multipliers))
        assert found.lower_bound <= solution.value


def test_another_problem_is_not_confirmed():
    problem, solution = solved("sibson-2")
    tighter = jp.DistortionProblem(JOINT, DISTORTION, budget=0.9 * BUDGET, leakage=problem.leakage)
    assert jp.certify(tighter, solution).violation > 0
    with pytest.raises(InputError, match=r"solution\.weights has shape"):
        jp.certify(jp.DistortionProblem(JOINT, DISTORTION, budget=BUDGET, leakage=lk.MaxInformation()), solution)
    with pytest.raises(InputError, match="mechanism has shape"):
        jp.certify(jp.DistortionProblem(JOINT, DISTORTION[:, :3], budget=BUDGET), solution)


def test_operators_are_certified_block_by_block():
    problem = PLAIN["budget"]()
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
    problem = PLAIN["budget"]()
    curve = jp.frontier(problem, budgets=[BUDGET, -1.0])
    with pytest.raises(InputError, match=r"solution\[i\]"):
        jp.certify(problem, curve.solutions)
    assert jp.certify(problem, curve.solutions[0]).agrees
    with pytest.raises(InputError, match="infeasible"):
        jp.certify(problem, curve.solutions[1])
    funnel = jp.FunnelProblem(JOINT[:2] / JOINT[:2].sum(), disclosure=0.1)
    with pytest.raises(InputError, match="frontier"):
        jp.certify(problem, curve)
    with pytest.raises(InputError, match="problem must be"):
        jp.certify(funnel, curve.solutions[0])
