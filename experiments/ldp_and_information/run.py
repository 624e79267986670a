"""What a mechanism that is optimal for one measure is worth under another: 10,080 certified optima of one study.

    python experiments/ldp_and_information/run.py [--out FOLDER] [--workers N]   # writes data/*.csv beside this file
    python experiments/ldp_and_information/plot.py                               # draws them

study.toml declares random joints, budgets as shares of the way from no distortion to that of the best constant, and
three measures. For every joint and budget there are so three mechanisms, each with the least of its measure. All three
are measured in all three: by what factor is more leaked in a measure that was not minimised? Factors are at least as
large as written, because the least leakage is at most the certified value that they divide by. Optima are not unique:
other mechanisms of the same least may leak less in the other measures. Problems whose least leakage is below 1e-3 nats
are left out of the factors.

The results stay in FOLDER (by default a temporary one); a run that was ended continues there.
"""

import argparse
import csv
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import jaxpriv as jp

HERE = Path(__file__).parent
MEASURES = ("mutual-information", "maximal-leakage", "ldp")
HEADER = ["family", "size", "share", "optimised", "measured", "joints", "infinite", "q10", "median", "q90"]
LEAST = 1e-3  # nats
# A ratio of probabilities below this is rounding of 0: the log-ratio counts as infinite.
ZERO = 1e-12


def information(joint: np.ndarray, mechanism: np.ndarray) -> float:
    both = joint @ mechanism
    product = both.sum(axis=1, keepdims=True) * both.sum(axis=0, keepdims=True)
    shown = both > 0
    return float((both[shown] * np.log(both[shown] / product[shown])).sum())


def maximal_leakage(joint: np.ndarray, mechanism: np.ndarray) -> float:
    return float(np.log(channel(joint, mechanism).max(axis=0).sum()))


def local_privacy(joint: np.ndarray, mechanism: np.ndarray) -> float:
    seen = channel(joint, mechanism)
    seen = seen[:, seen.max(axis=0) > ZERO]
    least, most = seen.min(axis=0), seen.max(axis=0)
    return float("inf") if (least <= ZERO * most).any() else float(np.log(most / least).max())


def channel(joint: np.ndarray, mechanism: np.ndarray) -> np.ndarray:
    """P(y|s)."""
    return joint @ mechanism / joint.sum(axis=1, keepdims=True)


VALUE = dict(zip(MEASURES, (information, maximal_leakage, local_privacy), strict=True))


def factors(result: Any) -> list[list[Any]]:
    """One row for each family, budget and pair of measures: quantiles of the factor over its joints."""
    table = {row["index"]: row for row in result.table.iter_rows(named=True)}
    groups: defaultdict[tuple, dict[str, tuple[float, np.ndarray]]] = defaultdict(dict)
    joints: dict[tuple, np.ndarray] = {}
    for i, solution in result.solutions():
        row = table[i]
        place = (row["joint"], row["correlation"], row["useful"], row["seed"], row["target"])
        groups[place][row["measure"]] = (row["value"], solution.mechanism)
        joints[place] = result.problem(i).joints[0]
    found: defaultdict[tuple, list[float]] = defaultdict(list)
    for place, group in groups.items():
        family, correlation, size, _, share = place
        for measured in MEASURES:
            least = group[measured][0]
            if least < LEAST:
                continue
            for optimised in MEASURES:
                leak = VALUE[measured](joints[place], group[optimised][1])
                name = family if correlation is None else f"{family} {correlation:g}"
                found[name, size, share, optimised, measured].append(leak / least)
    rows = []
    for key, ratios in sorted(found.items()):
        finite = np.isfinite(ratios)
        quantiles = np.quantile(ratios, [0.1, 0.5, 0.9], method="higher")
        rows.append([*key, len(ratios), int((~finite).sum()), *map(float, quantiles)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "results") if options.out is None else options.out
        begun, used = time.perf_counter(), time.process_time()
        result = jp.sweep(HERE / "study.toml", folder, workers=options.workers, progress=True)
        seconds, used = time.perf_counter() - begun, time.process_time() - used
        table = result.table
        counts = dict(sorted(table["status"].value_counts().iter_rows()))
        print(f"{len(table)} problems, {counts}, worst gap {table['gap'].max():.2e}")
        print(f"{result.new} chunks in {seconds:.0f} s, {used:.0f} s of processor time in this process")
        assert result.complete
        rows = factors(result)
    with open(HERE / "data" / "factors.csv", "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(
            ["family", "size", "share", "optimised", "measured", "joints", "infinite", "q10", "median", "q90"]
        )
        writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    print("factor of the measure that was not minimised, median over families, at share 0.3")
    for optimised in MEASURES:
        each = {
            measured: np.median([row[8] for row in rows if row[2] == 0.3 and (row[3], row[4]) == (optimised, measured)])
            for measured in MEASURES
        }
        print(f"  {optimised:>18}:", *(f"{measured} {value:.3g}" for measured, value in each.items()))


if __name__ == "__main__":
    main()
