"""f-information: the f-divergence between the joint of (S, Y) and the product of its marginals."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxpriv._numerics import expectation, kl_excess, positive
from jaxpriv._types import Column, PrivateMarginal, Scalar
from jaxpriv._validation import is_traced, scalar
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import AbstractMeanLeakage, Unit, lift_of


class AbstractDivergence(eqx.Module):
    """A convex f on [0, inf) with f(1) = 0, applied elementwise; f(0) is the limit and may be inf.

    f is fixed up to a multiple of t - 1, which no divergence sees. The choice here is f >= 0, so
    that sums of terms never cancel.
    """

    @property
    @abstractmethod
    def unit(self) -> Unit:
        """What a divergence with this f is measured in."""

    @abstractmethod
    def __call__(self, t: Float[Array, "..."]) -> Float[Array, "..."]:
        """f(t)."""


class KullbackLeibler(AbstractDivergence):
    """f(t) = t ln t - t + 1: D(P_{SY} || P_S P_Y), which is mutual information."""

    @property
    def unit(self) -> Unit:
        return "nats"

    def __call__(self, t: Float[Array, "..."]) -> Float[Array, "..."]:
        return kl_excess(t)


class ReverseKullbackLeibler(AbstractDivergence):
    """f(t) = -ln t + t - 1: D(P_S P_Y || P_{SY}), lautum information; f(0) = inf."""

    @property
    def unit(self) -> Unit:
        return "nats"

    def __call__(self, t: Float[Array, "..."]) -> Float[Array, "..."]:
        # t f*(1/t) with f* the Kullback-Leibler generator: keeps its accuracy near t = 1.
        present = positive(t)
        kept = jnp.where(present, t, 1.0)
        return jnp.where(present, kept * kl_excess(1.0 / kept), jnp.inf)


class ChiSquared(AbstractDivergence):
    """f(t) = (t - 1)^2: Pearson's chi-squared, sum_{s,y} w^2/(p_s |w_y|) - 1."""

    @property
    def unit(self) -> Unit:
        return "dimensionless"

    def __call__(self, t: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.square(t - 1.0)


class TotalVariation(AbstractDivergence):
    """f(t) = |t - 1|/2: total variation distance, in [0, 1]."""

    @property
    def unit(self) -> Unit:
        return "probability"

    def __call__(self, t: Float[Array, "..."]) -> Float[Array, "..."]:
        return 0.5 * jnp.abs(t - 1.0)


class SquaredHellinger(AbstractDivergence):
    """f(t) = (sqrt(t) - 1)^2: squared Hellinger distance sum (sqrt P - sqrt Q)^2, in [0, 2].

    Authors who want [0, 1] halve it.
    """

    @property
    def unit(self) -> Unit:
        return "dimensionless"

    def __call__(self, t: Float[Array, "..."]) -> Float[Array, "..."]:
        present = positive(t)
        kept = jnp.where(present, t, 1.0)
        # (t-1)/(sqrt t + 1) is sqrt t - 1 without the cancellation at 1; gradient 0 at t = 0.
        return jnp.where(present, jnp.square((kept - 1.0) / (jnp.sqrt(kept) + 1.0)), 1.0)


class JensenShannon(AbstractDivergence):
    """f(t) = ( t ln t - (1+t) ln((1+t)/2) )/2: the Jensen-Shannon divergence, in [0, ln 2].

    It is (D(P||M) + D(Q||M))/2 with M = (P+Q)/2.
    """

    @property
    def unit(self) -> Unit:
        return "nats"

    def __call__(self, t: Float[Array, "..."]) -> Float[Array, "..."]:
        # With m = (1+t)/2 both terms are relative-entropy terms: m g(t/m) + m g(1/m), halved.
        middle = 0.5 * (1.0 + t)
        return 0.5 * middle * (kl_excess(t / middle) + kl_excess(1.0 / middle))


def _gamma(value: Any) -> Any:
    gamma = scalar(value, "gamma", low=1.0)
    return gamma if is_traced(gamma) else np.asarray(gamma)


class EGamma(AbstractDivergence):
    """f(t) = max(t - gamma, 0), gamma >= 1: the hockey-stick divergence; gamma = 1 is total variation.

    E_gamma = 0 for gamma = e^eps iff max-lift is at most eps. `gamma` is an array, like an order.
    Raises `InputError` for a concrete gamma that is not finite and >= 1.
    """

    gamma: Any = eqx.field(converter=_gamma)

    @property
    def unit(self) -> Unit:
        return "probability"

    def __call__(self, t: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.maximum(t - jnp.asarray(self.gamma).astype(t.dtype), 0.0)


class UserDivergence(AbstractDivergence):
    """A user's f: convex on (0, inf), f(1) = 0, an elementwise JAX function of an array t > 0.

    `at_zero` is the limit f(0+), `inf` included; f itself is never called at 0, so it may be
    `lambda t: t * jnp.log(t)`. The gradient at t = 0 is 0. Raises `InputError` if f(1) is not 0 or
    `at_zero` is NaN or -inf. Without convexity data processing fails; evaluation does not check it.

    As an objective or a limit f is refused (`InputError`, naming the ratio t) where it is NaN, or where a tangent
    lies above it at one of some hundred points from 0 to 1e9. The proof of a solution is that a convex f lies above
    its tangents, f(t) >= f(r) + f'(r)(t - r) for any r (Csiszár 1967): it assumes convexity between those points
    too, and that `jax.jvp` of f is a slope (any one-sided mixture at a kink). f may be inf at 0 and above some
    t > 1. Kinks and pieces where f is linear leave the interval of a solution open: its status says so.
    """

    f: Callable[[Array], Array]
    at_zero: float = eqx.field(static=True)

    def __init__(self, f: Callable[[Array], Array], at_zero: float):
        self.f = f
        self.at_zero = scalar(at_zero, "at_zero", low=-np.finfo(np.float64).max, infinite=True)

    def __check_init__(self) -> None:
        at_one = self.f(jnp.ones(()))
        if not (is_traced(at_one) or abs(float(at_one)) <= 1e-6):
            raise InputError("f must satisfy f(1) = 0")

    @property
    def unit(self) -> Unit:
        return "dimensionless"

    def __call__(self, t: Float[Array, "..."]) -> Float[Array, "..."]:
        present = positive(t)
        return jnp.where(present, self.f(jnp.where(present, t, 1.0)), self.at_zero)


class FInformation(AbstractMeanLeakage):
    """f-information, I_f(S;Y) = D_f(P_{SY} || P_S P_Y) = sum_y |w_y| sum_s p_s f( w_y[s]/(p_s |w_y|) ).

    `divergence` holds f. Infinite iff f(0) = inf and some pair with p_s > 0, |w_y| > 0 has no
    mass; `evaluate` names it. In the unit of the divergence: only those built from logarithms are
    in nats.

    Csiszár 1967; Hsu, Asoodeh and Calmon 2019, eq. (3).
    """

    divergence: AbstractDivergence

    @property
    def unit(self) -> Unit:
        return self.divergence.unit

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """D_f(w/|w| || p)."""
        return expectation(prior, self.divergence(jnp.asarray(lift_of(w, prior))))
