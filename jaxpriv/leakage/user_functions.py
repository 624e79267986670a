"""A user's JAX function called with NumPy arrays: compiled for a few numbers of rows, for all numbers of rows.

One call runs in tens of microseconds. Operation by operation, JAX would compile every operation for every shape.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache, partial, wraps

import jax
import numpy as np
from jaxtyping import Array, PyTree

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.types import Arr

# Numbers of rows are rounded up to the least one times a power of the growth: three programs serve 16 to 256 rows.
_GROWTH = 4
# The programs used last are kept; each holds its user's function.
_MOST_PROGRAMS = 48


def call(function: Callable[..., object], owner: Hashable, *arrays: Arr, least_rows: int = 16) -> PyTree:
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
        results = program(*filled)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:rows], results)


def _filled(array: np.ndarray, size: int) -> np.ndarray:
    """More rows, equal to the first one (ones where there is none), which whatever is done to the first can take."""
    row = array[:1] if len(array) else np.ones((1, *array.shape[1:]), array.dtype)
    return np.concatenate([array, np.repeat(row, size - len(array), axis=0)])


@lru_cache(maxsize=_MOST_PROGRAMS)
def _compiled(
    function: Callable[..., object], owner: Hashable, shapes: tuple[tuple[tuple[int, ...], np.dtype], ...]
) -> Callable[..., PyTree]:
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    return jax.jit(partial(function, owner)).lower(*arguments).compile()


@lru_cache(maxsize=_MOST_PROGRAMS)
def _traced(function: Callable[..., object], owner: Hashable) -> Callable[..., PyTree]:
    """Traced once, wherever a program has it. JAX's caches hold what is traced as long as its function lives."""
    return jax.jit(partial(function, owner))


def of_rows(function: Callable[..., object]) -> Callable[..., PyTree]:
    """`function(owner, *rows)`, written in JAX for one row of each array, for all rows: of NumPy's by `call`."""

    def every(owner: Hashable, *arrays: Array) -> PyTree:
        return jax.vmap(partial(function, owner))(*arrays)

    @wraps(function)
    def of_all(owner: Hashable, *arrays: Arr) -> PyTree:
        return call(every, owner, *arrays) if xp.of(*arrays) is np else _traced(every, owner)(*arrays)

    return of_all


# Tangents may lie above the values by rounding of the user's function, relative to the numbers compared.
TANGENT_ROUNDING = 1e-9
