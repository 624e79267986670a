"""Draws data/*.csv of run.py into docs/figures/heart-funnel.png: `python experiments/heart_funnel/plot.py`."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "heart-funnel.png"
# Below this the least boundary is drawn as zero.
FAINTEST = 1e-6


def table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def numbers(rows: list[dict[str, str]], *columns: str) -> np.ndarray:
    return np.array([[float(row[column]) for column in columns] for row in rows]).T


def main() -> None:
    rows = table(HERE / "data" / "boundaries.csv")
    least, most = ([row for row in rows if row["boundary"] == side] for side in ("least", "most"))
    silent = float(table(HERE / "data" / "silent.csv")[0]["disclosure"])
    corners = table(HERE / "data" / "partitions.csv")
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 5.2))
        key, above, middle = figure.subplots(3, 1, height_ratios=(0.3, 1.15, 1))
        key.set_axis_off()
        rate, lowest, greedy, shared = numbers(least, "R", "reached", "greedy", "partitions_shared")
        at, highest, erasure = numbers(most, "R", "reached", "erasure")
        zero = np.zeros(1)
        above.fill_between(
            np.concatenate([zero, rate]),
            np.concatenate([zero, lowest]),
            np.concatenate([zero, highest]),
            color="0.9",
            lw=0,
            label="possible",
        )
        above.plot(
            np.concatenate([zero, at]), np.concatenate([zero, highest]), color="C1", lw=1.6, label="most: certified"
        )
        above.plot(
            np.concatenate([zero, rate]), np.concatenate([zero, lowest]), color="C0", lw=1.6, label="least: certified"
        )
        for side in ("least", "most"):
            part = [row for row in corners if row["boundary"] == side]
            label = "hull of all 4140 partitions" if side == "least" else None
            points = numbers(part, "disclosure", "leakage")
            above.plot(*points, color="C3", lw=0.9, marker="D", ms=1.6, label=label)
        above.plot(rate, greedy, ls="", marker="o", ms=1.8, mew=0, color="C2", label="greedy, Algorithm 1")
        above.plot(
            np.concatenate([zero, at]),
            np.concatenate([zero, erasure]),
            color="0.5",
            lw=0.8,
            ls=(0, (4, 1.5)),
            label="random erasure",
        )
        above.set(xlabel="I(X;Y) (nats)", ylabel="I(S;Y) (nats)", xlim=(0, rate[-1]), ylim=(0, None))
        above.set_title("(a) UCI heart disease: everything that is possible")
        key.legend(*above.get_legend_handles_labels(), loc="center", ncols=2)

        seen = lowest > FAINTEST
        middle.plot(rate, greedy, ls="", marker="o", ms=1.8, mew=0, color="C2")
        middle.plot(rate, shared, color="C3", lw=0.9)
        middle.plot(rate[seen], lowest[seen], color="C0", lw=1.6)
        middle.axvline(silent, color="k", lw=0.6, ls=(0, (1, 1.5)))
        middle.annotate(
            f"no leakage\nat all up to\n{silent:.4f} nats",
            (silent, 2e-6),
            xytext=(-4, 0),
            textcoords="offset points",
            ha="right",
            va="bottom",
        )
        middle.set(
            xlabel="I(X;Y) (nats)", ylabel="I(S;Y) (nats)", yscale="log", xlim=(0, rate[-1]), ylim=(FAINTEST, 0.5)
        )
        middle.minorticks_off()
        middle.set_title("(b) The least boundary on a logarithmic scale")
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
