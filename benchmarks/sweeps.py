"""What many problems take beside the bare batched call, and what is left of a sweep that is killed again and again.

    python -m benchmarks.sweeps [--size 8] [--problems 1000] [--repeats 3] [--kills 0] [--out FILE.json]

Milliseconds of processor time for each problem, all threads together, after everything is compiled: other work on the
machine changes them less than the wall clock. `batch` is the compiled call alone, on arrays that are padded already;
`build` makes the problems from their tables; `many` is `solve_many` of equal shapes, `mixed` of shapes that share a
bucket; `single` is `solve` in a loop, compiled; `sweep` is the declared study, from its grids to its files. Each is the
least of the repeats. The largest certified gap stands beside them, and the peak memory of sweeps of one and of four
times as many problems, each in a process of its own.

`--kills`: a sweep of 2000 problems in chunks of 16 is killed (SIGKILL) at random moments until it has been killed so
often or is complete; then it is finished, and compared byte by byte with an undisturbed one.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxpriv as jp
from benchmarks.machine import machine, versions
from jaxpriv.solvers import Goal
from jaxpriv.solving import batches
from jaxpriv.solving.buckets import Lanes
from jaxpriv.solving.execution import compiled, own_settings
from jaxpriv.sweeps import Study

_TOLERANCE = 1e-6
_SHARES = [0.1, 0.3, 0.5, 0.7, 0.9]


def declared(size: int, count: int, first: int = 0, **more: Any) -> dict[str, Any]:
    """A study of random joints at five budgets."""
    seeds = {"first": first, "count": max(1, count // len(_SHARES))}
    joint = {"family": "dirichlet", "private": size, "useful": size, "seed": seeds}
    return {"grid": [{"joint": joint, "budget_share": _SHARES}], **more}


def mixed(size: int, count: int) -> list[jp.DistortionProblem]:
    """As many problems, whose alphabets share the bucket of `size`."""
    draw, problems = np.random.default_rng(0), []
    for i in range(count):
        private, inputs, outputs = draw.integers(size // 2 + 1 if size == 8 else size - 3, size + 1, 3)
        joint = draw.dirichlet(np.ones(private * inputs)).reshape(private, inputs)
        costs = abs(np.subtract.outer(np.arange(inputs), np.arange(outputs))).astype(float)
        weighted = joint.sum(axis=0)[:, None] * costs
        least, idle = weighted.min(axis=1).sum(), weighted.sum(axis=0).min()
        budget = least + _SHARES[i % len(_SHARES)] * (idle - least)
        problems.append(jp.DistortionProblem(joint, costs, budget=budget))
    return problems


def each(work: Callable[[], Any], count: int, repeats: int) -> tuple[float, Any]:
    """(least milliseconds of processor time for one of `count`, the last result)."""
    times, result = [], None
    for _ in range(repeats):
        begun = time.process_time()
        result = work()
        times.append(time.process_time() - begun)
    return 1e3 * min(times) / count, result


def bare(problems: list[jp.DistortionProblem]) -> Callable[[], Any]:
    """The batched call alone on problems of one kind."""
    kind = batches.kind_of(problems[0], "auto", Goal(_TOLERANCE))
    assert kind is not None
    width = kind.width(len(problems))
    parts = [problems[i : i + width] for i in range(0, len(problems), width)]
    lanes = [Lanes.of([*part, *[part[-1]] * (width - len(part))], kind.bucket) for part in parts]
    rest = (np.asarray(_TOLERANCE), np.asarray(0.0), np.asarray(200))

    def work() -> None:
        with own_settings():
            for one in lanes:
                run, _ = compiled(batches._solve_all, kind.solver, one, *rest)
                jax.block_until_ready(run())

    return work


def times(size: int, count: int, repeats: int) -> dict[str, Any]:
    """The table of `--size`."""
    study = Study.of(declared(size, count))
    count = len(study.cases)
    problems, other = [study.problem(i) for i in range(count)], mixed(size, count)
    jp.solve_many(problems), jp.solve_many(other)  # compile
    result: dict[str, Any] = {"size": size, "problems": count}
    result["batch"], _ = each(bare(problems), count, repeats)
    result["build"], _ = each(lambda: [study.problem(i) for i in range(count)], count, repeats)
    result["many"], equal = each(lambda: jp.solve_many(problems), count, repeats)
    result["mixed"], unequal = each(lambda: jp.solve_many(other), count, repeats)
    few = problems[:100]
    [jp.solve(one) for one in few]
    result["single"], _ = each(lambda: [jp.solve(one) for one in few], len(few), repeats)
    with tempfile.TemporaryDirectory() as folder:
        names = iter(range(repeats))
        result["sweep"], swept = each(
            lambda: jp.sweep(declared(size, count), f"{folder}/{next(names)}"), count, repeats
        )
        table = swept.table
        result["worst_gap"] = max(*(one.gap for one in (*equal, *unequal)), table["gap"].max())
        result["proved"] = all(one.status == "optimal" for one in (*equal, *unequal)) and bool(
            (table["status"] == "optimal").all()
        )
    return result


def peak_mib(size: int, count: int) -> float:
    """Peak memory of a process that sweeps so many problems."""
    code = (
        "import sys, tempfile, resource, jaxpriv as jp\n"
        "from benchmarks.sweeps import declared\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    jp.sweep(declared(int(sys.argv[1]), int(sys.argv[2])), folder + '/out')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)\n"
    )
    command = [sys.executable, "-c", code, str(size), str(count)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def killed(kills: int, seed: int = 0) -> dict[str, Any]:
    """A sweep that is killed at random moments, beside one that is not."""
    study = declared(3, 2000, chunk_rows=16)
    code = (
        "import sys, json, jaxpriv as jp\n"
        "from jaxpriv.sweeps import running\n"
        "original = running.compute\n"
        "def counted(work):\n"
        "    with open(sys.argv[3], 'a') as log:\n"
        "        log.write(f'{work.positions[0]}\\n')\n"
        "    return original(work)\n"
        "running.compute = counted\n"
        "jp.sweep(json.loads(sys.argv[1]), sys.argv[2], progress=lambda one: print(one.done, flush=True))\n"
    )
    draw, done = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as folder:
        out, log = Path(folder, "killed"), Path(folder, "log")
        command = [sys.executable, "-c", code, json.dumps(study), str(out), str(log)]
        finished = False
        while not finished:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            assert child.stdout is not None
            with child:
                for _ in child.stdout:  # from its first line on it computes
                    break
                try:
                    child.wait(None if done == kills else draw.uniform(0.0, 0.8))
                except subprocess.TimeoutExpired:
                    child.send_signal(signal.SIGKILL)
                    done += 1
                    continue
                finished = True
        whole = jp.sweep(study, Path(folder, "undisturbed"))
        began = log.read_text().splitlines()
        return {
            "problems": len(whole.study.cases),
            "chunks": len(whole.plan.chunks),
            "kills": done,
            "chunks_begun": len(began),
            "begun_twice": len(began) - len(set(began)),
            "same_bytes": _bytes(out) == _bytes(whole.folder),
        }


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, nargs="*", default=[8])
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    result: dict[str, Any] = {"machine": machine(), "versions": versions(), "load": os.getloadavg()[0]}
    result["milliseconds"] = [times(size, options.problems, options.repeats) for size in options.size]
    if options.size:
        size = options.size[0]
        result["peak_mib"] = {str(n): peak_mib(size, n) for n in (options.problems, 4 * options.problems)}
    if options.kills:
        result["killed"] = killed(options.kills)
    text = json.dumps(result, indent=1, default=float) + "\n"
    if options.out is not None:
        options.out.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
