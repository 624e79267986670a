"""`jax.vmap` for NumPy: arrays with a hidden leading axis, one entry for every lane of a batch.

A function that is written for the arrays of one problem (`_arrays`) runs on arrays of this kind as it stands, and one
call of NumPy computes an operation for all lanes: shapes, axes and indices are those of one lane. Plain arrays beside
them are the same in every lane. So a batch of small problems begins at once, where compiling takes seconds.

What depends on values differs between lanes: `if` on such an array is an error, and the control flow of `_arrays`
computes both sides, or continues until the last lane is done, and takes for each lane what holds there.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import jax
import numpy as np
from jaxtyping import PyTree
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike

T = TypeVar("T")
# Axes of one lane, and what selects entries along one axis or several, as NumPy takes them.
Axes: TypeAlias = int | tuple[int, ...] | None
Index: TypeAlias = object
# What is the same in all lanes; and an array of every lane, or that.
Plain: TypeAlias = jax.Array | np.ndarray | np.generic | float
Part: TypeAlias = "LaneArray | jax.Array | np.ndarray | np.generic | float"
# What code that is written for one lane returns.
Computed: TypeAlias = jax.Array | np.ndarray


class LaneArray(NDArrayOperatorsMixin):
    """An array of every lane, for which everything below is that of one lane.

    Attributes:
        lanes: (L, ...), the axes of one lane behind the first.
    """

    __slots__ = ("lanes",)

    def __init__(self, lanes: np.ndarray) -> None:
        self.lanes = lanes

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lanes.shape[1:]

    @property
    def ndim(self) -> int:
        return self.lanes.ndim - 1

    @property
    def size(self) -> int:
        return math.prod(self.lanes.shape[1:])

    @property
    def dtype(self) -> np.dtype:
        return self.lanes.dtype

    @property
    def T(self) -> "LaneArray":
        return LaneArray(self.lanes.transpose(0, *range(self.ndim, 0, -1)))

    def __len__(self) -> int:
        return self.lanes.shape[1]

    def __iter__(self) -> Iterator["LaneArray"]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        raise TypeError("an array with lanes is neither true nor false: they may differ")

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("an array with lanes is no plain array: `lanes` is one")

    def __getitem__(self, index: Index) -> "LaneArray":
        """An index of one lane: what NumPy takes, or the number that each lane has along the first axis."""
        if isinstance(index, LaneArray):
            return LaneArray(self.lanes[np.arange(len(self.lanes)), index.lanes])
        return LaneArray(self.lanes[_behind_lanes(index)])

    def transpose(self, order: Sequence[int]) -> "LaneArray":
        return LaneArray(self.lanes.transpose(0, *(axis + 1 for axis in order)))

    def reshape(self, *shape: "int | tuple[int, ...]") -> "LaneArray":
        sizes = [size for part in shape for size in (part if isinstance(part, tuple) else (part,))]
        return LaneArray(self.lanes.reshape(len(self.lanes), *sizes))

    def astype(self, dtype: DTypeLike) -> "LaneArray":
        return LaneArray(self.lanes.astype(dtype))

    def _axes(self, axis: Axes) -> int | tuple[int, ...]:
        if axis is None:
            return tuple(range(1, self.lanes.ndim))
        if isinstance(axis, tuple):
            return tuple(number % self.ndim + 1 for number in axis)
        return axis % self.ndim + 1

    def sum(self, axis: Axes = None, dtype: DTypeLike | None = None, *, keepdims: bool = False) -> "LaneArray":
        return LaneArray(self.lanes.sum(axis=self._axes(axis), dtype=dtype, keepdims=keepdims))

    def mean(self, axis: Axes = None) -> "LaneArray":
        return LaneArray(self.lanes.mean(axis=self._axes(axis)))

    def max(self, axis: Axes = None, *, keepdims: bool = False, initial: float = -np.inf) -> "LaneArray":
        return LaneArray(self.lanes.max(axis=self._axes(axis), keepdims=keepdims, initial=initial))

    def min(self, axis: Axes = None, *, keepdims: bool = False, initial: float = np.inf) -> "LaneArray":
        return LaneArray(self.lanes.min(axis=self._axes(axis), keepdims=keepdims, initial=initial))

    def any(self, axis: Axes = None) -> "LaneArray":
        return LaneArray(np.asarray(self.lanes.any(axis=self._axes(axis))))

    def all(self, axis: Axes = None) -> "LaneArray":
        return LaneArray(np.asarray(self.lanes.all(axis=self._axes(axis))))

    def argmin(self, axis: int = 0) -> "LaneArray":
        return LaneArray(self.lanes.argmin(axis=axis % self.ndim + 1))

    def argmax(self, axis: int = 0) -> "LaneArray":
        return LaneArray(self.lanes.argmax(axis=axis % self.ndim + 1))

    # NumPy's protocols: its operators and functions on arrays of this kind.

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Part, **options: object) -> "LaneArray":
        if method != "__call__" or options:
            return NotImplemented
        if ufunc is np.matmul:
            a, b = (operand if isinstance(operand, LaneArray) else np.asarray(operand) for operand in inputs)
            return _matmul(a, b)
        return LaneArray(ufunc(*_aligned(*inputs)))

    def __array_function__(
        self,
        function: Callable[..., object],
        types: Sequence[type],
        args: Sequence[object],
        options: Mapping[str, object],
    ) -> object:
        del types
        return _FUNCTIONS[function](*args, **options) if function in _FUNCTIONS else NotImplemented


def with_lanes(lanes: Computed) -> np.ndarray:
    """The array with these lanes, which code that is written for one of them takes for one of NumPy."""
    return cast("np.ndarray", LaneArray(np.asarray(lanes)))


def count_of(*parts: object) -> int | None:
    """How many lanes the first array with lanes has; None where there is none."""
    return next((len(part.lanes) for part in parts if isinstance(part, LaneArray)), None)


def _some(*parts: object) -> int:
    count = count_of(*parts)
    assert count is not None  # NumPy's protocols ask for arrays with lanes only
    return count


def _behind_lanes(index: Index) -> tuple[Any, ...]:
    """An index of one lane, for all of them."""
    return (slice(None), *index) if isinstance(index, tuple) else (slice(None), index)


def _aligned(*parts: Part) -> list[Plain]:
    """Plain arrays that broadcast as those of one lane do."""
    rank = max(part.ndim if isinstance(part, LaneArray) else np.ndim(part) for part in parts)
    return [_raised(part.lanes, rank) if isinstance(part, LaneArray) else part for part in parts]


def _raised(lanes: np.ndarray, rank: int) -> np.ndarray:
    """With axes of length 1 behind the lanes, so that one of them has the rank."""
    missing = rank + 1 - lanes.ndim
    return lanes if missing <= 0 else lanes.reshape(len(lanes), *(1,) * missing, *lanes.shape[1:])


def spread(part: Part, count: int) -> np.ndarray:
    """The plain array of `count` lanes, not to be written to."""
    return part.lanes if isinstance(part, LaneArray) else np.broadcast_to(part, (count, *np.shape(part)))


def taken(tree: T, which: np.ndarray) -> T:
    """Some of the lanes of every array."""
    return jax.tree.map(lambda leaf: LaneArray(leaf.lanes[which]) if isinstance(leaf, LaneArray) else leaf, tree)


def chosen(which: LaneArray, new: PyTree, old: PyTree) -> PyTree:
    """In the lanes of `which` (of no axes) the new arrays, in the others the old ones."""
    return new if which.lanes.all() else jax.tree.map(lambda after, before: _where(which, after, before), new, old)


def broadcast_to(a: LaneArray, shape: tuple[int, ...]) -> np.ndarray:
    """`a` repeated to a shape."""
    repeated = np.empty((len(a.lanes), *shape), a.dtype)
    repeated[...] = _raised(a.lanes, len(shape))
    return with_lanes(repeated)


def put(a: Part, index: Index, value: Part) -> np.ndarray:
    """A copy of `a` with `value` at an index of one lane."""
    copied, at = spread(a, _some(a, value)).copy(), _behind_lanes(index)
    copied[at] = _raised(value.lanes, copied[at].ndim - 1) if isinstance(value, LaneArray) else value
    return with_lanes(copied)


def einsum(subscripts: str, a: Part, b: Part, plain: Callable[..., Computed]) -> np.ndarray:
    """`plain` of two arrays whose axes have letters, with one more for the lanes."""
    left, right, back = subscripts.replace("->", ",").split(",")
    left, right = ("L" * isinstance(part, LaneArray) + letters for part, letters in ((a, left), (b, right)))
    arrays = [part.lanes if isinstance(part, LaneArray) else part for part in (a, b)]
    return with_lanes(plain(f"{left},{right}->L{back}", *arrays))


def solve(matrix: Part, rhs: Part, plain: Callable[..., Computed]) -> np.ndarray:
    """`plain` of a stack of matrices and as many stacks of columns, for a vector or columns of every lane."""
    count = _some(matrix, rhs)
    matrices, sides = spread(matrix, count), spread(rhs, count)
    if sides.ndim == 2:
        return with_lanes(plain(matrices, sides[..., None])[..., 0])
    return with_lanes(plain(matrices, sides))


def _matmul(a: "LaneArray | np.ndarray", b: "LaneArray | np.ndarray") -> LaneArray:
    if a.ndim == 1 and b.ndim == 1:
        return _matmul(a[None], b[:, None])[0, 0]
    if b.ndim == 1:
        return _matmul(a, b[:, None])[..., 0]
    if a.ndim == 1:
        return _matmul(a[None], b)[..., 0, :]
    if isinstance(a, LaneArray) and not isinstance(b, LaneArray) and b.ndim == 2:  # one product
        flat = a.lanes.reshape(-1, a.lanes.shape[-1]) @ b
        return LaneArray(flat.reshape(*a.lanes.shape[:-1], b.shape[1]))
    left, right = _aligned(a, b)
    return LaneArray(np.matmul(left, right))


def _where(which: Part, yes: Part, no: Part) -> LaneArray:
    return LaneArray(np.where(*_aligned(which, yes, no)))


def _concatenate(parts: Sequence[Part], axis: int = 0) -> LaneArray:
    count = _some(*parts)
    arrays = [spread(part, count) for part in parts]
    return LaneArray(np.concatenate(arrays, axis=axis % (arrays[0].ndim - 1) + 1))


def _append(a: Part, b: Part) -> LaneArray:
    return _concatenate([part.reshape(-1) if isinstance(part, LaneArray) else np.ravel(part) for part in (a, b)])


def _diag(a: LaneArray) -> LaneArray:
    if a.ndim == 2:
        return _diagonal(a)
    count, size = a.lanes.shape
    matrix = np.zeros((count, size, size), a.dtype)
    matrix[:, range(size), range(size)] = a.lanes
    return LaneArray(matrix)


def _diagonal(a: LaneArray, *, axis1: int = 0, axis2: int = 1) -> LaneArray:
    return LaneArray(np.diagonal(a.lanes, axis1=axis1 % a.ndim + 1, axis2=axis2 % a.ndim + 1))


def _swapaxes(a: LaneArray, axis1: int, axis2: int) -> LaneArray:
    return LaneArray(np.swapaxes(a.lanes, axis1 % a.ndim + 1, axis2 % a.ndim + 1))


def _moveaxis(a: LaneArray, source: int, destination: int) -> LaneArray:
    return LaneArray(np.moveaxis(a.lanes, source % a.ndim + 1, destination % a.ndim + 1))


def _full_like(a: LaneArray, value: float) -> np.ndarray:
    return np.full(a.shape, value, a.dtype)


_FUNCTIONS: Mapping[Callable[..., object], Callable[..., object]] = {
    np.where: _where,
    np.concatenate: _concatenate,
    np.append: _append,
    np.diag: _diag,
    np.diagonal: _diagonal,
    np.swapaxes: _swapaxes,
    np.moveaxis: _moveaxis,
    np.full_like: _full_like,
    np.ndim: lambda a: a.ndim,
    np.shape: lambda a: a.shape,
}
