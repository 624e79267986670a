"""Draws data/*.csv of run.py into docs/figures/compas-*.png: `python experiments/compas/plot.py`."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURES = HERE.parents[1] / "docs" / "figures"
EPSILON = 0.3
PAPER_EPSILON = 0.85


def read(name: str) -> list[dict[str, str]]:
    with open(HERE / "data" / name, newline="") as stream:
        return list(csv.DictReader(stream))


def column(rows: list[dict[str, str]], name: str) -> np.ndarray:
    return np.array([float(row[name]) for row in rows])


def draw_scatter() -> None:
    """Fig. 1: i(0,x) against i(1,x), and what a network gives before it is normalised."""
    rows, raw = read("scores.csv"), read("critic.csv")
    with plotting.style():
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle

        figure = Figure(figsize=(3.4, 3.3))
        axes = figure.subplots()
        axes.plot(
            column(raw, "g_0"),
            column(raw, "g_1"),
            "o",
            ms=1.8,
            mec="none",
            color="0.75",
            label="critic, not normalised",
        )
        for code, name, colour in ((0, "African-American (s = 0)", "C0"), (1, "Caucasian (s = 1)", "C1")):
            size = column(rows, f"records_{code}")
            shift = 0.012 * (1 - 2 * code)  # the two groups side by side: both lie on one curve
            axes.scatter(
                column(rows, "i_0") + shift,
                column(rows, "i_1") + shift,
                s=0.35 * size,
                color=colour,
                alpha=0.75,
                lw=0,
                label=name,
            )
        for level, style in ((EPSILON, "-"), (PAPER_EPSILON, "--")):
            axes.add_patch(Rectangle((-level, -level), 2 * level, 2 * level, fill=False, lw=0.8, ls=style, color="0.2"))
            axes.annotate(
                f"$\\epsilon$ = {level}", (-level, -level), xytext=(2, 2), textcoords="offset points", fontsize=6.5
            )
        axes.set_xlim(-1.25, 1.05)
        axes.set_ylim(-1.05, 1.25)
        axes.set_aspect("equal")
        axes.set_xlabel("i(0, x) (nats)")
        axes.set_ylabel("i(1, x) (nats)")
        figure.legend(loc="outside upper center", ncols=2, columnspacing=1.0, markerscale=1.0)
    plotting.save(figure, FIGURES / "compas-scatter.png")


def draw_tradeoff() -> None:
    """Fig. 2: utility against leakage on training and test rows, over the threshold."""
    rows = read("tradeoff.csv")
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 4.2))
        above, below = figure.subplots(2, 1)
        for name, colour in (("train", "C0"), ("test", "C1")):
            own = [row for row in rows if row["rows"] == name]
            utility, gamma = column(own, "utility"), column(own, "gamma")
            leakage, tight = column(own, "leakage"), column(own, "tight")
            above.plot(leakage, utility, color=colour, label=f"{name} rows: estimated leakage")
            finite = np.isfinite(gamma)
            above.plot(
                gamma[finite], utility[finite], color=colour, ls=":", label=f"{name} rows: formula for $\\gamma$"
            )
            below.plot(column(own, "epsilon"), leakage, color=colour, label=f"{name} rows: leakage")
            known = np.isfinite(tight) & (column(own, "released") < 1)
            below.plot(
                column(own, "epsilon")[known], tight[known], color=colour, ls=":", label=f"{name} rows: tighter formula"
            )
        above.set_xlim(0, 2.5)
        above.set_xlabel("lift leakage (nats)")
        above.set_ylabel("utility I(X;Y) (nats)")
        above.legend(loc="lower right")
        below.set_xlabel("threshold $\\epsilon$ (nats)")
        below.set_ylabel("lift leakage (nats)")
        below.set_ylim(0, 2.5)
        below.legend(loc="upper left", ncols=1)
    plotting.save(figure, FIGURES / "compas-tradeoff.png")


if __name__ == "__main__":
    draw_scatter()
    draw_tradeoff()
