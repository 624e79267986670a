"""What a user's program does first: imports, one problem, its answer. Run by `first.py`, each time in a new process.

Nothing is imported at the top that only one of the solvers needs: the time of a process is that of its imports too.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

# Share of the mean distortion of a constant release that is the budget, and of what X itself leaks that is the limit.
_BUDGET, _LIMIT = 0.3, 0.2
MEASURES = ("mutual-information", "max-information")

# The value is None where the solver gave up.
Answer = dict[str, float | None]
Solve = Callable[[np.ndarray, np.ndarray, str], Answer]


def instance(private: int, inputs: int, outputs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A random joint (S, X), and the distances of points on a line (X, Y)."""
    joint = np.random.default_rng(seed).dirichlet(np.ones(private * inputs)).reshape(private, inputs)
    return joint, np.abs(np.subtract.outer(np.linspace(0, 1, inputs), np.linspace(0, 1, outputs)))


def budget(joint: np.ndarray, table: np.ndarray) -> float:
    """The budget on E d: between the least distortion that there is and that of the best constant release."""
    mass = joint.sum(axis=0)
    least, most = float(mass @ table.min(axis=1)), float((mass @ table).min())
    return least + _BUDGET * (most - least)


def limit(joint: np.ndarray) -> float:
    """The limit on max_y H(S) - H(S | Y = y), in nats."""
    prior, posterior = joint.sum(axis=1), joint / joint.sum(axis=0)
    entropy = -float(prior @ np.log(prior))
    return _LIMIT * max(entropy + float(column @ np.log(column)) for column in posterior.T)


def ours() -> Solve:
    import jaxpriv as jp

    def solve(joint: np.ndarray, table: np.ndarray, measure: str) -> Answer:
        if measure == "mutual-information":
            problem = jp.DistortionProblem(joint, table, budget=budget(joint, table))
        else:
            problem = jp.DistortionProblem(
                joint, table, leakage_budget=limit(joint), leakage=jp.leakage.MaxInformation()
            )
        found = jp.solve(problem)
        return {"value": float(found.value), "gap": float(found.gap)}

    return solve


def clarabel() -> Solve:
    import cvxpy as cp

    from benchmarks.limits import MaxInformation
    from benchmarks.solvers.conic_limits import formulate_limit

    def solve(joint: np.ndarray, table: np.ndarray, measure: str) -> Answer:
        if measure == "mutual-information":
            prior, mass = joint.sum(axis=1), joint.sum(axis=0)
            w = cp.Variable(table.shape, nonneg=True)
            rows, masses = (joint / prior[:, None]) @ w, mass[None, :] @ w
            leakage = prior @ cp.sum(cp.rel_entr(rows, np.ones((len(prior), 1)) @ masses), axis=1)
            spent = cp.sum(cp.multiply(mass[:, None] * table, w))
            limits: list[Any] = [cp.sum(w, axis=1) == 1, spent <= budget(joint, table)]
            problem = cp.Problem(cp.Minimize(leakage), limits)
        else:
            problem, w = formulate_limit(joint, table, MaxInformation(joint, limit(joint)), "rows")
        try:
            problem.solve(solver="CLARABEL")
        except cp.error.SolverError:
            return {"value": None}
        return {"value": np.asarray(problem.value).item()}

    return solve


SOLVERS: dict[str, Callable[[], Solve]] = {"jaxpriv": ours, "clarabel": clarabel}


def shapes(count: int, largest: int, seed: int) -> Iterator[tuple[int, int, int]]:
    """Random sizes of S, X and Y."""
    draw = np.random.default_rng(seed)
    for _ in range(count):
        private, inputs, outputs = draw.integers(2, largest + 1, 3).tolist()
        yield private, inputs, outputs


def resident() -> float:
    """Memory of this process now, in MiB (its largest so far where the system has no /proc)."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096 / 2**20
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(order: dict[str, Any]) -> None:
    """One problem, or one of each of many shapes; a line of JSON for each."""
    begun = time.perf_counter()
    solve = SOLVERS[order["solver"]]()
    sizes = [(order["size"],) * 3] if "size" in order else shapes(order["count"], order["largest"], order["seed"])
    for number, shape in enumerate(sizes):
        answer = solve(*instance(*shape, seed=order["seed"] + number), order["measure"])
        clock = {"seconds": time.perf_counter() - begun, "processor": time.process_time(), "mib": resident()}
        print(json.dumps({**answer, **clock, "shape": shape}), flush=True)
        if clock["seconds"] > order["limit"]:
            return


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
