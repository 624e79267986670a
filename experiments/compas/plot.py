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

        figure = Figure(figsize=(3.4, 5.4))
        axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(3.6, 1))
        i_0, i_1 = column(rows, "i_0"), column(rows, "i_1")
        counts = {code: column(rows, f"records_{code}") for code in (0, 1)}
        axes.plot(column(raw, "g_0"), column(raw, "g_1"), "o", ms=2, mec="none", color="C5", label="not normalised")
        axes.plot(i_0, i_1, color="0.2", lw=0.8, label="P(0) e$^{i(0,x)}$ + P(1) e$^{i(1,x)}$ = 1")
        size = 0.25 * (counts[0] + counts[1])
        axes.scatter(i_0, i_1, s=size, color="C0", lw=0, zorder=3, label="records (area: how many)")
        for level, style in ((EPSILON, "-"), (PAPER_EPSILON, "--")):
            axes.add_patch(Rectangle((-level, -level), 2 * level, 2 * level, fill=False, lw=0.8, ls=style, color="C1"))
            axes.annotate(
                f"$\\epsilon$ = {level}", (-level, -level), xytext=(2, 3), textcoords="offset points", fontsize=6.5
            )
        axes.set_xlim(-1.2, 0.95)
        axes.set_ylim(-2.2, 1.0)
        axes.set_ylabel("i(1, x) = ln P(s=1|x) / P(s=1) (nats)")
        axes.set_title(
            "COMPAS, estimated log-lift of each combination x\nof the 5278 records; one split of the records"
        )
        axes.legend(loc="lower left")
        for code, name in ((0, "African-American (s = 0)"), (1, "Caucasian (s = 1)")):
            edges = np.arange(-1.2, 0.55, 0.05)
            total, _ = np.histogram(i_0, edges, weights=counts[code])
            below.stairs(total, edges, color=f"C{2 * code}", label=name, lw=1.0)
        below.set_xticks(np.arange(-1.0, 0.6, 0.5))
        below.set_xlabel("i(0, x) = ln P(s=0|x) / P(s=0) (nats)")
        below.set_ylabel("records")
        below.legend(loc="upper left")
    plotting.save(figure, FIGURES / "compas-scatter.png")


def draw_tradeoff() -> None:
    """Fig. 2: utility against leakage on training and test rows, over the threshold."""
    rows = read("tradeoff.csv")
    with plotting.style():
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D

        figure = Figure(figsize=(3.4, 4.8))
        above, below = figure.subplots(2, 1)
        for name, colour in (("train", "C0"), ("test", "C1")):
            own = [row for row in rows if row["rows"] == name]
            utility, gamma = column(own, "utility"), column(own, "gamma")
            leakage, tight = column(own, "leakage"), column(own, "tight")
            above.plot(leakage, utility, color=colour)
            above.plot(gamma[np.isfinite(gamma)], utility[np.isfinite(gamma)], color=colour, ls=":")
            below.plot(column(own, "epsilon"), leakage, color=colour)
            known = np.isfinite(tight) & (column(own, "released") < 1)
            below.plot(column(own, "epsilon")[known], tight[known], color=colour, ls=":")
        handles = [Line2D([], [], color="C0", label="training rows"), Line2D([], [], color="C1", label="test rows")]
        formulas = ("$\\gamma$ of Hsu et al. 2019, Prop. 2", "tighter formula")
        for axes, formula in zip((above, below), formulas, strict=True):
            lines = [
                Line2D([], [], color="0.4", label="estimated leakage"),
                Line2D([], [], color="0.4", ls=":", label=formula),
            ]
            axes.legend(handles=handles + lines, loc="lower right")
        above.set_xlim(0, 2.5)
        above.set_title(
            "(a) Utility against leakage, by threshold $\\epsilon$; one split.\nCurves turn back: (b) is not monotone"
        )
        above.set_xlabel("lift leakage (nats)")
        above.set_ylabel("utility I(X;Y) (nats)")
        below.set_title(
            "(b) Leakage against the threshold. A larger $\\epsilon$ merges\nfewer records, which then leak more"
        )
        below.set_xlabel("threshold $\\epsilon$ (nats)")
        below.set_ylabel("lift leakage (nats)")
        below.set_xlim(0, 1.45)
        below.set_ylim(0, 2.5)
    plotting.save(figure, FIGURES / "compas-tradeoff.png")


if __name__ == "__main__":
    draw_scatter()
    draw_tradeoff()
