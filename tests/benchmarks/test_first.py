"""The first answer: what is asked of the solvers, what a process is charged for, and the page."""

import json

import numpy as np
import pytest

from benchmarks import first, first_worker
from tests.cases import run_python


def test_instances_are_feasible_and_not_trivial():
    for shape in first_worker.shapes(20, 9, 4):
        joint, table = first_worker.instance(*shape, seed=3)
        assert joint.shape == shape[:2]
        assert table.shape == shape[1:]
        mass = joint.sum(axis=0)
        assert mass @ table.min(axis=1) < first_worker.budget(joint, table) < (mass @ table).min()
        revealed = np.log(joint.shape[0])
        assert 0 < first_worker.limit(joint) < first_worker._LIMIT * revealed
    assert list(first_worker.shapes(5, 9, 4)) == list(first_worker.shapes(20, 9, 4))[:5]


def test_nothing_is_imported_that_only_one_solver_needs():
    code = "import sys, benchmarks.first_worker; print(*{n.split('.')[0] for n in sys.modules} & {'jax', 'cvxpy'})"
    assert run_python("-c", code).split() == []


def test_a_process_gives_its_lines_and_its_end():
    code = "import os; print('{\"a\": 1}'); print('no JSON'); print(os.environ['OF_THE_TEST'])"
    found = first.process(["-c", code], OF_THE_TEST="{}")
    assert found["lines"] == [{"a": 1}, {}]
    assert found["processor"] > 0
    with pytest.raises(RuntimeError, match="of no use"):
        first.process(["-c", "raise SystemExit('of no use')"])


def test_the_plot_has_a_line_for_each_solver(tmp_path):
    pytest.importorskip("matplotlib")
    said = [{"seconds": i + 1.0} for i in range(3)]
    first.plot({"many": {"jaxpriv": said, "clarabel": said[:2]}}, tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text()
    assert "jaxpriv" in text
    assert "cvxpy with Clarabel" in text


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
