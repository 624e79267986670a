"""The values of measures on the records themselves, and on resampled ones: nothing about a population."""

from collections.abc import Sequence

import numpy as np

from jaxpriv._runtime.validation import listed, real_array, texts, whole
from jaxpriv.errors import InputError
from jaxpriv.leakage import AbstractLeakage, Row, by_name, parameters_of
from jaxpriv.leakage.all_measures import of_orders, rows_of
from jaxpriv.leakage.evaluation import values_of_joints
from jaxpriv.leakage.registry import reported_rows

# Resamples of the bootstrap: its quantiles at 0.95 need a few hundred.
BOOTSTRAP = 200
# More resamples are a mistake: the tables of all of them are in memory at once.
_MOST = 100_000


def measured(
    joint: np.ndarray, channel: np.ndarray, orders: Sequence[float], measures: Sequence[str] | None
) -> tuple[list[Row], list[AbstractLeakage]]:
    """The measures of a report or those that are named, further orders, and their values on the records."""
    orders = listed(orders, "orders")
    further = real_array(orders, "orders", ndim=1).tolist() if orders else []
    if measures is None:
        named = [*reported_rows()]
    else:
        wanted = texts(measures, "measures")
        try:
            named = [*map(parameters_of, wanted)]
        except InputError as error:
            raise InputError(f"measures: {error}") from error
        if not named:
            raise InputError("measures must name one, such as 'mutual-information' or 'sibson:2'")
    named += of_orders(further)
    named = [row for place, row in enumerate(named) if row not in named[:place]]  # the confidence is divided among them
    return list(rows_of(named, joint, channel)), [by_name(**parameters) for parameters in named]


def resampled(
    table: np.ndarray,
    channel: np.ndarray,
    rows: Sequence[Row],
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
    values = values_of_joints(tuple(measures), drawn / n, channel)
    estimates: list[float | None] = []
    for row, column in zip(rows, values.T, strict=True):
        finite = np.isfinite(row.value) and bool(np.isfinite(column).all())
        estimates.append(max(0.0, 2 * row.value - float(np.quantile(column, beta))) if finite else None)
    return estimates
