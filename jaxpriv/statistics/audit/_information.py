"""Entropies and information on the host in nats: how far they can move, the hardest prior of a mechanism, the largest
in a divergence ball, and estimates."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, ndtri, rel_entr, xlogy

from jaxpriv._runtime.counts import count_array, failure
from jaxpriv.statistics.confidence.sets import relative_entropy_limit

# Steps of Blahut and Arimoto at most, and the distance of the bound from the capacity at which they end. Any Q gives
# a bound: they change its tightness only.
_STEPS = 301
_CLOSE = 1e-9  # nats


def entropy(distribution: np.ndarray) -> np.ndarray:
    """H along the last axis."""
    return entr(distribution).sum(axis=-1)


def negative_entropy(shares: np.ndarray) -> np.ndarray:
    """q ln q, entry by entry."""
    return xlogy(shares, shares)


def mutual_information(joint: np.ndarray) -> np.ndarray:
    """I of joints (..., a, b), not below 0; terms p ln(p/q) - p + q, none of them negative."""
    product = joint.sum(axis=-1, keepdims=True) * joint.sum(axis=-2, keepdims=True)
    product = np.where(product > 0, product, joint)  # where it underflows the term is 0
    return np.maximum((rel_entr(joint, product) - joint + product).sum(axis=(-2, -1)), 0.0)


def entropy_change(distance: np.ndarray, symbols: int) -> np.ndarray:
    """The most that an entropy on `symbols` symbols, or a conditional one, changes over a total variation.

    h(d) + d ln(m - 1) for d <= 1 - 1/m, ln m beyond. For H(A): Audenaert 2007, Theorem 1. For H(A|B), whatever B's
    alphabet: Alhejji and Smith 2020 (arXiv:1909.00787), Theorem 1. Increasing in d.
    """
    if symbols == 1:
        return np.zeros_like(distance)
    inside = np.minimum(distance, 1 - 1 / symbols)
    change = entr(inside) + entr(1 - inside) + inside * np.log(max(symbols - 1, 1))
    return np.where(distance < 1 - 1 / symbols, np.minimum(change, np.log(symbols)), np.log(symbols))


def capacity_output(stack: np.ndarray) -> np.ndarray:
    """Output distributions (M, Y) near the capacity-achieving ones of the mechanisms (M, X, Y) (Blahut, Arimoto).

    Any distribution Q gives the bound I(X;Y) <= max_x D(W(.|x) || Q); the search only makes it a good one.
    """
    weights = np.full(stack.shape[:2], 1 / stack.shape[1])
    for _ in range(_STEPS):
        output = (weights[..., None] * stack).sum(axis=1)
        gains = rel_entr(stack, output[:, None, :]).sum(axis=-1)
        largest = gains.max(axis=1, keepdims=True)
        if np.all(largest[:, 0] - (weights * gains).sum(axis=1) <= _CLOSE):  # how far the bound is from the capacity
            break
        weights = weights * np.exp(gains - largest)
        weights /= weights.sum(axis=1, keepdims=True)
    return output


# The largest I(S;Y) within a divergence ball around the fitted joint: a bound for every mechanism at once.
#
# D(P^ || P) <= rho for P(s,x), and so for P(s,y) of any mechanism, by data processing. For every product Q of margins
# I(P) <= D(P || Q), and by weak duality for all mu >= 0 and nu
#
#     sup { D(P || Q) : D(P^ || P) <= rho } <= mu rho + nu + sum_i sup_{0 <= x <= h_i} phi_i(x),
#     phi_i(x) = x ln(x/q_i) + mu p^_i ln(x/p^_i) - nu x,
#
# with h_i the largest x at which the relative entropy of two coins of p^_i and x is at most rho. phi_i is concave up to
# mu p^_i and convex beyond, so its supremum is at h_i or on the concave part, where any tangent is above it: the bound
# is valid wherever the iterations for mu, nu, Q and the tangent points stop.


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


# Mutual information of pairs (s, y) from their counts: estimates, labelled as such.
#
# The plug-in value I^ of n pairs is too high by about (|S|-1)(|Y|-1)/(2n) (Miller 1955); Miller and Madow's correction
# I^ + (m_S + m_Y - m_SY - 1)/(2n), m the numbers of non-empty cells, removes that where the cells are full and far from
# all of it where they are not. So with fewer than 5 |S| |Y| pairs nothing is estimated.


# Pairs for each cell of the table, below which nothing is estimated.
LEAST_PER_CELL = 5
# The normal approximation of the interval is left out where the bias is more than a tenth of the value.
_LEAST_SIGNAL = 10


@dataclass(frozen=True)
class InformationEstimate:
    """Estimates of I(S;Y) in nats. None of them is a bound.

    Attributes:
        plug_in: the value on the frequencies: exact for them, biased upwards for the population; None if undersampled.
        miller_madow: corrected for the bias; None if undersampled.
        interval: asymptotic two-sided interval around it; None if undersampled or too near independence.
        undersampled: fewer than 5 |S| |Y| pairs.
    """

    plug_in: float | None
    miller_madow: float | None
    interval: tuple[float, float] | None
    undersampled: bool


def estimate_information(counts: ArrayLike, beta: float = 0.05) -> InformationEstimate:
    """Estimate I(S;Y) from counts (S, Y); `beta` is the (asymptotic) error of the interval."""
    table, beta = count_array(counts), failure(beta)
    n = int(table.sum())
    joint = table / max(n, 1)
    plug_in = float(mutual_information(joint))
    if n < LEAST_PER_CELL * table.size:
        return InformationEstimate(None, None, None, True)
    full = [int(np.count_nonzero(part)) for part in (table.sum(axis=1), table.sum(axis=0), table)]
    corrected = max(0.0, plug_in + (full[0] + full[1] - full[2] - 1) / (2 * n))
    interval = None
    if 2 * n * plug_in > _LEAST_SIGNAL * (full[0] - 1) * (full[1] - 1) > 0:
        product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
        density = np.log(np.divide(joint, product, out=np.ones_like(joint), where=table > 0))
        spread = float(np.sqrt(max((joint * (density - plug_in) ** 2).sum(), 0.0) / n) * -ndtri(beta / 2))
        interval = (max(0.0, corrected - spread), corrected + spread)
    return InformationEstimate(plug_in, corrected, interval, False)
