"""Mirror descent with difference-of-convex steps on the funnel Lagrangian  F(W) = leak(W) - lam I(X;Y).

The leakage sum_y phi(w_y) is convex in W and -lam I(X;Y) is concave. The concave part is replaced by its
tangent, the convex part by its tangent and a relative entropy, and the sum is minimised in closed form:

    W'[x,y]  proportional to  W[x,y] exp( -t ( c[x,y] - lam u[x,y] ) ),      K = sum_x p_x D(W'_x || W_x)

(u and c as in `balance`).  For I(S;Y) and 0 <= lam <= 1 the descent is monotone for t <= 1/(1 - lam): with
D_leak, D_I the Bregman divergences of I(S;Y) and of I(X;Y),

    D_leak(W',W) = D(w'||w) - D(r'||r),      D_I(W',W) = K - D(r'||r),      D(w'||w) <= K  (data processing),
    F(W') - F(W) - <grad F(W), W' - W> = D_leak - lam D_I  <=  (1 - lam) (K - D(r'||r))  <=  (1 - lam) K,

so the step minimises an upper bound of F that is tight at W, and F(W') <= F(W) - K(W,W')/t (three points). At
t = 1/(1 - lam) it is the step of the EM-relaxed method (`alternating`) at that price.
Longer steps, and steps for other measures, whose leakage may have no such constant, are taken if they
lower F by a tenth of K(W,W')/t at least, and are shortened otherwise: F never increases for any measure. Measures
with kinks (a maximum) may stop where no step helps although the conditions do not hold; `residual` tells.

Difference of convex functions: Tao and An 1997; relative smoothness: Bauschke, Bolte, Teboulle 2017; the
Lagrangian: Hsu, Asoodeh and Calmon 2019, eq. (10), Makhdoumi et al. 2014, eq. (5).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from jaxpriv._types import Arr, ScalarLike
from jaxpriv.funnels.local.balance import (
    Balance,
    Channel,
    balance,
    log_rows,
    total_leakage,
    unsettled,
    value_leakage,
)
from jaxpriv.leakage import AbstractAverageLeakage

_GROWTH, _CUT = 1.5, 0.25
# A step must keep this share of what its model promises.
_KEPT = 0.1
# What is left of the step where no shorter one is tried.
_SHORTEST, _LONGEST = 1e-9, 1e9
_ROUNDING = 4e-16


class Landing(eqx.Module):
    """Where a local method ended, for one start or a batch of them along a leading axis.

    `residual` (nats) is zero iff the first-order conditions of `leak - multiplier * disclosure` hold (`unsettled`).
    """

    log_mechanism: Arr  # (X, Y)
    leak: Arr
    disclosure: Arr
    multiplier: ScalarLike
    residual: Arr
    steps: Arr

    @property
    def value(self) -> Arr:
        """leak - multiplier * disclosure."""
        return self.leak - self.multiplier * self.disclosure


class _DescentState(eqx.Module):
    log_mechanism: Arr
    now: Balance
    step: Arr
    steps: Arr


def difference_step(log_mechanism: Arr, now: Balance, lam: ScalarLike, step: ScalarLike) -> Arr:
    """The closed-form step from W (logarithms), shape (X, Y)."""
    return log_rows(log_mechanism - step * (now.costs - lam * now.ratios))


def _descend(
    given: Channel,
    measure: AbstractAverageLeakage,
    lam: ScalarLike,
    start: Arr,
    tol: ScalarLike,
    most: ScalarLike,
    whole: bool,
) -> Landing:
    kind = value_leakage if whole else total_leakage

    def at(log_mechanism: Arr) -> Balance:
        return balance(given, lambda outputs: kind(measure, given.private, outputs), log_mechanism)

    def residual(log_mechanism: Arr, now: Balance) -> Arr:
        return unsettled(given, log_mechanism, now.costs - lam * now.ratios, now.log_masses)

    def go_on(state: _DescentState) -> Arr:
        # Stated positively, so that a NaN ends the loop.
        open_ = residual(state.log_mechanism, state.now) > tol
        return open_ & (state.step > _SHORTEST) & (state.steps < most)

    def once(state: _DescentState) -> _DescentState:
        old, now = state.log_mechanism, state.now
        new = difference_step(old, now, lam, state.step)
        after = at(new)
        before, reached = now.leak - lam * now.disclosure, after.leak - lam * after.disclosure
        moved = (given.source[:, None] * jnp.exp(old) * (old - new)).sum()
        enough = before - _KEPT * jnp.maximum(moved, 0.0) / state.step + _ROUNDING * (1.0 + jnp.abs(before))
        taken = reached <= enough
        kept = jax.tree.map(lambda a, b: jnp.where(taken, a, b), (new, after), (old, now))
        step = jnp.where(taken, jnp.minimum(_GROWTH * state.step, _LONGEST), _CUT * state.step)
        return _DescentState(*kept, step=step, steps=state.steps + 1)

    begun = log_rows(start)
    first = _DescentState(begun, at(begun), jnp.ones_like(lam), jnp.zeros_like(most))
    last = lax.while_loop(go_on, once, first)
    return Landing(
        log_mechanism=last.log_mechanism,
        leak=last.now.leak,
        disclosure=last.now.disclosure,
        multiplier=lam,
        residual=residual(last.log_mechanism, last.now),
        steps=last.steps,
    )


@eqx.filter_jit
def descend(
    given: Channel,
    measure: AbstractAverageLeakage,
    multipliers: Arr,
    starts: Arr,
    tol: ScalarLike,
    most: ScalarLike,
    *,
    whole: bool = False,
) -> Landing:
    """Every start (B, X, Y) (logarithms) at its own price `multipliers` (B,), all in one batch.

    `whole`: the leakage is the measure's value instead of sum_y phi(w_y). `tol` bounds the residual, `most` the steps.
    """
    run = jax.vmap(lambda lam, start: _descend(given, measure, lam, start, tol, most, whole))
    return run(multipliers, starts)
