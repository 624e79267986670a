"""Differential privacy bounds no leakage: Theorem 4 of Calmon and Fawaz 2012, drawn.

    python experiments/dp_and_leakage/run.py      # writes data/*.csv beside this file; one to two minutes
    python experiments/dp_and_leakage/plot.py     # draws them

A count X of n records that come in groups of k = 100 is uniform on 0, k, 2k, .., n. Y = X + noise of rate eps is
eps-differentially private whatever n. (a) I(X;Y) against n/k for several fixed eps, exactly and as bounded in the
paper, (1 - e^(-k eps/2)) ln(1 + n/k) - ln 2 nats. (b) The least I(X;Y) of ANY mapping of the multiples of k to
themselves whose mean error E|X - Y| is that of the noise, 1/eps, with its certified bound: what the error had to
cost. It grows alike: the noise leaks more than it has to, but no mapping as exact as that leaks a bounded amount.
(c) Ordered records, S_1 = .. = S_X = 1 and the others 0: the probability that an adversary learns all n of them from Y,
against k, for n = 10 000 k.
"""

import csv
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxpriv as jp
from jaxpriv.models.databases import sparse_count_bound, sparse_count_leakage, sparse_count_recovery

DATA = Path(__file__).parent / "data"
SPACING = 100
RATES = (0.01, 0.02, 0.05, 0.2)
GROUPS = np.unique(np.round(np.logspace(0, 5, 41)).astype(int))  # n = 100 to 10 000 000
SPACINGS = np.unique(np.round(np.logspace(0, 4, 61)).astype(int))
OPTIMAL_GROUPS = (1, 2, 4, 8, 16, 32, 64)
TOL = 1e-7


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row] for row in rows)


def noise_leakage() -> None:
    """(a): both kinds of noise and the bound."""
    rows = []
    for eps in RATES:
        for groups in map(int, GROUPS):
            count = (groups * SPACING, SPACING, eps)
            # A million results or more of geometric noise would only repeat the Laplace column.
            geometric = sparse_count_leakage(*count, "geometric") if groups <= 10_000 else ""
            values = (sparse_count_leakage(*count), geometric, sparse_count_bound(*count))
            rows.append([eps, groups, *values, float(np.log(1 + groups))])
    write("leakage.csv", ["eps", "n/k", "laplace", "geometric", "bound", "all"], rows)


def optimal_leakage() -> None:
    """(b): the least leakage at the mean error of the noise."""
    rows = []
    for eps in RATES:
        for groups in OPTIMAL_GROUPS:
            multiples = np.arange(groups + 1.0)
            prior = np.full(groups + 1, 1.0 / (groups + 1))
            cost = np.abs(np.subtract.outer(multiples, multiples))
            # Lengths in units of k.
            solution = jp.solve(jp.rate_distortion(prior, cost, budget=1.0 / (eps * SPACING)), tol=TOL)
            assert solution.status == "optimal", (eps, groups, solution.status)
            noise = sparse_count_leakage(groups * SPACING, SPACING, eps)
            rows.append([eps, groups, *(float(v) for v in (noise, solution.value, solution.lower_bound))])
    write("optimal.csv", ["eps", "n/k", "laplace", "optimal", "optimal_lower"], rows)
    print(f"n/k = {OPTIMAL_GROUPS[-1]}:   eps, Laplace, optimal (nats)")
    for eps, groups, noise, value, _ in rows:
        if groups == OPTIMAL_GROUPS[-1]:
            print(f"{eps:15.2f} {noise:8.4f} {value:8.4f}")


def recovery() -> None:
    """(c): the probability that all records are learnt."""
    rows = [
        [
            eps,
            spacing,
            *(sparse_count_recovery(10_000 * spacing, spacing, eps, noise) for noise in ("laplace", "geometric")),
        ]
        for eps in RATES
        for spacing in map(int, SPACINGS)
    ]
    write("recovery.csv", ["eps", "k", "laplace", "geometric"], rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    recovery()
    noise_leakage()
    optimal_leakage()
