"""How compiled code is run: our own JAX settings, and executables that are compiled ahead of time and kept."""

import ctypes
import functools
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from jaxpriv._forks import refuse_after_fork
from jaxpriv.errors import ResourceError
from jaxpriv.solving import kept
from jaxpriv.solving.program_key import NoKeyError, key_of

_LOGGER = logging.getLogger("jaxpriv")


@contextmanager
def own_settings() -> Iterator[None]:
    """Float64 and NumPy's broadcasting rules for our own work; the caller's JAX settings are put back."""
    refuse_after_fork()
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


# What compiling on a CPU leaves out: XLA's newer fusion emitters and LLVM's expensive passes take up to half the time
# that dense programs take to compile, and make none of them faster. Options come and go with XLA's versions.
_OPTIONS = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_llvm_disable_expensive_passes": True,
    "xla_backend_optimization_level": 1,
}


@functools.cache
def _options(backend: str) -> dict[str, Any]:
    """Those of our options that this XLA knows: each is tried on an empty program, for an unknown one is an error."""
    if backend != "cpu":
        return {}
    empty, known = jax.jit(lambda: 0).lower(), {}
    for name, value in _OPTIONS.items():
        try:
            empty.compile({name: value})
        except jax.errors.JaxRuntimeError:
            continue
        known[name] = value
    return known


class _Program:
    """An executable, once it has been compiled, and the lock of the thread that compiles it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.run: Any = None


class _Loaded:
    """An executable from disk before its first call, which may fail where XLA wrote it incompletely: then compile."""

    def __init__(
        self, program: _Program, name: str, run: Callable[..., PyTree], compile_it: Callable[[], Callable[..., PyTree]]
    ) -> None:
        self.program, self.name, self.run, self.compile_it = program, name, run, compile_it

    def __call__(self, *args: PyTree) -> PyTree:
        try:
            result = jax.block_until_ready(self.run(*args))
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" in str(error):
                raise
            with self.program.lock:  # threads that call it at once: the first compiles
                if self.program.run is self:
                    kept.discard(self.name, "does not run")
                    self.program.run = self.compile_it()
            return self.program.run(*args)
        if self.program.run is self:
            self.program.run = self.run
        return result


# Programs by function, structure and shapes: a changed budget is a changed array, never a key.
_PROGRAMS: OrderedDict[Any, _Program] = OrderedDict()
# The least recently used one is dropped: on CPU each maps some 700 pieces of memory, and a process that
# reaches the system's limit (65530 on Linux) is aborted by the compiler.
_MOST_PROGRAMS = 32
_LOCK = threading.Lock()  # of the table: held for a look-up, never while something compiles


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """glibc's `malloc_trim`, or None with another C library."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def _kept_name(function: Callable[..., PyTree], args: tuple[PyTree, ...], backend: str) -> str | None:
    """The name of the program's executable on disk; None if it is not kept there."""
    if backend != "cpu" or not kept.enabled():
        return None
    try:
        return key_of(function, args, _OPTIONS)
    except NoKeyError as why:
        _LOGGER.debug("an executable is not kept: it depends on %s", why)
        return None


def compiled(function: Callable[..., PyTree], *args: PyTree) -> tuple[Callable[[], PyTree], float]:
    """`function(*args)` compiled ahead of time: a thunk that runs it, and the seconds compiling took (0 if known).

    Executables are kept in memory, and for the next process on disk (`kept`): loading counts as compiling.

    Threads that ask for the same program wait for the one that compiles it; those that ask for others do not.
    """
    refuse_after_fork()
    leaves, structure = jax.tree.flatten(args)
    backend = jax.default_backend()
    key = (function, structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves), backend)
    with _LOCK:
        program = _PROGRAMS.setdefault(key, _Program())
        _PROGRAMS.move_to_end(key)
        if len(_PROGRAMS) > _MOST_PROGRAMS:
            _PROGRAMS.popitem(last=False)
    seconds = 0.0
    with program.lock:
        if program.run is None:
            begun = time.perf_counter()

            def own(*arguments: PyTree) -> PyTree:  # JAX's caches hold a program as long as its function lives
                return function(*arguments)

            name = _kept_name(function, args, backend)

            def compile_it() -> jax.stages.Compiled:
                executable = jax.jit(own).lower(*args).compile(_options(backend))
                if trim := _trim():  # what the compiler has freed, some 180 MB, stays with the process otherwise
                    trim(0)
                if name is not None:
                    kept.keep(name, executable)
                return executable

            loaded = None if name is None else kept.load(name, args)
            if name is None or loaded is None:
                program.run = compile_it()
            else:
                program.run = _Loaded(program, name, loaded, compile_it)
            seconds = time.perf_counter() - begun
    return partial(program.run, *args), seconds


def on_host(function: Callable[..., PyTree], *args: PyTree) -> tuple[PyTree, float]:
    """The results of `compiled(function, *args)` as NumPy arrays, and the seconds compiling took."""
    run, seconds = compiled(function, *args)
    # On a CPU `jax.device_get` does the same in 50 us more, a hundredth of a small solve.
    return jax.tree.map(np.asarray, run()), seconds
