"""Funnel pricing for a binary S, exact: one scalar minimisation for every pair of useful symbols.

Some best atom mixes at most two symbols (with r = Tq held fixed the objective is concave in q, so a vertex of
{ q >= 0 : Tq = r } is as good). For the pair i, j with t = P(s = 1 | x), D = t_j - t_i, r = t_i + D w, the price of
(1 - w) e_i + w e_j is

    f(w) = -h(r) + lambda h(w) - (1 - w) nu_i - w nu_j,      0 <= w <= 1,
    f''(w) = D^2/(r(1 - r)) - lambda/(w(1 - w)).

f'' > 0 where D^2 w(1 - w) > lambda r(1 - r). Both sides are quadratic in w, and for lambda < 1 their difference is
concave: f is convex on ONE interval [w1, w2] between the roots, and concave on both sides of it. So the minimum is at
w = 0, at w = 1, or at the one stationary point inside, where

    D logit(r) - lambda logit(w) = nu_j - nu_i.

On the concave parts the chord, on the convex part the tangent at what Newton's method found bound f from below: a
rigorous minimum for every pair without any subdivision. Rounding: the sign of f'' is misjudged only where its two
terms agree to a few eps, which moves f by a few eps times lambda h(w); the rest is the error of the sums.
"""

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv.funnels.pricing._base import AbstractPricer, Priced, softmax, xlogx

_EPS = float(np.finfo(np.float64).eps)
# Newton steps in the log-odds of w; bisection takes over where they leave the bracket.
_STEPS = 60
# The log-odds of the smallest weight that float64 distinguishes from 0.
_MOST_LOG_ODDS = 500.0
# A stationary point is found when the slope times the width of the interval is below this.
_FLAT = 1e-15
# h(r) moves by less than 1e-15 where r moves by less than this.
_SAME = 1e-18


class BinaryFunnelPricer(AbstractPricer):
    """min_q -H(Tq) + lambda H(q) - nu.q for T = `conditional` (2, X), over all pairs at once."""

    def __init__(self, conditional: np.ndarray):
        if conditional.shape[0] != 2:
            raise ValueError("this pricer is for a binary S")
        self._one, self._other = conditional[1], conditional[0]
        first, second = np.triu_indices(conditional.shape[1], 1)
        difference = self._one[second] - self._one[first]
        # Symbols with (nearly) the same P(S|x): h(r) moves by rounding only, the rest of f is concave.
        apart = np.abs(difference) > _SAME
        self._first, self._second, self._difference = first[apart], second[apart], difference[apart]
        # What depends on neither lambda nor nu is kept.
        self._low = self._one[self._first] * self._other[self._first] / self._difference**2
        self._high = self._one[self._second] * self._other[self._second] / self._difference**2
        self._tilt_low = (self._other[self._first] - self._one[self._first]) / self._difference
        self._tilt_high = (self._other[self._second] - self._one[self._second]) / self._difference
        self._ends = -binary_entropy(self._one, self._other)

    def price(
        self, prices: np.ndarray, lam: float, count: int, clock: Clock = ENDLESS, aim: float | None = None
    ) -> Priced:
        if not 0 <= lam < 1:
            raise ValueError("the funnel is priced for 0 <= lambda < 1")
        size = len(prices)
        ends = self._ends - prices
        pairs, weights, values, lower = self._interior(prices, lam, clock)
        slack = 64 * _EPS * (2.0 + float(np.abs(prices).max()))
        bound = min(float(ends.min()), float(lower.min(initial=np.inf))) - slack

        first, second = self._first[pairs], self._second[pairs]
        good = np.flatnonzero(values < np.minimum(ends[first], ends[second]))
        chosen = good[_spread(first[good], second[good], values[good], size, count)]
        pure = np.argsort(ends, kind="stable")[: max(1, count - len(chosen))]
        posteriors = np.zeros((len(chosen) + len(pure), size))
        row = np.arange(len(chosen))
        posteriors[row, first[chosen]] = 1.0 - weights[chosen]
        posteriors[row, second[chosen]] = weights[chosen]
        posteriors[len(chosen) + np.arange(len(pure)), pure] = 1.0
        order = np.argsort(np.concatenate([values[chosen], ends[pure]]), kind="stable")
        return Priced(bound, not clock.expired(), posteriors[order[:count]])

    def _interior(
        self, prices: np.ndarray, lam: float, clock: Clock
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(pairs, w, f, lower bound on f over the convex interval) for pairs with a stationary minimum inside."""
        curve = 1.0 - lam
        linear = 1.0 - lam * self._tilt_low
        discriminant = linear**2 - 4 * curve * lam * self._low
        # Touching parabolas count as none: f is then concave but for a few eps.
        open_ = np.flatnonzero((discriminant > 0) & (linear > 0) & (linear < 2 * curve))
        root = np.sqrt(discriminant[open_])
        near = linear[open_] + root  # w1 = 2 C/near, w2 = near/(2 curve); from the other end likewise
        far = 1.0 + lam * self._tilt_high[open_] + root
        begin = _log_odds(2 * lam * self._low[open_] / near, far / (2 * curve))
        end = _log_odds(near / (2 * curve), 2 * lam * self._high[open_] / far)
        rise = (prices[self._second] - prices[self._first])[open_]
        tilt_begin, tilt_end = self._slope(open_, begin, lam), self._slope(open_, end, lam)
        inside = np.flatnonzero((tilt_begin < rise) & (rise < tilt_end))
        pairs, begin, end, rise = open_[inside], begin[inside], end[inside], rise[inside]
        odds = self._stationary(pairs, begin, end, rise, lam, clock)
        w, rest = _sigmoid(odds)
        r, complement = self._mixed(pairs, w, rest)
        first, second = self._first[pairs], self._second[pairs]
        values = (
            -binary_entropy(r, complement) + lam * binary_entropy(w, rest) - rest * prices[first] - w * prices[second]
        )
        logit = np.abs(self._difference[pairs] * np.log(r / complement)) + lam * np.abs(odds) + np.abs(rise)
        slope = self._slope(pairs, odds, lam) - rise
        error = np.abs(slope) + 16 * _EPS * logit
        left, right = w - _sigmoid(begin)[0], _sigmoid(end)[0] - w
        return pairs, w, values, values - error * np.maximum(np.maximum(left, right), 0.0)

    def _mixed(self, pairs: np.ndarray, w: np.ndarray, rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, second = self._first[pairs], self._second[pairs]
        return (
            self._one[first] * rest + self._one[second] * w,
            self._other[first] * rest + self._other[second] * w,
        )

    def _slope(self, pairs: np.ndarray, odds: np.ndarray, lam: float) -> np.ndarray:
        """D logit(r) - lambda logit(w), which rises over the convex interval."""
        r, complement = self._mixed(pairs, *_sigmoid(odds))
        return self._difference[pairs] * np.log(r / complement) - lam * odds

    def _stationary(
        self, pairs: np.ndarray, begin: np.ndarray, end: np.ndarray, rise: np.ndarray, lam: float, clock: Clock
    ) -> np.ndarray:
        """The log-odds of w where f' = 0, by Newton's method inside the bracket (a tangent at any w bounds f)."""
        odds = 0.5 * (begin + end)
        todo = np.arange(len(pairs))
        low, high = begin.copy(), end.copy()
        for _ in range(_STEPS):
            if not len(todo) or clock.expired():
                break
            at, here = odds[todo], pairs[todo]
            w, rest = _sigmoid(at)
            r, complement = self._mixed(here, w, rest)
            excess = self._difference[here] * np.log(r / complement) - lam * at - rise[todo]
            low[todo] = np.where(excess < 0, at, low[todo])
            high[todo] = np.where(excess > 0, at, high[todo])
            change = self._difference[here] ** 2 * (w * rest) / (r * complement) - lam
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                guess = at - excess / change
            inside = (guess > low[todo]) & (guess < high[todo])
            following = np.where(inside, guess, 0.5 * (low[todo] + high[todo]))
            flat = (np.abs(excess) <= _FLAT) | (following == at)
            odds[todo] = np.where(flat, at, following)
            todo = todo[~flat]
        return odds


def binary_entropy(r: np.ndarray, complement: np.ndarray) -> np.ndarray:
    """h in nats of (`r`, `complement`), which add up to one."""
    return -(xlogx(r) + xlogx(complement))


def _sigmoid(odds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(w, 1 - w), both with small relative error."""
    small = np.exp(-np.abs(odds))
    large = 1.0 / (1.0 + small)
    small = small * large
    return np.where(odds > 0, large, small), np.where(odds > 0, small, large)


def _log_odds(w: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """ln(w/(1 - w)), cut at +-500."""
    with np.errstate(divide="ignore"):
        return np.clip(np.log(w) - np.log(rest), -_MOST_LOG_ODDS, _MOST_LOG_ODDS)


def _spread(first: np.ndarray, second: np.ndarray, values: np.ndarray, size: int, count: int) -> np.ndarray:
    """At most `count` pairs, best first: the best ones of every symbol before anything else."""
    order = np.argsort(values, kind="stable")
    rank = np.empty(len(values), dtype=int)
    rank[order] = np.arange(len(values))
    best = np.full((2, size), len(values))
    np.minimum.at(best[0], first, rank)
    np.minimum.at(best[1], second, rank)
    leading = np.unique(best[best < len(values)])
    rest = np.setdiff1d(np.arange(min(len(values), count)), leading, assume_unique=True)
    return order[np.concatenate([leading, rest])[:count]]


# Bottleneck pricing for a binary S, exact: a search over one scalar.
#
# -H(Tq) = max_r (Tq).ln r, the maximum over distributions r on S. So the maximum over q comes first, and with s the
# log-odds of r, t_x = P(s = 1 | x), it is that over one number of
#
#     L(s) = K(s) - ln(1 + e^s),     K(s) = lambda ln sum_x exp( (t_x s - nu_x)/lambda ),
#
# a convex function less a convex function, attained by q proportional to exp( (t s - nu)/lambda ), K' = t.q. Beyond the
# log-odds of the extreme t_x it falls. Between two points of a grid
#
# 1. K is below its chord and ln(1 + e^s) above its tangents: mixing the two so that the sum is level bounds L, with an
#    error of second order in the distance.
# 2. K'' = Var_q(t)/lambda changes by a factor of at most exp( (max t - min t) |ds|/lambda ), because a third cumulant
#    is at most the range times the variance. Where that shows that L is concave its own two tangents bound L, mixed in
#    the same way: the bound is tight as soon as one of the points is a maximum.
#
# Only intervals that could hold the maximum are split.


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
    odds = _log_odds(t, complement)
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
        r, complement = _sigmoid(odds)
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
