"""The values of measures on the records themselves, and on resampled ones: no statements about a population."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxpriv._validation import real_array, whole
from jaxpriv.errors import InputError
from jaxpriv.leakage import AbstractLeakage, by_name, evaluate_all, forms_of, parameters_of, report
from jaxpriv.leakage.evaluation import exact_values

# Resamples of the bootstrap: its quantiles at 0.95 need a few hundred.
BOOTSTRAP = 200
_MOST = 100_000


@dataclass(frozen=True)
class Measured:
    """A measure by its name and parameters, and its value on the records."""

    name: str
    form: str
    order: float | None
    divergence: str | None
    units: str
    value: float
    gamma: float | None = None


def measured(
    joint: np.ndarray, channel: np.ndarray, orders: Sequence[float], measures: Sequence[str] | None
) -> tuple[list[Measured], list[AbstractLeakage]]:
    """The measures of a report or those that are named, further orders, and their values."""
    asked = [float(order) for order in real_array(orders, "orders", ndim=1)] if np.size(orders) else []
    if measures is None:
        rows = [
            Measured(one.name, one.form, one.order, one.divergence, one.units, one.value)
            for one in report(joint, channel).rows
        ]
        named: list[dict[str, Any]] = []
    else:
        if isinstance(measures, str) or not measures:
            raise InputError("measures must be a sequence of texts such as 'mutual-information' or 'sibson:2'")
        rows, named = [], [parameters_of(text) for text in measures]
    named += [{"name": name, "order": order} for name in ("sibson", "arimoto") for order in asked]
    values = evaluate_all(tuple(by_name(**one) for one in named), joint, channel) if named else ()
    rows += [
        Measured(
            one["name"],
            one.get("form", forms_of(one["name"])[0]),
            one.get("order"),
            one.get("divergence"),
            found.units,
            found.value,
            one.get("gamma"),
        )
        for one, found in zip(named, values, strict=True)
    ]
    return rows, [
        by_name(row.name, form=row.form, order=row.order, divergence=row.divergence, gamma=row.gamma) for row in rows
    ]


def resampled(
    table: np.ndarray,
    channel: np.ndarray,
    rows: Sequence[Measured],
    measures: Sequence[AbstractLeakage],
    beta: float,
    repeats: int,
    seed: int,
) -> list[float | None]:
    """The bootstrap estimates of the rows; None where a value was not finite."""
    repeats = whole(repeats, "bootstrap", low=0.0)
    if repeats > _MOST:
        raise InputError(f"bootstrap is above {_MOST}")
    if repeats == 0:
        return [None] * len(rows)
    n = int(table.sum())
    generator = np.random.default_rng(whole(seed, "seed", low=0.0))
    drawn = generator.multinomial(n, table.ravel() / n, size=repeats).reshape(-1, *table.shape)
    values = np.array([exact_values(tuple(measures), one / n, channel) for one in drawn])
    found: list[float | None] = []
    for row, column in zip(rows, values.T, strict=True):
        finite = np.isfinite(row.value) and bool(np.isfinite(column).all())
        found.append(max(0.0, 2 * row.value - float(np.quantile(column, beta))) if finite else None)
    return found
