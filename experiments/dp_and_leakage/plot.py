"""Draws data/*.csv of run.py into docs/figures/dp-and-leakage.png: `python experiments/dp_and_leakage/plot.py`."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "dp-and-leakage.png"


def read(name: str) -> dict[str, dict[str, np.ndarray]]:
    """Columns of a table, for each eps as it is written."""
    with open(HERE / "data" / name, newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {
        eps: {
            column: np.array([float(row[column] or "nan") for row in rows if row["eps"] == eps]) for column in rows[0]
        }
        for eps in dict.fromkeys(row["eps"] for row in rows)
    }


def draw_noise(axes) -> None:
    """Top: exact leakage and the paper's bound."""
    from matplotlib.lines import Line2D

    tables = read("leakage.csv")
    for k, table in enumerate(tables.values()):
        axes.plot(table["n/k"], table["laplace"], color=f"C{k}")
        shown = table["bound"] > 0
        axes.plot(table["n/k"][shown], table["bound"][shown], color=f"C{k}", ls=(0, (3, 1.2)), lw=0.9)
    axes.plot(table["n/k"], table["all"], color="0.3", ls=(0, (1, 1.5)), lw=1.0)
    handles = [Line2D([], [], color=f"C{k}", label=f"$\\varepsilon$ = {eps}") for k, eps in enumerate(tables)]
    handles += [
        Line2D([], [], color="0.3", ls=(0, (1, 1.5)), lw=1.0, label="all of X"),
        Line2D([], [], color="0.3", label="exact"),
        Line2D([], [], color="0.3", ls=(0, (3, 1.2)), lw=0.9, label="bound of Theorem 4"),
    ]
    axes.legend(handles=handles, loc="upper left", labelspacing=0.25)
    axes.set_xscale("log")
    axes.set_xlim(1, 1e5)
    axes.set_ylim(0, 12.5)
    axes.set_xlabel("n/k: groups of k = 100 records")
    axes.set_ylabel("leakage I(S;Y) (nats)")
    axes.set_title("(a) Laplace noise, $\\varepsilon$-differentially private for every n")


def draw_optimal(axes) -> None:
    """Bottom: the least leakage at the same mean error."""
    from matplotlib.lines import Line2D

    tables = read("optimal.csv")
    for k, table in enumerate(tables.values()):
        axes.plot(table["n/k"], table["laplace"], color=f"C{k}")
        axes.plot(table["n/k"], table["optimal"], color=f"C{k}", ls="", marker="o", clip_on=False)
    handles = [Line2D([], [], color=f"C{k}", label=f"$\\varepsilon$ = {eps}") for k, eps in enumerate(tables)]
    handles += [
        Line2D([], [], color="0.3", label="Laplace noise"),
        Line2D([], [], color="0.3", ls="", marker="o", label="optimal mapping"),
    ]
    axes.legend(handles=handles, loc="upper left", labelspacing=0.25, ncols=2)
    axes.set_xscale("log", base=2)
    axes.set_xticks(table["n/k"], [f"{count:g}" for count in table["n/k"]])
    axes.minorticks_off()
    axes.set_ylim(0, 5.3)
    axes.set_xlabel("n/k: groups of k = 100 records")
    axes.set_ylabel("leakage I(S;Y) (nats)")
    axes.set_title("(b) Any mapping to multiples of k, same mean error 1/$\\varepsilon$")


def draw_recovery(axes) -> None:
    """The probability that all records are learnt."""
    for k, (eps, table) in enumerate(read("recovery.csv").items()):
        axes.plot(table["k"], table["laplace"], color=f"C{k}", label=f"$\\varepsilon$ = {eps}")
    axes.legend(loc="upper left")
    axes.set_xscale("log")
    axes.set_xlim(1, 1e4)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("k: records in a group, n = 10 000 k")
    axes.set_ylabel("probability")
    axes.set_title("(c) Ordered records: all n of them are recovered")


def main() -> None:
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 6.6))
        above, middle, below = figure.subplots(3, 1, height_ratios=(1.35, 1, 1))
        draw_noise(above)
        draw_optimal(middle)
        draw_recovery(below)
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
