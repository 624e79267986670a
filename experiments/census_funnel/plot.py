"""Draws data/*.csv of run.py into docs/figures/census-funnel.png: `python experiments/census_funnel/plot.py`."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "census-funnel.png"
TITLES = {
    "documented": "age by decades, 4 levels of education",
    "bachelor": "bachelor or not",
    "income": "income alone is private",
    "five-years": "ages by 5 years",
    "degrees": "16 levels of education",
}
CERTIFIED = {"most": ("most: certified", "C1"), "least": ("least: certified", "C0")}
LEGEND = (
    *("possible", "most: certified", "least: certified", "elementary bounds"),
    *("greedy, Algorithms 1 and 2", "greedy with time sharing", "random erasure", "attributes dropped"),
)


def table(name: str) -> list[dict[str, str]]:
    with open(HERE / "data" / name, newline="") as stream:
        return list(csv.DictReader(stream))


def numbers(rows: list[dict[str, str]], *columns: str) -> np.ndarray:
    return np.array([[float(row[column]) for column in columns] for row in rows]).T


def draw(axes, name: str, boundaries: list[dict[str, str]], greedy: list[dict[str, str]], dropping) -> None:
    """Both boundaries of one binning and what else is known of the region between them."""
    rows = {
        side: [row for row in boundaries if (row["binning"], row["boundary"]) == (name, side)] for side in CERTIFIED
    }
    ends = {side: numbers(part, "R", "reached", "elementary", "greedy_shared") for side, part in rows.items()}
    at = np.union1d(ends["least"][0], ends["most"][0])
    low, high = (np.interp(at, [0.0, *ends[side][0]], [0.0, *ends[side][1]]) for side in ("least", "most"))
    axes.fill_between(at, low, high, color="0.9", lw=0, label="possible")
    for side, (label, color) in CERTIFIED.items():
        r, reached, elementary, shared = (np.concatenate([[0.0], values]) for values in ends[side])
        axes.plot(r, reached, color=color, lw=1.6, zorder=4, label=label)
        one = {"label": "elementary bounds"} if side == "most" else {}
        axes.plot(r, elementary, color="k", lw=0.6, ls=(0, (1, 1.5)), zorder=5, **one)
        points = numbers(
            [row for row in greedy if (row["binning"], row["boundary"]) == (name, side)], "disclosure", "leakage"
        )
        one = {"label": "greedy, Algorithms 1 and 2"} if side == "most" else {}
        axes.plot(*points, ls="", marker="o", ms=1.6, mew=0, color="C2", zorder=3, **one)
        one = {"label": "greedy with time sharing"} if side == "most" else {}
        axes.plot(r, shared, color="C2", lw=0.8, zorder=3, **one)
    axes.plot(*numbers(rows["most"], "R", "erasure"), color="0.5", lw=0.8, ls=(0, (4, 1.5)), label="random erasure")
    points = numbers([row for row in dropping if row["binning"] == name], "disclosure", "leakage")
    axes.plot(*points, ls="", marker="D", ms=2.6, mew=0, color="C3", zorder=6, label="attributes dropped")
    axes.set(xlim=(0, at[-1]), ylim=(0, 1.02 * high.max()))


def main() -> None:
    boundaries, greedy, dropping = table("boundaries.csv"), table("greedy.csv"), table("dropping.csv")
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 6.0))
        grid = figure.add_gridspec(4, 2, height_ratios=(0.38, 1.7, 1, 1))
        legend, main_axes = figure.add_subplot(grid[0, :]), figure.add_subplot(grid[1, :])
        legend.set_axis_off()
        others = [figure.add_subplot(grid[row, k]) for row in (2, 3) for k in range(2)]
        for axes, (name, title) in zip([main_axes, *others], TITLES.items(), strict=True):
            axes.set_title(title, fontsize=7)
            if any(row["binning"] == name for row in boundaries):
                draw(axes, name, boundaries, greedy, dropping)
            else:
                axes.set_axis_off()
                axes.text(0.5, 0.5, "needs the raw files", transform=axes.transAxes, ha="center", fontsize=7)
        main_axes.set(xlabel="I(X;Y) (nats)", ylabel="I(S;Y) (nats)")
        for axes in others[2:]:
            axes.set_xlabel("I(X;Y) (nats)")
        for axes in others[::2]:
            axes.set_ylabel("I(S;Y) (nats)")
        handles, labels = main_axes.get_legend_handles_labels()
        order = [labels.index(label) for label in LEGEND]
        legend.legend([handles[k] for k in order], LEGEND, loc="center", ncols=2)
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
