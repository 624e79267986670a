"""A mechanism with the outputs that it needs: without negligible ones, and with equal ones merged.

Outputs of one posterior are equivalent. Merging outputs of mass m whose posteriors are eps apart loses of the order
of m eps^2 nats, so that what is merged here is lost in rounding.
"""

import numpy as np

# An output that every symbol chooses with at most this probability is left out.
_NEGLIGIBLE = 1e-13
# Posteriors closer than this in total variation are one.
_EQUAL = 1e-8


def tidy(mechanism: np.ndarray, source: np.ndarray) -> np.ndarray:
    """The mechanism (X, Y) with fewer outputs; rows sum to one."""
    remaining = mechanism[:, mechanism.max(axis=0) > _NEGLIGIBLE]
    masses = source @ remaining
    remaining = remaining[:, np.argsort(-masses, kind="stable")]
    merged: list[np.ndarray] = []
    for column in remaining.T:
        posterior = source * column / (source @ column)
        for i, other in enumerate(merged):
            if np.abs(posterior - source * other / (source @ other)).sum() <= 2 * _EQUAL:
                merged[i] = other + column
                break
        else:
            merged.append(column)
    result = np.stack(merged, axis=1)
    return result / result.sum(axis=1, keepdims=True)
