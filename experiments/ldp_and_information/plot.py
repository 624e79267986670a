"""Draws data/*.csv of run.py into docs/figures/ldp-and-information.png:
`python experiments/ldp_and_information/plot.py`.
"""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "ldp-and-information.png"
SIZE = "6"
FAMILIES = {
    "correlated 0.3": "S = X with probability 0.3",
    "correlated 0.6": "0.6",
    "correlated 0.9": "0.9",
    "dirichlet": "Dirichlet(1/2)",
}


def read(optimised: str, measured: str) -> dict[str, dict[str, np.ndarray]]:
    """For each family of six symbols the shares and the quantiles of the factor."""
    with open(HERE / "data" / "factors.csv", newline="") as stream:
        rows = [
            row
            for row in csv.DictReader(stream)
            if (row["optimised"], row["measured"], row["size"]) == (optimised, measured, SIZE)
        ]
    return {
        family: {
            column: np.array([float(row[column]) for row in rows if row["family"] == family])
            for column in ("share", "q10", "median", "q90")
        }
        for family in FAMILIES
    }


def draw(axes, optimised: str, measured: str, title: str, ylabel: str) -> None:
    for k, (family, table) in enumerate(read(optimised, measured).items()):
        axes.plot(table["share"], table["median"], color=f"C{k}", marker="o", ms=2.5, label=FAMILIES[family])
        axes.fill_between(table["share"], table["q10"], table["q90"], color=f"C{k}", alpha=0.15, lw=0)
    axes.set_yscale("log")
    axes.set_ylabel(ylabel)
    axes.set_title(title)


def main() -> None:
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 4.6))
        above, below = figure.subplots(2, 1, sharex=True)
        draw(above, "ldp", "mutual-information", "(a) information, where $\\varepsilon$ is least", "I(S;Y) / its least")
        draw(
            below, "mutual-information", "ldp", "(b) privacy loss, where I(S;Y) is least", "$\\varepsilon$ / its least"
        )
        below.set_xlabel("budget as a share of the distortion of the best constant")
        above.legend(loc="upper left", labelspacing=0.25, title="joints of 6 symbols; band: 10 to 90 %")
        for axes, ticks in ((above, [1, 1.5, 2, 3]), (below, [1.5, 2, 3, 4, 6])):
            axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
