"""A watchdog on the census table: scores, exact leakage against utility, the bounds, and what merging in parts gains.

    python experiments/census_watchdog/run.py      # writes data/*.csv beside this file; a few seconds
    python experiments/census_watchdog/plot.py     # draws them

S = income, X = (age, gender, education), 55 symbols, 48842 people: the table of `jaxpriv.datasets.census` with age
on the useful side only (with age on both sides every x excludes some s, all scores are infinite, and a watchdog
releases nothing).

`scores.csv`: the log-lifts of every symbol. `staircase.csv`: every threshold with complete merging (eq. 9 of Hsu,
Asoodeh and Calmon), its exact leakage, the tight bound and gamma of their Proposition 2. `alternatives.csv`: the
utility at targets of the exact leakage, for complete merging, subset merging and randomised response. All is exact
on the joint of the table.
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from jaxpriv import datasets, watchdog

DATA = Path(__file__).parent / "data"
TARGETS = np.round(np.arange(0.0, 3.3001, 0.025), 3)


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row] for row in rows)


def income_joint(data: datasets.Dataset) -> tuple[np.ndarray, tuple[str, ...]]:
    """The joint of income and (age, gender, education), and the labels of income."""
    axis = data.private_names.index("income")
    codes = data.private_attributes[:, axis]
    counts = np.stack([data.counts[codes == code].sum(axis=0) for code in range(codes.max() + 1)])
    return counts / counts.sum(), data.private_values[axis]


def main() -> None:
    data = datasets.census()
    joint, incomes = income_joint(data)
    mass, lift, score = joint.sum(axis=0), watchdog.log_lift(joint), watchdog.scores(joint)
    rows = [
        [*labels, float(mass[x]), float(lift[0, x]), float(lift[1, x]), float(score[x])]
        for x, labels in enumerate(data.useful_labels)
    ]
    write("scores.csv", [*data.useful_names, "mass", *(f"log_lift {name}" for name in incomes), "score"], rows)

    stairs = watchdog.staircase(joint)
    names = ("epsilon", "released", "released_mass", "leakage", "leakage_released", "leakage_complement", "utility")
    names = (*names, "tight", "gamma")
    columns = [getattr(stairs, name).tolist() for name in names]
    write("staircase.csv", list(names), [list(row) for row in zip(*columns, strict=True)])

    rows = []
    for target in TARGETS.tolist():
        for kind, dog in watchdog.compare(joint, target_leakage=target).items():
            groups = int(dog.group.max()) + 1
            rows.append([kind, target, dog.epsilon, dog.leakage, dog.information, dog.utility, groups, dog.keep])
    header = ["kind", "target", "epsilon", "leakage", "information", "utility", "groups", "keep"]
    write("alternatives.csv", header, rows)
    finite = int(np.isfinite(stairs.gamma).sum())
    print(f"H(X) = {stairs.utility[-1]:.6f} nats, {len(stairs.epsilon)} thresholds, gamma finite at {finite} of them")


if __name__ == "__main__":
    main()
