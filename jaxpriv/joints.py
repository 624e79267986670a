"""The joint distribution P(S,X) as an operator: `columns(index)` gives P(s, x) for some x.

`Stored` holds the table. `Computed` evaluates a user's likelihood from features of x, so that a
large alphabet needs no table at all.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree
from numpy.typing import DTypeLike

from jaxpriv._types import Arr, ArrayInput
from jaxpriv._validation import finite, is_traced, joint_array, real_array
from jaxpriv.errors import InputError

# Columns that are evaluated at a time while an operator is checked.
_CHECKED = 4096


class AbstractJoint(eqx.Module):
    """P(S=s, X=x) >= 0 with total one, on alphabets of sizes `shape = (|S|, |X|)`."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(|S|, |X|)."""

    @abstractmethod
    def columns(self, index: Arr) -> Arr:
        """P(s, x) for an integer array of useful symbols: shape (|S|, len(index))."""

    @abstractmethod
    def as_dtype(self, dtype: DTypeLike) -> "AbstractJoint":
        """The same joint computing in another precision (outside of jit)."""

    def matrix(self) -> Arr:
        """The whole table, shape (|S|, |X|)."""
        return self.columns(np.arange(self.shape[1]))


class Stored(AbstractJoint):
    """A table `values[s, x]`."""

    values: Arr = eqx.field(converter=lambda v: v if hasattr(v, "shape") else np.asarray(v, dtype=np.float64))

    def __check_init__(self) -> None:
        if len(self.values.shape) != 2:
            raise InputError(f"joint: a stored table has two axes (s, x), not shape {tuple(self.values.shape)}")

    @property
    def shape(self) -> tuple[int, int]:
        private, inputs = self.values.shape
        return private, inputs

    def columns(self, index: Arr) -> Arr:
        return self.values[:, index]

    def as_dtype(self, dtype: DTypeLike) -> "AbstractJoint":
        return Stored(np.asarray(self.values).astype(dtype))


class Computed(AbstractJoint):
    """`likelihood(features[x]) / total`, shape (|S|,) for each x."""

    features: Arr  # (|X|, f)
    total: Any  # (), of either library: the sum of the likelihood over s and x
    private: int = eqx.field(static=True)
    likelihood: Callable[[PyTree], PyTree] = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, int]:
        return self.private, self.features.shape[0]

    def columns(self, index: Arr) -> Arr:
        return jax.vmap(self.likelihood)(jnp.asarray(self.features)[index]).T.astype(self.total.dtype) / self.total

    def as_dtype(self, dtype: DTypeLike) -> "AbstractJoint":
        return self  # a user's function is evaluated as it was checked; what it returns is rounded


def from_function(
    likelihood: Callable[[Array], ArrayInput], features: ArrayInput, name: str = "joint"
) -> AbstractJoint:
    """The joint with P(s, x) proportional to `likelihood(features[x])[s]`, computed on demand.

    Args:
        likelihood: a JAX-traceable function of one feature vector (f,) that returns (|S|,) numbers >= 0;
            they need not be normalised, here they are divided by their sum over s and x.
        features: values of the useful symbols, (|X|,) or (|X|, f).

    Raises:
        InputError: the function returns another shape, or (naming the position) NaN, infinite or negative
            numbers, or only zeros. Every column is evaluated once to find out.
    """
    if not callable(likelihood):
        raise InputError("likelihood must be callable: likelihood(x_features) -> (|S|,) numbers")
    array = finite(real_array(features, "features", ndim=(1, 2)), "features")
    array = array[:, None] if array.ndim == 1 else array
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        out = jax.eval_shape(likelihood, jax.ShapeDtypeStruct(array.shape[1:], jnp.float64))
        if getattr(out, "ndim", None) != 1 or out.shape[0] == 0:
            shape = getattr(out, "shape", type(out).__name__)
            raise InputError(f"{name}: likelihood must return an array of shape (|S|,), not {shape}")
        if not (jnp.issubdtype(out.dtype, jnp.floating) or jnp.issubdtype(out.dtype, jnp.integer)):
            raise InputError(f"{name}: likelihood returns {out.dtype}; real numbers are needed")
        unnormalised = Computed(array, np.float64(1.0), out.shape[0], likelihood)
        evaluate = eqx.filter_jit(lambda joint, index: joint.columns(index))
        total = 0.0
        for start in range(0, array.shape[0], _CHECKED):
            columns = np.asarray(
                evaluate(unnormalised, np.minimum(np.arange(start, start + _CHECKED), array.shape[0] - 1))
            )
            columns = columns[:, : array.shape[0] - start]
            bad = ~(np.isfinite(columns) & (columns >= 0))
            if bad.any():
                s, x = (int(i) for i in np.argwhere(bad)[0])
                kind = "negative" if columns[s, x] < 0 else "not finite"
                raise InputError(f"{name}: the likelihood at [{s}, {start + x}] (axes s, x) is {kind}")
            total += float(columns.sum())
    if not (total > 0 and np.isfinite(total)):
        raise InputError(f"{name} has no finite positive mass: the likelihoods sum to {total:g}")
    return Computed(array, np.float64(total), out.shape[0], likelihood)


def in_double(joint: AbstractJoint) -> AbstractJoint:
    """The joint in float64, its columns checked to be that and of the declared shape.

    Raises `InputError` for columns of another type or shape.
    """
    double, size = joint.as_dtype(np.float64), min(2, joint.shape[1])
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        got = jax.eval_shape(lambda operator: operator.columns(jnp.arange(size)), double)
    shape, dtype = getattr(got, "shape", None), getattr(got, "dtype", None)
    if shape != (joint.shape[0], size):
        raise InputError(f"joint computes columns of shape {shape} for {size} symbols, but declares {joint.shape}")
    if dtype != np.float64:
        raise InputError(f"joint computes columns of {dtype} after as_dtype(float64)")
    return double


def as_joint(value: object) -> AbstractJoint:
    """`value` itself if it is an operator, else the stored and checked table."""
    if isinstance(value, AbstractJoint):
        return value
    return Stored(joint_array(value) if not is_traced(value) else jnp.asarray(value))
