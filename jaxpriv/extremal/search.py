"""Posteriors for given prices over real symbols, by exchanges of symbols and by branch and bound; and whole designs.

A vertex is a raised set A (and, for lift bounds, the symbol f between the bounds). Its reduced value D - nu.q depends
on A through p(A) and sum_A nu_x p_x alone.

Exchanges of a raised symbol for another (or for none) are scored all at once; the best one is made until none helps. A
local optimum: good columns, no bound.

Branch and bound finds the columns that exchanges missed, and the bound. It decides the symbols from the most probable
down, breadth first. A node holds the mass and the price of what is raised; the rest may be raised in part, cheapest
price per mass first, which bounds every completion from above. Nodes that cannot reach the target are dropped. Where
too many stay open only those with the highest bounds are continued; the bounds of the others count in the result, which
is then weaker, still proved. With few raised symbols (large eps) the tree is small; with many, the rare symbols at its
end are so nearly divisible that the bounds meet the target before the last level.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv._runtime.divergences import divergence
from jaxpriv._runtime.resources import need_memory
from jaxpriv.column_generation import MOST, MasterSolution, Pool, best_plan
from jaxpriv.column_generation.rounds import GeneratedColumns, generate_columns
from jaxpriv.extremal.pricing import BoxPricer, RatioPricer, chord_at_one, defect
from jaxpriv.extremal.rotation import Recipe, unroll
from jaxpriv.extremal.split import Split, combinations_of, split_at
from jaxpriv.extremal.types import AbstractTypesPricer, Design, columns_of, priced_columns, proved_bound

# Exchanges of one local search: it ends sooner where none gains.
_STEPS = 12
# Nodes times undecided symbols looked at on one level.
_WORK = 1_000_000
# Sums of masses that are equal to a capacity miss it by rounding.
_ROUNDING = 1e-13


class Nodes(NamedTuple):
    """Open nodes: raised mass and price, the symbol between the bounds (-1: none yet), and who is raised."""

    mass: np.ndarray
    paid: np.ndarray
    between: np.ndarray
    raised: np.ndarray

    def take(self, index: np.ndarray) -> "Nodes":
        return Nodes(*(part[index] for part in self))


class Rest(NamedTuple):
    """The undecided symbols, cheapest first: raising the first i of them has mass[i] and costs paid[i]."""

    mass: np.ndarray
    paid: np.ndarray
    prices: np.ndarray

    def cost(self, mass: np.ndarray) -> np.ndarray:
        """The least price of raising `mass` in all, symbols divisible."""
        return np.interp(mass, self.mass, self.paid)


class AbstractSearch(ABC):
    """The vertices of one kind of limit on the lifts of `source` (X,) > 0; prices nu are (X,)."""

    source: np.ndarray
    partial: ClassVar[bool]  # whether one symbol of a vertex may lie between the bounds

    @abstractmethod
    def pricer(self, split: Split) -> AbstractTypesPricer:
        """Exact pricing over types."""

    @abstractmethod
    def raised(self, lifts: np.ndarray) -> np.ndarray:
        """Which symbols of vertices (..., X) are raised."""

    @abstractmethod
    def start(self, wanted: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A lift (X,) from which to begin, with about the symbols `wanted` (X,) raised."""

    @abstractmethod
    def value(self, prices: np.ndarray, mass: np.ndarray, paid: np.ndarray, f: int | np.ndarray) -> np.ndarray:
        """D - nu.q where what is raised has `mass` and costs `paid`, and `f` takes what is left; -inf if it cannot."""

    @abstractmethod
    def between(self, raised: np.ndarray, prices: np.ndarray) -> int | None:
        """The best symbol to take what is left, -1 where nothing is; None where no symbol can."""

    @abstractmethod
    def bounds(self, prices: np.ndarray, nodes: Nodes, rest: Rest) -> np.ndarray:
        """An upper bound on D - nu.q over the completions of each node; -inf where there are none."""

    @abstractmethod
    def lifts(self, nodes: Nodes) -> np.ndarray:
        """The posteriors (n, X) of nodes with every symbol decided."""

    def mixed(self, lifts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A start between two random columns of `lifts`: raised where one or the other is, symbol by symbol."""
        raised = self.raised(lifts)
        first, second = raised[rng.integers(len(raised), size=2)]
        return self.start(np.where(rng.random(raised.shape[1]) < 0.5, first, second), rng)

    def descend(self, lift: np.ndarray, prices: np.ndarray) -> np.ndarray:
        """The lift (X,) of a vertex that is at least as good as `lift` (X,) at these prices."""
        raised, size = self.raised(lift), len(lift)
        mass, cost = np.append(self.source, 0.0), np.append(prices * self.source, 0.0)  # the last: no symbol
        for _ in range(_STEPS):
            f = self.between(raised, prices)
            if f is None:
                return lift
            free = ~raised & (np.arange(size) != f)
            out, into = np.append(np.flatnonzero(raised), size), np.append(np.flatnonzero(free), size)
            # Both have the axes (out, into).
            masses, paid = (each[:-1][raised].sum() + (each[into] - each[out][:, None]) for each in (mass, cost))
            gain = self.value(prices, masses, paid, f)
            best = np.unravel_index(np.argmax(gain), gain.shape)
            if gain[best] <= gain[-1, -1] + 1e-15:  # the last entry exchanges nothing
                break
            for symbol, up in ((out[best[0]], False), (into[best[1]], True)):
                if symbol < size:
                    raised[symbol] = up
        f = self.between(raised, prices)
        if f is None:
            return lift
        return self.lifts(Nodes(self.source[raised].sum(keepdims=True), np.zeros(1), np.array([f]), raised[None]))[0]

    def highest(self, prices: np.ndarray, target: float, clock: Clock = ENDLESS) -> tuple[float, np.ndarray]:
        """(h, lifts): D - nu.q <= h for every vertex, h >= target; vertices found above the target, (n, X).

        Once the clock has expired the bounds of the open nodes are h, and no vertex is found.
        """
        symbols, cost = len(self.source), prices * self.source
        order = np.argsort(-self.source, kind="stable")
        nodes = Nodes(np.zeros(1), np.zeros(1), np.full(1, -1), np.zeros((1, symbols), dtype=bool))
        bounds, highest = np.full(1, np.inf), target
        for depth, symbol in enumerate(order):
            nodes = self._children(nodes, int(symbol), float(cost[symbol]))
            rest = order[depth + 1 :]
            rest = rest[np.argsort(prices[rest])]
            ends = (np.append(0.0, np.cumsum(each[rest])) for each in (self.source, cost))
            bounds = self.bounds(prices, nodes, Rest(*ends, prices[rest]))
            # The highest bound first: what is dropped beyond the limit raises the proved bound least.
            keep = np.argsort(-bounds)[: np.count_nonzero(bounds > target)]
            most = _WORK // (symbols - depth + 8)
            if len(keep) > most:
                highest = max(highest, float(bounds[keep[most]]))
                keep = keep[:most]
            nodes, bounds = nodes.take(keep), bounds[keep]
            if not len(keep):
                return highest, np.zeros((0, symbols))
            if clock.expired():
                return max(highest, float(bounds[0])), np.zeros((0, symbols))
        return max(highest, float(bounds[0])), self.lifts(nodes.take(np.arange(min(len(bounds), 2 * symbols))))

    def _children(self, nodes: Nodes, symbol: int, cost: float) -> Nodes:
        """Every node with `symbol` decided in every way."""
        raised = nodes.raised.copy()
        raised[:, symbol] = True
        parts = [nodes, Nodes(nodes.mass + self.source[symbol], nodes.paid + cost, nodes.between, raised)]
        if self.partial:
            free = nodes.take(np.flatnonzero(nodes.between < 0))
            parts.append(free._replace(between=np.full(len(free.mass), symbol)))
        return Nodes(*(np.concatenate(part) for part in zip(*parts, strict=True)))


class RatioSearch(AbstractSearch):
    """Staircase columns: D - nu.q = kappa (1 - 1/z) - ln z - (nu.p + (r-1) sum_A nu p)/z, z = 1 + (r-1) p(A).

    Along one undecided symbol of price nu_i it is a constant - ln z - K/z: best at z = K.
    """

    partial: ClassVar[bool] = False

    def __init__(self, source: np.ndarray, eps: float):
        self.source, self.eps, self.step = source, eps, math.expm1(eps)
        self.kappa = eps / -math.expm1(-eps)

    def pricer(self, split: Split) -> AbstractTypesPricer:
        return RatioPricer(split, self.eps)

    def raised(self, lifts: np.ndarray) -> np.ndarray:
        return lifts > 0.5 * (lifts.min(axis=-1, keepdims=True) + lifts.max(axis=-1, keepdims=True))

    def start(self, wanted: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        del rng
        return 1.0 + self.step * wanted

    def value(self, prices: np.ndarray, mass: np.ndarray, paid: np.ndarray, f: int | np.ndarray) -> np.ndarray:
        del f
        return self._at(self.step * np.maximum(mass, 0.0), float(prices @ self.source) + self.step * paid)

    def between(self, raised: np.ndarray, prices: np.ndarray) -> int | None:
        del raised, prices
        return -1

    def bounds(self, prices: np.ndarray, nodes: Nodes, rest: Rest) -> np.ndarray:
        base = float(prices @ self.source)
        best = self.value(prices, nodes.mass, nodes.paid, -1)
        for i, price in enumerate(rest.prices):
            begin, paid = self.step * (nodes.mass + rest.mass[i]), base + self.step * (nodes.paid + rest.paid[i])
            fixed = paid - price * begin  # what is paid is fixed + price * y on this piece
            y = np.clip(self.kappa - 1.0 + fixed - price, begin, self.step * (nodes.mass + rest.mass[i + 1]))
            best = np.maximum(best, self._at(y, fixed + price * y))
        return best

    def lifts(self, nodes: Nodes) -> np.ndarray:
        columns = 1.0 + self.step * nodes.raised
        return columns / (columns @ self.source)[:, None]

    def _at(self, y: np.ndarray, paid: np.ndarray) -> np.ndarray:
        """At z = 1 + y."""
        return (self.kappa * y - paid) / (1.0 + y) - np.log1p(y)


class BoxSearch(AbstractSearch):
    """Lift bounds: D - nu.q = constant - p_f delta(t_f) - (high - low)( sum_A nu p + nu_f s ).

    s = p_f (t_f - low)/(high - low) is the mass that the raised set leaves to f. With f decided, D - nu.q is convex
    along each undecided symbol: best where one ends.
    """

    partial: ClassVar[bool] = True

    def __init__(self, source: np.ndarray, low: float, high: float):
        self.source, self.low, self.high, self.width = source, low, high, high - low
        self.capacity, self.ceiling = (1.0 - low) / self.width, chord_at_one(low, high)

    def pricer(self, split: Split) -> AbstractTypesPricer:
        return BoxPricer(split, self.low, self.high)

    def raised(self, lifts: np.ndarray) -> np.ndarray:
        return lifts >= self.high * (1 - 1e-9)

    def start(self, wanted: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Symbols in random order, those wanted first, as long as they fit: some f then fits."""
        lift, left = np.full(len(self.source), self.low), self.capacity
        for x in np.argsort(rng.random(len(wanted)) - wanted):
            if self.source[x] <= left:
                lift[x] = self.high
                left -= self.source[x]
        return lift

    def value(self, prices: np.ndarray, mass: np.ndarray, paid: np.ndarray, f: int | np.ndarray) -> np.ndarray:
        left, probability = self.capacity - mass, self.source[f]
        loss = probability * defect(self.low + self.width * np.clip(left / probability, 0.0, 1.0), self.low, self.high)
        reduced = self._base(prices) - loss - self.width * (paid + prices[f] * left)
        return np.where((left >= -_ROUNDING) & (left <= probability + _ROUNDING), reduced, -np.inf)

    def between(self, raised: np.ndarray, prices: np.ndarray) -> int | None:
        able = np.flatnonzero(~raised)
        values = self.value(prices, self.source[raised].sum(), np.zeros(len(able)), able)
        return int(able[values.argmax()]) if values.max(initial=-np.inf) > -np.inf else None

    def bounds(self, prices: np.ndarray, nodes: Nodes, rest: Rest) -> np.ndarray:
        left, most = self.capacity - nodes.mass, float(rest.mass[-1])
        best = np.full(len(left), -np.inf)
        none = np.flatnonzero((nodes.between < 0) & (left >= -_ROUNDING) & (left <= most + _ROUNDING))
        best[none] = self._base(prices) - self.width * (nodes.paid[none] + rest.cost(left[none]))
        some = np.flatnonzero(nodes.between >= 0)
        f, left, paid = nodes.between[some], left[some], nodes.paid[some]
        low, high = np.maximum(left - self.source[f], 0.0), np.minimum(left, most)
        for point in [low, high, *rest.mass]:
            extra = np.clip(point, low, np.maximum(high, low))
            reached = self.value(prices, nodes.mass[some] + extra, paid + rest.cost(extra), f)
            best[some] = np.maximum(best[some], np.where(low <= high + _ROUNDING, reached, -np.inf))
        return best

    def lifts(self, nodes: Nodes) -> np.ndarray:
        columns = np.where(nodes.raised, self.high, self.low)
        left = np.clip(self.capacity - nodes.mass, 0.0, None)
        some = np.flatnonzero(nodes.between >= 0)
        f = nodes.between[some]
        columns[some, f] = np.minimum(self.low + self.width * left[some] / self.source[f], self.high)
        return columns

    def _base(self, prices: np.ndarray) -> float:
        return self.ceiling - self.low * float(prices @ self.source)


# The program over real symbols: columns that are given, exchanges, and proofs by branch and bound.


# Rounds times X^2, which is what a round costs at least: there are fewer for many symbols.
_ROUNDS = 100_000
# The same for attempts at a proof, which cost more.
_PROOFS = 10_000
# Random starts in one round, times X^2, which is what one exchange costs.
_STARTS = 100_000
# Rounds in a row with next to nothing gained, after which there is no more to be had.
_PATIENCE = 4


def polish(lifts: np.ndarray, search: AbstractSearch, upper: float, tol: float, clock: Clock) -> Design:
    """A better design from the columns given, exchanges and branch and bound.

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
        vertices = [search.descend(start, plan.prices[0]) for start in starts if not clock.expired()]
        return -np.inf, columns_of(np.array(vertices).reshape(-1, len(source)), source)

    def proved(plan: MasterSolution, pool: Pool) -> tuple[float, Pool]:
        nonlocal proofs, upper
        if proofs == 0:
            return -np.inf, pool.take(np.arange(0))
        proofs -= 1
        prices = plan.prices[0]
        highest, missed = search.highest(prices, 0.3 * tol, clock)
        upper = min(upper, proved_bound(prices, source, highest))
        return -upper, columns_of(missed, source)

    generated = generate_columns(
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
    pool, weights = generated.used
    return Design(pool.lifts, weights, upper, "exchanges and branch and bound")


# Limits on X itself: the plan over types, the rotation back to symbols, and the polish.


# Up to here pricing is called a list of all columns, which it looks at.
_LISTED = 2048
# Pricing computes every pattern of the heavy types, some 20 million numbers a second.
_PATTERNS = 2**16
# How many types are kept apart from the pool, one attempt after the other.
_LEVELS = (0, 4, 8, 12, 16)
# Alphabets whose symbols are worth a linear program of their own.
_POLISHED = 400
# A plan of columns that misses p by more than this, relative to a symbol's probability, has p itself as a column: the
# linear program that leaves fewer columns has no plan otherwise.
_UNMET = 1e-10


def design(search: AbstractSearch, tol: float, clock: Clock) -> Design:
    """The best measure over posteriors of `search.source` for its limits.

    Raises `ResourceError` if the mechanism would not fit into memory.
    """
    source = search.source
    whole = split_at(source, _PATTERNS)
    if not len(whole.light):
        return attempt(search.pricer(whole), tol, clock)
    best, value, upper, pool = None, -np.inf, np.inf, []
    for level in _LEVELS:
        split = split_at(source, _PATTERNS, level)
        candidate = attempt(search.pricer(split), tol, clock)
        upper = min(upper, candidate.upper_bound)
        pool.append(candidate.lifts)
        reached = float(candidate.weights @ divergence(candidate.lifts, source))
        if reached > value:
            best, value = candidate, reached
        if upper - value <= tol or len(split.members) < level or clock.expired():
            break
    assert best is not None
    if upper - value <= tol or len(source) > _POLISHED or clock.expired():
        return best._replace(upper_bound=upper)
    candidate = polish(np.vstack(pool), search, upper, tol, clock)
    return candidate._replace(method=f"{best.method}, then {candidate.method}")


def attempt(pricer: AbstractTypesPricer, tol: float, clock: Clock = ENDLESS) -> Design:
    """The best measure over posteriors of the types of a split, turned into one of symbols."""
    split = pricer.split
    exact = not len(split.light)
    few = exact and combinations_of(split) <= _LISTED
    generated = priced_columns(_independent(split), pricer.price, gap=tol * 1e-3, clock=clock)
    lifts, weights = _unrolled(generated, split)
    if len(weights) > len(split.source) and len(split.source) <= _POLISHED:
        # The columns are symbols' only up to rounding, which is much of a rare symbol: with p itself a plan exists.
        if abs(weights @ lifts - 1.0).max() > _UNMET:
            lifts = np.vstack([lifts, np.ones(lifts.shape[1])])
        weights = best_plan((columns_of(lifts, split.source),), MOST).weights[0]
        lifts, weights = lifts[weights > 0], weights[weights > 0]
    heavy = len(split.members)
    method = "all vertices" if few else "column generation" if exact else f"{heavy} types exact, the rest pooled"
    return Design(lifts, weights, -generated.bound, method)


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
