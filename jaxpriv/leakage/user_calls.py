"""A user's JAX function called with NumPy arrays: compiled for a few numbers of rows, for all numbers of rows.

One call runs in tens of microseconds. Operation by operation, JAX would compile every operation for every shape.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from jaxpriv._types import Arr

# Numbers of rows are rounded up to the least one times a power of the growth: three programs serve 16 to 256 rows.
_GROWTH = 4
# The programs used last are kept; each holds its user's function.
_MOST_PROGRAMS = 48


def call(function: Callable[..., Any], owner: Hashable, *arrays: Arr, least_rows: int = 16) -> PyTree:
    """function(owner, *arrays) as NumPy arrays, in the arrays' own precision.

    `function` maps rows (the first axis, of equal length) to rows, each by itself; it stands in a module, and owners
    that are equal give equal results: the pair is what a compiled program is kept by.
    """
    rows, size = len(arrays[0]), least_rows
    while size < rows:
        size *= _GROWTH
    filled = [_filled(np.asarray(array), size) for array in arrays]
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        program = _compiled(function, owner, tuple((array.shape, array.dtype) for array in filled))
        found = program(*filled)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:rows], found)


def _filled(array: np.ndarray, size: int) -> np.ndarray:
    """More rows, equal to the first one (ones where there is none), which whatever is done to the first can take."""
    missing = size - len(array)
    if missing == 0:
        return array
    row = array[:1] if len(array) else np.ones((1, *array.shape[1:]), array.dtype)
    return np.concatenate([array, np.repeat(row, missing, axis=0)])


@lru_cache(maxsize=_MOST_PROGRAMS)
def _compiled(function: Callable[..., Any], owner: Hashable, shapes: tuple[Any, ...]) -> Callable[..., Any]:
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    return jax.jit(lambda *arrays: function(owner, *arrays)).lower(*arguments).compile()
