"""The best release after an earlier one of the same records, of mutual information: a small problem for each draw.

Z has P(z|x), the release Y is drawn from W = P(y | x, z), and receivers have both:

    I(S; Z, Y) = I(S; Z) + sum_z P(z) I(S; Y | Z = z),    E d = sum_z P(z) E[d | Z = z].

So at a price l of the distortion each z is a problem of its own, with the joint P(s, x | z). They are solved side by
side for one price after the other, until the two prices around the target have a mixture of their mechanisms, within
the target, whose value is that of the dual. The scores of all outputs are those of the problems: a g with
sum_s P(s|z) e^g <= 1 becomes g + ln(P(s|z)/P(s)).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv.errors import InfeasibleError
from jaxpriv.problems import DistortionProblem
from jaxpriv.solving.many import solve_many

# The shares of the tolerance to which the problems are solved, and at which prices are changed no more.
_SHARE, _ENOUGH = 0.1, 0.5
# The most prices that are tried, and the factor between two until the best one lies between two of them.
_ROUNDS, _STEP = 60, 4.0
# The least distortion to begin with, as a share of the largest price of a pair.
_LEAST = 1e-6
# Halvings of the share of a mixture: 2^-50 of it changes a value by less than the tolerance.
_HALVINGS = 50
# The score of a private symbol that an earlier draw excludes: e^-700 of it is added to a sum that is at most 1.
_NEVER = -700.0


@dataclass(frozen=True, eq=False)
class Following:
    """W (X, Z, Y), the scores of the outputs (Z Y, S), the price of the distortion, and how far it is proved."""

    mechanism: np.ndarray
    scores: np.ndarray
    price: float
    status: Literal["optimal", "not_certified"]


@dataclass(frozen=True, eq=False)
class _Priced:
    """What is best at a price: W (Z, X, Y), its leakage and distortion, and a bound of leakage + price distortion."""

    price: float
    mechanism: np.ndarray
    leakage: float
    distortion: float
    bound: float
    scores: np.ndarray


@dataclass(frozen=True, eq=False)
class _Draws:
    """The problems of all z that occur: P(s, x, z) (S, X, Z) and d (X, Y)."""

    joint: np.ndarray
    costs: np.ndarray
    clock: Clock

    def leakage(self, mechanism: np.ndarray) -> float:
        """I(S; Z, Y) of W (Z, X, Y)."""
        seen = np.einsum("sxz,zxy->szy", self.joint, mechanism).reshape(len(self.joint), -1)
        apart = np.outer(seen.sum(axis=1), seen.sum(axis=0))
        some = seen > 0
        return math.fsum(seen[some] * np.log(seen[some] / apart[some]))

    def distortion(self, mechanism: np.ndarray) -> float:
        """E d of W (Z, X, Y)."""
        return math.fsum((self.joint.sum(axis=0).T[:, :, None] * mechanism * self.costs).ravel())

    def at(self, price: float, tol: float) -> _Priced:
        """The best at a price > 0."""
        mass, prior = self.joint.sum(axis=(0, 1)), self.joint.sum(axis=(1, 2))
        given = np.moveaxis(self.joint / mass, 2, 0)  # P(s, x | z)
        problems = [DistortionProblem(joint, self.costs, multiplier=price) for joint in given]
        left = None if math.isinf(self.clock.left) else self.clock.left
        solutions: list[Any] = solve_many(problems, tol=_SHARE * tol * min(price, 1.0), time_limit=left, throw=True)
        mechanism = np.stack([np.asarray(solution.mechanism) for solution in solutions])
        posterior = given.sum(axis=2)
        shift = np.full_like(posterior, _NEVER)
        some = posterior > 0
        shift[some] = np.log(posterior[some] / np.broadcast_to(prior, posterior.shape)[some])
        scores = np.stack([np.asarray(solution.scores)[0] for solution in solutions]) + shift[:, None]
        before = self.leakage(np.ones((*mechanism.shape[:2], 1)))
        bound = before + float(mass @ [float(solution.lower_bound) for solution in solutions])
        return _Priced(price, mechanism, self.leakage(mechanism), self.distortion(mechanism), bound, scores)


def least_after(
    joint: np.ndarray, earlier: np.ndarray, costs: np.ndarray, form: str, target: float, tol: float, clock: Clock
) -> Following:
    """The least I(S; Z, Y) with E d <= target (form "budget"), or the reverse ("leakage-budget").

    Args:
        joint: P(S,X), (S, X), every symbol with a mass.
        earlier: P(z|x), (X, Z).
        costs: d(x,y), (X, Y).

    Raises `InfeasibleError` for a budget below the least distortion, or below what the earlier release discloses.
    """
    whole = joint[:, :, None] * earlier
    there = whole.any(axis=(0, 1))
    draws = _Draws(whole[:, :, there], costs, clock)
    nearest = np.eye(costs.shape[1])[costs.argmin(axis=1)]
    nearest = np.broadcast_to(nearest, (int(there.sum()), *nearest.shape))
    means = np.einsum("sxz,xy->zy", draws.joint, costs)
    constant = np.broadcast_to(np.eye(costs.shape[1])[means.argmin(axis=1)][:, None], nearest.shape)
    by_budget = form == "budget"
    spent, needed = (draws.distortion, draws.leakage) if by_budget else (draws.leakage, draws.distortion)
    least = spent(nearest if by_budget else constant)
    if not least <= target:
        what = "the least distortion of any mechanism" if by_budget else "what the earlier release discloses"
        raise InfeasibleError(
            f"{form.replace('-', '_')} {target:.12g} is below {least:.12g}, {what}",
            {"bound": least, "allowed": target, "multipliers": [1.0]},
        )
    # Mechanisms within the target and beyond it, and between which prices the best one lies.
    within, beyond = (nearest, constant) if by_budget else (constant, nearest)
    within = beyond if spent(beyond) <= target else within
    low, high = 0.0, math.inf
    # Where the earlier draw tells the best output, nothing is saved but what rounding leaves.
    saved = max(draws.distortion(constant) - draws.distortion(nearest), _LEAST * (float(costs.max()) or 1.0))
    price = max(draws.leakage(nearest) - draws.leakage(constant), tol) / saved
    best, proved = None, -math.inf
    for _ in range(_ROUNDS):
        answer = draws.at(price, tol)
        bound = answer.bound - price * target if by_budget else (answer.bound - target) / price
        if best is None or bound > proved:
            best, proved = answer, bound
        fits = spent(answer.mechanism) <= target
        within, beyond = (answer.mechanism, beyond) if fits else (within, answer.mechanism)
        # At a higher price less distortion is spent, and more leakage.
        low, high = (low, price) if fits == by_budget else (price, high)
        mixed = _mixed(within, beyond, spent, target)
        value = needed(mixed)
        if value - proved <= _ENOUGH * tol or clock.expired():
            break
        price = _STEP * low if math.isinf(high) else high / _STEP if not low else math.sqrt(low * high)
    assert best is not None
    table = np.broadcast_to(nearest[0][:, None], (*earlier.shape, costs.shape[1])).copy()
    table[:, there] = np.moveaxis(mixed, 0, 1)
    scores = np.zeros((earlier.shape[1], costs.shape[1], len(joint)))
    scores[there] = best.scores
    status = "optimal" if value - proved <= tol else "not_certified"
    return Following(table, scores.reshape(-1, len(joint)), best.price, status)


def _mixed(within: np.ndarray, beyond: np.ndarray, spent: Callable[[np.ndarray], float], target: float) -> np.ndarray:
    """The mixture with the largest share of `beyond` that spends at most the target, which `within` does."""
    if spent(beyond) <= target:
        return beyond
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        share = 0.5 * (low + high)
        fits = spent((1 - share) * within + share * beyond) <= target
        low, high = (share, high) if fits else (low, share)
    return (1 - low) * within + low * beyond
