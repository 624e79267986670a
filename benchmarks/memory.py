"""Peak memory of a process, in MiB: the kernel's high-water mark of resident memory.

Not `getrusage`: its `ru_maxrss` survives fork and exec, so a child would start from its parent's size.
The mark in /proc belongs to the address space, starts anew with every exec, and can be set back.
"""

import os
import re
from pathlib import Path


class Meter:
    """The largest resident size of this process above its size when the meter was made, pauses excluded."""

    def __init__(self) -> None:
        self._largest: float | None = None
        self._paused = False
        self.restarted = _lower_the_mark()  # where that is forbidden, what was freed before counts as well
        self.baseline = _status("VmRSS", os.getpid())

    def read(self) -> float | None:
        """The peak so far; once a pause could not be forgotten, the peak before it."""
        now = peak(os.getpid())
        if self.baseline is not None and now is not None and not self._paused:
            self._largest = max(self._largest or 0.0, now - self.baseline)
        return self._largest

    def forget(self) -> None:
        """Leave out what happened since the last reading."""
        self._paused = self._paused or not _lower_the_mark()


def _lower_the_mark() -> bool:
    """Set the kernel's mark back to the present size; whether this system allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak(pid: int) -> float | None:
    """The largest resident size so far of a process; None where the system does not tell."""
    return _status("VmHWM", pid)


def _status(field: str, pid: int) -> float | None:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) / 1024 if found else None
