"""Draws data/agreement.csv into docs/figures/known-answers.png: `python experiments/known_answers/plot.py`."""

import csv
from pathlib import Path

from jaxpriv import plotting

HERE = Path(__file__).parent
FIGURE = HERE.parents[1] / "docs" / "figures" / "known-answers.png"


def main() -> None:
    with open(HERE / "data" / "agreement.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    names = list(dict.fromkeys(row["estimator"] for row in rows))
    truth = {row["task"]: float(row["truth"]) for row in rows}
    with plotting.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.4, 4.4))
        axes = figure.subplots()
        for k, name in enumerate(names):
            own = [row for row in rows if row["estimator"] == name]
            axes.errorbar(
                [float(row["value"]) - float(row["truth"]) for row in own],
                [tasks.index(row["task"]) + 0.13 * (k - (len(names) - 1) / 2) for row in own],
                xerr=[2 * float(row["standard_error"]) for row in own],
                fmt="os^Dvx"[k],
                ms=2.8,
                lw=0.9,
                color=f"C{k}",
                label=name,
            )
        axes.axvline(0.0, color="0.2", lw=0.8)
        axes.set_yticks(range(len(tasks)), [f"{task}\nI = {truth[task]:.4f}" for task in tasks])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(tasks) - 0.45, -0.55)
        axes.grid(visible=False, axis="y")
        for k in range(len(tasks) - 1):
            axes.axhline(k + 0.5, color="0.9", lw=0.5)
        axes.set_xlabel("estimate minus truth (nats);\nbars: 2 standard errors")
        figure.legend(loc="outside upper center", ncols=3, columnspacing=1.0)
    plotting.save(figure, FIGURE)


if __name__ == "__main__":
    main()
