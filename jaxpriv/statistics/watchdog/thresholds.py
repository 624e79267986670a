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
from scipy.special import entr

from jaxpriv._runtime.module import summary
from jaxpriv._runtime.types import Joint
from jaxpriv.statistics.watchdog.bounds import proved_bounds
from jaxpriv.statistics.watchdog.scoring import host_joint, log_lift_of, scores_of


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
        complement_mass: P(X_eps^c), summed from the other end than P(X_eps).
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
    complement_mass: np.ndarray

    __repr__ = summary


def staircase(joint: Joint) -> Staircase:
    """The staircase of a joint `(s, x)`; O(n log n) for n useful symbols. Errors as for `log_lift`."""
    joint = host_joint(joint)
    return steps(scores_of(log_lift_of(joint)), joint, joint.sum(axis=0))


def steps(score: np.ndarray, masses: np.ndarray, weights: np.ndarray) -> Staircase:
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
    inside = np.concatenate([[0.0], np.cumsum(entr(shares))])[released]
    mass = np.concatenate([[0.0], np.cumsum(shares)])[released]
    # P(s) summed in the same order: merging everything has a lift of exactly 1.
    outside = merged_leakage(ends[:, released], ends[:, 0], complement / total[0])
    tight, gamma = proved_bounds(epsilon, mass, complement)
    return Staircase(
        epsilon=epsilon,
        released=released,
        released_mass=mass,
        leakage=np.maximum(largest[released], outside),
        leakage_released=largest[released],
        leakage_complement=outside,
        tight=tight,
        gamma=gamma,
        complement_mass=complement,
        utility=np.maximum(inside + entr(complement), 0.0),
    )


def merged_leakage(merged: np.ndarray, private: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """max_s |ln P(G|s)/P(G)| `(g,)` of groups G with masses P(s, G) `(s, g)` and P(G) `(g,)`; 0 where P(G) = 0."""
    present, some = private > 0, shares > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        lift = merged[present] / private[present, None] / np.where(some, shares, 1.0)
        return np.where(some, np.abs(np.log(lift)).max(axis=0), 0.0)


def _from_behind(values: np.ndarray) -> np.ndarray:
    """Sums of values[:, k:] for k = 0 .. n: `(r, n + 1)`."""
    sums = np.cumsum(values[:, ::-1], axis=1)[:, ::-1]
    return np.concatenate([sums, np.zeros((len(values), 1))], axis=1)
