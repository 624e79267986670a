"""The most useful mechanism under a limit on pointwise maximal leakage, against randomised response.

    python experiments/pml_optimum/run.py      # writes data/curves.csv beside this file; half a minute
    python experiments/pml_optimum/plot.py     # draws it

Pointwise maximal leakage with S = X at most e: every posterior has P(x|y) <= e^e P(x). The most I(X;Y) is a linear
program over the vertices of that set (Grosse, Saeidian and Oechtering, arXiv 2310.07381): all coordinates but one are 0
or e^e P(x). For a uniform source of k symbols that makes ln k - H(q), q = (c, .., c, 1 - m c) with c = e^e/k and
m = floor(1/c): `closed`. Randomised response spends the same limit: its probabilities are the largest for which no
posterior exceeds it.

`value` is I(X;Y) of a mechanism that exists, rounded down; `upper` is proved for every mechanism. In nats.
"""

import csv
import math
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy.optimize import brentq

import jaxpriv as jp
from jaxpriv import baselines, leakage

DATA = Path(__file__).parent / "data"
SOURCES = {"uniform, 5 symbols": np.full(5, 0.2), "(.4, .25, .15, .12, .08)": np.array([0.4, 0.25, 0.15, 0.12, 0.08])}


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)  # all digits: a bound is not to be rounded across its value


def disclosure(source: np.ndarray, mechanism: np.ndarray) -> float:
    return float(leakage.evaluate(leakage.MutualInformation(), np.diag(source), mechanism).value)


def largest(source: np.ndarray, mechanism: np.ndarray) -> float:
    """Pointwise maximal leakage of the worst output, from the definition: max ln P(y|x)/P(y)."""
    return float(np.log(mechanism.max(axis=0) / (source @ mechanism)).max())


def response(source: np.ndarray, limit: float) -> np.ndarray:
    """Randomised response with exactly this pointwise maximal leakage; beyond its own largest, the identity."""
    size = len(source)
    if largest(source, np.eye(size)) <= limit:
        return np.eye(size)
    own = brentq(lambda eps: largest(source, baselines.randomized_response(size, eps)) - limit, 0.0, 60.0, xtol=1e-13)
    return np.asarray(baselines.randomized_response(size, max(own - 1e-12, 0.0)))


def closed(size: int, limit: float) -> float:
    """The optimum for a uniform source, from the vertex that all others are permutations of."""
    c = math.exp(limit) / size
    whole = int(1 / c + 1e-12)
    parts = [c] * whole + [max(1 - whole * c, 0.0)]
    return math.log(size) + sum(part * math.log(part) for part in parts if part > 0)


def main() -> None:
    rows: list[list[Any]] = []
    for name, source in SOURCES.items():
        for limit in np.linspace(0.05, -np.log(source.min()), 40):
            best = jp.maximum_utility(source, (leakage.MaxLift(), float(limit)))
            exact = closed(len(source), limit) if name.startswith("uniform") else float("nan")
            other = disclosure(source, response(source, limit))
            rows.append([name, limit, best.value, best.upper_bound, best.gap, best.status, exact, other])
    worst = max(abs(row[2] - row[6]) for row in rows if not math.isnan(row[6]))
    print(f"uniform: largest difference from the closed form {worst:.1e} nats")
    header = ["source", "limit", "value", "upper", "gap", "status", "closed", "randomised_response"]
    write("curves.csv", header, rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
