"""NumPy or JAX, by the arrays at hand: one source for solvers that run with and without compiling.

A function here is that of `jax.numpy` if one of its arguments is an array of JAX (inside of jit, vmap and grad every
array that depends on their arguments is one), and that of NumPy otherwise. Products are at full precision in both.
NumPy's take arrays of a batch too (`lanes`).

What makes an array out of nothing takes the library and the dtype from an array `like`: a NumPy constant cannot be
indexed by what is traced. `put` and `add_at` stand for `.at[]`. The control flow below reads the values that it is
handed, not at those that its functions close over: one of them must be traced if those are.
"""

import functools
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jax.scipy.linalg import solve_triangular
from jaxtyping import PyTree
from numpy.typing import DTypeLike

from jaxpriv._runtime import lanes
from jaxpriv._runtime.lanes import LaneArray
from jaxpriv._runtime.types import Arr, ArrLike, BoolLike, Index, ScalarLike

inf = math.inf

T = TypeVar("T")


class _Kinds(dict[type, bool]):
    """Whether a type is one of JAX's arrays; a look-up where `isinstance` would take longer than a small sum."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = issubclass(kind, jax.Array | Tracer)
        return self[kind]


_JAX = _Kinds()


def of(*arrays: object) -> ModuleType:
    """`jax.numpy` if one of the arrays is JAX's, otherwise `numpy`."""
    for array in arrays:
        if _JAX[type(array)]:
            return jnp
    return np


def asarray(value: ArrLike, like: Arr | np.floating) -> Arr:
    """`value` as an array of the library and the dtype of `like`."""
    if isinstance(value, LaneArray):
        return lanes.with_lanes(value.lanes.astype(like.dtype))
    return of(like, value).asarray(value, like.dtype)


def _any_jax(tree: PyTree) -> bool:
    return any(_JAX[type(leaf)] for leaf in jax.tree.leaves(tree))


def arguments(*arrays: ArrLike) -> tuple[Arr, ...]:
    """What a public function computes with: arrays of JAX if one of those given is such, in their own precision;
    otherwise float64 arrays of NumPy, whatever precision JAX is set to.
    """
    if _any_jax(arrays):
        return tuple(jnp.asarray(array) for array in arrays)
    # What is of a batch passes for an array of NumPy (`lanes`).
    return tuple(
        lanes.with_lanes(array.lanes) if isinstance(array, LaneArray) else np.asarray(array, np.float64)
        for array in arrays
    )


def in_double(function: Callable[..., PyTree], *args: PyTree) -> PyTree:
    """`function(*args)`, written with `jax.numpy` alone, of arrays of NumPy: in float64, and NumPy's again.

    It is compiled as a whole: the compiler takes longer for a hundred operations one by one. What depends on a traced
    number that the function closes over stays traced.
    """
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        results = eqx.filter_jit(function)(*args)
    return jax.tree.map(lambda leaf: leaf if isinstance(leaf, Tracer) else np.asarray(leaf), results)


def double_on_host(function: Callable[..., T]) -> Callable[..., T]:
    """A function written with `jax.numpy` alone, which computes `in_double` where no argument is an array of JAX."""

    @functools.wraps(function)
    def either(*args: PyTree) -> T:
        return function(*args) if _any_jax(args) else in_double(function, *args)

    return either


def called(function: Callable[..., PyTree], *args: Arr) -> PyTree:
    """`function(*args)`, an array or a tuple of them, which a user may have written with `jax.numpy` alone.

    Where it is given arrays of NumPy the results are such too: what is computed from arrays of JAX outside of a program
    is compiled operation by operation.
    """
    results = function(*args)
    if any(_JAX[type(arg)] for arg in args):
        return results
    parts = results if isinstance(results, tuple) else (results,)
    return jax.tree.map(np.asarray, results) if any(_JAX[type(part)] for part in parts) else results


def _either(name: str) -> Callable[..., Arr]:
    """The function of this name, by its positional arguments."""
    host, device = getattr(np, name), getattr(jnp, name)

    def function(*args: ArrLike, **options: object) -> Arr:
        for arg in args:
            if _JAX[type(arg)]:
                return device(*args, **options)
        return host(*args, **options)

    return function


def _of_several(name: str) -> Callable[..., Arr]:
    """The function of this name, by the arrays in its first argument."""
    host, device = getattr(np, name), getattr(jnp, name)

    def function(arrays: Sequence[Arr], axis: int = 0) -> Arr:
        if len(arrays) == 1:
            return arrays[0]
        for array in arrays:
            if _JAX[type(array)]:
                return device(arrays, axis=axis)
        return host(arrays, axis=axis)

    return function


where = _either("where")
maximum = _either("maximum")
minimum = _either("minimum")
exp = _either("exp")
expm1 = _either("expm1")
log = _either("log")
log1p = _either("log1p")
sqrt = _either("sqrt")
isfinite = _either("isfinite")
isinf = _either("isinf")
isnan = _either("isnan")
full_like = _either("full_like")
swapaxes = _either("swapaxes")
moveaxis = _either("moveaxis")
diag = _either("diag")
diagonal = _either("diagonal")
repeat = _either("repeat")
append = _either("append")
concatenate = _of_several("concatenate")


# NumPy's own `ones`, `zeros_like`, `stack`, `broadcast_to` and `clip` are written in Python: on small arrays they take
# several times as long as what they come down to.


def stack(arrays: Sequence[ArrLike], axis: int = 0) -> Arr:
    """Arrays of one shape along a new axis."""
    if of(*arrays) is jnp:
        return jnp.stack(arrays, axis=axis)
    index: Any = (slice(None),) * (axis % (np.ndim(arrays[0]) + 1)) + (None,)
    parts = [array[index] if isinstance(array, LaneArray) else np.asarray(array)[index] for array in arrays]
    return np.concatenate(parts, axis=len(index) - 1)


def broadcast_to(a: Arr, shape: tuple[int, ...]) -> Arr:
    """`a` repeated to a shape."""
    if of(a) is jnp:
        return jnp.broadcast_to(a, shape)
    if isinstance(a, LaneArray):
        return lanes.broadcast_to(a, shape)
    repeated = np.empty(shape, a.dtype)
    repeated[...] = a
    return repeated


def zeros_like(a: Arr) -> Arr:
    """Zeros with the shape and the dtype of `a`."""
    return zeros(a.shape, a)


def ones_like(a: Arr) -> Arr:
    """Ones with the shape and the dtype of `a`."""
    return ones(a.shape, a)


def zeros(shape: int | tuple[int, ...], like: Arr) -> Arr:
    """Zeros with the dtype of `like`."""
    return of(like).zeros(shape, like.dtype)


def ones(shape: int | tuple[int, ...], like: Arr) -> Arr:
    """Ones with the dtype of `like`."""
    if of(like) is jnp:
        return jnp.ones(shape, like.dtype)
    filled = np.empty(shape, like.dtype)
    filled.fill(1)
    return filled


def full(shape: int | tuple[int, ...], value: ArrLike, like: Arr) -> Arr:
    """An array of one number with the dtype of `like`."""
    if isinstance(value, LaneArray):
        return lanes.broadcast_to(value, (shape,) if isinstance(shape, int) else shape)
    return of(like, value).full(shape, value, like.dtype)


def eye(size: int, like: Arr) -> Arr:
    """The identity matrix with the dtype of `like`."""
    return of(like).eye(size, dtype=like.dtype)


def choose(values: Sequence[float], index: ScalarLike, dtype: DTypeLike | None = None) -> Arr:
    """`values[index]`, where `index` may be traced; the last one beyond them."""
    return of(index).asarray(values, dtype)[minimum(index, len(values) - 1)]


def clip(a: ArrLike, low: ArrLike, high: ArrLike) -> Arr:
    """Numbers kept within bounds."""
    if of(a, low, high) is jnp:
        return jnp.clip(a, low, high)
    return np.minimum(np.maximum(a, low), high)


def put(a: Arr, index: Index, value: ArrLike) -> Arr:
    """A copy of `a` with `value` at `index`."""
    if of(a, value) is jnp:
        return jnp.asarray(a).at[index].set(value)
    if isinstance(a, LaneArray) or isinstance(value, LaneArray):
        return lanes.put(a, index, value)
    a = a.copy()
    a[index] = value
    return a


def part(a: Arr, start: ScalarLike, width: int, axis: int) -> Arr:
    """`width` entries along an axis, from `start` on, which may be traced."""
    if of(a, start) is jnp:
        return lax.dynamic_slice_in_dim(a, start, width, axis=axis)
    return a[(slice(None),) * axis + (slice(int(start), int(start) + width),)]


def add_at(a: Arr, index: Index, value: ArrLike) -> Arr:
    """A copy of `a` with `value` added at `index`, whose places are different ones."""
    if of(a, value) is jnp:
        return jnp.asarray(a).at[index].add(value)
    return put(a, index, a[index] + value)


def matmul(a: Arr, b: Arr) -> Arr:
    """`a @ b`."""
    return jnp.matmul(a, b, precision="highest") if of(a, b) is jnp else np.matmul(a, b)


def weigh(weights: Arr, arrays: Arr) -> Arr:
    """sum_i weights_i arrays_i, of every row of weights (..., I)."""
    if of(weights, arrays) is jnp:
        return jnp.tensordot(weights, arrays, 1)
    if len(arrays) == weights.ndim == 1:
        return weights[0] * arrays[0]
    shape = arrays.shape[1:]
    return matmul(weights, arrays.reshape(len(arrays), math.prod(shape))).reshape((*weights.shape[:-1], *shape))


def einsum(subscripts: str, *arrays: Arr) -> Arr:
    """`jax.numpy.einsum`; in NumPy as a stack of matrix products, where its own takes no BLAS."""
    if of(*arrays) is jnp:
        return jnp.einsum(subscripts, *arrays, precision="highest")
    a, b = arrays
    if isinstance(a, LaneArray) or isinstance(b, LaneArray):
        return lanes.einsum(subscripts, a, b, einsum)
    to_a, to_b, back, shared, left_axes = _contraction(subscripts)
    a, b = a.transpose(to_a), b.transpose(to_b)
    if left_axes == 1 and a.ndim == b.ndim == shared + 2:  # matrices as they are
        return np.matmul(a, b).transpose(back)
    lead, left = a.shape[:shared], a.shape[shared : shared + left_axes]
    summed = math.prod(a.shape[shared + left_axes :])
    right = b.shape[shared + a.ndim - shared - left_axes :]
    c = np.matmul(a.reshape(*lead, math.prod(left), summed), b.reshape(*lead, summed, math.prod(right)))
    return c.reshape(*lead, *left, *right).transpose(back)


@functools.cache
def _contraction(subscripts: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int, int]:
    """How two arrays and their product are transposed to stacks of matrices: (stack, a's own, summed) of a,
    (stack, summed, b's own) of b and (stack, a's own, b's own) back to the order asked for; the first two lengths.
    """
    sides, out = subscripts.split("->")
    a, b = sides.split(",")
    shared = [i for i in a if i in b and i in out]
    summed = [i for i in a if i in b and i not in out]
    left, right = [i for i in a if i not in b], [i for i in b if i not in a]
    result = [*shared, *left, *right]
    return (
        tuple(a.index(i) for i in [*shared, *left, *summed]),
        tuple(b.index(i) for i in [*shared, *summed, *right]),
        tuple(result.index(i) for i in out),
        len(shared),
        len(left),
    )


def inverse_root(g: Arr) -> Arr:
    """K, lower triangular, with g^-1 = K'K for a stack of positive definite matrices; NaN where one is not."""
    if of(g) is jnp:
        # g is symmetric; its transpose has the column-major layout that LAPACK takes, without a copy.
        root = lax.linalg.cholesky(jnp.swapaxes(g, -1, -2), symmetrize_input=False)
        identity = jnp.broadcast_to(jnp.eye(g.shape[-1], dtype=g.dtype), g.shape)
        return lax.linalg.triangular_solve(root, identity, left_side=True, lower=True)
    if isinstance(g, LaneArray):
        return lanes.with_lanes(inverse_root(g.lanes))
    try:
        root = np.linalg.cholesky(g)
        # Elimination in an upper triangular matrix exchanges no rows and leaves it as it is: a triangular solve.
        return np.swapaxes(np.linalg.inv(np.swapaxes(root, -1, -2)), -1, -2)
    except np.linalg.LinAlgError:  # for the whole stack, if one of them has no factor
        return np.full_like(g, np.nan) if g.ndim == 2 else np.stack([inverse_root(matrix) for matrix in g])


def cholesky(g: Arr) -> Arr:
    """L, lower triangular, with g = L L' for a stack of positive definite matrices; NaN where one is not."""
    if of(g) is jnp:
        return jnp.linalg.cholesky(g)
    if isinstance(g, LaneArray):
        return lanes.with_lanes(cholesky(g.lanes))
    try:
        return np.linalg.cholesky(g)
    except np.linalg.LinAlgError:
        return np.full_like(g, np.nan) if g.ndim == 2 else np.stack([cholesky(matrix) for matrix in g])


def solve_lower(root: Arr, rhs: Arr, transposed: bool = False) -> Arr:
    """L^-1 rhs, or L'^-1 rhs, for stacks of lower triangular matrices."""
    if of(root, rhs) is jnp:
        return solve_triangular(root, rhs, lower=True, trans=int(transposed))
    return solve(np.swapaxes(root, -1, -2) if transposed else root, rhs)


def solve(matrix: Arr, rhs: Arr) -> Arr:
    """matrix^-1 rhs, not finite where the matrix is singular."""
    if of(matrix, rhs) is jnp:
        return jnp.linalg.solve(matrix, rhs)
    if isinstance(matrix, LaneArray) or isinstance(rhs, LaneArray):
        return lanes.solve(matrix, rhs, solve)
    try:
        return np.linalg.solve(matrix, rhs)
    except np.linalg.LinAlgError:  # for the whole stack, if one of them is singular
        if matrix.ndim > 2:
            return np.stack([solve(block, side) for block, side in zip(matrix, rhs, strict=True)])
        return np.full_like(rhs, np.nan)


def stored(a: Arr) -> Arr:
    """`a` in memory, in its own order: what is computed from it is not merged with what it is computed from."""
    return lax.optimization_barrier(a) if of(a) is jnp else a


def constant(a: Arr) -> Arr:
    """`a` without a derivative."""
    return lax.stop_gradient(a) if of(a) is jnp else a


def while_loop(go_on: Callable[[T], BoolLike], step: Callable[[T], T], state: T) -> T:
    """`lax.while_loop`; in lanes until the last of them is done, each with what it had when it was."""
    if _any_jax(state):
        return lax.while_loop(go_on, step, state)
    going = go_on(state)
    while going.lanes.any() if isinstance(going, LaneArray) else going:
        new = step(state)
        state = lanes.chosen(going, new, state) if isinstance(going, LaneArray) else new
        going = go_on(state)
    return state


def fori_loop(start: int, stop: ScalarLike, step: Callable[[ScalarLike, T], T], state: T) -> T:
    """`lax.fori_loop`."""
    if _any_jax((stop, state)):
        return lax.fori_loop(start, stop, step, state)
    for i in range(start, int(stop)):
        state = step(i, state)
    return state


def cond(which: BoolLike, yes: Callable[[], T], no: Callable[[], T]) -> T:
    """`lax.cond` of functions without arguments; both of them where lanes differ."""
    if _JAX[type(which)]:
        return lax.cond(which, yes, no)
    if isinstance(which, LaneArray):
        if which.lanes.any() and not which.lanes.all():
            return lanes.chosen(which, yes(), no())
        return yes() if which.lanes.all() else no()
    return yes() if which else no()


def chosen(which: BoolLike, new: T, old: T) -> T:
    """The arrays of the tree `new` where `which` (of no axes) holds, those of `old` otherwise."""
    if isinstance(which, LaneArray):
        return lanes.chosen(which, new, old)
    if _JAX[type(which)]:
        return jax.tree.map(lambda after, before: jnp.where(which, after, before), new, old)
    return new if which else old


def where_needed(which: BoolLike, function: Callable[[T], T], state: T) -> T:
    """`function(state)` where `which` holds, otherwise `state`: a loop of one turn at most.

    Under vmap nothing is computed where no member of the batch asks for it; `lax.cond` computes both sides then.
    """

    def once(carry: tuple[BoolLike, T]) -> tuple[BoolLike, T]:
        asked, state = carry
        return asked & False, function(state)

    return while_loop(lambda carry: carry[0], once, (which, state))[1]


def each(function: Callable[..., T], *trees: PyTree) -> T:
    """`jax.vmap(function)(*trees)`, one after another in NumPy."""
    if _any_jax(trees):
        return jax.vmap(function)(*trees)
    count = len(jax.tree.leaves(trees)[0])
    parts = [function(*jax.tree.map(lambda leaf, i=i: leaf[i], trees)) for i in range(count)]
    return jax.tree.map(lambda *leaves: stack(leaves), *parts)
