"""The least value of a convex function on the probability simplex, the same under jit and vmap, with an error bound."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxpriv._runtime.types import Arr


def least_on_simplex(objective: Callable[[Array], Array], start: Array, steps: int) -> Array:
    """The minimiser of a convex, twice differentiable function on the probability simplex, from a `start` inside.

    A fixed number of interior-point steps (Newton's method on objective(q) - mu sum_s ln q(s), mu shrinking with the
    gap), deterministic and the same under `jit` and `vmap`. `simplex_gap` of its gradient bounds the error.
    """
    gradient, hessian = jax.grad(objective), jax.hessian(objective)
    size = start.size
    shortening = jnp.asarray(0.5, start.dtype) ** jnp.arange(12, dtype=start.dtype)

    def step(_: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        q, nearest, least = state
        slope = gradient(q)
        gap = simplex_gap(slope, q)
        nearest, least = jnp.where(gap < least, q, nearest), jnp.minimum(gap, least)
        scale = jnp.max(jnp.abs(slope)) * jnp.finfo(q.dtype).eps
        # At the centre of weight mu the gap is just below size * mu: aim at a tenth of it.
        mu = jnp.maximum(0.1 * gap / size, scale + jnp.finfo(q.dtype).tiny)
        # In the variable z = (move of q)/q the Hessian of the barrier is mu I: well conditioned.
        matrix = q[:, None] * hessian(q) * q[None, :] + mu * jnp.eye(size, dtype=q.dtype)
        factor = jax.scipy.linalg.cho_factor(matrix)
        newton = jax.scipy.linalg.cho_solve(factor, q * slope - mu)
        level = jax.scipy.linalg.cho_solve(factor, q)
        z = level * (jnp.sum(q * newton) / jnp.sum(q * level)) - newton
        # 95 % of the way to the boundary: a choice.
        longest = jnp.minimum(1.0, 0.95 / jnp.maximum(jnp.max(-z), 0.95))
        lengths = longest * shortening

        def point(length: Array) -> Array:
            moved = q * (1.0 + length * z)
            return moved / jnp.sum(moved)

        def merit(candidate: Array) -> Array:
            return objective(candidate) - mu * jnp.sum(jnp.log(candidate))

        candidates = jax.vmap(point)(lengths)
        merits = jax.vmap(merit)(candidates)
        best = jnp.argmin(jnp.where(jnp.isnan(merits), jnp.inf, merits))
        # Close to the minimum the merits differ by rounding only, the gap (of first order) still by much: such
        # a step is taken, and the point of the smallest gap kept.
        before = merit(q)
        rounding = 4 * size * jnp.finfo(q.dtype).eps * jnp.abs(before)
        usable = jnp.all(jnp.isfinite(candidates[best])) & (merits[best] <= before + rounding)
        return jnp.where(usable, candidates[best], q), nearest, least

    last, nearest, least = jax.lax.fori_loop(0, steps, step, (start, start, jnp.full((), jnp.inf, start.dtype)))
    return jnp.where(simplex_gap(gradient(last), last) < least, last, nearest)


def simplex_gap(slope: Array, q: Arr) -> Array:
    """The Frank-Wolfe gap of a convex function with gradient `slope` at q in the simplex."""
    return jnp.sum(slope * q) - jnp.min(slope)
