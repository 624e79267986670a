"""Bottleneck pricing for a small S: the greatest value of -H(Tq) + lambda H(q) - nu.q, by a search over r = Tq.

F(r) = -H(r) + V(r) with V concave (below), r in the convex hull of the columns of T: S - 1 dimensions,
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
from jaxpriv.funnels.pricing._base import AbstractPricer, Priced, softmax, xlogx
from jaxpriv.funnels.pricing.shapes import Entropy, Lagrangian

# Simplices that tile a simplex, halved at an edge.
#
# A cell is the convex hull of k affinely independent distributions, its vertices. Halving replaces one end of an edge
# by the midpoint, once each: the two halves share a face and fill the cell. From unit vectors on, the coordinates are
# dyadic and the tiling is exact for 52 halvings; later each halving moves a coordinate by at most half an eps of
# itself. Nothing else is assumed of the stored vertices than that they are those of an exact tiling up to a relative
# error of `DEPTH` eps.


EPS = float(np.finfo(np.float64).eps)
# Cells are halved this often at most.
DEPTH = 200


def distances(points: np.ndarray) -> np.ndarray:
    """sum (a - b)^2/(a + b) between each two of the k points (C, k, d) of a cell, shape (C, k(k-1)/2).

    Twice the loss of -H between its chord and its value at the middle of the edge, to leading order.
    """
    first, second = np.triu_indices(points.shape[1], 1)
    total = points[:, first] + points[:, second]
    square = (points[:, first] - points[:, second]) ** 2
    return np.divide(square, total, out=np.zeros_like(total), where=total > 0).sum(axis=2)


def halves(vertices: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Cells (C, k, d) halved at their longest edge, shape (2 C, k, d): all first halves, then all second halves."""
    first, second = np.triu_indices(vertices.shape[1], 1)
    edge = lengths.argmax(axis=1)
    row, begin, end = np.arange(len(vertices)), first[edge], second[edge]
    middle = 0.5 * (vertices[row, begin] + vertices[row, end])
    pair = np.concatenate([vertices, vertices])
    pair[row, begin] = middle
    pair[len(vertices) + row, end] = middle
    return pair


# The concave half of bottleneck pricing: V(r) = max { lambda H(q) - nu.q : Tq = r } and its dual.
#
# With one price theta_s for each coordinate of r,
#
#     V(r) = min_theta Phi(theta) + theta.r,      Phi(theta) = lambda ln sum_x exp( -(nu_x + theta.T_x)/lambda ),
#
# attained by q proportional to exp( -(nu + T'theta)/lambda ); any theta bounds V from above at every r. Phi is convex,
# -grad Phi = Tq, and its Hessian is Cov_q(T_x)/lambda. Phi grows with lambda: a larger one is on the safe side.


# Newton steps on one cell.
_STEPS = 60
# The temperature of a cell begins at this share of the range of its heights, falls by a factor when Newton's decrement
# is below it, and ends at this share of what the interpolation loses.
_WARM, _COOLER, _COLD = 0.3, 0.2, 0.15
# A cell's dual is solved to this share of its temperature.
_SOLVED = 0.3
# Multiples of the safe step that are tried: where nothing curves, much longer ones are right.
_LENGTHS = 10.0 ** np.arange(7)
# Regularises directions in which nothing curves, as a share of the trace.
_RIDGE = 1e-10
# Rounds of the alternating iteration, then of Newton's method, towards a local maximum.
_FIXED_POINT, _NEWTON = 30, 12
# Singular values of that equation below this share of the largest one are zero.
_SINGULAR = 1e-12


def free_energy(
    lagrangian: Lagrangian, theta: np.ndarray, lam: float | np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(Phi (C,), q (C, X)) at `theta` (C, S); another `lam` > 0 is a number or one for each cell (C, 1)."""
    _, symbols, prices, default = lagrangian
    return softmax(-(prices + theta @ symbols.T), default if lam is None else lam)


def covariance(symbols: np.ndarray, weights: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Cov_q(T_x) for q = `weights` (C, X) with `mean` T q (C, S), shape (C, S, S); T' = `symbols` (X, S)."""
    size, private = symbols.shape
    products = (symbols[:, :, None] * symbols[:, None]).reshape(size, private * private)
    second = (weights @ products).reshape(-1, private, private)
    return second - mean[:, :, None] * mean[:, None, :]


def tightened(
    lagrangian: Lagrangian, vertices: np.ndarray, theta: np.ndarray, level: float, clock: Clock = ENDLESS
) -> tuple[np.ndarray, np.ndarray]:
    """(theta (C, S), upper bounds (C,)) of -H(r) + V(r) on cells with `vertices` (C, k, S), beginning at `theta`.

    On a cell -H is below its interpolation from the vertices, so for every theta the sum is at most

        max_j [ -H(v_j) + theta.v_j ] + Phi(theta),

    convex in theta. The maximum and Phi are smoothed by a temperature that falls to a share of what the interpolation
    loses anyway; Newton's method follows the minimiser. Cells below `level` are left as they are, and
    all of them once the clock has expired.
    """
    prices, lam = lagrangian.prices, lagrangian.lam
    convex = xlogx(vertices).sum(axis=2)
    centre = vertices.mean(axis=1)
    lost = np.maximum(convex.mean(axis=1) - xlogx(centre).sum(axis=1), 0.0)
    target = (_COLD * lost + 1e-13)[:, None]
    heat = np.maximum(_WARM * np.ptp(_heights(theta, vertices, convex), axis=1)[:, None], target)
    theta, best = theta.copy(), theta.copy()
    bounds = np.full(len(theta), np.inf)
    todo = np.arange(len(theta))

    def record(cells: np.ndarray, temperature: np.ndarray) -> None:
        """A larger lambda gives a bound as well: those on the way may do."""
        here = theta[cells]
        reached = _heights(here, vertices[cells], convex[cells]).max(axis=1)
        reached += free_energy(lagrangian, here, temperature)[0]
        reached += _error(here, vertices[cells], prices, temperature[:, 0])
        better = reached < bounds[cells]
        bounds[cells[better]], best[cells[better]] = reached[better], here[better]

    for _ in range(_STEPS):
        cold = heat[todo]
        hot = np.maximum(lam, cold)
        record(todo, hot)
        theta[todo], gain = _newton(lagrangian, theta[todo], vertices[todo], convex[todo], cold, hot)
        heat[todo] = np.where(gain[:, None] < cold, np.maximum(target[todo], _COOLER * cold), cold)
        solved = (gain <= _SOLVED * cold[:, 0]) & (cold == target[todo])[:, 0]
        todo = todo[(bounds[todo] > level) & ~solved]
        if not len(todo) or clock.expired():
            break
    rest = np.flatnonzero(bounds > level)
    record(rest, np.full((len(rest), 1), lam))
    theta[rest] = best[rest]
    record(rest, np.full((len(rest), 1), lam))
    return best, bounds


def _heights(theta: np.ndarray, vertices: np.ndarray, convex: np.ndarray) -> np.ndarray:
    """-H(v_j) + theta.v_j, (C, k)."""
    return (vertices @ theta[:, :, None])[:, :, 0] + convex


def _newton(
    lagrangian: Lagrangian,
    theta: np.ndarray,
    vertices: np.ndarray,
    convex: np.ndarray,
    cold: np.ndarray,
    hot: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(theta (C, S), decrement (C,)) after a step for the smoothed bound.

    theta_S stays, as a constant in theta changes nothing. A few lengths are tried: the shortest one, which lets no
    exponent change by more than ln(1 + what the whole step would change), always descends.
    """
    symbols, free = lagrangian.symbols, theta.shape[1] - 1
    share = softmax(_heights(theta, vertices, convex), cold)[1]
    weights = free_energy(lagrangian, theta, hot)[1]
    at_cell, at_energy = (share[:, None, :] @ vertices)[:, 0], weights @ symbols
    slope = (at_cell - at_energy)[:, :free]
    apart = vertices[:, :, :free] - at_cell[:, None, :free]
    matrix = (apart * (share / cold)[:, :, None]).transpose(0, 2, 1) @ apart
    matrix += (covariance(symbols, weights, at_energy) / hot[:, :, None])[:, :free, :free]
    matrix[:, range(free), range(free)] += (_RIDGE * np.trace(matrix, axis1=1, axis2=2) + 1e-13)[:, None]
    step = np.pad(-np.linalg.solve(matrix, slope[:, :, None])[:, :, 0], ((0, 0), (0, 1)))

    along_cell = np.ptp((vertices @ step[:, :, None])[:, :, 0], axis=1) / cold[:, 0]
    change = np.maximum(along_cell, np.ptp(step @ symbols.T, axis=1) / hot[:, 0])
    safe = np.log1p(change) / np.maximum(change, EPS)
    tried = theta[:, None] + np.minimum(safe[:, None] * _LENGTHS, 1.0)[:, :, None] * step[:, None]  # (C, L, S)
    heights = tried @ vertices.transpose(0, 2, 1) + convex[:, None]
    value = softmax(heights, cold[:, None])[0] + free_energy(lagrangian, tried, hot[:, None])[0]
    value = np.where(np.isfinite(value), value, np.inf)
    return tried[np.arange(len(theta)), value.argmin(axis=1)], -(step[:, :free] * slope).sum(axis=1)


def _error(theta: np.ndarray, vertices: np.ndarray, prices: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """More than the rounding of a bound: of sums of S and X terms, and of vertices off by DEPTH eps of themselves."""
    terms = 2.0 * (len(prices) + theta.shape[1] + 16.0)
    size = 2.0 + lam * np.log(len(prices)) + np.abs(theta).max(axis=1) + float(np.abs(prices).max())
    at_vertices = (vertices @ np.abs(theta)[:, :, None])[:, :, 0].max(axis=1)
    return EPS * (terms * size + 2 * DEPTH * (2.0 + at_vertices))


def risen(lagrangian: Lagrangian, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(theta, q, values) of local maxima of -H(Tq) + lambda H(q) - nu.q uphill from `theta` (C, S).

    Stationary are the fixed points of theta = -ln T q(theta), the alternating iteration of Tishby et al. (1999), which
    only ever rises; Newton's method on the same equation finishes where it rises as well.
    """
    symbols, lam = lagrangian.symbols, lagrangian.lam

    def alternated(weights: np.ndarray) -> np.ndarray:
        """-ln Tq."""
        return -np.log(np.maximum(weights @ symbols, 1e-300))

    for _ in range(_FIXED_POINT):
        theta = alternated(free_energy(lagrangian, theta)[1])
    weights = free_energy(lagrangian, theta)[1]
    values = lagrangian.at(weights)
    for _ in range(_NEWTON):
        mixed = weights @ symbols
        plain = alternated(weights)
        jacobian = covariance(symbols, weights, mixed) / (lam * np.maximum(mixed, 1e-300))[:, :, None]
        # Where all points nearby are stationary the equation is singular: of all solutions the least step is taken.
        inverse = np.linalg.pinv(np.eye(symbols.shape[1]) - jacobian, rcond=_SINGULAR)
        newton = theta - (inverse @ (theta - plain)[:, :, None])[:, :, 0]
        better = lagrangian.at(free_energy(lagrangian, newton)[1]) >= values
        theta = np.where(better[:, None], newton, plain)
        weights = free_energy(lagrangian, theta)[1]
        values = lagrangian.at(weights)
    return theta, weights, values


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
