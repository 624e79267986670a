"""How often does minimum distortion under a worst-outcome limit end certified? Degenerate joints, all fresh.

    python -m benchmarks.robustness_worst [--instances 1000] [--seed 0] [--tol 1e-6] [--first I] [--out FILE.json]

The limit is on maximum information leakage, a fraction 1e-3 to 0.9 of what a release of X as it is
leaks in its worst outcome (Calmon-Fawaz Theorem 2 with the roles of limit and objective exchanged). Every
instance has a number and numbers of its own, so that `--seed N --first I --instances 1` runs number I again;
it is solved once by `jaxpriv.solve`, and the verdict is the certificate's. Exit status 0 always:
what missed is listed.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import jaxpriv as jp
from benchmarks.robustness import Instance, examine, table_of

# Few shapes, so that compiled programs are used again: square, |S| < |X|, |S| > |X| and |Y| > |X|.
SHAPES = ((8, 8, 8), (3, 8, 8), (8, 4, 6))
KINDS = (
    "dirichlet",
    "zeros",
    "rank one",
    "near rank one",
    "X = f(S)",
    "S = f(X)",
    "S = X",
    "duplicated x",
    "tiny p_x",
    "tiny p_s",
    "zero p_x, p_s",
)
DISTORTIONS = ("absolute", "squared", "hamming")
# A joint without information leaks nothing whatever is released: the limit is then a fraction of this.
LEAST_SCALE = 1e-6


def degenerate_joint(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """A random joint (S, X) of a kind; `S = X` needs a square shape."""
    private, useful = shape
    joint = rng.dirichlet(np.full(private * useful, rng.choice([0.3, 1.0]))).reshape(shape)
    if kind == "zeros":
        joint = joint * (rng.random(shape) < rng.uniform(0.2, 0.7))
        joint[rng.integers(private), rng.integers(useful)] += 0.1  # never nothing at all
    elif "rank one" in kind:
        joint = np.outer(rng.dirichlet(np.ones(private)), rng.dirichlet(np.ones(useful)))
        if kind == "near rank one":
            joint = joint * (1.0 + 10.0 ** -rng.uniform(1, 6) * rng.uniform(-1, 1, shape))
    elif kind == "X = f(S)":
        joint = np.eye(useful)[rng.integers(0, useful, private)] * joint.sum(axis=1, keepdims=True)
    elif kind == "S = f(X)":
        joint = np.eye(private)[rng.integers(0, private, useful)].T * joint.sum(axis=0)
    elif kind == "S = X":
        joint = np.diag(np.diag(joint))
    elif kind == "duplicated x":
        source = rng.integers(0, max(useful // 2, 1), useful)
        joint = joint[:, source] * rng.random(useful)
    elif kind == "tiny p_x":
        joint = joint * 10.0 ** -rng.uniform(0, 10, useful)
    elif kind == "tiny p_s":
        joint = joint * 10.0 ** -rng.uniform(0, 10, private)[:, None]
    elif kind == "zero p_x, p_s":
        joint[rng.integers(private)] = 0.0
        joint[:, rng.integers(useful)] = 0.0
    return joint / joint.sum()


def instance(seed: int, number: int) -> Instance:
    """Instance `number` of a seed, whatever comes before it."""
    rng = np.random.default_rng((seed, number))
    kind = KINDS[number % len(KINDS)]
    private, useful, released = SHAPES[0] if kind == "S = X" else SHAPES[rng.integers(len(SHAPES))]
    distortion = DISTORTIONS[rng.integers(len(DISTORTIONS))]
    # The fractions crowd the small end as well as the middle.
    fraction = float(rng.choice([10.0 ** -rng.uniform(0.1, 3), rng.uniform(0.05, 0.9)]))
    joint = degenerate_joint(kind, (private, useful), rng)
    whole = jp.leakage.evaluate(jp.leakage.MaxInformation(), joint, np.eye(useful)).value
    limit = fraction * max(float(whole), LEAST_SCALE)
    problem = jp.DistortionProblem(
        joint,
        table_of(distortion, useful, released, rng),
        leakage_budget=limit,
        leakage=jp.leakage.MaxInformation(),
    )
    label = f"--seed {seed} --first {number}: {distortion} {private}x{useful}x{released}"
    label += f" eps {limit:.3g} ({fraction:.3g} of all)"
    return Instance(kind, "worst", label, problem)


def instances(count: int, seed: int, first: int = 0) -> Iterator[Instance]:
    """`count` instances from number `first`, every kind in turn."""
    for number in range(first, first + count):
        yield instance(seed, number)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first instance")
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    command = f"python -m benchmarks.robustness_worst --instances {args.instances} --seed {args.seed}"
    examine(instances(args.instances, args.seed, args.first), args.tol, args.out, command)


if __name__ == "__main__":
    main()
