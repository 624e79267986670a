"""One leakage value of one mechanism: checked arrays in, a number with its unit and witness out."""

from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from jaxpriv._importing import refuse_after_fork
from jaxpriv._lanes import spread, with_lanes
from jaxpriv._resources import MERGE, need_memory
from jaxpriv._types import Joint, Mechanism, OutputJoint, PrivateMarginal, Scalar
from jaxpriv._validation import is_traced, joint_array, mechanism_array
from jaxpriv.errors import InputError
from jaxpriv.leakage._base import AbstractLeakage, AbstractWorstOutcomeLeakage, Unit, evaluated
from jaxpriv.leakage.pointwise import AbstractPointwiseLeakage
from jaxpriv.leakage.registry import by_name, forms_of, reported_rows
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


# XLA reads masses below the smallest normal number as 0. A symbol rarer than this is given this
# probability, with the same P(x|s): measures depend on such a p_s by no more than its size
# (Arimoto's of order a by its a-th power), but on P(y|s) fully.
_RAREST = 1e-290


# Entries of P(s, y) up to which NumPy computes a value. At 256 symbols it takes up to twice as long as compiled code
# (8.8 and 4.4 ms of a processor for Sibson's information of order 2), which takes 0.3 to 0.8 s to compile.
_SMALL = 1 << 16


@eqx.filter_jit
def _compiled_values(measures: tuple[AbstractLeakage, ...], joint: Joint, mechanism: Mechanism) -> tuple[Scalar, ...]:
    return tuple(measure(joint, mechanism) for measure in measures)


@eqx.filter_jit
def _compiled_outcomes(measure: AbstractLeakage, outputs: OutputJoint, prior: PrivateMarginal) -> Float[Array, " y"]:
    return measure.outcomes(outputs, prior)


def _for_numpy(measure: AbstractLeakage, entries: int) -> AbstractLeakage | None:
    """The measure with arrays of NumPy, where NumPy computes it for so many entries of P(s, y)."""
    if entries > _SMALL or not measure.in_numpy:
        return None
    return jax.tree.map(lambda leaf: np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf, measure)


def _outcomes_in_numpy(measure: AbstractLeakage, outputs: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """`outcome` of the outputs (J, S, Y) of several joints with the marginals (J, S): (J, Y), all in one call."""
    count, symbols, size = outputs.shape
    columns = with_lanes(np.swapaxes(outputs, 1, 2).reshape(count * size, symbols))
    priors = prior[0] if count == 1 else with_lanes(np.repeat(prior, size, axis=0))
    return spread(measure.outcome(columns, priors), count * size).reshape(count, size)


def _values_in_numpy(measure: AbstractLeakage, outputs: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """The values of a measure for the outputs (J, S, Y) of several joints with the marginals (J, S): (J,)."""
    with np.errstate(all="ignore"):  # of entries that are left out, and of infinite values
        outcomes = _outcomes_in_numpy(measure, outputs, prior)
        value = measure.combine(with_lanes(outcomes), with_lanes(outputs.sum(axis=1)))
    return np.maximum(spread(value, len(outputs)), 0.0)


def _values(measures: tuple[AbstractLeakage, ...], joint: np.ndarray, mechanism: np.ndarray) -> list[float]:
    """The value of every measure; compiled in one program where NumPy does not compute them."""
    outputs, prior = joint @ mechanism, joint.sum(axis=1)
    own = [_for_numpy(measure, outputs.size) for measure in measures]
    left = tuple(measure for measure, found in zip(measures, own, strict=True) if found is None)
    compiled = iter(_compiled_values(left, joint, mechanism) if left else ())
    return [
        float(next(compiled) if found is None else _values_in_numpy(found, outputs[None], prior[None])[0])
        for found in own
    ]


def _outcomes(measure: AbstractLeakage, outputs: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """`measure.outcomes`, by NumPy or compiled."""
    found = _for_numpy(measure, outputs.size)
    if found is None:
        return np.asarray(_compiled_outcomes(measure, outputs, prior))
    with np.errstate(all="ignore"):
        return _outcomes_in_numpy(found, outputs[None], prior[None])[0]


def checked_pair(joint: ArrayLike, mechanism: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """`joint` and `mechanism` as float64 host arrays, or `InputError` naming argument and position."""
    if is_traced(joint, mechanism):
        raise InputError("this function runs on the host; inside jit, vmap or grad call measure(joint, mechanism)")
    refuse_after_fork()
    joint = joint_array(joint)
    mechanism = mechanism_array(mechanism, inputs=joint.shape[1])
    (private, useful), outputs = joint.shape, mechanism.shape[1]
    what, numbers = evaluated(private, useful, outputs)
    need_memory(8.0 * numbers, what, MERGE)
    prior = joint.sum(axis=1, keepdims=True)
    rare = (prior > 0) & (prior < _RAREST)
    lifted = np.where(rare, joint * (_RAREST / np.where(rare, prior, 1.0)), joint)
    return lifted, mechanism


def evaluate_all(
    measures: tuple[AbstractLeakage, ...], joint: ArrayLike, mechanism: ArrayLike, units: str = "nats"
) -> tuple[Evaluation, ...]:
    """`evaluate` for several measures; those that are compiled are one program.

    Raises `InputError` for units other than "nats" and "bits", what is no measure, and where `evaluate` does.
    """
    if units not in ("nats", "bits"):
        raise InputError("units must be 'nats' or 'bits'")
    for place, measure in enumerate(measures):
        if not isinstance(measure, AbstractLeakage):
            raise InputError(
                f"measures[{place}] must be a measure such as MutualInformation(), not {type(measure).__name__}; "
                "jaxpriv.leakage.by_name takes names"
            )
    joint, mechanism = checked_pair(joint, mechanism)
    with jax.enable_x64(True):  # for this block only: the caller's setting stays as it is
        return tuple(
            _evaluation(measure, value, joint, mechanism, units)
            for measure, value in zip(measures, _all_but_log_ratios(measures, joint, mechanism), strict=True)
        )


def _all_but_log_ratios(measures: tuple[AbstractLeakage, ...], joint: np.ndarray, mechanism: np.ndarray) -> list[float]:
    """The values; NaN for log ratios, which are computed in logarithms."""
    others = tuple(measure for measure in measures if not isinstance(measure, AbstractPointwiseLeakage))
    values = iter(_values(others, joint, mechanism) if others else ())
    return [np.nan if isinstance(measure, AbstractPointwiseLeakage) else next(values) for measure in measures]


def exact_values(measures: tuple[AbstractLeakage, ...], joint: ArrayLike, mechanism: ArrayLike) -> tuple[float, ...]:
    """The values of `evaluate_all` in the measures' own units, without their witnesses."""
    joint, mechanism = checked_pair(joint, mechanism)
    if all(type(measure) is MutualInformation for measure in measures):  # a call on the device takes ten times as long
        return (average_leakage(joint, mechanism),) * len(measures)
    with jax.enable_x64(True):
        values = _all_but_log_ratios(measures, joint, mechanism)
    return tuple(
        float(log_ratios(measure, joint, mechanism)) if isinstance(measure, AbstractPointwiseLeakage) else value
        for measure, value in zip(measures, values, strict=True)
    )


def values_of_joints(
    measures: tuple[AbstractLeakage, ...], joints: np.ndarray, mechanism: ArrayLike
) -> Float[np.ndarray, "joints measures"]:
    """`exact_values` of one mechanism for many joints (J, S, X); NumPy computes those of a measure together."""
    pairs = [checked_pair(joint, mechanism) for joint in joints]
    table, rows = np.stack([joint for joint, _ in pairs]), pairs[0][1]
    found = np.empty((len(table), len(measures)))
    size = table.shape[1] * rows.shape[1]
    step = max(1, _SMALL // size)
    for place, measure in enumerate(measures):
        own = None if isinstance(measure, AbstractPointwiseLeakage) else _for_numpy(measure, size)
        for begin in range(0, len(table), step):
            some = table[begin : begin + step]
            if isinstance(measure, AbstractPointwiseLeakage):
                values = log_ratios(measure, some, rows)
            elif own is None:
                values = [exact_values((measure,), joint, rows)[0] for joint in some]
            else:
                values = _values_in_numpy(own, some @ rows, some.sum(axis=2))
            found[begin : begin + step, place] = values
    return found


def evaluate(measure: AbstractLeakage, joint: ArrayLike, mechanism: ArrayLike, units: str = "nats") -> Evaluation:
    """The value of `measure` on a joint (s, x) and a mechanism (x, y), in float64 whatever JAX is set to.

    `units="bits"` converts measures that are in nats; probabilities, costs and dimensionless values
    stay what they are, with their unit in `Evaluation.units`. Worst-outcome measures and infinite values
    come with a `Witness`. Log-ratio measures take their value from the witness, computed in
    logarithms on the host, so masses down to the smallest subnormal count.

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
        value, witness = _log_ratio(measure, joint, mechanism)
    elif isinstance(measure, AbstractWorstOutcomeLeakage) or np.isinf(value):
        witness = _telling_output(measure, joint, mechanism)
    if measure.unit == "nats" and units == "bits":
        return Evaluation(value / float(np.log(2)), "bits", witness)
    return Evaluation(value, measure.unit, witness)


def _telling_output(measure: AbstractLeakage, joint: np.ndarray, mechanism: np.ndarray) -> Witness:
    outputs, prior = joint @ mechanism, joint.sum(axis=1)
    outcomes = _outcomes(measure, outputs, prior)
    used = outputs.sum(axis=0) >= np.finfo(np.float64).tiny
    output = int(np.argmax(np.where(used, outcomes, -np.inf)))
    if np.isfinite(outcomes[output]):
        return Witness(output)
    excluded = np.flatnonzero((prior > 0) & (outputs[:, output] == 0))
    return Witness(output, lowered=int(excluded[0]) if excluded.size else None)


def _log_ratio(
    measure: AbstractPointwiseLeakage, joint: np.ndarray, mechanism: np.ndarray
) -> tuple[float, Witness | None]:
    log_lift, support, masses = _log_lifts(joint, mechanism)
    if not (masses > 0).any():
        return 0.0, None
    with np.errstate(invalid="ignore"):  # of an output without mass
        scores = measure.score(log_lift, support)
    output = int(np.argmax(np.where(masses > 0, scores, -np.inf)))
    column = np.where(support[0], log_lift[output], np.nan)
    raised, lowered = measure.attained(column)
    value = (0.0 if raised is None else column[raised]) - (0.0 if lowered is None else column[lowered])
    return max(float(value), 0.0), Witness(output, raised, lowered)


def log_ratios(measure: AbstractPointwiseLeakage, joints: np.ndarray, mechanisms: np.ndarray) -> np.ndarray:
    """The values of `evaluate` for joints (..., S, X) and mechanisms (..., X, Y), in nats: (...)."""
    log_lift, support, masses = _log_lifts(joints, mechanisms)
    with np.errstate(invalid="ignore"):
        scores = measure.score(log_lift, support)
    return np.asarray(np.maximum(np.where(masses > 0, scores, 0.0).max(axis=-1), 0.0))


def _log_lifts(joint: np.ndarray, mechanism: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(log-lifts (..., Y, S), symbols with mass (..., 1, S), masses of the outputs (..., Y))."""
    prior = joint.sum(axis=-1, keepdims=True)
    support = prior > 0
    channel = np.where(support, joint / np.where(support, prior, 1.0), 0.0) @ mechanism
    masses = (joint.sum(axis=-2)[..., None, :] @ mechanism)[..., 0, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        log_lift = np.swapaxes(np.log(channel) - np.log(masses)[..., None, :], -1, -2)
    return log_lift, np.swapaxes(support, -1, -2), masses


# Every leakage measure of one mechanism, and the cap that needs no prior.


@dataclass(frozen=True)
class Row:
    """One measure: what it is called, its value on the given joint, and where that is attained."""

    name: str
    form: str
    order: float | None
    divergence: str | None
    value: float
    units: Units
    witness: Witness | None


@dataclass(frozen=True)
class Report:
    """Every measure on one joint and mechanism.

    `rows` are exact evaluations on the given joint: if that joint is an estimate they are no
    statement about the population. `prior_free_cap` is of another kind, a bound for every joint:
    with it come `units` ("nats" or "bits"). `absent_private` are the symbols s with p_s = 0, left
    out of every measure; `unused_outputs` the outputs that never occur.
    """

    rows: tuple[Row, ...]
    prior_free_cap: float
    units: str
    absent_private: tuple[int, ...]
    unused_outputs: tuple[int, ...]


def prior_free_cap(mechanism: Mechanism) -> Scalar:
    """ln sum_y max_x mechanism[x, y], in nats: maximal leakage of X -> Y for a prior with full support.

    Whatever the joint of (S, X), it bounds mutual information, Sibson and Arimoto of every order,
    maximal leakage and min-entropy leakage of S. It needs no data. It bounds neither the worst
    outcome measures nor f-information in general.
    """
    return jnp.log(jnp.sum(jnp.max(jnp.asarray(mechanism), axis=0)))


def report(joint: ArrayLike, mechanism: ArrayLike, units: str = "nats") -> Report:
    """All measures of `mechanism` (x, y) under `joint` (s, x).

    Errors, units and accuracy as for `evaluate`.
    """
    joint, mechanism = checked_pair(joint, mechanism)
    asked = reported_rows()
    evaluations = evaluate_all(tuple(by_name(**row) for row in asked), joint, mechanism, units)
    cap = float(np.log(mechanism.max(axis=0).sum()))
    rows = tuple(
        Row(
            name=row["name"],
            form=row.get("form", forms_of(row["name"])[0]),
            order=row.get("order"),
            divergence=row.get("divergence"),
            value=evaluation.value,
            units=evaluation.units,
            witness=evaluation.witness,
        )
        for row, evaluation in zip(asked, evaluations, strict=True)
    )
    return Report(
        rows=rows,
        prior_free_cap=cap / float(np.log(2)) if units == "bits" else cap,
        units=units,
        absent_private=tuple(int(s) for s in np.flatnonzero(joint.sum(axis=1) == 0)),
        unused_outputs=tuple(int(y) for y in np.flatnonzero(joint.sum(axis=0) @ mechanism == 0)),
    )
