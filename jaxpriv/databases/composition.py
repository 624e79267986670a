"""Two answers about the same database: the product channel."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._resources import need_memory
from jaxpriv._validation import mechanism_array
from jaxpriv.errors import InputError


def compose(*mechanisms: Sequence[ArrayLike]) -> np.ndarray:
    """M(r_1, r_2, ... | x) = prod_k M_k(r_k|x): independent runs on one database, (x, r_1 r_2 ...) row-major.

    The eps of differential privacy, of k dependent records and of all priors ADD: that of the composition is at
    most the sum (each is a maximum of log-ratios of M). Under one fixed prior and for entropy-bounded adversaries
    they do not: with three fair independent bits x1^x2^x3 and x2^x3 say nothing about any bit, together they
    say x1 (ln 2). Wu, Zhou and Xia, Lemma 2 and section 6.

    Raises `InputError` if the mechanisms disagree on the number of databases.
    """
    arrays = [mechanism_array(mechanism, f"mechanisms[{k}]") for k, mechanism in enumerate(mechanisms)]
    if not arrays:
        raise InputError("compose needs at least one mechanism")
    rows = arrays[0].shape[0]
    for k, array in enumerate(arrays):
        if array.shape[0] != rows:
            raise InputError(f"mechanisms[{k}] has {array.shape[0]} rows (axis x), mechanisms[0] has {rows}")
    need_memory(8.0 * rows * np.prod([float(array.shape[1]) for array in arrays]), "the composition", "compose fewer")
    product = arrays[0]
    for array in arrays[1:]:
        product = (product[:, :, None] * array[:, None, :]).reshape(rows, -1)
    return product
