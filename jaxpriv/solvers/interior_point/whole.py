"""Whole solves by kernels in C, one or a batch: no step in Python or XLA.

Each computes the starts of `InteriorPoint` and its steps for programs of one kind, in float64: those whose only term is
a relative entropy, in the objective (`jaxpriv/_runtime/native/information.c`) or limited on average
(`limited_information.c`), and minimax programs whose only term is one of linear rows, the least worst outcome of a
measure of log-ratios (`least_ratios.c`), or a relative entropy, the least maximum information
(`worst_information.c`). That is on arrays of NumPy without compiling anything (`solved`), and in compiled programs for
the CPU as one operation (`in_trace`), which takes a fifth of the time to compile. The modules
beside this one define what they compute.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from jaxpriv._runtime import arrays as xp, native
from jaxpriv._runtime.compilation import own_settings, target_platform
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.leakage.rule_sets import ENTROPIC, LINEAR, Role, Term
from jaxpriv.program.convex import Candidate, Goal, Program
from jaxpriv.solvers._base import AbstractSolver, last_state
from jaxpriv.solvers._newton_system import inputs_are_cheaper
from jaxpriv.solvers.interior_point.method import InteriorPoint, InteriorState
from jaxpriv.solvers.interior_point.system import Point

# Budgets that the kernels have room for: MOST_BUDGETS of whole.h.
MOST_BUDGETS = 14
# Problems of one call: threads that are done early find some left. PART of whole.h.
_PART = 8
# Symbols of S, X and Y up to which compiled programs call them: one problem took less time on one thread than the loop
# did on two, at 40, 64 and 96.
_MOST_SYMBOLS = 96
# |Y| |X|^2 (|S| + |X|), proportional to the operations of a step here, from which on other systems are taken where they
# are cheaper: that of 170 symbols each, whose solves take about 2 s and cannot be interrupted.
_MOST_WORK = 2 * 170**4
# Fields of the solver, in the order of `Method` there.
_FIELDS = (
    "warm_steps", "correctors", "long_enough", "boundary", "neighbourhood", "dual_tolerance", "score_change",
    "attempts",
)  # fmt: skip
# Numbers of a result: value, bound, steps. Arrays that all kernels find: of the candidate, and of the last point.
_NUMBERS, _COMMON = 3, 10


class _Kernel(NamedTuple):
    """What a kernel takes of programs of one term."""

    symbol: str
    mine: Callable[[Program, Term], bool]
    of_term: Callable[[Term], tuple[Arr, ...]]  # what it is given of the term beside the rows
    # Shapes of what it finds beside the candidate and the common parts of the last point, for |S| and |Y|.
    more: Callable[[int, int], tuple[tuple[int, ...], ...]]


def _of_information(program: Program, term: Term) -> bool:
    del program
    return term.rule_set == ENTROPIC and term.role is Role.OBJECTIVE


def _centred(term: Term) -> tuple[Arr, ...]:
    return term.reference, xp.zeros_like(term.reference) if term.centre is None else term.centre


def _of_limited_information(program: Program, term: Term) -> bool:
    return term.rule_set == ENTROPIC and term.role is Role.AVERAGE and not program.minimax


def _bounded(term: Term) -> tuple[Arr, ...]:
    return *_centred(term), xp.stack([term.bound])


def _of_least_ratios(program: Program, term: Term) -> bool:
    linear = term.rule_set == LINEAR and term.role is Role.WORST and term.cap is None
    return linear and term.rate is not None and program.logarithmic


def _rates(term: Term) -> tuple[Arr, ...]:
    """(reference, rate of the rows (T, X), rate of the reference (T,)): of these one is zero."""
    rate = term.rate
    assert rate is not None  # `_of_least_ratios`
    if term.normalised:
        return term.reference, xp.zeros_like(term.rows), rate
    return term.reference, rate, xp.zeros_like(term.reference)


def _of_worst_information(program: Program, term: Term) -> bool:
    worst = term.rule_set == ENTROPIC and term.role is Role.WORST
    return worst and term.rate is not None and not program.logarithmic and program.budgets.shape[0] > 0


def _limited(term: Term) -> tuple[Arr, ...]:
    rate = term.rate
    assert rate is not None  # `_of_worst_information`
    return *_centred(term), term.offset, rate


# Of minimax programs the peak, one number; then s and t of linear rows, or the prices and slacks of the outputs.
_KERNELS = (
    _Kernel("jaxpriv_information_call", _of_information, _centred, lambda s, y: ()),
    _Kernel("jaxpriv_limited_information_call", _of_limited_information, _bounded, lambda s, y: ()),
    _Kernel("jaxpriv_least_ratios_call", _of_least_ratios, _rates, lambda s, y: ((1,), (y, s), (y,))),
    _Kernel("jaxpriv_worst_information_call", _of_worst_information, _limited, lambda s, y: ((1,), (y,), (y,), (y,))),
)


def has_kernels() -> bool:
    """Whether the kernels are there."""
    return native.frame() is not None


def _kernel_of(program: Program) -> _Kernel | None:
    if len(program.terms) != 1 or program.equal is not None or program.start is not None or program.shares:
        return None
    (term,) = program.terms
    if term.rows.dtype != np.float64 or program.cost.dtype != np.float64 or program.budgets.shape[0] > MOST_BUDGETS:
        return None
    return next((kernel for kernel in _KERNELS if kernel.mine(program, term)), None)


def takes(solver: AbstractSolver, program: Program) -> TypeGuard[InteriorPoint]:
    """Whether a kernel solves a program, with or without lanes.

    Kernels know systems of the inputs alone: with few rows and many inputs those of the rows take far less work.
    """
    private, inputs, outputs, _ = _sizes(program) if program.terms else (0, 0, 0, 0)
    wide = outputs * inputs**2 * (private + inputs) > _MOST_WORK and not inputs_are_cheaper(private, inputs)
    return type(solver) is InteriorPoint and not wide and _kernel_of(program) is not None and has_kernels()


def _asked(program: Program, aims: Arr, choices: Arr) -> tuple[Any, ...]:
    """(symbol of its kernel, shapes of what that finds, and the arrays that it reads in its order) of a program: what
    is found are the candidate, its numbers, and the last point.
    """
    (term,), kernel = program.terms, _kernel_of(program)
    assert kernel is not None  # `takes` asked
    private, inputs, outputs, budgets = _sizes(program)
    prices = budgets + term.priced
    of_candidate = (inputs, outputs), (outputs, private), (prices,), (_NUMBERS,)
    of_point = (outputs, inputs), (outputs, inputs), (outputs, private), (inputs,), (prices,), (prices,)
    return (
        kernel.symbol, (*of_candidate, *of_point, *kernel.more(private, outputs)),
        term.rows, program.mass, program.cost, program.constraints, program.budgets, program.support,
        program.feasible_point, aims, choices, *kernel.of_term(term),
    )  # fmt: skip


class Ended(NamedTuple):
    """Where runs ended, plain arrays; of a batch with a leading axis."""

    best: Candidate
    steps: ScalarLike
    point: Any  # the last `Point` of the interior-point method, None of other solvers


def solved(solver: InteriorPoint, program: Program, goal: Goal, limit: int) -> tuple[Candidate, np.ndarray]:
    """(best candidate, steps) from the starts of a program of NumPy arrays that a kernel `takes`, at most `limit`
    steps: plain arrays, with a leading axis where the program or the goal has lanes.
    """
    aims = xp.stack([goal.tol, goal.rtol, goal.shift])
    choices = np.array(_choices(solver, program, limit), np.float64)
    arrays = native.on_arrays(*_asked(program, aims, choices), lanes_of_call=_PART)
    return _candidate(program, arrays), arrays[3][..., 2].astype(np.int32)


def in_trace(solver: AbstractSolver, program: Program, goal: Goal, max_steps: ScalarLike) -> Ended:
    """`solvers.last_state` inside of a trace: one operation where a kernel takes the program.

    Larger programs, and any that is lowered for another platform than the CPU, run the loop.
    """

    def loop(program: Program, goal: Goal, max_steps: Arr) -> Ended:
        state, steps = last_state(solver, program, goal, max_steps)
        return Ended(solver.candidate(program, state), steps, state.point if isinstance(state, InteriorState) else None)

    if not takes(solver, program) or max(_sizes(program)[:3]) > _MOST_SYMBOLS:
        return loop(program, goal, jnp.asarray(max_steps))
    leaves, structure = jax.tree.flatten((program, goal, jnp.asarray(max_steps)))
    shapes = jax.eval_shape(partial(_called, solver), *jax.tree.unflatten(structure, leaves))

    def flat(function: Callable[..., Ended]) -> Callable[..., list[Arr]]:
        def of_leaves(*arrays: Arr) -> list[Arr]:
            with own_settings():  # a program may be lowered after the caller's have been put back
                return jax.tree.leaves(function(*jax.tree.unflatten(structure, arrays)))

        return of_leaves

    ended = _by_platform.bind(*leaves, kernel=flat(partial(_called, solver)), loop=flat(loop))
    return jax.tree.unflatten(jax.tree.structure(shapes), ended)


# `lax.platform_dependent(*arrays, cpu=kernel, default=loop)`, but the loop is traced where a program is lowered for
# another platform, and not always: that takes a second.
_by_platform = Primitive("jaxpriv_by_platform")
_by_platform.multiple_results = True


@_by_platform.def_impl
def _(*arrays: Arr, kernel: Callable[..., list[Arr]], loop: Callable[..., list[Arr]]) -> list[Arr]:
    return (kernel if target_platform() == "cpu" else loop)(*arrays)


@_by_platform.def_abstract_eval
def _(*arrays: ShapedArray, kernel: Callable[..., list[Arr]], loop: Callable[..., list[Arr]]) -> list[ShapedArray]:
    del loop
    return [ShapedArray(result.shape, result.dtype) for result in jax.eval_shape(kernel, *arrays)]


def _of_batch(
    arrays: Sequence[Arr],
    axes: Sequence[int | None],
    *,
    kernel: Callable[..., list[Arr]],
    loop: Callable[..., list[Arr]],
) -> tuple[list[Arr], list[int]]:
    results = _by_platform.bind(*arrays, kernel=jax.vmap(kernel, in_axes=axes), loop=jax.vmap(loop, in_axes=axes))
    return results, [0] * len(results)


batching.primitive_batchers[_by_platform] = _of_batch
mlir.register_lowering(_by_platform, mlir.lower_fun(lambda *arrays, kernel, loop: kernel(*arrays)), platform="cpu")
mlir.register_lowering(_by_platform, mlir.lower_fun(lambda *arrays, kernel, loop: loop(*arrays)))


def _called(solver: InteriorPoint, program: Program, goal: Goal, max_steps: Arr) -> Ended:
    aims = jnp.stack([jnp.asarray(part, np.float64) for part in (goal.tol, goal.rtol, goal.shift)])
    choices = jnp.stack([jnp.asarray(part, np.float64) for part in _choices(solver, program, max_steps)])
    arrays = native.call(*_asked(program, aims, choices))
    return Ended(_candidate(program, arrays), arrays[3][..., 2].astype(max_steps.dtype), _point(program, *arrays[4:]))


def _choices(solver: InteriorPoint, program: Program, limit: ScalarLike) -> list[ScalarLike]:
    """The numbers of `Method` in whole.h."""
    return [*(getattr(solver, name) for name in _FIELDS), limit, program.terms[0].normalised]


def _sizes(program: Program) -> tuple[int, int, int, int]:
    """|S|, |X|, |Y| and the number of budgets."""
    inputs, outputs = program.cost.shape
    return program.terms[0].rows.shape[0], inputs, outputs, program.budgets.shape[0]


def _candidate(program: Program, arrays: Sequence[Arr]) -> Candidate:
    mechanism, k, price, numbers = arrays[:4]
    limits = program.terms[0].smooth and len(arrays) > _COMMON + 1
    eta = arrays[_COMMON + 1][..., None] if limits else k[..., :0]
    return Candidate(mechanism, numbers[..., 0], k, eta, price, numbers[..., 1])


def _point(program: Program, x: Arr, z: Arr, k: Arr, nu: Arr, price: Arr, slack: Arr, *more: Arr) -> Point:
    none, zeros, zero = k[..., :0], jnp.zeros_like(k[..., :1]), jnp.zeros_like(nu[..., 0])
    point = Point(x, z, k, zeros, none, none, none, none, nu, price, slack, zero)
    if more:
        point = point._replace(peak=more[0][..., 0])
    if not program.terms[0].smooth:
        s, t = more[1:]
        point = point._replace(s=s, v=jnp.zeros_like(s), t=t[..., None])
    elif more:
        eta, sigma = (part[..., None] for part in more[2:])
        point = point._replace(eta=eta, sigma=sigma)
    return point
