"""Input perturbation designed: the best mapping of every record where the count of the results is released.

n independent binary records with P(S_i = 1) = p, X their count, and every record through the same mapping

    P(U_i = 0|S_i = 1) = a,   P(U_i = 1|S_i = 0) = b,   U = sum_i U_i,   U|X=x ~ Bin(x, 1 - a) + Bin(n - x, b).

The least I(S;U) = I(X;U) with E|X - U| <= D is a search over (a, b), not convex. Two facts bound it on a box:

* For a + b <= 1 larger a and b are a post-processing of each record (the likelihood ratios of both results move towards
  1), hence of the count: I(X;U) is least at the upper corner; for a + b >= 1, where answers are reversed, at the lower
  one. On a + b = 1 it is 0.
* A record more that changes moves U by one: |dE|X - U|/da| <= n p and |dE|X - U|/db| <= n (1 - p).

A box whose corner of least information meets the budget is solved; one that cannot meet it is left out; others are
halved, that of the least bound first.
"""

import heapq
import itertools
from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from jaxpriv._runtime.validation import host_only, index, scalar
from jaxpriv.leakage.shannon import average_leakage
from jaxpriv.models.databases.counting import count_channel, log_binomial

# Of sums of n + 1 terms, relative to the least bound and to the budget.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class RecordMapping:
    """The best mapping that was found, and a bound for all of them.

    Attributes:
        mapping: P(u|s) of each record, (2, 2).
        channel: P(count of the results | count), (n + 1, n + 1).
        leakage: I(S;U) in nats, at most that of any mapping within the budget plus the gap.
        lower_bound: no mapping of single records within the budget leaks less.
        distortion: E|X - U|, within the budget.
        steps: mappings evaluated.
    """

    mapping: np.ndarray
    channel: np.ndarray
    leakage: float
    lower_bound: float
    distortion: float
    steps: int

    @property
    def gap(self) -> float:
        """leakage - lower_bound."""
        return self.leakage - self.lower_bound


@host_only
def record_mapping(
    records: int, probability: float, budget: float, *, tol: float = 1e-3, max_steps: int = 20_000
) -> RecordMapping:
    """min I(S;U) over mappings of single records with E|X - U| <= `budget`, X and U the counts before and after.

    `records` = n independent binary ones, each 1 with `probability`. The search ends at a gap of `tol` nats or after
    `max_steps` mappings, each O(n^3) work; `lower_bound` holds in any case. Raises `InputError` for n < 1, p outside
    [0, 1] and a budget below 0.

    Calmon and Fawaz 2012, Example 1 (ii); output perturbation, (i), is `jaxpriv.rate_distortion` of the count.
    """
    records = index(records, "records", low=1)
    probability = scalar(probability, "probability", low=0.0, high=1.0)
    budget = scalar(budget, "budget", low=0.0)
    tol = scalar(tol, "tol", low=0.0, open_low=True)
    max_steps = index(max_steps, "max_steps", low=1)
    prior = np.exp(log_binomial(records, probability))
    counts = np.arange(records + 1)
    slopes = records * np.array([probability, 1.0 - probability])
    best, steps, number = (float(entr(prior).sum()), np.zeros(2)), 0, itertools.count()
    boxes: list[tuple[float, int, np.ndarray, np.ndarray]] = [(0.0, next(number), np.zeros(2), np.ones(2))]
    while boxes and best[0] - boxes[0][0] > tol and steps < max_steps:
        _, _, low, high = heapq.heappop(boxes)
        side = int(np.argmax(slopes * (high - low)))
        middle = 0.5 * (low[side] + high[side])
        for first, last in ((low[side], middle), (middle, high[side])):
            below, above = low.copy(), high.copy()
            below[side], above[side] = first, last
            ends = below.sum(), above.sum()
            share = np.clip((1.0 - ends[0]) / (ends[1] - ends[0]), 0.0, 1.0)
            corner = below + share * (above - below)
            channel = count_channel(records, *corner)
            error = prior @ (channel * abs(counts[:, None] - counts)).sum(axis=1)
            reach = slopes @ np.maximum(above - corner, corner - below)
            steps += 1
            if error - reach > budget + _ROUNDING * records:
                continue
            leaked = average_leakage(np.diag(prior), channel)
            if error <= budget:
                best = min(best, (leaked, corner), key=lambda pair: pair[0])
            if error > budget or 0.0 < share < 1.0:
                heapq.heappush(boxes, (0.0 if 0.0 < share < 1.0 else leaked, next(number), below, above))
    leaked, (lost, gained) = best
    channel = count_channel(records, lost, gained)
    error = float(prior @ (channel * abs(counts[:, None] - counts)).sum(axis=1))
    mapping = np.array([[1.0 - gained, gained], [lost, 1.0 - lost]])
    lower = min([leaked, *(box[0] for box in boxes[:1])])
    return RecordMapping(mapping, channel, leaked, max(lower - _ROUNDING * (1.0 + lower), 0.0), error, steps)
