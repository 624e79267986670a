"""The largest I(S;Y) within a divergence ball around the fitted joint: a bound for every mechanism at once.

D(P^ || P) <= rho for P(s,x), and so for P(s,y) of any mechanism, by data processing. For every product Q of margins
I(P) <= D(P || Q), and by weak duality for all mu >= 0 and nu

    sup { D(P || Q) : D(P^ || P) <= rho } <= mu rho + nu + sum_i sup_{0 <= x <= h_i} phi_i(x),
    phi_i(x) = x ln(x/q_i) + mu p^_i ln(x/p^_i) - nu x,

with h_i the largest x at which the relative entropy of two coins of p^_i and x is at most rho. phi_i is concave up to
mu p^_i and convex beyond, so its supremum is at h_i or on the concave part, where any tangent is above it: the bound
is valid wherever the iterations for mu, nu, Q and the tangent points stop.
"""

import numpy as np
from scipy.special import xlogy

from jaxpriv.statistics.confidence.intervals import relative_entropy_limit

# How often the centre is moved, steps of the golden-section search in ln mu, halvings for nu, Newton steps for w: any
# mu >= 0, nu, Q and tangent points give a bound, more steps a tighter one.
_MOVES, _OUTER, _INNER, _NEWTON = 4, 14, 24, 5
_GOLDEN = (5**0.5 - 1) / 2  # the share of the interval that a step of golden-section search keeps (Kiefer 1953)


def ball_information(fitted: np.ndarray, radius: float) -> float:
    """An upper bound on I(S;Y) for every P(s,y) with D(fitted || P) <= radius; fitted (S, Y)."""
    private, released = fitted.shape
    best = float(np.log(min(private, released)))
    if not np.isfinite(radius) or best == 0:
        return best
    high = relative_entropy_limit(fitted, radius).ravel()
    mixed = 1e-3
    prior = (1 - mixed) * fitted.sum(axis=1) + mixed / private
    output = (1 - mixed) * fitted.sum(axis=0) + mixed / released
    for _ in range(_MOVES):
        value, worst = _dual(fitted.ravel(), np.outer(prior, output).ravel(), high, radius)
        best = min(best, value)
        worst = worst.reshape(fitted.shape) / worst.sum()
        prior = 0.5 * prior + 0.5 * np.maximum(worst.sum(axis=1), 1e-9)
        output = 0.5 * output + 0.5 * np.maximum(worst.sum(axis=0), 1e-9)
        prior, output = prior / prior.sum(), output / output.sum()
    return best


def _dual(fitted: np.ndarray, centre: np.ndarray, high: np.ndarray, radius: float) -> tuple[float, np.ndarray]:
    """The bound at the best (mu, nu) found, and where the cells have their suprema."""

    def at(log_mu: float) -> tuple[float, np.ndarray]:
        mu = np.exp(log_mu)
        low, most = -30.0, 60.0
        for _ in range(_INNER):
            nu = 0.5 * (low + most)
            low, most = (nu, most) if _suprema(mu, nu, fitted, centre, high)[1].sum() > 1 else (low, nu)
        values, points = _suprema(mu, most, fitted, centre, high)
        terms = np.concatenate([[mu * radius, most], values])
        return float(terms.sum() + 1e-12 * np.abs(terms).sum()), points

    left, right = np.log(1e-2), np.log(1e4)
    inner = [right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)]
    bounds = [at(log_mu) for log_mu in inner]
    for _ in range(_OUTER):
        if bounds[0][0] < bounds[1][0]:
            right, inner[1], bounds[1] = inner[1], inner[0], bounds[0]
            inner[0] = right - _GOLDEN * (right - left)
            bounds[0] = at(inner[0])
        else:
            left, inner[0], bounds[0] = inner[0], inner[1], bounds[1]
            inner[1] = left + _GOLDEN * (right - left)
            bounds[1] = at(inner[1])
    return min(bounds, key=lambda bound: bound[0])


def _suprema(
    mu: float, nu: float, fitted: np.ndarray, centre: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Upper bounds of sup phi_i over [0, h_i], and where it is about attained."""
    some = fitted > 0
    positive = np.where(some, fitted, 1.0)

    def phi(x: np.ndarray) -> np.ndarray:
        return xlogy(x, x / centre) + xlogy(mu * fitted, x / positive) - nu * x

    # phi' = 0 at x = mu p/w with w - ln w = nu - 1 - ln(mu p/q) =: c, w >= 1 on the concave part.
    c = np.where(some, nu - 1 - np.log(mu * positive / centre), 1.0)
    w = np.maximum(c, 1) + np.log(np.maximum(c, 1)) + np.sqrt(np.maximum(c - 1, 0))
    for _ in range(_NEWTON):
        w = np.maximum(w - (w - np.log(w) - c) / np.maximum(1 - 1 / w, 1e-9), 1.0)
    end = np.where(some, np.minimum(mu * fitted, high), 0.0)
    point = np.where(some, np.minimum(mu * positive / w, end), 1.0)
    slope = np.where(some, np.log(point / centre) + 1 + mu * fitted / point - nu, 0.0)
    above = np.maximum(slope * (end - point), -slope * point)
    concave = np.where(some, phi(point) + np.maximum(above, 0.0), 0.0)
    last = phi(high)
    return np.maximum(concave, last), np.where(last > concave, high, np.where(some, point, 0.0))
