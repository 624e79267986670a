"""Whole solves of mutual information as one operation of a compiled program, against the loop that it stands for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv._runtime import compilation, native
from jaxpriv.reductions.reduction import Reduced
from jaxpriv.solvers import Goal, InteriorPoint
from jaxpriv.solvers.interior_point import whole
from jaxpriv.testing import random_joint
from tests.solvers.test_information import random_program

pytestmark = pytest.mark.skipif(native.absence() is not None, reason=f"no CPU kernels: {native.absence()}")

_SHAPE = 4, 5, 6


@pytest.fixture(autouse=True)
def library_settings():
    with compilation.own_settings():
        yield


@pytest.fixture
def no_loop(monkeypatch):
    """The loop of the method is not traced."""
    monkeypatch.setattr(whole, "last_state", None)


def _reduced(seed, tol, budgets=1):
    program = jax.tree.map(jnp.asarray, random_program(seed, _SHAPE, budgets))
    return Reduced.of(program, Goal(tol))


def _ended(solver, reduced, *limits):
    """Where the runs of so many steps ended, by the kernel."""

    @jax.jit
    def run(program, goal, most):
        return whole.in_trace(solver, program, goal, most)

    return [run(reduced.program, reduced.goal, most) for most in limits]


def _ended_by_loop(solver, reduced, *limits):
    """The same by the steps of the method, in NumPy: what `last_state` does in a trace."""
    program, goal = jax.tree.map(np.asarray, (reduced.program, reduced.goal))
    for most in limits:
        best, steps = solver.blank(program), 0
        for attempt in range(solver.attempts):
            state = solver.init(program, attempt, best)
            while not (goal.met(state.best) or solver.terminate(program, state) or steps >= most):
                state, steps = solver.step(program, state), steps + 1
            best = state.best
            if goal.met(best) or steps >= most:
                break
        yield whole.Ended(best, steps, state.point)


@pytest.mark.parametrize("budgets", [0, 1, 3])
def test_a_run_is_that_of_the_loop(budgets):
    solver = InteriorPoint()
    reduced = _reduced(budgets, 1e-9, budgets)
    (found,), (wanted,) = (ended(solver, reduced, 60) for ended in (_ended, _ended_by_loop))
    assert found.steps == wanted.steps
    assert reduced.goal.met(found.best)
    np.testing.assert_allclose(found.best.value, wanted.best.value, atol=1e-9)
    np.testing.assert_allclose(found.best.bound, wanted.best.bound, atol=1e-9)
    np.testing.assert_allclose(found.best.mechanism, wanted.best.mechanism, atol=1e-4)  # at a gap of 1e-9
    for name, part, expected in zip(found.point._fields, found.point, wanted.point, strict=True):
        assert part.shape == expected.shape, name
        assert part.dtype == expected.dtype, name
        np.testing.assert_allclose(part, expected, atol=2e-3 * (1.0 + abs(expected).max(initial=0.0)), err_msg=name)


def test_later_starts_are_those_of_the_method():
    """Steps of a twentieth of the way stall after six: each start is further inside than the one before."""
    solver = InteriorPoint(boundary=0.05, warm_steps=0)
    reduced = _reduced(1, 1e-9)
    limits = 6, 7, 13, 60
    runs = [ended(solver, reduced, *limits) for ended in (_ended, _ended_by_loop)]
    for most, found, wanted in zip(limits, *runs, strict=True):
        assert found.steps == wanted.steps == min(most, 18)
        for part, expected in zip(found.point, wanted.point, strict=True):
            np.testing.assert_allclose(part, expected, atol=1e-9 * (1.0 + abs(expected).max(initial=0.0)))
        np.testing.assert_allclose(found.best.value, wanted.best.value, atol=1e-9)


def test_no_step_leaves_what_is_known_before_the_first():
    reduced = _reduced(2, 1e-9)
    (found,) = _ended(InteriorPoint(), reduced, 0)
    assert found.steps == 0
    assert found.best.value - found.best.bound > 0
    np.testing.assert_allclose(found.best.mechanism.sum(axis=1), 1.0, atol=1e-12)


def test_a_batch_has_the_results_of_its_members(no_loop):
    """More than one part of a batch, twice batched, with goals and step limits of their own."""
    joints = np.stack([random_joint(seed, 4, 5) for seed in range(22)]).reshape(2, 11, 4, 5)
    cost = abs(np.subtract.outer(np.arange(5), np.arange(5))).astype(float)

    def one(joint, budget, tol):
        problem = jp.DistortionProblem(joint, cost, budget=budget)
        found = jp.solve(problem, tol=tol)
        return found.value, found.lower_bound, found.mechanism, found.code

    budgets, tols = np.linspace(0.2, 0.6, 11), np.array([1e-5, 1e-8])
    together = jax.jit(jax.vmap(jax.vmap(one, in_axes=(0, 0, None)), in_axes=(0, None, 0)))(joints, budgets, tols)
    value, bound, _, code = together
    assert (code == jp.Status.OPTIMAL.value).all()
    assert (value - bound <= tols[:, None]).all()
    for place in [(0, 0), (0, 10), (1, 4)]:
        alone = one(joints[place], float(budgets[place[1]]), float(tols[place[0]]))
        np.testing.assert_allclose(value[place], alone[0], atol=tols[place[0]])
        host = jp.solve(jp.DistortionProblem(joints[place], cost, budget=budgets[place[1]]), tol=1e-9)
        assert bound[place] <= host.value + 1e-12
        assert host.lower_bound <= value[place] + 1e-12


def test_an_empty_batch(no_loop):
    joints = np.zeros((0, 3, 3))
    cost = 1.0 - np.eye(3)
    values = jax.jit(jax.vmap(lambda one: jp.solve(jp.DistortionProblem(one, cost, budget=0.2)).value))
    assert values(joints).shape == (0,)


def test_other_platforms_keep_the_loop():
    """A program that is lowered for another platform does not name the kernel; that for the CPU does."""
    reduced = _reduced(3, 1e-8)

    def run(program, goal):
        return whole.in_trace(InteriorPoint(), program, goal, 30)

    alone = jax.jit(run)(reduced.program, reduced.goal)
    traced = jax.jit(lambda *args: run(*args)).trace(reduced.program, reduced.goal)
    assert "@jaxpriv_information_call" in traced.lower(lowering_platforms=("cpu",)).as_text()
    assert "@jaxpriv_information_call" not in traced.lower(lowering_platforms=("tpu",)).as_text()
    beside = traced.lower().compile()(reduced.program, reduced.goal)
    np.testing.assert_array_equal(beside.best.mechanism, alone.best.mechanism)


class _LoopIsTraced(Exception):
    pass


@pytest.mark.parametrize("form", ["limit", "single precision", "large", "another solver"])
def test_what_the_kernel_does_not_take_runs_the_loop(form, monkeypatch):
    def refuse(*_):
        raise _LoopIsTraced

    monkeypatch.setattr(whole, "last_state", refuse)
    if form == "large":
        monkeypatch.setattr(whole, "_MOST_SYMBOLS", 3)
    kind = np.float32 if form == "single precision" else np.float64
    asked = {"budget": 0.3, "limits": ((jp.leakage.Sibson(2.0), 0.5),) if form == "limit" else ()}
    solver = "mirror-descent" if form == "another solver" else "auto"
    joint, cost = random_joint(4, 4, 4).astype(kind), (1.0 - np.eye(4)).astype(kind)
    with pytest.raises(_LoopIsTraced):
        jax.eval_shape(lambda one: jp.solve(jp.DistortionProblem(one, cost, **asked), solver), joint)


def test_arrays_of_other_shapes_are_refused():
    program = random_program(6, _SHAPE, 1)
    reduced = Reduced.of(program, Goal(1e-6))
    given = whole._given(reduced.program, jnp.zeros(2), jnp.zeros(10))
    with pytest.raises(jax.errors.JaxRuntimeError, match="whole solves: arrays of float64 of other shapes"):
        native.call("jaxpriv_information_call", whole._shapes(reduced.program), *map(jnp.asarray, given))


def test_a_program_without_budgets_and_with_symbols_without_mass(no_loop):
    joint = random_joint(7, 4, 4)
    joint[-1], joint[:, -1] = 0.0, 0.0
    joint /= joint.sum()
    found = jax.jit(lambda one: jp.solve(jp.DistortionProblem(one, 1.0 - np.eye(4), multiplier=0.4), tol=1e-8))(joint)
    host = jp.solve(jp.DistortionProblem(joint, 1.0 - np.eye(4), multiplier=0.4), tol=1e-9)
    assert found.status == "optimal"
    assert found.lower_bound <= host.value + 1e-12
    assert host.lower_bound <= found.value + 1e-12
