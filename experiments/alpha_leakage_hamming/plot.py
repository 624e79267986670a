"""Draws data/curves.csv of run.py into docs/figures/alpha-leakage-hamming.png.

python experiments/alpha_leakage_hamming/plot.py
"""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "alpha-leakage-hamming.png"


def main() -> None:
    with open(HERE / "data" / "curves.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with plotting.style():
        from matplotlib import colormaps
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 2.9))
        axes = figure.subplots()
        orders = list(dict.fromkeys(row["order"] for row in rows))
        for order, colour in zip(orders, colormaps["viridis"](np.linspace(0.0, 0.8, len(orders))), strict=True):
            part = [row for row in rows if row["order"] == order]
            at, value = (np.array([float(row[name]) for row in part]) for name in ("distortion", "value"))
            label = {"1.0": "1: mutual information", "inf": "$\\infty$: maximal leakage"}.get(
                order, f"{float(order):g}"
            )
            axes.plot(at, value, "o", color=colour, ms=2.2)
            closed = np.array([float(row["closed"] or "nan") for row in part])
            axes.plot(at, np.where(np.isfinite(closed), closed, value), color=colour, lw=1.0, label=label)
        worst = max(float(row["gap"]) for row in rows)
        axes.set_title(
            f"Bernoulli(0.3), certified (gap at most {worst:.0e} nats);\nlines at orders 1 and $\\infty$: closed forms"
        )
        axes.set_xlabel("Hamming distortion P(Y $\\neq$ X)")
        axes.set_ylabel("maximal $\\alpha$-leakage (nats)")
        axes.set_xlim(0, None)
        axes.set_ylim(0, None)
        axes.legend(title="order $\\alpha$", loc="upper right")
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
