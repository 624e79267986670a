"""Small programs without compiling: the solver's own steps, run by NumPy until the program comes often enough.

Compiling takes seconds for every new shape, NumPy takes ten milliseconds for a solve of 8 symbols where compiled code
takes one. So a small program is run by NumPy, and its seconds are added up by what an executable is kept by (structure
and shapes, never numbers): past `_ENOUGH` of them it is compiled.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from jaxpriv._clock import Clock
from jaxpriv._types import Arr
from jaxpriv.errors import InputError
from jaxpriv.solvers import AbstractSolver, Goal

SWITCH = "JAXPRIV_COMPILE"
# Predicted seconds of a compiled step up to which a program is small: 64 symbols each of S, X and Y.
_SMALL = 7e-3
# Processor seconds in NumPy after which a program of the same structure and shapes is compiled: about what compiling
# takes, so that together they are never more than twice what the better of the two would have taken alone.
_ENOUGH = 1.5
# Programs whose seconds are remembered: the least recently used one is dropped, and counts from 0 again.
_MOST_KNOWN = 1024

_SPENT: OrderedDict[Any, float] = OrderedDict()
_LOCK = threading.Lock()
_REPEATABLE = ContextVar("repeatable", default=False)


@contextmanager
def repeatable() -> Iterator[None]:
    """Small programs are run by NumPy however often they came: the last bits of a result do not depend on the past."""
    token = _REPEATABLE.set(True)
    try:
        yield
    finally:
        _REPEATABLE.reset(token)


def chosen() -> str:
    """What the environment asks for: "always", "never" or, where it leaves the choice to us, ""."""
    choice = os.environ.get(SWITCH, "").lower()
    if choice not in ("", "always", "never"):
        raise InputError(f"the environment variable {SWITCH} must be 'always', 'never' or unset")
    return choice


def suits(solver: AbstractSolver, program: PyTree, step: float) -> bool:
    """Whether a program is run by NumPy. `step`: the predicted seconds of a compiled step."""
    choice = chosen()
    if choice == "always" or not solver.uncompiled(program):
        return False
    if choice == "never":
        return True
    if step > _SMALL or jax.default_backend() != "cpu":
        return False
    if _REPEATABLE.get():
        return True
    with _LOCK:
        return _SPENT.get(_key(solver, program), 0.0) < _ENOUGH


def iterate(
    clock: Clock,
    solver: AbstractSolver,
    program: PyTree,
    goal: Goal,
    limit: int,
    report: Callable[[PyTree, Arr], None],
    begin: bool = False,
) -> tuple[PyTree, int]:
    """(best candidate, steps) of `solvers.iterate` in NumPy; no candidate where the clock ended it before the first.

    The clock is asked, and `report` called with the candidate and the steps so far, after every step. `begin`: a first
    candidate is found whatever the clock says.
    """
    begun = time.thread_time()
    try:
        with np.errstate(all="ignore"):  # what is not finite is looked for where it matters, as in compiled code
            return _iterate(clock, solver, jax.tree.map(np.asarray, program), goal, limit, report, begin)
    finally:
        _spend(_key(solver, program), time.thread_time() - begun)


def iterate_all(
    clock: Clock,
    solver: AbstractSolver,
    instances: list[tuple[Any, Goal]],
    padding: int,
    limit: int,
    report: Callable[[PyTree, Arr], None],
) -> tuple[Any, Any]:
    """The same for a batch, one instance after another: stacks, whose last `padding` entries are copies.

    Where the clock ends it, every instance has its first candidate, or none has.
    """
    found: list[tuple[Any, int]] = []
    for program, goal in instances[: len(instances) - padding]:
        one = iterate(clock, solver, program, goal, limit, lambda *_: None, begin=bool(found))
        if one[0] is None:
            return None, 0
        found.append(one)
    found += [found[-1]] * padding
    best, steps = jax.tree.map(lambda *leaves: np.stack(leaves), *found)
    report(best, steps)
    return best, steps


def _iterate(
    clock: Clock,
    solver: AbstractSolver,
    program: PyTree,
    goal: Goal,
    limit: int,
    report: Callable[[PyTree, Arr], None],
    begin: bool = False,
) -> tuple[PyTree, int]:
    best: PyTree = None
    steps = 0
    for attempt in range(solver.attempts):
        state: Any = None
        while not clock.expired() or (begin and best is None):
            with clock.held():  # an interrupt leaves the state of the last step
                if state is None:
                    state = solver.init(program, attempt, solver.blank(program) if best is None else best)
                else:
                    state, steps = solver.step(program, state), steps + 1
                best = state.best
                report(best, np.asarray(steps))
            if state is not None and (goal.met(best) or state.stalled or steps >= limit):
                break
        if clock.expired() or goal.met(best) or steps >= limit:
            break
    return best, steps


def _key(solver: AbstractSolver, program: PyTree) -> Hashable:
    leaves, structure = jax.tree.flatten((solver, program))
    return structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves)


def _spend(key: Hashable, seconds: float) -> None:
    with _LOCK:
        _SPENT[key] = _SPENT.get(key, 0.0) + seconds
        _SPENT.move_to_end(key)
        if len(_SPENT) > _MOST_KNOWN:
            _SPENT.popitem(last=False)
