"""Additive noise: one law for all useful symbols, one method, its own certificate.

All rows of the mechanism share one law theta, so there are only |Z| unknowns and the Hessian of the leakage

    H = sum_y A_y' ( diag(1/w_y) - 11'/|w_y| ) A_y,     w_y = A_y theta,

is dense and small. With a price and a slack of the budget, and reduced costs z, the optimum has

    dF/dtheta + price d - nu = z,    theta z = mu/|Z|,    slack price = mu/|Z|,    mu = 0,

which primal-dual Newton steps (`_primal_dual`) follow from a strictly feasible law.
"""

import time

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv.problems.distortion import NoiseProblem, max_entropy_noise
from jaxpriv.program.certificates import certify_noise
from jaxpriv.program.solution import Solution, Status, no_solution, within_limits
from jaxpriv.reductions.closed_forms import BOUNDARY
from jaxpriv.solvers import Goal
from jaxpriv.solvers._primal_dual import PrimalDualPoint, followed_path

# The path is followed to this share of the tolerance: the certificate's bound has the rounding of its sums too.
_OF_TOL = 0.5
_NAME = "barrier-newton"
# The score of a private symbol that an output excludes.
_EXCLUDED = -700.0


class _Law:
    """The data: columns A (Y, S, Z) of outputs and private symbols with mass, the prior (S,), costs (Z,) within [0, 1],
    the budget above the least cost, and a law (Z,) with slack.
    """

    def __init__(self, columns: np.ndarray, prior: np.ndarray, cost: np.ndarray, budget: float, law: np.ndarray):
        self.columns, self.prior, self.cost, self.budget, self.law = columns, prior, cost, budget, law
        self.path = np.full(len(cost), 1.0 / len(cost))
        self.slack_path = self.path[:1]

    def start(self) -> PrimalDualPoint:
        """The law with slack, at mu = 1."""
        slack, none = np.array([self.budget - self.cost @ self.law]), np.zeros(0)
        return PrimalDualPoint(self.law, self.path / self.law, none, slack, self.slack_path / slack, np.zeros(()), none)

    def conditions(self, point: PrimalDualPoint) -> "_LawConditions":
        return _LawConditions(self, point)

    def scores(self, law: np.ndarray) -> np.ndarray:
        """g_y(s) = ln P(s|y)/P(s), shape (Y, S)."""
        w = self.columns @ law
        lift = w / w.sum(axis=1, keepdims=True) / self.prior  # in this order: the product of the two masses may be 0
        return np.log(lift, out=np.full(w.shape, _EXCLUDED), where=w > 0)


class _LawConditions:
    """The conditions at a point, and their linearisation."""

    def __init__(self, data: _Law, point: PrimalDualPoint):
        self.data, self.point = data, point
        w, size = data.columns @ point.w, len(point.w)
        flat, weight = data.columns.reshape(-1, size), np.divide(1.0, w, out=np.zeros_like(w), where=w > 0)
        total = data.columns.sum(axis=1)  # (Y, Z)
        scores = np.where(w > 0, data.scores(point.w), 0.0)
        self.missing = flat.T @ scores.ravel() + point.y * data.cost - point.nu - point.z
        self.short, self.sum = data.budget - data.cost @ point.w - point.t, 1.0 - point.w.sum()
        # The bound of the certificate is the least over z: there a missing part counts in full, however small theta.
        unmet = max(-float((self.missing + point.z).min()), 0.0)
        self.error = float(max(abs(self.missing @ point.w) + unmet, abs(self.short * point.y)[0], abs(self.sum)))
        hessian = flat.T @ (weight.reshape(-1, 1) * flat) - total.T @ (total / w.sum(axis=1, keepdims=True))
        hessian = hessian + point.y / point.t * np.outer(data.cost, data.cost)
        # Scaled the system is well conditioned however small single probabilities get.
        self.scale = np.sqrt(point.w / point.z)
        self.system = np.eye(size) + self.scale[:, None] * hessian * self.scale

    def move(self, products: np.ndarray | float, slack_products: np.ndarray | float) -> PrimalDualPoint:
        """The step after which theta z and slack price would be these, to first order."""
        point, cost = self.point, self.data.cost
        drop, rise = products / point.w - point.z, slack_products / point.t - point.y
        wanted = drop - self.missing - cost * (rise - point.y / point.t * self.short)
        newton, normal = np.linalg.solve(self.system, np.stack([self.scale * wanted, self.scale], axis=1)).T
        dnu = (self.sum - self.scale @ newton) / (self.scale @ normal)
        dw = self.scale * (newton + dnu * normal)
        dt = self.short - cost @ dw
        dz, dy = drop - point.z / point.w * dw, rise - point.y / point.t * dt
        return PrimalDualPoint(dw, dz, point.a, dt, dy, dnu, point.kappa)


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
    tight = budget - least <= BOUNDARY * span
    allowed = np.flatnonzero(cost - least <= BOUNDARY * span) if tight else np.arange(len(cost))
    seen = problem.joint.sum(axis=1) > 0
    scaled = np.zeros(len(allowed)) if tight else (cost[allowed] - least) / span
    slack = 1.0 if tight else (budget - least) / span
    # Strictly inside: half of the budget goes to an even blend, the rest to the cheapest symbols.
    blend = 0.5 * min(1.0, slack / max(float(scaled.mean()), np.finfo(float).tiny))
    start = blend / len(allowed) + (1.0 - blend) * (scaled == 0) / (scaled == 0).sum()
    columns = problem.columns()[:, seen][:, :, allowed]
    reached = columns.any(axis=(1, 2))
    data = _Law(columns[reached], problem.joint.sum(axis=1)[seen], scaled, slack, start)
    point, steps = followed_path(data, _OF_TOL * float(goal.tol), clock, max_steps)
    law = point.w / point.w.sum()
    noise = np.zeros(len(cost))
    noise[allowed] = law
    scores = np.zeros((1, problem.outputs, problem.joint.shape[0]))
    scores[0][np.ix_(reached, seen)] = data.scores(law)
    price = 0.0 if tight else float(point.y[0]) / span
    if tight:  # the price at which no costlier symbol gains anything, and 1e-9 more: any price gives a bound that holds
        gain = np.einsum("ysz,ys->z", problem.columns(), scores[0])
        costlier = cost - least > BOUNDARY * span
        short = (gain[allowed].min() - gain[costlier]) / (cost[costlier] - least)
        price = float(max(short.max(initial=0.0), 0.0)) * (1 + 1e-9)
    certificate = certify_noise(problem, noise, scores, price)
    clock.report(_NAME, steps, certificate.value, certificate.lower_bound)
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
        steps=np.int32(steps),
        solver=_NAME,
        seconds={"compile": 0.0, "solve": time.perf_counter() - begun},
        stopped=np.int32(clock.stop),
        units=problem.units,
    )
    return within_limits(solution, certificate.violation)
