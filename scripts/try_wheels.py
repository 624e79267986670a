"""Install each wheel of a folder into a new environment, and release a table with it from an empty folder.

    python scripts/try_wheels.py dist      # after `make wheels`; packages come from the package index

The commands are those of the README. A wheel that is for one platform has to have its kernels there.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

_COLUMNS = ["--private", "income", "--useful", "age", "--useful", "town"]
_COMMANDS = [
    ["advise", "people.csv", *_COLUMNS],
    ["fit", "people.csv", *_COLUMNS, "--budget", "0.2", "--out", "design.zip"],
    ["release", "people.csv", "--design", "design.zip", "--out", "released.csv", "--receipt", "receipt.json"],
    ["verify", "receipt.json", "--design", "design.zip", "--released", "released.csv"],
]


def table() -> str:
    """600 records whose income depends on the town."""
    rows = [f"{int(i * 7 % 10 < 3 + 2 * (i % 3))},{i % 3},{i % 2}" for i in range(600)]
    return "\n".join(["income,age,town", *rows, ""])


def tried(wheel: Path, folder: Path) -> None:
    """In an environment of its own, whose process finds no compiler."""
    venv.create(folder / "environment", with_pip=True)
    python = folder / "environment" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", wheel], check=True)
    work = folder / "work"
    work.mkdir()
    (work / "people.csv").write_text(table(), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CC")}
    environment["PATH"] = str(python.parent)
    jaxpriv = [python, "-m", "jaxpriv"]
    said = subprocess.run([*jaxpriv, "info", "--json", "-"], cwd=work, env=environment, check=True, capture_output=True)
    kernels = json.loads(said.stdout)["cpu_kernels"]
    print(f"{wheel.name}: kernels {kernels}", flush=True)
    if (kernels is None) != wheel.name.endswith("-none-any.whl"):
        sys.exit("a wheel for one platform has kernels, the other one has none")
    for command in _COMMANDS:
        subprocess.run([*jaxpriv, *command], cwd=work, env=environment, check=True)


def main(dist: Path) -> None:
    for wheel in sorted(dist.glob("*.whl")):
        with tempfile.TemporaryDirectory() as folder:
            tried(wheel, Path(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
