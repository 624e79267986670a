"""Joints, perturbations and definitions for the tests of `jaxpriv.watchdog`."""

import math

import numpy as np
from hypothesis import strategies as st

from jaxpriv.statistics.watchdog import CompleteMerging, RandomisedResponse, SubsetMerging

INF = math.inf
ACCURACY = 1e-11
PERTURBATIONS = [
    CompleteMerging(),
    CompleteMerging("uniform"),
    CompleteMerging("single"),
    SubsetMerging(),
    SubsetMerging("single"),
    RandomisedResponse(),
    RandomisedResponse("marginal"),
]


def random_joint(seed: int, private: int = 3, useful: int = 7, *, zeros: float = 0.0, shape: float = 2.0) -> np.ndarray:
    """A joint with symbols of very different mass, nearer to independence for large `shape`; with empty cells."""
    rng = np.random.default_rng(seed)
    table = rng.gamma(shape, size=(private, useful)) * rng.gamma(1.0, size=useful) + 1e-9
    table = np.where(rng.random(table.shape) < zeros, 0.0, table)
    table[0, 0] += 0.1
    return table / table.sum()


def by_definition(joint: np.ndarray, mechanism: np.ndarray) -> tuple[float, float]:
    """(lift, I(X;Y)) of a mechanism, from their definitions and nothing else."""
    outputs = joint @ mechanism
    private, total = joint.sum(axis=1), outputs.sum(axis=0)
    lift = 0.0
    for s in np.flatnonzero(private > 0):
        for y in np.flatnonzero(total > 0):
            value = outputs[s, y] / total[y] / private[s]
            lift = max(lift, abs(math.log(value)) if value > 0 else INF)
    pairs = joint.sum(axis=0)[:, None] * mechanism
    product = joint.sum(axis=0)[:, None] * total
    inside = pairs > 0
    return lift, float((pairs[inside] * np.log(pairs[inside] / product[inside])).sum())


seeds = st.integers(0, 10**6)
thresholds = st.sampled_from([0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 5.0, INF])
zero_shares = st.sampled_from([0.0, 0.3])
