"""Draws data/*.csv of run.py into docs/figures/cost-bound.png: `python experiments/cost_bound/plot.py`.

Gains below the axis are not drawn: after a nearly useless output the best announcement often stays what it was, and
the gain is 0.
"""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "cost-bound.png"
COSTS = {
    "zero-one": "zero-one loss",
    "brier": "Brier loss",
    "random": "random cost",
    "worst": "its worst cost",
}
FORMS = {
    "average": ("average gain / L", "x = I(S;Y) (nats)"),
    "maximum": ("largest gain / L", "x = max$_y$ D(P$_{S|y}$ || P$_S$) (nats)"),
}
PANELS = {
    "average": "(a) Average gain of costs |C| ≤ L",
    "maximum": "(b) Gain from the worst output",
}
LEAST = 1e-6


def table(name: str) -> list[dict[str, str]]:
    with open(HERE / "data" / name, newline="") as stream:
        return list(csv.DictReader(stream))


def main() -> None:
    gains, tight = table("gains.csv"), table("tight.csv")
    family = np.array([[float(row["leakage_nats"]), float(row["gain_over_L"])] for row in tight]).T
    with plotting.style():
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D

        figure = Figure(figsize=(3.4, 5.6))
        grid = figure.add_gridspec(3, 1, height_ratios=(0.36, 1, 1))
        legend = figure.add_subplot(grid[0])
        legend.set_axis_off()
        panels = [figure.add_subplot(grid[row]) for row in (1, 2)]
        line = np.geomspace(LEAST, 10, 200)
        for axes, (form, (gain, leakage)) in zip(panels, FORMS.items(), strict=True):
            for k, cost in enumerate(COSTS):
                part = np.array(
                    [
                        [float(row["leakage_nats"]), float(row["gain_over_L"])]
                        for row in gains
                        if (row["form"], row["cost"]) == (form, cost)
                    ]
                ).T
                axes.plot(*part, ls="", marker="o", ms=1.5, mew=0, alpha=0.7, color=f"C{k}")
            axes.plot(*family, ls="", marker="D", ms=3, mfc="none", mew=0.6, color="0.3", zorder=4)
            axes.plot(line, np.minimum(np.sqrt(2 * line), 2), color="black", lw=1.1, zorder=3)
            axes.plot(line, 2 * np.sqrt(2 * line), color="black", lw=0.9, ls=(0, (4, 1.5)), zorder=3)
            axes.set(xscale="log", yscale="log", xlim=(LEAST, 10), ylim=(1e-4, 10), xlabel=leakage)
            axes.set_ylabel(gain)
            axes.set_title(PANELS[form])
        handles = [
            Line2D([], [], color="black", lw=1.1, label="proved bound: least of $\\sqrt{2x}$ and 2"),
            Line2D([], [], color="black", lw=0.9, ls=(0, (4, 1.5)), label="Makhdoumi et al., Thm 1: $2\\sqrt{2x}$"),
            *(
                Line2D([], [], ls="", marker="o", ms=3, mew=0, color=f"C{k}", label=name)
                for k, name in enumerate(COSTS.values())
            ),
            Line2D([], [], ls="", marker="D", ms=3, mfc="none", mew=0.6, color="0.3", label="fair bit, 1/2 ± e"),
        ]
        legend.legend(handles=handles, loc="center", ncols=2)
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
