"""Every threshold at once: X_eps changes only at the scores, so leakage and utility are staircases in eps.

Sorted by score, X_eps is a beginning of the list and its complement an end; the masses P(s, X_eps^c) are sums
from the back (of numbers >= 0: nothing cancels), the entropies sums from the front. One sort for everything:
O(n log n + n |S|). With complete merging

    leakage(eps) = max( max over x in X_eps of score(x),  max_s | ln P(X_eps^c|s)/P(X_eps^c) | ),
    utility(eps) = I(X;Y) = - sum over x in X_eps of p ln p  -  Pc ln Pc             (eq. 11).

Utility rises with eps. Leakage need not: the complement leaks the more, the fewer symbols it has.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from jaxpriv._module import summary
from jaxpriv._types import Joint
from jaxpriv._validation import is_traced, joint_array
from jaxpriv.errors import InputError

# The log-lift i(s,x) = ln P(s|x)/P(s) of a joint, and the score max_s |i(s,x)| of every useful symbol.


def log_lift(joint: Joint) -> np.ndarray:
    """i(s,x) `(s, x)` float64, in nats: -inf where x excludes s, NaN where s or x has no mass.

    Raises `InputError` as `jaxpriv.leakage.evaluate` does for a joint.

    Hsu, Asoodeh and Calmon 2019, eq. (1).
    """
    return log_lift_of(host_joint(joint))


def scores(joint: Joint) -> np.ndarray:
    """max_s |i(s,x)| `(x,)` over the s with mass: the least eps for which the watchdog releases x.

    Infinite where x excludes some s, and where x has no mass: nothing is known about such an x. A
    score of exactly 0 means that x is independent of S to the last bit of the joint.
    """
    return scores_of(log_lift(joint))


def host_joint(joint: ArrayLike) -> np.ndarray:
    """The checked joint; a watchdog is designed on the host."""
    if is_traced(joint):
        raise InputError("joint is traced; a watchdog is designed on the host, outside of jit, vmap and grad")
    return joint_array(joint)


def log_lift_of(joint: np.ndarray) -> np.ndarray:
    """`log_lift` of an array that was checked."""
    private, useful = joint.sum(axis=1, keepdims=True), joint.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # The ratio before the logarithm: near independence a difference of logarithms would cancel.
        ratio = joint / useful / private
        # A private mass below the smallest normal number overflows the ratio, not its logarithm.
        found = np.where(np.isposinf(ratio), np.log(joint) - np.log(useful) - np.log(private), np.log(ratio))
    return np.where((private > 0) & (useful > 0), found, np.nan)


def scores_of(found: np.ndarray) -> np.ndarray:
    """`scores` of a log-lift `(s, x)`."""
    known = ~np.isnan(found)
    return np.where(known.any(axis=0), np.where(known, np.abs(found), 0.0).max(axis=0), np.inf)


# What is proved about a watchdog from eps and P(X_eps) alone, without the joint.
#
# Every released x has e^-eps <= P(x|s)/P(x) <= e^eps, so P(X_eps|s) lies in the same proportions to P = P(X_eps), and
# with Pc = 1 - P
#
#     (1 - e^eps P)/Pc  <=  P(X_eps^c|s)/Pc  <=  (1 - e^-eps P)/Pc,
#
# which bounds the lift of the merged outcomes: `tight` = max{ eps, ln of the right, -ln of the left }. Proposition 2 of
# Hsu, Asoodeh and Calmon 2019 is looser on the right: `gamma` = max{ ln(e^eps + 1/Pc), -ln of the left }. Both are
# infinite once e^eps P >= 1, where the left side is no longer positive. They hold for complete merging (eq. 9) with any
# draw; gamma bounds all measures of Proposition 1 but f-information.


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


@dataclass(frozen=True, eq=False)
class Steps:
    """`Staircase` without a word on where its numbers come from: they are what `masses` and `scores` are."""

    epsilon: np.ndarray
    released: np.ndarray
    released_mass: np.ndarray
    complement_mass: np.ndarray
    leakage_released: np.ndarray
    leakage_complement: np.ndarray
    utility: np.ndarray

    @property
    def leakage(self) -> np.ndarray:
        return np.maximum(self.leakage_released, self.leakage_complement)


@dataclass(frozen=True, eq=False)
class Staircase:
    """All watchdogs of a joint with complete merging, one entry for each different X_eps, eps rising `(k,)`.

    Attributes:
        epsilon: the least eps of the step; it holds up to the next one. The first is 0.
        released: number of symbols in X_eps.
        released_mass: P(X_eps).
        leakage: the exact lift leakage, in nats, on the given joint: the larger of the next two.
        leakage_released: of the released symbols; 0 if none has mass.
        leakage_complement: of the merged ones; 0 if they have no mass.
        utility: I(X;Y) in nats.
        tight, gamma: proved bounds of the leakage from eps and P(X_eps) alone (`bounds`), never below it.
    """

    epsilon: np.ndarray
    released: np.ndarray
    released_mass: np.ndarray
    leakage: np.ndarray
    leakage_released: np.ndarray
    leakage_complement: np.ndarray
    utility: np.ndarray
    tight: np.ndarray
    gamma: np.ndarray

    __repr__ = summary


def staircase(joint: Joint) -> Staircase:
    """The staircase of a joint `(s, x)`; O(n log n) for n useful symbols. Errors as for `log_lift`."""
    joint = host_joint(joint)
    found = steps(scores_of(log_lift_of(joint)), joint, joint.sum(axis=0))
    tight, gamma = proved_bounds(found.epsilon, found.released_mass, found.complement_mass)
    return Staircase(
        epsilon=found.epsilon,
        released=found.released,
        released_mass=found.released_mass,
        leakage=found.leakage,
        leakage_released=found.leakage_released,
        leakage_complement=found.leakage_complement,
        utility=found.utility,
        tight=tight,
        gamma=gamma,
    )


def steps(score: np.ndarray, masses: np.ndarray, weights: np.ndarray) -> Steps:
    """The steps for scores `(x,)`, masses of (s, x) `(s, x)`, and the marginal of x `(x,)` with total 1."""
    order = np.argsort(score, kind="stable")
    ranked, shares = score[order], weights[order]
    epsilon = np.unique(np.concatenate([[0.0], ranked]))
    released = np.searchsorted(ranked, epsilon, side="right")
    # Infinite only for what no finite eps releases; symbols without mass leak nothing.
    largest = np.maximum.accumulate(np.concatenate([[0.0], np.where(shares > 0, ranked, 0.0)]))
    ends = _from_behind(masses[:, order])
    total = _from_behind(shares[None, :])[0]
    complement = total[released]
    inside = np.concatenate([[0.0], np.cumsum(entropy_terms(shares))])[released]
    return Steps(
        epsilon=epsilon,
        released=released,
        released_mass=np.concatenate([[0.0], np.cumsum(shares)])[released],
        complement_mass=complement,
        leakage_released=largest[released],
        # P(s) summed in the same order: merging everything has a lift of exactly 1.
        leakage_complement=merged_leakage(ends[:, released], ends[:, 0], complement / total[0]),
        utility=np.maximum(inside + entropy_terms(complement), 0.0),
    )


def merged_leakage(merged: np.ndarray, private: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """max_s |ln P(G|s)/P(G)| `(g,)` of groups G with masses P(s, G) `(s, g)` and P(G) `(g,)`; 0 where P(G) = 0."""
    present, some = private > 0, shares > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        lift = merged[present] / private[present, None] / np.where(some, shares, 1.0)
        return np.where(some, np.abs(np.log(lift)).max(axis=0), 0.0)


def entropy_terms(mass: np.ndarray) -> np.ndarray:
    """-p ln p, 0 at p = 0."""
    return -mass * np.log(np.where(mass > 0, mass, 1.0))


def _from_behind(values: np.ndarray) -> np.ndarray:
    """Sums of values[:, k:] for k = 0 .. n: `(r, n + 1)`."""
    sums = np.cumsum(values[:, ::-1], axis=1)[:, ::-1]
    return np.concatenate([sums, np.zeros((len(values), 1))], axis=1)
