"""Minimise a convex function of probability vectors, with a bound that says how far from the optimum the result is.

    min f(x)   over x whose rows are probability vectors,   <a_k, x> <= b_k,   f convex and differentiable.

The method is mirror descent in the entropy geometry with acceleration (ABPG of Hanzely, Richtarik and Xiao, 2021,
adaptive gain). With z the mirror sequence, x its weighted average, 0 < theta <= 1 and a gain G,

    y  = (1 - theta) x + theta z
    z+ = argmin <f'(y), z> + G theta sum_rows KL(z || z_old)   within the constraints
    x+ = (1 - theta) x + theta z+

as long as G passes  f(x+) <= f(y) + <f'(y), x+ - y> + G theta^2 KL(z+ || z_old),  which every G above the constant of
relative smoothness does in the limit of small steps. A step that fails is repeated with a larger G. The constraints are
met inside of the mirror step by their prices, the maximisers of a concave dual (`solvers._base.meet_budgets`).

The bound is weak duality. A convex function is above its tangents, and above a convex combination of them:

    f(x) >= c + <g, x>,   c = sum_t a_t (f(y_t) - <f'(y_t), y_t>),   g = sum_t a_t f'(y_t),   a_t >= 0, sum_t a_t = 1,

so that for all prices l >= 0 the optimum is at least  c + sum_rows min_i (g + sum_k l_k a_k)_i - <l, b>.  Of the last
tangent alone this is the Frank-Wolfe gap. Both are computed at every step, and the better one is kept. Neither depends
on how x was found.

The averages x and (c, g) forget their first terms slowly. Whenever the gap has become a fixed share of what it was, the
method therefore starts anew from x; where the optimum is sharp this makes convergence linear (measured, not proved).

Derivatives: those of the optimal value by the envelope theorem, those of x by the implicit function theorem.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import PyTree

from jaxpriv._runtime import arrays
from jaxpriv._runtime.clock import ProgressLike, clock_of
from jaxpriv._runtime.importing import names_of
from jaxpriv._runtime.module import Module, Shown, summary
from jaxpriv._runtime.module.shown import nearest, numbers, tally, width
from jaxpriv._runtime.types import Arr, ArrayInput, BoolLike, Result, ScalarLike
from jaxpriv._runtime.validation import finite, is_traced, nonnegative, real_array, scalar, sum_tolerance, whole
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.program.convex import ROUNDING, Goal
from jaxpriv.program.solution import DOUBLE_TOLERANCE, SINGLE_TOLERANCE, Status, status_of
from jaxpriv.solvers._base import meet_budgets, normalised
from jaxpriv.verifier.logarithms import lower

__all__ = ["Minimum", "minimise"]
__dir__ = names_of(__name__)

# Choices that change the number of steps only. A step that passes divides the gain by the first, one that fails
# multiplies it by the second (over ten problems these needed the fewest steps). Where so many fail before any passes,
# the first gain had nothing to do with f, as where its slope vanishes at the start, and the factor is the third one.
# After the most failures in a row rounding decides. No gain is below this share of the first one.
_DOWN, _UP, _FAILURES, _FAR_UP, _MOST_REFUSED, _LEAST_GAIN = 1.05, 1.5, 12, 10.0, 60, 1e-6
# The share of the gap at which the method starts anew (between .03 and .3 the steps differ by a third).
_SHARE = 0.1
# The share of the uniform distribution in the start: a probability of zero would never grow. No logarithm falls below
# the least one, that of a number which float32 holds.
_MIXED, _LEAST_LOG = 1e-3, float(np.log(1e-30))
# Evaluations of one softmax within which a mirror step has to meet the constraints. A step that needs more is repeated
# from the prices that were reached.
_EVALUATIONS = 12
# Units of rounding: what a constraint may be exceeded by, relative to its size (twice what `meet_budgets` asks for);
# what sums in a bound may be off by; and what an update of an average adds to that.
_EXCESS, _ROUNDINGS, _AVERAGED = 128.0, 16.0, 3.0
# What f lies below a tangent by is no rounding if it is above the goal, and above so many roots of the unit of rounding
# times the largest sums so far: in float32 this is four times what products of three digits lose.
_BELOW = 8.0
# Steps from one report of progress to the next.
_PORTION = 100
# The largest linear system that is solved for the derivative of x: a matrix of 32 MB in float64.
_LARGEST_SYSTEM = 2000


class Minimum(Module, Shown):
    """The result of `minimise`; under `vmap` every field has an axis more.

    Attributes:
        x: the best point, in the form of `init`; NaN where none was found that meets the constraints.
        value: f(x), infinite where there is no x.
        lower_bound: no feasible point has a value below it, if f is convex; infinite where no point is feasible.
        prices: of the constraints, shape (K,), those of the bound: minus the slope of the optimal value in b.
        code: a `jaxpriv.Status` as an integer, so that it batches.
        steps: evaluations of f at two points, with gradients.
    """

    x: PyTree
    value: Result
    lower_bound: Result
    prices: Result
    code: Result
    steps: Result

    __repr__ = summary

    @property
    def gap(self) -> Arr:
        """value - lower_bound: what another point can be better by at most (a negative gap is rounding)."""
        return self.value - jnp.where(jnp.isfinite(self.value), self.lower_bound, 0.0)

    @property
    def status(self) -> PyTree:
        """`optimal`, `not_certified` or `infeasible`; of a batch an array of them."""
        return status_of(self.code)

    def _shown(self) -> dict[str, str]:
        return {
            "status": numbers(self.code) if is_traced(self.code) else tally(self.status),
            "value": numbers(self.value),
            "lower bound": numbers(self.lower_bound, lower),
            "gap": numbers(self.gap, width),
            "prices": numbers(self.prices),
            "steps": numbers(self.steps, nearest),
        }


def minimise(
    f: Callable[..., ScalarLike],
    init: PyTree,
    *,
    args: tuple[PyTree, ...] = (),
    constraints: tuple[PyTree, ArrayInput] | None = None,
    tol: ScalarLike | None = None,
    rtol: ScalarLike | None = None,
    max_steps: int = 10_000,
    progress: ProgressLike = None,
) -> Minimum:
    """Minimise `f(x, *args)` over probability vectors x, with a lower bound on the optimum.

    x is an array whose last axis holds probability vectors (one of shape (n,), a conditional distribution of shape
    (m, n), ...), or a pytree of such arrays. The problem is

        min f(x, *args)   subject to   x >= 0,  x.sum(-1) = 1,  <a_k, x> <= b_k  for k = 1 ... K.

    f must be differentiable by JAX and CONVEX in x. The bound is valid for convex f only. Of both points of every step
    it is tested whether f is above its tangent at the other one: where it is below, by more than the tolerance and by
    more than what sums of its size lose, f is not convex, its gradient is wrong, or it is a difference of numbers whose
    rounding exceeds the tolerance. That is an error outside of `jit`; inside of it the status is `not_certified` and
    `lower_bound` is -inf. What is not convex elsewhere stays unseen: the result is then a point where the method came
    to rest, and `lower_bound`, `gap` and `status` mean nothing. f may have infinite slopes at probabilities of zero
    (entropies): it is evaluated at positive ones, of at least 1e-30.

    A step costs two gradients of f. Problems whose optimum is sharp take some tens to hundreds of steps to the default
    tolerance; flat ones, such as weights of components that hardly differ, thousands (the gap falls like 1/steps^2).

    Works inside and outside of `jit` and `vmap`. A derivative with respect to `args`, `constraints` and whatever else f
    uses is that of the optimum, not of the steps. `value` and `lower_bound` have the slope of the Lagrangian f(x) +
    <prices, <a, x> - b> at fixed x and prices (envelope theorem), with an error of the order of the distance to the
    optimum. Those of `x` and `prices` solve the linearised optimality conditions (implicit function theorem): one
    linear system with an unknown for every probability, every row and every constraint, made of as many products with
    the Hessian of f. They exist where the optimum is unique and no probability vanishes together with its reduced
    slope, and no price together with its slack; use a tolerance of 1e-9 rather than 1e-6. They are NaN where the system
    is singular to rounding, and where it has more than 2,000 unknowns: solving it would take longer than the
    minimisation. `init` has no influence on the optimum: its derivative is zero.

    Args:
        f: a function of x and `args` that returns one real number.
        init: where to begin, in the form of x; it need not meet the constraints, and probabilities of zero in it do not
            stay zero. Float32 arrays are computed with in float32.
        args: further arguments of f.
        constraints: (a, b): a in the form of x with an axis of length K in front of every array, b of shape (K,).
            They are met to rounding: to 128 units of it, relative to |b_k| + sum over rows of max |a_k|.
        tol, rtol: the gap that counts as optimal, at most `tol` or at most `rtol` times |value|. Without both they are
            1e-6, in float32 1e-4; without one, that one is 0.
        max_steps: steps after which the best point so far is returned.
        progress: outside of `jit`, True (lines on stderr) or a function of a `jaxpriv.Progress`, such as a
            `jaxpriv.History`.

    Returns:
        A `Minimum`. Its status is `not_certified` where the gap is above the tolerance, or negative by more than
        rounding (high prices make that of a constraint which is met to rounding). The bound allows for the
        rounding of its own sums, and not for that of f (on accelerators products of float32 matrices are rounded to
        three digits, unless `jax.default_matmul_precision` says otherwise).

    Raises:
        InputError: an argument is wrong, by name and position (`init[0, 2] is negative`); outside of `jit`, f or its
            gradient is not finite near `init`, or f is below a tangent.
        InfeasibleError: outside of `jit`, no x meets the constraints; `proof` holds prices that show it.
    """
    clock = clock_of(None, progress)
    max_steps = whole(max_steps, "max_steps", low=1)
    problem, start = _checked(f, init, args, constraints)
    if tol is None and rtol is None:
        tol = rtol = SINGLE_TOLERANCE if start.dtype == np.float32 else DOUBLE_TOLERANCE
    tolerances = {"tol": 0.0 if tol is None else tol, "rtol": 0.0 if rtol is None else rtol}
    goal = Goal(
        *(jnp.asarray(scalar(size, name, low=0.0), start.dtype) for name, size in tolerances.items()),
        shift=jnp.zeros((), start.dtype),
    )
    portion = (clock.every or _PORTION) if clock.watched else max_steps
    # The loop is not differentiated: only what stands at its end is.
    constant, until = _constant(problem), 0
    with jax.numpy_rank_promotion("allow"):
        state = _begun(constant, lax.stop_gradient(start))
        while not until or (clock.watched and until < max_steps and _goes_on(goal, state)):
            until = min(max_steps, until + portion)
            state = _advanced(constant, goal, state, jnp.asarray(until))
            if clock.watched:
                if is_traced(state):
                    raise InputError("progress is for calls outside of jit and vmap")
                clock.report("simplex", state.steps, state.value, state.bound)
        if not is_traced(state):
            _refuse(state, problem.b)
        return _minimum(problem, goal, state)


# ------------------------------------------------------------------------------------------------ the problem


class _Shapes(NamedTuple):
    """How a pytree of arrays is one matrix: the rows of all arrays below one another, the shorter ones filled up."""

    tree: Any
    shapes: tuple[tuple[int, ...], ...]

    @property
    def width(self) -> int:
        return max(shape[-1] for shape in self.shapes)

    @property
    def mask(self) -> np.ndarray:
        """Which entries of the matrix are entries of an array."""
        lengths = np.concatenate([np.full(int(np.prod(shape[:-1])), shape[-1]) for shape in self.shapes])
        return np.arange(self.width) < lengths[:, None]

    def logs(self, x: Arr) -> Arr:
        """ln x, -inf where the matrix is filled up."""
        return jnp.where(self.mask, jnp.log(jnp.where(self.mask, x, 1.0)), -jnp.inf)

    def packed(self, leaves: Sequence[Arr], lead: tuple[int, ...] = ()) -> Arr:
        """The matrix of a tree's leaves, zero where it is filled up; a stack of matrices for axes in front."""
        xp, room = arrays.of(*leaves), [(0, 0)] * (len(lead) + 1)
        rows = [leaf.reshape(*lead, -1, leaf.shape[-1]) for leaf in leaves]
        return xp.concatenate(
            [xp.pad(block, [*room, (0, self.width - block.shape[-1])]) for block in rows], axis=len(lead)
        )

    def unpacked(self, matrix: Arr) -> PyTree:
        counts = [int(np.prod(shape[:-1])) for shape in self.shapes]
        parts = jnp.split(matrix, np.cumsum(counts)[:-1].tolist())
        leaves = [part[:, : shape[-1]].reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return jax.tree.unflatten(self.tree, leaves)


class _Convex(Module):
    """The problem for one matrix x (R, n)."""

    f: Any
    args: tuple[PyTree, ...]
    a: Arr  # (K, R, n)
    b: Arr  # (K,)
    rows: _Shapes = eqx.field(static=True)

    def value(self, x: Arr) -> Arr:
        result = self.f(self.rows.unpacked(x), *self.args)
        if getattr(result, "shape", None) != () or not jnp.issubdtype(result.dtype, jnp.floating):
            raise InputError("f must return one real number, an array of shape ()")
        return jnp.asarray(result, x.dtype)

    def closed(self, x: Arr) -> "_Convex":
        """The same with what f uses beside its arguments as a part of it, so that derivatives reach it."""
        f = eqx.filter_closure_convert(self.f, self.rows.unpacked(x), *self.args)
        return eqx.tree_at(lambda owner: owner.f, self, f, is_leaf=lambda leaf: leaf is self.f)

    def used(self, x: Arr) -> Arr:
        """<a_k, x>, (K,)."""
        return (self.a * x).sum((1, 2))

    def tilt(self, prices: Arr) -> Arr:
        """sum_k l_k a_k, (R, n), without the products of lower precision that accelerators have."""
        return (prices[:, None, None] * self.a).sum(0)

    def met(self, x: Arr) -> BoolLike:
        size = abs(self.b) + abs(self.a).max(2).sum(1)
        return (self.used(x) - self.b <= _EXCESS * jnp.finfo(x.dtype).eps * size).all()

    def bound(self, cut: "_Cut", roundings: ScalarLike) -> Arr:
        """The least value of the cut within the constraints, less what so many units of rounding may make of it."""
        unit = roundings * jnp.finfo(self.b.dtype).eps
        costs = cut.slope + self.tilt(cut.prices)
        sizes = cut.slope_size + (cut.prices[:, None, None] * abs(self.a)).sum(0)
        least = jnp.where(self.rows.mask, costs - unit * sizes, jnp.inf).min(1).sum()
        spent = cut.prices * self.b
        return cut.constant - unit * cut.constant_size + least - (spent + unit * abs(spent)).sum()

    def out_of_reach(self) -> tuple[Arr, Arr]:
        """What the least value of each <a_k, x> alone exceeds b_k by, less the rounding of the sums: the largest, and
        the prices (K,) of that constraint. One that cannot hold by itself is proved so without a step.
        """
        if not len(self.b):
            return jnp.zeros((), self.b.dtype), self.b
        unit = _ROUNDINGS * jnp.finfo(self.b.dtype).eps
        least = jnp.where(self.rows.mask, self.a - unit * abs(self.a), jnp.inf).min(2).sum(1)
        excess = least - self.b - unit * abs(self.b)
        worst = jnp.argmax(excess)
        return excess[worst], jnp.zeros_like(self.b).at[worst].set(1.0)


class _Cut(NamedTuple):
    """An affine function c + <g, x> below f, prices, and the sizes of what c and g are sums of."""

    constant: Arr
    slope: Arr  # (R, n)
    prices: Arr  # (K,)
    constant_size: Arr
    slope_size: Arr  # (R, n)

    @classmethod
    def tangent(cls, value: Arr, slope: Arr, x: Arr, prices: Arr) -> "_Cut":
        moved = slope * x
        return cls(value - moved.sum(), slope, prices, abs(value) + abs(moved).sum(), abs(slope))


def _constant(problem: _Convex) -> _Convex:
    """The problem without derivatives."""
    return eqx.combine(lax.stop_gradient(eqx.filter(problem, eqx.is_inexact_array)), problem)


def _checked(f: Callable, init: PyTree, args: PyTree, constraints: PyTree) -> tuple[_Convex, Arr]:
    """The problem and the start as a matrix; InputError where an argument is wrong."""
    if not callable(f):
        raise InputError(f"f must be a function of x, not {type(f).__name__}")
    if not isinstance(args, tuple):
        raise InputError(f"args must be a tuple, not {type(args).__name__}")
    # Lists of numbers are arrays, not trees of numbers.
    init = _listed(init, "init")
    named, tree = jax.tree_util.tree_flatten_with_path(init)
    if not named:
        raise InputError("init holds no array")
    for path, leaf in named:
        name = "init" + jax.tree_util.keystr(path)
        if not np.ndim(leaf):
            raise InputError(f"{name} is a number; an array of probabilities along its last axis is needed")
        array = nonnegative(real_array(leaf, name, ndim=np.ndim(leaf)), name)
        if not is_traced(array):
            off = ~(abs(array.sum(-1) - 1) <= sum_tolerance(leaf))
            if off.any():
                place = [int(i) for i in np.argwhere(off)[0]]
                raise InputError(f"{name}{place if place else ''} does not sum to 1 along its last axis")
    kinds = (jnp.result_type(leaf) for _, leaf in named)
    usual = jnp.result_type(float)  # of whole numbers
    dtype = np.result_type(np.float32, *(kind if jnp.issubdtype(kind, jnp.floating) else usual for kind in kinds))
    # What is given on the host stays there: each operation on it would be compiled for its shape.
    leaves = [arrays.of(leaf).asarray(leaf, dtype) for _, leaf in named]
    rows = _Shapes(tree, tuple(leaf.shape for leaf in leaves))
    start = rows.packed(leaves)
    if constraints is None:
        a, b = np.zeros((0, *start.shape), dtype), np.zeros(0, dtype)
    else:
        a, b = _constraints(constraints, rows, dtype)
    args = jax.tree.map(lambda leaf: jnp.asarray(leaf) if eqx.is_array_like(leaf) else leaf, args)
    problem = _Convex(f, args, a, b, rows)
    return problem, start / start.sum(1, keepdims=True)


def _listed(value: PyTree, name: str) -> PyTree:
    """The array of a list of numbers; anything else as it is."""
    if not isinstance(value, list) or is_traced(value):
        return value
    return real_array(value, name, ndim=tuple(range(1, 32)))


def _constraints(constraints: PyTree, rows: _Shapes, dtype: np.dtype) -> tuple[Arr, Arr]:
    if not (isinstance(constraints, tuple) and len(constraints) == 2):
        raise InputError("constraints must be a pair (a, b)")
    a, b = constraints
    b = finite(real_array(b, "constraints[1]", ndim=1), "constraints[1]")
    named, tree = jax.tree_util.tree_flatten_with_path(_listed(a, "constraints[0]"))
    if tree != rows.tree:
        raise InputError("constraints[0] must be a tree of the form of init")
    leaves = []
    for (path, leaf), shape in zip(named, rows.shapes, strict=True):
        name = "constraints[0]" + jax.tree_util.keystr(path)
        wanted = (len(b), *shape)
        if np.shape(leaf) != wanted:
            raise InputError(f"{name} has shape {np.shape(leaf)}, not {wanted}: one array like init for each of b")
        leaves.append(finite(real_array(leaf, name, ndim=len(wanted)), name).astype(dtype))
    return rows.packed(leaves, (len(b),)), b.astype(dtype)


def _refuse(state: "_Descent", b: Arr) -> None:
    """The errors of a call outside of `jit`."""
    if state.infeasible:
        prices = np.asarray(state.prices, float)
        names = " and ".join(f"constraints[1][{k}]" for k in np.flatnonzero(prices > 0))
        proof = {"multipliers": prices, "allowed": float(prices @ np.asarray(b)), "bound": float(state.excess)}
        proof["bound"] += proof["allowed"]
        raise InfeasibleError(f"no x meets the constraints: {names} cannot hold", proof)
    if state.below:
        raise InputError("f is below a tangent: it is not convex, its gradient is wrong, or its rounding is above tol")
    if state.value == np.inf and state.bound == -np.inf:
        raise InputError("f or its gradient is not finite near init")


# ------------------------------------------------------------------------------------------------ the method


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class _Descent:
    """The state of the method, and the best so far of everything."""

    logs: Arr  # (R, n): ln z
    x: Arr  # (R, n)
    control: Arr  # G theta^2 of the last step, infinite at a start
    gain: Arr
    least_gain: Arr
    cut: _Cut  # the average of the tangents since the last start
    weight: Arr  # the sum of their weights
    roundings: Arr  # of the averages, in units of rounding
    restart_gap: Arr  # the gap at the last start
    multipliers: Arr  # (K,): the prices of the last mirror step
    refused: Arr  # steps in a row that failed
    steps: Arr
    point: Arr  # (R, n): the best point
    value: Arr
    bound: Arr
    prices: Arr  # (K,): of the bound; where nothing is feasible, of the proof of that
    excess: Arr  # what constraints that contradict each other are exceeded by at least, at these prices
    infeasible: Arr
    size: Arr  # the largest sums of a tangent so far
    below: Arr  # whether a tangent was above f

    @property
    def gap(self) -> Arr:
        return self.value - self.bound


@eqx.filter_jit
def _begun(problem: _Convex, init: Arr) -> _Descent:
    mask, zero, none = problem.rows.mask, jnp.zeros((), init.dtype), jnp.zeros((), jnp.int32)
    uniform = mask / mask.sum(1, keepdims=True)
    x = init + _MIXED * (jnp.asarray(uniform, init.dtype) - init)
    slope = jax.grad(_constant(problem.closed(x)).value)(x)
    # At this gain the first step changes no ratio of two probabilities by more than the factor e.
    spread = jnp.where(mask, slope, -jnp.inf).max(1) - jnp.where(mask, slope, jnp.inf).min(1)
    gain = jnp.where((spread.max() > 0.0) & jnp.isfinite(spread.max()), spread.max(), 1.0)
    free = jnp.zeros_like(problem.b)
    excess, prices = problem.out_of_reach()
    infeasible = excess > 0.0
    return _Descent(
        logs=problem.rows.logs(x),
        x=x,
        control=zero + jnp.inf,
        gain=gain,
        least_gain=_LEAST_GAIN * gain,
        cut=_Cut(zero, 0.0 * x, free, zero, 0.0 * x),
        weight=zero,
        roundings=zero,
        restart_gap=zero + jnp.inf,
        multipliers=free,
        refused=none,
        steps=none,
        point=jnp.full_like(x, jnp.nan),
        value=zero + jnp.inf,
        bound=jnp.where(infeasible, jnp.inf, -jnp.inf),
        prices=jnp.where(infeasible, prices, free),
        excess=excess,
        infeasible=infeasible,
        size=zero,
        below=jnp.array(False),
    )


def _goes_on(goal: Goal, state: _Descent) -> Arr:
    return ~goal.met(state) & ~state.infeasible & ~state.below & (state.refused < _MOST_REFUSED)


@eqx.filter_jit
def _advanced(problem: _Convex, goal: Goal, state: _Descent, until: Arr) -> _Descent:
    """The state after `until` steps in all, or at the goal."""
    problem = _constant(problem.closed(state.x))
    return lax.while_loop(
        lambda state: _goes_on(goal, state) & (state.steps < until), lambda state: _step(problem, goal, state), state
    )


def _step(problem: _Convex, goal: Goal, state: _Descent) -> _Descent:
    """One attempt at a step. An attempt that fails leaves the point as it is, so that no loop stands within a loop."""
    mask, eps = problem.rows.mask, jnp.finfo(state.x.dtype).eps
    at = jax.value_and_grad(problem.value)
    gain = state.gain
    theta = 2.0 / (1.0 + jnp.sqrt(1.0 + 4.0 * gain / state.control))
    y = (1.0 - theta) * state.x + theta * jnp.where(mask, jnp.exp(state.logs), 0.0)
    value_y, slope_y = at(y)

    # The mirror step.
    length = 1.0 / (theta * gain)
    reduced = slope_y - jnp.where(mask, slope_y, jnp.inf).min(1, keepdims=True)  # a long step keeps the digits of logs
    base, multipliers = state.logs - length * reduced, state.multipliers
    if len(problem.b):
        # In units of the step the dual has the same size whatever the gain is.
        unit = jnp.ones_like(y[:, :1])
        base, _, tilted = meet_budgets(problem.a, problem.b, base, unit, length * multipliers, _EVALUATIONS)
        multipliers = tilted / length
    else:
        base = normalised(base)[0]
    logs = jnp.where(mask, jnp.maximum(base, _LEAST_LOG), -jnp.inf)
    logs, z = normalised(logs)
    x = (1.0 - theta) * state.x + theta * z
    x = x / x.sum(1, keepdims=True)  # roundings of the average do not add up

    # The test. In the rounding of f the rise is that of a quadratic function, half of the change of the slope along the
    # step; a convex function rises by no more than all of it.
    value, slope = at(x)
    step = x - y
    turn = ((slope - slope_y) * step).sum()
    rise = value - value_y - (slope_y * step).sum()
    lowest = jnp.minimum(rise, turn - rise)  # of f above its tangents at y and at x
    rounding = _ROUNDINGS * eps * (abs(value) + abs(value_y) + abs(slope_y * step).sum())
    rise = jnp.where(abs(rise) > rounding, jnp.minimum(rise, turn), 0.5 * turn)
    back = jnp.where(mask, state.logs - logs, 0.0)
    divergence = (z * (jnp.expm1(back) - back)).sum()  # KL(z || z_old) as a sum of terms none of which is negative
    numbers = (value_y, slope_y, value, slope)
    sound = jnp.stack([jnp.isfinite(array).all() for array in numbers]).all()
    passed = problem.met(z) & sound & (rise <= gain * theta**2 * divergence)

    # Bounds, and proofs that nothing is feasible: of the zero function the least value within the constraints is zero.
    weight = state.weight + length
    share = length / weight
    tangent, last = _Cut.tangent(value_y, slope_y, y, multipliers), _Cut.tangent(value, slope, x, multipliers)
    sizes = jnp.stack([state.size, tangent.constant_size, last.constant_size])
    size = jnp.where(sound, sizes.max(), state.size)
    allowed = jnp.maximum(jnp.maximum(goal.tol, goal.rtol * abs(value)), _BELOW * jnp.sqrt(eps) * size)
    cut = jax.tree.map(lambda old, new: jnp.where(share < 1.0, old + share * (new - old), new), state.cut, tangent)
    roundings = (1.0 - share) * state.roundings + _AVERAGED
    state = _bounded(problem, state, last, _ROUNDINGS)
    state = _bounded(problem, state, cut, _ROUNDINGS + roundings)
    nothing = _Cut(*jax.tree.map(jnp.zeros_like, state.cut))._replace(prices=multipliers)
    excess = problem.bound(nothing, _ROUNDINGS)
    infeasible = (excess > 0.0) & jnp.isfinite(excess)

    better = problem.met(x) & jnp.isfinite(value) & (value < state.value)
    best = jnp.where(better, value, state.value)
    gap = best - state.bound
    again = (gap <= _SHARE * state.restart_gap) | ((slope_y * (x - state.x)).sum() > 0.0)
    before = {name: getattr(state, name) for name in ("x", "logs", "control", "cut", "weight", "roundings")}
    moved = {
        "x": x,
        "logs": jnp.where(again, problem.rows.logs(x), logs),
        "control": jnp.where(again, jnp.inf, gain * theta**2),
        "cut": cut,
        "weight": jnp.where(again, 0.0, weight),
        "roundings": roundings,
    }
    chosen = jax.tree.map(lambda new, old: jnp.where(passed, new, old), moved, before)
    first_gain_is_far_off = (state.refused >= _FAILURES) & (state.roundings == 0.0)  # no step has passed
    higher = jnp.where(first_gain_is_far_off, _FAR_UP, _UP) * gain
    return _Descent(
        **chosen,
        gain=jnp.where(passed, jnp.maximum(gain / _DOWN, state.least_gain), higher),
        least_gain=state.least_gain,
        restart_gap=jnp.where(passed & again, gap, state.restart_gap),
        multipliers=jnp.where(jnp.isfinite(multipliers), multipliers, 0.0),
        refused=jnp.where(passed, 0, state.refused + 1),
        steps=state.steps + 1,
        point=jnp.where(better, x, state.point),
        value=jnp.where(infeasible, jnp.inf, best),
        bound=jnp.where(infeasible, jnp.inf, state.bound),
        prices=jnp.where(infeasible, multipliers, state.prices),
        excess=excess,
        infeasible=infeasible,
        size=size,
        below=state.below | (sound & (lowest < -allowed)),
    )


def _bounded(problem: _Convex, state: _Descent, cut: _Cut, roundings: ScalarLike) -> _Descent:
    """With the bound of this cut, if it is better. One that is not finite is not: comparisons with NaN are false."""
    bound = problem.bound(cut, roundings)
    better = (bound > state.bound) & (bound < jnp.inf)
    return eqx.tree_at(
        lambda state: (state.bound, state.prices),
        state,
        (jnp.where(better, bound, state.bound), jnp.where(better, cut.prices, state.prices)),
    )


# ------------------------------------------------------------------------------------------------ derivatives


@eqx.filter_jit
def _minimum(problem: _Convex, goal: Goal, state: _Descent) -> Minimum:
    """The result, which moves with the problem as the optimum does."""
    optimum = _Optimum(state.point, state.value, jnp.where(state.below, -jnp.inf, state.bound), state.prices)
    optimum = _optimum(problem.closed(state.x), optimum)
    certified = goal.met(state) & ~state.below & (state.gap >= -ROUNDING[state.x.dtype] * (1.0 + abs(state.value)))
    code = jnp.where(certified, np.int32(Status.OPTIMAL), np.int32(Status.NOT_CERTIFIED))
    return Minimum(
        x=problem.rows.unpacked(optimum.x),
        value=optimum.value,
        lower_bound=optimum.bound,
        prices=optimum.prices,
        code=jnp.where(state.infeasible, np.int32(Status.INFEASIBLE), code),
        steps=state.steps,
    )


class _Optimum(NamedTuple):
    x: Arr  # (R, n)
    value: Arr
    bound: Arr
    prices: Arr  # (K,)


@eqx.filter_custom_jvp
def _optimum(problem: _Convex, optimum: _Optimum) -> _Optimum:
    """What was found, as a function of the problem."""
    del problem
    return optimum


@_optimum.def_jvp
def _optimum_jvp(primals: PyTree, tangents: PyTree) -> tuple[_Optimum, _Optimum]:
    problem, optimum = primals
    optimum = _optimum(problem, optimum)  # differentiated once more, what was found moves too
    x, prices = optimum.x, optimum.prices

    def lagrangian(problem: _Convex, x: Arr) -> Arr:
        return problem.value(x) + (prices * (problem.used(x) - problem.b)).sum()

    def conditions(problem: _Convex) -> tuple[Arr, Arr, Arr]:
        return lagrangian(problem, x), jax.grad(lagrangian, 1)(problem, x), problem.used(x) - problem.b

    (value, slope, excess), moved = eqx.filter_jvp(conditions, (problem,), (tangents[0],))
    change, force, over = (
        jnp.zeros_like(part) if by is None else by for part, by in zip((value, slope, excess), moved, strict=True)
    )
    # At the optimum x (slope - nu) = 0 entry by entry, nu the least slope of a row, and prices (<a, x> - b) = 0. Their
    # derivatives are linear in those of x, nu and the prices.
    mask = problem.rows.mask
    reduced = slope - jnp.where(mask, slope, jnp.inf).min(1, keepdims=True)
    reduced, slack = jnp.where(mask, reduced, 1.0), jnp.maximum(-excess, 0.0)
    sizes = np.cumsum([x.size, len(x)]).tolist()

    def system(unknown: Arr) -> Arr:
        dx, dnu, dprices = jnp.split(unknown, sizes)
        dx = dx.reshape(x.shape)
        turn = jax.jvp(jax.grad(lambda x: lagrangian(problem, x)), (x,), (dx,))[1]
        turn = turn + problem.tilt(dprices) - dnu[:, None]
        rest = prices * problem.used(dx) - slack * dprices
        return jnp.concatenate([(reduced * dx + x * turn).ravel(), dx.sum(1), rest])

    right = -jnp.concatenate([(x * force).ravel(), jnp.zeros_like(x[:, 0]), prices * over])
    moved = lax.custom_linear_solve(system, right, _dense_solve, _dense_solve)
    dx, _, dprices = jnp.split(moved, sizes)
    return optimum, _Optimum(dx.reshape(x.shape), change, change, dprices)


def _dense_solve(system: Callable[[Arr], Arr], right: Arr) -> Arr:
    if len(right) > _LARGEST_SYSTEM:
        return jnp.where((right != 0.0).any(), jnp.nan, jnp.zeros_like(right))  # nothing moves where nothing acts
    matrix = jax.vmap(system, out_axes=1)(jnp.eye(len(right), dtype=right.dtype))
    size = abs(matrix).max(1, keepdims=True)
    scale = jnp.where(size > 0.0, size, 1.0)
    matrix, probe = matrix / scale, jnp.cos(jnp.arange(len(right), dtype=right.dtype))
    moved, again = jnp.linalg.solve(matrix, jnp.stack([right / scale[:, 0], matrix @ probe], axis=1)).T
    # Where half of the digits of a known solution are lost, those of the derivative are rounding.
    return jnp.where((abs(again - probe) <= jnp.sqrt(jnp.finfo(probe.dtype).eps)).all(), moved, jnp.nan)
