"""Tables as the verifier holds them."""

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv.verifier.archive import Table
from jaxpriv.verifier.claims import Counted

# What the whole numbers in a row of a design sum to.
ONE = 2**62


def whole(values: ArrayLike) -> Table:
    array = np.asarray(values)
    return Table(array.shape, array.ravel().tolist())


def integers(mechanism: ArrayLike) -> np.ndarray:
    """The whole numbers in place of the probabilities of a mechanism."""
    table = (np.asarray(mechanism) * ONE).astype(np.int64)
    table[np.arange(len(table)), table.argmax(axis=1)] += ONE - table.sum(axis=1)
    return table.astype(np.uint64)


def counted(counts: ArrayLike, table: ArrayLike) -> Counted:
    """What is released, by the integers of a table, of records that have been counted."""
    return Counted.of(whole(counts), np.asarray(table).tolist(), "counts")
