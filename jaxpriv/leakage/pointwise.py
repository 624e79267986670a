"""Leakage as the worst log-ratio: lift, max-lift, min-lift, local differential and inferential privacy.

All are functions of one log-lift column, l[s] = ln( P(s|y)/p_s ) = ln( P(y|s)/P(y) ), over the s
with p_s > 0. Each value is l[raised] - l[lowered] for a pair of symbols (0 in place of a missing
one), which is what `attained` returns: the witness; `metric` has multiples of given scales.

As limits they are linear in w (w_s <= e^eps p_s |w| and the like). Their `column` is only
quasi-convex: do not take subgradients of it for a bound.
"""

from abc import abstractmethod
from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.numerics import positive
from jaxpriv._runtime.types import Arr, Column, PrivateMarginal, Scalar, ScalarLike
from jaxpriv._runtime.validation import before_computing, is_traced, truth_array
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import (
    MOST_NATS,
    AbstractWorstOutcomeLeakage,
    Traits,
    log_lift_of,
    of_symbols,
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

    def rules(self, view: View) -> Rules | None:
        """`compared` with every P(x|s), at a limit no higher than where it limits anything."""
        rows, reference = self.compared(_given(view), view, xp.minimum(view.limit_by(2), MOST_NATS))
        return Rules(LINEAR, rows, reference) if rows.shape[-2] else None

    def rules_at_peak(self, view: View) -> Rules | None:
        """The same for e^value <= peak, with the peak for a variable: `ratios` with every P(x|s)."""
        rows, reference, rate = self.ratios(_given(view), view)
        return Rules(LINEAR, rows, reference, rate=rate) if rows.shape[-2] else None

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

    @abstractmethod
    def compared(self, given: Arr, view: View, limit: ScalarLike) -> tuple[Arr, Arr]:
        """(rows, reference) of value <= limit: rows <= 0, or rows <= t reference for some t where it is not 0.

        `given` (S, X) is P(x|s); where the measure `stacks` it may have a leading axis, and the limit two more. Rows
        that are equal, up to rounding, may be left out, but not by the limit: rules of one point of a sweep fit the
        others.
        """

    @abstractmethod
    def ratios(self, given: Arr, view: View) -> tuple[Arr, Arr, Arr]:
        """(rows, reference, rate) of e^value <= peak, affine in the peak: multiples of the rows of `compared`, in their
        order. Without a reference rows <= peak rate, otherwise rows <= t (reference + peak rate) for some t.
        """

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """`score` of l[s] = ln( w_s/(p_s |w|) ); 0 where |w| = 0."""
        log_lift = log_lift_of(w, prior)
        return xp.where((log_lift != -np.inf).any(), self.score(log_lift, positive(prior)), 0.0)


def _given(view: View) -> Arr:
    """P(x|s), (S, X). P(.|s) of a symbol without mass counts as P(.): its lift of 1 lies between the others' lifts."""
    seen = view.prior > 0
    return xp.where(seen[..., None], view.joint / xp.where(seen, view.prior, 1.0)[..., None], view.mass[..., None, :])


def _highest(log_lift: Arr, support: Arr) -> Arr:
    return xp.where(support, log_lift, -np.inf).max(axis=-1)


def _lowest(log_lift: Arr, support: Arr) -> Arr:
    return xp.where(support, log_lift, np.inf).min(axis=-1)


# What two probabilities that are equal may differ by after a few operations, relative to their size.
_EQUAL = 1e-15


def _less(one: Arr, other: Arr) -> Arr:
    """one - other, 0 where they are equal up to rounding: no release makes up for the rounding of a limit of 0."""
    rest = one - other
    return rest * (abs(rest) > _EQUAL * other).astype(rest.dtype)


def _above(lift: Arr, view: View, limit: ScalarLike) -> Arr:
    """P(x|s) <= e^limit P(x)."""
    return _less(xp.exp(-limit) * lift, view.mass[..., None, :])


def _below(lift: Arr, view: View, limit: ScalarLike) -> Arr:
    """P(x) <= e^limit P(x|s)."""
    return _less(xp.exp(-limit) * view.mass[..., None, :], lift)


def _not_positive(rows: Arr) -> tuple[Arr, Arr]:
    return rows, np.zeros(rows.shape[:-1])


def _at_most(rows: Arr, rate: Arr) -> tuple[Arr, Arr, Arr]:
    rows, rate = (xp.broadcast_to(part, np.broadcast_shapes(rows.shape, rate.shape)) for part in (rows, rate))
    return rows, np.zeros(rows.shape[:-1]), rate


def _within_the_peak(lift: Arr) -> tuple[Arr, Arr, Arr]:
    """All P(y|s) of an output within that factor: t <= P(y|s) <= t peak for some t."""
    zero, one = np.zeros(lift.shape[:-1]), np.ones(lift.shape[:-1])
    ends = xp.concatenate([zero, -one], axis=-1), xp.concatenate([one, zero], axis=-1)
    return xp.concatenate([lift, -lift], axis=-2), *ends


def _within_a_factor(lift: Arr, limit: ScalarLike) -> tuple[Arr, Arr]:
    """All P(y|s) of an output within a factor e^limit: t e^-limit/2 <= P(y|s) <= t e^limit/2 for some t."""
    one = np.ones((*lift.shape[:-1], 1))
    reference = xp.concatenate([xp.exp(0.5 * limit) * one, -xp.exp(-0.5 * limit) * one], axis=-2)
    return xp.concatenate([lift, -lift], axis=-2), reference[..., 0]


@named("lift", "worst")
class Lift(AbstractPointwiseLeakage):
    """max_{s,y} | ln( P(s|y)/p_s ) |: the eps of eps-lift privacy, which is eps-information privacy.

    Infinite as soon as an output excludes a symbol. eps-lift privacy gives 2 eps-LDP in both
    directions, I(S;Y) <= eps and maximal leakage <= eps.

    Calmon and Fawaz 2012, Definition 6; Hsu, Asoodeh and Calmon 2019, Definition 1.
    """

    def row_count(self, symbols: int) -> int:
        return 2 * symbols

    @property
    def lift_ends(self) -> tuple[LiftEnd, ...]:
        return ("raised", "lowered")

    def compared(self, given: Arr, view: View, limit: ScalarLike) -> tuple[Arr, Arr]:
        lift = given[view.distinct(given)]
        return _not_positive(xp.concatenate([_above(lift, view, limit), _below(lift, view, limit)], axis=-2))

    def ratios(self, given: Arr, view: View) -> tuple[Arr, Arr, Arr]:
        lift = given[view.distinct(given)]
        mass = xp.broadcast_to(view.mass[..., None, :], lift.shape)
        return _at_most(xp.concatenate([lift, mass], axis=-2), xp.concatenate([mass, lift], axis=-2))

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return {"intervals": np.maximum(bounds.max_lift, bounds.min_lift)}

    def lower_bound(self, bounds: LowerBounds) -> float:
        return max(bounds.max_lift, bounds.min_lift)

    def score(self, log_lift: LogLift, support: Support) -> Scores:
        return xp.maximum(_highest(log_lift, support), -_lowest(log_lift, support))

    def attained(self, log_lift: HostColumn) -> Pair:
        raised, lowered = int(np.nanargmax(log_lift)), int(np.nanargmin(log_lift))
        return (raised, None) if log_lift[raised] >= -log_lift[lowered] else (None, lowered)


@named("max-lift", "worst")
class MaxLift(AbstractPointwiseLeakage):
    """max_{s,y} ln( P(s|y)/p_s ): pointwise maximal leakage, max-mutual information, I_inf(S;Y).

    One-sided, hence finite: at most ln(1/min p_s). I(S;Y) <= I_inf(S;Y), since I(S;Y) is a mean of log-lifts (Lemma 4).
    Wu, Xia and He, Definition 3 (their information privacy) and Lemma 4; Saeidian et al. 2023 (pointwise maximal
    leakage).
    """

    words: ClassVar[str] = "max-lift"

    @property
    def lift_ends(self) -> tuple[LiftEnd, ...]:
        return ("raised",)

    def compared(self, given: Arr, view: View, limit: ScalarLike) -> tuple[Arr, Arr]:
        return _not_positive(_above(given[view.distinct(given)], view, limit))

    def ratios(self, given: Arr, view: View) -> tuple[Arr, Arr, Arr]:
        return _at_most(given[view.distinct(given)], view.mass[..., None, :])

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return {"intervals": bounds.max_lift}

    def lower_bound(self, bounds: LowerBounds) -> float:
        return bounds.max_lift

    def score(self, log_lift: LogLift, support: Support) -> Scores:
        return _highest(log_lift, support)

    def attained(self, log_lift: HostColumn) -> Pair:
        return int(np.nanargmax(log_lift)), None


@named("min-lift", "worst")
class MinLift(AbstractPointwiseLeakage):
    """max_{s,y} ln( p_s/P(s|y) ): the other side of `Lift`, for asymmetric limits (eps_l, eps_u).

    Infinite as soon as an output excludes a symbol.
    """

    words: ClassVar[str] = "min-lift"

    @property
    def lift_ends(self) -> tuple[LiftEnd, ...]:
        return ("lowered",)

    def compared(self, given: Arr, view: View, limit: ScalarLike) -> tuple[Arr, Arr]:
        return _not_positive(_below(given[view.distinct(given)], view, limit))

    def ratios(self, given: Arr, view: View) -> tuple[Arr, Arr, Arr]:
        return _at_most(view.mass[..., None, :], given[view.distinct(given)])

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return {"intervals": bounds.min_lift}

    def lower_bound(self, bounds: LowerBounds) -> float:
        return bounds.min_lift

    def score(self, log_lift: LogLift, support: Support) -> Scores:
        return -_lowest(log_lift, support)

    def attained(self, log_lift: HostColumn) -> Pair:
        return None, int(np.nanargmin(log_lift))


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
class LocalDifferentialPrivacy(AbstractPointwiseLeakage):
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

    def among(self, prior: PrivateMarginal, seen: np.ndarray) -> "LocalDifferentialPrivacy":
        del prior
        if self.neighbours is None:
            return self
        relation = of_symbols("neighbours", self.neighbours, 0, seen)
        return LocalDifferentialPrivacy(relation if seen.all() else relation[:, seen])

    @property
    def lift_ends(self) -> tuple[LiftEnd, ...]:
        return ("spread",) if self.neighbours is None else ()

    def compared(self, given: Arr, view: View, limit: ScalarLike) -> tuple[Arr, Arr]:
        if self.neighbours is None:
            return _within_a_factor(given[view.distinct(given)], limit)
        one, other = self._neighbouring(given, view)
        return _not_positive(one - xp.exp(limit) * other)

    def ratios(self, given: Arr, view: View) -> tuple[Arr, Arr, Arr]:
        if self.neighbours is None:
            return _within_the_peak(given[view.distinct(given)])
        return _at_most(*self._neighbouring(given, view))

    def _neighbouring(self, given: Arr, view: View) -> tuple[Arr, Arr]:
        """P(x|s) and P(x|s') of every pair that is compared."""
        pairs = np.argwhere(np.asarray(self.neighbours))
        if view.whole:
            pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        else:  # pairs of neighbours with different rows, once
            numbers = classes(given)
            pairs = numbers[pairs]
            pairs = view.distinct(given)[np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)]
        first, second = pairs[:, 0], pairs[:, 1]
        both = ((view.prior[first] > 0) & (view.prior[second] > 0))[:, None]
        return xp.where(both, given[first], view.mass), xp.where(both, given[second], view.mass)

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return {"intervals": bounds.ldp(self.neighbours)}

    def lower_bound(self, bounds: LowerBounds) -> float | None:
        return bounds.ldp if self.neighbours is None else None

    def score(self, log_lift: LogLift, support: Support) -> Scores:
        if self.neighbours is None:
            return _highest(log_lift, support) - _lowest(log_lift, support)
        same_symbols("neighbours", self.neighbours, 0, log_lift.shape[-1])
        present = support & (log_lift != -np.inf)
        asked = xp.where(present[..., :, None] & support[..., None, :], self.neighbours, False)
        finite = xp.where(present, log_lift, 0.0)
        excess = xp.where(present[..., None, :], finite[..., :, None] - finite[..., None, :], np.inf)
        return xp.where(asked, excess, 0.0).max(axis=(-2, -1))

    def attained(self, log_lift: HostColumn) -> Pair:
        if self.neighbours is None:
            return int(np.nanargmax(log_lift)), int(np.nanargmin(log_lift))
        with np.errstate(invalid="ignore"):
            # -inf - -inf is NaN: a pair of symbols both without mass, which is skipped.
            excess = log_lift[:, None] - log_lift[None, :]
        excess = np.where(self.neighbours & ~np.isnan(excess), excess, -np.inf)
        raised, lowered = np.unravel_index(np.argmax(excess), excess.shape)
        return (int(raised), int(lowered)) if excess[raised, lowered] > 0 else (None, None)


@named("inferential", "worst")
class InferentialPrivacy(AbstractPointwiseLeakage):
    """max_{y,s,s'} ln of posterior odds over prior odds, (P(s|y)/P(s'|y)) / (p_s/p_s').

    The same number as LDP of S -> Y on the support of p, read as a statement about beliefs; odds
    of sets of symbols add nothing, as a ratio of mixtures lies between the ratios of its parts.
    It bounds two-sided lift. Infinite if an output excludes one symbol and not another.

    Ghosh and Kleinberg 2016; Wu, Xia and He, eq. (13).
    """

    def row_count(self, symbols: int) -> int:
        return 2 * symbols

    @property
    def lift_ends(self) -> tuple[LiftEnd, ...]:
        return ("spread",)

    def compared(self, given: Arr, view: View, limit: ScalarLike) -> tuple[Arr, Arr]:
        return _within_a_factor(given[view.distinct(given)], limit)

    def ratios(self, given: Arr, view: View) -> tuple[Arr, Arr, Arr]:
        return _within_the_peak(given[view.distinct(given)])

    def upper_bounds(self, bounds: UpperBounds) -> Routes | None:
        return {"intervals": bounds.ldp(None)}

    def lower_bound(self, bounds: LowerBounds) -> float:
        return bounds.ldp

    def score(self, log_lift: LogLift, support: Support) -> Scores:
        return _highest(log_lift, support) - _lowest(log_lift, support)

    def attained(self, log_lift: HostColumn) -> Pair:
        return int(np.nanargmax(log_lift)), int(np.nanargmin(log_lift))


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
