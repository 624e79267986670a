"""What every leakage measure is: a value for one output, and a way to combine the outputs.

S - X - Y is a Markov chain, p = P_S. Output y of a mechanism induces the column
`w_y[s] = P(S=s, Y=y) = (joint @ mechanism)[s, y]`, with mass |w_y| = P(Y=y) and posterior w_y/|w_y|.
A measure assigns each output its leakage about S, `outcome(w, p)`, which depends on the
posterior only (homogeneous of degree 0 in w), and combines the outputs in one of three ways:

    mean              sum_y |w_y| outcome(w_y)                           AbstractMeanLeakage
    exponential mean  (1/k) ln sum_y |w_y| exp( k outcome(w_y) )         AbstractExponentialMeanLeakage
    worst output      max over y with |w_y| > 0 of outcome(w_y)          AbstractWorstOutcomeLeakage

Seen by an optimiser the same numbers are `outer( sum_y column(w_y) )` (the first two, both
AbstractAverageLeakage) and the smallest eps with `column(w_y) <= eps |w_y|` for all y (the third),
where `column` is homogeneous of degree 1.

Conventions shared by all measures.
* Arrays: `joint` (s, x) with total 1, `mechanism` (x, y) with rows summing to 1. They
  are not checked: a measure is a pure function for `jit`, `vmap` and `grad`. `jaxpriv.leakage.evaluate`
  checks and then calls it. Arrays of JAX have one dtype, in which the value is computed. Arrays of NumPy give a
  number of NumPy, computed in float64 whatever precision JAX is set to. `jax.jit(measure)` compiles it with its
  parameters as constants, `eqx.filter_jit(measure)` with arrays among them as arguments: another order then runs the
  same program.
* Zero mass: 0 ln 0 = 0; an output without mass contributes nothing; a symbol with p_s = 0 is outside
  every sum and maximum. In arrays of JAX masses below the smallest normal number of the dtype count as zero; in those
  of NumPy every positive mass counts.
* NaN in, NaN out: if an entry of the joint or of the mechanism is NaN or infinite, the value and every entry of
  the gradient are NaN.
* Infinite values are answers (`inf`, never NaN). Gradients are finite: a term without mass is left
  out of the gradient, an infinite value has gradient zero, tied maxima share theirs.
* Every measure is >= 0; what rounding leaves below 0 is cut off.
* Gradients are those of the formula for unnormalised arrays; on the simplex only their differences
  have a meaning (compare after centring).
"""

import math
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.lanes import LaneArray, spread, with_lanes
from jaxpriv._runtime.module import Module
from jaxpriv._runtime.module.shown import nearest, numbers
from jaxpriv._runtime.numerics import (
    LARGEST,
    expectation,
    expm1_quotient,
    exponential_mean,
    log1p_quotient,
    positive,
    safe_divide,
    safe_log,
)
from jaxpriv._runtime.types import (
    Arr,
    ArrLike,
    Column,
    Joint,
    Mechanism,
    OutputJoint,
    PrivateMarginal,
    Scalar,
    ScalarLike,
)
from jaxpriv._runtime.validation import before_computing, is_traced, scalar
from jaxpriv.data.probability import output_joint, private_marginal
from jaxpriv.errors import InputError
from jaxpriv.leakage.population import LowerBounds, Routes, UpperBounds
from jaxpriv.leakage.rule_sets import Rules, View

# "nats" can be converted to bits; the others are what they are.
Unit = Literal["nats", "probability", "dimensionless", "cost"]


M = TypeVar("M", bound="AbstractRuled")

# Arrays of the size of P(s, y) that a measure holds at a time.
OUTPUT_ARRAYS = 4

# A limit of so many nats is none to any float64: e^-200 of the largest cost is far below its rounding, and the
# exponentials of higher ones would overflow.
MOST_NATS = 200.0


@dataclass(frozen=True)
class Scale:
    """value = outer(total), total = inner(value), both increasing; total is the sum over outputs and terms.
    `slope(value)` is the derivative of `inner`. `outer` takes a batch of totals too.
    """

    outer: Callable[[ScalarLike], ScalarLike]
    inner: Callable[[ScalarLike], ScalarLike]
    slope: Callable[[ScalarLike], ScalarLike]

    @cached_property
    def proportional(self) -> bool:
        """Whether the value is a multiple of the total (no logarithm)."""
        return bool(self.inner(2.0) == 2.0 * self.inner(1.0))


def _itself(number: ScalarLike) -> ScalarLike:
    return number if isinstance(number, Tracer | LaneArray) or np.ndim(number) else float(number)


# The identity, whose derivative is 1.
PLAIN = Scale(_itself, _itself, lambda _: 1.0)


def logarithmic(rate: float) -> Scale:
    """value = ln(|total|)/rate, with totals of the sign of the rate: what `AbstractExponentialMeanLeakage` reports."""
    sign = math.copysign(1.0, rate)
    return Scale(
        # The floor keeps the logarithm finite; 1e-300 is a normal number, which XLA does not flush to 0.
        lambda total: _itself(xp.log(xp.maximum(sign * total, 1e-300))) / rate,
        lambda value: sign * _exp(rate * value),
        lambda value: sign * rate * _exp(rate * value),
    )


def _exp(nats: ScalarLike) -> ScalarLike:
    return _itself(xp.exp(xp.minimum(nats, MOST_NATS)))


def evaluated(private: int, useful: int, outputs: int) -> tuple[str, float]:
    """A measure of a joint (private, useful) and a mechanism with so many outputs, in words, and the numbers held."""
    # Both arrays on the device, P(s, y) and what the measures make of it.
    numbers = 2.0 * private * useful + 1.0 * useful * outputs + OUTPUT_ARRAYS * private * outputs
    return f"leakage for |S|={private}, |X|={useful}, |Y|={outputs}", numbers


def posterior_of(w: Column) -> Column:
    """w/|w|; zeros where |w| = 0."""
    return safe_divide(w, xp.broadcast_to(w.sum(), w.shape))


def lift_of(w: Column, prior: PrivateMarginal) -> Column:
    """t[s] = w_s/(p_s |w|) = P(y|s)/P(y); 0 where p_s = 0. Divides twice: p_s |w| may underflow."""
    return safe_divide(posterior_of(w), prior)


def log_lift_of(w: Column, prior: PrivateMarginal) -> Column:
    """ln t of the lifts t; -inf where t = 0."""
    lift = lift_of(w, prior)
    present = positive(lift)
    logarithm = xp.where(present, xp.log(xp.where(present, lift, 1.0)), -np.inf)
    if xp.of(lift) is not np:
        return logarithm
    # p_s below 5e-309 has lifts that are no float64.
    posterior = posterior_of(w)
    return xp.where(lift == LARGEST, safe_log(posterior) - safe_log(prior), logarithm)


def parameter(value: object, name: str, *, low: float = -np.inf, open_low: bool = False, infinite: bool = False) -> Arr:
    """A number that a measure depends on, as an array: another one runs the same compiled program."""
    number = scalar(value, name, low=low, open_low=open_low, infinite=infinite)
    return number if isinstance(number, Array) else np.asarray(number)


def actions_along(axis: int, table: Arr, action_axis: int) -> Arr:
    """A table of actions and private symbols, given with its actions along `action_axis`, with them along `axis`."""
    if action_axis not in (0, 1):
        raise InputError("action_axis must be 0 or 1")
    return table if action_axis == axis else table.T


def same_symbols(name: str, table: Arr, axis: int, symbols: int) -> None:
    """Refuse a parameter with one entry for each private symbol if the joint has another number of them."""
    if table.shape[axis] != symbols:
        hint = "; it looks transposed: action_axis is the axis of the actions" if symbols in table.shape else ""
        raise InputError(
            f"{name} is for {table.shape[axis]} private symbols (axis s), but the joint has {symbols}{hint}"
        )


_EVALUATED = "not available as an objective or a limit; it can be evaluated on any mechanism"


def undesigned(quantity: object) -> InputError:
    """The refusal of a measure, divergence or cost without rules."""
    return InputError(f"{type(quantity).__name__} has no decision rules of its own (`rules`): it is " + _EVALUATED)


class Traits(NamedTuple):
    """What is known of a measure, or of its divergence or cost, before anything is computed."""

    unit: Unit  # what the value is measured in
    designable: bool = False  # it has `rules`: it can be an objective or a limit
    linear: bool = False  # its limit or its sum of columns is piecewise linear in the mechanism: a linear program
    entropic: bool = False  # it is a relative entropy: proportional rows are one row to it
    least: float | None = None  # what a release that ignores the data leaks, the same under every joint; None: computed
    stacks: bool = False  # `rules` take joints and limits with a leading axis, that of a batch, and there is no `shift`
    own_rules: bool = False  # its rules are found by iteration, and its set has no diagonal curvature
    of_inputs: bool = False  # its rows may count useful symbols that the joint gives no mass


def _hash_of(leaf: object) -> int:
    if isinstance(leaf, Tracer):
        return id(leaf)
    # Equal numbers have equal bytes: adding 0 makes -0 to 0.
    return hash((np.asarray(leaf, np.float64) + 0.0).tobytes()) if eqx.is_array_like(leaf) else hash(leaf)


class AbstractRuled(Module):
    """What measures, divergences and costs share: traits, and the adversary's decision rules where they have some.

    Equal ones, with equal parameters, have the same hash: each is a key of a dictionary, and of a compiled function.
    """

    def __hash__(self) -> int:
        leaves, structure = jax.tree.flatten(self)
        return hash((structure, *map(_hash_of, leaves)))

    def __eq__(self, other: object) -> bool:
        return bool(eqx.tree_equal(self, other))

    words: ClassVar[str] = ""  # the field's name for it; where there is none the name of the class stands for it
    # Parameters that have an entry for each private symbol, with the axes of these.
    by_symbol: ClassVar[Mapping[str, tuple[int, ...]]] = {}

    @property
    def label(self) -> str:
        """What it is called on the axis of a figure, with its parameters: "Sibson information of order 2"."""
        named = [self.words or re.sub(r"(?<!^)([A-Z])", r" \1", type(self).__name__).lower()]
        named += [getattr(self, part).label for part in ("divergence", "cost") if hasattr(self, part)]
        named += [
            f"{name} {numbers(getattr(self, name), nearest)}" for name in ("order", "gamma") if hasattr(self, name)
        ]
        return " of ".join(named)

    @property
    @abstractmethod
    def traits(self) -> Traits:
        """Its unit, and what else is known of it before anything is computed."""

    @property
    def unit(self) -> Unit:
        """What the value is measured in."""
        return self.traits.unit

    @property
    def named_unit(self) -> tuple[str, str]:
        """Its unit, and its unit with what it is called."""
        return self.unit, f"{self.unit}, {self.label}"

    @property
    def designable(self) -> bool:
        """Whether it has `rules`: whether it can be an objective or a limit."""
        return self.traits.designable

    @property
    def linear(self) -> bool:
        """Whether its limit or its sum of columns is piecewise linear in the mechanism: a linear program."""
        return self.traits.linear

    @property
    def smooth(self) -> bool:
        """Whether its decision rules are gradients in closed form: not piecewise linear, no loss of a user's own."""
        return self.designable and not (self.linear or self.traits.own_rules)

    @property
    def untraceable(self) -> str | None:
        """Why a program under a trace cannot depend on it, if it cannot."""
        return None

    @property
    def unbudgeted(self) -> str | None:
        """Why its least limit within budgets of the distortion cannot be asked for, if it cannot."""
        return None

    @property
    def in_numpy(self) -> bool:
        """Whether it takes arrays of NumPy and computes in NumPy then, as the classes of this library do.

        One of a user, also as a part, may be written with `jax.numpy` alone.
        """
        parts = (part for part in vars(self).values() if isinstance(part, AbstractRuled))
        return type(self).__module__.partition(".")[0] == "jaxpriv" and all(part.in_numpy for part in parts)

    def rules(self, view: View) -> Rules | None:
        """The adversary's decision rules under one joint.

        Of an average: value = `scale_for`(S).outer( sum_y phi(A W_y) + `shift`(prior) ) with phi the support function
        of the rules. Of a worst-outcome measure: those of the limit value <= `view.limit`; None if nothing is limited.
        """
        raise undesigned(self)

    def scale_for(self, symbols: int) -> Scale:
        """How the value of an average follows from the sum over the outputs, for so many private symbols."""
        del symbols
        return PLAIN

    def shift(self, prior: PrivateMarginal) -> ScalarLike:
        """What is added to the sum over the outputs of an average."""
        del prior
        return 0.0

    @property
    def about(self) -> tuple[int, ...]:
        """The private symbols that the measure is about."""
        return ()

    def need_mass(self, seen: np.ndarray) -> None:
        """Raise `InputError` unless all symbols that the measure is about are among those with mass, `seen` (S,)."""
        for symbol in self.about:
            if not (symbol < len(seen) and seen[symbol]):
                raise InputError(f"symbol {symbol} has no mass under the joint")

    def among(self: M, prior: PrivateMarginal, seen: np.ndarray) -> M:
        """The measure, or the cost, on the private symbols `seen` (S,) bool, those with mass, of a prior (S,).

        Raises `InputError` for a parameter of another number of symbols.
        """
        del prior
        parameters = {}
        for name, axes in self.by_symbol.items():
            for axis in axes if getattr(self, name) is not None else ():
                table = parameters.get(name, getattr(self, name))
                same_symbols(name, table, axis, len(seen))
                parameters[name] = table if seen.all() else np.compress(seen, np.asarray(table), axis=axis)
        return replace(self, **parameters) if parameters else self

    def lower_bound(self, bounds: LowerBounds) -> float | None:
        """What it is at least, for an auditor who has seen samples of S and Y; None where nothing is known."""
        del bounds
        return None

    def check(self, form: str, symbols: int) -> None:
        """Refuse, as the argument `form` of a problem, what nothing can be proved with."""


class AbstractLeakage(AbstractRuled):
    """A leakage measure: `measure(joint, mechanism)` is its value, a scalar array.

    Design, certificates and derivatives use the decision rules of a measure alone. A measure that may be an objective
    or a limit is `designable` and lowers itself to `rules`; the further methods below are for measures with
    parameters for each private symbol (`among`), of another scale (`scale_for`, `shift`), or with more to check.
    """

    @abstractmethod
    def outcome(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """The leakage of one output; depends on w/|w| only; any finite number where |w| = 0."""

    def column(self, w: Column, prior: PrivateMarginal) -> Scalar:
        """phi(w), homogeneous of degree 1 in w; 0 where |w| = 0: here |w| outcome(w)."""
        return expectation(w.sum(), self.outcome(w, prior))

    @property
    @abstractmethod
    def worst_outcome(self) -> bool:
        """Whether it is the largest over the outputs, not an average."""

    @property
    def instead(self) -> str:
        """Why it is neither an objective nor a limit where it has no `rules`, and what is."""
        return (
            f"{type(self).__name__}, or a divergence or cost in it, has no decision rules: it is {_EVALUATED}. A class "
            "of your own has them with `rules(view)` and `Traits(UNIT, designable=True)`: docs/how-to/own-measure.md"
        )

    def needed(self, symbols: int) -> np.ndarray:
        """(s, s') bool: which private symbols s' may not be excluded by an output that s has, if the value is infinite
        where an output excludes a symbol.
        """
        return np.ones((symbols, symbols), dtype=bool)

    @property
    def entropic(self) -> bool:
        """Whether it is a relative entropy: proportional rows are one row to it."""
        return self.traits.entropic

    @property
    def least(self) -> float | None:
        """What a release that ignores the data leaks, where that is the same under every joint; None: computed."""
        return self.traits.least

    @property
    def stacks(self) -> bool:
        """Whether its `rules` take joints and limits with a leading axis, that of a batch, and it has no `shift`."""
        return self.traits.stacks

    def row_count(self, symbols: int) -> int:
        """At most so many rows for so many private symbols."""
        return symbols + 1

    def upper_bounds(self, bounds: UpperBounds) -> Routes | None:
        """Bounds on its value in a population; None where no sound one is known."""
        del bounds
        return None

    @abstractmethod
    def combine(self, outcomes: Float[Arr, " y"], masses: Float[Arr, " y"]) -> Scalar:
        """The value from the outcomes and the masses P(Y=y)."""

    def outcomes(self, outputs: OutputJoint, prior: PrivateMarginal) -> Float[Arr, " y"]:
        """`outcome` of every output."""
        outputs, prior = self._arguments(outputs, prior)
        if xp.of(outputs) is jnp:
            return jnp.asarray(jax.vmap(self.outcome, in_axes=(1, None))(outputs, prior))
        if not self.in_numpy:
            return xp.in_double(self.outcomes, outputs, prior)
        with np.errstate(all="ignore"):  # of entries that are left out, and of infinite values
            return spread(in_host_arrays(self).outcome(with_lanes(outputs.T), prior), outputs.shape[1])

    def value_of(self, outputs: OutputJoint, prior: PrivateMarginal) -> Scalar:
        """The value where every entry is finite: the outcomes combined, for a measure that is made of them."""
        outputs, prior = self._arguments(outputs, prior)
        if xp.of(outputs) is jnp:
            return self.combine(self.outcomes(outputs, prior), outputs.sum(axis=0))
        if not self.in_numpy:
            return xp.in_double(self.value_of, outputs, prior)
        outcomes = self.outcomes(outputs, prior)
        with np.errstate(all="ignore"):
            return in_host_arrays(self).combine(outcomes, outputs.sum(axis=0))

    def of_outputs(self, outputs: OutputJoint, prior: PrivateMarginal) -> Scalar:
        """The value from w[s, y] = P(S=s, Y=y) and p = P_S; NaN if one of them is not finite."""
        held = float(OUTPUT_ARRAYS * np.size(outputs))
        before_computing(f"leakage of outputs of shape {np.shape(outputs)}", held, outputs, prior)
        outputs, prior = self._arguments(outputs, prior)
        # Comparisons with NaN are false, so a maximum or a choice of terms can drop it. The factor (1 or NaN) on
        # the arrays makes every entry of the gradient NaN, the one on the value makes the value NaN.
        valid = xp.isfinite(outputs).all() & xp.isfinite(prior).all()
        factor = xp.where(valid, 1.0, np.nan)
        outputs, prior = outputs * factor, prior * factor
        value = self.value_of(outputs, prior)
        return xp.maximum(value, 0.0) * factor

    def __call__(self, joint: Joint, mechanism: Mechanism) -> Scalar:
        shapes = np.shape(joint), np.shape(mechanism)
        if len(shapes[0]) == len(shapes[1]) == 2:
            (private, useful), outputs = shapes[0], shapes[1][1]
            before_computing(*evaluated(private, useful, outputs), joint, mechanism)
        joint, mechanism = self._arguments(joint, mechanism)
        return self.of_outputs(output_joint(joint, mechanism), private_marginal(joint))

    def _arguments(self, *arrays: ArrLike) -> tuple[Arr, ...]:
        """`xp.arguments`, which are JAX's where a parameter of the measure is traced."""
        return tuple(map(jnp.asarray, arrays)) if is_traced(self) else xp.arguments(*arrays)


def in_host_arrays(quantity: M) -> M:
    """The measure, divergence or cost with its parameters as arrays of NumPy."""
    return jax.tree.map(lambda leaf: np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf, quantity)


class AbstractPartLeakage(AbstractLeakage):
    """A measure of one divergence or cost, whose traits and rules are its own."""

    @property
    @abstractmethod
    def part(self) -> AbstractRuled:
        """The divergence or the cost."""

    @property
    def traits(self) -> Traits:
        return self.part.traits

    @property
    def untraceable(self) -> str | None:
        return self.part.untraceable

    def rules(self, view: View) -> Rules | None:
        return self.part.rules(view)

    def scale_for(self, symbols: int) -> Scale:
        return PLAIN if self.worst_outcome else self.part.scale_for(symbols)

    def shift(self, prior: PrivateMarginal) -> ScalarLike:
        return 0.0 if self.worst_outcome else self.part.shift(prior)

    def check(self, form: str, symbols: int) -> None:
        self.part.check(form, symbols)


class AbstractAverageLeakage(AbstractLeakage):
    """`outer( sum_y column(w_y) )`, `column` convex and `outer` increasing with outer(0) = 0."""

    worst_outcome: ClassVar[bool] = False

    @abstractmethod
    def outer(self, total: Scalar) -> Scalar:
        """The value from `total = sum_y column(w_y)`."""

    @abstractmethod
    def outer_inverse(self, value: Scalar) -> Scalar:
        """The total that gives `value`: `measure <= value` iff `sum_y column(w_y) <= outer_inverse(value)`."""


class AbstractMeanLeakage(AbstractAverageLeakage):
    """sum_y |w_y| outcome(w_y)."""

    def combine(self, outcomes: Float[Arr, " y"], masses: Float[Arr, " y"]) -> Scalar:
        return expectation(masses, outcomes)

    def outer(self, total: Scalar) -> Scalar:
        return total

    def outer_inverse(self, value: Scalar) -> Scalar:
        return value


class AbstractExponentialMeanLeakage(AbstractAverageLeakage):
    """(1/k) ln sum_y |w_y| e^{k B_y}, B = `outcome`, k = `rate` <= 1; the mean of B at k = 0.

    With sum_y |w_y| = 1 this is `outer(sum_y column(w_y))` for

        column(w) = |w| (e^{k B} - 1)/k,    outer(c) = ln(1 + k c)/k.

    For the measures built on it |w| e^{k B} is a norm-like function of w, convex for k > 0 and
    concave for k < 0, so `column` is convex and `outer` increasing for every k: one formula with no
    case distinction, and no 1 - 1 as k -> 0.
    """

    @property
    @abstractmethod
    def rate(self) -> Scalar | float:
        """k, the weight of the outputs that leak more."""

    def column(self, w: Column, prior: PrivateMarginal) -> Scalar:
        outcome = self.outcome(w, prior)
        return expectation(w.sum(), outcome * expm1_quotient(self._rate(outcome) * outcome))

    def combine(self, outcomes: Float[Arr, " y"], masses: Float[Arr, " y"]) -> Scalar:
        return exponential_mean(outcomes, masses, self._rate(outcomes))

    def scale_for(self, symbols: int) -> Scale:
        """Of rules with sum_y phi = +-sum_y |w_y| e^{k B_y}, the sign that of k."""
        del symbols
        rate = float(self.rate)
        return logarithmic(rate) if rate else PLAIN

    def outer(self, total: Scalar) -> Scalar:
        return total * log1p_quotient(self._rate(total) * total)

    def outer_inverse(self, value: Scalar) -> Scalar:
        return value * expm1_quotient(self._rate(value) * value)

    def _rate(self, like: Arr | np.floating) -> Arr:
        return xp.asarray(self.rate, like)


class AbstractWorstOutcomeLeakage(AbstractLeakage):
    """max of outcome(w_y) over the outputs with mass."""

    worst_outcome: ClassVar[bool] = True

    def combine(self, outcomes: Float[Arr, " y"], masses: Float[Arr, " y"]) -> Scalar:
        return xp.where(positive(masses), outcomes, -xp.inf).max()
