"""How often does the interior-point method reach its tolerance? Fresh random instances, hard ones included.

    python -m benchmarks.robustness [--instances 1000] [--seed 0 1 2] [--tol 1e-6] [--out FILE.json]

Every instance is solved once by `jaxpriv.solve`; the verdict is the certificate's, not
the solver's. Prints one row for each family and form, then every instance that missed.
"""

import argparse
import collections
import itertools
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import jaxpriv as jp
from benchmarks.machine import versions

# Few shapes, so that compiling stays a small part: square, |S| << |X|, |S| >> |X|, |Y| != |X|.
SHAPES = ((8, 8, 8), (16, 24, 24), (3, 40, 40), (40, 8, 8), (10, 30, 12))
FAMILIES = ("dirichlet-1", "dirichlet-0.1", "dirichlet-0.02", "tiny-masses", "near-deterministic", "near-rank-one")
DISTORTIONS = ("absolute", "squared", "hamming", "random")
FORMS = ("budget", "multiplier", "leakage_budget", "two budgets")


@dataclass(frozen=True)
class Instance:
    """One problem and where it came from."""

    family: str
    form: str
    label: str
    problem: jp.DistortionProblem


def joint_of(family: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """A random joint distribution (S, X) of a family."""
    private, useful = shape
    if family.startswith("dirichlet"):
        alpha = float(family.split("-")[1])
        # Gamma draws in logs: at alpha = 0.02 the plain sampler underflows to exact zeros.
        logs = np.log(rng.gamma(alpha + 1.0, size=shape)) + np.log(rng.random(shape)) / alpha
        joint = np.exp(logs - logs.max())
    elif family == "tiny-masses":
        joint = rng.random(shape) * 10.0 ** -rng.uniform(0, 10, useful)[None, :]
    elif family == "near-deterministic":
        joint = np.eye(private)[rng.integers(0, private, useful)].T + 10.0 ** -rng.uniform(2, 9) * rng.random(shape)
        joint = joint * rng.random(useful)
    else:
        joint = np.outer(rng.random(private), rng.random(useful))
        joint = joint * (1.0 + 10.0 ** -rng.uniform(1, 6) * rng.standard_normal(shape) / 4.0)
    return joint / joint.sum()


def table_of(name: str, useful: int, released: int, rng: np.random.Generator) -> np.ndarray:
    """A distortion table (X, Y)."""
    x, y = np.linspace(0, 1, useful)[:, None], np.linspace(0, 1, released)[None, :]
    tables = {
        "absolute": abs(x - y),
        "squared": (x - y) ** 2,
        "hamming": (np.arange(useful)[:, None] != np.arange(released)[None, :]).astype(float),
        "random": rng.random((useful, released)),
    }
    return tables[name]


def instances(count: int, seed: int) -> Iterator[Instance]:
    """`count` instances, every family, form, shape and distortion in turn, every number fresh."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        family = FAMILIES[i % len(FAMILIES)]
        form = FORMS[rng.integers(len(FORMS))]
        private, useful, released = SHAPES[rng.integers(len(SHAPES))]
        kind = DISTORTIONS[rng.integers(len(DISTORTIONS))]
        joint = joint_of(family, (private, useful), rng)
        table = table_of(kind, useful, released, rng)
        mass = joint.sum(axis=0)
        least, most = mass @ table.min(axis=1), (mass @ table).min()
        # Budgets crowd both ends of the interval as well as its middle.
        share = rng.choice([10.0 ** -rng.uniform(0, 6), rng.random(), 1 - 10.0 ** -rng.uniform(0, 4)])
        label = f"#{i} {kind} {private}x{useful}x{released} share {share:.3g}"
        if form == "budget":
            problem = jp.DistortionProblem(joint, table, budget=least + share * (most - least))
        elif form == "multiplier":
            problem = jp.DistortionProblem(joint, table, multiplier=10.0 ** rng.uniform(-3, 3))
        elif form == "leakage_budget":
            whole = float(jp.probability.mutual_information(joint))
            problem = jp.DistortionProblem(joint, table, leakage_budget=share * whole)
        else:
            other = table_of("random", useful, released, rng)
            inside = np.full(table.shape, 1.0 / released) * 0.5
            inside[np.arange(useful), table.argmin(axis=1)] += 0.5
            budgets = [float(mass @ (t * inside).sum(axis=1)) for t in (table, other)]
            problem = jp.DistortionProblem(joint, [table, other], budget=budgets)
        yield Instance(family, form, label, problem)


def examine(drawn: Iterable[Instance], tol: float, out: Path | None = None, command: str = "") -> int:
    """Solve every instance, print one row for each family and form and a line for each that missed; how many.

    `out` gets the number of instances and what missed, with the command that it was.
    """
    rows = collections.defaultdict(list)
    missed: list[dict[str, Any]] = []
    begun = time.perf_counter()
    for instance in drawn:
        solution = jp.solve(instance.problem, solver="interior-point", tol=tol)
        rows[instance.family, instance.form].append((int(solution.steps), float(solution.gap)))
        if solution.status != "optimal":
            one = {"family": instance.family, "form": instance.form, "label": instance.label}
            missed.append({**one, "gap": float(solution.gap)})
    print(
        f"{'family':20s} {'form':15s} {'runs':>5s} {'missed':>7s} {'median steps':>14s} {'max':>5s} {'worst gap':>12s}"
    )
    for (family, form), results in sorted(rows.items()):
        steps, gaps = np.array(results).T
        print(
            f"{family:20s} {form:15s} {len(steps):5d} {int((gaps > tol).sum()):7d} "
            f"{int(np.median(steps)):14d} {int(steps.max()):5d} {gaps.max():12.1e}"
        )
    seconds = time.perf_counter() - begun
    print(f"{sum(map(len, rows.values()))} instances, {len(missed)} missed {tol:g}, {seconds:.0f} s with compiling")
    for one in missed:
        print(f"   {one['family']:20s} {one['form']:15s} {one['label']}: gap {one['gap']:.2e}")
    if out is not None:
        record = {"command": command, "tol": tol, "instances": sum(map(len, rows.values())), "missed": missed}
        out.write_text(json.dumps({"versions": versions(), **record}, indent=1) + "\n", encoding="utf-8")
    return len(missed)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=1000)
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    command = f"python -m benchmarks.robustness --instances {args.instances} --seed {' '.join(map(str, args.seed))}"
    drawn = itertools.chain.from_iterable(instances(args.instances, seed) for seed in args.seed)
    examine(drawn, args.tol, args.out, command)


if __name__ == "__main__":
    main()
