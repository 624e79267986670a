"""The distortion of records: what changing each column costs, added up over the columns.

    d(x, y) = sum_c weight_c d_c(x_c, y_c)

with d_c one of `changed` (1 if the classes differ; the default), `absolute` and `squared` (of the values of the
classes), or a table of a price for each pair of classes.
"""

import itertools
import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._resources import MERGE, need_memory
from jaxpriv._validation import nonnegative, real_array, scalar
from jaxpriv.errors import InputError
from jaxpriv.estimation.tables.codebook import Codebook
from jaxpriv.estimation.tables.rules import Edges, FittedRule

KINDS = ("changed", "absolute", "squared")
# For each column a kind of `KINDS`, a weight, or a table of costs.
Prices: TypeAlias = Mapping[str, str | float | ArrayLike]


def column_distortion(
    codebook: Codebook, attributes: ArrayLike, *, kinds: Prices | None = None, weights: Prices | None = None
) -> np.ndarray:
    """d (X, X) float64 between useful symbols, given by the codes `attributes` (X, b) of the codebook's useful columns.

    Args:
        kinds: for a column `changed`, `absolute`, `squared`, or an array (k, k) of prices >= 0 for its k classes (a
            class that is kept may have one too). Others are `changed`.
        weights: for a column a number >= 0; others have 1.

    The value of a category is the number that it is; that of an interval its middle, of a half-line its end. A class
    for other or missing values is as far from every value as the smallest and the largest value are from each other.

    Raises `InputError` for a column that is not useful, a category that is no number, an unknown kind or a bad price,
    naming the column.
    """
    kinds, weights = dict(kinds or {}), dict(weights or {})
    for name, given in (("distortion", kinds), ("weight", weights)):
        for column in given:
            if column not in codebook.useful:
                raise InputError(f"{name} is given for column {column!r}, which is not among the useful columns")
    codes = np.asarray(attributes)
    need_memory(24.0 * len(codes) ** 2, "a distortion between all useful symbols", MERGE)
    total = np.zeros((len(codes), len(codes)))
    for place, column in enumerate(codebook.useful):
        weight = scalar(weights.get(column, 1.0), f"weight of column {column!r}", low=0.0)
        prices = _prices(kinds.get(column, "changed"), codebook.rules[column], column)
        total += weight * prices[codes[:, place, None], codes[None, :, place]]
    return total


def _prices(kind: str | float | ArrayLike, rule: FittedRule, column: str) -> np.ndarray:
    size = len(rule.labels)
    what = f"distortion of column {column!r}"
    if not isinstance(kind, str):
        prices = nonnegative(real_array(kind, what, ndim=2), what)
        if prices.shape != (size, size):
            raise InputError(f"{what} has shape {prices.shape}; the column has {size} classes")
        return np.asarray(prices, dtype=np.float64)
    if kind not in KINDS:
        raise InputError(f"{what} must be one of {', '.join(KINDS)}, or a table of prices")
    if kind == "changed":
        return 1.0 - np.eye(size)
    values = _values(rule, column)
    apart = abs(values[:, None] - values)
    far = np.nanmax(apart)
    apart = np.where(np.isnan(apart), far, apart)
    np.fill_diagonal(apart, 0.0)
    return apart if kind == "absolute" else apart**2


def _values(rule: FittedRule, column: str) -> np.ndarray:
    """A number for each class; NaN for the classes of other and missing values."""
    if isinstance(rule, Edges):
        values = [_middle(low, high) for low, high in itertools.pairwise(rule.edges)]
    else:
        values = [_number(text, column) for text in rule.values or ()]
    extras = len(rule.labels) - len(values)
    return np.array([*values, *[math.nan] * extras])


def _middle(low: float, high: float) -> float:
    if math.isinf(low) and math.isinf(high):
        return 0.0
    return high if math.isinf(low) else low if math.isinf(high) else low + (high - low) / 2


def _number(text: str, column: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(
            f"distortion of column {column!r}: a category is no number, so only `changed` can be asked for"
        )
    return value
