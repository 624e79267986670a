"""Slopes of the optimal value for a mechanism too large to store: the memory of the solve and of `sensitivity`.

    python -m benchmarks.operator_slopes --private 64 --symbols 65536 [--rtol 1e-2] [--out FILE.json]

Classes at places of a line and absolute distortion, with a budget of a tenth of the largest useful one. The result in
the joint is a table (S, X); that in the distortion is an operator, of which one block of rows is computed here.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np

import jaxpriv as jp
from benchmarks.machine import machine, versions
from jaxpriv.program.certificates.slopes import DistortionSlopes


def _peak() -> float:
    """GiB of resident memory at most, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--private", type=int, default=64)
    parser.add_argument("--symbols", type=int, default=65536)
    parser.add_argument("--solver", default="two-grid", choices=("two-grid", "accelerated"))
    parser.add_argument("--rtol", type=float, default=1e-2)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    x = (np.arange(options.symbols) + 0.5) / options.symbols
    place, width = np.sort(rng.uniform(0, 1, options.private)), rng.uniform(0.1, 0.3, options.private)
    joint = (np.exp(-0.5 * ((x[:, None] - place) / width) ** 2) / width + 1e-3).T
    problem = jp.DistortionProblem(joint / joint.sum(), jp.distortion.absolute(x), budget=0.025)
    result: dict[str, object] = {
        "machine": machine(),
        "versions": versions(),
        "sizes": [options.private, options.symbols, options.symbols],
        "peak_gib_before": _peak(),
    }
    begun = time.perf_counter()
    found = jp.solve(problem, options.solver, tol=1e-9, rtol=options.rtol)
    result |= {"solver": found.solver, "status": str(found.status), "value": float(found.value)}
    result |= {"gap": float(found.gap), "solve_seconds": time.perf_counter() - begun, "solve_peak_gib": _peak()}
    begun = time.perf_counter()
    slopes = jp.sensitivity(problem, found)
    assert isinstance(slopes.distortion, DistortionSlopes)
    rows = slopes.distortion.rows(np.arange(8))
    result |= {"slopes_seconds": time.perf_counter() - begun, "slopes_peak_gib": _peak()}
    result |= {"budget_slope": np.asarray(slopes.budget).tolist(), "rows": list(rows.shape)}
    text = json.dumps(result, indent=1, default=float) + "\n"
    if options.out is not None:
        options.out.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
