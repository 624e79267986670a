"""Vertices of { q in simplex : T q within the limits }, T = P(S|X), by counting out their bases.

A vertex with m symbols in its support is the solution of m equations in those symbols: sum q = 1 and
m - 1 limits that hold with equality. So m <= |S|, and the work is sum_m C(|X|, m) C(|S|, m-1) 2^(m-1)
small systems: polynomial in |X| for the few private symbols one usually has. For a ratio limit the
largest lift is one more unknown, tied by one more equation.
"""

import itertools
import math

import numpy as np

from jaxpriv._clock import ENDLESS, Clock
from jaxpriv.errors import ResourceError

MOST_BASES = 2_000_000
_ROUNDING = 1e-11
_CHUNK = 50_000


def count_bases(private: int, useful: int, extra: int) -> int:
    """How many systems `posteriors` solves; `extra` = 0 for lift bounds, 1 for a ratio."""
    return sum(
        math.comb(useful, m) * math.comb(private, m - 1 + extra) * 2 ** (m - 1 + extra)
        for m in range(1, min(private, useful) + 1)
    )


def posteriors(
    relative: np.ndarray, low: float, high: float, ratio: float | None = None, clock: Clock = ENDLESS
) -> np.ndarray:
    """All vertices q (n, X), and possibly some other points of the polytope; only some once the clock has expired.

    relative[s, x] = P(s|x)/P(s), so relative @ q is the lift of S. The limits are low <= lift <= high,
    or lift_s <= ratio * lift_s' if `ratio` is given.

    Raises `ResourceError` if there are more than two million bases.
    """
    private, useful = relative.shape
    extra = 0 if ratio is None else 1
    bases = count_bases(private, useful, extra)
    if bases > MOST_BASES:
        raise ResourceError(
            f"{bases:.1e} bases of the posterior polytope ({private} private, {useful} useful symbols) are more than "
            f"{MOST_BASES}: merge symbols of S or of X, or ask for a limit on X itself (a one-dimensional source)"
        )
    sides = [(0.0, low), (0.0, high)] if ratio is None else [(1.0 / ratio, 0.0), (1.0, 0.0)]
    # A lower bound of zero follows from q >= 0, an infinite upper bound from nothing.
    sides = [side for side in dict.fromkeys(sides) if side != (0.0, 0.0) and math.isfinite(side[1])]
    found = [np.zeros((0, useful))]
    for m in range(1, min(private, useful) + 1):
        supports = np.array(list(itertools.combinations(range(useful), m)))
        for active in itertools.combinations(range(private), m - 1 + extra):
            for choice in itertools.product(sides, repeat=len(active)):
                for first in range(0, len(supports) if not clock.expired() else 0, _CHUNK):
                    part = supports[first : first + _CHUNK]
                    q = _basic(relative, part, np.array(active, dtype=np.int64), choice, extra)
                    found.append(q[_allowed(relative @ q.T, low, high, ratio)])
    every = np.vstack(found)
    every /= every.sum(axis=1, keepdims=True)
    return every[np.unique(every.round(10), axis=0, return_index=True)[1]]


def _basic(relative: np.ndarray, supports: np.ndarray, active: np.ndarray, choice: tuple, extra: int) -> np.ndarray:
    """The non-negative basic solutions (n, X) of one set of active limits, for every support."""
    number, m = supports.shape
    size = m + extra
    system = np.zeros((number, size, size))
    system[:, 0, :m] = 1.0
    right = np.zeros((number, size, 1))
    right[:, 0] = 1.0
    for row, (s, (slope, bound)) in enumerate(zip(active, choice, strict=True), start=1):
        system[:, row, :m] = relative[s][supports]
        if extra:  # lift_s = slope * (largest lift)
            system[:, row, m] = -slope
        right[:, row] = bound
    scale = np.abs(system).max(axis=2, keepdims=True)
    scale = np.where(scale > 0, scale, 1.0)
    system, right = system / scale, right / scale
    regular = np.abs(np.linalg.det(system)) > 1e-13
    solution = np.linalg.solve(system[regular], right[regular])[:, :, 0]
    inside = np.all(solution >= -_ROUNDING, axis=1)
    q = np.zeros((int(inside.sum()), relative.shape[1]))
    np.put_along_axis(q, supports[regular][inside], np.maximum(solution[inside, :m], 0.0), axis=1)
    return q


def _allowed(lifts: np.ndarray, low: float, high: float, ratio: float | None) -> np.ndarray:
    """Which columns of `lifts` (S, n) meet the limits up to rounding; a point too many costs nothing but time."""
    least, most = lifts.min(axis=0), lifts.max(axis=0)
    if ratio is not None:
        return most <= ratio * (least * (1 + _ROUNDING) + _ROUNDING)
    return (least >= low * (1 - _ROUNDING) - _ROUNDING) & (most <= high * (1 + _ROUNDING))
