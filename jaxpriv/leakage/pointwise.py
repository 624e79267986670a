"""Leakage as the worst log-ratio: lift, max-lift, min-lift, local differential and inferential privacy.

All are functions of one log-lift column, l[s] = ln( P(s|y)/p_s ) = ln( P(y|s)/P(y) ), over the s
with p_s > 0. Each value is l[raised] - l[lowered] for a pair of symbols (0 in place of a missing
one), which is what `attained` returns: the witness; `metric` has multiples of given scales.

As limits they are linear in w (w_s <= e^eps p_s |w| and the like). Their `column` is only
quasi-convex: do not take subgradients of it for a bound.
"""

from abc import abstractmethod
from functools import reduce
from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.numerics import positive
from jaxpriv._runtime.types import Arr, Column, PrivateMarginal, Scalar
from jaxpriv._runtime.validation import before_computing, is_traced, truth_array
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import (
    MOST_NATS,
    AbstractWorstOutcomeLeakage,
    Traits,
    log_lift_of,
    same_symbols,
)
from jaxpriv.leakage.population import LowerBounds, Routes, UpperBounds
from jaxpriv.leakage.registry import named
from jaxpriv.leakage.rule_sets import LINEAR, Rules, View, classes

__all__ = [
    "AbstractPointwiseLeakage",
    "InferentialPrivacy",
    "Lift",
    "LocalDifferentialPrivacy",
    "MaxLift",
    "MinLift",
    "ldp_of_channel",
]

LogLift = Float[Arr, "... s"]
Support = Bool[Arr, "... s"]
Scores = Float[Arr, "..."]
HostColumn = Float[np.ndarray, " s"]
Pair = tuple[int | None, int | None]
# What a limit restricts of the lifts of a posterior: the largest, the smallest, their ratio.
LiftEnd = Literal["raised", "lowered", "spread"]


class AbstractPointwiseLeakage(AbstractWorstOutcomeLeakage):
    """max over y of `score` of the log-lift column of y. In nats."""

    @abstractmethod
    def score(self, log_lift: LogLift, support: Support) -> Scores:
        """The value of every column of (..., S), by NumPy or JAX; entries off `support` are ignored."""

    @abstractmethod
    def attained(self, log_lift: HostColumn) -> Pair:
        """(raised, lowered): symbols whose difference of log-lifts is the score. On the host; NaN off the support."""

    traits: ClassVar[Traits] = Traits("nats", designable=True, linear=True, least=0.0, stacks=True)

    unseen: ClassVar[bool] = False  # symbols without mass in the joint count too

    @abstractmethod
    def ratios(self, given: Arr, view: View) -> tuple[Arr, Arr, Arr | float]:
        """(numerator, denominator, scale), the first two (R, X) or (1, X): value <= limit says, row by row, that
        numerator <= e^(limit scale) denominator.

        `given` (S, X) is P(x|s); where the measure `stacks` it may have a leading axis. Rows that are equal, up to
        rounding, may be left out, but not by the limit: rules of one point of a sweep fit the others.
        """

    def rules(self, view: View) -> Rules | None:
        """`ratios` with every P(x|s), at a limit no higher than where it limits anything."""
        numerator, denominator, scale = self.ratios(_given(view), view)
        rows = _less(xp.exp(-xp.minimum(view.limit_by(2), MOST_NATS) * scale) * numerator, denominator)
        return Rules(LINEAR, rows, np.zeros(rows.shape[:-1])) if rows.shape[-2] else None

    def rules_at_peak(self, view: View) -> Rules | None:
        """The same for e^value <= peak, with the peak for a variable, where all scales are 1."""
        numerator, denominator, _ = self.ratios(_given(view), view)
        shape = np.broadcast_shapes(numerator.shape, denominator.shape)
        rows, rate = xp.broadcast_to(numerator, shape), xp.broadcast_to(denominator, shape)
        return Rules(LINEAR, rows, np.zeros(shape[:-1]), rate=rate) if shape[-2] else None

    @property
    def lift_ends(self) -> tuple[LiftEnd, ...]:
        """What a limit bounds, if every symbol alike: then posteriors are limited one by one (`extremal`); else ()."""
        return ()

    def inequalities(self, limit: float) -> np.ndarray | None:
        """Of a measure that bounds the largest and the smallest lift M and m together with all others: (K, S + 2), the
        weights of the lifts, of M and of -m in sums that are at most 0 where the value is at most `limit`.
        """
        del limit
        return None

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """`score` of l[s] = ln( w_s/(p_s |w|) ); 0 where |w| = 0."""
        log_lift = log_lift_of(w, prior)
        return xp.where((log_lift != -np.inf).any(), self.score(log_lift, positive(prior)), 0.0)


def _given(view: View) -> Arr:
    """P(x|s), (S, X). P(.|s) of a symbol without mass counts as P(.): its lift of 1 lies between the others' lifts."""
    seen = view.prior > 0
    return xp.where(seen[..., None], view.joint / xp.where(seen, view.prior, 1.0)[..., None], view.mass[..., None, :])


# What two probabilities that are equal may differ by after a few operations, relative to their size.
_EQUAL = 1e-15


def _less(minuend: Arr, subtrahend: Arr) -> Arr:
    """Their difference, 0 where they are equal up to rounding: no release makes up for the rounding of a limit of 0."""
    difference = minuend - subtrahend
    return difference * (abs(difference) > _EQUAL * subtrahend).astype(difference.dtype)


class _OfLiftEnds(AbstractPointwiseLeakage):
    """The largest of l[raised] - l[lowered] over symbols in the places that `lift_ends` names, 0 in the others."""

    def row_count(self, symbols: int) -> int:
        return symbols * sum(2 if end == "spread" else 1 for end in self.lift_ends)

    def ratios(self, given: Arr, view: View) -> tuple[Arr, Arr, Arr | float]:
        lift, mass = given[view.distinct(given)], view.mass[..., None, :]
        if len(self.lift_ends) == 1:
            return (lift, mass, 1.0) if self.lift_ends == ("raised",) else (mass, lift, 1.0)
        mass = xp.broadcast_to(mass, lift.shape)
        return xp.concatenate([lift, mass], axis=-2), xp.concatenate([mass, lift], axis=-2), 1.0

    def rules(self, view: View) -> Rules | None:
        """All P(y|s) of an output within a factor e^limit: t e^-limit/2 <= P(y|s) <= t e^limit/2 for some t."""
        if self.lift_ends != ("spread",):
            return super().rules(view)
        rows, ones = _both_ways(view)
        half = 0.5 * xp.minimum(view.limit_by(2), MOST_NATS)
        reference = xp.concatenate([xp.exp(half) * ones, -xp.exp(-half) * ones], axis=-2)
        return Rules(LINEAR, rows, reference[..., 0])

    def rules_at_peak(self, view: View) -> Rules | None:
        """All P(y|s) of an output within that factor: t <= P(y|s) <= t peak for some t."""
        if self.lift_ends != ("spread",):
            return super().rules_at_peak(view)
        rows, ones = _both_ways(view)
        ones, zeros = ones[..., 0], 0.0 * ones[..., 0]
        rate = np.concatenate([ones, zeros], axis=-1)
        return Rules(LINEAR, rows, np.concatenate([zeros, -ones], axis=-1), rate=rate)

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        ends = {
            "raised": lambda: bounds.max_lift,
            "lowered": lambda: bounds.min_lift,
            "spread": lambda: bounds.ldp(None),
        }
        return {"intervals": np.maximum.reduce([ends[end]() for end in self.lift_ends])}

    def lower_bound(self, bounds: LowerBounds) -> float | None:
        ends = {"raised": bounds.max_lift, "lowered": bounds.min_lift, "spread": bounds.ldp}
        return max((ends[end] for end in self.lift_ends), default=None)

    def score(self, log_lift: LogLift, support: Support) -> Scores:
        return reduce(xp.maximum, [_score(end, log_lift, support) for end in self.lift_ends])

    def attained(self, log_lift: HostColumn) -> Pair:
        end = max(self.lift_ends, key=lambda end: _score(end, log_lift, ~np.isnan(log_lift)))
        highest, lowest = int(np.nanargmax(log_lift)), int(np.nanargmin(log_lift))
        return None if end == "lowered" else highest, None if end == "raised" else lowest


def _score(end: LiftEnd, log_lift: LogLift, support: Support) -> Scores:
    """l[raised] - l[lowered], 0 in place of the one that the end has not."""
    if end == "raised":
        return xp.where(support, log_lift, -np.inf).max(axis=-1)
    lowest = xp.where(support, log_lift, np.inf).min(axis=-1)
    return -lowest if end == "lowered" else _score("raised", log_lift, support) - lowest


def _both_ways(view: View) -> tuple[Arr, np.ndarray]:
    """P(x|s) of all symbols and their negatives; ones, as many as symbols."""
    given = _given(view)
    lift = given[view.distinct(given)]
    return xp.concatenate([lift, -lift], axis=-2), np.ones((*lift.shape[:-1], 1))


@named("lift", "worst")
class Lift(_OfLiftEnds):
    """max_{s,y} | ln( P(s|y)/p_s ) |: the eps of eps-lift privacy, which is eps-information privacy.

    Infinite as soon as an output excludes a symbol. eps-lift privacy gives 2 eps-LDP in both
    directions, I(S;Y) <= eps and maximal leakage <= eps.

    Calmon and Fawaz 2012, Definition 6; Hsu, Asoodeh and Calmon 2019, Definition 1.
    """

    lift_ends: ClassVar[tuple[LiftEnd, ...]] = ("raised", "lowered")


@named("max-lift", "worst")
class MaxLift(_OfLiftEnds):
    """max_{s,y} ln( P(s|y)/p_s ): pointwise maximal leakage, max-mutual information, I_inf(S;Y).

    One-sided, hence finite: at most ln(1/min p_s). I(S;Y) <= I_inf(S;Y), since I(S;Y) is a mean of log-lifts (Lemma 4).
    Wu, Xia and He, Definition 3 (their information privacy) and Lemma 4; Saeidian et al. 2023 (pointwise maximal
    leakage).
    """

    words: ClassVar[str] = "max-lift"

    lift_ends: ClassVar[tuple[LiftEnd, ...]] = ("raised",)


@named("min-lift", "worst")
class MinLift(_OfLiftEnds):
    """max_{s,y} ln( p_s/P(s|y) ): the other side of `Lift`, for asymmetric limits (eps_l, eps_u).

    Infinite as soon as an output excludes a symbol.
    """

    words: ClassVar[str] = "min-lift"

    lift_ends: ClassVar[tuple[LiftEnd, ...]] = ("lowered",)


# Limits of pairs of private symbols: one P(y|s), times a power of e^limit, is at most another one.


def pair_rows(given: Arr, view: View, pairs: Arr) -> tuple[Arr, Arr]:
    """P(x|s) and P(x|s') of pairs (K, 2) of symbols; P(x) twice where one of them has no mass."""
    both = (view.prior[pairs] > 0).all(axis=1)[:, None]
    first, second = (xp.where(both, given[symbols], view.mass) for symbols in pairs.T)
    return first, second


def pair_score(log_lift: LogLift, support: Support, asked: Arr, scales: Arr | float = 1.0) -> Scores:
    """The largest (l[s] - l[s'])/scale over the pairs `asked` (S, S) that have mass, at least 0; of two without P(y|.)
    nothing is asked.
    """
    present = support & (log_lift != -np.inf)
    asked = xp.where(present[..., :, None] & support[..., None, :], asked, False)
    finite = xp.where(present, log_lift, 0.0)
    excess = xp.where(present[..., None, :], finite[..., :, None] - finite[..., None, :], np.inf)
    return xp.where(asked, excess / scales, 0.0).max(axis=(-2, -1))


def pair_attained(log_lift: HostColumn, asked: Arr, scales: Arr | float = 1.0) -> Pair:
    """The pair of that score; of none where it is 0."""
    with np.errstate(invalid="ignore"):
        # -inf - -inf is NaN: a pair of symbols both without mass, which is skipped.
        excess = (log_lift[:, None] - log_lift[None, :]) / scales
    excess = np.where(asked & ~np.isnan(excess), excess, -np.inf)
    raised, lowered = np.unravel_index(np.argmax(excess), excess.shape)
    return (int(raised), int(lowered)) if excess[raised, lowered] > 0 else (None, None)


def _neighbours(value: object) -> Arr | None:
    if value is None:
        return None
    if is_traced(value):
        return jnp.asarray(value)
    array = truth_array(value, "neighbours")
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise InputError(f"neighbours must be a square (s, s) relation, not shape {array.shape}")
    return array


@named("ldp", "worst", takes=("neighbours",))
class LocalDifferentialPrivacy(_OfLiftEnds):
    """max_{y, s~s'} ln( P(y|s)/P(y|s') ): the eps of local differential privacy of S -> Y.

    `neighbours[s, s']` (bool, (s, s)): whether P(y|s) <= e^eps P(y|s') is required; None requires
    all pairs, the usual LDP. The relation need not be symmetric; its diagonal has no effect. With
    databases as s and "differ in one entry" as the relation it is differential privacy.

    LDP is a statement about every input, whatever its probability, but a joint distribution does
    not determine P(y|s) where p_s = 0: from `joint` the maximum runs over the support of p. To
    include inputs without mass evaluate the channel P(y|s) itself with `ldp_of_channel`. Infinite
    if P(y|s) = 0 < P(y|s'); pairs with both 0 are skipped. With a relation the work is O(s^2) for
    each y. Raises `InputError` if `neighbours` is not a square 0/1 or bool array
    of the size of the joint.

    Calmon and Fawaz 2012, Definition 5; Duchi, Jordan and Wainwright 2013.
    """

    neighbours: Arr | None = eqx.field(converter=_neighbours, default=None)

    by_symbol: ClassVar = {"neighbours": (0, 1)}

    def row_count(self, symbols: int) -> int:
        return 2 * symbols

    @property
    def traits(self) -> Traits:
        return super().traits._replace(stacks=self.neighbours is None)

    @property
    def untraceable(self) -> str | None:
        if not is_traced(self.neighbours):
            return None
        return "neighbours are traced, and determine how many rows the program has; pass a NumPy array"

    def needed(self, symbols: int) -> np.ndarray:
        return super().needed(symbols) if self.neighbours is None else np.asarray(self.neighbours)

    @property
    def lift_ends(self) -> tuple[LiftEnd, ...]:
        return ("spread",) if self.neighbours is None else ()

    def ratios(self, given: Arr, view: View) -> tuple[Arr, Arr, Arr | float]:
        pairs = np.argwhere(np.asarray(self.neighbours))
        if view.whole:
            pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        else:  # pairs of neighbours with different rows, once
            numbers = classes(given)
            pairs = numbers[pairs]
            pairs = view.distinct(given)[np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)]
        return *pair_rows(given, view, pairs), 1.0

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return {"intervals": bounds.ldp(self.neighbours)}

    def score(self, log_lift: LogLift, support: Support) -> Scores:
        if self.neighbours is None:
            return super().score(log_lift, support)
        same_symbols("neighbours", self.neighbours, 0, log_lift.shape[-1])
        return pair_score(log_lift, support, self.neighbours)

    def attained(self, log_lift: HostColumn) -> Pair:
        if self.neighbours is None:
            return super().attained(log_lift)
        return pair_attained(log_lift, self.neighbours)


@named("inferential", "worst")
class InferentialPrivacy(_OfLiftEnds):
    """max_{y,s,s'} ln of posterior odds over prior odds, (P(s|y)/P(s'|y)) / (p_s/p_s').

    The same number as LDP of S -> Y on the support of p, read as a statement about beliefs; odds
    of sets of symbols add nothing, as a ratio of mixtures lies between the ratios of its parts.
    It bounds two-sided lift. Infinite if an output excludes one symbol and not another.

    Ghosh and Kleinberg 2016; Wu, Xia and He, eq. (13).
    """

    lift_ends: ClassVar[tuple[LiftEnd, ...]] = ("spread",)


def ldp_of_channel(channel: Float[Arr, "s y"], neighbours: ArrayLike | None = None) -> Scalar:
    """The eps of local differential privacy of a channel `channel[s, y] = P(y|s)`, over ALL inputs s.

    A pure function like the measures, and in the same precision: its rows must be distributions and are not checked.
    """
    before_computing(f"leakage of a channel of shape {np.shape(channel)}", 2.0 * np.size(channel), channel)
    (array,) = xp.arguments(channel)
    present = positive(array)
    logarithm = xp.where(present, xp.log(xp.where(present, array, 1.0)), -np.inf)
    logarithm = xp.where(present.any(axis=0), logarithm, 0.0)  # an output without mass compares nothing
    scores = LocalDifferentialPrivacy(neighbours).score(logarithm.T, np.ones(array.shape[0], np.bool_))
    return xp.where(xp.isfinite(array).all(), xp.maximum(scores.max(), 0.0), np.nan)
