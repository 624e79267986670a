"""`sweep`: compute what a study lacks, here or in other processes, and hand back all of it."""

import math
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from os import PathLike
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import Sharding

from jaxpriv._runtime.clock import Clock, Stop, clock_of, listener
from jaxpriv._runtime.compilation import Placement
from jaxpriv._runtime.files import atomic_write
from jaxpriv._runtime.module import Shown
from jaxpriv._runtime.module.shown import width
from jaxpriv._runtime.validation import flag, instance, whole
from jaxpriv.errors import InputError, IntegrityError, ResourceError
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.certificates.verification import Verification, certify
from jaxpriv.program.solution import Solution
from jaxpriv.solving.stages import units_of
from jaxpriv.solving.sweeps.declaration import CaseParts, Study
from jaxpriv.solving.sweeps.planning import Chunk, Plan
from jaxpriv.solving.sweeps.store import (
    Part,
    Store,
    decoded,
    encoded,
    opened,
    polars_or_refuse,
    seen,
    solution_of,
)
from jaxpriv.solving.sweeps.work import Work, compute

if TYPE_CHECKING:
    import polars


# Chunks that wait in an executor for each of its workers: none stands still, and few results lie in memory.
_AHEAD = 2


@dataclass(frozen=True)
class SweepProgress:
    """Where a sweep stands, for the function `progress`.

    Attributes:
        done, total: problems with results, those of earlier runs included, and all of them.
        rate: problems a second in this run; 0 before the first.
        worst_gap: the largest certified gap of this run, of problems with a mechanism.
        unproved: problems of this run that are not certified to their tolerance (infeasible ones are proved to be so).
        seconds: since the call began.
    """

    done: int
    total: int
    rate: float
    worst_gap: float
    unproved: int
    seconds: float

    def __str__(self) -> str:
        numbers = f"{self.rate:.3g}/s, worst gap {self.worst_gap:.2e}, {self.unproved} unproved"
        return f"{self.done}/{self.total} problems, {numbers}, {self.seconds:.1f} s"


@dataclass(frozen=True)
class Sweep(Shown):
    """The results of a study; it prints as how many problems have which status, and the largest gap.

    Attributes:
        folder: where they are.
        study: what was asked.
        plan: in which chunks.
        new: chunks that this call computed.
        redone: those of them that were there, but damaged.
        failures: why chunks are missing, by their number in the plan: a worker died or returned nonsense. The next
            call tries them again.
        stopped: why the call ended early: 0 it did not, 1 the time limit, 2 an interrupt.
        missing: chunks that are not there, those of other parts included.
    """

    folder: Path
    study: Study = field(repr=False)  # of thousands of problems
    plan: Plan = field(repr=False)
    new: int = 0
    redone: int = 0
    failures: dict[int, str] = field(default_factory=dict)
    stopped: Stop = Stop.NONE
    missing: int = 0

    @property
    def complete(self) -> bool:
        """Whether every problem has a row."""
        return self.missing == 0 and self._store.table_path.exists()

    @property
    def table(self) -> "polars.DataFrame":
        """One row for each problem that is done, in the order of the study (docs/how-to/sweeps.md has the columns)."""
        return self._store.table()

    @property
    def record(self) -> dict[str, Any]:
        """What is done in terms of JSON: the problems by their status, the largest gap, and the chunks; `unproved` are
        those with a mechanism that is not certified to its tolerance.
        """
        table = self.table
        statuses = dict(sorted(table["status"].value_counts().iter_rows()))
        gaps = table.filter(table["gap"].is_finite())["gap"]
        return {
            "name": self.study.name,
            "study": self.study.hash,
            "folder": self.folder,
            "problems": len(self.study.cases),
            "done": len(table),
            "statuses": statuses,
            "unproved": sum(statuses.get(name, 0) for name in ("not_certified", "best_known")),
            "refused": statuses.get("refused", 0),
            "worst_gap": gaps.max() if len(gaps) else None,
            "chunks": {"total": len(self.plan.chunks), "new": self.new, "redone": self.redone},
            "failures": self.failures,
        }

    @property
    def lines(self) -> dict[str, str]:
        """The record in words, text by name."""
        record = self.record
        chunks = record["chunks"]
        return {
            "problems": f"{record['done']} of {record['problems']} done",
            **{name.replace("_", " "): str(count) for name, count in record["statuses"].items()},
            "worst gap": "none" if record["worst_gap"] is None else width(record["worst_gap"]),
            "chunks": f"{chunks['total']}, {chunks['new']} of them new, {chunks['redone']} redone",
            "folder": str(record["folder"]),
        }

    def _shown(self) -> dict[str, str]:
        return self.lines

    def problem(self, i: int) -> DistortionProblem:
        """Problem `i` of the study."""
        return self.study.problem(self._position(i))

    def solution(self, i: int) -> Solution:
        """The stored solution of problem `i`, with the mechanism and the duals that prove it.

        Raises:
            InputError: it has none: it is not done, or was refused.
        """
        position = self._position(i)
        for chunk in self.plan.chunks:
            if position in chunk.positions:
                table = self._store.valid(chunk)
                if table is not None:
                    row = table.row(chunk.positions.index(position), named=True)
                    return solution_of(row, units_of(self.study.problem(position)))
        raise InputError(f"problem {i} has no result in {self.folder}")

    def solutions(self) -> Iterator[tuple[int, Solution]]:
        """(position, solution) of every problem that has a mechanism, one chunk of the plan after another."""
        return ((i, solution) for i, _, solution in self._solved())

    def verify(self) -> dict[int, Verification]:
        """Every certificate computed again, from the declaration and the stored arrays alone: `jaxpriv.certify`.

        Infeasible and failed problems, which hold no mechanism, are left out.
        """
        checked = {i: certify(problem, solution) for i, problem, solution in self._solved()}
        return dict(sorted(checked.items()))

    def _solved(self) -> Iterator[tuple[int, DistortionProblem, Solution]]:
        """`solutions` with the problem of each."""
        parts = CaseParts(self.study.tables)
        for table in self._store.tables():
            for row in table.iter_rows(named=True):
                if np.isfinite(row["value"]):
                    problem = parts.problem(self.study.cases[row["index"]])
                    yield row["index"], problem, solution_of(row, units_of(problem))

    @property
    def _store(self) -> Store:
        return Store(self.folder, self.study, self.plan)

    def _position(self, i: int) -> int:
        number = whole(i, "i", low=-math.inf)
        if not 0 <= number < len(self.study.cases):
            raise InputError(f"problem {number} is not in the study, which has {len(self.study.cases)}")
        return number


def sweep(
    study: Study | str | PathLike[str] | Mapping[str, object],
    out: str | PathLike[str],
    *,
    workers: int = 1,
    executor: Executor | None = None,
    part: Part | str | None = None,
    dry_run: bool = False,
    time_limit: float | None = None,
    progress: bool | Callable[[SweepProgress], object] | None = None,
    device: jax.Device | Sharding | None = None,
) -> Sweep:
    """Solve every problem of a declared study, in chunks that are kept in the folder `out` one by one.

    Chunks that are there are not computed again, whatever ended the process that computed them; damaged ones are found
    and redone. The rows do not depend on who computed them in which order: on one machine a study that was interrupted
    ends with the same bytes as one that was not. A changed declaration is another study and needs another folder.

    Problems of one kind share batches of one compiled program, as in `solve_many`. A problem that no solver takes (a
    measure without a convex program in its form, a size that does not fit into memory) has the status `refused`, with
    the reason in `notes`; the others are solved.

    Args:
        study: the path of a TOML file, the same as a mapping, or a `Study` (docs/how-to/sweeps.md).
        out: a folder, made if need be.
        workers: processes that compute chunks; 1: this one. A worker that dies is replaced; a chunk of which two die is
            left out.
        executor: any `concurrent.futures.Executor` in place of `workers`: `submit` gets a function and one argument,
            which can be pickled, and its result is the content of a file, which this process checks and writes.
        part: (k, n), or "k/n": compute every n-th chunk only, from the k-th on, 1 <= k <= n. Processes with different
            parts may share a folder: the tasks of a cluster's array. The one that ends last writes the table.
        dry_run: compute and write nothing; the result has the plan with its predicted seconds and bytes.
        time_limit: seconds after which no further chunk is begun.
        progress: True (lines on stderr), or a function of a `SweepProgress`.
        device: a `jax.Device` on which this process computes, or a `jax.sharding.Sharding` of one; JAX's default
            otherwise. Several devices share a study by parts, each in a process of its own. Rows of another kind of
            device may differ in their last bits.

    Ctrl-C ends the sweep after the chunks under way; a second one at once. What is done is kept.

    Raises:
        InputError: the declaration is wrong, or the folder holds another study.
        IntegrityError: the folder was written in another format.
        ResourceError: another sweep is at work in the folder, the disk is full (what was computed before is kept), or
            the executor broke down.
    """
    how = {"workers": workers, "executor": executor, "part": part, "dry_run": dry_run, "device": device}
    with clock_of(time_limit, None) as clock:
        return sweep_within(study, out, clock, progress, **how)


def sweep_within(
    study: Study | str | PathLike[str] | Mapping[str, object],
    out: str | PathLike[str],
    clock: Clock,
    progress: bool | Callable[[SweepProgress], object] | None = None,
    *,
    workers: int = 1,
    executor: Executor | None = None,
    part: Part | str | None = None,
    dry_run: bool = False,
    device: jax.Device | Sharding | None = None,
) -> Sweep:
    """`sweep` as a part of other work, which has a clock of its own and handles Ctrl-C."""
    polars_or_refuse()
    instance(out, "out", str, PathLike)
    flag(dry_run, "dry_run")
    if executor is not None:
        instance(executor, "executor", Executor)
    declared, folder = Study.of(study), Path(out)
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError("workers must be a whole number >= 1")
    if executor is not None and workers != 1:
        raise InputError("give workers or executor, not both")
    share = None if part is None else _checked(part)
    place = Placement.of(device)
    if device is not None and (place.mesh is not None or executor is not None or workers != 1):
        raise InputError("device: one device, in this process (workers=1, no executor); several share a study by parts")
    listen = listener(progress, "SweepProgress")
    if dry_run:
        store = seen(folder, declared)
        return Sweep(folder, declared, store.plan, missing=len(store.missing()))
    with place.here(), opened(folder, declared, share) as store:
        course = _Course(store, clock, listen, share)
        if executor is not None:
            _elsewhere(course, executor)
        elif workers == 1:
            _here(course)
        else:
            _in_processes(course, workers)
        stopped = clock.stop if course.missing else Stop.NONE
        missing = len(course.missing) + len(course.failures) if share is None else len(store.missing())
        if missing == 0:
            atomic_write(store.table_path, encoded(store.table()))
        return Sweep(folder, declared, store.plan, course.new, course.redone, course.failures, stopped, missing)


def _checked(part: Part | str) -> Part:
    if isinstance(part, str):
        numbers = tuple(map(int, part.split("/"))) if re.fullmatch("[0-9]{1,9}/[0-9]{1,9}", part) else ()
    else:
        numbers = part
    match numbers:
        case (int() as number, int() as count) if 1 <= number <= count and bool not in map(type, numbers):
            return number, count
    raise InputError("part must be K/N with whole numbers 1 <= K <= N, as in 1/20")


class _Course:
    """What is still to be computed, and what has been reported about it."""

    def __init__(
        self, store: Store, clock: Clock, listen: Callable[[SweepProgress], object] | None, part: Part | None
    ) -> None:
        self.store, self.clock, self._listen = store, clock, listen
        self._begun = time.perf_counter()
        self.new = self.redone = 0
        self.failures: dict[int, str] = {}
        absent = set(store.missing())
        self._damaged = {number for number in absent if store.damaged(self.chunk(number))}
        first, step = (1, 1) if part is None else part
        self.missing = [number for number in range(first - 1, len(store.plan.chunks), step) if number in absent]
        refused = len(store.plan.refused)
        present = (chunk for number, chunk in enumerate(store.plan.chunks) if number not in absent)
        self._done = refused + sum(len(chunk.positions) for chunk in present)
        self._rows, self._unproved, self._worst = 0, 0, 0.0
        self._report()

    def chunk(self, number: int) -> Chunk:
        return self.store.plan.chunks[number]

    def work(self, number: int) -> Work:
        chunk, study = self.chunk(number), self.store.study
        cases = tuple(study.cases[i] for i in chunk.positions)
        named = {part.get("sha256") for case in cases for part in (case["joint"], case["distortion"])}
        tables = {name: table for name, table in study.tables.items() if name in named}
        return Work(chunk, cases, tables)

    def keep(self, number: int, content: object) -> None:
        """Check and write what a worker returned for a chunk; nonsense is a failure of that chunk alone."""
        chunk = self.chunk(number)
        try:
            if not isinstance(content, bytes):
                raise IntegrityError(f"the worker returned {type(content).__name__}, not bytes")
            cases = [self.store.study.cases[i] for i in chunk.positions]
            table = decoded(content, chunk.positions, cases)
        except IntegrityError as error:
            self.fail(number, str(error))
            return
        self.store.keep(chunk, content)
        self.missing.remove(number)
        self.new += 1
        self.redone += number in self._damaged
        self._done += len(chunk.positions)
        self._rows += len(chunk.positions)
        self._unproved += len(chunk.positions) - sum(status in ("optimal", "infeasible") for status in table["status"])
        gaps = table["gap"].to_numpy()
        self._worst = max(self._worst, gaps[np.isfinite(gaps)].max(initial=0.0))
        self._report()

    def fail(self, number: int, why: str) -> None:
        self.failures[number] = why
        self.missing.remove(number)

    def _report(self) -> None:
        if self._listen is None:
            return
        seconds = time.perf_counter() - self._begun
        total = len(self.store.study.cases)
        with self.clock.held():
            rate = self._rows / seconds if seconds > 0 else 0.0
            self._listen(SweepProgress(self._done, total, rate, float(self._worst), self._unproved, seconds))


def _here(course: _Course) -> None:
    for number in list(course.missing):
        if course.clock.expired():
            return
        try:
            content = compute(course.work(number))
        except Exception as error:  # as of a worker: the rest goes on
            course.fail(number, f"computing raised {type(error).__name__}")
        else:
            course.keep(number, content)


def _elsewhere(course: _Course, executor: Executor) -> None:
    """In an executor of the caller's, which this module cannot replace."""
    lost = _fed(course, executor, list(course.missing), _AHEAD * getattr(executor, "_max_workers", 8))
    if lost:
        raise ResourceError(
            f"the executor broke down with {len(course.missing)} of {len(course.store.plan.chunks)} chunks to go; what "
            "is done is kept: call sweep again with a new one"
        )


def _in_processes(course: _Course, workers: int) -> None:
    """In processes of our own. When one dies, all that were at work are suspects: each is tried again by itself."""
    waiting, suspects = list(course.missing), []
    while waiting and not course.clock.expired():
        with _pool(workers) as pool:
            lost = _fed(course, pool, waiting, _AHEAD * workers)
        suspects += lost
        waiting = [number for number in waiting if number in course.missing and number not in suspects]
    for number in suspects:
        if course.clock.expired():
            return
        with _pool(1) as pool:
            if _fed(course, pool, [number], 1):
                course.fail(number, "the worker died twice while it computed this chunk, most often for lack of memory")


@contextmanager
def _pool(workers: int) -> Iterator[Executor]:
    """New processes: a fork of this one could not compute."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begun)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begun() -> None:
    """What a worker does first."""
    # Ctrl-C at a terminal reaches all processes: the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed waits for work without end, and keeps its memory: it ends here."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _fed(course: _Course, executor: Executor, waiting: list[int], ahead: int) -> list[int]:
    """Chunks through an executor, until all are done, the clock ends it, or the executor breaks: those lost with it."""
    queue, running = list(waiting), {}
    lost: list[int] = []
    while queue or running:
        while queue and len(running) < ahead and not lost and not course.clock.expired():
            number = queue.pop(0)
            try:
                running[executor.submit(compute, course.work(number))] = number
            except (BrokenExecutor, RuntimeError):  # it broke, or was shut down
                lost.append(number)
        if not running:
            break
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            number = running.pop(future)
            _settled(course, number, future, lost)
    return lost


def _settled(course: _Course, number: int, future: "Future[bytes]", lost: list[int]) -> None:
    try:
        content = future.result()
    except BrokenExecutor:
        lost.append(number)
    except Exception as error:  # of the worker: it failed with this chunk; its text may hold data values
        course.fail(number, f"the worker raised {type(error).__name__}")
    else:
        course.keep(number, content)
