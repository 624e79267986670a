"""Draws data/curves.csv of run.py: `python experiments/newer_guarantees/plot.py` writes docs/figures."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "newer-guarantees.png"
# Title, axes, and the curves that are drawn as points: what is known from elsewhere.
PANELS = {
    "envelope": ("Leakage envelope", "mass $\\delta$ of an event", "$\\varepsilon(\\delta)$ (nats)", ("events",)),
    "samples": ("Limit for all populations", "records", "most I(X;Y) (nats)", ()),
    "alpha_beta": ("Maximal ($\\alpha$, $\\beta$)-leakage", "$\\beta$", "leakage (nats)", ("closed form",)),
    "marginal": ("Released marginal", "share of changes", "least I(X;Y) (nats)", ("closed form",)),
    "sequence": ("A second release", "share of changes", "I(S;Z,Y) (nats)", ("drawn from X alone",)),
    "metric": ("Metric privacy", "$\\varepsilon$ (nats)", "least E|X-Y|", ("geometric, remapped",)),
}


def main() -> None:
    with open(HERE / "data" / "curves.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.0, 6.2))
        for axes, (name, (title, across, up, points)) in zip(
            figure.subplots(3, 2).ravel(), PANELS.items(), strict=True
        ):
            own = [row for row in rows if row["guarantee"] == name]
            for curve in dict.fromkeys(row["curve"] for row in own):
                numbers = [(float(row["at"]), float(row["value"])) for row in own if row["curve"] == curve]
                at, value = np.array(numbers).T
                if np.isinf(at).all():
                    axes.axhline(value[0], color="k", ls=":", label=curve)
                elif curve in points:
                    axes.plot(at, value, "kx", ms=4, label=curve)
                else:
                    axes.plot(
                        at, value, lw=1.2, label=curve.replace("alpha", "$\\alpha$ =").replace("inf", "$\\infty$")
                    )
            if name == "samples":
                axes.set_xscale("log")
            axes.set_title(title)
            axes.set_xlabel(across)
            axes.set_ylabel(up)
            axes.set_ylim(bottom=0)
            axes.legend()
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
