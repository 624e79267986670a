"""The counting query of Calmon and Fawaz 2012 (Example 2, Corollary 2) with the whole database as S.

    python experiments/counting_query/run.py      # writes data/*.csv beside this file; three minutes (two shared cores)
    python experiments/counting_query/plot.py     # draws them

n independent binary records, X = how many have the property, X ~ Bin(n, p); S is the whole database, 2^n symbols, of
which only H(S|X=x) = ln C(n, x) is needed. For limits e of the maximum information leakage, max_y H(S) - H(S|Y=y) <= e,
the least mean absolute error of any mapping to counts, with its certified bound; and at the SAME mean error

* Laplace noise, a real number of mean error 1/eps, as it is: its worst outcome is a result far outside of 0 .. n;
* two-sided geometric noise clamped to 0 .. n (`baselines.geometric`);
* geometric noise clamped to the best interval: the strongest noise here, tuned to the prior as the optimum is
  (n = 1000: intervals n/2 -+ 6k).

All three are evaluated exactly (Laplace: results on a grid of 1/8, or 1/2 for n = 1000, and its two tails).
n = 1000: the optimum is restricted to results within 8 standard deviations of n/2, 253 of the 1001 counts, and so is
its bound.
`posteriors.csv`: P(X|Y=y) of three results of the optimal mapping at one limit, n = 30, and of both noises (Laplace at
whole results) at the same mean error, beside zeta(x), proportional to C(n, x) = e^{H(S|X=x)}.
"""

import csv
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

import jaxpriv as jp
from jaxpriv import baselines
from jaxpriv.models.databases import DeterministicQuery, counting_query

DATA = Path(__file__).parent / "data"
TOL = 1e-6
# (records, p, limits in nats, step of the clamping intervals that are tried)
CASES = (
    (30, 0.5, np.geomspace(0.02, 8.0, 16), 1),
    (30, 0.3, np.geomspace(0.02, 8.0, 16), 1),
    (1000, 0.5, np.geomspace(0.05, 4.0, 6), 6),
)
DEVIATIONS = 8  # of X, to which the results are restricted for n > 100
DRAWN, RESULTS = 8, (8, 12, 15)  # the limit and the results whose posteriors are written


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row] for row in rows)


def laplace_channel(query: DeterministicQuery, eps: float, results: np.ndarray) -> np.ndarray:
    """A channel whose columns but the last have the posteriors of these real results of Laplace noise.

    Posteriors do not see a factor of the density: one for all results, and a last column, make it a channel.
    """
    likelihood = np.exp(-eps * abs(np.arange(query.prior.size)[:, None] - results))
    likelihood = likelihood / (1.0 + likelihood.sum(axis=1).max())
    return np.column_stack([likelihood, 1.0 - likelihood.sum(axis=1)])


def laplace(query: DeterministicQuery, eps: float) -> float:
    """max_y H(S) - H(S|Y=y) over real results y of Laplace noise, nats; beyond 0 and n as at 0 and n."""
    n = query.prior.size - 1
    results = np.linspace(0, n, (8 if n <= 100 else 2) * n + 1)
    return float(np.nanmax(query.outcomes(laplace_channel(query, eps, results))[:-1]))


def geometric(query: DeterministicQuery, eps: float, low: int, high: int) -> np.ndarray:
    """Geometric noise clamped to low .. high."""
    channel = baselines.geometric(query.prior.size, eps)
    clamped = channel[:, low : high + 1].copy()
    clamped[:, 0] += channel[:, :low].sum(axis=1)
    clamped[:, -1] += channel[:, high + 1 :].sum(axis=1)
    return clamped


def error(query: DeterministicQuery, channel: np.ndarray, low: int) -> float:
    x = np.arange(query.prior.size)
    return float(query.prior @ (channel * abs(x[:, None] - np.arange(low, low + channel.shape[1]))).sum(axis=1))


def geometric_at(query: DeterministicQuery, target: float, low: int, high: int) -> tuple[float, float]:
    """(eps, leakage in nats) of the noise clamped to low .. high at a mean error; inf where it cannot have it."""

    def excess(log_eps: float) -> float:
        return error(query, geometric(query, float(np.exp(log_eps)), low, high), low) - target

    ends = np.log([1e-4, 12.0])
    if high == low or excess(ends[0]) < 0 or excess(ends[1]) > 0:
        return np.nan, np.inf
    eps = float(np.exp(brentq(excess, *ends, xtol=1e-9)))
    return eps, query.max_information(geometric(query, eps, low, high))


def intervals(query: DeterministicQuery, step: int) -> list[tuple[int, int]]:
    """Clamping intervals that are tried: all for a small n, otherwise those around n/2."""
    n = query.prior.size - 1
    if n <= 100:
        centre = int(np.argmax(query.prior))
        return [(low, high) for low in range(centre + 1) for high in range(max(centre, low + 1), n + 1)]
    return [(n // 2 - half, n // 2 + half) for half in range(step, int(DEVIATIONS * np.sqrt(n) / 2) + 1, step)]


def best_clamped(query: DeterministicQuery, target: float, step: int) -> tuple[float, float, int, int]:
    """(leakage, eps, low, high) of the best clamping interval at a mean error."""
    found = []
    for low, high in intervals(query, step):
        eps, leaked = geometric_at(query, target, low, high)
        found.append((leaked, eps, low, high))
    return min(found)


def main() -> None:
    rows, posteriors = [], []
    for n, p, limits, step in CASES:
        begun = time.perf_counter()
        query = counting_query(n, p)
        x = np.arange(n + 1)
        hidden = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
        measure = jp.leakage.MaxInformation(hidden=hidden)
        y = x if n <= 100 else x[abs(x - n / 2) <= DEVIATIONS * np.sqrt(n) / 2]
        cost = abs(np.subtract.outer(x, y)).astype(float)
        problem = jp.DistortionProblem(np.diag(query.prior), cost, leakage_budget=float(limits[0]), leakage=measure)
        if n <= 100:
            batch = jp.frontier(problem, leakage_budgets=limits, tol=TOL).solutions
            solutions = [batch[i] for i in range(len(limits))]
        else:  # a batch would be padded to 16 points
            solutions = [
                jp.solve(jp.DistortionProblem(problem.joints[0], cost, leakage_budget=e, leakage=measure), tol=TOL)
                for e in map(float, limits)
            ]
        print(f"n = {n}, p = {p}, |Y| = {len(y)}: optimum in {time.perf_counter() - begun:.1f} s")
        for i, (limit, found) in enumerate(zip(limits, solutions, strict=True)):
            target = float(found.value)
            exact = query.max_information(found.mechanism)
            eps, leaked = geometric_at(query, target, 0, n)
            clamped, clamped_eps, low, high = best_clamped(query, target, step)
            numbers = [float(limit), target, float(found.lower_bound), float(found.gap), str(found.status)]
            numbers += [exact, 1.0 / target, laplace(query, 1.0 / target), eps, leaked]
            numbers += [clamped_eps, low, high, clamped]
            rows.append([n, p, len(y), *numbers])
            print(
                f"    limit {limit:7.4f} nats: error {target:8.5f} (gap {found.gap:.0e}, {found.status}); same "
                f"error: Laplace {rows[-1][10]:9.3f}, geometric {leaked:9.3f}, clamped to {low}..{high} "
                f"{clamped:8.3f} nats"
            )
            if n <= 100 and i == DRAWN:
                zeta = np.exp(query.log_zeta)
                noise = geometric(query, eps, 0, n)
                whole = laplace_channel(query, 1.0 / target, x)
                for kind, channel in (("optimal", found.mechanism), ("geometric", noise), ("laplace", whole)):
                    mass = query.prior @ channel
                    leak = query.outcomes(channel)
                    for k in RESULTS:
                        posterior = query.prior * channel[:, k] / mass[k] if mass[k] > 0 else np.full(n + 1, np.nan)
                        shown = "" if kind == "laplace" else float(mass[k])
                        head = [n, p, numbers[0], kind, k, shown, float(leak[k])]
                        posteriors += [
                            [*head, int(a), float(posterior[a]), float(zeta[a]), float(query.prior[a])] for a in x
                        ]
        print(f"    with the noise: {time.perf_counter() - begun:.1f} s")
    header = ["n", "p", "outputs", "limit", "error", "lower_bound", "gap", "status", "leakage"]
    header += ["laplace_eps", "laplace", "geometric_eps", "geometric"]
    header += ["clamped_eps", "clamped_low", "clamped_high", "clamped"]
    write("frontier.csv", header, rows)
    header = ["n", "p", "limit", "mechanism", "y", "mass", "leakage", "x", "posterior", "zeta", "prior"]
    write("posteriors.csv", header, posteriors)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
