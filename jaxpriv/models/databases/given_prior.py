"""What an adversary with a given prior P over the sequences learns about single records and groups of them.

    P(r|x_A) = sum over the other records of P(x_rest | x_A) M(r|x),   P(r) = sum_x P(x) M(r|x)

for a group A of records (`records`), a single one being a group of one. Symbols and outputs without mass are outside
every maximum. In nats; inf is an answer (a two-sided or inferential ratio with a zero).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.validation import flag, host_only
from jaxpriv.models.databases.differential import RecordPrivacy, log_lift, worst_record
from jaxpriv.models.databases.universe import (
    over_universe,
    prior_over,
    record_group,
    universe_sizes,
)


@host_only
def record_joint(
    mechanism: ArrayLike, prior: ArrayLike, sizes: int | Sequence[int], records: int | Sequence[int]
) -> np.ndarray:
    """P(X_A = x_A, Y = r), (prod of the sizes of A, r), symbols of A in row-major order of `records`.

    `records` is one record or several. It is a joint distribution as `jaxpriv.leakage` takes it, with the identity
    as mechanism: every measure there is a measure for a group of records.
    """
    sizes = universe_sizes(sizes)
    array = over_universe(mechanism, sizes)
    group = record_group(records, len(sizes))
    joint = (prior_over(prior, sizes)[:, None] * array).reshape(*sizes, -1)
    summed = joint.sum(axis=tuple(i for i in range(len(sizes)) if i not in group))
    remaining = sorted(group)
    return summed.transpose(*[remaining.index(i) for i in group], len(group)).reshape(-1, array.shape[1])


@host_only
def group_information(
    mechanism: ArrayLike, prior: ArrayLike, sizes: int | Sequence[int], records: int | Sequence[int]
) -> float:
    """I_inf(X_A;Y) = max over x_A, r of ln P(r|x_A)/P(r): group information privacy, one-sided.

    Never below that of a part of the group. `mechanism` (N, r), `prior` (N,), `records` the group A.

    Wu, Xia and He, Definition 3 and section 5.
    """
    return max(float(log_lift(record_joint(mechanism, prior, sizes, records)).max()), 0.0)


@host_only
def information_privacy(
    mechanism: ArrayLike, prior: ArrayLike, sizes: int | Sequence[int], *, two_sided: bool = False
) -> RecordPrivacy:
    """eps_i = max over x_i, r of ln P(r|x_i)/P(r) for every record i; `two_sided` takes its absolute value.

    One-sided it is Wu's information privacy, `per_record` his personalised eps_i, at most ln(1/min P(x_i)).
    Two-sided it is Calmon's and Fawaz's Definition 6 for single records; inf if an output excludes a symbol.

    `mechanism` (N, r) over the sequences of `sizes`, `prior` (N,). Raises `InputError` naming argument and position.

    Wu, Xia and He, Definitions 4 and 5.
    """
    sizes, two_sided = universe_sizes(sizes), flag(two_sided, "two_sided")
    per_record = np.empty(len(sizes))
    for i in range(len(sizes)):
        lift = log_lift(record_joint(mechanism, prior, sizes, i))
        per_record[i] = np.abs(lift).max() if two_sided else lift.max()
    return worst_record(per_record)


@dataclass(frozen=True)
class Ladder:
    """Four measures for each record, every one at least the next (Wu, Xia and He, Proposition 2). In nats.

    Attributes:
        inferential: max over r, x_i, x_i' of posterior odds over prior odds of x_i and x_i', eq. (13).
        information: max over r, x_i of ln P(r|x_i)/P(r), one-sided.
        relative_entropy: max over r of D(P(X_i|r) || P(X_i)).
        mutual_information: I(X_i;Y).
    """

    inferential: RecordPrivacy
    information: RecordPrivacy
    relative_entropy: RecordPrivacy
    mutual_information: RecordPrivacy


@host_only
def ladder(mechanism: ArrayLike, prior: ArrayLike, sizes: int | Sequence[int]) -> Ladder:
    """All measures of Proposition 2 under one prior; see `Ladder`. `mechanism` (N, r), `prior` (N,)."""
    sizes = universe_sizes(sizes)
    rows = []
    for i in range(len(sizes)):
        joint = record_joint(mechanism, prior, sizes, i)
        lift = log_lift(joint)
        masses = joint.sum(axis=0)[joint.sum(axis=0) > 0]
        posterior = joint[joint.sum(axis=1) > 0][:, joint.sum(axis=0) > 0] / masses
        divergence = np.where(posterior > 0, posterior * np.where(posterior > 0, lift, 0.0), 0.0).sum(axis=0)
        odds = lift.max(axis=0) - lift.min(axis=0)
        rows.append([odds.max(), lift.max(), divergence.max(), masses @ divergence])
    return Ladder(*(worst_record(np.array(column)) for column in zip(*rows, strict=True)))
