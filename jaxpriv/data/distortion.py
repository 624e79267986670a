"""Distortion d(x, y): what a released symbol y costs when the data was x.

A distortion is an operator: `rows(index)` gives the block d[index, :] on demand, `matrix()` all of
it. `Matrix` is the stored case; `Pairwise` computes blocks from features of the two alphabets, so a
large alphabet never needs its |X| x |Y| table.

An entry of inf forbids the pair: no mechanism releases y for x (`jaxpriv.DistortionProblem`).
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import PyTree
from numpy.typing import DTypeLike

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.importing import names_of
from jaxpriv._runtime.module import Module
from jaxpriv._runtime.resources import STREAM, need_memory
from jaxpriv._runtime.types import Arr, ArrayInput, ScalarLike
from jaxpriv._runtime.validation import above_minus_infinity, finite, is_traced, nonnegative, real_array
from jaxpriv.errors import InputError

__dir__ = names_of(__name__)

# Costs of the same symbols computed in two ways, perhaps in float32, differ by less.
_SAME = 1e-5


class AbstractDistortion(Module):
    """d(x, y) >= or < 0, or inf where y is forbidden for x, on alphabets of sizes `shape = (|X|, |Y|)`."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(|X|, |Y|)."""

    @abstractmethod
    def rows(self, index: Arr | slice) -> Arr:
        """d[index, :] for an integer array (or slice) of useful symbols: shape (len(index), |Y|)."""

    @abstractmethod
    def tile(self, index: Arr, start: ScalarLike, width: int) -> Arr:
        """d[index, start : start + width] for an integer array of useful symbols, in traced code."""

    @abstractmethod
    def pairs(self, x: Arr, y: Arr) -> Arr:
        """d at pairs of symbols: integer arrays that broadcast against each other."""

    @property
    @abstractmethod
    def known(self) -> bool:
        """Whether every cost is finite and >= 0 without looking at each."""

    @abstractmethod
    def as_dtype(self, dtype: DTypeLike) -> "AbstractDistortion":
        """The same distortion computing in another precision (outside of jit)."""

    def matrix(self) -> Arr:
        """All of d, shape (|X|, |Y|)."""
        return self.rows(slice(None))


Distortions: TypeAlias = tuple[AbstractDistortion, ...]


class Matrix(AbstractDistortion):
    """A stored table `values[x, y]`: any finite numbers, or inf where y is forbidden for x."""

    values: Arr

    def __init__(self, values: ArrayInput, name: str = "distortion"):
        self.values = above_minus_infinity(real_array(values, name, ndim=2), name)

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.values.shape
        return rows, columns

    def matrix(self) -> Arr:
        return self.values

    def rows(self, index: Arr | slice) -> Arr:
        return self.values[index]

    def tile(self, index: Arr, start: ScalarLike, width: int) -> Arr:
        return xp.part(self.values[index], start, width, axis=1)

    def pairs(self, x: Arr, y: Arr) -> Arr:
        return self.values[x, y]

    @property
    def known(self) -> bool:
        return False

    def as_dtype(self, dtype: DTypeLike) -> "AbstractDistortion":
        return eqx.tree_at(lambda m: m.values, self, np.asarray(self.values).astype(dtype))


class AbstractRule(Module):
    """The cost of releasing a symbol with features y when the data had features x."""

    @abstractmethod
    def __call__(self, x: Arr, y: Arr) -> Arr:
        """Costs of feature arrays (..., f) that broadcast against each other: shape (...)."""


class Absolute(AbstractRule):
    """sum_f |x_f - y_f|."""

    def __call__(self, x: Arr, y: Arr) -> Arr:
        return abs(x - y).sum(-1)


class Squared(AbstractRule):
    """sum_f (x_f - y_f)^2."""

    def __call__(self, x: Arr, y: Arr) -> Arr:
        return ((x - y) ** 2).sum(-1)


class ChangedAttributes(AbstractRule):
    """sum_f weights_f 1{x_f != y_f}."""

    weights: Arr  # (f,)

    def __call__(self, x: Arr, y: Arr) -> Arr:
        return ((x != y).astype(self.weights.dtype) * self.weights).sum(-1)


class Custom(AbstractRule):
    """A user's scalar function of two feature vectors."""

    function: Callable[[PyTree, PyTree], PyTree] = eqx.field(static=True)

    @xp.double_on_host
    def __call__(self, x: Arr, y: Arr) -> Arr:
        lead = jnp.broadcast_shapes(x.shape[:-1], y.shape[:-1])
        pairs = [jnp.broadcast_to(f, (*lead, f.shape[-1])).reshape(-1, f.shape[-1]) for f in (x, y)]
        costs = jax.vmap(self.function)(*pairs)
        return costs.reshape(*lead, *costs.shape[1:])


class Pairwise(AbstractDistortion):
    """`rule` of the features of x and y, computed block by block."""

    x_features: Arr  # (|X|, f)
    y_features: Arr  # (|Y|, f)
    rule: AbstractRule

    @property
    def standard(self) -> bool:
        """Whether class and rule are ours: never negative, and unchanged where all features are shifted."""
        return type(self) is Pairwise and type(self.rule) in (Absolute, Squared, ChangedAttributes)

    @property
    def shape(self) -> tuple[int, int]:
        return self.x_features.shape[0], self.y_features.shape[0]

    def rows(self, index: Arr | slice) -> Arr:
        return self.rule(self.x_features[index][:, None, :], self.y_features[None, :, :])

    def tile(self, index: Arr, start: ScalarLike, width: int) -> Arr:
        y = xp.part(self.y_features, start, width, axis=0)
        return self.rule(self.x_features[index][:, None, :], y[None, :, :])

    def pairs(self, x: Arr, y: Arr) -> Arr:
        return self.rule(self.x_features[x], self.y_features[y])

    @property
    def known(self) -> bool:
        if not self.standard:
            return False
        # Finite at the two ends of every feature is finite between them.
        low = np.minimum(np.min(self.x_features, axis=0), np.min(self.y_features, axis=0))
        high = np.maximum(np.max(self.x_features, axis=0), np.max(self.y_features, axis=0))
        with np.errstate(over="ignore"):
            return bool(np.isfinite(self.rule(low, high)))

    def as_dtype(self, dtype: DTypeLike) -> "AbstractDistortion":
        """The same costs from features of another precision.

        The digits that a rule depends on are kept first: differences are taken from the middle of the range, and
        symbols that only have to differ become small integers, so that no two of them round to the same number.
        A user's rule gets the values as they are; its result is rounded by the caller.
        """
        if not self.standard:
            return self
        x, y = np.asarray(self.x_features), np.asarray(self.y_features)
        both = np.concatenate([x, y])
        if isinstance(self.rule, ChangedAttributes):
            both = np.stack([np.unique(column, return_inverse=True)[1] for column in both.T], axis=1)
        else:
            both = both - 0.5 * (both.min(axis=0) + both.max(axis=0))
        cast = jax.tree.map(lambda leaf: np.asarray(leaf).astype(dtype), self.rule)
        return Pairwise(both[: len(x)].astype(dtype), both[len(x) :].astype(dtype), cast)


def _features(value: ArrayInput, name: str) -> Arr:
    array = finite(real_array(value, name, ndim=(1, 2)), name)
    return array[:, None] if array.ndim == 1 else array


def _feature_pair(x: ArrayInput, y: ArrayInput | None) -> tuple[Arr, Arr]:
    x = _features(x, "x")
    y = x if y is None else _features(y, "y")
    if x.shape[1] != y.shape[1]:
        raise InputError(f"x has {x.shape[1]} feature(s) a symbol, y has {y.shape[1]}; they must agree")
    return x, y


def absolute(x: ArrayInput, y: ArrayInput | None = None) -> AbstractDistortion:
    """d(x, y) = |x - y| (summed over features if the values are vectors).

    `x`: values of the useful symbols, shape (|X|,) or (|X|, f); `y`: of the released ones (default `x`).
    """
    return Pairwise(*_feature_pair(x, y), Absolute())


def squared(x: ArrayInput, y: ArrayInput | None = None) -> AbstractDistortion:
    """d(x, y) = (x - y)^2 (summed over features). Arguments as for `absolute`."""
    return Pairwise(*_feature_pair(x, y), Squared())


def hamming(x: ArrayInput | int, y: ArrayInput | int | None = None) -> AbstractDistortion:
    """d(x, y) = 1 if y differs from x, else 0.

    `x`, `y`: alphabet sizes (symbols are then 0, 1, ...) or arrays of numeric symbol codes; `y` defaults to `x`.

    Raises `InputError` for an alphabet size below 1.
    """

    def codes(value: ArrayInput, name: str) -> ArrayInput:
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            return value
        if not (value >= 1 and value == int(value)):
            raise InputError(f"{name} must be an alphabet size >= 1 or an array of codes")
        return np.arange(int(value), dtype=np.float64)

    return Pairwise(*_feature_pair(codes(x, "x"), None if y is None else codes(y, "y")), ChangedAttributes(np.ones(1)))


def changed_attributes(
    x: ArrayInput, y: ArrayInput | None = None, *, weights: ArrayInput | None = None
) -> AbstractDistortion:
    """Attribute-wise Hamming distortion of a product alphabet: d(x, y) = sum_a weights[a] 1{x_a != y_a}.

    `x`, `y`: integer codes, shape (|X|, attributes) and (|Y|, attributes); `weights`: >= 0, default all one
    (the number of changed attributes).

    Raises `InputError` unless there is one weight for each attribute.
    """
    x, y = _feature_pair(x, y)
    if weights is None:
        weights = np.ones(x.shape[1])
    weights = nonnegative(real_array(weights, "weights", ndim=1), "weights")
    if weights.shape[0] != x.shape[1]:
        raise InputError(f"weights has {weights.shape[0]} entries; the symbols have {x.shape[1]} attribute(s)")
    return Pairwise(x, y, ChangedAttributes(weights))


def from_function(
    function: Callable[[PyTree, PyTree], PyTree], x: ArrayInput, y: ArrayInput | None = None
) -> AbstractDistortion:
    """d(x, y) = function(x_features, y_features), a JAX-traceable function of two feature vectors (f,) to a number.

    Raises:
        InputError: JAX cannot trace it (it needs jax.numpy, and no `if` or `float` of what it is given), or it
            returns something else than one real number.
    """
    if not callable(function):
        raise InputError("function must be callable: function(x_features, y_features) -> scalar")
    x, y = _feature_pair(x, y)
    features = [jax.ShapeDtypeStruct(array.shape[1:], array.dtype) for array in (x, y)]
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        try:
            cost = jax.eval_shape(function, *features)
        except Exception as error:  # whatever a user's code may raise
            raise InputError(
                f"function: JAX cannot trace it ({type(error).__name__}). It is called with two feature vectors and "
                "must use jax.numpy on them"
            ) from error
    shape = getattr(cost, "shape", None)
    if shape != ():
        given = type(cost).__name__ if shape is None else f"an array of shape {shape}"
        raise InputError(f"function must return one number for two feature vectors, not {given}")
    _need_real(cost.dtype, "function returns")
    return Pairwise(x, y, Custom(function))


def _need_real(dtype: np.dtype, what: str) -> None:
    if not any(jnp.issubdtype(dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_)):
        raise InputError(f"{what} {dtype}; real numbers are needed")


def as_distortion(value: object, name: str = "distortion") -> AbstractDistortion:
    """`value` itself if it is a distortion, else the stored matrix."""
    return value if isinstance(value, AbstractDistortion) else Matrix(value, name)


def forbids(distortion: AbstractDistortion) -> bool:
    """Whether some entries are inf, which forbids the pairs. The table is computed where only that tells."""
    return not distortion.known and bool(np.isinf(dense(distortion)).any())


def check_blocks(distortion: AbstractDistortion, name: str = "distortion") -> None:
    """A user's operator computes real numbers of the declared shape, the same ones by rows, tiles and pairs.

    Raises `InputError` naming what has another shape or type, or differs from the rows by more than rounding.
    """
    if type(distortion) is Matrix or (isinstance(distortion, Pairwise) and distortion.standard):
        return
    inputs, outputs = distortion.shape
    index, start = np.array([0, inputs - 1]), outputs // 2
    blocks = (
        ("blocks", lambda: distortion.rows(index), slice(None)),
        ("tiles", lambda: distortion.tile(index, start, outputs - start), slice(start, None)),
        ("pairs", lambda: distortion.pairs(index[:, None], np.arange(outputs)), slice(None)),
    )
    rows, size = np.zeros((len(index), outputs)), 0.0
    for kind, compute, part in blocks:
        with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
            block = compute()
        shape, wanted = getattr(block, "shape", None), rows[:, part].shape
        if shape != wanted:
            raise InputError(f"{name} computes {kind} of shape {shape} for {wanted}, but declares {distortion.shape}")
        _need_real(block.dtype, f"{name} computes {kind} of")
        costs = np.asarray(block, dtype=np.float64)
        if kind == "blocks":
            rows, size = costs, abs(costs[np.isfinite(costs)]).max(initial=0.0)
        elif not np.allclose(costs, rows[:, part], rtol=_SAME, atol=_SAME * size, equal_nan=True):
            raise InputError(f"{name}: its {kind} and its rows give different costs for the same symbols")


def dense(distortion: AbstractDistortion, name: str = "distortion", alternative: str = STREAM) -> Arr:
    """The whole table in float64 (tracers unchanged), checked to be of the declared shape and nowhere NaN or -inf.

    `alternative`: what the error recommends where memory does not suffice.

    Raises `InputError` for another shape, an entry that is NaN or -inf, and a function that closes over a traced
    number.
    """
    if isinstance(distortion, Matrix):  # checked when it was made
        values = distortion.values
        return values if isinstance(values, Tracer) else np.asarray(values, dtype=np.float64)
    if is_traced(distortion):
        return distortion.matrix()
    need_memory(8.0 * math.prod(distortion.shape), f"{name} as a table of shape {distortion.shape}", alternative)
    with jax.enable_x64(True):  # a user's rule in jax.numpy must not be rounded to float32
        computed = distortion.matrix()
    if is_traced(computed):
        raise InputError(f"{name}: its function closes over a traced number; give it to jax as a feature or in a table")
    table = np.asarray(computed)
    _need_real(table.dtype, f"{name} computes blocks of")
    table = table.astype(np.float64, copy=False)
    if table.shape != distortion.shape:
        raise InputError(f"{name} computes blocks of shape {table.shape}, but declares {distortion.shape}")
    overflows = isinstance(distortion, Pairwise) and distortion.standard  # which forbids nothing
    return (finite if overflows else above_minus_infinity)(table, name)
