"""Prices of the bottleneck from its self-consistent equations.

A best bottleneck uses few atoms (at most |S| + 1), so the linear program leaves the prices of |X| rows nearly free and
plain column generation crawls. At a stationary point they are not free. For outputs of mass m_k and posterior r_k of S

    Z_x = sum_k m_k exp( -D(T_x || r_k)/lambda ),     P(k|x) = m_k exp( -D(T_x || r_k)/lambda )/Z_x

(Tishby, Pereira and Bialek 1999, eq 28), and stationarity of every atom gives the one price vector

    nu_x = D(T_x || P_S) + lambda ln Z_x       of a - lambda b.

Any (m, r) gives prices, and any prices a bound; at a global optimum the bound is met.
"""

import numpy as np

from jaxpriv._clock import ENDLESS, Clock
from jaxpriv.funnels.atoms.pool import Part

# Iterations from one start, times the patience; they stop earlier when the masses move by less than this.
_STEPS = 400
_STILL = 1e-13
# Outputs of less mass are left out.
_EMPTY = 1e-12
_TINY = 1e-300


def self_consistent(
    parts: tuple[Part, ...],
    atoms: tuple[np.ndarray, ...],
    weights: tuple[np.ndarray, ...],
    lam: float,
    patience: int = 1,
    clock: Clock = ENDLESS,
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """(prices of a - lambda b, better atoms) for every block, iterating from `atoms` (K, X_a) with `weights` (K,).

    All blocks in one batch: what a block lacks in symbols or outputs is filled up with zeros.
    """
    blocks = [part.block for part in parts]
    private = max(len(block.prior) for block in blocks)
    useful = max(len(block.source) for block in blocks)
    outputs = max(len(weight) for weight in weights)
    conditional = np.zeros((len(blocks), private, useful))
    source, mass = np.zeros((len(blocks), useful)), np.zeros((len(blocks), outputs))
    seen = np.zeros((len(blocks), outputs, private))
    for k, (block, atom, weight) in enumerate(zip(blocks, atoms, weights, strict=True)):
        conditional[k, : len(block.prior), : len(block.source)] = block.conditional
        source[k, : len(block.source)] = block.source
        mass[k, : len(weight)] = weight / weight.sum()
        seen[k, : len(weight), : len(block.prior)] = atom @ block.conditional.T
    known = (conditional * np.log(np.maximum(conditional, _TINY))).sum(axis=1)  # -H(T_x)
    for _ in range(_STEPS * patience):
        share, logs = _shares(conditional, known, mass, seen, lam)
        joint = share * source[:, None, :]
        following = joint.sum(axis=2)
        seen = np.where(
            following[..., None] > _EMPTY,
            (joint @ conditional.transpose(0, 2, 1)) / np.maximum(following, _EMPTY)[..., None],
            seen,
        )
        moved = float(np.abs(following - mass).max())
        mass = np.where(following > _EMPTY, following, 0.0)
        if moved <= _STILL or clock.expired():
            break
    share, logs = _shares(conditional, known, mass, seen, lam)
    joint = share * source[:, None, :]
    prices, better = [], []
    for k, block in enumerate(blocks):
        size = len(block.source)
        apart = known[k, :size] - np.log(block.prior) @ block.conditional  # D(T_x || P_S)
        prices.append(apart + lam * logs[k, :size])
        used = joint[k].sum(axis=1) > _EMPTY
        atom = joint[k][used][:, :size]
        better.append(atom / atom.sum(axis=1, keepdims=True))
    return tuple(prices), tuple(better)


def _shares(conditional: np.ndarray, known: np.ndarray, mass: np.ndarray, seen: np.ndarray, lam: float):
    """(P(k|x), shape (B, K, X); ln Z_x, shape (B, X))."""
    cross = np.log(np.maximum(seen, _TINY)) @ conditional  # (B, K, X): sum_s T_sx ln r_ks
    exponent = np.log(np.maximum(mass, _TINY))[..., None] - (known[:, None, :] - cross) / lam
    top = exponent.max(axis=1, keepdims=True)
    weights = np.exp(exponent - top)
    total = weights.sum(axis=1, keepdims=True)
    return weights / total, (top + np.log(total))[:, 0]
