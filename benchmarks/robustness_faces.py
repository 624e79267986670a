"""How often do budgets without any slack end certified? Integer distortions with ties, every measure, all fresh.

    python -m benchmarks.robustness_faces [--instances 200] [--seed 0] [--tol 1e-6] [--first I]

The distortions are integers 0, 1, 2, so that several outputs are cheapest for one x, and the budgets are met with
equality by every mechanism that meets them: one budget at the least distortion, two budgets of which only a
weighted sum is at its least (or whose sum is constant), one budget for several joints. Every instance has a number
and numbers of its own, so that `--seed N --first I --instances 1` runs number I again; it is solved once through
`jaxpriv.solve`, and the verdict is the certificate's. Exit status 0 always: what missed is listed.
"""

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

import jaxpriv as jp
from benchmarks.robustness import Instance, examine
from jaxpriv import leakage

# One shape: compiled programs are used again.
PRIVATE, USEFUL, RELEASED = 4, 6, 6
MEASURES = {
    "mutual information": None,
    "Sibson 2": leakage.Sibson(2.0),
    "Sibson 1/2": leakage.Sibson(0.5),
    "Arimoto 3": leakage.Arimoto(3.0),
    "maximal leakage": leakage.MaximalLeakage(),
    "min-entropy": leakage.MinEntropyLeakage(),
    "chi-squared": leakage.FInformation(leakage.ChiSquared()),
    "Hellinger": leakage.FInformation(leakage.SquaredHellinger()),
    "total variation": leakage.FInformation(leakage.TotalVariation()),
    "user's f": leakage.FInformation(leakage.UserDivergence(lambda t: (t - 1) ** 2 / (t + 1), at_zero=1.0)),
    "Brier": leakage.AverageCostGain(leakage.BrierLoss()),
    "max-information": leakage.MaxInformation(),
    "relative entropy": leakage.RelativeEntropyPrivacy(),
    "lift": leakage.Lift(),
    "max-lift": leakage.MaxLift(),
    "LDP": leakage.LocalDifferentialPrivacy(),
}
FORMS = ("one budget", "weighted budgets", "opposite budgets", "several joints")


def instance(seed: int, number: int, only: str | None = None) -> Instance:
    """Instance `number` of a seed, whatever comes before it."""
    rng = np.random.default_rng((seed, number))
    name = tuple(MEASURES)[number % len(MEASURES)] if only is None else only
    # One budget most often: most problems have one.
    form = FORMS[rng.choice(len(FORMS), p=[0.55, 0.15, 0.15, 0.15])]
    joints = rng.dirichlet(np.ones(PRIVATE * USEFUL), size=2 if form == "several joints" else 1)
    joints = joints.reshape(-1, PRIVATE, USEFUL)
    tables = rng.integers(0, 3, (1, USEFUL, RELEASED)).astype(float)
    mass = joints.sum(axis=1)
    if form in ("one budget", "several joints"):
        budgets = (mass @ tables[0].min(axis=1)).max(keepdims=True)
        if form == "several joints":  # the least distortion is 0, so that no joint has slack
            tables = tables - tables.min(axis=2, keepdims=True)
            budgets = np.zeros(1)
    else:
        other = rng.integers(0, 3, tables.shape).astype(float) if form == "weighted budgets" else 2.0 - tables
        tables = np.concatenate([tables, other])
        weights = np.array([1.0, rng.integers(1, 4)]) if form == "weighted budgets" else np.ones(2)
        cheapest = np.tensordot(weights, tables, 1)
        allowed = cheapest == cheapest.min(axis=1, keepdims=True)
        inside = allowed * rng.random(allowed.shape)
        inside /= inside.sum(axis=1, keepdims=True)
        budgets = (mass[0][:, None] * tables * inside).sum(axis=(1, 2))
    data: Any = joints if len(joints) > 1 else joints[0]
    problem = jp.DistortionProblem(data, tables, budget=budgets, leakage=MEASURES[name])
    return Instance(name, form, f"--seed {seed} --first {number}", problem)


def instances(count: int, seed: int, first: int = 0, only: str | None = None) -> Iterator[Instance]:
    """`count` instances from number `first`, every measure in turn, or the one named `only`."""
    for number in range(first, first + count):
        yield instance(seed, number, only)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first instance")
    parser.add_argument("--measure", choices=tuple(MEASURES), help="this measure only")
    parser.add_argument("--tol", type=float, default=1e-6)
    args = parser.parse_args()
    examine(instances(args.instances, args.seed, args.first, args.measure), args.tol)


if __name__ == "__main__":
    main()
