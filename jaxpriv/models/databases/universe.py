"""The universe of record sequences X = X_1 x ... x X_n, numbered 0 .. N - 1.

`sizes[i] = |X_i|`; the last record runs fastest (row-major), so a mechanism over sequences is an array
(N, r) whose reshape to `(*sizes, r)` has one axis for each record. The set of databases as multisets is
a quotient of it: give equal rows to sequences with equal multisets.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.validation import (
    host_only,
    index,
    listed,
    mechanism_array,
    nonnegative,
    real_array,
    scalar,
)
from jaxpriv.errors import InputError


def privacy_parameter(eps: object) -> float:
    """An eps > 0, finite: 0 would need noise without a distribution, infinity no noise."""
    number = float(scalar(eps, "eps", low=0.0, open_low=True))
    if math.exp(-number) == 1.0:
        raise InputError("eps is too small: e^-eps rounds to 1")
    return number


def record_limits(leakage: ArrayLike, sizes: tuple[int, ...]) -> np.ndarray:
    """Limits > 0 on the leakage of each record, (n,), from one number or one for each record."""
    given = real_array(leakage, "leakage", ndim=(0, 1))
    if given.ndim == 0:
        return np.full(len(sizes), scalar(leakage, "leakage", low=0.0, open_low=True))
    if len(given) != len(sizes):
        raise InputError(f"leakage has {len(given)} entries, but sizes describes {len(sizes)} records")
    return np.array([scalar(limit, f"leakage[{i}]", low=0.0, open_low=True) for i, limit in enumerate(given)])


# Where a table over all sequences does not fit.
FEWER = "collapse the sequences to the statistic that the mechanism uses"


def universe_sizes(sizes: int | Sequence[int]) -> tuple[int, ...]:
    """`sizes` as a tuple of whole numbers >= 1, or `InputError` naming the position."""
    checked = tuple(index(size, f"sizes[{i}]", low=1) for i, size in enumerate(listed(sizes, "sizes")))
    if not checked:
        raise InputError("sizes is empty; a database has at least one record")
    return checked


def record_group(records: int | Sequence[int], count: int) -> tuple[int, ...]:
    """One record or several of 0 .. count - 1, none twice, or `InputError` naming the position."""
    several = [records] if np.isscalar(records) or getattr(records, "ndim", 1) == 0 else listed(records, "records")
    group = tuple(index(record, f"records[{k}]", low=0, high=count - 1) for k, record in enumerate(several))
    if not group or len(set(group)) != len(group):
        raise InputError("records must name at least one record, none twice")
    return group


def with_empty_record(sizes: int | Sequence[int]) -> tuple[int, ...]:
    """Universes that contain the empty record (Wu, Xia and He, section 2.1): one more symbol, the last of each."""
    return tuple(size + 1 for size in universe_sizes(sizes))


def sequences(sizes: int | Sequence[int]) -> np.ndarray:
    """All record sequences in order: integers (N, n), row x holding the records of sequence number x."""
    sizes = universe_sizes(sizes)
    need_memory(8.0 * math.prod(sizes) * len(sizes), "a table of all sequences", FEWER)
    return np.indices(sizes).reshape(len(sizes), -1).T


def sequence_index(records: Sequence[int], sizes: int | Sequence[int]) -> int:
    """The number of one sequence of records; `InputError` naming the record that its universe lacks."""
    sizes, records = universe_sizes(sizes), listed(records, "records")
    if len(records) != len(sizes):
        raise InputError(f"records has {len(records)} entries, but sizes describes {len(sizes)} records")
    number = 0
    for i, (record, size) in enumerate(zip(records, sizes, strict=True)):
        number = number * size + index(record, f"records[{i}]", low=0, high=size - 1)
    return number


def over_universe(mechanism: ArrayLike, sizes: tuple[int, ...]) -> np.ndarray:
    """The checked mechanism (N, r) over the sequences of `sizes`."""
    array = mechanism_array(mechanism)
    total = math.prod(sizes)
    if array.shape[0] != total:
        raise InputError(f"mechanism has {array.shape[0]} rows (axis x), but sizes {sizes} make {total} sequences")
    return array


def distribution(value: ArrayLike, name: str) -> np.ndarray:
    """A distribution (k,): finite, >= 0; a total within 1e-9 of one is divided out."""
    array = nonnegative(real_array(value, name, ndim=1), name)
    total = float(array.sum())
    if not abs(total - 1.0) <= 1e-9:
        raise InputError(f"{name} sums to {total:.12g}, not 1")
    return array / total


def prior_over(prior: ArrayLike, sizes: tuple[int, ...]) -> np.ndarray:
    """The checked prior (N,) over the sequences of `sizes`."""
    checked = distribution(prior, "prior")
    if checked.size != math.prod(sizes):
        raise InputError(f"prior has {checked.size} entries, but sizes {sizes} make {math.prod(sizes)} sequences")
    return checked


@host_only
def independent_prior(marginals: Sequence[ArrayLike]) -> np.ndarray:
    """P(x) = prod_i P_i(x_i), (N,): the prior of independent records, from one distribution for each record.

    Raises `InputError` naming the record whose distribution does not sum to 1 within 1e-9.
    """
    prior = np.ones(1)
    for i, marginal in enumerate(listed(marginals, "marginals")):
        prior = np.multiply.outer(prior, distribution(marginal, f"marginals[{i}]")).ravel()
    return prior
