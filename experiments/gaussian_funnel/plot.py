"""Draws data/*.csv of run.py into docs/figures/gaussian-funnel.png: `python experiments/gaussian_funnel/plot.py`."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "gaussian-funnel.png"
CURVES = {
    "bottleneck": ("most: bottleneck", {"color": "C1"}),
    "funnel": ("least: funnel, one map", {"color": "C0"}),
    "1/4": ("a map 1/4 of the time", {"color": "C2", "lw": 0.9}),
    "1/16": ("1/16 of the time", {"color": "C2", "lw": 0.9, "ls": (0, (4, 1.5))}),
    "1/64": ("1/64 of the time", {"color": "C2", "lw": 0.9, "ls": (0, (1, 1.2))}),
}


def table(name: str) -> list[dict[str, str]]:
    with open(HERE / "data" / name, newline="") as stream:
        return list(csv.DictReader(stream))


def numbers(rows: list[dict[str, str]], *columns: str) -> np.ndarray:
    return np.array([[float(row[column]) for column in columns] for row in rows]).T


def main() -> None:
    curves, samples = table("curves.csv"), table("samples.csv")
    best = float(table("best.csv")[0]["leakage_nats"])
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 5.6))
        key, above, below = figure.subplots(3, 1, height_ratios=(0.25, 1.35, 1))
        key.set_axis_off()
        maps = numbers(table("maps.csv"), "rate_nats", "leakage_nats")
        above.plot(*maps, ls="", marker="o", ms=1.4, mew=0, color="0.6", label="random linear maps")
        for name, (label, style) in CURVES.items():
            part = numbers([row for row in curves if row["curve"] == name], "rate_nats", "leakage_nats")
            above.plot(*part, label=label, **style)
        above.set(xlabel="I(X;Y) (nats)", ylabel="I(S;Y) (nats)", xlim=(0, 4), yscale="log", ylim=(1e-3, 3))
        above.set_title("(a) Least and most I(S;Y) of a linear map")
        key.legend(*above.get_legend_handles_labels(), loc="center", ncols=2)

        count, claimed, true = numbers(samples, "samples", "claimed_nats", "true_nats")
        sizes = np.unique(count)
        for k, (values, label) in enumerate(((true, "true"), (claimed, "estimated"))):
            parts = [values[count == size] for size in sizes]
            style = {"color": ("C3", "C1")[k]}
            low, high = (np.array([np.quantile(part, level) for part in parts]) for level in (0.05, 0.95))
            below.fill_between(sizes, low, high, alpha=0.2, lw=0, **style)
            below.plot(sizes, [part.mean() for part in parts], marker="o", label=label, **style)
        below.axhline(best, color="C0", lw=0.9, ls=(0, (4, 1.5)), label="least possible")
        below.set(xscale="log", xlabel="samples that the funnel was chosen on", ylim=(0, None))
        below.set_ylabel("I(S;Y) (nats): mean, 5 to 95 %")
        below.set_title("(b) Funnel at I(X;Y) = 1 nat, chosen on samples")
        below.legend(loc="upper right")
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
