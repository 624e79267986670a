"""From a suite to the page: processes, limits and absences end as rows, never as an abort."""

import pytest

from benchmarks import report, results, run
from benchmarks.cases import Case
from benchmarks.suites import Options, Part
from tests.cases import run_python

CASE = Case.of("cube", n=4, distortion="absolute", seed=1)


@pytest.fixture
def start_limit(monkeypatch):
    """`start_limit(seconds)`: the time that a process may take to start."""
    return lambda seconds: monkeypatch.setattr(run, "START_LIMIT", seconds)


def test_a_tiny_suite_becomes_results_and_a_page(tmp_path, start_limit, monkeypatch, capsys):
    part = Part("cube, absolute", (CASE,), ("interior-point",), (1e-2, 1e-6), limit=600.0, axis="n")
    monkeypatch.setattr(run, "SUITES", {"tiny": lambda options: [part]})
    start_limit(600.0)  # tests never time: a busy machine must not fail them
    out = tmp_path / "tiny.json"
    run.run_suite("tiny", Options(seed=1), None, None, float("inf"), out)
    found = results.read(out)
    rows = found.rows_of(CASE.name, "interior-point")
    assert [row.accuracy for row in rows] == ["0.01", "1e-06", "1e-09"]
    for row in rows:
        assert row.status == "ok"
        assert row.judged
        assert row.seconds_min <= row.seconds <= row.seconds_max
        assert 0 <= row.gap <= float(row.accuracy)
    assert rows[0].compile_seconds > 0
    assert rows[1].compile_seconds is None
    assert found.case(CASE.name).bound_by.startswith("interior-point")
    assert found.versions["jax"]
    assert str(tmp_path) not in out.read_text()
    page = report.write(found, out)
    assert "1e-06" in page.read_text()
    assert "cube" in capsys.readouterr().out


def test_what_exceeds_the_limit_is_recorded_and_not_tried_tighter(start_limit):
    start_limit(0.01)
    job = run.Job(CASE, "interior-point", (1e-2, 1e-6), ("0.01", "1e-06"), limit=0.01)
    (first, *_), (second, *_) = run.rows_of(job)
    assert (first.status, first.reason) == ("time limit", "more than 0.01 s")
    assert (second.status, second.reason) == ("skipped", "a looser accuracy exceeded the time limit")


def test_a_crash_is_recorded_with_its_reason(start_limit):
    start_limit(600.0)
    job = run.Job(Case("cube", (("n", 0),)), "interior-point", (1e-2,), ("0.01",), limit=60.0)
    ((row, *_),) = run.rows_of(job)
    assert row.status == "failed"
    assert "TypeError" in row.reason
    assert run._last_words(-4, "") == "killed by signal 4"


def test_gaps_are_against_the_best_bound_of_all_solvers():
    rows = [
        (results.Row("c", "a", "1", "ok"), [1.0], [0.7]),
        (results.Row("c", "b", "1", "ok"), [0.9], [0.8]),
        (results.Row("c", "peer", "1", "ok"), [0.95], []),
        (results.Row("c", "slow", "1", "time limit"), [], []),
    ]
    record, judged = run._compared(CASE, rows)
    assert record.bound == 0.8
    assert record.bound_by == "b 1"
    assert [row.gap for row in judged] == [pytest.approx(0.2), pytest.approx(0.1), pytest.approx(0.15), None]


_HOLDS = """
import numpy as np
from benchmarks.memory import Meter
freed = np.ones(2**26)  # 512 MiB, before the meter is made
del freed
meter = Meter()
if meter.read() is not None:
    held = np.ones(2**24)  # 128 MiB
    print(meter.read())
    del held
    meter.forget()
    before = meter.read()
    print(meter.read() - before, Meter().restarted)
"""


def test_memory_counts_what_was_held_and_forgets_what_it_is_told_to():
    """In a process of its own: some systems keep the mark of all that a process ever held."""
    told = run_python("-c", _HOLDS)
    if not told:
        pytest.skip("this system does not tell the peak of a process")
    held, changed, restarted = told.split()
    assert 100 < float(held) < (200 if restarted == "True" else 800)
    assert float(changed) == 0
