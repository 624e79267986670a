"""The most I(X;Y) of a locally private release, against binary and k-ary randomised response.

    python experiments/ldp_optimum/run.py      # writes data/curves.csv beside this file; half a minute
    python experiments/ldp_optimum/plot.py     # draws it

Kairouz, Oh and Viswanath (2016): the most I(X;Y) of an eps-locally differentially private mechanism is reached by a
staircase mechanism, a linear program over 2^k patterns. Their binary mechanism (a partition of the symbols into two
sets of probability nearest to 1/2, released by binary randomised response) is optimal for all eps below some threshold,
k-ary randomised response above another one. Sources: uniform on 4 and on 6 symbols, and one that is not uniform.

`value` is I(X;Y) of a mechanism that exists, rounded down; `upper` a proved bound on every mechanism within the limit;
`gap` their difference. In nats.
"""

import csv
import itertools
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxpriv as jp
from jaxpriv import baselines, leakage

DATA = Path(__file__).parent / "data"
SOURCES = {
    "uniform, 4 symbols": [0.25] * 4,
    "uniform, 6 symbols": [1 / 6] * 6,
    "(.5, .25, .15, .1)": [0.5, 0.25, 0.15, 0.1],
}
LIMITS = np.round(np.linspace(0.2, 8.0, 40), 6)


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)  # all digits: a bound is not to be rounded across its value


def disclosure(source: np.ndarray, mechanism: np.ndarray) -> float:
    return float(leakage.evaluate(leakage.MutualInformation(), np.diag(source), mechanism).value)


def binary(source: np.ndarray, eps: float) -> np.ndarray:
    """The binary mechanism: which of two sets the symbol is in, by binary randomised response."""
    subsets = [s for size in range(1, len(source)) for s in itertools.combinations(range(len(source)), size)]
    chosen = min(subsets, key=lambda subset: abs(source[list(subset)].sum() - 0.5))
    inside = np.isin(np.arange(len(source)), chosen).astype(int)
    return np.asarray(baselines.randomized_response(2, eps))[inside]


def main() -> None:
    rows: list[list[Any]] = []
    for name, masses in SOURCES.items():
        source = np.array(masses)
        for eps in LIMITS:
            best = jp.maximum_utility(source, (leakage.LocalDifferentialPrivacy(), float(eps)))
            both = (
                disclosure(source, binary(source, eps)),
                disclosure(source, baselines.randomized_response(len(source), eps)),
            )
            rows.append([name, eps, best.value, best.upper_bound, best.gap, best.status, *both])
        part = np.array([row[2:4] + row[6:] for row in rows if row[0] == name])
        for kind, column in (("binary", 2), ("k-ary", 3)):
            at = LIMITS[part[:, column] >= part[:, 0] - 1e-9]
            ends = f"{at.min(initial=9)} to {at.max(initial=0)}"
            print(f"{name}: {kind} is optimal at {len(at)} of {len(LIMITS)} limits, {ends}")
    header = ["source", "eps", "value", "upper", "gap", "status", "binary", "randomised_response"]
    write("curves.csv", header, rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
