"""One leakage value of one mechanism: checked arrays in, a number with its unit and witness out."""

from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from jaxpriv._runtime.lanes import spread, with_lanes
from jaxpriv._runtime.numerics import unit_of
from jaxpriv._runtime.resources import MERGE, need_memory
from jaxpriv._runtime.types import Arr, Joint, Mechanism, OutputJoint, PrivateMarginal, Scalar
from jaxpriv._runtime.validation import joint_array, listed, mechanism_array, on_host, per_nat, refuse_after_fork
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import (
    AbstractLeakage,
    AbstractMeanLeakage,
    AbstractWorstOutcomeLeakage,
    Unit,
    evaluated,
    in_host_arrays,
)
from jaxpriv.leakage.pointwise import AbstractPointwiseLeakage
from jaxpriv.leakage.shannon import MutualInformation, average_leakage

Units = Unit | Literal["bits"]


@dataclass(frozen=True)
class Witness:
    """Where a value is attained: the output, and the private symbols if it is about symbols.

    For ratios P(y|raised)/P(y|lowered) both are named (or one, where the other side is P(y)); for
    an infinite average `lowered` is a symbol that `output` excludes.
    """

    output: int
    raised: int | None = None
    lowered: int | None = None


@dataclass(frozen=True)
class Evaluation:
    """The exact value (to rounding) of a measure on the given joint; no statement about a population."""

    value: float
    units: Units
    witness: Witness | None


# XLA reads masses below the smallest normal number as 0: NumPy computes where masses are below this. For a measure that
# is written in JAX alone a rarer symbol is given this probability, with the same P(x|s).
_RAREST = 1e-290


# Entries of P(s, y) up to which NumPy computes a value. At 256 symbols it takes up to twice as long as compiled code
# (8.8 and 4.4 ms of a processor for Sibson's information of order 2), which takes 0.3 to 0.8 s to compile.
_SMALL = 1 << 16


_TINY = float(np.finfo(np.float64).tiny)
# Products with smaller probabilities have fewer than ten digits.
_VAGUE = 2.0**-1040
# A power of two by which subnormal numbers become normal, and of which the square is a float64.
_LARGE = 2.0**500
# A power of two by which all subnormal numbers become larger than `_RAREST`.
_NORMAL = 2.0**120


class OutputColumns(NamedTuple):
    """What several joints (J, S, X) show through one mechanism (X, Y), with the digits of the smallest masses."""

    columns: np.ndarray  # (J, S, Y): multiples of P(s, y), of each output another one where masses are tiny
    masses: np.ndarray  # (J, Y): P(y), or a multiple that is the same for all outputs
    prior: np.ndarray  # (J, S): P(s)
    priors: np.ndarray | None  # (J, Y, S): what the column of each output is a joint with; None: `prior`

    @staticmethod
    def of(joints: np.ndarray, mechanism: np.ndarray, mean: bool) -> "OutputColumns":
        """`mean`: for measures that are averages of their outcomes (`AbstractMeanLeakage`)."""
        if mean:
            joints = _lifted(joints, _TINY)
        prior, columns = joints.sum(axis=2), joints @ mechanism
        masses = columns.sum(axis=1)
        used = (mechanism > 0).any(axis=0)
        tiny = (masses < _RAREST).any(axis=0) & used
        least = joints.min(where=joints > 0, initial=1.0) * mechanism.min(where=mechanism > 0, initial=1.0)
        if not tiny.any() and not ((prior > 0) & (prior < _VAGUE)).any() and least >= _VAGUE:
            return OutputColumns(columns, masses, prior, None)
        # Where an output has other symbols too, a symbol of so small a mass counts through its P(y|s) alone.
        normal = _lifted(joints, _VAGUE)
        columns = normal @ mechanism
        if least < _VAGUE:  # a product that is next to no float64
            tiny |= (((joints > 0) @ (mechanism > 0)) & (columns < _VAGUE)).any(axis=(0, 1)) & used
        priors = np.repeat(normal.sum(axis=2)[:, None, :], columns.shape[2], axis=1)
        # OutputColumns of tiny mass, each in a unit of its own.
        rows, units = unit_of(joints, axis=2)[..., None], unit_of(mechanism[:, tiny], axis=0)
        tiny_columns = (joints / rows) @ (mechanism[:, tiny] / units)
        size = np.where(tiny_columns > 0, rows, 0.0).max(axis=1, keepdims=True)
        tiny_columns = tiny_columns * (np.minimum(rows, size) / np.where(size > 0, size, 1.0))
        columns[:, :, tiny], priors[:, tiny] = tiny_columns, prior[:, None, :]
        factor = 1.0 if mean else _LARGE  # others than averages take the masses relative to one another
        masses = masses * factor
        masses[:, tiny] = tiny_columns.sum(axis=1) * (size[:, 0] * factor) * units
        return OutputColumns(columns, masses, prior, priors)


def _lifted(joints: np.ndarray, least: float) -> np.ndarray:
    """Joints (..., S, X) with the symbols of less than the `least` probability more probable, all by one factor.

    Averages depend on such a p_s by no more than its size, but on P(x|s) fully.
    """
    prior = joints.sum(axis=-1, keepdims=True)
    return np.where(prior < least, joints * _NORMAL, joints)


@eqx.filter_jit
def _compiled_values(measures: tuple[AbstractLeakage, ...], joint: Joint, mechanism: Mechanism) -> tuple[Scalar, ...]:
    return tuple(measure(joint, mechanism) for measure in measures)


@eqx.filter_jit
def _compiled_outcomes(measure: AbstractLeakage, outputs: OutputJoint, prior: PrivateMarginal) -> Float[Arr, " y"]:
    return measure.outcomes(outputs, prior)


def _in_numpy(measure: AbstractLeakage, seen: OutputColumns) -> bool:
    """Whether NumPy computes the measure of these outputs: of few, and where masses are too small for XLA."""
    return measure.in_numpy and (seen.columns[0].size <= _SMALL or seen.priors is not None)


def _outcomes_in_numpy(measure: AbstractLeakage, seen: OutputColumns) -> np.ndarray:
    """`outcome` of the outputs of several joints: (J, Y), all in one call."""
    count, symbols, size = seen.columns.shape
    columns = with_lanes(np.swapaxes(seen.columns, 1, 2).reshape(count * size, symbols))
    if seen.priors is not None:
        priors = with_lanes(seen.priors.reshape(count * size, symbols))
    else:
        priors = seen.prior[0] if count == 1 else with_lanes(np.repeat(seen.prior, size, axis=0))
    with np.errstate(all="ignore"):  # of entries that are left out, and of infinite values
        return spread(in_host_arrays(measure).outcome(columns, priors), count * size).reshape(count, size)


def _values_in_numpy(measure: AbstractLeakage, seen: OutputColumns) -> np.ndarray:
    """The values of a measure for the outputs of several joints: (J,)."""
    outcomes = _outcomes_in_numpy(measure, seen)
    with np.errstate(all="ignore"):
        value = in_host_arrays(measure).combine(with_lanes(outcomes), with_lanes(seen.masses))
    return np.maximum(spread(value, len(outcomes)), 0.0)


def _values(measures: tuple[AbstractLeakage, ...], joints: np.ndarray, mechanism: np.ndarray) -> np.ndarray:
    """The value of every measure for every joint of (J, S, X): (J, M).

    Those that NumPy does not compute are compiled in one program.
    """
    values = np.empty((len(joints), len(measures)))
    step = max(1, _SMALL // (joints.shape[1] * mechanism.shape[1]))
    for part in (slice(begin, begin + step) for begin in range(0, len(joints), step)):
        some, left = joints[part], []
        columns_of = cache(partial(OutputColumns.of, some, mechanism))
        for place, measure in enumerate(measures):
            if isinstance(measure, AbstractPointwiseLeakage):
                values[part, place] = log_ratios(measure, some, mechanism)
            elif _in_numpy(measure, seen := columns_of(isinstance(measure, AbstractMeanLeakage))):
                values[part, place] = _values_in_numpy(measure, seen)
            else:
                left.append(place)
        asked = tuple(measures[place] for place in left)
        for number, joint in enumerate(some if left else (), start=part.start):
            with jax.enable_x64(True):  # for this block only: the caller's setting stays as it is
                values[number, left] = _compiled_values(asked, _lifted(joint, _RAREST), mechanism)
    return values


def table_of(mechanism: Any) -> Any:  # noqa: ANN401 (an array, or what holds one)
    """P(y|x) of what holds one; anything else as it is."""
    channel = getattr(mechanism, "mechanism", mechanism)
    matrix = getattr(channel, "matrix", None)
    return channel if matrix is None else matrix()


def checked_pair(joint: ArrayLike, mechanism: object, name: str = "mechanism") -> tuple[np.ndarray, np.ndarray]:
    """`joint` and `mechanism` as float64 host arrays, or `InputError` naming argument and position."""
    mechanism = table_of(mechanism)
    on_host(joint, mechanism)
    refuse_after_fork()
    joint = joint_array(joint)
    mechanism = mechanism_array(mechanism, name, inputs=joint.shape[1])
    (private, useful), outputs = joint.shape, mechanism.shape[1]
    what, numbers = evaluated(private, useful, outputs)
    need_memory(8.0 * numbers, what, MERGE)
    return joint, mechanism


def evaluate_all(
    measures: tuple[AbstractLeakage, ...], joint: ArrayLike, mechanism: object, units: str = "nats"
) -> tuple[Evaluation, ...]:
    """`evaluate` for several measures; those that are compiled are one program.

    Raises `InputError` for units other than "nats" and "bits", what is no measure, and where `evaluate` does.
    """
    per_nat(units)
    measures = tuple(listed(measures, "measures"))
    for place, measure in enumerate(measures):
        if not isinstance(measure, AbstractLeakage):
            raise InputError(
                f"measures[{place}] must be a measure such as MutualInformation(), not {type(measure).__name__}; "
                "jaxpriv.leakage.by_name takes names"
            )
    on_host(measures)
    joint, mechanism = checked_pair(joint, mechanism)
    for measure in measures:
        measure.need_mass(joint.any(axis=1))
    values = _values(measures, joint[None], mechanism)[0].tolist()
    return tuple(
        _evaluation(measure, value, joint, mechanism, units) for measure, value in zip(measures, values, strict=True)
    )


def exact_values(measures: tuple[AbstractLeakage, ...], joint: ArrayLike, mechanism: ArrayLike) -> tuple[float, ...]:
    """The values of `evaluate_all` in the measures' own units, without their witnesses."""
    joint, mechanism = checked_pair(joint, mechanism)
    # A larger one would be compiled, and a small one takes several times as long otherwise.
    if all(type(measure) is MutualInformation for measure in measures):
        return (average_leakage(joint, mechanism),) * len(measures)
    return tuple(_values(measures, joint[None], mechanism)[0].tolist())


def values_of_joints(
    measures: tuple[AbstractLeakage, ...], joints: np.ndarray, mechanism: ArrayLike
) -> Float[np.ndarray, "joints measures"]:
    """`exact_values` of one mechanism for many joints (J, S, X); NumPy computes those of a measure together."""
    pairs = [checked_pair(joint, mechanism) for joint in joints]
    return _values(measures, np.stack([joint for joint, _ in pairs]), pairs[0][1])


def evaluate(measure: AbstractLeakage, joint: ArrayLike, mechanism: object, units: str = "nats") -> Evaluation:
    """The value of `measure` on a joint (s, x) and a mechanism (x, y), in float64 whatever JAX is set to.

    A joint of one axis (x,) is P(X) where X itself is private: S = X. `mechanism` is an array, or what holds one: a
    `Solution`, a `FunnelSolution`, a `Mechanism` or a `Watchdog`.

    Masses count down to the smallest float64, with three exceptions. A private symbol with a probability below 1e-313
    may be taken as more probable, which changes Sibson's and Arimoto's information of orders above 50 and below 0.05;
    one below 2e-308 changes chi-squared, if an output of so small a mass has a symbol of ordinary probability too; one
    below 1e-290 is taken as more probable by `LeakageEnvelope`, `MaximalAlphaLeakage` and measures of your own.

    `units="bits"` converts measures that are in nats; probabilities, costs and dimensionless values
    stay what they are, with their unit in `Evaluation.units`. Worst-outcome measures and infinite values
    come with a `Witness`, from which log-ratio measures take their value.

    Raises `InputError` naming argument and position for NaN, infinite or negative entries, totals
    other than 1, rows that do not sum to 1, shapes that do not match, tracers, unknown units, and what is no measure.

    Example:
        >>> from jaxpriv.leakage import MaximalLeakage
        >>> symmetric = [[0.75, 0.25], [0.25, 0.75]]
        >>> found = evaluate(MaximalLeakage(), [[0.5, 0.0], [0.0, 0.5]], symmetric, units="bits")
        >>> print(f"{found.value:.6f} {found.units}")
        0.584963 bits
    """
    return evaluate_all((measure,), joint, mechanism, units)[0]


def _evaluation(
    measure: AbstractLeakage, value: float, joint: np.ndarray, mechanism: np.ndarray, units: str
) -> Evaluation:
    witness = None
    if isinstance(measure, AbstractPointwiseLeakage):
        witness = _telling_ratio(measure, joint, mechanism)
    elif isinstance(measure, AbstractWorstOutcomeLeakage) or np.isinf(value):
        witness = _telling_output(measure, joint, mechanism)
    if measure.unit == "nats" and units == "bits":
        return Evaluation(value * per_nat(units), "bits", witness)
    return Evaluation(value, measure.unit, witness)


def _telling_output(measure: AbstractLeakage, joint: np.ndarray, mechanism: np.ndarray) -> Witness:
    seen = OutputColumns.of(joint[None], mechanism, isinstance(measure, AbstractMeanLeakage))
    if _in_numpy(measure, seen):
        outcomes = _outcomes_in_numpy(measure, seen)[0]
    else:
        lifted = _lifted(joint, _RAREST)
        with jax.enable_x64(True):
            outcomes = np.asarray(_compiled_outcomes(measure, lifted @ mechanism, lifted.sum(axis=1)))
    output = int(np.argmax(np.where(seen.masses[0] > 0, outcomes, -np.inf)))
    if np.isfinite(outcomes[output]):
        return Witness(output)
    excluded = np.flatnonzero((seen.prior[0] > 0) & (seen.columns[0, :, output] == 0))
    return Witness(output, lowered=int(excluded[0]) if excluded.size else None)


def _telling_ratio(measure: AbstractPointwiseLeakage, joint: np.ndarray, mechanism: np.ndarray) -> Witness | None:
    log_lift, support, masses = _log_lifts(_completed(measure, joint), mechanism)
    if not (masses > 0).any():
        return None
    with np.errstate(invalid="ignore"):  # of an output without mass
        scores = measure.score(log_lift, support)
    output = int(np.argmax(np.where(masses > 0, scores, -np.inf)))
    return Witness(output, *measure.attained(np.where(support[0], log_lift[output], np.nan)))


def log_ratios(measure: AbstractPointwiseLeakage, joints: np.ndarray, mechanisms: np.ndarray) -> np.ndarray:
    """The values of `evaluate` for joints (..., S, X) and mechanisms (..., X, Y), in nats: (...)."""
    log_lift, support, masses = _log_lifts(_completed(measure, joints), mechanisms)
    with np.errstate(invalid="ignore"):
        scores = measure.score(log_lift, support)
    return np.asarray(np.maximum(np.where(masses > 0, scores, 0.0).max(axis=-1), 0.0))


def _completed(measure: AbstractPointwiseLeakage, joints: np.ndarray) -> np.ndarray:
    """The joints (..., S, X), where S = X with a probability next to 0 of each symbol that counts without mass too."""
    if not measure.unseen or joints.shape[-2] != joints.shape[-1]:
        return joints
    diagonal = np.eye(joints.shape[-1])
    absent = joints.sum(axis=-1, keepdims=True) == 0
    return joints if (joints * (1.0 - diagonal)).any() else joints + _RAREST * absent * diagonal


def _log_lifts(joint: np.ndarray, mechanism: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(log-lifts (..., Y, S), symbols with mass (..., 1, S), masses of the outputs (..., Y))."""
    prior = joint.sum(axis=-1, keepdims=True)
    support = prior > 0
    # Units of the outputs and of the joint cancel. These keep the digits of tiny numbers and of their products.
    mechanism, joint = mechanism / unit_of(mechanism, axis=-2)[..., None, :], joint * _LARGE
    channel = np.where(support, joint / np.where(support, prior, 1.0), 0.0) @ mechanism
    masses = (joint.sum(axis=-2)[..., None, :] @ mechanism)[..., 0, :]
    with np.errstate(all="ignore"):
        lift = channel / masses[..., None, :]
        logarithms = np.log(channel) - np.log(masses)[..., None, :]
        log_lift = np.where((lift > 1 / _LARGE) & (lift < _LARGE), np.log(lift), logarithms)
    return np.swapaxes(log_lift, -1, -2), np.swapaxes(support, -1, -2), masses
