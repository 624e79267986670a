"""Draws data/*.csv of run.py into docs/figures/census-watchdog.png: `python experiments/census_watchdog/plot.py`."""

import csv
from pathlib import Path

import numpy as np

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "census-watchdog.png"
# The square that is drawn among the scores.
EPSILON = 0.5
HIGHEST = 3.4
KINDS = {
    "complete merging": {"color": "C0", "lw": 1.4},
    "randomised response": {"color": "C2", "lw": 1.0, "ls": (0, (4, 1.5))},
    "subset merging": {"color": "C1", "lw": 1.2},
}


def table(name: str) -> list[dict[str, str]]:
    with open(HERE / "data" / name, newline="") as stream:
        return list(csv.DictReader(stream))


def numbers(rows: list[dict[str, str]], *names: str) -> list[np.ndarray]:
    return [np.array([float(row[name]) for row in rows]) for name in names]


def draw_scores(axes) -> None:
    low, high, mass, score = numbers(table("scores.csv"), "log_lift <=50K", "log_lift >50K", "mass", "score")
    inside = score <= EPSILON
    for chosen, colour, label in ((inside, "C0", "released"), (~inside, "C3", "merged")):
        axes.scatter(low[chosen], high[chosen], s=4 + 500 * mass[chosen], color=colour, alpha=0.55, lw=0, label=label)
    axes.plot(EPSILON * np.array([-1, 1, 1, -1, -1]), EPSILON * np.array([-1, -1, 1, 1, -1]), "k", lw=0.7, ls="--")
    corner = (-EPSILON, -EPSILON)
    axes.annotate(f"$\\epsilon = {EPSILON}$", corner, textcoords="offset points", xytext=(0, -9), fontsize=7)
    axes.set_xlabel("log-lift of income up to 50K (nats)")
    axes.set_ylabel("log-lift of income\nover 50K (nats)")
    axes.set_title("(a) Every x: age, gender, education of the census")
    handles = axes.legend(loc="lower left", title="people with this x (area)")
    for handle in handles.legend_handles:
        handle.set_sizes([18])


def draw_leakage(axes) -> None:
    rows = table("staircase.csv")
    epsilon, leakage, tight, gamma = numbers(rows, "epsilon", "leakage", "tight", "gamma")
    for values, label, style in (
        (gamma, "$\\gamma$ of Hsu et al. 2019, Prop. 2", {"color": "0.55", "lw": 1.0}),
        (tight, "tighter bound", {"color": "C1", "lw": 1.0}),
        (leakage, "exact", {"color": "C0", "lw": 1.4}),
    ):
        known = np.isfinite(values)
        # A bound that has become infinite ends where it does.
        last = np.flatnonzero(known)[-1] if known.any() else 0
        stop = epsilon[last + 1] if last + 1 < len(epsilon) and values is not leakage else HIGHEST
        axes.step([*epsilon[: last + 1], stop], [*values[: last + 1], values[last]], where="post", label=label, **style)
        if values is gamma:
            axes.annotate(
                "both bounds\ninfinite\nfrom here on",
                (stop, 3.05),
                xytext=(5, 0),
                textcoords="offset points",
                fontsize=6,
                va="center",
                color="0.3",
            )
            axes.axvline(stop, color="0.55", lw=0.6, ls=":")
    axes.set_xlim(0, HIGHEST)
    axes.set_ylim(0, HIGHEST)
    axes.set_xlabel("threshold $\\epsilon$ (nats)")
    axes.set_ylabel("lift leakage (nats)")
    axes.set_title("(b) Leakage where all of the rest is merged")
    axes.legend(loc="lower right")


def draw_utility(axes) -> None:
    rows = table("alternatives.csv")
    for kind, style in KINDS.items():
        target, utility = numbers([row for row in rows if row["kind"] == kind], "target", "utility")
        # What is within a limit is within a larger one: the best so far.
        axes.step(target, np.maximum.accumulate(utility), where="post", label=kind, **style)
    (all_of_it,) = numbers(table("staircase.csv")[-1:], "utility")
    axes.axhline(all_of_it[0], color="0.55", lw=0.6, ls=":")
    axes.annotate("$H(X)$", (0.03, all_of_it[0]), xytext=(0, -2), textcoords="offset points", va="top", fontsize=7)
    axes.set_xlim(0, HIGHEST)
    axes.set_ylim(0, 1.05 * all_of_it[0])
    axes.set_xlabel("exact lift leakage allowed (nats)")
    axes.set_ylabel("utility $I(X;Y)$ (nats)")
    axes.set_title("(c) Utility of three ways to treat the rest")
    axes.legend(loc="lower right")


def main() -> None:
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 6.8))
        for place, draw in enumerate((draw_scores, draw_leakage, draw_utility)):
            draw(figure.add_subplot(3, 1, place + 1))
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
