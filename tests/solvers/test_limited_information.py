"""Whole solves of the least cost under a limit on mutual information, against the steps of the method."""

import dataclasses
import decimal

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.leakage.rule_sets import Power, Role
from jaxpriv.presolve.closed_forms import independent_release
from jaxpriv.presolve.reduction import Reduced
from jaxpriv.program.certify import column_values
from jaxpriv.program.lower import limits_of, measured_program
from jaxpriv.solvers import Goal, InteriorPoint, MirrorDescent
from jaxpriv.solvers._base import in_precision
from jaxpriv.solvers.interior_point import whole
from jaxpriv.solvers.interior_point.system import support
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
    run_of,
)

pytestmark = pytest.mark.usefixtures("library_settings")


def problem_of(seed, sizes, limit=0.03, joint=None):
    private, inputs, outputs = sizes
    joint = random_joint(seed, private, inputs) if joint is None else joint
    return jp.DistortionProblem(
        joint, np.random.default_rng(seed).uniform(size=(inputs, outputs)), leakage_budget=limit
    )


def program_of(problem, budgets=0):
    """With an independent release, and budgets for all that differs from it."""
    program = measured_program(problem, limits_of(problem))
    program = dataclasses.replace(program, feasible_point=independent_release(program))
    weights = np.random.default_rng(budgets).uniform(0.5, 1.0, size=(budgets, *program.cost.shape))
    tables = weights * program.mass[:, None] * (1.0 - program.feasible_point)
    limits = np.array([0.1, 0.05, 1.0])[:budgets]
    return dataclasses.replace(program, constraints=tables, budgets=limits, marks=np.zeros(budgets))


@kernels
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_a_solve_is_that_of_the_method(sizes, monkeypatch):
    compare(monkeypatch, program_of(problem_of(1, sizes)))


@kernels
@each
@pytest.mark.parametrize("limit", [1e-9, 1e-4, 0.3])
def test_every_limit_is_met_by_every_instruction_set(limit, monkeypatch):
    compare(monkeypatch, program_of(problem_of(5, (5, 6, 9), limit)))


@kernels
@pytest.mark.parametrize("kind", ["zero-mass", "diagonal", "equal-rows", "zeros", "rare"])
def test_degenerate_joints_are_solved_as_by_the_method(kind, monkeypatch):
    compare(monkeypatch, program_of(problem_of(2, (5, 5, 6), joint=degenerate(kind))))


@kernels
@pytest.mark.parametrize("budgets", [1, 3])
def test_budgets_are_met_beside_the_limit(budgets, monkeypatch):
    program = program_of(problem_of(4, (4, 6, 7)), budgets)
    compare(monkeypatch, program)
    found, _ = run_of(InteriorPoint(), Reduced.of(program, Goal(1e-8)), 60)
    assert found.price.shape == (budgets + 1,)
    assert (found.price[:-1] > 1e-3).any()  # some hold


@kernels
@each
@pytest.mark.parametrize("steps", [0, 2, 7])
@pytest.mark.parametrize("budgets", [0, 2])
def test_every_step_is_that_of_the_method(budgets, steps, monkeypatch):
    compare_steps(monkeypatch, program_of(problem_of(7, (6, 7, 9)), budgets), steps)


@kernels
def test_later_starts_are_those_of_the_method(monkeypatch):
    compare_starts(monkeypatch, program_of(problem_of(1, (4, 5, 6))))


@kernels
@pytest.mark.parametrize("attempts", [1, 4, 6])
def test_more_attempts_than_starts_repeat_the_last(attempts, monkeypatch):
    solver = InteriorPoint(boundary=0.01, attempts=attempts)
    reduced = Reduced.of(program_of(problem_of(1, (4, 5, 6))), Goal(1e-9))
    steps = run_of(solver, reduced, 60)[1]
    assert steps == 6 * attempts
    assert steps == by_steps(monkeypatch, lambda: run_of(solver, reduced, 60))[1]


@kernels
def test_lanes_have_their_own_numbers_or_share_them(monkeypatch):
    program = program_of(problem_of(3, (4, 5, 6)))
    (term,) = program.terms
    terms = [dataclasses.replace(term, bound=np.asarray(bound)) for bound in np.logspace(-6, -1, 21)]
    compare_lanes(monkeypatch, [dataclasses.replace(program, terms=(one,)) for one in terms])


@kernels
def test_it_takes_programs_of_one_limited_relative_entropy_alone():
    program, solver = program_of(problem_of(0, (4, 4, 4))), InteriorPoint()
    assert whole.takes(solver, program)
    assert not whole.takes(MirrorDescent(), program)
    (term,) = program.terms
    others = [
        dataclasses.replace(program, terms=(term, term)),
        dataclasses.replace(program, terms=(dataclasses.replace(term, role=Role.PEAK),)),
        dataclasses.replace(program, terms=(dataclasses.replace(term, rule_set=Power()),)),
        dataclasses.replace(program, equal=np.zeros(0, bool)),
        dataclasses.replace(program, shares=True),
        in_precision(program, np.float32),
    ]
    assert not any(whole.takes(solver, one) for one in others)


@kernels
def test_batches_and_single_solves_compile_nothing(monkeypatch):
    sizes = [(4, 6, 5), (5, 7, 8), (3, 3, 3), (2, 4, 1)]
    problems = [problem_of(seed, sizes[seed % 4], 10.0 ** -(seed % 5)) for seed in range(24)]
    certified_without_compiling(monkeypatch, problems)


@kernels
def test_in_a_trace_it_ends_at_the_point_of_the_method(monkeypatch):
    compare_last_points(monkeypatch, program_of(problem_of(8, (4, 5, 6)), 1))


@kernels
def test_jit_and_vmap_have_it():
    cost = abs(np.subtract.outer(np.arange(4), np.arange(4))).astype(float)

    def problem(joint, limit):
        return jp.DistortionProblem(joint, cost, leakage_budget=limit)

    compare_traced("jaxpriv_limited_information", problem, np.logspace(-3, -1, 9))


@kernels
def test_derivatives_follow_from_its_last_point(monkeypatch):
    """The optimal mechanism stays at its limit, and the slope of the value is that of values beside it."""
    monkeypatch.setattr(whole, "last_state", None)  # the loop must not be traced
    joint, cost, at, apart = random_joint(5, 3, 4), 1.0 - np.eye(4), 0.02, 1e-4

    def problem(limit):
        return jp.DistortionProblem(joint, cost, leakage_budget=limit)

    moves = jax.jit(jax.jacfwd(lambda e: (jp.optimal_value(problem(e)), jp.optimal_mechanism(problem(e)))))
    value, mechanism = moves(at)
    beside = [jp.solve(problem(at + sign * apart), tol=1e-10).value for sign in (1.0, -1.0)]
    assert value == pytest.approx((beside[0] - beside[1]) / (2.0 * apart), rel=1e-4)
    np.testing.assert_allclose(mechanism.sum(axis=1), 0.0, atol=1e-9)


def exact_information(joint, mechanism):
    """I(S;Y) of normalised tables with fifty digits."""
    with decimal.localcontext() as context:
        context.prec = 50
        p, w = ([[decimal.Decimal(float(one)) for one in row] for row in table] for table in (joint, mechanism))
        w = [[one / sum(row) for one in row] for row in w]
        table = [[sum(a * row[y] for a, row in zip(own, w, strict=True)) for y in range(len(w[0]))] for own in p]
        total = sum(map(sum, table))
        of_s, of_y = ([sum(row) / total for row in one] for one in (table, list(zip(*table, strict=True))))
        return float(
            sum(
                one / total * (one / total / (of_s[s] * of_y[y])).ln()
                for s, row in enumerate(table)
                for y, one in enumerate(row)
            )
        )


def nearly_independent(seed, size, apart):
    """P(s)P(x)(1 + apart z), whose information is of the order of apart^2."""
    rng = np.random.default_rng(seed)
    joint = np.outer(rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size)))
    joint = joint * (1.0 + apart * rng.standard_normal(joint.shape))
    return joint / joint.sum()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("apart", [1e-3, 1e-5, 1e-7])
def test_small_values_keep_their_digits(apart, seed):
    """In the solver and in the certificate: rounding of the masses by eps changes them by eps/apart of themselves."""
    known = 64 * np.finfo(float).eps / apart
    joint = nearly_independent(seed, 5, apart)
    mechanism = np.random.default_rng(seed).dirichlet(np.ones(4), 5)
    exact = exact_information(joint, mechanism)
    problem = jp.DistortionProblem(joint, np.eye(5, 4), leakage_budget=exact)
    program = measured_program(problem, limits_of(problem))
    (term,) = program.terms
    assert column_values(term, term.rows @ mechanism).sum() == pytest.approx(exact, rel=known)
    reduced = Reduced.of(dataclasses.replace(program, feasible_point=independent_release(program)), Goal(1e-6))
    (term,) = reduced.program.terms
    own = support(term, mechanism.T @ term.rows.T).sum() - term.bound
    assert own == pytest.approx(0.0, abs=known * exact)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("apart", "share"), [(1e-3, 1e-3), (1e-5, 0.3), (1e-5, 1e-2)])
def test_small_limits_of_nearly_independent_joints_are_certified(apart, share, seed):
    """Limits of 3e-10 to 3e-13 nats, at prices of 7e7 to 3e11."""
    joint = nearly_independent(seed, 8, apart)
    limit = share * exact_information(joint, np.eye(8))
    problem = jp.DistortionProblem(joint, 1.0 - np.eye(8), leakage_budget=limit)
    found = jp.solve(problem)
    assert found.status == "optimal"
    assert exact_information(joint, np.asarray(found.mechanism)) <= limit * (1 + 1e-6)
    assert found.value < 0.99 * (1.0 - joint.sum(axis=0).max())  # what an independent release costs
