"""How much memory there is, and refusing work that needs more, before anything is allocated."""

import os
from pathlib import Path

from jaxpriv.errors import ResourceError

# What to do where an alphabet is too large for a table.
STREAM = "use solver='accelerated' or 'two-grid', which never store an |X| x |Y| table"

_LIMIT = Path("/sys/fs/cgroup/memory.max")
_USED = Path("/sys/fs/cgroup/memory.current")


def free_memory() -> float:
    """Free physical memory in bytes, within a container's limit; infinite where the system does not say."""
    try:
        free = float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        free = float("inf")
    try:
        limit = _LIMIT.read_text().strip()
        if limit != "max":
            free = min(free, float(limit) - float(_USED.read_text()))
    except (OSError, ValueError):
        pass  # no control groups: the physical memory is the limit
    return free


def need_memory(size: float, what: str, alternative: str) -> None:
    """Raise `ResourceError` if `size` bytes are more than there is."""
    free = free_memory()
    if size > free:
        raise ResourceError(f"{what} needs {size / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free; {alternative}")
