"""Additive noise: one law for all useful symbols, one method, its own certificate."""

import time

import numpy as np

from jaxpriv.certificates import certify_noise
from jaxpriv.problems import feasibility
from jaxpriv.problems.noise import NoiseProblem, max_entropy_noise
from jaxpriv.solution import Solution, Status, no_solution
from jaxpriv.solvers import Goal
from jaxpriv.solvers.additive_noise import NoiseData, newton_path
from jaxpriv.solving.execution import on_host


def solve_noise(problem: NoiseProblem, goal: Goal, max_steps: int, throw: bool) -> Solution:
    """The additive noise of least leakage, with its certificate."""
    begun = time.perf_counter()
    cost, budget = problem.distortion, problem.budget
    least = float(cost.min())
    if budget < least:
        if throw:
            max_entropy_noise(cost, budget)  # raises, with the proof
        return no_solution((problem.joint.shape[1], problem.outputs), 1, problem.joint.shape[0], 1, 1)
    span = float(np.ptp(cost)) or 1.0
    tight = budget - least <= feasibility.BOUNDARY * span
    allowed = np.flatnonzero(cost - least <= feasibility.BOUNDARY * span) if tight else np.arange(len(cost))
    seen = problem.joint.sum(axis=1) > 0
    scaled = np.zeros(len(allowed)) if tight else (cost[allowed] - least) / span
    room = 1.0 if tight else (budget - least) / span
    # Strictly inside: half of the budget goes to an even blend, the rest to the cheapest symbols.
    blend = 0.5 * min(1.0, room / max(float(scaled.mean()), np.finfo(float).tiny))
    start = blend / len(allowed) + (1.0 - blend) * (scaled == 0) / (scaled == 0).sum()
    data = NoiseData(
        problem.columns()[:, seen][:, :, allowed], problem.joint.sum(axis=1)[seen], scaled, np.asarray(room)
    )
    last = 0.5 * goal.tol / (len(allowed) + 1)
    results, compiling = on_host(newton_path, data, start, np.asarray(last), np.asarray(max_steps))
    theta, found, price, steps = results

    noise = np.zeros(len(cost))
    noise[allowed] = theta / theta.sum()
    scores = np.zeros((1, problem.outputs, problem.joint.shape[0]))
    scores[0][:, seen] = found
    price = 0.0 if tight else float(price) / span
    if tight:  # the price at which no dearer symbol is worth taking
        gain = np.einsum("ysz,ys->z", problem.columns(), scores[0])
        dearer = cost - least > feasibility.BOUNDARY * span
        short = (gain[allowed].min() - gain[dearer]) / (cost[dearer] - least)
        price = float(max(short.max(initial=0.0), 0.0)) * (1 + 1e-9)
    certificate = certify_noise(problem, noise, scores, price)
    proved = goal.met(certificate) and certificate.violation == 0
    return Solution(
        value=np.float64(certificate.value),
        lower_bound=np.float64(certificate.lower_bound),
        mechanism=problem.mechanism(noise),
        leakage=np.float64(certificate.leakages[0]),
        distortion=certificate.constraint_values,
        scores=scores,
        weights=np.ones(1),
        multipliers=np.array([price]),
        code=np.int32(Status.OPTIMAL if proved else Status.NOT_CERTIFIED),
        steps=np.int32(steps),
        solver="barrier-newton",
        seconds={"compile": compiling, "solve": time.perf_counter() - begun - compiling},
    )
