"""Whole solves of the least maximum information by the kernel, against the steps of the method that it stands for."""

import dataclasses

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.leakage.rule_sets import Power, Role
from jaxpriv.presolve.reduction import Reduced
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

pytestmark = pytest.mark.usefixtures("library_settings")

_MEASURES = {
    "max-information": jp.leakage.MaxInformation(),
    "relative-entropy": jp.leakage.RelativeEntropyPrivacy(),
    "hidden": jp.leakage.MaxInformation(hidden=np.linspace(0.0, 1.5, 5)),
}
_LEAST = _MEASURES["max-information"]
_TWO = {name: _MEASURES[name] for name in ("max-information", "relative-entropy")}


# An output alone leaks nothing, and nothing is iterated on (below).
@kernels
@pytest.mark.parametrize("sizes", [size for size in SIZES.values() if size[2] > 1])
def test_a_solve_is_that_of_the_method(sizes, monkeypatch):
    compare(monkeypatch, problem_of(1, sizes, _LEAST))


@kernels
@each
@pytest.mark.parametrize("measure", _MEASURES.values(), ids=_MEASURES)
def test_every_measure_is_solved_by_every_instruction_set(measure, monkeypatch):
    compare(monkeypatch, problem_of(5, (5, 6, 9), measure))


@kernels
@pytest.mark.parametrize("measure", _MEASURES.values(), ids=_MEASURES)
@pytest.mark.parametrize("kind", ["zero-mass", "diagonal", "equal-rows", "zeros", "rare"])
def test_degenerate_joints_are_solved_as_by_the_method(kind, measure, monkeypatch):
    compare(monkeypatch, problem_of(2, (5, 5, 6), measure, joint=degenerate(kind)))


@kernels
def test_several_budgets_are_solved_as_by_the_method(monkeypatch):
    compare(monkeypatch, problem_of(4, (4, 6, 7), _LEAST, budgets=3))


@kernels
@each
@pytest.mark.parametrize("limit", [0, 2, 8])
@pytest.mark.parametrize("measure", _TWO.values(), ids=_TWO)
def test_every_step_is_that_of_the_method(limit, measure, monkeypatch):
    compare_steps(monkeypatch, problem_of(7, (6, 7, 9), measure, 2), limit)


@kernels
def test_later_starts_are_those_of_the_method(monkeypatch):
    compare_starts(monkeypatch, problem_of(1, (4, 5, 6), _LEAST))


@kernels
def test_solutions_that_miss_the_limits_are_refined(monkeypatch):
    """As those of the method are, which without it would be elsewhere after as many steps."""
    reduced = Reduced.of(program_of(problem_of(21, (9, 5, 7), _LEAST)), Goal(1e-11))

    def mechanism():
        return run_of(InteriorPoint(), reduced, 13)[0].mechanism

    found, wanted = mechanism(), by_steps(monkeypatch, mechanism)
    monkeypatch.setattr("jaxpriv.solvers.interior_point.newton._MOST_REFINEMENTS", 0)
    unrefined = by_steps(monkeypatch, mechanism)
    assert abs(found - wanted).max() < 1e-8 < 5e-8 < abs(unrefined - wanted).max()


@kernels
def test_lanes_have_their_own_numbers_or_share_them(monkeypatch):
    program = program_of(problem_of(3, (4, 5, 6), _LEAST))
    least = program.constraints.min(axis=2).sum(axis=1)
    budgets = [least + share * (program.budgets - least) for share in np.linspace(0.1, 1.0, 21)]
    compare_lanes(monkeypatch, [dataclasses.replace(program, budgets=budget) for budget in budgets])


@kernels
def test_it_takes_minimax_programs_of_one_relative_entropy_alone():
    program, solver = program_of(problem_of(0, (4, 4, 4), _LEAST)), InteriorPoint()
    assert whole.takes(solver, program)
    assert not whole.takes(MirrorDescent(), program)
    (term,) = program.terms
    others = [
        dataclasses.replace(program, terms=(term, term)),
        dataclasses.replace(program, terms=(dataclasses.replace(term, rate=None),)),
        dataclasses.replace(program, terms=(dataclasses.replace(term, role=Role.AVERAGE),)),
        dataclasses.replace(program, terms=(dataclasses.replace(term, rule_set=Power()),)),
        dataclasses.replace(program, equal=np.array([True])),
        dataclasses.replace(program, shares=True),
        dataclasses.replace(program, logarithmic=True),
        dataclasses.replace(program, constraints=np.zeros((0, 4, 4)), budgets=np.zeros(0)),
        in_precision(program, np.float32),
    ]
    assert not any(whole.takes(solver, one) for one in others)


@kernels
@pytest.mark.parametrize("measure", _TWO.values(), ids=_TWO)
def test_batches_and_single_solves_compile_nothing(measure, monkeypatch):
    sizes = [(4, 6, 5), (5, 7, 8), (3, 3, 3), (2, 4, 1)]
    certified_without_compiling(monkeypatch, [problem_of(seed, sizes[seed % 4], measure) for seed in range(24)])


@kernels
def test_what_is_watched_takes_its_steps_one_by_one(monkeypatch):
    """Reports and clocks end a solve between two steps, which a whole solve has not."""
    monkeypatch.setattr(whole, "solved", None)  # must not be asked
    lines = []
    found = jp.solve(problem_of(3, (4, 4, 4), _LEAST), progress=lines.append)
    assert [line.step for line in lines] == list(range(found.steps + 1))


@kernels
def test_in_a_trace_it_ends_at_the_point_of_the_method(monkeypatch):
    compare_last_points(monkeypatch, problem_of(8, (4, 5, 6), _LEAST))


@kernels
def test_jit_and_vmap_have_it():
    cost = abs(np.subtract.outer(np.arange(4), np.arange(4))).astype(float)

    def problem(joint, budget):
        return jp.DistortionProblem(joint, cost, budget=budget, leakage=_LEAST)

    compare_traced("jaxpriv_worst_information", problem, np.linspace(0.2, 0.5, 9))


@kernels
def test_derivatives_follow_from_its_last_point(monkeypatch):
    """The optimal mechanism stays at its budget, and the slope of the value is that of values beside it."""
    monkeypatch.setattr(whole, "last_state", None)  # the loop must not be traced
    joint, cost, at, apart = random_joint(5, 3, 4), 1.0 - np.eye(4), 0.2, 1e-3

    def problem(budget):
        return jp.DistortionProblem(joint, cost, budget=budget, leakage=_LEAST)

    moves = jax.jit(jax.jacfwd(lambda b: (jp.optimal_value(problem(b)), jp.optimal_mechanism(problem(b)))))
    value, mechanism = moves(at)
    beside = [jp.solve(problem(at + sign * apart), tol=1e-9).value for sign in (1.0, -1.0)]
    assert value == pytest.approx((beside[0] - beside[1]) / (2.0 * apart), rel=1e-4)
    np.testing.assert_allclose(mechanism.sum(axis=1), 0.0, atol=1e-9)
    assert (joint.sum(axis=0)[:, None] * cost * mechanism).sum() == pytest.approx(1.0, abs=1e-6)


@kernels
def test_kinds_of_larger_problems_and_of_limits_are_left_to_compiled_code():
    def kind(size, **asked):
        problem = problem_of(0, (size, size, size), _LEAST)
        if asked:
            problem = jp.DistortionProblem(problem.data, problem.distortions[0], leakage=problem.leakage, **asked)
        found = Kinds("auto", Goal(1e-6)).of(problem)
        assert found is not None
        return found

    assert [kind(8).by_kernel, kind(96).by_kernel, kind(8, leakage_budget=0.5).by_kernel] == [True, False, False]
    assert kind(8).width(10**6) == 0
