"""The concave half of bottleneck pricing: V(r) = max { lambda H(q) - nu.q : Tq = r } and its dual.

With one price theta_s for each coordinate of r,

    V(r) = min_theta Phi(theta) + theta.r,      Phi(theta) = lambda ln sum_x exp( -(nu_x + theta.T_x)/lambda ),

attained by q proportional to exp( -(nu + T'theta)/lambda ); any theta bounds V from above at every r. Phi is convex,
-grad Phi = Tq, and its Hessian is Cov_q(T_x)/lambda. Phi grows with lambda: a larger one is on the safe side.
"""

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv.funnels.pricing._base import softmax, xlogx
from jaxpriv.funnels.pricing.shapes import Lagrangian
from jaxpriv.funnels.pricing.tiles import DEPTH, EPS

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
