"""Runs of the accelerated method on one streamed problem, in portions: float32 first, then float64."""

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PyTree

from jaxpriv._clock import Clock, Stop
from jaxpriv._types import ScalarLike
from jaxpriv.certificates import Certificate
from jaxpriv.errors import IntegrityError
from jaxpriv.problems.streamed import StreamedProgram
from jaxpriv.solvers import AcceleratedGradient, Goal, advance
from jaxpriv.solvers._base import Certified
from jaxpriv.solvers.accelerated import AcceleratedState, Problem, StreamedCandidate
from jaxpriv.solving.checkpoint import Checkpoint
from jaxpriv.solving.execution import compiled
from jaxpriv.streaming import Survey, agreed, leakage

# The share of the allowed gap that an iteration stops at (the certificate differs from the solver's own view by
# rounding and by the repair of a budget).
MARGIN = 0.95
# Seconds that one portion of steps aims at: between two of them the clock is asked.
_PORTION = 0.25
# A gap of float32 passes is believed down to this, relative to the value.
_SINGLE_TRUST = 1e-5
# Above this relative gap float32 lost its way: float64 starts afresh.
_SINGLE_USEFUL = 0.1
# In float32 the step test loses its meaning sooner; give up early and go on in float64.
_SINGLE_PATIENCE = 25

# Costs of these sizes neither underflow nor overflow in float32, not even squared.
_SINGLE_RANGE = (1e-12, 1e12)


class Task:
    """One call of `solve`: what it asks, the steps it has left, what it has said so far, and its time."""

    def __init__(self, goal: Goal, limit: int, mesh: Mesh | None, said: list[str], clock: Clock):
        self.goal, self.mesh, self.said, self.clock = goal, mesh, said, clock
        self.left = self.limit = limit
        self.checkpoint: Checkpoint | None = None
        self._value, self._bound = float("inf"), float("-inf")
        self.begun, self.compiling = time.perf_counter(), 0.0

    def run(self, function: Callable[..., PyTree], *args: PyTree) -> PyTree:
        """`function(*args)`, the seconds that its compilation takes kept apart."""
        run, spent = compiled(function, *args)
        self.compiling += spent
        return run()

    def expired(self, mesh: Mesh | None) -> bool:
        """Whether the work has to end here; processes that share `mesh` end it together."""
        self.clock.expired()
        self.clock.stop = Stop(int(agreed(mesh, self.clock.stop)))
        return self.clock.stop is not Stop.NONE

    def goes_on(self, certificate: Certified) -> bool:
        """Whether another method is to be tried after a result with this certificate."""
        return not self.goal.met(certificate) and not self.expired(self.mesh)

    def say(self, note: str) -> None:
        """Add a note, once."""
        if note and note not in self.said:
            self.said.append(note)

    def show(self, value: ScalarLike, bound: ScalarLike) -> None:
        """Numbers of the problem that earlier runs have reached: reports are never worse from then on."""
        self._value, self._bound = min(self._value, float(value)), max(self._bound, float(bound))

    def report(self, best: StreamedCandidate, used: int) -> None:
        """Tell the progress function, if there is one, of the best so far."""
        if self.clock.reports:
            value, bound = min(self._value, float(best.value)), max(self._bound, float(best.bound))
            self.clock.report("accelerated", self.limit - self.left + used, value, bound)

    def seconds(self) -> dict[str, float]:
        return {"compile": self.compiling, "solve": time.perf_counter() - self.begun - self.compiling}


def _start(solver: AcceleratedGradient, problem: Problem) -> AcceleratedState:
    return solver.init(problem, 0, solver.blank(problem))


def _problem(program: StreamedProgram, known: Survey, single: bool) -> Problem:
    dtype = np.dtype(np.float32 if single else np.float64)
    low = StreamedProgram(
        program.joint.as_dtype(dtype),
        tuple(d.as_dtype(dtype) for d in program.distortions),
        program.prior.astype(dtype),
        None,
        None,
    )
    scales = np.maximum(known.constant.min(axis=1), np.finfo(float).tiny)
    anchor = np.asarray(leakage(jnp.asarray(known.columns), known.prior))
    return Problem(program, low, np.asarray(known.anchored), anchor, scales)


def iterate(
    task: Task,
    method: str,
    program: StreamedProgram,
    known: Survey,
    solver: AcceleratedGradient,
    goal: Goal,
    prove: Callable[[StreamedCandidate], Certificate] | None = None,
) -> tuple[list[StreamedCandidate], int]:
    """Float32 passes first (unless the solver says which); when those get no further float64 ones, from where they
    are, and from the start if that gets nowhere. What each came to, the last one first.

    `method` names the runs in a checkpoint; `prove` computes a candidate's value and bound in float64, for reports that
    go on after the change of precision.
    """
    inner = Goal(np.asarray(MARGIN * goal.tol), np.asarray(MARGIN * goal.rtol), np.asarray(0.0))
    exact = dataclasses.replace(solver, single=bool(solver.single))
    scales = known.constant.max(axis=1)
    small, large = _SINGLE_RANGE
    in_range = (scales == 0) | ((scales > small) & (scales < large))
    used, useful, float32, found = 0, False, None, []
    if solver.single is None and in_range.all():
        quick = dataclasses.replace(solver, single=True, patience=min(solver.patience, _SINGLE_PATIENCE))
        coarser = Goal(inner.tol, np.maximum(inner.rtol, _SINGLE_TRUST), inner.shift)
        problem = _problem(program, known, True)
        run = _run(task, f"{method}, float32", quick, problem, partial(task.run, _start, quick, problem), coarser, 0)
        used = run.steps
        found.append(jax.device_get(run.best))
        gap, value = float(run.best.gap), abs(float(run.best.value))
        if (inner.met(run.best) and gap > _SINGLE_TRUST * value) or used >= task.left or task.expired(solver.mesh):
            task.left -= used
            return found, used
        task.said.append(f"accelerated: float64 passes from step {used} on, because float32 got no further")
        useful, float32 = gap <= _SINGLE_USEFUL * value, run.state
        # What float32 claims is not reported beside float64: its rounding could hide all that is found later.
        if prove is not None and agreed(solver.mesh, task.clock.reports):
            certificate = prove(found[-1])
            task.show(certificate.value, certificate.lower_bound)
    problem, best = _problem(program, known, bool(solver.single)), None
    if useful:
        start = partial(_continued, task, exact, problem, float32)
        run = _run(task, f"{method}, continued", exact, problem, start, inner, used)
        used, best = run.steps, run.best
        found.append(jax.device_get(best))
        task.show(best.value, best.bound)
    if best is None or not (inner.met(best) or used >= task.left or task.expired(solver.mesh)):
        start = partial(task.run, _start, exact, problem)
        run = _run(task, f"{method}, started again", exact, problem, start, inner, used)
        used = run.steps
        found.append(jax.device_get(run.best))
    task.left -= used
    return found[::-1], used


def _resumed(solver: AcceleratedGradient, problem: Problem, state: AcceleratedState) -> AcceleratedState:
    return solver.resume(problem, state)


def _continued(
    task: Task, solver: AcceleratedGradient, problem: Problem, state: AcceleratedState | None
) -> AcceleratedState:
    if state is None:  # a checkpoint that holds a complete run holds the state of the one after it
        raise IntegrityError(
            "checkpoint: the file is damaged: its runs do not belong together; nothing was changed there"
        )
    return task.run(_resumed, solver, problem, state)


class _Ended(NamedTuple):
    """How a run ended. The state of one that a checkpoint holds as complete is known by its best candidate alone."""

    state: AcceleratedState | None
    best: StreamedCandidate
    steps: int


def _run(
    task: Task,
    label: str,
    solver: AcceleratedGradient,
    problem: Problem,
    start: Callable[[], AcceleratedState],
    goal: Goal,
    used: int,
) -> _Ended:
    """Steps in short portions, so that a time limit or an interrupt can end them, from `start()` or a checkpoint."""
    file, portion, state = task.checkpoint, 1, None
    if file is not None:
        complete = file.complete(label, jax.eval_shape(solver.blank, problem))
        if complete is not None:
            return _Ended(None, *complete)
        kept = file.state(label, lambda: jax.eval_shape(_start, solver, problem))
        if kept is not None:
            state, used = kept
            task.said.append(f"checkpoint: went on from step {used} of {label}")
    state = start() if state is None else state
    begin = used
    while not (goal.met(state.best) or state.stalled or used >= task.left or task.expired(solver.mesh)):
        begun, compiling = time.perf_counter(), task.compiling
        until = min(used + portion, task.left)
        with task.clock.held():
            new, count = task.run(advance, solver, problem, state, goal, np.asarray(used), np.asarray(until))
            state, used = new, int(count)
            task.report(state.best, used)
        spent = time.perf_counter() - begun - (task.compiling - compiling)
        if file is not None and file.due():
            task.say(file.save(label, state, used))
        wanted = int(portion * min(_PORTION, task.clock.left) / max(spent, 1e-3))
        portion = int(agreed(solver.mesh, max(1, min(2 * portion, wanted))))
    if file is not None:
        if goal.met(state.best) or state.stalled:
            file.note(label, state.best, used)
        elif used > begin:
            task.say(file.save(label, state, used))
    return _Ended(state, state.best, used)
