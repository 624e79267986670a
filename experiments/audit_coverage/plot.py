"""Draws data/*.csv of run.py into docs/figures/audit-coverage.png: `python experiments/audit_coverage/plot.py`."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "audit-coverage.png"
# Colour, marker, and a factor of the number of records: series that coincide are drawn beside each other.
METHODS = {
    "plug-in": ("C1", "o", 1.0),
    "asymptotic": ("C4", "v", 0.85),
    "L1 ball": ("C2", "s", 1.0),
    "held out": ("C3", "D", 1.18),
    "all sets": ("C0", "^", 1.0),
}
LABELS = {
    "plug-in": "plug-in (no bound)",
    "asymptotic": "normal limit (no bound)",
    "L1 ball": "one L1 ball",
    "held out": "audit, held-out counts",
    "all sets": "audit, any mechanism",
}
MEASURES = {"mutual-information": "mutual information", "maximal-leakage": "maximal leakage"}
NOMINAL = 0.95


def read(name: str) -> list[dict[str, str]]:
    with open(HERE / "data" / name, newline="") as stream:
        return list(csv.DictReader(stream))


def numbers(rows: list[dict[str, str]], *columns: str) -> np.ndarray:
    return np.array([[float(row[column]) for column in columns] for row in rows]).T


def draw_bounds(axes, rows: list[dict[str, str]]) -> None:
    for method, (colour, marker, aside) in METHODS.items():
        part = [row for row in rows if row["method"] == method]
        if part:
            n, low, middle, high = numbers(part, "records", "low", "median", "high")
            n = aside * n
            axes.plot(n, middle, color=colour, marker=marker, ms=2.2, lw=1.0, zorder=3)
            axes.fill_between(n, low, high, color=colour, alpha=0.2, lw=0)
    (truth, cap) = numbers(rows[:1], "truth", "cap")
    axes.axhline(truth[0], color="0.15", lw=0.8, ls=(0, (4, 1.5)))
    axes.axhline(cap[0], color="0.55", lw=0.8, ls=(0, (1, 1.2)))
    axes.set_ylim(0.9 * truth[0], None)


def draw_coverage(axes, rows: list[dict[str, str]]) -> None:
    for method, (colour, marker, aside) in METHODS.items():
        part = [row for row in rows if row["method"] == method]
        if part:
            n, missed, repeats = numbers(part, "records", "missed", "repeats")
            axes.plot(aside * n, 100 * (1 - missed / repeats), color=colour, marker=marker, ms=2.2, lw=1.0, zorder=3)
    axes.axhline(100 * NOMINAL, color="0.15", lw=0.7, ls=(0, (2, 1.2)))
    axes.annotate(
        "dotted: 95 % required", (0.03, 4), xycoords=("axes fraction", "data"), fontsize=6, va="bottom", color="0.15"
    )
    axes.set_ylim(0, 108)


def draw_pairs(axes, rows: list[dict[str, str]]) -> None:
    styles = {"upper": ("C0", "^"), "Miller-Madow": ("C1", "o"), "lower": ("C3", "v")}
    for method, (colour, marker) in styles.items():
        part = [row for row in rows if row["method"] == method]
        n, low, middle, high = numbers(part, "pairs", "low", "median", "high")
        label = {"upper": "upper bound", "lower": "lower bound", "Miller-Madow": "Miller-Madow (no bound)"}[method]
        axes.plot(n, middle, color=colour, marker=marker, ms=2.2, lw=1.0, label=label)
        axes.fill_between(n, low, high, color=colour, alpha=0.2, lw=0)
    axes.axhline(float(rows[0]["truth"]), color="0.15", lw=0.8, ls=(0, (4, 1.5)))
    axes.legend(loc="upper right")


def main() -> None:
    rows = read("mechanism.csv")
    with plotting.style():
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D

        figure = Figure(figsize=(3.4, 5.4))
        grid = figure.add_gridspec(4, 2, height_ratios=(0.36, 1.15, 0.8, 1.0))
        legend = figure.add_subplot(grid[0, :])
        legend.set_axis_off()
        for column, (measure, title) in enumerate(MEASURES.items()):
            part = [row for row in rows if row["measure"] == measure]
            top, below = (figure.add_subplot(grid[row, column]) for row in (1, 2))
            draw_bounds(top, part)
            draw_coverage(below, part)
            top.set_title(title)
            for axes in (top, below):
                axes.set_xscale("log")
            top.tick_params(labelbottom=False)
            below.set_xlabel("records n")
            if column == 0:
                top.set_ylabel("bound (nats): median,\n5 to 95 %")
                below.set_ylabel("repeats with a bound\nat or above truth (%)")
        pairs = figure.add_subplot(grid[3, :])
        draw_pairs(pairs, read("black_box.csv"))
        pairs.set_xscale("log")
        pairs.set_xlabel("pairs n of (income, age group)")
        pairs.set_ylabel("mutual information (nats)")
        pairs.set_title("unknown mechanism, released pairs alone")
        handles = [
            Line2D([], [], color=colour, marker=marker, ms=2.2, lw=1.0, label=LABELS[method])
            for method, (colour, marker, _) in METHODS.items()
        ]
        handles += [
            Line2D([], [], color="0.15", lw=0.8, ls=(0, (4, 1.5)), label="truth"),
            Line2D([], [], color="0.55", lw=0.8, ls=(0, (1, 1.2)), label="cap (no data)"),
        ]
        legend.legend(handles=handles, loc="center", ncols=2)
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
