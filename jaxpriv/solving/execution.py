"""How compiled code is run: our own JAX settings, and executables that are compiled ahead of time and kept."""

import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxpriv.errors import ResourceError


@contextmanager
def own_settings() -> Iterator[None]:
    """Float64 and NumPy's broadcasting rules for our own work; the caller's JAX settings are put back."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        yield


@contextmanager
def device_errors() -> Iterator[None]:
    """What goes wrong on a device while solving, as an error of ours that says what to do."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        text = str(error)
        if "RESOURCE_EXHAUSTED" in text:
            why = "the device ran out of memory; merge symbols, or run on a larger device or on the CPU"
        elif "UNIMPLEMENTED" in text and ("F64" in text or "float64" in text):
            why = "the device does not compute in float64, which every certificate needs; run on the CPU"
        else:
            why = "the device failed while solving; nothing was returned. Run again, on the CPU if it persists"
        raise ResourceError(why) from error


# Executables by function, structure and shapes: a changed budget is a changed array, never a key.
_EXECUTABLES: OrderedDict[Any, Any] = OrderedDict()
# The least recently used one is dropped: on CPU each maps some 700 pieces of memory, and a process that
# reaches the system's limit (65530 on Linux) is aborted by the compiler.
_MOST_EXECUTABLES = 32


def compiled(function: Any, *args: Any) -> tuple[Any, float]:
    """`function(*args)` compiled ahead of time: a thunk that runs it, and the seconds compiling took (0 if known)."""
    leaves, structure = jax.tree.flatten(args)
    key = (function, structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves), jax.default_backend())
    seconds = 0.0
    found = _EXECUTABLES.get(key)
    if found is None:
        begun = time.perf_counter()

        def own(*arguments: Any) -> Any:  # JAX's caches hold a program as long as its function lives
            return function(*arguments)

        if len(_EXECUTABLES) >= _MOST_EXECUTABLES:
            _EXECUTABLES.popitem(last=False)
        found = _EXECUTABLES[key] = jax.jit(own).lower(*args).compile()
        seconds = time.perf_counter() - begun
    _EXECUTABLES.move_to_end(key)
    return partial(found, *args), seconds


def on_host(function: Any, *args: Any) -> tuple[Any, float]:
    """The results of `compiled(function, *args)` as NumPy arrays, and the seconds compiling took."""
    run, seconds = compiled(function, *args)
    # On a CPU `jax.device_get` does the same in 50 us more, a hundredth of a small solve.
    return jax.tree.map(np.asarray, run()), seconds
