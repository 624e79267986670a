"""Guarantees that need no prior: differential privacy, k dependent records, every prior.

A mechanism is M[x, r] = M(r|x), (N, r). All values are max ln M(r|x)/M(r|x') over some pairs x, x', in nats:
inf where an output distinguishes a pair for certain; pairs that both exclude r are skipped.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.validation import host_only, index, mechanism_array, scalar
from jaxpriv.leakage import Witness
from jaxpriv.models.databases.neighbours import checked_neighbours
from jaxpriv.models.databases.universe import over_universe, prior_over, universe_sizes

# What the measures of this package return: a number in nats beside the place where it is attained.


@dataclass(frozen=True)
class PairPrivacy:
    """max of ln M(r|x)/M(r|x') in nats; `witness` holds r, x (raised) and x' (lowered), None without any pair."""

    value: float
    witness: Witness | None


@dataclass(frozen=True)
class RecordPrivacy:
    """Nats for each record, and their maximum.

    Attributes:
        value: the largest entry of `per_record`.
        per_record: the personalised eps_i, (n,).
        record: a record that attains `value`.
    """

    value: float
    per_record: np.ndarray
    record: int


def worst_record(per_record: np.ndarray) -> RecordPrivacy:
    """The maximum over records, never below 0 (what rounding leaves there is cut off)."""
    values = np.maximum(per_record, 0.0)
    record = int(np.argmax(values))
    return RecordPrivacy(float(values[record]), values, record)


def log_mechanism(mechanism: np.ndarray) -> np.ndarray:
    """ln M, -inf at zeros."""
    with np.errstate(divide="ignore"):
        return np.log(mechanism)


def _excess(raised: np.ndarray, lowered: np.ndarray) -> np.ndarray:
    """raised - lowered for logarithms; -inf where `raised` is -inf: M(r|x) = 0 limits nothing."""
    with np.errstate(invalid="ignore"):
        return np.where(raised == -np.inf, -np.inf, raised - lowered)


@host_only
def differential_privacy(mechanism: ArrayLike, neighbours: ArrayLike) -> PairPrivacy:
    """The eps of differential privacy: max over r and x ~ x' of ln M(r|x)/M(r|x').

    `mechanism` (x, r), `neighbours` bool (x, x') asking for M(r|x) <= e^eps M(r|x'); it need not be
    symmetric. O(x^2) work and memory for each output. 0 and no witness for a relation without pairs. The same
    number as `jaxpriv.leakage.ldp_of_channel(mechanism, neighbours)`, computed in logarithms on the host.

    Raises `InputError` for a mechanism or relation that is not one, naming the position.

    Dwork 2006; Calmon and Fawaz 2012, Definition 5; Wu, Xia and He, Definition 2.
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


def log_lift(joint: np.ndarray) -> np.ndarray:
    """ln P(r|x_A)/P(r) over the symbols and outputs with mass."""
    joint = joint[joint.sum(axis=1) > 0][:, joint.sum(axis=0) > 0]
    channel = joint / joint.sum(axis=1, keepdims=True)
    return log_mechanism(channel) - np.log(joint.sum(axis=0))


@host_only
def all_priors_privacy(mechanism: ArrayLike) -> PairPrivacy:
    """The eps of information privacy under EVERY prior: max over x, x', r of ln M(r|x)/M(r|x').

    Three conditions hold for the same eps (Wu, Xia and He, Proposition 4): ln P(r|x_i)/P(r) <= eps for every
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
    places = np.arange(logs.shape[axis]).reshape([-1 if a == axis else 1 for a in range(logs.ndim)])
    return np.where(places == logs.argmin(axis=axis, keepdims=True), second, first)


@host_only
def dependent_records_privacy(
    mechanism: ArrayLike, sizes: int | Sequence[int], dependent: int = 1, extent: float = math.inf
) -> RecordPrivacy:
    """The eps of information privacy under every prior with at most k = `dependent` dependent records.

        eps_i = max over r and x, x' with x_i != x'_i, ||x - x'||_0 <= k of ln M(r|x)/M(r|x')

    The priors are P = P_B1 x P_B2 x ... over a partition of the records into blocks of at most k (Wu, Xia and
    He, Theorem 1): k = 1 are the product priors, and the value is the eps of differential privacy with
    replacement; k = n is every prior, the value of `all_priors_privacy`. `per_record` holds the supremum of
    ln P(r|x_i)/P(r) over x_i, r and those priors for each record: personalised differential privacy at k = 1.
    A universe of one symbol has nothing to disclose: 0.

    With `extent` = d only those priors count whose `dependence_extent` is at most d, and `per_record` is an upper
    bound, min(eps_i, e_i + d), e_i the value at k = 1. For P(x_rest|x_i) <= e^d P(x_rest), and M(r|x) <= e^e_i M(r|x')
    for sequences that differ in record i alone, so that

        P(r|x_i) <= e^d sum_rest P(x_rest) M(r|x_i, x_rest) <= e^(d + e_i) P(r).

    `mechanism` (N, r) over the sequences of `sizes`. O(k n N r) work: minima over Hamming balls are taken axis by
    axis, no pair of sequences is formed. Raises `InputError` for sizes that do not fit, k outside 1 .. n and d < 0.
    """
    extent = scalar(extent, "extent", low=0.0, infinite=True)
    if extent < math.inf:
        plain = dependent_records_privacy(mechanism, sizes).per_record + extent
        return worst_record(np.minimum(plain, dependent_records_privacy(mechanism, sizes, dependent).per_record))
    sizes = universe_sizes(sizes)
    array = over_universe(mechanism, sizes)
    dependent = index(dependent, "dependent", low=1, high=len(sizes))
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


@host_only
def dependence_extent(prior: ArrayLike, sizes: int | Sequence[int]) -> RecordPrivacy:
    """I_inf(X_i; X_rest) = max over x of ln P(x)/(P(x_i) P(x_rest)) for every record i; 0 for independent records.

    Wu, Xia and He, section 4, name a parameter for the extent of dependence and give no formula; this one adds to the
    eps of differential privacy (`dependent_records_privacy`). `prior` (N,) over the sequences of `sizes`.
    """
    sizes = universe_sizes(sizes)
    joint = prior_over(prior, sizes).reshape(sizes)
    tables = [np.moveaxis(joint, i, 0).reshape(size, -1) for i, size in enumerate(sizes)]
    return worst_record(np.array([log_lift(table).max() for table in tables]))


@host_only
def group_privacy_bound(eps: float, records: int) -> float:
    """k eps: what eps-differential privacy guarantees a group of k = `records` (Wu, Xia and He, Lemma 1).

    An upper bound on `dependent_records_privacy(..., dependent=k).value`, which is the exact value.
    """
    return float(scalar(eps, "eps", low=0.0, infinite=True)) * index(records, "records", low=1)


@host_only
def information_bound(eps: float, records: int) -> float:
    """An upper bound on I(S;U) in nats of any eps-differentially private U, whatever the prior of the n = `records`.

        k - 1 - ln k <= n eps,     k = E/(1 - e^-E),   E = n eps = `group_privacy_bound(eps, n)`

    By group privacy the rows of the mechanism are within a factor e^E. D(P(S|u) || P(S)), convex, is largest where
    M(u|.) takes two values in this ratio, the larger on a set of probability a: it is then k (1 - 1/z) - ln z with
    z = 1 + (e^E - 1) a, at most the value at z = k. So I(S;U) <= O(eps n), here about (n eps)^2/8 for small
    and n eps - 1 - ln(n eps) for large n eps.

    Calmon and Fawaz 2012, end of section V, after McGregor et al. 2011, Proposition 4.3.
    """
    size = group_privacy_bound(eps, records)
    if size < 1e-3:  # the series of k - 1 - ln k, whose next term is below 1e-8 of it: nothing cancels
        return size**2 / 8.0
    k = size / -math.expm1(-size)
    return k - 1.0 - math.log(k) if k < math.inf else math.inf
