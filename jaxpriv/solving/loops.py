"""How a loop is run: small programs by NumPy, others compiled, in one call or in portions with a clock between them.

Compiling takes seconds for every new shape, NumPy takes ten milliseconds for a solve of 8 symbols where compiled code
takes one. So a small program is run by NumPy, or many of them side by side (`iterate_lanes`), and the seconds of single
ones are added up by what an executable is kept by (structure and shapes, never numbers): past `_ENOUGH` of them it is
compiled, and past `_ENOUGH_KEPT` of them loaded where there is one on disk.

XLA cannot be interrupted. A compiled run that is predicted to be short, and that has neither time limit nor progress
function, is one call. Any other is cut into portions whose length follows from the time that the last one took; the
state stays on the device between them, and the number of steps is an argument, so that no portion compiles again.

Where a step is as long as a portion is meant to be, a portion of one step would ask the system for gigabytes anew for
every step, and their pages are zeroed when they are first touched, a third of the time of some solves. With the CPU
kernels such a run is one call too, unless every step is reported: the loop reads a number of the host between two
steps, which is set where the clock ends the run.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree
from threadpoolctl import ThreadpoolController

from jaxpriv._runtime import lanes
from jaxpriv._runtime.clock import Clock, Stop
from jaxpriv._runtime.compilation import compiled, is_ready, on_host, target_platform
from jaxpriv._runtime.native import absence
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.errors import InputError
from jaxpriv.program.convex import Program
from jaxpriv.program.solution import Solution
from jaxpriv.solvers import (
    AbstractSolver,
    AugmentedLagrangian,
    Course,
    Gapped,
    Goal,
    PrimalDualHybridGradient,
    begin,
    begin_again,
    iterate,
    resume,
)
from jaxpriv.solvers.interior_point import whole
from jaxpriv.solvers.linear_program import highs
from jaxpriv.solvers.mirror_descent import AbstractMirrorDescent

SWITCH = "JAXPRIV_COMPILE"
# Predicted seconds of a compiled step up to which a program is small: 64 symbols each of S, X and Y. Loading an
# executable from disk takes about as long as NumPy takes for such a solve.
SMALL = 7e-3
# The same up to which NumPy takes less time for a solve than compiling takes: 128 symbols, where it takes 1.5 to 4.5 s
# and compiling 4 to 9.
_MEDIUM = 0.11
# The same up to which kernels for whole solves are called, which cannot be interrupted: 170 symbols (of
# LDP, whose programs have twice the rows, 128) takes about 2 s.
_AT_ONCE = 0.35
# The same up to which a kernel for whole solves, on one thread, takes less time than compiled code on two: 40
# symbols. Measured at 8 to 64.
WHOLE = 1.5e-3
# Processor seconds without compiling after which a program of the same structure and shapes is compiled: about what
# compiling takes (6 with all cores busy), so that together they are seldom more than twice what the better of the two
# would have taken alone. A batch takes twice as long.
_ENOUGH = 4.0
# The same where an executable is kept on disk: about what loading it takes, 0.1 to 0.5 s.
_ENOUGH_KEPT = 0.4
# Processor seconds that compiling takes at most: 6 to 9 with other work on all cores. Work of which so much is known to
# lie ahead is worth compiling.
_COMPILING = 10.0
# The same of methods whose steps are simple, in processor seconds.
_COMPILING_SIMPLE = 5.0
# Under a time limit a program is compiled if the compiler takes at most this share of what is left, where NumPy can run
# it instead: its steps of large programs take about as long. It can where a step is predicted to take at most so long.
_FOR_COMPILING, _LONGEST = 0.3, 2.0
# The first state takes NumPy about as long as so many steps.
_FIRST_STATE = 8
# Programs whose seconds are remembered: the least recently used one is dropped, and counts from 0 again.
_MOST_KNOWN = 1024

_SPENT: OrderedDict[Hashable, float] = OrderedDict()
_LOCK = threading.Lock()
_REPEATABLE = ContextVar("repeatable", default=False)
_PENDING: ContextVar[dict[Hashable, float] | None] = ContextVar("pending", default=None)


@contextmanager
def repeatable() -> Iterator[None]:
    """Small programs are run by NumPy however often they came: the last bits of a result do not depend on the past."""
    token = _REPEATABLE.set(True)
    try:
        yield
    finally:
        _REPEATABLE.reset(token)


@contextmanager
def counted_at_the_end() -> Iterator[None]:
    """Seconds in NumPy count when the block ends: no program that NumPy runs at its beginning is compiled within it."""
    pending: dict[Hashable, float] = {}
    token = _PENDING.set(pending)
    try:
        yield
    finally:
        _PENDING.reset(token)
        for key, seconds in pending.items():
            spend(key, seconds)


@dataclass
class Ahead:
    """The points of a sweep that are still to be solved, by which it is known what an executable can save.

    What lies ahead of a single solve is unknown, and the past is the best guess of it. The last points of a sweep are
    the end of what is known: they are not compiled for, however long the first ones took.
    """

    total: int
    done: int = 0
    # By program: how many points were done, and what NumPy had taken for it, when the sweep first asked for it.
    first: dict[Hashable, tuple[int, float]] = field(default_factory=dict)

    def worth_compiling(self, key: Hashable, seconds: float) -> bool:
        """Whether the points that are left, if each takes NumPy as long as those so far, take it longer than compiling.

        `seconds`: what NumPy has taken in this process. Before the first point they are of earlier calls, the past.
        """
        done, before = self.first.setdefault(key, (self.done, seconds))
        if self.done == done:
            return True
        each = (seconds - before) / (self.done - done)
        return each * (self.total - self.done) >= _COMPILING


class _OneThread:
    """While a solve is inside, NumPy's linear algebra has one thread.

    Its products of matrices of 30 to 60 rows take 5 to 9 times the processor time with two: threads that wait for each
    other take turns with those of other programs. The number belongs to the process. The first thread in sets it, and
    sets it back when it leaves, although others may be inside: `threadpoolctl` lets no other thread do that, and the
    next one that comes in sets it again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None  # the thread that has set it
        self._inside = 0  # how often that thread is inside
        self._libraries: ThreadpoolController | None = None  # found once, when NumPy's has been loaded
        self._limit = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._holder is None:
                self._libraries = self._libraries or ThreadpoolController()
                self._limit.enter_context(self._libraries.limit(limits=1, user_api="blas"))
                self._holder = threading.get_ident()
            if self._holder == threading.get_ident():
                self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._holder != threading.get_ident():
                return
            self._inside -= 1
            if self._inside == 0:
                self._holder = None
                self._limit.close()


ONE_THREAD = _OneThread()


def compile_setting() -> str:
    """What the environment asks for: "always", "never" or, where it leaves the choice to us, ""."""
    choice = os.environ.get(SWITCH, "").lower()
    if choice not in ("", "always", "never"):
        raise InputError(f"the environment variable {SWITCH} must be 'always', 'never' or unset")
    return choice


def suits(
    solver: AbstractSolver,
    program: PyTree,
    step: float,
    watched: bool = False,
    ready: Callable[[], bool] = lambda: False,
    ahead: Ahead | None = None,
) -> bool:
    """Whether a program is run without compiling: by NumPy, or by a kernel of whole solves.

    `step`: the predicted seconds of a compiled step; `watched`: whether every step is reported, or a time limit checked
    after it; `ready`: whether there is an executable, in memory or on disk; `ahead`: the sweep that it is part of.
    """
    choice = compile_setting()
    if choice == "always" or not solver.uncompiled(program):
        return False
    if choice == "never":
        return True
    by_kernel = not watched and whole.takes(solver, program)
    if target_platform() != "cpu":
        # A step starts thousands of operations one after another, and starting one takes an accelerator microseconds.
        return step <= SMALL
    if step > (_AT_ONCE if by_kernel else _MEDIUM):
        return False
    if _REPEATABLE.get():
        return True
    key = _key(solver, program)
    seconds = spent(key)
    worth = ahead is None or ahead.worth_compiling(key, seconds)
    if seconds >= _ENOUGH and worth:
        return False
    small = by_kernel or step <= SMALL
    return (small and seconds < _ENOUGH_KEPT) or not ready()


def iterate_uncompiled(
    clock: Clock,
    solver: AbstractSolver,
    program: PyTree,
    goal: Goal,
    limit: int,
    report: Callable[[PyTree, Arr, float | None], None],
    vertices: bool,
) -> tuple[PyTree, ScalarLike]:
    """(best candidate, steps) of `solvers.iterate` in NumPy; no candidate where the clock ended it before the first.

    Without a time limit and a progress function a kernel of whole solves runs where there is one for the program.
    Otherwise the time limit is checked after every step, and `report` called with the candidate, the steps so far and
    the length of the last one. `vertices`: the simplex method of HiGHS takes the place of the steps.
    """
    begun = time.thread_time()
    program = jax.tree.map(np.asarray, program)
    try:
        # What is not finite is looked for where it matters, as in compiled code.
        with ONE_THREAD, np.errstate(all="ignore"):
            if not clock.watched and whole.takes(solver, program):
                return whole.solved(solver, program, goal, limit)
            if vertices and (solved := highs(program, clock.left)) is not None:
                return solved.candidate, 0
            return _step_uncompiled(clock, solver, program, goal, limit, report)
    finally:
        spend(_key(solver, program), time.thread_time() - begun)


def iterate_lanes(solver: AbstractSolver, program: PyTree, goal: Goal, limit: int) -> tuple[PyTree, np.ndarray]:
    """(best candidates, steps) of `solvers.iterate` from its first start for a program with lanes (`lanes.py`), at most
    `limit` steps: plain arrays with a leading axis. By a kernel where one takes the program, from all starts.

    A lane that is done leaves the batch; so does one whose solver terminates, with what it has.
    """
    if whole.takes(solver, program):
        return whole.solved(solver, program, goal, limit)
    with ONE_THREAD, np.errstate(all="ignore"):
        state = solver.init(program, 0, solver.blank(program))
        count = lanes.count_of(*jax.tree.leaves((program, goal)))
        assert count is not None  # one of both has lanes
        leaves, structure = jax.tree.flatten(state.best)
        candidates = [lanes.spread(leaf, count).copy() for leaf in leaves]
        steps = np.zeros(count, dtype=np.int32)
        left = np.arange(count)
        for step in range(limit + 1):
            done = lanes.spread(goal.met(state.best) | solver.terminate(program, state) | (step == limit), len(left))
            for parts, leaf in zip(candidates, jax.tree.leaves(state.best), strict=True):
                parts[left[done]] = lanes.spread(leaf, len(left))[done]
            steps[left[done]] = step
            left = left[~done]
            if not len(left):
                break
            if done.any():
                program, goal, state = lanes.taken((program, goal, state), ~done)
            state = solver.step(program, state)
    return jax.tree.unflatten(structure, candidates), steps


def _step_uncompiled(
    clock: Clock,
    solver: AbstractSolver,
    program: PyTree,
    goal: Goal,
    limit: int,
    report: Callable[[PyTree, Arr, float | None], None],
) -> tuple[PyTree, int]:
    """The same by the steps of the method."""
    best: PyTree = None
    steps = 0
    for attempt in range(solver.attempts):
        state: PyTree = None
        took = 0.0
        while not (clock.expired() or clock.too_short_for(took)):
            begun = time.perf_counter()
            with clock.held():  # an interrupt leaves the state of the last step
                if state is None:
                    state = solver.init(program, attempt, solver.blank(program) if best is None else best)
                else:
                    state, steps = solver.step(program, state), steps + 1
                best = state.best
                report(best, np.asarray(steps), _length(clock, state))
            took = time.perf_counter() - begun
            if state is not None and (goal.met(best) or solver.terminate(program, state) or steps >= limit):
                break
        if clock.expired() or goal.met(best) or steps >= limit:
            break
    return best, steps


def _key(solver: AbstractSolver, program: PyTree) -> Hashable:
    leaves, structure = jax.tree.flatten((solver, program))
    return structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves)


def spent(key: Hashable) -> float:
    """The seconds that NumPy has taken for programs of a key in this process, as far as they are remembered."""
    with _LOCK:
        return _SPENT.get(key, 0.0)


def spend(key: Hashable, seconds: float) -> None:
    """Add to them."""
    pending = _PENDING.get()
    if pending is not None:
        pending[key] = pending.get(key, 0.0) + seconds
        return
    with _LOCK:
        _SPENT[key] = _SPENT.get(key, 0.0) + seconds
        _SPENT.move_to_end(key)
        if len(_SPENT) > _MOST_KNOWN:
            _SPENT.popitem(last=False)


# Seconds that a whole run may take at most, as predicted, to be one call; and the seconds that a portion aims at.
_SHORT, _PORTION = 1.0, 0.2
# Seconds between two checks of the time limit while a run goes on: a choice.
_LOOK = 0.01
# Operations in a second of methods that factor matrices, and of methods that compute exponentials (most machines do
# more), and the seconds that a step takes beside them.
_PRODUCTS, _EXPONENTIALS, _STEP = 1e10, 5e8, 2e-4
# Passes that a step of `AugmentedLagrangian` takes, twice the mean of its steps at 64 symbols (9 at 16, 23 at 64).
_NEWTON_PASSES = 50
# Exponentials that a step of mirror descent takes for each budget: its own Newton steps.
_DUAL_STEPS = 20


class RunResult(NamedTuple):
    """What a run came to: its candidate (NumPy arrays; None: the clock ended it before the first portion), its steps,
    and the seconds spent compiling.
    """

    best: PyTree
    steps: ScalarLike
    compiling: float


@dataclass
class LastState:
    """Where the last of several runs on programs that are near each other ended: the next one begins there, if its
    program has the same structure and shapes.
    """

    state: PyTree = None
    key: Hashable = None


_NOT_BEGUN = RunResult(None, 0, 0.0)  # no step, and nothing compiled


def step_seconds(solver: object, private: int, inputs: int, outputs: int, limits: int, diagonal: bool) -> float:
    """About what one step takes at most, for `private` rows of all joints and measures together."""
    if isinstance(solver, PrimalDualHybridGradient):
        entry = 4.0 * (private + limits) / _PRODUCTS + solver.dual_steps / _EXPONENTIALS
        return _STEP + solver.inner * outputs * inputs * entry
    if isinstance(solver, AugmentedLagrangian):
        return _STEP + _NEWTON_PASSES * outputs * inputs * 4.0 * (private + limits) / _PRODUCTS
    if isinstance(solver, AbstractMirrorDescent):
        return _STEP + outputs * inputs * (private / 4 + _DUAL_STEPS * limits + 2) / _EXPONENTIALS
    rows = 1.0 if diagonal else private * (1.0 + private / inputs)
    return _STEP + (2.0 * outputs * inputs**2 * rows + inputs**3) / _PRODUCTS


def seconds_of(solver: object, program: Program) -> float:
    """The seconds that one step of the solver on this program takes, predicted from above."""
    rows = sum(len(term.rows) for term in program.terms)
    limits = len(program.budgets) + sum(term.priced for term in program.terms)
    inputs, outputs = program.cost.shape
    return step_seconds(solver, max(rows, 1), inputs, outputs, limits, program.diagonal)


def run(
    clock: Clock,
    solver: PyTree,
    program: Program,
    goal: Goal,
    limit: int,
    report: Callable[[PyTree, Arr, float | None], None],
    ahead: Ahead | None = None,
    vertices: bool = False,
    last: LastState | None = None,
) -> RunResult:
    """The loop on `program` while the clock allows it, at most `limit` steps.

    Args:
        report: called with the candidate, the steps and the length of the last one after every portion.
        ahead: the sweep that the run is part of.
        last: where the run before this one ended, if the solver goes on from there (`AbstractSolver.moved`).
        vertices: where NumPy would take the steps of a linear program, the simplex method solves it.
    """
    step = seconds_of(solver, program)
    quick = step <= WHOLE and not clock.watched and compile_setting() != "always"
    if quick and whole.takes(solver, program):
        return RunResult(*whole.solved(solver, program, goal, limit), 0.0)
    at_once = not clock.watched and step * limit <= _SHORT and last is None
    call, given = (iterate, (solver, program, goal, np.asarray(limit))) if at_once else (begin, (solver, program))
    ready = partial(is_ready, call, *given)
    by_numpy = suits(solver, program, step, clock.watched, ready, ahead)
    if not by_numpy and not np.isinf(clock.left) and not ready():
        able = solver.uncompiled(program) and step <= _LONGEST and compile_setting() != "always"
        simple = isinstance(solver, (AbstractMirrorDescent, PrimalDualHybridGradient, AugmentedLagrangian))
        most = _COMPILING_SIMPLE if simple else _COMPILING
        if not clock.allows(most / _FOR_COMPILING if able else most, _key(solver, program)):
            if not able:
                clock.stop = Stop.TIME_LIMIT
                return _NOT_BEGUN
            by_numpy = True
    if by_numpy:
        if clock.too_short_for(_FIRST_STATE * step):
            return _NOT_BEGUN
        return RunResult(*iterate_uncompiled(clock, solver, program, goal, limit, report, vertices), 0.0)
    if at_once:
        result, seconds = on_host(call, *given)
        return RunResult(result.best, result.steps, seconds)
    key = _key(solver, program)
    if last is not None and last.key == key:
        call, given = begin_again, (*given, last.state)
    start, seconds = compiled(call, *given)
    course, steps, attempt, best, portion = start(), 0, 0, None, max(1, int(_PORTION / step))
    stop, took = None, 0.0
    if step >= _PORTION and not clock.reports and _reads_the_host():
        stop, portion = np.zeros(1, np.int32), limit
    address = () if stop is None else (np.asarray(stop.ctypes.data, np.uint64),)
    while not (best is not None and _finished(solver, attempt, best, steps, goal, limit)):
        if clock.expired() or clock.too_short_for(took):
            break
        until = min(limit, int(steps) + min(portion, clock.every or portion))
        # On an accelerator a portion takes the memory of the last state, the argument number 3. On a CPU the best
        # candidate is read there.
        donated = None if target_platform() == "cpu" else 3
        call, compiling = compiled(resume, solver, program, goal, course, np.asarray(until), *address, donated=donated)
        seconds += compiling
        begun, before = time.perf_counter(), int(steps)
        with clock.held():
            new = call()
            if stop is not None:
                _end_with(clock, new, stop, step)
            read = np.asarray if donated is None else np.array
            best, steps, attempt = jax.tree.map(read, (new.best, new.steps, new.attempt))
            course = new
            if last is not None:
                last.state, last.key = new.state, key
            report(best, steps, _length(clock, new.state))
        spent = max(time.perf_counter() - begun, 1e-6)
        took = spent / max(1, int(steps) - before)
        portion = max(1, min(2 * portion, limit, int(portion * min(_PORTION, clock.left) / spent)))
    return RunResult(best, steps, seconds)


def _length(clock: Clock, state: PyTree) -> float | None:
    """The length of the last step, for a report; None where the method has none."""
    length = getattr(state, "length", None) if clock.reports else None
    return None if length is None else float(length)


def _reads_the_host() -> bool:
    """Whether a loop can read a number of the host, and runs while this thread waits for it."""
    if target_platform() != "cpu" or absence() is not None:
        return False
    return bool(jax.config.values.get("jax_cpu_enable_async_dispatch", False))


def _end_with(clock: Clock, course: Course, stop: np.ndarray, step: float) -> None:
    """Wait for a run, and set the number that it reads when the clock ends it; `step`: the seconds of a step."""
    try:
        while not course.steps.is_ready():  # pyright: ignore[reportAttributeAccessIssue]
            with clock.held():
                time.sleep(_LOOK)
            if clock.expired() or clock.too_short_for(step):
                stop[0] = 1
    finally:  # an exception would free the number while the run reads it
        stop[0] = 1
        jax.block_until_ready(course)


def report_points(clock: Clock, name: str, fresh: list[Solution], done: int, total: int) -> None:
    """Report the points of a sweep that were just done, if any, by the one with the largest gap."""
    if fresh and clock.reports:
        worst = max(fresh, key=lambda solution: solution.gap if np.isfinite(solution.value) else -np.inf)
        clock.report(name, worst.steps, worst.value, worst.lower_bound, done, total)


def _finished(
    solver: AbstractSolver, attempt: ScalarLike, best: Gapped, steps: ScalarLike, goal: Goal, limit: int
) -> bool:
    """Whether nothing is left to do."""
    return bool((attempt >= solver.attempts) | goal.met(best) | (steps >= limit))
