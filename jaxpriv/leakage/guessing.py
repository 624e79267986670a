"""Leakage to an adversary who makes one guess: P_c, min-entropy leakage, multiplicative g-leakage."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxpriv import _arrays as xp
from jaxpriv._numerics import safe_log
from jaxpriv._types import Arr, Column, PrivateMarginal, Scalar
from jaxpriv._validation import nonnegative, real_array
from jaxpriv.leakage._base import (
    AbstractExponentialMeanLeakage,
    AbstractMeanLeakage,
    Traits,
    of_symbols,
    posterior_of,
    same_symbols,
)
from jaxpriv.leakage.population import LowerBounds, Routes, UpperBounds
from jaxpriv.leakage.registry import named
from jaxpriv.leakage.rule_sets import LINEAR, Rules, View

__all__ = [
    "CorrectGuess",
    "GainLeakage",
    "MinEntropyLeakage",
]


@named("correct-guess", "average")
class CorrectGuess(AbstractMeanLeakage):
    """The probability of a correct guess, P_c(S|Y) = sum_y max_s w_y[s].

    A probability, at least max_s p_s: the vulnerability itself, not a gain. For the gain use
    `AverageCostGain(ZeroOneLoss())`, for its logarithm `MinEntropyLeakage`. Tied maxima share the
    gradient.
    """

    traits: ClassVar[Traits] = Traits("probability", designable=True, linear=True)

    def rules(self, view: View) -> Rules:
        return Rules(LINEAR, view.joint, np.ones(len(view.prior)))

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return bounds.correct_guess

    def lower_bound(self, bounds: LowerBounds) -> float:
        return bounds.guess

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """The largest posterior probability."""
        return jnp.max(posterior_of(w))


def relative_guess_rules(view: View) -> Rules:
    """max_s w_s / max_s p_s."""
    largest = view.prior.max(axis=-1)[..., None, None]
    return Rules(LINEAR, view.joint / largest, np.ones(view.prior.shape[-1]))


@named("min-entropy", "average")
class MinEntropyLeakage(AbstractExponentialMeanLeakage):
    """Min-entropy leakage, ln( P_c(S|Y) / max_s p_s ), in nats: Arimoto's information of order inf.

    At most the maximal leakage, with equality for uniform p. Smith 2009.
    """

    traits: ClassVar[Traits] = Traits("nats", designable=True, linear=True)

    rate: ClassVar[float] = 1.0

    def rules(self, view: View) -> Rules:
        return relative_guess_rules(view)

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return bounds.min_entropy

    def lower_bound(self, bounds: LowerBounds) -> float:
        return bounds.min_entropy

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """ln( max_s P(s|y) / max_s p_s )."""
        return safe_log(jnp.max(posterior_of(w))) - safe_log(jnp.max(prior))


def _gains(value: object) -> Arr:
    return nonnegative(real_array(value, "gains", ndim=2), "gains")


class GainLeakage(AbstractExponentialMeanLeakage):
    """Multiplicative g-leakage, ln( sum_y V(w_y) / V(p) ) with V(w) = max_a sum_s gains[a, s] w_s, in nats.

    `gains[a, s] >= 0` is the adversary's gain from action a when the secret is s; the identity
    matrix gives min-entropy leakage. At most the maximal leakage, for every gain matrix. 0 where
    nothing can be gained at all (V(p) = 0). Raises `InputError` for a negative, infinite or NaN
    gain, and for gains of another number of symbols than the joint's.

    Alvim, Chatzikokolakis, Palamidessi and Smith 2012; for the additive form, with losses, see
    `AverageCostGain(LossMatrix(...))`.
    """

    gains: Float[Arr, "g s"] = eqx.field(converter=_gains)

    traits: ClassVar[Traits] = Traits("nats", designable=True, linear=True)

    rate: ClassVar[float] = 1.0

    def among(self, prior: PrivateMarginal, seen: np.ndarray) -> "GainLeakage":
        del prior
        return GainLeakage(of_symbols("gains", self.gains, 1, seen))

    def rules(self, view: View) -> Rules:
        best = xp.maximum((self.gains @ view.prior).max(), 1e-300)
        return Rules(LINEAR, self.gains @ view.joint / best, np.ones(len(self.gains)))

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return {"maximal leakage": bounds.maximal_leakage}

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """ln( V(w/|w|) / V(p) )."""
        same_symbols("gains", self.gains.shape[1], w)
        gains = jnp.asarray(self.gains).astype(w.dtype)
        # A posterior that no action gains from: the smallest mass, e^-708, in place of ln 0.
        least = jnp.finfo(w.dtype).tiny
        reached = jnp.maximum(jnp.max(jnp.matmul(gains, posterior_of(w), precision="highest")), least)
        before = jnp.maximum(jnp.max(jnp.matmul(gains, prior, precision="highest")), least)
        return jnp.log(reached) - jnp.log(before)
