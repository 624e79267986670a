"""Maximal leakage against Hamming distortion: the closed form of Saeidian et al. beside certified optima.

    python experiments/maximal_leakage_hamming/run.py      # writes data/curves.csv beside this file; half a minute
    python experiments/maximal_leakage_hamming/plot.py     # draws it

S = X with probabilities p_1 >= p_2 >= ..; maximal leakage at most L = ln G. Saeidian, Cervia, Oechtering and Skoglund
(2021, arXiv 2105.01033): the least probability that Y differs from X is

    D = 1 - sum_{i <= floor(G)} p_i - (G - floor(G)) p_{floor(G)+1},

by disclosing the likeliest symbols and suppressing the rarest. `value` is the distortion of a mechanism that exists,
rounded up; `lower_bound` is proved for every mechanism.
"""

import csv
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxpriv as jp

DATA = Path(__file__).parent / "data"
SOURCES = {
    "uniform, 8 symbols": np.full(8, 1 / 8),
    "geometric, ratio 0.7": 0.7 ** np.arange(8) / (0.7 ** np.arange(8)).sum(),
    "geometric, ratio 0.4": 0.4 ** np.arange(8) / (0.4 ** np.arange(8)).sum(),
}
GAINS = np.linspace(1.0, 8.0, 29)  # G = e^L


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)  # all digits: a bound is not to be rounded across its value


def closed(source: np.ndarray, gain: float) -> float:
    whole = int(gain)
    rest = (gain - whole) * source[whole] if whole < len(source) else 0.0
    return float(max(1.0 - source[:whole].sum() - rest, 0.0))


def main() -> None:
    rows: list[list[Any]] = []
    for name, source in SOURCES.items():
        problem = jp.rate_distortion(
            source, 1 - np.eye(len(source)), leakage_budget=0.0, leakage=jp.leakage.MaximalLeakage()
        )
        curve = jp.frontier(problem, leakage_budgets=np.log(GAINS))
        for gain, value, bound, status in zip(GAINS, curve.value, curve.lower_bound, curve.status, strict=True):
            exact = closed(source, gain)
            rows.append([name, np.log(gain), exact, value, bound, value - bound, value - exact, status])
        print(f"{name}: largest difference {max(abs(row[6]) for row in rows if row[0] == name):.1e}")
    header = ["source", "leakage", "closed", "value", "lower_bound", "gap", "difference", "status"]
    write("curves.csv", header, rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
