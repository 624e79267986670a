"""Draws data/*.csv of run.py here and of ../binary_funnel into docs/figures/heart-funnel.png.

python experiments/heart_funnel/plot.py
"""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
BINARY = HERE.parent / "binary_funnel" / "data"
FIGURE = HERE.parents[1] / "docs" / "figures" / "heart-funnel.png"
BITS = 1.0 / np.log(2.0)
# Below this the least boundary is drawn as zero.
FAINTEST = 1e-6


def table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def numbers(rows: list[dict[str, str]], *columns: str) -> np.ndarray:
    return np.array([[float(row[column]) for column in columns] for row in rows]).T


def closed_forms(axes, rows: list[dict[str, str]]) -> None:
    """Lines of the closed forms, points of the solver."""
    pairs = dict.fromkeys((row["p"], row["delta"]) for row in rows)
    for k, (p, delta) in enumerate(pairs):
        for side, dashes in (("most", (0, (4, 1.5))), ("least", "-")):
            part = [row for row in rows if (row["boundary"], row["p"], row["delta"]) == (side, p, delta)]
            if part:
                rate, closed, reached = BITS * numbers(part, "R", "closed", "reached")
                label = f"{p.lstrip('0')}, {delta.lstrip('0')}" if side == "least" else None
                axes.plot(np.append(rate, 0.0), np.append(closed, 0.0), color=f"C{k}", lw=0.9, ls=dashes, label=label)
                axes.plot(rate, reached, ls="", marker="o", ms=2, mew=0, color=f"C{k}")
    worst = max(abs(float(row["difference"])) for row in rows)
    digits, power = f"{worst:.0e}".split("e")
    axes.set(xlabel="I(X;Y), bits", xlim=(0, 1.02), ylim=(0, 0.82))
    apart = f"apart by at most ${digits}\\cdot10^{{{int(power)}}}$ nats"
    axes.set_title(f"Binary: lines closed form, points solver\n({apart}); I(S;Y), bits")
    axes.legend(title="p, $\\delta$ (dashed: most)", loc="upper left")


def main() -> None:
    rows = table(HERE / "data" / "boundaries.csv")
    least, most = ([row for row in rows if row["boundary"] == side] for side in ("least", "most"))
    silent = float(table(HERE / "data" / "silent.csv")[0]["disclosure_bits"])
    corners = table(HERE / "data" / "partitions.csv")
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 7.2))
        key, above, middle, below = figure.subplots(4, 1, height_ratios=(0.3, 1.15, 1, 1))
        key.set_axis_off()
        rate, lowest, greedy, shared = numbers(least, "R_bits", "reached_bits", "greedy_bits", "partitions_shared_bits")
        at, highest, erasure = numbers(most, "R_bits", "reached_bits", "erasure_bits")
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
            points = numbers(part, "disclosure_bits", "leakage_bits")
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
        above.set(xlabel="I(X;Y), bits", xlim=(0, rate[-1]), ylim=(0, None))
        above.set_title("UCI heart disease: I(S;Y), bits")
        key.legend(*above.get_legend_handles_labels(), loc="center", ncols=2)

        seen = lowest > FAINTEST
        middle.plot(rate, greedy, ls="", marker="o", ms=1.8, mew=0, color="C2")
        middle.plot(rate, shared, color="C3", lw=0.9)
        middle.plot(rate[seen], lowest[seen], color="C0", lw=1.6)
        middle.axvline(silent, color="k", lw=0.6, ls=(0, (1, 1.5)))
        middle.annotate(
            f"no leakage\nat all up to\n{silent:.4f} bits",
            (silent, 2e-6),
            xytext=(-4, 0),
            textcoords="offset points",
            ha="right",
            va="bottom",
        )
        middle.set(xlabel="I(X;Y), bits", yscale="log", xlim=(0, rate[-1]), ylim=(FAINTEST, 0.5))
        middle.minorticks_off()
        middle.set_title("The least boundary on a logarithmic scale, bits")
        closed_forms(below, table(BINARY / "binary.csv"))
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
