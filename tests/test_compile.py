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
from tests.cases import ROOT, raised

pytestmark = pytest.mark.usefixtures("no_programs", "own_settings")


def _sum(a):
    return a.sum()


def test_only_the_most_recent_executables_are_kept_and_the_others_freed():
    """Without a bound a sweep over shapes ends in an abort of the process: its maps run out, as JAX's caches hold 1 to
    8 MB for each shape."""
    client, most = jax.local_devices(backend="cpu")[0].client, compilation._MOST_PROGRAMS
    gc.collect()
    before = len(client.live_executables())
    for size in range(1, most + 1):
        assert compilation.compiled(_sum, np.ones(size))[1] > 0
    run, seconds = compilation.compiled(_sum, np.ones(1))  # now 2 is the one that was not used for longest
    assert seconds == 0
    assert float(run()) == 1.0
    for size in range(most + 1, most + 3):
        assert compilation.compiled(_sum, np.ones(size))[1] > 0
    gc.collect()
    assert len(client.live_executables()) <= before + most + 1  # that of the option probe
    assert compilation.compiled(_sum, np.ones(1))[1] == 0
    assert compilation.compiled(_sum, np.ones(2))[1] > 0


def test_threads_compile_a_program_once_and_hold_no_other_up():
    traced, entered, leave = [], threading.Event(), threading.Event()

    def slow(a):  # its Python code runs while it is traced
        traced.append(threading.get_ident())
        entered.set()
        assert leave.wait(60)
        return 2 * a

    def work(function, results):
        with compilation.own_settings():
            run, seconds = compilation.compiled(function, np.ones(3))
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
        compilation.compiled(fragile, np.ones(3))
    assert float(compilation.compiled(fragile, np.ones(3))[0]()[0]) == 1.0


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
    with raised(jax.errors.JaxRuntimeError, "xla_option_of_nobody"):
        compilation.compiled(_sum, np.ones(3))


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
