"""The largest dense problems of one machine: one solve by interior point, its seconds, certified gap and peak memory.

    python -m benchmarks.dense_limits --private 512 --symbols 512 [--memory-gib 22] [--out FILE.json]

A random joint, absolute distortion, half of the budget of the best constant. `--memory-gib` replaces the free memory
that the solver compares its plan with. With the CPU kernels a cube of 1024 symbols is planned with 8.8 GiB: one set of
systems, 8 GiB, and what has the size of a mechanism.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np

import jaxpriv as jp
from benchmarks.machine import machine, versions
from jaxpriv._runtime import resources


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--private", type=int, default=512)
    parser.add_argument("--symbols", type=int, default=512)
    parser.add_argument("--memory-gib", type=float, default=None)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    if options.memory_gib is not None:
        resources.free_memory = lambda: options.memory_gib * 2.0**30
    size = options.symbols
    joint = np.random.default_rng(0).dirichlet(np.ones(options.private * size)).reshape(options.private, size)
    distortion = jp.distortion.absolute(np.arange(size) / size)
    masses = joint.sum(axis=0)
    idle = (masses[:, None] * abs(np.subtract.outer(np.arange(size), np.arange(size))) / size).sum(axis=0).min()
    problem = jp.DistortionProblem(joint, distortion, budget=0.5 * idle)
    begun = time.perf_counter()
    found = jp.solve(problem, "interior-point", tol=1e-6)
    result = {
        "machine": machine(),
        "versions": versions(),
        "sizes": [options.private, size, size],
        "status": str(found.status),
        "gap": float(found.gap),
        "steps": int(found.steps),
        "seconds": found.seconds,
        "all_seconds": time.perf_counter() - begun,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    text = json.dumps(result, indent=1, default=float) + "\n"
    if options.out is not None:
        options.out.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
