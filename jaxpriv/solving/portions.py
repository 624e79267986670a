"""Compiled loops in one call where they are short, otherwise in portions of steps between which a clock is asked.

A small program, or a batch of them, is not compiled at all (`uncompiled`). XLA cannot be interrupted. A run that is
predicted to be short, and that has neither time limit nor progress function, is one call. Any other is cut into
portions whose length follows from the time that the last one took; the state stays on the device between them, and the
number of steps is an argument, so that no portion compiles again.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from jaxpriv._clock import Clock
from jaxpriv._types import Arr, ScalarLike
from jaxpriv.problems.program import Program
from jaxpriv.solution import Solution
from jaxpriv.solvers import (
    AbstractSolver,
    Course,
    Gapped,
    Goal,
    MirrorDescent,
    PrimalDualHybridGradient,
    begin,
    iterate,
    resume,
)
from jaxpriv.solving import uncompiled
from jaxpriv.solving.execution import compiled, on_host

# Seconds that a whole run may take at most, as predicted, to be one call; and the seconds that a portion aims at.
_SHORT, _PORTION = 1.0, 0.2
# Operations in a second of methods that factor matrices, and of methods that compute exponentials (most machines do
# more), and the seconds that a step takes beside them.
_PRODUCTS, _EXPONENTIALS, _STEP = 1e10, 5e8, 2e-4
# Exponentials that a step of mirror descent takes for each budget: its own Newton steps.
_DUAL_STEPS = 20


class Loop(NamedTuple):
    """One loop in two forms, for arguments `data`: one program, or a batch."""

    whole: Callable[..., Any]  # (solver, *data, limit) -> Run
    begin: Callable[..., Any]  # (solver, *data) -> Course
    resume: Callable[..., Any]  # (solver, *data, course, until) -> Course
    instances: Callable[..., Any]  # (*data) -> [(program, goal), ...], the padding of a batch included


class Ran(NamedTuple):
    """What a run came to: its candidate (NumPy arrays; None: the clock ended it before the first portion), its steps,
    and the seconds spent compiling.
    """

    best: PyTree
    steps: Any  # an integer, or (B,) of a batch
    compiling: float


def _begin_one(solver: AbstractSolver, program: PyTree, goal: Goal) -> Course:
    del goal
    return begin(solver, program)


def _only_one(program: PyTree, goal: Goal) -> list[tuple[PyTree, Goal]]:
    return [(program, goal)]


ONE = Loop(iterate, _begin_one, resume, _only_one)


def step_seconds(solver: object, private: int, inputs: int, outputs: int, limits: int, diagonal: bool) -> float:
    """About what one step takes at most, for `private` rows of all joints and measures together."""
    if isinstance(solver, PrimalDualHybridGradient):
        return _STEP + 8.0 * outputs * inputs * (private + limits) / _PRODUCTS
    if isinstance(solver, MirrorDescent):
        return _STEP + outputs * inputs * (private / 4 + _DUAL_STEPS * limits + 2) / _EXPONENTIALS
    rows = 1.0 if diagonal else private * (1.0 + private / inputs)
    return _STEP + (2.0 * outputs * inputs**2 * rows + inputs**3) / _PRODUCTS


def seconds_of(solver: object, program: Program) -> float:
    """About what one step takes at most."""
    rows = sum(len(term.rows) for term in program.terms)
    limits = len(program.budgets) + sum(term.priced for term in program.terms)
    inputs, outputs = program.cost.shape
    return step_seconds(solver, max(rows, 1), inputs, outputs, limits, program.diagonal)


def run(
    clock: Clock,
    loop: Loop,
    solver: PyTree,
    data: tuple[PyTree, ...],
    goal: Goal,
    limit: int,
    step: float,
    report: Callable[[PyTree, Arr], None],
    padding: int = 0,
) -> Ran:
    """The loop on `data` while the clock allows it, at most `limit` steps.

    Args:
        goal: when an instance is done: that in `data`, with leading axes where that is a batch.
        step: the predicted seconds of a step.
        report: called with the candidate and the steps after every portion.
        padding: how many instances at the end of a batch are copies of the one before them.
    """
    instances = loop.instances(*data)
    if uncompiled.suits(solver, instances[0][0], step / len(instances)):
        if loop is ONE:
            best, steps = uncompiled.iterate(clock, solver, data[0], goal, limit, report)
        else:
            best, steps = uncompiled.iterate_all(clock, solver, instances, padding, limit, report)
        return Ran(best, np.asarray(steps), 0.0)
    if not clock.watched and step * limit <= _SHORT:
        result, seconds = on_host(loop.whole, solver, *data, np.asarray(limit))
        return Ran(result.best, result.steps, seconds)
    first, seconds = compiled(loop.begin, solver, *data)
    course, steps, best, portion = first(), 0, None, max(1, int(_PORTION / step))
    while not (best is not None and _finished(solver, course, best, steps, goal, limit)) and not clock.expired():
        until = min(limit, int(np.max(steps)) + portion)
        call, compiling = compiled(loop.resume, solver, *data, course, np.asarray(until))
        seconds += compiling
        begun = time.perf_counter()
        with clock.held():
            new = call()
            best, steps = jax.tree.map(np.asarray, (new.best, new.steps))
            course = new
            report(best, steps)
        spent = max(time.perf_counter() - begun, 1e-6)
        portion = max(1, min(2 * portion, int(portion * min(_PORTION, clock.left) / spent)))
    return Ran(best, steps, seconds)


def report_points(clock: Clock, name: str, fresh: list[Solution], done: int, total: int) -> None:
    """Report the points of a sweep that were just done, if any, by the one with the largest gap."""
    if fresh and clock.reports:
        worst = max(fresh, key=lambda one: one.gap if np.isfinite(one.value) else -np.inf)
        clock.report(name, worst.steps, worst.value, worst.lower_bound, done, total)


def _finished(solver: AbstractSolver, course: Course, best: Gapped, steps: ScalarLike, goal: Goal, limit: int) -> bool:
    """Whether no instance has anything left to do."""
    return bool(np.all((np.asarray(course.attempt) >= solver.attempts) | goal.met(best) | (steps >= limit)))
