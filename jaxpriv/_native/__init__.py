"""Kernels in C for the CPU, where XLA's own are slow: optional, and the same numbers to rounding.

`kernels.c` is compiled when the package is built, if there is a C compiler (`hatch_build.py`). Without it,
with another jaxlib than the one it was compiled for, on another device, in float32 and under
differentiation, the portable JAX code that every kernel stands for is what runs.
"""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jaxlib.version
from jax import lax

LIBRARY = Path(__file__).with_name("kernels.so")
# Name of a kernel in the library, and what XLA knows it by.
_TARGETS = {name: f"{name}_v1" for name in ("jaxpriv_columns", "jaxpriv_solve", "jaxpriv_inverse_factor")}


@functools.cache
def absence() -> str | None:
    """Why there are no kernels in C here, or None. The first call loads them and makes them known to XLA."""
    if not LIBRARY.is_file():
        return "not compiled when jaxpriv was installed: no C compiler, or it failed"
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        return f"{LIBRARY.name} does not load: {error}"
    library.jaxpriv_compiled_for.restype = ctypes.c_char_p
    built = library.jaxpriv_compiled_for().decode()
    if built != jaxlib.version.__version__:
        return f"compiled for jaxlib {built}, and this is {jaxlib.version.__version__}: install jaxpriv again"
    try:
        kernels = {target: getattr(library, symbol) for symbol, target in _TARGETS.items()}
    except AttributeError:
        return "compiled from an older source: install jaxpriv again"
    for target, kernel in kernels.items():
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(kernel), platform="cpu")
    return None


def instruction_set() -> str | None:
    """The instructions that the kernels use on this machine, None without kernels."""
    if absence() is not None:
        return None
    library = ctypes.CDLL(str(LIBRARY))
    library.jaxpriv_instructions.restype = ctypes.c_char_p
    return library.jaxpriv_instructions().decode()


def with_kernel(symbol: str, shapes: Callable[..., Any], portable: Callable[..., Any]) -> Callable[..., Any]:
    """`portable`, run by the kernel `symbol` where that can be.

    `shapes(*args)` gives the shapes of the results; a batch is a leading axis of every argument.
    """

    def kernel(*args: Any) -> Any:
        results = jax.tree.map(
            lambda shape: jax.ShapeDtypeStruct(shape, "float64"), shapes(*args), is_leaf=lambda s: isinstance(s[0], int)
        )
        return jax.ffi.ffi_call(_TARGETS[symbol], results, vmap_method="broadcast_all")(*args)

    @jax.custom_jvp
    def either(*args: Any) -> Any:
        if absence() is not None or any(arg.dtype != "float64" for arg in args):
            return portable(*args)
        return lax.platform_dependent(*args, cpu=kernel, default=portable)

    @either.defjvp
    def _(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        return jax.jvp(portable, primals, tangents)

    return either
