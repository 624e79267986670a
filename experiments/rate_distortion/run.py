"""Rate-distortion functions at prescribed distortions: four families, beside closed forms.

    python experiments/rate_distortion/run.py      # writes data/curves.csv beside this file; a minute
    python experiments/rate_distortion/plot.py     # draws it

The rate-distortion function is the least leakage with S = X (Calmon and Fawaz 2012, Corollary 1). Chen et al. (2025,
arXiv 2305.02650) change the Blahut-Arimoto algorithm so that it meets a prescribed distortion, and try it on
discretised Gaussian, Laplacian and uniform sources; here every point has a certified gap as well. Sources:

* Bernoulli(0.3), Hamming: R(D) = h(0.3) - h(D);
* uniform on 8 symbols, Hamming: R(D) = ln 8 - h(D) - D ln 7;
* a standard Gaussian on 101 points of [-5, 5], squared error: beside 1/2 ln 1/D of the continuous source;
* a Laplacian of scale 1 on 101 points of [-8, 8], absolute error: beside ln 1/D of the continuous source.

The last two differ from the continuous sources by what the grid does; in nats.
"""

import csv
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy.special import entr

import jaxpriv as jp

DATA = Path(__file__).parent / "data"


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)  # all digits: a bound is not to be rounded across its value


def h(p: np.ndarray) -> np.ndarray:
    return entr(p) + entr(1 - p)


def on_grid(reach: float, log_density: Any) -> tuple[np.ndarray, np.ndarray]:
    x = np.linspace(-reach, reach, 101)
    mass = np.exp(log_density(x))
    return x, mass / mass.sum()


def families() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """(source, distortion, budgets, closed form) of each."""
    gauss, normal = on_grid(5.0, lambda x: -(x**2) / 2)
    line, laplace = on_grid(8.0, lambda x: -abs(x))
    binary, eight = np.linspace(0.02, 0.28, 14), np.linspace(0.05, 0.85, 17)
    squared, absolute = np.linspace(0.05, 0.95, 19), np.linspace(0.15, 0.95, 17)
    return {
        "Bernoulli(0.3), Hamming": (np.array([0.7, 0.3]), 1 - np.eye(2), binary, h(np.array(0.3)) - h(binary)),
        "uniform on 8, Hamming": (
            np.full(8, 1 / 8),
            1 - np.eye(8),
            eight,
            np.log(8) - h(eight) - eight * np.log(7),
        ),
        "Gaussian on a grid, squared": (
            normal,
            np.subtract.outer(gauss, gauss) ** 2,
            squared,
            0.5 * np.log(1 / squared),
        ),
        "Laplacian on a grid, absolute": (
            laplace,
            abs(np.subtract.outer(line, line)),
            absolute,
            np.log(1 / absolute),
        ),
    }


def main() -> None:
    rows: list[list[Any]] = []
    for name, (source, distortion, budgets, closed) in families().items():
        curve = jp.frontier(jp.rate_distortion(source, distortion, budget=float(budgets[0])), budgets=budgets)
        values = zip(budgets, closed, curve.value, curve.lower_bound, curve.gap, curve.status, strict=True)
        rows += [[name, *map(float, (d, c, v, b, g, v - c)), s] for d, c, v, b, g, s in values]
        part = [row for row in rows if row[0] == name]
        gap, apart = max(row[5] for row in part), max(abs(row[6]) for row in part)
        print(f"{name}: gap at most {gap:.1e}, from the formula {apart:.1e}")
    header = ["family", "distortion", "closed", "value", "lower_bound", "gap", "difference", "status"]
    write("curves.csv", header, rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
