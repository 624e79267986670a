"""One script for a machine with an accelerator: peaks of the device, then dense, batched and streaming solves.

    python -m benchmarks.accelerator [--scale full|workstation|small] [--dry-run] [--parts NAME ...] [--out PATH]

Before anything runs it prints what each part is predicted to take: floating-point operations and the least memory
traffic, counted; memory; and the least seconds that published peaks of three devices allow (`DEVICES`). Each part then
runs in a process of its own, so that its peak memory is its own and one that fails leaves the others. `--dry-run` ends
before anything runs. The JSON has the device, versions, predictions and measurements in separate fields.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxpriv._runtime.files import atomic_write

Number = float | int | str | None

# (matrix product float64, matrix product float32 of full precision, memory traffic) in a second, and bytes of memory.
# H100 and H200 SXM: NVIDIA's data sheets (float64 by tensor cores 67e12, without them 34e12). TPU v5e: Google Cloud's
# page gives 197e12 for bfloat16, and JAX makes a float32 product of "highest" precision of six of those; it has no
# float64 units, and no rate of its emulation is published.
DEVICES: dict[str, tuple[float | None, float, float, float]] = {
    "H100 SXM": (67e12, 67e12, 3.35e12, 80e9),
    "H200 SXM": (67e12, 67e12, 4.8e12, 141e9),
    "TPU v5e": (None, 197e12 / 6, 0.819e12, 16e9),
}


class Work(NamedTuple):
    """What a unit of work (a step, a pass) takes, counted."""

    unit: str
    flop: float
    traffic: float  # bytes that the portable code moves at least
    memory: float  # bytes held at once
    double: bool  # float64, else float32


def _dense(n: float) -> float:
    """Bytes that the portable interior-point method holds for |S| = |X| = |Y| = n, as `auto` plans them."""
    return 8 * (3.25 * n**3 + 2 * 48 * n**2)


class Cube(NamedTuple):
    """|S| = |X| = |Y| = n, by the interior-point method in float64."""

    n: int

    def work(self) -> Work:
        """A Newton step that eliminates the rules: Y (S X^2 + X^3) operations; B is written, read and factored, the
        inverse factor is written, read once for the Schur complement and twice for each of two solves."""
        n = float(self.n)
        return Work("Newton step", 2 * n**4, 8 * n**3 * 8, _dense(n), True)

    def run(self) -> dict[str, Number]:
        import jaxpriv as jp

        joint = np.random.default_rng(0).dirichlet(np.ones(self.n), self.n) / self.n
        grid = (np.arange(self.n) + 0.5) / self.n
        problem = jp.DistortionProblem(joint, jp.distortion.absolute(grid).matrix(), budget=0.1)
        return _solved(jp.solve(problem, "interior-point"))


class Batch(NamedTuple):
    """`count` problems of n^3 at once."""

    n: int
    count: int

    def work(self) -> Work:
        """A Newton step of all of them; their iterates stay in fast memory only where they are small."""
        n, count = float(self.n), float(self.count)
        return Work("Newton step of all", 2 * n**4 * count, 8 * n**3 * 8 * count, _dense(n) * count, True)

    def run(self) -> dict[str, Number]:
        import jaxpriv as jp

        rng = np.random.default_rng(0)
        d = 1.0 - np.eye(self.n)
        joints = rng.dirichlet(np.ones(self.n**2), self.count).reshape(-1, self.n, self.n)
        problems = [jp.DistortionProblem(joint, d, budget=0.1) for joint in joints]
        begun = time.perf_counter()
        first = jp.solve_many(problems)
        cold = time.perf_counter() - begun
        begun = time.perf_counter()
        solutions = jp.solve_many(problems)
        warm = time.perf_counter() - begun
        return {
            "compile_and_first_seconds": cold,
            "solve_seconds": warm,
            "milliseconds_each": 1e3 * warm / self.count,
            "certified": sum(s.status == "optimal" for s in solutions),
            "count": self.count,
            "largest_gap": max(float(s.gap) for s in solutions),
            "steps": max(int(s.steps) for s in solutions),
            "same_twice": str(all(a.value == b.value for a, b in zip(first, solutions, strict=True))),
        }


class Pass(NamedTuple):
    """One pass of the streaming solver over |X| x |Y| pairs, without a solve around it."""

    private: int
    symbols: int
    double: bool

    def work(self) -> Work:
        """Two products of 2 S X Y operations. The portable code writes the logits of a block and reads them for the
        largest, the sum, the second product, the distortion and the bound, and writes and reads the weights: eight
        numbers a pair."""
        s, n, size = float(self.private), float(self.symbols), 8 if self.double else 4
        return Work("pass", 4 * s * n**2, 8 * size * n**2, 16 * 8 * s * n + 4 * 2.0**28, self.double)

    def run(self) -> dict[str, Number]:
        import jax

        from benchmarks.passes import data, one_pass
        from jaxpriv._runtime.compilation import own_settings

        with own_settings():
            args = data(self.private, self.symbols, self.symbols, "float64" if self.double else "float32")
            begun = time.perf_counter()
            run = jax.jit(one_pass).lower(*args).compile()
            spent = time.perf_counter() - begun
            return {"compile_seconds": spent, "solve_seconds": _least(lambda: run(*args)), "steps": 1}


class Streaming(NamedTuple):
    """A streaming solve of ordered symbols by two grids, certified on all pairs in float64."""

    private: int
    symbols: int

    def work(self) -> Work:
        """The float64 pass over all pairs that bounds the optimum; a solve makes one for each grid it certifies."""
        s, n = float(self.private), float(self.symbols)
        return Work("bounding pass", 2 * s * n**2, 3 * 8 * n**2, 16 * 8 * s * n, True)

    def run(self) -> dict[str, Number]:
        import jax.numpy as jnp

        import jaxpriv as jp

        x = (np.arange(self.symbols) + 0.5) / self.symbols
        place = jnp.asarray((np.arange(self.private) + 0.5) / self.private)
        joint = jp.joints.from_function(lambda v: jnp.exp(-((v[0] - place) ** 2) / 0.02) + 0.01, x)
        problem = jp.DistortionProblem(joint, jp.distortion.absolute(x), budget=0.05)
        found = _solved(jp.solve(problem, jp.TwoGrid(), rtol=1e-2))
        found["coarse_steps"] = found.pop("steps")  # not the unit of `work`
        return found


class Peaks(NamedTuple):
    """What the device reaches with nothing else to do: matrix products, and a + c b over long arrays."""

    order: int
    length: int

    def work(self) -> Work:
        """A float64 product."""
        n = float(self.order)
        return Work("matrix product", 2 * n**3, 3 * 8 * n**2, 3 * 8 * max(n**2, float(self.length)), True)

    def run(self) -> dict[str, Number]:
        import jax
        import jax.numpy as jnp

        from jaxpriv._runtime.compilation import own_settings

        found: dict[str, Number] = {}
        with own_settings():
            for name in ("float64", "float32"):
                a = jnp.ones((self.order, self.order), name)
                product = jax.jit(lambda a: jnp.matmul(a, a, precision="highest")).lower(a).compile()
                found[f"{name}_flop_per_second"] = 2.0 * self.order**3 / _least(lambda a=a, run=product: run(a))
            long = jnp.ones(self.length)
            triad = jax.jit(lambda a, b: a + 3.0 * b).lower(long, long).compile()
            found["bytes_per_second"] = 24.0 * self.length / _least(lambda: triad(long, long))
        return found


Part = Peaks | Cube | Batch | Pass | Streaming

SCALES: dict[str, dict[str, Part]] = {
    "full": {
        "peaks": Peaks(8192, 2**28),
        "batch-8": Batch(8, 10_000),
        "batch-32": Batch(32, 1_000),
        "pass-float32": Pass(64, 65_536, False),
        "pass-float64": Pass(64, 65_536, True),
        "cube-256": Cube(256),
        "cube-1024": Cube(1024),
        "streaming": Streaming(64, 1_000_000),
    },
    "workstation": {
        "peaks": Peaks(2048, 2**26),
        "batch-8": Batch(8, 2_000),
        "pass-float32": Pass(64, 8_192, False),
        "pass-float64": Pass(64, 8_192, True),
        "cube-128": Cube(128),
        "cube-256": Cube(256),
        "streaming": Streaming(64, 16_384),
    },
    "small": {
        "peaks": Peaks(256, 2**20),
        "batch-8": Batch(8, 400),
        "pass-float32": Pass(8, 512, False),
        "pass-float64": Pass(8, 512, True),
        "cube": Cube(16),
        "streaming": Streaming(4, 1_000),
    },
}


def predicted(part: Part) -> dict[str, Number]:
    """Counts of one unit of work, and the least seconds that each device's published peaks allow it; None where a
    precision has no published rate or the memory does not suffice."""
    work = part.work()
    row: dict[str, Number] = dict(work._asdict())
    for name, (double, single, traffic, memory) in DEVICES.items():
        rate = double if work.double else single
        fits = work.memory <= memory
        row[f"{name} seconds"] = max(work.flop / rate, work.traffic / traffic) if rate is not None and fits else None
    return row


def attained(work: Work, measured: dict[str, Number], peaks: dict[str, Number]) -> float | None:
    """Operations in a second, counted, as a share of those of this device's own matrix product in this precision."""
    seconds, steps = measured.get("solve_seconds"), measured.get("steps")
    rate = peaks.get("float64_flop_per_second" if work.double else "float32_flop_per_second")
    if not all(isinstance(number, (int, float)) for number in (seconds, steps, rate)):
        return None
    return float(steps) * work.flop / float(rate) / float(seconds)


def measure(part: Part) -> dict[str, Number]:
    """Run a part in this process: its own numbers, and the peak memory of the process and of the device."""
    import jax

    from benchmarks.memory import peak

    found = part.run()
    resident = peak(os.getpid())
    device = (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    return {**found, "peak_host_bytes": None if resident is None else resident * 2**20, "peak_device_bytes": device}


def _solved(solution: object) -> dict[str, Number]:
    from jaxpriv import Solution

    assert isinstance(solution, Solution)
    return {
        "compile_seconds": solution.seconds["compile"],
        "solve_seconds": solution.seconds["solve"],
        "steps": int(solution.steps),
        "status": solution.status,
        "solver": solution.solver,
        "value": float(solution.value),
        "lower_bound": float(solution.lower_bound),
        "gap": float(solution.gap),
    }


def _least(run: Callable[[], object], repeats: int = 5) -> float:
    import jax

    times = []
    for _ in range(1 + repeats):
        begun = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - begun)
    return min(times)


def _in_child(scale: str, name: str) -> dict[str, Number]:
    """A part in a process of its own; what went wrong, where it did."""
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "part.json"
        words = [sys.executable, "-m", "benchmarks.accelerator", "--scale", scale, "--child", name, "--out", str(out)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        if done.returncode == 0:
            return json.loads(out.read_text())
    lines = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
    return {"error": lines[-1]}


def _line(name: str, row: dict[str, Number]) -> str:
    memory, flop, traffic = (float(row[key] or 0.0) for key in ("memory", "flop", "traffic"))
    devices = ", ".join(
        f"{device} {float(seconds):.2g} s" if seconds is not None else f"{device} none"
        for device, seconds in ((device, row[f"{device} seconds"]) for device in DEVICES)
    )
    return f"{name:<13} {row['unit']}: {flop:.2e} FLOP, {traffic:.2e} bytes, {memory / 1e9:.3g} GB; at least {devices}"


def main(arguments: list[str] | None = None) -> int:
    """Print the predictions, run the parts, write the JSON; 1 if a part failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=sorted(SCALES), default="full")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--parts", nargs="+", default=None, metavar="NAME")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    parts = SCALES[args.scale]
    if args.child is not None:
        atomic_write(args.out, json.dumps(measure(parts[args.child])).encode())
        return 0
    unknown = sorted(set(args.parts or ()) - set(parts))
    if unknown:
        parser.error(f"no part {unknown[0]!r}; known: {', '.join(parts)}")
    chosen = {name: part for name, part in parts.items() if args.parts is None or name in args.parts}
    plan = {name: predicted(part) for name, part in chosen.items()}
    print("\n".join(_line(name, row) for name, row in plan.items()), flush=True)
    if args.dry_run:
        return 0
    results: dict[str, dict[str, Number]] = {}
    for name, part in chosen.items():
        results[name] = _in_child(args.scale, name)
        share = attained(part.work(), results[name], results.get("peaks", {}))
        if share is not None:
            results[name]["share_of_matrix_product"] = share
        print(name, json.dumps(results[name]), flush=True)
    if args.out is not None:
        from benchmarks.machine import machine, versions

        record = {"machine": machine(), "versions": versions(), "predicted": plan, "measured": results}
        atomic_write(args.out, (json.dumps(record, indent=1) + "\n").encode())
    return int(any("error" in result for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
