"""Kernels in C for the CPU, where XLA's own are slow: optional, and the same numbers to rounding.

The C files here are compiled into one library when the package is built, if there is a C compiler
(`hatch_build.py`), for AVX-512, for AVX2 and for what every machine of the kind has, or for the one of these that this
machine takes (JAXPRIV_KERNELS=native when it is built); JAXPRIV_KERNELS=avx2 or baseline keeps to less than there is,
for their arithmetic on another machine. The portable code that every kernel stands for
runs in these cases, and where kernels could have been had, the logger `jaxpriv` writes once why there are none:

* without the library, or with another source than it was compiled from;
* where XLA does not take the version of its foreign function interface that the library was compiled for (it takes
  older ones than its own);
* on another device, in a precision that a kernel does not have, and under differentiation;
* with JAXPRIV_KERNELS=off in the environment (read when the first solve is compiled).

Kernels of XLA take NumPy arrays through ctypes, too (`on_arrays`); one is for these alone (`on_host`).
"""

import ctypes
import functools
import hashlib
import logging
import os
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import lax
from jaxtyping import PyTree

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.lanes import LaneArray, spread, with_lanes
from jaxpriv._runtime.resources import processors
from jaxpriv._runtime.types import Arr

_LOGGER = logging.getLogger("jaxpriv")

FOLDER = Path(__file__).parent
LIBRARY = FOLDER / "kernels.so"
SEAL = FOLDER / "kernels.sha256"
SWITCH = "JAXPRIV_KERNELS"
# Name of a kernel in the library, and its name in XLA.
_TARGETS = {
    name: f"{name}_v1"
    for name in (
        "jaxpriv_rows_factor",
        "jaxpriv_rows_solve",
        "jaxpriv_inputs_factor",
        "jaxpriv_inputs_solve",
        "jaxpriv_inverse_factor",
        "jaxpriv_information_call",
        "jaxpriv_least_ratios_call",
        "jaxpriv_limited_information_call",
        "jaxpriv_worst_information_call",
        "jaxpriv_gibbs",
        "jaxpriv_stop",
    )
}
# Values of the switch other than "off", and the bytes of the widest vectors that they allow.
_WIDEST = {"": 64, "native": 64, "avx2": 32, "baseline": 16}


def sources_digest() -> str | None:
    """SHA-256 of the C sources beside the library, None where they were not installed. As in `hatch_build.py`."""
    files = sorted([*FOLDER.glob("*.c"), *FOLDER.glob("*.h")])
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest() if files else None


def chosen() -> str:
    """The value of the environment variable."""
    return os.environ.get(SWITCH, "").lower()


@functools.cache
def absence() -> str | None:
    """Why there are no kernels in C here, or None. The first call loads them and makes them known to XLA."""
    if chosen() == "off":
        return f"switched off by {SWITCH}"
    if chosen() not in _WIDEST:
        return f"{SWITCH} is none of off, native, avx2 and baseline"
    if not LIBRARY.is_file():
        return "not compiled when jaxpriv was installed: no C compiler, or it failed"
    try:
        (seal, *_), digest = SEAL.read_text().split() or [""], hashlib.sha256(LIBRARY.read_bytes()).hexdigest()
    except OSError as error:
        return f"{LIBRARY.name} or its digest cannot be read: {error.strerror}"
    if seal != digest:  # a part that is missing would end the process when it is used
        return f"{LIBRARY.name} is damaged, it has another SHA-256 than when it was compiled: install jaxpriv again"
    try:
        library = ctypes.CDLL(str(LIBRARY))
        library.jaxpriv_compiled_from.restype = ctypes.c_char_p
        kernels = {target: getattr(library, symbol) for symbol, target in _TARGETS.items()}
        library.jaxpriv_use_at_most(_WIDEST[chosen()])
        usable = library.jaxpriv_usable()
    except (OSError, AttributeError) as error:
        return f"{LIBRARY.name} does not load: {error}"
    if sources_digest() not in (None, library.jaxpriv_compiled_from().decode()):
        return "compiled from other C sources than those beside it: install jaxpriv again"
    if not usable:
        return f"compiled for other instructions than this machine has, or than {SWITCH} allows: install jaxpriv again"
    # Before the backend runs, XLA would put the registration off, and one that it refuses would then keep the whole
    # backend from starting.
    try:
        jax.local_devices(backend="cpu")
    except (AssertionError, RuntimeError) as error:  # the first where JAX_PLATFORMS allows absent accelerators alone
        return f"JAX does not run on the CPU here: {error}"
    try:
        for target, kernel in kernels.items():  # XLA reads from each the version of the interface it was compiled for
            jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(kernel), platform="cpu")
    except jax.errors.JaxRuntimeError as error:
        return (
            f"this jaxlib does not take them: {str(error).rstrip('.')}; install jaxpriv again, without build isolation"
        )
    return None


def instruction_set() -> str | None:
    """The instructions that the kernels use on this machine, None without kernels."""
    if absence() is not None:
        return None
    library = ctypes.CDLL(str(LIBRARY))
    library.jaxpriv_instructions.restype = ctypes.c_char_p
    return library.jaxpriv_instructions().decode()


def on_host(symbol: str) -> Callable[..., Any] | None:
    """The function `symbol` of the library, for arrays of the host, called through ctypes (which lets other threads run
    meanwhile); None without kernels.
    """
    reason = absence()
    if reason is not None:
        if chosen() != "off":
            _say(reason)
        return None
    return getattr(ctypes.CDLL(str(LIBRARY)), symbol)


@functools.cache
def frame() -> Callable[..., bytes | None] | None:
    """What hands arrays of the host over to a kernel as XLA does; None without kernels."""
    handed = on_host("jaxpriv_on_host")
    if handed is not None:
        handed.restype = ctypes.c_char_p
        handed.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_void_p]
    return handed


@functools.cache
def _address(symbol: str) -> int | None:
    return ctypes.cast(getattr(ctypes.CDLL(str(LIBRARY)), symbol), ctypes.c_void_p).value


def on_arrays(symbol: str, shapes: tuple[tuple[int, ...], ...], *args: Arr, lanes_of_call: int = 0) -> list[np.ndarray]:
    """`call` on arrays of NumPy; where one of the arguments has lanes, the results have them as a leading axis.

    `lanes_of_call`: the lanes of one call, where threads share the calls; 0: one call, by this thread.

    Raises:
        MemoryError: there is none for the kernel.
    """
    count = next((len(arg.lanes) for arg in args if isinstance(arg, LaneArray)), None)
    given = [np.asarray(arg if count is None else spread(arg, count), np.float64, order="C") for arg in args]
    results: list[np.ndarray] = [np.empty(shape if count is None else (count, *shape)) for shape in shapes]
    if count is None or not 0 < lanes_of_call < count:
        _handed_over(symbol, given, results)
    else:
        parts = [slice(begin, begin + lanes_of_call) for begin in range(0, count, lanes_of_call)]
        with ThreadPoolExecutor(min(processors(), len(parts))) as pool:
            ended = pool.map(
                lambda part: _handed_over(
                    symbol, [argument[part] for argument in given], [result[part] for result in results]
                ),
                parts,
            )
            list(ended)
    return results


def _handed_over(symbol: str, given: list[np.ndarray], results: list[np.ndarray]) -> None:
    described = array("q")
    for buffer in (*given, *results):
        described.extend((buffer.__array_interface__["data"][0], buffer.ndim, *buffer.shape))
    handed = frame()
    assert handed is not None  # the caller asked
    error = handed(_address(symbol), len(given), len(results), described.buffer_info()[0])
    if error is not None:
        raise MemoryError(error.decode())


@functools.cache
def _say(reason: str) -> None:
    """Once in a process. By the logger, which shows it on stderr where logging is not configured: a warning would be an
    error where warnings are, and nothing is wrong with the numbers."""
    _LOGGER.warning("no kernels in C, solves take longer: %s (%s=off silences this line)", reason, SWITCH)


def asked_to_stop(address: Arr, turn: Arr) -> Arr:
    """Whether the int32 of the host at an address (uint64; 0: none) is set: `turn` differs whenever a loop asks.

    Only for programs of the CPU, where the kernels are there.
    """
    shape = jax.ShapeDtypeStruct((1,), np.dtype(np.uint64))
    call = jax.ffi.ffi_call(_TARGETS["jaxpriv_stop"], shape, vmap_method="broadcast_all")
    return call(address[None], turn.astype(np.uint64)[None])[0] > 0


def call(symbol: str, shapes: tuple[tuple[int, ...], ...], *args: Arr) -> list[Arr]:
    """Results of these shapes from a kernel that takes float64: what is not is converted. A batch is a leading axis.

    Only for programs of the CPU, where the kernels are there.
    """
    results = [jax.ShapeDtypeStruct(shape, np.dtype(np.float64)) for shape in shapes]
    target = jax.ffi.ffi_call(_TARGETS[symbol], results, vmap_method="broadcast_all")
    return list(target(*(arg.astype(np.float64) for arg in args)))


def with_kernel(
    symbol: str,
    shapes: Callable[..., PyTree],
    portable: Callable[..., PyTree],
    *,
    dtypes: tuple[str, ...] = ("float64",),
    scratch: Callable[..., PyTree] | None = None,
) -> Callable[..., PyTree]:
    """`portable`, run by the kernel `symbol` where that can be.

    `shapes(*args)` gives the shapes of the results; a batch is a leading axis of every argument. All arguments and
    results have one precision, of those in `dtypes`. `scratch(*args)` is the shape of working memory that the kernel
    gets as a last result: XLA allocates it once for all turns of a loop.
    """

    def kernel(*args: Arr) -> PyTree:
        wanted = shapes(*args) if scratch is None else (*shapes(*args), scratch(*args))
        results = jax.tree.map(
            lambda shape: jax.ShapeDtypeStruct(shape, args[0].dtype), wanted, is_leaf=lambda s: isinstance(s[0], int)
        )
        got = jax.ffi.ffi_call(_TARGETS[symbol], results, vmap_method="broadcast_all")(*args)
        return got if scratch is None else got[:-1]

    @jax.custom_jvp
    def either(*args: Arr) -> PyTree:
        kind = args[0].dtype
        if kind not in dtypes or any(arg.dtype != kind for arg in args):
            return portable(*args)
        reason = absence()
        if reason is not None:
            if chosen() != "off" and jax.default_backend() == "cpu":
                _say(reason)
            return portable(*args)
        return lax.platform_dependent(*args, cpu=kernel, default=portable)

    @either.defjvp
    def _(primals: tuple[PyTree, ...], tangents: tuple[PyTree, ...]) -> PyTree:
        return jax.jvp(portable, primals, tangents)

    def on_numpy(*args: Arr) -> PyTree:
        if scratch is not None or any(arg.dtype != np.float64 for arg in args) or frame() is None:
            return portable(*args)
        wanted = shapes(*args)
        single = isinstance(wanted[0], int)
        results = on_arrays(symbol, (wanted,) if single else wanted, *args)
        if any(isinstance(arg, LaneArray) for arg in args):
            results = [with_lanes(part) for part in results]
        return results[0] if single else tuple(results)

    return lambda *args: on_numpy(*args) if xp.of(*args) is np else either(*args)
