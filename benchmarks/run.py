"""Run a suite: every solver on every case, each pair in a process of its own; results as one JSON file.

    python -m benchmarks.run --suite short [--seed N] [--out FILE.json] [--solvers NAME ...]
        [--sizes N ...] [--cases N] [--limit SECONDS] [--budget-seconds SECONDS] [--report]
    python -m benchmarks.run --problem mine.npz --budget 0.2 [--solver module:MySolver()] ... [--report]
    python -m benchmarks.run --problem instances.csv ...      (columns: problem, and budget or multiplier)

One pair at a time, so that nobody shares the machine with a competitor. A process is killed when one
accuracy exceeds the time limit; what it finished before counts, and the rest is recorded as such. The file
is rewritten after every case: an interrupted run leaves the cases that it finished.
"""

import argparse
import csv
import dataclasses
import json
import math
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import memory, results
from benchmarks.cases import Case
from benchmarks.machine import machine, versions
from benchmarks.results import CaseRecord, PartRecord, Results, Row
from benchmarks.solvers import REFERENCES, SOLVERS
from benchmarks.suites import GENERAL, SUITES, Options, Part
from benchmarks.worker import without_paths

# A process that has not stated its problem after this many seconds is stopped (imports are slow on a cold disk).
START_LIMIT = 120.0
# What compiling may take on top of the time limit.
COMPILE_LIMIT = 60.0

# Why an accuracy that a part leaves out was not run.
CUT = "left out of this suite, to keep it short"


@dataclass(frozen=True)
class Job:
    """One solver on one case, at some accuracies of its ladder."""

    case: Case
    solver: str
    targets: tuple[float, ...]
    labels: tuple[str, ...]
    limit: float


@dataclass
class Patience:
    """How long to wait for the next line, in seconds."""

    seconds: float


class Ended(Exception):
    """The process of a job is over before it said everything: killed, crashed, or out of time."""

    def __init__(self, status: str, reason: str, peak_mib: float | None = None):
        super().__init__(reason)
        self.status, self.reason, self.peak_mib = status, reason, peak_mib


def jobs_of(part: Part, case: Case, solvers: tuple[str, ...] | None) -> list[Job]:
    """The solvers of a case, and the reference where it is not among them anyway."""
    chosen = [name for name in solvers or part.solvers if SOLVERS[name].supports(case)]
    jobs = []
    for name in dict.fromkeys([*chosen, *(name for name in REFERENCES if SOLVERS[name].supports(case))]):
        fine = {REFERENCES[name]} if name in REFERENCES else set()
        targets = tuple(sorted({*(part.targets if name in chosen else ()), *fine}, reverse=True))
        labels = tuple(accuracy.label for accuracy in SOLVERS[name].ladder(targets))
        jobs.append(Job(case, name, targets, labels, part.limit))
    return jobs


def run_job(job: Job) -> Iterator[dict[str, Any]]:
    """What the worker of a job says, one dictionary for each accuracy. Raises `Ended`."""
    order = {"solver": job.solver, "family": job.case.family, "parameters": dict(job.case.parameters)}
    order |= {"targets": job.targets, "only": job.labels}
    patience = Patience(START_LIMIT)
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", json.dumps(order)],
            stdout=subprocess.PIPE,
            stderr=complaints,
            cwd=Path(__file__).resolve().parents[1],
        )
        try:
            start: dict[str, Any] = {}
            for line in _lines(process, patience):
                message = json.loads(line)
                if "baseline_mib" in message:
                    start = message
                    # Compiling happens in the first call, and is not what the limit is about.
                    patience.seconds = job.limit + (COMPILE_LIMIT if SOLVERS[job.solver].compiles else 0.0)
                else:
                    patience.seconds = job.limit
                    yield {**start, **message}
            if process.wait() != 0:
                complaints.seek(0)
                raise Ended("failed", _last_words(process.returncode, complaints.read().decode(errors="replace")))
        except TimeoutError:
            reached = memory.peak(process.pid)
            above = None if reached is None or "baseline_mib" not in start else reached - start["baseline_mib"]
            raise Ended("time limit", f"more than {patience.seconds:g} s", above) from None
        finally:
            process.kill()
            process.wait()


def _lines(process: subprocess.Popen[bytes], patience: Patience) -> Iterator[bytes]:
    """Lines of its output until it ends. Raises TimeoutError if the next one takes longer than `patience`."""
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    waiting = b""
    with process.stdout, selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            if not selector.select(patience.seconds):
                raise TimeoutError
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                return
            *lines, waiting = (waiting + chunk).split(b"\n")
            yield from lines


def _last_words(code: int, complaints: str) -> str:
    if code < 0:
        return f"killed by signal {-code}"
    last = next((line for line in reversed(complaints.splitlines()) if line.strip()), f"exit status {code}")
    return without_paths(last)


def rows_of(job: Job) -> list[tuple[Row, list[float], list[float]]]:
    """Every accuracy of a job as a row, its values and its certified bounds (the gap is filled in later)."""
    rows = []

    def without_result(label: str, status: str, reason: str, peak: float | None = None) -> None:
        rows.append((Row(job.case.name, job.solver, label, status, reason, peak_mib=peak), [], []))

    try:
        for message in run_job(job):
            values, bounds = message.pop("values"), message.pop("bounds")
            times = message.pop("seconds") or {"median": None, "min": None, "max": None}
            row = Row(
                case=job.case.name,
                solver=job.solver,
                seconds=times["median"],
                seconds_min=times["min"],
                seconds_max=times["max"],
                value=_mean(values),
                lower_bound=_mean(bounds),
                **message,
            )
            rows.append((row, values, bounds))
    except Ended as end:
        first, *rest = job.labels[len(rows) :]
        without_result(first, end.status, end.reason, end.peak_mib)
        for label in rest:
            why = "exceeded the time limit" if end.status == "time limit" else "failed"
            without_result(label, "skipped", f"a looser accuracy {why}")
    return rows


def _mean(numbers: list[float]) -> float | None:
    """None for none, and for what is not finite: JSON has no word for it."""
    mean = float(np.mean(numbers)) if numbers else math.inf
    return mean if math.isfinite(mean) else None


def run_case(
    part: Part, case: Case, solvers: tuple[str, ...] | None, exceeded: dict[str, set[str]], late: Callable[[], bool]
) -> tuple[CaseRecord, list[Row]]:
    """All solvers on one case, and the gaps of all against the best bound that any of them certified."""
    found: list[tuple[Row, list[float], list[float]]] = []
    for job in jobs_of(part, case, solvers):
        absent = SOLVERS[job.solver].missing()
        known = exceeded.get(job.solver, set()) if part.axis else set()
        cut = set(job.labels) - set(part.rungs.get(job.solver, job.labels))
        for label in job.labels:
            status, reason = ("unavailable", absent) if absent else ("skipped", "the time budget was spent")
            if not absent and label in known:
                reason = results.TOO_SLOW
            elif not absent and label in cut:
                reason = CUT
            if absent or label in known | cut or late():
                found.append((Row(case.name, job.solver, label, status, reason or ""), [], []))
        todo = tuple(label for label in job.labels if label not in known | cut)
        if absent or not todo or late():
            continue
        outcome = rows_of(dataclasses.replace(job, labels=todo))
        for row, _, _ in outcome:
            print(_line(row), flush=True)
        found += outcome
        if any(row.status == "time limit" for row, _, _ in outcome):
            stopped = next(i for i, (row, _, _) in enumerate(outcome) if row.status == "time limit")
            exceeded.setdefault(job.solver, set()).update(row.accuracy for row, _, _ in outcome[stopped:])
    return _compared(case, found)


def _compared(case: Case, found: list[tuple[Row, list[float], list[float]]]) -> tuple[CaseRecord, list[Row]]:
    certified = [(row, bounds) for row, _, bounds in found if bounds]
    best = np.max([bounds for _, bounds in certified], axis=0) if certified else None
    author = max(certified, key=lambda pair: np.mean(pair[1]))[0] if certified else None
    rows = []
    for row, values, _ in found:
        gap = None if best is None or not values else _mean([float(np.max(np.subtract(values, best)))])
        rows.append(dataclasses.replace(row, gap=gap))
    instance = case.build()
    record = CaseRecord(
        name=case.name,
        family=case.family,
        parameters=dict(case.parameters),
        sizes={"S": instance.joint.shape[0], "X": instance.joint.shape[1], "Y": len(instance.y)},
        bound=None if best is None else _mean(list(best)),
        bound_by="" if author is None else f"{author.solver} {author.accuracy}",
    )
    return record, rows


def _line(row: Row) -> str:
    if row.seconds is None:
        return f"  {row.solver:22s} {row.accuracy:>16s}  {row.status}: {row.reason}"
    peak = "" if row.peak_mib is None else f"  {row.peak_mib:8.1f} MiB"
    return f"  {row.solver:22s} {row.accuracy:>16s}  {row.seconds:10.4f} s  value {row.value:.9f}{peak}  {row.reason}"


def run_suite(
    suite: str, options: Options, solvers: tuple[str, ...] | None, limit: float | None, budget: float, out: Path
) -> Results:
    """Run, and write the results after every case."""
    begun = time.perf_counter()
    parts = SUITES[suite](options)
    if limit is not None:
        parts = [dataclasses.replace(part, limit=limit) for part in parts]
    gathered = Results(
        schema=results.SCHEMA,
        suite=suite,
        seed=options.seed,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=0.0,
        versions=versions(),
        machine=machine(),
        parts=[
            PartRecord(part.title, part.axis, [case.name for case in part.cases], list(part.targets), part.limit)
            for part in parts
        ],
        cases=[],
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    for part in parts:
        exceeded: dict[str, set[str]] = {}
        for case in part.cases:
            if any(known.name == case.name for known in gathered.cases):
                continue  # the sweeps of a growth suite share their middle
            print(f"{case.name} ({part.title})", flush=True)
            record, rows = run_case(part, case, solvers, exceeded, lambda: time.perf_counter() - begun > budget)
            gathered = dataclasses.replace(
                gathered,
                cases=[*gathered.cases, record],
                rows=[*gathered.rows, *rows],
                seconds=round(time.perf_counter() - begun, 1),
            )
            results.write(out, gathered)
    return gathered


def instances_of(problem: Path, budget: float | None, multiplier: float | None) -> tuple[Case, ...]:
    """The cases of an .npz file at the budget or multiplier, or those of the rows of a .csv file.

    Raises `ValueError` for a row, or a file, that has not exactly one of the two.
    """
    rows: list[dict[str, Any]] = [{"problem": str(problem), "budget": budget, "multiplier": multiplier}]
    if problem.suffix == ".csv":
        if budget is not None or multiplier is not None:
            raise ValueError("the budgets or multipliers of a .csv file are columns of it")
        with problem.open(newline="") as lines:
            rows = [dict(row) for row in csv.DictReader(lines)]
        for row in rows:
            row["problem"] = str(problem.parent / (row.get("problem") or ""))
    cases = []
    for i, row in enumerate(rows):
        targets = {name: float(row[name]) for name in ("budget", "multiplier") if row.get(name) not in (None, "")}
        if len(targets) != 1:
            raise ValueError(f"{problem}, row {i}: give a budget or a multiplier")
        family = "file" if "budget" in targets else "file-penalty"
        cases.append(Case.of(family, path=row["problem"], **targets))
        cases[-1].build()
    return tuple(cases)


def _solver_name(text: str) -> str:
    if text not in SOLVERS and ":" not in text:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(SOLVERS)}, nor module:expression")
    return text


def main() -> None:
    """Run, write, and say where."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=SUITES, default="short")
    parser.add_argument("--problem", type=Path, default=None, help="your own .npz, or a .csv of them, not a suite")
    parser.add_argument("--budget", type=float, default=None, help="of --problem")
    parser.add_argument("--multiplier", type=float, default=None, help="of --problem, instead of a budget")
    parser.add_argument(
        "--solver",
        type=_solver_name,
        action="append",
        default=[],
        metavar="MODULE:EXPRESSION",
        help="beside the others",
    )
    parser.add_argument("--seed", type=int, default=None, help="from the clock if not given; recorded")
    parser.add_argument("--out", type=Path, default=None, help="results file (out/benchmarks/SUITE.json)")
    parser.add_argument("--solvers", nargs="+", type=_solver_name, default=None, help="instead of the suite's own")
    parser.add_argument("--sizes", type=int, nargs="+", default=None, help="of suites that sweep a size")
    parser.add_argument("--cases", type=int, default=1, help="seeds for each size of suites cube, worst and linear")
    parser.add_argument("--limit", type=float, default=None, help="seconds for one accuracy of one solver on one case")
    parser.add_argument("--budget-seconds", type=float, default=float("inf"), help="start nothing after this long")
    parser.add_argument("--report", action="store_true", help="write the report beside the results")
    args = parser.parse_args()
    seed = int(time.time()) % 1_000_000 if args.seed is None else args.seed
    try:
        instances = instances_of(args.problem, args.budget, args.multiplier) if args.problem else ()
    except (OSError, ValueError, KeyError) as error:
        parser.error(f"--problem: {error}")
    suite = "given" if instances else args.suite
    options = Options(seed, tuple(args.sizes) if args.sizes else None, args.cases, instances)
    out = args.out or Path("out", "benchmarks", f"{suite}.json")
    chosen = args.solvers or (list(GENERAL) if args.solver and instances else None)
    solvers = (*chosen, *args.solver) if chosen else None
    gathered = run_suite(suite, options, solvers, args.limit, args.budget_seconds, out)

    from benchmarks import report

    print()
    print("\n".join(report.summary(gathered)))
    print(f"results: {out}")
    if args.report:
        print(f"report: {report.write(gathered, out)}")


if __name__ == "__main__":
    main()
