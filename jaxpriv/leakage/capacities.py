"""The most that a channel can leak: its capacity of any order, with the prior that attains it and a proof.

For every order a in (0, inf], prior p and law Q of the outputs

    I_a(p)  <=  max over priors of I_a  =  min over Q of max_s D_a( P(.|s) || Q )  <=  max_s D_a( P(.|s) || Q ),

I_a Sibson's information: any prior gives a lower bound, any law an upper one. The law of the best prior is
Q_y proportional to ( sum_s p_s P(y|s)^a )^{1/a}.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import ArrayLike

from jaxpriv._runtime.lanes import spread, with_lanes
from jaxpriv._runtime.module import summary
from jaxpriv._runtime.numerics import exponential_mean
from jaxpriv._runtime.simplex_minimum import least_on_simplex
from jaxpriv._runtime.types import Arr
from jaxpriv._runtime.validation import mechanism_array, on_host, per_nat, scalar
from jaxpriv.leakage.evaluation import exact_values
from jaxpriv.leakage.renyi import Sibson

__all__ = ["Capacity", "capacity"]

# Steps of the search.
_STEPS = 80
# Orders nearer to 1 take the prior of order 1, orders above the largest the uniform one: at infinity every prior
# without zeros is a best one. In between the powers are smooth and do not underflow.
_NEAR_ONE, _MOST = 1e-6, 1e6


@dataclass(frozen=True)
class Capacity:
    """The capacity of a channel lies in [value, upper_bound].

    Attributes:
        value: the information of `prior`.
        upper_bound: no prior has more.
        prior: (S,).
        units: "nats" or "bits", of both.
    """

    value: float
    upper_bound: float
    prior: np.ndarray
    units: str

    __repr__ = summary

    @property
    def gap(self) -> float:
        """upper_bound - value: how much more another prior may have at most."""
        return self.upper_bound - self.value


def capacity(channel: ArrayLike, order: float = 1.0, units: str = "nats") -> Capacity:
    """The largest Sibson information of an order over all priors, for `channel[s, y] = P(y|s)`.

    Shannon's capacity at order 1, maximal leakage at order inf; maximal alpha-leakage of every order above 1. Arimoto's
    information has the same capacity. The prior is found by Newton's method, and proved by the module's inequality.

    Raises `InputError` for a channel whose rows are no distributions, an order outside (0, inf], and unknown units.

    Example:
        >>> found = capacity([[0.9, 0.1], [0.1, 0.9]], units="bits")
        >>> print(f"{found.value:.9f} {found.prior.round(6)}")
        0.531004406 [0.5 0.5]
    """
    on_host(channel, order)
    rows, a = mechanism_array(channel, "channel"), scalar(order, "order", low=0.0, open_low=True, infinite=True)
    unit = per_nat(units)
    rows = rows[:, rows.max(axis=0) > 0]
    prior = np.full(len(rows), 1.0 / len(rows))
    if a <= _MOST:
        with jax.enable_x64(True):
            prior = np.asarray(_largest_prior(rows, np.asarray(a), abs(a - 1.0) < _NEAR_ONE))
    logs = np.log(np.where(rows > 0, rows, 1e-300))
    weights = with_lanes(np.broadcast_to(prior, rows.T.shape))
    with np.errstate(over="ignore"):  # of huge orders, which are as good as infinite ones
        law = spread(exponential_mean(with_lanes(logs.T), weights, np.asarray(a)), rows.shape[1])
        law = law - np.log(np.exp(law).sum())
        above = spread(exponential_mean(with_lanes(logs - law), with_lanes(rows), np.asarray(a - 1.0)), len(rows)).max()
    (value,) = exact_values((Sibson(a),), np.diag(prior), rows)
    bound = float(above) + 8 * np.finfo(np.float64).eps * rows.size * (1.0 + float(above))  # its sums are rounded
    return Capacity(value * unit, max(bound, value) * unit, prior, units)


@eqx.filter_jit
def _largest_prior(rows: Arr, order: Arr, shannon: bool) -> Arr:
    top = rows.max(axis=0, keepdims=True)
    start = jnp.full(rows.shape[0], 1.0 / rows.shape[0])
    if shannon:
        inside = (rows * jnp.log(jnp.where(rows > 0, rows, 1.0))).sum(axis=1)

        def negative(prior: Array) -> Array:
            law = prior @ rows
            return jnp.sum(law * jnp.log(law)) - prior @ inside
    else:
        shares = (rows / top) ** order

        def negative(prior: Array) -> Array:
            return jnp.sign(1.0 - order) * jnp.sum(top[0] * (prior @ shares) ** (1.0 / order))

    return least_on_simplex(negative, start, _STEPS)
