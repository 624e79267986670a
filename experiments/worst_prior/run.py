"""The fitted prior against the worst of a set: the census table with other incomes within each age group.

    python experiments/worst_prior/run.py      # writes data/*.csv beside this file; one minute (two shared cores)
    python experiments/worst_prior/plot.py     # draws them

S = (age, income), X = (age, gender, education). The five priors: the odds of an income above 50K within each age group
are those of the table times 1/9, 1/3, 1, 3, 9; P(age) and P(x|s) stay. Two mappings for each budget of changed
attributes:

* fitted: least I(S;Y) under the table, the budget held under the table;
* robust: least of the largest I(S;Y) over the five, the budget held under each (one convex program, certified).

Both are then measured under each prior, beside the least leakage of a curator who knows that prior, and under
41 factors between: the five stand for a family of which they are not the worst by any theorem.
"""

import csv
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxpriv as jp
from jaxpriv import datasets, leakage
from jaxpriv.data.distortion import changed_attributes, dense

DATA = Path(__file__).parent / "data"
TOL = 1e-6
FACTORS = (1 / 9, 1 / 3, 1.0, 3.0, 9.0)
BETWEEN = 9.0 ** np.linspace(-1, 1, 41)
BUDGETS = (0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 1.0)
SHOWN = 0.4


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row] for row in rows)


def tilted(data: datasets.Dataset, factor: float) -> np.ndarray:
    """The joint with other odds of the higher income in each age group; P(age) and P(x|s) as they are."""
    age, income = data.private_attributes.T
    high = income == data.private_values[1].index(">50K")
    prior = data.joint.sum(axis=1)
    weight = prior * np.where(high, factor, 1.0)
    for group in np.unique(age):
        weight[age == group] *= prior[age == group].sum() / weight[age == group].sum()
    return data.joint * (weight / prior)[:, None]


def main() -> None:
    data = datasets.census()
    cost = dense(changed_attributes(data.useful_attributes))
    joints = np.stack([tilted(data, factor) for factor in FACTORS])
    nominal = FACTORS.index(1.0)

    def measured(joint: np.ndarray, mechanism: np.ndarray) -> tuple[float, float]:
        """(leakage in nats, mean number of changed attributes)."""
        leaked = leakage.evaluate(leakage.MutualInformation(), joint, mechanism).value
        return leaked, float((joint.sum(axis=0)[:, None] * mechanism * cost).sum())

    def solved(joint: np.ndarray, budget: float) -> jp.Solution:
        begun = time.perf_counter()
        found = jp.solve(jp.DistortionProblem(joint, cost, budget=budget), tol=TOL)
        print(
            f"budget {budget:4.2f}, {1 if joint.ndim == 2 else len(joint)} priors: {found.value:.5f} nats, gap "
            f"{found.gap:.0e}, {found.status}, {time.perf_counter() - begun:.1f} s",
            flush=True,
        )
        return found

    def proof(found: jp.Solution) -> list[Any]:
        return [float(found.value), float(found.lower_bound), float(found.gap), str(found.status)]

    rows, between = [], []
    for budget in BUDGETS:
        designs = {"fitted": solved(joints[nominal], budget), "robust": solved(joints, budget)}
        for k, (factor, joint) in enumerate(zip(FACTORS, joints, strict=True)):
            known = designs["fitted"] if k == nominal else solved(joint, budget)
            for name, found in {**designs, "known": known}.items():
                weight = float(np.asarray(found.weights).ravel()[k]) if name == "robust" else ""
                rows.append([budget, float(factor), name, *measured(joint, found.mechanism), weight, *proof(found)])
        for name, found in designs.items():
            worst = max(measured(joint, found.mechanism) for joint in joints)
            most = max(measured(joint, found.mechanism)[1] for joint in joints)
            fitted = measured(joints[nominal], found.mechanism)[0]
            print(f"    {name}: worst {worst[0]:.5f} nats, most changed {most:.4f}, under the table {fitted:.5f} nats")
            if budget == SHOWN:
                between += [
                    [budget, factor, name, *measured(tilted(data, factor), found.mechanism)]
                    for factor in map(float, BETWEEN)
                ]
    header = ["budget", "odds_factor", "mapping", "leakage", "changed"]
    proofs = ["value", "lower_bound", "gap", "status"]
    write("priors.csv", [*header, "weight", *proofs], rows)
    write("between.csv", header, between)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
