"""Adversaries who do not know too much: the worst prior P over the sequences with entropy H(P) >= b.

With c = P(x_i = a) the prior and z = P(x_i = a|r) the posterior probability of a symbol the gain is ln z/c.
The largest gain at FIXED z is z/c(z) with c(z) a convex program (`_least_prior`), whose multipliers at one z
prove a bound for a whole cell [z1, z2], exact to second order in its width; posteriors near 0, where c may be
1e-6 and less, have a bound of their own. Branch and bound over z, for all records, symbols and outputs together, does
the rest: nothing is assumed about the number of local maxima.
"""

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, expit, logit

from jaxpriv._validation import scalar
from jaxpriv.databases._checks import whole
from jaxpriv.databases._least_prior import LeastPrior, Multipliers
from jaxpriv.databases.universe import over_universe, universe_sizes
from jaxpriv.errors import InputError

# A bound b this close to ln N, relatively, is the rounded value of ln N: the uniform prior only.
_UNIFORM = 4 * float(np.finfo(float).eps)
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
    personalised values. One convex program takes some milliseconds and sees the distinct values of M(r|x) only.

    Composition does not add (`compose`). Raises `InputError` for b < 0 or above ln N, tol <= 0, and arguments
    that do not fit.

    Wu, Zhou and Xia, Assumption 1 and Definition 4 with respect to (11).
    """
    sizes = universe_sizes(sizes)
    array = over_universe(mechanism, sizes)
    total = array.shape[0]
    bound = float(scalar(entropy, "entropy", low=0.0))
    tol = float(scalar(tol, "tol", low=0.0, open_low=True))
    max_steps = whole(max_steps, "max_steps", low=1)
    if bound > math.log(total) * (1.0 + _UNIFORM):
        raise InputError(f"entropy is above ln {total}, the largest of a prior over {total} sequences")
    chosen = range(len(sizes)) if records is None else records
    chosen = [whole(i, f"records[{k}]", low=0, high=len(sizes) - 1) for k, i in enumerate(chosen)]
    if not chosen:
        raise InputError("records is empty; name at least one record")
    best = _Best(total, chosen[0])
    cases = list({case.key: case for case in _cases(array, sizes, chosen, bound)}.values())
    for case in cases:
        best.offer(case, best.uniform)
    upper, steps = best.value, 0
    if bound < math.log(total) * (1.0 - _UNIFORM):
        upper, steps = _branch_and_bound(cases, best, tol, max_steps)
    return EntropyBoundedPrivacy(best.value, max(upper, best.value), best.prior, *best.place, steps)


class _Case(LeastPrior):
    """The programs of one place (i, a, r)."""

    def __init__(self, column: np.ndarray, group: np.ndarray, entropy: float, place: tuple[int, int, int]):
        super().__init__(column, group, entropy)
        self.place = place


def _cases(array: np.ndarray, sizes: tuple[int, ...], records: list[int], bound: float):
    """Every (i, a, r) that can be told: universes of more than one symbol, outputs that do not exclude a."""
    symbols = np.unravel_index(np.arange(array.shape[0]), sizes)
    for i, output in itertools.product(records, range(array.shape[1])):
        for symbol in range(sizes[i]) if sizes[i] > 1 else ():
            group = symbols[i] == symbol
            if array[group, output].max() > 0:
                yield _Case(array[:, output], group, bound, (i, symbol, output))


class _Best:
    """The best explicit prior so far. A prior that tells nothing is the beginning."""

    def __init__(self, total: int, record: int):
        self.uniform = np.full(total, 1.0 / total)
        self.value, self.prior, self.place = 0.0, self.uniform, (record, 0, 0)

    def offer(self, case: _Case, prior: np.ndarray) -> None:
        """Take `prior`, mixed with as much of the uniform one as its entropy needs, if it is better."""
        for share in (0.0, *np.logspace(-15, 0, 46)):
            mixed = (1.0 - share) * prior + share * self.uniform
            mixed /= mixed.sum()
            if float(entr(mixed).sum()) >= case.bound or share == 1.0:
                break
        value = case.log_ratio(mixed)
        if value > self.value:
            self.value, self.prior, self.place = value, mixed, case.place


def _branch_and_bound(cases: list[_Case], best: _Best, tol: float, max_steps: int) -> tuple[float, int]:
    """(proved upper bound, programs solved). A cell is a range of posteriors with multipliers for its ends."""
    for case in cases:
        if case.unbounded:
            best.offer(case, case.ruling_out(_RULED_OUT))
    if any(case.unbounded for case in cases):
        return math.inf, 0
    number = itertools.count()  # ends ties in the heap before cases are compared
    cells: list[Any] = []

    def push(case: _Case, low: float, high: float, known: tuple[Multipliers, ...], cap: float) -> None:
        bounds = [case.log_ratio_bound(low, high, multipliers) for multipliers in known]
        if low == 0:
            bounds.append(case.small_posterior_bound(high, best.value))
        heapq.heappush(cells, (-min([cap, *bounds]), next(number), case, low, high, known))

    for case in cases:
        push(case, 0.0, 1.0, (), case.cap)
    for step in range(max_steps):
        if not cells or -cells[0][0] <= best.value + tol:
            return (-cells[0][0] if cells else best.value), step
        bound, _, case, low, high, known = heapq.heappop(cells)
        middle = _middle(low, high)
        if not max(low, _SMALLEST) < middle < high:
            # Nothing left to split: the cell's bound is the answer.
            return -bound, step
        multipliers, prior = case.solve(middle)
        best.offer(case, prior)
        push(case, low, middle, (*known[-1:], multipliers), -bound)
        push(case, middle, high, (*known[-1:], multipliers), -bound)
    return -cells[0][0], max_steps


def _middle(low: float, high: float) -> float:
    """Where to split a range of posteriors: half-way in log-odds, a tenth of the way to an end at 0 or 1."""
    if low == 0:
        return 0.5 if high == 1 else 0.1 * high
    if high == 1:
        return low + 0.9 * (1.0 - low)
    return float(expit((logit(low) + logit(high)) / 2.0))
