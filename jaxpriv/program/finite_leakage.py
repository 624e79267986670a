"""Forbidden pairs, and measures that are infinite where an output excludes a private symbol.

Such a measure is finite exactly if it is for every output by itself. A useful symbol that tells of a private one can
only be released as an output that every other private symbol which that one needs may be released as, too. Where all
allowed pairs are used and one of these is excluded, such pairs are of no use, and no number of a dual object says so:
what an adversary learns from them grows without end, but as a logarithm. They are left out of the support. Without
them others may be of no use, and so on.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from jaxpriv._runtime.types import Arr
from jaxpriv.leakage import AbstractLeakage, exact_values


def pairs_of_finite_leakage(joints: Arr, measures: Sequence[AbstractLeakage], allowed: np.ndarray) -> np.ndarray:
    """(X, Y) bool: the pairs, of those that are `allowed`, that a mechanism under which all measures are finite may
    use; all that are allowed where a symbol has none (no mechanism is finite then).
    """
    pairs = allowed
    while pairs.any(axis=1).all():
        mechanism = pairs / pairs.sum(axis=1, keepdims=True)
        if not any(infinite(joints, measures, mechanism)):
            return pairs
        fewer = pairs & ~useless(joints, measures, mechanism)
        if (fewer == pairs).all():
            return pairs
        pairs = fewer
    return allowed


def infinite(
    joints: Arr, measures: Sequence[AbstractLeakage], mechanism: np.ndarray
) -> Iterator[tuple[np.ndarray, AbstractLeakage]]:
    """The joints and measures whose value is infinite."""
    for joint in np.asarray(joints):
        for measure, value in zip(measures, exact_values(tuple(measures), joint, mechanism), strict=True):
            if math.isinf(value):
                yield joint, measure


def useless(joints: Arr, measures: Sequence[AbstractLeakage], mechanism: np.ndarray) -> np.ndarray:
    """(X, Y) bool: the pairs that no mechanism of finite leakage uses, if no pairs may be used that the mechanism does
    not use: of every output the symbols that tell of a private symbol which needs an excluded one, and one that is
    alone. Of several others the value may be infinite at the weights of this column alone.
    """
    result = np.zeros(mechanism.shape, dtype=bool)
    for y, column in enumerate(mechanism.T):
        # Half of the column, and the rest of the mass in equal parts in all others.
        half = 0.5 * column[:, None]
        rest = (1.0 - half) / max(len(mechanism.T) - 1, 1)
        for joint, measure in infinite(joints, measures, np.where(np.arange(len(mechanism.T)) == y, half, rest)):
            massed, present = joint.any(axis=1), joint[:, column > 0].any(axis=1)
            excluding = present & (measure.needed(len(joint)) & (massed & ~present)).any(axis=1)
            shown = (column > 0) & joint.any(axis=0)
            result[:, y] |= shown if shown.sum() == 1 else joint[excluding].any(axis=0)
    return result
