"""What a mechanism discloses and leaks, with the gradients that every local step is made of.

Alphabets without masses of zero: J = P(S,X), T = P(S|X), p = P(X), r = P(Y), w_y = J W[:, y].

    I(X;Y) = sum_{x,y} p_x W[x,y] u[x,y],      u = ln( W[x,y]/r_y ),     dI/dW[x,y] = p_x u[x,y]
    leak   = sum_y phi(w_y),                   c[x,y] = sum_s T(s|x) dphi/dw_s(w_y),   dleak/dW = p_x c

For I(S;Y) c[x,y] = sum_s T(s|x) ln( P(s|y)/p_s ). On the simplex u and c matter up to a number for each x. Mechanisms
are held as logarithms: a mass that underflows would stay 0.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.nn import logsumexp
from numpy.typing import ArrayLike

from jaxpriv._runtime.arrays import of
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.leakage import AbstractAverageLeakage

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
    xp = of(joint)
    table: Arr = xp.asarray(joint)
    return Channel(table, table.sum(axis=1), xp.maximum(table.sum(axis=0), xp.finfo(table.dtype).tiny))


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
