"""Does a release come from the mechanism that was audited? Two tests with p-values that hold at every sample size.

Under the claim the releases y of the records with useful symbol x are n_x independent draws from W(.|x).

Monte Carlo.  The release among simulated ones, ranked by what a share of unchanged records, merged rows, swapped rows
              or single pairs would do (`jaxpriv.verifier.conformity`, as `jaxpriv verify` does): exact level, and
              for a square mechanism the share of records, released as they are, that it detects.
Tail.         z = sum_x n_x D( P^(.|x) || W(.|x) ), f the sum over x of |support of W(.|x)| - 1, satisfies

                  Pr[ z >= t ] <= e^-t (e t/f)^f    for t > f:

              the moment generating functions of independent rows multiply (Agrawal 2020, as for one distribution). It
              is weaker, but needs no simulation and holds at levels below one in the number of tables. The sum tests
              a defect in all rows, each row by itself a defect in one.

A release that W excludes has p = 0 in both.
"""

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from jaxpriv._validation import mechanism_array, whole
from jaxpriv.errors import InputError
from jaxpriv.estimation.audit.independence import holm
from jaxpriv.estimation.confidence import divergence_tail
from jaxpriv.estimation.confidence._counts import count_array
from jaxpriv.verifier.conformity import conformity_of_counts

_TABLES, _MOST = 999, 1_000_000
# Cells of all simulated tables together: a larger mechanism is tested with fewer tables.
_CELLS, _LEAST = 10**7, 19


@dataclass(frozen=True)
class Conformity:
    """Tests of the claim "released by this mechanism".

    Attributes:
        p_value: by simulation; never below 1/(tables + 1), but for impossible pairs, where it is 0. Without tables the
            tail bound.
        tail: the p-value from the tail bound; `by_row` for each x, Holm-adjusted (1 where nothing was released).
        by_row: see `tail`.
        impossible: the (x, y) that were released although W[x, y] = 0.
        tables: simulated tables (0 if none was needed).
        detectable: the share of records, released as y = x, that the simulation detects in nine of ten cases at level
            0.001; None for a mechanism that is not square.
    """

    p_value: float
    tail: float
    by_row: tuple[float, ...]
    impossible: tuple[tuple[int, int], ...]
    tables: int
    detectable: float | None


def conformity(releases: ArrayLike, mechanism: ArrayLike, *, tables: int | None = None, seed: int = 0) -> Conformity:
    """Test counts (X, Y) of released pairs against the mechanism (X, Y) they should come from.

    Args:
        releases: (X, Y) whole numbers.
        mechanism: P(y|x), rows sum to one.
        tables: how many releases are simulated at most (999, fewer for more than 10,000 pairs); 0: none.
        seed: of the simulation.

    Raises `InputError` for bad counts or a bad mechanism, if their shapes differ, or for a bad number of tables.
    """
    table = count_array(releases, "releases")
    channel = mechanism_array(mechanism)
    for axis, name in enumerate(("rows (axis x)", "outputs (axis y)")):
        if table.shape[axis] != channel.shape[axis]:
            raise InputError(
                f"releases has {table.shape[axis]} {name}, but the mechanism has {channel.shape[axis]}; releases are "
                "counts (X, Y) of useful and released symbols"
            )
    usual = min(_TABLES, max(_CELLS // channel.size, _LEAST))
    count = usual if tables is None else whole(tables, "tables", low=0.0)
    if count > _MOST:
        raise InputError(f"tables is above {_MOST}")
    n = table.sum(axis=1)
    rows = n * rel_entr(table / np.maximum(n, 1)[:, None], channel).sum(axis=1)
    rows = np.where(n > 0, rows * (1 - 1e-12), 0.0)  # rounding may not make a release look worse
    freedom = np.where(n > 0, (channel > 0).sum(axis=1) - 1, 0)
    alone = np.array([1.0 if z == 0 else divergence_tail(int(f), float(z)) for z, f in zip(rows, freedom, strict=True)])
    together = 1.0 if rows.sum() == 0 else divergence_tail(int(freedom.sum()), float(rows.sum()))
    by_row = holm(alone)
    impossible = tuple((int(x), int(y)) for x, y in np.argwhere((table > 0) & (channel == 0)))
    tail = float(min(1.0, 2 * min(together, by_row.min())))
    released = np.flatnonzero(n).tolist()
    if not released:
        return Conformity(1.0, tail, tuple(by_row.tolist()), (), 0, None)
    found = conformity_of_counts(
        {x: channel[x].tolist() for x in released},
        {x: table[x].tolist() for x in released},
        {x: x for x in released} if channel.shape[0] == channel.shape[1] else None,
        count,
        random.Random(whole(seed, "seed", low=0.0)),
    )
    p_value = found.p_value if impossible or found.tables else tail
    return Conformity(p_value, tail, tuple(by_row.tolist()), impossible, found.tables, found.detectable)
