"""Draws data/*.csv of run.py into docs/figures/guarantees.png: `python experiments/guarantees/plot.py`."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "guarantees.png"
KINDS = {
    "mutual-information": "average information",
    "max-information": "max information",
    "maximal-leakage": "maximal leakage",
    "lift": "lift",
    "inferential": "inferential (LDP)",
}
PANELS = {
    "mutual-information": "average information (nats)",
    "max-information": "max information (nats)",
    "maximal-leakage": "maximal leakage (nats)",
    "correct-guess": "P(S guessed correctly)",
    "lift": "lift (nats)",
    "inferential": "inferential privacy (nats)",
}
RATIOS = ("lift", "inferential")


def draw(axes, rows: list[dict[str, str]], measure: str) -> None:
    """One measure of all mappings; infinite values as crosses above a dashed line."""
    table = {
        kind: np.array(
            [[float(r["error"]), float(r["value"])] for r in rows if (r["kind"], r["measure"]) == (kind, measure)]
        )
        for kind in KINDS
    }
    finite = [part[np.isfinite(part[:, 1]), 1] for part in table.values()]
    top = max(values.max() for values in finite if values.size)
    infinite = any(len(part) > len(values) for part, values in zip(table.values(), finite, strict=True))
    for k, (kind, part) in enumerate(table.items()):
        order = np.argsort(part[:, 0])
        error, value = part[order].T
        known = np.isfinite(value)
        style = {"color": f"C{k}"}
        width = 1.8 if kind == measure else 0.8
        axes.plot(error[known], value[known], marker="o", ms=1.8, lw=width, zorder=3 + (kind == measure), **style)
        axes.plot(error[~known], np.full((~known).sum(), 1.12 * top), ls="", marker="x", ms=3.5, **style)
    axes.set_ylim(min(0.0, min(v.min() for v in finite if v.size)), top * (1.18 if infinite else 1.03))
    if infinite:
        axes.axhline(1.05 * top, color="0.5", lw=0.6, ls=(0, (3, 1.2)))
        note = axes.annotate(
            "$\\infty$", (0.97, 1.12 * top), xycoords=("axes fraction", "data"), va="center", ha="right"
        )
        note.set_in_layout(False)
    axes.set_xlim(-0.03, 1.2)
    axes.set_ylabel(PANELS[measure])


def main() -> None:
    with open(HERE / "data" / "measures.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with plotting.style():
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D

        figure = Figure(figsize=(3.4, 5.8))
        grid = figure.add_gridspec(4, 2, height_ratios=(0.42, 1, 1, 1))
        legend = figure.add_subplot(grid[0, :])
        legend.set_axis_off()
        panels = np.array([[figure.add_subplot(grid[row, k]) for k in range(2)] for row in (1, 2, 3)])
        for axes, measure in zip(panels.flat, PANELS, strict=True):
            draw(axes, rows, measure)
        for axes in panels[-1]:
            axes.set_xlabel("mean changed attributes")
        handles = [
            Line2D([], [], color=f"C{k}", marker="o", ms=1.8, label=label) for k, label in enumerate(KINDS.values())
        ]
        handles.append(Line2D([], [], color="0.3", lw=1.8, label="thick: the panel's own measure"))
        legend.legend(handles=handles, title="mapping that is optimal for", loc="center", ncols=2)
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
