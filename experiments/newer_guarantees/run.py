"""Six guarantees beside the four papers, each on a case whose values are known in closed form or printed elsewhere.

    python experiments/newer_guarantees/run.py      # writes data/curves.csv beside this file; a minute
    python experiments/newer_guarantees/plot.py     # draws it

* envelope: eps(delta) of a channel of three symbols, the largest lift of an event of probability delta, and the linear
  program over the randomised events of that probability.
* samples: the most I(X;Y) of a release whose pointwise maximal leakage is at most .5 for every population that n
  records leave possible with confidence .95, for frequencies (.5, .25, .15, .1); n = inf is the known prior, by a
  linear program over the vertices q of 0 <= q <= e^.5 p: all entries but one are at an end.
* alpha-beta: maximal (alpha, beta)-leakage of a binary symmetric channel of q = .1. In closed form it is

      beta = 1:       ln 2 + ln((1-q)^alpha + q^alpha)/(alpha - 1), the capacity of order alpha,
      beta >= alpha:  alpha/((alpha-1) beta) ln((1-q)^beta q^(1-beta) + q^beta (1-q)^(1-beta)), of a prior at a vertex,
      alpha = inf:    1/beta ln((1-q)^beta ((1-q)^(1-beta) + q^(1-beta))).

* marginal: least I(X;Y) of a bit with P(1) = .3 at a share of changes D: free, with the marginal kept within a total
  variation of .02, and kept exactly, where R = 2 h(p) - H(1-p-D/2, D/2, D/2, p-D/2).
* sequence: I(S;Z,Y) of a fair bit S that was released as Z through a binary symmetric channel of .1, and is released
  again with a share D of changes: by a channel that does not depend on Z, and at the optimum.
* metric: the least E|X-Y| of eight ordered symbols where log-ratios of neighbours are at most eps, and that of the
  geometric mechanism with the best remapping, which Ghosh, Roughgarden and Sundararajan prove to be optimal.

`value` is attained, `bound` proved; both agree where a number is exact. In nats, but for distortions.
"""

import csv
import itertools
import math
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy.optimize import linprog

import jaxpriv as jp
from jaxpriv import baselines, leakage

DATA = Path(__file__).parent / "data"
CHANNEL, PRIOR = np.array([[0.95, 0.04, 0.01], [0.2, 0.7, 0.1], [0.05, 0.15, 0.8]]), np.array([0.5, 0.3, 0.2])
SOURCE, LIMIT = np.array([0.5, 0.25, 0.15, 0.1]), 0.5


def symmetric(flip: float) -> np.ndarray:
    return np.array([[1 - flip, flip], [flip, 1 - flip]])


def information(joint: np.ndarray, mechanism: np.ndarray) -> float:
    return float(leakage.evaluate(leakage.MutualInformation(), joint, mechanism).value)


def envelope() -> list[list[Any]]:
    rows: list[list[Any]] = []
    masses = PRIOR @ CHANNEL
    for delta in np.round(np.linspace(0.0, 1.0, 21), 6):
        value = float(leakage.evaluate(leakage.LeakageEnvelope(delta), np.diag(PRIOR), CHANNEL).value)
        rows.append(["eps(delta)", delta, value, value])
        if delta > 0:
            events = [linprog(-row, A_eq=masses[None], b_eq=[delta], bounds=(0, 1)).fun for row in CHANNEL]
            most = math.log(-min(events) / delta)
            rows.append(["events", delta, most, most])
    return rows


def with_known_prior() -> float:
    """The most I(X;Y) where no lift is above e^LIMIT and the prior is SOURCE."""
    caps, vertices = math.exp(LIMIT) * SOURCE, []
    for ends in itertools.product((0.0, 1.0), repeat=len(SOURCE)):
        for free in range(len(SOURCE)):
            vertex = ends * caps
            vertex[free] += 1.0 - vertex.sum()
            if 0.0 <= vertex[free] <= caps[free]:
                vertices.append(vertex)
    q = np.array(vertices)
    gains = (q * np.log(np.where(q > 0, q / SOURCE, 1.0))).sum(axis=1)
    return -float(linprog(-gains, A_eq=q.T, b_eq=SOURCE).fun)


def samples() -> list[list[Any]]:
    rows: list[list[Any]] = []
    for records in 10 ** np.arange(2, 8):
        given = (records * SOURCE).round().astype(int)
        best = jp.maximum_utility(given, (leakage.MaxLift(), LIMIT), confidence=0.95)
        rows.append(["from records", records, float(best.value), float(best.upper_bound)])
    return [*rows, ["known prior", np.inf, with_known_prior(), with_known_prior()]]


def in_closed_form(order: float, beta: float, flip: float) -> float:
    """NaN for 1 < beta < order < inf."""
    kept = 1 - flip
    if math.isinf(order):
        return math.log(kept**beta * (kept ** (1 - beta) + flip ** (1 - beta))) / beta
    if beta == 1:
        return math.log(2) + math.log(kept**order + flip**order) / (order - 1)
    if beta < order:
        return math.nan
    return order / ((order - 1) * beta) * math.log(kept**beta * flip ** (1 - beta) + flip**beta * kept ** (1 - beta))


def alpha_beta() -> list[list[Any]]:
    rows = []
    for order in (2.0, 5.0, np.inf):
        for beta in (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0):
            measure = leakage.MaximalAlphaLeakage(order, beta=beta)
            value = float(leakage.evaluate(measure, np.eye(2) / 2, symmetric(0.1)).value)
            rows.append([f"alpha {order:g}", beta, value, value])
            exact = in_closed_form(order, beta, 0.1)
            if not math.isnan(exact):
                rows.append(["closed form", beta, exact, exact])
    return rows


def marginal() -> list[list[Any]]:
    rows: list[list[Any]] = []
    source, changes = np.array([0.7, 0.3]), 1 - np.eye(2)
    for budget in np.round(np.linspace(0.02, 0.3, 15), 6):
        problems = {
            "free": jp.DistortionProblem(source, changes, budget=budget),
            "within .02": jp.with_marginal(source, changes, source, budget=budget, within=0.02),
            "exact": jp.with_marginal(source, changes, source, budget=budget),
        }
        for name, problem in problems.items():
            one = jp.solve(problem, tol=1e-9)
            rows.append([name, budget, float(one.value), float(one.lower_bound)])
        half = budget / 2
        pair, bit = np.array([0.7 - half, half, half, 0.3 - half]), source
        rate = float((pair * np.log(pair)).sum() - 2 * (bit * np.log(bit)).sum())
        rows.append(["closed form", budget, rate, rate])
    return rows


def sequence() -> list[list[Any]]:
    rows: list[list[Any]] = []
    joint, earlier = np.eye(2) / 2, symmetric(0.1)
    for budget in np.round(np.linspace(0.05, 0.5, 10), 6):
        one = jp.solve(jp.sequential_release(joint, earlier, 1 - np.eye(2), budget=budget), tol=1e-9)
        both = np.einsum("xa,xb->xab", earlier, symmetric(budget)).reshape(2, -1)
        independent = information(joint, both)
        rows.append(["optimum", budget, float(one.value), float(one.lower_bound)])
        rows.append(["drawn from X alone", budget, independent, independent])
    return rows


def metric() -> list[list[Any]]:
    rows: list[list[Any]] = []
    size = 8
    apart = abs(np.subtract.outer(np.arange(size), np.arange(size))).astype(float)
    for eps in np.round(np.linspace(0.2, 2.0, 10), 6):
        problem = jp.DistortionProblem(
            np.full(size, 1 / size), apart, leakage=leakage.MetricPrivacy(apart), leakage_budget=eps
        )
        one = jp.solve(problem)
        noise = np.asarray(baselines.geometric(size, eps))
        remapped = float((noise.T @ apart / size).min(axis=1).sum())
        rows.append(["optimum", eps, float(one.value), float(one.lower_bound)])
        rows.append(["geometric, remapped", eps, remapped, remapped])
    return rows


def main() -> None:
    panels = [envelope, samples, alpha_beta, marginal, sequence, metric]
    DATA.mkdir(exist_ok=True)
    with open(DATA / "curves.csv", "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["guarantee", "curve", "at", "value", "bound"])
        for panel in panels:
            for row in panel():
                writer.writerow([panel.__name__, *row])  # all digits: a bound is not to be rounded across its value


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
