"""Funnels of dense and of real tables: value, bound, gap, seconds and memory, each case in a process of its own.

    python -m benchmarks.funnels [--adult FOLDER] [--compas FOLDER] [--only WORD] [--limit 60]

The list: Dirichlet joints S x X at R = .5, .8, .95 H(X) (to reach: a relative gap of 1e-3 within 60 s on two cores for
|S| = 8, 1e-6 nats within 10 s for |S| <= 4); the census with S = (income, sex, white or not) and COMPAS with S = (race,
sex), both with three attributes of X and more; the boundary of the 8 x 100 table at 20 values of R (to reach: certified
within 600 s); the bottleneck of small and larger S; the guessing probability in place of I(S;Y) at R = .8, .9, .95
H(X). FOLDER holds the original files; without it they are downloaded once and kept.

`seconds` are of the clock, imports and compiling included; `to 1e-3` those until the relative gap was 1e-3 (a gap of
1e-6 nats where the value is below 1e-3), as `progress` reported it, a dash where it was not; `cpu` are of all cores;
`MiB` is the largest resident size of the process. What the module does not run: `pytest -m thorough tests/funnels`
(bounds of random joints against descents), `python experiments/census_funnel/run.py` (five binnings, their seconds).
"""

import argparse
import csv
import json
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import jaxpriv as jp
from benchmarks.memory import peak
from jaxpriv import datasets

ROOT = Path(__file__).resolve().parents[1]
SHARES = (0.5, 0.8, 0.95)
SIZES = ((2, 50), (3, 50), (4, 50), (8, 20), (8, 50), (8, 100))
GUESSES, GUESS_SHARES = ((4, 50), (8, 20), (8, 50), (8, 100)), (0.8, 0.9, 0.95)
BOTTLENECKS = ((4, 20), (5, 12), (6, 12), (8, 20))
POINTS, BOUNDARY_LIMIT = 20, 600.0
RELATIVE, ABSOLUTE = 1e-3, 1e-6


def dirichlet(private: int, useful: int) -> np.ndarray:
    """P(S,X) uniform on the simplex, always the same one."""
    return np.random.default_rng(1).dirichlet(np.ones(private * useful)).reshape(private, useful)


def census(folder: Path | None) -> np.ndarray:
    """The joint of `experiments/census_three_private`, (8, 111)."""
    joint_of = runpy.run_path(str(ROOT / "experiments" / "census_three_private" / "run.py"))["joint_of"]
    return joint_of(datasets.fetch_census(local=folder))


def compas(folder: Path | None) -> np.ndarray:
    """S = (race in four groups, sex), X = (age group, priors, charge, juvenile counts, recidivism): (8, 215)."""
    with open(datasets.fetch_compas(local=folder) / "compas-scores-two-years.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    races = ("African-American", "Caucasian", "Hispanic")
    private = [(row["race"] if row["race"] in races else "other", row["sex"]) for row in rows]
    useful = []
    for row in rows:
        priors = int(row["priors_count"])
        juvenile = sum(int(row[f"juv_{kind}_count"]) for kind in ("fel", "misd", "other"))
        group = priors if priors < 6 else 6 if priors < 10 else 7
        useful.append((row["age_cat"], group, row["c_charge_degree"], min(juvenile, 2), row["two_year_recid"]))
    codes = [{symbol: code for code, symbol in enumerate(sorted(set(column)))} for column in (private, useful)]
    counts = np.zeros((len(codes[0]), len(codes[1])))
    for s, x in zip(private, useful, strict=True):
        counts[codes[0][s], codes[1][x]] += 1.0
    return counts / counts.sum()


def cases() -> list[str]:
    """Names: kind, table, share of H(X)."""
    tables = [f"{s}x{x}" for s, x in SIZES] + ["census", "compas"]
    names = [f"funnel {table} {share}" for table in tables for share in SHARES]
    names += [f"bottleneck {s}x{x} 0.5" for s, x in BOTTLENECKS]
    names += [f"guess {s}x{x} {share}" for s, x in GUESSES for share in GUESS_SHARES]
    return [*names, "boundary 8x100 all"]


def table_of(name: str, adult: Path | None, other: Path | None) -> np.ndarray:
    """The joint called `name`."""
    if name == "census":
        return census(adult)
    if name == "compas":
        return compas(other)
    private, useful = name.split("x")
    return dirichlet(int(private), int(useful))


def measure(name: str, adult: Path | None, other: Path | None, limit: float, begun: float) -> dict[str, object]:
    """One case, in this process; `begun` is when the process started (`time.time`)."""
    kind, table, share = name.split()
    joint = table_of(table, adult, other)
    source = joint.sum(axis=0)
    most = -float(source[source > 0] @ np.log(source[source > 0]))
    reached: list[float] = []

    def watch(record: jp.Progress) -> None:
        if not reached and record.gap <= max(ABSOLUTE, RELATIVE * abs(record.value)):
            reached.append(time.time() - begun)

    if kind == "boundary":
        targets = most * np.linspace(0.05, 1.0, POINTS)
        curve = jp.funnel_frontier(
            jp.FunnelProblem(joint, disclosure=most), disclosures=targets, time_limit=BOUNDARY_LIMIT
        )
        optimal = int((curve.status == "optimal").sum())
        found = {"value": float(optimal), "bound": float(len(curve)), "gap": float(curve.gap.max()), "status": "points"}
    else:
        target = float(share) * most
        problem = {
            "funnel": lambda: jp.FunnelProblem(joint, disclosure=target),
            "guess": lambda: jp.FunnelProblem(joint, disclosure=target, leakage=jp.leakage.CorrectGuess()),
            "bottleneck": lambda: jp.BottleneckProblem(joint, disclosure=target),
        }[kind]()
        solution = jp.solve(problem, time_limit=limit, progress=watch)
        bound = solution.upper_bound if kind == "bottleneck" else solution.lower_bound
        found = {"value": solution.value, "bound": bound, "gap": solution.gap, "status": solution.status}
        if not reached and solution.gap <= max(ABSOLUTE, RELATIVE * abs(solution.value)):
            reached.append(time.time() - begun)
    return {
        "case": name,
        **found,
        "seconds": time.time() - begun,
        "to 1e-3": reached[0] if reached else None,
        "cpu": time.process_time(),
        "MiB": peak(os.getpid()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", type=Path, help="folder with adult.data and adult.test")
    parser.add_argument("--compas", type=Path, help="folder with compas-scores-two-years.csv")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--limit", type=float, default=60.0, help="time limit of a case in seconds")
    parser.add_argument("--begun", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.begun is not None:
        print(json.dumps(measure(given.only, given.adult, given.compas, given.limit, given.begun)))
        return
    print(f"{'case':26} {'value':>10} {'bound':>10} {'gap':>8} {'status':>10} {'seconds':>7} {'to 1e-3':>7} cpu   MiB")
    for name in cases():
        if given.only not in name:
            continue
        command = [sys.executable, "-m", "benchmarks.funnels", "--only", name, "--limit", str(given.limit)]
        for option, folder in (("--adult", given.adult), ("--compas", given.compas)):
            command += [option, str(folder)] if folder is not None else []
        command += ["--begun", repr(time.time())]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"{name:26} failed: {done.stderr.strip().splitlines()[-1:]}")
            continue
        row = json.loads(done.stdout.splitlines()[-1])
        to = "-" if row["to 1e-3"] is None else f"{row['to 1e-3']:.1f}"
        print(
            f"{name:26} {row['value']:10.6f} {row['bound']:10.6f} {row['gap']:8.1e} {row['status']:>10} "
            f"{row['seconds']:7.1f} {to:>7} {row['cpu']:<5.1f} {row['MiB']:.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
