"""Draws data/curves.csv of run.py into docs/figures/pml-optimum.png: `python experiments/pml_optimum/plot.py`."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "pml-optimum.png"


def main() -> None:
    with open(HERE / "data" / "curves.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with plotting.style():
        from matplotlib.figure import Figure

        sources = list(dict.fromkeys(row["source"] for row in rows))
        figure = Figure(figsize=(3.4, 4.4))
        panels = figure.subplots(len(sources), 1)
        for axes, source in zip(panels, sources, strict=True):
            columns = ("limit", "value", "closed", "randomised_response")
            part = np.array([[float(row[name]) for name in columns] for row in rows if row["source"] == source])
            limit, value, exact, response = part.T
            axes.plot(limit, value, "o", color="C0", ms=2.4, label="certified optimum")
            if np.isfinite(exact).all():
                axes.plot(limit, exact, color="C0", lw=0.8, label="closed form")
            axes.plot(limit, response, color="C1", lw=1.0, ls=(0, (4, 1.5)), label="randomised response")
            axes.set_title(f"source: {source}")
            axes.set_ylabel("I(X;Y) (nats)")
            axes.set_xlim(0, None)
            axes.set_ylim(0, None)
            axes.set_xlabel("pointwise maximal leakage (nats)")
            axes.legend(loc="upper left")
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
