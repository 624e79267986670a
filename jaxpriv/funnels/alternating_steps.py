"""The EM-relaxed alternating method for the funnel at a given disclosure:  min I(S;Y)  s.t.  I(X;Y) = R.

I(S;Y) - I(X;Y) = -I(X;Y|S) is CONCAVE in W, so with u, c and r of the present mechanism

    I(S;Y') - I(X;Y')  <=  I(S;Y) - I(X;Y) + <p (c - u), W' - W>.

The right-hand side is minimised together with tau^-1 sum_x p_x D(W'_x || r), in closed form:

    W'[x,y]  proportional to  r_y exp( tau (u[x,y] - c[x,y]) ),          tau such that I(X;Y') = R.

Because sum_x p_x D(W'_x||r) = I(X;Y') + D(r'||r) and W itself competes, at I(X;Y) <= I(X;Y') the linear part is at
most -(D(r'||r) + K(W,W'))/tau: I(X;Y|S) never decreases, and once I(X;Y) = R has been met I(S;Y) never increases.
A fixed point is a KKT point at the price lam = 1 - 1/tau of disclosure. There is such a tau unless even the
limit tau = inf discloses less than R; the mechanism before it is then kept.

After Chen, Ye, Wu, Wu, Wu and Zhang 2024 (arXiv 2405.00616), derived here through the concavity of -I(X;Y|S).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.funnels.balance import Balance, Channel, balance, log_rows, ratios_of, unsettled
from jaxpriv.funnels.local_steps import Landing
from jaxpriv.leakage import MutualInformation

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
