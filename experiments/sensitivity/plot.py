"""Draws data/*.csv of run.py into docs/figures/sensitivity.png: `python experiments/sensitivity/plot.py`."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "sensitivity.png"


def read(name: str) -> tuple[list[str], list[list[str]]]:
    with open(HERE / "data" / name, newline="") as stream:
        header, *rows = csv.reader(stream)
    return header, rows


def draw_slopes(axes) -> None:
    """Top: one line for each private group, by age (colour) and income (line)."""
    from matplotlib import colormaps
    from matplotlib.lines import Line2D

    header, rows = read("prior.csv")
    table = np.array(rows, dtype=float)
    budget, groups = table[:, 0], header[3:]
    ages = list(dict.fromkeys(name.split()[0] for name in groups))
    colours = dict(zip(ages, colormaps["viridis"](np.linspace(0.0, 0.8, len(ages))), strict=True))
    incomes = {"<=50K": "-", ">50K": (0, (3, 1.2))}
    for k, name in enumerate(groups):
        age, income = name.split()
        # Nats per unit of share are ten times thousandths of a nat per percentage point.
        axes.plot(budget, 10 * table[:, 3 + k], color=colours[age], ls=incomes[income], lw=1.0)
    axes.axhline(0.0, color="0.3", lw=0.6)
    handles = [Line2D([], [], color=colours[age], label=age) for age in ages]
    handles += [
        Line2D([], [], color="0.3", lw=1.0, ls=style, label=name.replace("<=", "\u2264"))
        for name, style in incomes.items()
    ]
    axes.legend(handles=handles, title="age, income", ncols=2, loc="upper right", columnspacing=1.0, labelspacing=0.25)
    axes.set_xlim(0, 1)
    axes.set_xlabel("budget: mean number of changed attributes")
    axes.set_ylabel("change of the least leakage\n($10^{-3}$ nats per percentage point)")
    axes.set_title("(a) If one private group grew")


def draw_even(axes) -> None:
    """Bottom: who is changed how often, before and after the weights were chosen."""
    header, rows = read("even.csv")
    names = [part.removeprefix("changed ") for part in header if part.startswith("changed ")]
    count = len(names)
    places = np.arange(count)[::-1]
    cap = 100 * float(rows[2][2 + count])
    for (label, leaked, *numbers), offset, colour in zip(rows[:2], (0.2, -0.2), ("C5", "C0"), strict=True):
        weights, changed = np.array(numbers[:count], float), 100 * np.array(numbers[count:], float)
        axes.barh(places + offset, changed, height=0.36, color=colour, label=f"{label}: {float(leaked):.2f} nats leak")
        for place, width, weight in zip(places + offset, changed, weights, strict=True):
            axes.annotate(
                f"{width:.1f} %, weight {weight:.3g}",
                (width, place),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize=6,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            )
    axes.set_yticks(places, names)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 72)
    axes.set_xlabel(f"attribute changed (% of people; limit {cap:.1f} %)")
    axes.set_ylim(-0.5, count + 0.25)  # room for the legend
    axes.legend(loc="upper right")
    axes.set_title("(b) Weights that change all attributes equally often")


def main() -> None:
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 4.8))
        above, below = figure.subplots(2, 1, height_ratios=(1.5, 1))
        draw_slopes(above)
        draw_even(below)
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
