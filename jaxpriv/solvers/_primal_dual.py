"""Primal-dual Newton steps for a monotone problem of few unknowns, in NumPy: Mehrotra's predictor and corrector.

A problem has unknowns w and slacks t >= 0, their duals z and y, and further unknowns without a sign. A point of its
path has w z = mu path and t y = mu slack_path. The problem gives the start and, at a point, the Newton step to any
products. Nothing here proves anything: a certificate is made of whatever point the steps end at.
"""

from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np

from jaxpriv._runtime.clock import Clock

# The numbers here change steps and time only. Choices.
#
# Newton steps at most.
_MOST_STEPS = 150
# They stop early where a step is no longer than this.
_SHORTEST = 1e-6
# Part of the way to the boundary that a step may go.
_BOUNDARY = 0.95
# The length below which a step aims at the centre instead.
_SHORT = 0.1
# A step aims at the cube of what the predictor leaves of the gap (Mehrotra 1992), but at a thousandth of the gap at
# least; a short one at half of the gap.
_LEAST_AIM, _CENTRED_AIM = 1e-3, 0.5


@dataclass
class PrimalDualPoint:
    """Unknowns w and their duals z, unknowns a without a sign, slacks t with duals y, multipliers of equations."""

    w: np.ndarray
    z: np.ndarray
    a: np.ndarray
    t: np.ndarray
    y: np.ndarray
    nu: np.ndarray
    kappa: np.ndarray

    def moved(self, move: "PrimalDualPoint", step: float) -> "PrimalDualPoint":
        return PrimalDualPoint(
            *(getattr(self, field.name) + step * getattr(move, field.name) for field in fields(self))
        )

    def gap(self) -> float:
        return float((self.w * self.z).sum() + (self.t * self.y).sum())

    def longest(self, move: "PrimalDualPoint") -> float:
        """How far until the first of w, z, t and y vanishes."""
        return 1.0 / max(1e-300, *(float((-getattr(move, name) / getattr(self, name)).max()) for name in "wzty"))


class NewtonConditions(Protocol):
    """The conditions at a point, and the factors of their linearisation."""

    error: float  # what the residuals may be worth

    def move(self, products: np.ndarray | float, slack_products: np.ndarray | float) -> PrimalDualPoint:
        """The step after which w z and t y would be these, to first order."""
        ...


class MonotoneProblem(Protocol):
    """What the steps need of a problem."""

    path: np.ndarray  # of the shape of w
    slack_path: np.ndarray  # as t, or as its rows

    def start(self) -> PrimalDualPoint: ...
    def conditions(self, point: PrimalDualPoint) -> NewtonConditions: ...


def followed_path(
    problem: MonotoneProblem, tol: float, clock: Clock, most: int = _MOST_STEPS
) -> tuple[PrimalDualPoint, int]:
    """(the point where the steps end, how many there were): at a gap of `tol`, or where nothing more is gained."""
    point, count = problem.start(), 0
    total = problem.path.sum() + np.broadcast_to(problem.slack_path, point.t.shape).sum()
    with np.errstate(all="ignore"):  # the last steps may leave the numbers that there are
        while count < min(most, _MOST_STEPS) and not clock.expired():
            try:
                newton = problem.conditions(point)
                if max(gap := point.gap(), newton.error) <= tol:
                    break
                ahead = newton.move(0.0, 0.0)
                length = min(1.0, point.longest(ahead))
                aim = max((point.moved(ahead, length).gap() / gap) ** 3, _LEAST_AIM) * gap / total
                share = length * length  # the share of the products of the changes that a step of this length will meet
                move = newton.move(
                    aim * problem.path - share * ahead.w * ahead.z, aim * problem.slack_path - share * ahead.t * ahead.y
                )
                if _BOUNDARY * point.longest(move) < _SHORT:
                    aim = _CENTRED_AIM * gap / total
                    move = newton.move(aim * problem.path, aim * problem.slack_path)
            except (np.linalg.LinAlgError, ArithmeticError):  # as far as rounding lets it come
                break
            step = min(1.0, _BOUNDARY * point.longest(move))
            after = point.moved(move, step)
            if step < _SHORTEST or not np.isfinite(after.gap()):
                break
            point, count = after, count + 1
    return point, count
