"""The library of CPU kernels: what may keep it away, what is said then, and how it is built."""

import ctypes
import hashlib
import importlib.util
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
from jaxpriv.solvers import _newton_system

ROOT = Path(__file__).parents[2]

kernels = pytest.mark.skipif(native.absence() is not None, reason=f"no CPU kernels: {native.absence()}")


@pytest.fixture(autouse=True)
def library_settings():
    with compilation.own_settings():
        yield


@pytest.fixture
def fresh():
    """Nothing compiled and nothing known of kernels, before and after; solves are compiled: NumPy takes no kernels."""

    def forget():
        compilation._PROGRAMS.clear()
        native.absence.cache_clear()
        native._say.cache_clear()

    forget()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JAXPRIV_COMPILE", "always")
        yield
    forget()


def problem():
    rng = np.random.default_rng(6)
    x = np.arange(9.0)
    return jp.DistortionProblem(rng.dirichlet(np.ones(36)).reshape(4, 9), jp.distortion.absolute(x, x), budget=0.6)


def computes():
    """A program is traced anew, with the kernels or the code that stands for them, and gives the right numbers."""
    jax.clear_caches()
    half = np.random.default_rng(0).normal(size=(5, 9))
    g = jnp.asarray(half @ half.T)
    k = np.asarray(_newton_system.inverse_factor(g, jnp.ones(5)))
    np.testing.assert_allclose(k @ np.asarray(g) @ k.T, np.eye(5), atol=1e-9)


def test_without_kernels_the_answer_is_the_same(fresh, monkeypatch):
    with monkeypatch.context() as host:
        host.delenv("JAXPRIV_COMPILE")
        with_them = jp.solve(problem(), "interior-point", tol=1e-9)
    monkeypatch.setattr(native, "absence", lambda: "taken away by a test")
    without = jp.solve(problem(), "interior-point", tol=1e-9)
    assert with_them.status == without.status == "optimal"
    assert without.lower_bound <= with_them.value + 1e-12
    assert with_them.lower_bound <= without.value + 1e-12


def test_a_missing_or_unreadable_library_is_said(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "kernels.so")
    assert "not compiled" in native.absence()
    assert native.instruction_set() is None
    native.absence.cache_clear()
    library = tmp_path / "kernels.so"
    library.write_bytes(b"not a library")
    monkeypatch.setattr(native, "SEAL", tmp_path / "no-such-file")
    assert "cannot be read" in native.absence()
    native.absence.cache_clear()
    monkeypatch.setattr(native, "SEAL", seal(library))
    assert "does not load" in native.absence()


def seal(library):
    path = library.with_suffix(".sha256")
    path.write_text(hashlib.sha256(library.read_bytes()).hexdigest() + "\n")
    return path


@kernels
def test_a_damaged_library_is_not_mapped(fresh, monkeypatch, tmp_path):
    """A truncated one ends the process by a signal as soon as what is missing is used."""
    damaged = tmp_path / "kernels.so"
    damaged.write_bytes(native.LIBRARY.read_bytes()[:300_000])
    monkeypatch.setattr(native, "LIBRARY", damaged)
    assert "damaged" in native.absence()
    computes()


def test_a_missing_library_is_said_once_and_a_choice_is_not(fresh, monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "kernels.so")
    for value in ("off", ""):
        monkeypatch.setenv(native.SWITCH, value)
        native.absence.cache_clear()
        for number in (np.float64, np.float32):
            for _ in range(2):
                jax.clear_caches()
                jax.eval_shape(_newton_system.inverse_factor, jnp.eye(3, dtype=number), jnp.ones(3, dtype=number))
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


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("minor", [1, 9999])
def test_xla_is_asked_which_interfaces_it_takes(minor, fresh, monkeypatch, tmp_path):
    """Kernels of an older interface are taken; those of one to come are not, and the CPU backend works on."""
    # Other names than the kernels': XLA takes one function only for each.
    targets = {f"jaxpriv_answer_{i}": f"jaxpriv_answer_{i}_{minor}" for i in range(2)}
    source, library = tmp_path / "answering.c", tmp_path / "kernels.so"
    text = ANSWERING.format(minor=minor, digest=native.sources_digest())
    source.write_text(text + "".join(ANSWER.format(name=name) for name in targets))
    include = Path(jaxlib.__file__).parent / "include"
    command = ["cc", "-std=gnu11", "-shared", "-fPIC", f"-I{include}", f"-I{native.FOLDER}", source, "-o", library]
    subprocess.run(command, check=True)
    monkeypatch.setattr(native, "LIBRARY", library)
    monkeypatch.setattr(native, "SEAL", seal(library))
    monkeypatch.setattr(native, "_TARGETS", targets)
    if minor == 1:
        assert native.absence() is None
    else:
        assert "API version (0.9999)" in native.absence()
    assert jax.jit(jnp.sum)(jnp.ones(3)) == 3.0


def test_a_process_without_cpu_backend_is_told(fresh, monkeypatch):
    def unknown(backend):
        raise RuntimeError(f"Unknown backend {backend}")

    monkeypatch.setattr(jax, "local_devices", unknown)
    assert ("Unknown backend cpu" if native.LIBRARY.is_file() else "not compiled") in native.absence()


@kernels
def test_a_library_without_one_of_the_kernels_is_left_alone(fresh, monkeypatch):
    monkeypatch.setitem(native._TARGETS, "jaxpriv_of_tomorrow", "jaxpriv_of_tomorrow_v1")
    assert "does not load" in native.absence()


@kernels
def test_a_library_of_another_source_is_left_alone(fresh, monkeypatch, tmp_path):
    for path in sources(native.FOLDER):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    assert native.absence() is None
    native.absence.cache_clear()
    with (tmp_path / "common.h").open("a") as header:
        header.write("/* a correction */")
    assert "other C sources" in native.absence()


@kernels
def test_they_can_be_kept_to_less_than_there_is(fresh, monkeypatch):
    monkeypatch.setenv(native.SWITCH, "baseline")
    assert native.instruction_set() == "baseline"
    computes()
    monkeypatch.delenv(native.SWITCH)
    native.absence.cache_clear()
    assert native.absence() is None  # and sets it back


@pytest.mark.parametrize("value", ["off", "OFF", "sse"])
def test_they_can_be_switched_off(value, fresh, monkeypatch):
    monkeypatch.setenv(native.SWITCH, value)
    assert native.SWITCH in native.absence()
    computes()


def sources(folder):
    return sorted([*folder.glob("*.c"), *folder.glob("*.h")])


def build_script():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path):
    if not (ROOT / "hatch_build.py").is_file():
        pytest.skip("hatch_build.py is part of a checkout only")
    folder = tmp_path / "jaxpriv" / "_runtime" / "native"
    folder.mkdir(parents=True)
    for path in sources(ROOT / "jaxpriv" / "_runtime" / "native"):
        shutil.copy(path, folder)
    return tmp_path


def test_a_build_without_compiler_says_so_and_leaves_nothing(checkout, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert build_script().compile_kernels(checkout) == "no C compiler"
    folder = checkout / "jaxpriv" / "_runtime" / "native"
    assert sorted(folder.iterdir()) == sources(folder)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_build_that_fails_shows_the_compiler_and_keeps_the_old_library(checkout, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    folder = checkout / "jaxpriv" / "_runtime" / "native"
    (folder / "kernels.so").write_bytes(b"old")
    for path in folder.glob("*.c"):
        path.write_text("no C at all")
    assert "error" in build_script().compile_kernels(checkout)
    assert (folder / "kernels.so").read_bytes() == b"old"
    assert sorted(folder.iterdir()) == sorted([*sources(folder), folder / "kernels.so"])


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_build_writes_the_digest_beside_the_library_and_compiles_nothing_twice(checkout, monkeypatch):
    monkeypatch.setenv("CC", "cc")
    monkeypatch.delenv("JAXPRIV_KERNELS", raising=False)
    for path in sources(checkout / "jaxpriv" / "_runtime" / "native"):
        path.write_text("")
    folder = checkout / "jaxpriv" / "_runtime" / "native"
    (folder / "one.c").write_text("int one(void) { return 1; }")

    def built():
        """Which file the library is now."""
        assert build_script().compile_kernels(checkout) is None
        seal, _ = (folder / "kernels.sha256").read_text().split()
        assert seal == hashlib.sha256((folder / "kernels.so").read_bytes()).hexdigest()
        return (folder / "kernels.so").stat().st_ino

    first = built()
    assert built() == first
    (folder / "one.c").write_text("int one(void) { return 2; }")
    second = built()
    assert second != first
    monkeypatch.setenv("CC", "cc -g")
    third = built()
    assert third != second
    (folder / "kernels.so").write_bytes(b"cut")
    assert built() != third


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_build_for_its_own_machine_knows_which_instructions_it_has(checkout, monkeypatch):
    monkeypatch.setenv("CC", "cc")
    monkeypatch.setenv("JAXPRIV_KERNELS", "native")
    for path in (checkout / "jaxpriv" / "_runtime" / "native").glob("*.c"):
        if path.name != "factor.c":
            path.unlink()
    assert build_script().compile_kernels(checkout) is None
    library = ctypes.CDLL(str(checkout / "jaxpriv" / "_runtime" / "native" / "kernels.so"))
    library.jaxpriv_instructions.restype = ctypes.c_char_p
    widest = {b"baseline": 16, b"AVX2": 32, b"AVX-512": 64}[library.jaxpriv_instructions()]
    for most in (64, 32, 16):
        library.jaxpriv_use_at_most(most)
        assert library.jaxpriv_usable() == (widest <= most)


@kernels
def test_kernels_of_other_instructions_are_left_alone(fresh, monkeypatch):
    library = ctypes.CDLL(str(native.LIBRARY))
    monkeypatch.setattr(native.ctypes, "CDLL", lambda path: SimpleNamespace(**_all_but_usable(library)))
    assert "other instructions" in native.absence()
    assert jp.solve(problem(), "interior-point").status == "optimal"


def _all_but_usable(library):
    names = [*native._TARGETS, "jaxpriv_compiled_from", "jaxpriv_use_at_most"]
    return {**{name: getattr(library, name) for name in names}, "jaxpriv_usable": lambda: 0}


def test_a_compiler_that_is_not_there_is_a_reason_and_no_error(checkout, monkeypatch):
    monkeypatch.setenv("CC", str(checkout / "no-such-compiler"))
    assert "no-such-compiler" in build_script().compile_kernels(checkout)
    folder = checkout / "jaxpriv" / "_runtime" / "native"
    assert sorted(folder.iterdir()) == sources(folder)
