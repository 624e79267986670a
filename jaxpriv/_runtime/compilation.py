"""How compiled code is run: our own JAX settings, and executables that are compiled ahead of time and kept."""

import ctypes
import dataclasses
import functools
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh, NamedSharding, Sharding
from jaxtyping import PyTree

from jaxpriv._runtime import executables
from jaxpriv._runtime.program_keys import NoKeyError, T, key_of
from jaxpriv._runtime.validation import refuse_after_fork
from jaxpriv.errors import InputError, ResourceError

_LOGGER = logging.getLogger("jaxpriv")


@contextmanager
def own_settings() -> Iterator[None]:
    """Float64 and NumPy's broadcasting rules for our own work; the caller's JAX settings are put back.

    Those by which a caller looks for infinities, steps or transfers in programs of his own are off: in ours infinities
    are answers, loops are compiled, and arrays of the host are given to the device.

    Raises:
        ResourceError: JAX has no device.
    """
    refuse_after_fork()
    default_backend()
    with (
        jax.enable_x64(True),
        jax.numpy_rank_promotion("allow"),
        jax.debug_nans(False),
        jax.debug_infs(False),
        jax.disable_jit(False),
        jax.transfer_guard("allow"),
    ):
        yield


def default_backend() -> str:
    """The platform of JAX's default device.

    Raises:
        ResourceError: there is none of those that JAX may use.
    """
    try:
        return jax.default_backend()
    except (AssertionError, RuntimeError) as error:  # the first where nothing but absent accelerators is allowed
        asked = jax.config.jax_platforms
        raise ResourceError(
            f"JAX finds no device: JAX_PLATFORMS={asked} allows none that is here; leave it out, or add cpu to it"
            if asked
            else f"JAX finds no device: {error}"
        ) from error


@contextmanager
def device_errors() -> Iterator[None]:
    """What goes wrong on a device while solving, as an error of ours with a remedy."""
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
def _options(backend: str) -> dict[str, int | bool | str]:
    """Those of our options that this XLA has: each is tried on an empty program, for an unknown one is an error."""
    if backend != "cpu":
        return {}
    empty, accepted = jax.jit(lambda: 0).lower(), {}
    for name, value in _OPTIONS.items():
        try:
            empty.compile({name: value})
        except jax.errors.JaxRuntimeError:
            continue
        accepted[name] = value
    return accepted


class _Program:
    """An executable, once it has been compiled, and the lock of the thread that compiles it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.run: Any = None  # the executable; None until it is compiled


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
                    executables.discard(self.name, "does not run")
                    self.program.run = self.compile_it()
            return self.program.run(*args)
        if self.program.run is self:
            self.program.run = self.run
        return result


# Programs by function, structure and shapes: a changed budget is a changed array, never a key.
_PROGRAMS: OrderedDict[Hashable, _Program] = OrderedDict()
# The least recently used one is dropped: on CPU each maps some 700 pieces of memory, and a process that
# reaches the system's limit (65530 on Linux) is aborted by the compiler.
_MOST_PROGRAMS = 32
_LOCK = threading.Lock()  # of the table: held for a look-up, never while something compiles


# Where programs run: on the device of JAX's default, or on that which a caller names.


def target_platform() -> str:
    """The platform of the device that programs are compiled for."""
    chosen = jax.config.jax_default_device
    if chosen is None:
        return default_backend()
    return chosen if isinstance(chosen, str) else chosen.platform


def accelerator() -> jax.Device | None:
    """The device that programs are compiled for; None where that is a CPU, whose memory is the host's."""
    if target_platform() == "cpu":
        return None
    chosen = jax.config.jax_default_device
    return jax.local_devices(backend=chosen)[0] if chosen is None or isinstance(chosen, str) else chosen


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where work is done.

    Attributes:
        device: the one; None: JAX's default.
        mesh: several devices that share the work, along one axis "x"; None: one device.
    """

    device: jax.Device | None = None
    mesh: Mesh | None = None

    @staticmethod
    def of(device: object, problems: PyTree = None) -> "Placement":
        """What the argument `device` names; where it is None, the place of the arrays of JAX in `problems` that were
        put somewhere, if that is one.

        Raises:
            InputError: it is no device and no sharding, or not one of this process.
        """
        if device is None:
            arrays = (leaf for leaf in jax.tree.leaves(problems) if isinstance(leaf, jax.Array))
            places = {leaf.sharding for leaf in arrays if not isinstance(leaf, Tracer) and leaf.committed}
            if len(places) != 1:
                return Placement()
            (device,) = places
        devices: list[jax.Device]
        if isinstance(device, jax.Device):
            devices = [device]
        elif isinstance(device, NamedSharding) and isinstance(device.mesh, Mesh):
            devices = list(device.mesh.devices.flat)
        elif isinstance(device, Sharding):
            devices = sorted(device.device_set, key=lambda member: member.id)
        else:
            raise InputError(f"device must be a jax.Device or a jax.sharding.Sharding, not {type(device).__name__}")
        if len(devices) > 1:
            return Placement(mesh=Mesh(np.array(devices), ("x",)))
        if devices[0].process_index != jax.process_index():
            raise InputError("device: it belongs to another process")
        return Placement(devices[0])

    @contextmanager
    def here(self) -> Iterator[None]:
        """Programs are compiled for the device, what is made is made there, and the mesh is that of `named_mesh`."""
        token = _MESH.set(self.mesh)
        try:
            with nullcontext() if self.device is None else jax.default_device(self.device):
                yield
        finally:
            _MESH.reset(token)

    def of_one(self) -> "Placement":
        """The first of several devices."""
        return self if self.mesh is None else Placement(self.mesh.devices.flat[0])

    def moved(self, problem: T) -> T:
        """The problem with its arrays of JAX on the device.

        Raises:
            InputError: one of them is cut over several devices, of this process or of several.
        """
        if self.device is None:
            return problem
        arrays = [leaf for leaf in jax.tree.leaves(problem) if isinstance(leaf, jax.Array)]
        if not all(array.is_fully_replicated for array in arrays):
            raise InputError(
                "device: an array of the problem is cut over several devices, which share the solve; leave device= out"
            )
        put = lambda leaf: jax.device_put(leaf, self.device) if isinstance(leaf, jax.Array) else leaf  # noqa: E731
        return jax.tree.map(put, problem)


_MESH: ContextVar[Mesh | None] = ContextVar("mesh", default=None)


def named_mesh() -> Mesh | None:
    """The devices that the caller of the work at hand named, if they are several."""
    return _MESH.get()


@functools.cache
def _trim() -> Callable[[int], int] | None:
    """glibc's `malloc_trim`, or None with another C library."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def _kept_name(function: Callable[..., PyTree], args: tuple[PyTree, ...], backend: str) -> str | None:
    """The name of the program's executable on disk; None if it is not kept there."""
    if backend != "cpu" or not executables.enabled():
        return None
    try:
        return key_of(function, args, _OPTIONS)
    except NoKeyError as why:
        _LOGGER.debug("an executable is not kept: it depends on %s", why)
        return None


def _key(function: Callable[..., PyTree], args: tuple[PyTree, ...], donated: int | None) -> Hashable:
    """What a program depends on within a process."""
    leaves, structure = jax.tree.flatten(args)
    shapes = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
    return function, structure, shapes, target_platform(), jax.config.jax_default_device, donated


def is_ready(function: Callable[..., PyTree], *args: PyTree) -> bool:
    """Whether there is an executable of `function(*args)`, in memory or on disk."""
    with _LOCK:
        program = _PROGRAMS.get(_key(function, args, None))
    if program is not None and program.run is not None:
        return True
    name = _kept_name(function, args, target_platform())
    return name is not None and executables.has(name)


def compiled(
    function: Callable[..., PyTree], *args: PyTree, donated: int | None = None
) -> tuple[Callable[[], PyTree], float]:
    """`function(*args)` compiled ahead of time: a thunk that runs it, and the seconds compiling took (0 if known).

    `donated`: the place of an argument whose memory the results take; its arrays are gone once the thunk has run. Such
    a program is not kept on disk, for a run that fails there could not be tried again.

    Executables are kept in memory, and for the next process on disk (`kept`; those of accelerators by JAX's own
    compilation cache): loading counts as compiling.

    Threads that ask for the same program wait for the one that compiles it; those that ask for others do not.
    """
    refuse_after_fork()
    backend, key = target_platform(), _key(function, args, donated)
    with _LOCK:
        program = _PROGRAMS.setdefault(key, _Program())
        _PROGRAMS.move_to_end(key)
        if len(_PROGRAMS) > _MOST_PROGRAMS:
            _PROGRAMS.popitem(last=False)
    seconds = 0.0
    with program.lock:
        if program.run is None:
            begun = time.perf_counter()

            def wrapper(*arguments: PyTree) -> PyTree:  # JAX's caches hold a program as long as its function lives
                return function(*arguments)

            name = _kept_name(function, args, backend) if donated is None else None

            def compile_it() -> jax.stages.Compiled:
                lowered = jax.jit(wrapper, donate_argnums=donated).lower(*args)
                with nullcontext() if backend == "cpu" else executables.by_jax():
                    executable = lowered.compile(_options(backend))
                if trim := _trim():  # what the compiler has freed, some 180 MB, stays with the process otherwise
                    trim(0)
                if name is not None:
                    executables.keep(name, executable)
                return executable

            loaded = None if name is None else executables.load(name, args)
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
