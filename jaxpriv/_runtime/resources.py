"""How much memory there is and how many processors, and refusing work that needs more, before anything is allocated."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from jaxpriv.errors import ResourceError

# What to do where an alphabet is too large for a table.
STREAM = "use solver='accelerated' or 'two-grid', which never store an |X| x |Y| table"
MERGE = "merge symbols first"

# Bytes that there always are: asking the system takes longer than solving a problem of this size.
ALWAYS = 2.0**24

_MACHINE = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup")


def _numbers(path: Path) -> dict[str, float]:
    """The first number of every line of a `name number` file; nothing where there is no such file."""
    try:
        lines = [line.replace(":", " ").split() for line in path.read_text().splitlines()]
        return {words[0]: float(words[1]) for words in lines if len(words) > 1}
    except (OSError, ValueError):
        return {}


def processors() -> int:
    """How many the process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> float:
    """Memory in bytes that can be had, within a container's limit; infinite where the system does not report it.

    Pages that only cache files count as free: the system gives them up.
    """
    free = 1024.0 * _numbers(_MACHINE).get("MemAvailable", float("inf"))
    try:
        limit = float((_CONTAINER / "memory.max").read_text())
        used = float((_CONTAINER / "memory.current").read_text())
    except (OSError, ValueError):  # no control group, or the word "max"
        return free
    cached = _numbers(_CONTAINER / "memory.stat").get("inactive_file", 0.0)
    return min(free, max(limit - used + cached, 0.0))


class HasMemory(Protocol):
    """A device with memory of its own, as `jax.Device`: bytes by name, or None where it reports none."""

    def memory_stats(self) -> Mapping[str, int] | None: ...


def free_on(device: HasMemory | None) -> float:
    """Memory in bytes that can be had on a device; infinite where it reports none. None: the host."""
    if device is None:
        return free_memory()
    stats = device.memory_stats() or {}
    return float(stats["bytes_limit"] - stats.get("bytes_in_use", 0)) if "bytes_limit" in stats else float("inf")


def fits(size: float, share: float = 1.0, device: HasMemory | None = None) -> bool:
    """Whether `size` bytes are at most this share of the free memory."""
    return bool(size <= ALWAYS or size <= share * free_on(device))


def need_memory(size: float, what: str, alternative: str, device: HasMemory | None = None) -> None:
    """Raise `ResourceError` if `size` bytes are more than there is."""
    if not fits(size, device=device):
        free, where = free_on(device), "" if device is None else f" on {device}"
        needs = f"{what} needs {size / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free{where}"
        raise ResourceError(f"{needs}; {alternative}")
