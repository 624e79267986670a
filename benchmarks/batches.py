"""Many problems at once: `solve_many` beside Moreau's batch call and beside cvxpy in a pool of processes.

    python -m benchmarks.batches [--size 8 32] [--problems 512 64] [--cvxpy 64] [--workers 2] [--repeats 3]
        [--out FILE.json]

Random joints of n x n with the distortion |x - y|, each with a budget of its own. Milliseconds of the clock for each
problem. `first` is the first call on new arrays, what it compiles or analyses included; the other number is the least
of the repeats, and `processor` the least processor time of one (of this process alone: not that of the pool's).
jaxpriv compiles nothing for mutual information at these sizes; for other measures it has the compiled
program that it gets after some seconds of such calls. Moreau's
`CompiledSolver` takes all problems in one call; its matrices are made by cvxpy before the clock starts, and `setup` and
`solve` are timed. The pool's processes have imported cvxpy before, and each call states and solves its problems with
Clarabel, as a user's loop does. Moreau and the pool have their default tolerances of 1e-8; `gap` is the largest
difference of an evaluated value from the lower bound that jaxpriv proved at a tolerance of 1e-9.

    python -m benchmarks.batches --measure max-information ldp [--size 8] [--problems 512] [--repeats 3] [--out FILE]

`solve_many` alone, of the same joints with other measures, as on the command line: `least` is the least leakage within
the budgets, `limited` the least distortion where the measure is at most a share of what X as it is leaks (the shares of
the budgets). `ratio`: of the later calls to those of the least mutual information, timed in the same run. `gap` is the
largest certified gap, `optimal` the number of problems certified to 1e-6, `steps` the mean number of Newton steps.
"""

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import jaxpriv as jp
from benchmarks.cases import Case, Instance
from benchmarks.machine import machine, versions
from benchmarks.solvers import SOLVERS
from benchmarks.solvers.conic import formulate
from benchmarks.solvers.ours import problem_of
from jaxpriv.solving.loops import SWITCH

_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)


def _instances(size: int, count: int) -> list[Instance]:
    return [
        Case.of("cube", n=size, distortion="absolute", seed=seed, share=_SHARES[seed % len(_SHARES)]).build()
        for seed in range(count)
    ]


def _timed(
    call: Callable[[], list[Any]], repeats: int, *, compiled: bool = False
) -> tuple[list[Any], dict[str, float]]:
    """The last results, and milliseconds for each: of the first call, the least of the later ones, and the least
    processor time of those.

    `compiled`: between them their program is compiled, as jaxpriv does after some seconds of such calls.
    """
    seconds, processor, found, chosen = [], [], [], os.environ.get(SWITCH)
    try:
        for _ in range(repeats + 1):
            begun, spent = time.perf_counter(), time.process_time()
            found = call()
            seconds.append(time.perf_counter() - begun)
            processor.append(time.process_time() - spent)
            if len(seconds) == 1 and compiled:
                os.environ[SWITCH] = "always"
                call()
    finally:
        if chosen is None:
            os.environ.pop(SWITCH, None)
        else:
            os.environ[SWITCH] = chosen
    each = {"first": seconds[0], "later": min(seconds[1:]), "processor": min(processor[1:])}
    return found, {name: 1e3 * value / len(found) for name, value in each.items()}


def _moreau(instances: list[Instance]) -> Callable[[], list[np.ndarray]]:
    """One call of `CompiledSolver` for all, whose matrices share their pattern."""
    import cvxpy as cp
    import moreau
    from cvxpy.reductions.solvers.conic_solvers.moreau_conif import dims_to_solver_cones

    parts = [formulate(one, one.table, "scaled")[0].get_problem_data(cp.MOREAU)[0] for one in instances]
    tables = [part["A"].tocsr() for part in parts]
    pattern = tables[0]
    if any(not np.array_equal(pattern.indices, one.indices) for one in tables):
        raise ValueError("the problems' matrices have different patterns, which one batch cannot hold")
    entries = np.stack([one.data for one in tables])
    costs, limits = (np.stack([part[key] for part in parts]) for key in ("c", "b"))
    cones = dims_to_solver_cones(parts[0]["dims"])
    (positive,) = parts[0]["dir_cones"]  # the entries of W, column by column
    cones.dir_cones = [moreau.DirectConeSpec(kind=positive.kind, indices=positive.indices)]
    shape = instances[0].table.shape

    def call() -> list[np.ndarray]:
        solver = moreau.CompiledSolver(
            n=costs.shape[1],
            m=limits.shape[1],
            P_row_offsets=np.zeros(costs.shape[1] + 1, dtype=int),
            P_col_indices=np.zeros(0, dtype=int),
            A_row_offsets=pattern.indptr,
            A_col_indices=pattern.indices,
            cones=cones,
            settings=moreau.Settings(batch_size=len(tables), device="cpu"),
        )
        solver.setup(np.zeros((len(tables), 0)), entries)
        found = np.asarray(solver.solve(costs, limits).x)
        return [row[positive.indices].reshape(shape, order="F") for row in found]

    return call


def _by_cvxpy(instance: Instance) -> np.ndarray:
    """One problem, in a process of the pool."""
    solver = SOLVERS["clarabel"]
    return solver.run(solver.prepare(instance), solver.ladder((1e-8,))[-2]).candidate


def _warm(seconds: float) -> None:
    """Import cvxpy in a process of the pool, and keep it long enough for the others to start."""
    SOLVERS["clarabel"].load()
    time.sleep(seconds)


def compared(size: int, count: int, by_cvxpy: int, workers: int, repeats: int) -> dict[str, Any]:
    """One row."""
    instances = _instances(size, count)
    problems = [problem_of(one) for one in instances]
    found: dict[str, Any] = {}
    ours, found["solve_many"] = _timed(lambda: jp.solve_many(problems), repeats)
    theirs, found["moreau"] = _timed(_moreau(instances), repeats)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        list(pool.map(_warm, [1.0] * workers))
        pooled, found["cvxpy_pool"] = _timed(lambda: list(pool.map(_by_cvxpy, instances[:by_cvxpy])), repeats)
    bounds = [float(one.lower_bound) for one in jp.solve_many(problems, tol=1e-9)]
    candidates = {"solve_many": [np.asarray(one.mechanism) for one in ours], "moreau": theirs, "cvxpy_pool": pooled}
    for name, mechanisms in candidates.items():
        pairs = zip(instances, mechanisms, bounds, strict=False)  # the pool has fewer
        found[name]["gap"] = max(one.objective().score(w).values[0] - bound for one, w, bound in pairs)
        found[name]["problems"] = len(mechanisms)
    return {"size": size, "milliseconds": found}


def _measured(instances: list[Instance], name: str, form: str) -> list[jp.DistortionProblem]:
    """The same joints and distortions with another measure, in form `least` or `limited`."""
    measure = jp.leakage.by_name(**jp.leakage.parameters_of(name))
    problems = []
    for place, instance in enumerate(instances):
        own = problem_of(instance)
        asked: dict[str, Any] = {"budget": own.budget}
        if form == "limited":
            whole = jp.leakage.evaluate(measure, instance.joint, np.eye(len(instance.x))).value
            asked = {"leakage_budget": _SHARES[place % len(_SHARES)] * float(whole)}
        problems.append(jp.DistortionProblem(instance.joint, own.distortions[0], leakage=measure, **asked))
    return problems


def measured(size: int, count: int, names: Sequence[str], repeats: int) -> dict[str, Any]:
    """One row: `solve_many` with other measures, beside the least mutual information."""
    instances = _instances(size, count)
    found: dict[str, Any] = {}
    for name in ("mutual-information", *(one for one in names if one != "mutual-information")):
        found[name] = {}
        for form in ("least", "limited"):
            problems = _measured(instances, name, form)
            whole = name == "mutual-information" and form == "least"  # by its kernel
            call = lambda problems=problems: jp.solve_many(problems)  # noqa: E731
            solutions, numbers = _timed(call, repeats, compiled=not whole)
            numbers["ratio"] = numbers["later"] / found["mutual-information"].get("least", numbers)["later"]
            numbers["gap"] = max(float(one.gap) for one in solutions)
            numbers["optimal"] = sum(one.status == "optimal" for one in solutions)
            numbers["steps"] = float(np.mean([one.steps for one in solutions]))
            found[name][form] = numbers
    return {"size": size, "problems": count, "milliseconds": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--problems", type=int, nargs="+", default=[512, 64], help="for each size")
    parser.add_argument("--cvxpy", type=int, default=64, help="how many of them the pool solves")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs="+", default=[], help="solve_many alone with these, as max-information, ldp")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    if len(options.size) != len(options.problems):
        parser.error("--problems needs one number for each --size")
    result: dict[str, Any] = {"machine": machine(), "versions": versions(), "load": os.getloadavg()[0]}
    result["rows"] = [
        measured(size, count, options.measure, options.repeats)
        if options.measure
        else compared(size, count, options.cvxpy, options.workers, options.repeats)
        for size, count in zip(options.size, options.problems, strict=True)
    ]
    text = json.dumps(result, indent=1)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
