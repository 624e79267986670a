"""Distortion d(x, y): what a released symbol y costs when the data was x.

A distortion is an operator: `rows(index)` gives the block d[index, :] on demand, `matrix()` all of
it. `Matrix` is the stored case; `Pairwise` computes blocks from features of the two alphabets, so a
large alphabet never needs its |X| x |Y| table.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from jaxpriv._validation import finite, is_traced, nonnegative, real_array
from jaxpriv.errors import InputError


class AbstractDistortion(eqx.Module):
    """d(x, y) >= or < 0, finite, on alphabets of sizes `shape = (|X|, |Y|)`."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(|X|, |Y|)."""

    @abstractmethod
    def rows(self, index: Any) -> Any:
        """d[index, :] for an integer array (or slice) of useful symbols: shape (len(index), |Y|)."""

    def matrix(self) -> Any:
        """All of d, shape (|X|, |Y|)."""
        return self.rows(slice(None))


class Matrix(AbstractDistortion):
    """A stored table `values[x, y]`: any finite numbers."""

    values: Any

    def __init__(self, values: Any, name: str = "distortion"):
        self.values = finite(real_array(values, name, ndim=2), name)

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape

    def rows(self, index: Any) -> Any:
        return self.values[index]


class Pairwise(AbstractDistortion):
    """`rule(x_features[x], y_features[y])`, computed block by block.

    `rule` receives arrays of shape (n, 1, f) and (1, m, f) and returns their costs, shape (n, m).
    """

    x_features: Any
    y_features: Any
    rule: Callable[[Any, Any], Any]

    @property
    def shape(self) -> tuple[int, int]:
        return self.x_features.shape[0], self.y_features.shape[0]

    def rows(self, index: Any) -> Any:
        return self.rule(self.x_features[index][:, None, :], self.y_features[None, :, :])


def _absolute_rule(x: Any, y: Any) -> Any:
    return abs(x - y).sum(-1)


def _squared_rule(x: Any, y: Any) -> Any:
    return ((x - y) ** 2).sum(-1)


class _ChangedAttributes(eqx.Module):
    weights: Any

    def __call__(self, x: Any, y: Any) -> Any:
        return ((x != y).astype(self.weights.dtype) * self.weights).sum(
            -1
        )  # no implicit promotion: weights may be traced


class _EachPair(eqx.Module):
    """A scalar function of two feature vectors, over all pairs of a block."""

    function: Callable[[Any, Any], Any]

    def __call__(self, x: Any, y: Any) -> Any:
        return jax.vmap(lambda a: jax.vmap(lambda b: self.function(a, b))(y[0]))(x[:, 0])


def _features(value: Any, name: str) -> Any:
    array = finite(real_array(value, name, ndim=(1, 2)), name)
    return array[:, None] if array.ndim == 1 else array


def _feature_pair(x: Any, y: Any) -> tuple[Any, Any]:
    x = _features(x, "x")
    y = x if y is None else _features(y, "y")
    if x.shape[1] != y.shape[1]:
        raise InputError(f"x has {x.shape[1]} feature(s) a symbol, y has {y.shape[1]}; they must agree")
    return x, y


def absolute(x: Any, y: Any = None) -> AbstractDistortion:
    """d(x, y) = |x - y| (summed over features if the values are vectors).

    `x`: values of the useful symbols, shape (|X|,) or (|X|, f); `y`: of the released ones (default `x`).
    """
    return Pairwise(*_feature_pair(x, y), _absolute_rule)


def squared(x: Any, y: Any = None) -> AbstractDistortion:
    """d(x, y) = (x - y)^2 (summed over features). Arguments as for `absolute`."""
    return Pairwise(*_feature_pair(x, y), _squared_rule)


def hamming(x: Any, y: Any = None) -> AbstractDistortion:
    """d(x, y) = 1 if y differs from x, else 0.

    `x`, `y`: alphabet sizes (symbols are then 0, 1, ...) or arrays of numeric symbol codes; `y` defaults to `x`.
    """

    def codes(value: Any, name: str) -> Any:
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            if value < 1:
                raise InputError(f"{name} must be an alphabet size >= 1 or an array of codes")
            return np.arange(value, dtype=np.float64)
        return value

    return Pairwise(*_feature_pair(codes(x, "x"), None if y is None else codes(y, "y")), _ChangedAttributes(np.ones(1)))


def changed_attributes(x: Any, y: Any = None, *, weights: Any = None) -> AbstractDistortion:
    """Attribute-wise Hamming distortion of a product alphabet: d(x, y) = sum_a weights[a] 1{x_a != y_a}.

    `x`, `y`: integer codes, shape (|X|, attributes) and (|Y|, attributes); `weights`: >= 0, default all one
    (the number of changed attributes).
    """
    x, y = _feature_pair(x, y)
    if weights is None:
        weights = np.ones(x.shape[1])
    weights = nonnegative(real_array(weights, "weights", ndim=1), "weights")
    if weights.shape[0] != x.shape[1]:
        raise InputError(f"weights has {weights.shape[0]} entries; the symbols have {x.shape[1]} attribute(s)")
    return Pairwise(x, y, _ChangedAttributes(weights))


def from_function(function: Callable[[Any, Any], Any], x: Any, y: Any = None) -> AbstractDistortion:
    """d(x, y) = function(x_features, y_features), a JAX-traceable function of two feature vectors (f,) to a scalar."""
    if not callable(function):
        raise InputError("function must be callable: function(x_features, y_features) -> scalar")
    return Pairwise(*_feature_pair(x, y), _EachPair(function))


def as_distortion(value: Any, name: str = "distortion") -> AbstractDistortion:
    """`value` itself if it is a distortion, else the stored matrix."""
    return value if isinstance(value, AbstractDistortion) else Matrix(value, name)


def dense(distortion: AbstractDistortion, name: str = "distortion") -> Any:
    """The whole table in float64 (tracers unchanged), checked to be finite and of the declared shape."""
    if is_traced(distortion):
        return distortion.matrix()
    with jax.enable_x64(True):  # a user's rule in jax.numpy must not be rounded to float32
        table = np.asarray(distortion.matrix(), dtype=np.float64)
    if table.shape != distortion.shape:
        raise InputError(f"{name} computes blocks of shape {table.shape}, but declares {distortion.shape}")
    return finite(table, name)
