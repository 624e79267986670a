"""Draws data/curves.csv of run.py into docs/figures/rate-distortion.png.

python experiments/rate_distortion/plot.py
"""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "rate-distortion.png"


def main() -> None:
    with open(HERE / "data" / "curves.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 3.6))
        axes = figure.subplots()
        for k, family in enumerate(dict.fromkeys(row["family"] for row in rows)):
            columns = ("distortion", "closed", "value")
            at, closed, value = np.array(
                [[float(row[name]) for name in columns] for row in rows if row["family"] == family]
            ).T
            axes.plot(at, closed, color=f"C{k}", lw=1.0, label=family)
            axes.plot(at, value, "o", color=f"C{k}", ms=2.4)
        worst = max(float(row["gap"]) for row in rows)
        axes.set_title(
            f"Points: certified optima (gap at most {worst:.0e} nats);\nlines: closed forms (grids: continuous source)"
        )
        axes.set_xlabel("distortion D")
        axes.set_ylabel("rate R(D) (nats)")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, None)
        axes.legend(loc="upper right")
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
