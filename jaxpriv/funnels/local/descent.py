"""Mirror descent with difference-of-convex steps on the funnel Lagrangian  F(W) = leak(W) - lam I(X;Y).

The leakage sum_y phi(w_y) is convex in W and -lam I(X;Y) is concave. The concave part is replaced by its
tangent, the convex part by its tangent and a relative entropy, and the sum is minimised in closed form:

    W'[x,y]  proportional to  W[x,y] exp( -t ( c[x,y] - lam u[x,y] ) ),      K = sum_x p_x D(W'_x || W_x)

(u and c as below).  For I(S;Y) and 0 <= lam <= 1 the descent is monotone for t <= 1/(1 - lam): with
D_leak, D_I the Bregman divergences of I(S;Y) and of I(X;Y),

    D_leak(W',W) = D(w'||w) - D(r'||r),      D_I(W',W) = K - D(r'||r),      D(w'||w) <= K  (data processing),
    F(W') - F(W) - <grad F(W), W' - W> = D_leak - lam D_I  <=  (1 - lam) (K - D(r'||r))  <=  (1 - lam) K,

so the step minimises an upper bound of F that is tight at W, and F(W') <= F(W) - K(W,W')/t (three points). At
t = 1/(1 - lam) it is the step of the EM-relaxed method (`alternating`) at that price.
Longer steps, and steps for other measures, whose leakage may have no such constant, are taken if they
lower F by a tenth of K(W,W')/t at least, and are shortened otherwise: F never increases for any measure. Measures
with kinks (a maximum) may stop where no step helps although the conditions do not hold; `residual` measures it.

Difference of convex functions: Tao and An 1997; relative smoothness: Bauschke, Bolte, Teboulle 2017; the
Lagrangian: Hsu, Asoodeh and Calmon 2019, eq. (10), Makhdoumi et al. 2014, eq. (5).
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp
from jaxtyping import Array
from numpy.typing import ArrayLike

from jaxpriv._types import Arr, ScalarLike
from jaxpriv.leakage import AbstractAverageLeakage

# What a mechanism discloses and leaks, with the gradients that every local step is made of.
#
# Alphabets without masses of zero: J = P(S,X), T = P(S|X), p = P(X), r = P(Y), w_y = J W[:, y].
#
#     I(X;Y) = sum_{x,y} p_x W[x,y] u[x,y],      u = ln( W[x,y]/r_y ),     dI/dW[x,y] = p_x u[x,y]
#     leak   = sum_y phi(w_y),                   c[x,y] = sum_s T(s|x) dphi/dw_s(w_y),   dleak/dW = p_x c
#
# For I(S;Y) c[x,y] = sum_s T(s|x) ln( P(s|y)/p_s ). On the simplex u and c matter up to a number for each x. Mechanisms
# are held as logarithms: a mass that underflows would never come back.


# Logarithms of masses stay above this: e^-400 times masses and slopes are normal numbers.
LEAST_LOG = -400.0
# An output whose mass has a logarithm below this is unused: its entries no longer matter.
UNUSED_LOG = -300.0


class Channel(eqx.Module):
    """The data of one joint that all mechanisms share. Made by `channel`."""

    joint: Arr  # (S, X)
    private: Arr  # (S,)
    source: Arr  # (X,), > 0


class Balance(eqx.Module):
    """Disclosure and leakage of one mechanism, with their gradients."""

    disclosure: Arr  # I(X;Y), nats
    leak: Arr  # sum_y phi(w_y), or the measure's value
    ratios: Arr  # (X, Y): u
    costs: Arr  # (X, Y): c
    log_masses: Arr  # (Y,): ln P(y)


def channel(joint: ArrayLike) -> Channel:
    """The marginals of a joint (S, X) without symbols of mass zero."""
    joint = jnp.asarray(joint)
    return Channel(joint, joint.sum(axis=1), joint.sum(axis=0))


def total_leakage(measure: AbstractAverageLeakage, private: Arr, outputs: Arr) -> Arr:
    """sum_y phi(w_y) of output joints (S, Y): what time sharing mixes, and what `outer` makes the value of."""
    return jax.vmap(measure.column, in_axes=(1, None))(outputs, private).sum()


def value_leakage(measure: AbstractAverageLeakage, private: Arr, outputs: Arr) -> Arr:
    """The measure's value, outer( sum_y phi(w_y) )."""
    return measure.outer(total_leakage(measure, private, outputs))


def log_rows(logits: Arr) -> Arr:
    """Rows that sum to one, as logarithms (X, Y)."""
    rows = logits - logsumexp(logits, axis=1, keepdims=True)
    return jnp.maximum(rows, LEAST_LOG)


def ratios_of(given: Channel, log_mechanism: Arr) -> tuple[Arr, Arr]:
    """(u, ln r): shapes (X, Y) and (Y,)."""
    log_masses = logsumexp(log_mechanism + jnp.log(given.source)[:, None], axis=0)
    return log_mechanism - log_masses[None, :], log_masses


def balance(given: Channel, leak: Callable[[Array], Arr], log_mechanism: Arr) -> Balance:
    """Disclosure, `leak` (a function of output joints (S, Y)) and their gradients at one mechanism (X, Y)."""
    ratios, log_masses = ratios_of(given, log_mechanism)
    mechanism = jnp.exp(log_mechanism)
    value, gradient = jax.value_and_grad(leak)(jnp.matmul(given.joint, mechanism, precision=lax.Precision.HIGHEST))
    costs = jnp.matmul(given.joint.T, gradient, precision=lax.Precision.HIGHEST) / given.source[:, None]
    disclosure = (given.source[:, None] * mechanism * ratios).sum()
    return Balance(disclosure, value, ratios, costs, log_masses)


def unsettled(given: Channel, log_mechanism: Arr, slopes: Arr, log_masses: Arr) -> Arr:
    """sum_x p_x ( sum_y W[x,y] a[x,y] - min_y a[x,y] ) for the gradient p_x a[x,y]: zero iff the KKT conditions hold.

    It is <gradient, W - V> at the best V: no direction within the outputs in use promises more to first order.
    """
    used = (log_masses > UNUSED_LOG)[None, :]
    mechanism = jnp.exp(log_mechanism)
    least = jnp.where(used, slopes, jnp.inf).min(axis=1)
    mean = jnp.where(used, mechanism * slopes, 0.0).sum(axis=1)
    return jnp.maximum((given.source * (mean - least)).sum(), 0.0)


@eqx.filter_jit
def survey(
    given: Channel,
    measure: AbstractAverageLeakage,
    log_mechanism: Arr,
    multiplier: ScalarLike,
    sign: ScalarLike,
    whole: bool,
) -> tuple[Arr, Arr, Arr]:
    """(disclosure, leak, residual) of one mechanism (X, Y).

    The residual is that of sign * leak - multiplier * disclosure. `whole`: the leakage is the measure's value instead
    of sum_y phi(w_y).
    """
    kind = value_leakage if whole else total_leakage
    logs = log_rows(log_mechanism)
    now = balance(given, lambda outputs: kind(measure, given.private, outputs), logs)
    slopes = sign * now.costs - multiplier * now.ratios
    return now.disclosure, now.leak, unsettled(given, logs, slopes, now.log_masses)


# A step that is taken makes the next one longer by the first factor, one that is refused shorter by the second.
_GROWTH, _CUT = 1.5, 0.25
# A step must keep this share of what its model promises.
_KEPT = 0.1
# What is left of the step where no shorter one is tried.
_SHORTEST, _LONGEST = 1e-9, 1e9
# Four units of rounding, 1.1e-16 each, of the two values that are compared.
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
