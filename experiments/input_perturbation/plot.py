"""Draws data/curves.csv of run.py into docs/figures/input-perturbation.png."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "input-perturbation.png"


def main() -> None:
    with open(HERE / "data" / "curves.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    table = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 4.2))
        above, below = figure.subplots(2, 1, height_ratios=(1.5, 1))
        for name, label, style in (
            ("response", "input: randomised response", {"color": "C1", "ls": (0, (3, 1.2))}),
            ("input", "input: best mapping of records", {"color": "C1", "marker": "s", "ms": 2.4}),
            ("geometric", "output: geometric noise", {"color": "C0", "ls": (0, (3, 1.2))}),
            ("output", "output: best mapping", {"color": "C0", "marker": "o"}),
        ):
            above.plot(table["error"], table[name], label=label, **style)
        above.set_yscale("log")
        above.legend(loc="lower left")
        above.set_ylabel("leakage I(S;U) (nats)")
        above.set_title("(a) A count of 30 records, at equal mean error")
        below.plot(table["error"], table["lost"], color="C2", marker="o", label="1 becomes 0")
        below.plot(table["error"], table["gained"], color="C3", marker="s", ms=2.4, label="0 becomes 1")
        below.legend(loc="upper left")
        below.set_ylim(bottom=0)
        below.set_xlabel("mean absolute error of the count (records)")
        below.set_ylabel("probability")
        below.set_title("(b) The best mapping of records, P(1) = 0.3")
        for axes in (above, below):
            axes.set_xlim(left=0)
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
