"""COMPAS end to end (Hsu, Asoodeh and Calmon 2019, section IV): estimators, log-lift of every record, trade-off.

    python experiments/compas/run.py [--local FOLDER]     # two minutes (two cores); writes data/*.csv
    python experiments/compas/run.py --paper-recipe       # the paper's training as printed, one split: minutes more
    python experiments/compas/plot.py                     # draws them

S = race (0: African-American, 1: Caucasian), X = (gender, age, prior count, length of stay, recidivism score), 5278
records, 20 random splits of 56 % training, 14 % validation and 30 % test. What is written:

* `estimators.csv`: I(S;X) on test rows;
* `scores.csv`: how many records have which log-lift; networks score only records that they were not trained on;
* `critic.csv`: critic values of the paper's network before they are normalised;
* `tradeoff.csv`, `splits.csv`: the watchdog at all thresholds, first split; what a watchdog releases, every split;
* `profile.csv`: means of the features of the records with the most extreme log-lift;
* `paper_samples.csv`: the rows that the paper prints in Tables I to IV, by our estimate.

No record of the raw file is written; without --local it is fetched.
"""

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from jaxpriv import datasets
from jaxpriv.statistics.lift import (
    AbstractLiftEstimator,
    CalibratedClassifier,
    DonskerVaradhan,
    Network,
    NeuralLift,
    PlugIn,
    Samples,
    average,
    encode,
    from_features,
    from_symbols,
    named,
    watchdog_paper,
)
from jaxpriv.statistics.lift.estimating import LiftReport, estimate
from jaxpriv.statistics.watchdog import estimated_staircase

DATA = Path(__file__).parent / "data"
SPLITS = 20
# Of the watchdog: that of the best point of the paper, where leakage leaves the diagonal, and that of the paper.
THRESHOLDS = (0.3, 0.59, 0.85)
KEY = jax.random.key(0)
DEFAULT = "donsker-varadhan"
FEATURES = ("male", "age", "prior_count", "length_of_stay", "recidivism_score")
# Hsu 2019, Tables I to IV: gender, race, age, prior counts, length of stay, recidivism score.
PRINTED = {
    "I": "M AA 21 1 1 9;M AA 33 5 0 5;M C 43 0 2 1;M AA 27 13 0 10;M AA 59 8 8 8;M AA 29 5 5 7;M AA 25 1 0 3",
    "II": "F AA 39 0 57 5;M C 41 5 1 1;F C 31 2 1 1;M C 50 3 11 2;M C 27 2 1 2",
    "III": "M C 29 0 0 2;M C 45 0 2 2;M C 25 0 1 2;M C 42 1 1 2;M AA 25 3 7 6;F AA 37 3 28 7;M AA 19 2 1 10;"
    "M C 56 1 1 1",
    "IV": "M C 25 1 42 3;M AA 53 11 110 6;M AA 23 4 31 10;M C 48 0 68 8",
}


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)


def as_samples(s: np.ndarray, x: np.ndarray) -> Samples:
    """Gender as a category, the others as numbers."""
    return from_features(s, x[:, 1:], categories=x[:, :1].astype(np.int64), sizes=[2])


def cells(s: np.ndarray, x: np.ndarray) -> Samples:
    """54 cells: gender, and three classes each of age (-24, -45), of priors (0, -3) and of the score (-4, -7)."""
    age, prior, score = (
        np.searchsorted(edges, x[:, column], side="right")
        for column, edges in ((1, (25, 46)), (2, (1, 4)), (4, (5, 8)))
    )
    return from_symbols(s, ((x[:, 0].astype(np.int64) * 3 + age) * 3 + prior) * 3 + score, useful_size=54)


def estimators() -> dict[str, AbstractLiftEstimator]:
    """What is compared; the first is the default."""
    forms = ("chi-squared", "jensen-shannon", "squared-hellinger", "reverse-kullback-leibler", "trimmed", "classifier")
    network = Network(128, 2, jnp.tanh, private_input=True, zero_readout=False, scaling="standard")
    return {
        DEFAULT: named(DEFAULT),
        "donsker-varadhan, raw form": NeuralLift(DonskerVaradhan(normalise=False)),
        "paper's network, raw form, our training": NeuralLift(DonskerVaradhan(normalise=False), network),
        **{name: named(name) for name in forms},
        "gradient boosting, calibrated": CalibratedClassifier(
            HistGradientBoostingClassifier(learning_rate=0.05, max_leaf_nodes=6, max_iter=120, min_samples_leaf=40)
        ),
        "logistic regression, calibrated": CalibratedClassifier(LogisticRegression(max_iter=10_000)),
        "plug-in, 54 cells": PlugIn(),
    }


HEADER = [
    "estimator",
    "information",
    "standard_error",
    "spread",
    "least_split",
    "most_split",
    "largest_0",
    "largest_1",
    "marginal_0",
    "marginal_1",
    "splits",
    "seconds",
]


def row_of(name: str, report: LiftReport, seconds: float) -> list[Any]:
    """One line of the comparison."""
    found = report.information
    print(f"{name:40} {found.value:.4f} +- {found.standard_error:.4f} (spread {found.spread:.4f}), {seconds:.0f} s")
    return [
        name,
        found.value,
        found.standard_error,
        found.spread,
        float(report.per_split.min()),
        float(report.per_split.max()),
        *map(float, report.largest),
        *(check.value for check in report.marginal),
        found.splits,
        round(seconds, 1),
    ]


def compare(s: np.ndarray, x: np.ndarray) -> dict[str, LiftReport]:
    """Every estimator over the same 20 splits."""
    rows, reports = [], {}
    for name, estimator in estimators().items():
        begun = time.perf_counter()
        samples = cells(s, x) if isinstance(estimator, PlugIn) else as_samples(s, x)
        reports[name] = estimate(estimator, KEY, samples, splits=SPLITS)
        rows.append(row_of(name, reports[name], time.perf_counter() - begun))
    write("estimators.csv", HEADER, rows)
    print(f"all: {sum(row[-1] for row in rows):.0f} s")
    return reports


def scatter(report: LiftReport, raw: LiftReport, samples: Samples) -> None:
    """How many records have which scores, to 0.01; and critic values of the paper's network on test rows."""
    tested = np.isfinite(report.scores[:, 0])
    steps = np.round(report.scores[tested, 0], 2)
    rows = []
    for level in np.unique(steps):
        own = samples.private[tested][steps == level]
        other = np.log((1.0 - samples.prior[0] * np.exp(level)) / samples.prior[1])
        rows.append([float(level), float(other), int(np.sum(own == 0)), int(np.sum(own == 1))])
    write("scores.csv", ["i_0", "i_1", "records_0", "records_1"], rows)

    lift, test = raw.lifts[0], raw.test[0]
    critic = lift.scorer(samples.useful[test])
    critic -= np.log(np.mean(np.exp(critic) @ samples.prior))  # the form (13) is blind to a constant
    shown = np.random.default_rng(0).choice(len(critic), 600, replace=False)
    write("critic.csv", ["g_0", "g_1"], [[float(a), float(b)] for a, b in np.round(critic[np.sort(shown)], 2)])


def tradeoff(report: LiftReport, samples: Samples) -> None:
    """The watchdog of the first split's log-lift on its own rows and on test rows; labels give the leakage."""
    lift, test = report.lifts[0], report.test[0]
    symbols = np.unique(samples.useful, axis=0, return_inverse=True)[1].reshape(-1)
    rows = []
    for name, index in (("train", np.setdiff1d(np.arange(samples.size), test)), ("test", test)):
        found = estimated_staircase(
            lift(samples.useful[index]), samples.prior, labels=samples.private[index], symbols=symbols[index]
        )
        shown = np.searchsorted(found.epsilon, np.linspace(0.0, found.epsilon[-1], 160))
        at = np.unique(np.minimum(shown, len(found.epsilon) - 1))
        columns = (
            found.epsilon,
            found.released_fraction,
            found.estimated_utility,
            found.estimated_leakage,
            found.estimated_leakage_complement,
            found.estimated_tight,
            found.estimated_gamma,
        )
        rows += [[name, *(float(column[k]) for column in columns)] for k in at]
    header = ["rows", "epsilon", "released", "utility", "leakage", "leakage_complement", "tight", "gamma"]
    write("tradeoff.csv", header, rows)


def splits(report: LiftReport, samples: Samples) -> None:
    """The share of the test rows of every split that a watchdog releases at three thresholds."""
    rows = []
    for split, (lift, test) in enumerate(zip(report.lifts, report.test, strict=True)):
        score = abs(np.asarray(lift(samples.useful[test]))).max(axis=1)
        rows.append([split, *(float(np.mean(score <= epsilon)) for epsilon in THRESHOLDS)])
    write("splits.csv", ["split", *(f"released at {epsilon:g}" for epsilon in THRESHOLDS)], rows)
    for k, epsilon in enumerate(THRESHOLDS):
        shares = 100 * np.array([row[1 + k] for row in rows])
        print(f"released at {epsilon:g}: {shares.mean():.1f} % +- {shares.std(ddof=1):.1f} % over {len(shares)} splits")


def extremes(report: LiftReport, samples: Samples, s: np.ndarray, x: np.ndarray) -> None:
    """Who is at the ends, by the means of 5 % of the records; and the rows that the paper prints."""
    tested = np.flatnonzero(np.isfinite(report.scores[:, 0]))
    order = tested[np.argsort(report.scores[tested, 0])]
    part = len(order) // 20
    groups = {"5 % with greatest i(1,x)": order[:part], "all": order, "5 % with greatest i(0,x)": order[-part:]}
    rows = []
    for name, index in groups.items():
        means = [float(np.mean(s[index] == 0)), *x[index].mean(axis=0), *report.scores[index].mean(axis=0)]
        rows.append([name, len(index), *map(float, means)])
    write("profile.csv", ["group", "records", "share_s0", *FEATURES, "i_0", "i_1"], rows)

    lift, lines = average(report.lifts), []
    for table, text in PRINTED.items():
        for line in text.split(";"):
            gender, race, *numbers = line.split()
            row = np.array([[float(gender == "M"), *map(float, numbers)]])
            seen = int(np.sum(np.all(x == row, axis=1) & (s == (race == "C"))))
            scores = lift(encode(row[:, 1:], categories=row[:, :1], sizes=[2]))[0]
            lines.append([table, gender, race, *numbers, *map(float, scores), int(seen > 0)])
    header = ["table", "gender", "race", "age", "prior_count", "length_of_stay", "recidivism_score"]
    write("paper_samples.csv", [*header, "i_0", "i_1", "in_data"], lines)


def main() -> None:
    """Everything, or the paper's training alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--local", type=Path, default=None, help="a folder with the raw file, instead of fetching it")
    parser.add_argument("--paper-recipe", action="store_true")
    args = parser.parse_args()
    s, x = datasets.compas_arrays(datasets.load_compas(datasets.fetch_compas(local=args.local)))
    samples = as_samples(s, x)
    if args.paper_recipe:
        begun = time.perf_counter()
        report = estimate(watchdog_paper(), KEY, samples, splits=1)
        write("paper_recipe.csv", HEADER, [row_of("the paper's recipe", report, time.perf_counter() - begun)])
        return
    reports = compare(s, x)
    scatter(reports[DEFAULT], reports["paper's network, raw form, our training"], samples)
    tradeoff(reports[DEFAULT], samples)
    splits(reports[DEFAULT], samples)
    extremes(reports[DEFAULT], samples, s, x)


if __name__ == "__main__":
    main()
