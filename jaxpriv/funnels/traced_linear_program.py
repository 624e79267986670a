"""The linear program over posteriors inside of jit: how often each of them is released at the least cost.

    minimise  sum_k w_k c_k   subject to   sum_k w_k q_k = p,  w >= 0,        prices nu:  c_k - nu . q_k >= 0

by Mehrotra's primal-dual method: Newton's steps on  w_k (c_k - nu . q_k) = mu, with systems of the size of p.
"""

import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import cho_factor, cho_solve

from jaxpriv._runtime.types import Arr

# Newton systems at most (20 are usual), the share of the way to the boundary that a step goes, the gap at the end in
# roundings of the largest cost, and what is added to the diagonal of the systems, in roundings of their trace.
_MOST_STEPS, _INSIDE, _GAP, _REGULAR = 60, 0.995, 1e3, 100.0


def masses_and_prices(costs: Arr, posteriors: Arr, source: Arr) -> tuple[Arr, Arr]:
    """(masses (K,), prices (X,)) for costs (K,) of posteriors (K, X) whose hull contains `source` (X,).

    A step that is not finite ends it with what was reached.
    """
    eps, count = jnp.finfo(costs.dtype).eps, len(costs)
    size = jnp.ptp(costs) + eps * abs(costs).max() + jnp.finfo(costs.dtype).tiny

    def longest(at: Arr, move: Arr) -> Arr:
        return jnp.minimum(1.0, jnp.where(move < 0, -at / jnp.where(move < 0, move, -1.0), jnp.inf).min())

    def once(state: tuple[Arr, ...]) -> tuple[Arr, ...]:
        masses, prices, slack, steps, _ = state
        ratio, product = masses / slack, masses @ slack
        system = posteriors.T @ (ratio[:, None] * posteriors)
        factor = cho_factor(system + _REGULAR * eps * jnp.trace(system) * jnp.eye(len(source)))
        missing, excess = source - masses @ posteriors, costs - posteriors @ prices - slack

        def moves(target: Arr) -> tuple[Arr, Arr, Arr]:
            """The change of each for products masses * slack that change by `target`."""
            up = cho_solve(factor, missing + (ratio * excess - target / slack) @ posteriors)
            less = excess - posteriors @ up
            return (target - masses * less) / slack, up, less

        gain, _, less = moves(-masses * slack)
        left = (masses + longest(masses, gain) * gain) @ (slack + longest(slack, less) * less)
        centre = (left / product) ** 3 * product / count
        gain, up, less = moves(centre - masses * slack - gain * less)
        down, across = _INSIDE * longest(masses, gain), _INSIDE * longest(slack, less)
        new = masses + down * gain, prices + across * up, slack + across * less
        finite = jnp.isfinite(jnp.concatenate(new)).all()
        return (*(jnp.where(finite, b, a) for a, b in zip(state, new, strict=False)), steps + 1, finite)

    def go_on(state: tuple[Arr, ...]) -> Arr:
        masses, _, slack, steps, finite = state
        return finite & (masses @ slack > _GAP * eps * abs(costs).max()) & (steps < _MOST_STEPS)

    even = jnp.full_like(costs, 1.0 / count)
    below = jnp.full_like(source, costs.min() - size)  # posteriors sum to one
    state = lax.while_loop(go_on, once, (even, below, costs - posteriors @ below, jnp.array(0), jnp.array(True)))
    return jnp.maximum(state[0], 0.0), state[1]
