"""Sweeps: every row proved, nothing computed twice, and the same bytes whatever happened on the way."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import jaxpriv as jp
from jaxpriv.errors import IntegrityError, ResourceError
from jaxpriv.solving.sweeps import Study, Sweep, running
from jaxpriv.solving.sweeps.planning import plan_of
from jaxpriv.solving.sweeps.store import opened
from tests.cases import files_end_at, raised, refused, thorough

JOINT = {"family": "dirichlet", "private": [2, 3], "useful": 3, "seed": {"first": 0, "count": 3}}
# Twelve small problems in four chunks of one kind, solved without compiling.
DECLARED = {"chunk_rows": 3, "grid": [{"joint": JOINT, "distortion": "hamming", "budget_share": [0.3, 0.6]}]}


sweep = partial(jp.sweep, DECLARED)


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}


@pytest.fixture
def done(tmp_path) -> Sweep:
    return sweep(tmp_path / "undisturbed")


def finish(done: Sweep, folder: Path, new: int) -> None:
    """Another run computes the chunks that are missing, and nothing shows that they were."""
    assert sweep(folder).new == new
    assert _files(folder) == _files(done.folder)


# ------------------------------------------------------------------------------ results


def test_every_row_is_proved_by_what_is_stored_beside_it(done):
    assert done.complete
    assert len(done.plan.chunks) == 4
    table = done.table
    assert table["index"].to_list() == list(range(12))
    assert (table["status"] == "optimal").all()
    assert table["private"].to_list() == [2] * 6 + [3] * 6
    proofs = done.verify()
    assert sorted(proofs) == list(range(12))
    for i, proof in proofs.items():
        row = table.row(i, named=True)
        assert proof.valid
        assert proof.agrees
        assert proof.gap <= 1e-6
        alone = jp.solve(done.problem(i))
        assert row["lower_bound"] <= alone.value
        assert alone.lower_bound <= row["value"]
    assert jp.certify(done.problem(7), done.solution(7)).valid
    assert done.solution(7).units == dict(done.solutions())[7].units == alone.units
    assert (done.folder / "table.parquet").exists()
    assert str(done).startswith("Sweep\n  problems   12 of 12 done\n  optimal    12\n  worst gap  ")
    assert len(repr(done)) < 400
    for i, words in ((12, "problem 12 is not in the study"), ("0", "i has dtype"), (0.5, "i must be a whole number")):
        with refused(words):
            done.solution(i)


def test_batches_of_one_program_give_the_same_intervals(done, tmp_path, worth_compiling, no_whole_solves):
    worth_compiling(0.0)
    together = jp.sweep({**DECLARED, "chunk_rows": 8}, tmp_path / "together")
    assert {chunk.width for chunk in together.plan.chunks} == {8}
    assert sum(len(chunk.positions) for chunk in together.plan.chunks) == 12
    for one, other in zip(done.table.iter_rows(named=True), together.table.iter_rows(named=True), strict=True):
        assert other["status"] == "optimal"
        assert other["lower_bound"] <= one["value"]
        assert one["lower_bound"] <= other["value"]
    assert all(proof.valid and proof.agrees for proof in together.verify().values())


def test_problems_without_a_mechanism_or_a_solver_are_rows_too(tmp_path):
    """An infeasible budget, and a price of a measure that takes none: the others go on."""
    study = {
        "grid": [
            {
                "joint": JOINT | {"private": 2},
                "distortion": {"name": "uniform"},
                "budget": [0.0, 0.9],
            },
            {
                "joint": {"family": "dirichlet", "private": 2, "useful": 3},
                "leakage": ["mutual-information", "max-lift", {"name": "maximal-alpha-leakage", "order": 2.0}],
                "multiplier": 0.5,
            },
        ]
    }
    result = jp.sweep(study, tmp_path / "out")
    assert result.complete
    table = result.table
    assert table["status"].to_list() == ["infeasible", "optimal"] * 3 + ["optimal", "refused", "refused"]
    assert "worst-outcome measure takes `budget`" in table["notes"][7]
    assert sorted(result.verify()) == [1, 3, 5, 6]
    with refused("problem 8 has no result"):
        result.solution(8)
    assert set(jp.sweep(study, tmp_path / "out").plan.refused) == {7, 8}


def test_a_dry_run_predicts_and_leaves_no_trace(tmp_path):
    planned = sweep(tmp_path / "out", dry_run=True)
    plan = planned.plan
    assert planned.missing == len(plan.chunks) == 4
    assert sum(group.cases for group in plan.groups) == 12
    assert 0 < plan.seconds < 60
    assert plan.bytes > 0
    assert not (tmp_path / "out").exists()


def test_progress_counts_problems_of_earlier_runs_too(tmp_path):
    records: list[running.SweepProgress] = []

    def stop_soon(record):
        records.append(record)
        if record.done == 6:
            raise KeyboardInterrupt  # as a handler of the caller's own would

    first = sweep(tmp_path / "out", progress=stop_soon)
    assert not first.complete
    assert first.stopped == 2
    assert len(first.table) == 6
    assert [one.done for one in records] == [0, 3, 6]
    assert records[-1].rate > 0
    assert records[-1].worst_gap <= 1e-6
    second = sweep(tmp_path / "out", progress=records.append)
    assert [one.done for one in records[3:]] == [6, 9, 12]
    assert (first.new, second.new, second.complete) == (2, 2, True)


# ------------------------------------------------------------------------------ going on


def test_what_is_there_is_not_computed_again(done, tmp_path):
    one = _Strange(None)
    again = sweep(done.folder, executor=one)
    assert (again.new, one.calls, again.complete) == (0, 0, True)
    before = _files(done.folder)
    lost = sorted((done.folder / "chunks").iterdir())[1]
    lost.unlink()
    (done.folder / "table.parquet").unlink()
    assert sweep(done.folder, executor=one).new == one.calls == 1
    assert _files(done.folder) == before
    limited = sweep(tmp_path / "limited", time_limit=0.0)
    assert (limited.new, limited.stopped, limited.complete) == (0, 1, False)


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        _flip,
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(sorted(path.parent.iterdir())[0].read_bytes()),
        lambda path: (path.unlink(), path.symlink_to(path.name)),
    ],
    ids=["a bit", "truncated", "empty", "another chunk", "unreadable"],
)
def test_damaged_chunks_are_found_and_redone(done, damage):
    before = _files(done.folder)
    damage(sorted((done.folder / "chunks").iterdir())[2])
    again = sweep(done.folder)
    assert (again.new, again.redone) == (1, 1)
    assert _files(done.folder) == before


def test_a_damaged_plan_is_made_again(done):
    before = _files(done.folder)
    for content in ("", "[]", '{"format": 1}', json.dumps({**json.loads(before["study.json"]), "chunks": []})):
        (done.folder / "study.json").write_text(content)
        assert sweep(done.folder).new == 0
        assert _files(done.folder) == before


def test_a_changed_declaration_is_another_study(done):
    before = _files(done.folder)
    changed = {**DECLARED, "grid": [{**DECLARED["grid"][0], "tol": 1e-5}]}
    with refused("holds another study"):
        jp.sweep(changed, done.folder)
    other = {**json.loads(before["study.json"]), "format": 99}
    (done.folder / "study.json").write_text(json.dumps(other))
    with raised(IntegrityError, "written in format 99, this version reads 1"):
        sweep(done.folder)
    assert _files(done.folder) == {**before, "study.json": json.dumps(other).encode()}


def test_a_plan_that_is_there_stays(tmp_path):
    """Another library version, or another machine, would cut other chunks."""
    jp.sweep({**DECLARED, "chunk_rows": 5}, tmp_path / "out", time_limit=0.0)
    result = sweep(tmp_path / "out")
    assert [len(chunk.positions) for chunk in result.plan.chunks] == [5, 5, 2]
    assert result.complete


def test_parts_share_a_folder_and_the_last_one_writes_the_table(tmp_path, done):
    out = tmp_path / "out"
    first = sweep(out, part=(1, 3))
    assert (first.new, first.missing, first.complete, first.stopped) == (2, 2, False, 0)
    assert not (out / "table.parquet").exists()
    study = Study.of(DECLARED)
    with opened(out, study, (2, 3)):
        third = sweep(out, part=(3, 3))  # beside a process with another part
        assert (third.new, third.missing) == (1, 1)
        for part in ((2, 3), None):
            with raised(ResourceError, "another sweep is at work"):
                sweep(out, part=part)
    with opened(out, study), raised(ResourceError, "another sweep is at work"):
        sweep(out, part=(2, 3))
    last = sweep(out, part=(2, 3))
    assert (last.new, last.complete) == (1, True)
    whole = {name: content for name, content in _files(out).items() if not name.startswith(".lock-")}
    assert whole == _files(done.folder)
    for part in ((0, 3), (4, 3), (1.0, 3), 3, "9" * 5000 + "/3"):
        with refused("part must be"):
            sweep(out, part=part)


# ------------------------------------------------------------------------------ faults


def test_two_sweeps_in_one_folder(done):
    script = f"""
        import jaxpriv as jp
        from jaxpriv.solving.sweeps.store import opened
        from jaxpriv.solving.sweeps import Study
        from pathlib import Path
        with opened(Path({str(done.folder)!r}), Study.of({DECLARED!r})):
            print("locked", flush=True)
            input()
    """
    other = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with raised(ResourceError, "another sweep is at work"):
            sweep(done.folder)
        other.kill()
    assert sweep(done.folder).complete


def test_a_limit_on_the_size_of_files_is_a_full_disk(tmp_path, done):
    largest = (done.folder / "study.json").stat().st_size  # the plan fits, no chunk does
    assert largest < min(path.stat().st_size for path in (done.folder / "chunks").iterdir())
    with files_end_at(largest), raised(ResourceError, r"cannot write .*nothing was written"):
        sweep(tmp_path / "out")
    assert not list((tmp_path / "out" / "chunks").iterdir())
    finish(done, tmp_path / "out", 4)


def test_places_where_no_folder_can_be(tmp_path):
    (tmp_path / "file").write_text("")
    with refused("is not a folder"):
        sweep(tmp_path / "file")
    with refused("workers"):
        sweep(tmp_path / "out", workers=0)
    with refused("not both"):
        sweep(tmp_path / "out", workers=2, executor=ThreadPoolExecutor(1))
    with refused("progress"):
        sweep(tmp_path / "out", progress=3)
    with refused("out must be of type str or PathLike"):
        sweep(None)
    with refused("executor must be of type Executor"):
        sweep(tmp_path / "out", executor=3)
    with refused("dry_run must be True or False"):
        sweep(tmp_path / "out", dry_run="no")


class _Strange(Executor):
    """Runs everything at once; the second chunk gives what it is told to."""

    def __init__(self, answer):
        self.answer, self.calls = answer, 0

    def submit(self, function, /, *args):
        future: Future = Future()
        self.calls += 1
        try:
            future.set_result(self.answer(function, *args) if self.calls == 2 else function(*args))
        except Exception as error:
            future.set_exception(error)
        return future


def _forged(function, work):
    """The rows of a chunk, one of them with a bound above its value."""
    import io

    import polars as pl

    table = pl.read_parquet(io.BytesIO(function(work)))
    table = table.with_columns(lower_bound=pl.col("value") + 1.0, gap=pl.lit(-1.0))
    stream = io.BytesIO()
    table.write_parquet(stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda function, work: None, "returned NoneType, not bytes"),
        (lambda function, work: b"PAR1 nonsense PAR1", "not a complete Parquet file"),
        (lambda function, work: function(work)[:-20] + b"\0" * 20, "not a complete Parquet file"),
        (lambda function, work: function(_moved(work)), "not those of the problems"),
        (_forged, "numbers that are no results"),
        (lambda function, work: 1 / 0, "the worker raised ZeroDivisionError"),
    ],
    ids=["nothing", "bytes", "damaged", "another chunk", "forged", "error"],
)
def test_a_worker_that_returns_nonsense_costs_its_chunk(tmp_path, done, answer, why):
    result = sweep(tmp_path / "out", executor=_Strange(answer))
    assert not result.complete
    assert result.new == 3
    (failure,) = result.failures.values()
    assert why in failure
    assert len(result.table) == 9
    finish(done, tmp_path / "out", 1)


def _moved(work):
    import dataclasses

    chunk = work.chunk
    return dataclasses.replace(work, chunk=dataclasses.replace(chunk, positions=tuple(i + 1 for i in chunk.positions)))


def test_an_error_in_one_chunk_is_its_own(tmp_path, done, monkeypatch):
    original = running.compute

    def failing(work):
        if 5 in work.chunk.positions:
            raise MemoryError
        return original(work)

    monkeypatch.setattr(running, "compute", failing)
    result = sweep(tmp_path / "out")
    assert (result.new, result.missing, list(result.failures.values())) == (3, 1, ["computing raised MemoryError"])
    monkeypatch.undo()
    finish(done, tmp_path / "out", 1)


def test_an_executor_that_breaks_down_is_an_error_and_loses_nothing(tmp_path, done):
    class Broken(_Strange):
        def submit(self, function, /, *args):
            if self.calls == 2:
                raise BrokenExecutor("a process died")
            return super().submit(function, *args)

    with raised(ResourceError, "executor broke down with 2 of 4 chunks to go"):
        sweep(tmp_path / "out", executor=Broken(lambda function, work: function(work)))
    with ThreadPoolExecutor(2) as threads:
        assert sweep(tmp_path / "out", executor=threads).new == 2
    assert _files(tmp_path / "out") == _files(done.folder)


@pytest.mark.slow
def test_processes_of_its_own_and_one_that_dies(tmp_path, done, monkeypatch):
    """Two workers; one chunk ends the process that computes it, every time."""
    monkeypatch.setattr(running, "compute", _deadly)
    result = sweep(tmp_path / "out", workers=2)
    assert result.new == 3
    assert list(result.failures.values()) == [
        "the worker died twice while it computed this chunk, most often for lack of memory"
    ]
    monkeypatch.undo()
    finish(done, tmp_path / "out", 1)


def _deadly(work):
    if 5 in work.chunk.positions:
        os.kill(os.getpid(), signal.SIGKILL)
    return running.compute(work)  # in a process of its own, where nothing has taken its place


@pytest.mark.slow
@pytest.mark.parametrize("most", [3, *thorough(20)])
def test_killed_at_random_times_it_ends_with_the_same_bytes(tmp_path, done, most):
    """kill -9, again and again: nothing lost beyond the chunk under way, nothing computed twice."""
    log = tmp_path / "log"
    script = f"""
        import time
        from jaxpriv.solving.sweeps import running
        original = running.compute
        def counted(work):
            with open({str(log)!r}, "a") as file:
                file.write(f"{{work.chunk.positions}}\\n")
            time.sleep(0.3)  # longer than until the first child is killed, all chunks together
            return original(work)
        running.compute = counted
        running.sweep({DECLARED!r}, {str(tmp_path / "out")!r}, progress=lambda record: print(record.done, flush=True))
    """
    draw = random.Random(0)
    kills = 0
    for left in reversed(range(most)):
        child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
        with child:
            assert child.stdout is not None
            child.stdout.readline()  # it has begun
            try:
                child.wait(draw.uniform(0.0, 1.0) if left else None)  # the last one runs to its end
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
                kills += 1
                continue
        assert child.returncode == 0
        break
    assert kills > 0
    assert _files(tmp_path / "out") == _files(done.folder)
    began = log.read_text().splitlines()
    assert len(set(began)) == 4
    assert len(began) <= 4 + kills


# ------------------------------------------------------------------------------ plans


def test_plans_follow_from_the_study_alone():
    study = Study.of(DECLARED)
    first, second = plan_of(study), plan_of(study)
    assert first.chunks == second.chunks
    positions = np.concatenate([chunk.positions for chunk in first.chunks])
    assert sorted(positions) == list(range(12))
    targets = [study.cases[i]["target"] for i in positions]
    assert targets == sorted(targets)  # those of a batch take about as many steps
    assert plan_of(study, first.chunks[:2]).chunks[:2] == first.chunks[:2]
