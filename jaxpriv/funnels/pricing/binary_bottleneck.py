"""Bottleneck pricing for a binary S, exact: a search over one scalar.

With r = P(s = 1) of the atom held fixed, lambda H(q) - nu.q is concave in q on { t.q = r }, so its maximum V(r) is
concave and has the dual (theta the price of t.q = r)

    V(r) = min_theta lambda A(theta) + theta r,     A(theta) = ln sum_x exp( -(nu_x + theta t_x)/lambda ),

attained by q proportional to exp(-(nu + theta t)/lambda). What is wanted is max_r -h(r) + V(r), the sum of a convex
and a concave function. Between two neighbouring points of a grid the first is below its chord, the second below every
tangent: mixing the two tangents so that the sum with the chord is level bounds the maximum there, with an error of
second order in the distance. Only intervals that could hold the maximum are split.
"""

import numpy as np

from jaxpriv._clock import ENDLESS, Clock
from jaxpriv.funnels.pricing._base import AbstractPricer, Priced
from jaxpriv.funnels.pricing.binary import binary_entropy

_EPS = float(np.finfo(np.float64).eps)
# The grid of theta/lambda to begin with, and where theta ends: a maximum has theta = -logit(r).
_GRID = np.sinh(np.linspace(-9.0, 9.0, 145))
_END = 1e3
# Intervals whose bound is this much above the best value are split, this often at most.
_TOLERANCE = 1e-11
_SPLITS = 60
# e^-700 is the smallest weight in use.
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
        return np.maximum(-apart / self._lam, -_FAR)

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
            following = []
            for k in split:
                if k == 0:
                    following.append(2 * theta[0] - self._lam)
                elif k == len(theta):
                    following.append(2 * theta[-1] + self._lam)
                else:
                    following.append(0.5 * (theta[k - 1] + theta[k]))
            fresh = np.setdiff1d(np.array(following), theta)
            fresh = fresh[np.abs(fresh) <= _END]
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
