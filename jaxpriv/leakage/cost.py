"""Cost gains: what an adversary who pays C(s, q) for announcing q saves by seeing the output.

With no output the adversary pays c0 = min_q sum_s p_s C(s, q), and after output y c_y = min_q sum_s P(s|y) C(s, q).
The average gain is c0 - sum_y P(y) c_y, the maximum gain c0 - min_y c_y (Calmon and Fawaz 2012, eq. 1-4). A cost is
known by its least expected value `least(w) = min_q sum_s w_s C(s, q)`, concave and homogeneous of degree 1 in w.

What mutual information bounds of EVERY adversary whose cost is bounded: let C(s, q) lie in [low, high], and let the
adversary pay c(r) = min_q sum_s r_s C(s, q) when S ~ r. For any two distributions the announcement q_y that is best
for p_y = P_{S|Y=y} is allowed for the prior p as well:

    c(p) - c(p_y)  <=  sum_s (p - p_y)_s C(s, q_y)  <=  (high - low) TV(p, p_y)  <=  (high - low) sqrt( D(p_y || p)/2 )

(sum_s (p - p_y)_s = 0, so only the range of C counts; Pinsker). The largest y gives the bound on the maximum gain,
max_y D(p_y || p) in place of D; the average over y, by Jensen and E_Y D(P_{S|Y} || P_S) = I(S;Y), that on the average
gain. For |C| <= L, low = -L and high = L: sqrt(2) L sqrt(I(S;Y)), half of what Makhdoumi et al. 2014 state in Theorem
1 (their proof goes through C(s, q_0) - C(s, q_y), of twice the range), and half of that again for 0 <= C <= L.

Lemma 2 there is about another number of one output y: what q_y saves who would have announced q_0, the best for p,

    sum_s p_y(s) [ C(s, q_0) - C(s, q_y) ] <= sum_s (p_y - p)_s [ C(s, q_0) - C(s, q_y) ] <= 2 (high - low) TV(p, p_y)

since the bracket has a mean <= 0 under p and lies within +- (high - low). Its average over y is the average gain; for
one output the printed constant 2 sqrt(2) L is the best one: a fair bit, C(., q_0) = (L, -L), C(., q_y) = (-L, L).

No smaller constant is possible for the gains: for a fair bit, posteriors 1/2 +- e and C = L (1 - 2 [guess right]) the
gain is 2 L e and I = 2 e^2 + O(e^4), so the ratio of gain to bound tends to 1.
"""

import dataclasses
import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.divergences import divergence
from jaxpriv._runtime.numerics import safe_divide, xlogx
from jaxpriv._runtime.types import Arr, ArrayInput, Column, PrivateMarginal, Scalar, ScalarLike
from jaxpriv._runtime.validation import finite, real_array, scalar
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import (
    AbstractMeanLeakage,
    AbstractPartLeakage,
    AbstractRuled,
    AbstractWorstOutcomeLeakage,
    Traits,
    actions_along,
    posterior_of,
    same_symbols,
    undesigned,
)
from jaxpriv.leakage.evaluation import checked_pair, evaluate_all
from jaxpriv.leakage.f_rules import ChiSquaredCurve, f_rules
from jaxpriv.leakage.population import LowerBounds, Routes, UpperBounds
from jaxpriv.leakage.registry import named
from jaxpriv.leakage.rule_sets import ENTROPIC, LINEAR, Rules, View
from jaxpriv.leakage.shannon import MutualInformation, RelativeEntropyPrivacy, posterior_entropy_rules

__all__ = [
    "AbstractCost",
    "AverageCostGain",
    "BrierLoss",
    "LogLoss",
    "LossMatrix",
    "MaxCostGain",
    "ZeroOneLoss",
]


class AbstractCost(AbstractRuled):
    """A cost C(s, q) for announcing q when the secret is s."""

    @abstractmethod
    def least(self, w: Column) -> Scalar:
        """min_q sum_s w_s C(s, q) for w >= 0; 0 for w = 0."""

    def rules(self, view: View) -> Rules:
        """The rules whose support function is -min_q sum_s w_s C(s, q), but for linear terms that sum to `shift`."""
        raise undesigned(self)

    def limit_rules(self, view: View) -> Rules | None:
        """The rules of a gain of at most `view.limit` in every outcome."""
        rules, excess = self.rules(view), self.shift(view.prior) - self.scale_for(len(view.prior)).inner(view.limit)
        if not self.linear:
            return dataclasses.replace(rules, offset=excess * view.mass)
        distinct = view.distinct(rules.rows)
        return Rules(LINEAR, rules.rows[distinct] + excess * view.mass, np.zeros(len(distinct)))

    def upper_bounds(self, bounds: UpperBounds) -> tuple[Routes, Routes] | None:
        """Bounds on the average and on the maximum gain in a population: as for a measure."""
        del bounds
        return None


class LogLoss(AbstractCost):
    """C(s, q) = -ln q(s): the least cost is |w| times the entropy of w/|w|.

    The average gain is mutual information, the maximum gain `MaxInformation`.
    """

    traits: ClassVar[Traits] = Traits("nats", designable=True, least=0.0)

    def rules(self, view: View) -> Rules:
        """Of mutual information: its columns differ from those of the gain by a linear term that sums to 0."""
        return Rules(ENTROPIC, view.joint, view.prior)

    def limit_rules(self, view: View) -> Rules:
        return posterior_entropy_rules(view)

    def upper_bounds(self, bounds: UpperBounds) -> tuple[Routes, Routes]:
        return bounds.information, bounds.posterior_entropy

    def lower_bound(self, bounds: LowerBounds) -> float:
        return bounds.information

    def least(self, w: Column) -> Scalar:
        return -w.sum() * xlogx(posterior_of(w)).sum()


class ZeroOneLoss(AbstractCost):
    """C(s, a) = 1 if a != s, else 0: |w| - max_s w_s; the gain is in probability of a correct guess."""

    words: ClassVar[str] = "0-1 loss"

    traits: ClassVar[Traits] = Traits("probability", designable=True, linear=True, least=0.0)

    def rules(self, view: View) -> Rules:
        """A guess is right."""
        return Rules(LINEAR, view.joint, np.ones(len(view.prior)))

    def shift(self, prior: PrivateMarginal) -> ScalarLike:
        return -prior.max()

    def upper_bounds(self, bounds: UpperBounds) -> tuple[Routes, Routes]:
        return bounds.guess_gain

    def lower_bound(self, bounds: LowerBounds) -> float:
        return bounds.gain

    def least(self, w: Column) -> Scalar:
        return w.sum() - w.max()


class BrierLoss(AbstractCost):
    """C(s, q) = sum_r (q(r) - 1[r = s])^2, in [0, 2]: |w| (1 - sum_s (w_s/|w|)^2)."""

    words: ClassVar[str] = "Brier loss"

    traits: ClassVar[Traits] = Traits("dimensionless", designable=True, least=0.0)

    def rules(self, view: View) -> Rules:
        """The sum of squared posteriors is a chi-squared divergence from the uniform distribution."""
        ones = view.ones
        size = ones.sum()
        uniform = dataclasses.replace(view, joint=view.joint / size, prior=ones / size, mass=view.mass / size)
        return f_rules(ChiSquaredCurve(), uniform)

    def shift(self, prior: PrivateMarginal) -> ScalarLike:
        return 1.0 / (prior > 0).astype(prior.dtype).sum() - (prior**2).sum()

    def upper_bounds(self, bounds: UpperBounds) -> tuple[Routes, Routes]:
        return bounds.quadratic_gain

    def least(self, w: Column) -> Scalar:
        return w.sum() * (1.0 - (posterior_of(w) ** 2).sum())


class LossMatrix(AbstractCost):
    """Finitely many actions: C(s, a) = losses[s, a], any finite numbers; min_a sum_s w_s losses[s, a].

    The average gain is additive g-leakage for the gains -losses. Tied actions share the gradient.
    `action_axis` is the axis of the actions in the argument: 1 for losses[s, a], 0 for losses[a, s], the
    order of `GainLeakage`. Raises `InputError` for a NaN or infinite loss, another axis, and losses of
    another number of symbols than the joint's.
    """

    losses: Float[Arr, "s a"]

    by_symbol: ClassVar = {"losses": (0,)}

    traits: ClassVar[Traits] = Traits("cost", designable=True, linear=True, least=0.0)

    def __init__(self, losses: ArrayInput, *, action_axis: int = 1):
        self.losses = actions_along(1, finite(real_array(losses, "losses", ndim=2), "losses"), action_axis)

    def rules(self, view: View) -> Rules:
        """One row for each action."""
        rows = -self.losses.T @ view.joint
        return Rules(LINEAR, rows, np.ones(len(rows)))

    def shift(self, prior: PrivateMarginal) -> ScalarLike:
        return (prior @ self.losses).min()

    def least(self, w: Column) -> Scalar:
        same_symbols("losses", self.losses, 0, w.shape[0])
        return xp.matmul(w, xp.asarray(self.losses, w)).min()


class _CostGain(AbstractPartLeakage):
    """The gain of one cost, whatever is made of the outputs' gains c0 - c_y."""

    cost: AbstractCost

    @property
    def part(self) -> AbstractCost:
        return self.cost

    def among(self, prior: PrivateMarginal, seen: np.ndarray) -> "_CostGain":
        return type(self)(self.cost.among(prior, seen))

    def lower_bound(self, bounds: LowerBounds) -> float | None:
        return self.cost.lower_bound(bounds)

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """c0 - c_y."""
        return self.cost.least(prior) - self.cost.least(posterior_of(w))


class AverageCostGain(_CostGain, AbstractMeanLeakage):
    """The average cost gain, c0 - sum_y P(y) min_q sum_s P(s|y) C(s, q), in units of the cost.

    Column |w| c0 - min_q sum_s w_s C(s, q), convex. For |C| <= L at most sqrt(2) L sqrt(I(S;Y)).

    Calmon and Fawaz 2012, eq. (3).
    """

    def upper_bounds(self, bounds: UpperBounds) -> Routes | None:
        both = self.cost.upper_bounds(bounds)
        return None if both is None else both[0]


class MaxCostGain(_CostGain, AbstractWorstOutcomeLeakage):
    """The maximum cost gain, c0 - min_y min_q sum_s P(s|y) C(s, q), in units of the cost.

    For |C| <= L at most sqrt(2) L sqrt(max_y D(P_{S|Y=y} || P_S)).

    Calmon and Fawaz 2012, eq. (4).
    """

    words: ClassVar[str] = "maximum cost gain"

    def rules(self, view: View) -> Rules | None:
        return self.cost.limit_rules(view)

    def upper_bounds(self, bounds: UpperBounds) -> Routes | None:
        both = self.cost.upper_bounds(bounds)
        return None if both is None else both[1]


def _named_gains(name: str, cost: type[AbstractCost], reported: tuple[Mapping[str, object], ...] = ({},)) -> None:
    """Enter the gains of a cost without parameters."""
    named(name, "average", reported=reported)(lambda: AverageCostGain(cost()))
    named(name, "worst", reported=reported)(lambda: MaxCostGain(cost()))


_named_gains("gain-log-loss", LogLoss, reported=())  # mutual-information and max-information have their rows
_named_gains("gain-zero-one", ZeroOneLoss)
_named_gains("gain-brier", BrierLoss)


# A square root, a product and a difference, each rounded: the bound is rounded up by more.
_ROUNDING = 4 * 2.0**-52


@dataclass(frozen=True, eq=False)
class CostGainBounds:
    """Upper bounds on what any adversary with costs in the stated range gains, in units of the cost.

    Attributes:
        average: on the average gain (`AverageCostGain`), from I(S;Y).
        maximum: on the maximum gain (`MaxCostGain`), from max_y D(P_{S|Y=y} || P_S).
        outcomes: (y,) for each output on E[C(S, q_0) - C(S, q_y) | Y=y], what its best announcement q_y saves who would
            have announced q_0, the best without it, from D(P_{S|Y=y} || P_S); 0 for outputs without mass. Makhdoumi
            et al. 2014, Lemma 2.
    """

    average: float
    maximum: float
    outcomes: np.ndarray


def cost_gain_bound(divergence: ScalarLike, low: ScalarLike, high: ScalarLike) -> float:
    """(high - low) min(1, sqrt(divergence/2)), rounded up: what an adversary with costs in [low, high] gains at most.

    `divergence` in nats, >= 0, inf allowed: I(S;Y) bounds the average gain, max_y D(P_{S|Y=y} || P_S) the maximum
    gain, an upper bound on either serves too. For the AVERAGE gain the range of C(s, .) for each s apart is enough (a
    part of the cost that depends on s alone is paid with and without Y): low = 0, high = max_s of these ranges.

    For zero-one loss [0, 1], for the Brier loss [0, 2], for |C| <= L [-L, L]. Raises `InputError` for a divergence
    that is negative or NaN, and for low > high, NaN or infinite costs.

    Makhdoumi et al. 2014, Theorem 1, with half of its constant; proof in this module's docstring.
    """
    size = float(scalar(divergence, "divergence", low=0.0, infinite=True))
    low, high = float(scalar(low, "low")), float(scalar(high, "high"))
    if not low <= high:
        raise InputError("high must be a number >= low")
    span = high - low
    if not math.isfinite(span):
        raise InputError("high and low are too far apart: their difference is infinite")
    return span * min(1.0, math.sqrt(size / 2) * (1 + _ROUNDING)) * (1 + _ROUNDING)


def cost_gain_bounds(joint: ArrayLike, mechanism: ArrayLike, low: ScalarLike, high: ScalarLike) -> CostGainBounds:
    """The bounds for a `mechanism` (x, y) under a `joint` (s, x), for every cost in [low, high].

    Errors of the arrays and accuracy as for `evaluate`; of the costs as for `cost_gain_bound`.
    """

    measures = (MutualInformation(), RelativeEntropyPrivacy())
    joint, mechanism = checked_pair(joint, mechanism)
    average, worst = evaluate_all(measures, joint, mechanism)
    columns, prior = joint @ mechanism, joint.sum(axis=1)
    masses = columns.sum(axis=0)
    lifts = np.asarray(safe_divide(columns, prior[:, None] * masses))
    divergences = np.where(masses > 0, divergence(lifts.T, prior), 0.0)
    most = cost_gain_bound(np.inf, low, high)
    outcomes = np.array([min(2.0 * cost_gain_bound(each, low, high), most) for each in divergences])
    return CostGainBounds(cost_gain_bound(average.value, low, high), cost_gain_bound(worst.value, low, high), outcomes)
