"""Extremal posteriors under limits that bound the largest and the smallest lift together with all others.

The lifts t of an allowed posterior, with M and m, are a cone { a_k.t + alpha_k M - beta_k m <= 0, 0 <= m <= t <= M }.
An extreme ray of it has every symbol at M, at m, or free, with one of the K limits tight for each free symbol and one
more, or m = 0 in its place. All of these are counted out.
"""

import itertools
import math

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv.errors import ResourceError

# How far beyond a limit, relative to M, a ray may be by rounding to be kept: one too many costs time only.
_ROUNDING = 1e-10
# Systems of equations that are solved at most: so many of ten unknowns take some seconds.
MOST_BASES = 2_000_000


def rays(source: np.ndarray, limits: np.ndarray, clock: Clock = ENDLESS) -> np.ndarray:
    """The lifts (n, X) of all extreme posteriors, and possibly of some others within the limits (K, X + 2).

    `source` (X,) is P(X), positive. Only some once the clock has expired. Raises `ResourceError` for more than two
    million bases.
    """
    size, count = len(source), len(limits)
    most = min(count, size)
    bases = sum(math.comb(size, free) * 2 ** (size - free) * math.comb(count + 1, free + 1) for free in range(most + 1))
    if bases > MOST_BASES:
        raise ResourceError(
            f"{bases:.1e} bases of the posterior polytope ({size} symbols, {count} limits) are more than {MOST_BASES}: "
            "merge symbols, or design for a distortion"
        )
    # The limits, m = 0, and the mean of the lifts, which is 1, in terms of t, M and -m.
    every = np.vstack([limits, np.eye(size + 2)[-1:], np.append(source, [0.0, 0.0])])
    candidates = [np.ones((1, size))]
    for free in range(most + 1):
        for chosen in itertools.combinations(range(size), free):
            if clock.expired():
                break
            others = np.setdiff1d(np.arange(size), chosen)
            top = np.array(list(itertools.product((True, False), repeat=len(others))), dtype=bool)
            # Columns: free symbols, M, m.
            system = np.empty((len(top), len(every), free + 2))
            system[:, :, :free] = every[:, list(chosen)]
            system[:, :, free] = top @ every[:, others].T + every[:, size]
            system[:, :, free + 1] = ~top @ every[:, others].T - every[:, size + 1]
            for tight in itertools.combinations(range(count + 1), free + 1):
                regular, solution = solved_systems(system[:, [*tight, -1]], np.eye(free + 2)[:, -1:])
                lifts = np.empty((len(solution), size))
                lifts[:, list(chosen)] = solution[:, :free]
                lifts[:, others] = np.where(top[regular], solution[:, free, None], solution[:, free + 1, None])
                candidates.append(lifts[_within(lifts, limits)])
    every = np.maximum(np.vstack(candidates), 0.0)
    every /= (every @ source)[:, None]
    return every[np.unique(every.round(10), axis=0, return_index=True)[1]]


def solved_systems(systems: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of the systems (n, k, k) are regular up to rounding, (n,), and the solutions of these for `right` (k, 1).

    Rows and columns have a size of 1 before: those of rare symbols and of limits next to 0 are small.
    """
    rows = _sizes(systems, 2)
    units = _sizes(systems / rows, 1)
    scaled = systems / rows / units
    regular = abs(np.linalg.det(scaled)) > 1e-13
    return regular, np.linalg.solve(scaled[regular], (right / rows)[regular])[:, :, 0] / units[regular, 0]


def _sizes(systems: np.ndarray, axis: int) -> np.ndarray:
    """The largest modulus along an axis, 1 where all are 0."""
    sizes = abs(systems).max(axis=axis, keepdims=True)
    return np.where(sizes > 0, sizes, 1.0)


def _within(lifts: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Which lifts (n, X) meet the limits up to rounding."""
    most, least = lifts.max(axis=1), lifts.min(axis=1)
    extended = np.column_stack([lifts, most, -least])
    return (least >= -_ROUNDING * most) & ((extended @ limits.T).max(axis=1) <= _ROUNDING * most)
