"""Draws data/curves.csv of run.py into docs/figures/ldp-optimum.png: `python experiments/ldp_optimum/plot.py`."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "ldp-optimum.png"


def main() -> None:
    with open(HERE / "data" / "curves.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with plotting.style():
        from matplotlib.figure import Figure

        sources = list(dict.fromkeys(row["source"] for row in rows))
        figure = Figure(figsize=(3.4, 1.2 + 1.5 * len(sources)))
        panels = figure.subplots(len(sources), 1, sharex=True)
        for axes, source in zip(panels, sources, strict=True):
            columns = ("eps", "value", "upper", "binary", "randomised_response")
            part = np.array([[float(row[name]) for name in columns] for row in rows if row["source"] == source])
            eps, value, _, binary, response = part.T
            axes.axhline(1.0, color="C0", lw=1.6, label="certified optimum")
            axes.plot(eps, binary / value, color="C1", marker="o", ms=2, lw=0.9, label="binary mechanism")
            axes.plot(eps, response / value, color="C2", marker="s", ms=2, lw=0.9, label="k-ary randomised response")
            axes.set_title(f"source: {source}")
            axes.set_ylabel("I(X;Y) / optimum")
            axes.set_ylim(0, 1.05)
        panels[-1].set_xlabel("local differential privacy $\\varepsilon$ (nats)")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
