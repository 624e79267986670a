"""Independent records of which the adversary is uncertain about some: the worst prior, by listing the extreme ones.

For a record i and the others independent of it and of each other, P(r|x_i)/P(r) is a ratio of two functions that are
linear in the distribution of each other record, so its maximum over a convex set of them is at an extreme point. For a
binary record these are few: the point masses, and with H(P_j) >= h the two distributions with H(P_j) = h. In the
distribution of record i the ratio is largest where P(x_i) is least: the lower end of H(P_i) >= h, or P(x_i) -> 0.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.validation import host_only, index, scalar
from jaxpriv.errors import InputError
from jaxpriv.models.databases.differential import RecordPrivacy, log_mechanism, worst_record
from jaxpriv.models.databases.least_prior import least_share
from jaxpriv.models.databases.universe import over_universe, universe_sizes


@host_only
def uncertain_records_privacy(
    mechanism: ArrayLike, sizes: int | Sequence[int], uncertain: int, entropy: float
) -> RecordPrivacy:
    """The eps of information privacy where at least m = `uncertain` of the records have H(X_i) >= h = `entropy`.

        eps_i = sup of ln P(r|x_i)/P(r) over x_i, r and priors P = P_1 x .. x P_n with #{ j : H(P_j) >= h } >= m

    Exact, for binary records: m = 0 or h = 0 are all product priors, differential privacy; m = n and h = ln 2 the
    uniform prior. The number of uncertain records and the least of their entropies are two of the four parameters that
    Wu, Xia and He, section 4, name.

    `mechanism` (2^n, r) over the sequences of `sizes`; 4^n r numbers for each record. Raises `InputError` for universes
    of other than two symbols, m outside 0 .. n, and h below 0 or above ln 2.
    """
    sizes = universe_sizes(sizes)
    if set(sizes) != {2}:
        raise InputError("sizes must all be 2: extreme distributions are listed for binary records alone")
    count = len(sizes)
    array = over_universe(mechanism, sizes)
    uncertain = index(uncertain, "uncertain", low=0, high=count)
    bound = scalar(entropy, "entropy", low=0.0, high=float(np.log(2.0)))
    need_memory(32.0 * 4.0**count * array.shape[1], "the extreme priors", "use fewer records")
    least = least_share(0.0, 0.0, bound)[0] if bound > 0 else 0.0
    extreme = np.array([[1.0, 0.0], [0.0, 1.0], [least, 1.0 - least], [1.0 - least, least]])
    chosen = sum(np.ix_(*[[0, 0, 1, 1]] * (count - 1)), start=np.zeros((4,) * (count - 1)))
    per_record = np.empty(count)
    for i in range(count):
        seen = np.moveaxis(array.reshape(*sizes, -1), i, -2)  # of the others, this record, the output
        for axis in range(count - 1):
            seen = np.moveaxis(np.tensordot(extreme, seen, axes=(1, axis)), 0, axis)
        logs = log_mechanism(seen[chosen >= uncertain - 1])  # this record is uncertain as well
        mixed = np.logaddexp(np.log(least) + logs, np.log1p(-least) + logs[:, ::-1]) if least > 0 else logs[:, ::-1]
        certain = log_mechanism(seen[chosen >= uncertain])
        pairs = (logs, mixed), (certain, certain[:, ::-1])
        per_record[i] = max(
            (raised[raised > -np.inf] - lowered[raised > -np.inf]).max(initial=0.0) for raised, lowered in pairs
        )
    return worst_record(per_record)
