"""Draws data/binary.csv of run.py into docs/figures/binary-funnel.png: `python experiments/binary_funnel/plot.py`."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "binary-funnel.png"


def numbers(rows: list[dict[str, str]], *columns: str) -> np.ndarray:
    return np.array([[float(row[column]) for column in columns] for row in rows]).T


def closed_forms(axes, rows: list[dict[str, str]]) -> None:
    """Lines of the closed forms, points of the solver."""
    pairs = dict.fromkeys((row["p"], row["delta"]) for row in rows)
    for k, (p, delta) in enumerate(pairs):
        for side, dashes in (("most", (0, (4, 1.5))), ("least", "-")):
            part = [row for row in rows if (row["boundary"], row["p"], row["delta"]) == (side, p, delta)]
            if part:
                rate, closed, reached = numbers(part, "R", "closed", "reached")
                label = f"{p.lstrip('0')}, {delta.lstrip('0')}" if side == "least" else None
                axes.plot(np.append(rate, 0.0), np.append(closed, 0.0), color=f"C{k}", lw=0.9, ls=dashes, label=label)
                axes.plot(rate, reached, ls="", marker="o", ms=2, mew=0, color=f"C{k}")
    worst = max(abs(float(row["difference"])) for row in rows)
    digits, power = f"{worst:.0e}".split("e")
    axes.set(xlabel="I(X;Y) (nats)", ylabel="I(S;Y) (nats)", xlim=(0, 0.71), ylim=(0, 0.57))
    apart = f"apart by at most ${digits}\\cdot10^{{{int(power)}}}$ nats"
    axes.set_title(f"Binary pairs: lines closed form, points solver\n({apart})")
    axes.legend(title="p, $\\delta$ (dashed: most)", loc="upper left")


def main() -> None:
    with open(HERE / "data" / "binary.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 2.6))
        closed_forms(figure.subplots(), rows)
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
