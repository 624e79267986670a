"""Counts of samples: their validation, and the radius of the L1 ball around their frequencies."""

import math

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.validation import nonnegative, real_array, scalar, whole
from jaxpriv.errors import InputError

# Validation of integer count tables: a proportion times n is refused.


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


def failure(value: object, name: str = "beta") -> float:
    """A probability in (0, 1): of error, or of being right."""
    number = scalar(value, name, low=0.0, open_low=True)
    if not number < 1:
        raise InputError(f"{name} must be a number > 0 and < 1")
    return number


UP = 1 + 1e-12  # the roundings of a few elementary functions


def _log_subsets(cells: int) -> float:
    """ln(2^k - 2)."""
    return cells * math.log(2.0) + math.log1p(-(2.0 ** (1 - cells)))


def weissman_radius(cells: ArrayLike, draws: ArrayLike, beta: ArrayLike) -> float:
    """|P^ - P|_1 <= radius with probability 1 - beta (Weissman et al. 2003)."""
    k, n, beta = whole(cells, "cells", low=1.0), whole(draws, "draws", low=0.0), failure(beta)
    if k == 1:
        return 0.0
    if n == 0:
        return 2.0
    return min(2.0, math.sqrt(2 / n * (_log_subsets(k) - math.log(beta))) * UP)


def mcdiarmid_radius(cells: ArrayLike, draws: ArrayLike, beta: ArrayLike) -> float:
    """|P^ - P|_1 <= radius with probability 1 - beta (expectation and bounded differences)."""
    k, n, beta = whole(cells, "cells", low=1.0), whole(draws, "draws", low=0.0), failure(beta)
    if k == 1:
        return 0.0
    if n == 0:
        return 2.0
    return min(2.0, (math.sqrt((k - 1) / n) + math.sqrt(-2 * math.log(beta) / n)) * UP)


def l1_radius(cells: ArrayLike, draws: ArrayLike, beta: ArrayLike) -> float:
    """The smaller of Weissman's and McDiarmid's radius: the choice depends on `cells`, `draws`, `beta` only."""
    return min(weissman_radius(cells, draws, beta), mcdiarmid_radius(cells, draws, beta))
