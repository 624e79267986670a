"""Funnels of worst-outcome measures: the least limit eps on every posterior under which a release can disclose R.

L is the largest value over the outputs, so a release leaks at most eps where all its posteriors are within the limit
eps. The most that such releases disclose, U(eps), is the optimum of `extremal.maximum_utility`, or of `CurvedSet` where
the measure is smooth, with a proved upper bound, and does not fall in eps. Therefore

    U(eps) <  R   proves that every release with I(X;Y) >= R leaks more than eps,
    U(eps) >= R   gives a release that leaks eps at most,

and a search for the root of U(eps) = R has a proof on both of its sides.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv.errors import InputError
from jaxpriv.extremal.utility import MaximumUtility, parse_limits, utility_within
from jaxpriv.funnels.curved import CurvedSet
from jaxpriv.funnels.solution import AbstractFunnelSolver, FunnelGoal, PosteriorMeasure, measure_of
from jaxpriv.leakage import Lift, evaluate
from jaxpriv.problems.funnel import FunnelOrBottleneck, FunnelProblem, whole_entropy

_EPS = float(np.finfo(np.float64).eps)
# Limits beyond this are none to float64, and one to begin with where X itself leaks without limit.
_MOST, _FIRST = 300.0, 1.0
# The utility is computed to this share of the tolerance, at least to this. Steps of the search; cuts stay this share of
# the interval inside, and every so many steps halve it.
_FINE, _FINEST, _STEPS, _INSET, _HALVED = 1e-2, 1e-12, 60, 0.02, 4
# Up to this relative width an interval has a proof; the search within it has none before its end.
_ROUGH = 0.05
NAME = "posterior-limit"


@dataclass(frozen=True)
class PosteriorLimit(AbstractFunnelSolver):
    """The least limit on every posterior, for `Lift`, `MaxLift`, `MinLift`, `LocalDifferentialPrivacy` and
    `InferentialPrivacy` without neighbours, `MaxInformation`, `RelativeEntropyPrivacy` and `MaxCostGain` of `LogLoss`
    or `BrierLoss`; for up to about four private symbols.
    """

    def find(self, problem: FunnelOrBottleneck, goal: FunnelGoal) -> PosteriorMeasure:
        if not (isinstance(problem, FunnelProblem) and problem.leakage.worst_outcome):
            raise InputError(f"solver: {type(problem.leakage).__name__} is no limit on every posterior")
        if problem.limits_leakage:
            best = _utility(problem, goal.clock)(problem.target, 0.5 * goal.tol)
            return _measure(problem, best, best.upper_bound, 1)
        low, best, steps = _least_limit(problem, goal)
        return _measure(problem, best, low, steps)


def _measure(problem: FunnelProblem, best: MaximumUtility, bound: float, steps: int) -> PosteriorMeasure:
    posteriors, masses = measure_of(best.mechanism[problem.useful], problem.reduction.source)
    notes = (f"bound proved by {best.method}",) if 0 < bound < math.inf else ()
    return PosteriorMeasure(posteriors, masses, bound=bound, steps=steps, notes=notes)


def _utility(problem: FunnelProblem, clock: Clock) -> Callable[..., MaximumUtility]:
    """U(limit, tol, enough, proof): no more need be known than whether it is `enough`.

    Without `proof` the upper bound of a smooth measure may be infinite.
    """
    joint, measure = problem.joint, problem.leakage
    used = joint.sum(axis=0) > 0
    smooth = CurvedSet(joint[:, used], measure) if measure.smooth else None

    def at(limit: float, tol: float, enough: float = math.inf, proof: bool = True) -> MaximumUtility:
        with clock.quiet():
            if smooth is None or limit == 0:  # without leakage all measures are one
                return utility_within(joint, parse_limits((measure if smooth is None else Lift(), limit)), tol, clock)
            found = smooth.utility(limit, tol, clock, enough, proof)
        whole = np.empty((len(used), found.mechanism.shape[1]))
        whole[:], whole[used] = joint[:, used].sum(axis=0) @ found.mechanism, found.mechanism
        return replace(found, mechanism=whole)

    return at


def _least_limit(problem: FunnelProblem, goal: FunnelGoal) -> tuple[float, MaximumUtility, int]:
    """(a limit that is too small, the release within one that is not, steps)."""
    fine, clock, most = max(_FINE * goal.tol, _FINEST), goal.clock, whole_entropy(problem.joint)
    # What is measured may be below what was computed.
    target = min(problem.target + 8 * _EPS * sum(problem.joint.shape) * (1.0 + most), most)

    utility = _utility(problem, clock)

    def at(limit: float, proof: bool = True) -> MaximumUtility:
        return utility(limit, fine, target, proof)

    best = at(0.0)
    if best.value >= target:
        return 0.0, best, 1
    low = proved = 0.0, best.value
    high = min(evaluate(problem.leakage, problem.joint, np.eye(problem.joint.shape[1])).value, _FIRST)
    best, steps, side = at(high), 2, 1.0
    while best.value < target and high < _MOST and not clock.expired():
        low = high, best.value
        proved = low if best.upper_bound < target else proved
        high, steps = min(2 * high, _MOST), steps + 1
        best = at(high)
    below, step = -math.inf, 0.4 * goal.tol
    while steps < _STEPS and not clock.expired():
        close = high - low[0] <= 0.9 * goal.tol
        if close and proved == low:
            break
        steps += 1
        share = (target - low[1]) / max(best.value - low[1], _EPS)
        cut = low[0] + share * (high - low[0]) + side * 0.4 * goal.tol
        inset = min(_INSET * (high - low[0]), 0.4 * goal.tol)
        cut = 0.5 * (low[0] + high) if steps % _HALVED == 0 else min(max(cut, low[0] + inset), high - inset)
        cut = low[0] if close else cut if below < 0 else below
        # Without a proof the value may be that of too few posteriors: what is too small for it is proved in the end.
        found = at(cut, close or below > 0 or high - proved[0] > _ROUGH * high)
        below = -math.inf
        if found.value >= target:
            high, best, side, low = cut, found, -1.0, min(low, proved) if close else low
        elif found.upper_bound < target:
            low = proved = cut, found.value
            side = 1.0
        elif close or np.isfinite(found.upper_bound):
            # The interval of the utility itself holds the target: a proof is sought below, farther away each time.
            low, below, step = min(low, proved), cut - step, 4.0 * step
            if below <= proved[0]:
                break
        else:
            low, side = (cut, found.value), 1.0
        clock.report(NAME, steps, high, proved[0])
    return proved[0], best, steps


def limit_bound(problem: FunnelProblem, claimed: float, clock: Clock) -> float:
    """`claimed`, if one more search proves it: that a budget allows no more, or that no release within it is enough."""
    utility = _utility(problem, clock)
    if problem.limits_leakage:
        return max(claimed, utility(problem.target, _FINEST, claimed * (1 + _FINEST)).upper_bound)
    return claimed if utility(max(claimed, 0.0), _FINEST, problem.target).upper_bound < problem.target else 0.0
