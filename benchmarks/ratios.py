"""Processor time of ten calls, at a commit and now: in turn on one machine, so that the ratios mean something.

    python -m benchmarks.ratios [--base 0db4a97] [--rounds 3] [--only WORD ...] [--out FILE.json]

The checkout of the base is made in a temporary folder, with kernels of its own. Every case is a process of its own, in
turn with the base and without. `call` is the least processor time of one call after the first, or for a case that
compiles in the caller's program of the first one; `ratio` is now over base, and above 1.1 something has become slower.
The certified gap of the result, and its status, stand beside the times.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BASE = "0db4a97"
# Calls of a case are repeated for so many seconds of processor time, and at least three times.
_ENOUGH, _LEAST = 0.6, 3


def _joints(size: int, count: int = 1) -> Any:
    import numpy as np

    return np.random.default_rng(0).dirichlet(np.ones(size * size), count).reshape(count, size, size)


def _problem(size: int, measure: str = "mutual-information", joint: Any = None, **more: Any) -> Any:
    import numpy as np

    import jaxpriv as jp

    joint = _joints(size)[0] if joint is None else joint
    budget = (1.0 - joint.sum(axis=0).max()) / 3.0
    leakage = jp.leakage.by_name(measure, **more)
    return jp.DistortionProblem(joint, 1.0 - np.eye(size), budget=budget, leakage=leakage)


def _single(size: int, measure: str = "mutual-information", **more: Any) -> Callable[[], Any]:
    import jaxpriv as jp

    problem = _problem(size, measure, **more)
    return lambda: [jp.solve(problem)]


def _many() -> Callable[[], Any]:
    import jaxpriv as jp

    problems = [_problem(8, joint=joint) for joint in _joints(8, 256)]
    return lambda: jp.solve_many(problems)


def _compiled() -> Callable[[], Any]:
    import jax
    import numpy as np

    import jaxpriv as jp

    jax.config.update("jax_enable_x64", True)
    joints = _joints(8, 256)
    budgets = (1.0 - joints.sum(axis=1).max(axis=1)) / 3.0

    def solved(joint: Any, budget: Any) -> Any:
        return jp.solve(jp.DistortionProblem(joint, 1.0 - np.eye(8), budget=budget))

    def call() -> Any:
        batch = jax.block_until_ready(jax.jit(jax.vmap(solved))(joints, budgets))
        return [batch[i] for i in range(len(joints))]

    return call


def _frontier() -> Callable[[], Any]:
    import numpy as np

    import jaxpriv as jp

    problem = _problem(8)
    return lambda: list(jp.frontier(problem, budgets=np.linspace(0.05, 0.6, 50)))


def _census() -> Callable[[], Any]:
    import numpy as np

    import jaxpriv as jp

    joint = np.asarray(jp.datasets.census().counts, dtype=float)
    joint = joint / joint.sum()
    mass = joint.sum(axis=0)
    entropy = -float(mass[mass > 0] @ np.log(mass[mass > 0]))
    problem = jp.FunnelProblem(joint, disclosure=0.8 * entropy)
    return lambda: [jp.solve(problem)]


CASES: dict[str, Callable[[], Callable[[], Any]]] = {
    "mutual information, 8": lambda: _single(8),
    "mutual information, 64": lambda: _single(64),
    "mutual information, 256": lambda: _single(256),
    "max-lift, 32": lambda: _single(32, "max-lift"),
    "maximal leakage, 32": lambda: _single(32, "maximal-leakage"),
    "Sibson of order 2, 16": lambda: _single(16, "sibson", order=2.0),
    "solve_many of 256, 8": _many,
    "jit(vmap(solve)) of 256 with its compile, 8": _compiled,
    "frontier of 50, 8": _frontier,
    "census funnel": _census,
}
# Their first call is measured.
FIRST = ("jit(vmap(solve)) of 256 with its compile, 8",)


def run(name: str) -> dict[str, Any]:
    """One case in this process."""
    call, times = CASES[name](), []
    if name not in FIRST:
        call()
    begun = time.process_time()
    while True:
        before = time.process_time()
        found = call()
        times.append(time.process_time() - before)
        if name in FIRST or (len(times) >= _LEAST and time.process_time() - begun > _ENOUGH):
            break
    gap = max(float(one.gap) for one in found)
    return {"call": min(times), "gap": gap, "optimal": sum(one.status == "optimal" for one in found), "of": len(found)}


def _child(folder: Path, name: str) -> dict[str, Any]:
    """One case in a new process, with the library of a checkout."""
    off = {"JAXPRIV_CACHE": "off", "JAX_ENABLE_COMPILATION_CACHE": "false", "PYTHONPATH": str(folder)}
    line = [sys.executable, str(Path(__file__).resolve()), "--run", name]
    done = subprocess.run(line, env={**os.environ, **off}, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default=BASE, help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[], help="cases whose names hold one of these")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--run", choices=CASES, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.run is not None:
        print(json.dumps(run(asked.run)))
        return

    rows = []
    with tempfile.TemporaryDirectory() as made:
        base = Path(made) / "base"
        subprocess.run(["git", "-C", str(ROOT), "worktree", "add", "--detach", str(base), asked.base], check=True)
        try:
            subprocess.run([sys.executable, "hatch_build.py"], cwd=base, check=True)
            for name in [one for one in CASES if not asked.only or any(word in one for word in asked.only)]:
                rounds = [(_child(base, name), _child(ROOT, name)) for _ in range(asked.rounds)]
                before, now = (min((pair[i] for pair in rounds), key=lambda one: one["call"]) for i in (0, 1))
                rows.append({"case": name, "base": before, "now": now, "ratio": now["call"] / before["call"]})
                print(
                    f"{name:46} {before['call']:9.4f} s {now['call']:9.4f} s  ratio {rows[-1]['ratio']:5.2f}  "
                    f"gap {now['gap']:.1e} (was {before['gap']:.1e}), optimal {now['optimal']} of {now['of']}",
                    flush=True,
                )
        finally:
            subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(base)], check=True)
    if asked.out is not None:
        from benchmarks.machine import machine, versions

        record = {"machine": machine(), "versions": versions(), "base": asked.base, "rows": rows}
        asked.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
