"""Additive noise: one law for all useful symbols, one method, its own certificate."""

import time

import numpy as np

from jaxpriv._clock import Clock
from jaxpriv.certificates import certify_noise
from jaxpriv.problems import feasibility
from jaxpriv.problems.noise import NoiseProblem, max_entropy_noise
from jaxpriv.solution import Solution, Status, no_solution
from jaxpriv.solvers import Goal
from jaxpriv.solvers.additive_noise import NoiseData, NoisePoint, newton_path, path_from
from jaxpriv.solving.execution import on_host

# Operations that one portion of steps may take, most of them products: some tenths of a second.
_PORTION = 2e9


def solve_noise(problem: NoiseProblem, goal: Goal, max_steps: int, throw: bool, clock: Clock) -> Solution:
    """The additive noise of least leakage, with its certificate."""
    begun = time.perf_counter()
    cost, budget = problem.distortion, problem.budget
    least = float(cost.min())
    if budget < least:
        if throw:
            max_entropy_noise(cost, budget)  # raises, with the proof
        return no_solution((problem.joint.shape[1], problem.outputs), problem.joint.shape[0], 0, 1, 1)
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
    point, compiling = _followed(data, start, np.asarray(last), max_steps, clock)

    noise = np.zeros(len(cost))
    theta = start if point is None else point.path.theta
    noise[allowed] = theta / theta.sum()
    scores = np.zeros((1, problem.outputs, problem.joint.shape[0]))
    if point is not None:
        scores[0][:, seen] = point.scores
    price = 0.0 if tight or point is None else float(point.price) / span
    if tight:  # the price at which no dearer symbol is worth taking
        gain = np.einsum("ysz,ys->z", problem.columns(), scores[0])
        dearer = cost - least > feasibility.BOUNDARY * span
        short = (gain[allowed].min() - gain[dearer]) / (cost[dearer] - least)
        price = float(max(short.max(initial=0.0), 0.0)) * (1 + 1e-9)
    certificate = certify_noise(problem, noise, scores, price)
    proved = goal.proved(certificate)
    code = Status.OPTIMAL if proved else Status.BEST_KNOWN if clock.stop else Status.NOT_CERTIFIED
    return Solution(
        value=np.float64(certificate.value),
        lower_bound=np.float64(certificate.lower_bound),
        mechanism=problem.mechanism(noise),
        leakage=np.float64(certificate.leakages[0]),
        distortion=certificate.constraint_values,
        scores=scores,
        weights=np.zeros((problem.outputs, 0)),
        multipliers=np.array([price]),
        code=np.int32(code),
        steps=np.int32(0 if point is None else point.path.steps),
        solver="none" if point is None else "barrier-newton",
        seconds={"compile": compiling, "solve": time.perf_counter() - begun - compiling},
        stopped=np.int32(clock.stop),
    )


def _followed(
    data: NoiseData, start: np.ndarray, last: np.ndarray, max_steps: int, clock: Clock
) -> tuple[NoisePoint | None, float]:
    """The point that the path comes to while the clock allows it (None: not even a first step), and the seconds
    spent compiling."""
    outputs, private, size = data.columns.shape
    portion = max(1, int(_PORTION / (outputs * (private + 1.0) * size**2 + 10.0 * size**3)))
    path, point, compiling = path_from(start), None, 0.0
    while not (point is not None and (point.finished or path.steps >= max_steps)) and not clock.expired():
        until = min(max_steps, int(path.steps) + portion)
        with clock.held():
            point, spent = on_host(newton_path, data, path, last, np.asarray(until))
            path, compiling = point.path, compiling + spent
            clock.report("barrier-newton", path.steps, point.value, -np.inf)
    return point, compiling
