"""The heart disease joint, 4 private and 8 useful symbols: every deterministic release, and both certified boundaries.

    python experiments/heart_funnel/run.py      # writes data/*.csv beside this file
    python experiments/heart_funnel/plot.py     # draws them

The joint is `jaxpriv.testing.heart_disease`, on which privacy-funnel solvers were compared before. All in nats.

`boundaries.csv`: R in steps of STEP nats. `reached` is the VALUE: I(S;Y) of a mechanism that exists and keeps its
target, rounded against it; `proved` is the BOUND that no mechanism crosses, rounding included (the pricing is exact:
sparse atoms by branch and bound on the least boundary, a search over P(S|y) on the most); status optimal where `gap`
is at most TOL. `greedy` is Algorithm 1 of Makhdoumi et al. (2014) with target R; `partition` the best of all 4140
deterministic releases that keep the target; `partitions_shared` time sharing between them. `partitions.csv` has their
hull's corners, `silent.csv` the most that can be disclosed with no leakage at all.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxpriv as jp
from jaxpriv.funnels.bounds import lower_hull
from jaxpriv.funnels.greedy import greedy_curve
from jaxpriv.leakage import MutualInformation
from jaxpriv.testing import heart_disease

DATA = Path(__file__).parent / "data"
STEP = 0.05
TOL = 1e-6
SIDES = {"least": 1.0, "most": -1.0}


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)  # all digits: a bound is not to be rounded across its value


def partitions(size: int) -> Iterator[list[int]]:
    """Every partition of `size` symbols once: symbol x joins a class of earlier ones, or opens the next."""

    def extended(labels: list[int]) -> Iterator[list[int]]:
        if len(labels) == size:
            yield labels
            return
        for label in range(max(labels, default=-1) + 2):
            yield from extended([*labels, label])

    yield from extended([])


def entropy(masses: np.ndarray) -> np.ndarray:
    return -np.where(masses > 0, masses * np.log(np.where(masses > 0, masses, 1.0)), 0.0).sum(axis=-1)


def released(joint: np.ndarray) -> np.ndarray:
    """(I(X;Y), I(S;Y)) in nats of every deterministic release, shape (4140, 2)."""
    labels = np.array(list(partitions(joint.shape[1])))
    mechanisms = (labels[:, :, None] == np.arange(joint.shape[1])).astype(float)
    outputs = joint @ mechanisms  # (4140, S, Y)
    disclosed = entropy(outputs.sum(axis=1))
    leaked = disclosed + entropy(joint.sum(axis=1)) - entropy(outputs.reshape(len(labels), -1))
    return np.stack([disclosed, leaked], axis=1)


def main() -> None:
    joint = heart_disease()
    source, size = joint.sum(axis=0), joint.shape[1]
    most = float(MutualInformation()(np.diag(source), np.eye(size)))
    secret = float(MutualInformation()(joint, np.eye(size)))
    points = released(joint)
    corners = {side: points[lower_hull(points[:, 0], sign * points[:, 1])] for side, sign in SIDES.items()}
    write(
        "partitions.csv",
        ["boundary", "disclosure", "leakage"],
        [[side, *map(float, corner)] for side, part in corners.items() for corner in part],
    )
    targets = np.append(np.arange(1, np.ceil(most / STEP)) / round(1 / STEP), most)
    runs = greedy_curve(joint, disclosures=targets)
    rows: list[list[Any]] = []
    for side in SIDES:
        kind = jp.FunnelProblem if side == "least" else jp.BottleneckProblem
        curve = jp.funnel_frontier(kind(joint, disclosure=most), disclosures=targets, tol=TOL)
        for target, found, run in zip(targets, curve.solutions, runs, strict=True):
            if side == "least":
                reached, proved, elementary = found.upper_bound, found.lower_bound, max(0.0, target - most + secret)
                greedy: float | str = run.leakage
                partition = points[points[:, 0] >= target - 1e-12, 1].min()
            else:
                reached, proved, elementary = found.lower_bound, found.upper_bound, min(target, secret)
                greedy, partition = "", points[points[:, 0] <= target + 1e-12, 1].max()
            together = np.interp(target, *corners[side].T)
            numbers = [reached, proved, found.gap, partition, together, target * secret / most, elementary]
            seconds = found.seconds["solve"]
            rows.append([side, *map(float, [target, *numbers]), greedy, found.status, found.steps, seconds])
        optimal, taken = (curve.status == "optimal").sum(), sum(found.seconds["solve"] for found in curve.solutions)
        worst = curve.gap.max()
        print(f"{side}: {optimal} of {len(curve)} optimal, largest gap {worst:.1e} nats, {taken:.1f} s", flush=True)
    numbers = ("R", "reached", "proved", "gap", "partition", "partitions_shared", "erasure", "elementary", "greedy")
    write("boundaries.csv", ["boundary", *numbers, "status", "rounds", "seconds"], rows)
    silent = jp.solve(jp.FunnelProblem(joint, leakage_budget=0.0), tol=TOL)
    numbers = [silent.disclosure, silent.upper_bound, silent.leakage, silent.status]
    write("silent.csv", ["disclosure", "proved", "leakage", "status"], [numbers])
    print(f"silent up to {numbers[0]:.9f} nats ({silent.status})")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
