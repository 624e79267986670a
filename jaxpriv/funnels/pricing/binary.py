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

from jaxpriv._clock import ENDLESS, Clock
from jaxpriv.funnels.pricing._base import AbstractPricer, Priced

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
        one, other = self._mixed(pairs, w, rest)
        first, second = self._first[pairs], self._second[pairs]
        values = -binary_entropy(one, other) + lam * binary_entropy(w, rest) - rest * prices[first] - w * prices[second]
        logit = np.abs(self._difference[pairs] * np.log(one / other)) + lam * np.abs(odds) + np.abs(rise)
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
        one, other = self._mixed(pairs, *_sigmoid(odds))
        return self._difference[pairs] * np.log(one / other) - lam * odds

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
            one, other = self._mixed(here, w, rest)
            excess = self._difference[here] * np.log(one / other) - lam * at - rise[todo]
            low[todo] = np.where(excess < 0, at, low[todo])
            high[todo] = np.where(excess > 0, at, high[todo])
            change = self._difference[here] ** 2 * (w * rest) / (one * other) - lam
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                guess = at - excess / change
            inside = (guess > low[todo]) & (guess < high[todo])
            following = np.where(inside, guess, 0.5 * (low[todo] + high[todo]))
            flat = (np.abs(excess) <= _FLAT) | (following == at)
            odds[todo] = np.where(flat, at, following)
            todo = todo[~flat]
        return odds


def binary_entropy(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """h in nats of (one, other), which add up to one."""
    return -(_xlogx(one) + _xlogx(other))


def _xlogx(x: np.ndarray) -> np.ndarray:
    return x * np.log(np.where(x > 0, x, 1.0))


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
# With r = P(s = 1) of the atom held fixed, lambda H(q) - nu.q is concave in q on { t.q = r }, so its maximum V(r) is
# concave and has the dual (theta the price of t.q = r)
#
#     V(r) = min_theta lambda A(theta) + theta r,     A(theta) = ln sum_x exp( -(nu_x + theta t_x)/lambda ),
#
# attained by q proportional to exp(-(nu + theta t)/lambda). What is wanted is max_r -h(r) + V(r), the sum of a convex
# and a concave function. Between two neighbouring points of a grid the first is below its chord, the second below every
# tangent: mixing the two tangents so that the sum with the chord is level bounds the maximum there, with an error of
# second order in the distance. Only intervals that could hold the maximum are split.


# The grid of theta/lambda to begin with.
_GRID = np.sinh(np.linspace(-9.0, 9.0, 145))
# Where theta ends: a maximum has theta = -logit(r), and no float64 r in (0, 1) has a logit beyond 745.
_END = 1e3
# Intervals whose bound is this much above the best value are split.
_TOLERANCE = 1e-11
# Rounds of splitting, each of which halves every such interval: bounds are valid after any of them.
_SPLITS = 60
# e^-700 is the smallest weight in use.
_FAR_FROM_TANGENT = 700.0


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
        # The tangents are followed over differences of r, which are known to eps: that is theta eps of value.
        slack = _EPS * (64 * size + 8 * (lam * float(_GRID[-1]) + _END))
        ends = -binary_entropy(self._one, self._other) - prices
        pure = np.argsort(-ends, kind="stable")[:1]
        if lam < _EPS * size:  # lambda H(q) is rounding, the rest is convex: a symbol alone
            order = np.argsort(-ends, kind="stable")[:count]
            above = lam * np.log(len(prices))
            return Priced(float(ends[order[0]]) + above + slack, True, np.eye(len(prices))[order])
        grid = _Grid(self, prices, lam)
        best, bound = grid.search(_TOLERANCE * size, clock)
        # Each local maximum is one atom; the ends of the grid are as good as the ends of the range of r.
        values = grid.values
        padded = np.concatenate([[-np.inf], values, [-np.inf]])
        peaks = np.flatnonzero((values >= padded[:-2]) & (values > padded[2:]))
        peaks = peaks[np.argsort(-values[peaks], kind="stable")][: max(1, count - 1)]
        atoms = np.vstack([grid.atoms(grid.theta[peaks]), np.eye(len(prices))[pure]])
        merit = np.concatenate([values[peaks], ends[pure]])
        order = np.argsort(-merit, kind="stable")[:count]
        return Priced(max(bound, best, float(ends[pure[0]])) + slack, not clock.expired(), atoms[order])


class _Grid:
    """Points theta (descending r) with r, -h(r), V(r), and bounds between neighbours."""

    def __init__(self, pricer: BinaryBottleneckPricer, prices: np.ndarray, lam: float):
        self._one, self._other, self._prices, self._lam = pricer._one, pricer._other, prices, lam
        self.theta = np.empty(0)
        self._columns = np.empty((3, 0))  # r, V, -h
        self._add(lam * _GRID)

    @property
    def values(self) -> np.ndarray:
        """-h(r) + V(r)."""
        return self._columns[1] + self._columns[2]

    def atoms(self, theta: np.ndarray) -> np.ndarray:
        """q proportional to exp(-(nu + theta t)/lambda), shape (n, X)."""
        weights = np.exp(self._exponent(theta))
        return weights / weights.sum(axis=1, keepdims=True)

    def _exponent(self, theta: np.ndarray) -> np.ndarray:
        """-(nu + theta t)/lambda above its largest entry, the difference formed in nu and t first."""
        top = np.argmax(-(self._prices + theta[:, None] * self._one), axis=1)
        apart = (self._prices - self._prices[top][:, None]) + theta[:, None] * (self._one - self._one[top][:, None])
        return np.maximum(-apart / self._lam, -_FAR_FROM_TANGENT)

    def search(self, tolerance: float, clock: Clock) -> tuple[float, float]:
        """(largest value seen, bound on all values), refined until they agree to `tolerance` or the grid is used up."""
        bound = np.inf
        for _ in range(_SPLITS):
            best = float(self.values.max())
            upper = self._bounds()
            bound = float(upper.max())
            split = np.flatnonzero(upper > best + tolerance)
            if not len(split) or clock.expired():
                break
            theta = self.theta
            inner = 0.5 * (theta[:-1] + theta[1:])
            fresh = np.concatenate([[2 * theta[0] - self._lam], inner, [2 * theta[-1] + self._lam]])[split]
            nearest = theta[np.minimum(np.searchsorted(theta, fresh), len(theta) - 1)]
            fresh = fresh[(fresh != nearest) & (np.abs(fresh) <= _END)]
            if not len(fresh):
                break
            self._add(fresh)
        return float(self.values.max()), bound

    def _add(self, theta: np.ndarray) -> None:
        exponent = self._exponent(theta)
        weights = np.exp(exponent)
        total = weights.sum(axis=1)
        weights /= total[:, None]
        one, other = weights @ self._one, weights @ self._other
        # lambda H(q) - nu.q, not lambda A + theta r, which would cancel where theta is large.
        inner = self._lam * (np.log(total) - (weights * exponent).sum(axis=1)) - weights @ self._prices
        columns = np.stack([one, inner, -binary_entropy(one, other)])
        self.theta = np.concatenate([self.theta, theta])
        self._columns = np.hstack([self._columns, columns])
        order = np.argsort(self.theta, kind="stable")
        self.theta, self._columns = self.theta[order], self._columns[:, order]

    def _bounds(self) -> np.ndarray:
        """Upper bounds: beyond the first point, between neighbours, beyond the last one; shape (n + 1,)."""
        theta = self.theta
        one, inner, outer = self._columns
        # theta rises, so r falls: the interval k has its upper end at point k and its lower end at k + 1.
        high, low = one[:-1], one[1:]
        width = high - low
        with np.errstate(divide="ignore", invalid="ignore"):
            chord = np.where(width > 0, (outer[:-1] - outer[1:]) / np.where(width > 0, width, 1.0), 0.0)
            share = np.clip((-chord - theta[1:]) / (theta[:-1] - theta[1:]), 0.0, 1.0)  # of the tangent at point k
        share = np.where(width > 0, share, 0.5)
        at_high = outer[:-1] + share * inner[:-1] + (1 - share) * (inner[1:] + theta[1:] * width)
        at_low = outer[1:] + (1 - share) * inner[1:] + share * (inner[:-1] - theta[:-1] * width)
        between = np.maximum(at_high, at_low)

        values = inner + outer
        outermost = [int(np.argmax(self._one)), int(np.argmin(self._one))]
        edges = self._one[outermost]
        tangents = inner[[0, -1]] + theta[[0, -1]] * (edges - one[[0, -1]])
        ends = np.maximum(tangents - binary_entropy(edges, self._other[outermost]), values[[0, -1]])
        return np.concatenate([ends[:1], between, ends[1:]])
