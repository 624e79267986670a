"""Variational objectives whose maximiser is the log-lift.

P = P_{S,X}, Q = P_S P_X, t = dP/dQ = e^{i}. For a convex f with f(1) = 0 and conjugate f*,

    D_f(P||Q) = sup_g E_P[g] - E_Q[f*(g)],        maximiser g = f'(t).

Here the critic is written as g = f'(e^h), so that the maximiser is h = i for every f and g never leaves the domain
of f*. With f*(f'(t)) = t f'(t) - f(t) the objective of one form is

    J(h) = E_P[ a(h) ] - E_Q[ b(h) ],    a(h) = f'(e^h),    b(h) = e^h f'(e^h) - f(e^h)

    form                 f(t)                               a(h)                b(h)
    Kullback-Leibler     t ln t - t + 1                     h                   e^h - 1
    reverse KL           -ln t + t - 1                      1 - e^-h            h
    chi-squared          (t - 1)^2                          2 (e^h - 1)         e^2h - 1
    Jensen-Shannon       (t ln t - (1+t) ln((1+t)/2))/2     ln(2 sig(h))/2      -ln(2 sig(-h))/2
    squared Hellinger    (sqrt t - 1)^2                     1 - e^{-h/2}        e^{h/2} - 1

and the Donsker-Varadhan form is E_P[h] - ln E_Q[e^h], which is blind to a constant added to h (Hsu 2019, eq. 12). For
a projected critic E_Q[e^h] = 1: the Kullback-Leibler form is then the Donsker-Varadhan form, so it has no class here.

Expectations under Q. S has few values, so E_Q[b] = E_X sum_s p_s b(h(s, X)) is summed over s exactly, and X runs over
the rows at hand. The usual estimate pairs each x with the s of another row: by the law of total variance it has the
variance of ours plus E_X Var_s b(h(s, X)) / n, and needs no shuffling.

Weights: `weights` (n,) >= 0 with total 1 are the mass of each row (1/n for samples; J can be computed exactly on a
finite alphabet by listing all pairs with their mass).

Hsu, Asoodeh and Calmon 2019, eq. (12) and footnote 2; Nguyen, Wainwright and Jordan 2010.
"""

import math
from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv._runtime.validation import scalar
from jaxpriv.statistics.lift.log_lift import projected

# The Jensen-Shannon objective has its zero at h = 0: ln 2 + ln sigmoid(0) = 0.
_LN2 = math.log(2.0)

Scores = Float[Arr, "n s"]
Codes = Int[Arr, " n"]
Prior = Float[Arr, " s"]
Weights = Float[Arr, " n"]
Values = Float[Arr, "..."]
Number = Float[Arr, ""]


def on_pairs(scores: Scores, private: Codes) -> Weights:
    """h(s, x) of each row's own s."""
    return jnp.take_along_axis(scores, private[:, None], axis=1)[:, 0]


class AbstractObjective(eqx.Module):
    """A function J of a critic's values whose maximum over all critics is attained at the log-lift.

    `scores` turns raw critic values into the log-lift that J is a function of; `value` is J of these.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """In words, for reports."""

    @abstractmethod
    @xp.double_on_host
    def scores(self, critic: Scores, log_prior: Prior) -> Scores:
        """Log-lift from raw critic values."""

    @abstractmethod
    @xp.double_on_host
    def value(self, scores: Scores, private: Codes, log_prior: Prior, weights: Weights) -> Number:
        """J, to be maximised."""

    @xp.double_on_host
    def selection(self, scores: Scores, private: Codes, log_prior: Prior, weights: Weights) -> Number:
        """What the best epoch is chosen by on validation rows: J, unless its mean over few rows is too noisy."""
        return self.value(scores, private, log_prior, weights)


class DonskerVaradhan(AbstractObjective):
    """E_P[h] - ln E_Q[e^h], at most I(S;X).

    `normalise`: True projects the critic while it is trained. The logarithm is then 0 and J is the mean of
    ln P(s|x)/P(s): maximum likelihood for P(s|x), without the bias that the logarithm of a minibatch mean has.
    False trains the raw critic, as the paper does; it is projected afterwards.
    """

    normalise: bool = eqx.field(static=True, default=True)

    @property
    def name(self) -> str:
        return "Donsker-Varadhan" if self.normalise else "Donsker-Varadhan, raw form"

    @xp.double_on_host
    def scores(self, critic: Scores, log_prior: Prior) -> Scores:
        return projected(critic, log_prior) if self.normalise else critic

    @xp.double_on_host
    def value(self, scores: Scores, private: Codes, log_prior: Prior, weights: Weights) -> Number:
        mean = jnp.vdot(weights, on_pairs(scores, private))
        if self.normalise:
            return mean
        return mean - jax.nn.logsumexp(scores + log_prior[None, :], b=weights[:, None])


class AbstractForm(AbstractObjective):
    """An f-divergence: J = E_P[a(h)] - E_Q[b(h)] of a projected critic, at most D_f(P||Q)."""

    @abstractmethod
    @xp.double_on_host
    def joint(self, h: Values) -> Values:
        """a(h) = f'(e^h)."""

    @abstractmethod
    @xp.double_on_host
    def product(self, h: Values) -> Values:
        """b(h) = f*(f'(e^h))."""

    @xp.double_on_host
    def scores(self, critic: Scores, log_prior: Prior) -> Scores:
        # The maximiser is a log-lift, so nothing is lost by searching among normalised critics; they are at most
        # -ln p_s, which keeps e^2h and the like from overflowing.
        return projected(critic, log_prior)

    @xp.double_on_host
    def value(self, scores: Scores, private: Codes, log_prior: Prior, weights: Weights) -> Number:
        product = jnp.sum(jnp.exp(log_prior)[None, :] * self.product(scores), axis=1)
        return jnp.vdot(weights, self.joint(on_pairs(scores, private)) - product)


class ReverseKullbackLeiblerForm(AbstractForm):
    """E_P[1 - e^-h] - E_Q[h], at most lautum information; its gradient grows without bound as h falls.

    On rows J has no maximum: where a pair (s, x) is not among them, h falls without end. So J is that of
    max(h, -limit), which max(i, -limit) maximises pair by pair (t (1 - e^-h) - h is concave in h), with the gradient
    of `clip_inwards`; and the epoch is chosen by the mean of h on validation rows, not by e^-h. `limit` > 0, in nats.
    """

    limit: float = 3.0

    def __check_init__(self) -> None:
        scalar(self.limit, "limit", low=0.0, open_low=True)

    name: ClassVar[str] = "reverse Kullback-Leibler form"

    @xp.double_on_host
    def value(self, scores: Scores, private: Codes, log_prior: Prior, weights: Weights) -> Number:
        floored = clip_inwards(jnp.minimum(scores, 0.0), jnp.asarray(self.limit, scores.dtype))
        return super().value(jnp.where(scores > 0, scores, floored), private, log_prior, weights)

    @xp.double_on_host
    def selection(self, scores: Scores, private: Codes, log_prior: Prior, weights: Weights) -> Number:
        return jnp.vdot(weights, on_pairs(scores, private))

    @xp.double_on_host
    def joint(self, h: Values) -> Values:
        return -jnp.expm1(-h)

    @xp.double_on_host
    def product(self, h: Values) -> Values:
        return h


class ChiSquaredForm(AbstractForm):
    """E_P[2(e^h - 1)] - E_Q[e^2h - 1], at most the chi-squared information: least squares for the lift."""

    name: ClassVar[str] = "chi-squared form"

    @xp.double_on_host
    def joint(self, h: Values) -> Values:
        return 2.0 * jnp.expm1(h)

    @xp.double_on_host
    def product(self, h: Values) -> Values:
        return jnp.expm1(2.0 * h)


class JensenShannonForm(AbstractForm):
    """(E_P[ln 2 sig(h)] + E_Q[ln 2 sig(-h)])/2, at most the Jensen-Shannon information: bounded by ln 2."""

    name: ClassVar[str] = "Jensen-Shannon form"

    @xp.double_on_host
    def joint(self, h: Values) -> Values:
        return 0.5 * (_LN2 + jax.nn.log_sigmoid(h))

    @xp.double_on_host
    def product(self, h: Values) -> Values:
        return -0.5 * (_LN2 + jax.nn.log_sigmoid(-h))


class SquaredHellingerForm(AbstractForm):
    """E_P[1 - e^{-h/2}] - E_Q[e^{h/2} - 1], at most the squared Hellinger information (in [0, 2])."""

    name: ClassVar[str] = "squared Hellinger form"

    @xp.double_on_host
    def joint(self, h: Values) -> Values:
        return -jnp.expm1(-0.5 * h)

    @xp.double_on_host
    def product(self, h: Values) -> Values:
        return jnp.expm1(0.5 * h)


@jax.custom_vjp
def clip_inwards(h: Values, limit: Number) -> Values:
    """min(max(h, -limit), limit) for a loss that is minimised.

    The gradient outside is kept where a descent step leads back inside and is zero where it leads further out: with
    the plain clip a critic that leaves the interval would never return.
    """
    return jnp.clip(h, -limit, limit)


def _clip_forward(h: Array, limit: ScalarLike) -> tuple[Array, tuple[Array, ScalarLike]]:
    return jnp.clip(h, -limit, limit), (h, limit)


def _clip_backward(residuals: tuple[Arr, Arr], slope: Arr) -> tuple[Arr, Arr]:
    h, limit = residuals
    inside = jnp.where(h > limit, slope > 0, jnp.where(h < -limit, slope < 0, True))
    return jnp.where(inside, slope, jnp.zeros_like(slope)), jnp.zeros_like(limit)


clip_inwards.defvjp(_clip_forward, _clip_backward)


class Trimmed(AbstractForm):
    """The trimmed information density clip(i, -limit, limit), learnt directly.

    t h - e^h is concave in h with its maximum at h = ln t, so over critics with values in [-limit, limit] the
    Kullback-Leibler form E_P[h] - E_Q[e^h] + 1 is greatest at h = clip(i, -limit, limit), pair by pair. (The
    Donsker-Varadhan form is not: its logarithm couples the pairs.) Its value is a lower bound of I(S;X) that ignores
    what is beyond the limit, and the set { i > ln gamma } that decides E_gamma is kept for every gamma <= e^limit.
    A watchdog with threshold eps < limit needs no more.

    The critic is projected before it is trimmed; a trimmed row need not satisfy sum_s p_s e^h = 1.
    After Hsu, Asoodeh and Calmon 2020 (trimmed information density); the derivation above is ours.
    """

    limit: float = 1.0

    def __check_init__(self) -> None:
        scalar(self.limit, "limit", low=0.0, open_low=True)

    name: ClassVar[str] = "trimmed information density"

    @xp.double_on_host
    def scores(self, critic: Scores, log_prior: Prior) -> Scores:
        return clip_inwards(super().scores(critic, log_prior), jnp.asarray(self.limit, critic.dtype))

    @xp.double_on_host
    def joint(self, h: Values) -> Values:
        return h

    @xp.double_on_host
    def product(self, h: Values) -> Values:
        return jnp.expm1(h)
