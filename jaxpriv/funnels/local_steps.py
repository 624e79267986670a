"""The steps of the local methods: differences of convex functions, with the bottleneck's, and the EM-relaxed steps.

Mirror descent with difference-of-convex steps on the funnel Lagrangian  F(W) = leak(W) - lam I(X;Y).

The leakage sum_y phi(w_y) is convex in W and -lam I(X;Y) is concave. The concave part is replaced by its
tangent, the convex part by its tangent and a relative entropy, and the sum is minimised in closed form:

    W'[x,y]  proportional to  W[x,y] exp( -t ( c[x,y] - lam u[x,y] ) ),      K = sum_x p_x D(W'_x || W_x)

(u and c as below).  For I(S;Y) and 0 <= lam <= 1 the descent is monotone for t <= 1/(1 - lam): with
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

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp
from numpy.typing import ArrayLike

from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.leakage import AbstractAverageLeakage, MutualInformation

# What a mechanism discloses and leaks, with the gradients that every local step is made of.
#
# Alphabets without masses of zero: J = P(S,X), T = P(S|X), p = P(X), r = P(Y), w_y = J W[:, y].
#
#     I(X;Y) = sum_{x,y} p_x W[x,y] u[x,y],      u = ln( W[x,y]/r_y ),     dI/dW[x,y] = p_x u[x,y]
#     leak   = sum_y phi(w_y),                   c[x,y] = sum_s T(s|x) dphi/dw_s(w_y),   dleak/dW = p_x c
#
# For I(S;Y) c[x,y] = sum_s T(s|x) ln( P(s|y)/p_s ). On the simplex u and c matter up to a number for each x. Mechanisms
# are held as logarithms: a mass that underflows would stay 0.


# Logarithms of masses stay above the first share of that of the least normal number (-400 in float64, -49 in float32):
# masses that small, times other masses and slopes, are normal numbers. An output whose mass has a logarithm below the
# second share is unused: its entries no longer matter.
_LEAST, _UNUSED = 0.565, 0.424


def _deepest(logarithms: Arr) -> float:
    """The logarithm of the least normal number of their dtype."""
    return math.log(float(jnp.finfo(logarithms.dtype).tiny))


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
    """The marginals of a joint (S, X); a useful symbol without mass gets the least normal number in place of 0."""
    joint = jnp.asarray(joint)
    return Channel(joint, joint.sum(axis=1), jnp.maximum(joint.sum(axis=0), jnp.finfo(joint.dtype).tiny))


def log_rows(logits: Arr) -> Arr:
    """Rows that sum to one, as logarithms (X, Y)."""
    rows = logits - logsumexp(logits, axis=1, keepdims=True)
    return jnp.maximum(rows, _LEAST * _deepest(rows))


def ratios_of(given: Channel, log_mechanism: Arr) -> tuple[Arr, Arr]:
    """(u, ln r): shapes (X, Y) and (Y,)."""
    log_masses = logsumexp(log_mechanism + jnp.log(given.source)[:, None], axis=0)
    return log_mechanism - log_masses[None, :], log_masses


def balance(given: Channel, measure: AbstractAverageLeakage, log_mechanism: Arr, whole: bool = False) -> Balance:
    """Disclosure, leakage and their gradients at one mechanism (X, Y); `whole` as for `survey`."""

    def leakage(outputs: Arr) -> Arr:
        """sum_y phi(w_y) of output joints (S, Y), which time sharing mixes, or the value that `outer` makes of it."""
        total = jax.vmap(measure.column, in_axes=(1, None))(outputs, given.private).sum()
        return measure.outer(total) if whole else total

    ratios, log_masses = ratios_of(given, log_mechanism)
    mechanism = jnp.exp(log_mechanism)
    outputs = jnp.matmul(given.joint, mechanism, precision=lax.Precision.HIGHEST)
    value, gradient = jax.value_and_grad(leakage)(outputs)
    costs = jnp.matmul(given.joint.T, gradient, precision=lax.Precision.HIGHEST) / given.source[:, None]
    disclosure = (given.source[:, None] * mechanism * ratios).sum()
    return Balance(disclosure, value, ratios, costs, log_masses)


def unsettled(given: Channel, log_mechanism: Arr, slopes: Arr, log_masses: Arr) -> Arr:
    """sum_x p_x ( sum_y W[x,y] a[x,y] - min_y a[x,y] ) for the gradient p_x a[x,y]: zero iff the KKT conditions hold.

    It is <gradient, W - V> at the best V: no direction within the outputs in use gains more to first order.
    """
    used = (log_masses > _UNUSED * _deepest(log_masses))[None, :]
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
    logs = log_rows(log_mechanism)
    now = balance(given, measure, logs, whole)
    slopes = sign * now.costs - multiplier * now.ratios
    return now.disclosure, now.leak, unsettled(given, logs, slopes, now.log_masses)


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
    measure: AbstractAverageLeakage,
    lam: ScalarLike,
    start: Arr,
    tol: ScalarLike,
    most: ScalarLike,
    whole: bool,
    bottleneck: bool,
) -> Landing:
    def at(log_mechanism: Arr) -> Balance:
        return balance(given, measure, log_mechanism, whole)

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
    run = jax.vmap(lambda lam, start: _descend(given, measure, lam, start, tol, most, whole, bottleneck))
    return run(multipliers, starts)


# The EM-relaxed alternating method for the funnel at a given disclosure:  min I(S;Y)  s.t.  I(X;Y) = R.
#
# I(S;Y) - I(X;Y) = -I(X;Y|S) is CONCAVE in W, so with u, c and r of the present mechanism
#
#     I(S;Y') - I(X;Y')  <=  I(S;Y) - I(X;Y) + <p (c - u), W' - W>.
#
# The right-hand side is minimised together with tau^-1 sum_x p_x D(W'_x || r), in closed form:
#
#     W'[x,y]  proportional to  r_y exp( tau (u[x,y] - c[x,y]) ),          tau such that I(X;Y') = R.
#
# Because sum_x p_x D(W'_x||r) = I(X;Y') + D(r'||r) and W itself competes, at I(X;Y) <= I(X;Y') the linear part is at
# most -(D(r'||r) + K(W,W'))/tau: I(X;Y|S) never decreases, and once I(X;Y) = R has been met I(S;Y) never increases.
# A fixed point is a KKT point at the price lam = 1 - 1/tau of disclosure. There is such a tau unless even the
# limit tau = inf discloses less than R; the mechanism before it is then kept.
#
# After Chen, Ye, Wu, Wu, Wu and Zhang 2024 (arXiv 2405.00616), derived here through the concavity of -I(X;Y|S).


# Beyond this the step is the limit of no temperature.
_HIGHEST = 1e8
# Evaluations of one search for tau: Newton's steps within a bracket need few, halvings alone as many.
_ROOT_STEPS = 60
# The search ends at I(X;Y) = R to this many nats, and a step counts if it has come to within the second number;
# what is missing is made up by time sharing at the end.
_MET, _REACHED = 3e-14, 1e-9
# A rise of I(S;Y) - I(X;Y) by no more than this many nats is rounding of the two sums.
_RISE = 1e-13


class _RootSearch(eqx.Module):
    """The root search in tau: a bracket, the present point and its disclosure."""

    low: Arr
    high: Arr
    tau: ScalarLike
    log_mechanism: Arr
    disclosure: Arr
    count: Arr


class _AlternatingState(eqx.Module):
    log_mechanism: Arr
    now: Balance
    tau: ScalarLike
    steps: Arr
    stalled: Arr


def alternating_step(
    given: Channel, now: Balance, disclosure: ScalarLike, tau: ScalarLike
) -> tuple[Arr, ScalarLike, Arr]:
    """(log W', tau, whether I(X;Y') = disclosure was met) by a safeguarded Newton search from `tau`."""
    lean = now.ratios - now.costs

    def at(tau: ScalarLike) -> tuple[Arr, Arr, Arr]:
        new = log_rows(now.log_masses[None, :] + tau * lean)
        ratios, _ = ratios_of(given, new)
        joint = given.source[:, None] * jnp.exp(new)
        mean = (jnp.exp(new) * lean).sum(axis=1)
        return new, (joint * ratios).sum(), (joint * (lean - mean[:, None]) * ratios).sum()

    def go_on(search: _RootSearch) -> Arr:
        return (jnp.abs(search.disclosure - disclosure) > _MET) & (search.count < _ROOT_STEPS)

    def once(search: _RootSearch) -> _RootSearch:
        # One evaluation gives the value and the slope; it is made here so that the loop carries no slope.
        new, reached, slope = at(search.tau)
        short = reached < disclosure
        low = jnp.where(short, search.tau, search.low)
        high = jnp.where(short, search.high, search.tau)
        newton = search.tau + (disclosure - reached) / jnp.where(slope > 0, slope, 1.0)
        bounded = jnp.isfinite(high)
        halved = jnp.where(bounded, 0.5 * (low + jnp.where(bounded, high, 0.0)), jnp.minimum(2.0 * low, _HIGHEST))
        # A first bracket is found by doubling at most; afterwards Newton must stay inside the bracket.
        inside = (slope > 0) & (newton > low) & (newton < jnp.where(bounded, high, 2.0 * low))
        met = jnp.abs(reached - disclosure) <= _MET
        tau = jnp.where(met, search.tau, jnp.where(inside, newton, halved))
        return _RootSearch(low, high, tau, new, reached, search.count + 1)

    zero = jnp.zeros_like(tau)
    blank = jnp.zeros_like(lean)
    search = _RootSearch(zero, zero + jnp.inf, tau, blank, zero - jnp.inf, jnp.array(0))
    root = lax.while_loop(go_on, once, search)
    return root.log_mechanism, root.tau, jnp.abs(root.disclosure - disclosure) <= _REACHED


def _alternate(given: Channel, disclosure: ScalarLike, start: Arr, tol: ScalarLike, most: ScalarLike) -> Landing:
    def at(log_mechanism: Arr) -> Balance:
        return balance(given, MutualInformation(), log_mechanism)

    def residual(state: _AlternatingState) -> Arr:
        slopes = state.now.costs - (1.0 - 1.0 / state.tau) * state.now.ratios
        return unsettled(given, state.log_mechanism, slopes, state.now.log_masses)

    def go_on(state: _AlternatingState) -> Arr:
        # A start that meets the conditions but not the disclosure (nothing released, say) is not the end.
        open_ = (residual(state) > tol) | (jnp.abs(state.now.disclosure - disclosure) > _REACHED)
        return open_ & ~state.stalled & (state.steps < most)

    def once(state: _AlternatingState) -> _AlternatingState:
        new, tau, met = alternating_step(given, state.now, disclosure, state.tau)
        after = at(new)
        # Until the disclosure is met the leakage may rise with it; what never rises is I(S;Y) - I(X;Y).
        risen = after.leak - after.disclosure > state.now.leak - state.now.disclosure + _RISE
        taken = met & ~risen & jnp.isfinite(after.leak)
        chosen = jax.tree.map(
            lambda a, b: jnp.where(taken, a, b), (new, after, tau), (state.log_mechanism, state.now, state.tau)
        )
        return _AlternatingState(*chosen, steps=state.steps + 1, stalled=~taken)

    begun = log_rows(start)
    first = _AlternatingState(begun, at(begun), jnp.full_like(disclosure, 2.0), jnp.zeros_like(most), jnp.array(False))
    last = lax.while_loop(go_on, once, first)
    return Landing(
        last.log_mechanism, last.now.leak, last.now.disclosure, 1.0 - 1.0 / last.tau, residual(last), last.steps
    )


@eqx.filter_jit
def alternate(given: Channel, disclosures: Arr, starts: Arr, tol: ScalarLike, most: ScalarLike) -> Landing:
    """Every start (B, X, Y) (logarithms) at its own disclosure (B,), all in one batch."""
    run = jax.vmap(lambda disclosure, start: _alternate(given, disclosure, start, tol, most))
    return run(disclosures, starts)
