"""What the measures of this package return: a number in nats beside the place where it is attained."""

from dataclasses import dataclass

import numpy as np

from jaxpriv.leakage import Witness


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
