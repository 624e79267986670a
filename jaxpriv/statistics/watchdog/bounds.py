"""What is proved about a watchdog from eps and P(X_eps) alone, without the joint.

Every released x has e^-eps <= P(x|s)/P(x) <= e^eps, so P(X_eps|s) lies in the same proportions to P = P(X_eps), and
with Pc = 1 - P

    (1 - e^eps P)/Pc  <=  P(X_eps^c|s)/Pc  <=  (1 - e^-eps P)/Pc,

which bounds the lift of the merged outcomes: `tight` = max{ eps, ln of the right, -ln of the left }. Proposition 2 of
Hsu, Asoodeh and Calmon 2019 is looser on the right: `gamma` = max{ ln(e^eps + 1/Pc), -ln of the left }. Both are
infinite once e^eps P >= 1, where the left side is no longer positive. They hold for complete merging (eq. 9) with any
draw; gamma bounds all measures of Proposition 1 but f-information.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

# More than all rounding of sums, exponentials and logarithms together; bounds are moved outward by it.
_SLACK = 1e-12

Numbers = Float[np.ndarray, "..."]


@dataclass(frozen=True)
class Bounds:
    """Upper bounds of the lift leakage of complete merging, in nats, rounded up; never below the exact value.

    `explanation` is why a bound is infinite, or None.
    """

    tight: float
    gamma: float
    explanation: str | None


def bounds_of(epsilon: float, released: float, complement: float) -> Bounds:
    """The bounds of one watchdog, from eps, P(X_eps) and P(X_eps^c)."""
    tight, gamma = proved_bounds(*(np.array(value) for value in (epsilon, released, complement)))
    explanation = None
    if complement == 0.0:
        explanation = "every symbol with mass is released, so there is no complement for gamma to be about"
    elif np.isinf(gamma):
        explanation = (
            "e^eps P(X_eps) >= 1: the bounds let every released symbol be e^eps times likelier under some s, "
            "which leaves that s no mass for the complement; the exact value uses the joint instead"
        )
    return Bounds(float(tight), float(gamma), explanation)


def proved_bounds(epsilon: Numbers, released: Numbers, complement: Numbers) -> tuple[Numbers, Numbers]:
    """(tight, gamma) for arrays of eps >= 0, P(X_eps) and P(X_eps^c), in nats; without a complement (eps, inf)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        up, down = 1.0 + _SLACK, 1.0 - _SLACK
        most = np.where(released > 0, np.exp(epsilon) * released * up, 0.0)  # of P(X_eps | s)
        least = np.exp(-epsilon) * released * down
        # Positive form: a NaN is no proof.
        low = np.where(most < 1.0, -np.log((1.0 - most) / (complement * up)), np.inf)
        high = np.log((1.0 - least) / (complement * down))
        paper = np.logaddexp(epsilon, -np.log(complement * down))
        none = complement == 0.0
        tight = np.where(none, epsilon, np.maximum(np.maximum(epsilon, high), low) + _SLACK)
        gamma = np.where(none, np.inf, np.maximum(paper, low) + _SLACK)
    return tight, gamma
