"""Adversaries of bounded knowledge: the worst prior P over the sequences with entropy H(P) >= b.

With c = P(x_i = a) the prior and z = P(x_i = a|r) the posterior probability of a symbol the gain is ln z/c.
The largest gain at FIXED z is z/c(z) with c(z) a convex program (`least_prior`), whose multipliers at one z
prove a bound for a whole cell [z1, z2], exact to second order in its width; posteriors near 0, where c may be
1e-6 and less, have a bound of their own. Branch and bound over z, for all records, symbols and outputs together, does
the rest: nothing is assumed about the number of local maxima.
"""

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from jaxpriv._runtime.validation import host_only, index, scalar
from jaxpriv.models.databases.least_prior import UNIFORM, LeastPrior, Multipliers, entropy_bound, with_entropy
from jaxpriv.models.databases.universe import over_universe, record_group, universe_sizes

# Of a symbol that the adversary may rule out: ln 1e12 is shown where the supremum is infinite.
_RULED_OUT = 1e-12
# Posteriors below this are covered by a bound and not searched.
_SMALLEST = 1e-100


@dataclass(frozen=True)
class EntropyBoundedPrivacy:
    """Two bounds on sup { ln P(r|x_i)/P(r) : H(P) >= b, x_i, r }, in nats.

    Attributes:
        lower: attained, the value of `prior`.
        upper: proved, no prior with H(P) >= b exceeds it.
        prior: P over the sequences, (N,), H(P) >= b.
        record, symbol, output: i, x_i and r of `lower`.
        steps: convex programs solved.
    """

    lower: float
    upper: float
    prior: np.ndarray
    record: int
    symbol: int
    output: int
    steps: int

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower


@host_only
def entropy_bounded_privacy(
    mechanism: ArrayLike,
    sizes: int | Sequence[int],
    entropy: float,
    *,
    records: Sequence[int] | None = None,
    tol: float = 1e-4,
    max_steps: int = 5_000,
) -> EntropyBoundedPrivacy:
    """The eps of information privacy with respect to { P : H(P) >= b }, b = `entropy` in nats: bounds on it.

        sup over i, x_i, r and P with H(P) >= b of ln P(r|x_i)/P(r)

    b = 0 is every prior (`all_priors_privacy`), b = ln N the uniform prior alone. The supremum is a limit in
    general, so `lower`, the value of an explicit prior, may stay below it even where `upper` is exact. `upper`
    is inf if the adversary may rule out everything but a: b <= ln #{ x : x_i != a, M(r|x) = 0 }. The search
    stops at upper - lower <= `tol` or after `max_steps` convex programs; both bounds hold in any case.

    `mechanism` (N, r) over the sequences of `sizes`; `records` restricts i to some records (all by default), for
    personalised values. One convex program takes some milliseconds and depends on the distinct values of M(r|x) only.

    Composition does not add (`compose`). Raises `InputError` for b < 0 or above ln N, tol <= 0, and arguments
    that do not fit.

    Wu, Xia and He, Assumption 1 and Definition 4 with respect to (11).
    """
    sizes = universe_sizes(sizes)
    array = over_universe(mechanism, sizes)
    total = array.shape[0]
    bound = entropy_bound(entropy, total)
    tol = float(scalar(tol, "tol", low=0.0, open_low=True))
    max_steps = index(max_steps, "max_steps", low=1)
    chosen = record_group(range(len(sizes)) if records is None else records, len(sizes))
    best = _Best(total, chosen[0])
    cases = list({case.key: case for case in _cases(array, sizes, chosen, bound)}.values())
    for case in cases:
        best.offer(case, best.uniform)
    upper, steps = best.value, 0
    if bound < math.log(total) * (1.0 - UNIFORM):
        upper, steps = _branch_and_bound(cases, best, tol, max_steps)
    return EntropyBoundedPrivacy(best.value, max(upper, best.value), best.prior, *best.place, steps)


def _cases(array: np.ndarray, sizes: tuple[int, ...], records: tuple[int, ...], bound: float):
    """Every (i, a, r) that can occur: universes of more than one symbol, outputs that do not exclude a."""
    symbols = np.unravel_index(np.arange(array.shape[0]), sizes)
    for i, output in itertools.product(records, range(array.shape[1])):
        for symbol in range(sizes[i]) if sizes[i] > 1 else ():
            group = symbols[i] == symbol
            if array[group, output].max() > 0:
                yield LeastPrior(array[:, output], group, bound, (i, symbol, output))


class _Best:
    """The best explicit prior so far. It starts from a prior without information."""

    def __init__(self, total: int, record: int):
        self.uniform = np.full(total, 1.0 / total)
        self.value, self.prior, self.place = 0.0, self.uniform, (record, 0, 0)

    def offer(self, case: LeastPrior, prior: np.ndarray) -> None:
        """Take `prior`, mixed with as much of the uniform one as its entropy needs, if it is better."""
        mixed = with_entropy(prior, case.bound)
        value = case.log_ratio(mixed)
        if value > self.value:
            self.value, self.prior, self.place = value, mixed, case.place


def _branch_and_bound(cases: list[LeastPrior], best: _Best, tol: float, max_steps: int) -> tuple[float, int]:
    """(proved upper bound, programs solved). A cell is a range of posteriors with multipliers for its ends."""
    for case in cases:
        if case.unbounded:
            best.offer(case, case.ruling_out(_RULED_OUT))
    if any(case.unbounded for case in cases):
        return math.inf, 0
    number = itertools.count()  # ends ties in the heap before cases are compared
    # minus the bound, number, case, low, high, the multipliers of the cell before
    cells: list[tuple[float, int, LeastPrior, float, float, tuple[Multipliers, ...]]] = []

    def push(case: LeastPrior, low: float, high: float, earlier: tuple[Multipliers, ...], cap: float) -> None:
        bounds = [case.log_ratio_bound(low, high, multipliers) for multipliers in earlier]
        if low == 0:
            bounds.append(case.small_posterior_bound(high, best.value))
        heapq.heappush(cells, (-min([cap, *bounds]), next(number), case, low, high, earlier))

    for case in cases:
        push(case, 0.0, 1.0, (), case.cap)
    for step in range(max_steps):
        if not cells or -cells[0][0] <= best.value + tol:
            return (-cells[0][0] if cells else best.value), step
        bound, _, case, low, high, earlier = heapq.heappop(cells)
        middle = _middle(low, high)
        if not max(low, _SMALLEST) < middle < high:
            # Nothing left to split: the cell's bound is the answer.
            return -bound, step
        multipliers, prior = case.solve(middle)
        best.offer(case, prior)
        push(case, low, middle, (*earlier[-1:], multipliers), -bound)
        push(case, middle, high, (*earlier[-1:], multipliers), -bound)
    return -cells[0][0], max_steps


def _middle(low: float, high: float) -> float:
    """Where to split a range of posteriors: half-way in log-odds, a tenth of the way to an end at 0 or 1."""
    if low == 0:
        return 0.5 if high == 1 else 0.1 * high
    if high == 1:
        return low + 0.9 * (1.0 - low)
    return float(expit((logit(low) + logit(high)) / 2.0))
