"""Draws data/progress.csv of run.py into docs/figures/convergence.png: `python experiments/convergence/plot.py`."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "convergence.png"
PANELS = {"above": "value minus optimum (nats)", "below": "optimum minus bound (nats)"}
# Distances below this are drawn on the lower edge.
FAINTEST = 1e-10


def main() -> None:
    with open(HERE / "data" / "progress.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 4.2))
        panels = figure.subplots(2, 1, sharex=True)
        for axes, (column, label) in zip(panels, PANELS.items(), strict=True):
            for method in dict.fromkeys(row["method"] for row in rows):
                part = [row for row in rows if row["method"] == method]
                seconds, apart = (
                    np.array([float(row[name]) for row in part]) for name in ("processor_seconds", column)
                )
                look = {**plotting.solver_style(method), "ms": 2.6, "lw": 0.9}
                axes.plot(seconds, np.maximum(apart, FAINTEST), label=method, **look)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_ylabel(label)
            axes.set_ylim(bottom=FAINTEST)
        panels[0].set_title("48 private and 48 useful symbols, one budget")
        panels[1].set_xlabel("processor seconds")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
