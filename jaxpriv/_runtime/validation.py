"""Eager checks of array arguments: positive form, name and position, no data value in a message.

Every check is written in its positive form ("is finite and >= 0"), because NaN passes every
negated comparison. Tracers pass through: their values are unknown while a function is traced,
so under `jit` only shapes and dtypes are checked. The overloads have that in the types: what is annotated with
`jax.Array` may be a tracer and stays one; anything else becomes a host array or a float.
"""

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from jaxpriv._runtime.importing import Forks
from jaxpriv._runtime.lanes import LaneArray
from jaxpriv._runtime.resources import MERGE, fits, need_memory
from jaxpriv._runtime.types import Arr, ArrLike
from jaxpriv.errors import InputError, ResourceError

A = TypeVar("A", bound=Arr)
T = TypeVar("T")
P = ParamSpec("P")

# A distribution whose total is this close to one is taken as rounded and renormalised; in a precision below float64
# it may be this many roundings (of its own epsilon) away.
SUM_TOLERANCE = 1e-9
_ROUNDINGS = 16  # a row rounded entry by entry is off by half of one at most; the rest is for how it was made

# Types of plain values: no tracer is one, none holds one, and reading the type takes a tenth of the time that
# flattening a tree takes.
_UNTRACED = frozenset((np.ndarray, np.float64, float, int, bool, str, type(None)))


def is_traced(*values: object) -> bool:
    """Whether any array among `values` is a tracer (we are inside jit, vmap or grad), or differs between lanes."""
    for value in values:
        if type(value) in _UNTRACED:
            continue
        if any(isinstance(leaf, Tracer | LaneArray) for leaf in jax.tree.leaves(value)):
            return True
    return False


def on_host(*values: object) -> None:
    """Refuse traced values."""
    if is_traced(values):
        raise InputError("this function runs on the host; inside jit, vmap or grad call measure(joint, mechanism)")


def host_only(function: Callable[P, T]) -> Callable[P, T]:
    """`function`, which refuses traced values in its arguments."""

    @wraps(function)
    def refusing(*args: P.args, **kwargs: P.kwargs) -> T:
        if is_traced(args, kwargs):
            raise InputError(f"{function.__name__} runs on the host, outside of jit, vmap and grad")
        return function(*args, **kwargs)

    return refusing


def per_nat(units: str) -> float:
    """The factor from nats to `units`, "nats" or "bits"; `InputError` for others."""
    if not isinstance(units, str) or units not in ("nats", "bits"):
        raise InputError("units must be 'nats' or 'bits'")
    return 1.0 if units == "nats" else 1.0 / math.log(2.0)


def refuse_after_fork() -> None:
    """A computation would wait without end for threads that a fork does not copy."""
    if Forks.useless:
        raise ResourceError(
            "this process was forked from one in which JAX had already started, and JAX cannot compute in it; start "
            "workers by 'spawn' or 'forkserver' (multiprocessing.set_start_method), or fork before anything is computed"
        )


def before_computing(what: str, numbers: float, *arrays: ArrLike) -> None:
    """Refuse an eager computation on `arrays` where JAX would wait without end, or try for memory that is not there.

    `numbers`: how many are held at a time, in the precision of the arrays. Nothing is refused while a function is
    traced, and memory is that of the host: on another device JAX's own error stands.

    Raises:
        ResourceError: in a forked child of a process in which JAX has run, or beyond the free memory.
    """
    if is_traced(*arrays):
        return
    refuse_after_fork()
    # Not jnp.result_type: it warns of float64 arrays where JAX computes in float32.
    widest = max(np.dtype(getattr(array, "dtype", float)).itemsize for array in arrays)
    size = numbers * (widest if jax.config.jax_enable_x64 else min(widest, 4))
    if not fits(size) and jax.default_backend() == "cpu":
        need_memory(size, what, MERGE)


def _position(name: str, index: Sequence[int]) -> str:
    return f"{name}[{', '.join(str(int(i)) for i in index)}]" if len(index) else name


def _first(mask: Arr | np.bool_) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])  # of a single number: ()


@overload
def real_array(value: Array, name: str, *, ndim: int | tuple[int, ...]) -> Arr: ...
@overload
def real_array(value: object, name: str, *, ndim: int | tuple[int, ...]) -> np.ndarray: ...
def real_array(value: object, name: str, *, ndim: int | tuple[int, ...]) -> Arr:
    """`value` as a float64 host array (tracers unchanged) with the right rank and no empty axis.

    `ResourceError` before the copy if memory does not suffice.
    """
    allowed = (ndim,) if isinstance(ndim, int) else ndim
    if is_traced(value):
        array = jnp.asarray(value)  # a list of tracers is an array too
    else:
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            index = _first(np.ma.getmaskarray(value))
            raise InputError(f"{_position(name, index)} is masked; fill or drop masked entries first")
        try:
            array = np.asarray(value)
        except (ValueError, TypeError) as error:
            raise InputError(f"{name} is not a rectangular array of numbers") from error
        if array.dtype.kind not in "iuf":
            raise InputError(f"{name} has dtype {array.dtype}; real numbers (integer or float) are needed")
        # This copy, and the one that is divided by its total.
        need_memory(16.0 * math.prod(array.shape), f"{name} of shape {array.shape} in float64", MERGE)
        array = array.astype(np.float64)
    if array.ndim not in allowed:
        wanted = " or ".join(str(n) for n in allowed)
        raise InputError(f"{name} has {array.ndim} dimension(s) (shape {tuple(array.shape)}); {wanted} needed")
    for axis, size in enumerate(array.shape):
        if size == 0:
            raise InputError(f"{name} is empty along axis {axis} (shape {tuple(array.shape)})")
    return array


def finite(array: A, name: str) -> A:
    """Refuse NaN and infinities, naming the first."""
    if not is_traced(array) and not np.all(np.isfinite(array)):
        index = _first(~np.isfinite(array))
        kind = "NaN" if np.isnan(array[index]) else "infinite"
        raise InputError(f"{_position(name, index)} is {kind}")
    return array


def above_minus_infinity(array: A, name: str) -> A:
    """Refuse NaN and -inf, naming the first."""
    if not is_traced(array) and not np.all(array > -np.inf):
        index = _first(~(array > -np.inf))
        kind = "NaN" if np.isnan(array[index]) else "-inf; a pair of symbols is forbidden by inf"
        raise InputError(f"{_position(name, index)} is {kind}")
    return array


def nonnegative(array: A, name: str) -> A:
    """Refuse negative entries, naming the first; NaN and infinities too."""
    finite(array, name)
    if not is_traced(array) and not np.all(array >= 0):
        raise InputError(f"{_position(name, _first(~(array >= 0)))} is negative")
    return array


def truth_array(value: object, name: str) -> np.ndarray:
    """A table of truth values: true and false, or 0 and 1."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} is not a rectangular array of truth values") from error
    if array.dtype == np.bool_:
        return array
    numbers = nonnegative(real_array(value, name, ndim=2), name)
    odd = (numbers != 0) & (numbers != 1)
    if odd.any():
        raise InputError(f"{_position(name, _first(odd))} is neither true/false nor 0/1")
    return numbers == 1


def sum_tolerance(value: object) -> float:
    """How far from 1 the total of a distribution may be: 1e-9, or 16 epsilons of a lower precision (float32: 2e-6)."""
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind == "f" and dtype.itemsize < 8:
        return _ROUNDINGS * float(np.finfo(str(dtype)).eps)
    return SUM_TOLERANCE


@overload
def joint_array(value: Array, name: str = "joint", *, normalise: bool = False) -> Arr: ...
@overload
def joint_array(value: object, name: str = "joint", *, normalise: bool = False) -> np.ndarray: ...
def joint_array(value: object, name: str = "joint", *, normalise: bool = False) -> Arr:
    """A joint distribution `(s, x)`: finite, >= 0, total one.

    A total within 1e-9 of one (of a float32 array: 2e-6, see `sum_tolerance`) is rounding and is divided out.
    Any other total is an error, because counts and unnormalised tables are different things: pass
    `normalise=True`, or build the joint with `probability.from_counts`. One axis `(x,)` (not with `normalise`) is
    P(X) where X itself is private: the joint is then diagonal.
    """
    array = nonnegative(real_array(value, name, ndim=2 if normalise else (1, 2)), name)
    prior = array.ndim == 1
    if prior:
        need_memory(16.0 * len(array) ** 2, f"the joint of {len(array)} symbols with themselves", MERGE)
        array = (jnp if is_traced(array) else np).diag(array)
    if is_traced(array):
        return array
    largest = float(array.max())
    if not largest > 0:
        raise InputError(f"{name} has no mass: every entry is zero")
    if normalise:  # the sum of huge entries may overflow
        array = array / largest
    total = float(array.sum())
    if not (normalise or abs(total - 1) <= sum_tolerance(value)):
        hint = "; one axis is P(X), with S = X" if prior else ""
        raise InputError(
            f"{name} sums to {total:.12g}, not 1; use jaxpriv.probability.from_counts for a table of counts{hint}"
        )
    return array / total


@overload
def mechanism_array(value: Array, name: str = "mechanism", *, inputs: int | None = None) -> Arr: ...
@overload
def mechanism_array(value: object, name: str = "mechanism", *, inputs: int | None = None) -> np.ndarray: ...
def mechanism_array(value: object, name: str = "mechanism", *, inputs: int | None = None) -> Arr:
    """A mechanism `(x, y)`: finite, >= 0, every ROW sums to one (`mechanism[x, y] = P(y | x)`).

    Rows within `sum_tolerance` of one are divided by their sums.
    """
    array = nonnegative(real_array(value, name, ndim=2), name)
    if inputs is not None and array.shape[0] != inputs:
        hint = "; it looks transposed" if array.shape[1] == inputs else ""
        raise InputError(
            f"{name} has {array.shape[0]} rows (axis x), but the joint has {inputs} useful symbols (axis x){hint}"
        )
    if is_traced(array):
        return array
    rows = array.sum(axis=1)
    tolerance = sum_tolerance(value)
    bad = ~(np.abs(rows - 1) <= tolerance)
    if np.any(bad):
        columns = array.sum(axis=0)
        hint = "; its columns do: it looks transposed" if np.all(np.abs(columns - 1) <= tolerance) else ""
        raise InputError(f"{name}: row {_first(bad)[0]} sums to {rows[bad][0]:.12g}; rows (axis x) must sum to 1{hint}")
    return array / rows[:, None]


@overload
def scalar(
    value: Array, name: str, *, low: float = ..., high: float = ..., open_low: bool = ..., infinite: bool = ...
) -> float | Array: ...
@overload
def scalar(
    value: object, name: str, *, low: float = ..., high: float = ..., open_low: bool = ..., infinite: bool = ...
) -> float: ...
def scalar(
    value: object,
    name: str,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    open_low: bool = False,
    infinite: bool = False,
) -> float | Array:
    """A real number in `[low, high]` (`(low, high]` if `open_low`); finite unless `infinite`. Bools are refused."""
    if is_traced(value):
        if not isinstance(value, Array) or value.shape != ():
            raise InputError(f"{name} must be a single number, not shape {np.shape(value)}")
        return value
    if isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be a number, not a bool")
    number = value if type(value) is float else float(real_array(value, name, ndim=0))
    inside = (number > low if open_low else number >= low) and number <= high
    if not (inside and (infinite or np.isfinite(number))):
        limits = [f"{'>' if open_low else '>='} {low:g}"] if low > -np.inf else []
        limits += [f"<= {high:g}"] if high < np.inf else []
        wanted = " ".join(["number" if infinite else "finite number", *[" and ".join(limits)] * bool(limits)])
        raise InputError(f"{name} must be a {wanted}{', not NaN' if np.isnan(number) else ''}")
    return number


def flag(value: object, name: str) -> bool:
    """True or False; other values, such as the text "False", are refused."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False")
    return bool(value)


def instance(value: object, name: str, *kinds: type, hint: str = "") -> None:
    """`InputError` unless `value` is of one of the kinds; `hint` says how one is made."""
    if not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise InputError(f"{name} must be of type {wanted}, not {type(value).__name__}{hint}")


def listed(value: object, name: str) -> list[Any]:
    """The entries of a list, tuple or array, or of anything else that can be iterated but text."""
    scalar_array = getattr(value, "ndim", 1) == 0
    if isinstance(value, str | bytes) or not isinstance(value, Iterable) or scalar_array:
        raise InputError(f"{name} must be a sequence, not {type(value).__name__}")
    return list(value)


def by_column(value: object, name: str) -> None:
    """`InputError` for what is neither a mapping nor None."""
    if not isinstance(value, Mapping | None):
        raise InputError(f"{name} must be a mapping from columns, not {type(value).__name__}")


def texts(value: object, name: str) -> list[str]:
    """The entries of a sequence of texts."""
    entries = listed(value, name)
    if not all(isinstance(entry, str) for entry in entries):
        raise InputError(f"{name} must be a sequence of texts")
    return entries


def whole(value: object, name: str, *, low: float) -> int:
    """A whole number >= `low` that float64 holds exactly (below 2^53). Bools and traced values are refused."""
    if is_traced(value):
        raise InputError(f"{name} is traced; it must be a whole number outside of jit, vmap and grad")
    if type(value) is int and abs(value) >= 2**53:  # of any size: no float64 may be made of it
        raise InputError(f"{name} must be a whole number below 2^53")
    number = scalar(value, name, low=low)
    if not (number == int(number) and number < 2**53):
        raise InputError(f"{name} must be a whole number{' below 2^53' if number >= 2**53 else ''}")
    return int(number)


def index(value: object, name: str, *, low: int, high: int = 2**53 - 1) -> int:
    """A whole number in `[low, high]`; bools, and floats like 2.0, are refused."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        number = None
    if number is None or not low <= number <= high:
        end = "below 2^53" if high == 2**53 - 1 else f"<= {high}"
        raise InputError(f"{name} must be a whole number >= {low} and {end}")
    return number


def check_fields(settings: object, check: Callable[[object, str], object], *names: str) -> None:
    """`check(value, name)` of each of these fields, which are plain values: compiled code is found again by them."""
    for name in names:
        value, field = getattr(settings, name), f"{type(settings).__name__}: {name}"
        if isinstance(value, np.ndarray | Array):
            raise InputError(f"{field} must be a plain value, not an array")
        check(value, field)


COUNT, COUNT_OR_ZERO = partial(index, low=1), partial(index, low=0)  # of steps, cells, starts
POSITIVE = partial(scalar, low=0.0, open_low=True)  # sizes
SHARE = partial(POSITIVE, high=1.0)  # a share of nothing is no setting
