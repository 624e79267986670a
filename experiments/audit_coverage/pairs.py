"""Coverage and width of the bounds for pairs (s, y), each by itself at 0.05, over a grid of populations and sizes.

    python experiments/audit_coverage/pairs.py [--repeats 200] [--sizes 300 3000 30000]    # writes data/pairs.csv

Populations: independent 2 x 4, weak 2 x 10, strong 3 x 3, a rare private symbol 4 x 6, sparse 2 x 40. For each: the
truth, the median bound, how many of the samples it misses, beside it the median of the bootstrap (2 I - its 0.05
quantile, an estimate without a guarantee; mutual information only) and the median of the bounds on one event for all
measures (`leakage_bounds`, at 0.05 for all of them).
"""

import argparse
import csv
import time
from pathlib import Path

import numpy as np

from jaxpriv.leakage import by_name
from jaxpriv.statistics.audit import binomial, leakage_bounds
from jaxpriv.statistics.audit._information import mutual_information
from jaxpriv.statistics.audit.likelihood_ratio import CHI_SQUARED, from_pairs
from jaxpriv.statistics.confidence import population

BETA = 0.05
DATA = Path(__file__).parent / "data"
MEASURES = {
    "mutual-information": lambda n: from_pairs(n, BETA),
    "chi-squared": lambda n: from_pairs(n, BETA, CHI_SQUARED),
    "correct-guess": lambda n: binomial.correct_guess(n, BETA),
    "min-entropy": lambda n: float(np.log(binomial.correct_guess(n, BETA / 2) / binomial.likeliest(n, BETA / 2))),
    "maximal-leakage": lambda n: binomial.maximal_leakage(n, BETA),
    "max-lift": lambda n: binomial.max_lift(n, BETA),
}


def populations() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(7)
    found = {"independent 2x4": np.outer([0.4, 0.6], [0.4, 0.3, 0.2, 0.1])}
    base = generator.dirichlet(np.full(10, 3.0))
    tilt = 0.02 * generator.standard_normal(10)
    rows = np.stack([base * np.exp(tilt), base * np.exp(-tilt)])
    found["weak 2x10"] = np.array([0.35, 0.65])[:, None] * (rows / rows.sum(axis=1, keepdims=True))
    found["strong 3x3"] = np.array([0.3, 0.3, 0.4])[:, None] * (0.88 * np.eye(3) + 0.04)
    rows = generator.dirichlet(np.full(6, 0.6), size=4)
    found["rare s 4x6"] = np.array([0.01, 0.19, 0.3, 0.5])[:, None] * rows
    rows = generator.dirichlet(np.full(40, 0.8), size=2)
    found["sparse 2x40"] = 0.5 * (0.45 * rows + 0.55 * rows.mean(axis=0))
    return {name: joint / joint.sum() for name, joint in found.items()}


def truths(joint: np.ndarray) -> dict[str, float]:
    prior, output = joint.sum(axis=1), joint.sum(axis=0)
    given = joint / prior[:, None]
    return {
        "mutual-information": float(mutual_information(joint)),
        "chi-squared": float((joint**2 / np.outer(prior, output)).sum() - 1),
        "correct-guess": float(joint.max(axis=0).sum()),
        "min-entropy": float(np.log(joint.max(axis=0).sum() / prior.max())),
        "maximal-leakage": float(np.log(given.max(axis=0).sum())),
        "max-lift": float(np.log((given / output).max())),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--sizes", type=int, nargs="+", default=[300, 3000, 30_000])
    options = parser.parse_args()
    rows = []
    one_event = [by_name(name, divergence=None) for name in MEASURES if name != "chi-squared"]
    names = [name for name in MEASURES if name != "chi-squared"]
    for label, joint in populations().items():
        truth = truths(joint)
        for n in options.sizes:
            begun = time.process_time()
            generator = np.random.default_rng(11)
            tables = generator.multinomial(n, joint.ravel(), size=options.repeats).reshape(-1, *joint.shape)
            known = population(tables, BETA)
            before = dict(zip(names, leakage_bounds(known, np.eye(joint.shape[1]), one_event), strict=True))
            resampled = [
                generator.multinomial(n, one.ravel() / n, size=400).reshape(-1, *joint.shape) for one in tables
            ]
            estimates = [
                2 * float(mutual_information(one / n)) - float(np.quantile(mutual_information(many / n), BETA))
                for one, many in zip(tables, resampled, strict=True)
            ]
            for name, bound in MEASURES.items():
                values = np.array([bound(one) for one in tables])
                old, own = before.get(name), name == "mutual-information"
                rows.append([label, n, name, truth[name], float(np.median(values))])
                rows[-1] += [int((values < truth[name] - 1e-12).sum()), options.repeats]
                rows[-1] += ["" if old is None else float(np.median(old.upper[:, 0]))]
                rows[-1] += [float(np.median(estimates)) if own else ""]
                rows[-1] += [int((np.array(estimates) < truth[name]).sum()) if own else ""]
            print(f"{label}, n = {n}: {time.process_time() - begun:.0f} s of processor time", flush=True)
    DATA.mkdir(exist_ok=True)
    with open(DATA / "pairs.csv", "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        header = ["population", "pairs", "measure", "truth", "median", "missed", "repeats", "median of one event"]
        writer.writerow([*header, "median of the bootstrap", "missed by the bootstrap"])
        writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)


if __name__ == "__main__":
    main()
