"""Guarantees that need no prior: differential privacy, k dependent records, every prior.

A mechanism is M[x, r] = M(r|x), (N, r). All values are max ln M(r|x)/M(r|x') over some pairs x, x', in nats:
inf where an output tells a pair apart for certain; pairs that both exclude r are skipped.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._validation import mechanism_array, scalar
from jaxpriv.databases._checks import whole
from jaxpriv.databases._types import PairPrivacy, RecordPrivacy, worst_record
from jaxpriv.databases.neighbours import checked_neighbours
from jaxpriv.databases.universe import over_universe, universe_sizes
from jaxpriv.leakage import Witness


def log_mechanism(mechanism: np.ndarray) -> np.ndarray:
    """ln M, -inf at zeros."""
    with np.errstate(divide="ignore"):
        return np.log(mechanism)


def _excess(raised: np.ndarray, lowered: np.ndarray) -> np.ndarray:
    """raised - lowered for logarithms; -inf where `raised` is -inf: M(r|x) = 0 asks for nothing."""
    with np.errstate(invalid="ignore"):
        return np.where(raised == -np.inf, -np.inf, raised - lowered)


def differential_privacy(mechanism: ArrayLike, neighbours: ArrayLike) -> PairPrivacy:
    """The eps of differential privacy: max over r and x ~ x' of ln M(r|x)/M(r|x').

    `mechanism` (x, r), `neighbours` bool (x, x') asking for M(r|x) <= e^eps M(r|x'); it need not be
    symmetric. O(x^2) work and memory for each output. 0 and no witness for a relation without pairs. The same
    number as `jaxpriv.leakage.ldp_of_channel(mechanism, neighbours)`, computed in logarithms on the host.

    Raises `InputError` for a mechanism or relation that is not one, naming the position.

    Dwork 2006; Calmon and Fawaz 2012, Definition 5; Wu, Zhou and Xia, Definition 2.
    """
    array = mechanism_array(mechanism)
    relation = checked_neighbours(neighbours, size=array.shape[0])
    relation = relation & ~np.eye(len(relation), dtype=bool)
    logs = log_mechanism(array)
    best, witness = -np.inf, None
    for output in range(array.shape[1]):
        column = logs[:, output]
        excess = np.where(relation, _excess(column[:, None], column[None, :]), -np.inf)
        raised, lowered = np.unravel_index(np.argmax(excess), excess.shape)
        if excess[raised, lowered] > best:
            best, witness = float(excess[raised, lowered]), Witness(output, int(raised), int(lowered))
    return PairPrivacy(max(best, 0.0), witness)


def all_priors_privacy(mechanism: ArrayLike) -> PairPrivacy:
    """The eps of information privacy under EVERY prior: max over x, x', r of ln M(r|x)/M(r|x').

    Three conditions hold for the same eps (Wu, Zhou and Xia, Proposition 4): ln P(r|x_i)/P(r) <= eps for every
    prior P over the sequences, record i, symbol x_i and output r; I_inf(X;Y) <= eps for every prior; and this
    maximum. The first two are suprema, approached where P(x') -> 1 and P(x) -> 0, and not attained.

    `mechanism` (x, r) over all sequences; O(x r) work. inf if an output excludes a sequence and not another.
    """
    logs = log_mechanism(mechanism_array(mechanism))
    excess = _excess(logs.max(axis=0), logs.min(axis=0))
    output = int(np.argmax(excess))
    witness = Witness(output, int(np.argmax(logs[:, output])), int(np.argmin(logs[:, output])))
    return PairPrivacy(max(float(excess[output]), 0.0), witness)


def _lowest_elsewhere(logs: np.ndarray, axis: int) -> np.ndarray:
    """Minimum along `axis` over all OTHER places of it; inf where there is no other place."""
    if logs.shape[axis] == 1:
        return np.full_like(logs, np.inf)
    first, second = np.split(np.partition(logs, 1, axis=axis).take([0, 1], axis=axis), 2, axis=axis)
    own = np.arange(logs.shape[axis]).reshape([-1 if a == axis else 1 for a in range(logs.ndim)])
    return np.where(own == logs.argmin(axis=axis, keepdims=True), second, first)


def dependent_records_privacy(mechanism: ArrayLike, sizes: int | Sequence[int], dependent: int = 1) -> RecordPrivacy:
    """The eps of information privacy under every prior with at most k = `dependent` dependent records.

        eps_i = max over r and x, x' with x_i != x'_i, ||x - x'||_0 <= k of ln M(r|x)/M(r|x')

    The priors are P = P_B1 x P_B2 x ... over a partition of the records into blocks of at most k (Wu, Zhou and
    Xia, Theorem 1): k = 1 are the product priors, and the value is the eps of differential privacy with
    replacement; k = n is every prior, the value of `all_priors_privacy`. `per_record` holds the supremum of
    ln P(r|x_i)/P(r) over x_i, r and those priors for each record: personalised differential privacy at k = 1.
    A universe of one symbol has nothing to tell: 0.

    `mechanism` (N, r) over the sequences of `sizes`. O(k n N r) work: minima over Hamming balls are taken axis by
    axis, no pair of sequences is formed. Raises `InputError` for sizes that do not fit and k outside 1 .. n.
    """
    sizes = universe_sizes(sizes)
    array = over_universe(mechanism, sizes)
    dependent = whole(dependent, "dependent", low=1, high=len(sizes))
    logs = log_mechanism(array).reshape(*sizes, -1)
    per_record = np.empty(len(sizes))
    for i in range(len(sizes)):
        others = [axis for axis in range(len(sizes)) if axis != i]
        ball = logs
        for _ in range(dependent - 1):
            # One more record may be replaced; replacing the same one twice gains nothing and harms nothing.
            ball = np.minimum.reduce(
                [np.broadcast_to(ball.min(axis=axis, keepdims=True), ball.shape) for axis in others]
            )
        per_record[i] = _excess(logs, _lowest_elsewhere(ball, i)).max()
    return worst_record(per_record)


def group_privacy_bound(eps: float, records: int) -> float:
    """k eps: what eps-differential privacy promises a group of k = `records` (Wu, Zhou and Xia, Lemma 1).

    An upper bound on `dependent_records_privacy(..., dependent=k).value`, which is the exact value.
    """
    return float(scalar(eps, "eps", low=0.0, infinite=True)) * whole(records, "records", low=1)
