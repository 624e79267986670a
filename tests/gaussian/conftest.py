"""Random jointly Gaussian pairs of every kind."""

import numpy as np
import pytest

from jaxpriv.models.gaussian import GaussianSource, from_covariances


def covariances(seed: int, n: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(Sx, Ss, Sxs) of n + m variables that are mixtures of n + m + 2 independent ones."""
    mix = np.random.default_rng(seed).normal(size=(n + m, n + m + 2))
    joint = mix @ mix.T
    return joint[:n, :n], joint[n:, n:], joint[:n, n:]


def with_correlations(correlations: list[float]) -> GaussianSource:
    """Pairs (x_i, s_i) with the given correlations, independent of each other."""
    identity = np.eye(len(correlations))
    return from_covariances(identity, identity, np.diag(correlations))


@pytest.fixture(scope="session")
def source() -> GaussianSource:
    """Three variables of X, three of S, nothing degenerate."""
    return from_covariances(*covariances(3, 3, 3))
