"""`jaxpriv info`: what this installation is and can do."""

import platform
from importlib import metadata
from pathlib import Path

import jaxpriv as jp
from jaxpriv.cli import _output
from jaxpriv.cli._output import JsonRecord
from jaxpriv.cli._work import working
from jaxpriv.cli.cache import contents_of

_PACKAGES = ("jax", "jaxlib", "equinox", "numpy", "scipy")


def info(json: Path | None = None) -> None:
    """Print versions and settings for a problem report, without host, user or path names."""
    record = working("Starting JAX", lambda _: _installation())
    _output.deliver(record, json, _settings(record))


def _installation() -> dict[str, object]:
    import jax

    from jaxpriv._runtime import executables, native
    from jaxpriv._runtime.compilation import accelerator, default_backend
    from jaxpriv.leakage import NAMES
    from jaxpriv.solving.choice import SOLVER_NAMES

    device, kernels = accelerator(), native.instruction_set()
    return {
        "versions": {
            "jaxpriv": jp.__version__,
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
        "kept": contents_of(executables.contents),
        # The library computes in float64 whatever this says, and leaves it as it is.
        "x64": bool(jax.config.values["jax_enable_x64"]),
        "solvers": list(SOLVER_NAMES),
        "measures": list(NAMES),
    }


def _settings(record: JsonRecord) -> str:
    executables = record["kept"]
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
        "kept executables": executables.get("note")
        or f"{executables['executables']}, {executables['bytes'] / 2**20:.1f} MiB",
        "jax_enable_x64": str(record["x64"]).lower(),
        "solvers": ", ".join(record["solvers"]),
        "measures": ", ".join(record["measures"]),
    }
    return _output.aligned(lines)
