"""Does the hybrid gradient ever stall, or claim what is false? Random instances of every measure and limit.

    python -m benchmarks.first_order_random [--count 10000] [--seed 0] [--measures NAME ...]

The instances are shared among the measures of `benchmarks.first_order`: joints of 3 private and 5 useful symbols,
Dirichlet of parameter .1, .3 or 1, costs |x - y|/n, Hamming or uniform, a budget of 2 to 98 % of what an independent
release costs, or a limit of 5 to 95 % of what X itself leaks. A row counts, for one measure, the instances that are at
a certified gap above 1e-4 of the value after 20,000 passes, those with a result that is no number, and those with a
bound above a value that the interior-point method has reached, or a value below a bound that it has proved. Values up
to 1e-7 nats count as 0.
"""

import argparse
from typing import Any

import numpy as np

import jaxpriv as jp
from benchmarks.first_order import MEASURES, passes_of_step

PRIVATE, SYMBOLS = 3, 5
PASSES, SHARE, NOTHING = 20_000, 1e-4, 1e-7
# What rounding may make of a bound, in units of 1 + |value|.
ROUNDING = 1e-9


def instance(measure: Any, limited: bool, rng: np.random.Generator) -> jp.DistortionProblem:
    """One of them."""
    joint = rng.dirichlet(np.full(PRIVATE * SYMBOLS, rng.choice([0.1, 0.3, 1.0]))).reshape(PRIVATE, SYMBOLS)
    joint = np.maximum(joint, 1e-9)
    joint /= joint.sum()
    place = np.arange(SYMBOLS) / SYMBOLS
    kinds = abs(place[:, None] - place), 1.0 - np.eye(SYMBOLS), rng.uniform(size=(SYMBOLS, SYMBOLS))
    costs = kinds[rng.integers(3)]
    if limited:
        limit = rng.uniform(0.05, 0.95) * float(measure(joint, np.eye(SYMBOLS)))
        return jp.DistortionProblem(joint, costs, leakage_budget=limit, leakage=measure)
    least, most = joint.sum(axis=0) @ costs.min(axis=1), (joint.sum(axis=0) @ costs).min()
    return jp.DistortionProblem(joint, costs, budget=least + rng.uniform(0.02, 0.98) * (most - least), leakage=measure)


def counts(name: str, count: int, rng: np.random.Generator) -> tuple[int, int, int]:
    """(stalls, results that are no numbers, false claims) of instances of one measure."""
    measure, limit = MEASURES[name]
    problems = [instance(measure, limit is not None, rng) for _ in range(count)]
    steps = int(PASSES // passes_of_step(problems[0], "hybrid-gradient"))
    found = jp.solve_many(problems, solver="hybrid-gradient", tol=NOTHING, rtol=SHARE, max_steps=steps)
    known = jp.solve_many(problems, solver="interior-point", tol=1e-8)
    value, bound, optimum, proved = (
        np.array([one.value for one in found]),
        np.array([one.lower_bound for one in found]),
        np.array([one.value for one in known]),
        np.array([one.lower_bound for one in known]),
    )
    number = np.isfinite(value) & np.isfinite(bound)
    rounding = ROUNDING * (1.0 + abs(optimum))
    false = (bound > optimum + rounding) | (value < proved - rounding)
    stalls = value - bound > np.maximum(NOTHING, SHARE * abs(value))
    for i in np.flatnonzero(stalls | ~number | false):
        print(f"  {name} {i}: value {value[i]:.8g}, bound {bound[i]:.8g}, interior point {optimum[i]:.8g}", flush=True)
    return int(stalls.sum()), int((~number).sum()), int(false.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--measures", nargs="+", default=list(MEASURES), choices=list(MEASURES))
    asked = parser.parse_args()
    print("| measure | instances | stalls | no numbers | false claims |\n|---|---|---|---|---|")
    for place, name in enumerate(asked.measures):
        count = len(range(place, asked.count, len(asked.measures)))
        row = counts(name, count, np.random.default_rng([asked.seed, list(MEASURES).index(name)]))
        print(f"| {name} | {count:,} | " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
