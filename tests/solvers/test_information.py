"""Whole solves of mutual information by the kernel, against the steps of the method that it stands for."""

import dataclasses

import jax
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv._runtime.clock import Clock
from jaxpriv._runtime.lanes import has_lanes, spread, with_lanes
from jaxpriv.leakage.rule_sets import Power, Role
from jaxpriv.program.convex import Form, in_lanes
from jaxpriv.reductions.reduction import Reduced
from jaxpriv.solvers import Goal, InteriorPoint, MirrorDescent
from jaxpriv.solvers._base import in_precision
from jaxpriv.solvers.interior_point import whole
from jaxpriv.solvers.interior_point.candidate import dual_bound, objective
from jaxpriv.solvers.interior_point.system import rearrange
from jaxpriv.solving import loops
from jaxpriv.solving.kinds import Kinds
from jaxpriv.testing import random_joint
from tests.information import program_on
from tests.solvers.kernel_cases import certified_without_compiling, each, kernels

pytestmark = pytest.mark.usefixtures("library_settings")

# What two orders of summation make of a value of size one, in the few steps of a solve.
_ROUNDING = 1e-9


def random_program(seed, sizes, budgets, *, sparse=False, padded=False):
    """Random tables, `budgets` of them limited, and a mechanism within; or costs of the size of the leakage."""
    (private, inputs, outputs), rng = sizes, np.random.default_rng(seed)
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


def _by_steps(monkeypatch, run):
    """The same without the kernel."""
    with monkeypatch.context() as patch:
        patch.setattr(whole, "_loaded", lambda _: None)
        return run()


def _agree(reduced, found, steps, wanted, wanted_steps):
    assert steps == pytest.approx(wanted_steps, abs=1)
    if steps == wanted_steps:
        assert found.value == pytest.approx(wanted.value, abs=_ROUNDING)
        assert found.bound == pytest.approx(wanted.bound, abs=_ROUNDING)
    data = rearrange(reduced.program)
    assert (found.mechanism >= 0).all()
    assert not found.mechanism[~reduced.program.support].any()
    np.testing.assert_allclose(found.mechanism.sum(axis=1), 1.0, atol=1e-12)
    used = (reduced.program.constraints * found.mechanism).sum(axis=(1, 2))
    assert (used <= reduced.program.budgets + 1e-12).all()
    assert objective(data, found.mechanism.T) == pytest.approx(found.value, abs=1e-12)
    assert dual_bound(data, found.k, found.eta, found.price) == pytest.approx(found.bound, abs=1e-12)


_CASES = {
    "cube": ((8, 8, 8), 1, {}),
    "two-symbols": ((2, 2, 2), 1, {}),
    "odd": ((5, 7, 9), 1, {}),
    "few-rows": ((2, 13, 6), 1, {}),
    "many-rows": ((23, 4, 3), 1, {}),
    "one-output": ((3, 4, 1), 1, {}),
    "one-input": ((3, 1, 4), 1, {}),
    "large": ((31, 33, 35), 1, {}),
    "price": ((6, 6, 6), 0, {}),
    "two-budgets": ((6, 5, 7), 2, {}),
    "three-budgets": ((4, 9, 9), 3, {}),
    "sparse": ((6, 8, 10), 1, {"sparse": True}),
    "padded": ((6, 6, 6), 1, {"padded": True}),
}


@kernels
@each
@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES)
def test_a_solve_is_that_of_the_method(case, monkeypatch):
    sizes, budgets, more = case
    solver = InteriorPoint()
    for seed in range(3):
        reduced = Reduced.of(random_program(seed, sizes, budgets, **more), Goal(1e-8))
        assert whole.takes(solver, reduced.program)
        found, steps = loops.iterate_uncompiled(Clock(), solver, reduced.program, reduced.goal, 100, lambda *_: None)
        wanted, wanted_steps = _by_steps(
            monkeypatch,
            lambda reduced=reduced: loops.iterate_uncompiled(
                Clock(), solver, reduced.program, reduced.goal, 100, lambda *_: None
            ),
        )
        assert reduced.goal.met(found) == reduced.goal.met(wanted)
        _agree(reduced, found, steps, wanted, wanted_steps)


@kernels
@each
@pytest.mark.parametrize("limit", [0, 1, 2, 4])
@pytest.mark.parametrize("warm_steps", [0, 3])
def test_every_step_is_that_of_the_method(limit, warm_steps, monkeypatch):
    """Without mirror steps, which the method takes in float32, as exactly as rounding allows."""
    solver = InteriorPoint(warm_steps=warm_steps)
    reduced = Reduced.of(random_program(7, (6, 7, 8), 1), Goal(1e-12))
    lanes = dataclasses.replace(reduced.program, cost=with_lanes(reduced.program.cost[None]))
    found, steps = whole.solved(solver, lanes, reduced.goal, limit)
    wanted, wanted_steps = _by_steps(monkeypatch, lambda: loops.iterate_lanes(solver, lanes, reduced.goal, limit))
    assert steps == wanted_steps == limit
    tolerance = 1e-10 if warm_steps == 0 else 1e-4
    for name in ("mechanism", "value", "k", "price", "bound"):
        got, expected = getattr(found, name), getattr(wanted, name)
        size = 1.0 + abs(expected[np.isfinite(expected)]).max(initial=0.0)
        np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * size)


@kernels
def test_lanes_have_their_own_numbers_or_share_them(monkeypatch):
    """Programs of a batch, more than one part of them, of which some arrays are the same in all lanes."""
    programs = [random_program(seed, (4, 5, 6), 1) for seed in range(21)]
    c = programs[0].constraints
    programs = [
        dataclasses.replace(one, constraints=c, budgets=1.05 * (c * one.feasible_point).sum(axis=(1, 2)))
        for one in programs
    ]
    lanes = in_lanes(jax.tree.map(lambda *parts: np.stack(parts), *programs))
    reduced = Reduced.of(lanes, Goal(with_lanes(np.logspace(-9, -5, 21))))
    assert not has_lanes(reduced.program.constraints)

    def run():
        return loops.iterate_lanes(InteriorPoint(), reduced.program, reduced.goal, 48)

    found, steps = run()
    wanted, wanted_steps = _by_steps(monkeypatch, run)
    np.testing.assert_array_equal(steps, wanted_steps)
    assert len(set(steps.tolist())) > 1
    allowed = spread(reduced.goal.tol, 21)
    for name in ("value", "bound"):  # after few steps the mirror steps, in float32 there, still show
        assert (abs(getattr(found, name) - getattr(wanted, name)) <= 0.1 * allowed + _ROUNDING).all()
    assert (found.value - found.bound <= allowed).all()


@kernels
def test_it_takes_the_least_mutual_information_alone():
    program = random_program(0, (4, 4, 4), 1)
    solver = InteriorPoint()
    assert whole.takes(solver, program)
    assert not whole.takes(MirrorDescent(), program)
    (term,) = program.terms
    others = [
        dataclasses.replace(program, terms=(term, term)),
        dataclasses.replace(program, terms=(dataclasses.replace(term, role=Role.PEAK),)),
        dataclasses.replace(program, terms=(dataclasses.replace(term, rule_set=Power()),)),
        dataclasses.replace(program, equal=np.array([True])),
        dataclasses.replace(program, shares=True),
        in_precision(program, np.float32),
        dataclasses.replace(program, constraints=np.zeros((15, 4, 4)), budgets=np.zeros(15)),
    ]
    assert not any(whole.takes(solver, one) for one in others)


def _problems(count, sizes, **more):
    problems = []
    for seed in range(count):
        private, inputs, outputs = sizes[seed % len(sizes)]
        cost = abs(np.subtract.outer(np.arange(inputs), np.arange(outputs))).astype(float)
        joint = random_joint(seed, private, inputs)
        idle = (joint.sum(axis=0)[:, None] * cost).sum(axis=0).min()
        problems.append(jp.DistortionProblem(joint, cost, **(more or {"budget": (0.2 + 0.05 * seed % 0.7) * idle})))
    return problems


@kernels
@pytest.mark.parametrize("more", [{}, {"multiplier": 0.3}], ids=["budget", "multiplier"])
def test_batches_and_single_solves_compile_nothing(monkeypatch, more):
    problems = _problems(40, [(4, 6, 5), (5, 7, 8), (3, 3, 3)], **more)
    certified_without_compiling(monkeypatch, problems)
    curve = (
        jp.frontier(problems[0], budgets=[0.2, 0.4]) if not more else jp.frontier(problems[0], multipliers=[0.2, 0.4])
    )
    assert list(curve.solutions.status) == ["optimal"] * 2


@kernels
def test_what_is_watched_takes_its_steps_one_by_one(monkeypatch):
    monkeypatch.setattr(whole, "solved", None)  # must not be asked
    (problem,) = _problems(1, [(4, 4, 4)])
    lines = []
    found = jp.solve(problem, progress=lines.append)
    assert [line.step for line in lines] == list(range(found.steps + 1))


@kernels
def test_large_problems_and_a_wish_to_compile_are_left_to_compiled_code(monkeypatch):
    goal = Goal(1e-6)
    small, large = (Kinds("auto", goal).of(_problems(1, [(n, n, n)])[0]) for n in (8, 96))
    assert small is not None
    assert large is not None
    assert (small.by_kernel, large.by_kernel) == (True, False)
    assert small.width(10**6) == 0
    assert small.width_uncompiled(10**6) == 512
    limited = Kinds("auto", goal).of(_problems(1, [(8, 8, 8)], budget=0.3, limits=((jp.leakage.Sibson(2.0), 0.1),))[0])
    assert limited is not None
    assert not limited.by_kernel
    monkeypatch.setenv(loops.SWITCH, "always")
    assert not small.by_kernel
    assert small.width(10**6) > 0
