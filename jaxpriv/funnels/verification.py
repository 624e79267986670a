"""Whether the numbers of a solution of a funnel or bottleneck are true: measured again, and its bound proved again.

Of a `FunnelSolution` only `mechanism`, `prices` and `multiplier` enter the computation. The least (bottleneck:
greatest) value of psi(q) - nu.q over all posteriors is searched for again at these prices; whatever they are, what
the search proves is a bound. Only how long it goes on depends on the bound that is stored.
"""

import numpy as np

from jaxpriv._runtime.clock import Clock, clock_of
from jaxpriv._runtime.validation import finite, real_array
from jaxpriv.errors import InputError
from jaxpriv.funnels.actions.generation import VertexGeneration, proved_again
from jaxpriv.funnels.atoms.perfect import perfect_release, vertices_of
from jaxpriv.funnels.bounds import proved_value
from jaxpriv.funnels.contraction import contraction_proofs
from jaxpriv.funnels.gains import gains_of
from jaxpriv.funnels.pricing import blocks_of, exact_pricer
from jaxpriv.funnels.release import bound_without_prices, limit_of, measured, minimises, missed, objective_of
from jaxpriv.funnels.solution import (
    FunnelGoal,
    FunnelSolution,
    Proof,
)
from jaxpriv.funnels.worst import limit_bound
from jaxpriv.leakage import MutualInformation
from jaxpriv.problems.funnel import BottleneckProblem, FunnelOrBottleneck, FunnelProblem
from jaxpriv.program.certificates import Verification
from jaxpriv.program.certificates.verification import differing

# A search aims at this much less than what the prices are meant to prove: at that itself, rounding would keep it going.
_AIMED = 1e-10
# Row sums that differ from one by more than this are no distributions.
_ROW = 1e-9
# Bounds of two searches agree to this many times the precision of other numbers.
_SEARCHED = 10.0


def certify_funnel(
    problem: FunnelOrBottleneck, solution: FunnelSolution, *, time_limit: float | None = None
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
    steep = problem.limits_leakage and 0 < solution.multiplier < 1
    differences = differing(exact) + differing(bounds, _SEARCHED / (solution.multiplier if steep else 1.0))
    return Verification(value, *ends, violation, leakage[1], np.zeros(0), differences, disclosure[1])


def _bound(problem: FunnelOrBottleneck, solution: FunnelSolution, sign: float, clock: Clock) -> float:
    """The best of the bounds that hold: those without a search, that of the prices, that without leakage."""
    proofs = contraction_proofs(problem)
    bounds = [bound_without_prices(problem), *(proved_value(problem, proof) for proof in proofs)]
    # Prices that need no search are not searched: often all posteriors are equally good at them.
    if not any(proof.multiplier == solution.multiplier and _same(proof.prices, problem, solution) for proof in proofs):
        bounds.append(_of_prices(problem, solution, clock))
    gains = gains_of(problem)
    strict = isinstance(problem.leakage, MutualInformation) if gains is None else gains.strict
    if strict and problem.limits_leakage and problem.target == 0:
        blocks = blocks_of(problem.core)
        if all(vertices_of(block) is not None for block in blocks):
            bounds.append(sum(block.mass * perfect_release(block, clock).bound for block in blocks))
    return max(bounds) if sign > 0 else min(bounds)


def _same(prices: np.ndarray, problem: FunnelOrBottleneck, solution: FunnelSolution) -> bool:
    return np.array_equal(prices, np.asarray(solution.prices, dtype=np.float64)[problem.useful])


def _of_prices(problem: FunnelOrBottleneck, solution: FunnelSolution, clock: Clock) -> float:
    """What prices and multiplier prove, by a new search over posteriors; infinite where they prove nothing.

    A pointwise measure has no prices: the limit that is the bound is searched again.
    """
    sign = 1.0 if minimises(problem) else -1.0
    if isinstance(problem, FunnelProblem) and problem.leakage.worst_outcome:
        return limit_bound(problem, float(solution.lower_bound if sign > 0 else solution.upper_bound), clock)
    funnel, lam = problem.minimises_leakage, float(solution.multiplier)
    prices = np.asarray(solution.prices, dtype=np.float64)[problem.useful]
    usable = bool(np.isfinite(prices).all()) and 0 <= lam < np.inf
    if not isinstance(problem.leakage, MutualInformation):
        gains = gains_of(problem)
        if gains is not None and problem.form == "multiplier" and not gains.scale.proportional:
            again = VertexGeneration().find(problem, FunnelGoal(clock=clock)).bound  # many prices: all are found again
            return -sign * np.inf if again is None else again
        if gains is None or not usable:
            return -sign * np.inf
        return proved_value(problem, proved_again(problem, gains, prices, lam, clock))
    usable = usable and (lam < 1 or not funnel)
    pricer = exact_pricer(problem.core, funnel=funnel) if usable else None
    if pricer is None:
        return -sign * np.inf
    # Solutions hold prices for which the extreme is 0.
    priced = pricer.price(prices, lam, 1, clock, -_AIMED * min(1.0, lam) if funnel else None)
    return proved_value(problem, Proof(prices, lam, priced.bound))
