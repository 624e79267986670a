"""The library of CPU kernels: what may keep it away, what is said then, and how it is built."""

import ctypes
import hashlib
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv._runtime import compilation, native
from jaxpriv.solvers import _inverse_factors
from tests.cases import ROOT, assert_one_optimum, drawn_joint, run_python
from tests.compiling import kernels
from tests.test_installation import hatch_build

compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
pytestmark = pytest.mark.usefixtures("own_settings")


@pytest.fixture
def fresh():
    """Nothing compiled and nothing known of kernels, before and after; solves are compiled."""

    def forget():
        compilation._PROGRAMS.clear()
        native.absence.cache_clear()
        native._say.cache_clear()
        native.frame.cache_clear()

    forget()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JAXPRIV_COMPILE", "always")
        yield
    forget()


@pytest.fixture
def absence(fresh, monkeypatch):
    """`absence(NAME=value)`: why there are no kernels where these are the names of `native`; None if there are."""

    def with_names(**names):
        for name, value in names.items():
            monkeypatch.setattr(native, name, value)
        native.absence.cache_clear()
        native.frame.cache_clear()
        return native.absence()

    return with_names


def problem():
    rng = np.random.default_rng(6)
    x = np.arange(9.0)
    return jp.DistortionProblem(drawn_joint(rng, 4, 9), jp.distortion.absolute(x, x), budget=0.6)


def computes():
    """A program is traced anew, with the kernels or the code that stands for them, and gives the right numbers."""
    jax.clear_caches()
    half = np.random.default_rng(0).normal(size=(5, 9))
    g = jnp.asarray(half @ half.T)
    k = np.asarray(_inverse_factors.inverse_factor(g, jnp.ones(5)))
    np.testing.assert_allclose(k @ np.asarray(g) @ k.T, np.eye(5), atol=1e-9)


def seal(library):
    path = library.with_suffix(".sha256")
    path.write_text(hashlib.sha256(library.read_bytes()).hexdigest() + "\n")
    return path


def test_without_kernels_the_answer_is_the_same(absence, monkeypatch):
    with monkeypatch.context() as host:
        host.delenv("JAXPRIV_COMPILE")
        with_them = jp.solve(problem(), "interior-point", tol=1e-9)
    monkeypatch.setenv(native.SWITCH, "off")
    assert "switched off" in absence()
    without = jp.solve(problem(), "interior-point", tol=1e-9)
    assert with_them.status == without.status == "optimal"
    assert_one_optimum(without, with_them, 1e-12)


def test_a_missing_or_unreadable_library_is_said(absence, tmp_path):
    library = tmp_path / "kernels.so"
    assert "not compiled" in absence(LIBRARY=library)
    assert native.instruction_set() is None
    library.write_bytes(b"not a library")
    assert "cannot be read" in absence(SEAL=tmp_path / "no-such-file")
    assert "does not load" in absence(SEAL=seal(library))


@kernels
def test_a_damaged_library_is_not_mapped(absence, tmp_path):
    """A truncated one ends the process by a signal as soon as what is missing is used."""
    damaged = tmp_path / "kernels.so"
    damaged.write_bytes(native.LIBRARY.read_bytes()[:300_000])
    assert "damaged" in absence(LIBRARY=damaged)
    computes()


def test_a_missing_library_is_said_once_and_a_choice_is_not(absence, monkeypatch, tmp_path, caplog):
    for value in ("off", ""):
        monkeypatch.setenv(native.SWITCH, value)
        absence(LIBRARY=tmp_path / "kernels.so")
        for number in (np.float64, np.float32):
            for _ in range(2):
                jax.clear_caches()
                jax.eval_shape(_inverse_factors.inverse_factor, jnp.eye(3, dtype=number), jnp.ones(3, dtype=number))
        assert len(caplog.records) == (value != "off")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("jaxpriv", "WARNING")
    assert "not compiled when jaxpriv was installed" in record.getMessage()
    assert "\n" not in record.getMessage()


# Kernels that only answer for which version of XLA's interface they were compiled.
ANSWERING = """
#include "xla/ffi/api/c_api.h"
#undef XLA_FFI_API_MINOR
#define XLA_FFI_API_MINOR {minor}
#include "common.h"
int jaxpriv_widest;
void jaxpriv_use_at_most(int bytes) {{ jaxpriv_widest = bytes; }}
int jaxpriv_usable(void) {{ return 1; }}
const char *jaxpriv_compiled_from(void) {{ return "{digest}"; }}
"""
ANSWER = """
XLA_FFI_Error *{name}(XLA_FFI_CallFrame *frame) {{
  return asked_for_version(frame) ? NULL : complain(frame, XLA_FFI_Error_Code_INTERNAL, "only answers");
}}
"""


@compiler
@pytest.mark.parametrize("minor", [1, 9999])
def test_xla_is_asked_which_interfaces_it_takes(minor, absence, tmp_path):
    """Kernels of an older interface are taken; those of one to come are not, and the CPU backend works on."""
    # Other names than the kernels': XLA takes one function only for each.
    targets = {f"jaxpriv_answer_{i}": f"jaxpriv_answer_{i}_{minor}" for i in range(2)}
    source, library = tmp_path / "answering.c", tmp_path / "kernels.so"
    text = ANSWERING.format(minor=minor, digest=native.sources_digest())
    source.write_text(text + "".join(ANSWER.format(name=name) for name in targets))
    include = Path(jaxlib.__file__).parent / "include"
    command = ["cc", "-std=gnu11", "-shared", "-fPIC", f"-I{include}", f"-I{native.FOLDER}", source, "-o", library]
    subprocess.run(command, check=True)
    said = absence(LIBRARY=library, SEAL=seal(library), _TARGETS=targets)
    assert said is None if minor == 1 else "API version (0.9999)" in said
    assert jax.jit(jnp.sum)(jnp.ones(3)) == 3.0


def test_a_process_without_cpu_backend_is_told():
    """JAX_PLATFORMS names an accelerator that is not there."""
    said = run_python("-c", "from jaxpriv._runtime import native; print(native.absence())", JAX_PLATFORMS="cuda")
    assert ("JAX does not run on the CPU here" if native.LIBRARY.is_file() else "not compiled") in said


@kernels
def test_a_library_without_one_of_the_kernels_is_left_alone(absence):
    assert "does not load" in absence(_TARGETS={**native._TARGETS, "jaxpriv_of_tomorrow": "jaxpriv_of_tomorrow_v1"})


@kernels
def test_a_library_of_another_source_is_left_alone(absence, tmp_path):
    for path in sources(native.FOLDER):
        shutil.copy(path, tmp_path)
    assert absence(FOLDER=tmp_path) is None
    with (tmp_path / "common.h").open("a") as header:
        header.write("/* a correction */")
    assert "other C sources" in absence()


@kernels
def test_kernels_of_other_instructions_are_left_alone(absence, monkeypatch):
    library = ctypes.CDLL(str(native.LIBRARY))
    names = [*native._TARGETS, "jaxpriv_compiled_from", "jaxpriv_use_at_most"]
    other = SimpleNamespace(jaxpriv_usable=lambda: 0, **{name: getattr(library, name) for name in names})
    assert "other instructions" in absence(ctypes=SimpleNamespace(CDLL=lambda path: other, c_char_p=ctypes.c_char_p))
    monkeypatch.setenv("JAXPRIV_COMPILE", "never")
    assert jp.solve(problem(), "interior-point").status == "optimal"


@kernels
def test_they_can_be_kept_to_less_than_there_is(absence, monkeypatch):
    monkeypatch.setenv(native.SWITCH, "baseline")
    assert native.instruction_set() == "baseline"
    computes()
    monkeypatch.delenv(native.SWITCH)
    assert absence() is None  # and sets it back


@pytest.mark.parametrize("value", ["off", "OFF", "sse"])
def test_they_can_be_switched_off(value, fresh, monkeypatch):
    monkeypatch.setenv(native.SWITCH, value)
    assert native.SWITCH in native.absence()
    computes()


def sources(folder):
    return sorted([*folder.glob("*.c"), *folder.glob("*.h")])


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder that has the sources of the kernels and nothing else, and the folder of these in it."""
    if not (ROOT / "hatch_build.py").is_file():
        pytest.skip("hatch_build.py is part of a checkout only")
    folder = tmp_path / native.FOLDER.relative_to(ROOT)
    folder.mkdir(parents=True)
    for path in sources(native.FOLDER):
        shutil.copy(path, folder)
    monkeypatch.setenv("CC", "cc")
    monkeypatch.delenv("JAXPRIV_KERNELS", raising=False)
    return tmp_path, folder


def test_a_build_without_compiler_says_so_and_leaves_nothing(checkout, monkeypatch):
    root, folder = checkout
    monkeypatch.setenv("CC", str(root / "no-such-compiler"))
    assert "no-such-compiler" in hatch_build().compile_kernels(root)
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(root))
    assert hatch_build().compile_kernels(root) == "no C compiler"
    assert sorted(folder.iterdir()) == sources(folder)


@compiler
def test_a_build_that_fails_shows_the_compiler_and_keeps_the_old_library(checkout):
    root, folder = checkout
    (folder / "kernels.so").write_bytes(b"old")
    for path in folder.glob("*.c"):
        path.write_text("no C at all")
    assert "error" in hatch_build().compile_kernels(root)
    assert (folder / "kernels.so").read_bytes() == b"old"
    assert sorted(folder.iterdir()) == sorted([*sources(folder), folder / "kernels.so"])


@compiler
def test_a_build_writes_the_digest_beside_the_library_and_compiles_nothing_twice(checkout, monkeypatch):
    root, folder = checkout
    for path in sources(folder):
        path.write_text("")
    (folder / "library.c").write_text("int one(void) { return 1; }")

    def built():
        """Which file the library is now."""
        assert hatch_build().compile_kernels(root) is None
        digest, _ = (folder / "kernels.sha256").read_text().split()
        assert digest == hashlib.sha256((folder / "kernels.so").read_bytes()).hexdigest()
        return (folder / "kernels.so").stat().st_ino

    first = built()
    assert built() == first
    (folder / "library.c").write_text("int one(void) { return 2; }")
    second = built()
    assert second != first
    monkeypatch.setenv("CC", "cc -g")
    third = built()
    assert third != second
    (folder / "kernels.so").write_bytes(b"cut")
    assert built() != third


@compiler
def test_a_build_for_its_own_machine_knows_which_instructions_it_has(checkout, monkeypatch):
    root, folder = checkout
    monkeypatch.setenv("JAXPRIV_KERNELS", "native")
    for path in folder.glob("*.c"):
        if path.name != "library.c":
            path.unlink()
    assert hatch_build().compile_kernels(root) is None
    library = ctypes.CDLL(str(folder / "kernels.so"))
    library.jaxpriv_instructions.restype = ctypes.c_char_p
    widest = {b"baseline": 16, b"AVX2": 32, b"AVX-512": 64}[library.jaxpriv_instructions()]
    for most in (64, 32, 16):
        library.jaxpriv_use_at_most(most)
        assert library.jaxpriv_usable() == (widest <= most)
