"""Entropies on the host in nats, how far they can move, and the hardest prior of a mechanism."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, rel_entr, xlogy

from jaxpriv.estimation.confidence.means import count_array, failure

# Steps of Blahut and Arimoto at most, and the distance of the bound from the capacity at which they end. Any Q gives
# a bound: they change its tightness only.
_STEPS = 300
_CLOSE = 1e-9  # nats


def entropy(distribution: np.ndarray) -> np.ndarray:
    """H along the last axis."""
    return -xlogy(distribution, distribution).sum(axis=-1)


def mutual_information(joint: np.ndarray) -> np.ndarray:
    """I of joints (..., a, b), not below 0; terms p ln(p/q) - p + q, none of them negative."""
    product = joint.sum(axis=-1, keepdims=True) * joint.sum(axis=-2, keepdims=True)
    return np.maximum((rel_entr(joint, product) - joint + product).sum(axis=(-2, -1)), 0.0)


def entropy_change(distance: np.ndarray, symbols: int) -> np.ndarray:
    """The most that an entropy on `symbols` symbols, or a conditional one, changes over a total variation.

    h(d) + d ln(m - 1) for d <= 1 - 1/m, ln m beyond. For H(A): Audenaert 2007, Theorem 1. For H(A|B), whatever B's
    alphabet: Alhejji and Smith 2020 (arXiv:1909.00787), Theorem 1. Increasing in d.
    """
    if symbols == 1:
        return np.zeros_like(distance)
    inside = np.minimum(distance, 1 - 1 / symbols)
    change = -xlogy(inside, inside) - xlogy(1 - inside, 1 - inside) + inside * np.log(max(symbols - 1, 1))
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
            return output
        weights = weights * np.exp(gains - largest)
        weights /= weights.sum(axis=1, keepdims=True)
    return (weights[..., None] * stack).sum(axis=1)


# Mutual information of pairs (s, y) from their counts: estimates, labelled as such, and a bound.
#
# The plug-in value I^ of n pairs is too high by about (|S|-1)(|Y|-1)/(2n) (Miller 1955); Miller and Madow's correction
# I^ + (m_S + m_Y - m_SY - 1)/(2n), m the numbers of non-empty cells, removes that where the cells are full and far from
# all of it where they are not. So with fewer than 5 |S| |Y| pairs nothing is estimated.
#
# The bound. The entropies of frequencies are too low on average, by at most ln(1 + (m-1)/n) (Jensen, Paninski 2003), so
# I <= E I^ + ln(1 + (|S|-1)/n) + ln(1 + (|Y|-1)/n). One pair that changes moves n I^ by at most 2d, d = n ln n - (n-1)
# ln(n-1): with g(k) = k ln k increasing by at most d from one count to the next, the new cell and its margins change
# g(N_sy) - g(N_s) - g(N_y) by an amount in [-2d, 0] and the old ones by one in [0, 2d]. Bounded differences (McDiarmid)
# then give E I^ <= I^ + d sqrt( 2 ln(1/beta)/n ).


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
        density = np.where(table > 0, np.log(np.where(table > 0, joint / np.where(product > 0, product, 1.0), 1.0)), 0)
        spread = float(np.sqrt(max((joint * (density - plug_in) ** 2).sum(), 0.0) / n) * -ndtri(beta / 2))
        interval = (max(0.0, corrected - spread), corrected + spread)
    return InformationEstimate(plug_in, corrected, interval, False)


def information_bound(counts: np.ndarray, beta: float) -> np.ndarray:
    """An upper bound on I(S;Y) with probability 1 - beta for tables (..., S, Y), without assumptions on P."""
    private, released = counts.shape[-2:]
    n = counts.sum(axis=(-2, -1))
    kept = np.maximum(n, 2)
    fitted = mutual_information(counts / np.maximum(n, 1)[..., None, None])
    step = xlogy(kept, kept) - xlogy(kept - 1, kept - 1)
    bias = np.log1p((private - 1) / kept) + np.log1p((released - 1) / kept)
    value = fitted + bias + step * np.sqrt(-2 * np.log(failure(beta)) / kept)
    largest = np.log(min(private, released))
    return np.where(n >= 2, np.minimum(value * (1 + 1e-12), largest), largest)
