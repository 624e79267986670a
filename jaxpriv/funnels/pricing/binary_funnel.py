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
from jaxpriv.funnels.pricing._base import AbstractPricer, Priced
from jaxpriv.funnels.pricing.odds import binary_entropy, log_odds, sigmoid

_EPS = float(np.finfo(np.float64).eps)
# Newton steps in the log-odds of w; bisection takes over where they leave the bracket.
_STEPS = 60
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
        begin = log_odds(2 * lam * self._low[open_] / near, far / (2 * curve))
        end = log_odds(near / (2 * curve), 2 * lam * self._high[open_] / far)
        rise = (prices[self._second] - prices[self._first])[open_]
        tilt_begin, tilt_end = self._slope(open_, begin, lam), self._slope(open_, end, lam)
        inside = np.flatnonzero((tilt_begin < rise) & (rise < tilt_end))
        pairs, begin, end, rise = open_[inside], begin[inside], end[inside], rise[inside]
        odds = self._stationary(pairs, begin, end, rise, lam, clock)
        w, rest = sigmoid(odds)
        r, complement = self._mixed(pairs, w, rest)
        first, second = self._first[pairs], self._second[pairs]
        values = (
            -binary_entropy(r, complement) + lam * binary_entropy(w, rest) - rest * prices[first] - w * prices[second]
        )
        logit = np.abs(self._difference[pairs] * np.log(r / complement)) + lam * np.abs(odds) + np.abs(rise)
        slope = self._slope(pairs, odds, lam) - rise
        error = np.abs(slope) + 16 * _EPS * logit
        left, right = w - sigmoid(begin)[0], sigmoid(end)[0] - w
        return pairs, w, values, values - error * np.maximum(np.maximum(left, right), 0.0)

    def _mixed(self, pairs: np.ndarray, w: np.ndarray, rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, second = self._first[pairs], self._second[pairs]
        return (
            self._one[first] * rest + self._one[second] * w,
            self._other[first] * rest + self._other[second] * w,
        )

    def _slope(self, pairs: np.ndarray, odds: np.ndarray, lam: float) -> np.ndarray:
        """D logit(r) - lambda logit(w), which rises over the convex interval."""
        r, complement = self._mixed(pairs, *sigmoid(odds))
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
            w, rest = sigmoid(at)
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
