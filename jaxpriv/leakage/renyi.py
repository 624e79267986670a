"""Leakage of Rényi order a, Sibson's and Arimoto's informations, and its ends: one guess and maximal leakage.

Write k = 1 - 1/a and q = w/|w|. Both informations are exponential means of rate k over the outputs,

    I_a = (1/k) ln sum_y |w_y| e^{k B_y},   B = D_a(q || p) (Sibson),   B = H_a(p) - H_a(q) (Arimoto).

These are a/(a-1) ln sum_y ( sum_s p_s^{1-a} w_s^a )^{1/a} and a/(a-1) ln( sum_y ||w_y||_a / ||p||_a ),
written so that a = 1 (k = 0) and a = inf (k = 1) are ordinary points. At a = inf Arimoto's is what an adversary of one
guess gains, min-entropy leakage; here stand P_c and the leakage to an adversary of other gains (g-leakage), too.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.numerics import exponential_mean, positive, safe_divide, safe_log
from jaxpriv._runtime.simplex_minimum import least_on_simplex
from jaxpriv._runtime.types import Arr, ArrayInput, Column, OutputJoint, PrivateMarginal, Scalar, ScalarLike
from jaxpriv._runtime.validation import is_traced, nonnegative, real_array, scalar
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import (
    AbstractExponentialMeanLeakage,
    AbstractLeakage,
    AbstractMeanLeakage,
    Scale,
    Traits,
    actions_along,
    log_lift_of,
    parameter,
    posterior_of,
    same_symbols,
    undesigned,
)
from jaxpriv.leakage.population import LowerBounds, Routes, UpperBounds
from jaxpriv.leakage.registry import named
from jaxpriv.leakage.rule_sets import ENTROPIC, LINEAR, Power, Rules, View

__all__ = [
    "Arimoto",
    "CorrectGuess",
    "GainLeakage",
    "MaximalAlphaLeakage",
    "MaximalLeakage",
    "MinEntropyLeakage",
    "Sibson",
]


@named("correct-guess", "average")
class CorrectGuess(AbstractMeanLeakage):
    """The probability of a correct guess, P_c(S|Y) = sum_y max_s w_y[s].

    A probability, at least max_s p_s: the vulnerability itself, not a gain. For the gain use
    `AverageCostGain(ZeroOneLoss())`, for its logarithm `MinEntropyLeakage`. Tied maxima share the
    gradient.
    """

    words: ClassVar[str] = "correct guess of S"

    traits: ClassVar[Traits] = Traits("probability", designable=True, linear=True)

    def rules(self, view: View) -> Rules:
        return Rules(LINEAR, view.joint, np.ones(len(view.prior)))

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return bounds.correct_guess

    def lower_bound(self, bounds: LowerBounds) -> float:
        return bounds.guess

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """The largest posterior probability."""
        return posterior_of(w).max()


def relative_guess_rules(view: View) -> Rules:
    """max_s w_s / max_s p_s."""
    largest = view.prior.max(axis=-1)[..., None, None]
    return Rules(LINEAR, view.joint / largest, np.ones(view.prior.shape[-1]))


@named("min-entropy", "average")
class MinEntropyLeakage(AbstractExponentialMeanLeakage):
    """Min-entropy leakage, ln( P_c(S|Y) / max_s p_s ), in nats: Arimoto's information of order inf.

    At most the maximal leakage, with equality for uniform p. Smith 2009.
    """

    words: ClassVar[str] = "min-entropy leakage"

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
        return safe_log(posterior_of(w).max()) - safe_log(prior.max())


class GainLeakage(AbstractExponentialMeanLeakage):
    """Multiplicative g-leakage, ln( sum_y V(w_y) / V(p) ) with V(w) = max_a sum_s gains[a, s] w_s, in nats.

    `gains[a, s] >= 0` is the adversary's gain from action a when the secret is s; the identity
    matrix gives min-entropy leakage. At most the maximal leakage, for every gain matrix. 0 where
    nothing can be gained at all (V(p) = 0). `action_axis` is the axis of the actions in the argument: 0
    for gains[a, s], 1 for gains[s, a], the order of a `LossMatrix`. Raises `InputError` for a negative,
    infinite or NaN gain, another axis, and gains of another number of symbols than the joint's.

    Alvim, Chatzikokolakis, Palamidessi and Smith 2012; for the additive form, with losses, see
    `AverageCostGain(LossMatrix(...))`.
    """

    words: ClassVar[str] = "g-leakage"

    gains: Float[Arr, "g s"]

    by_symbol: ClassVar = {"gains": (1,)}

    traits: ClassVar[Traits] = Traits("nats", designable=True, linear=True)

    def __init__(self, gains: ArrayInput, *, action_axis: int = 0):
        self.gains = actions_along(0, nonnegative(real_array(gains, "gains", ndim=2), "gains"), action_axis)

    rate: ClassVar[float] = 1.0

    def rules(self, view: View) -> Rules:
        best = xp.maximum((self.gains @ view.prior).max(), 1e-300)
        return Rules(LINEAR, self.gains @ view.joint / best, np.ones(len(self.gains)))

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return {"maximal leakage": bounds.maximal_leakage}

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """ln( V(w/|w|) / V(p) )."""
        same_symbols("gains", self.gains, 1, w.shape[0])
        gains = xp.asarray(self.gains, w)
        # A posterior that no action gains from: the smallest mass, e^-708, in place of ln 0.
        least = jnp.finfo(w.dtype).tiny
        reached = xp.maximum(xp.matmul(gains, posterior_of(w)).max(), least)
        before = xp.maximum(xp.matmul(gains, prior).max(), least)
        return xp.log(reached) - xp.log(before)


# Steps of the search for the largest prior; `MaximalAlphaLeakage.shortfall` says what they may miss.
_STEPS = 60
# The orders between which its powers are smooth and do not underflow.
_LEAST_ORDER, _MOST_ORDER = 1.0 + 1e-6, 1e6
# What design leaves of orders. With k = 1 - 1/a a value is 1/k ln of a sum whose rounding is 1e-16: near a = 1 it is
# off by 1e-16/|k|, and at the other end the sum e^{k value} of a value of ln 2 is 1e-30 at a = 0.01.
_LEAST_DESIGNED, _LEAST_EXCESS = 0.01, 5e-8
# From here on 1/a is below the rounding of 1, and the program is that of the order inf.
_ENDLESS = 1e15


def _order(value: object, low: float = 0.0) -> Arr:
    """An order in (0, inf], or in [`low`, inf]."""
    return parameter(value, "order", low=low, open_low=low == 0, infinite=True)


def _excess(order: Arr, like: Arr) -> Arr:
    # The difference is taken before the cast: an order near 1 keeps its distance to 1 in float32.
    return xp.asarray(order - 1.0, like)


class _OfOrder(AbstractLeakage):
    """What measures of an order a share."""

    order: eqx.AbstractVar[Scalar]

    @property
    def untraceable(self) -> str | None:
        if not is_traced(self.order):
            return None
        return (
            f"the order of {type(self).__name__} is traced, and the program has another form below, at and "
            "above order 1; give it as a plain number inside of the function, one call for each order"
        )


class _InformationOfOrder(_OfOrder, AbstractExponentialMeanLeakage):
    """The measures a/(a-1) ln sum_y |w_y| e^{(1 - 1/a) B_y} of Sibson and Arimoto."""

    order: Scalar = eqx.field(converter=_order)

    @property
    def traits(self) -> Traits:
        order = 1.0 if is_traced(self.order) else float(np.asarray(self.order))
        digits = order == 1.0 or (order >= _LEAST_DESIGNED and abs(order - 1.0) >= _LEAST_EXCESS)
        return Traits("nats", designable=digits, linear=order >= _ENDLESS, least=0.0, stacks=True)

    @property
    def instead(self) -> str:
        return (
            f"sums over the outputs have no digits of an order below {_LEAST_DESIGNED:g}, and of one that differs from "
            f"1 by less than {_LEAST_EXCESS:g}; it can be evaluated, and order 1 or another one designed for"
        )

    @property
    def rate(self) -> ScalarLike:
        return 1.0 - 1.0 / self.order

    def scale_for(self, symbols: int) -> Scale:
        """At most ln |S|, which no order exceeds: at low orders the logarithm is that of the rounding of a sum. Order
        1 has no logarithm, and the total of a multiplier form has the price of the distortion in it.
        """
        scale, most = super().scale_for(symbols), math.log(symbols)
        return scale if scale.proportional else replace(scale, outer=lambda total: xp.minimum(scale.outer(total), most))


def _largest_lift_rules(view: View) -> Rules:
    """max_s w_s/p_s. A symbol without mass is referred to 1: its row is 0."""
    return Rules(LINEAR, view.joint, xp.where(view.prior > 0, view.prior, 1.0))


@named("sibson", "average", needs=("order",), reported=({"order": 0.5}, {"order": 2.0}, {"order": 10.0}))
class Sibson(_InformationOfOrder):
    """Sibson's information of order a in (0, inf], in nats:

        I_a(S;Y) = min_Q D_a( P_{S,Y} || P_S x Q ) = a/(a-1) ln sum_y ( sum_s p_s P(y|s)^a )^{1/a}.

    Non-decreasing in a; a = 1 is mutual information and a = inf maximal leakage, both reached
    continuously and by the same compiled program. Finite for every mechanism.

    `order` (a) is an array: change it, `vmap` over it or differentiate in it without compiling
    again. A concrete order outside (0, inf] raises `InputError`; a traced one is not checked. An objective or a limit
    takes order 1, and others of at least 0.01 that differ from 1 by 5e-8 or more.
    Gradients at a pair (s, y) without mass are 0 (the limit is 0 for a > 1, infinite for a < 1).

    Sibson 1969; Verdú 2015, "alpha-mutual information", Theorem 1.
    """

    words: ClassVar[str] = "Sibson information"

    def rules(self, view: View) -> Rules:
        """( sum_s p_s^{1-a} w_s^a )^{1/a}, minus that for a < 1; at a = 1 relative entropy."""
        order = float(np.asarray(self.order))
        if order == 1.0:
            return Rules(ENTROPIC, view.joint, view.prior)
        if order >= _ENDLESS:
            return _largest_lift_rules(view)
        return Rules(Power(order < 1.0), view.joint, view.prior, parameter=order / (order - 1.0))

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return bounds.sibson_of(float(self.order))

    def lower_bound(self, bounds: LowerBounds) -> float | None:
        order = float(self.order)
        if order < 1:
            return None
        return bounds.maximal if np.isinf(order) else bounds.information

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """The Rényi divergence D_a(q || p) = 1/(a-1) ln sum_s q_s (q_s/p_s)^{a-1}, q = w/|w|."""
        log_lift = log_lift_of(w, prior)
        present = log_lift != -np.inf
        return exponential_mean(xp.where(present, log_lift, 0.0), xp.where(present, w, 0.0), _excess(self.order, w))


@named("arimoto", "average", needs=("order",), reported=({"order": 0.5}, {"order": 2.0}, {"order": 10.0}))
class Arimoto(_InformationOfOrder):
    """Arimoto's information of order a in (0, inf], in nats:

        I_a(S;Y) = H_a(S) - H_a(S|Y) = a/(a-1) ln( sum_y ||w_y||_a / ||p||_a ).

    a = 1 is mutual information and a = inf min-entropy leakage. Equal to Sibson's information of
    the same channel for the prior proportional to p^a, so at most the maximal leakage; not
    monotone in a. `order`, errors and gradients as for `Sibson`.

    Arimoto 1977; Liao, Kosut, Sankar and Calmon 2019 (alpha-leakage), Theorem 1.
    """

    words: ClassVar[str] = "Arimoto information"

    def rules(self, view: View) -> Rules:
        """||w||_a / ||p||_a, minus that for a < 1; at a = 1 relative entropy."""
        order, ones, prior = float(np.asarray(self.order)), view.ones, view.prior
        if order == 1.0:
            return Rules(ENTROPIC, view.joint, prior)
        if order >= _ENDLESS:
            return relative_guess_rules(view)
        largest = prior.max(axis=-1)[..., None]
        powers = ones * (xp.where(prior > 0, prior, largest) / largest) ** order
        total, parameter = powers.sum(axis=-1)[..., None], order / (order - 1.0)
        if order < 1.0:  # ||p||_a may overflow; the reference exp(-H_a(S)), from 1/|S| to 1, stands for it
            uniform = xp.exp((order * xp.log(largest) + xp.log(total)) / (order - 1.0))
            return Rules(Power(True), view.joint, ones * uniform, parameter=parameter)
        norm = largest * total ** (1.0 / order)
        return Rules(Power(False), view.joint / norm[..., None], ones, parameter=parameter)

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return bounds.arimoto(float(self.order))

    def lower_bound(self, bounds: LowerBounds) -> float | None:
        order = float(self.order)
        if np.isinf(order):
            return bounds.min_entropy
        return bounds.information if order == 1 else None

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """H_a(p) - H_a(w/|w|), a difference of Rényi entropies H_a(q) = 1/(1-a) ln sum_s q_s^a."""
        excess = _excess(self.order, w)
        posterior = posterior_of(w)
        return exponential_mean(safe_log(posterior), posterior, excess) - exponential_mean(
            safe_log(prior), prior, excess
        )


@named("maximal-leakage", "average")
class MaximalLeakage(AbstractExponentialMeanLeakage):
    """Maximal leakage, ln sum_y max_{s: p_s > 0} P(y|s), in nats: Sibson's information of order inf.

    The largest gain, over all randomised functions of S, in the logarithm of the probability of
    guessing that function. Depends on p through its support only. At most ln min(|S|, |Y|).
    `column` is max_s w_s/p_s - |w| and `outer` is ln(1 + .). Tied maxima share the gradient.

    Issa, Wagner and Kamath 2020, Theorem 1.
    """

    traits: ClassVar[Traits] = Traits("nats", designable=True, linear=True, least=0.0, stacks=True)

    rate: ClassVar[float] = 1.0

    def rules(self, view: View) -> Rules:
        return _largest_lift_rules(view)

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return {"largest rows": bounds.maximal_leakage}

    def lower_bound(self, bounds: LowerBounds) -> float:
        return bounds.maximal

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """ln max_s P(y|s)/P(y)."""
        largest = log_lift_of(w, prior).max()
        return xp.where(largest != -np.inf, largest, 0.0)


# No row of a report: the search for the prior would take as long to compile as half of the others together.
@named("maximal-alpha-leakage", "average", needs=("order",), takes=("beta",), reported=())
class MaximalAlphaLeakage(_OfOrder):
    """Maximal alpha-leakage of order a in [1, inf], in nats: the most that any function of S leaks to an adversary who
    minimises alpha-loss,

        sup over U - S - Y of Arimoto's information of order a between U and Y
            = max over priors r on the support of p of a/(a-1) ln sum_y ( sum_s r_s P(y|s)^a )^{1/a},   1 < a < inf,

    the capacity of order a of S -> Y; mutual information under p itself at a = 1, maximal leakage at a = inf.
    Non-decreasing in a on (1, inf]; it depends on p through its support alone there, and jumps at a = 1, as the limit
    from above is the capacity and not the information. At least Sibson's and Arimoto's information, at most maximal
    leakage.

    With `beta` b in [1, inf] it is maximal (alpha, beta)-leakage, for 1 < a, b < inf

        max over s' and r of a/((a-1) b) ln sum_y P(y|s')^{1-b} ( sum_s r_s P(y|s)^a )^{b/a}:

    local Renyi differential privacy of order a at b = a, local differential privacy at a = b = inf. Non-decreasing in
    b; infinite for b > 1 where an output excludes one symbol and not another. The sum is concave in r for b <= a, and
    convex for b >= a: one symbol is the largest prior then, and the value a(b-1)/((a-1)b) times the largest Renyi
    divergence of order b between two rows.

    The largest prior is found by `least_on_simplex` on the convex -sum_y( . )^{b/a}; the value is attained by it, and
    too small by no more than `shortfall`. The gradient is the envelope theorem's, at the prior found.

    As an objective or a limit it takes b = 1 and the orders 1 and inf. Elsewhere it is a largest value over priors of
    sums over the outputs, and no sum of one convex function of each output. `with_maximal_alpha` limits it for b = 1
    and b >= a, by limits on `RenyiDivergence`. `order` as for `Sibson`; a concrete one outside [1, inf] raises
    `InputError`, as do `beta` outside [1, inf] and above 1 at order 1.

    Liao, Kosut, Sankar and Calmon 2019, "Tunable measures for information leakage and applications to privacy-utility
    tradeoffs", Theorem 2; Gilani, Kurri, Kosut and Sankar 2023, "Unifying privacy measures via maximal
    (alpha, beta)-leakage".
    """

    words: ClassVar[str] = "maximal alpha-leakage"

    @property
    def label(self) -> str:
        return super().label if self.beta == 1.0 else f"{super().label} and beta {self.beta:g}"

    order: Scalar = eqx.field(converter=partial(_order, low=1.0))
    beta: float = eqx.field(static=True, converter=partial(scalar, name="beta", low=1.0, infinite=True), default=1.0)

    def __check_init__(self):
        if self.beta > 1 and not is_traced(self.order) and float(np.asarray(self.order)) == 1.0:
            raise InputError("order must be a number > 1 where beta is above 1")

    @property
    def traits(self) -> Traits:
        return Traits("nats", designable=self._end is not None, linear=self._end is not None and self._end.linear)

    worst_outcome: ClassVar[bool] = False

    @property
    def _end(self) -> "Sibson | None":
        """Sibson's information of the orders at which there is no prior to choose."""
        if is_traced(self.order) or self.beta != 1.0:
            return None
        order = float(np.asarray(self.order))
        return Sibson(order) if order == 1.0 or math.isinf(order) else None

    @property
    def in_numpy(self) -> bool:
        return self._end is not None  # the search for the largest prior is a program of JAX

    @property
    def instead(self) -> str:
        return (
            f"{self.label} is the largest over all priors, and no sum over the outputs; use with_maximal_alpha (a "
            "further --limit), a limit on it at beta 1 or at least the order, at beta 1 MaximalLeakage() too, and "
            "elsewhere LocalDifferentialPrivacy(), which is at least as large up to the factor alpha/(alpha - 1)"
        )

    def rules(self, view: View) -> Rules:
        if self._end is None:
            raise undesigned(self)
        return self._end.rules(view)

    def scale_for(self, symbols: int) -> Scale:
        if self._end is None:
            raise undesigned(self)
        return self._end.scale_for(symbols)

    def upper_bounds(self, bounds: UpperBounds) -> Routes | None:
        if self.beta != 1.0:
            return None
        return bounds.capacity(float(self.order)) if self._end is None else self._end.upper_bounds(bounds)

    def lower_bound(self, bounds: LowerBounds) -> float | None:
        return bounds.information if self._end is None else self._end.lower_bound(bounds)

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """The leakage of one output under p itself: Sibson's D_a(w/|w| || p)."""
        return Sibson(self.order).outcome(w, prior)

    def column(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """Sibson's, under p itself."""
        return Sibson(self.order).column(w, prior)

    def combine(self, outcomes: Float[Arr, " y"], masses: Float[Arr, " y"]) -> Scalar:
        """Sibson's, under p itself: the value for p as the only prior."""
        return Sibson(self.order).combine(outcomes, masses)

    def value_of(self, outputs: OutputJoint, prior: PrivateMarginal) -> Scalar:
        outputs, prior = self._arguments(outputs, prior)
        if self._end is not None:
            return self._end.value_of(outputs, prior)
        if xp.of(outputs) is np:
            return xp.in_double(self.value_of, outputs, prior)
        channel = safe_divide(outputs, jnp.broadcast_to(prior[:, None], outputs.shape))
        if self.beta != 1.0:
            values, _ = self._against(channel, positive(prior))
            return jnp.max(jnp.where(positive(prior), values, -jnp.inf))
        normalised = prior / jnp.sum(prior)
        largest = jnp.where(self.order == 1.0, normalised, self.largest_prior(channel, positive(prior)))
        return Sibson(self.order).value_of(channel * largest[:, None], largest)

    def largest_prior(
        self, channel: Float[Arr, "s y"], support: Bool[Arr, " s"], base: Float[Arr, " y"] | None = None
    ) -> Float[Arr, " s"]:
        """The prior r (S,), 0 off `support`, of the largest value for P(y|s) (S, Y); of no meaning at order 1.

        `base` (Y,) is P(y|s') where `beta` is above 1; for `beta` above the order see `value_of`.
        """
        if xp.of(channel, support) is np and not is_traced(self):
            return xp.in_double(self.largest_prior, np.asarray(channel, np.float64), support, base)
        channel, support = jax.lax.stop_gradient(channel), jax.lax.stop_gradient(support)
        prior = least_on_simplex(self._negative(channel, base), jnp.ones_like(channel[:, 0]) / channel.shape[0], _STEPS)
        on_support = jnp.where(support, prior, 0.0)
        return on_support / jnp.sum(on_support)

    def shortfall(self, channel: Float[Arr, "s y"]) -> Scalar:
        """By how much the value may be below the largest, in nats: sum_y( . )^{b/a} is concave in the prior."""
        (channel,) = self._arguments(channel)
        if xp.of(channel) is np:
            return xp.in_double(self.shortfall, channel)
        support = jnp.ones(channel.shape[0], dtype=bool)
        if self.beta == 1.0:
            return self._missed(channel, self.largest_prior(channel, support), None)
        values, priors = self._against(channel, support)
        if math.isinf(self.beta):
            return jnp.zeros_like(values[0])
        missed = jax.vmap(partial(self._missed, channel))(priors, channel)
        return jnp.where(self.beta < self.order, jnp.max(values + missed) - jnp.max(values), 0.0)

    def _missed(self, channel: Float[Arr, "s y"], prior: Float[Arr, " s"], base: Float[Arr, " y"] | None) -> Scalar:
        value, slope = jax.value_and_grad(self._negative(channel, base))(prior)
        missed = jnp.log1p((jnp.sum(slope * prior) - jnp.min(slope)) / -value)
        return missed / ((1.0 - 1.0 / self._finite(prior)) * self.beta)

    def _against(self, channel: Float[Arr, "s y"], support: Bool[Arr, " s"]) -> tuple[Arr, Arr]:
        """The value for each s' (S,), the largest of those of the prior found and of single symbols; the priors."""
        none = -1e4  # e^none is 0
        logs = jnp.where(positive(channel), jnp.log(jnp.where(positive(channel), channel, 1.0)), none)

        def value(base: Arr, log_base: Arr, log_norm: Arr) -> Scalar:
            present = positive(base)
            mean = exponential_mean(jnp.where(present, log_norm - log_base, 0.0), base, xp.asarray(self.beta, base))
            return jnp.where(jnp.any(~present & (log_norm > 0.5 * none)), jnp.inf, mean)

        def largest(base: Arr, log_base: Arr) -> tuple[Scalar, Arr]:
            norms, prior = logs, jnp.ones_like(channel[:, 0])
            if not math.isinf(self.beta):
                prior = self.largest_prior(channel, support, base)
                of_output = jax.vmap(exponential_mean, in_axes=(1, None, None))
                norms = jnp.concatenate([norms, of_output(logs, prior, xp.asarray(self.order, base))[None]])
            return jnp.max(jax.vmap(partial(value, base, log_base))(norms)), prior

        values, priors = jax.vmap(largest)(channel, logs)
        return values / xp.asarray(1.0 - 1.0 / self.order, values), priors

    def _finite(self, like: Arr) -> Array:
        """An order at which powers are smooth: that of infinity is maximal leakage for every prior inside."""
        return jnp.clip(jnp.asarray(self.order).astype(like.dtype), max(_LEAST_ORDER, self.beta), _MOST_ORDER)

    def _negative(self, channel: Float[Arr, "s y"], base: Float[Arr, " y"] | None) -> Callable[[Array], Array]:
        order = self._finite(channel)
        highest = jnp.max(channel, axis=0, keepdims=True)
        weights = top = highest[0]
        if base is not None:  # base (top/base)^beta, up to a factor
            both = positive(top) & positive(base)
            ratio = jnp.log(jnp.where(both, top, 1.0)) - jnp.log(jnp.where(both, base, 1.0))
            weights = jnp.where(both, base * jnp.exp(self.beta * (ratio - jnp.max(ratio))), 0.0)
        shares = jnp.where(positive(highest), channel / jnp.where(positive(highest), highest, 1.0), 1.0) ** order
        power = self.beta / order
        return lambda prior: -jnp.sum(weights * jnp.matmul(prior, shares, precision="highest") ** power)
