"""Maximal alpha-leakage of a binary release at a Hamming distortion, from mutual information to maximal leakage.

    python experiments/alpha_leakage_hamming/run.py      # writes data/curves.csv beside this file; two minutes
    python experiments/alpha_leakage_hamming/plot.py     # draws it

S = X is Bernoulli(p), Y binary, P(Y != X) <= D. Maximal alpha-leakage (Liao, Kosut, Sankar and Calmon 2019, arXiv
1809.09231, where binary data with average Hamming distortion illustrate the orders): I(X;Y) at alpha = 1, the capacity
of order alpha of X -> Y for 1 < alpha < infinity, maximal leakage at infinity. At the ends closed forms are known:
h(p) - h(D), and ln(2 - D/p).

Between them the leakage is the largest over priors r of Sibson's information, so both sides can be proved:

* `value`: the leakage of an explicit mechanism, by `leakage.MaximalAlphaLeakage` with its `shortfall` added. The budget
  is spent, which leaves one error probability to choose: the best on a grid, refined;
* `lower_bound`: for one prior r the least Sibson's information of order alpha under r of any mechanism within the
  budget (a certified bound): no mechanism has a smaller largest value over all priors. r is the worst prior of that
  mechanism, or a better one near it.
"""

import csv
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import entr

import jaxpriv as jp
from jaxpriv.leakage import MaximalAlphaLeakage, MaximalLeakage, Sibson

DATA = Path(__file__).parent / "data"
P = 0.3
ORDERS = (1.0, 1.5, 2.0, 5.0, 20.0, np.inf)
BUDGETS = np.round(np.linspace(0.01, 0.29, 15), 6)
HAMMING = 1 - np.eye(2)
PRIOR = np.array([1 - P, P])
ENOUGH = 1e-6


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)  # all digits: a bound is not to be rounded across its value


def end(order: float) -> list[list[Any]]:
    """The orders at which it is one convex program, and their closed forms."""
    measure = MaximalLeakage() if np.isinf(order) else jp.leakage.MutualInformation()
    problem = jp.rate_distortion(PRIOR, HAMMING, budget=0.1, leakage=measure)
    curve = jp.frontier(problem, budgets=BUDGETS)
    h = entr(BUDGETS) + entr(1 - BUDGETS)
    closed = np.log(2 - BUDGETS / P) if np.isinf(order) else (entr(PRIOR).sum() - h)
    return [
        [order, d, v, b, v - b, c] for d, v, b, c in zip(BUDGETS, curve.value, curve.lower_bound, closed, strict=True)
    ]


def between(order: float) -> list[list[Any]]:
    """Orders at which the largest prior has to be found."""
    measure, sibson = MaximalAlphaLeakage(order), Sibson(order)

    def channel(error: Any, budget: float) -> Any:
        """The rarer symbol is released wrongly with probability `error`, the other one with what the budget leaves."""
        other = jnp.maximum(budget - P * error, 0.0) / (1 - P)
        return jnp.array([[1 - other, other], [error, 1 - error]])

    joint = jnp.diag(jnp.asarray(PRIOR))
    leaked = jax.jit(lambda error, budget: measure(joint, channel(error, budget)))
    rows = []
    for budget in BUDGETS:
        errors = np.linspace(0.0, budget / P, 60)
        best = errors[int(np.argmin([float(leaked(one, budget)) for one in errors]))]
        step = errors[1]
        found = minimize_scalar(
            lambda one, budget=budget: float(leaked(one, budget)),
            bounds=(max(best - step, 0.0), min(best + step, budget / P)),
            method="bounded",
            options={"xatol": 1e-10},
        )
        error = min((float(found.x), best), key=lambda one: float(leaked(one, budget)))
        mechanism = channel(error, budget)
        value = float(leaked(error, budget)) + float(measure.shortfall(mechanism))
        own = float(measure.largest_prior(mechanism, jnp.ones(2, dtype=bool))[1])
        bound = max(least(own, budget, sibson), 0.0)
        if value - bound > ENOUGH:  # any prior proves a bound; the best one is near
            near = (max(own - 0.05, 1e-3), min(own + 0.05, 1 - 1e-3))
            better = minimize_scalar(
                lambda one, budget=budget: -least(one, budget, sibson),
                bounds=near,
                method="bounded",
                options={"maxiter": 25, "xatol": 1e-7},
            )
            bound = max(bound, -float(better.fun))
        rows.append([order, budget, value, bound, value - bound, ""])
    return rows


def least(rare: float, budget: float, measure: Sibson) -> float:
    """A proved bound on Sibson's information under the prior (1 - rare, rare) of any mechanism within the budget."""
    prior = np.array([1 - rare, rare])
    table = HAMMING * (PRIOR / prior)[:, None]  # E d under p, written as an expectation under this prior
    problem = jp.DistortionProblem(np.diag(prior), table, budget=float(budget), leakage=measure)
    return float(jp.solve(problem, tol=1e-7).lower_bound)


def main() -> None:
    rows: list[list[Any]] = []
    for order in ORDERS:
        part = end(order) if order == 1.0 or np.isinf(order) else between(order)
        rows += part
        print(f"order {order}: largest gap {max(row[4] for row in part):.1e} nats")
    write("curves.csv", ["order", "distortion", "value", "lower_bound", "gap", "closed"], rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
