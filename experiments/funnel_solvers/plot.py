"""Draws data/leakage.csv of run.py into docs/figures/funnel-solvers.png.

python experiments/funnel_solvers/plot.py
"""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "funnel-solvers.png"
METHODS = ("greedy", "greedy-ratio", "difference-of-convex", "alternating")
# Methods that reach the optimum at most places, and the size of their open markers.
NEAR = {"difference-of-convex": 5.0, "alternating": 6.5}
# Below this leakage is drawn on the lower edge.
FAINTEST = 1e-7


def main() -> None:
    with open(HERE / "data" / "leakage.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 3.4))
        axes = figure.subplots()
        rate = np.array([float(row["R"]) for row in rows])
        least = np.array([float(row["value"]) for row in rows])
        style = {**plotting.solver_style("column-generation"), "lw": 1.6}
        axes.plot(rate, np.maximum(least, FAINTEST), label="certified least", **style)
        for method in METHODS:
            value = np.array([float(row[method]) for row in rows])
            look = {**plotting.solver_style(method), "lw": 0.8, "ms": 2.8}
            if method in NEAR:  # points around those of the optimum, on which they lie
                look |= {"ls": "", "mfc": "none", "ms": NEAR[method], "mew": 0.9}
            axes.plot(rate, np.maximum(value, FAINTEST), label=method, **look)
        axes.set_yscale("log")
        axes.set_xlabel("I(X;Y) (nats)")
        axes.set_ylabel("I(S;Y) (nats)")
        axes.set_ylim(FAINTEST, 0.3)
        axes.set_title("Heart disease, 4 private and 8 useful symbols")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
