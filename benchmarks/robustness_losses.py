"""How often do convex losses of a user's own end certified? Dense joints, fresh numbers.

    python -m benchmarks.robustness_losses [--instances 32] [--seed 0] [--tol 1e-6] [--first I] [--every N]

Each instance draws the parameters of the losses, a Dirichlet(1) joint of 4 x 6 symbols, a distortion and a budget (even
numbers: least cost gain within a budget; odd ones: least distortion within a leakage budget). Proper scores,
powers, sums that leave announcements undecided, squares with a corner in the second derivative. Every instance is
compiled anew, which takes most of the time. Exit status 0 always: what missed is listed.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxpriv as jp
from benchmarks.robustness import Instance, examine, table_of
from jaxpriv.leakage import AverageCostGain, CustomLoss

PRIVATE, USEFUL = 4, 6
DISTORTIONS = ("random", "absolute", "hamming", "squared")
Loss = Callable[[Any], Any]


def _errors(q: Any) -> Any:
    """q - e_s for every s, (S, S)."""
    return q[None, :] - jnp.eye(PRIVATE)


def losses(rng: np.random.Generator) -> dict[str, Loss]:
    """Sixteen convex losses of an announcement q, C(., q) of shape (PRIVATE,)."""
    weight, cost = rng.uniform(0.3, 3.0, PRIVATE), rng.uniform(0.3, 3.0, PRIVATE)
    root = rng.standard_normal((PRIVATE, PRIVATE))
    metric = root @ root.T / PRIVATE + 0.05 * np.eye(PRIVATE)
    number = np.sort(rng.random(PRIVATE))
    place = rng.random((PRIVATE, 2))
    corner, shift = rng.uniform(0.2, 0.6), rng.uniform(0.02, 0.2)
    confused = rng.uniform(0.0, 1.0, (PRIVATE, PRIVATE)) * (1 - np.eye(PRIVATE))

    def huber(r: Any) -> Any:
        return jnp.where(abs(r) < corner, 0.5 * r**2, corner * (abs(r) - 0.5 * corner))

    def hinge(q: Any) -> Any:
        margin = jnp.maximum(0.0, corner - q[:, None] + q[None, :]) * (1 - jnp.eye(PRIVATE))
        return (margin**2).sum(axis=1)

    return {
        "brier": lambda q: (_errors(q) ** 2).sum(axis=1),
        "weighted squares": lambda q: (weight * _errors(q) ** 2).sum(axis=1),
        "metric": lambda q: jnp.einsum("si,ij,sj->s", _errors(q), metric, _errors(q)),
        "cube": lambda q: (1 - q) ** 3,
        "shifted log": lambda q: -jnp.log(q + shift),
        "weighted log": lambda q: -cost * jnp.log(q),
        "asymmetric": lambda q: cost * (1 - q) ** 2,
        "huber": lambda q: huber(1 - q),
        "pseudo-huber": lambda q: jnp.sqrt(corner**2 + (_errors(q) ** 2).sum(axis=1)),
        "mean": lambda q: (number @ q - number) ** 2,
        "place": lambda q: ((q @ place - place) ** 2).sum(axis=1),
        "squared hinge": hinge,
        "exponential": lambda q: jnp.exp(-q / corner),
        "root": lambda q: cost * (1 - q) ** 1.5,
        "fourth power": lambda q: (_errors(q) ** 4).sum(axis=1),
        "confusion": lambda q: confused @ q + (q**2).sum() - 2 * q,
    }


def instance(seed: int, number: int) -> Instance:
    """Instance `number` of a seed, whatever comes before it: every loss in both forms."""
    rng = np.random.default_rng((seed, number))
    own = losses(rng)
    name = list(own)[number // 2 % len(own)]
    joint = rng.dirichlet(np.ones(PRIVATE * USEFUL)).reshape(PRIVATE, USEFUL)
    kind = DISTORTIONS[rng.integers(len(DISTORTIONS))]
    table = table_of(kind, USEFUL, USEFUL, rng)
    measure = AverageCostGain(CustomLoss(own[name]))
    share = float(rng.choice([10.0 ** -rng.uniform(0.5, 2.5), rng.uniform(0.05, 0.95)]))
    if number % 2:
        whole = float(jp.leakage.evaluate(measure, joint, np.eye(USEFUL)).value)
        problem = jp.DistortionProblem(joint, table, leakage=measure, leakage_budget=share * whole)
        form, said = "leakage_budget", f"limit {share * whole:.3g} ({share:.3g} of all)"
    else:
        mass = joint.sum(axis=0)
        least, most = mass @ table.min(axis=1), (mass @ table).min()
        problem = jp.DistortionProblem(joint, table, leakage=measure, budget=least + share * (most - least))
        form, said = "budget", f"budget {share:.3g} of the range"
    return Instance(name, form, f"--seed {seed} --first {number}: {kind}, {said}", problem)


def instances(count: int, seed: int, first: int = 0, every: int = 1) -> Iterator[Instance]:
    """`count` instances from number `first`, every loss in turn."""
    for number in range(first, first + count * every, every):
        yield instance(seed, number)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first instance")
    parser.add_argument("--every", type=int, default=1, help="step from one number to the next")
    parser.add_argument("--tol", type=float, default=1e-6)
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    examine(instances(args.instances, args.seed, args.first, args.every), args.tol)


if __name__ == "__main__":
    main()
