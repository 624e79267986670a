"""How wide and how right bounds for a population are: samples of the census of every size, audited again and again.

    python experiments/audit_coverage/run.py      # writes data/*.csv beside this file; three minutes (loaded machine)
    python experiments/audit_coverage/plot.py     # draws them

The population is the census table, S = (age, income), X = (age, gender, education), whose true leakage is known, so
that it can be counted how often a bound at confidence 0.95 is below it. The mechanism releases x with probability 0.7
and otherwise any symbol. Which s and x go together is known (both name the age): `possible`. For each n,
REPEATS samples:

    plug-in        the value on the sample
    asymptotic     (mutual information only) plug-in + 1.64 standard errors, the one-sided normal limit
    L1 ball        one ball for P(s,x) and continuity of entropy; for maximal leakage one ball for each P(x|s)
    all sets       the bound of `jaxpriv audit`, for all mechanisms at once (all measures share the 0.95)
    held out       the same for a mechanism that was fixed beforehand

The bounds of `jaxpriv audit` hold for about thirty measures together, so for one of them they miss less often than
they may. `black_box.csv`: pairs (s, y) of income and age group, only seen; the upper and the lower bound.
"""

import csv
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import xlogy

from jaxpriv import datasets
from jaxpriv.leakage import MaximalLeakage, MutualInformation
from jaxpriv.statistics.audit import SampleLowerBounds, estimate_information, leakage_bounds, split
from jaxpriv.statistics.audit._information import entropy_change, mutual_information
from jaxpriv.statistics.confidence import L1Ball, l1_radius, population

DATA = Path(__file__).parent / "data"
BETA = 0.05
REPEATS = 200
SIZES = (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
ONE_SIDED = 1.6448536269514722
BLOCK = 20


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)


def maximal_leakage(joint: np.ndarray, mechanism: np.ndarray) -> np.ndarray:
    prior = joint.sum(axis=-1, keepdims=True)
    given = np.where(prior > 0, joint / np.where(prior > 0, prior, 1.0), 0.0) @ mechanism
    return np.log(given.max(axis=-2).sum(axis=-1))


def by_l1_balls(counts: np.ndarray, mechanism: np.ndarray, possible: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mutual information by continuity, maximal leakage by a ball for each s: each with the whole of beta."""
    repeats, private, useful = counts.shape
    n = counts[0].sum()
    distance = np.full(repeats, 0.5 * l1_radius(int(possible.sum()), int(n), BETA))
    information = mutual_information(counts / n @ mechanism) + 2 * entropy_change(distance, private)
    rows = counts.reshape(-1, useful)
    totals, allowed = rows.sum(axis=1), np.tile(possible, (repeats, 1))
    centre = np.where(totals[:, None] > 0, rows / np.maximum(totals, 1)[:, None], allowed / allowed.sum(1)[:, None])
    radius = [l1_radius(int(k), int(m), BETA / private) for k, m in zip(allowed.sum(1), totals, strict=True)]
    upper = L1Ball(centre, np.array(radius), allowed).upper(mechanism.T).reshape(repeats, private, -1)
    return np.minimum(information, np.log(private)), np.log(np.minimum(upper.max(axis=1).sum(axis=1), private))


def by_bounded_differences(counts: np.ndarray, beta: float) -> np.ndarray:
    """An upper bound on I(S;Y) with probability 1 - beta for tables (..., S, Y), without assumptions on P.

    The entropies of frequencies are too low on average, by at most ln(1 + (m-1)/n) (Jensen, Paninski 2003), so
    I <= E I^ + ln(1 + (|S|-1)/n) + ln(1 + (|Y|-1)/n). One pair that changes moves n I^ by at most 2d, d = n ln n -
    (n-1) ln(n-1): with g(k) = k ln k increasing by at most d from one count to the next, the new cell and its margins
    change g(N_sy) - g(N_s) - g(N_y) by an amount in [-2d, 0] and the old ones by one in [0, 2d]. Bounded differences
    (McDiarmid) then give E I^ <= I^ + d sqrt( 2 ln(1/beta)/n ).
    """
    private, released = counts.shape[-2:]
    n = counts.sum(axis=(-2, -1))
    bias = np.log1p((private - 1) / n) + np.log1p((released - 1) / n)
    step = xlogy(n, n) - xlogy(n - 1, n - 1)
    value = mutual_information(counts / n[..., None, None]) + bias + step * np.sqrt(-2 * np.log(beta) / n)
    return np.minimum(value * (1 + 1e-12), np.log(min(private, released)))


def main() -> None:
    data = datasets.census()
    joint = data.joint
    age = [names.index("age") for names in (data.private_names, data.useful_names)]
    possible = data.private_attributes[:, age[0]][:, None] == data.useful_attributes[:, age[1]][None]
    useful = joint.shape[1]
    mechanism = 0.7 * np.eye(useful) + 0.3 / useful
    measures = [MutualInformation(), MaximalLeakage()]
    names = ["mutual-information", "maximal-leakage"]
    truth = [float(mutual_information(joint @ mechanism)), float(maximal_leakage(joint, mechanism))]
    nothing = leakage_bounds(population(np.zeros(joint.shape, int), BETA, possible=possible), mechanism, measures)
    caps = [float(one.cap[0]) for one in nothing if one is not None]
    rows: list[list[Any]] = []
    for n in SIZES:
        begun = time.perf_counter()
        counts = np.random.default_rng(n).multinomial(n, joint.ravel(), size=REPEATS).reshape(-1, *joint.shape)
        found: dict[str, list[np.ndarray]] = {"plug-in": [], "L1 ball": [], "all sets": [], "held out": []}
        fitted = counts / n
        information = mutual_information(fitted @ mechanism)
        found["plug-in"] = [information, maximal_leakage(fitted, mechanism)]
        found["L1 ball"] = list(by_l1_balls(counts, mechanism, possible))
        for label, held_out in (("all sets", False), ("held out", True)):
            parts = []
            for start in range(0, REPEATS, BLOCK):
                known = population(counts[start : start + BLOCK], BETA, possible=possible, held_out=held_out)
                bounds = leakage_bounds(known, mechanism, measures)
                parts.append([one.upper[:, 0] for one in bounds if one is not None])
            found[label] = [np.concatenate(part) for part in zip(*parts, strict=True)]
        outputs = fitted @ mechanism
        product = outputs.sum(axis=1, keepdims=True) * outputs.sum(axis=2, keepdims=True)
        density = np.log(np.where(outputs > 0, outputs / np.where(product > 0, product, 1.0), 1.0))
        # The gradient of I in P(s,x): the influence of one record.
        influence = np.einsum("rsy,xy->rsx", density, mechanism)
        mean = (fitted * influence).sum(axis=(1, 2))
        spread = np.sqrt(((fitted * influence**2).sum(axis=(1, 2)) - mean**2).clip(0) / n)
        found["asymptotic"] = [information + ONE_SIDED * spread]
        for label, values in found.items():
            for k, value in enumerate(values):
                low, middle, high = (float(q) for q in np.quantile(value, (0.05, 0.5, 0.95)))
                missed = int((value < truth[k] - 1e-12).sum())
                rows.append([names[k], label, n, low, middle, high, missed, REPEATS, truth[k], caps[k]])
        print(f"n = {n}: {time.perf_counter() - begun:.1f} s", flush=True)
    write(
        "mechanism.csv",
        ["measure", "method", "records", "low", "median", "high", "missed", "repeats", "truth", "cap"],
        rows,
    )
    groups = np.array([int(g) for g in data.private_attributes[:, age[0]]])
    black_box(np.stack([joint[groups == g].sum(axis=1) for g in range(groups.max() + 1)], axis=1))


def black_box(income: np.ndarray) -> None:
    """Pairs (s, y): bounds on mutual information."""
    value = float(mutual_information(income))
    rows: list[list[Any]] = []
    identity = np.eye(income.shape[1])
    for n in SIZES:
        tables = np.random.default_rng(n).multinomial(n, income.ravel(), size=REPEATS // 2).reshape(-1, *income.shape)
        estimates = [estimate_information(one).miller_madow for one in tables]
        (upper,) = [
            one.upper[:, 0]
            for one in leakage_bounds(population(tables, 0.875 * BETA), identity, [MutualInformation()])
            if one is not None
        ]
        upper = np.minimum(upper, by_bounded_differences(tables, 0.125 * BETA))
        lower = np.array([SampleLowerBounds(*split(one, k), BETA).information for k, one in enumerate(tables)])
        plug_in = mutual_information(tables / n)
        for label, series, wrong in (
            ("plug-in", plug_in, None),
            ("Miller-Madow", np.array([x for x in estimates if x is not None]), None),
            ("upper", upper, upper < value),
            ("lower", lower, lower > value),
        ):
            if series.size:
                low, middle, high = (float(q) for q in np.quantile(series, (0.05, 0.5, 0.95)))
                rows.append(
                    [label, n, low, middle, high, "" if wrong is None else int(wrong.sum()), len(series), value]
                )
    write("black_box.csv", ["method", "pairs", "low", "median", "high", "missed", "repeats", "truth"], rows)


if __name__ == "__main__":
    main()
