"""The counting query: how many records have a property; noise on each record, or on the count.

`counts` maps sequences to counts; a channel K over counts, (n + 1, r), becomes the mechanism `K[counts(...)]`
over sequences. The output of K depends on a sequence through its count alone (Calmon and Fawaz 2012,
Corollary 1), so sizes of thousands of records stay small.
"""

from collections.abc import Sequence
from functools import reduce

import numpy as np
from scipy.special import expit, gammaln, xlog1py, xlogy

from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.validation import host_only, index
from jaxpriv.models.baselines import geometric, randomized_response
from jaxpriv.models.databases.universe import FEWER, privacy_parameter, sequences, universe_sizes


def counts(sizes: int | Sequence[int], symbol: int = 1) -> np.ndarray:
    """The number of records equal to `symbol` in every sequence: integers (N,).

    Raises `InputError` if some universe lacks the symbol.
    """
    sizes = universe_sizes(sizes)
    symbol = index(symbol, "symbol", low=0, high=min(sizes) - 1)
    return (sequences(sizes) == symbol).sum(axis=1)


@host_only
def perturbed_records(sizes: int | Sequence[int], eps: float) -> np.ndarray:
    """Input perturbation: every record through randomised response on its own, (N, N) over sequences.

        M(r|x) = prod_i e^{eps [r_i = x_i]}/(e^eps + |X_i| - 1)

    eps-differentially private for one record and exactly k eps for k of them (records that differ in every
    place). Raises `InputError` for eps <= 0 or not finite.
    """
    sizes = universe_sizes(sizes)
    eps = privacy_parameter(eps)
    need_memory(8.0 * float(np.prod([float(size) for size in sizes])) ** 2, "a channel of sequences", FEWER)
    return reduce(np.kron, [randomized_response(m, eps) for m in sizes])


def log_binomial(trials: int, probability: float) -> np.ndarray:
    """ln P(B = b), b = 0 .. trials, of a binomial variable; -inf where it cannot be."""
    need_memory(64.0 * trials, "a distribution of counts", "use fewer records")
    b = np.arange(trials + 1)
    choose = gammaln(trials + 1) - gammaln(b + 1) - gammaln(trials - b + 1)
    return choose + xlogy(b, probability) + xlog1py(trials - b, -probability)


@host_only
def perturbed_count(records: int, eps: float) -> np.ndarray:
    """Input perturbation seen through the count: P(noisy count | count), (n + 1, n + 1), n = `records`.

    Every binary record is kept with probability e^eps/(1 + e^eps), flipped otherwise, and the count of the
    results is released: Bin(c, keep) + Bin(n - c, flip). The channel of counts of `perturbed_records((2,)*n, eps)`.
    O(n^3) work. At most eps-differentially private: releasing the sum is post-processing.
    """
    records = index(records, "records", low=1)
    flip = float(expit(-privacy_parameter(eps)))
    return count_channel(records, flip, flip)


def count_channel(records: int, lost: float, gained: float) -> np.ndarray:
    """P(count after | count before), (n + 1, n + 1), of records that become 0 or 1 with these probabilities."""
    need_memory(16.0 * (records + 1) ** 2, "a channel of counts", "use fewer records")
    # Kept records are those not lost, read backwards: 1 - lost would forget a probability below 1e-16.
    rows = [
        np.convolve(np.exp(log_binomial(c, lost))[::-1], np.exp(log_binomial(records - c, gained)))
        for c in range(records + 1)
    ]
    return np.array(rows) / np.sum(rows, axis=1, keepdims=True)


@host_only
def geometric_count(records: int, eps: float) -> np.ndarray:
    """Output perturbation: the count plus two-sided geometric noise, clamped to 0 .. n: (n + 1, n + 1).

        P(N = k) = (1 - a)/(1 + a) a^|k|,  a = e^-eps;  the mass below 0 goes to 0, that above n to n.

    eps-differentially private. Clamping loses nothing: all results below 0 have the same posterior as the
    result 0. Laplace noise of scale 1/eps has the same ratio for neighbouring counts at every result.
    """
    records = index(records, "records", low=1)
    return geometric(records + 1, privacy_parameter(eps))
