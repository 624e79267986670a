"""What solvers of the privacy funnel reach on the heart disease joint, beside the certified optimum.

    python experiments/funnel_solvers/run.py      # writes data/leakage.csv beside this file; a minute
    python experiments/funnel_solvers/plot.py     # draws it

4 private and 8 useful symbols (`jaxpriv.testing.heart_disease`). At each I(X;Y) >= R: the certified least I(S;Y)
(column generation: `value` reached, `lower_bound` proved), and what the greedy algorithm (Makhdoumi et al. 2014,
Algorithm 1), merging by ratio, difference-of-convex steps and the alternating method reach from their own starts.
Every method here is this library's own; about.toml has values of the published code of the difference-of-convex funnel
(arXiv 2403.04778). In nats; R as a share of H(X).
"""

import csv
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy.special import entr

import jaxpriv as jp
from jaxpriv.testing import heart_disease

DATA = Path(__file__).parent / "data"
SHARES = np.round(np.linspace(0.1, 0.95, 18), 6)
METHODS = ("greedy", "greedy-ratio", "difference-of-convex", "alternating")


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)  # all digits: a bound is not to be rounded across its value


def main() -> None:
    joint = heart_disease()
    whole = float(entr(joint.sum(axis=0)).sum())
    best = jp.funnel_frontier(jp.FunnelProblem(joint, disclosure=0.1), disclosures=SHARES * whole)
    rows: list[list[Any]] = []
    for share, found in zip(SHARES, best.solutions, strict=True):
        problem = jp.FunnelProblem(joint, disclosure=float(share * whole))
        others = [jp.solve(problem, method).value for method in METHODS]
        rows.append([share, share * whole, found.value, found.lower_bound, found.gap, found.status, *others])
    for k, method in enumerate(METHODS):
        print(f"{method}: at most {max(row[6 + k] - row[2] for row in rows):.4f} nats above the least")
    write("leakage.csv", ["share", "R", "value", "lower_bound", "gap", "status", *METHODS], rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
