"""The most useful mechanism under a pointwise privacy limit, with a proved upper bound beside it."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.clock import ENDLESS, Clock, ProgressLike, clock_of
from jaxpriv._runtime.divergences import entropy, information_below
from jaxpriv._runtime.module import summary
from jaxpriv._runtime.validation import host_only, joint_array, scalar
from jaxpriv.column_generation import Pool
from jaxpriv.errors import InputError, ResourceError
from jaxpriv.extremal.sampled import MOST_BASES, rays, solved_systems
from jaxpriv.extremal.search import BoxSearch, RatioSearch, design
from jaxpriv.extremal.types import Design, columns_of, priced_columns
from jaxpriv.leakage import AbstractPointwiseLeakage, exact_values, from_samples
from jaxpriv.leakage.pointwise import LiftEnd
from jaxpriv.program.solution import SearchResult

# Pointwise limits are bounds on the lift t = q/p of every posterior q:
#
#     low <= t_s <= high for all s        max-lift (PML), min-lift, lift; asymmetric where both ends are given
#     t_s <= ratio * t_s' for all s, s'   local differential (= inferential) privacy


# e^300 and its square root of the reciprocal are normal numbers; a tighter limit than asked for is still met.
_LARGEST = 300.0

Pair = tuple[AbstractPointwiseLeakage, float]


@dataclass(frozen=True)
class Limits:
    """The limits as given, and the smallest eps for each kind of bound (inf: no such bound).

    Attributes:
        pairs: (measure, eps) as given.
        raised: ln of the largest lift allowed.
        lowered: minus ln of the smallest lift allowed.
        spread: ln of the largest ratio of two lifts allowed.
    """

    pairs: tuple[Pair, ...]
    raised: float
    lowered: float
    spread: float

    def inequalities(self) -> np.ndarray | None:
        """Those of limits on populations, (K, X + 2); None of limits on the distribution that is given.

        Raises `InputError` where both kinds are given.
        """
        each = [measure.inequalities(eps) for measure, eps in self.pairs]
        tables = [table for table in each if table is not None]
        if tables and len(tables) < len(each):
            raise InputError("limit: measures of a population and of what is given do not combine; give one kind")
        return np.vstack(tables) if tables else None

    def among(self, prior: np.ndarray, seen: np.ndarray) -> "Limits":
        """The limits on the private symbols `seen`."""
        measures = [measure.among(prior, seen) for measure, _ in self.pairs]
        assert all(isinstance(measure, AbstractPointwiseLeakage) for measure in measures)
        return replace(
            self, pairs=tuple((measure, eps) for measure, (_, eps) in zip(measures, self.pairs, strict=True))
        )

    @property
    def independent(self) -> bool:
        """Whether only releases independent of S are allowed: the lift averages to one under p."""
        return min(self.raised, self.lowered, self.spread) == 0.0

    def is_void(self, rarest: float) -> bool:
        """Whether no posterior breaks a limit, `rarest` being the smallest positive probability of S."""
        return min(self.lowered, self.spread) == math.inf and self.raised >= -math.log(rarest)

    def box(self, rarest: float) -> tuple[float, float]:
        """(low, high) of the lift; without an upper limit the largest possible lift 1/rarest."""
        highest = -math.log(rarest)
        low = math.exp(-min(self.lowered, _LARGEST)) if self.lowered < math.inf else 0.0
        return low, math.exp(min(self.raised, highest, _LARGEST))

    @property
    def eps(self) -> float:
        """ln of the ratio limit, cut where e^eps would overflow."""
        return min(self.spread, _LARGEST)


def parse_limits(limit: object) -> Limits:
    """`limit` = (measure, eps), or a sequence of such pairs that hold together.

    Raises `InputError` for a measure that is not pointwise, for eps negative or NaN, for a relation of
    neighbours, and for LDP together with lift bounds (the vertices of the intersection are others).
    """
    if not isinstance(limit, (tuple, list)) or not limit:
        raise InputError("limit must be a pair (measure, eps) or a sequence of such pairs")
    given = [limit] if isinstance(limit[0], AbstractPointwiseLeakage) else list(limit)
    pairs, bounds = [], {"raised": math.inf, "lowered": math.inf, "spread": math.inf}
    for number, pair in enumerate(given):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InputError(f"limit[{number}] must be a pair (measure, eps)")
        measure, eps = pair[0], float(scalar(pair[1], f"eps of limit[{number}]", low=0.0, infinite=True))
        for kind in _kinds(measure, number):
            bounds[kind] = min(bounds[kind], eps)
        pairs.append((measure, eps))
    if bounds["spread"] < math.inf and min(bounds["raised"], bounds["lowered"]) < math.inf:
        raise InputError("limit: LDP or inferential privacy together with lift bounds is not supported; give one kind")
    return Limits(tuple(pairs), **bounds)


def _kinds(measure: object, number: int) -> tuple[LiftEnd, ...]:
    if not isinstance(measure, AbstractPointwiseLeakage):
        raise InputError(
            f"limit[{number}] must be on lift, max-lift, min-lift, LDP or inferential privacy, "
            f"not {type(measure).__name__}"
        )
    if not measure.lift_ends and measure.inequalities(0.0) is None:
        raise InputError(
            f"limit[{number}]: {type(measure).__name__} with limits of its own for symbols or pairs "
            "(neighbours, scales) is not supported"
        )
    return measure.lift_ends


# A mechanism that meets its limits exactly, from posteriors and weights that do so up to rounding.


# Mixed with a release that discloses nothing, by as little as brings the measured leakage within the limit.
_MIXTURES = (0.0, *(10.0**power for power in range(-15, -4)))
# At eps = 0 no mixture helps: lifts that are one up to rounding are accepted.
_POSTERIOR_ROUNDING = 1e-12


def mechanism_of(lifts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """P(y|x) = P(y) q_y(x)/p(x), shape (X, Y), rows divided by their sums, which differ from one by rounding."""
    mechanism = lifts.T * weights
    return mechanism / mechanism.sum(axis=1, keepdims=True)


def within_limits(
    mechanism: np.ndarray, joint: np.ndarray, limits: Limits
) -> tuple[np.ndarray, tuple[float, ...]] | None:
    """(mechanism, measured leakages), each at most its eps as `jaxpriv.leakage.evaluate` measures it; None if not.

    `mechanism` (X, Y) without empty outputs, `joint` (S, X).
    """
    measures = tuple(measure for measure, _ in limits.pairs)
    prior, source = joint.sum(axis=1, keepdims=True), joint.sum(axis=0)
    seen = prior[:, 0] > 0
    forward = joint[seen] / prior[seen]  # P(x|s)
    masses = source @ mechanism
    lifts = mechanism / masses if _is_diagonal(forward) else forward @ mechanism / masses
    for share in _MIXTURES:
        if not _met(share + (1.0 - share) * lifts, limits):
            continue
        mixed = (1.0 - share) * mechanism + share * masses
        leakages = exact_values(measures, joint, mixed)
        if all(value <= eps for value, (_, eps) in zip(leakages, limits.pairs, strict=True)):
            return mixed, leakages
    leakages = exact_values(measures, joint, mechanism)
    met = all(value <= eps + _POSTERIOR_ROUNDING for value, (_, eps) in zip(leakages, limits.pairs, strict=True))
    return (mechanism, leakages) if met else None


def _is_diagonal(forward: np.ndarray) -> bool:
    return forward.shape[0] == forward.shape[1] and bool(np.all(np.diagonal(forward) == 1.0))


def _met(lifts: np.ndarray, limits: Limits) -> bool:
    """Whether the lifts (S, Y) keep every bound, in logarithms as the measures take them."""
    most, least = lifts.max(axis=0), lifts.min(axis=0)
    raised = float(np.log(most.max()))
    lowered = -math.log(least.min()) if least.min() > 0 else math.inf
    with np.errstate(divide="ignore"):
        spread = float((np.log(most) - np.log(least)).max())
    return raised <= limits.raised and lowered <= limits.lowered and spread <= limits.spread


# Vertices of { q in simplex : T q within the limits }, T = P(S|X), by counting out their bases.
#
# A vertex with m symbols in its support is the solution of m equations in those symbols: sum q = 1 and m - 1 limits
# that hold with equality. So m <= |S|, and the work is sum_m C(|X|, m) C(|S|, m-1) 2^(m-1) small systems (one in place
# of 2 for bounds on one side): polynomial in |X| for the few private symbols one usually has. For a ratio limit the
# largest lift is one more unknown, tied by one more equation.


# How far below 0 an entry, and how far (relative) beyond a limit a lift, may be to be kept: rounding of systems with
# determinants down to 1e-13. A point that is kept wrongly costs time only.
_ROUNDING = 1e-11
# Systems that are solved at once: 40 MB for ten unknowns.
_CHUNK = 50_000


def posteriors(
    given: np.ndarray,
    source: np.ndarray,
    low: float,
    high: float,
    ratio: float | None = None,
    clock: Clock = ENDLESS,
    most: int | None = None,
) -> np.ndarray:
    """The lifts t = q/p (n, X) of all vertices q, and possibly of some other points of the polytope; only some once the
    clock has expired.

    given[s, x] = P(x|s), so given @ t is the lift of S, and `source` (X,) is p. The limits are low <= lift <= high,
    or lift_s <= ratio * lift_s' if `ratio` is given. `most` is the most symbols that a vertex has in its support, |S|
    by default: the rank of (source, given).

    Raises `ResourceError` if there are more than two million bases.
    """
    private, useful = given.shape
    extra = 0 if ratio is None else 1
    sides = [(0.0, low), (0.0, high)] if ratio is None else [(1.0 / ratio, 0.0), (1.0, 0.0)]
    # A lower bound of zero follows from q >= 0, an infinite upper bound from nothing.
    sides = [side for side in dict.fromkeys(sides) if side != (0.0, 0.0) and math.isfinite(side[1])]
    largest = min(private if most is None else most, useful)
    bases = sum(
        math.comb(useful, m) * math.comb(private, m - 1 + extra) * len(sides) ** (m - 1 + extra)
        for m in range(1, largest + 1)
    )
    if bases > MOST_BASES:
        raise ResourceError(
            f"{bases:.1e} bases of the posterior polytope ({private} private, {useful} useful symbols) are more than "
            f"{MOST_BASES}: merge symbols of S or of X, or ask for a limit on X itself (a one-dimensional source)"
        )
    vertices = [np.zeros((0, useful))]
    for m in range(1, largest + 1):
        supports = np.array(list(itertools.combinations(range(useful), m)))
        for active in itertools.combinations(range(private), m - 1 + extra):
            for choice in itertools.product(sides, repeat=len(active)):
                for first in range(0, len(supports) if not clock.expired() else 0, _CHUNK):
                    part = supports[first : first + _CHUNK]
                    lifts = _basic(given, source, part, np.array(active, dtype=np.int64), choice, extra)
                    vertices.append(lifts[_allowed(given @ lifts.T, low, high, ratio)])
    every = np.vstack(vertices)
    every /= (every @ source)[:, None]
    # Lifts and not posteriors: of a rare symbol these are all the same to so many decimals.
    return every[np.unique(every.round(11), axis=0, return_index=True)[1]]


def _basic(
    given: np.ndarray, source: np.ndarray, supports: np.ndarray, active: np.ndarray, choice: tuple, extra: int
) -> np.ndarray:
    """The non-negative basic solutions (n, X) of one set of active limits, for every support."""
    number, m = supports.shape
    size = m + extra
    system = np.zeros((number, size, size))
    system[:, 0, :m] = source[supports]
    right = np.zeros((size, 1))
    right[0] = 1.0
    for row, (s, (slope, bound)) in enumerate(zip(active, choice, strict=True), start=1):
        system[:, row, :m] = given[s][supports]
        if extra:  # lift_s = slope * (largest lift)
            system[:, row, m] = -slope
        right[row] = bound
    regular, solution = solved_systems(system, right)
    supports, solution = supports[regular], solution[:, :m]
    inside = np.all(solution * source[supports] >= -_ROUNDING, axis=1)
    lifts = np.zeros((int(inside.sum()), len(source)))
    np.put_along_axis(lifts, supports[inside], np.maximum(solution[inside], 0.0), axis=1)
    return lifts


def _allowed(lifts: np.ndarray, low: float, high: float, ratio: float | None) -> np.ndarray:
    """Which columns of `lifts` (S, n) meet the limits up to rounding; a point too many costs nothing but time."""
    least, most = lifts.min(axis=0, initial=math.inf), lifts.max(axis=0, initial=0.0)
    if ratio is not None:
        return most <= ratio * (least * (1 + _ROUNDING) + _ROUNDING)
    return (least >= low * (1 - _ROUNDING) - _ROUNDING) & (most <= high * (1 + _ROUNDING))


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
    limits = parse_limits(limit)
    if confidence is not None:
        counts, pairs = source_or_joint, limits.pairs
        limits = parse_limits([(from_samples(measure, counts, confidence), eps) for measure, eps in pairs])
        useful = np.asarray(counts, np.float64).reshape(-1, np.shape(counts)[-1]).sum(axis=0)
        source_or_joint = useful / useful.sum()
    tol = scalar(tol, "tol", low=0.0, open_low=True)
    joint = joint_array(source_or_joint, "source_or_joint")
    if np.ndim(source_or_joint) == 1:
        # The sum of one axis rounds less than that of a diagonal table: symbols that meet a limit exactly still do.
        mass = np.asarray(source_or_joint, dtype=np.float64)
        joint = np.diag(mass / mass.sum())
    with clock_of(time_limit, progress) as clock:
        return utility_within(joint, limits, tol, clock)


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
