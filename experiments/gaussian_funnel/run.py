"""Gaussian data: the least and the most that a linear release leaks, time sharing, and what an estimate is worth.

    python experiments/gaussian_funnel/run.py      # writes data/*.csv beside this file; seconds
    python experiments/gaussian_funnel/plot.py     # draws them

S is a smooth private signal at six times, covariance e^(-|t - t'|/3); X are six readings of it with independent noise
of variance 1/2. The direction that leaks least is the one that oscillates most.

* `curves.csv`: funnel and bottleneck over the rate, and a release on 1/4, 1/16, 1/64 of the occasions.
* `maps.csv`: random linear maps, one to six outputs: rate and leakage. None is outside the two curves.
* `samples.csv`: the funnel at 1 nat chosen on N samples, 200 times for each N: the leakage that the estimated
  covariances claim, and the true one of the same direction with the noise that makes its true rate 1 nat.
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from jaxpriv import gaussian

DATA = Path(__file__).parent / "data"
SIZE = 6
NOISE = 0.5
SHARES = (4, 16, 64)
COUNTS = (15, 30, 60, 120, 250, 500, 1000, 2000, 4000)
REPEATS = 200
RATE = 1.0


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row] for row in rows)


def main() -> None:
    rng = np.random.default_rng(0)
    times = np.arange(SIZE)
    signal = np.exp(-np.abs(np.subtract.outer(times, times)) / 3)
    readings = signal + NOISE * np.eye(SIZE)
    source = gaussian.from_covariances(readings, signal, signal)
    print("eigenvalues", np.round(source.eigenvalues, 4), "I(S;X)", source.private_information)

    rates = np.concatenate([np.geomspace(1e-4, 0.02, 24), np.linspace(0.025, 4, 160)])
    curves = {"funnel": gaussian.funnel_curve(source, rates), "bottleneck": gaussian.bottleneck_curve(source, rates)}
    curves |= {f"1/{share}": gaussian.time_sharing_curve(source, rates, 1 / share) for share in SHARES}
    rows = [[name, float(r), float(v)] for name, values in curves.items() for r, v in zip(rates, values, strict=True)]
    write("curves.csv", ["curve", "rate_nats", "leakage_nats"], rows)

    maps = []
    for k in range(600):
        outputs = 1 + k % SIZE
        # Along the directions of the source or in general position, louder and fainter rows.
        matrix = rng.normal(size=(outputs, SIZE)) * 10.0 ** rng.uniform(-1.5, 1, (outputs, 1))
        if k % 2:
            matrix = (rng.random((outputs, SIZE)) < 0.3) * matrix @ source.directions
        disclosed = gaussian.information(source, matrix, np.eye(outputs))
        if 0 < disclosed.disclosure <= rates[-1]:
            maps.append([outputs, *disclosed])
    write("maps.csv", ["outputs", "rate_nats", "leakage_nats"], maps)
    rate, leakage = np.array(maps)[:, 1:].T
    print(
        f"{len(maps)} maps; above the funnel by at least {(leakage - gaussian.funnel_curve(source, rate)).min():.1e}, "
        f"below the bottleneck by at least {(gaussian.bottleneck_curve(source, rate) - leakage).min():.1e}"
    )

    factor = np.linalg.cholesky(signal)
    rows = []
    for count in COUNTS:
        for _ in range(REPEATS):
            s = rng.normal(size=(count, SIZE)) @ factor.T
            chosen = gaussian.funnel(gaussian.from_samples(s + np.sqrt(NOISE) * rng.normal(size=s.shape), s), RATE)
            noise = chosen.matrix @ readings @ chosen.matrix.T / np.expm1(2 * RATE)
            rows.append([count, chosen.leakage, gaussian.information(source, chosen.matrix, noise).leakage])
    best = float(gaussian.funnel_curve(source, RATE))
    write("samples.csv", ["samples", "claimed_nats", "true_nats"], rows)
    write("best.csv", ["rate_nats", "leakage_nats"], [[RATE, best]])
    for count in COUNTS:
        claimed, true = np.array([row[1:3] for row in rows if row[0] == count]).mean(axis=0)
        print(f"N = {count:4}: estimated {claimed:.4f}, true {true:.4f}, best {best:.4f}")


if __name__ == "__main__":
    main()
