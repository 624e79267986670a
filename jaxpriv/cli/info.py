"""`jaxpriv info`: versions, devices, and what this installation can do."""

import platform
from importlib import metadata

from jaxpriv.cli import _output
from jaxpriv.cli._output import JsonOption, JsonRecord
from jaxpriv.cli._work import working

_PACKAGES = ("jax", "jaxlib", "equinox", "numpy", "scipy")


def info(json: JsonOption = None) -> None:
    """Print versions and settings for a problem report, without host, user or path names."""
    _output.check_outputs({"--json": json}, {})
    record = working("Starting JAX", lambda _: _record())
    _output.deliver(record, json, _text(record))


def _record() -> dict[str, object]:
    import jax

    from jaxpriv import __version__, _native
    from jaxpriv import _kept as kept
    from jaxpriv.leakage import NAMES
    from jaxpriv.solving.choice import SOLVER_NAMES

    try:
        found = kept.contents()
        executables = {"executables": found.executables, "bytes": found.size}
    except kept.UnusableError as error:
        executables = {"executables": 0, "bytes": 0, "note": str(error)}
    return {
        "versions": {
            "jaxpriv": __version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _PACKAGES},
        },
        "platform": f"{platform.system()} {platform.machine()}",
        "backend": jax.default_backend(),
        "devices": [device.device_kind for device in jax.devices()],
        "cpu_kernels": _native.instruction_set(),
        "cpu_kernels_absent": _native.absence(),
        "kept": executables,
        # The library computes in float64 whatever this says, and leaves it as it is.
        "x64": bool(jax.config.values["jax_enable_x64"]),
        "solvers": list(SOLVER_NAMES),
        "measures": list(NAMES),
    }


def _text(record: JsonRecord) -> str:
    lines = {
        **record["versions"],
        "platform": record["platform"],
        "backend": record["backend"],
        "devices": ", ".join(record["devices"]),
        "CPU kernels": record["cpu_kernels"] or f"none ({record['cpu_kernels_absent']})",
        "kept executables": _kept(record["kept"]),
        "jax_enable_x64": str(record["x64"]).lower(),
        "solvers": ", ".join(record["solvers"]),
        "measures": ", ".join(record["measures"]),
    }
    width = max(map(len, lines))
    return "".join(f"{name:<{width}}  {value}\n" for name, value in lines.items())


def _kept(record: JsonRecord) -> str:
    return record.get("note") or f"{record['executables']}, {record['bytes'] / 2**20:.1f} MiB"
