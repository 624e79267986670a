"""Vertices of { q in simplex : T q within the limits }, T = P(S|X), by counting out their bases.

A vertex with m symbols in its support is the solution of m equations in those symbols: sum q = 1 and m - 1 limits
that hold with equality. So m <= |S|, and the work is sum_m C(|X|, m) C(|S|, m-1) 2^(m-1) small systems (one in place
of 2 for bounds on one side): polynomial in |X| for the few private symbols one usually has. For a ratio limit the
largest lift is one more unknown, tied by one more equation.
"""

import itertools
import math

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv.errors import ResourceError
from jaxpriv.extremal.sampled import MOST_BASES, solved_systems

# How far below 0 an entry, and how far (relative) beyond a limit a lift, may be to be kept: rounding of systems with
# determinants down to 1e-13. A point that is kept wrongly costs time only.
_ROUNDING = 1e-11
# Systems that are solved at once: 40 MB for ten unknowns.
_CHUNK = 50_000


def posteriors(
    given: np.ndarray,
    source: np.ndarray,
    low: float,
    high: float,
    ratio: float | None = None,
    clock: Clock = ENDLESS,
    most: int | None = None,
) -> np.ndarray:
    """The lifts t = q/p (n, X) of all vertices q, and possibly of some other points of the polytope; only some once the
    clock has expired.

    given[s, x] = P(x|s), so given @ t is the lift of S, and `source` (X,) is p. The limits are low <= lift <= high,
    or lift_s <= ratio * lift_s' if `ratio` is given. `most` is the most symbols that a vertex has in its support, |S|
    by default: the rank of (source, given).

    Raises `ResourceError` if there are more than two million bases.
    """
    private, useful = given.shape
    extra = 0 if ratio is None else 1
    sides = [(0.0, low), (0.0, high)] if ratio is None else [(1.0 / ratio, 0.0), (1.0, 0.0)]
    # A lower bound of zero follows from q >= 0, an infinite upper bound from nothing.
    sides = [side for side in dict.fromkeys(sides) if side != (0.0, 0.0) and math.isfinite(side[1])]
    largest = min(private if most is None else most, useful)
    bases = sum(
        math.comb(useful, m) * math.comb(private, m - 1 + extra) * len(sides) ** (m - 1 + extra)
        for m in range(1, largest + 1)
    )
    if bases > MOST_BASES:
        raise ResourceError(
            f"{bases:.1e} bases of the posterior polytope ({private} private, {useful} useful symbols) are more than "
            f"{MOST_BASES}: merge symbols of S or of X, or ask for a limit on X itself (a one-dimensional source)"
        )
    vertices = [np.zeros((0, useful))]
    for m in range(1, largest + 1):
        supports = np.array(list(itertools.combinations(range(useful), m)))
        for active in itertools.combinations(range(private), m - 1 + extra):
            for choice in itertools.product(sides, repeat=len(active)):
                for first in range(0, len(supports) if not clock.expired() else 0, _CHUNK):
                    part = supports[first : first + _CHUNK]
                    lifts = _basic(given, source, part, np.array(active, dtype=np.int64), choice, extra)
                    vertices.append(lifts[_allowed(given @ lifts.T, low, high, ratio)])
    every = np.vstack(vertices)
    every /= (every @ source)[:, None]
    # Lifts and not posteriors: of a rare symbol these are all the same to so many decimals.
    return every[np.unique(every.round(11), axis=0, return_index=True)[1]]


def _basic(
    given: np.ndarray, source: np.ndarray, supports: np.ndarray, active: np.ndarray, choice: tuple, extra: int
) -> np.ndarray:
    """The non-negative basic solutions (n, X) of one set of active limits, for every support."""
    number, m = supports.shape
    size = m + extra
    system = np.zeros((number, size, size))
    system[:, 0, :m] = source[supports]
    right = np.zeros((size, 1))
    right[0] = 1.0
    for row, (s, (slope, bound)) in enumerate(zip(active, choice, strict=True), start=1):
        system[:, row, :m] = given[s][supports]
        if extra:  # lift_s = slope * (largest lift)
            system[:, row, m] = -slope
        right[row] = bound
    regular, solution = solved_systems(system, right)
    supports, solution = supports[regular], solution[:, :m]
    inside = np.all(solution * source[supports] >= -_ROUNDING, axis=1)
    lifts = np.zeros((int(inside.sum()), len(source)))
    np.put_along_axis(lifts, supports[inside], np.maximum(solution[inside], 0.0), axis=1)
    return lifts


def _allowed(lifts: np.ndarray, low: float, high: float, ratio: float | None) -> np.ndarray:
    """Which columns of `lifts` (S, n) meet the limits up to rounding; a point too many costs nothing but time."""
    least, most = lifts.min(axis=0, initial=math.inf), lifts.max(axis=0, initial=0.0)
    if ratio is not None:
        return most <= ratio * (least * (1 + _ROUNDING) + _ROUNDING)
    return (least >= low * (1 - _ROUNDING) - _ROUNDING) & (most <= high * (1 + _ROUNDING))
