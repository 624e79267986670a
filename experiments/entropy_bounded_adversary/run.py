"""What an adversary with bounded knowledge learns of one record: both sides certified, channels and modular sums.

    python experiments/entropy_bounded_adversary/run.py      # writes data/curves.csv beside this file; a minute
    python experiments/entropy_bounded_adversary/plot.py     # draws it

The adversary's prior over the whole database may be any with H(P) >= b. Per-record leakage is the largest log-lift
ln P(r|x_i)/P(r) over all such priors, records and outputs (Wu, Xia and He, Definition 4 under Assumption 1). The
supremum is over a set on which the problem is not convex; local searches give one side of it. Here branch and bound
gives both: `lower` is the value of an explicit prior, `upper` is proved for every prior.

* `channel`: two binary records, each through a binary symmetric channel with crossover f;
* `modular sum`: the sum modulo 2 of three binary records through such a channel.

The distortion is the crossover probability f: the probability that a released bit is wrong. b is a share of the largest
entropy, n ln 2. Both are the examples of Wu et al. (2026, arXiv 2602.00689), whose algorithms are local; the numbers of
that paper are not used. Two curves of each have closed forms (`closed_form`
in plot.py). In nats.
"""

import csv
import math
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxpriv.models.databases import entropy_bounded_privacy, sequences

DATA = Path(__file__).parent / "data"
CROSSOVERS = np.round(np.linspace(0.02, 0.48, 12), 6)
SHARES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
TOL = 1e-4


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)  # all digits: a bound is not to be rounded across its value


def channel(crossover: float) -> np.ndarray:
    one = np.array([[1 - crossover, crossover], [crossover, 1 - crossover]])
    return np.kron(one, one)


def modular_sum(crossover: float) -> np.ndarray:
    odd = sequences((2, 2, 2)).sum(axis=1) % 2
    return np.where(odd[:, None] == np.arange(2), 1 - crossover, crossover)


def main() -> None:
    rows: list[list[Any]] = []
    for name, records, mechanism in (("channel", 2, channel), ("modular sum", 3, modular_sum)):
        for share in SHARES:
            for crossover in CROSSOVERS:
                bound = share * records * math.log(2)
                found = entropy_bounded_privacy(mechanism(crossover), (2,) * records, bound, tol=TOL)
                rows.append([name, share, bound, crossover, found.lower, found.upper, found.gap])
        part = [row for row in rows if row[0] == name]
        print(f"{name}: {len(part)} suprema, largest gap {max(row[6] for row in part):.1e}")
    write("curves.csv", ["query", "share", "entropy", "crossover", "lower", "upper", "gap"], rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
