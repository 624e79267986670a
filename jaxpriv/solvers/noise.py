"""Additive noise: one law for all useful symbols, one method, its own certificate."""

import time
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpriv._runtime.clock import Clock
from jaxpriv._runtime.compilation import on_host
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.problems.distortion import NoiseProblem, max_entropy_noise
from jaxpriv.program import feasibility
from jaxpriv.program.certificates import certify_noise
from jaxpriv.program.solution import Solution, Status, no_solution, within_limits
from jaxpriv.solvers import Goal

# Least leakage of additive noise: a barrier Newton method on the law of Z.
#
# All rows of the mechanism share one law theta, so there are only |Z| unknowns and the Hessian
#
#     H = sum_y A_y' ( diag(1/w_y) - 11'/|w_y| ) A_y,     w_y = A_y theta,
#
# is dense and small. From a strictly feasible start, Newton on F(theta) - mu (sum ln theta + ln slack) with mu falling
# geometrically; on the central path the gap is mu (|Z| + 1).


class NoiseData(NamedTuple):
    """The program in arrays: columns A (Y, S, Z), the prior (S,), costs (Z,) scaled to [0, 1], budget."""

    columns: Arr
    prior: Arr
    cost: Arr
    budget: Arr


def _value(data: NoiseData, theta: Arr, mu: ScalarLike) -> Arr:
    w = data.columns @ theta
    mass = w.sum(axis=1, keepdims=True)
    tiny = jnp.finfo(w.dtype).tiny
    leakage = (w * (jnp.log(jnp.maximum(w, tiny)) - jnp.log(jnp.maximum(mass * data.prior, tiny)))).sum()
    slack = data.budget - data.cost @ theta
    inside = (theta.min() > 0) & (slack > 0)
    barrier = jnp.log(jnp.where(inside, theta, 1.0)).sum() + jnp.log(jnp.where(inside, slack, 1.0))
    return jnp.where(inside, leakage - mu * barrier, jnp.inf)


def scores_at(data: NoiseData, theta: Arr) -> Arr:
    """g_y(s) = ln P(s|y)/P(s), shape (Y, S)."""
    w = data.columns @ theta
    tiny = jnp.finfo(w.dtype).tiny
    mass = jnp.maximum(w.sum(axis=1, keepdims=True), tiny)
    return jnp.where(w > 0, jnp.log(jnp.maximum(w, tiny) / mass / data.prior), -700.0)


def _direction(data: NoiseData, theta: Arr, mu: Arr) -> tuple[Arr, Arr]:
    """Newton direction on the simplex, and its squared decrement."""
    w = data.columns @ theta
    mass = w.sum(axis=1)
    present = w > 0
    weight = jnp.where(present, 1.0 / jnp.where(present, w, 1.0), 0.0)
    total = data.columns.sum(axis=1)  # (Y, Z)
    safe = jnp.where(mass > 0, mass, 1.0)
    hessian = jnp.einsum("ysz,ys,ysv->zv", data.columns, weight, data.columns, precision="highest")
    hessian = hessian - jnp.einsum("yz,y,yv->zv", total, jnp.where(mass > 0, 1.0 / safe, 0.0), total)
    slack = data.budget - data.cost @ theta
    gradient = jnp.einsum("ysz,ys->z", data.columns, jnp.where(present, scores_at(data, theta), 0.0))
    gradient = gradient - mu / theta + mu / slack * data.cost
    hessian = hessian + jnp.diag(mu / theta**2) + mu / slack**2 * data.cost[:, None] * data.cost[None, :]
    # Scaled by theta the system is well conditioned however small single probabilities get.
    scaled = theta[:, None] * hessian * theta[None, :]
    solved = jnp.linalg.solve(scaled, jnp.stack([theta * gradient, theta], axis=1)) * theta[:, None]
    newton, normal = -solved[:, 0], solved[:, 1]
    step = newton - normal * (newton.sum() / normal.sum())
    return step, -(gradient @ step)


class NoisePath(NamedTuple):
    """Where the path stands."""

    theta: Arr  # (Z,)
    mu: Arr
    decrement: Arr
    steps: Arr
    stuck: Arr


class NoisePoint(NamedTuple):
    """What the path has come to."""

    path: NoisePath
    scores: Arr  # (Y, S)
    price: Arr
    value: Arr  # I(S;Y)
    finished: Arr


def path_from(start: np.ndarray) -> NoisePath:
    """The path before its first step, from a strictly feasible law."""
    return NoisePath(start, np.asarray(1.0), np.asarray(np.inf), np.asarray(0), np.asarray(False))


# The numbers of the path are choices that change steps and time only: its end is certified in float64. mu falls to a
# fifth once the decrement is 5 % of it, where Newton converges quadratically, and the path ends at a decrement of 1e-9
# of the last mu.
_FALL, _CLOSE, _END = 0.2, 0.05, 1e-9
# A step is halved until it has a thousandth of the predicted decrease (Armijo), 40 times at most (1e-12 of its
# length), and goes 99 % of the way to the boundary.
_ARMIJO, _SHORTEST, _BOUNDARY = 1e-3, 1e-12, 0.99


def newton_path(data: NoiseData, path: NoisePath, last: Arr, until: ScalarLike) -> NoisePoint:
    """The path followed to its end, mu = `last`, or until `until` steps are used."""

    def unfinished(path: NoisePath) -> Arr:
        return ((path.mu > last) | (path.decrement > _END * path.mu)) & ~path.stuck

    def step(path: NoisePath) -> NoisePath:
        theta, mu, decrement, steps, _ = path
        mu = jnp.where(decrement <= _CLOSE * mu, jnp.maximum(_FALL * mu, last), mu)
        move, decrement = _direction(data, theta, mu)
        now = _value(data, theta, mu)

        # Close to the path the full step is safe (self-concordance), and the decrease that a test
        # would look for is below rounding.
        close = decrement <= _CLOSE * mu

        def too_long(inner: tuple[Arr, Arr]) -> Arr:
            a, value = inner
            return ~close & ~(value <= now - _ARMIJO * a * decrement) & (a > _SHORTEST)

        def shorter(inner: tuple[Arr, Arr]) -> tuple[Arr, Arr]:
            a = 0.5 * inner[0]
            return a, _value(data, theta + a * move, mu)

        boundary = jnp.minimum(1.0, _BOUNDARY / jnp.maximum((-move / theta).max(), 1e-30))
        a, _ = lax.while_loop(too_long, shorter, (boundary, _value(data, theta + boundary * move, mu)))
        new = jnp.where(a > _SHORTEST, theta + a * move, theta)
        return NoisePath(new / new.sum(), mu, decrement, steps + 1, (a <= _SHORTEST) & (mu <= last))

    path = lax.while_loop(lambda path: unfinished(path) & (path.steps < until), step, path)
    price = path.mu / (data.budget - data.cost @ path.theta)
    value = _value(data, path.theta, 0.0)
    return NoisePoint(path, scores_at(data, path.theta), price, value, ~unfinished(path))


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
    slack = 1.0 if tight else (budget - least) / span
    # Strictly inside: half of the budget goes to an even blend, the rest to the cheapest symbols.
    blend = 0.5 * min(1.0, slack / max(float(scaled.mean()), np.finfo(float).tiny))
    start = blend / len(allowed) + (1.0 - blend) * (scaled == 0) / (scaled == 0).sum()
    data = NoiseData(
        problem.columns()[:, seen][:, :, allowed], problem.joint.sum(axis=1)[seen], scaled, np.asarray(slack)
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
    if tight:  # the price at which no costlier symbol gains anything, and 1e-9 more: any price gives a bound that holds
        gain = np.einsum("ysz,ys->z", problem.columns(), scores[0])
        costlier = cost - least > feasibility.BOUNDARY * span
        short = (gain[allowed].min() - gain[costlier]) / (cost[costlier] - least)
        price = float(max(short.max(initial=0.0), 0.0)) * (1 + 1e-9)
    certificate = certify_noise(problem, noise, scores, price)
    proved = goal.proved(certificate)
    code = Status.OPTIMAL if proved else Status.BEST_KNOWN if clock.stop else Status.NOT_CERTIFIED
    solution = Solution(
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
    return within_limits(solution, certificate.violation)


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
