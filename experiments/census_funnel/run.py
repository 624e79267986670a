"""What can leak about S at each I(X;Y): the census table between its two certified boundaries, in five binnings.

    python experiments/census_funnel/run.py --adult FOLDER    # writes data/*.csv beside this file
    python experiments/census_funnel/plot.py                  # draws them

FOLDER holds the original `adult.data` and `adult.test`; without it they are downloaded once and kept
(`jaxpriv.datasets.fetch_census`). `--embedded` needs neither: the first three binnings are those of the table that is
part of jaxpriv. The setting is that of Fig. 1 of Makhdoumi, Salamatian, Fawaz and Medard (2014):
S = (age, income), X = (age, gender, education), 48842 people; the other binnings split or join its groups, or hide
income alone. Every number is in nats and exact on the joint of the table.

`boundaries.csv` has POINTS values of R, evenly spaced up to H(X), on both boundaries of each binning, and INNER more on
the least one where it bends: between the most that can be disclosed without leakage and H(X|A), A the attribute that S
and X share (H(X) without one). There `reached` is the VALUE: I(S;Y) of a mechanism that exists and keeps its target
(I(X;Y) >= R on the least boundary, <= R on the most), rounded against it. `proved` is the BOUND: no mechanism crosses
it, rounding included. `gap` is their difference and `status` is optimal where it is at most TOL. Beside them, at the
same R: `greedy` (least: Algorithm 1 with target R; most: the largest leakage of Algorithm 2 with I(X;Y) <= R, over its
POINTS targets; empty where there is none), `greedy_shared` (time sharing between the releases on the way of all runs),
`erasure` (X itself at random times), and `elementary`, the bounds max(0, R - H(X|S)) and min(R, I(S;X)).

`greedy.csv` has the greedy releases, `dropping.csv` each choice of attributes, `binnings.csv` a summary, with the most
that can be disclosed with no leakage at all.
"""

import argparse
import csv
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxpriv as jp
from jaxpriv import baselines, datasets
from jaxpriv.funnels.bounds import lower_hull
from jaxpriv.funnels.greedy import Merging, greedy_curve
from jaxpriv.funnels.pricing import blocks_of
from jaxpriv.leakage import MutualInformation

DATA = Path(__file__).parent / "data"
POINTS = 80
INNER = 60
TOL = 1e-6
# Ages 17 to 19, then five years each, 70 and over.
FIVE_YEARS = (20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70)
BACHELOR = 3  # the code of "Bachelor+" in the documented binning
# education-num of the raw files: 1 Preschool, ..., 16 Doctorate; and the documented groups by it.
GROUPS = (9, 10, 13)  # <HS | HS-grad | Some-college, Assoc | Bachelor+


@dataclass(frozen=True)
class Binning:
    """Counts of people by their useful and private symbols, both combinations of attribute codes."""

    name: str
    title: str
    joint: np.ndarray
    attributes: np.ndarray
    names: tuple[str, ...]


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)  # all digits: a bound is not to be rounded across its value


def information(joint: np.ndarray, mechanism: np.ndarray) -> float:
    return float(MutualInformation()(joint, mechanism))


def binning(
    name: str, title: str, private: dict[str, np.ndarray], useful: dict[str, np.ndarray], people: np.ndarray
) -> Binning:
    """The joint of the combinations that somebody has; `people` (n,) have the codes of row n."""
    codes, x = np.unique(np.stack(list(useful.values()), axis=1), axis=0, return_inverse=True)
    secrets, s = np.unique(np.stack(list(private.values()), axis=1), axis=0, return_inverse=True)
    counts = np.zeros((len(secrets), len(codes)))
    np.add.at(counts, (s.ravel(), x.ravel()), people)
    return Binning(name, title, counts / counts.sum(), codes, tuple(useful))


def binnings(folder: Path | None) -> Iterator[Binning]:
    data = datasets.census()
    s, x = np.nonzero(data.counts)
    people = data.counts[s, x]
    age, gender, education = data.useful_attributes[x].T
    income = data.private_attributes[s, data.private_names.index("income")]
    both = {"age": age, "income": income}
    full = {"age": age, "gender": gender, "education": education}
    yield binning("documented", "decades, 4 levels of education", both, full, people)
    bachelor = {**full, "education": education == BACHELOR}
    yield binning("bachelor", "decades, bachelor's degree or not", both, bachelor, people)
    yield binning("income", "income alone is private", {"income": income}, full, people)

    if folder is None:
        return
    raw = datasets.load_adult(folder)
    one = np.ones(len(raw["age"]))
    income = raw["income"] == ">50K"
    five = np.searchsorted(FIVE_YEARS, raw["age"], side="right")
    decade = np.searchsorted(FIVE_YEARS[::2], raw["age"], side="right")
    level = np.searchsorted(GROUPS, raw["education-num"], side="right")
    male = raw["sex"] == "Male"
    fine = {"age": five, "gender": male, "education": level}
    yield binning("five-years", "five-year ages, 4 levels", {"age": five, "income": income}, fine, one)
    degrees = {"age": decade, "gender": male, "education": raw["education-num"]}
    yield binning("degrees", "decades, 16 levels of education", {"age": decade, "income": income}, degrees, one)


def shared(runs: tuple[Merging, ...], most: float, at: np.ndarray, *, upper: bool) -> np.ndarray:
    """Time sharing between all releases on the way of the runs, nothing, and X itself."""
    points = np.array(
        [(0.0, 0.0), *((r, v) for run in runs for r, v in zip(run.disclosures, run.leakages, strict=True))]
    )
    points[:, 0] = np.minimum(points[:, 0], most)
    vertices = lower_hull(points[:, 0], -points[:, 1] if upper else points[:, 1])
    return np.interp(at, *points[vertices].T)


def study(case: Binning) -> dict[str, list[list[Any]]]:
    joint, size = case.joint, case.joint.shape[1]
    source = joint.sum(axis=0)
    secret = information(joint, np.eye(size))
    most = information(np.diag(source), np.eye(size))
    silent = jp.solve(jp.FunnelProblem(joint, leakage_budget=0.0), tol=TOL)
    blocks = blocks_of(joint)
    bend = most - information(np.diag([block.mass for block in blocks]), np.eye(len(blocks)))
    evenly = most * np.arange(1, POINTS + 1) / POINTS
    inner = silent.disclosure + (bend - silent.disclosure) * np.arange(1, INNER + 1) / INNER
    targets = {"least": np.unique(np.concatenate([evenly, inner])), "most": evenly}
    relevances = secret * np.arange(POINTS) / POINTS
    begun = time.perf_counter()
    runs = {
        "least": greedy_curve(joint, disclosures=targets["least"]),
        "most": greedy_curve(joint, relevances=relevances),
    }
    taken = time.perf_counter() - begun
    rows: dict[str, list[list[Any]]] = {"boundaries": [], "greedy": [], "dropping": [], "binnings": []}
    for side, wanted in (("least", targets["least"]), ("most", relevances)):
        for target, run in zip(wanted, runs[side], strict=True):
            rows["greedy"].append([case.name, side, float(target), run.disclosure, run.leakage, run.symbols])
    frontiers = {
        "least": jp.funnel_frontier(jp.FunnelProblem(joint, disclosure=most), disclosures=targets["least"], tol=TOL),
        "most": jp.funnel_frontier(jp.BottleneckProblem(joint, disclosure=most), disclosures=targets["most"], tol=TOL),
    }
    for side, curve in frontiers.items():
        together = shared(runs[side], most, targets[side], upper=side == "most")
        for k, (target, found) in enumerate(zip(targets[side], curve.solutions, strict=True)):
            reached, proved = found.upper_bound, found.lower_bound
            alone: float | str = runs["least"][k].leakage
            elementary = max(0.0, target - (most - secret))
            if side == "most":
                reached, proved = found.lower_bound, found.upper_bound
                elementary = min(target, secret)
                alone = max((run.leakage for run in runs["most"] if run.disclosure <= target), default="")
            numbers = [float(target), reached, proved, found.gap, found.status, found.multiplier]
            others = [alone, float(together[k]), float(target * secret / most), float(elementary)]
            ways = [found.mechanism.shape[1], found.steps, found.seconds["solve"]]
            rows["boundaries"].append([case.name, side, *numbers, *others, *ways])
    for number in range(len(case.names) + 1):
        for dropped in itertools.combinations(range(len(case.names)), number):
            mechanism = baselines.dropping(case.attributes, dropped)
            kept = " ".join(name for k, name in enumerate(case.names) if k not in dropped) or "nothing"
            disclosed = information(np.diag(source), mechanism)
            rows["dropping"].append([case.name, kept, disclosed, information(joint, mechanism)])
    summary = [case.name, case.title, *joint.shape, most, secret, most - secret]
    for curve in frontiers.values():
        summary += [
            len(curve),
            int((curve.status == "optimal").sum()),
            float(curve.gap.max()),
            sum(found.seconds["solve"] for found in curve.solutions),
        ]
    summary += [silent.disclosure, silent.upper_bound, silent.status, taken]
    rows["binnings"].append(summary)
    curves = ", ".join(
        f"{side} {sum(one.seconds['solve'] for one in curve.solutions):.1f} s, gap {curve.gap.max():.1e}"
        for side, curve in frontiers.items()
    )
    print(f"{case.name:11} {joint.shape}: {curves}; greedy {taken:.1f} s; silent {silent.disclosure:.4f}", flush=True)
    return rows


HEADERS = {
    "boundaries": [
        *("binning", "boundary", "R", "reached", "proved", "gap", "status", "slope"),
        *("greedy", "greedy_shared", "erasure", "elementary", "outputs", "rounds", "seconds"),
    ],
    "greedy": ["binning", "boundary", "target", "disclosure", "leakage", "outputs"],
    "dropping": ["binning", "kept", "disclosure", "leakage"],
    "binnings": [
        *("binning", "title", "private", "useful", "H(X)", "I(S;X)", "H(X|S)"),
        *("least_points", "least_optimal", "least_worst_gap", "least_seconds"),
        *("most_points", "most_optimal", "most_worst_gap", "most_seconds"),
        *("silent_disclosure", "silent_bound", "silent_status", "greedy_seconds"),
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", type=Path, help="folder with adult.data and adult.test; fetched without it")
    parser.add_argument("--embedded", action="store_true", help="the binnings of the embedded table only")
    asked = parser.parse_args()
    folder = None if asked.embedded else datasets.fetch_census(local=asked.adult)
    tables: dict[str, list[list[Any]]] = {name: [] for name in HEADERS}
    for case in binnings(folder):
        for name, rows in study(case).items():
            tables[name] += rows
    for name, header in HEADERS.items():
        write(f"{name}.csv", header, tables[name])


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
