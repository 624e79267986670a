"""How compiled code is run: our own JAX settings, and executables that are compiled ahead of time and kept."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax


@contextmanager
def own_settings() -> Iterator[None]:
    """Float64 and NumPy's broadcasting rules for our own work; the caller's JAX settings are put back."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        yield


# Executables by function, structure and shapes: a changed budget is a changed array, never a key.
_EXECUTABLES: dict[Any, Any] = {}


def compiled(function: Any, *args: Any) -> tuple[Any, float]:
    """`function(*args)` compiled ahead of time: a thunk that runs it, and the seconds compiling took (0 if known)."""
    leaves, structure = jax.tree.flatten(args)
    key = (function, structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves), jax.default_backend())
    seconds = 0.0
    if key not in _EXECUTABLES:
        begun = time.perf_counter()
        _EXECUTABLES[key] = jax.jit(function).lower(*args).compile()
        seconds = time.perf_counter() - begun
    return partial(_EXECUTABLES[key], *args), seconds
