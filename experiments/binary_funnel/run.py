"""The binary funnel and bottleneck: closed forms against the solver.

    python experiments/binary_funnel/run.py     # writes data/binary.csv

X ~ Bernoulli(p), S = X xor Bernoulli(delta). For each pair (p, delta) the least boundary at R(alpha), alpha in ALPHAS
("Mr. Gerber's Lemma", `jaxpriv.testing.binary_funnel`); for p = 1/2 also the most boundary at the same R (Mrs. Gerber's
Lemma, `jaxpriv.testing.binary_bottleneck`). In nats. `closed` is the closed form; `reached` the VALUE of the mechanism
found, `proved` the BOUND that no mechanism crosses; `difference` = reached - closed.
"""

import csv
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxpriv as jp
from jaxpriv.testing import binary_bottleneck, binary_funnel

DATA = Path(__file__).parent / "data"
PAIRS = ((0.14, 0.24), (0.3, 0.1), (0.3, 0.02), (0.5, 0.1), (0.5, 0.25))
ALPHAS = np.linspace(0.0, 0.98, 15)
TOL = 1e-8


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)  # all digits: a bound is not to be rounded across its value


def main() -> None:
    rows: list[list[Any]] = []
    for p, delta in PAIRS:
        exact = [binary_funnel(p, delta, float(alpha)) for alpha in ALPHAS]
        joint, targets = exact[0].joint, np.array([one.disclosure for one in exact])
        closed = {"least": [one.leakage for one in exact]}
        if p == 0.5:
            closed["most"] = [binary_bottleneck(delta, rate) for rate in targets]
        for side, values in closed.items():
            kind = jp.FunnelProblem if side == "least" else jp.BottleneckProblem
            curve = jp.funnel_frontier(kind(joint, disclosure=targets[0]), disclosures=targets, tol=TOL)
            for target, value, found in zip(targets, values, curve.solutions, strict=True):
                reached, proved = found.upper_bound, found.lower_bound
                if side == "most":
                    reached, proved = proved, reached
                numbers = [float(target), value, reached, proved, reached - value, found.gap]
                rows.append([side, p, delta, *numbers, found.status])
        worst = max(abs(row[7]) for row in rows if row[1:3] == [p, delta])
        print(f"p = {p}, delta = {delta}: largest difference {worst:.1e} nats")
    write(
        "binary.csv",
        ["boundary", "p", "delta", "R", "closed", "reached", "proved", "difference", "gap", "status"],
        rows,
    )


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
