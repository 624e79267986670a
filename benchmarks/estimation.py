"""Our Donsker-Varadhan network beside MINE on tasks whose mutual information is known.

    python -m benchmarks.estimation [--rows 2000] [--sets 10] [--json PATH]      # five minutes on two cores

Each task is drawn `sets` times independently. A data set is divided into thirds; each third is tested once by a network
trained on the others (a fifth of these stops it), and the mean over all rows is the estimate: the same for ours and for
MINE with early stopping. MINE's training value is what its paper reports: trained on all rows, measured on minibatches
of them. The mean of the true log-lift over the same rows says how much of an error is the sample's.

The number is the root mean square error over the data sets against the I(S;X) of `known_tasks`. "Better" or "worse":
the mean difference of the squared errors, data set by data set, is beyond two of its standard errors. P(S) is counted
from all data sets together (an error of 1/n in the information, far below what is compared).
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.machine import machine, versions
from benchmarks.mine import mine
from jaxpriv.statistics.lift import Samples, named
from jaxpriv.statistics.lift.known_answers import KnownTask, known_tasks
from jaxpriv.statistics.lift.samples import one_hot

OURS = "donsker-varadhan"
TRAINING, STOPPED = "MINE, training value", "MINE, stopped early"
TRUE = "true log-lift"
_THIRDS = 3


def drawn(task: KnownTask, rows: int, sets: int) -> tuple[Samples, tuple[np.ndarray, ...]]:
    """All data sets as one, and (train, validation, test) rows: three foldings of each set, `(3 sets, .)`."""
    samples = task.samples(1000, rows * sets)
    third = rows // _THIRDS
    folds = np.concatenate([np.roll(np.arange(_THIRDS * third), -k * third)[None] for k in range(_THIRDS)])
    index = (rows * np.arange(sets)[:, None, None] + folds[None]).reshape(sets * _THIRDS, -1)
    held = third + 2 * third // 5
    return samples, (index[:, held:], index[:, third:held], index[:, :third])


def ours(samples: Samples, rows: tuple[np.ndarray, ...]) -> np.ndarray:
    """Mean log-lift over all rows of a data set, each scored by a network that did not see it."""
    train, held, test = rows
    keys = jax.random.split(jax.random.key(0), len(train))
    lifts = named(OURS).fit_rows(keys, samples, train, held, samples.prior)
    means = [
        lift(samples.useful[part])[np.arange(len(part)), samples.private[part]].mean()
        for lift, part in zip(lifts, test, strict=True)
    ]
    return np.reshape(means, (-1, _THIRDS)).mean(axis=1)


def theirs(samples: Samples, rows: tuple[np.ndarray, ...], steps: int) -> dict[str, np.ndarray]:
    """The two readings of MINE."""
    symbols = samples.rows.symbols
    x = samples.useful if symbols is None else one_hot(samples.useful[:, None], [symbols])
    key, s, size = jax.random.key(0), samples.private, samples.private_size
    stopped = mine(key, s, x, size, rows, steps).stopped.reshape(-1, _THIRDS).mean(axis=1)
    everything = np.concatenate(rows, axis=1)[::_THIRDS]
    training = mine(key, s, x, size, (everything, everything[:, :1], everything[:, :1]), steps).training
    return {TRAINING: training, STOPPED: stopped}


def against(own: np.ndarray, other: np.ndarray, truth: float) -> str:
    """Whether `own` is worse, better or alike, by squared errors in pairs."""
    difference = (own - truth) ** 2 - (other - truth) ** 2
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    return "alike" if abs(difference.mean()) <= 2 * error else "better" if difference.mean() < 0 else "worse"


def measure(task: KnownTask, rows: int, sets: int, steps: int) -> dict[str, Any]:
    """Every estimator on one task."""
    samples, parts = drawn(task, rows, sets)
    times = [time.perf_counter()]
    values = {OURS: ours(samples, parts)}
    times.append(time.perf_counter())
    values |= theirs(samples, parts, steps)
    values[TRUE] = task.lift(samples.useful)[np.arange(samples.size), samples.private].reshape(sets, -1).mean(axis=1)
    times.append(time.perf_counter())
    error = {name: float(np.sqrt(np.mean((found - task.information) ** 2))) for name, found in values.items()}
    verdict = {other: against(values[OURS], values[other], task.information) for other in (TRAINING, STOPPED)}
    shown = "  ".join(f"{name} {size:.4f} {verdict.get(name, '')}" for name, size in error.items())
    print(f"{task.name:26} I = {task.information:.4f}, error: {shown}", flush=True)
    return {
        "task": task.name,
        "information": task.information,
        "values": {name: found.tolist() for name, found in values.items()},
        "error": error,
        "ours against": verdict,
        "seconds, compiling included": {"ours": times[1] - times[0], "MINE": times[2] - times[1]},
    }


def main() -> None:
    """All tasks, printed and written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--steps", type=int, default=1000, help="of MINE")
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    setting = {"rows": args.rows, "sets": args.sets, "steps": args.steps}
    about = {"machine": machine(), "versions": versions(), "setting": setting}  # of the code that begins to run
    results = [measure(task, args.rows, args.sets, args.steps) for task in known_tasks()]
    for variant in (TRAINING, STOPPED):
        verdicts = [row["ours against"][variant] for row in results]
        lower = sum(row["error"][OURS] < row["error"][variant] for row in results)
        counts = ", ".join(f"{word} on {verdicts.count(word)}" for word in ("better", "alike", "worse"))
        print(f"against {variant}: {counts}; lower error on {lower} of {len(results)}")
    if args.json:
        args.json.write_text(json.dumps({**about, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
