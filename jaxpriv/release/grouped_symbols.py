"""The watchdog for a population: symbols in groups whose lift the other records certify.

One half of the records sorts the useful symbols by their shrunk lift and deals them out, forwards and backwards in
turn, into 2, 3, 4, 6, ... groups, so that every group mixes symbols that raise and that lower the same private
symbol. What is released of a record is its group. The other half bounds the lift of the groups by exact binomial
limits, from the coarsest grouping on; the last one before the first that is above the limit is taken. The sequence is
fixed before these records are looked at, so there is no correction for its length (fixed-sequence testing).
"""

import math
from dataclasses import dataclass

import numpy as np

from jaxpriv.data.datasets._layout import columns_added
from jaxpriv.statistics.audit.binomial import lift

# Records of the prior distribution that are added to each symbol before it is sorted.
_SHRINKAGE = 5.0


@dataclass(frozen=True, eq=False)
class Grouping:
    """The group of every symbol (X,), numbered from 0, and the bound on the lift of the population.

    `rung` of `rungs` groupings; 0: none was certified, and all symbols are one group, which discloses nothing. `beyond`
    is the bound of the first grouping that is above the limit; infinite where there is none.
    """

    group: np.ndarray
    upper: float
    rung: int
    rungs: int
    beyond: float


def certified_groups(design: np.ndarray, held_out: np.ndarray, limit: float, beta: float) -> Grouping:
    """The last grouping whose lift is at most `limit` in the population, with probability 1 - beta.

    Args:
        design: counts (S, X) that sort the symbols, each with a record.
        held_out: counts (S, X) of other records.
        limit: the largest |ln P(s|y)/P(s)|, nats.
        beta: the probability that the lift of the grouping is above its bound.
    """
    order = _order(design)
    symbols = design.shape[1]
    sizes = _sizes(symbols)
    best = Grouping(np.zeros(symbols, dtype=np.int64), 0.0, 0, len(sizes), math.inf)
    for rung, size in enumerate(sizes, start=1):
        group = _dealt(order, size)
        upper = lift(columns_added(held_out, group), beta)
        if not (upper <= limit and _plain_lift(columns_added(design, group)) <= limit):
            return Grouping(best.group, best.upper, best.rung, len(sizes), upper)
        best = Grouping(group, upper, rung, len(sizes), math.inf)
    return best


def _order(design: np.ndarray) -> np.ndarray:
    """The symbols by their shrunk lift: of two private symbols its logarithm, of more its main direction."""
    prior = design.sum(axis=1, keepdims=True) / design.sum()
    posterior = (design + _SHRINKAGE * prior) / (design.sum(axis=0) + _SHRINKAGE)
    lifts = np.log(np.maximum(posterior, 1e-300) / np.maximum(prior, 1e-300))
    if len(design) == 2:
        return np.argsort(lifts[0], kind="stable")
    centred = lifts - lifts.mean(axis=1, keepdims=True)
    return np.argsort(np.linalg.svd(centred, full_matrices=False)[2][0], kind="stable")


def _sizes(symbols: int) -> list[int]:
    """2, 3, 4, 6, 8, 12, ... and at the end every symbol by itself."""
    sizes = [size for power in range(1, 40) for size in (2**power, 3 * 2 ** (power - 1)) if size < symbols]
    return [*sizes, symbols] if symbols > 1 else []


def _dealt(order: np.ndarray, size: int) -> np.ndarray:
    """The groups of the symbols, dealt in the order given: 0 ... size-1, size-1 ... 0, 0 ..."""
    turn = np.arange(len(order)) % (2 * size)
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.where(turn < size, turn, 2 * size - 1 - turn)
    return group


def _plain_lift(counts: np.ndarray) -> float:
    """The lift of the records themselves, which the design states as well."""
    seen = counts[counts.sum(axis=1) > 0]
    prior = seen.sum(axis=1, keepdims=True) / seen.sum()
    with np.errstate(divide="ignore"):
        return float(np.abs(np.log(seen / seen.sum(axis=0) / prior)).max())
