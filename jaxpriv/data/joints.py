"""The joint distribution P(S,X) as an operator: `columns(index)` gives P(s, x) for some x.

`Stored` holds the table, `Sharded` one whose columns lie on several devices, of one process or of several. `Computed`
evaluates a user's likelihood from features of x, so that a large alphabet needs no table at all.
"""

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree
from numpy.typing import DTypeLike

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.importing import names_of
from jaxpriv._runtime.types import Arr, ArrayInput, Result
from jaxpriv._runtime.validation import finite, is_traced, real_array, sum_tolerance
from jaxpriv.errors import InputError

__dir__ = names_of(__name__)

# Columns that are evaluated or collected at a time.
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


def _table(values: Arr) -> Arr:
    return values if hasattr(values, "shape") else np.asarray(values, dtype=np.float64)


class Stored(AbstractJoint):
    """A table `values[s, x]`."""

    values: Arr = eqx.field(converter=_table)

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


class Sharded(AbstractJoint):
    """A table `values[s, x]` whose columns lie on the devices of a mesh: in order, and equally many on each.

    A stream over the useful symbols gives each device its own columns alone (`part`). Anywhere else `columns` collects
    those requested, on all devices; all processes of the mesh have to request the same ones.
    """

    values: Arr  # (S, X); of a part (S, X / devices)
    first: Arr | None  # () the useful symbol of the first column of a part; None of the whole
    inputs: int = eqx.field(static=True)  # |X|, of a part too
    mesh: Mesh = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.inputs

    @property
    def held(self) -> int:
        """How many of the columns this process holds."""
        return self.inputs * len(self.mesh.local_devices) // self.mesh.size

    def columns(self, index: Arr) -> Arr:
        if self.first is None:
            return _collected(self.mesh)(self.values, index)
        return self.values[:, index - self.first]

    def part(self, values: Arr, first: Arr) -> "Sharded":
        """The columns `values` of one device, of which the first is that of the useful symbol `first`."""
        return Sharded(values, first, self.inputs, self.mesh)

    def as_dtype(self, dtype: DTypeLike) -> "AbstractJoint":
        with jax.enable_x64(True):
            return Sharded(self.values.astype(np.dtype(dtype)), self.first, self.inputs, self.mesh)


@functools.cache
def _collected(mesh: Mesh) -> Callable[[Arr, Arr], Arr]:
    """Columns of a sharded table, on every device of its mesh."""

    def columns(values: Arr, index: Arr) -> Arr:
        return values[:, index]

    return jax.jit(columns, out_shardings=NamedSharding(mesh, PartitionSpec()))


class Computed(AbstractJoint):
    """`likelihood(features[x]) / total`, shape (|S|,) for each x."""

    features: Arr  # (|X|, f)
    total: Result  # (): the sum of the likelihood over s and x
    private: int = eqx.field(static=True)
    likelihood: Callable[[PyTree], PyTree] = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, int]:
        return self.private, self.features.shape[0]

    @xp.double_on_host
    def columns(self, index: Arr) -> Arr:
        return jax.vmap(self.likelihood)(jnp.asarray(self.features)[index]).T.astype(self.total.dtype) / self.total

    def as_dtype(self, dtype: DTypeLike) -> "AbstractJoint":
        return self  # a user's function is evaluated as it was checked; what it returns is rounded


@eqx.filter_jit
def _columns(joint: AbstractJoint, index: Arr) -> Arr:
    return joint.columns(index)


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
        total = 0.0
        for start in range(0, array.shape[0], _CHECKED):
            columns = np.asarray(
                _columns(unnormalised, np.minimum(np.arange(start, start + _CHECKED), array.shape[0] - 1))
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


def sharded(columns: Array, name: str = "joint") -> AbstractJoint:
    """The joint of a table that is cut along x over the devices of a mesh, so that no process has to hold all of it.

    The streaming solvers then run on that mesh, and each device reads its own columns alone. All processes of the mesh
    call this, `solve`, and what reads the mechanism (`rows`, `sample`), with the same arguments. A distortion is
    not cut: each device has all features of a computed one (|X| + |Y| of them), or all |X| |Y| numbers of a table.

    Args:
        columns: P(s, x) (S, X), an array of JAX with the sharding `NamedSharding(mesh, PartitionSpec(None, axis))` on a
            mesh of one axis, such as `jax.make_array_from_process_local_data` makes of the columns of each process. A
            total within 1e-9 of one (of float32: 2e-6) is divided out.

    Raises:
        InputError: another kind of array or sharding, or (naming the position) an entry that is NaN, infinite or
            negative, or another total than one.
    """
    if not isinstance(columns, Array) or is_traced(columns):
        raise InputError(f"{name} must be an array of JAX outside of jit, not {type(columns).__name__}")
    if columns.ndim != 2 or not jnp.issubdtype(columns.dtype, jnp.floating):
        raise InputError(f"{name} must hold real numbers (s, x), not {columns.dtype} of shape {columns.shape}")
    place = columns.sharding
    if not (isinstance(place, NamedSharding) and isinstance(place.mesh, Mesh) and len(place.mesh.axis_names) == 1):
        raise InputError(f"{name}: its sharding must be a NamedSharding on a mesh of one axis")
    along_x = NamedSharding(place.mesh, PartitionSpec(None, place.mesh.axis_names[0]))
    if not place.is_equivalent_to(along_x, 2):
        raise InputError(f"{name} is not sharded along axis 1 (x) alone: PartitionSpec(None, axis) is needed")
    mesh = Mesh(place.mesh.devices, ("x",))
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        double = columns.astype(np.float64)
        everywhere = NamedSharding(mesh, PartitionSpec())
        wrong, x, s, total = (np.asarray(fact) for fact in jax.jit(_facts, out_shardings=everywhere)(double))
        if wrong:
            raise InputError(f"{name} at [{s}, {x}] (axes s, x) is negative or not finite")
        if not abs(total - 1) <= sum_tolerance(columns):
            raise InputError(f"{name} sums to {total:.12g}, not 1")
        return Sharded(double / total, None, columns.shape[1], mesh)


def _facts(values: Arr) -> tuple[Arr, Arr, Arr, Arr]:
    """Whether an entry is no mass, the x and s of the first one, and the total."""
    wrong = ~(jnp.isfinite(values) & (values >= 0))
    columns = wrong.any(axis=0)
    x = columns.argmax()
    return columns.any(), x, wrong[:, x].argmax(), values.sum()


def arrays_of(joint: AbstractJoint) -> Iterator[Arr]:
    """The arrays of a joint; of a sharded one its columns, some at a time, since no process may hold all of them."""
    if not isinstance(joint, Sharded):
        yield from jax.tree.leaves(joint)
        return
    inputs = joint.shape[1]
    for start in range(0, inputs, _CHECKED):
        yield joint.columns(np.arange(start, min(start + _CHECKED, inputs)))


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
