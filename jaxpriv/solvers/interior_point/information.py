"""Whole solves of the least mutual information by a kernel in C, one or a batch: no step in Python or XLA.

The kernel (`jaxpriv/_native/information.c`) takes the starts of `InteriorPoint` and its steps for programs whose only
term is a relative entropy in the objective, in float64: on arrays of NumPy without compiling anything (`solved`), and
in compiled programs for the CPU as one operation (`in_trace`), which takes a fifth of the time to compile. The modules
beside this one define what it computes.
"""

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.backend import backends

from jaxpriv import _arrays as xp
from jaxpriv import _native
from jaxpriv._lanes import count_of, has_lanes, spread, with_lanes
from jaxpriv._resources import processors
from jaxpriv._types import Arr, ScalarLike
from jaxpriv.leakage.rule_sets import ENTROPIC, Role
from jaxpriv.program.convex import Program
from jaxpriv.solvers._base import AbstractSolver, Candidate, Goal, last_state
from jaxpriv.solvers.interior_point.method import InteriorPoint, InteriorState
from jaxpriv.solvers.interior_point.system import Point

# Budgets that the kernel has room for: MOST_BUDGETS of information.c.
MOST_BUDGETS = 14
# Problems of one call: threads that are done early find some left. PART of information.c.
_PART = 8
# Symbols of S, X and Y up to which compiled programs call it: one problem took less time on one thread than the loop
# did on two, at 40, 64 and 96.
_MOST_SYMBOLS = 96
# Fields of the solver, in the order of `Method` there.
_FIELDS = ("warm_steps", "correctors", "long_enough", "boundary", "neighbourhood", "score_change")
# Numbers of a result: value, bound, steps.
_NUMBERS = 3


def has_kernel() -> bool:
    """Whether the kernel is there."""
    return _kernel() is not None


def _kernel() -> Callable[..., int] | None:
    return _native.on_host("jaxpriv_information")


def takes(solver: AbstractSolver, program: Program) -> TypeGuard[InteriorPoint]:
    """Whether the kernel solves a program, with or without lanes."""
    if type(solver) is not InteriorPoint or len(program.terms) != 1 or program.equal is not None or program.shares:
        return False
    (term,) = program.terms
    mine = term.rule_set == ENTROPIC and term.role is Role.OBJECTIVE and program.budgets.shape[0] <= MOST_BUDGETS
    return mine and term.rows.dtype == program.cost.dtype == np.float64 and has_kernel()


def _given(program: Program) -> tuple[Arr, ...]:
    """The arrays of a program that the kernel reads, in its order."""
    (term,) = program.terms
    bend = xp.log(xp.where(term.reference > 0, term.reference, 1.0))
    return (
        term.rows, term.reference, bend if term.centre is None else bend + term.centre, program.mass, program.cost,
        program.constraints, program.budgets, program.support, program.feasible_point,
    )  # fmt: skip


class Ended(NamedTuple):
    """Where runs ended, plain arrays; of a batch with a leading axis."""

    best: Candidate
    steps: ScalarLike
    point: Any  # the last `Point` of the interior-point method, None of other solvers


def solved(solver: InteriorPoint, program: Program, goal: Goal, limit: int) -> tuple[Candidate, np.ndarray]:
    """(best candidates, steps) from the first start of programs of NumPy arrays that the kernel `takes`, at most
    `limit` steps: plain arrays with a leading axis, of one program too.
    """
    kernel = _kernel()
    assert kernel is not None  # `takes` asked
    count = count_of(*jax.tree.leaves((program, goal))) or 1
    aims = np.stack([spread(part, count) for part in (goal.tol, goal.rtol, goal.shift)], axis=1)
    choices = np.array([*(float(getattr(solver, name)) for name in _FIELDS), 1.0, float(limit)])
    given = [_laid_out(part) for part in (*_given(program), with_lanes(aims), choices)]
    found = [np.empty((count, *shape)) for shape in _shapes(program)]
    sizes = np.array(_sizes(program), np.dtype("l"))
    own = (
        ctypes.c_void_p(sizes.ctypes.data),
        _addresses([array for array, _ in given]),
        (ctypes.c_long * len(given))(*(apart for _, apart in given)),
        _addresses(found),
    )

    def part(begin: int) -> int:
        return kernel(ctypes.c_long(begin), ctypes.c_long(min(begin + _PART, count)), *own)

    threads = min(processors(), -(-count // _PART))
    if threads == 1:
        done = [part(begin) for begin in range(0, count, _PART)]
    else:
        with ThreadPoolExecutor(threads) as pool:
            done = list(pool.map(part, range(0, count, _PART)))
    if not all(done):
        raise MemoryError("no memory for a solve of mutual information")
    best, steps, _ = _ended(*found)
    return best, np.asarray(steps, np.int32)


def in_trace(solver: AbstractSolver, program: Program, goal: Goal, max_steps: ScalarLike) -> Ended:
    """`solvers.last_state` inside of a trace: one operation where the kernel takes the program.

    Larger programs and those of other devices than the CPU run the loop.
    """

    def loop(program: Program, goal: Goal, max_steps: Arr) -> Ended:
        state, steps = last_state(solver, program, goal, max_steps)
        return Ended(state.best, steps, state.point if isinstance(state, InteriorState) else None)

    if not takes(solver, program) or max(_sizes(program)[:3]) > _MOST_SYMBOLS:
        return loop(program, goal, jnp.asarray(max_steps))
    kernel = partial(_called, solver)
    arguments = program, goal, jnp.asarray(max_steps)
    # Where the CPU is the only platform of the process the loop is not traced, which takes a second.
    if list(backends()) == ["cpu"]:
        return kernel(*arguments)
    return lax.platform_dependent(*arguments, cpu=kernel, default=loop)


def _called(solver: InteriorPoint, program: Program, goal: Goal, max_steps: Arr) -> Ended:
    chosen = [float(getattr(solver, name)) for name in (*_FIELDS, "attempts")]
    aims = jnp.stack([jnp.asarray(part, np.float64) for part in (goal.tol, goal.rtol, goal.shift)])
    choices = jnp.append(jnp.asarray(chosen), max_steps.astype(np.float64))
    ended = _ended(*_native.call("jaxpriv_information_call", _shapes(program), *_given(program), aims, choices))
    return ended._replace(steps=jnp.asarray(ended.steps, max_steps.dtype))


def _sizes(program: Program) -> tuple[int, int, int, int]:
    """|S|, |X|, |Y| and the number of budgets."""
    inputs, outputs = program.cost.shape
    return program.terms[0].rows.shape[0], inputs, outputs, program.budgets.shape[0]


def _shapes(program: Program) -> tuple[tuple[int, ...], ...]:
    """The shapes of what the kernel finds: of the candidate, its numbers, and of the last point."""
    private, inputs, outputs, budgets = _sizes(program)
    of_point = (outputs, inputs), (outputs, inputs), (outputs, private), (inputs,), (budgets,), (budgets,)
    return (inputs, outputs), (outputs, private), (budgets,), (_NUMBERS,), *of_point


def _ended(
    mechanism: Arr, k: Arr, price: Arr, numbers: Arr, x: Arr, z: Arr, own: Arr, nu: Arr, last_price: Arr, slack: Arr
) -> Ended:
    value, bound, steps = (numbers[..., i] for i in range(_NUMBERS))
    none, zeros = xp.zeros((*k.shape[:-1], 0), like=k), xp.zeros((*k.shape[:-1], 1), like=k)
    point = Point(x, z, own, zeros, none, none, none, none, nu, last_price, slack, xp.zeros_like(value))
    return Ended(Candidate(mechanism, value, k, none, price, bound), steps, point)


def _laid_out(part: Arr) -> tuple[np.ndarray, int]:
    """An array for the kernel, and how far apart the lanes are in it; 0: it is that of every lane."""
    if has_lanes(part):
        return np.ascontiguousarray(part.lanes, np.float64), part.size
    return np.ascontiguousarray(part, np.float64), 0


def _addresses(arrays: Sequence[np.ndarray]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
