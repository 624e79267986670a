"""Every threshold at once: X_eps changes only at the scores, so leakage and utility are staircases in eps.

Sorted by score, X_eps is a beginning of the list and its complement an end; the masses P(s, X_eps^c) are sums
from the back (of numbers >= 0: nothing cancels), the entropies sums from the front. One sort for everything:
O(n log n + n |S|). With complete merging

    leakage(eps) = max( max over x in X_eps of score(x),  max_s | ln P(X_eps^c|s)/P(X_eps^c) | ),
    utility(eps) = I(X;Y) = - sum over x in X_eps of p ln p  -  Pc ln Pc             (eq. 11).

Utility rises with eps. Leakage need not: the complement leaks the more, the fewer symbols it has.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import entr

from jaxpriv._runtime.module import summary
from jaxpriv._runtime.types import Joint
from jaxpriv._runtime.validation import finite, is_traced, joint_array, nonnegative, real_array, scalar
from jaxpriv.data.datasets._layout import columns_added
from jaxpriv.errors import InfeasibleError, InputError

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


def need_one(epsilon: float | None, target_leakage: float | None, target_utility: float | None) -> None:
    """`InputError` unless one choice of the threshold is given."""
    if sum(value is not None for value in (epsilon, target_leakage, target_utility)) != 1:
        raise InputError("give exactly one of epsilon, target_leakage and target_utility")


def log_lift_of(joint: np.ndarray) -> np.ndarray:
    """`log_lift` of an array that was checked."""
    private, useful = joint.sum(axis=1, keepdims=True), joint.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # The ratio before the logarithm: near independence a difference of logarithms would cancel.
        ratio = joint / useful / private
        # A private mass below the smallest normal number overflows the ratio, not its logarithm.
        log_ratio = np.where(np.isposinf(ratio), np.log(joint) - np.log(useful) - np.log(private), np.log(ratio))
    return np.where((private > 0) & (useful > 0), log_ratio, np.nan)


def scores_of(log_lifts: np.ndarray) -> np.ndarray:
    """`scores` of a log-lift `(s, x)`."""
    defined = ~np.isnan(log_lifts)
    return np.where(defined.any(axis=0), np.where(defined, np.abs(log_lifts), 0.0).max(axis=0), np.inf)


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


# The watchdog where the log-lift was estimated: n records with scores. Every number about leakage is an estimate.
#
# The records stand for the population: X takes the n (or fewer different) values seen, each with its share. From
# estimates g(s,x) of i(s,x) the mass of the records C that are not released follows in one of two ways:
#
#     from the scores    P(C|s)/P(C)  ~  mean over C of e^g(s,x), over the same mean over all records;
#     from the labels    P(C|s)/P(C)  ~  share of C among the records with that s, over its share of all.
#
# The first trusts the estimator twice (for the choice and for the number), the second only for the choice: give labels
# of held-out records where there are any. Neither is a bound. Utility is the plug-in I(X;Y) of the shares: with records
# that are all different it counts records, and is far from the population's.

# A valid log-lift has sum_s P(s) e^i(s,x) = 1; estimates in float32 that were normalised are this close.
_NORMALISED = 1e-4

Basis = Literal["scores", "labels"]
# What a `Staircase` has of a joint and what is an estimate of records, by the name `estimated_...`.
_EXACT = ("leakage", "leakage_released", "leakage_complement", "utility")


@dataclass(frozen=True, eq=False)
class EstimatedStaircase:
    """The `Staircase` of records, entry by entry an estimate `(k,)`.

    `released_fraction`: share of the records in X_eps. `estimated_tight` and `estimated_gamma` are the formulas of
    `bounds` at that share and at estimated scores: bounds of nothing certain. `basis`: where the leakage of the
    complement comes from.
    """

    epsilon: np.ndarray
    released_fraction: np.ndarray
    estimated_leakage: np.ndarray
    estimated_leakage_released: np.ndarray
    estimated_leakage_complement: np.ndarray
    estimated_utility: np.ndarray
    estimated_tight: np.ndarray
    estimated_gamma: np.ndarray
    basis: Basis

    __repr__ = summary


@dataclass(frozen=True, eq=False)
class EstimatedWatchdog:
    """One watchdog of records: what is released is a fact, what it leaks is estimated (nats).

    Attributes:
        epsilon: the threshold.
        scores: `(n,)` max_s |g(s,x)| of every record.
        released: `(n,)` bool.
        released_fraction: share of the records.
        estimated_...: as in `EstimatedStaircase`.
        basis: "scores" or "labels".
    """

    epsilon: float
    scores: np.ndarray
    released: np.ndarray
    released_fraction: float
    estimated_leakage: float
    estimated_leakage_released: float
    estimated_leakage_complement: float
    estimated_utility: float
    estimated_tight: float
    estimated_gamma: float
    basis: Basis

    __repr__ = summary


@dataclass(frozen=True)
class _Samples:
    """Checked records, equal symbols joined: scores (x,), masses (s, x), shares (x,); and scores of all records."""

    scores: np.ndarray
    masses: np.ndarray
    shares: np.ndarray
    per_record: np.ndarray
    basis: Basis


def estimated_staircase(
    log_lift: ArrayLike, prior: ArrayLike | None, *, labels: ArrayLike | None = None, symbols: ArrayLike | None = None
) -> EstimatedStaircase:
    """All thresholds at once, from estimates for n records.

    Args:
        log_lift: `(n, s)` estimates of ln P(s|x)/P(s) in nats, for every s, normalised:
            sum_s prior[s] e^log_lift[r, s] = 1 in every row.
        prior: `(s,)` P(s) > 0.
        labels: `(n,)` whole numbers, the s of every record; without them the scores are the basis.
        symbols: `(n,)` whole numbers, equal for records with the same x; None: all are different.

    Raises `InputError` naming argument and position for NaN and infinite entries, rows that are not
    normalised, labels outside of 0 .. s-1 or of fewer than all classes, equal symbols with different
    scores, and lengths that do not match.
    """
    samples = _checked(log_lift, prior, labels, symbols)
    stairs = steps(samples.scores, samples.masses, samples.shares)
    return EstimatedStaircase(
        epsilon=stairs.epsilon,
        released_fraction=np.minimum(stairs.released_mass, 1.0),
        **{f"estimated_{name}": getattr(stairs, name) for name in (*_EXACT, "tight", "gamma")},
        basis=samples.basis,
    )


def estimated_watchdog(
    log_lift: ArrayLike,
    prior: ArrayLike | None,
    *,
    epsilon: float | None = None,
    target_leakage: float | None = None,
    target_utility: float | None = None,
    labels: ArrayLike | None = None,
    symbols: ArrayLike | None = None,
) -> EstimatedWatchdog:
    """The watchdog of records with a threshold, or the best for a target of the ESTIMATED leakage or utility.

    Choices as in `jaxpriv.watchdog.watchdog`, the other arguments and errors as for `estimated_staircase`;
    `InfeasibleError` for a target that no threshold meets. A target that was reached on the records that
    chose the threshold is optimistic: use other records.

    Raises `InputError` unless exactly one of `epsilon`, `target_leakage` and `target_utility` is given.
    """
    need_one(epsilon, target_leakage, target_utility)
    samples = _checked(log_lift, prior, labels, symbols)
    stairs = steps(samples.scores, samples.masses, samples.shares)
    if target_leakage is not None:
        target = scalar(target_leakage, "target_leakage", low=0.0, infinite=True)
        within = np.flatnonzero(stairs.leakage <= target)
        if not within.size:  # records with a score of exactly 0 are released at eps = 0
            least = float(stairs.leakage.min())
            raise InfeasibleError(
                f"target_leakage is below the least estimate, {least:.6g} nats, of all thresholds",
                {"target_leakage": target, "least": least},
            )
        epsilon = float(stairs.epsilon[within[-1]])
    elif target_utility is not None:
        target = scalar(target_utility, "target_utility", low=0.0)
        enough = np.flatnonzero(stairs.utility >= target)[::-1]
        if not enough.size:
            most = float(stairs.utility[-1])
            raise InfeasibleError(
                f"target_utility is more than the entropy {most:.6g} nats of the records",
                {"target_utility": target, "entropy": most},
            )
        epsilon = float(stairs.epsilon[enough[np.argmin(stairs.leakage[enough])]])
    threshold = scalar(epsilon, "epsilon", low=0.0, infinite=True)
    step = int(np.searchsorted(stairs.epsilon, threshold, side="right")) - 1
    tight, gamma = proved_bounds(
        np.array(threshold), np.array(stairs.released_mass[step]), np.array(stairs.complement_mass[step])
    )
    return EstimatedWatchdog(
        epsilon=threshold,
        scores=samples.per_record,
        released=samples.per_record <= threshold,
        released_fraction=min(float(stairs.released_mass[step]), 1.0),
        **{f"estimated_{name}": float(getattr(stairs, name)[step]) for name in _EXACT},
        estimated_tight=float(tight),
        estimated_gamma=float(gamma),
        basis=samples.basis,
    )


def _checked(
    log_lift: ArrayLike, prior: ArrayLike | None, labels: ArrayLike | None, symbols: ArrayLike | None
) -> _Samples:
    table = finite(real_array(log_lift, "log_lift", ndim=2), "log_lift")
    private = nonnegative(real_array(prior, "prior", ndim=1), "prior")
    records, classes = table.shape
    if len(private) != classes:
        raise InputError(f"log_lift has {classes} columns (axis s), but prior has {len(private)} entries")
    if not (private > 0).all() or not abs(private.sum() - 1) <= 1e-6:
        raise InputError("prior must be positive and sum to 1")
    with np.errstate(over="ignore"):
        posterior = private * np.exp(table)
    wrong = np.flatnonzero(~(np.abs(posterior.sum(axis=1) - 1) <= _NORMALISED))
    if wrong.size:
        raise InputError(
            f"log_lift, row {wrong[0]}: sum_s prior[s] e^log_lift is not 1 (such rows: {wrong.size}); "
            "subtract its logarithm from the row"
        )
    scores = np.abs(table).max(axis=1)
    if labels is not None:
        label_codes = _whole(labels, "labels", records)
        unknown = np.flatnonzero((label_codes < 0) | (label_codes >= classes))
        if unknown.size:
            raise InputError(f"labels[{unknown[0]}] is not among the classes 0 .. {classes - 1} of prior")
        if len(np.unique(label_codes)) < classes:
            raise InputError("labels: some class of prior has no record, so nothing can be estimated about it")
        masses = (label_codes == np.arange(classes)[:, None]) / records
    else:
        masses = posterior.T / records
    basis: Basis = "scores" if labels is None else "labels"
    if symbols is None:
        return _Samples(scores, masses, np.full(records, 1.0 / records), scores, basis)
    _, first, place = np.unique(_whole(symbols, "symbols", records), return_index=True, return_inverse=True)
    place = place.reshape(-1)
    differing = np.flatnonzero(~(np.abs(scores - scores[first][place]) <= 1e-6))
    if differing.size:
        raise InputError(f"symbols[{differing[0]}] is that of an earlier record with another score")
    return _Samples(
        scores[first], columns_added(masses, place), np.bincount(place) / records, scores[first][place], basis
    )


def _whole(value: object, name: str, size: int) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind not in "iu" or array.shape != (size,):
        raise InputError(f"{name} must be {size} whole numbers, one for each row of log_lift")
    return array
