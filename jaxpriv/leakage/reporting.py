"""Every leakage measure of one mechanism, and the cap that needs no prior."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._types import Mechanism, Scalar
from jaxpriv.leakage.evaluation import Units, Witness, checked_pair, evaluate_all
from jaxpriv.leakage.registry import by_name, forms_of, reported_rows


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

    `rows` are exact evaluations on the given joint: if that joint is an estimate they say nothing
    certain about the population. `prior_free_cap` is of another kind, a bound for every joint:
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
    """All measures of `mechanism` (x, y) under `joint` (s, x), evaluated in one compiled call.

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
