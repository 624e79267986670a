"""Value and proved bound while a solve runs: three methods on one problem.

    python experiments/convergence/run.py      # writes data/progress.csv beside this file; half a minute
    python experiments/convergence/plot.py     # draws it

A random joint of 48 private and 48 useful symbols (`jaxpriv.testing.random_joint`), absolute distortion, one budget.
Written is what `solve` passes to `progress`: the value of the mechanism and the bound so far, with the PROCESSOR
seconds since the call began (all threads; a loaded machine does not change them much). Each method is run twice and the
second run is written: nothing is compiled in it. The optimum is that of the interior-point method to 1e-10 nats;
`above` and `below` are distances to it.
"""

import csv
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxpriv as jp
from jaxpriv.testing import random_joint

DATA = Path(__file__).parent / "data"
SIZE = 48
# The gap at which each method is stopped, nats.
METHODS = {"interior-point": 1e-9, "mirror-descent": 1e-6, "accelerated": 1e-6}


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)  # all digits: a bound is not to be rounded across its value


def main() -> None:
    symbols = np.arange(SIZE)
    distortion = abs(np.subtract.outer(symbols, symbols)) / SIZE
    problem = jp.DistortionProblem(random_joint(0, SIZE, SIZE), distortion, budget=0.08)
    optimum = jp.solve(problem, tol=1e-10)
    rows: list[list[Any]] = []
    for method, tol in METHODS.items():
        seen: list[list[Any]] = []
        for _ in range(2):
            seen = []
            begun = time.process_time()

            def record_progress(at: jp.Progress, seen: list[list[Any]] = seen, begun: float = begun) -> None:
                seen.append([at.step, time.process_time() - begun, at.value, at.bound])

            solution = jp.solve(problem, method, tol=tol, time_limit=60, progress=record_progress)
        rows += [[method, *one, one[2] - optimum.lower_bound, optimum.value - one[3]] for one in seen]
        print(f"{method}: {solution.status}, gap {solution.gap:.1e}, {seen[-1][0]} steps, {seen[-1][1]:.2f} s")
    write("progress.csv", ["method", "step", "processor_seconds", "value", "bound", "above", "below"], rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
