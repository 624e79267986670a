"""The concave half of bottleneck pricing: V(r) = max { lambda H(q) - nu.q : Tq = r } and its dual.

With one price theta_s for each coordinate of r,

    V(r) = min_theta Phi(theta) + theta.r,      Phi(theta) = lambda ln sum_x exp( -(nu_x + theta.T_x)/lambda ),

attained by q proportional to exp( -(nu + T'theta)/lambda ); any theta bounds V from above at every r. Phi is convex,
-grad Phi = Tq, and its Hessian is Cov_q(T_x)/lambda. Phi grows with lambda: a larger one is on the safe side.
"""

import numpy as np

from jaxpriv.funnels.pricing.branch_cells import EPS, xlogx

# Newton steps on one cell.
_STEPS = 60
# A cell's temperature begins at this share of the range of its heights, and falls by a factor when a step changes
# exponents by less than a few.
_WARM, _COOLER, _NEAR = 0.3, 0.3, 3.0
# A cell's dual is solved to this share of its temperature.
_SOLVED = 0.3
# Regularises directions in which nothing curves, as a share of the trace.
_RIDGE = 1e-10
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
) -> tuple[np.ndarray, np.ndarray]:
    """(theta (C, S), upper bounds (C,)) of -H(r) + V(r) on cells with `vertices` (C, k, S), beginning at `theta`.

    On a cell -H is below its interpolation from the vertices, so for every theta the sum is at most

        max_j [ -H(v_j) + theta.v_j ] + Phi(theta),

    convex in theta. The maximum and Phi are smoothed by a temperature in keeping with what the interpolation loses
    anyway; damped Newton steps that change no exponent by more than ln(1 + change) always descend. Cells below
    `level` are left as they are.
    """
    convex = xlogx(vertices).sum(axis=2)
    centre = vertices.mean(axis=1)
    lost = convex.mean(axis=1) - xlogx(centre).sum(axis=1)
    target = np.maximum(0.15 * lost, 1e-13)[:, None]
    # To begin with, every vertex and every useful symbol that matters is felt: what follows is a central path.
    heights = (vertices @ theta[:, :, None])[:, :, 0] + convex
    heat = np.maximum(_WARM * np.ptp(heights, axis=1)[:, None], target)
    theta = theta.copy()
    bounds = np.full(len(theta), np.inf)
    best, todo = theta.copy(), np.arange(len(theta))
    free = vertices.shape[2] - 1  # theta_S = 0: a constant in theta changes nothing
    for _ in range(_STEPS):
        here, cell, cold = theta[todo], vertices[todo], heat[todo]
        hot = np.maximum(lam, cold)
        heights = (cell @ here[:, :, None])[:, :, 0] + convex[todo]
        energy, weights = free_energy(conditional, prices, hot, here)
        reached = heights.max(axis=1) + energy + _error(here, cell, prices, hot, weights)
        better = todo[reached < bounds[todo]]
        best[better] = theta[better]
        bounds[todo] = np.minimum(bounds[todo], reached)
        share = np.exp((heights - heights.max(axis=1, keepdims=True)) / cold)
        share /= share.sum(axis=1, keepdims=True)
        at_cell, at_energy = (share[:, None, :] @ cell)[:, 0], weights @ conditional.T
        slope = (at_cell - at_energy)[:, :free]
        apart = cell[:, :, :free] - at_cell[:, None, :free]
        matrix = (apart * (share / cold)[:, :, None]).transpose(0, 2, 1) @ apart
        matrix += (covariance(conditional, weights, at_energy) / hot[:, :, None])[:, :free, :free]
        ridge = _RIDGE * np.trace(matrix, axis1=1, axis2=2) + 1e-13
        matrix[:, range(free), range(free)] += ridge[:, None]
        step = -np.linalg.solve(matrix, slope[:, :, None])[:, :, 0]
        gain = -(step * slope).sum(axis=1)
        change = np.maximum(
            np.ptp((cell[:, :, :free] @ step[:, :, None])[:, :, 0], axis=1) / cold[:, 0],
            np.ptp(step @ conditional[:free], axis=1) / hot[:, 0],
        )
        theta[todo, :free] += (np.log1p(change) / np.maximum(change, EPS))[:, None] * step
        near = np.flatnonzero(change < _NEAR)
        heat[todo[near]] = np.maximum(target[todo[near]], _COOLER * cold[near])
        solved = (gain <= _SOLVED * cold[:, 0]) & (cold == target[todo])[:, 0]
        todo = todo[(bounds[todo] > level) & ~solved]
        if not len(todo):
            break
    todo = np.flatnonzero(bounds > level)
    for theta in (theta, best):  # smoothing has its price
        energy, weights = free_energy(conditional, prices, lam, theta[todo])
        heights = (vertices[todo] @ theta[todo][:, :, None])[:, :, 0] + convex[todo]
        reached = heights.max(axis=1) + energy
        reached += _error(theta[todo], vertices[todo], prices, np.full((1, 1), lam), weights)
        better = todo[reached < bounds[todo]]
        best[better] = theta[better]
        bounds[todo] = np.minimum(bounds[todo], reached)
    return best, bounds


def _error(theta: np.ndarray, vertices: np.ndarray, prices: np.ndarray, lam: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """More than the rounding of a bound: of sums of S and X terms, and of vertices off by DEPTH eps of themselves."""
    terms = sum(weights.shape[1:]) + theta.shape[1] + 16.0
    most = np.abs(theta).max(axis=1)
    at_vertices = (vertices @ np.abs(theta)[:, :, None])[:, :, 0].max(axis=1)
    size = most + np.abs(prices).max() + lam[:, 0] * np.log(weights.shape[1]) + 2.0
    return EPS * (2 * terms * size + 400.0 * (at_vertices + 2.0))


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
