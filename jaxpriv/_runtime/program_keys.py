"""All that a compiled program depends on, as a SHA-256: the name that its executable has on disk.

A key must differ wherever the machine code or its meaning could. So nothing is written by `repr`, which shortens
arrays and leaves out what a function does: values of known types are described in full, and a program that depends on
anything else (a function or class of the user's, a mesh of devices) has no key.
"""

import dataclasses
import enum
import functools
import hashlib
import os
import platform
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import TypeAlias, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree

from jaxpriv._runtime import native

T = TypeVar("T")
Description: TypeAlias = str | tuple["Description", ...]

# Functions and classes of these packages are described by name: their code is part of the key by version or digest.
_KNOWN = {"jaxpriv", "jax", "jaxlib", "numpy", "equinox", "builtins"}
_VERSIONS = ("jax", "jaxlib", "numpy", "equinox")
# What distinguishes processors that do not run the same machine code.
_PROCESSOR = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU implementer", "CPU part", "Features")
# Variables that XLA reads, and settings of JAX that say where its own files are.
_VARIABLES = ("XLA_", "TF_XLA_")
_NO_MATTER = ("jax_compilation_cache", "jax_persistent_cache", "jax_dump", "jax_log")


class NoKeyError(Exception):
    """The program depends on something whose meaning cannot be written down."""


def key_of(function: Callable[..., PyTree], args: tuple[PyTree, ...], options: dict[str, object]) -> str:
    """The name of `function` compiled for arguments like `args` with compiler options, 64 hexadecimal digits.

    Raises:
        NoKeyError: something in them is not of a known type, or not on the default device; the processor is unknown.
    """
    device = jax.local_devices()[0]
    if jax.process_count() > 1 or jax.config.jax_default_device not in (None, device):
        raise NoKeyError("a device of the caller's choice")
    facts = (
        _environment(),
        (device.platform, device.device_kind, device.client.platform_version),
        tuple((name, _setting(name)) for name in sorted(jax.config.values) if not name.startswith(_NO_MATTER)),
        tuple((name, repr(options[name])) for name in sorted(options)),
        describe(function, device),
        describe(args, device),
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def describe(value: PyTree, device: jax.Device, static: bool = False) -> Description:
    """`value` in words: arrays by shape and dtype, which is what a program is compiled for, everything else in full.

    Args:
        value: an argument of a program, or the program's function.
        device: where arrays of JAX have to be.
        static: whether it is part of what is compiled; an array would then count with its entries.
    """
    kind = type(value)
    if kind is float:
        return "float", float.hex(value)
    if value is None or kind in (bool, int, str, bytes):
        return kind.__name__, repr(value)
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        if static:
            raise NoKeyError("an array that is part of the program")
        if isinstance(value, jax.Array) and value.devices() != {device}:
            raise NoKeyError("an array on another device")
        return "array", repr(value.shape), value.dtype.name, repr(getattr(value, "weak_type", False))
    if isinstance(value, enum.Enum):
        return "member", _name(kind), value.name
    if isinstance(value, np.dtype):
        return "dtype", value.name
    if isinstance(value, (tuple, list)):
        return _name(kind), *(describe(item, device, static) for item in value)
    if kind is dict and {type(key) for key in value} in ({str}, {int}, set()):
        return "dict", *((repr(key), describe(value[key], device, static)) for key in sorted(value))
    if kind is functools.partial:
        return "partial", *(describe(part, device, static) for part in (value.func, value.args, value.keywords))
    if dataclasses.is_dataclass(kind):
        fields = [
            (field.name, static or bool(field.metadata.get("static", False))) for field in dataclasses.fields(value)
        ]
        parts = ((name, describe(getattr(value, name), device, fixed)) for name, fixed in fields)
        return "object", _name(kind), *parts
    return "name", _name(value)


def _name(thing: object) -> str:
    """The full name of a function or class, if that name leads to it and its code is part of the key."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module.split(".")[0] not in _KNOWN:
        raise NoKeyError(f"a {type(thing).__name__} of the caller's")
    named: object = sys.modules.get(module)
    for part in name.split("."):
        named = getattr(named, part, None)
    if named is not thing:
        raise NoKeyError(f"a {type(thing).__name__} without a name of its own")
    return f"{module}:{name}"


def _setting(name: str) -> str:
    # The attribute is what holds in this thread, within JAX's context managers; some settings have none.
    return repr(getattr(jax.config, name, jax.config.values[name]))


@functools.cache
def _environment() -> Description:
    """What does not change in a process: versions, sources, kernels, processor, variables of the environment."""
    kernels = native.absence() or native.SEAL.read_text()
    return (
        platform.python_version(),
        tuple(f"{name} {metadata.version(name)}" for name in _VERSIONS),
        _sources(),
        (kernels, native.chosen()),
        processor(),
        tuple(item for item in sorted(os.environ.items()) if item[0].startswith(_VARIABLES)),
    )


def _sources() -> str:
    """SHA-256 of the library's Python files: a checkout changes without its version."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def processor() -> Description:
    """The machine's kind, instructions and number of processors for this process.

    Raises:
        NoKeyError: the system does not report it. Machine code for another processor would end the process.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        count = len(os.sched_getaffinity(0))
    except (OSError, AttributeError) as error:
        raise NoKeyError("the processor's instructions are not known here") from error
    facts = {tuple(map(str.strip, line.split(":", 1))) for line in lines if line.split(":")[0].strip() in _PROCESSOR}
    return platform.machine(), str(count), *(": ".join(fact) for fact in sorted(facts))
