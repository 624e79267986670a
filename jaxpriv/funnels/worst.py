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
from typing import ClassVar, NamedTuple

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv.errors import InputError
from jaxpriv.extremal.limits import parse_limits
from jaxpriv.extremal.utility import MaximumUtility, utility_within
from jaxpriv.funnels.curved import CurvedSet
from jaxpriv.funnels.greedy import greedy
from jaxpriv.funnels.local import least_information
from jaxpriv.funnels.release import all_symbols
from jaxpriv.funnels.solution import AbstractFunnelSolver, FunnelGoal, PosteriorMeasure, measure_of, measuring_error
from jaxpriv.funnels.starts import disclosed
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
# The share of a time limit that the search has before the release of least mutual information is computed: a solve that
# ends within it does not need that release.
_BEFORE = 0.1
NAME = "posterior-limit"


@dataclass(frozen=True)
class PosteriorLimit(AbstractFunnelSolver):
    """The least limit on every posterior, for `Lift`, `MaxLift`, `MinLift`, `LocalDifferentialPrivacy` and
    `InferentialPrivacy` without neighbours, `MaxInformation`, `RelativeEntropyPrivacy` and `MaxCostGain` of `LogLoss`
    or `BrierLoss`; for up to about four private symbols.

    Where a tenth of a time limit does not end the search for the least leakage at a disclosure, the release of least
    mutual information is computed next, and the search goes on below what it leaks of the asked measure. Where the
    rest of the time is enough for the certified optimum of mutual information, the result is no worse than that one:
    with limits of a little more than 10/9 of the time that this funnel takes. Otherwise, and after an interrupt, it is
    the best of the releases computed so far, at worst that of Algorithm 1 of Makhdoumi et al. (2014), or of its
    variant by ratios, for mutual information.
    """

    proves: ClassVar[bool] = True

    def find(self, problem: FunnelOrBottleneck, goal: FunnelGoal) -> PosteriorMeasure:
        if not (isinstance(problem, FunnelProblem) and problem.leakage.worst_outcome):
            raise InputError(f"solver: {type(problem.leakage).__name__} is no limit on every posterior")
        if problem.limits_leakage:
            utility, limit, steps = _utility(problem, goal.clock), problem.target, 1
            rounding = 4.0 * measuring_error(len(problem.reduction.source), 1, 0.0)
            best = widest = utility(max(limit, rounding) if limit > 0 else 0.0, 0.5 * goal.tol)
            if 0 < 0.1 * goal.tol * limit < rounding:  # what is measured of a release of that limit is above it
                within = [utility(inner, 0.5 * goal.tol) for inner in {0.0, max(limit - rounding, 0.0)}]
                best, steps = max(within, key=lambda utility: utility.value), 1 + len(within)
            return _measure(problem, best, widest.upper_bound, steps)
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
    smooth = CurvedSet(joint, measure) if measure.smooth else None

    def at(limit: float, tol: float, enough: float = math.inf, proof: bool = True) -> MaximumUtility:
        with clock.quiet():
            if smooth is None or limit == 0:  # without leakage all measures are one
                return utility_within(joint, parse_limits((measure if smooth is None else Lift(), limit)), tol, clock)
            return smooth.utility(limit, tol, clock, enough, proof)

    return at


class _TooSmall(NamedTuple):
    """A limit, and what a release within it discloses: less than R."""

    limit: float
    disclosed: float


@dataclass
class _Bracket:
    """Limits on both sides of the least one within which R can be disclosed.

    Attributes:
        asked: R.
        target, tol: R and the rounding of what is measured, and how close the sides are to be.
        high, best: a limit that is enough, and the release within it.
        low: one that is presumed too small; `proved`: one that is proved so.
        side: to which side of the chord the next cut leans: away from the end that has moved last.
        below, step: where a proof is sought, and how far below that the next one is; `below` < 0: nowhere.
    """

    asked: float
    target: float
    tol: float
    high: float
    best: MaximumUtility
    low: _TooSmall
    proved: _TooSmall
    side: float = 1.0
    below: float = -math.inf
    step: float = math.nan

    @property
    def close(self) -> bool:
        return self.high - self.low.limit <= 0.9 * self.tol

    def cut(self, halved: bool) -> float:
        """The limit to look at next."""
        if self.close:
            return self.low.limit
        if self.below >= 0:
            return self.below
        (low, disclosed), high, lean = self.low, self.high, 0.4 * self.tol
        if halved:
            return 0.5 * (low + high)
        share = (self.target - disclosed) / max(self.best.value - disclosed, _EPS)
        inset = min(_INSET * (high - low), lean)
        return min(max(low + share * (high - low) + self.side * lean, low + inset), high - inset)

    def narrowed(self, cut: float, utility: MaximumUtility) -> bool:
        """Whether the search goes on after the utility at a cut."""
        close, self.below = self.close, -math.inf
        if utility.value >= self.target:
            self.low = min(self.low, self.proved) if close else self.low
            self.high, self.best, self.side = cut, utility, -1.0
        elif utility.upper_bound >= self.target and (close or np.isfinite(utility.upper_bound)):
            # The interval of the utility itself holds the target: a proof is sought below, farther away each time.
            self.low, self.below, self.step = min(self.low, self.proved), cut - self.step, 4.0 * self.step
            return self.below > self.proved.limit
        else:
            self.low, self.side = _TooSmall(cut, utility.value), 1.0
            self.proved = self.low if utility.upper_bound < self.asked else self.proved
        return True


def _least_limit(problem: FunnelProblem, goal: FunnelGoal) -> tuple[float, MaximumUtility, int]:
    """(a limit that is too small, the release within one that is not, steps)."""
    fine, clock, most = max(_FINE * goal.tol, _FINEST), goal.clock, whole_entropy(problem.joint)
    # What is measured may be below what was computed.
    target = min(problem.target + 64 * _EPS * sum(problem.joint.shape) * (1.0 + most), most)

    utility = _utility(problem, clock)

    def at(limit: float, proof: bool = True) -> MaximumUtility:
        return utility(limit, fine, target, proof)

    def leaked(release: np.ndarray) -> float:
        return evaluate(problem.leakage, problem.joint, release).value

    def improve(release: np.ndarray) -> None:
        """The release as the end that is enough, where it leaks least."""
        leakage = leaked(release)
        if leakage <= largest and (ends.best.value < target or leakage < ends.high):
            value = float(disclosed(problem.joint.sum(axis=0), release))
            ends.high, ends.best = leakage, replace(ends.best, value=value, mechanism=release)
            ends.low, ends.below = ends.proved, -math.inf

    def search() -> None:
        nonlocal steps
        while ends.best.value < target and ends.high < largest and not clock.expired():
            ends.low = _TooSmall(ends.high, ends.best.value)
            ends.proved = ends.low if ends.best.upper_bound < asked else ends.proved
            ends.high, steps = min(2 * ends.high, largest), steps + 1
            ends.best = at(ends.high)
        going = True
        while going and steps < _STEPS and not clock.expired() and not (ends.close and ends.proved == ends.low):
            steps += 1
            cut = ends.cut(steps % _HALVED == 0)
            # Without a proof the value may be that of too few posteriors: what is too small then is proved in the end.
            rough = ends.high - ends.proved.limit > _ROUGH * ends.high
            going = ends.narrowed(cut, at(cut, ends.close or ends.below > 0 or rough))
            if going:
                clock.report(NAME, steps, ends.high, ends.proved.limit)

    with clock.share(_BEFORE):
        best = at(0.0)
        if best.value >= target:
            return 0.0, best, 1
        nothing = _TooSmall(0.0, best.value)
        merged = [greedy(problem.joint, disclosure=target, ratio=ratio).mechanism for ratio in (False, True)]
        start = min((*merged, np.eye(problem.joint.shape[1])), key=leaked)
        largest = min(leaked(start), _MOST)
        high, asked = min(largest, _FIRST), problem.target
        ends, steps = _Bracket(asked, target, goal.tol, high, at(high), nothing, nothing, step=0.4 * goal.tol), 2
        search()
        early = clock.expired()
    if ends.best.value < target:
        improve(start)
    if early and not clock.expired():
        with clock.quiet():
            improve(all_symbols(problem, least_information(problem, goal)(target)))
        search()
    return ends.proved.limit, ends.best, steps


def limit_bound(problem: FunnelProblem, claimed: float, clock: Clock) -> float:
    """`claimed`, if one more search proves it: that a budget allows no more, or that no release within it is enough."""
    utility = _utility(problem, clock)
    if problem.limits_leakage:
        return max(claimed, utility(problem.target, _FINEST, claimed * (1 + _FINEST)).upper_bound)
    return claimed if utility(max(claimed, 0.0), _FINEST, problem.target).upper_bound < problem.target else 0.0
