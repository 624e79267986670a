"""Whole solves by the kernels for worst outcomes and for limited information, against the steps of the method."""

import dataclasses

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.leakage.rule_sets import Power, Role
from jaxpriv.program.lower import limits_of, measured_program
from jaxpriv.reductions.closed_forms import independent_release
from jaxpriv.reductions.reduction import Reduced
from jaxpriv.solvers import Goal, InteriorPoint, MirrorDescent
from jaxpriv.solvers._base import in_precision
from jaxpriv.solvers.interior_point import whole
from jaxpriv.solving.kinds import Kinds
from jaxpriv.testing import random_joint
from tests.solvers.kernel_cases import (
    SIZES,
    by_steps,
    certified_without_compiling,
    compare,
    compare_lanes,
    compare_last_points,
    compare_starts,
    compare_steps,
    compare_traced,
    degenerate,
    each,
    kernels,
    problem_of,
    program_of,
    run_of,
)

pytestmark = [kernels, pytest.mark.usefixtures("library_settings")]

RATIOS = {
    "ldp": jp.leakage.LocalDifferentialPrivacy(),
    "lift": jp.leakage.Lift(),
    "max-lift": jp.leakage.MaxLift(),
    "min-lift": jp.leakage.MinLift(),
    "inferential": jp.leakage.InferentialPrivacy(),
}
MEASURES = RATIOS | {
    "max-information": jp.leakage.MaxInformation(),
    "relative-entropy": jp.leakage.RelativeEntropyPrivacy(),
    "hidden": jp.leakage.MaxInformation(hidden=np.linspace(0.0, 1.5, 5)),
}
# The least cost under a limit on mutual information; the others are least values of a measure within budgets.
LIMITED = "limited information"
OF_EACH_KIND = ["ldp", "lift", "max-information", LIMITED]
HAMMING, STEPS = 1.0 - np.eye(4), abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))


def limited(seed, sizes, limit=0.03, joint=None):
    private, inputs, outputs = sizes
    joint = random_joint(seed, private, inputs) if joint is None else joint
    table = np.random.default_rng(seed).uniform(size=(inputs, outputs))
    return jp.DistortionProblem(joint, table, leakage_budget=limit)


def limited_program(problem, budgets=0):
    """With an independent release, and budgets for all that differs from it."""
    program = measured_program(problem, limits_of(problem))
    program = dataclasses.replace(program, feasible_point=independent_release(program))
    weights = np.random.default_rng(budgets).uniform(0.5, 1.0, size=(budgets, *program.cost.shape))
    tables = weights * program.mass[:, None] * (1.0 - program.feasible_point)
    limits = np.array([0.1, 0.05, 1.0])[:budgets]
    return dataclasses.replace(program, constraints=tables, budgets=limits, marks=np.zeros(budgets))


def stated(name, seed, sizes, budgets=1, joint=None):
    """The problem of a measure, or the program with limited information (with so many budgets beside the limit)."""
    if name == LIMITED:
        return limited_program(limited(seed, sizes, joint=joint), budgets)
    return problem_of(seed, sizes, MEASURES[name], budgets, joint)


@pytest.mark.parametrize("name", OF_EACH_KIND)
@pytest.mark.parametrize("size", SIZES)
def test_a_solve_is_that_of_the_method(size, name, monkeypatch):
    if (name, size) == ("max-information", "one-output"):
        pytest.skip("an output alone leaks nothing, and nothing is iterated on")
    compare(monkeypatch, stated(name, 1, SIZES[size], budgets=int(name != LIMITED)))


@each
@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_is_solved_by_every_instruction_set(name, monkeypatch):
    compare(monkeypatch, stated(name, 5, (5, 6, 9)))


@each
@pytest.mark.parametrize("limit", [1e-9, 1e-4, 0.3])
def test_every_limit_is_met_by_every_instruction_set(limit, monkeypatch):
    compare(monkeypatch, limited_program(limited(5, (5, 6, 9), limit)))


@pytest.mark.parametrize("name", ["ldp", "max-lift", "max-information", "relative-entropy", "hidden", LIMITED])
@pytest.mark.parametrize("kind", ["zero-mass", "diagonal", "equal-rows", "zeros", "rare"])
def test_degenerate_joints_are_solved_as_by_the_method(kind, name, monkeypatch):
    compare(monkeypatch, stated(name, 2, (5, 5, 6), int(name != LIMITED), degenerate(kind)))


@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_several_budgets_are_solved_as_by_the_method(name, monkeypatch):
    asked = stated(name, 4, (4, 6, 7), budgets=3)
    compare(monkeypatch, asked)
    if name == LIMITED:
        found, _ = run_of(InteriorPoint(), Reduced.of(asked, Goal(1e-8)), 60)
        assert found.price.shape == (4,)
        assert (found.price[:-1] > 1e-3).any()  # some hold


@each
@pytest.mark.parametrize("steps", [0, 2, 7])
@pytest.mark.parametrize(
    ("name", "budgets"), [*((name, 2) for name in (*OF_EACH_KIND, "relative-entropy")), (LIMITED, 0)]
)
def test_every_step_is_that_of_the_method(name, budgets, steps, monkeypatch):
    compare_steps(monkeypatch, stated(name, 7, (6, 7, 9), budgets), steps)


@pytest.mark.parametrize("name", ["max-information", LIMITED])
def test_later_starts_are_those_of_the_method(name, monkeypatch):
    compare_starts(monkeypatch, stated(name, 1, (4, 5, 6), int(name != LIMITED)))


@pytest.mark.parametrize("attempts", [1, 6])
def test_more_attempts_than_starts_repeat_the_last(attempts, monkeypatch):
    solver = InteriorPoint(boundary=0.01, attempts=attempts)
    reduced = Reduced.of(stated(LIMITED, 1, (4, 5, 6), 0), Goal(1e-9))
    steps = run_of(solver, reduced, 60)[1]
    assert steps == 6 * attempts
    assert steps == by_steps(monkeypatch, lambda: run_of(solver, reduced, 60))[1]


def test_solutions_that_miss_the_limits_are_refined(monkeypatch):
    """As those of the method are, which without it would be elsewhere after as many steps."""
    reduced = Reduced.of(program_of(stated("max-information", 21, (9, 5, 7))), Goal(1e-11))

    def mechanism():
        return run_of(InteriorPoint(), reduced, 13)[0].mechanism

    found, wanted = mechanism(), by_steps(monkeypatch, mechanism)
    monkeypatch.setattr("jaxpriv.solvers.interior_point.newton._MOST_REFINEMENTS", 0)
    unrefined = by_steps(monkeypatch, mechanism)
    off = abs(found - wanted).max()
    # How far it is without depends on the instructions of the processor: 2e-8 on one, above 5e-8 on another.
    assert off < 1e-8
    assert abs(unrefined - wanted).max() > max(5 * off, 1e-9)


@pytest.mark.parametrize("name", ["max-information", LIMITED])
def test_lanes_have_their_own_numbers_or_share_them(name, monkeypatch):
    program = program_of(stated(name, 3, (4, 5, 6), int(name != LIMITED)))
    if name == LIMITED:
        (term,) = program.terms
        own = [{"terms": (dataclasses.replace(term, bound=np.asarray(one)),)} for one in np.logspace(-6, -1, 21)]
    else:
        least = program.constraints.min(axis=2).sum(axis=1)
        own = [{"budgets": least + share * (program.budgets - least)} for share in np.linspace(0.1, 1.0, 21)]
    compare_lanes(monkeypatch, [dataclasses.replace(program, **one) for one in own])


@pytest.mark.parametrize("name", ["lift", "max-information", LIMITED])
def test_it_takes_programs_of_its_own_kind_alone(name):
    program, solver = program_of(stated(name, 0, (4, 4, 4), int(name != LIMITED))), InteriorPoint()
    assert whole.takes(solver, program)
    assert not whole.takes(MirrorDescent(), program)
    (term,) = program.terms
    of_term = {
        "lift": [{"rate": None}, {"role": Role.AVERAGE}, {"cap": np.ones(len(term.rows))}],
        "max-information": [{"rate": None}, {"role": Role.AVERAGE}, {"rule_set": Power()}],
        LIMITED: [{"role": Role.PEAK}, {"rule_set": Power()}],
    }
    others = [{"terms": (term, term)}, {"equal": np.ones(len(program.budgets), bool)}, {"shares": True}]
    others += [{"terms": (dataclasses.replace(term, **one),)} for one in of_term[name]]
    if name != LIMITED:
        others.append({"logarithmic": name == "max-information"})
    if name == "max-information":
        others.append({"constraints": np.zeros((0, 4, 4)), "budgets": np.zeros(0)})
    for other in others:
        assert not whole.takes(solver, dataclasses.replace(program, **other)), other
    assert not whole.takes(solver, in_precision(program, np.float32))


@pytest.mark.parametrize("name", ["ldp", "max-lift", "max-information", "relative-entropy", LIMITED])
def test_batches_and_single_solves_compile_nothing(name, monkeypatch):
    sizes = [(4, 6, 5), (5, 7, 8), (3, 3, 3), (2, 4, 4 if name in RATIOS else 1)]
    problems = [
        limited(seed, sizes[seed % 4], 10.0 ** -(seed % 5)) if name == LIMITED else stated(name, seed, sizes[seed % 4])
        for seed in range(24)
    ]
    certified_without_compiling(monkeypatch, problems)


def test_what_is_watched_takes_its_steps_one_by_one(monkeypatch):
    """Reports and clocks end a solve between two steps, which a whole solve has not."""
    monkeypatch.setattr(whole, "solved", None)  # must not be asked
    lines = []
    found = jp.solve(stated("max-information", 3, (4, 4, 4)), progress=lines.append)
    assert [line.step for line in lines] == list(range(found.steps + 1))


@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_in_a_trace_it_ends_at_the_point_of_the_method(name, monkeypatch):
    """The point that derivatives of optima follow from."""
    compare_last_points(monkeypatch, stated(name, 8, (4, 5, 6)))


@pytest.mark.parametrize(
    ("symbol", "measure", "levels"),
    [
        ("least_ratios", "ldp", np.linspace(0.2, 0.5, 9)),
        ("worst_information", "max-information", np.linspace(0.2, 0.5, 9)),
        ("limited_information", LIMITED, np.logspace(-3, -1, 9)),
    ],
)
def test_jit_and_vmap_have_it(symbol, measure, levels):
    def problem(joint, level):
        if measure == LIMITED:
            return jp.DistortionProblem(joint, STEPS, leakage_budget=level)
        return jp.DistortionProblem(joint, STEPS, budget=level, leakage=MEASURES[measure])

    compare_traced(f"jaxpriv_{symbol}", problem, levels)


@pytest.mark.parametrize(("name", "at", "apart"), [("max-information", 0.2, 1e-3), (LIMITED, 0.02, 1e-4)])
def test_derivatives_follow_from_its_last_point(name, at, apart, monkeypatch):
    """The optimal mechanism stays at its limit, and the slope of the value is that of values beside it."""
    monkeypatch.setattr(whole, "last_state", None)  # the loop must not be traced
    joint = random_joint(5, 3, 4)

    def problem(level):
        if name == LIMITED:
            return jp.DistortionProblem(joint, HAMMING, leakage_budget=level)
        return jp.DistortionProblem(joint, HAMMING, budget=level, leakage=MEASURES[name])

    moves = jax.jit(jax.jacfwd(lambda level: (jp.optimal_value(problem(level)), jp.optimal_mechanism(problem(level)))))
    value, mechanism = moves(at)
    beside = [jp.solve(problem(at + sign * apart), tol=1e-10).value for sign in (1.0, -1.0)]
    assert value == pytest.approx((beside[0] - beside[1]) / (2.0 * apart), rel=1e-4)
    np.testing.assert_allclose(mechanism.sum(axis=1), 0.0, atol=1e-9)
    if name != LIMITED:
        assert (joint.sum(axis=0)[:, None] * HAMMING * mechanism).sum() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("name", ["ldp", "max-information"])
def test_kinds_of_larger_problems_and_of_limits_are_left_to_compiled_code(name):
    def kind(size, **asked):
        problem = stated(name, 0, (size, size, size))
        if asked:
            problem = jp.DistortionProblem(problem.data, problem.distortions[0], leakage=problem.leakage, **asked)
        found = Kinds("auto", Goal(1e-6)).of(problem)
        assert found is not None
        return found

    assert [kind(8).by_kernel, kind(96).by_kernel, kind(8, leakage_budget=0.5).by_kernel] == [True, False, False]
    assert kind(8).width(10**6) == 0
