"""Points of the central path: the multipliers of the rows, once the reduced costs without them are known."""

from typing import Any

import jax.numpy as jnp
from jax import lax


def row_prices(support: Any, h: Any, costs: Any, mu: Any) -> Any:
    """nu with sum_y mu h / (costs - nu) = 1 in every row: Newton on the reciprocal, monotone from below.

    All of shape (Y, X); nu (X,).
    """
    inside = jnp.where(support, costs, jnp.inf)
    highest = inside.min(axis=0) - mu * h.max(axis=0)

    def unfinished(carry: tuple[Any, Any, Any]) -> Any:
        _, error, count = carry
        return (error > 1e-10) & (count < 80)

    def newton(carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        nu, _, count = carry
        q = jnp.where(support, mu * h / (inside - nu), 0.0)
        f = q.sum(axis=0)
        slope = jnp.where(support, q / (inside - nu), 0.0).sum(axis=0)
        new = jnp.minimum(nu - (f - 1.0) * f / slope, inside.min(axis=0) - mu * h.max(axis=0) * 0.999999)
        return new, jnp.abs(f - 1.0).max(), count + 1

    nu, _, _ = lax.while_loop(unfinished, newton, (highest, jnp.array(jnp.inf, highest.dtype), jnp.array(0)))
    return nu
