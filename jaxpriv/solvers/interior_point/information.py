"""Whole solves of the least mutual information by a kernel in C, one or a batch: no compiling, no step in Python.

The kernel (`jaxpriv/_native/information.c`) takes the first start of `InteriorPoint` and its steps for programs whose
only term is a relative entropy in the objective, in float64. The modules beside this one define what it computes.
"""

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeGuard

import jax
import numpy as np

from jaxpriv import _arrays as xp
from jaxpriv import _native
from jaxpriv._lanes import count_of, has_lanes, spread, with_lanes
from jaxpriv._resources import processors
from jaxpriv._types import Arr
from jaxpriv.leakage.rule_sets import ENTROPIC, Role
from jaxpriv.program.convex import Program
from jaxpriv.solvers._base import AbstractSolver, Candidate, Goal
from jaxpriv.solvers.interior_point.method import InteriorPoint

# Budgets that the kernel has room for: MOST_BUDGETS of information.c.
MOST_BUDGETS = 14
# Problems of one call: threads that are done early find some left.
_PART = 8
# Fields of the solver, in the order of `Method` there.
_FIELDS = ("warm_steps", "correctors", "long_enough", "boundary", "neighbourhood", "score_change")


def has_kernel() -> bool:
    """Whether the kernel is there."""
    return _kernel() is not None


def _kernel() -> Callable[..., int] | None:
    return _native.on_host("jaxpriv_information")


def takes(solver: AbstractSolver, program: Program) -> TypeGuard[InteriorPoint]:
    """Whether the kernel solves a program of NumPy arrays, with or without lanes."""
    if type(solver) is not InteriorPoint or len(program.terms) != 1 or program.equal is not None or program.shares:
        return False
    (term,) = program.terms
    mine = term.rule_set == ENTROPIC and term.role is Role.OBJECTIVE and program.budgets.shape[0] <= MOST_BUDGETS
    return mine and term.rows.dtype == program.cost.dtype == np.float64 and has_kernel()


def solved(solver: InteriorPoint, program: Program, goal: Goal, limit: int) -> tuple[Candidate, np.ndarray]:
    """(best candidates, steps) from the first start of programs that the kernel `takes`, at most `limit` steps: plain
    arrays with a leading axis, of one program too.
    """
    (term,), kernel = program.terms, _kernel()
    assert kernel is not None  # `takes` asked
    count = count_of(*jax.tree.leaves((program, goal))) or 1
    (inputs, outputs), private, budgets = program.cost.shape, term.rows.shape[0], program.budgets.shape[0]
    bend = xp.log(xp.where(term.reference > 0, term.reference, 1.0))
    aims = np.stack([spread(part, count) for part in (goal.tol, goal.rtol, goal.shift)], axis=1)
    given = [_laid_out(part) for part in (
        term.rows, term.reference, bend if term.centre is None else bend + term.centre, program.mass, program.cost,
        program.constraints, program.budgets, program.support, program.feasible_point, with_lanes(aims),
    )]  # fmt: skip
    mechanism, k = np.empty((count, inputs, outputs)), np.empty((count, outputs, private))
    price, numbers = np.empty((count, budgets)), np.empty((count, 2))
    steps, sizes = np.empty(count, np.int32), np.array([private, inputs, outputs, budgets], np.dtype("l"))
    method = np.array([*(float(getattr(solver, name)) for name in _FIELDS), float(limit)])
    own = (
        ctypes.c_void_p(sizes.ctypes.data),
        ctypes.c_void_p(method.ctypes.data),
        _addresses([array for array, _ in given]),
        (ctypes.c_long * len(given))(*(apart for _, apart in given)),
        _addresses([mechanism, k, price, numbers]),
        ctypes.c_void_p(steps.ctypes.data),
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
    return Candidate(mechanism, numbers[:, 0], k, np.empty((count, outputs, 0)), price, numbers[:, 1]), steps


def _laid_out(part: Arr) -> tuple[np.ndarray, int]:
    """An array for the kernel, and how far apart the lanes are in it; 0: it is that of every lane."""
    if has_lanes(part):
        return np.ascontiguousarray(part.lanes, np.float64), part.size
    return np.ascontiguousarray(part, np.float64), 0


def _addresses(arrays: Sequence[np.ndarray]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
