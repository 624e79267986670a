"""Executables kept on disk: loaded in place of compiling, and never one that this library has not written itself."""

import contextlib
import json
import logging
import os
import pickle
import shutil
import stat
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxpriv.probability import entropy
from numpy.testing import assert_allclose

import jaxpriv as jp
import jaxpriv.leakage as lk
from jaxpriv import InteriorPoint, MirrorDescent
from jaxpriv._runtime import compilation, executables as kept, program_keys
from jaxpriv.program import Form
from jaxpriv.solvers import Goal
from tests.cases import raised, run_python, thorough

ONE = np.array([1.0, np.e])
OTHER = partial(entropy, axis=0)


@pytest.fixture
def caplog(caplog):
    """The log, with the warnings of the library."""
    caplog.set_level(logging.WARNING, "jaxpriv")
    return caplog


@pytest.fixture
def new_process(monkeypatch):
    """A context like a new process, as far as executables go: the list of what is compiled in it."""

    @contextlib.contextmanager
    def begun():
        asked = []
        compilation._PROGRAMS.clear()
        with monkeypatch.context() as patch, compilation.own_settings():
            patch.setattr(compilation, "_options", lambda backend: asked.append(backend) or {})
            yield asked
        compilation._PROGRAMS.clear()

    return begun


@pytest.fixture
def run(new_process):
    """`run(*args, function)`: its result in a new process, and whether it was compiled."""

    def call(*args, function=entropy):
        with new_process() as asked:
            return np.asarray(compilation.compiled(function, *args)[0]()), bool(asked)

    return call


def files(place):
    return sorted(place.glob("*.executable"))


def test_what_was_compiled_is_loaded(place, run):
    result, fresh = run(ONE)
    assert fresh
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o600}
    assert len(files(place)) == 1
    again, fresh = run(2 * ONE)
    assert not fresh
    assert_allclose(result, -np.e)
    assert_allclose(again, entropy(2 * ONE))
    assert run(np.ones(3))[1]  # another shape
    assert run(ONE, function=OTHER)[1]  # another function


@pytest.mark.parametrize("measure", [lk.Sibson(2.0), *thorough(lk.MutualInformation(), lk.MaxLift())], ids=repr)
def test_a_run_in_portions_is_kept_as_a_whole(place, new_process, monkeypatch, measure):
    """Its state between two portions is an argument of the program."""
    monkeypatch.setenv("JAXPRIV_COMPILE", "always")
    problem = jp.DistortionProblem(np.diag([0.4, 0.3]) + 0.075, 1.0 - np.eye(2), leakage_budget=0.1, leakage=measure)
    for first in (True, False):
        with new_process() as asked:
            assert jp.solve(problem, time_limit=1000.0).status == "optimal"
        assert len(files(place)) > 1
        assert len(asked) == first * len(files(place))


def test_switched_off_nothing_is_written(place, run, monkeypatch):
    monkeypatch.setenv(kept.SWITCH, "off")
    assert run(ONE)[1]
    assert run(ONE)[1]
    assert not place.exists()
    with raised(kept.UnusableError, "switched off"):
        kept.folder()
    monkeypatch.setenv(kept.SWITCH, "here")
    with raised(kept.UnusableError, "absolute"):
        kept.folder()


def test_the_folder_is_the_users_own_cache(place, monkeypatch):
    monkeypatch.delenv(kept.SWITCH)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/cache")
    assert kept.folder() == Path("/somewhere/cache/jaxpriv/executables")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/of")
    assert kept.folder() == Path("/home/of/.cache/jaxpriv/executables")


def test_what_is_ready_is_known_without_loading_it(place, run):
    assert not compilation.is_ready(entropy, ONE)
    run(ONE)  # in another process, so to speak
    with compilation.own_settings():
        assert compilation.is_ready(entropy, 2 * ONE)
        assert not compilation.is_ready(entropy, np.ones(3))
        files(place)[0].unlink()
        assert not compilation.is_ready(entropy, ONE)
        compilation.compiled(entropy, ONE)
        files(place)[0].unlink()
        assert compilation.is_ready(entropy, ONE)  # in memory


def test_beside_jaxs_own_cache_nothing_is_kept(place, monkeypatch):
    """XLA cannot write again what it has read: the functions of the executable are missing."""
    jax.config.update("jax_enable_compilation_cache", True)
    jax.config.update("jax_compilation_cache_dir", str(place))
    with raised(kept.UnusableError, "own compilation cache"):
        kept.folder()


class Trap:
    """Unpickling it makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def _flip(place, path, elsewhere):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _trap(place, path, elsewhere):
    path.write_bytes(bytes(32) + zlib.compress(pickle.dumps(Trap(elsewhere))))


HARM = {
    "flipped": _flip,
    "cut": lambda place, path, elsewhere: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda place, path, elsewhere: path.write_bytes(b""),
    # Whole and valid files: one made under another secret, and one of this folder, of another program.
    "foreign": lambda place, path, elsewhere: (place / "secret").write_bytes(bytes(32)),
    "renamed": lambda place, path, elsewhere: shutil.copy(next(one for one in files(place) if one != path), path),
    "trap": _trap,
}


@pytest.mark.parametrize("harm", HARM)
def test_a_damaged_or_foreign_file_is_ignored_with_one_line(place, run, caplog, tmp_path, harm):
    run(ONE)
    (path,) = files(place)
    run(ONE, function=OTHER)
    HARM[harm](place, path, tmp_path / "made")
    result, fresh = run(ONE)
    assert fresh
    assert_allclose(result, -np.e)
    assert not (tmp_path / "made").exists()
    (record,) = caplog.records
    assert "was not made here" in record.message
    assert "\n" not in record.message
    assert not run(ONE)[1]  # written anew


def test_a_file_that_is_in_order_and_does_not_load_is_compiled_again(place, run, caplog):
    run(ONE)
    (path,) = files(place)
    packed = zlib.compress(pickle.dumps((b"no executable", 0, False)))
    code = kept._code((place / "secret").read_bytes(), path.stem, packed)
    path.write_bytes(code + packed)
    assert run(ONE)[1]
    assert "does not load" in caplog.text
    assert not run(ONE)[1]


def test_an_executable_that_does_not_run_is_compiled_again(place, run, caplog, monkeypatch):
    run(ONE)

    def broken(*_):
        raise jax.errors.JaxRuntimeError("NOT_FOUND: Function fusion.2 not found")

    with monkeypatch.context() as patch:
        patch.setattr(kept, "load", lambda *_: broken)
        result, fresh = run(ONE)
    assert fresh
    assert_allclose(result, -np.e)
    assert "does not run" in caplog.text
    assert not run(ONE)[1]


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o702])
def test_a_folder_that_others_can_enter_is_not_used(place, run, caplog, mode):
    run(ONE)
    place.chmod(mode)
    before = [path.stat().st_mtime_ns for path in files(place)]
    assert run(ONE)[1]
    assert run(ONE)[1]
    assert len(caplog.records) == 1
    assert "entered by others" in caplog.text
    assert [path.stat().st_mtime_ns for path in files(place)] == before


@pytest.mark.parametrize("name", ["executable", "secret"])
def test_a_file_that_others_can_write_is_not_used(place, run, caplog, name):
    run(ONE)
    path = place / "secret" if name == "secret" else files(place)[0]
    path.chmod(0o666)
    assert run(ONE)[1]
    assert "written by others" in caplog.text


def test_links_are_not_followed(place, run, tmp_path):
    run(ONE)
    (path,) = files(place)
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    content = (tmp_path / "outside").read_bytes()
    assert run(ONE)[1]
    assert (tmp_path / "outside").read_bytes() == content  # what is written takes the place of the link
    assert not path.is_symlink()
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "moved")
    assert run(ONE)[1]


def test_the_least_recently_used_go_first(place, run):
    sizes = (2, 3, 4)
    for size in sizes[:2]:
        run(np.ones(size))
        for path in files(place):  # as if all had been written long ago
            os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns - 10**12))
    (place / f"{'0' * 16}{kept._TEMPORARY}").write_bytes(b"of a process that was killed")
    os.utime(place / f"{'0' * 16}{kept._TEMPORARY}", (0, 0))
    assert not run(np.ones(2))[1]  # now the other one is the least recently used
    foreign = place / f"{'f' * 64}.executable"
    foreign.touch(0o600)
    os.truncate(foreign, kept.MOST_BYTES - sum(path.stat().st_size for path in files(place)) - 100)
    run(np.ones(4))
    found = files(place)
    assert len(found) == 3
    assert sum(path.stat().st_size for path in found) <= kept.MOST_BYTES
    assert not list(place.glob(f"*{kept._TEMPORARY}"))
    assert [run(np.ones(size))[1] for size in (2, 4, 3)] == [False, False, True]


def test_writers_at_once(place, run):
    """The first ones make the folder and its secret too: whoever is first, all files are valid under it."""
    with compilation.own_settings():
        executables = {n: jax.jit(entropy).lower(np.ones(n)).compile() for n in (2, 3)}
        keys = {n: program_keys.key_of(entropy, (np.ones(n),), {}) for n in executables}
    barrier, loaded = threading.Barrier(8), []

    def write(n):
        barrier.wait(60)
        for _ in range(5):
            kept.keep(keys[n], executables[n])
            loaded.append(kept.load(keys[n], (np.ones(n),)) is not None)

    threads = [threading.Thread(target=write, args=(2 + i % 2,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loaded == [True] * 40
    assert sorted(path.name for path in place.iterdir() if path.name != kept._MARK) == sorted(
        [*(f"{key}.executable" for key in keys.values()), "secret"]
    )


PROCESS = """
import json, sys
sys.stderr = sys.stdout  # a warning makes of the answer no JSON
import numpy as np
import jax.numpy as jnp
from jaxpriv._runtime import compilation
asked, options = [], compilation._options
compilation._options = lambda backend: asked.append(backend) or options(backend)
with compilation.own_settings():
    run, _ = compilation.compiled(jnp.linalg.cholesky, np.array([[4.0, 2.0], [2.0, 5.0]]))
    print(json.dumps({"result": np.asarray(run()).tolist(), "compiled": bool(asked)}))
"""


def test_another_process_loads_what_two_wrote_at_once(place):
    """LAPACK, whose functions JAX looks up when it lowers a program, is found by a process that lowers nothing."""

    def process(_):
        return json.loads(run_python("-c", PROCESS, **{kept.SWITCH: str(place)}, JAX_ENABLE_COMPILATION_CACHE="false"))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(process, range(2)))
    assert process(3) == {"result": [[2.0, 0.0], [1.0, 2.0]], "compiled": False}
    assert len(files(place)) == 1


def test_keys_differ_where_programs_do():
    goal = Goal(np.float64(1e-6), np.float64(0.0))
    given = [
        (ONE,),
        (np.ones(3),),
        (np.ones(2, np.float32),),
        (np.ones((1, 2)),),
        (jnp.asarray(1.0),),
        (np.float64(1.0),),
        ([ONE],),
        ((ONE,),),
        ({"a": ONE},),
        ({"0": ONE},),
        ({0: ONE},),
        ({1: ONE},),
        (ONE, None),
        (goal,),
        (InteriorPoint(), ONE),
        (MirrorDescent(), ONE),
        *((one,) for one in (Form.LIMIT, Form.WORST, 0.0, -0.0, 0, False, "0")),
    ]
    shaped = [(entropy, args) for args in given]
    shaped += [(OTHER, (ONE,)), *((partial(entropy, axis=k), (ONE,)) for k in (0.1, np.nextafter(0.1, 1).item()))]
    keys = [program_keys.key_of(function, args, {}) for function, args in shaped]
    assert len(set(keys)) == len(keys)
    assert keys[0] == program_keys.key_of(entropy, (3 * ONE,), {})  # numbers of arrays are data
    assert keys[0] != program_keys.key_of(entropy, (ONE,), {"xla_backend_optimization_level": 1})
    with jax.default_matmul_precision("float32"):
        assert keys[0] != program_keys.key_of(entropy, (ONE,), {})


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda a: a, (ONE,)),
        (files, (ONE,)),
        (entropy.__get__(ONE), ()),
        (entropy, (ONE, files)),
        (entropy, ({1, 2},)),
        (entropy, ({(0,): ONE},)),
        (entropy, (Trap("x"),)),
    ],
    ids=["lambda", "caller", "method", "static", "set", "keys", "class"],
)
def test_what_cannot_be_written_down_has_no_key(function, args):
    with pytest.raises(program_keys.NoKeyError):
        program_keys.key_of(function, args, {})


READ = """
import sys
from jaxpriv._runtime import program_keys
sys.addaudithook(lambda event, args: print(args[0]) if event == "open" else None)
program_keys._sources()
"""


def test_the_key_holds_the_files_of_the_library_and_no_others():
    """Beside an installed library lie all other packages."""
    root = Path(compilation.__file__).parents[1]
    assert set(run_python("-c", READ).splitlines()) == {str(path) for path in root.rglob("*.py")}


PRETENDED = """
import json, os, stat, sys

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._runtime import compilation, executables

hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("cache_hits") else None)
compilation.target_platform = lambda: "gpu"
run, _ = compilation.compiled(jnp.sin, np.ones(3))
place = executables.folder() / "jax"
print(json.dumps({
    "sum": float(run().sum()),
    "hits": len(hits),
    "files": executables.contents().executables,
    "mode": oct(stat.S_IMODE(place.stat().st_mode)),
    "setting": jax.config.jax_compilation_cache_dir,
    "left": executables.clear().executables if sys.argv[1:] else None,
}))
"""


def test_programs_of_an_accelerator_are_kept_by_the_cache_of_jax(tmp_path, monkeypatch):
    """The second process finds what the first one compiled; JAX's setting is the caller's again."""
    for name in ("DIR", "MAX_SIZE"):
        monkeypatch.delenv(f"JAX_COMPILATION_CACHE_{name}")
    monkeypatch.setenv("JAXPRIV_CACHE", str(tmp_path))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    first, second = (json.loads(run_python("-c", PRETENDED, *arguments)) for arguments in ((), ("clear",)))
    assert (first["hits"], second["hits"]) == (0, 1)
    assert first["sum"] == second["sum"]
    assert first["files"] == second["files"] == second["left"] == 1
    assert (first["mode"], first["setting"]) == ("0o700", None)
    assert not (tmp_path / "jax").exists()


def test_the_oldest_programs_of_an_accelerator_are_removed_beyond_the_limit(place):
    kept.prepare()
    (place / "jax").mkdir()
    for age, name in enumerate(("new", "middle", "old")):
        path = place / "jax" / f"{name}-cache"
        path.touch()
        os.truncate(path, kept.MOST_BYTES * 2 // 5)
        os.utime(path, (1e9 - age, 1e9 - age))
    with kept.by_jax():
        pass
    assert sorted(path.name for path in (place / "jax").iterdir()) == ["middle-cache", "new-cache"]


def test_clearing_leaves_files_of_others_beside_those_of_jax(place):
    kept.prepare()
    (place / "jax").mkdir()
    for name in ("one-cache", "letter.txt"):
        (place / "jax" / name).write_bytes(bytes(10))
    assert kept.contents().executables == 1
    assert kept.clear().executables == 1
    assert [path.name for path in (place / "jax").iterdir()] == ["letter.txt"]


def test_clearing_follows_no_link(place, tmp_path):
    kept.prepare()
    other = tmp_path / "other"
    other.mkdir()
    (other / "one-cache").write_bytes(bytes(10))
    (place / "jax").symlink_to(other)
    assert kept.clear().executables == 0
    assert (other / "one-cache").exists()
