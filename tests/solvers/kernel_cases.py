"""The kernels of whole solves against the method: problems, their programs, and what has to be equal."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv._runtime import native
from jaxpriv._runtime.clock import Clock
from jaxpriv._runtime.lanes import has_lanes, with_lanes
from jaxpriv.program.convex import Program, in_lanes
from jaxpriv.program.lower import least_worst_program
from jaxpriv.reductions.closed_forms import cheapest_release
from jaxpriv.reductions.reduction import Reduced
from jaxpriv.solvers import Goal, InteriorPoint
from jaxpriv.solvers.interior_point import whole
from jaxpriv.solvers.interior_point.candidate import objective
from jaxpriv.solvers.interior_point.system import rearrange
from jaxpriv.solving import kinds, loops, many
from jaxpriv.testing import random_joint

kernels = pytest.mark.skipif(native.absence() is not None, reason=f"no CPU kernels: {native.absence()}")
each = pytest.mark.usefixtures("instructions")


def problem_of(seed, sizes, measure, budgets=1, joint=None):
    """Random tables, a mechanism within their budgets, and little more room than that."""
    (private, inputs, outputs), rng = sizes, np.random.default_rng(seed)
    joint = random_joint(seed, private, inputs) if joint is None else joint
    tables = [rng.uniform(size=(inputs, outputs)) for _ in range(budgets)]
    cheapest = tables[0] == tables[0].min(axis=1, keepdims=True)
    inside = 0.8 * cheapest + 0.2 * rng.dirichlet(np.ones(outputs), size=inputs)
    limits = [float((joint.sum(axis=0)[:, None] * table * inside).sum()) * 1.02 for table in tables]
    given: dict[str, Any] = {"budget": limits[0]} if budgets == 1 else {"budget": limits}
    return jp.DistortionProblem(joint, tables[0] if budgets == 1 else tables, leakage=measure, **given)


def program_of(problem):
    """The program of a problem of the least worst outcome, with a mechanism that meets its limits, or a program."""
    if isinstance(problem, Program):
        return problem
    program = least_worst_program(problem, True)
    return dataclasses.replace(program, feasible_point=cheapest_release(program))


def by_steps(monkeypatch, run):
    """The same without the kernel."""
    with monkeypatch.context() as patch:
        patch.setattr(whole, "_loaded", lambda _: None)
        return run()


def run_of(solver, reduced, limit):
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
        joint = joint * (np.random.default_rng(0).uniform(size=joint.shape) > 0.4) + 1e-3 * np.eye(5)
    elif kind == "rare":
        joint[:, 0] *= 1e-9
    return joint / joint.sum()


SIZES = {
    "cube": (8, 8, 8),
    "two-symbols": (2, 2, 2),
    "odd": (5, 7, 9),
    "few-rows": (2, 13, 6),
    "many-rows": (17, 4, 3),
    "one-output": (3, 4, 1),
    "large": (19, 21, 23),
}


def compare(monkeypatch, problem):
    """A solve by the kernel and by the method: the kernel's is proved, and as good."""
    solver, reduced = InteriorPoint(), Reduced.of(program_of(problem), Goal(1e-8))
    assert whole.takes(solver, reduced.program)
    found, steps = run_of(solver, reduced, 60)
    wanted, wanted_steps = by_steps(monkeypatch, lambda: run_of(solver, reduced, 60))
    met = bool(reduced.goal.met(wanted))
    assert reduced.goal.met(found) or not met
    if met:
        assert steps <= wanted_steps + 2  # with few rows the method takes a less accurate form of the Newton system
        # Two pairs of bounds on one optimum.
        assert found.bound <= wanted.value + 1e-12
        assert wanted.bound <= found.value + 1e-12
    data = rearrange(reduced.program)
    np.testing.assert_allclose(found.mechanism.sum(axis=1), 1.0, atol=1e-12)
    assert (found.mechanism >= 0).all()
    assert not found.mechanism[~np.asarray(reduced.program.support)].any()
    used = (reduced.program.constraints * found.mechanism).sum(axis=(1, 2))
    assert (used <= reduced.program.budgets + 1e-12).all()
    if reduced.program.minimax:
        peak = data.stated[0].largest_ratio(found.mechanism.T)
        with np.errstate(divide="ignore"):
            value = np.log(peak) if reduced.program.logarithmic else peak
    else:
        value = objective(data, found.mechanism.T)
    assert value == pytest.approx(found.value, abs=1e-9)


def compare_steps(monkeypatch, problem, limit):
    """What is known after so many steps, to rounding."""
    solver = InteriorPoint()
    lanes = in_lanes(jax.tree.map(lambda leaf: np.asarray(leaf)[None], program_of(problem)))
    reduced = Reduced.of(lanes, Goal(1e-12))
    found, steps = whole.solved(solver, reduced.program, reduced.goal, limit)
    wanted, wanted_steps = by_steps(
        monkeypatch, lambda: loops.iterate_lanes(solver, reduced.program, reduced.goal, limit)
    )
    assert steps == wanted_steps == limit
    for name in ("mechanism", "value", "k", "eta", "price", "bound"):
        got, expected = getattr(found, name), getattr(wanted, name)
        size = 1.0 + abs(expected[np.isfinite(expected)]).max(initial=0.0)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9 * size)


def compare_last_points(monkeypatch, problem):
    """The point where a run inside of a trace ends, from which derivatives of optima follow."""
    solver, reduced = InteriorPoint(), Reduced.of(program_of(problem), Goal(1e-8))
    program = jax.tree.map(np.asarray, reduced.program)
    state, steps = solver.init(program, 0, solver.blank(program)), 0
    with np.errstate(all="ignore"):
        while not reduced.goal.met(state.best):
            state, steps = solver.step(program, state), steps + 1
    monkeypatch.setattr(whole, "last_state", None)  # the loop must not be traced
    found = jax.jit(lambda one: whole.in_trace(solver, one, reduced.goal, 60))(program)
    assert found.steps == steps
    for name, got in found.point._asdict().items():
        expected = getattr(state.point, name)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6 * (1.0 + abs(expected).max(initial=0.0)))


def only_kernels(monkeypatch):
    """Nothing is compiled, and nothing is iterated on in NumPy."""

    def refuse(*_):
        raise AssertionError("something was compiled or iterated on")

    for module in (many, loops):
        monkeypatch.setattr(module, "compiled", refuse)
    monkeypatch.setattr(loops, "on_host", refuse)
    monkeypatch.setattr(InteriorPoint, "step", refuse)
    monkeypatch.setattr(loops, "_ENOUGH", 0.0)
    monkeypatch.setattr(kinds, "WORTH_COMPILING", 0.0)


def compare_starts(monkeypatch, problem):
    """Steps of a hundredth of the way stall after six: each start is further inside than the one before."""
    solver, reduced = InteriorPoint(boundary=0.01), Reduced.of(program_of(problem), Goal(1e-9))
    for limit in (6, 7, 13, 60):
        found, steps = run_of(solver, reduced, limit)
        wanted, wanted_steps = by_steps(monkeypatch, lambda limit=limit: run_of(solver, reduced, limit))
        assert steps == wanted_steps == min(limit, 18)
        np.testing.assert_allclose(found.mechanism, wanted.mechanism, atol=1e-9)


def compare_lanes(monkeypatch, programs):
    """A batch of more than one part, with goals of its own, of which some arrays are the same in all lanes."""
    lanes = in_lanes(jax.tree.map(lambda *parts: np.stack(parts), *programs))
    reduced = Reduced.of(lanes, Goal(with_lanes(np.logspace(-9, -5, len(programs)))))
    assert not has_lanes(reduced.program.terms[0].rows)

    def run():
        return loops.iterate_lanes(InteriorPoint(attempts=1), reduced.program, reduced.goal, 60)

    found, steps = run()
    wanted, wanted_steps = by_steps(monkeypatch, run)
    np.testing.assert_array_equal(steps, wanted_steps)
    assert len(set(steps.tolist())) > 1
    for name in ("value", "bound"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), atol=1e-9)


def certified_without_compiling(monkeypatch, problems):
    """Alphabets of several sizes are padded to one, and every result is certified on its own problem."""
    only_kernels(monkeypatch)
    for problem, found in zip(problems, jp.solve_many(problems), strict=True):
        proof = jp.certify(problem, found)
        assert found.status == "optimal"
        assert proof.valid
        assert proof.agrees
        assert proof.gap <= 1e-6
        assert found.seconds is not None
        assert found.seconds["compile"] == 0.0
    assert [jp.solve(problem).status for problem in problems[:4]] == ["optimal"] * 4


def compare_traced(symbol, problem, levels):
    """`jit(vmap)` of solves of `problem(joint, level)`, with a symbol of S and one of X that have no mass."""
    joints = np.stack([random_joint(seed, 3, 4) for seed in range(len(levels))])
    joints[0, -1], joints[0, :, -1] = 0.0, 0.0
    joints[0] /= joints[0].sum()
    traced = jax.jit(jax.vmap(lambda joint, level: jp.solve(problem(joint, level))))
    assert symbol in traced.lower(joints, levels).as_text()
    found = traced(joints, levels)
    for i, (joint, level) in enumerate(zip(joints, levels, strict=True)):
        host = jp.solve(problem(joint, float(level)))
        assert found.status[i] == host.status == "optimal"
        assert float(found.value[i]) == pytest.approx(host.value, abs=2e-6)
