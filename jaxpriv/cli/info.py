"""`jaxpriv info`, what this installation is and can do; `jaxpriv cache`, its executables that are kept on disk."""

import os
import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from jaxpriv.cli import _output
from jaxpriv.cli._app import working
from jaxpriv.cli._output import JsonRecord
from jaxpriv.errors import InputError, ResourceError

if TYPE_CHECKING:
    from jaxpriv._runtime.executables import Contents

_PACKAGES = ("jax", "jaxlib", "equinox", "numpy", "scipy")


def info(json: Path | None = None) -> None:
    """Print versions and settings for a problem report, without host, user or path names."""
    record = working("Starting JAX", lambda _: _installation())
    _output.deliver(record, json, _settings(record))


def _installation() -> dict[str, object]:
    import jax

    from jaxpriv import __version__
    from jaxpriv._runtime import executables, native
    from jaxpriv._runtime.compilation import accelerator, default_backend
    from jaxpriv.leakage import NAMES
    from jaxpriv.solving.choice import SOLVER_NAMES

    device, kernels = accelerator(), native.instruction_set()
    return {
        "versions": {
            "jaxpriv": __version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _PACKAGES},
        },
        "platform": f"{platform.system()} {platform.machine()}",
        "backend": default_backend(),
        "devices": [device.device_kind for device in jax.devices()],
        "runs": {
            "small": f"host, {'kernels in C and NumPy' if kernels else 'NumPy'}",
            "large": "host, compiled" if device is None else f"{device.device_kind}, compiled",
            "funnels": "host",
            "certificates": "host, float64",
        },
        "cpu_kernels": kernels,
        "cpu_kernels_absent": native.absence(),
        "kept": _contents(executables.contents),
        # The library computes in float64 whatever this says, and leaves it as it is.
        "x64": bool(jax.config.values["jax_enable_x64"]),
        "solvers": list(SOLVER_NAMES),
        "measures": list(NAMES),
    }


def _settings(record: JsonRecord) -> str:
    kept = record["kept"]
    lines = {
        **record["versions"],
        "platform": record["platform"],
        "backend": record["backend"],
        "devices": ", ".join(record["devices"]),
        "small problems": record["runs"]["small"],
        "larger problems": record["runs"]["large"],
        "funnels": record["runs"]["funnels"],
        "certificates": record["runs"]["certificates"],
        "CPU kernels": record["cpu_kernels"] or f"none ({record['cpu_kernels_absent']})",
        "kept executables": kept.get("note") or f"{kept['executables']}, {kept['bytes'] / 2**20:.1f} MiB",
        "jax_enable_x64": str(record["x64"]).lower(),
        "solvers": ", ".join(record["solvers"]),
        "measures": ", ".join(record["measures"]),
    }
    return _output.aligned(lines)


# Symbols of a shape to compile for: one table of more does not fit.
_MOST_NUMBERS = 2**24


def cache(
    clear: bool = False,
    warm: list[str] | None = None,
    json: Path | None = None,
) -> None:
    """Print where compiled programs are kept on disk and how many; remove them, or make some ahead of time.

    A process that needs one of them loads it in a tenth of a second. Problems of up to about 64 symbols, and
    those that a kernel solves, are not compiled at first. The environment variable JAXPRIV_CACHE=off switches this off;
    an absolute path there, of a new or an empty folder, is used in place of the user's cache folder.
    """
    shapes = [_shape(text) for text in warm or ()]
    record = working("Compiling" if shapes else "Starting JAX", lambda report: _record(clear, shapes, report))
    _output.deliver(record, json, _text(record))


def _shape(text: str) -> tuple[int, int, int]:
    parts = text.split("x")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise InputError(f"--warm {text!r} is not SxXxY, as in 64x100x100")
    private, inputs, outputs = map(int, parts)
    if private * inputs * outputs > _MOST_NUMBERS:
        raise InputError(f"--warm {text!r}: more than {_MOST_NUMBERS} numbers")
    return private, inputs, outputs


def _record(clear: bool, shapes: list[tuple[int, int, int]], report: Callable[[int, int], None]) -> dict[str, object]:
    from jaxpriv._runtime import executables

    try:
        folder = str(executables.folder())
    except executables.UnusableError as error:
        if clear or shapes:
            raise ResourceError(f"no executables are kept: {error}") from error
        return {"folder": None, "executables": 0, "bytes": 0, "most_bytes": executables.MOST_BYTES, "note": str(error)}
    removed: dict[str, object] | None = None
    try:
        if clear:
            removed = _contents(executables.clear) if os.path.lexists(folder) else {"executables": 0}
            if "note" in removed:
                raise ResourceError(f"{folder}: nothing was removed: {removed['note']}")
        if shapes:
            executables.prepare()
    except executables.UnusableError as error:
        raise ResourceError(f"{folder}: nothing was compiled: {error}") from error
    for done, shape in enumerate(shapes):
        report(done, len(shapes))
        _compile(*shape)
    contents = _contents(executables.contents)
    return {
        "folder": folder,
        **contents,
        "most_bytes": executables.MOST_BYTES,
        **({} if removed is None else {"removed": removed["executables"]}),
    }


def _contents(of: "Callable[[], Contents]") -> dict[str, object]:
    from jaxpriv._runtime.executables import UnusableError

    try:
        found = of()
    except UnusableError as error:
        return {"executables": 0, "bytes": 0, "note": str(error)}
    return {"executables": found.executables, "bytes": found.size}


def _compile(private: int, inputs: int, outputs: int) -> None:
    import numpy as np

    from jaxpriv.problems import DistortionProblem
    from jaxpriv.solving.loops import SWITCH
    from jaxpriv.solving.solve import solve

    # Tables without structure, so that nothing is merged; the time limit would choose other programs.
    draw = np.random.default_rng(0)
    joint = draw.dirichlet(np.ones(private * inputs)).reshape(private, inputs)
    costs = draw.uniform(size=(inputs, outputs))
    costs[np.arange(inputs), np.arange(inputs) % outputs] = 0.0
    before = os.environ.get(SWITCH)
    os.environ[SWITCH] = "always"
    try:
        for problem in (
            DistortionProblem(joint, costs, budget=0.1),
            DistortionProblem(joint, costs, multiplier=1.0),
            DistortionProblem(joint, costs, leakage_budget=0.01),
        ):
            solve(problem)
    finally:
        os.environ.pop(SWITCH)
        if before is not None:
            os.environ[SWITCH] = before


def _text(record: JsonRecord) -> str:
    lines = {
        "folder": record["folder"] or "none",
        "executables": str(record["executables"]),
        "size": f"{record['bytes'] / 2**20:.1f} of at most {record['most_bytes'] / 2**20:.0f} MiB",
    }
    if "removed" in record:
        lines["removed"] = str(record["removed"])
    if "note" in record:
        lines["note"] = record["note"]
    return _output.aligned(lines)
