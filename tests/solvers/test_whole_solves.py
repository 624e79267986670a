"""Whole solves by the kernels, against the steps of the method that they stand for: on arrays and inside of traces."""

import dataclasses

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import jaxpriv as jp
from jaxpriv import InteriorPoint, MirrorDescent
from jaxpriv.leakage.rule_sets import Power, Role
from jaxpriv.solvers import Goal
from jaxpriv.solvers._base import in_precision
from jaxpriv.solvers.interior_point import whole
from jaxpriv.solving import loops
from jaxpriv.solving.kinds import Kinds
from jaxpriv.testing import random_joint
from tests.cases import assert_one_optimum, assert_proved, distances, spent
from tests.compiling import kernels
from tests.solvers.kernel_cases import (
    INFORMATION,
    LIMITED,
    MEASURES,
    RATIOS,
    SIZES,
    WORST,
    compare,
    compare_lanes,
    compare_last_points,
    compare_starts,
    compare_steps,
    degenerate,
    each,
    information_program,
    limited,
    limited_program,
    problem_of,
    program_of,
)

pytestmark = [kernels, pytest.mark.usefixtures("forgotten", "own_settings")]

OF_EACH_KIND = ["ldp", "lift", "max-information", LIMITED]
STEPS = distances(4)
# The method takes its mirror steps in float32: without them every number is as exact as rounding allows.
PLAIN = InteriorPoint(warm_steps=0)


@pytest.mark.parametrize("name", OF_EACH_KIND)
@pytest.mark.parametrize("size", SIZES)
def test_a_solve_is_that_of_the_method(size, name):
    if (name, size) == ("max-information", "one-output"):
        pytest.skip("an output alone leaks nothing, and nothing is iterated on")
    compare(program_of(name, 1, SIZES[size]))


@each
@pytest.mark.parametrize(
    ("sizes", "budgets", "more"),
    [
        *((sizes, 1, {}) for sizes in (*SIZES.values(), (3, 1, 4), (31, 33, 35))),
        ((6, 6, 6), 0, {}),
        ((6, 5, 7), 2, {}),
        ((4, 9, 9), 3, {}),
        ((6, 8, 10), 1, {"sparse": True}),
        ((6, 6, 6), 1, {"padded": True}),
    ],
    ids=str,
)
def test_a_solve_of_mutual_information_is_that_of_the_method(sizes, budgets, more):
    for seed in range(3):
        compare(information_program(seed, sizes, budgets, **more))


@each
@pytest.mark.parametrize("name", WORST)
def test_every_measure_is_solved_by_every_instruction_set(name):
    compare(program_of(name, 5, (5, 6, 9)))


@each
@pytest.mark.parametrize("limit", [1e-9, 1e-4, 0.3])
def test_every_limit_is_met_by_every_instruction_set(limit):
    compare(limited_program(limited(5, (5, 6, 9), limit)))


@pytest.mark.parametrize("name", ["ldp", "max-lift", "max-information", "relative-entropy", "hidden", LIMITED])
@pytest.mark.parametrize("kind", ["zero-mass", "diagonal", "equal-rows", "zeros", "rare"])
def test_degenerate_joints_are_solved_as_by_the_method(kind, name):
    compare(program_of(name, 2, (5, 5, 6), joint=degenerate(kind)))


@each
@pytest.mark.parametrize("steps", [0, 2, 7])
@pytest.mark.parametrize(
    ("name", "budgets"), [*((name, 2) for name in (*OF_EACH_KIND, "relative-entropy")), (LIMITED, 0)]
)
def test_every_step_is_that_of_the_method(name, budgets, steps):
    compare_steps(program_of(name, 7, (6, 7, 9), budgets), steps, InteriorPoint(), 1e-9)


@each
@pytest.mark.parametrize("steps", [0, 1, 2, 4])
@pytest.mark.parametrize(("solver", "tolerance"), [(PLAIN, 1e-10), (InteriorPoint(warm_steps=3), 1e-4)])
def test_every_step_of_mutual_information_is_that_of_the_method(solver, tolerance, steps):
    compare_steps(information_program(7, (6, 7, 8)), steps, solver, tolerance)


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        *((name, InteriorPoint(boundary=0.01)) for name in ("max-information", LIMITED)),
        (INFORMATION, InteriorPoint(boundary=0.05, warm_steps=0)),
    ],
)
def test_later_starts_are_those_of_the_method(name, solver):
    compare_starts(program_of(name, 1, (4, 5, 6)), solver)


def test_lanes_have_their_own_numbers_or_share_them():
    bounded, limited_one = (program_of(name, 3, (4, 5, 6)) for name in ("max-information", LIMITED))
    least = bounded.constraints.min(axis=2).sum(axis=1)
    budgets = [least + share * (bounded.budgets - least) for share in np.linspace(0.1, 1.0, 21)]
    (term,) = limited_one.terms
    limits = [(dataclasses.replace(term, bound=np.asarray(one)),) for one in np.logspace(-6, -1, 21)]
    for programs in (
        [dataclasses.replace(bounded, budgets=one) for one in budgets],
        [dataclasses.replace(limited_one, terms=one) for one in limits],
    ):
        compare_lanes(programs, InteriorPoint(attempts=1), lambda program: program.terms[0].rows, 0.0)
    programs = [information_program(seed, (4, 5, 6)) for seed in range(21)]
    c = programs[0].constraints
    programs = [
        dataclasses.replace(one, constraints=c, budgets=1.05 * (c * one.feasible_point).sum(axis=(1, 2)))
        for one in programs
    ]
    # After few steps the mirror steps, in float32 there, still show.
    compare_lanes(programs, InteriorPoint(), lambda program: program.constraints, 0.1)


@pytest.mark.parametrize("name", ["lift", "max-information", LIMITED, INFORMATION])
def test_it_takes_programs_of_its_own_kind_alone(name):
    program, solver = program_of(name, 0, (4, 4, 4)), InteriorPoint()
    assert whole.takes(solver, program)
    assert not whole.takes(MirrorDescent(), program)
    (term,) = program.terms
    of_term = {
        "lift": [{"rate": None}, {"role": Role.AVERAGE}, {"cap": np.ones(len(term.rows))}],
        "max-information": [{"rate": None}, {"role": Role.AVERAGE}, {"rule_set": Power()}],
    }.get(name, [{"role": Role.PEAK}, {"rule_set": Power()}])
    others = [{"terms": (term, term)}, {"equal": np.ones(len(program.budgets), bool)}, {"shares": True}]
    others += [{"terms": (dataclasses.replace(term, **one),)} for one in of_term]
    others.append({"constraints": np.zeros((15, 4, 4)), "budgets": np.zeros(15)})
    if name in WORST:
        others.append({"logarithmic": name == "max-information"})
    if name == "max-information":
        others.append({"constraints": np.zeros((0, 4, 4)), "budgets": np.zeros(0)})
    for other in others:
        assert not whole.takes(solver, dataclasses.replace(program, **other)), other
    assert not whole.takes(solver, in_precision(program, np.float32))


@pytest.mark.usefixtures("only_kernels")
@pytest.mark.parametrize(
    "name", ["ldp", "max-lift", "max-information", "relative-entropy", LIMITED, INFORMATION, "multiplier"]
)
def test_batches_and_single_solves_compile_nothing(name):
    """Alphabets of several sizes are padded to one, and every result is certified on its own problem."""
    sizes = [(4, 6, 5), (5, 7, 8), (3, 3, 3), (2, 4, 4 if name in RATIOS else 1)]
    problems = []
    for seed in range(24):
        if name == LIMITED:
            problems.append(limited(seed, sizes[seed % 4], 10.0 ** -(seed % 5)))
        elif name == "multiplier":
            asked = problem_of(INFORMATION, seed, sizes[seed % 4])
            problems.append(jp.DistortionProblem(asked.data, asked.distortions[0], multiplier=0.3))
        else:
            problems.append(problem_of(name, seed, sizes[seed % 4]))
    for problem, found in zip(problems, jp.solve_many(problems), strict=True):
        assert_proved(problem, found)
        assert found.seconds["compile"] == 0.0
    assert [jp.solve(problem).status for problem in problems[:4]] == ["optimal"] * 4
    if name == INFORMATION:
        assert (jp.frontier(problems[0], budgets=[0.95, 1.0] * problems[0].budget).status == "optimal").all()
    if name == "multiplier":
        assert (jp.frontier(problems[0], multipliers=[0.2, 0.4]).status == "optimal").all()


@pytest.mark.parametrize("name", ["max-information", INFORMATION])
def test_what_is_watched_takes_its_steps_one_by_one(name):
    """Reports and clocks end a solve between two steps, which a whole solve has not."""
    lines = []
    found = jp.solve(problem_of(name, 3, (4, 4, 4)), progress=lines.append)
    assert [line.step for line in lines] == list(range(found.steps + 1))


@pytest.mark.parametrize("name", ["ldp", "max-information", INFORMATION])
def test_larger_problems_limits_and_a_wish_to_compile_are_left_to_compiled_code(name, monkeypatch):
    def kind(size, **asked):
        problem = problem_of(name, 0, (size, size, size))
        if asked:
            problem = jp.DistortionProblem(problem.data, problem.distortions[0], leakage=problem.leakage, **asked)
        found = Kinds("auto", Goal(1e-6)).of(problem)
        assert found is not None
        return found

    limited_kind = {"budget": 0.3, "limits": ((jp.leakage.Sibson(2.0), 0.1),)}
    others = [kind(96), kind(8, **(limited_kind if name == INFORMATION else {"leakage_budget": 0.5}))]
    assert not any(other.by_kernel for other in others)
    small = kind(8)
    assert small.by_kernel
    assert small.width(10**6) == 0
    assert small.width_uncompiled(10**6) == 512
    monkeypatch.setenv(loops.SWITCH, "always")
    assert not small.by_kernel
    assert small.width(10**6) > 0


# -- inside of a trace -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "budgets", "solver"),
    [*((name, None, InteriorPoint()) for name in OF_EACH_KIND), *((INFORMATION, n, PLAIN) for n in (0, 1, 3))],
)
def test_it_ends_at_the_point_of_the_method(name, budgets, solver):
    """The point that derivatives of optima follow from."""
    compare_last_points(program_of(name, 8, (4, 5, 6), budgets), solver)


FORMS = {
    "least_ratios": {"leakage": MEASURES["ldp"], "budget": np.linspace(0.2, 0.5, 9)},
    "worst_information": {"leakage": MEASURES["max-information"], "budget": np.linspace(0.2, 0.5, 9)},
    "limited_information": {"leakage_budget": np.logspace(-3, -1, 9)},
    "information": {"budget": np.linspace(0.2, 0.5, 9)},
    "information without budgets": {"multiplier": np.linspace(0.2, 0.5, 9)},
}


@pytest.mark.parametrize("name", FORMS)
def test_jit_and_vmap_have_it(name):
    """With a symbol of S and one of X that have no mass."""
    target = list(FORMS[name])[-1]

    def problem(joint, level):
        return jp.DistortionProblem(joint, STEPS, **{**FORMS[name], target: level})

    levels = FORMS[name][target]
    joints = np.stack([random_joint(seed, 3, 4) for seed in range(len(levels))])
    joints[0, -1], joints[0, :, -1] = 0.0, 0.0
    joints[0] /= joints[0].sum()
    traced = jax.jit(jax.vmap(lambda joint, level: jp.solve(problem(joint, level))))
    assert f"jaxpriv_{name.split()[0]}" in traced.lower(joints, levels).as_text()
    found = traced(joints, levels)
    if name == "information":
        assert traced(joints[:0], levels[:0]).value.shape == (0,)
    for i, (joint, level) in enumerate(zip(joints, levels, strict=True)):
        host = jp.solve(problem(joint, float(level)))
        assert found.status[i] == host.status == "optimal"
        assert_one_optimum(found[i], host, 1e-12)


def test_a_batch_of_batches_has_the_results_of_its_members():
    """More than one part of a batch, with goals of their own."""
    joints = np.stack([random_joint(seed, 4, 5) for seed in range(22)]).reshape(2, 11, 4, 5)

    def one(joint, budget, tol):
        return jp.solve(jp.DistortionProblem(joint, distances(5), budget=budget), tol=tol)

    budgets, tols = np.linspace(0.2, 0.6, 11), np.array([1e-5, 1e-8])
    together = jax.jit(jax.vmap(jax.vmap(one, in_axes=(0, 0, None)), in_axes=(0, None, 0)))(joints, budgets, tols)
    assert (together.code == jp.Status.OPTIMAL.value).all()
    assert (together.gap <= tols[:, None]).all()
    for i, j in [(0, 0), (0, 10), (1, 4)]:
        host = one(joints[i, j], float(budgets[j]), 1e-9)
        assert together.lower_bound[i, j] <= host.value + 1e-12
        assert host.lower_bound <= together.value[i, j] + 1e-12


@pytest.mark.parametrize(("name", "at", "apart"), [("max-information", 0.2, 1e-3), (LIMITED, 0.02, 1e-4)])
def test_derivatives_follow_from_its_last_point(name, at, apart):
    """The optimal mechanism stays at its limit, and the slope of the value is that of values beside it."""
    joint, hamming = random_joint(5, 3, 4), 1.0 - np.eye(4)

    def problem(level):
        if name == LIMITED:
            return jp.DistortionProblem(joint, hamming, leakage_budget=level)
        return jp.DistortionProblem(joint, hamming, budget=level, leakage=MEASURES[name])

    moves = jax.jit(jax.jacfwd(lambda level: (jp.optimal_value(problem(level)), jp.optimal_mechanism(problem(level)))))
    value, mechanism = moves(at)
    beside = [jp.solve(problem(at + sign * apart), tol=1e-10).value for sign in (1.0, -1.0)]
    assert value == pytest.approx((beside[0] - beside[1]) / (2.0 * apart), rel=1e-4)
    assert_allclose(mechanism.sum(axis=1), 0.0, atol=1e-9)
    if name != LIMITED:
        assert spent(joint, hamming, mechanism) == pytest.approx(1.0, abs=1e-6)
