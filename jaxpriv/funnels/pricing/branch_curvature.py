"""Where psi(q) = -H(Tq) + lambda H(q) is surely convex, and where it surely has no minimum inside.

On the simplex over k symbols with columns T_i, for r = Tq,

    Hess psi = sum_s T_s T_s'/r_s - lambda diag(1/q),     acting on directions d with sum_i d_i = 0.

In the order of symmetric matrices it grows as r falls and as q rises. So on a set with q >= a, r <= b it is at least
its value at (a, b), and psi is convex there if that is positive definite. On a set with q <= a, r >= b it is at most
its value at (a, b); where some direction curves downwards, the set has no local minimum of psi with all q_i > 0.
"""

import numpy as np

from jaxpriv.funnels.pricing.branch_cells import EPS

# Share of the size of a matrix (before its parts cancel) that counts as rounding: hundreds of times its bound.
_MARGIN = 1e-12
_STEPS = 8
# Newton's method goes at most this share of the way to where a symbol vanishes.
_INSIDE = 0.9


def surely_convex(columns: np.ndarray, most: np.ndarray, least: np.ndarray, lam: float) -> np.ndarray:
    """Whether psi is convex wherever r <= `most` (C, S), q >= `least` (C, k); `columns` (C, k, S). Shape (C,)."""
    if lam == 0:
        return np.ones(len(columns), dtype=bool)
    matrix, scale = _hessian(columns, most, least, lam)
    size = matrix.shape[1]
    finite = np.isfinite(scale)
    matrix = np.where(finite[:, None, None], matrix, 0.0)
    matrix[:, range(size), range(size)] -= _MARGIN * np.where(finite, scale, 1.0)[:, None]
    sure = finite
    for i in range(size):  # elimination without exchanges: backward stable while the pivots are positive
        pivot = matrix[:, i, i]
        sure = sure & (pivot > 0)
        ratio = matrix[:, i + 1 :, i] / np.where(pivot > 0, pivot, 1.0)[:, None]
        matrix[:, i + 1 :, i + 1 :] -= ratio[:, :, None] * matrix[:, None, i, i + 1 :]
    return sure


def surely_saddle(columns: np.ndarray, least: np.ndarray, most: np.ndarray, lam: float) -> np.ndarray:
    """Whether no local minimum has all q_i > 0, q <= `most` (C, k), r >= `least` (C, S). Shape (C,).

    Looks along the edges e_i - e_j only.
    """
    first, second = np.triu_indices(columns.shape[1], 1)
    one, other = columns[:, first], columns[:, second]
    gap = (np.abs(one - other) + 2 * EPS * np.maximum(one, other)) ** 2  # columns are known to eps
    with np.errstate(divide="ignore"):
        weight = np.where(least > 0, 1.0 / least, np.inf)[:, None]
    up = np.where(gap > 0, gap * np.where(gap > 0, weight, 1.0), 0.0).sum(axis=2)
    inverse = 1.0 / most
    down = lam * (inverse[:, first] + inverse[:, second])
    return (up < down * (1 - _MARGIN)).any(axis=1)


def gradient(columns: np.ndarray, weights: np.ndarray, prices: np.ndarray, lam: float) -> tuple[np.ndarray, np.ndarray]:
    """(g (C, k), r (C, S)): psi - nu.q has the value g.q at q = `weights` (C, k), q > 0, and the tangent g.v there."""
    mixed = (weights[:, None, :] @ columns)[:, 0]
    logs = np.log(np.where(mixed > 0, mixed, 1.0))
    return (columns @ logs[:, :, None])[:, :, 0] - lam * np.log(weights) - prices, mixed


def stationary(columns: np.ndarray, weights: np.ndarray, prices: np.ndarray, lam: float) -> np.ndarray:
    """Damped Newton steps on psi - nu.q from `weights` (C, k) > 0, shape (C, k); no promise."""
    for _ in range(_STEPS):
        slope, mixed = gradient(columns, weights, prices, lam)
        matrix, scale = _hessian(columns, mixed, weights, lam)
        size = matrix.shape[1]
        matrix[:, range(size), range(size)] += (EPS * scale)[:, None]
        free = -np.linalg.solve(matrix, (slope[:, :-1] - slope[:, -1:])[:, :, None])[:, :, 0]
        step = np.concatenate([free, -free.sum(axis=1, keepdims=True)], axis=1)
        room = np.where(step < 0, _INSIDE * weights / np.where(step < 0, -step, 1.0), 1.0).min(axis=1)
        weights = weights + np.minimum(room, 1.0)[:, None] * step
        weights /= weights.sum(axis=1, keepdims=True)
    return weights


def _hessian(columns: np.ndarray, mixed: np.ndarray, weights: np.ndarray, lam: float) -> tuple[np.ndarray, np.ndarray]:
    """(Hessian for the first k - 1 coordinates, the last one making up for them; sum of its parts without signs)."""
    apart = columns[:, :-1] - columns[:, -1:]
    inverse = np.where(mixed > 0, 1.0 / np.where(mixed > 0, mixed, 1.0), 0.0)  # r_s <= 0: no symbol has s
    matrix = (apart * inverse[:, None, :]) @ apart.transpose(0, 2, 1)
    up = np.trace(matrix, axis1=1, axis2=2)
    if lam == 0:
        return matrix, up
    with np.errstate(divide="ignore"):
        sharp = lam / weights
    with np.errstate(invalid="ignore"):
        matrix = matrix - sharp[:, -1, None, None]
        size = matrix.shape[1]
        matrix[:, range(size), range(size)] -= sharp[:, :-1]
    return matrix, up + weights.shape[1] * sharp.sum(axis=1)
