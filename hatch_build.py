"""Build hook: compile the CPU kernels if there is a C compiler; without one the package is pure Python.

`python hatch_build.py` compiles them in place, for a checkout whose C source has changed.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("jaxpriv/_native")
LIBRARY = FOLDER / "kernels.so"
SEAL = FOLDER / "kernels.sha256"  # of the library: a damaged one would end the process that maps it
# No -march: the sources are compiled for several instruction sets, and the machine's is picked at run time.
FLAGS = ["-O3", "-std=gnu11", "-shared", "-fPIC", "-Wno-psabi", "-fno-math-errno"]


def compile_kernels(root: Path) -> str | None:
    """Compile the library beside its sources; the reason if that cannot be."""
    compiler = os.environ.get("CC") or next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    if compiler is None:
        return "no C compiler"
    try:
        import jaxlib
    except ImportError:
        return "no jaxlib, whose headers it needs"
    include = Path(jaxlib.__file__).parent / "include"
    try:
        sources = sorted((root / FOLDER).glob("*.c"))
        files = sorted([*sources, *(root / FOLDER).glob("*.h")])
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
        with tempfile.TemporaryDirectory(dir=root / LIBRARY.parent) as folder:
            made = Path(folder) / LIBRARY.name
            inputs = [f'-DSOURCE_DIGEST="{digest}"', f"-I{include}", *map(str, sources)]
            command = [*compiler.split(), *FLAGS, *inputs, "-o", str(made), "-lm"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                return f"{' '.join(command)} failed:\n{done.stderr}"
            seal = Path(folder) / SEAL.name
            seal.write_text(hashlib.sha256(made.read_bytes()).hexdigest() + "\n")
            seal.replace(root / SEAL)
            made.replace(root / LIBRARY)  # a process that has the old one open keeps it
    except OSError as error:  # CC names nothing that runs, or the checkout is read-only
        return str(error)
    return None


class KernelHook(BuildHookInterface):
    """Compiles before the files are collected, and marks the wheel as one of this platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling for wheels and editable installs."""
        problem = compile_kernels(Path(self.root))
        if problem:
            self.app.display_warning(f"jaxpriv is built without its CPU kernels: {problem}")
            return
        build_data["artifacts"] += [str(LIBRARY), str(SEAL)]
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


if __name__ == "__main__":
    sys.exit(compile_kernels(Path(__file__).parent))
