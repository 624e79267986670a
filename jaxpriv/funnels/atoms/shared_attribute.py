"""From measures inside the blocks of a shared attribute A to one measure over posteriors of X.

Funnel: A stays hidden. Let U be uniform on [0, 1] and let the output given A = a be the atom whose interval of length
y_ak holds U; with the intervals of all blocks laid over each other, the output is the piece of the common
refinement that holds U. U is independent of A, so every posterior has pi = P_A, and there are at most
sum_a (n_a - 1) + 1 outputs. Nothing is lost: for lambda < 1,

    sum_k m_k psi(q_k) >= -(1 - lambda) H(A) + sum_a P(a) sum_k y_ak psi_a(q_ak),

because H(pi) is concave. Bottleneck: A is disclosed, every atom lies in one block; H is concave in the other
direction.
"""

import numpy as np

from jaxpriv.funnels.pricing import Component


def hidden_attribute(
    blocks: tuple[Component, ...], posteriors: list[np.ndarray], weights: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(posteriors (K, X), masses (K,)): outputs that are independent of the attribute."""
    # The lightest first: the ends of short intervals are then known to many digits.
    order = [np.argsort(weight, kind="stable") for weight in weights]
    posteriors = [atoms[index] for atoms, index in zip(posteriors, order, strict=True)]
    ends = [np.cumsum(weight[index]) / weight.sum() for weight, index in zip(weights, order, strict=True)]
    inner = np.concatenate([end[:-1] for end in ends])
    cuts = np.concatenate([[0.0], np.unique(inner[(inner > 0) & (inner < 1)]), [1.0]])
    masses = np.diff(cuts)
    middle = 0.5 * (cuts[1:] + cuts[:-1])
    whole = np.zeros((len(masses), sum(len(block.useful) for block in blocks)))
    for block, atoms, end in zip(blocks, posteriors, ends, strict=True):
        chosen = np.minimum(np.searchsorted(end, middle), len(atoms) - 1)
        whole[:, block.useful] = block.mass * atoms[chosen]
    return whole, masses


def revealed_attribute(
    blocks: tuple[Component, ...], posteriors: list[np.ndarray], weights: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(posteriors (K, X), masses (K,)): outputs that determine the attribute."""
    size = sum(len(block.useful) for block in blocks)
    whole, masses = [], []
    for block, atoms, weight in zip(blocks, posteriors, weights, strict=True):
        part = np.zeros((len(atoms), size))
        part[:, block.useful] = atoms
        whole.append(part)
        masses.append(block.mass * weight / weight.sum())
    return np.vstack(whole), np.concatenate(masses)
