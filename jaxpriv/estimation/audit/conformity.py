"""Does a release come from the mechanism that was audited? A test with a p-value that holds at every sample size.

Under the claim the releases y of the records with useful symbol x are n_x independent draws from W(.|x). With f the
sum over x of |support of W(.|x)| - 1, the statistic z = sum_x n_x D( P^(.|x) || W(.|x) ) satisfies

    Pr[ z >= t ] <= e^-t (e t/f)^f    for t > f:

the moment generating functions of independent rows multiply (Agrawal 2020, as for one distribution). A release that
W excludes gives z = inf and p = 0. The sum sees a defect in all rows, each row by itself a defect in one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from jaxpriv._validation import mechanism_array
from jaxpriv.errors import InputError
from jaxpriv.estimation.audit.independence import holm
from jaxpriv.estimation.confidence import divergence_tail
from jaxpriv.estimation.confidence._counts import count_array


@dataclass(frozen=True)
class Conformity:
    """`p_value` of the claim "released by this mechanism"; `by_row` for each x, Holm-adjusted (1 where nothing was).

    `impossible` are the (x, y) that were released although W[x, y] = 0.
    """

    p_value: float
    by_row: tuple[float, ...]
    impossible: tuple[tuple[int, int], ...]


def conformity(releases: ArrayLike, mechanism: ArrayLike) -> Conformity:
    """Test counts (X, Y) of released pairs against the mechanism (X, Y) they should come from.

    Raises `InputError` for bad counts or a bad mechanism, and if their shapes differ.
    """
    table = count_array(releases, "releases")
    channel = mechanism_array(mechanism)
    for axis, name in enumerate(("rows (axis x)", "outputs (axis y)")):
        if table.shape[axis] != channel.shape[axis]:
            raise InputError(
                f"releases has {table.shape[axis]} {name}, but the mechanism has {channel.shape[axis]}; releases are "
                "counts (X, Y) of useful and released symbols"
            )
    n = table.sum(axis=1)
    rows = n * rel_entr(table / np.maximum(n, 1)[:, None], channel).sum(axis=1)
    rows = np.where(n > 0, rows * (1 - 1e-12), 0.0)  # rounding may not make a release look worse
    freedom = np.where(n > 0, (channel > 0).sum(axis=1) - 1, 0)
    alone = np.array([1.0 if z == 0 else divergence_tail(int(f), float(z)) for z, f in zip(rows, freedom, strict=True)])
    whole = 1.0 if rows.sum() == 0 else divergence_tail(int(freedom.sum()), float(rows.sum()))
    by_row = holm(alone)
    impossible = tuple((int(x), int(y)) for x, y in np.argwhere((table > 0) & (channel == 0)))
    return Conformity(float(min(1.0, 2 * min(whole, by_row.min()))), tuple(by_row.tolist()), impossible)
