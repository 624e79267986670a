"""Does a release come from the mechanism that was audited? Tests with p-values that hold at every sample size.

Under the claim the releases y of the records with useful symbol x are n_x independent draws from W(.|x).

Monte Carlo.  The release among simulated ones, ranked by what a share of unchanged records, merged rows, swapped rows
              or single pairs would do (`jaxpriv.verifier.monte_carlo`, as `jaxpriv verify` does): exact level.
Unchanged.    For a square mechanism an e-value against a share of records released as they are, and the share that it
              detects.
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

from jaxpriv._runtime.counts import count_array
from jaxpriv._runtime.validation import mechanism_array, whole
from jaxpriv.errors import InputError
from jaxpriv.statistics.audit.independence import holm
from jaxpriv.statistics.confidence import divergence_tail
from jaxpriv.verifier.monte_carlo import conformity_of_counts

# Simulated tables unless the caller says how many: with 999 the least p-value is 0.001. At most a million: 1e-6.
_TABLES, _MOST_TABLES = 999, 1_000_000
# Cells of all simulated tables together: a larger mechanism is tested with fewer tables, but with the 19 that a level
# of 0.05 needs.
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
        regular: the p-value, by simulation, of counts that are nearer to their expectations than those of draws; 1
            without tables.
        unchanged: the p-value of the test against a share of records that were released as y = x; None for a mechanism
            that is not square.
        detectable: the least share of them that this test detects in nine of ten cases at level 0.001; infinite if it
            does not detect all of them, None where `unchanged` is.
    """

    p_value: float
    tail: float
    by_row: tuple[float, ...]
    impossible: tuple[tuple[int, int], ...]
    tables: int
    regular: float
    unchanged: float | None
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
    if count > _MOST_TABLES:
        raise InputError(f"tables is above {_MOST_TABLES}")
    n = table.sum(axis=1)
    # Rounding may not make a release look worse.
    rows = n * rel_entr(table / np.maximum(n, 1)[:, None], channel).sum(axis=1) * (1 - 1e-12)
    freedom = np.where(n > 0, (channel > 0).sum(axis=1) - 1, 0)
    together = divergence_tail(int(freedom.sum()), float(rows.sum()))
    by_row = holm(np.array([divergence_tail(int(f), float(z)) for z, f in zip(rows, freedom, strict=True)]))
    impossible = tuple((int(x), int(y)) for x, y in np.argwhere((table > 0) & (channel == 0)))
    tail = float(min(1.0, 2 * min(together, by_row.min())))
    released = np.flatnonzero(n).tolist()
    if not released:
        return Conformity(1.0, tail, tuple(by_row.tolist()), (), 0, 1.0, None, None)
    outcome = conformity_of_counts(
        {x: channel[x].tolist() for x in released},
        {x: table[x].tolist() for x in released},
        {x: x for x in released} if channel.shape[0] == channel.shape[1] else None,
        count,
        random.Random(whole(seed, "seed", low=0.0)),
    )
    p_value = outcome.p_value if impossible or outcome.tables else tail
    return Conformity(
        p_value,
        tail,
        tuple(by_row.tolist()),
        impossible,
        outcome.tables,
        outcome.regular,
        outcome.unchanged,
        outcome.detectable,
    )
