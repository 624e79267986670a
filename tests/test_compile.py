"""Executables that are compiled ahead of time and kept."""

import gc
import os
import subprocess
import sys
import threading

import jax
import numpy as np
import pytest

from jaxpriv._runtime import compilation
from jaxpriv._runtime.compilation import compiled, own_settings
from tests.cases import ROOT

pytestmark = pytest.mark.usefixtures("no_programs", "own_settings")


def _sum(a):
    return a.sum()


@pytest.fixture
def two_programs(monkeypatch):
    """No more are kept."""
    monkeypatch.setattr(compilation, "_MOST_PROGRAMS", 2)


def test_only_the_most_recent_executables_are_kept(two_programs):
    """Without a bound a sweep over shapes ends in an abort of the process: its maps run out."""
    one, two, three = (np.ones(n) for n in (1, 2, 3))
    assert compiled(_sum, one)[1] > 0
    assert compiled(_sum, two)[1] > 0
    run, seconds = compiled(_sum, one)  # now `two` is the one that was not used for longest
    assert seconds == 0
    assert float(run()) == 1.0
    assert compiled(_sum, three)[1] > 0
    assert len(compilation._PROGRAMS) == 2
    assert compiled(_sum, one)[1] == 0
    assert compiled(_sum, two)[1] > 0


def test_an_executable_that_is_dropped_is_freed(two_programs):
    """JAX's own caches would hold it, 1 to 8 MB for each shape."""
    client = jax.local_devices(backend="cpu")[0].client
    gc.collect()
    before = len(client.live_executables())
    for size in range(1, 7):
        compiled(_sum, np.ones(size))
    gc.collect()
    assert len(client.live_executables()) <= before + 3  # the two, and that of the option probe


def test_threads_compile_a_program_once_and_hold_no_other_up():
    traced, entered, leave = [], threading.Event(), threading.Event()

    def slow(a):  # its Python code runs while it is traced
        traced.append(threading.get_ident())
        entered.set()
        assert leave.wait(60)
        return 2 * a

    def work(function, results):
        with own_settings():
            run, seconds = compiled(function, np.ones(3))
            results.append((seconds > 0, float(run()[0]) if function is slow else float(run())))

    several, other = [], []
    threads = [threading.Thread(target=work, args=(slow, several)) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert entered.wait(60)
    work(_sum, other)  # while the other program is being compiled
    assert other == [(True, 3.0)]
    assert several == []
    leave.set()
    for thread in threads:
        thread.join()
    assert len(traced) == 1
    assert sorted(several) == [(False, 2.0)] * 3 + [(True, 2.0)]


def test_a_program_that_fails_to_compile_is_tried_again():
    calls = []

    def fragile(a):
        calls.append(a)
        if len(calls) == 1:
            raise ZeroDivisionError
        return a

    with pytest.raises(ZeroDivisionError):
        compiled(fragile, np.ones(3))
    assert float(compiled(fragile, np.ones(3))[0]()[0]) == 1.0


def test_only_options_that_this_xla_knows_are_taken_and_only_on_a_cpu(monkeypatch):
    monkeypatch.setattr(compilation, "_OPTIONS", {**compilation._OPTIONS, "xla_option_of_nobody": 1})
    compilation._options.cache_clear()
    try:
        known = compilation._options("cpu")
        assert compilation._options("gpu") == {}
    finally:
        compilation._options.cache_clear()
    assert {"xla_backend_optimization_level", "xla_llvm_disable_expensive_passes"} <= known.keys()
    assert "xla_option_of_nobody" not in known
    assert jax.jit(_sum).lower(np.ones(3)).compile(known)(np.ones(3)) == 3.0


def test_options_reach_the_compiler(monkeypatch):
    monkeypatch.setattr(compilation, "_options", lambda backend: {"xla_option_of_nobody": 1})
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_option_of_nobody"):
        compiled(_sum, np.ones(3))


FORK = """
import os, sys
import numpy as np
import jaxpriv as jp
make = lambda: jp.DistortionProblem(np.array([[0.3, 0.2], [0.1, 0.4]]), jp.distortion.hamming(2), budget=1.0)
if sys.argv[1] == "started":
    import jax
    jax.devices()
elif sys.argv[1] == "names":
    jp.solve, jp.leakage
joint, work = np.array([[0.3, 0.2], [0.1, 0.4]]), {
    "solve": lambda: jp.solve(make()),
    "measure": lambda: jp.leakage.MaximalLeakage()(joint, np.eye(2)),
}[sys.argv[2]]
child = os.fork()
if child == 0:
    try:
        work()
    except jp.ResourceError as error:
        os.write(1, str(error).encode())
        os._exit(7)
    os._exit(8)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize(
    ("parent", "work", "code"),
    [
        ("started", "solve", 7),
        ("started", "measure", 7),
        ("names", "solve", 8),
    ],
)
def test_a_forked_child_is_refused_where_jax_ran_before(parent, work, code):
    """It would wait for threads that it does not have; where nothing ran, a child is a process like any."""
    done = subprocess.run(
        [sys.executable, "-c", FORK, parent, work], capture_output=True, text=True, timeout=300, cwd=ROOT
    )
    assert done.returncode == code, done.stderr
    assert ("'spawn' or 'forkserver'" in done.stdout) == (code == 7)
