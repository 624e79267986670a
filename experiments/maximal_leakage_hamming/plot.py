"""Draws data/curves.csv of run.py into docs/figures/maximal-leakage-hamming.png.

python experiments/maximal_leakage_hamming/plot.py
"""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "maximal-leakage-hamming.png"


def main() -> None:
    with open(HERE / "data" / "curves.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 2.9))
        axes = figure.subplots()
        for k, source in enumerate(dict.fromkeys(row["source"] for row in rows)):
            part = [row for row in rows if row["source"] == source]
            leakage, exact, value = np.array(
                [[float(row[name]) for name in ("leakage", "closed", "value")] for row in part]
            ).T
            axes.plot(exact, leakage, color=f"C{k}", lw=1.0, label=source)
            axes.plot(value, leakage, "o", color=f"C{k}", ms=2.4)
        worst = max(abs(float(row["difference"])) for row in rows)
        axes.set_title(
            f"Lines: closed form of Saeidian et al. 2021; points:\ncertified optima (apart by at most {worst:.0e})"
        )
        axes.set_xlabel("Hamming distortion P(Y $\\neq$ X)")
        axes.set_ylabel("maximal leakage (nats)")
        axes.set_xlim(0, None)
        axes.set_ylim(0, None)
        axes.legend(loc="upper right")
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
