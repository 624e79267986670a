"""Is a release about the population of the fit?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.counts import count_array, failure
from jaxpriv.errors import InputError
from jaxpriv.statistics.confidence import l1_radius


@dataclass(frozen=True)
class Drift:
    """The L1 distance of two samples' frequencies, what one population would explain, and whether it is exceeded."""

    distance: float
    allowed: float
    exceeded: bool


def drift(fitted: ArrayLike, released: ArrayLike, beta: float = 0.05) -> Drift:
    """Whether the useful symbols at release are from the population of the fit, by their counts (X,) each.

    |P^_fit - P^_release|_1 is at most the sum of the two radii with probability 1 - beta if they are; beyond it
    every guarantee was computed for another population. The test does not depend on P(s|x).

    Raises `InputError` for counts of different lengths and for counts that are all zero.
    """
    fit_counts, release_counts = count_array(fitted, "fitted", ndim=1), count_array(released, "released", ndim=1)
    beta = failure(beta)
    if fit_counts.shape != release_counts.shape:
        raise InputError(f"released has {release_counts.size} symbols, but fitted has {fit_counts.size}")
    for name, counts in (("fitted", fit_counts), ("released", release_counts)):
        if not counts.any():
            raise InputError(f"{name} has no counts")
    distance = float(np.abs(fit_counts / fit_counts.sum() - release_counts / release_counts.sum()).sum())
    allowed = sum(l1_radius(fit_counts.size, int(counts.sum()), beta / 2) for counts in (fit_counts, release_counts))
    return Drift(distance, min(2.0, allowed), distance > allowed)
