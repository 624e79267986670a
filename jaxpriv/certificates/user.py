"""A user's f in a certificate: its values, and lines below it, from the user's own function in float64.

A line u t - c lies below a convex f where u = f'(r) and c = r f'(r) - f(r), for whatever ratio r: no conjugate in
closed form is needed and none is relied on. The proof assumes what `UserDivergence` says of f, that it is convex
with f(1) = 0, and that JAX differentiates it to a slope (at a kink any number between the two one-sided ones).
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv.problems.generator import HIGHEST, LOWEST, Generator
from jaxpriv.problems.loss import Loss

# The bracket of ln t, of width 460, is halved so often that the ratio is known to rounding.
_HALVINGS = 62
# What a value of f may be off by, relative to the numbers that it was made of.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)


def values(f: Generator, t: np.ndarray) -> np.ndarray:
    """f(t), t >= 0: the limit at 0, inf outside of its domain."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        return np.asarray(f.value(jnp.asarray(t)), dtype=np.float64)


def supporting_lines(f: Generator, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(u, c) with f(t) >= u t - c for every t >= 0 and u = `wanted`, or the nearest slope that f has."""
    low, high = np.full(wanted.shape, np.log(LOWEST)), np.full(wanted.shape, np.log(HIGHEST))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        rising = _slopes(f, np.exp(middle)) < wanted
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    # The end of the bracket on the side of 1 has a finite slope wherever one of the two has.
    r = np.exp(np.where(low > 0, low, high))
    u, value = _slopes(f, r), values(f, r)
    rounding = _ROUNDING * (abs(r * u) + abs(value) + abs(f.tilt) * (r + 1.0) / f.size)
    return u, r * u - value + rounding


def _slopes(f: Generator, t: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        return np.asarray(f.slope(jnp.asarray(t)), dtype=np.float64)


def most_saved(loss: Loss, w: np.ndarray) -> np.ndarray:
    """-min_q sum_s w_s C(s, q) of every output, w (S, Y), rounded up by what the minimum may be missed by.

    What the adversary pays who sees nothing was rounded down by `loss.slack`: the outputs share that too.
    """
    w = np.maximum(w, 0.0)
    below, _ = loss.interval(w.T)
    return loss.slack * w.sum(axis=0) - below


def announced(loss: Loss, g: np.ndarray) -> np.ndarray:
    """-C(., q) for a distribution q near the scores g, (Y, S): a rule whatever q is."""
    q = np.clip(np.nan_to_num(loss.announcements(g), nan=1.0), 0.0, 1.0)
    costs = loss.costs_of(q / np.maximum(q.sum(axis=1, keepdims=True), 1e-300))
    return -np.where(np.isfinite(costs) & (q.sum(axis=1, keepdims=True) > 0), costs, np.inf)
