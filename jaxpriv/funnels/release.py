"""From a measure over posteriors to a mechanism that meets its target, with all its numbers measured again.

Rounding is repaired: a symbol, X itself, or nothing is disclosed with a small probability. The numbers of the mixture
follow from convexity: a small violation of the target has a proportionally small cost.
"""

import math

import numpy as np

from jaxpriv._runtime.divergences import information_interval
from jaxpriv.errors import InfeasibleError
from jaxpriv.funnels.bounds import elementary_bound, proved_value
from jaxpriv.funnels.contraction import contraction_proofs
from jaxpriv.funnels.gains import gains_of
from jaxpriv.funnels.solution import (
    NOTHING,
    FunnelGoal,
    FunnelSolution,
    PosteriorMeasure,
    measure_of,
    measuring_error,
)
from jaxpriv.leakage import MutualInformation, evaluate
from jaxpriv.problems.funnel import FunnelOrBottleneck, FunnelProblem, whole_entropy
from jaxpriv.program.solution import Status

_EPS = float(np.finfo(np.float64).eps)
# Bounds and values meet up to rounding; further on the wrong side of each other, one of them is false.
_CONTRADICTION = 1e-9
# A share of one symbol this small repairs rounding; what misses its target by more is mixed with X as a whole.
_SMALL_SHARE = 1e-3
# The share of a draw that has nothing to do with X, where X itself leaks without limit.
_UNSHOWN = 1e-6
# A measure that averages to something else than P_X by more than this is no release.
_WRONG_MEAN = 1e-6

Interval = tuple[float, float, float]
Limit = tuple[bool, bool, float, float]


def release(problem: FunnelOrBottleneck, candidate: PosteriorMeasure, goal: FunnelGoal, solver: str) -> FunnelSolution:
    """The mechanism of `candidate` on all symbols, meeting the target of `problem`, with its proved interval.

    Raises ArithmeticError where `candidate` is not a measure with mean P_X.
    """
    disclosure, leakage, mechanism = _meet(problem, _mechanism(problem, candidate))
    value = objective_of(problem, disclosure, leakage)
    sign = 1.0 if minimises(problem) else -1.0
    other = bound_without_prices(problem)
    if candidate.bound is not None:
        other = max(other, candidate.bound) if sign > 0 else min(other, candidate.bound)
    proof = candidate.proof
    if proof is not None:
        proved = proved_value(problem, proof)
        other = max(other, proved) if sign > 0 else min(other, proved)
    for contraction in contraction_proofs(problem):
        proved = proved_value(problem, contraction)
        if sign * proved > sign * other:
            other, proof = proved, contraction
    if sign * (other - value[1]) > _CONTRADICTION * (1.0 + abs(value[1])):
        raise ArithmeticError(f"{solver}: a proof contradicts the mechanism it came with; please report this")
    low, high = (min(other, value[0]), value[2]) if sign > 0 else (value[0], max(other, value[2]))
    # A bound that the mechanism itself crosses by rounding is the mechanism's value.
    optimal = high - low <= goal.tol
    code = Status.OPTIMAL if optimal else Status.STATIONARY if candidate.stationary else Status.BEST_KNOWN
    posteriors, masses = measure_of(mechanism, problem.joint.sum(axis=0))
    prices = np.full(problem.joint.shape[1], np.nan)
    if proof is not None:
        prices[problem.useful] = proof.prices
    return FunnelSolution(
        value=value[2] if sign > 0 else value[0],
        lower_bound=low,
        upper_bound=high,
        code=code,
        mechanism=mechanism,
        disclosure=disclosure[1],
        leakage=leakage[1],
        posteriors=posteriors,
        masses=masses,
        multiplier=math.nan if proof is None else proof.multiplier,
        prices=prices,
        proof=proof,
        solver=solver,
        steps=candidate.steps,
        seconds={"compile": candidate.compiling, "solve": 0.0},
        notes=candidate.notes,
        stopped=0 if optimal else int(goal.clock.stop),
        units=problem.units,
    )


def bound_without_prices(problem: FunnelOrBottleneck) -> float:
    """The elementary bound, and for other measures that of a constant Y, which leaks least."""
    bound = elementary_bound(problem)
    if problem.form == "disclosure" and not isinstance(problem.leakage, MutualInformation):
        return max(bound, _nothing(problem)[0])
    return bound


def minimises(problem: FunnelOrBottleneck) -> bool:
    """Whether the objective of `problem` is minimised."""
    return problem.minimises_leakage != problem.limits_leakage


def objective_of(problem: FunnelOrBottleneck, disclosure: Interval, leakage: Interval) -> Interval:
    """The objective from its two numbers, each with what rounding may change."""
    if problem.form == "multiplier":
        price = problem.target
        low, high = leakage[0] - price * disclosure[2], leakage[2] - price * disclosure[0]
        extra = 4 * _EPS * (leakage[2] + price * disclosure[2])
        return low - extra, leakage[1] - price * disclosure[1], high + extra
    return disclosure if problem.limits_leakage else leakage


def _mechanism(problem: FunnelOrBottleneck, candidate: PosteriorMeasure) -> np.ndarray:
    """W[x, k] = m_k q_k(x)/p_x, rows normalised; the symbols that the core leaves out release the marginal of Y."""
    joint = candidate.posteriors.T * candidate.masses
    if not (np.isfinite(joint).all() and (joint >= 0).all()):
        raise ArithmeticError("the funnel solver returned a measure with negative or non-finite parts")
    source = problem.reduction.source
    rows = joint.sum(axis=1)
    if not (np.abs(rows - source) <= _WRONG_MEAN * source).all():
        raise ArithmeticError("the funnel solver returned posteriors that do not average to P_X")
    present = joint.sum(axis=0) > 0
    return all_symbols(problem, joint[:, present] / rows[:, None])


def all_symbols(problem: FunnelOrBottleneck, mechanism: np.ndarray) -> np.ndarray:
    """`mechanism` (X', Y) of the core for every x: symbols that the core leaves out release the marginal of Y."""
    whole = np.empty((problem.joint.shape[1], mechanism.shape[1]))
    whole[:] = problem.reduction.source @ mechanism
    whole[problem.useful] = mechanism
    return whole / whole.sum(axis=1, keepdims=True)


def _identity(problem: FunnelOrBottleneck) -> np.ndarray:
    """X itself, where it has mass."""
    masses = problem.joint.sum(axis=0)
    identity = np.tile(masses, (len(masses), 1))
    identity[masses > 0] = np.eye(len(masses))[masses > 0]
    return identity[:, masses > 0]


def measured(problem: FunnelOrBottleneck, mechanism: np.ndarray) -> tuple[Interval, Interval]:
    """(I(X;Y), L(S->Y)) with what rounding may change."""
    disclosure = information_interval(np.diag(problem.joint.sum(axis=0)), mechanism)
    if isinstance(problem.leakage, MutualInformation):
        return disclosure, information_interval(problem.joint, mechanism)
    gains = gains_of(problem)
    if gains is not None and gains.curved is None:
        return disclosure, gains.value(mechanism)
    if gains is not None and gains.strict and information_interval(problem.joint, mechanism)[2] <= NOTHING:
        return disclosure, (0.0, 0.0, NOTHING)  # independent but for rounding
    # Unused outputs change nothing: widths in steps of 16 leave few programs to compile.
    padded = np.pad(mechanism, ((0, 0), (0, -mechanism.shape[1] % 16)))
    value = evaluate(problem.leakage, problem.joint, padded).value
    error = measuring_error(len(mechanism), mechanism.shape[1], value) if math.isfinite(value) else 0.0
    return disclosure, (max(0.0, value - error), value, value + error)


def _nothing(problem: FunnelOrBottleneck) -> Interval:
    """L(S->Y) of a constant Y, the least there is (post-processing): above 0 for a guessing probability."""
    if isinstance(problem.leakage, MutualInformation):
        return 0.0, 0.0, 0.0
    return measured(problem, np.ones((problem.joint.shape[1], 1)))[1]


def _nothing_rounded(problem: FunnelOrBottleneck) -> float:
    """What mechanisms that leak as little as a constant Y may be measured to leak, with |X| + 1 outputs."""
    gains = gains_of(problem)
    if isinstance(problem.leakage, MutualInformation) or (gains is not None and gains.strict):
        return 0.0
    low, value, high = _nothing(problem)
    return value + 4.0 * (high - low)  # twice as many terms in every sum, and the rounding of the entries themselves


def _meet(problem: FunnelOrBottleneck, mechanism: np.ndarray) -> tuple[Interval, Interval, np.ndarray]:
    """The mechanism, mixed with more or with nothing as little as its target needs, and its two numbers."""
    disclosure, leakage = measured(problem, mechanism)
    if problem.form == "multiplier":
        return disclosure, leakage, mechanism
    limit = limit_of(problem)
    of_leakage, floor, target, most = limit
    over = missed(limit, disclosure, leakage)
    if problem.leakage.worst_outcome and (floor or over > _CONTRADICTION):
        if over > 0:  # a mixture with X leaks as much as X
            mechanism = _identity(problem) if floor else np.ones((len(mechanism), 1))
            disclosure, leakage = measured(problem, mechanism)
        return disclosure, leakage, mechanism
    unmixed, start = mechanism, (disclosure, leakage)[of_leakage]
    for attempt in range(6):
        if missed(limit, disclosure, leakage) == 0:
            break
        # The mixture is rounded as well: a little more than is missing, and twice that where it was not enough.
        factor = 2.0**attempt * (1 + 1e-9)
        if floor:
            mechanism = _disclosing_more(problem, unmixed, factor * (target - start[0]), most - start[0], of_leakage)
        else:
            share = min(1.0, factor * (_excess(problem, start[2], target, of_leakage) + 2 * _EPS))
            mechanism = _disclosing_less(problem, unmixed, share)
        mechanism = mechanism / mechanism.sum(axis=1, keepdims=True)
        disclosure, leakage = measured(problem, mechanism)
    return disclosure, leakage, mechanism


def limit_of(problem: FunnelOrBottleneck) -> Limit:
    """(whether the leakage is limited, whether from below, to what, the most there is); not for multipliers."""
    of_leakage = problem.limits_leakage
    floor = problem.form == ("disclosure" if isinstance(problem, FunnelProblem) else "relevance")
    if not floor:
        return of_leakage, floor, max(problem.target, NOTHING, _nothing_rounded(problem)), 0.0
    most = measured(problem, _identity(problem))[of_leakage][0]
    return of_leakage, floor, min(problem.target, most), most


def missed(limit: Limit, disclosure: Interval, leakage: Interval) -> float:
    """By how much the target may be missed, rounding included: 0 where it is met for certain."""
    of_leakage, floor, target, _ = limit
    low, _, high = (disclosure, leakage)[of_leakage]
    return max(0.0, target - low if floor else high - target)


def _disclosing_more(
    problem: FunnelOrBottleneck, mechanism: np.ndarray, missing: float, above: float, of_leakage: bool
) -> np.ndarray:
    """`mechanism` with a number raised by `missing`: one symbol disclosed more often, or X itself at times.

    Disclosing the symbol x with probability t adds one output. I(A;Y) is convex in the mechanism, so it rises by at
    least t times its slope sum_a J[a,x] [ ln( J[a,x]/(p_a p_x) ) - sum_y W[x,y] ln( w[a,y]/(p_a p_y) ) ] >= 0.
    """
    source = problem.joint.sum(axis=0)
    joint = problem.joint if of_leakage else np.diag(source)
    outputs, prior = joint @ mechanism, joint.sum(axis=1)
    lift = _log_ratio(outputs, prior[:, None] * outputs.sum(axis=0))
    slope = (joint * (_log_ratio(joint, prior[:, None] * source) - lift @ mechanism.T)).sum(axis=0)
    raised, identity = int(np.argmax(slope)), _identity(problem)
    shown = identity
    if math.isinf(measured(problem, identity)[1][1]):  # so may a symbol alone leak
        shown = (1 - _UNSHOWN) * identity + _UNSHOWN * (source @ identity)
        above -= measured(problem, identity)[0][0] - measured(problem, shown)[0][0]
    elif slope[raised] > 0 and missing < _SMALL_SHARE * slope[raised]:
        extra = np.zeros((len(source), 1))
        extra[raised] = missing / slope[raised]
        return np.hstack([(1 - extra) * mechanism, extra])
    share = min(1.0, missing / above + 2 * _EPS) if above > 0 else 1.0
    return np.hstack([(1 - share) * mechanism, share * shown]) if share < 1 else identity


def _disclosing_less(problem: FunnelOrBottleneck, mechanism: np.ndarray, share: float) -> np.ndarray:
    """`mechanism` with probability 1 - `share`: both numbers fall by at least that factor (they are convex).

    Otherwise a draw of Y that has nothing to do with X (no further output), which moves every posterior towards P_S,
    or, where an average is limited and the share is larger, an output of its own (it falls by just that factor).
    """
    if share >= 1:
        return np.ones((len(mechanism), 1))
    if share < _SMALL_SHARE**2 or problem.leakage.worst_outcome:
        return (1 - share) * mechanism + share * (problem.joint.sum(axis=0) @ mechanism)
    return np.hstack([(1 - share) * mechanism, np.full((len(mechanism), 1), share)])


def _log_ratio(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """ln(x/y), and 0 where x or y is 0."""
    good = (x > 0) & (y > 0)
    return np.log(np.where(good, x, 1.0)) - np.log(np.where(good, y, 1.0))


def _excess(problem: FunnelOrBottleneck, high: float, target: float, of_leakage: bool) -> float:
    """The share of `nothing` that brings a number from `high` down to `target`."""
    least = 0.0
    if of_leakage and not isinstance(problem.leakage, MutualInformation):
        least = _nothing(problem)[0]
        if not problem.leakage.worst_outcome:
            numbers = high, target, least
            high, target, least = (float(problem.leakage.outer_inverse(np.asarray(v))) for v in numbers)
    return (high - target) / (high - least) if high > target else 0.0


def closed_form(problem: FunnelOrBottleneck) -> PosteriorMeasure | None:
    """The answer where the target leaves nothing to choose; None elsewhere.

    Raises InfeasibleError for a leakage budget that no mechanism meets.
    """
    source = problem.reduction.source
    nothing = PosteriorMeasure(source[None], np.ones(1), notes=("nothing may be disclosed",))
    everything = PosteriorMeasure(np.eye(len(source)), source, notes=("X itself",))
    form, target = problem.form, problem.target
    if form == "leakage_budget":
        floor, _, _ = _nothing(problem)
        if not floor <= target:
            raise InfeasibleError(
                f"{form} is below what is leaked when nothing is released", {form: target, "least": floor}
            )
        _, leakage = measured(problem, _identity(problem))
        return everything if leakage[2] <= limit_of(problem)[2] else None
    # The more is asked for the more is disclosed, but for a price of what a bottleneck discloses.
    least, most = nothing, everything
    if form == "multiplier" and not problem.minimises_leakage:
        least, most = most, least
    if target == 0:
        return least
    gains = gains_of(problem)
    if form == "disclosure" and not (problem.leakage.worst_outcome or (gains is not None and gains.curved is not None)):
        return most if target >= whole_entropy(problem.joint) * (1 - 1e-15) else None
    steep = form == "multiplier" and target >= 1 and isinstance(problem.leakage, MutualInformation)
    return most if steep else None
