"""Draws data/*.csv of run.py into docs/figures/counting-query.png: `python experiments/counting_query/plot.py`."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "counting-query.png"
SHOWN = 0.3, 8  # of posteriors.csv: p and the result y


def read(name: str) -> list[dict[str, str]]:
    with open(HERE / "data" / name, newline="") as stream:
        return list(csv.DictReader(stream))


def column(rows: list[dict[str, str]], name: str) -> np.ndarray:
    return np.array([float(row[name]) for row in rows])


def draw_curve(axes, n: str, p: str) -> None:
    """Leakage against error, the optimum and the noises at its errors."""
    rows = [row for row in read("frontier.csv") if (row["n"], row["p"]) == (n, p)]
    error = column(rows, "error")
    for name, label, style in (
        ("laplace", "Laplace noise", {"color": "C1", "marker": "."}),
        ("geometric", "geometric noise, clamped to 0..n", {"color": "C2", "marker": ".", "ls": (0, (3, 1.2))}),
        ("clamped", "geometric, clamped to best interval", {"color": "C3", "marker": "s", "ms": 2.2, "lw": 0.8}),
    ):
        axes.plot(error, column(rows, name), label=label, **style)
    certified = [row["status"] == "optimal" for row in rows]
    assert all(certified), "a point is not certified"
    axes.plot(error, column(rows, "leakage"), color="C0", marker="o", lw=0.8, label="optimal mapping (certified)")
    axes.set_yscale("log")
    axes.set_xlim(left=0)
    axes.set_xlabel("mean absolute error of the count (records)")
    axes.set_ylabel("max information\nleakage (nats)")


def draw_posteriors(axes) -> None:
    """P(X | Y = y) for one result y, beside zeta."""
    rows = [row for row in read("posteriors.csv") if (float(row["p"]), int(row["y"])) == SHOWN]
    for kind, label, style in (
        ("optimal", "optimal mapping", {"color": "C0", "marker": "o"}),
        ("geometric", "geometric noise", {"color": "C2", "marker": "s", "ms": 2.2}),
        ("laplace", "Laplace noise", {"color": "C1", "ls": (0, (3, 1.2))}),
    ):
        part = [row for row in rows if row["mechanism"] == kind]
        leaked = float(part[0]["leakage"])
        shown = f"{leaked:.2f}".replace("-", "\u2212")
        axes.plot(column(part, "x"), column(part, "posterior"), lw=0.9, label=f"{label}: {shown} nats", **style)
    axes.plot(
        column(part, "x"),
        column(part, "zeta"),
        color="0.3",
        ls=(0, (3, 1.2)),
        lw=1.0,
        label="$\\zeta(x) \\propto C(n, x)$",
    )
    axes.plot(column(part, "x"), column(part, "prior"), color="0.3", ls=(0, (1, 1.5)), lw=1.0, label="prior P(X)")
    axes.legend(loc="upper right")
    axes.set_xlabel("count x")
    axes.set_ylabel(f"P(X = x | Y = {SHOWN[1]})")


def main() -> None:
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 6.4))
        small, large, posteriors = figure.subplots(3, 1)
        draw_curve(small, "30", "0.3")
        small.legend(loc="lower left", fontsize=6, labelspacing=0.2)
        small.set_title("(a) n = 30 records, p = 0.3")
        draw_curve(large, "1000", "0.5")
        large.legend(loc="upper right")
        large.set_title("(b) n = 1000 records, p = 0.5")
        draw_posteriors(posteriors)
        posteriors.set_title("(c) n = 30, p = 0.3: at equal mean error")
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
