"""The program over posteriors of types and its rounds with a pricer: a = D(q || p), the most of which is sought; b = 0.

A mechanism is a measure m over posteriors q_n with lifts t_n = q_n/p, sum_n m_n q_n = p. With D_n = D(q_n || p), its
mutual information is sum_n m_n D_n, so the best one solves

    maximise sum_n m_n D_n   subject to   sum_n m_n t_n(g) = 1 for every g,  m >= 0

(g: symbols, or groups of symbols with the mean lift of the group; P_g their mass). For ANY prices nu

    optimum <= nu.P + max_q [ D(q || p) - nu.q ]

because sum_n m_n = 1. The maximum is what a pricer computes: exactly, or from above.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv._runtime.divergences import divergence
from jaxpriv.column_generation import MOST, MasterSolution, Pool
from jaxpriv.column_generation.rounds import GeneratedColumns, generate_columns
from jaxpriv.extremal.rotation import Recipe
from jaxpriv.extremal.split import Split

_EPS = float(np.finfo(np.float64).eps)
# Rounds at most: some tens are needed.
_ROUNDS = 200


def columns_of(
    lifts: np.ndarray, mass: np.ndarray, values: np.ndarray | None = None, recipes: list[Recipe] | None = None
) -> Pool:
    """Posteriors with `lifts` (n, G) of groups of `mass` (G,); `values` (n,) if not D(q || p) itself."""
    values = divergence(lifts, mass) if values is None else values
    origins = None if recipes is None else np.array(recipes, dtype=object)
    return Pool(mass, lifts * mass, values, np.zeros(len(lifts)), origins=origins)


# From nu (G,) and a number n: (an upper bound on max_q D(q||p) - nu.q of what is allowed, n good posteriors at most).
Price: TypeAlias = Callable[[np.ndarray, int], tuple[float, Pool]]


class AbstractTypesPricer(ABC):
    """The posteriors over the types of a split, the pool divisible."""

    def __init__(self, split: Split):
        self.split, self.pooled = split, len(split.light) > 0
        self.heavy = split.mass[: len(split.sizes)]

    @abstractmethod
    def price(self, prices: np.ndarray, count: int) -> tuple[float, Pool]:
        """`Price` of the posteriors over types."""

    def over_pool(self, prices: np.ndarray) -> tuple[float, np.ndarray]:
        """(lambda, the price of the pool or 0; nu - lambda of the heavy types)."""
        base = float(prices[-1]) if self.pooled else 0.0
        return base, prices[: len(self.heavy)] - base


class Design(NamedTuple):
    """Posteriors with their weights, a proved bound on the disclosure of every release, and how they were found."""

    lifts: np.ndarray
    weights: np.ndarray
    upper_bound: float
    method: str


def proved_bound(prices: np.ndarray, mass: np.ndarray, highest: float) -> float:
    """nu.P + max_q [D - nu.q], rounded up by more than what float64 sums of this size can lose."""
    spread = prices - prices.min()  # a constant in nu cancels, as sum P = sum q = 1
    rounding = (
        8.0 * (len(mass) + 8) * _EPS * (float(np.abs(spread) @ mass) + float(np.abs(prices).max()) + abs(highest))
    )
    return float(prices @ mass) + highest + rounding


def priced_columns(start: Pool, price: Price, *, gap: float, clock: Clock = ENDLESS) -> GeneratedColumns:
    """Column generation from `start` until the bound is within `gap` of the value; of less than a nat that share.

    Each round prices the current duals and their mean with the best ones so far: the mean damps the
    swings that plain column generation is known for, and any prices give a valid bound.
    """
    mass, upper, centre = start.source, np.inf, None

    def priced(plan: MasterSolution, pool: Pool) -> tuple[float, Pool]:
        nonlocal upper, centre
        prices, columns = plan.prices[0], pool.take(np.arange(0))
        for candidate in [prices] if centre is None else [prices, 0.5 * (prices + centre)]:
            highest, extra = price(candidate, 2 * len(mass))
            bound = proved_bound(candidate, mass, highest)
            if bound < upper:
                upper, centre = bound, candidate
            columns = columns + extra
        return -upper, columns

    return generate_columns(
        start,
        MOST,
        (priced,),
        closed=lambda plan, bound: plan.value - bound <= gap * min(1.0, -bound),
        worth=lambda plan: 1e-12 * (1e-3 + abs(plan.value)),
        rounds=_ROUNDS,
        clock=clock,
        report=lambda done, value, bound: clock.report("column-generation", done, -value, -bound),
    )
