"""Build hooks: the CPU kernels, compiled if there is a C compiler (without one the package is pure Python), and links.

`python hatch_build.py` compiles them in place, for a checkout whose C source has changed. JAXPRIV_KERNELS=off builds
the package without them, =native for the instructions of this machine alone, in a third of the time.
"""

import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.tags import platform_tags

FOLDER = Path("jaxpriv/_runtime/native")
LIBRARY = FOLDER / "kernels.so"
# SHA-256 of the library, as a damaged one would end the process that maps it; and of what it was compiled from and how.
SEAL = FOLDER / "kernels.sha256"
# No -march: the sources are compiled for several instruction sets, and the machine's is picked at run time. With -O3
# the compiler takes a third longer, and solves take as long (within 2 %).
FLAGS = ["-O2", "-std=gnu11", "-fPIC", "-Wno-psabi", "-fno-math-errno"]
# The options of each set, by the bytes of its vectors; the sources that belong to none of them.
SETS = {16: [], 32: ["-mavx2", "-mfma"], 64: ["-mavx512f", "-mfma"]}
ONCE = ("dispatch", "library")
# The oldest macOS that kernels run on, the first for the processors of which jaxlib has wheels; clang reads it.
OLDEST_MACOS = {"MACOSX_DEPLOYMENT_TARGET": "11.0"}


def compiler_command(asked: str) -> list[str] | None:
    """The C compiler that CC asks for, a path or a command with options as in a shell; one that is found, or None."""
    if asked.strip():
        return [asked] if Path(asked).exists() else shlex.split(asked)
    return next(([name] for name in ("cc", "gcc", "clang") if shutil.which(name)), None)


def instruction_sets(compiler: list[str], native: bool) -> list[int]:
    """The sets to compile for, by the bytes of their vectors: all of its kind of processor, or the widest it has."""
    asked = [*compiler, *(["-march=native"] if native else []), "-dM", "-E", "-x", "c", os.devnull]
    macros = set(subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split())
    if not native:
        return list(SETS) if "__x86_64__" in macros else [16]
    return [64 if "__AVX512F__" in macros else 32 if macros >= {"__AVX2__", "__FMA__"} else 16]


def compile_kernels(root: Path) -> str | None:
    """Compile the library beside its sources, unless it is there already; the reason if that cannot be."""
    switch = os.environ.get("JAXPRIV_KERNELS", "").lower()
    if switch == "off":
        return "switched off by JAXPRIV_KERNELS"
    if sys.platform == "win32":
        return "there are none for Windows, whose C library lacks aligned_alloc"
    compiler = compiler_command(os.environ.get("CC", ""))
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
        sets = instruction_sets(compiler, switch == "native")
        only = [f"-DONLY={sets[0]}"] if switch == "native" else []
        command = [*compiler, *FLAGS, *only, f'-DSOURCE_DIGEST="{digest}"', f"-I{include}"]
        how = hashlib.sha256(repr((command, jaxlib.__version__)).encode()).hexdigest()
        if (root / SEAL).is_file() and (root / LIBRARY).is_file():
            made = hashlib.sha256((root / LIBRARY).read_bytes()).hexdigest()
            if (root / SEAL).read_text().split() == [made, how]:
                return None
        with tempfile.TemporaryDirectory(dir=root / FOLDER) as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
            made = Path(folder) / LIBRARY.name
            objects, parts = [], []
            for path in sources:
                for width in sets[:1] if path.stem in ONCE else sets:
                    options = [] if path.stem in ONCE else [f"-DWIDTH={width}", *SETS[width]]
                    objects.append(str(Path(folder, f"{path.stem}_{width}.o")))
                    parts.append([*command, *options, "-c", str(path), "-o", objects[-1]])
            failed = next(filter(None, pool.map(_run, parts)), None)
            failed = failed or _run([*compiler, "-shared", *objects, "-o", str(made), "-lm"])
            if failed:
                return failed
            seal = Path(folder) / SEAL.name
            seal.write_text(f"{hashlib.sha256(made.read_bytes()).hexdigest()}\n{how}\n")
            seal.replace(root / SEAL)
            made.replace(root / LIBRARY)  # a process that has the old one open keeps it
    except OSError as error:  # CC names nothing that runs, or the checkout is read-only
        return str(error)
    return None


def _run(command: list[str]) -> str | None:
    """What the compiler says if it fails."""
    environment = {**OLDEST_MACOS, **os.environ}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return f"{' '.join(command)} failed:\n{done.stderr}" if done.returncode else None


def platform_of(library: Path) -> str:
    """The platform tag of a wheel with this library: it depends on no Python, only on the system's C library.

    With glibc, the oldest one that has every symbol the library asks for, but none before 2.17 (manylinux2014). On
    macOS the version that it was compiled for, and the machine: Python itself may be for two kinds of processors.
    """
    if sys.platform == "darwin":
        return (
            f"macosx_{(OLDEST_MACOS | os.environ)['MACOSX_DEPLOYMENT_TARGET'].replace('.', '_')}_{platform.machine()}"
        )
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if not system.startswith("linux_") or platform.libc_ver()[0] != "glibc":
        return next(iter(platform_tags()))
    asked = re.findall(rb"GLIBC_(\d+)\.(\d+)", library.read_bytes())
    major, minor = max([(2, 17), *((int(major), int(minor)) for major, minor in asked)])
    return f"manylinux_{major}_{minor}_{system.removeprefix('linux_')}"


def absolute_links(text: str, home: str) -> str:
    """A page of the checkout with its links as they are on a package index: to the files of the repository `home`."""

    def absolute(link: re.Match[str]) -> str:
        return f"{link[1]}{link[2]}({home}/{'raw' if link[1] else 'blob'}/main/{link[3]})"

    return re.sub(r"(!?)(\[[^\]]*\])\((?![a-z]+:|#)([^)]+)\)", absolute, text)


class ReadmeHook(MetadataHookInterface):
    """The long description is README.md, whose links are relative in a checkout and absolute on a package index."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling wherever it needs the metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        home = metadata["urls"]["Repository"]
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute_links(text, home)}


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
        build_data["tag"] = f"py3-none-{platform_of(Path(self.root) / LIBRARY)}"


if __name__ == "__main__":
    sys.exit(compile_kernels(Path(__file__).parent))
