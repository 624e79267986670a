"""Random mechanisms over small universes, with and without zeros."""

import numpy as np
from hypothesis import strategies as st

SIZES = [(2,), (2, 2), (3, 2), (2, 2, 2), (2, 1, 3), (4,)]


def random_mechanism(seed: int, rows: int, outputs: int, *, zeros: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mechanism = rng.dirichlet(np.full(outputs, 0.8), rows)
    if zeros:
        mechanism = mechanism * (rng.random(mechanism.shape) < 0.7)
        mechanism[:, 0] += 0.1
    return mechanism / mechanism.sum(axis=1, keepdims=True)


@st.composite
def mechanisms(draw, zeros: bool = False):
    """(mechanism, sizes, a generator for whatever else is random)."""
    sizes = draw(st.sampled_from(SIZES))
    seed = draw(st.integers(0, 2**32 - 1))
    outputs = draw(st.integers(1, 4))
    return random_mechanism(seed, int(np.prod(sizes)), outputs, zeros=zeros), sizes, np.random.default_rng(seed + 1)
