"""Bottleneck pricing for a small S: the greatest value of -H(Tq) + lambda H(q) - nu.q, by a search over r = Tq.

F(r) = -H(r) + V(r) with V concave (`free_energy`), r in the convex hull of the columns of T: S - 1 dimensions,
however many useful symbols there are. Cells tile a simplex about that hull. A cell is done with as soon as F is shown
to be below the best value known plus the tolerance:

1. the dual bound: -H interpolated from the vertices, V by one theta. Where the cell misses the hull the bound falls
   without limit.
2. near a local maximum. At theta* let q* be its optimal posterior, r* = Tq*, C = Cov_q*(T)/lambda, A = C^-1 on
   directions that sum to 0. V(r* + d) <= Phi(theta* - c A d) + (theta* - c A d).(r* + d) for c = exp(-w), where
       w = (max_x - min_x) (A d).T_x/lambda;
   between theta* and there the posterior changes by a factor of at most e^w, so Cov does, and
       V(r* + d) <= V(r*) + theta*.d - e^-w d'A d/2,       -H(r* + d) <= -H(r*) + ln r*.d + d' diag(1/a) d/2,
   a the smallest r on the way. So where e^w times the largest eigenvalue of C diag(1/a) is at most one,
       F(r* + d) <= F(r*) + (theta* + ln r*).d,
   and cells about a maximum need not be halved until they vanish.
"""

from math import log

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv.funnels.pricing._base import AbstractPricer, Priced
from jaxpriv.funnels.pricing.free_energy import risen, tightened
from jaxpriv.funnels.pricing.shapes import Entropy, Lagrangian
from jaxpriv.funnels.pricing.tiles import DEPTH, EPS, distances, halves

# Local maxima whose surroundings are looked at, best first.
_MAXIMA = 64
# Two maxima with all coordinates of r this close are one.
_SAME = 1e-6
# C is taken for regular when its condition is below the inverse of this, and the largest eigenvalue is then known to
# the other.
_REGULAR, _SURE = 1e-9, 1e-6
# So few cells cost no more than one: they are halved more than once.
_FEW = 64
# Cells from which maxima are looked for.
_PROMISING = 64


class BottleneckPricer(AbstractPricer):
    """max_q -H(Tq) + lambda H(q) - nu.q for T = `conditional` (S, X), lambda >= 0.

    Args:
        conditional: T = P(S|X), columns sum to one.
        tolerance: the bound is at most this far above the maximum (nats), unless `budget` ran out (`exact` is then
            False and the bound still valid).
        budget: cells looked at in one search.
    """

    def __init__(self, conditional: np.ndarray, tolerance: float = 1e-9, budget: int = 200_000):
        self._conditional, self._tolerance, self._budget = conditional, tolerance, budget
        private, useful = conditional.shape
        least = conditional.min(axis=1) * (1 - 4 * EPS)
        # A simplex that holds every column: they themselves if they are few, else the smallest one r >= least.
        self._root = conditional.T if useful <= private else least + (1.0 - least.sum()) * np.eye(private)
        pairs = np.triu_indices(useful)
        self._starts = 0.5 * (conditional[:, pairs[0]] + conditional[:, pairs[1]]).T

    def price(
        self, prices: np.ndarray, lam: float, count: int, clock: Clock = ENDLESS, aim: float | None = None
    ) -> Priced:
        if not (lam >= 0 and np.isfinite(prices).all()):
            raise ValueError("lambda must be >= 0 and prices finite")
        tolerance = 0.5 * self._tolerance
        used = max(lam, tolerance / (1.0 + log(len(prices))))  # a larger lambda adds at most its share of ln X
        lagrangian = Lagrangian(Entropy(len(self._conditional)), self._conditional.T, prices, used)
        maxima = _Maxima(lagrangian)
        maxima.add(-np.log(np.maximum(self._starts, EPS)))
        bound, exact = self._search(lagrangian, tolerance, maxima, clock)
        return Priced(bound, exact, maxima.weights[:count])

    def _search(self, lagrangian: Lagrangian, tolerance: float, maxima: "_Maxima", clock: Clock) -> tuple[float, bool]:
        vertices = self._root[None]
        theta = np.zeros((1, vertices.shape[2]))
        left, budget = -np.inf, self._budget
        for depth in range(DEPTH // 3):
            level = maxima.value + tolerance
            theta, bounds = tightened(lagrangian, vertices, theta, level, clock)
            budget -= len(bounds)
            if clock.expired():
                left = float(bounds.max())
                break
            if depth % 2 == 1:
                promising = np.argsort(-bounds)[:_PROMISING]
                maxima.add(theta[promising][bounds[promising] > level])
                level = maxima.value + tolerance
            hold = ~(bounds <= level)
            vertices, theta, bounds = vertices[hold], theta[hold], bounds[hold]
            near = maxima.surround(vertices, level)
            vertices, theta, bounds = vertices[~near], theta[~near], bounds[~near]
            if not len(vertices):
                break
            if budget < 0 or depth == DEPTH // 3 - 1:
                left = float(bounds.max())
                break
            for _ in range(3 if len(vertices) < _FEW else 1):
                vertices, theta = halves(vertices, distances(vertices)), np.concatenate([theta] * 2)
        level, prices = maxima.value + tolerance, lagrangian.prices
        slack = 64 * EPS * (2.0 + lagrangian.lam * log(len(prices)) + float(np.abs(prices).max()))
        return max(level, left) + slack, left <= level


class _Maxima:
    """Local maxima found so far, best first: weights (n, X), theta (n, S), values (n,)."""

    def __init__(self, lagrangian: Lagrangian):
        self._lagrangian = lagrangian
        self.weights, self.theta = (np.zeros((0, size)) for size in lagrangian.symbols.shape)
        self._merit = np.zeros(0)

    @property
    def value(self) -> float:
        """The greatest value known, at the lambda of the bounds."""
        return float(self._merit[0])

    def add(self, theta: np.ndarray) -> None:
        """What is uphill from `theta` (n, S)."""
        if not len(theta):
            return
        theta, weights, merit = risen(self._lagrangian, theta)
        theta = np.concatenate([self.theta, theta])
        weights, merit = np.concatenate([self.weights, weights]), np.concatenate([self._merit, merit])
        order = np.argsort(-merit, kind="stable")
        mixed = weights[order] @ self._lagrangian.symbols
        _, first = np.unique(np.round(mixed / _SAME), axis=0, return_index=True)
        keep = order[np.sort(first)]
        self.theta, self.weights, self._merit = theta[keep], weights[keep], merit[keep]

    def surround(self, vertices: np.ndarray, level: float) -> np.ndarray:
        """Test 2 for cells (C, k, S) and the best maxima: which ones are done with, shape (C,)."""
        done = np.zeros(len(vertices), dtype=bool)
        free = vertices.shape[2] - 1
        _, symbols, _, lam = self._lagrangian
        weights = self.weights[:_MAXIMA]
        mixed = weights @ symbols
        apart = (symbols - mixed[:, None])[:, :, :free]  # centred first: keeps its digits
        spread = (apart * weights[:, :, None]).transpose(0, 2, 1) @ apart / lam
        for theta, centre, matrix, merit in zip(self.theta, mixed, spread, self._merit, strict=False):
            todo = np.flatnonzero(~done)
            if not len(todo):
                break
            scale = np.linalg.eigvalsh(matrix)
            if not scale[0] > _REGULAR * scale[-1]:
                continue
            apart = vertices[todo] - centre
            moves = np.linalg.solve(matrix, apart[:, :, :free].transpose(0, 2, 1)).transpose(0, 2, 1)
            swing = np.ptp(moves @ symbols.T[:free], axis=2).max(axis=1) / lam
            least = np.minimum(vertices[todo].min(axis=1), centre)
            rise = (apart @ (theta + np.log(np.maximum(centre, 1e-300)))).max(axis=1)
            able = np.flatnonzero((swing < 1.0) & (least > 0).all(axis=1) & (merit + rise <= level))
            inverse = np.zeros((len(able), free, free)) + (1.0 / least[able, -1])[:, None, None]
            inverse[:, range(free), range(free)] += 1.0 / least[able, :-1]
            root = np.linalg.cholesky(matrix)
            largest = np.linalg.eigvalsh(root.T @ inverse @ root)[:, -1]
            done[todo[able]] = np.exp(swing[able]) * largest * (1 + _SURE) <= 1.0
        return done
