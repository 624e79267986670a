"""Better posteriors for given prices by exchanging symbols: columns of the linear program over real symbols.

A vertex is a raised set A (and, for lift bounds, the symbol f between the bounds). Its reduced value
D - nu.q depends on A through p(A) and sum_A nu_x p_x alone, so every exchange of a raised symbol
for another (or for none) is scored at once; the best one is made until none helps. A local optimum:
good columns, no bound. When exchanges find nothing more, the branch and bound of
`pricing` finds the columns that they missed, and the bound.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv._runtime.numerics import divergence
from jaxpriv._runtime.resources import need_memory
from jaxpriv.column_generation import MOST, MasterSolution, Pool, best_plan
from jaxpriv.column_generation.rounds import GeneratedColumns, generate_columns
from jaxpriv.extremal.pricing import AbstractTree, BoxTree, RatioPricer, RatioTree, defect
from jaxpriv.extremal.types import (
    AbstractPosteriorSet,
    Recipe,
    Split,
    columns_of,
    combinations_of,
    priced_columns,
    proved_bound,
    split_at,
    unroll,
)

# Exchanges of one local search: it ends sooner where none gains.
_STEPS = 12
# Rounds times X^2, which is what a round costs at least: there are fewer for many symbols.
_ROUNDS = 100_000
# The same for attempts at a proof, which cost more.
_PROOFS = 10_000
# Random starts in one round, times X^2, which is what one exchange costs.
_STARTS = 100_000
# Rounds in a row with next to nothing gained, after which there is no more to be had.
_PATIENCE = 4


class AbstractSearch(ABC):
    """Exchanges for one kind of limit; `source` (X,) > 0."""

    source: np.ndarray

    @abstractmethod
    def descend(self, lift: np.ndarray, prices: np.ndarray) -> np.ndarray:
        """The lift (X,) of a vertex that is at least as good as `lift` (X,) at these prices."""

    @abstractmethod
    def tree(self, prices: np.ndarray) -> AbstractTree:
        """Branch and bound at these prices."""

    @abstractmethod
    def mixed(self, lifts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A start between two random columns of `lifts`."""

    def _crossed(self, raised: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Raised where one or the other of two random rows is, symbol by symbol."""
        one, other = raised[rng.integers(len(raised), size=2)]
        return np.where(rng.random(raised.shape[1]) < 0.5, one, other)

    def exchanges(self, raised: np.ndarray, cost: np.ndarray, fixed: int | None) -> tuple[np.ndarray, ...]:
        """(out, into, mass change, cost change) of all exchanges; index X stands for no symbol."""
        none = len(self.source)
        free = ~raised
        if fixed is not None:
            free[fixed] = False
        out, into = np.append(np.flatnonzero(raised), none), np.append(np.flatnonzero(free), none)
        mass, price = np.append(self.source, 0.0), np.append(cost, 0.0)
        return out, into, mass[into] - mass[out][:, None], price[into] - price[out][:, None]


def _exchange(raised: np.ndarray, out: int, into: int) -> None:
    if out < len(raised):
        raised[out] = False
    if into < len(raised):
        raised[into] = True


class RatioSearch(AbstractSearch):
    """Staircase columns: D - nu.q = kappa (1 - 1/z) - ln z - (nu.p + (r-1) sum_A nu p)/z, z = 1 + (r-1) p(A)."""

    def __init__(self, source: np.ndarray, eps: float):
        self.source, self.eps, self.step = source, eps, math.expm1(eps)
        self.kappa = eps / -math.expm1(-eps)

    def descend(self, lift: np.ndarray, prices: np.ndarray) -> np.ndarray:
        cost, base = prices * self.source, float(prices @ self.source)
        raised = lift > 0.5 * (lift.min() + lift.max())
        for _ in range(_STEPS):
            out, into, mass, price = self.exchanges(raised, cost, None)
            gain = self._score(self.source[raised].sum() + mass, base + self.step * (cost[raised].sum() + price))
            best = np.unravel_index(np.argmax(gain), gain.shape)
            if gain[best] <= gain[-1, -1] + 1e-15:  # the last entry exchanges nothing
                break
            _exchange(raised, int(out[best[0]]), int(into[best[1]]))
        column = 1.0 + self.step * raised
        return column / (column @ self.source)

    def tree(self, prices: np.ndarray) -> AbstractTree:
        return RatioTree(self.source, prices, self.eps)

    def mixed(self, lifts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        raised = lifts > 0.5 * (lifts.min(axis=1, keepdims=True) + lifts.max(axis=1, keepdims=True))
        return 1.0 + self.step * self._crossed(raised, rng)

    def _score(self, mass: np.ndarray, paid: np.ndarray) -> np.ndarray:
        y = self.step * np.maximum(mass, 0.0)
        return (self.kappa * y - paid) / (1.0 + y) - np.log1p(y)


class BoxSearch(AbstractSearch):
    """Lift bounds: D - nu.q = constant - p_f delta(t_f) - (high - low)( sum_A nu p + nu_f s ).

    s = p_f (t_f - low)/(high - low) is the mass that the raised set leaves to f.
    """

    def __init__(self, source: np.ndarray, low: float, high: float):
        self.source, self.low, self.high = source, low, high
        self.capacity = (1.0 - low) / (high - low)

    def descend(self, lift: np.ndarray, prices: np.ndarray) -> np.ndarray:
        cost, width = prices * self.source, self.high - self.low
        raised = lift >= self.high * (1 - 1e-9)
        for _ in range(_STEPS):
            left = self.capacity - self.source[raised].sum()
            f = self._between(raised, left, prices)
            if f is None:
                return lift
            out, into, mass, price = self.exchanges(raised, cost, f)
            rest = left - mass
            gain = -self._loss(f, rest) - width * (cost[raised].sum() + price + prices[f] * rest)
            gain[(rest < 0) | (rest > self.source[f])] = -np.inf
            best = np.unravel_index(np.argmax(gain), gain.shape)
            if gain[best] <= gain[-1, -1] + 1e-15:
                break
            _exchange(raised, int(out[best[0]]), int(into[best[1]]))
        left = self.capacity - self.source[raised].sum()
        f = self._between(raised, left, prices)
        if f is None:
            return lift
        found = np.where(raised, self.high, self.low)
        found[f] = self.low + width * left / self.source[f]
        return found

    def tree(self, prices: np.ndarray) -> AbstractTree:
        return BoxTree(self.source, prices, self.low, self.high)

    def mixed(self, lifts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Symbols in random order, those of the crossed pair first, as long as they fit: some f then fits."""
        wanted = self._crossed(lifts >= self.high * (1 - 1e-9), rng)
        found, left = np.full(len(self.source), self.low), self.capacity
        for x in np.argsort(rng.random(len(wanted)) - wanted):
            if self.source[x] <= left:
                found[x] = self.high
                left -= self.source[x]
        return found

    def _loss(self, f: int | np.ndarray, rest: np.ndarray) -> np.ndarray:
        one = self.source[f]
        share = np.clip(rest / one, 0.0, 1.0)
        return one * defect(self.low + (self.high - self.low) * share, self.low, self.high)

    def _between(self, raised: np.ndarray, left: float, prices: np.ndarray) -> int | None:
        """The best symbol to take what is left; None where no symbol can."""
        able = np.flatnonzero(~raised & (self.source >= left))
        if left < 0 or not len(able):
            return None
        loss = self._loss(able, np.full(len(able), left)) + (self.high - self.low) * prices[able] * left
        return int(able[np.argmin(loss)])


def polish(
    lifts: np.ndarray, search: AbstractSearch, upper: float, tol: float, clock: Clock
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """(lifts, weights, value, upper bound) from the columns given, exchanges and branch and bound.

    At most X columns are used. The starts are drawn from a fixed seed: the same input gives the same result.
    """
    source, rng = search.source, np.random.default_rng(0)
    history: list[float] = []
    size, goal = len(source) ** 2, 0.9 * tol
    proofs = min(6, max(1, _PROOFS // size))

    def exchanged(plan: MasterSolution, pool: Pool) -> tuple[float, Pool]:
        history.append(-plan.value)
        used = pool.lifts[plan.weights[0] > 0]
        if len(history) > _PATIENCE and history[-1] - history[-1 - _PATIENCE] < 0.05 * (upper - history[-1]):
            return -np.inf, columns_of(used[:0], source)
        starts = [*used, *(search.mixed(used, rng) for _ in range(max(16, _STARTS // size)))]
        found = [search.descend(start, plan.prices[0]) for start in starts if not clock.expired()]
        return -np.inf, columns_of(np.array(found).reshape(-1, len(source)), source)

    def proved(plan: MasterSolution, pool: Pool) -> tuple[float, Pool]:
        nonlocal proofs, upper
        if proofs == 0:
            return -np.inf, pool.take(np.arange(0))
        proofs -= 1
        prices = plan.prices[0]
        highest, missed = search.tree(prices).solve(0.3 * tol, clock)
        upper = min(upper, proved_bound(prices, source, highest))
        return -upper, columns_of(missed, source)

    found = generate_columns(
        columns_of(lifts, source),
        MOST,
        (exchanged, proved),
        closed=lambda plan, _: upper + plan.value <= goal,
        worth=lambda _: 1e-13,
        rounds=min(60, max(10, _ROUNDS // size)),
        clock=clock,
        report=lambda done, value, _: clock.report("exchanges", done, -value, upper),
        always=0,
    )
    pool, weights = found.used
    return pool.lifts, weights, -found.plan.value, upper


# Limits on X itself: the plan over types, the rotation back to symbols, and the polish.


# Up to here all columns go into one linear program; beyond, they are priced.
_LISTED = 2048
# Pricing computes every pattern of the heavy types, some 20 million numbers a second.
_PATTERNS = 2**16
# How many types are kept apart from the pool, one attempt after the other.
_LEVELS = (0, 4, 8, 12, 16)
# Alphabets whose symbols are worth a linear program of their own.
_POLISHED = 400

Maker = Callable[[Split], AbstractPosteriorSet]


@dataclass(frozen=True)
class Design:
    """Posteriors of symbols with their weights, the value, a proved bound, and how they were found."""

    lifts: np.ndarray
    weights: np.ndarray
    value: float
    upper_bound: float
    method: str


def design(search: AbstractSearch, make: Maker, tol: float, clock: Clock) -> Design:
    """The best measure over posteriors of `search.source` for the limits that `make` prices and `search` explores.

    Raises `ResourceError` if the mechanism would not fit into memory.
    """
    source = search.source
    whole = split_at(source, _PATTERNS)
    if not len(whole.light):
        return attempt(whole, make, tol, clock)
    best, upper, pool = None, np.inf, []
    for level in _LEVELS:
        split = split_at(source, _PATTERNS, level)
        found = attempt(split, make, tol, clock)
        upper = min(upper, found.upper_bound)
        pool.append(found.lifts)
        if best is None or found.value > best.value:
            best = found
        if upper - best.value <= tol or len(split.members) < level or clock.expired():
            break
    assert best is not None
    if upper - best.value <= tol or len(source) > _POLISHED or clock.expired():
        return replace(best, upper_bound=upper)
    lifts, weights, value, upper = polish(np.vstack(pool), search, upper, tol, clock)
    return Design(lifts, weights, value, upper, f"{best.method}, then exchanges and branch and bound")


def attempt(split: Split, make: Maker, tol: float, clock: Clock = ENDLESS) -> Design:
    pricer = make(split)
    exact = not len(split.light)
    few = exact and combinations_of(split) <= _LISTED
    start = _independent(split)
    if few and isinstance(pricer, RatioPricer):
        start = start + pricer.all_columns()
    generated = priced_columns(start, pricer, gap=tol * 1e-3, clock=clock)
    lifts, weights = _unrolled(generated, split)
    if len(weights) > len(split.source) and len(split.source) <= _POLISHED:
        weights = best_plan((columns_of(lifts, split.source),), MOST).weights[0]
        lifts, weights = lifts[weights > 0], weights[weights > 0]
    value = float(weights @ divergence(lifts, split.source))
    heavy = len(split.members)
    method = "all vertices" if few else "column generation" if exact else f"{heavy} types exact, the rest pooled"
    return Design(lifts, weights, value, -generated.bound, method)


def _independent(split: Split) -> Pool:
    """The posterior p itself: within every limit, and a start from which the program is feasible."""
    nothing = Recipe(low=1.0, high=1.0, counts=np.zeros(len(split.members), dtype=np.int64))
    return columns_of(np.ones((1, len(split.mass))), split.mass, np.zeros(1), [nothing])


def _unrolled(generated: GeneratedColumns, split: Split) -> tuple[np.ndarray, np.ndarray]:
    pool, masses = generated.used
    symbols = len(split.source)
    turning = any(len(group) > 1 for group in split.members) or len(split.light) > 0
    size = 8.0 * symbols * len(masses) * (6 * symbols if turning else 1)
    need_memory(size, "the mechanism", "merge symbols, or raise tol")
    assert pool.origins is not None, "every column of a plan to be unrolled has a recipe"
    parts = [unroll(recipe, split) for recipe in pool.origins]
    rows = np.vstack([lifts for lifts, _ in parts])
    return rows, np.concatenate([mass * arcs for mass, (_, arcs) in zip(masses, parts, strict=True)])
