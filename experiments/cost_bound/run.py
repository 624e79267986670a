"""What adversaries gain against what the leakage allows them: many mechanisms, several costs, both forms of the bound.

    python experiments/cost_bound/run.py      # writes data/*.csv beside this file; half a minute (two shared cores)
    python experiments/cost_bound/plot.py     # draws them

Random pairs (|S| = 4, |X| = 5, |Y| = 6) and mechanisms from nearly constant to nearly the identity, and the census
table. For each mechanism I(S;Y), max_y D(P_{S|y} || P_S), and the gain over L = max |C| of adversaries who pay

* zero-one loss (L = 1) and the Brier loss (L = 2);
* random costs of three announcements, uniform in [-1, 1];
* the cost that is worst for this very mechanism among ALL with |C| <= 1. The maximum gain then is
  max_y ||P_S - P_{S|y}||_1, by one announcement. The average gain is a linear program, over one announcement C_y
  for each output (more are of no use) and t = the least cost without Y:

      max t - sum_y P(y) <P_{S|y}, C_y>    subject to    <P_S, C_y> >= t for all y,    |C| <= 1.

`tight.csv` is the family that shows the constant to be the best: a fair bit, posteriors 1/2 +- e, C = +-1.
"""

import csv
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from scipy.optimize import linprog

from jaxpriv import datasets, leakage
from jaxpriv.testing import random_joint, random_mechanisms

DATA = Path(__file__).parent / "data"
PAIRS = 240
CENSUS = 60
SEED = 0


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row] for row in rows)


def diluted(rng: np.random.Generator, mechanisms: np.ndarray) -> np.ndarray:
    """Each mechanism with a random share of its mass, down to 1e-3, and the mean of its rows with the rest."""
    share = 10.0 ** rng.uniform(-3, 0, (len(mechanisms), 1, 1))
    return share * mechanisms + (1 - share) * mechanisms.mean(axis=1, keepdims=True)


@eqx.filter_jit
@eqx.filter_vmap(in_axes=(0, 0, 0))
def measured(joint, mechanism, losses) -> dict[str, tuple[Any, Any]]:
    """(average form, maximum form) of the leakage and of every gain over L."""
    costs = {"zero-one": leakage.ZeroOneLoss(), "brier": leakage.BrierLoss(), "random": leakage.LossMatrix(losses)}
    size = {"zero-one": 1.0, "brier": 2.0, "random": 1.0}
    found = {
        "leakage": (leakage.MutualInformation()(joint, mechanism), leakage.RelativeEntropyPrivacy()(joint, mechanism))
    }
    return found | {
        name: (
            leakage.AverageCostGain(cost)(joint, mechanism) / size[name],
            leakage.MaxCostGain(cost)(joint, mechanism) / size[name],
        )
        for name, cost in costs.items()
    }


def worst_cost(joint: np.ndarray, mechanism: np.ndarray) -> tuple[float, float]:
    """(average gain, maximum gain) of the worst cost with |C| <= 1."""
    outputs, prior = joint @ mechanism, joint.sum(axis=1)
    outputs = outputs[:, outputs.sum(axis=0) > 0]
    size, count = outputs.shape
    # Variables: C_y one after the other, then t.
    objective = np.append(outputs.T.ravel(), -1.0)
    rows = np.hstack([-np.kron(np.eye(count), prior), np.ones((count, 1))])
    found = linprog(objective, A_ub=rows, b_ub=np.zeros(count), bounds=[(-1, 1)] * (size * count + 1), method="highs")
    posteriors = outputs / outputs.sum(axis=0)
    return -float(found.fun), float(np.abs(posteriors - prior[:, None]).sum(axis=0).max())


def points(source: str, joints: np.ndarray, mechanisms: np.ndarray, rng: np.random.Generator) -> list[list[Any]]:
    losses = rng.uniform(-1, 1, (len(joints), joints.shape[1], 3))
    values = {name: np.stack(pair) for name, pair in measured(joints, mechanisms, losses).items()}
    values["worst"] = np.array([worst_cost(*pair) for pair in zip(joints, mechanisms, strict=True)]).T
    found = values.pop("leakage")
    return [
        [source, cost, form, float(found[k, i]), float(gain[k, i])]
        for cost, gain in values.items()
        for k, form in enumerate(("average", "maximum"))
        for i in range(len(joints))
    ]


def main() -> None:
    rng = np.random.default_rng(SEED)
    joints = np.stack([random_joint(rng, 4, 5, zeros=0.2 * (k % 3), concentration=0.8) for k in range(PAIRS)])
    rows = points("random", joints, diluted(rng, random_mechanisms(rng, PAIRS, 5, 6)), rng)
    census = datasets.census().joint
    useful = census.shape[1]
    kept = np.eye(useful) + diluted(rng, random_mechanisms(rng, CENSUS, useful, useful))
    kept = diluted(rng, kept / kept.sum(axis=2, keepdims=True))
    rows += points("census", np.broadcast_to(census, (CENSUS, *census.shape)), kept, rng)
    write("gains.csv", ["source", "cost", "form", "leakage_nats", "gain_over_L"], rows)
    tight = []
    for e in np.geomspace(1e-3, 0.5, 25):
        information = (0.5 + e) * np.log1p(2 * e) + (0.5 - e) * (np.log1p(-2 * e) if e < 0.5 else 0.0)
        tight.append([float(e), float(information), 2 * float(e)])
    write("tight.csv", ["e", "leakage_nats", "gain_over_L"], tight)
    for form in ("average", "maximum"):
        ratios = [row[4] / np.sqrt(2 * row[3]) for row in rows if row[2] == form]
        print(f"{len(ratios)} gains, {form} form: at most {max(ratios):.4f} of the bound")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
