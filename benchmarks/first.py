"""From a new process to its first certified answer, and many different problems in one process.

    python -m benchmarks.first [--sizes 8 32] [--repeats 5] [--shapes 300] [--largest 64] [--limit SECONDS]
        [--seed N] [--out benchmarks/results/first.json]

The seconds of a process are those that its user waits: start of Python, imports, formulating, compiling if any,
solving, certificate, exit. jaxpriv runs with an empty folder of kept executables and with that of an earlier process;
beside it cvxpy with Clarabel, and processes that do nothing but import. Processes of all kinds take turns,
`--repeats` times each; least and median are written. Beside the wall clock stands the processor time of all threads,
which other work on the machine changes less. The values of both are compared.

Writes the results, a page beside them, and a plot of total time against the number of different problems.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import first_worker
from benchmarks.machine import machine, versions
from benchmarks.worker import without_paths

ROOT = Path(__file__).resolve().parents[1]
# Values of one problem by two solvers may differ by Clarabel's own accuracy.
_AGREE = 1e-4
# The certified gap that jaxpriv aims at by default.
_TOLERANCE = 1e-6
_NAMES = {"jaxpriv": "jaxpriv", "clarabel": "cvxpy with Clarabel"}


def process(command: list[str], **environment: str) -> dict[str, Any]:
    """Wall and processor seconds of a whole process, and the lines of JSON that it wrote."""
    # As a user has it: the library's bytecode is on disk, and JAX keeps no executables of its own.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own = {"JAX_ENABLE_COMPILATION_CACHE": "false", **environment}
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as complaints:
        running = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env={**inherited, **own},
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )
        assert running.stdout is not None
        with running.stdout:
            said = running.stdout.read()
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        if running.returncode:
            complaints.seek(0)
            raise RuntimeError(without_paths(complaints.read().decode(errors="replace")[-500:]))
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return {"wall": time.perf_counter() - begun, "processor": used.ru_utime + used.ru_stime, "lines": lines}


def worker(order: dict[str, Any], **environment: str) -> dict[str, Any]:
    """`process` of the worker with this order."""
    return process(["-m", "benchmarks.first_worker", json.dumps(order)], **environment)


def fresh(sizes: list[int], repeats: int, seed: int, limit: float) -> list[dict[str, Any]]:
    """First answers: one row for each size, measure and kind of process."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            for measure in first_worker.MEASURES:
                rows += _turns(size, measure, repeats, seed, limit, Path(folder))
    return rows


def _turns(size: int, measure: str, repeats: int, seed: int, limit: float, folder: Path) -> list[dict[str, Any]]:
    order = {"size": size, "measure": measure, "seed": seed, "limit": limit}
    joint, table = first_worker.instance(size, size, size, seed)
    npz = folder / "problem.npz"
    np.savez(npz, joint=joint, distortion=table)
    asked = (
        ["--budget", repr(first_worker.budget(joint, table))]
        if measure == "mutual-information"
        else ["--leakage-budget", repr(first_worker.limit(joint)), "--leakage", measure]
    )
    kept = str(folder / f"kept-{size}-{measure}")
    worker({**order, "solver": "jaxpriv"}, JAXPRIV_CACHE=kept)
    ours, theirs = {**order, "solver": "jaxpriv"}, {**order, "solver": "clarabel"}
    kinds = {
        "import jax": lambda turn: process(["-c", "import jax"]),
        "import cvxpy": lambda turn: process(["-c", "import cvxpy"]),
        "cvxpy with Clarabel": lambda turn: worker(theirs),
        "jaxpriv": lambda turn: worker(ours, JAXPRIV_CACHE=f"{kept}-{turn}"),
        "jaxpriv, executables kept": lambda turn: worker(ours, JAXPRIV_CACHE=kept),
        "`jaxpriv solve`": lambda turn: process(
            ["-m", "jaxpriv", "solve", str(npz), *asked], JAXPRIV_CACHE=f"{kept}-{turn}-command"
        ),
    }
    runs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    for turn in range(repeats):
        for kind, run in kinds.items():
            runs[kind].append(run(turn))
    values = {kind: done[0]["lines"][0] for kind, done in runs.items() if done[0]["lines"]}
    reference = values["cvxpy with Clarabel"]["value"]
    rows = []
    for kind, done in runs.items():
        answer = values.get(kind, {})
        if "value" in answer and not abs(answer["value"] - reference) <= _AGREE * max(1.0, abs(reference)):
            raise RuntimeError(f"{kind} and Clarabel disagree at n = {size}, {measure}")
        row: dict[str, Any] = {"size": size, "measure": measure, "kind": kind, "gap": answer.get("gap")}
        for clock in ("wall", "processor"):
            seconds = [one[clock] for one in done]
            row[clock] = {"least": min(seconds), "median": statistics.median(seconds)}
        print(f"n={size:<3d} {measure:<18s} {kind:<26s} {row['wall']} {row['processor']}", flush=True)
        rows.append(row)
    return rows


def many(count: int, largest: int, seed: int, limit: float) -> dict[str, list[dict[str, Any]]]:
    """For each solver, what its process said after every problem, of random shapes, on mutual information."""
    order = {"count": count, "largest": largest, "seed": seed, "limit": limit, "measure": first_worker.MEASURES[0]}
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for solver in first_worker.SOLVERS:
            found[solver] = worker({**order, "solver": solver}, JAXPRIV_CACHE=folder)["lines"]
            last = found[solver][-1]
            print(f"{solver}: {len(found[solver])} problems in {last['seconds']:.1f} s", flush=True)
    for own, peer in zip(found["jaxpriv"], found["clarabel"], strict=False):
        # Ours lies within its gap of the optimum, so what differs by more than that and `_AGREE` is the peer's error.
        own["solved"] = own["gap"] <= _TOLERANCE
        peer["solved"] = peer["value"] is not None and abs(own["value"] - peer["value"]) <= own["gap"] + _AGREE
    return found


def page(record: dict[str, Any]) -> str:
    """The picture, a sentence on it, and the tables of a results file."""
    ran = [f"{_NAMES[name]} {len(said)} in {said[-1]['seconds']:.1f} s" for name, said in record["many"].items()]
    lines = ["# Benchmark: the first answer", "", "![Seconds against the number of different problems](first.png)", ""]
    lines += [
        "*A new process, imports and all compiling included, on different problems one after another: "
        f"{', '.join(ran)}.*",
        "",
        _what_ran(record),
        "",
    ]
    lines += ["## A new process to its first answer", "", "Seconds, least and median of the process's whole life.", ""]
    lines += ["| n | measure | process | wall | processor | of Clarabel's | gap |", "|---|---|---|---|---|---|---|"]
    peers = {(row["size"], row["measure"]): row for row in record["fresh"] if row["kind"] == "cvxpy with Clarabel"}
    for row in record["fresh"]:
        wall, processor = row["wall"], row["processor"]
        share = processor["least"] / peers[row["size"], row["measure"]]["processor"]["least"]
        gap = "-" if row["gap"] is None else f"{row['gap']:.0e}"
        lines.append(
            f"| {row['size']} | {row['measure']} | {row['kind']} | {wall['least']:.2f}, {wall['median']:.2f} "
            f"| {processor['least']:.2f}, {processor['median']:.2f} | {share:.2f} | {gap} |"
        )
    lines += ["", "The share is of the least processor seconds.", "", "## Many shapes in one process", ""]
    lines += ["| solver | problems | not solved | wall | processor | MiB after a third, after all | largest gap |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for solver, said in record["many"].items():
        last, third = said[-1], said[max(len(said) // 3 - 1, 0)]
        gaps = [one["gap"] for one in said if "gap" in one]
        unsolved = sum(not one.get("solved", True) for one in said)
        largest = f"{max(gaps):.0e}" if gaps else "-"
        lines.append(
            f"| {_NAMES[solver]} | {len(said)} | {unsolved} | {last['seconds']:.1f} | {last['processor']:.1f} "
            f"| {third['mib']:.0f}, {last['mib']:.0f} | {largest} |"
        )
    lines += [
        "",
        "Not solved: jaxpriv's gap is above 1e-6; Clarabel gave up, or its value is off by more than 1e-4.",
        "",
    ]
    return "\n".join(lines)


def _what_ran(record: dict[str, Any]) -> str:
    on, used = record["machine"], record["versions"]
    named = ", ".join(f"{name} {version}" for name, version in used.items() if version is not None)
    return (
        f"{on['processor']}, {on['cores']} cores, load {record['load']:.1f} at the start, {named}. "
        "Made by `python -m benchmarks.first`."
    )


def plot(record: dict[str, Any], path: Path) -> None:
    """Total seconds against the number of different problems."""
    from matplotlib.figure import Figure

    from benchmarks.plots import look
    from jaxpriv.plotting import style

    with style():
        figure = Figure(figsize=(3.4, 2.4))
        axes = figure.subplots()
        for solver, said in record["many"].items():
            name = "interior-point" if solver == "jaxpriv" else solver
            looks = {**look(name), "marker": ""}
            axes.plot(range(1, len(said) + 1), [one["seconds"] for one in said], label=_NAMES[solver], **looks)
        axes.set(xscale="log", yscale="log", xlabel="different problems", ylabel="seconds since the imports began")
        for ticks in (axes.xaxis, axes.yaxis):
            ticks.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
        axes.legend()
        figure.savefig(path, dpi=200, bbox_inches="tight")


def main() -> None:
    """Measure, and write results, page and plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--shapes", type=int, default=300)
    parser.add_argument("--largest", type=int, default=64)
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds after which no new problem begins")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "first.json")
    args = parser.parse_args()
    record = {"load": os.getloadavg()[0], "seed": args.seed, "repeats": args.repeats, "largest": args.largest}
    record["fresh"] = fresh(args.sizes, args.repeats, args.seed, args.limit)
    record["many"] = many(args.shapes, args.largest, args.seed, args.limit)
    record |= {"machine": machine(), "versions": versions()}
    args.out.write_text(json.dumps(record, indent=1) + "\n")
    args.out.with_suffix(".md").write_text(page(record))
    plot(record, args.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
