"""Why a watchdog withholds symbols, and what would change that."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._validation import scalar
from jaxpriv.errors import InputError
from jaxpriv.watchdog.design import Watchdog
from jaxpriv.watchdog.scores import log_lift_of


@dataclass(frozen=True)
class Cause:
    """What one private symbol s does: for the withheld symbols x whose score it attains.

    Attributes:
        private: s.
        symbols: how many x are withheld with max_s' |i(s',x)| attained at s.
        excluded: those of them where no record of x has s: the log-lift is -inf, whatever epsilon is.
        mass: P of the `symbols`.
        records: of s; None without counts.
        share_without: P of what the same epsilon would release if s were not looked at (merged into another class,
            say).
        records_needed: of each x, for a record of s to be expected in it with the confidence although P(s|x) is as
            small as
            epsilon allows: below that, empty cells say nothing of the population. None where epsilon is infinite or
            P(s) is zero.
    """

    private: int
    symbols: int
    excluded: int
    mass: float
    records: int | None
    share_without: float
    records_needed: int | None


def explain(watchdog: Watchdog, *, counts: ArrayLike = None, confidence: float = 0.95) -> tuple[Cause, ...]:
    """The causes of what is withheld, those with the largest mass first; empty if nothing with mass is.

    A score is the largest |ln P(s|x)/P(s)| over s: one rare private class withholds every x that none of its records
    has.

    Args:
        watchdog: what `watchdog` returned.
        counts: (S, X) records that the joint was counted from.
        confidence: of `records_needed`: ln(1 / (1 - confidence)) / (P(s) e^-epsilon) records of x.

    Raises `InputError` for counts of another shape or a confidence outside of (0, 1).
    """
    level = scalar(confidence, "confidence", low=0.0, high=1.0, open_low=True)
    if not level < 1:
        raise InputError("confidence must be below 1")
    joint = watchdog.joint
    if counts is not None and np.shape(counts) != joint.shape:
        raise InputError(f"counts has shape {np.shape(counts)}, the joint {joint.shape}")
    size = np.abs(log_lift_of(joint))
    known = ~np.isnan(size)
    mass, prior = joint.sum(axis=0), joint.sum(axis=1)
    withheld = ~watchdog.released & (mass > 0)
    if not withheld.any():
        return ()
    size = np.where(known, size, -1.0)
    worst = size.max(axis=0)
    causes = []
    for s in np.flatnonzero(prior > 0).tolist():
        own = withheld & (size[s] == worst)
        if not own.any():
            continue
        others = np.delete(size, s, axis=0)
        without = (others.max(axis=0, initial=-1.0) <= watchdog.epsilon) & (mass > 0)
        causes.append(
            Cause(
                private=s,
                symbols=int(own.sum()),
                excluded=int((own & np.isinf(size[s])).sum()),
                mass=float(mass[own].sum()),
                records=None if counts is None else int(np.asarray(counts)[s].sum()),
                share_without=min(float(mass[without].sum()), 1.0),
                records_needed=_needed(float(prior[s]), watchdog.epsilon, level),
            )
        )
    return tuple(sorted(causes, key=lambda cause: (-cause.mass, cause.private)))


def _needed(prior: float, epsilon: float, level: float) -> int | None:
    if math.isinf(epsilon):
        return None
    least = math.log(1.0 / (1.0 - level)) / prior * math.exp(min(epsilon, 700.0))
    return math.ceil(least) if least < 2.0**62 else None
