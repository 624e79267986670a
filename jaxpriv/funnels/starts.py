"""Where local methods start: random mechanisms of many degrees of randomness, strictly positive.

A multiplicative step never leaves a face of the simplex, so every start has all entries positive.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import logsumexp
from jaxtyping import Array

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.types import Arr

# Gumbel noise times these: from rows near uniform to rows near deterministic maps, in turn.
_SHARPNESS = (0.5, 1.0, 2.0, 4.0, 8.0)
# What a start given from outside is blended with, so that no entry is stuck at zero.
_BLEND = 1e-3


@partial(jax.jit, static_argnames=("count", "symbols", "outputs", "dtype"))
def random_starts(key: Array, count: int, symbols: int, outputs: int, dtype: Any = "float64") -> Array:  # noqa: ANN401 (what JAX takes as a dtype)
    """Logarithms of `count` random mechanisms, shape (count, symbols, outputs)."""
    noise = jax.random.gumbel(key, (count, symbols, outputs), dtype=dtype)
    logits = noise * jnp.asarray(np.resize(_SHARPNESS, count)[:, None, None], dtype)
    return logits - logsumexp(logits, axis=2, keepdims=True)


def blended(mechanisms: Arr) -> Arr:
    """Mechanisms (..., X, Y) with zeros, as strictly positive logarithms."""
    return xp.log((1.0 - _BLEND) * mechanisms + _BLEND / mechanisms.shape[-1])


def widened(mechanism: Arr, outputs: int) -> Arr:
    """A mechanism (X, Y) with unused outputs appended until there are `outputs` of them."""
    return xp.of(mechanism).pad(mechanism, ((0, 0), (0, outputs - mechanism.shape[1])))


def disclosed(source: np.ndarray, mechanisms: np.ndarray) -> np.ndarray:
    """I(X;Y) in nats of mechanisms (..., X, Y)."""
    masses = np.einsum("x,...xy->...y", source, mechanisms)[..., None, :]
    ratio = np.divide(mechanisms, masses, out=np.ones_like(mechanisms), where=mechanisms > 0)
    return np.einsum("x,...xy->...", source, mechanisms * np.log(ratio))


def disclosing(source: np.ndarray, logarithms: np.ndarray, target: float) -> np.ndarray:
    """The starts (B, X, Y) mixed with X itself (Y >= X outputs) or with nothing until I(X;Y) is `target`, in (0, H(X)).

    I(X;Y) is convex in the mixture and ends on the other side of the target: there is one crossing.
    """
    mechanisms = np.exp(logarithms)
    short = disclosed(source, mechanisms) < target
    nothing = np.full(mechanisms.shape[1:], 1.0 / mechanisms.shape[2])
    whole = np.broadcast_to(widened(np.eye(len(source)), mechanisms.shape[2]), mechanisms.shape)
    other = np.where(short[:, None, None], whole, nothing)
    low, high = np.zeros(len(mechanisms)), np.ones(len(mechanisms))
    for _ in range(50):
        share = 0.5 * (low + high)
        mixed = mechanisms + share[:, None, None] * (other - mechanisms)
        before = (disclosed(source, mixed) < target) == short
        low, high = np.where(before, share, low), np.where(before, high, share)
    return np.log(mechanisms + low[:, None, None] * (other - mechanisms))
