"""Draws data/boundary.csv of run.py into docs/figures/census-three-private.png.

python experiments/census_three_private/plot.py
"""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "census-three-private.png"


def main() -> None:
    with open(HERE / "data" / "boundary.csv", newline="") as stream:
        rows = sorted(csv.DictReader(stream), key=lambda row: float(row["R"]))
    names = ("R", "reached", "proved", "greedy", "greedy_shared", "elementary")
    rate, reached, proved, greedy, shared, elementary = (np.array([float(row[name]) for row in rows]) for name in names)
    worst = float((reached - proved).max())
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 2.8))
        axes = figure.subplots()
        axes.plot(rate, greedy, "D", mfc="white", mec="C1", ms=3.2, mew=0.8, label="greedy")
        axes.plot(rate, shared, color="C1", lw=0.8, ls="--", label="greedy, time sharing")
        axes.plot(rate, reached, "o-", color="C0", ms=2.8, lw=0.9, label=f"least (proved to {worst:.0e} nats)")
        axes.plot(rate, elementary, color="0.4", lw=0.8, label="R - H(X|S)")
        axes.set(xlabel="I(X;Y) (nats)", ylabel="I(S;Y) (nats)", ylim=(0, None))
        axes.set_title("Census: income, sex and race are private")
        axes.legend(loc="upper left")
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
