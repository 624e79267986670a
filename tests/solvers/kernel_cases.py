"""The kernels of whole solves against the method: problems, their programs, and what has to be equal."""

import dataclasses

import jax
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import jaxpriv as jp
from jaxpriv import InteriorPoint
from jaxpriv import leakage as lk
from jaxpriv._runtime.clock import Clock
from jaxpriv._runtime.lanes import has_lanes, spread, with_lanes
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.program import Form
from jaxpriv.program.convex import in_lanes
from jaxpriv.program.lower import least_worst_program, limits_of, measured_program
from jaxpriv.reductions.closed_forms import cheapest_release, independent_release
from jaxpriv.reductions.reduction import Reduced
from jaxpriv.solvers import Goal
from jaxpriv.solvers.interior_point import whole
from jaxpriv.solvers.interior_point.candidate import dual_bound, objective
from jaxpriv.solvers.interior_point.system import rearrange
from jaxpriv.solving import loops
from jaxpriv.testing import random_joint
from tests.compiling import without_whole_solves
from tests.information import program_on

each = pytest.mark.usefixtures("instructions")

RATIOS = {
    "ldp": lk.LocalDifferentialPrivacy(),
    "lift": lk.Lift(),
    "max-lift": lk.MaxLift(),
    "min-lift": lk.MinLift(),
    "inferential": lk.InferentialPrivacy(),
}
WORST = RATIOS | {
    "max-information": lk.MaxInformation(),
    "relative-entropy": lk.RelativeEntropyPrivacy(),
    "hidden": lk.MaxInformation(hidden=np.linspace(0.0, 1.5, 5)),
}
# The least cost under a limit on mutual information; the others are least values of a measure within budgets.
LIMITED = "limited information"
INFORMATION = "information"
MEASURES = {**WORST, INFORMATION: lk.MutualInformation()}

SIZES = {
    "cube": (8, 8, 8),
    "two-symbols": (2, 2, 2),
    "odd": (5, 7, 9),
    "few-rows": (2, 13, 6),
    "many-rows": (17, 4, 3),
    "one-output": (3, 4, 1),
    "large": (19, 21, 23),
}


def problem_of(name, seed, sizes, budgets=1, joint=None):
    """Random tables, a mechanism within their budgets, and little more room than that."""
    (private, inputs, outputs), rng = sizes, default_rng(seed)
    joint = random_joint(seed, private, inputs) if joint is None else joint
    tables = [rng.uniform(size=(inputs, outputs)) for _ in range(budgets)]
    cheapest = tables[0] == tables[0].min(axis=1, keepdims=True)
    inside = 0.8 * cheapest + 0.2 * rng.dirichlet(np.ones(outputs), size=inputs)
    limits = [float((joint.sum(axis=0)[:, None] * table * inside).sum()) * 1.02 for table in tables]
    return jp.DistortionProblem(joint, tables, leakage=MEASURES[name], budget=limits)


def limited(seed, sizes, limit=0.03, joint=None):
    private, inputs, outputs = sizes
    joint = random_joint(seed, private, inputs) if joint is None else joint
    table = default_rng(seed).uniform(size=(inputs, outputs))
    return jp.DistortionProblem(joint, table, leakage_budget=limit)


def limited_program(problem, budgets=0):
    """With an independent release, and budgets for all that differs from it."""
    program = measured_program(problem, limits_of(problem))
    program = dataclasses.replace(program, feasible_point=independent_release(program))
    weights = default_rng(budgets).uniform(0.5, 1.0, size=(budgets, *program.cost.shape))
    tables = weights * program.mass[:, None] * (1.0 - program.feasible_point)
    limits = np.array([0.1, 0.05, 1.0])[:budgets]
    return dataclasses.replace(program, constraints=tables, budgets=limits, marks=np.zeros(budgets))


def information_program(seed, sizes, budgets=1, *, sparse=False, padded=False):
    """Random tables, `budgets` of them limited, and a mechanism within; or costs of the size of the leakage."""
    (private, inputs, outputs), rng = sizes, default_rng(seed)
    joint = random_joint(seed, private, inputs)
    if padded:  # a private and a useful symbol without mass
        joint[-1], joint[:, -1] = 0.0, 0.0
        joint /= joint.sum()
    tables = rng.uniform(size=(max(budgets, 1), inputs, outputs)) * joint.sum(axis=0)[:, None]
    if not budgets:
        return program_on(joint[None], 0.3 * tables[0], tables[:0], np.zeros(0), Form.OBJECTIVE)
    cheapest = tables[0] == tables[0].min(axis=1, keepdims=True)
    allowed = (rng.uniform(size=(inputs, outputs)) > 0.3 * sparse) | cheapest
    inside = rng.dirichlet(np.ones(outputs), size=inputs) * allowed
    inside = 0.6 * cheapest / cheapest.sum(axis=1, keepdims=True) + 0.4 * inside / inside.sum(axis=1, keepdims=True)
    limits = 1.05 * (tables * inside).sum(axis=(1, 2))
    program = program_on(joint[None], np.zeros((inputs, outputs)), tables, limits, Form.OBJECTIVE)
    return dataclasses.replace(program, support=allowed, feasible_point=inside)


def program_of(name, seed, sizes, budgets=None, joint=None):
    """A program of the measure with a mechanism within its budgets: one, but for limited information, unless given."""
    if name == LIMITED:
        return limited_program(limited(seed, sizes, joint=joint), budgets or 0)
    budgets = 1 if budgets is None else budgets
    if name == INFORMATION:
        return information_program(seed, sizes, budgets)
    return stated(problem_of(name, seed, sizes, budgets, joint))


def stated(problem):
    """The program of the least worst outcome, with the cheapest release."""
    program = least_worst_program(problem, True)
    return dataclasses.replace(program, feasible_point=cheapest_release(program))


def by_steps(run):
    """The same without the kernel."""
    with without_whole_solves():
        return run()


def run_of(solver, reduced, limit=100):
    """(best candidate, steps) from all starts, by a kernel where one takes the program."""
    return loops.iterate_uncompiled(Clock(), solver, reduced.program, reduced.goal, limit, lambda *_: None)


def degenerate(kind):
    joint = random_joint(3, 5, 5)
    if kind == "zero-mass":
        joint[-1], joint[:, -1] = 0.0, 0.0
    elif kind == "diagonal":
        joint = np.diag(np.diag(joint))
    elif kind == "equal-rows":
        joint[1] = 2.0 * joint[0]
    elif kind == "zeros":
        joint = joint * (default_rng(0).uniform(size=joint.shape) > 0.4) + 1e-3 * np.eye(5)
    elif kind == "rare":
        joint[:, 0] *= 1e-9
    return joint / joint.sum()


def scale_of(array):
    return 1.0 + abs(array[np.isfinite(array)]).max(initial=0.0)


def compare(program):
    """A solve by the kernel and by the method: the kernel's is proved, and as good."""
    solver, reduced = InteriorPoint(), Reduced.of(program, Goal(1e-8))
    assert whole.takes(solver, reduced.program)
    found, steps = run_of(solver, reduced)
    wanted, wanted_steps = by_steps(lambda: run_of(solver, reduced))
    met = bool(reduced.goal.met(wanted))
    assert reduced.goal.met(found) or not met
    if met:
        assert steps <= wanted_steps + 2  # with few rows the method takes a less accurate form of the Newton system
        assert found.bound <= wanted.value + 1e-12
        assert wanted.bound <= found.value + 1e-12
    data, program = rearrange(reduced.program), reduced.program
    assert_allclose(found.mechanism.sum(axis=1), 1.0, atol=1e-12)
    assert (found.mechanism >= 0).all()
    assert not found.mechanism[~np.asarray(program.support)].any()
    assert ((program.constraints * found.mechanism).sum(axis=(1, 2)) <= program.budgets + 1e-12).all()
    if program.minimax:
        peak = data.stated[0].largest_ratio(found.mechanism.T)
        with np.errstate(divide="ignore"):
            assert found.value == pytest.approx(np.log(peak) if program.logarithmic else peak, abs=1e-9)
        return
    assert objective(data, found.mechanism.T) == pytest.approx(found.value, abs=1e-12)
    assert dual_bound(data, found.k, found.eta, found.price) == pytest.approx(found.bound, abs=1e-12)
    if program.terms[0].role is Role.OBJECTIVE:
        assert steps == pytest.approx(wanted_steps, abs=1)
        if steps == wanted_steps:
            assert found.value == pytest.approx(wanted.value, abs=1e-9)
            assert found.bound == pytest.approx(wanted.bound, abs=1e-9)


def compare_steps(program, limit, solver, tolerance):
    """What is known after so many steps, to rounding."""
    reduced = Reduced.of(in_lanes(jax.tree.map(lambda leaf: np.asarray(leaf)[None], program)), Goal(1e-12))
    found, steps = whole.solved(solver, reduced.program, reduced.goal, limit)
    wanted, wanted_steps = by_steps(lambda: loops.iterate_lanes(solver, reduced.program, reduced.goal, limit))
    assert steps == wanted_steps == limit
    for name in ("mechanism", "value", "k", "eta", "price", "bound"):
        expected = getattr(wanted, name)
        assert_allclose(getattr(found, name), expected, rtol=0, atol=tolerance * scale_of(expected))


def compare_last_points(program, solver):
    """The point where a run inside of a trace ends, from which derivatives of optima follow."""
    reduced = Reduced.of(program, Goal(1e-8))
    program = jax.tree.map(np.asarray, reduced.program)
    state, steps = solver.init(program, 0, solver.blank(program)), 0
    with np.errstate(all="ignore"):
        while not reduced.goal.met(state.best):
            state, steps = solver.step(program, state), steps + 1
    run = jax.jit(lambda one, limit: whole.in_trace(solver, one, reduced.goal, limit))
    assert run(program, 0).steps == 0
    found = run(program, 60)
    assert found.steps == steps
    for name in ("value", "bound"):
        assert_allclose(getattr(found.best, name), getattr(state.best, name), atol=1e-9)
    for name, got in found.point._asdict().items():
        expected = getattr(state.point, name)
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype), name
        assert_allclose(got, expected, rtol=0, atol=1e-6 * scale_of(expected), err_msg=name)


def compare_starts(program, solver):
    """Steps of a small part of the way stall after six: each start is further inside than the one before."""
    reduced = Reduced.of(program, Goal(1e-9))
    for limit in (6, 7, 13, 60):
        found, steps = run_of(solver, reduced, limit)
        wanted, wanted_steps = by_steps(lambda limit=limit: run_of(solver, reduced, limit))
        assert steps == wanted_steps == min(limit, 18)
        assert_allclose(found.mechanism, wanted.mechanism, atol=1e-9)


def compare_lanes(programs, solver, shared, share):
    """A batch of more than one part, with goals of its own, of which some arrays are the same in all lanes.

    `shared(program)` is one of these; values and bounds may differ by a share of the tolerances, beside rounding.
    """
    lanes = in_lanes(jax.tree.map(lambda *parts: np.stack(parts), *programs))
    reduced = Reduced.of(lanes, Goal(with_lanes(np.logspace(-9, -5, len(programs)))))
    assert not has_lanes(shared(reduced.program))

    def run():
        return loops.iterate_lanes(solver, reduced.program, reduced.goal, 60)

    (found, steps), (wanted, wanted_steps) = run(), by_steps(run)
    assert_array_equal(steps, wanted_steps)
    assert len(set(steps.tolist())) > 1
    allowed = spread(reduced.goal.tol, len(programs))
    for name in ("value", "bound"):
        assert (abs(getattr(found, name) - getattr(wanted, name)) <= share * allowed + 1e-9).all()
    assert share == 0.0 or (found.value - found.bound <= allowed).all()
