"""What a mechanism discloses and leaks, with the gradients that every local step is made of.

Alphabets without masses of zero: J = P(S,X), T = P(S|X), p = P(X), r = P(Y), w_y = J W[:, y].

    I(X;Y) = sum_{x,y} p_x W[x,y] u[x,y],      u = ln( W[x,y]/r_y ),     dI/dW[x,y] = p_x u[x,y]
    leak   = sum_y phi(w_y),                   c[x,y] = sum_s T(s|x) dphi/dw_s(w_y),   dleak/dW = p_x c

For I(S;Y) c[x,y] = sum_s T(s|x) ln( P(s|y)/p_s ). On the simplex u and c matter up to a number for each x.
Mechanisms are held as logarithms: a mass that underflows would never come back.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp
from jaxtyping import Array
from numpy.typing import ArrayLike

from jaxpriv._types import Arr, ScalarLike
from jaxpriv.leakage import AbstractAverageLeakage

# Logarithms of masses stay above this: e^-400 times masses and slopes are normal numbers.
LEAST_LOG = -400.0
# An output whose mass has a logarithm below this is unused: its entries no longer say anything.
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


def ratios_of(given: Channel, log_mechanism: Arr) -> tuple[Any, Any]:
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
) -> tuple[Any, Any, Any]:
    """(disclosure, leak, residual) of one mechanism (X, Y).

    The residual is that of sign * leak - multiplier * disclosure. `whole`: the leakage is the measure's value instead
    of sum_y phi(w_y).
    """
    kind = value_leakage if whole else total_leakage
    logs = log_rows(log_mechanism)
    now = balance(given, lambda outputs: kind(measure, given.private, outputs), logs)
    slopes = sign * now.costs - multiplier * now.ratios
    return now.disclosure, now.leak, unsettled(given, logs, slopes, now.log_masses)
