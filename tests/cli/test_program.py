"""The program as other programs run it: processes, signals, pipes; and what belongs to no command."""

import getpass
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jaxpriv
from jaxpriv._runtime.importing import is_command
from tests.cases import spent
from tests.cli.conftest import DISTORTION, JOINT, mistaken, printed, strict_json

ROOT = Path(__file__).parents[2]

# A solve that would never end, and interrupts that arrive when it has begun: as many as the first argument says.
INTERRUPTED = """
import os, signal, sys, time
import jaxpriv.cli
from jaxpriv.solving import loops
interrupts = int(sys.argv.pop(1))
compiled = loops.compiled
def interrupted(function, *args, **options):
    run, seconds = compiled(function, *args, **options)
    def begin():
        for _ in range(interrupts):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)  # two signals at once are one
        while interrupts > 1:
            run()
        return run()
    return (begin if function is loops.resume else run), seconds
loops.compiled = interrupted
jaxpriv.cli.main()
"""


SLOW = ("--solver", "mirror-descent", "--tol", "1e-300", "--time-limit", "1000")


def process(*args, code: str | None = None, **options) -> subprocess.CompletedProcess:
    start = ["-m", "jaxpriv"] if code is None else ["-c", code]
    line = [sys.executable, *start, *map(str, args)]
    return subprocess.run(line, stderr=subprocess.PIPE, text=True, timeout=300, check=False, **options)


def interrupted(times: int, problem, folder) -> subprocess.CompletedProcess:
    """A solve that gets so many interrupts while it runs."""
    files = ("--out", folder / "mechanism.npz", "--json", folder / "result.json")
    return process(times, "solve", problem, "--budget", "0.2", *SLOW, *files, code=INTERRUPTED, stdout=subprocess.PIPE)


def test_an_interrupt_writes_the_best_mapping_so_far(problem, tmp_path):
    result = interrupted(1, problem, tmp_path)
    assert result.returncode == 4, result.stderr
    assert result.stderr.startswith("jaxpriv: error: interrupted: not certified to --tol 1e-300")
    assert result.stderr.rstrip().endswith("Let it run longer")  # not --time-limit: there was time left
    record = strict_json((tmp_path / "result.json").read_text())
    assert record["status"] == "best_known"
    assert 0 <= record["lower_bound"] <= record["value"]
    with np.load(tmp_path / "mechanism.npz") as arrays:
        np.testing.assert_allclose(arrays["mechanism"].sum(axis=1), 1.0, atol=1e-12)
        assert spent(JOINT, DISTORTION, arrays["mechanism"]) <= 0.2 + 1e-12


def test_a_second_interrupt_ends_a_running_solve_at_once(problem, tmp_path):
    result = interrupted(2, problem, tmp_path)
    assert result.returncode == 130, result.stderr
    assert result.stdout == ""
    assert result.stderr == "jaxpriv: error: interrupted; no output file was written\n"
    assert os.listdir(tmp_path) == ["problem.npz"]


# What the library imports, and an interrupt while it does.
IMPORTED = """
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
time.sleep(60)
"""


@pytest.mark.parametrize("way", ["module", "script", "library"])
def test_interrupt_while_the_command_line_is_imported(way, tmp_path):
    (tmp_path / "equinox.py").write_text(IMPORTED)
    script = tmp_path / "jaxpriv"  # as pip makes it
    script.write_text("import sys\nfrom jaxpriv.cli import main\nsys.exit(main())\n")
    start = {
        "module": ["-m", "jaxpriv", "info"],
        "script": [script, "info"],
        "library": ["-c", "import jaxpriv; jaxpriv.solve"],
    }
    paths = os.pathsep.join((str(tmp_path), str(ROOT)))
    done = subprocess.run(
        [sys.executable, *start[way]],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": paths},
        cwd=ROOT,
    )
    if way == "library":  # left as it is
        assert "KeyboardInterrupt" in done.stderr
    else:
        assert done.returncode == 130
        assert done.stderr == "jaxpriv: error: interrupted; no output file was written\n"


def test_only_the_command_itself_is_taken_for_it():
    python = "/usr/bin/python"
    assert is_command(["-m", "info"], [python, "-m", "jaxpriv", "info"])
    assert is_command(["-m", "info"], [python, "-X", "dev", "-mjaxpriv", "info"])
    assert is_command(["/opt/bin/jaxpriv", "info"], [python, "/opt/bin/jaxpriv", "info"])
    assert not is_command(["-m", "jaxpriv"], [python, "-m", "pytest", "jaxpriv"])
    assert not is_command(["-c"], [python, "-c", "import jaxpriv"])
    assert not is_command([""], [python])


def test_reader_that_goes_away():
    reading, writing = os.pipe()
    os.close(reading)
    result = process("info", stdout=writing)
    os.close(writing)
    assert result.returncode == 6, result.stderr
    assert result.stderr == "jaxpriv: error: cannot write to standard output: Broken pipe\n"


def test_error_of_a_process_is_one_line(tmp_path):
    result = process("solve", tmp_path / "absent.npz", "--budget", "1", "--json", "-", stdout=subprocess.PIPE)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == f"jaxpriv: error: {tmp_path / 'absent.npz'} does not exist\n"


def test_help_version_and_nothing():
    assert printed("--version") == f"jaxpriv {jaxpriv.__version__}\n"
    for line in ([], ["--help"]):
        result = printed(*line)
        for name in ("solve", "leakage", "info", "demo"):
            assert name in result
    assert "--budget" in printed("solve --help")


def test_unknown_commands_and_options():
    mistaken("sovle", "sovle")
    mistaken("--fast info", "--fast")
    mistaken("info now", "now")


def test_info(tmp_path):
    target = tmp_path / "info.json"
    text = printed("info --json info.json")
    record = strict_json(target.read_text())
    assert record["versions"]["jaxpriv"] == jaxpriv.__version__
    assert {"python", "jax", "jaxlib", "numpy", "scipy"} <= set(record["versions"])
    assert record["x64"] is False
    assert record["measures"] == list(jaxpriv.leakage.NAMES)
    assert "interior-point" in record["solvers"]
    assert record["devices"]
    assert record["kept"]["executables"] >= 0
    for shown in (text, target.read_text()):
        assert platform.node() not in shown.split()
        assert getpass.getuser() not in shown.split()
