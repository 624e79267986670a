"""One pass of the streaming solver against its own two matrix products, its memory, and how both grow.

    python -m benchmarks.passes [--size 8192] [--repeats 9] [--json PATH]

A pass over |X| x |Y| pairs multiplies P(s|x) with the scores, takes a softmax of every row with the
distortion |x - y| computed on the way, and multiplies back. The reference is the two products and nothing
else, by XLA, in the same blocks and the same precision: the second one takes what the first one gives, so that neither
can be left out. Both are called in turns, `--repeats` times each, and the least of the times counts: a machine
that is shared only adds to it. Compile time is apart, memory is what XLA allocates beside arguments and results.
With JAXPRIV_KERNELS=off in the environment the pass is the portable code.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxpriv as jp
from benchmarks.growth import fit
from benchmarks.machine import machine, versions
from jaxpriv._runtime.compilation import own_settings
from jaxpriv.data.joints import Stored
from jaxpriv.data.streaming import block_size, gibbs_pass, stream


def data(S: int, X: int, Y: int, dtype: str) -> tuple[Any, ...]:
    """(joint, distortion, prior, scores, prices, levels) at random, operators in `dtype`."""
    rng = np.random.default_rng(0)
    joint = rng.dirichlet(np.ones(S), X).T / X
    distortion = jp.distortion.absolute((np.arange(X) + 0.5) / X, (np.arange(Y) + 0.5) / Y)
    kind = np.dtype(dtype)
    operators = Stored(joint.astype(kind)), distortion.as_dtype(kind), joint.sum(axis=1).astype(kind)
    return *operators, rng.normal(size=(Y, S)), np.array([4.0]), np.zeros(Y)


def one_pass(joint: Any, distortion: Any, prior: Any, scores: Any, prices: Any, levels: Any) -> Any:
    """What the solver does in one step at a multiplier."""
    return gibbs_pass(joint, (distortion,), prior, scores, prices, levels, spread=False, mesh=None)


def products_only(joint: Any, distortion: Any, prior: Any, scores: Any, prices: Any, levels: Any) -> Any:
    """Its two matrix products, block by block, and nothing else."""
    del prices, levels
    inputs, outputs = distortion.shape
    a = scores.astype(prior.dtype)

    def on_block(joint: Any, index: Any, valid: Any) -> tuple[Any, Any]:
        columns = jnp.where(valid[:, None], joint.columns(index).T, 0.0)
        logits = jnp.matmul(columns, a.T, precision="highest")
        return jnp.matmul(logits.T, columns, precision="highest"), None

    return stream(on_block, joint, inputs, block_size(outputs, np.dtype(prior.dtype).itemsize), None)[0]


def least_seconds(runs: list[Callable[..., Any]], args: tuple[Any, ...], repeats: int) -> list[float]:
    """Of calls in turns, the least seconds of each function."""
    least = [float("inf")] * len(runs)
    for _ in range(1 + repeats):  # the first turn touches the memory for the first time
        for i, run in enumerate(runs):
            begun = time.perf_counter()
            jax.block_until_ready(run(*args))
            least[i] = min(least[i], time.perf_counter() - begun)
    return least


def measure(S: int, X: int, Y: int, dtype: str, repeats: int) -> dict[str, Any]:
    """One shape: both times, their ratio, and the memory."""
    args = data(S, X, Y, dtype)
    runs = [jax.jit(function).lower(*args).compile() for function in (one_pass, products_only)]
    full, bare = least_seconds(runs, args, repeats)
    memory = runs[0].memory_analysis().temp_size_in_bytes
    pair = 1e9 / (X * Y)
    print(
        f"{dtype} S={S:<3d} X={X:<6d} Y={Y:<6d} pass {full:8.4f} s ({full * pair:5.2f} ns a pair), "
        f"products {bare:8.4f} s ({bare * pair:5.2f}), ratio {full / bare:4.2f}, temporaries {memory / 2**20:7.1f} MiB",
        flush=True,
    )
    return {"S": S, "X": X, "Y": Y, "dtype": dtype, "seconds": full, "products": bare, "temporaries": memory}


def main() -> None:
    """Ratios at several |S|, then one axis at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    n, repeats = args.size, args.repeats
    with own_settings():
        results = [measure(S, n, n, dtype, repeats) for dtype in ("float32", "float64") for S in (4, 16, 64, 128, 256)]
        for axis in ("X", "Y"):
            sizes = (n // 4, n // 2, n, 2 * n)
            shape = {"S": 64, "X": n, "Y": n, "dtype": "float32"}
            sweep = [measure(**{**shape, axis: size}, repeats=repeats) for size in sizes]
            law = fit(sizes, [row["seconds"] for row in sweep])
            assert law is not None
            print(f"growth of a pass in |{axis}|: {law.exponent:.2f} (predicted 1)", flush=True)
            results += sweep
    if args.json:
        args.json.write_text(
            json.dumps({"machine": machine(), "versions": versions(), "results": results}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
