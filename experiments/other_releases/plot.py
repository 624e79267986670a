"""Draws data/excess.csv of run.py into docs/figures/other-releases.png: `python experiments/other_releases/plot.py`."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "other-releases.png"


def main() -> None:
    with open(HERE / "data" / "excess.csv", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["at"] == "disclosure"]
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 2.2))
        axes = figure.subplots()
        places = np.arange(len(rows))[::-1]
        leaked, least = (np.array([float(row[name]) for row in rows]) for name in ("leakage", "optimum"))
        axes.barh(places + 0.18, leaked, height=0.34, color="C1", label="this release")
        axes.barh(places - 0.18, least, height=0.34, color="C0", label="certified optimum")
        for place, one, row in zip(places, least, rows, strict=True):
            axes.annotate(
                f"{one:.1g} nats" if one > 1e-6 else "optimum: at most 1e-6 nats",
                (one, place - 0.18),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize=6,
            )
            assert row["status"] == "optimal"
        names = [f"{row['release']}\nI(X;Y) = {float(row['disclosure']):.2f} nats" for row in rows]
        axes.set_yticks(places, names)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("I(S;Y) (nats), S = income")
        axes.set_title("Census, at the same I(X;Y)")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
