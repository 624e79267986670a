"""The concave half of bottleneck pricing: V(r) = max { lambda H(q) - nu.q : Tq = r } and its dual.

With one price theta_s for each coordinate of r,

    V(r) = min_theta Phi(theta) + theta.r,      Phi(theta) = lambda ln sum_x exp( -(nu_x + theta.T_x)/lambda ),

attained by q proportional to exp( -(nu + T'theta)/lambda ); any theta bounds V from above at every r. Phi is convex,
-grad Phi = Tq, and its Hessian is Cov_q(T_x)/lambda. Phi grows with lambda: a larger one is on the safe side.
"""

import numpy as np

from jaxpriv._clock import ENDLESS, Clock
from jaxpriv.funnels.pricing.branch_cells import DEPTH, EPS, xlogx

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


def free_energy(
    conditional: np.ndarray, prices: np.ndarray, lam: float | np.ndarray, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(Phi (C,), q (C, X)) at `theta` (C, S); `lam` > 0 a number or one for each cell (C, 1)."""
    exponent = -(prices + theta @ conditional)
    top = exponent.max(axis=1, keepdims=True)
    weights = np.exp((exponent - top) / lam)
    total = weights.sum(axis=1, keepdims=True)
    return (top + lam * np.log(total))[:, 0], weights / total


def covariance(conditional: np.ndarray, weights: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Cov_q(T_x) for q = `weights` (C, X) with `mean` T q (C, S), shape (C, S, S)."""
    private = len(conditional)
    products = (conditional[:, None] * conditional[None]).reshape(private * private, -1)
    second = (weights @ products.T).reshape(-1, private, private)
    return second - mean[:, :, None] * mean[:, None, :]


def tightened(
    conditional: np.ndarray,
    prices: np.ndarray,
    lam: float,
    vertices: np.ndarray,
    theta: np.ndarray,
    level: float,
    clock: Clock = ENDLESS,
) -> tuple[np.ndarray, np.ndarray]:
    """(theta (C, S), upper bounds (C,)) of -H(r) + V(r) on cells with `vertices` (C, k, S), beginning at `theta`.

    On a cell -H is below its interpolation from the vertices, so for every theta the sum is at most

        max_j [ -H(v_j) + theta.v_j ] + Phi(theta),

    convex in theta. The maximum and Phi are smoothed by a temperature that falls to a share of what the interpolation
    loses anyway; Newton's method follows the minimiser. Cells below `level` are left as they are, and
    all of them once the clock has expired.
    """
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
        reached += free_energy(conditional, prices, temperature, here)[0]
        reached += _error(here, vertices[cells], prices, temperature[:, 0])
        better = reached < bounds[cells]
        bounds[cells[better]], best[cells[better]] = reached[better], here[better]

    for _ in range(_STEPS):
        cold = heat[todo]
        hot = np.maximum(lam, cold)
        record(todo, hot)
        todo_cells = vertices[todo], convex[todo]
        step, gain = _newton(conditional, prices, theta[todo], *todo_cells, cold, hot)
        theta[todo] = _searched(conditional, prices, theta[todo], step, *todo_cells, cold, hot)
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
    conditional: np.ndarray,
    prices: np.ndarray,
    theta: np.ndarray,
    vertices: np.ndarray,
    convex: np.ndarray,
    cold: np.ndarray,
    hot: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(step (C, S), decrement (C,)) for the smoothed bound; theta_S stays, as a constant in theta changes nothing."""
    free = theta.shape[1] - 1
    heights = _heights(theta, vertices, convex)
    share = np.exp((heights - heights.max(axis=1, keepdims=True)) / cold)
    share /= share.sum(axis=1, keepdims=True)
    weights = free_energy(conditional, prices, hot, theta)[1]
    at_cell, at_energy = (share[:, None, :] @ vertices)[:, 0], weights @ conditional.T
    slope = (at_cell - at_energy)[:, :free]
    apart = vertices[:, :, :free] - at_cell[:, None, :free]
    matrix = (apart * (share / cold)[:, :, None]).transpose(0, 2, 1) @ apart
    matrix += (covariance(conditional, weights, at_energy) / hot[:, :, None])[:, :free, :free]
    matrix[:, range(free), range(free)] += (_RIDGE * np.trace(matrix, axis1=1, axis2=2) + 1e-13)[:, None]
    step = -np.linalg.solve(matrix, slope[:, :, None])[:, :, 0]
    return np.pad(step, ((0, 0), (0, 1))), -(step * slope).sum(axis=1)


def _searched(
    conditional: np.ndarray,
    prices: np.ndarray,
    theta: np.ndarray,
    step: np.ndarray,
    vertices: np.ndarray,
    convex: np.ndarray,
    cold: np.ndarray,
    hot: np.ndarray,
) -> np.ndarray:
    """The best theta (C, S) along `step` of a few lengths; the shortest one, which lets no exponent change by more than
    ln(1 + what the whole step would change), always descends."""
    along_cell = np.ptp((vertices @ step[:, :, None])[:, :, 0], axis=1) / cold[:, 0]
    change = np.maximum(along_cell, np.ptp(step @ conditional, axis=1) / hot[:, 0])
    safe = np.log1p(change) / np.maximum(change, EPS)
    tried = theta[:, None] + np.minimum(safe[:, None] * _LENGTHS, 1.0)[:, :, None] * step[:, None]  # (C, L, S)
    heights = tried @ vertices.transpose(0, 2, 1) + convex[:, None]
    value = _softmax(heights, cold) + _softmax(-(prices + tried @ conditional), hot)
    value = np.where(np.isfinite(value), value, np.inf)
    return tried[np.arange(len(theta)), value.argmin(axis=1)]


def _softmax(values: np.ndarray, heat: np.ndarray) -> np.ndarray:
    """heat ln sum exp(values/heat) over the last axis; `heat` (C, 1)."""
    top = values.max(axis=-1)
    return top + heat * np.log(np.exp((values - top[..., None]) / heat[..., None]).sum(axis=-1))


def _error(theta: np.ndarray, vertices: np.ndarray, prices: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """More than the rounding of a bound: of sums of S and X terms, and of vertices off by DEPTH eps of themselves."""
    terms = 2.0 * (len(prices) + theta.shape[1] + 16.0)
    size = 2.0 + lam * np.log(len(prices)) + np.abs(theta).max(axis=1) + float(np.abs(prices).max())
    at_vertices = (vertices @ np.abs(theta)[:, :, None])[:, :, 0].max(axis=1)
    return EPS * (terms * size + 2 * DEPTH * (2.0 + at_vertices))


def risen(
    conditional: np.ndarray, prices: np.ndarray, lam: float, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(theta, q, values) of local maxima of -H(Tq) + lambda H(q) - nu.q uphill from `theta` (C, S).

    Stationary are the fixed points of theta = -ln T q(theta), the alternating iteration of Tishby et al. (1999), which
    only ever rises; Newton's method on the same equation finishes where it rises as well.
    """
    for _ in range(_FIXED_POINT):
        theta = _alternate(conditional, free_energy(conditional, prices, lam, theta)[1])
    weights = free_energy(conditional, prices, lam, theta)[1]
    values = objective(conditional, prices, lam, weights)
    for _ in range(_NEWTON):
        mixed = weights @ conditional.T
        plain = _alternate(conditional, weights)
        jacobian = covariance(conditional, weights, mixed) / (lam * np.maximum(mixed, 1e-300))[:, :, None]
        system = np.eye(len(conditional)) - jacobian + 1e-14
        newton = theta - np.linalg.solve(system, (theta - plain)[:, :, None])[:, :, 0]
        newton_weights = free_energy(conditional, prices, lam, newton)[1]
        newton_values = objective(conditional, prices, lam, newton_weights)
        better = newton_values >= values
        theta = np.where(better[:, None], newton, plain)
        weights = free_energy(conditional, prices, lam, theta)[1]
        values = objective(conditional, prices, lam, weights)
    return theta, weights, values


def objective(conditional: np.ndarray, prices: np.ndarray, lam: float, weights: np.ndarray) -> np.ndarray:
    """-H(Tq) + lambda H(q) - nu.q for q = `weights` (C, X), shape (C,)."""
    return xlogx(weights @ conditional.T).sum(axis=1) - lam * xlogx(weights).sum(axis=1) - weights @ prices


def _alternate(conditional: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """-ln Tq."""
    return -np.log(np.maximum(weights @ conditional.T, 1e-300))
