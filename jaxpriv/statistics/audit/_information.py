"""Entropies and information on the host in nats: how far they can move, and the hardest prior of a mechanism."""

import numpy as np
from scipy.special import entr, rel_entr, xlogy

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
