"""Two grids for four measures of ordered symbols: certified gap, processor time, memory.

    python -m benchmarks.large_measures [--sizes 16384 65536] [--measures NAME ...]

64 private symbols, a smooth joint (`benchmarks.cases`), absolute costs on [0, 1], a budget of .1, to a relative 1e-2.
The first row of a size compiles what the others share; `GiB` is the largest resident size of the process so far.
"""

import argparse
import os
import time

import numpy as np

import jaxpriv as jp
from benchmarks.cases import Case
from benchmarks.memory import peak

MEASURES = {
    "mutual information": jp.leakage.MutualInformation(),
    "Sibson 2": jp.leakage.Sibson(2.0),
    "chi-squared": jp.leakage.FInformation(jp.leakage.ChiSquared()),
    "maximal leakage": jp.leakage.MaximalLeakage(),
}
PRIVATE, BUDGET, RTOL = 64, 0.1, 1e-2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[16_384, 65_536])
    parser.add_argument("--measures", nargs="+", default=list(MEASURES), choices=list(MEASURES))
    asked = parser.parse_args()
    print("| symbols | measure | value | relative gap | processor, s | GiB |\n|---|---|---|---|---|---|")
    for size in asked.sizes:
        made = Case.of("ordered", n=size, S=PRIVATE, distortion="absolute", multiplier=4.0, seed=0).build()
        places = (np.arange(size) + 0.5) / size
        for name in asked.measures:
            begun = time.process_time()
            problem = jp.DistortionProblem(
                made.joint, jp.distortion.absolute(places), budget=BUDGET, leakage=MEASURES[name]
            )
            found = jp.solve(problem, "two-grid", rtol=RTOL)
            spent, gap = time.process_time() - begun, found.gap / found.value
            print(
                f"| {size:,} | {name} | {found.value:.5f} | {gap:.1e} | {spent:.0f} | {peak(os.getpid()) / 1024:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
