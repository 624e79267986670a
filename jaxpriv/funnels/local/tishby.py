"""The alternating iteration of the information bottleneck:  max I(S;Y) - lam I(X;Y),  0 < lam < 1.

The free energy  lam sum_x p_x D(W_x || r) + sum_{x,y} p_x W[x,y] D(T_x || q_y)  is minimised over W, over r and over
the posteriors q_y in turn, each in closed form; at the last two it is I(S;X) - ( I(S;Y) - lam I(X;Y) ). One round is

    W'[x,y]  proportional to  r_y exp( c[x,y]/lam ),       c[x,y] = sum_s T(s|x) ln( P(s|y)/p_s )

with r and P(s|y) those of W, so I(S;Y) - lam I(X;Y) never decreases. A fixed point satisfies the KKT conditions.

Tishby, Pereira and Bialek 1999, Theorem 5. With S = X and lam < 1 the fixed point reached is Y = X.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from jaxpriv._types import Arr, ScalarLike
from jaxpriv.funnels.local.balance import Balance, Channel, balance, log_rows, total_leakage, unsettled
from jaxpriv.funnels.local.descent import Landing
from jaxpriv.leakage import MutualInformation

# At price zero everything is released; below this the rows are deterministic in float64 as well.
_LEAST_PRICE = 1e-6


class _TishbyState(eqx.Module):
    log_mechanism: Arr
    now: Balance
    steps: Arr


def bottleneck_step(now: Balance, lam: ScalarLike) -> Arr:
    """The closed-form round from the present mechanism, as logarithms (X, Y)."""
    return log_rows(now.log_masses[None, :] + now.costs / jnp.maximum(lam, _LEAST_PRICE))


def _squeeze(given: Channel, lam: ScalarLike, start: Arr, tol: ScalarLike, most: ScalarLike) -> Landing:
    measure = MutualInformation()

    def at(log_mechanism: Arr) -> Balance:
        return balance(given, lambda outputs: total_leakage(measure, given.private, outputs), log_mechanism)

    def residual(state: _TishbyState) -> Arr:
        return unsettled(given, state.log_mechanism, lam * state.now.ratios - state.now.costs, state.now.log_masses)

    def go_on(state: _TishbyState) -> Arr:
        return (residual(state) > tol) & (state.steps < most)

    def once(state: _TishbyState) -> _TishbyState:
        new = bottleneck_step(state.now, lam)
        return _TishbyState(new, at(new), state.steps + 1)

    begun = log_rows(start)
    last = lax.while_loop(go_on, once, _TishbyState(begun, at(begun), jnp.zeros_like(most)))
    return Landing(
        log_mechanism=last.log_mechanism,
        leak=last.now.leak,
        disclosure=last.now.disclosure,
        multiplier=lam,
        residual=residual(last),
        steps=last.steps,
    )


@eqx.filter_jit
def squeeze(given: Channel, multipliers: Arr, starts: Arr, tol: ScalarLike, most: ScalarLike) -> Landing:
    """Every start (B, X, Y) (logarithms) at its own price (B,), all in one batch."""
    run = jax.vmap(lambda lam, start: _squeeze(given, lam, start, tol, most))
    return run(multipliers, starts)
