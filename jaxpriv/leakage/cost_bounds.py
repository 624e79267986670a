"""What mutual information says about EVERY adversary whose cost is bounded.

Let C(s, q) lie in [low, high], and let the adversary pay c(r) = min_q sum_s r_s C(s, q) when S ~ r. For any two
distributions the announcement q_y that is best for p_y = P_{S|Y=y} is allowed for the prior p as well:

    c(p) - c(p_y)  <=  sum_s (p - p_y)_s C(s, q_y)  <=  (high - low) TV(p, p_y)  <=  (high - low) sqrt( D(p_y || p)/2 )

(sum_s (p - p_y)_s = 0, so only the range of C counts; Pinsker). The largest y gives the bound on the maximum gain,
max_y D(p_y || p) in place of D; the average over y, by Jensen and E_Y D(P_{S|Y} || P_S) = I(S;Y), that on the average
gain. For |C| <= L, low = -L and high = L: sqrt(2) L sqrt(I(S;Y)), half of what Makhdoumi et al. 2014 state in Theorem 1
(their proof goes through C(s, q_0) - C(s, q_y), of twice the range), and half of that again for 0 <= C <= L.

No smaller constant will do: for a fair bit, posteriors 1/2 +- e and C = L (1 - 2 [guess right]) the gain is 2 L e and
I = 2 e^2 + O(e^4), so the ratio of gain to bound tends to 1.
"""

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike

from jaxpriv._types import ScalarLike
from jaxpriv._validation import scalar
from jaxpriv.errors import InputError
from jaxpriv.leakage.evaluation import evaluate_all
from jaxpriv.leakage.shannon import MutualInformation, RelativeEntropyPrivacy

# A square root, a product and a difference, each rounded: the bound is rounded up by more.
_ROUNDING = 4 * 2.0**-52


@dataclass(frozen=True)
class CostGainBounds:
    """Upper bounds on what any adversary with costs in the stated range gains, in units of the cost.

    Attributes:
        average: on the average gain (`AverageCostGain`), from I(S;Y).
        maximum: on the maximum gain (`MaxCostGain`), from max_y D(P_{S|Y=y} || P_S).
    """

    average: float
    maximum: float


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
    """Both bounds for a `mechanism` (x, y) under a `joint` (s, x), for every cost in [low, high].

    Errors of the arrays and accuracy as for `evaluate`; of the costs as for `cost_gain_bound`.
    """
    measures = (MutualInformation(), RelativeEntropyPrivacy())
    average, worst = evaluate_all(measures, joint, mechanism)
    return CostGainBounds(cost_gain_bound(average.value, low, high), cost_gain_bound(worst.value, low, high))
