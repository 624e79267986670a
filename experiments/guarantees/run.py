"""What each guarantee costs under the others: the census table, five kinds of optimal mechanisms.

    python experiments/guarantees/run.py      # writes data/*.csv beside this file; two minutes (two shared cores)
    python experiments/guarantees/plot.py     # draws them

S = (age, income), X = (age, gender, education). For each kind of limit, at eight limits, the mapping with the least
mean number of changed attributes (certified), then every measure of `leakage.report` on it.

Whether a log-ratio is infinite depends on the symbols that an output excludes, and a solver leaves some 1e-8 where the
optimum has 0, or e^-1000. So before it is measured a mapping is finished: outputs that less than UNUSED of the people
get are merged into the likeliest one (post-processing: no measure rises), and for private s with P(y|s) < ZERO P(y)
the cells P(y|x) < ZERO P(y) of their useful symbols become 0. An infinity in `measures.csv` is exact for the finished
mapping; of the optimum it means that the lift is beyond ln(1/ZERO) = 11.5 nats or so. `frontier.csv` has the certified
value of the solver, error and own measure of the finished mapping, the largest P(y|s)/P(y) that became 0 and the least
that did not. The optimum need not be unique: another one may do better or worse under the other measures.
"""

import csv
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxpriv as jp
from jaxpriv import datasets, leakage
from jaxpriv.data.distortion import changed_attributes, dense

DATA = Path(__file__).parent / "data"
TOL = 1e-8
UNUSED = 1e-6
ZERO = 1e-5
# Inferential privacy is LDP of S -> Y where every private symbol has mass, as here.
KINDS = {
    "mutual-information": (leakage.MutualInformation(), (0.02, 0.1, 0.2, 0.4, 0.7, 1.0, 1.4, 1.8)),
    "max-information": (leakage.MaxInformation(), (0.05, 0.15, 0.3, 0.6, 1.0, 1.5, 2.0, 2.4)),
    "maximal-leakage": (leakage.MaximalLeakage(), (0.05, 0.15, 0.3, 0.6, 0.9, 1.2, 1.5, 1.8)),
    "lift": (leakage.Lift(), (0.1, 0.25, 0.5, 0.8, 1.2, 1.8, 2.5, 4.0)),
    "inferential": (leakage.InferentialPrivacy(), (0.1, 0.3, 0.7, 1.2, 2.0, 3.0, 4.5, 6.0)),
}


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row] for row in rows)


def finished(joint: np.ndarray, mechanism: np.ndarray) -> tuple[np.ndarray, float, float]:
    """(the mapping without unused outputs and rounding noise, largest P(y|s)/P(y) zeroed, smallest kept)."""
    total = joint.sum(axis=0) @ mechanism
    unused = total < UNUSED
    result = np.where(unused, 0.0, mechanism)
    result[:, np.argmax(total)] += mechanism[:, unused].sum(axis=1)
    result = result[:, ~unused]
    prior, total = joint.sum(axis=1, keepdims=True), joint.sum(axis=0) @ result
    ratio = joint @ result / prior / total
    exposed = (joint > 0).T.astype(float) @ (ratio < ZERO) > 0  # (x, y): x may have an excluded s
    result = np.where(exposed & (result < ZERO * total), 0.0, result)
    zeroed = joint @ result == 0
    full = np.zeros_like(mechanism)
    full[:, ~unused] = result / result.sum(axis=1, keepdims=True)
    return full, float(ratio[zeroed].max(initial=0.0)), float((joint @ result / prior / total)[~zeroed].min())


def main() -> None:
    data = datasets.census()
    joint, cost = data.joint, dense(changed_attributes(data.useful_attributes))
    mass = joint.sum(axis=0)
    curve, rows = [], []
    for kind, (measure, limits) in KINDS.items():
        begun = time.perf_counter()
        for limit in limits:
            found = jp.solve(jp.DistortionProblem(joint, cost, leakage_budget=limit, leakage=measure), tol=TOL)
            mechanism, *cut = finished(joint, np.asarray(found.mechanism))
            error = float((mass[:, None] * mechanism * cost).sum())
            table = leakage.report(joint, mechanism)
            own = next(row.value for row in table.rows if row.name == kind)
            numbers = [float(found.value), float(found.lower_bound), float(found.gap), str(found.status)]
            curve.append([kind, limit, *numbers, error, own, int((mechanism.sum(axis=0) > 0).sum()), *cut])
            print(
                f"{kind:19} limit {limit:4.2f}: changed {found.value:.5f} ({found.gap:.0e}, {found.status}), finished "
                f"{error:.5f} at {own:.5f}, {curve[-1][8]} outputs, cut {cut[0]:.0e} .. {cut[1]:.0e}",
                flush=True,
            )
            for row in table.rows:
                of = [row.name, row.form, row.order or "", row.divergence or ""]
                rows.append([kind, limit, error, *of, float(row.value), row.units])
        print(f"    {time.perf_counter() - begun:.1f} s", flush=True)
    header = ["kind", "limit_nats", "value", "lower_bound", "gap", "status", "error", "own", "outputs"]
    write("frontier.csv", [*header, "largest_ratio_zeroed", "smallest_ratio_kept"], curve)
    header = ["kind", "limit_nats", "error", "measure", "form", "order", "divergence", "value", "units"]
    write("measures.csv", header, rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
