"""Estimates of I(S;X) where it is known: 6000 rows, five splits, nine tasks, six estimators.

    python experiments/known_answers/run.py     # writes data/agreement.csv; five minutes (two cores)
    python experiments/known_answers/plot.py    # draws it

Tasks and their answers: `jaxpriv.statistics.lift`. A value is the mean over five splits of the mean
log-lift on the 1800 test rows of a split; its standard error is conservative (see `estimate`).
"""

import csv
from pathlib import Path

import jax

from jaxpriv.statistics.lift import named
from jaxpriv.statistics.lift.known_answers import known_tasks, self_test

DATA = Path(__file__).parent / "data"
NAMES = ("donsker-varadhan", "chi-squared", "jensen-shannon", "squared-hellinger", "classifier", "plug-in")
ROWS, SPLITS = 6000, 5


def main() -> None:
    """Every estimator on every task that suits it."""
    lines = []
    for name in NAMES:
        tasks = tuple(task for task in known_tasks() if name != "plug-in" or task.symbols is not None)
        for found in self_test(named(name), jax.random.key(1), n=ROWS, splits=SPLITS, tasks=tasks):
            value, error = found.estimate.value, found.estimate.standard_error
            print(
                f"{name:20} {found.task:26} {found.truth:.4f} {value:.4f} +- {error:.4f} ({found.errors:+.1f})",
                flush=True,
            )
            lines.append([name, found.task, *(f"{number:.6g}" for number in (found.truth, value, error))])
    DATA.mkdir(exist_ok=True)
    with open(DATA / "agreement.csv", "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerows([["estimator", "task", "truth", "value", "standard_error"], *lines])


if __name__ == "__main__":
    main()
