"""Two answers about the same database: the product channel, and what is left to be known after one."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr

from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.validation import host_only, mechanism_array, scalar
from jaxpriv.errors import InputError
from jaxpriv.models.databases.differential import all_priors_privacy


@host_only
def entropy_after(mechanism: ArrayLike, entropy: float) -> float:
    """The least entropy, in nats, that H(P) >= b = `entropy` leaves of the knowledge P(x|r) after any one result r.

        H(P(.|r)) >= e^L ( b - h(e^-L) - (1 - e^-L) ln N ),     L = `all_priors_privacy(mechanism).value`

    or 0 if that is less, h the binary entropy: P is the mixture of P(.|r), with weight e^-L, since P(x|r) <= e^L P(x),
    and of another distribution, whose entropy is at most ln N. So information privacy composes under bounded knowledge:
    `entropy_bounded_privacy` of M_1 at b and of M_2 at this entropy add up to a bound for `compose(M_1, M_2)`.

    `mechanism` (N, r). Raises `InputError` for b < 0.
    """
    bound = float(scalar(entropy, "entropy", low=0.0))
    share = math.exp(-all_priors_privacy(mechanism).value)
    if share == 0.0:
        return 0.0
    log_size = math.log(len(mechanism_array(mechanism)))
    mixing = float(entr(share) + entr(1.0 - share))
    rounding = 16 * 2.0**-52 * (bound + log_size + 1.0)
    return max(0.0, (bound - mixing - (1.0 - share) * log_size - rounding) / share)


@host_only
def compose(*mechanisms: Sequence[ArrayLike]) -> np.ndarray:
    """M(r_1, r_2, ... | x) = prod_k M_k(r_k|x): independent runs on one database, (x, r_1 r_2 ...) row-major.

    The eps of differential privacy, of k dependent records and of all priors ADD: that of the composition is at
    most the sum (each is a maximum of log-ratios of M). Under one fixed prior and for entropy-bounded adversaries
    they do not: with three fair independent bits x1^x2^x3 and x2^x3 are independent of every bit, together they
    determine x1 (ln 2). What adds is the value of the second mechanism under the knowledge that the first leaves,

        I_inf(X_i; Y_1 Y_2) <= I_inf(X_i; Y_1) + max over y_1 of I_inf(X_i; Y_2 | Y_1 = y_1),

    and `entropy_after` bounds the entropy of that knowledge. Wu, Xia and He, Lemma 2 and section 6.

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
