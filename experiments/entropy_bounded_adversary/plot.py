"""Draws data/curves.csv of run.py into docs/figures/entropy-bounded-adversary.png.

python experiments/entropy_bounded_adversary/plot.py
"""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "entropy-bounded-adversary.png"
TITLES = {
    "channel": "(a) Two bits, each through a binary symmetric channel",
    "modular sum": "(b) Sum modulo 2 of three bits, through a channel",
}


def closed_form(query: str, share: float, crossover: np.ndarray) -> np.ndarray:
    """The leakage without a bound on the entropy (share 0: ln of the largest ratio of two rows of the mechanism,
    Wu, Xia and He, Proposition 4), and under the uniform prior alone (share 1).
    """
    if share == 0:
        return (2 if query == "channel" else 1) * np.log((1 - crossover) / crossover)
    return np.log(2 * (1 - crossover)) if query == "channel" else np.zeros_like(crossover)


def main() -> None:
    with open(HERE / "data" / "curves.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with plotting.style():
        from matplotlib import colormaps
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 4.8))
        panels = figure.subplots(2, 1, sharex=True)
        shares = list(dict.fromkeys(row["share"] for row in rows))
        colours = colormaps["viridis"](np.linspace(0.0, 0.8, len(shares)))
        for axes, (query, title) in zip(panels, TITLES.items(), strict=True):
            for share, colour in zip(shares, colours, strict=True):
                part = [row for row in rows if (row["query"], row["share"]) == (query, share)]
                at, low, high = (
                    np.array([float(row[name]) for row in part]) for name in ("crossover", "lower", "upper")
                )
                axes.plot(at, high, color=colour, marker="o", ms=2.2, lw=1.0, label=f"{100 * float(share):.0f} %")
                axes.fill_between(at, low, high, color=colour, alpha=0.4, lw=0)
            fine = np.linspace(0.02, 0.48, 200)
            for share in (0, 1):
                known = closed_form(query, share, fine)
                label = "closed form" if share == 0 else None
                axes.plot(fine, known, color=plotting.COLOURS["red"], ls=":", lw=1.1, label=label, zorder=4)
            axes.set_title(title)
            axes.set_ylabel("per-record leakage (nats)")
            axes.set_ylim(bottom=0)
        worst = max(float(row["gap"]) for row in rows)
        panels[0].legend(title=f"least entropy, of n ln 2\n(lower and upper bound: {worst:.0e} apart)", ncols=2)
        panels[1].text(0.17, 2.0, "0 % and 25 % coincide", fontsize=6.5)
        panels[1].set_xlabel("distortion: probability f that a released bit is wrong")
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
