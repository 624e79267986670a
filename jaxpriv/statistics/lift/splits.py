"""Training, validation and test rows, in the same proportions of every private value."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv.errors import InputError

# How samples are made, where something else was given.
MADE_FROM = "; `from_features` and `from_symbols` make them"


def checked_key(key: jax.Array) -> jax.Array:
    """A JAX key, new-style or raw; `InputError` for anything else."""
    array = isinstance(key, (jax.Array, np.ndarray))
    new = array and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if not (array and (key.ndim == 0 if new else key.dtype == np.uint32 and key.ndim == 1)):
        raise InputError("key must be a JAX key: jax.random.key(0) is one")
    return key


def generator(key: jax.Array) -> np.random.Generator:
    """A NumPy generator that a JAX key decides."""
    words = jax.random.key_data(key) if key.dtype != np.uint32 else key  # new-style keys, and raw ones
    return np.random.default_rng(np.asarray(words, dtype=np.uint32))


def split(
    rng: np.random.Generator, private: np.ndarray, rows: np.ndarray, part: float
) -> tuple[np.ndarray, np.ndarray]:
    """`rows` -> (the rest, `part` of them), both shuffled, each private value in proportion.

    Every private value has a row on either side, and the sizes depend on the counts alone: splits can be stacked.
    Raises `InputError` if a private value has fewer than two of the rows.
    """
    rest, taken = [], []
    for code in range(private.max() + 1):
        class_rows = rng.permutation(rows[private[rows] == code])
        if len(class_rows) < 2:
            raise InputError(
                f"private: code {code} has too few rows for training, validation and test (three are needed); "
                "merge rare values"
            )
        count = min(max(round(part * len(class_rows)), 1), len(class_rows) - 1)
        taken.append(class_rows[:count])
        rest.append(class_rows[count:])
    return rng.permutation(np.concatenate(rest)), rng.permutation(np.concatenate(taken))
