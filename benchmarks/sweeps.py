"""What many problems take beside the bare batched call, and what is left of a sweep that is killed again and again.

    python -m benchmarks.sweeps [--size 8] [--problems 1000] [--repeats 3] [--kills 0] [--measures sibson:2]
        [--workers 2] [--out FILE.json]

Milliseconds for each problem after everything is compiled: of processor time, all threads together, which other work on
the machine changes less, and under `wall_milliseconds` of the clock. `batch` is the batched call alone, without what is
certified afterwards: compiled, or, of mutual information at small sizes, by its kernel; `build` makes the problems from
their tables; `many` is `solve_many` of equal shapes, `mixed` of shapes that share a bucket; `single` is `solve` in a
loop; `sweep` is the declared study, from its grids to its files, and `overhead` by what share of `build` and `many`
together it takes longer. Each is the least of the repeats. The largest certified gap stands beside them, and the peak
memory of sweeps of one and of four times as many problems, each in a process of its own.

`--measures`: `solve_many` of the same problems under other leakage measures, as `many`.

`--workers`: seconds of the clock that a study of eight times as many problems takes in one worker process and in so
many, each bound to a core of its own and with the program loaded before, and the quotient.

`--kills`: a sweep of 2000 problems in chunks of 16 is killed (SIGKILL) at random moments until it has been killed so
often or is complete; then it is finished, and compared byte by byte with an undisturbed one.
"""

import argparse
import json
import multiprocessing
import multiprocessing.queues
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxpriv as jp
from benchmarks.machine import machine, versions
from jaxpriv._runtime.compilation import compiled, own_settings
from jaxpriv.leakage.registry import parameters_of
from jaxpriv.reductions.buckets import Lanes
from jaxpriv.solvers import Goal
from jaxpriv.solving import kinds, many
from jaxpriv.solving.sweeps import Study

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


class Timer:
    """Least milliseconds for one of `count` calls' problems, by name: of processor time and of the clock."""

    def __init__(self, repeats: int) -> None:
        self._repeats = repeats
        self.processor: dict[str, float] = {}
        self.wall: dict[str, float] = {}

    def __call__(self, name: str, work: Callable[[], Any], count: int) -> Any:
        """The last result of `work`, which solves `count` problems."""
        processor, wall, result = [], [], None
        for _ in range(self._repeats):
            begun, clock = time.process_time(), time.perf_counter()
            result = work()
            processor.append(time.process_time() - begun)
            wall.append(time.perf_counter() - clock)
        self.processor[name], self.wall[name] = 1e3 * min(processor) / count, 1e3 * min(wall) / count
        return result


def bare(problems: list[jp.DistortionProblem]) -> Callable[[], Any]:
    """The batched call alone on problems of one kind."""
    kind = kinds.kind_of(problems[0], "auto", Goal(_TOLERANCE))
    assert kind is not None
    width = kind.width(len(problems))
    if not width:
        size, goal = kind.width_uncompiled(len(problems)), Goal(_TOLERANCE)
        apart = [problems[i : i + size] for i in range(0, len(problems), size)]
        return lambda: [many._uncompiled(part, kind, goal, 200) for part in apart]
    parts = [problems[i : i + width] for i in range(0, len(problems), width)]
    lanes = [Lanes.of([*part, *[part[-1]] * (width - len(part))], kind.bucket) for part in parts]
    rest = (np.asarray(_TOLERANCE), np.asarray(0.0), np.asarray(200))

    def work() -> None:
        with own_settings():
            for one in lanes:
                run, _ = compiled(many._solve_all, kind.solver, one, *rest)
                jax.block_until_ready(run())

    return work


def times(size: int, count: int, repeats: int) -> dict[str, Any]:
    """The table of `--size`."""
    study = Study.of(declared(size, count))
    count = len(study.cases)
    problems, other = [study.problem(i) for i in range(count)], mixed(size, count)
    jp.solve_many(problems), jp.solve_many(other)  # compile
    timer = Timer(repeats)
    timer("batch", bare(problems), count)
    timer("build", lambda: [study.problem(i) for i in range(count)], count)
    equal = timer("many", lambda: jp.solve_many(problems), count)
    unequal = timer("mixed", lambda: jp.solve_many(other), count)
    few = problems[:100]
    [jp.solve(one) for one in few]
    timer("single", lambda: [jp.solve(one) for one in few], len(few))
    with tempfile.TemporaryDirectory() as folder:
        names = iter(range(repeats))
        swept = timer("sweep", lambda: jp.sweep(declared(size, count), f"{folder}/{next(names)}"), count)
        table = swept.table
    spent = timer.processor
    return {
        "size": size,
        "problems": count,
        **spent,
        "wall_milliseconds": timer.wall,
        "overhead": spent["sweep"] / (spent["build"] + spent["many"]) - 1.0,
        "worst_gap": max(*(one.gap for one in (*equal, *unequal)), table["gap"].max()),
        "proved": all(one.status == "optimal" for one in (*equal, *unequal))
        and bool((table["status"] == "optimal").all()),
    }


def measured(size: int, count: int, repeats: int, names: list[str]) -> dict[str, Any]:
    """`many` under the measures of so many names, with the largest certified gap of each."""
    study = Study.of(declared(size, count))
    plain = [study.problem(i) for i in range(len(study.cases))]
    timer, gaps = Timer(repeats), {}
    for name in names:
        measure = jp.leakage.by_name(**parameters_of(name))
        problems = [
            jp.DistortionProblem(one.data[0], list(one.distortions), budget=one.budget, leakage=measure)
            for one in plain
        ]
        jp.solve_many(problems)  # compile
        found = timer(name, lambda problems=problems: jp.solve_many(problems), len(problems))
        gaps[name] = max(float(one.gap) for one in found)
    return {"size": size, "processor": timer.processor, "wall": timer.wall, "worst_gap": gaps}


def _bind(cores: "multiprocessing.queues.Queue[int]") -> None:
    """This process to one core, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cores.get()})


def in_workers(size: int, count: int, workers: int) -> dict[str, Any]:
    """Seconds of the clock of one study in one worker process and in several, each on one core."""
    seconds = {}
    available = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    with tempfile.TemporaryDirectory() as folder:
        for number in (1, workers):
            context = multiprocessing.get_context("spawn")
            cores = context.Queue()
            for i in range(number):
                cores.put(available[i % len(available)])
            with ProcessPoolExecutor(number, mp_context=context, initializer=_bind, initargs=(cores,)) as pool:
                # Every process loads its program before the clock starts.
                jp.sweep(declared(size, 8 * 128 * number, chunk_rows=128), f"{folder}/warm-{number}", executor=pool)
                begun = time.perf_counter()
                jp.sweep(declared(size, count, 10**6, chunk_rows=512), f"{folder}/{number}", executor=pool)
                seconds[str(number)] = time.perf_counter() - begun
    return {"size": size, "problems": count, "seconds": seconds, "quotient": seconds["1"] / seconds[str(workers)]}


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
        "from jaxpriv.solving.sweeps import running\n"
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
    parser.add_argument("--measures", nargs="*", default=[])
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    result: dict[str, Any] = {"machine": machine(), "versions": versions(), "load": os.getloadavg()[0]}
    result["milliseconds"] = [times(size, options.problems, options.repeats) for size in options.size]
    if options.size:
        size = options.size[0]
        result["peak_mib"] = {str(n): peak_mib(size, n) for n in (options.problems, 4 * options.problems)}
    if options.measures:
        size = options.size[0] if options.size else 8
        result["measures"] = measured(size, options.problems, options.repeats, options.measures)
    if options.workers:
        size = options.size[0] if options.size else 8
        result["workers"] = in_workers(size, 8 * options.problems, options.workers)
    if options.kills:
        result["killed"] = killed(options.kills)
    text = json.dumps(result, indent=1, default=float) + "\n"
    if options.out is not None:
        options.out.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
