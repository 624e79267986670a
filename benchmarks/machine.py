"""What ran, and on what: versions and machine, without names or paths of the machine."""

import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "equinox",
    "cvxpy",
    "clarabel",
    "ecos",
    "scs",
    "moreau",
    "mpax",
    "qics",
    "cyipopt",
    "qif",
    "dit",
)


def versions() -> dict[str, str | None]:
    """Of Python, jaxpriv with its commit, and everything that is timed; None where a package is absent."""
    import jaxpriv

    found: dict[str, str | None] = {"python": platform.python_version(), "jaxpriv": jaxpriv.__version__}
    found["commit"] = commit()
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def commit() -> str | None:
    """The commit of the checkout, marked if tracked files differ from it; None outside of one."""
    folder = Path(__file__).parent
    try:
        head, changed = (
            subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
            for words in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head}, changed" if changed else head


def machine() -> dict[str, Any]:
    """Processor, cores that this process may use, memory, and the accelerator that JAX finds."""
    import jax

    device = jax.devices()[0]
    try:
        cores = len(os.sched_getaffinity(0))
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (AttributeError, ValueError, OSError):
        cores, memory = os.cpu_count() or 1, float("nan")
    return {
        "processor": _processor(),
        "architecture": platform.machine(),
        "cores": cores,
        "memory_gib": round(memory, 1),
        "system": platform.system(),
        "accelerator": "none" if device.platform == "cpu" else device.device_kind,
    }


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or "unknown"
