"""Bottleneck pricing for a binary S, exact: a search over one scalar.

-H(Tq) = max_r (Tq).ln r, the maximum over distributions r on S. So the maximum over q comes first, and with s the
log-odds of r, t_x = P(s = 1 | x), it is that over one number of

    L(s) = K(s) - ln(1 + e^s),     K(s) = lambda ln sum_x exp( (t_x s - nu_x)/lambda ),

a convex function less a convex function, attained by q proportional to exp( (t s - nu)/lambda ), K' = t.q. Beyond the
log-odds of the extreme t_x it falls. Between two points of a grid

1. K is below its chord and ln(1 + e^s) above its tangents: mixing the two so that the sum is level bounds L, with an
   error of second order in the distance.
2. K'' = Var_q(t)/lambda changes by a factor of at most exp( (max t - min t) |ds|/lambda ), because a third cumulant
   is at most the range times the variance. Where that shows that L is concave its own two tangents bound L, mixed in
   the same way: the bound is tight as soon as one of the points is a maximum.

Only intervals that could hold the maximum are split.
"""

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv.funnels.pricing._base import AbstractPricer, Priced, softmax
from jaxpriv.funnels.pricing.odds import binary_entropy, log_odds, sigmoid

_EPS = float(np.finfo(np.float64).eps)


# Points to begin with lie evenly in the angle 2 arcsin sqrt(r), in which a maximum has the width sqrt(lambda): so many
# in that width, in all at least and at most so many.
_IN_WIDTH, _LEAST_POINTS, _MOST_POINTS = 2.0, 24, 256
# Intervals whose bound is this much above the best value are split.
_TOLERANCE = 1e-11
# Rounds of splitting: bounds are valid after any of them.
_SPLITS = 60
# An interval is split where its two slopes put the maximum, unless that is nearer than this share to one end: then
# the slopes change too unevenly for that, and it is halved.
_INNER = 0.1
# Variances and their bounds are known to this: sums of up to some thousand positive numbers.
_KNOWN = 1e-9
# e^700 is nearly the largest float64.
_FAR = 700.0


class BinaryBottleneckPricer(AbstractPricer):
    """max_q -H(Tq) + lambda H(q) - nu.q for T = `conditional` (2, X)."""

    def __init__(self, conditional: np.ndarray):
        if conditional.shape[0] != 2:
            raise ValueError("this pricer is for a binary S")
        self._one, self._other = conditional[1], conditional[0]

    def price(
        self, prices: np.ndarray, lam: float, count: int, clock: Clock = ENDLESS, aim: float | None = None
    ) -> Priced:
        if not lam >= 0:
            raise ValueError("the bottleneck is priced for lambda >= 0")
        size = float(np.abs(prices).max()) + 2.0 + lam * np.log(len(prices))
        ends = -binary_entropy(self._one, self._other) - prices
        if lam < _EPS * size:  # lambda H(q) is rounding, the rest is convex: a symbol alone
            order = np.argsort(-ends, kind="stable")[:count]
            above = lam * np.log(len(prices))
            return Priced(float(ends[order[0]]) + above + 64 * _EPS * size, True, np.eye(len(prices))[order])
        points = angles(self._one, self._other, lam)
        # Sums of exponents, which hold terms of the size of s, and differences of such sums.
        slack = _EPS * (64 * size + (len(prices) + 64) * lam + 16 * float(np.abs(points).max()))
        grid = _Odds(self._one, self._other, prices, lam)
        bound = grid.search(points, _TOLERANCE * size, clock)
        # Each local maximum is one atom; symbols alone are the ends of the range of r.
        values = grid.values
        padded = np.concatenate([[-np.inf], values, [-np.inf]])
        peaks = np.flatnonzero((values >= padded[:-2]) & (values > padded[2:]))
        peaks = peaks[np.argsort(-values[peaks], kind="stable")][: max(1, count - 1)]
        pure = np.argsort(-ends, kind="stable")[:1]
        atoms = np.vstack([grid.atoms(grid.odds[peaks]), np.eye(len(prices))[pure]])
        merit = np.concatenate([values[peaks], ends[pure]])
        order = np.argsort(-merit, kind="stable")[:count]
        return Priced(max(bound, float(ends[pure[0]])) + slack, not clock.expired(), atoms[order])


def angles(t: np.ndarray, complement: np.ndarray, lam: float) -> np.ndarray:
    """Log-odds (n,), rising, from the least to the largest of P(s|x) = `t`, `complement` = 1 - `t`, both among them."""
    every = 2.0 * np.arctan2(np.sqrt(t), np.sqrt(complement))
    begin, end = float(every.min()), float(every.max())
    wanted = _IN_WIDTH * (end - begin) / np.sqrt(max(lam, _EPS))
    count = int(np.clip(np.ceil(wanted), _LEAST_POINTS, _MOST_POINTS))
    angle = 0.5 * np.linspace(begin, end, count)[1:-1]
    odds = log_odds(t, complement)
    inner = 2.0 * np.log(np.tan(angle))
    return np.unique(np.concatenate([[odds.min()], np.clip(inner, odds.min(), odds.max()), [odds.max()]]))


class _Odds:
    """Points s (rising) with K, K', K'' and ln(1 + e^s), r, r(1 - r), and bounds on L between neighbours."""

    def __init__(self, t: np.ndarray, complement: np.ndarray, prices: np.ndarray, lam: float):
        self._one, self._prices, self._lam = t, prices, lam
        self._range = float(t.max() - t.min())
        self.odds, self._columns = np.empty(0), np.empty((6, 0))

    @property
    def values(self) -> np.ndarray:
        """L."""
        return self._columns[0] - self._columns[3]

    def atoms(self, odds: np.ndarray) -> np.ndarray:
        """q proportional to exp( (t s - nu)/lambda ), shape (n, X)."""
        return self._energy(odds)[1]

    def _energy(self, odds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(K (n,), q (n, X))."""
        return softmax(odds[:, None] * self._one - self._prices, self._lam)

    def search(self, points: np.ndarray, tolerance: float, clock: Clock) -> float:
        """A bound on L everywhere, within the tolerance of the largest value seen unless the points are used up."""
        self._add(points)
        bound = np.inf
        for _ in range(_SPLITS):
            upper, fresh = self._bounds()
            best = float(self.values.max())
            # Beyond the last points L falls, or rises by less than e^-500.
            bound = max(best, float(upper.max(initial=-np.inf)))
            fresh = fresh[upper > best + tolerance]
            fresh = np.setdiff1d(fresh, self.odds)
            if not len(fresh) or clock.expired():
                break
            self._add(fresh)
        return bound

    def _add(self, odds: np.ndarray) -> None:
        inner, weights = self._energy(odds)
        mean = weights @ self._one
        spread = (weights * (self._one - mean[:, None]) ** 2).sum(axis=1) / self._lam
        r, complement = sigmoid(odds)
        outer = np.maximum(odds, 0.0) + np.log1p(np.exp(-np.abs(odds)))
        columns = np.stack([inner, mean, spread, outer, r, r * complement])
        odds, columns = np.concatenate([self.odds, odds]), np.hstack([self._columns, columns])
        order = np.argsort(odds, kind="stable")
        self.odds, self._columns = odds[order], columns[:, order]

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """(bounds on L between neighbours (n - 1,), where to split): tests 1 and 2."""
        width = np.diff(self.odds)
        inner, slope, curve, outer, r, bend = self._columns
        upper, _ = _level(inner, outer, r, width)
        grown = np.minimum(curve[:-1], curve[1:]) * np.exp(np.minimum(self._range * width / self._lam, _FAR))
        concave = grown * (1 + _KNOWN) <= np.minimum(bend[:-1], bend[1:]) * (1 - _KNOWN)
        other, at = _level(np.zeros_like(inner), -self.values, r - slope, width)
        upper = np.where(concave, np.minimum(upper, other), upper)
        inside = concave & (at > _INNER) & (at < 1 - _INNER)
        return upper, self.odds[:-1] + width * np.where(inside, at, 0.5)


def _level(inner: np.ndarray, outer: np.ndarray, slope: np.ndarray, width: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(bounds on A - G between neighbours (n - 1,), share): A is below its chords, G above its tangents.

    A = `inner`, G = `outer` and G' = `slope` at n points, `width` (n - 1,) apart. `share` of the second tangent makes
    chord less tangents level; any share gives a bound.
    """
    chord, steeper = np.diff(inner) / width, np.diff(slope)
    share = np.where(steeper > 0, (chord - slope[:-1]) / np.where(steeper > 0, steeper, 1.0), 0.5)
    share = np.clip(share, 0.0, 1.0)
    begin = inner[:-1] - (1 - share) * outer[:-1] - share * (outer[1:] - slope[1:] * width)
    end = inner[1:] - share * outer[1:] - (1 - share) * (outer[:-1] + slope[:-1] * width)
    return np.maximum(begin, end), share
