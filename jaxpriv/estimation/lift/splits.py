"""Training, validation and test rows, in the same proportions of every private value."""

import jax
import numpy as np

from jaxpriv._validation import scalar
from jaxpriv.errors import InputError


def generator(key: jax.Array) -> np.random.Generator:
    """A NumPy generator that a JAX key decides."""
    words = jax.random.key_data(key) if key.dtype != np.uint32 else key  # new-style keys, and raw ones
    return np.random.default_rng(np.asarray(words, dtype=np.uint32))


def share(value: float, name: str) -> float:
    """A share of rows, in (0, 1)."""
    number = scalar(value, name, low=0.0, open_low=True)
    if not number < 1.0:
        raise InputError(f"{name} must be a number > 0 and < 1")
    return number


def split(
    rng: np.random.Generator, private: np.ndarray, rows: np.ndarray, part: float
) -> tuple[np.ndarray, np.ndarray]:
    """`rows` -> (the rest, `part` of them), both shuffled, each private value in proportion.

    Every private value has a row on either side, and the sizes depend on the counts alone: splits can be stacked.
    Raises `InputError` if a private value has fewer than two of the rows.
    """
    rest, taken = [], []
    for code in range(private.max() + 1):
        own = rng.permutation(rows[private[rows] == code])
        if len(own) < 2:
            raise InputError(
                f"private: code {code} has too few rows for training, validation and test (three are needed); "
                "merge rare values"
            )
        count = min(max(round(part * len(own)), 1), len(own) - 1)
        taken.append(own[:count])
        rest.append(own[count:])
    return rng.permutation(np.concatenate(rest)), rng.permutation(np.concatenate(taken))
