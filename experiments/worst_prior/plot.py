"""Draws data/*.csv of run.py into docs/figures/worst-prior.png: `python experiments/worst_prior/plot.py`."""

import csv
from pathlib import Path

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "worst-prior.png"
STYLES = {"fitted": {"color": "C1"}, "robust": {"color": "C0"}}


def read(name: str) -> list[dict[str, str]]:
    with open(HERE / "data" / name, newline="") as stream:
        return list(csv.DictReader(stream))


def draw_between(axes, column: str) -> str:
    """One column of both mappings against the factor of the odds; the budget it belongs to."""
    rows, shown = read("between.csv"), read("priors.csv")
    budget = rows[0]["budget"]
    for name, style in STYLES.items():
        part = [row for row in rows if row["mapping"] == name]
        axes.plot([float(r["odds_factor"]) for r in part], [float(r[column]) for r in part], label=name, **style)
        five = [r for r in shown if r["mapping"] == name and r["budget"] == budget]
        for over, fill in ((False, style["color"]), (True, "white")):  # open: beyond the budget under that prior
            part = [r for r in five if (float(r["changed"]) > float(budget) * (1 + 1e-6)) == over]
            at = [[float(r[name]) for r in part] for name in ("odds_factor", column)]
            axes.plot(*at, ls="", marker="o", mfc=fill, **style)
    if column == "leakage":
        known = [r for r in shown if r["mapping"] == "known" and r["budget"] == budget]
        x, y = ([float(r[name]) for r in known] for name in ("odds_factor", column))
        axes.plot(x, y, ls="", marker="x", color="0.3", ms=4, label="optimum for a known prior")
        axes.plot([], [], ls="", marker="o", mfc="white", color="C1", label="fitted, over the budget")
    axes.set_xscale("log")
    axes.set_xticks([1 / 9, 1 / 3, 1, 3, 9], ["1/9", "1/3", "1", "3", "9"])
    axes.minorticks_off()
    axes.set_xlabel("factor of the odds of an income > 50K")
    return budget


def draw_price(axes, below) -> None:
    """Against the budget: what the robust mapping costs under the table and gains under the worst prior."""
    rows = read("priors.csv")
    assert all(row["status"] == "optimal" for row in rows), "a point is not certified"
    budgets = list(dict.fromkeys(row["budget"] for row in rows))

    def worst(name: str, column: str) -> list[float]:
        return [max(float(r[column]) for r in rows if (r["budget"], r["mapping"]) == (b, name)) for b in budgets]

    table = {
        name: [
            float(next(r for r in rows if (r["budget"], r["mapping"], r["odds_factor"]) == (b, name, "1"))["leakage"])
            for b in budgets
        ]
        for name in STYLES
    }
    x = [float(b) for b in budgets]
    price = [1e3 * (a - b) for a, b in zip(table["robust"], table["fitted"], strict=True)]
    gain = [1e3 * (a - b) for a, b in zip(worst("fitted", "leakage"), worst("robust", "leakage"), strict=True)]
    excess = [100 * (a / b - 1) for a, b in zip(worst("fitted", "changed"), x, strict=True)]
    axes.plot(x, price, color="C0", marker="o", label="robust leaks more under the table")
    axes.plot(x, gain, color="C2", marker="s", ms=2.5, label="robust leaks less under its worst prior")
    axes.axhline(0.0, color="0.3", lw=0.6)
    axes.set_ylabel("difference\n($10^{-3}$ nats)")
    axes.set_ylim(top=10)
    axes.legend(loc="upper left")
    axes.set_title("(c) The price of robustness in leakage")
    below.plot(x, excess, color="C1", marker="^")
    below.set_ylabel("excess (%)")
    below.set_ylim(bottom=0)
    below.set_xlabel("budget: mean number of changed attributes")
    below.set_title("(d) Excess of the fitted mapping over its budget")


def main() -> None:
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 7.2))
        leaked, changed, price, excess = figure.subplots(4, 1, height_ratios=(1.2, 1, 1, 0.8))
        budget = draw_between(leaked, "leakage")
        leaked.set_ylabel("leakage I(S;Y) (nats)")
        leaked.legend(loc="lower right")
        leaked.set_title(f"(a) Under other priors, budget {budget}")
        draw_between(changed, "changed")
        changed.axhline(float(budget), color="0.3", lw=0.8, ls=(0, (3, 1.2)), label="budget")
        changed.set_ylabel("mean changed attributes")
        changed.legend(loc="upper left", ncols=3)
        changed.set_ylim(top=changed.get_ylim()[1] + 0.15 * (changed.get_ylim()[1] - changed.get_ylim()[0]))
        changed.set_title("(b) The budget, held under other priors?")
        draw_price(price, excess)
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
