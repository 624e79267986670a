"""Whole solves of the least worst log-ratios by the kernel, against the steps of the method that it stands for."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv._runtime.clock import Clock
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.reductions.reduction import Reduced
from jaxpriv.solvers import Goal, InteriorPoint, MirrorDescent
from jaxpriv.solvers._base import in_precision
from jaxpriv.solvers.interior_point import newton, whole
from jaxpriv.solvers.interior_point.candidate import least_ratio
from jaxpriv.solvers.interior_point.system import rearrange
from jaxpriv.solving import loops
from jaxpriv.solving.kinds import Kinds
from tests.solvers.kernel_cases import (
    SIZES,
    by_steps,
    certified_without_compiling,
    compare,
    compare_last_points,
    compare_steps,
    degenerate,
    each,
    kernels,
    problem_of,
    program_of,
)

pytestmark = pytest.mark.usefixtures("library_settings")

_MEASURES = {
    "ldp": jp.leakage.LocalDifferentialPrivacy(),
    "lift": jp.leakage.Lift(),
    "max-lift": jp.leakage.MaxLift(),
    "min-lift": jp.leakage.MinLift(),
    "inferential": jp.leakage.InferentialPrivacy(),
}


@kernels
@pytest.mark.parametrize("measure", [_MEASURES["ldp"], _MEASURES["lift"]], ids=["ldp", "lift"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_a_solve_is_that_of_the_method(sizes, measure, monkeypatch):
    compare(monkeypatch, problem_of(1, sizes, measure))


@kernels
@each
@pytest.mark.parametrize("measure", _MEASURES.values(), ids=_MEASURES)
def test_every_measure_is_solved_by_every_instruction_set(measure, monkeypatch):
    compare(monkeypatch, problem_of(5, (5, 6, 9), measure))


@kernels
@pytest.mark.parametrize("measure", [_MEASURES["ldp"], _MEASURES["max-lift"]], ids=["ldp", "max-lift"])
@pytest.mark.parametrize("kind", ["zero-mass", "diagonal", "equal-rows", "zeros", "rare"])
def test_degenerate_joints_are_solved_as_by_the_method(kind, measure, monkeypatch):
    compare(monkeypatch, problem_of(2, (5, 5, 6), measure, joint=degenerate(kind)))


@kernels
@pytest.mark.parametrize("measure", [_MEASURES["ldp"], _MEASURES["lift"]], ids=["ldp", "lift"])
def test_several_budgets_are_solved_as_by_the_method(measure, monkeypatch):
    compare(monkeypatch, problem_of(4, (4, 6, 7), measure, budgets=3))


@kernels
@each
@pytest.mark.parametrize("limit", [0, 1, 2, 4, 8])
@pytest.mark.parametrize("measure", [_MEASURES["ldp"], _MEASURES["lift"]], ids=["ldp", "lift"])
def test_every_step_is_that_of_the_method(limit, measure, monkeypatch):
    compare_steps(monkeypatch, problem_of(7, (6, 7, 9), measure, 2), limit)


# Where mu, in prices that make a unit of the peak worth one, rises as the peak falls.
_TURNED_BACK = [
    ("max-lift", (3, 5, 4), 11),
    ("ldp", (4, 4, 4), 57),
    ("lift", (6, 6, 6), 32),
    ("max-lift", (4, 6, 5), 61),
]


@pytest.mark.parametrize(("name", "sizes", "seed"), _TURNED_BACK)
def test_paths_that_turn_back_are_followed_by_their_peak(name, sizes, seed, monkeypatch):
    followed = []
    plain = newton._path_move
    monkeypatch.setattr(newton, "_path_move", lambda *given: followed.append(given) or plain(*given))
    reduced = Reduced.of(program_of(problem_of(seed, sizes, _MEASURES[name])), Goal(1e-6))
    solver = InteriorPoint(attempts=1)
    found, steps = loops._step_uncompiled(Clock(), solver, reduced.program, reduced.goal, 200, lambda *_: None)
    assert reduced.goal.met(found)
    assert steps < 40
    assert 0 < len(followed) < steps / 2  # near the optimum the path is that of any barrier


@kernels
@pytest.mark.parametrize(("name", "sizes", "seed"), _TURNED_BACK)
def test_the_kernel_follows_them_too(name, sizes, seed, monkeypatch):
    compare(monkeypatch, problem_of(seed, sizes, _MEASURES[name]))


@kernels
def test_a_start_that_fails_is_followed_by_those_of_the_method(monkeypatch):
    # Budgets that next to nothing meets: the first start misses them by more than what they are.
    joint = np.random.default_rng(9).dirichlet(np.full(16, 0.2)).reshape(4, 4)
    cost = 1.0 - np.eye(4)
    budget = 0.1 * float((joint.sum(axis=0) @ cost).min())
    problem = jp.DistortionProblem(joint, cost, budget=budget, leakage=_MEASURES["max-lift"])
    reduced, solver = Reduced.of(program_of(problem), Goal(1e-6)), InteriorPoint()

    def run(attempts):
        one = dataclasses.replace(solver, attempts=attempts)
        return loops.iterate_uncompiled(Clock(), one, reduced.program, reduced.goal, 200, lambda *_: None)

    stalled, short = run(1)
    found, steps = run(3)
    wanted, wanted_steps = by_steps(monkeypatch, lambda: run(3))
    assert not reduced.goal.met(stalled)
    assert reduced.goal.met(found)
    assert reduced.goal.met(wanted)
    assert short < steps == wanted_steps
    # Two pairs of bounds on one optimum.
    assert found.bound <= wanted.value + 1e-12
    assert wanted.bound <= found.value + 1e-12


@kernels
def test_it_takes_minimax_programs_of_one_linear_term_alone():
    program, solver = program_of(problem_of(0, (4, 4, 4), _MEASURES["lift"])), InteriorPoint()
    assert whole.takes(solver, program)
    assert not whole.takes(MirrorDescent(), program)
    (term,) = program.terms
    others = [
        dataclasses.replace(program, terms=(term, term)),
        dataclasses.replace(program, terms=(dataclasses.replace(term, rate=None),)),
        dataclasses.replace(program, terms=(dataclasses.replace(term, role=Role.AVERAGE),)),
        dataclasses.replace(program, terms=(dataclasses.replace(term, cap=np.ones(len(term.rows))),)),
        dataclasses.replace(program, equal=np.array([True])),
        dataclasses.replace(program, shares=True),
        dataclasses.replace(program, logarithmic=False),
        in_precision(program, np.float32),
    ]
    assert not any(whole.takes(solver, one) for one in others)


@kernels
@pytest.mark.parametrize("measure", [_MEASURES["ldp"], _MEASURES["max-lift"]], ids=["ldp", "max-lift"])
def test_batches_and_single_solves_compile_nothing(measure, monkeypatch):
    sizes = [(4, 6, 5), (5, 7, 8), (3, 3, 3)]
    certified_without_compiling(monkeypatch, [problem_of(seed, sizes[seed % 3], measure) for seed in range(20)])


@kernels
@pytest.mark.parametrize("measure", [_MEASURES["ldp"], _MEASURES["lift"]], ids=["ldp", "lift"])
def test_in_a_trace_it_ends_at_the_point_of_the_method(measure, monkeypatch):
    """The point that derivatives of optima follow from."""
    compare_last_points(monkeypatch, problem_of(8, (4, 5, 6), measure))


@kernels
def test_jit_and_vmap_have_it():
    problems = [problem_of(seed, (3, 4, 4), _MEASURES["ldp"]) for seed in range(3)]
    cost, budget = problems[0].distortions[0], jnp.stack([one.budget for one in problems])
    joints = jnp.stack([one.data for one in problems])

    def value(joint, budget):
        return jp.solve(jp.DistortionProblem(joint, cost, budget=budget, leakage=_MEASURES["ldp"]))

    traced = jax.jit(jax.vmap(value))
    assert "jaxpriv_least_ratios" in traced.lower(joints, budget).as_text()
    found = traced(joints, budget)
    for i, (joint, limit) in enumerate(zip(joints, budget, strict=True)):
        host = jp.solve(jp.DistortionProblem(np.asarray(joint), cost, budget=float(limit[0]), leakage=_MEASURES["ldp"]))
        assert found.status[i] == host.status == "optimal"
        assert float(found.value[i]) == pytest.approx(host.value, abs=2e-6)


@kernels
def test_kinds_of_larger_problems_and_of_limits_are_left_to_compiled_code():
    goal = Goal(1e-6)

    def kind(size, **asked):
        problem = problem_of(0, (size, size, size), _MEASURES["ldp"])
        if asked:
            problem = jp.DistortionProblem(problem.data, problem.distortions[0], leakage=problem.leakage, **asked)
        found = Kinds("auto", goal).of(problem)
        assert found is not None
        return found

    assert [kind(8).by_kernel, kind(96).by_kernel, kind(8, leakage_budget=0.5).by_kernel] == [True, False, False]
    assert kind(8).width(10**6) == 0


def test_prices_that_exceed_their_budgets_by_rounding_prove_no_infinite_peak():
    """Without rules nothing falls with the peak: what is left above the budget is left at every peak."""
    program = program_of(problem_of(0, (3, 3, 3), _MEASURES["max-lift"]))
    data = rearrange(program)
    cheapest = program.constraints.min(axis=2).sum()
    k, eta, price = np.zeros((3, data.rows)), np.zeros((3, 0)), np.ones(1)
    for budget in (cheapest * (1.0 - 1e-15), cheapest * (1.0 - 1e-3)):
        short = rearrange(dataclasses.replace(program, budgets=np.array([budget])))
        assert least_ratio(short, k, eta, price, 0.0) == -np.inf
    rules = np.zeros_like(k)
    rules[:, 0] = 1e-3  # a little of a row: a peak that is finite
    assert np.isfinite(least_ratio(data, rules, eta, price * 1e-6, 0.0))
