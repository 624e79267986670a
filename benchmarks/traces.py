"""What `jit(vmap(solve))` takes to compile and to run: whole solves as one operation, beside the loop of steps.

    python -m benchmarks.traces [--size 8] [--problems 128] [--repeats 3] [--measures ldp max-lift] [--out FILE.json]
    python -m benchmarks.traces --solvers interior-point hybrid-gradient --measures sibson:2 [--problems 1]

Random joints and Hamming distortion at a third of the distortion of the best constant; with `-limit` behind the name of
a measure the least distortion at a third of what X itself leaks. For each measure a process of its own with the kernels
of whole solves and one without them, or one for each of `--solvers`: seconds of processor time from the function to the
compiled program, milliseconds of processor time and of the clock for each problem (the least of the repeats), and the
largest certified gap. The other kernels are there in all. One problem is `jit(solve)`.
"""

import argparse
import json
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import machine, versions

_TOLERANCE = 1e-6


def times(measure: str, size: int, count: int, repeats: int, whole: bool, solver: str) -> dict[str, Any]:
    """One row, computed in a fresh process: nothing that was compiled before is there."""
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    import jax
    import numpy as np

    import jaxpriv as jp
    from jaxpriv.leakage.registry import parameters_of
    from jaxpriv.solvers.interior_point import whole as whole_solves

    jax.config.update("jax_enable_x64", True)
    if not whole:
        whole_solves._loaded = lambda _: None
    joints = np.random.default_rng(0).dirichlet(np.ones(size * size), count).reshape(count, size, size)
    leakage, cost = jp.leakage.by_name(**parameters_of(measure.removesuffix("-limit"))), 1.0 - np.eye(size)
    if measure.endswith("-limit"):
        form, most = "leakage_budget", [leakage(joint, np.eye(size)) for joint in joints]
    else:
        form, most = "budget", 1.0 - joints.sum(axis=1).max(axis=1)
    levels = np.asarray(most) / 3.0

    def solved(joint: jax.Array, level: jax.Array) -> tuple[Any, ...]:
        problem = jp.DistortionProblem(joint, cost, **{form: level}, leakage=leakage)
        found = jp.solve(problem, solver, tol=_TOLERANCE)
        return found.value, found.lower_bound, found.code, found.steps

    given = (joints, levels) if count > 1 else (joints[0], levels[0])
    begun = time.process_time()
    program = jax.jit(jax.vmap(solved) if count > 1 else solved).lower(*given).compile()
    compiling = time.process_time() - begun
    processor, wall = [], []
    for _ in range(repeats + 1):
        begun, clock = time.process_time(), time.perf_counter()
        value, bound, code, steps = jax.block_until_ready(program(*given))
        processor.append(time.process_time() - begun)
        wall.append(time.perf_counter() - clock)
    proved = np.asarray(code == jp.Status.OPTIMAL.value)
    return {
        "measure": measure,
        "whole": whole,
        "solver": solver,
        "compile_seconds": compiling,
        "processor_milliseconds": 1e3 * min(processor[1:]) / count,
        "wall_milliseconds": 1e3 * min(wall[1:]) / count,
        "mean_steps": float(np.mean(steps)),
        "proved": int(proved.sum()),
        "worst_gap": float(np.max(value - bound)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--problems", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    every = ["mutual-information", "mutual-information-limit", "ldp", "max-lift", "max-information"]
    parser.add_argument("--measures", nargs="+", default=every)
    parser.add_argument("--solvers", nargs="+", default=[])
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    rows = []
    context = multiprocessing.get_context("spawn")
    for measure in asked.measures:
        ways = [(True, solver) for solver in asked.solvers] or [(True, "interior-point"), (False, "interior-point")]
        for whole, solver in ways:
            with context.Pool(1) as pool:
                rows.append(pool.apply(times, (measure, asked.size, asked.problems, asked.repeats, whole, solver)))
            print(json.dumps(rows[-1]), flush=True)
    found = {"machine": machine(), "versions": versions(), "size": asked.size, "problems": asked.problems, "rows": rows}
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
