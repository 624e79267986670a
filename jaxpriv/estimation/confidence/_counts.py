"""Tables of counts at the border: whole numbers from the first line to the last, never a proportion times n."""

import numpy as np

from jaxpriv._validation import nonnegative, real_array, scalar
from jaxpriv.errors import InputError

# Above it float64, in which the radii are computed, skips whole numbers.
LARGEST = 2**53


def count_array(value: object, name: str = "counts", *, ndim: int | tuple[int, ...] = 2) -> np.ndarray:
    """`value` as int64 counts: whole numbers >= 0 with a total below 2^53; all zero is allowed (nothing was seen).

    Raises `InputError` with name and position for bools, floats (a count that was divided or scaled on
    its way is no count any more), NaN, negative entries, masked entries and empty axes.
    """
    array = nonnegative(real_array(value, name, ndim=ndim), name)
    if np.asarray(value).dtype.kind == "f":
        raise InputError(f"{name} has dtype {np.asarray(value).dtype}; counts must be integers")
    if not float(array.sum()) < LARGEST:
        raise InputError(f"{name} has a total of 2^53 or more")
    return np.asarray(value).astype(np.int64)


def possible_array(value: object, counts: np.ndarray, name: str = "possible") -> np.ndarray:
    """`(s, x)` bool: which pairs the population can have at all; None: every pair.

    Raises `InputError` if the shape differs from that of the counts, entries are no truth values, a private
    symbol has no possible pair, or a pair that was counted is declared impossible.
    """
    shape = counts.shape[-2:]
    if value is None:
        return np.ones(shape, bool)
    array = np.asarray(value)
    if array.dtype != np.bool_:
        numbers = nonnegative(real_array(value, name, ndim=2), name)
        if not np.all((numbers == 0) | (numbers == 1)):
            raise InputError(f"{name} must hold truth values: true/false or 0/1")
        array = numbers == 1
    if array.shape != shape:
        raise InputError(f"{name} has shape {array.shape}, but the counts have shape {shape}")
    if not array.any(axis=1).all():
        raise InputError(f"{name}: row {int(np.argmin(array.any(axis=1)))} has no possible pair")
    seen = (counts > 0).any(axis=tuple(range(counts.ndim - 2)))
    if np.any(seen & ~array):
        s, x = (int(i) for i in np.argwhere(seen & ~array)[0])
        raise InputError(f"{name}[{s}, {x}] says that the pair cannot occur, but counts[{s}, {x}] is positive")
    return array


def failure(value: object, name: str = "beta") -> float:
    """A probability of error in (0, 1)."""
    beta = scalar(value, name, low=0.0, high=1.0, open_low=True)
    if not beta < 1:
        raise InputError(f"{name} must be below 1")
    return beta
