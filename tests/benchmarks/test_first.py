"""The first answer: what is asked of the solvers, what a process is charged for, and the page."""

import json

from benchmarks import first
from tests.cases import run_python


def test_nothing_is_imported_that_only_one_solver_needs():
    code = "import sys, benchmarks.first_worker; print(*{n.split('.')[0] for n in sys.modules} & {'jax', 'cvxpy'})"
    assert run_python("-c", code).split() == []


def test_the_page_compares_with_clarabel_and_says_the_largest_gap():
    def row(kind, seconds, gap=None):
        clock = {"least": seconds, "median": seconds + 1}
        return {"size": 8, "measure": "max-information", "kind": kind, "gap": gap, "wall": clock, "processor": clock}

    def said(count, **more):
        return [{"seconds": i + 1.0, "processor": i + 1.0, "mib": 10.0 * i, **more} for i in range(count)]

    record = {
        "fresh": [row("cvxpy with Clarabel", 2.0), row("jaxpriv", 1.0, 3e-7)],
        "many": {"jaxpriv": said(3, gap=2e-8), "clarabel": said(2, solved=False)},
        "machine": {"processor": "one", "cores": 2},
        "versions": {"python": "3", "scs": None},
        "load": 0.5,
    }
    text = first.page(json.loads(json.dumps(record)))
    assert "| 8 | max-information | jaxpriv | 1.00, 2.00 | 1.00, 2.00 | 0.50 | 3e-07 |" in text
    assert "| jaxpriv | 3 | 0 | 3.0 | 3.0 | 0, 20 | 2e-08 |" in text
    assert "| cvxpy with Clarabel | 2 | 2 | 2.0 | 2.0 | 0, 10 | - |" in text
    assert "scs" not in text
    assert "one after another: jaxpriv 3 in 3.0 s, cvxpy with Clarabel 2 in 2.0 s.*" in "".join(text.splitlines()[:6])
