"""Leakage envelopes: the most that an event of at least a given probability says about a private symbol.

With the lift t_s(y) = P(y|s)/P(y) and randomised events E of the outputs

    eps(delta) = max_s max { ln P(E|s)/P(E) : P(E) >= delta } .

The best event holds the outputs of the largest lifts, up to the mass delta: eps(delta) is the logarithm of their mean.
By duality eps_s(delta) <= e if and only if some threshold t in [0, e^e] has

    sum_y max( P(y|s) - t P(y), 0 ) <= delta (e^e - t) ,

the tightest t being the lift at which the mass delta is reached. For a given t the left-hand side is convex in the
mechanism (`HockeyStick`), and a linear program holds it; over all t it is not (`jaxpriv.extremal.envelope_design`).
"""

from functools import partial
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.numerics import positive
from jaxpriv._runtime.types import Arr, Column, OutputJoint, PrivateMarginal, Scalar
from jaxpriv._runtime.validation import nonnegative, on_host, real_array, scalar, whole
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import (
    MOST_NATS,
    AbstractLeakage,
    AbstractMeanLeakage,
    AbstractWorstOutcomeLeakage,
    Traits,
    lift_of,
    log_lift_of,
    parameter,
)
from jaxpriv.leakage.population import Routes, UpperBounds
from jaxpriv.leakage.rule_sets import LINEAR, Rules, View

__all__ = ["HockeyStick", "LeakageEnvelope"]


class LeakageEnvelope(AbstractWorstOutcomeLeakage):
    """eps(delta), in nats: the largest ln P(E|s)/P(E) over symbols s and randomised events E with P(E) >= delta.

    Max-lift at delta = 0, non-increasing, 0 at delta = 1. Unlike a tail bound on the lift of an output it does not rise
    under post-processing. `outcome` is the max-lift of one output, which no event exceeds.

    `jaxpriv.extremal.envelope_design` designs for it: mechanisms within a limit are no convex set. For given thresholds
    they are, and `limits` states that set for any problem. Raises `InputError` for a delta outside [0, 1].
    """

    words: ClassVar[str] = "leakage envelope"

    delta: float = eqx.field(static=True, converter=partial(scalar, name="delta", low=0.0, high=1.0))

    traits: ClassVar[Traits] = Traits("nats", least=0.0)

    @property
    def label(self) -> str:
        return f"{self.words} at mass {self.delta:g}"

    @property
    def in_numpy(self) -> bool:
        return False  # it sorts the outputs of each symbol, and is no largest value over them

    @property
    def instead(self) -> str:
        return (
            "mechanisms within a limit on a leakage envelope are no convex set: extremal.envelope_design(problem) "
            "minimises a distortion under it, and the `limits` of the measure hold for thresholds of your own"
        )

    def upper_bounds(self, bounds: UpperBounds) -> Routes:
        return {"max-lift": bounds.max_lift}

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """max_s ln( w_s/(p_s |w|) )."""
        largest = log_lift_of(w, prior).max()
        return xp.where(largest != -np.inf, largest, 0.0)

    def value_of(self, outputs: OutputJoint, prior: PrivateMarginal) -> Scalar:
        outputs, prior = self._arguments(outputs, prior)
        if xp.of(outputs) is np:
            return xp.in_double(self.value_of, outputs, prior)
        masses = jnp.sum(outputs, axis=0)
        lifts = jax.vmap(lift_of, in_axes=(1, None), out_axes=1)(outputs, prior)
        return jnp.log(jnp.max(jax.vmap(self._mean_of_largest, in_axes=(0, None))(lifts, masses)))

    def _mean_of_largest(self, lift: Arr, masses: Arr) -> Scalar:
        """The mean lift (Y,) of the outputs of the largest lifts, as many as have the mass delta."""
        order = jnp.argsort(-lift)
        mass = masses[order]
        taken = jnp.clip(self.delta - (jnp.cumsum(mass) - mass), 0.0, mass)
        taken = jnp.where(positive(jnp.sum(taken)), taken, jnp.zeros_like(taken).at[0].set(1.0))
        return jnp.sum(taken * lift[order]) / jnp.sum(taken)

    def limits(self, thresholds: ArrayLike, eps: float) -> "list[tuple[HockeyStick, float]]":
        """Limits of a problem under which eps(delta) <= eps, from one threshold t_s in [0, e^eps] for each symbol."""
        on_host(thresholds, eps)
        top = np.exp(scalar(eps, "eps", low=0.0, high=MOST_NATS))
        given = nonnegative(real_array(thresholds, "thresholds", ndim=1), "thresholds")
        for s, each in enumerate(given):
            if each > top:
                raise InputError(f"thresholds[{s}] must be at most e^eps = {top:.6g}")
        return [(HockeyStick(s, each), float(self.delta * (top - each))) for s, each in enumerate(given)]


def mass_of(measure: AbstractLeakage) -> float:
    """The delta of a leakage envelope; `InputError` for another measure."""
    if not isinstance(measure, LeakageEnvelope):
        raise InputError(f"leakage must be a LeakageEnvelope, not {type(measure).__name__}")
    return measure.delta


class HockeyStick(AbstractMeanLeakage):
    """sum_y max( P(y|s) - gamma P(y), 0 ) of one symbol s: the hockey-stick divergence of its outputs from all outputs.

    A probability. `symbol` is s, its row in the joint, and `gamma` >= 0 an array, like an order. Raises `InputError`
    for a symbol without mass, and for a gamma that is negative or not finite.
    """

    words: ClassVar[str] = "hockey-stick divergence"

    symbol: int = eqx.field(static=True, converter=partial(whole, name="symbol", low=0))
    gamma: Scalar = eqx.field(converter=partial(parameter, name="gamma", low=0.0))

    traits: ClassVar[Traits] = Traits("probability", designable=True, linear=True)

    @property
    def about(self) -> tuple[int, ...]:
        return (self.symbol,)

    def among(self, prior: PrivateMarginal, seen: np.ndarray) -> "HockeyStick":
        del prior
        self.need_mass(seen)
        return HockeyStick(int(seen[: self.symbol].sum()), self.gamma)

    def rules(self, view: View) -> Rules:
        given = view.joint[self.symbol] / view.prior[self.symbol]
        return Rules(LINEAR, (given - self.gamma * view.mass)[None], np.zeros(1), cap=np.ones(1))

    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """max( P(y|s)/P(y) - gamma, 0 )."""
        if self.symbol >= w.shape[0]:
            raise InputError(f"symbol {self.symbol} is none of the {w.shape[0]} private symbols of the joint")
        return xp.maximum(lift_of(w, prior)[self.symbol] - xp.asarray(self.gamma, w), 0.0)
