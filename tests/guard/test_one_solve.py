"""One solve runs as many files of the library, and goes as often from one to another, as it did: no more and no fewer.

A change that makes these numbers smaller writes them here; the aim is 14 files for mutual information.
"""

import json
import re
import sys

import pytest

from tests.cases import ROOT, run_python
from tests.compiling import kernels

# (files, switches) of the second call in a process, with kernels, on the newest Python. The simplex method has maximal
# leakage: how its vertex is repaired, and so the switches, may differ by rounding between processors.
_CROSSED = {"MutualInformation": (22, 235), "MaxLift": (26, 539), "MaximalLeakage": (24, None)}


@kernels
@pytest.mark.skipif(sys.version_info < (3, 12), reason="older versions of Python have frames of comprehensions")
def test_one_solve_runs_as_many_files_as_it_did():
    crossed = json.loads(run_python("-m", "tests.guard.one_solve"))
    found = {name: (len(files), switches) for name, (files, switches) in crossed.items()}
    assert found == {name: (n, found[name][1] if m is None else m) for name, (n, m) in _CROSSED.items()}
    page = (ROOT / "docs" / "explanation" / "one-solve.md").read_text().partition("## Variants")[0]
    rows = "".join(line for line in page.splitlines() if line.startswith("|"))
    by_steps = {"solvers/interior_point/method.py"}  # a kernel takes its place
    assert set(re.findall(r"`([\w/]+\.py)`", rows)) - by_steps == set(crossed["MutualInformation"][0])
