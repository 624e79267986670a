"""Build what is published, into a folder: the source distribution, and from it one wheel with kernels and one without.

    python scripts/build_wheels.py dist      # needs hatchling, jaxlib (its headers) and auditwheel; `make wheels`

On Windows there is only the second. The wheel with kernels is for every Python, and for every jaxlib from the one on
whose headers it was compiled: build with the oldest that the package takes. auditwheel checks its platform tag.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build(root: Path, target: str, folder: Path, **environment: str) -> Path:
    """The new file in `folder`."""
    before = set(folder.iterdir())
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=root, env={**os.environ, **environment}, check=True)
    (made,) = set(folder.iterdir()) - before
    return made


def check_platform(wheel: Path) -> None:
    """That the tag promises no older system than the library inside of the wheel runs on."""
    if not sys.platform.startswith("linux"):
        return
    said = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", str(wheel)], check=True, capture_output=True, text=True
    ).stdout
    tag = wheel.stem.split("-")[-1]
    found = re.search(r'following\s+platform\s+tag:\s+"([^"]+)"', said)
    if found is None or found[1] != tag:
        sys.exit(f"{wheel.name} has another platform tag than auditwheel finds:\n{said}")


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(build(ROOT, "sdist", folder)) as archive:
            archive.extractall(unpacked, filter="data")
        (source,) = Path(unpacked).iterdir()
        pure = build(source, "wheel", folder, JAXPRIV_KERNELS="off")
        if not pure.name.endswith("-py3-none-any.whl"):
            sys.exit(f"{pure.name} is not for every platform")
        if sys.platform != "win32":
            native = build(source, "wheel", folder, JAXPRIV_KERNELS="")
            if native.name.endswith("-none-any.whl"):
                sys.exit(f"no kernels were compiled for {native.name}")
            check_platform(native)
    for path in sorted(folder.iterdir()):
        print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
