"""How many passes do first-order methods take to a certified gap, for every kind of measure?

    python -m benchmarks.first_order [--sizes 16 64] [--private 4] [--seed 3] [--passes 6000] [--measures NAME ...]

A pass is one product with the rows of the measures, one with their transpose and one softmax of every entry; a look at
the gap counts as two. For each measure and method a row says after how many passes the certified gap was at most 1e-2,
1e-3, ..., 1e-6 of the optimum (-: not within so many passes), and whether a bound was ever above the optimum, which the
interior-point method knows to 1e-9. Passes do not depend on the machine; times do, and none is printed.

The joint is Dirichlet(1) with 5 % of smooth bumps over ordered symbols, costs are |x - y|/n; budgets are 12 % of what
an independent release costs, limits are in nats.
"""

import argparse
from typing import Any

import numpy as np

import jaxpriv as jp
from jaxpriv import leakage as lk

SHARES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
# Measures by name, with the limit of those that are stated as limits.
MEASURES: dict[str, tuple[Any, float | None]] = {
    "mutual information": (lk.MutualInformation(), None),
    "Sibson 2": (lk.Sibson(2.0), None),
    "Sibson 1/2": (lk.Sibson(0.5), None),
    "Sibson 10": (lk.Sibson(10.0), None),
    "Arimoto 2": (lk.Arimoto(2.0), None),
    "chi-squared": (lk.FInformation(lk.ChiSquared()), None),
    "Hellinger": (lk.FInformation(lk.SquaredHellinger()), None),
    "Jensen-Shannon": (lk.FInformation(lk.JensenShannon()), None),
    "reverse KL": (lk.FInformation(lk.ReverseKullbackLeibler()), None),
    "Brier": (lk.AverageCostGain(lk.BrierLoss()), None),
    "maximal leakage": (lk.MaximalLeakage(), None),
    "correct guess": (lk.CorrectGuess(), None),
    "total variation": (lk.FInformation(lk.TotalVariation()), None),
    "mutual information, limit .02": (lk.MutualInformation(), 0.02),
    "max-information, limit .3": (lk.MaxInformation(), 0.3),
    "max-lift, limit .3": (lk.MaxLift(), 0.3),
    "lift, limit .3": (lk.Lift(), 0.3),
    "LDP, limit .5": (lk.LocalDifferentialPrivacy(), 0.5),
}
# Methods by name, passes of a step, and those of a look at the gap.
METHODS = {"hybrid-gradient": (jp.solvers.PrimalDualHybridGradient().iterations, 2), "mirror-descent": (1, 0)}


def problem_of(name: str, symbols: int, private: int, seed: int) -> jp.DistortionProblem:
    """The instance of a measure."""
    rng = np.random.default_rng(seed)
    place = (np.arange(symbols) + 0.5) / symbols
    centre, width = rng.uniform(size=(private, 1)), rng.uniform(0.05, 0.2, size=(private, 1))
    bumps = rng.dirichlet(np.ones(private))[:, None] * np.exp(-0.5 * ((place - centre) / width) ** 2)
    joint = rng.dirichlet(np.ones(private * symbols)).reshape(private, symbols) + 0.05 * bumps / bumps.sum()
    joint /= joint.sum()
    costs = abs(place[:, None] - place)
    measure, limit = MEASURES[name]
    if limit is not None:
        return jp.DistortionProblem(joint, costs, leakage_budget=limit, leakage=measure)
    return jp.DistortionProblem(joint, costs, budget=0.12 * (joint.sum(axis=0) @ costs).min(), leakage=measure)


def passes_to(problem: jp.DistortionProblem, method: str, most: int, optimum: float) -> tuple[list[int | None], bool]:
    """(passes to every share of `SHARES`, whether every bound was below the optimum)."""
    per_step, per_look = METHODS[method]
    each = per_step + per_look
    history = jp.History(every=1)
    jp.solve(problem, method, tol=1e-12, rtol=SHARES[-1], max_steps=most // each, progress=history)
    steps, gaps, bounds = (np.asarray(history[field], dtype=float) for field in ("step", "gap", "bound"))
    reached = [np.flatnonzero(gaps <= share * abs(optimum)) for share in SHARES]
    counts = [int(steps[first[0]]) * each if len(first) else None for first in reached]
    return counts, bool((bounds <= optimum + 1e-8 * (1.0 + abs(optimum))).all())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[16])
    parser.add_argument("--private", type=int, default=4)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--passes", type=int, default=6000)
    parser.add_argument("--measures", nargs="+", default=list(MEASURES), choices=list(MEASURES))
    asked = parser.parse_args()
    print("| measure | symbols | method | " + " | ".join(f"{share:.0e}" for share in SHARES) + " | bounds hold |")
    print("|---" * (4 + len(SHARES)) + "|")
    for symbols in asked.sizes:
        for name in asked.measures:
            problem = problem_of(name, symbols, asked.private, asked.seed)
            optimum = jp.solve(problem, tol=1e-9).value
            for method in METHODS if problem.of_information else ("hybrid-gradient",):
                counts, hold = passes_to(problem, method, asked.passes, optimum)
                cells = " | ".join("-" if count is None else f"{count:,}" for count in counts)
                print(f"| {name} | {symbols} | {method} | {cells} | {'yes' if hold else 'NO'} |", flush=True)


if __name__ == "__main__":
    main()
