"""Steps of the local methods that descend: those of the funnel, and the bottleneck's with a step of -1/lam.

Mirror descent with difference-of-convex steps on the funnel Lagrangian  F(W) = leak(W) - lam I(X;Y).

The leakage sum_y phi(w_y) is convex in W and -lam I(X;Y) is concave. The concave part is replaced by its
tangent, the convex part by its tangent and a relative entropy, and the sum is minimised in closed form:

    W'[x,y]  proportional to  W[x,y] exp( -t ( c[x,y] - lam u[x,y] ) ),      K = sum_x p_x D(W'_x || W_x)

(u and c as in `balance`).  For I(S;Y) and 0 <= lam <= 1 the descent is monotone for t <= 1/(1 - lam): with
D_leak, D_I the Bregman divergences of I(S;Y) and of I(X;Y),

    D_leak(W',W) = D(w'||w) - D(r'||r),      D_I(W',W) = K - D(r'||r),      D(w'||w) <= K  (data processing),
    F(W') - F(W) - <grad F(W), W' - W> = D_leak - lam D_I  <=  (1 - lam) (K - D(r'||r))  <=  (1 - lam) K,

so the step minimises an upper bound of F that is tight at W, and F(W') <= F(W) - K(W,W')/t (three points). At
t = 1/(1 - lam) it is the step of the EM-relaxed method at that price.
Longer steps, and steps for other measures, whose leakage may have no such constant, are taken if they
lower F by a tenth of K(W,W')/t at least, and are shortened otherwise: F never increases for any measure. Measures
with kinks (a maximum) may stop where no step helps although the conditions do not hold; `residual` measures it.

The bottleneck maximises I(S;Y) - lam I(X;Y), 0 < lam < 1. Its alternating iteration minimises the free energy
lam sum_x p_x D(W_x || r) + sum_{x,y} p_x W[x,y] D(T_x || q_y)  over W, over r and over the posteriors q_y in turn, each
in closed form; at the last two it is I(S;X) - ( I(S;Y) - lam I(X;Y) ). One round is

    W'[x,y]  proportional to  r_y exp( c[x,y]/lam ),

with r and c those of W: the step above with t = -1/lam, as W exp(-u) = r. It never loses, so every step is taken. A
fixed point satisfies the KKT conditions. With S = X and lam < 1 the fixed point reached is Y = X.

Tishby, Pereira and Bialek 1999, Theorem 5. Difference of convex functions: Tao and An 1997; relative smoothness:
Bauschke, Bolte, Teboulle 2017; the Lagrangian: Hsu, Asoodeh and Calmon 2019, eq. (10), Makhdoumi et al. 2014, eq. (5).
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.funnels.balance import Balance, Channel, balance, channel, log_rows, unsettled
from jaxpriv.leakage import AbstractAverageLeakage

# A step that is taken makes the next one longer by the first factor, one that is refused shorter by the second.
_GROWTH, _CUT = 1.5, 0.25
# A step must achieve this share of the decrease that its model predicts.
_KEPT = 0.1
# What is left of the step where no shorter one is tried.
_SHORTEST, _LONGEST = 1e-9, 1e9
# At price zero a bottleneck releases everything; below this the rows are deterministic in float64 as well.
_LEAST_PRICE = 1e-6
# Rounding of the two values that are compared, in epsilons of their dtype.
_ROUNDING = 2.0


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


def _descend(
    given: Channel,
    at: Callable[[Arr], Balance],
    lam: ScalarLike,
    start: Arr,
    tol: ScalarLike,
    most: ScalarLike,
    bottleneck: bool,
) -> Landing:
    def residual(log_mechanism: Arr, now: Balance) -> Arr:
        slopes = now.costs - lam * now.ratios
        return unsettled(given, log_mechanism, -slopes if bottleneck else slopes, now.log_masses)

    def go_on(state: _DescentState) -> Arr:
        # Stated positively, so that a NaN ends the loop.
        open_ = residual(state.log_mechanism, state.now) > tol
        return open_ & (jnp.abs(state.step) > _SHORTEST) & (state.steps < most)

    def once(state: _DescentState) -> _DescentState:
        old, now = state.log_mechanism, state.now
        new = log_rows(old - state.step * (now.costs - lam * now.ratios))
        after = at(new)
        if bottleneck:
            return _DescentState(new, after, state.step, state.steps + 1)
        before, reached = now.leak - lam * now.disclosure, after.leak - lam * after.disclosure
        moved = (given.source[:, None] * jnp.exp(old) * (old - new)).sum()
        enough = (
            before
            - _KEPT * jnp.maximum(moved, 0.0) / state.step
            + _ROUNDING * jnp.finfo(before.dtype).eps * (1.0 + jnp.abs(before))
        )
        taken = reached <= enough
        chosen = jax.tree.map(lambda a, b: jnp.where(taken, a, b), (new, after), (old, now))
        step = jnp.where(taken, jnp.minimum(_GROWTH * state.step, _LONGEST), _CUT * state.step)
        return _DescentState(*chosen, step=step, steps=state.steps + 1)

    begun = log_rows(start)
    step = -1.0 / jnp.maximum(lam, _LEAST_PRICE) if bottleneck else jnp.ones_like(lam)
    first = _DescentState(begun, at(begun), step, jnp.zeros_like(most))
    last = lax.while_loop(go_on, once, first)
    return Landing(
        last.log_mechanism, last.now.leak, last.now.disclosure, lam, residual(last.log_mechanism, last.now), last.steps
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
    bottleneck: bool = False,
) -> Landing:
    """Every start (B, X, Y) (logarithms) at its own price `multipliers` (B,), all in one batch.

    `whole`: the leakage is the measure's value instead of sum_y phi(w_y). `bottleneck`: the alternating iteration,
    which maximises. `tol` bounds the residual, `most` the steps.
    """

    def at(log_mechanism: Arr) -> Balance:
        return balance(given, measure, log_mechanism, whole)

    return jax.vmap(lambda lam, start: _descend(given, at, lam, start, tol, most, bottleneck))(multipliers, starts)


def descend_posteriors(
    cost: Callable[[Arr], Arr], lam: ScalarLike, starts: Arr, tol: ScalarLike, most: ScalarLike, *, bottleneck: bool
) -> Landing:
    """Every posterior q of `starts` (B, X) (logarithms) to a local minimum of cost(q) + lam H(q), of a bottleneck a
    maximum, by the same steps: q is the one row of a mechanism, and -H(q) stands in place of I(X;Y).
    """

    def at(log_posterior: Arr) -> Balance:
        logs, posterior = log_posterior[0], jnp.exp(log_posterior[0])
        value, slopes = jax.value_and_grad(cost)(posterior)
        return Balance((posterior * logs).sum(), value, log_posterior, slopes[None], logs)

    alone = channel(jnp.ones((1, 1), starts.dtype))
    return jax.vmap(lambda start: _descend(alone, at, lam, start[None], tol, most, bottleneck))(starts)
