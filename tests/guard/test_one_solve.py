"""One solve runs as many files of the library, and goes as often from one to another, as it did: no more and no fewer.

A change that makes these numbers smaller writes them here; the aim is 14 files and 250 switches for mutual information.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jaxpriv import _native

# (files, switches) of the second call in a process, with kernels, on the newest Python. NumPy iterates on maximal
# leakage: its number of steps, and so of switches, may differ by rounding between processors.
_CROSSED = {"MutualInformation": (33, 703), "MaxLift": (35, 1009), "MaximalLeakage": (38, None)}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="older versions of Python have frames of comprehensions")
def test_one_solve_runs_as_many_files_as_it_did():
    if (reason := _native.absence()) is not None:
        pytest.skip(f"the numbers are those of solves with kernels: {reason}")
    root = Path(__file__).resolve().parents[2]
    line = [sys.executable, "-m", "tests.guard.one_solve"]
    done = subprocess.run(line, cwd=root, capture_output=True, text=True, check=True)
    found = {name: (len(files), switches) for name, (files, switches) in json.loads(done.stdout).items()}
    assert found == {name: (n, found[name][1] if m is None else m) for name, (n, m) in _CROSSED.items()}
