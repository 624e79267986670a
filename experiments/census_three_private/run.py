"""Three private attributes of the census at once: S = (income, sex, white or not), X = (age, education, hours).

    python experiments/census_three_private/run.py --adult FOLDER    # writes data/boundary.csv beside this file
    python experiments/census_three_private/plot.py                  # draws it

FOLDER holds the original `adult.data` and `adult.test`; without it they are downloaded once and kept
(`jaxpriv.datasets.fetch_census`). 48842 people, 8 private and 111 useful symbols: age by decades, four levels of
education, weekly hours up to 34, 40, 50 and more. No attribute is shared, so nothing separates. All in nats.

At each R: `reached` is the VALUE, I(S;Y) of a mechanism that exists and has I(X;Y) >= R, rounded up; `proved` is the
BOUND, no mechanism leaks less, rounding included; `gap` their difference; status optimal where it is at most TOL.
`greedy` is Algorithm 1 of Makhdoumi et al. (2014) with target R, `greedy_shared` time sharing between its releases,
`erasure` X itself at random times, `elementary` the bound max(0, R - H(X|S)). `seconds` are of the clock.
"""

import argparse
import csv
from pathlib import Path

import jax
import numpy as np

import jaxpriv as jp
from jaxpriv import datasets
from jaxpriv.funnels.bounds import lower_hull
from jaxpriv.funnels.greedy import greedy_curve
from jaxpriv.leakage import MutualInformation

DATA = Path(__file__).parent / "data"
# Shares of H(X), a proved gap that is enough, and seconds for all of them.
SHARES = (0.82, 0.85, 0.88, 0.91, 0.94, 0.97)
TOL, LIMIT = 1e-5, 900.0
DECADES = (20, 30, 40, 50, 60, 70)
GROUPS = (9, 10, 13)  # <HS | HS-grad | Some-college, Assoc | Bachelor+
HOURS = (35, 41, 51)
HEADER = ["R", "reached", "proved", "gap", "status", "greedy", "greedy_shared", "erasure", "elementary", "seconds"]


def joint_of(folder: Path) -> np.ndarray:
    """P(S,X), shape (8, 111): the combinations that somebody has."""
    raw = datasets.load_adult(folder)
    private = np.stack([raw["income"] == ">50K", raw["sex"] == "Male", raw["race"] == "White"])
    codes = [("age", DECADES), ("education-num", GROUPS), ("hours-per-week", HOURS)]
    useful = np.stack([np.searchsorted(edges, raw[name], side="right") for name, edges in codes])
    _, s = np.unique(private, axis=1, return_inverse=True)
    _, x = np.unique(useful, axis=1, return_inverse=True)
    counts = np.zeros((s.max() + 1, x.max() + 1))
    np.add.at(counts, (s.ravel(), x.ravel()), 1.0)
    return counts / counts.sum()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", type=Path, help="folder with adult.data and adult.test; fetched without it")
    joint = joint_of(datasets.fetch_census(local=parser.parse_args().adult))
    size = joint.shape[1]
    most = float(MutualInformation()(np.diag(joint.sum(axis=0)), np.eye(size)))
    secret = float(MutualInformation()(joint, np.eye(size)))
    targets = most * np.array(SHARES)
    runs = greedy_curve(joint, disclosures=targets)
    points = np.array([(0.0, 0.0), (most, secret), *((run.disclosure, run.leakage) for run in runs)])
    hull = points[lower_hull(points[:, 0], points[:, 1])]
    curve = jp.funnel_frontier(
        jp.FunnelProblem(joint, disclosure=most), disclosures=targets, tol=TOL, time_limit=LIMIT, progress=True
    )
    DATA.mkdir(exist_ok=True)
    with open(DATA / "boundary.csv", "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(HEADER)
        for target, found, run in zip(targets, curve.solutions, runs, strict=True):
            others = [run.leakage, np.interp(target, *hull.T), target * secret / most, max(0.0, target - most + secret)]
            numbers = [float(target), found.upper_bound, found.lower_bound, found.gap]
            writer.writerow([*numbers, found.status, *map(float, others), found.seconds["solve"]])
    optimal = (curve.status == "optimal").sum()
    print(f"{joint.shape}: {optimal} of {len(curve)} optimal, largest gap {curve.gap.max():.1e} nats")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
