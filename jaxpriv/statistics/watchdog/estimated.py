"""The watchdog where the log-lift was estimated: n records with scores. Every number about leakage is an estimate.

The records stand for the population: X takes the n (or fewer different) values seen, each with its share. From
estimates g(s,x) of i(s,x) the mass of the records C that are not released follows in one of two ways:

    from the scores    P(C|s)/P(C)  ~  mean over C of e^g(s,x), over the same mean over all records;
    from the labels    P(C|s)/P(C)  ~  share of C among the records with that s, over its share of all.

The first trusts the estimator twice (for the choice and for the number), the second only for the choice: give labels
of held-out records where there are any. Neither is a bound. Utility is the plug-in I(X;Y) of the shares: with records
that are all different it counts records, and is far from the population's.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.module import summary
from jaxpriv._runtime.validation import finite, nonnegative, real_array, scalar
from jaxpriv.data.datasets._layout import columns_added
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.statistics.watchdog.bounds import proved_bounds
from jaxpriv.statistics.watchdog.scoring import need_one
from jaxpriv.statistics.watchdog.thresholds import steps

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
