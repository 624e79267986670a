"""The most useful mechanism under a pointwise privacy limit, with a proved upper bound beside it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.clock import Clock, ProgressLike, clock_of
from jaxpriv._runtime.divergences import entropy, information_below
from jaxpriv._runtime.module import summary
from jaxpriv._runtime.validation import host_only, joint_array, scalar
from jaxpriv.column_generation import Pool
from jaxpriv.errors import InputError
from jaxpriv.extremal.limits import Limits, parse_limits
from jaxpriv.extremal.repair import mechanism_of, within_limits
from jaxpriv.extremal.sampled import rays
from jaxpriv.extremal.search import BoxSearch, RatioSearch, design
from jaxpriv.extremal.types import Design, columns_of, priced_columns
from jaxpriv.extremal.vertices import posteriors
from jaxpriv.leakage import AbstractPointwiseLeakage, from_samples
from jaxpriv.program.solution import SearchResult

# Bounds on the lift that are closer than this leave nothing to choose between them.
_NARROW = 1e-12


@dataclass(frozen=True)
class MaximumUtility(SearchResult):
    """A mechanism, its disclosure I(X;Y), and an upper bound on that of any mechanism within the limit.

    Attributes:
        value: I(X;Y) of `mechanism`, nats, rounded down.
        upper_bound: a proved upper bound on I(X;Y) over all mechanisms within the limit, rounded up.
        mechanism: P(y|x), shape (X, Y), rows sum to one; only outputs with mass.
        leakage: the values of the measures of the limit at `mechanism`, in the order given; each within its eps.
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
    def gap(self) -> float:
        """upper_bound - value: what could be gained at most."""
        return self.upper_bound - self.value


@host_only
def maximum_utility(
    source_or_joint: ArrayLike,
    limit: tuple[AbstractPointwiseLeakage, float] | Sequence[tuple[AbstractPointwiseLeakage, float]],
    *,
    confidence: float | None = None,
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
    to 16 distinct probabilities; beyond, the gap bounds how far the mechanism is from the best. For a
    limit on S the vertices are counted out: |S| up to about 4.

        limit = (leakage.LocalDifferentialPrivacy(), eps)       P(y|s) <= e^eps P(y|s')
        limit = (leakage.MaxLift(), eps)                        P(s|y) <= e^eps P(s): pointwise maximal leakage
        limit = (leakage.Lift(), eps)                           e^-eps <= P(s|y)/P(s) <= e^eps
        limit = [(leakage.MinLift(), eps_l), (leakage.MaxLift(), eps_u)]   the asymmetric lift

    Runs on the host in float64. A symbol without mass is outside every limit but LDP, which is about
    all inputs: its row is that of the most probable symbol. eps = 0 allows releases independent of S
    only; an infinite eps allows X itself, H(X) nats.

    Args:
        source_or_joint: p (X,) for a limit on X (S = X), or a joint (S, X) for a limit on S.
        limit: a pair (measure, eps in nats), or a sequence of pairs that hold together.
        confidence: `source_or_joint` are counts, whole numbers, and the limit is to hold for the population behind them
            with that probability (`leakage.from_samples`); I(X;Y) is that of the frequencies.
        tol: the largest upper_bound - value that counts as `optimal`, nats.
        time_limit, progress: as for `solve`: seconds after which the best mechanism so far is returned with its
            interval, and reports of the rounds. Ctrl-C works as it does there.

    Raises:
        InputError: an argument is wrong, by name.
        ResourceError: too many vertices for a limit on S, or a mechanism that does not fit into memory.

    Kairouz, Oh and Viswanath 2016, Theorem 4 (LDP: staircase mechanisms, a linear program with 2^|X|
    variables); Grosse, Saeidian and Oechtering 2023 (extremal mechanisms for pointwise maximal leakage).
    """
    tol = scalar(tol, "tol", low=0.0, open_low=True)
    joint, limits = stated(source_or_joint, limit, confidence)
    with clock_of(time_limit, progress) as clock:
        return utility_within(joint, limits, tol, clock)


def stated(
    source_or_joint: ArrayLike, limit: object, confidence: float | None, name: str = "source_or_joint"
) -> tuple[np.ndarray, Limits]:
    """The joint (S, X) and the limits that the arguments of `maximum_utility` state; the first is called `name`."""
    limits = parse_limits(limit)
    if confidence is not None:
        counts, pairs = source_or_joint, limits.pairs
        limits = parse_limits([(from_samples(measure, counts, confidence), eps) for measure, eps in pairs])
        useful = np.asarray(counts, np.float64).reshape(-1, np.shape(counts)[-1]).sum(axis=0)
        source_or_joint = useful / useful.sum()
    joint = joint_array(source_or_joint, name)
    if np.ndim(source_or_joint) == 1:
        # The sum of one axis rounds less than that of a diagonal table: symbols that meet a limit exactly still do.
        mass = np.asarray(source_or_joint, dtype=np.float64)
        joint = np.diag(mass / mass.sum())
    return joint, limits


def utility_within(joint: np.ndarray, limits: Limits, tol: float, clock: Clock) -> MaximumUtility:
    """`maximum_utility` with a clock that is held by the caller."""
    seen, used = np.flatnonzero(joint.sum(axis=1) > 0), np.flatnonzero(joint.sum(axis=0) > 0)
    core = joint[np.ix_(seen, used)]
    source, prior = core.sum(axis=0), core.sum(axis=1)
    same = len(seen) == len(used) and np.count_nonzero(core) == len(used)  # each s has its own x
    limits = limits.among(joint.sum(axis=1), np.isin(np.arange(len(joint)), seen))
    inequalities = limits.inequalities()
    if inequalities is not None:
        if not same:
            raise InputError("limit: a measure of a population takes P(X), shape (X,), where its counts have S too")
        best = among(rays(source, inequalities, clock), source, tol, clock)
    elif limits.is_void(float(prior.min())) or len(prior) == 1:
        best = Design(np.diag(1.0 / source), source, math.inf, "identity")
    elif same:
        best = _on_itself(source, limits, tol, clock)
    else:
        best = _on_private(core, limits, tol, clock)
    met = within_limits(mechanism_of(best.lifts, best.weights), core, limits)
    if met is None:  # the vertices are too ill conditioned for this eps: what discloses nothing of S is always allowed
        if limits.independent or inequalities is not None:
            silent = np.ones((len(source), 1)), (0.0,) * len(limits.pairs)
        else:
            without = utility_within(joint, parse_limits([(measure, 0.0) for measure, _ in limits.pairs]), tol, clock)
            silent = without.mechanism[used], without.leakage
        best, met = _nothing(source, best.upper_bound), silent
    upper = min(best.upper_bound, entropy(source) * (1 + 1e-14))
    return result_of(joint.sum(axis=0), *met, upper, best.method, tol, clock)


def result_of(
    masses: np.ndarray,
    mechanism: np.ndarray,
    leakage: tuple[float, ...],
    upper: float,
    method: str,
    tol: float,
    clock: Clock,
) -> MaximumUtility:
    """The result of `mechanism` (X', Y) of the symbols with mass; `masses` is P(X), up to a factor, of all of them."""
    used = masses > 0
    source = masses[used] / masses.sum()
    value = information_below(mechanism, source)
    upper = max(upper, value)
    whole = np.empty((len(masses), mechanism.shape[1]))
    whole[:] = mechanism[np.argmax(source)]  # a row for symbols without mass, within LDP
    whole[used] = mechanism
    status = "optimal" if upper - value <= tol else "best_known"
    return MaximumUtility(value, upper, whole, leakage, status, method, int(clock.stop))


def _nothing(source: np.ndarray, upper: float) -> Design:
    return Design(np.ones((1, len(source))), np.ones(1), upper, "independent release")


def _on_itself(source: np.ndarray, limits: Limits, tol: float, clock: Clock) -> Design:
    """Limits on X: D(q || p) is at most the largest ln(q/p)."""
    ceiling = min(limits.raised, limits.spread)
    if limits.independent:
        return _nothing(source, 0.0)
    if limits.spread < math.inf:
        best = design(RatioSearch(source, limits.eps), tol, clock)
    else:
        low, high = limits.box(float(source.min()))
        if high - low < _NARROW:
            return _nothing(source, ceiling)
        best = design(BoxSearch(source, low, high), tol, clock)
    return best._replace(upper_bound=min(best.upper_bound, ceiling))


def _on_private(joint: np.ndarray, limits: Limits, tol: float, clock: Clock) -> Design:
    """Limits on S: every vertex of the polytope of posteriors of X, and X's own posterior as a start."""
    source, prior = joint.sum(axis=0), joint.sum(axis=1)
    low, high = limits.box(float(prior.min()))
    ratio = math.exp(limits.eps) if limits.spread < math.inf else None
    return among(posteriors(joint / prior[:, None], source, low, high, ratio, clock), source, tol, clock)


def among(vertices: np.ndarray, source: np.ndarray, tol: float, clock: Clock) -> Design:
    """The best measure over P_X and posteriors of these lifts (n, X), all vertices unless the clock has expired."""
    lifts = np.vstack([np.ones(len(source)), vertices])
    columns = columns_of(lifts, source)
    few = columns if len(lifts) <= 2000 else columns.take(np.arange(1))
    # Once the clock has expired the list may lack vertices: nothing is proved by pricing it.
    whole = not clock.expired()

    def listed(prices: np.ndarray, count: int) -> tuple[float, Pool]:
        gain = columns.reduced(prices, 0.0)
        top = np.argpartition(-gain, min(count, len(gain)) - 1)[:count]
        return float(gain.max()), columns.take(top)

    generated = priced_columns(few, listed, gap=1e-3 * tol, clock=clock)
    (pool, weights), upper = generated.used, -generated.bound if whole else math.inf
    return Design(pool.lifts, weights, upper, f"{'all ' if whole else ''}{len(vertices)} vertices")
