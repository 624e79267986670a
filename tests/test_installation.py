"""What is published: the source distribution, and wheels that run without a compiler and after an upgrade of jaxlib."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import jaxlib
import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.cases import ROOT

pytestmark = [
    pytest.mark.skipif(not (ROOT / "hatch_build.py").is_file(), reason="hatch_build.py is part of a checkout only"),
    pytest.mark.skipif(importlib.util.find_spec("hatchling") is None, reason="hatchling is not installed"),
]
compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")

# A kernel on its own: whether the compiled program calls it, and what it computes.
PROBE = """
import json, jax, numpy as np
import jaxpriv
from jaxpriv._runtime import native
from jaxpriv.solvers._inverse_factors import inverse_factor, portable_inverse_factor
jax.config.update("jax_enable_x64", True)
args = np.array([[[4.0, 2.0], [2.0, 5.0]]]), np.array([[4.0, 5.0]])
program = jax.jit(inverse_factor)
print(json.dumps({
    "place": jaxpriv.__file__,
    "absence": native.absence(),
    "called": "jaxpriv_inverse_factor" in program.lower(*args).as_text(),
    "result": np.asarray(program(*args)).tolist(),
    "portable": np.asarray(portable_inverse_factor(*args)).tolist(),
}))
"""


def hatch_build():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(shutil.which("clang") is None, reason="no clang")
def test_clang_compiles_the_kernels(tmp_path, monkeypatch):
    folder = "jaxpriv/_runtime/native"
    shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("kernels.*"))
    monkeypatch.setenv("CC", "clang")
    monkeypatch.delenv("JAXPRIV_KERNELS", raising=False)
    assert hatch_build().compile_kernels(tmp_path) is None
    assert (tmp_path / folder / "kernels.so").is_file()


@compiler
@pytest.mark.parametrize("options", [[], ["-pipe", "-DOWN=a b"]])
def test_a_compiler_may_stand_in_a_folder_with_blanks(tmp_path, options):
    """CC is the path of a program, if there is one of that name, or a command as in a shell."""
    program = tmp_path / "my tools" / "cc"
    program.parent.mkdir()
    program.symlink_to(shutil.which("cc"))
    asked = shlex.join([str(program), *options]) if options else str(program)
    found = hatch_build().compiler_command(asked)
    assert found == [str(program), *options]
    assert subprocess.run([*found, "--version"], capture_output=True, check=False).returncode == 0


def build(root, target, folder, **environment):
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    done = subprocess.run(command, cwd=root, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The source distribution, unpacked: whatever is built below is built from it."""
    folder = tmp_path_factory.mktemp("source")
    (folder / "made").mkdir()
    with tarfile.open(build(ROOT, "sdist", folder / "made")) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return unpacked


def installed(wheel, folder):
    """Python of an environment with this wheel and, beside it, the packages of the present one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"


def probe(python, folder):
    """What a process finds that has no compiler on its path, nor the checkout."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CC")}
    environment["PATH"] = str(python.parent)
    done = subprocess.run(
        [str(python), "-c", PROBE], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert Path(found["place"]).is_relative_to(folder)
    return found


def assert_kernels_run(found):
    assert found["absence"] is None
    assert found["called"]
    np.testing.assert_allclose(found["result"], found["portable"], rtol=1e-12, atol=1e-15)


def test_a_wheel_without_kernels_is_for_every_platform(source, tmp_path):
    wheel = build(source, "wheel", tmp_path, JAXPRIV_KERNELS="off")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        record = message_from_bytes(archive.read(metadata))
    assert not any(name.endswith(".so") for name in names)
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / "jaxpriv").rglob("*.py")}
    assert package | {"jaxpriv/py.typed", "jaxpriv/_assets/census.csv"} <= names
    links = re.findall(r"\]\(([^)]+)\)", record.get_payload())
    assert links
    assert all(re.match("https?://|#", link) for link in links)
    urls = dict(text.split(", ", 1) for text in record.get_all("Project-URL"))
    assert {"Repository", "Documentation", "Issues"} <= urls.keys()


@compiler
@pytest.mark.slow
def test_a_wheel_with_kernels_runs_without_a_compiler(source, tmp_path):
    (tmp_path / "wheels").mkdir()
    # The last flag counts: what is asked here depends on no optimisation, which takes ten times as long to compile.
    quick = tmp_path / "cc"
    quick.write_text('#!/bin/sh\nexec cc "$@" -O0\n')
    quick.chmod(0o755)
    wheel = build(source, "wheel", tmp_path / "wheels", JAXPRIV_KERNELS="native", CC=str(quick))
    assert re.search(r"-py3-none-(?!any)", wheel.name)
    # Nothing newer than what `common.h` asks of glibc is called.
    assert "manylinux" not in wheel.name or "manylinux_2_17_" in wheel.name
    if importlib.util.find_spec("auditwheel") is not None and "manylinux" in wheel.name:
        said = subprocess.run(
            [sys.executable, "-m", "auditwheel", "show", str(wheel)], capture_output=True, text=True, check=True
        ).stdout
        assert f'following platform tag: "{wheel.stem.split("-")[-1]}"' in " ".join(said.split())
    found = probe(installed(wheel, tmp_path / "environment"), tmp_path / "environment")
    assert_kernels_run(found)


@compiler
@pytest.mark.thorough
def test_kernels_compiled_on_the_oldest_jaxlib_run_on_this_one(source, tmp_path):
    """What `make wheels` does: an upgrade of jaxlib leaves them in place."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (oldest,) = (text.split(">=")[1] for text in dependencies if text.startswith("jaxlib"))
    if Version(jaxlib.__version__) == Version(oldest):
        pytest.skip("this is the oldest jaxlib")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(tmp_path / "old")]
    got = subprocess.run([*command, f"jaxlib=={oldest}"], capture_output=True, text=True, timeout=600)
    if got.returncode:
        pytest.skip(f"no package index with jaxlib {oldest} can be reached")
    (tmp_path / "wheels").mkdir()
    wheel = build(source, "wheel", tmp_path / "wheels", JAXPRIV_KERNELS="", PYTHONPATH=str(tmp_path / "old"))
    found = probe(installed(wheel, tmp_path / "environment"), tmp_path / "environment")
    assert_kernels_run(found)


def test_the_source_distribution_is_the_repository(source):
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is no git repository")
    packed = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    assert set(listed.stdout.split()) - packed <= {".pre-commit-config.yaml"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="tags of Linux")
@pytest.mark.parametrize(
    ("symbols", "system"),
    [
        (b"", "manylinux_2_17"),
        (b"\0GLIBC_2.2.5\0GLIBC_2.14\0", "manylinux_2_17"),
        (b"\0GLIBC_2.29\0GLIBC_2.4\0GLIBC_2.3.4\0", "manylinux_2_29"),
        (b"\0GLIBC_3.1\0GLIBC_2.38\0", "manylinux_3_1"),
    ],
)
def test_the_platform_is_the_oldest_that_has_all_symbols(tmp_path, monkeypatch, symbols, system):
    module, machine = hatch_build(), sysconfig.get_platform().removeprefix("linux-").replace("-", "_")
    (tmp_path / "kernels.so").write_bytes(symbols)
    tags = []
    for version in (("glibc", "2.36"), ("", "")):
        monkeypatch.setattr(module.platform, "libc_ver", lambda version=version: version)
        tags.append(module.platform_of(tmp_path / "kernels.so"))
    assert tags[0] == f"{system}_{machine}"
    assert "manylinux_2_29" not in tags[1]


def test_a_wheel_of_macos_is_for_the_version_and_the_processor_it_was_compiled_for(monkeypatch):
    module = hatch_build()
    monkeypatch.setattr(module.sys, "platform", "darwin")
    monkeypatch.setattr(module.platform, "machine", lambda: "arm64")
    monkeypatch.delenv("MACOSX_DEPLOYMENT_TARGET", raising=False)
    assert module.platform_of(ROOT / "none") == "macosx_11_0_arm64"
    monkeypatch.setenv("MACOSX_DEPLOYMENT_TARGET", "12.1")
    assert module.platform_of(ROOT / "none") == "macosx_12_1_arm64"


def test_links_are_absolute_on_an_index_and_relative_in_a_checkout():
    change = hatch_build().absolute_links
    home = "https://host/repository"
    assert change("[a](docs/a.md)", home) == f"[a]({home}/blob/main/docs/a.md)"
    assert change("x ![b](b.png) y", home) == f"x ![b]({home}/raw/main/b.png) y"
    for text in ("[c](https://other/d)", "[e](#part)", "[e](mailto:a@b)", "f[0](x", "g (h)"):
        assert change(text, home) == text
    links = re.findall(r"\]\((?![a-z]+:|#)([^)]+)\)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_demo_installs_what_it_needs_and_no_tools_of_development():
    def lines(name):
        return [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]

    demo, everything = lines("requirements-demo.lock"), lines("requirements.lock")
    assert set(demo) <= set(everything)  # `make install` adds to what `make demo` installed
    names = {re.split("==", line)[0].lower().replace("_", "-") for line in demo}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["plots"]]
    assert {Requirement(text).name for text in [*wanted, *project["build-system"]["requires"]]} <= names
    tools = {Requirement(text).name for text in project["project"]["optional-dependencies"]["dev"]} - {"hatchling"}
    assert not tools & names


# The names that Python lacks on Windows are removed once the packages are imported that have other ways there.
ON_WINDOWS = """
import os, signal, sys
import equinox, jax, numpy, scipy.optimize, scipy.stats, click, subprocess, tempfile, shutil
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in (
    "sched_getaffinity", "fchmod", "geteuid", "getuid", "fork", "register_at_fork", "killpg", "setsid", "uname",
    "sysconf", "O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "O_NONBLOCK",
):
    delattr(os, name)
for name in ("SIGKILL", "SIGALRM", "SIGUSR1", "SIGHUP", "pthread_sigmask", "setitimer"):
    delattr(signal, name)
from jaxpriv.__main__ import main
columns = ["--private", "income", "--useful", "town"]
for line in (
    ["fit", "people.csv", *columns, "--budget", "0.2", "--out", "design.zip"],
    ["release", "people.csv", "--design", "design.zip", "--out", "released.csv", "--receipt", "receipt.json"],
    ["verify", "receipt.json", "--design", "design.zip", "--released", "released.csv"],
):
    try:
        sys.argv[1:] = line
        main()
    except SystemExit as end:
        if end.code:
            raise
"""


def test_the_names_that_windows_lacks_are_not_needed(tmp_path):
    rows = [f"{int(i * 7 % 10 < 3 + 2 * (i % 3))},{i % 3}" for i in range(300)]
    (tmp_path / "people.csv").write_text("\n".join(["income,town", *rows, ""]))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAXPRIV_KERNELS": "off"}
    done = subprocess.run(
        [sys.executable, "-c", ON_WINDOWS], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "everything that was checked is as stated" in done.stdout
    assert list(tmp_path.glob("private-ledger-*"))
