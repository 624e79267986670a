"""Whole solves of the least worst log-ratios by the kernel, against the steps of the method that it stands for."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv import _compile, _native
from jaxpriv._clock import Clock
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.presolve.closed_forms import cheapest_release
from jaxpriv.presolve.reduction import Reduced
from jaxpriv.program.convex import in_lanes
from jaxpriv.program.lower import least_worst_program
from jaxpriv.solvers import Goal, InteriorPoint, MirrorDescent
from jaxpriv.solvers._base import in_precision
from jaxpriv.solvers.interior_point import newton, whole
from jaxpriv.solvers.interior_point.candidate import largest_ratio, least_ratio
from jaxpriv.solvers.interior_point.system import rearrange
from jaxpriv.solving import kinds, loops, many
from jaxpriv.solving.kinds import Kinds
from jaxpriv.testing import random_joint

kernels = pytest.mark.skipif(_native.absence() is not None, reason=f"no CPU kernels: {_native.absence()}")
each = pytest.mark.usefixtures("instructions")

_MEASURES = {
    "ldp": jp.leakage.LocalDifferentialPrivacy(),
    "lift": jp.leakage.Lift(),
    "max-lift": jp.leakage.MaxLift(),
    "min-lift": jp.leakage.MinLift(),
    "inferential": jp.leakage.InferentialPrivacy(),
}


@pytest.fixture(autouse=True)
def library_settings(monkeypatch):
    monkeypatch.delenv(loops.SWITCH, raising=False)
    monkeypatch.setattr(loops, "_SPENT", type(loops._SPENT)())
    with _compile.own_settings():
        yield


def _problem(seed, sizes, measure, budgets=1, joint=None):
    (private, inputs, outputs), rng = sizes, np.random.default_rng(seed)
    joint = random_joint(seed, private, inputs) if joint is None else joint
    tables = [rng.uniform(size=(inputs, outputs)) for _ in range(budgets)]
    cheapest = tables[0] == tables[0].min(axis=1, keepdims=True)
    inside = 0.8 * cheapest + 0.2 * rng.dirichlet(np.ones(outputs), size=inputs)
    limits = [float((joint.sum(axis=0)[:, None] * table * inside).sum()) * 1.02 for table in tables]
    many: dict[str, Any] = {"budget": limits[0]} if budgets == 1 else {"budget": limits}
    return jp.DistortionProblem(joint, tables[0] if budgets == 1 else tables, leakage=measure, **many)


def _program(problem):
    program = least_worst_program(problem, True)
    return dataclasses.replace(program, feasible_point=cheapest_release(program))


def _by_steps(monkeypatch, run):
    """The same without the kernel."""
    with monkeypatch.context() as patch:
        patch.setattr(whole, "_loaded", lambda _: None)
        return run()


def _degenerate(kind):
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


_SIZES = {
    "cube": (8, 8, 8),
    "two-symbols": (2, 2, 2),
    "odd": (5, 7, 9),
    "few-rows": (2, 13, 6),
    "many-rows": (17, 4, 3),
    "one-output": (3, 4, 1),
    "large": (19, 21, 23),
}


@kernels
@pytest.mark.parametrize("measure", [_MEASURES["ldp"], _MEASURES["lift"]], ids=["ldp", "lift"])
@pytest.mark.parametrize("sizes", _SIZES.values(), ids=_SIZES)
def test_a_solve_is_that_of_the_method(sizes, measure, monkeypatch):
    _compared(monkeypatch, _problem(1, sizes, measure))


@kernels
@each
@pytest.mark.parametrize("measure", _MEASURES.values(), ids=_MEASURES)
def test_every_measure_is_solved_by_every_instruction_set(measure, monkeypatch):
    _compared(monkeypatch, _problem(5, (5, 6, 9), measure))


@kernels
@pytest.mark.parametrize("measure", [_MEASURES["ldp"], _MEASURES["max-lift"]], ids=["ldp", "max-lift"])
@pytest.mark.parametrize("kind", ["zero-mass", "diagonal", "equal-rows", "zeros", "rare"])
def test_degenerate_joints_are_solved_as_by_the_method(kind, measure, monkeypatch):
    _compared(monkeypatch, _problem(2, (5, 5, 6), measure, joint=_degenerate(kind)))


@kernels
@pytest.mark.parametrize("measure", [_MEASURES["ldp"], _MEASURES["lift"]], ids=["ldp", "lift"])
def test_several_budgets_are_solved_as_by_the_method(measure, monkeypatch):
    _compared(monkeypatch, _problem(4, (4, 6, 7), measure, budgets=3))


def _compared(monkeypatch, problem):
    solver, reduced = InteriorPoint(), Reduced.of(_program(problem), Goal(1e-8))
    assert whole.takes(solver, reduced.program)
    found, counted = whole.solved(solver, reduced.program, reduced.goal, 60)
    found, steps = jax.tree.map(lambda leaf: leaf[0], found), int(counted[0])

    def run():
        lanes = jax.tree.map(lambda leaf: np.asarray(leaf)[None], reduced.program)
        best, count = loops.iterate_lanes(solver, in_lanes(lanes), reduced.goal, 60)
        return jax.tree.map(lambda leaf: leaf[0], best), int(count[0])

    wanted, wanted_steps = _by_steps(monkeypatch, run)
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
    with np.errstate(divide="ignore"):
        assert np.log(largest_ratio(data, found.mechanism.T)) == pytest.approx(found.value, abs=1e-9)


@kernels
@each
@pytest.mark.parametrize("limit", [0, 1, 2, 4, 8])
@pytest.mark.parametrize("measure", [_MEASURES["ldp"], _MEASURES["lift"]], ids=["ldp", "lift"])
def test_every_step_is_that_of_the_method(limit, measure, monkeypatch):
    solver = InteriorPoint()
    lanes = in_lanes(jax.tree.map(lambda leaf: np.asarray(leaf)[None], _program(_problem(7, (6, 7, 9), measure, 2))))
    reduced = Reduced.of(lanes, Goal(1e-12))
    found, steps = whole.solved(solver, reduced.program, reduced.goal, limit)
    wanted, wanted_steps = _by_steps(
        monkeypatch, lambda: loops.iterate_lanes(solver, reduced.program, reduced.goal, limit)
    )
    assert steps == wanted_steps == limit
    for name in ("mechanism", "value", "k", "price", "bound"):
        got, expected = getattr(found, name), getattr(wanted, name)
        size = 1.0 + abs(expected[np.isfinite(expected)]).max(initial=0.0)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9 * size)


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
    reduced = Reduced.of(_program(_problem(seed, sizes, _MEASURES[name])), Goal(1e-6))
    solver = InteriorPoint(attempts=1)
    found, steps = loops._step_uncompiled(Clock(), solver, reduced.program, reduced.goal, 200, lambda *_: None)
    assert reduced.goal.met(found)
    assert steps < 40
    assert 0 < len(followed) < steps / 2  # near the optimum the path is that of any barrier


@kernels
@pytest.mark.parametrize(("name", "sizes", "seed"), _TURNED_BACK)
def test_the_kernel_follows_them_too(name, sizes, seed, monkeypatch):
    _compared(monkeypatch, _problem(seed, sizes, _MEASURES[name]))


@kernels
def test_a_start_that_fails_is_followed_by_those_of_the_method(monkeypatch):
    # Budgets that next to nothing meets: the first start misses them by more than what they are.
    joint = np.random.default_rng(9).dirichlet(np.full(16, 0.2)).reshape(4, 4)
    cost = 1.0 - np.eye(4)
    budget = 0.1 * float((joint.sum(axis=0) @ cost).min())
    problem = jp.DistortionProblem(joint, cost, budget=budget, leakage=_MEASURES["max-lift"])
    reduced, solver = Reduced.of(_program(problem), Goal(1e-6)), InteriorPoint()

    def run(attempts):
        one = dataclasses.replace(solver, attempts=attempts)
        return loops.iterate_uncompiled(Clock(), one, reduced.program, reduced.goal, 200, lambda *_: None)

    stalled, short = run(1)
    found, steps = run(3)
    wanted, wanted_steps = _by_steps(monkeypatch, lambda: run(3))
    assert not reduced.goal.met(stalled)
    assert reduced.goal.met(found)
    assert reduced.goal.met(wanted)
    assert short < steps == wanted_steps
    assert found.value == pytest.approx(wanted.value, abs=1e-6)  # each is within the tolerance of the optimum


@kernels
def test_it_takes_minimax_programs_of_one_linear_term_alone():
    program, solver = _program(_problem(0, (4, 4, 4), _MEASURES["lift"])), InteriorPoint()
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
    assert not whole.takes(solver, _program(_problem(0, (4, 4, 4), jp.leakage.MaxInformation())))


@kernels
@pytest.mark.parametrize("measure", [_MEASURES["ldp"], _MEASURES["max-lift"]], ids=["ldp", "max-lift"])
def test_batches_and_single_solves_compile_nothing(measure, monkeypatch):
    """Alphabets of several sizes are padded to one, and every result is certified on its own problem."""

    def refuse(*_):
        raise AssertionError("something was compiled or iterated on")

    for module in (many, loops):
        monkeypatch.setattr(module, "compiled", refuse)
    monkeypatch.setattr(loops, "on_host", refuse)
    monkeypatch.setattr(InteriorPoint, "step", refuse)
    monkeypatch.setattr(loops, "_ENOUGH", 0.0)
    monkeypatch.setattr(kinds, "WORTH_COMPILING", 0.0)
    sizes = [(4, 6, 5), (5, 7, 8), (3, 3, 3)]
    problems = [_problem(seed, sizes[seed % 3], measure) for seed in range(20)]
    for problem, found in zip(problems, jp.solve_many(problems), strict=True):
        proof = jp.certify(problem, found)
        assert found.status == "optimal"
        assert proof.valid
        assert proof.gap <= 1e-6
        assert found.seconds["compile"] == 0.0
    assert [jp.solve(problem).status for problem in problems[:3]] == ["optimal"] * 3


@kernels
@pytest.mark.parametrize("measure", [_MEASURES["ldp"], _MEASURES["lift"]], ids=["ldp", "lift"])
def test_in_a_trace_it_ends_at_the_point_of_the_method(measure, monkeypatch):
    """The point that derivatives of optima follow from."""
    solver, reduced = InteriorPoint(), Reduced.of(_program(_problem(8, (4, 5, 6), measure)), Goal(1e-8))
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


@kernels
def test_jit_and_vmap_have_it():
    problems = [_problem(seed, (3, 4, 4), _MEASURES["ldp"]) for seed in range(3)]
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
        problem = _problem(0, (size, size, size), _MEASURES["ldp"])
        if asked:
            problem = jp.DistortionProblem(problem.data, problem.distortions[0], leakage=problem.leakage, **asked)
        found = Kinds("auto", goal).of(problem)
        assert found is not None
        return found

    assert [kind(8).by_kernel, kind(96).by_kernel, kind(8, leakage_budget=0.5).by_kernel] == [True, False, False]
    assert kind(8).width(10**6) == 0


def test_prices_that_exceed_their_budgets_by_rounding_prove_no_infinite_peak():
    """Without rules nothing falls with the peak: what is left above the budget is left at every peak."""
    program = _program(_problem(0, (3, 3, 3), _MEASURES["max-lift"]))
    data = rearrange(program)
    cheapest = program.constraints.min(axis=2).sum()
    k, eta, price = np.zeros((3, data.rows)), np.zeros((3, 0)), np.ones(1)
    for budget in (cheapest * (1.0 - 1e-15), cheapest * (1.0 - 1e-3)):
        short = rearrange(dataclasses.replace(program, budgets=np.array([budget])))
        assert least_ratio(short, k, eta, price, 0.0) == -np.inf
    rules = np.zeros_like(k)
    rules[:, 0] = 1e-3  # a little of a row: a peak that is finite
    assert np.isfinite(least_ratio(data, rules, eta, price * 1e-6, 0.0))
