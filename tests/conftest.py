"""Settings of the whole suite. They are set before any jaxpriv module is imported."""

import ctypes
import gc
import os
import random
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

# A shell without job control starts what runs in its background with SIGINT ignored, which processes inherit: the tests
# of interrupts need it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The files of Python that one process has compiled, workers and the processes that tests start load: otherwise each of
# them compiles JAX anew, four seconds of processor time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Most of the suite's time is compiling. This setting of JAX's own (few optimisations) is for the code that the tests
# compile themselves and for the processes that they start. No flags of XLA are set: they come and go with its versions,
# and an unknown one ends the process.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "true")
# Workers of one run share the processors: threads of BLAS beside them only wait for one another.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What one worker has compiled, another one and the next run load, from a folder of the checkout (`make clean`).
# JAX's key holds its version, the options and the program, not where the program's lines stand.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).resolve().parents[1] / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
# With a bound on its size the cache is locked: without one a worker may read what another has half written, which ends
# the process.
os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(4 << 30))
# Nobody reads where in the sources an operation of a program came from.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
# The library's own executables are not kept: tests change constants that programs are made from.
os.environ["JAXPRIV_CACHE"] = "off"

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from jax._src import lru_cache
from jax.experimental.compilation_cache import compilation_cache
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# With JAXPRIV_SHAPES in the environment (`make smoke`), array shapes and dtypes in annotations are checked while the
# tests run, in the modules that have such annotations: it takes a seventh of the whole suite's time. The modules that
# name arrays and numbers without a shape (`Arr`, `ScalarLike`) are not checked: a check takes a hundred times as long
# as an operation on a small array, and steps of solvers consist of those. The hook stays installed: a module imported
# later, inside a test, is checked as well.
_PACKAGE = Path(__file__).resolve().parents[1] / "jaxpriv"
# Public functions of these refuse bad arguments themselves, with an `InputError` that tests ask for.
_OWN_CHECKS = {"jaxpriv.models.baselines", "jaxpriv.statistics.watchdog", "jaxpriv.statistics.watchdog.thresholds"}
_SHAPES = "Float|Int|Bool|Joint|Mechanism|PrivateMarginal|OutputJoint|Column|Scalar"
_SHAPED = [
    name
    for path in sorted(_PACKAGE.rglob("*.py"))
    if re.search(rf"from (jaxtyping|jaxpriv\._runtime\.types) import .*\b({_SHAPES})\b", path.read_text())
    and (name := ".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"))
    not in _OWN_CHECKS
]
if "JAXPRIV_SHAPES" in os.environ:
    install_import_hook(_SHAPED, "beartype.beartype")

# The first call of a compiled function takes seconds: a deadline would only measure the compiler.
from jaxpriv._runtime import clock, compilation, executables, native, resources  # noqa: E402  # after the hook
from jaxpriv.solving import choice, kinds, loops, many, streamed_runs  # noqa: E402
from tests.cases import CompilerError, Now  # noqa: E402
from tests.compiling import QUICKLY, without_whole_solves  # noqa: E402

# How often a shape came in other tests must not decide whether it is compiled: last bits would depend on their order.
loops._ENOUGH = float("inf")

# Last bits differ from those of a release, which a test of them asks for (`options_of_a_release`).
_LEVEL = compilation._OPTIONS["xla_backend_optimization_level"]
exec(QUICKLY)
# Memory that the compiler has freed is left for the next program.
compilation._trim = lambda: None
# With a bound every new program would read when each of the others was last used, and the other worker wait for it.
lru_cache.LRUCache._evict_if_needed = lambda *_, **__: None

# Nothing of what has been imported is ever freed, and programs leave few cycles: looking for them less often, and not
# among modules, saves some five percent of the time.
gc.freeze()
gc.set_threshold(50_000, 20, 20)

_QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=12, suppress_health_check=_QUIET)
settings.register_profile("nightly", deadline=None, max_examples=500, suppress_health_check=_QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


# Markers of what runs only where it is asked for, with `-m`.
_ASKED_FOR = ("thorough", "grid", "guard")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = config.option.markexpr or ""
    left_out = [marker for marker in _ASKED_FOR if not re.search(rf"\b{marker}\b", asked)]
    chosen = [item for item in items if not any(item.get_closest_marker(marker) for marker in left_out)]
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen


# A process may map only so much compiled code (65530 pieces on Linux), less than the whole suite makes. Compiling makes
# some 230 of them in a second of processor time, so that no module adds as many as are left; forgetting takes seconds.
_MAPS, _MOST_MAPS = Path("/proc/self/maps"), 45_000


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_code():
    """After a module, forget what was compiled, if it has become much."""
    yield
    if _MAPS.exists() and _MAPS.read_text().count("\n") > _MOST_MAPS:
        compilation._PROGRAMS.clear()
        jax.clear_caches()


@pytest.fixture(autouse=True, scope="session")
def _temporary_files_are_of_this_run(tmp_path_factory) -> None:
    """Beside the folders of tests, which pytest removes: a worker's process calls nothing at its exit that would."""
    tempfile.tempdir = str(tmp_path_factory.mktemp("temporary"))


@pytest.fixture(autouse=True)
def _settings_of_numpy_stay() -> Iterator[None]:
    """What NumPy does about numbers that are not finite is the caller's choice: nothing leaves it changed."""
    before = np.geterr()
    yield
    assert np.geterr() == before


@pytest.fixture
def options_of_a_release(monkeypatch) -> Iterator[None]:
    """Programs of the library are compiled as everywhere else: a tolerance near rounding is asked for."""

    def forget() -> None:
        compilation._options.cache_clear()
        compilation._PROGRAMS.clear()

    monkeypatch.setitem(compilation._OPTIONS, "xla_backend_optimization_level", _LEVEL)
    forget()
    yield
    forget()


@pytest.fixture
def no_whole_solves() -> Iterator[None]:
    """Mutual information is computed as every other measure: no kernel solves its problems as a whole."""
    with without_whole_solves():
        yield


@pytest.fixture
def own_settings() -> Iterator[None]:
    """The settings under which the library runs its own traced code."""
    with compilation.own_settings():
        yield


@pytest.fixture
def no_programs(monkeypatch) -> None:
    """A process that has compiled nothing so far."""
    monkeypatch.setattr(compilation, "_PROGRAMS", type(compilation._PROGRAMS)())


@pytest.fixture
def place(tmp_path, monkeypatch, no_programs) -> Iterator[Path]:
    """An empty folder for executables, in a process that keeps none in memory and none by JAX's own cache."""
    monkeypatch.setenv(executables.SWITCH, str(tmp_path / "executables"))
    # The library puts no folder back where it has used JAX's cache: all that comes later would be compiled anew.
    before = jax.config.jax_enable_compilation_cache, jax.config.jax_compilation_cache_dir
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    executables._say.cache_clear()
    yield tmp_path / "executables"
    jax.config.update("jax_enable_compilation_cache", before[0])
    jax.config.update("jax_compilation_cache_dir", before[1])
    compilation_cache.reset_cache()


@pytest.fixture
def forgotten(monkeypatch) -> None:
    """A process that has solved nothing so far, and whose user has not chosen what is compiled."""
    loops._SPENT.clear()
    clock._COMPILED.clear()
    monkeypatch.delenv(loops.SWITCH, raising=False)


@pytest.fixture
def enough(monkeypatch, forgotten) -> Callable[[float], None]:
    """`enough(seconds)`: a program is compiled that took longer than this so far."""
    return lambda seconds: monkeypatch.setattr(loops, "_ENOUGH", seconds)


@pytest.fixture
def no_compiler(monkeypatch, forgotten) -> None:
    """Where something would be compiled, a `CompilerError` is raised."""

    def refuse(*_: object, **__: object) -> None:
        raise CompilerError

    for module in (loops, many, streamed_runs):
        monkeypatch.setattr(module, "compiled", refuse)
    monkeypatch.setattr(loops, "on_host", refuse)


@pytest.fixture
def now(monkeypatch) -> Now:
    """The time of all clocks: it stands still but for what a test adds to it."""
    time = Now()
    for module in (clock, loops):
        monkeypatch.setattr(module, "time", time)
    return time


@pytest.fixture
def worth_compiling(monkeypatch) -> Callable[[float], None]:
    """`worth_compiling(seconds)`: batches are compiled that would take longer than this otherwise."""
    return lambda seconds: monkeypatch.setattr(kinds, "WORTH_COMPILING", seconds)


@pytest.fixture
def free_memory(monkeypatch) -> Callable[[float], None]:
    """`free_memory(count)`: so many bytes are free from now on, and the smallest problem is held against them too."""
    monkeypatch.setattr(resources, "ALWAYS", 0.0)
    return lambda count: monkeypatch.setattr(resources, "free_memory", lambda: count)


@pytest.fixture
def absent(monkeypatch) -> Callable[[str], None]:
    """`absent(name)`: the package is not installed."""
    return lambda name: monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def in_children(monkeypatch, tmp_path_factory) -> Callable[[str], None]:
    """`in_children(code)`: every process of Python that starts from now on runs this code first."""

    def first(code: str) -> None:
        folder = tmp_path_factory.mktemp("site")
        (folder / "sitecustomize.py").write_text(code)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *filter(None, [os.getenv("PYTHONPATH")])]))

    return first


@pytest.fixture
def original(monkeypatch) -> Callable[..., None]:
    """`original(module, name, files=..., url=...)`: the files of a data set are these, and come from there."""
    return lambda module, name, **what: monkeypatch.setattr(module, name, replace(getattr(module, name), **what))


@pytest.fixture
def random_bytes(monkeypatch) -> Callable[[Callable[[int], bytes]], None]:
    """`random_bytes(function)`: the bytes that releases draw with are these, in place of the system's."""
    return lambda function: monkeypatch.setattr("jaxpriv.release.table._random_bytes", function)


@pytest.fixture
def same_draws(monkeypatch, random_bytes) -> None:
    """Releases draw, and the verifier simulates, the same in every run: what is asserted may fail for a few draws."""
    random_bytes(np.random.default_rng(0).bytes)
    generator = random.Random(0)
    monkeypatch.setattr("jaxpriv.verifier.monte_carlo._generator", lambda: generator)


@pytest.fixture
def no_tables(monkeypatch, free_memory) -> None:
    """Tables do not fit into the memory that `auto` counts with, however small they are."""
    monkeypatch.setattr(choice, "_AUTO_SHARE", 0.0)


@pytest.fixture(params=["", "avx2", "baseline"])
def instructions(request) -> Iterator[None]:
    """The kernels with no more than these instructions (or what the machine has, if that is less)."""
    native.absence()  # says what it wants itself, the first time
    library = ctypes.CDLL(str(native.LIBRARY))
    library.jaxpriv_use_at_most(native._WIDEST[request.param])
    if not library.jaxpriv_usable():
        library.jaxpriv_use_at_most(native._WIDEST[native.chosen()])
        pytest.skip("the kernels were compiled for other instructions only")
    yield
    library.jaxpriv_use_at_most(native._WIDEST[native.chosen()])


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of papers, data and reference values beside the repository; skips where it is absent."""
    folder = Path(__file__).resolve().parents[1].parent / "shared"
    if not folder.is_dir():
        pytest.skip("the shared folder with reference values is not beside this repository")
    return folder


@pytest.fixture
def surely(monkeypatch) -> None:
    """An honest release is not refused: with the level of `verify` one in a thousand is, and draws are the system's."""
    monkeypatch.setattr("jaxpriv.verifier.LEVEL", 1e-6)
