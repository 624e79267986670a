"""The most useful mechanism under a pointwise privacy limit, with a proved upper bound beside it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._clock import Clock, ProgressLike, Stop, clock_of
from jaxpriv._divergence import divergence, entropy, information_below
from jaxpriv._repr import summary
from jaxpriv._resources import need_memory
from jaxpriv._validation import is_traced, joint_array, nonnegative, real_array, scalar
from jaxpriv.errors import InputError
from jaxpriv.extremal.box_pricing import BoxPricer
from jaxpriv.extremal.design import design
from jaxpriv.extremal.limits import Limits, parse_limits
from jaxpriv.extremal.listed import ListedPricer
from jaxpriv.extremal.master import Columns, generate_columns
from jaxpriv.extremal.ratio_pricing import RatioPricer
from jaxpriv.extremal.repair import mechanism_of, within_limits
from jaxpriv.extremal.search import BoxSearch, RatioSearch
from jaxpriv.extremal.vertices import posteriors
from jaxpriv.leakage import AbstractPointwiseLeakage
from jaxpriv.solution import Status

# Bounds on the lift that are closer than this leave nothing to choose between them.
_NARROW = 1e-12


@dataclass(frozen=True)
class MaximumUtility:
    """A mechanism, what it tells about X, and how much any mechanism within the limit could tell.

    Attributes:
        value: I(X;Y) of `mechanism`, nats, rounded down.
        upper_bound: a proved upper bound on I(X;Y) over all mechanisms within the limit, rounded up.
        mechanism: P(y|x), shape (X, Y), rows sum to one; only outputs with mass.
        leakage: what the measures of the limit say of `mechanism`, in the order given; each within its eps.
        status: `optimal` if upper_bound - value <= tol, else `best_known`: both numbers hold, the optimum lies
            between them.
        method: how the posteriors were found.
        stopped: why the search ended before its goal: 0 it did not, 1 the time limit, 2 an interrupt.
    """

    value: float
    upper_bound: float
    mechanism: np.ndarray
    leakage: tuple[float, ...]
    status: Literal["optimal", "best_known"]
    method: str
    stopped: int = 0

    __repr__ = summary

    @property
    def message(self) -> str:
        """What the status means, after why it was stopped if it was."""
        return Stop(self.stopped).message + Status[self.status.upper()].message

    @property
    def gap(self) -> float:
        """upper_bound - value: what could be gained at most."""
        return self.upper_bound - self.value


def maximum_utility(
    source_or_joint: ArrayLike,
    limit: tuple[AbstractPointwiseLeakage, float] | Sequence[tuple[AbstractPointwiseLeakage, float]],
    *,
    tol: float = 1e-6,
    time_limit: float | None = None,
    progress: ProgressLike = None,
) -> MaximumUtility:
    """max I(X;Y) over mechanisms P(Y|X) whose every output meets a pointwise limit, in nats.

        I(X;Y) = sum_y P(y) D( q_y || p ),   q_y = P_{X|Y=y},   sum_y P(y) q_y = p = P_X

    is a linear program over the posteriors that the limit allows, and D is convex in q: the vertices of
    that polytope are enough. They are listed where they are few and priced exactly otherwise. A limit on
    X itself has closed forms: symbols of equal probability count as one type; the rarest symbols of a
    large alphabet are pooled for the bound and rotated for the mechanism; up to 400 symbols, exchanges and
    branch and bound then close what gap they can (seconds to minutes; a larger `tol` spares them). Exact up
    to 16 distinct probabilities; beyond, the gap says how far the mechanism may be from the best. For a
    limit on S the vertices are counted out: |S| up to about 4.

        limit = (leakage.LocalDifferentialPrivacy(), eps)       P(y|s) <= e^eps P(y|s')
        limit = (leakage.MaxLift(), eps)                        P(s|y) <= e^eps P(s): pointwise maximal leakage
        limit = (leakage.Lift(), eps)                           e^-eps <= P(s|y)/P(s) <= e^eps
        limit = [(leakage.MinLift(), eps_l), (leakage.MaxLift(), eps_u)]   the asymmetric lift

    Runs on the host in float64. A symbol without mass is outside every limit but LDP, which speaks of
    all inputs: its row is that of the most probable symbol. eps = 0 allows releases independent of S
    only; an infinite eps allows X itself, H(X) nats.

    Args:
        source_or_joint: p (X,) for a limit on X (S = X), or a joint (S, X) for a limit on S.
        limit: a pair (measure, eps in nats), or a sequence of pairs that hold together.
        tol: the largest upper_bound - value that counts as `optimal`, nats.
        time_limit, progress: as for `solve`: seconds after which the best mechanism so far is returned with its
            interval, and reports of the rounds. Ctrl-C works as it does there.

    Raises:
        InputError: an argument is wrong, by name.
        ResourceError: too many vertices for a limit on S, or a mechanism that does not fit into memory.

    Kairouz, Oh and Viswanath 2016, Theorem 4 (LDP: staircase mechanisms, a linear program with 2^|X|
    variables); Grosse, Saeidian and Oechtering 2023 (extremal mechanisms for pointwise maximal leakage).
    """
    if is_traced(source_or_joint, limit, tol):
        raise InputError("maximum_utility runs on the host, outside of jit, vmap and grad")
    limits = parse_limits(limit)
    tol = scalar(tol, "tol", low=0.0, open_low=True)
    array = real_array(source_or_joint, "source_or_joint", ndim=(1, 2))
    if array.ndim == 1:
        need_memory(24.0 * len(array) ** 2, "the joint distribution of X with itself", "merge symbols")
        joint = np.diag(joint_array(nonnegative(array, "source_or_joint")[None], "source_or_joint")[0])
    else:
        joint = joint_array(source_or_joint, "source_or_joint")
    with clock_of(time_limit, progress) as clock:
        return _solve(joint, limits, tol, clock)


def _solve(joint: np.ndarray, limits: Limits, tol: float, clock: Clock) -> MaximumUtility:
    seen, used = np.flatnonzero(joint.sum(axis=1) > 0), np.flatnonzero(joint.sum(axis=0) > 0)
    core = joint[np.ix_(seen, used)]
    source, prior = core.sum(axis=0), core.sum(axis=1)
    same = len(seen) == len(used) and np.count_nonzero(core) == len(used)  # each s has its own x
    if limits.is_void(float(prior.min())) or len(prior) == 1:
        lifts, weights, upper, method = _everything(source)
    elif same:
        lifts, weights, upper, method = _on_itself(source, limits, tol, clock)
    else:
        lifts, weights, upper, method = _on_private(core, limits, tol, clock)
    met = within_limits(mechanism_of(lifts, weights), core, limits)
    if met is None:  # the vertices are too ill conditioned for this eps: what tells nothing is always allowed
        mechanism, leakage, method = np.ones((len(source), 1)), (0.0,) * len(limits.pairs), "independent release"
    else:
        mechanism, leakage = met
    value = information_below(mechanism, source)
    ceiling = min(upper, entropy(source) * (1 + 1e-14))
    upper = max(ceiling, value)
    whole = np.empty((joint.shape[1], mechanism.shape[1]))
    whole[:] = mechanism[np.argmax(source)]  # a row for symbols without mass, within LDP
    whole[used] = mechanism
    status = "optimal" if upper - value <= tol else "best_known"
    return MaximumUtility(value, upper, whole, leakage, status, method, int(clock.stop))


Found = tuple[np.ndarray, np.ndarray, float, str]


def _everything(source: np.ndarray) -> Found:
    return np.diag(1.0 / source), source, entropy(source) * (1 + 1e-14), "identity"


def _nothing(source: np.ndarray, upper: float) -> Found:
    return np.ones((1, len(source))), np.ones(1), upper, "independent release"


def _on_itself(source: np.ndarray, limits: Limits, tol: float, clock: Clock) -> Found:
    """Limits on X: D(q || p) is at most the largest ln(q/p)."""
    ceiling = min(limits.raised, limits.spread)
    if limits.independent:
        return _nothing(source, 0.0)
    if limits.spread < math.inf:
        found = design(RatioSearch(source, limits.eps), lambda split: RatioPricer(split, limits.eps), tol, clock)
    else:
        low, high = limits.box(float(source.min()))
        if high - low < _NARROW:
            return _nothing(source, ceiling)
        found = design(BoxSearch(source, low, high), lambda split: BoxPricer(split, low, high), tol, clock)
    return found.lifts, found.weights, min(found.upper_bound, ceiling), found.method


def _on_private(joint: np.ndarray, limits: Limits, tol: float, clock: Clock) -> Found:
    """Limits on S: every vertex of the polytope of posteriors of X, and X's own posterior as a start."""
    source, prior = joint.sum(axis=0), joint.sum(axis=1)
    relative = joint / (prior[:, None] * source)
    low, high = limits.box(float(prior.min()))
    ratio = math.exp(limits.eps) if limits.spread < math.inf else None
    vertices = posteriors(relative, low, high, ratio, clock)
    lifts = np.vstack([np.ones(len(source)), vertices / source])
    columns = Columns(lifts, divergence(lifts, source), (None,) * len(lifts))
    few = columns if len(lifts) <= 2000 else columns.take(np.arange(1))
    if clock.expired():  # the list may lack vertices: nothing is proved by pricing it
        plan = generate_columns(few, source, ListedPricer(columns, source), gap=1e-3 * tol, rounds=1)
        return plan.columns.lifts, plan.weights, math.inf, f"{len(vertices)} vertices"
    plan = generate_columns(few, source, ListedPricer(columns, source), gap=1e-3 * tol, clock=clock)
    return plan.columns.lifts, plan.weights, plan.upper_bound, f"all {len(vertices)} vertices"
