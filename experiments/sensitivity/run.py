"""Derivatives at work on the census table: who moves the frontier, and a distortion chosen by gradient.

    python experiments/sensitivity/run.py      # writes data/*.csv beside this file; about two minutes
    python experiments/sensitivity/plot.py     # draws them

(a) For budgets along the frontier: the slope of the least leakage in the share of every private group
(age, income). The share of the group s grows, those of all others shrink in proportion, and P(x|s) stays:

    dV/dp_s = sum_x P(x|s) c(s, x),    c the centred gradient in the joint (`jaxpriv.sensitivity`).

(b) A mapping under a budget for the NUMBER of changed attributes spares some attributes and ruins
others. A curator who wants none to be changed for more than a share r of the people can keep one
distortion, a weighted count, if the weights w are right: by the minimax theorem they maximise the least
leakage V(w) subject to sum_a w_a P(a is changed) <= r sum_a w_a. `jax.grad` of `optimal_value` finds
them; the problem with one budget for each attribute, a different program, must then have the same value.
"""

import csv
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

import jaxpriv as jp
from jaxpriv import datasets
from jaxpriv.data.distortion import changed_attributes, dense

DATA = Path(__file__).parent / "data"
TOL = 1e-9
BUDGETS = np.linspace(0.05, 1.0, 20)
CHECKED = 0.5  # the budget at which slopes are compared with differences
STEP = 0.05  # of a group's share, at most MOST
MOST = 5e-4  # beyond about 2e-3 the outputs in use change for two groups, and with them the curvature
SHARE = 1.0 / 6.0  # (b): no attribute changed for more people than this


def write(name: str, header: list[str], rows: list[list[Any]]) -> None:
    DATA.mkdir(exist_ok=True)
    with open(DATA / name, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row] for row in rows)


def group_slopes(problem: jp.DistortionProblem, solution: jp.Solution) -> np.ndarray:
    """dV/dp_s for every private symbol, in nats per unit of probability."""
    joint = problem.joints[0]
    conditional = joint / joint.sum(axis=1, keepdims=True)
    return (conditional * jp.sensitivity(problem, solution).joint[0]).sum(axis=1)


def prior_sensitivity(data: datasets.Dataset) -> None:
    """(a): slopes along the frontier, and their differences at one budget."""
    cost = dense(changed_attributes(data.useful_attributes))
    problem = jp.DistortionProblem(data.joint, cost, budget=CHECKED)
    curve = jp.frontier(problem, budgets=BUDGETS, tol=TOL)
    names = [" ".join(label) for label in data.private_labels]
    prior = data.joint.sum(axis=1)
    slopes = np.stack([group_slopes(problem, curve.solutions[i]) for i in range(len(BUDGETS))])
    rows = [
        [float(budget), float(curve.solutions.value[i]), float(curve.solutions.gap[i])]
        + [float(slope) for slope in slopes[i]]
        for i, budget in enumerate(BUDGETS)
    ]
    write("prior.csv", ["budget", "leakage", "gap", *names], rows)

    solution = jp.solve(problem, tol=TOL)
    exact = group_slopes(problem, solution)
    conditional = data.joint / prior[:, None]
    rows = []
    print(f"(a) budget {CHECKED}: least leakage {solution.value:.6f} nats, gap {solution.gap:.1e}")
    print(
        f"    {'group':14} {'share':>7} {'slope':>11} {'difference':>11} {'relative error':>15}   (nats per unit share)"
    )
    for s in np.argsort(-abs(exact)):
        towards = np.zeros_like(data.joint)
        towards[s] = conditional[s]
        step = min(STEP * prior[s], MOST)
        ends = {
            k: jp.solve(
                jp.DistortionProblem(data.joint + k * step * (towards - data.joint), cost, budget=CHECKED), tol=1e-11
            ).value
            for k in (-2, -1, 1, 2)
        }
        difference = (8 * (ends[1] - ends[-1]) - (ends[2] - ends[-2])) / (12 * step)
        error = abs(exact[s] - difference) / abs(difference)
        rows.append([names[s], float(prior[s]), float(exact[s]), float(difference), float(error)])
        print(f"    {names[s]:14} {prior[s]:7.4f} {exact[s]:11.6f} {difference:11.6f} {error:15.1e}")
    write("prior_check.csv", ["group", "share", "slope", "difference", "relative_error"], rows)


def even_distortion(data: datasets.Dataset) -> None:
    """(b): the weights of the attributes, by gradient ascent on the optimal value."""
    codes, joint = data.useful_attributes, data.joint
    mass = joint.sum(axis=0)
    attributes = np.stack([(codes[:, None, a] != codes[None, :, a]).astype(float) for a in range(codes.shape[1])])
    count = len(attributes)

    def weights_of(free: Any) -> Any:
        return count * jax.nn.softmax(jnp.append(free, 0.0))

    def least_leakage(free: Any) -> Any:
        table = changed_attributes(codes, weights=weights_of(free)).matrix()
        return jp.optimal_value(jp.DistortionProblem(joint, table, budget=count * SHARE), tol=TOL)

    climb = jax.jit(jax.value_and_grad(least_leakage))
    visited: list[list[Any]] = []

    def negative(free: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = climb(jnp.asarray(free))
        visited.append([len(visited), float(value), *map(float, weights_of(free))])
        return -float(value), -np.asarray(slope)

    result = minimize(negative, np.zeros(count - 1), jac=True, method="BFGS", options={"gtol": 1e-7})
    write("weights.csv", ["evaluation", "leakage", *data.useful_names], visited)

    weights = np.asarray(weights_of(result.x))
    separate = jp.solve(jp.DistortionProblem(joint, attributes, budget=np.full(count, SHARE)), tol=TOL)
    print(f"(b) {len(visited)} evaluations; slope left {abs(result.jac).max():.1e} nats per unit of log weight")
    rows = []
    for name, w in (("equal weights", np.ones(count)), ("chosen weights", weights)):
        found = jp.solve(jp.DistortionProblem(joint, np.tensordot(w, attributes, 1), budget=count * SHARE), tol=TOL)
        changed = np.einsum("x,axy,xy->a", mass, attributes, found.mechanism)
        rows.append([name, float(found.value), *map(float, w), *map(float, changed)])
    price = count * separate.multipliers / separate.multipliers.sum()
    rows.append(["separate budgets", float(separate.value), *map(float, price), *map(float, separate.distortion)])
    for name, leaked, *numbers in rows:
        shown = "  ".join(f"{number:.5f}" for number in numbers)
        print(f"    {name:17} leakage {leaked:.7f} nats; weights, then shares changed: {shown}")
    header = [f"{kind} {name}" for kind in ("weight", "changed") for name in data.useful_names]
    write("even.csv", ["mapping", "leakage", *header], rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    census = datasets.census()
    prior_sensitivity(census)
    even_distortion(census)
