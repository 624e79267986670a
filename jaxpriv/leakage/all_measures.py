"""Every leakage measure of one mechanism, and the cap that needs no prior."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.module import Shown
from jaxpriv._runtime.types import Mechanism, Scalar
from jaxpriv._runtime.validation import listed, per_nat
from jaxpriv.leakage.evaluation import Units, Witness, checked_pair, evaluate_all
from jaxpriv.leakage.registry import by_name, forms_of, reported_rows
from jaxpriv.verifier.logarithms import upper


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

    @property
    def label(self) -> str:
        """The measure in the field's words, with its parameters."""
        return by_name(self.name, form=self.form, order=self.order, divergence=self.divergence).label


@dataclass(frozen=True)
class Report(Shown):
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

    def _shown(self) -> dict[str, str]:
        rows = {row.label: f"{upper(row.value)} {row.units}" for row in self.rows}
        return {**rows, "prior-free cap": f"{upper(self.prior_free_cap)} {self.units}"}


def prior_free_cap(mechanism: Mechanism) -> Scalar:
    """ln sum_y max_x mechanism[x, y], in nats: maximal leakage of X -> Y for a prior with full support.

    Whatever the joint of (S, X), it bounds mutual information, Sibson and Arimoto of every order,
    maximal leakage and min-entropy leakage of S. It needs no data. It bounds neither the worst
    outcome measures nor f-information in general. Arrays of NumPy are computed with in float64.
    """
    (mechanism,) = xp.arguments(mechanism)
    return xp.log(mechanism.max(axis=0).sum())


def rows_of(
    named: Sequence[Mapping[str, Any]], joint: np.ndarray, mechanism: np.ndarray, units: str = "nats"
) -> tuple[Row, ...]:
    """The measures that are named with their parameters (as for `by_name`), evaluated."""
    evaluations = evaluate_all(tuple(by_name(**arguments) for arguments in named), joint, mechanism, units)
    return tuple(
        Row(
            name=arguments["name"],
            form=arguments.get("form", forms_of(arguments["name"])[0]),
            order=arguments.get("order"),
            divergence=arguments.get("divergence"),
            value=evaluation.value,
            units=evaluation.units,
            witness=evaluation.witness,
        )
        for arguments, evaluation in zip(named, evaluations, strict=True)
    )


def of_orders(orders: Sequence[float]) -> list[dict[str, Any]]:
    """The names of Sibson's and Arimoto's measures of these orders."""
    return [{"name": name, "order": order} for name in ("sibson", "arimoto") for order in listed(orders, "orders")]


def report(joint: ArrayLike, mechanism: object, units: str = "nats", orders: Sequence[float] = ()) -> Report:
    """All measures of `mechanism` (x, y) under `joint` (s, x), or P(X) (x,) with S = X.

    Errors, units and accuracy as for `evaluate`. `orders`: further ones of Sibson's and Arimoto's measures.
    """
    joint, mechanism = checked_pair(joint, mechanism)
    rows = rows_of([*reported_rows(), *of_orders(orders)], joint, mechanism, units)
    cap = float(prior_free_cap(mechanism))
    return Report(
        rows=rows,
        prior_free_cap=cap * per_nat(units),
        units=units,
        absent_private=tuple(int(s) for s in np.flatnonzero(joint.sum(axis=1) == 0)),
        unused_outputs=tuple(int(y) for y in np.flatnonzero(joint.sum(axis=0) @ mechanism == 0)),
    )
