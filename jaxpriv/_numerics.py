"""Elementary functions with a chosen value AND a chosen gradient where the formula is 0 ln 0.

`where(p > 0, p * log(p), 0)` has the right value and a NaN gradient; `xlogy` and `entr` have
infinite ones. Each function below states both. Masses under the smallest normal float count as
zero: XLA flushes subnormals, so their logarithm would be -inf on one device and finite on another.
"""

import jax.numpy as jnp
from jaxtyping import Array


def positive(x: Array) -> Array:
    """Whether a mass counts as present: at or above the smallest normal number of its dtype."""
    return x >= jnp.finfo(x.dtype).tiny


def safe_log(x: Array) -> Array:
    """ln x where x is a positive mass; 0 with zero gradient where it is not.

    For factors `m * safe_log(x)` with `m = 0` wherever `x = 0`: the product then has the limit as
    its value, and its gradient with respect to `m` is finite (0), the convention of a symbol
    without mass being left out of the sum.
    """
    present = positive(x)
    return jnp.where(present, jnp.log(jnp.where(present, x, 1.0)), 0.0)


def xlogx(x: Array) -> Array:
    """x ln x with value 0 and gradient 0 at x = 0 (the one-sided derivative there is -inf)."""
    present = positive(x)
    kept = jnp.where(present, x, 1.0)
    return jnp.where(present, kept * jnp.log(kept), 0.0)


def safe_divide(x: Array, y: Array) -> Array:
    """x / y where y is a positive mass; 0 with zero gradients where it is not."""
    present = positive(y)
    return jnp.where(present, x / jnp.where(present, y, 1.0), 0.0)
