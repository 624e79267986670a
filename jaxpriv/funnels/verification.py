"""Whether a solution of a funnel or bottleneck is what it says: measured again, and its bound proved again.

Of a `FunnelSolution` only `mechanism`, `prices` and `multiplier` enter the computation. The least (bottleneck:
greatest) value of psi(q) - nu.q over all posteriors is searched for again at these prices; whatever they are, what the
search proves is a bound. Only how long it goes on depends on the bound that is stored.
"""

import numpy as np

from jaxpriv._clock import Clock, clock_of
from jaxpriv._validation import finite, real_array
from jaxpriv.certificates import Verification
from jaxpriv.certificates.verification import differing
from jaxpriv.errors import InputError
from jaxpriv.funnels.atoms.perfect import perfect_release
from jaxpriv.funnels.atoms.vertices import vertices_of
from jaxpriv.funnels.bounds import proved_value
from jaxpriv.funnels.found import Proof
from jaxpriv.funnels.pricing import blocks_of, exact_pricer
from jaxpriv.funnels.release import bound_without_prices, limit_of, measured, minimises, missed, objective_of
from jaxpriv.funnels.solution import FunnelSolution
from jaxpriv.leakage import MutualInformation
from jaxpriv.problems.funnel import BottleneckProblem, FunnelProblem

# A search aims at this much less than what the prices are meant to prove: at that itself, rounding would keep it going.
_AIMED = 1e-10
# Row sums that differ from one by more than this are no distributions.
_ROW = 1e-9
# Bounds of two searches agree to this many times the precision of other numbers.
_SEARCHED = 10.0


def certify_funnel(
    problem: FunnelProblem | BottleneckProblem, solution: FunnelSolution, *, time_limit: float | None = None
) -> Verification:
    """`jaxpriv.certify` of a funnel or bottleneck."""
    if not isinstance(problem, (FunnelProblem, BottleneckProblem)):
        raise InputError(
            f"problem must be the FunnelProblem or BottleneckProblem of this solution, not {type(problem).__name__}"
        )
    size = problem.joint.shape[1]
    mechanism = finite(real_array(solution.mechanism, "solution.mechanism", ndim=2), "solution.mechanism")
    if mechanism.shape[0] != size:
        raise InputError(f"solution.mechanism has {mechanism.shape[0]} rows, the problem {size} useful symbols")
    if np.shape(solution.prices) != (size,):
        raise InputError(f"solution.prices has shape {np.shape(solution.prices)}, the problem needs ({size},)")
    outside = max(float(abs(mechanism.sum(axis=1) - 1.0).max()), -float(mechanism.min()))
    if outside > _ROW:  # no distributions: no measure has a value
        return Verification(np.nan, -np.inf, np.inf, np.inf, np.nan, np.zeros(0), (), np.nan)
    sign = 1.0 if minimises(problem) else -1.0
    clock = clock_of(time_limit, None)
    with clock:
        bound = _bound(problem, solution, sign, clock)
    disclosure, leakage = measured(problem, np.maximum(mechanism, 0.0))
    low, _, high = objective_of(problem, disclosure, leakage)
    violation = 0.0
    if problem.form != "multiplier":
        limit = limit_of(problem)
        violation = missed(limit, disclosure, leakage) / max(limit[2], np.finfo(float).tiny)
    value = high if sign > 0 else low
    # A bound that the mechanism crosses by rounding is the mechanism's value.
    ends = (min(bound, low), high) if sign > 0 else (low, max(bound, high))
    exact = {
        "value": (solution.value, value),
        "leakage": (solution.leakage, leakage[1]),
        "disclosure": (solution.disclosure, disclosure[1]),
    }
    bounds = {"lower_bound": (solution.lower_bound, ends[0]), "upper_bound": (solution.upper_bound, ends[1])}
    # (D - c)/lambda: an error of the search counts 1/lambda times where the leakage is limited.
    steep = problem.form in ("leakage_budget", "relevance") and 0 < solution.multiplier < 1
    differences = differing(exact) + differing(bounds, _SEARCHED / (solution.multiplier if steep else 1.0))
    return Verification(value, *ends, violation, leakage[1], np.zeros(0), differences, disclosure[1])


def _bound(problem: FunnelProblem | BottleneckProblem, solution: FunnelSolution, sign: float, clock: Clock) -> float:
    """The best of the bounds that hold: the elementary one, that of the prices, that without leakage."""
    bounds = [bound_without_prices(problem)]
    if isinstance(problem.leakage, MutualInformation):
        bounds.append(_of_prices(problem, solution, clock))
        if problem.form == "leakage_budget" and problem.target == 0:
            blocks = blocks_of(problem.core)
            if all(vertices_of(block) is not None for block in blocks):
                bounds.append(sum(block.mass * perfect_release(block, clock).bound for block in blocks))
    return max(bounds) if sign > 0 else min(bounds)


def _of_prices(problem: FunnelProblem | BottleneckProblem, solution: FunnelSolution, clock: Clock) -> float:
    """What prices and multiplier prove, by a new search over posteriors; infinite where they prove nothing."""
    sign = 1.0 if minimises(problem) else -1.0
    funnel, lam = problem.minimises_leakage, float(solution.multiplier)
    prices = np.asarray(solution.prices, dtype=np.float64)[problem.useful]
    usable = bool(np.isfinite(prices).all()) and (0 <= lam < 1 if funnel else 0 <= lam < np.inf)
    pricer = exact_pricer(problem.core, funnel=funnel) if usable else None
    if pricer is None:
        return -sign * np.inf
    # Solutions hold prices for which the extreme is 0.
    priced = pricer.price(prices, lam, 1, clock, -_AIMED * min(1.0, lam) if funnel else None)
    return proved_value(problem, Proof(prices, lam, priced.bound))
