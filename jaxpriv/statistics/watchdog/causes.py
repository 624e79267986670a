"""Why a watchdog withholds symbols, and what would change that."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.counts import failure
from jaxpriv._runtime.validation import scalar
from jaxpriv.errors import InputError
from jaxpriv.statistics.watchdog.exact import Watchdog, watchdog
from jaxpriv.statistics.watchdog.scoring import log_lift_of


@dataclass(frozen=True)
class Cause:
    """What one private symbol s does: for the withheld symbols x whose score it attains.

    Attributes:
        private: s.
        symbols: how many x are withheld with max_s' |i(s',x)| attained at s.
        excluded: those of them where no record of x has s: the log-lift is -inf, whatever epsilon is.
        mass: P of the `symbols`.
        records: of s; None without counts.
        share_without: P of what would be released without s: by the same epsilon if s were not looked at (merged into
            another class, say), by the same target for the records of the other private symbols.
        records_needed: of each x, for a record of s to be expected in it with the confidence although P(s|x) is as
            small as epsilon (or the target) allows: below that, empty cells are no evidence about the population. None
            where epsilon is infinite or P(s) is zero.
        others: how many other private symbols have mass.
    """

    private: int
    symbols: int
    excluded: int
    mass: float
    records: int | None
    share_without: float
    records_needed: int | None
    others: int

    @property
    def sentence(self) -> str:
        """The cause in words; symbols are named by their index."""
        records = "" if self.records is None else f", which has {_counted(self.records)}"
        empty = f"; {self.excluded} of them in none of its records" if self.excluded else ""
        symbols = "1 symbol" if self.symbols == 1 else f"{self.symbols} symbols"
        text = (
            f"withheld: {symbols}, {self.mass:.2%} of the mass, because of private symbol {self.private} "
            f"(from 0){records}{empty}. "
        )
        if self.others < 2:  # merged into the other one, nothing private would be left
            return text + "A larger limit is needed, or coarser classes of the useful columns."
        text += f"Without that private symbol {self.share_without:.2%} of the mass would be released"
        if not self.share_without > 0:
            return text + ": the others withhold the same."
        text += ": merge it with another class"
        if self.excluded and self.records_needed is not None:
            text += (
                f", or take more records (an empty cell is evidence from {self.records_needed} records of a useful "
                "symbol on)"
            )
        return text + "."


def _counted(records: int) -> str:
    return "1 record" if records == 1 else f"{records} records"


def explain(
    watchdog: Watchdog,
    *,
    counts: ArrayLike | None = None,
    confidence: float = 0.95,
    target_leakage: float | None = None,
) -> tuple[Cause, ...]:
    """The causes of what is withheld, those with the largest mass first; empty if nothing with mass is.

    A score is the largest |ln P(s|x)/P(s)| over s: one rare private class withholds every x that none of its records
    has.

    Args:
        watchdog: what `watchdog` returned.
        counts: (S, X) records that the joint was counted from.
        confidence: of `records_needed`: ln(1 / (1 - confidence)) / (P(s) e^-epsilon) records of x.
        target_leakage: the target, if the watchdog was designed for one. Its epsilon is then a result: where nothing
            meets the target it is 0, and no symbol would be released by it without s either. The largest
            epsilon that a target allows is the target itself.

    Raises `InputError` for counts of another shape, a confidence outside of (0, 1) or a negative target.
    """
    level = failure(confidence, "confidence")
    most = watchdog.epsilon
    if target_leakage is not None:
        most = scalar(target_leakage, "target_leakage", low=0.0, infinite=True)
    joint = watchdog.joint
    if counts is not None and np.shape(counts) != joint.shape:
        raise InputError(f"counts has shape {np.shape(counts)}, the joint {joint.shape}")
    size = np.nan_to_num(np.abs(log_lift_of(joint)), nan=-1.0, posinf=np.inf)
    mass, prior = joint.sum(axis=0), joint.sum(axis=1)
    withheld = ~watchdog.released & (mass > 0)
    if not withheld.any():
        return ()
    worst = size.max(axis=0)
    causes = []
    for s in np.flatnonzero(prior > 0).tolist():
        caused = withheld & (size[s] == worst)
        if not caused.any():
            continue
        if target_leakage is None:
            without = (np.delete(size, s, axis=0).max(axis=0, initial=-1.0) <= most) & (mass > 0)
        else:
            without = _released_without(joint, s, most) & (mass > 0)
        causes.append(
            Cause(
                private=s,
                symbols=int(caused.sum()),
                excluded=int((caused & np.isinf(size[s])).sum()),
                mass=float(mass[caused].sum()),
                records=None if counts is None else int(np.asarray(counts)[s].sum()),
                share_without=min(float(mass[without].sum()), 1.0),
                records_needed=_needed(float(prior[s]), most, level),
                others=int(np.count_nonzero(prior > 0)) - 1,
            )
        )
    return tuple(sorted(causes, key=lambda cause: (-cause.mass, cause.private)))


def _released_without(joint: np.ndarray, s: int, target: float) -> np.ndarray:
    """What the target releases (X,) bool of the records of the other private symbols."""
    rest = np.delete(joint, s, axis=0)
    if np.count_nonzero(rest.any(axis=1)) < 2:  # one private symbol is no secret
        return np.ones(joint.shape[1], dtype=bool)
    return watchdog(rest / rest.sum(), target_leakage=target).released


def _needed(prior: float, epsilon: float, level: float) -> int | None:
    if math.isinf(epsilon):
        return None
    least = math.log(1.0 / (1.0 - level)) / prior * math.exp(min(epsilon, 700.0))
    return math.ceil(least) if least < 2.0**62 else None
