"""Tables as the verifier holds them."""

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv.verifier.archive import Table
from jaxpriv.verifier.claims import Counted


def whole(values: ArrayLike) -> Table:
    array = np.asarray(values)
    return Table(array.shape, array.ravel().tolist())


def counted(counts: ArrayLike, table: ArrayLike) -> Counted:
    """What is released, by the integers of a table, of records that have been counted."""
    return Counted.of(whole(counts), np.asarray(table).tolist(), "counts")
