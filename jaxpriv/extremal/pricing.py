"""Exact pricing: the vertex of least reduced cost under limits of ratios and of lift, the pooled symbols divisible.

Ratios (LDP), all staircase columns at once.
Vertices of the LDP cone are c in {1, r}^X, r = e^eps (Kairouz, Oh and Viswanath 2016, Theorem 2). With
a = p(A) the mass of the raised set, z = 1 + (r-1) a and the posterior q = p c / z,

    D(q || p) = kappa (1 - 1/z) - ln z,      kappa = r eps/(r-1),

a function of a alone. For prices nu (one lambda for the pool) nu.q = lambda + R/z with
R = sum over the heavy types of (nu_g - lambda) P_g c_g, hence

    D - nu.q = kappa - lambda - ln z - (kappa + R)/z,

which rises up to z = kappa + R and falls after it: with a divisible pool the best z is kappa + R cut
to what the pool can reach. Nothing is searched, so the maximum over all columns is exact.

Lift bounds low <= q/p <= high (PML: low = 0).
Vertices of { low p <= q <= high p, sum q = 1 } have all coordinates but one at a bound. Let chord be the
affine function that equals t ln t at both bounds and delta(t) = chord(t) - t ln t >= 0. As sum p t = 1,

    D(q || p) = chord(1) - p_f delta(t_f),      f the one coordinate between the bounds,

so every mechanism loses only what its in-between coordinates lose: I(X;Y) <= chord(1), which is eps
for PML. With prices nu, lambda for the pool: nu.q = lambda + sum over the heavy types (nu_g - lambda) q_g.

A divisible pool loses nothing (its in-between symbol is ignored: an upper bound). What remains is either
no heavy in-between coordinate, or one, t_f; then D - nu.q is convex in t_f and the maximum has the pool
at an end of its range. All cases are counted out, so the maximum is exact for the divisible pool.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv._runtime.numerics import excess
from jaxpriv.column_generation import Pool
from jaxpriv.extremal.types import AbstractPosteriorSet, Recipe, Split, columns_of, combinations_of, outer_sum

# Coordinates that leave their range by no more than rounding are in it.
_ROUNDING = 1e-12


class RatioPricer(AbstractPosteriorSet):
    """The columns c in {1, e^eps} over the types of `split`, the pool divisible."""

    def __init__(self, split: Split, eps: float):
        self.split = split
        self.step = math.expm1(eps)  # r - 1
        self.kappa = eps / -math.expm1(-eps)
        self.pooled = len(split.light) > 0
        self.shares = [np.arange(n + 1) / n for n in split.sizes]  # of the members that are raised
        heavy = split.mass[: len(split.sizes)]
        self.raised = outer_sum([mass * share for mass, share in zip(heavy, self.shares, strict=True)])

    def price(self, prices: np.ndarray, count: int) -> tuple[float, Pool]:
        """The maximum over all columns, and the best `count` of them."""
        heavy = len(self.shares)
        base = float(prices[-1]) if self.pooled else 0.0
        cost = outer_sum(
            [
                (prices[g] - base) * self.split.mass[g] * (1.0 + self.step * self.shares[g])  # (nu - lambda) P c
                for g in range(heavy)
            ]
        )
        y = self._level(cost)
        gain = self._divergence(y) - base - cost / (1.0 + y)
        top = np.argpartition(-gain, min(count, len(gain)) - 1)[:count]
        return float(gain.max()), self._columns(top, y[top])

    def all_columns(self) -> Pool:
        """Every column; for a split without a pool."""
        number = combinations_of(self.split)
        return self._columns(np.arange(number), self.step * self.raised)

    def _level(self, cost: np.ndarray) -> np.ndarray:
        """z - 1 for each pattern."""
        lowest = self.step * self.raised
        if not self.pooled:
            return lowest
        return np.clip(self.kappa - 1.0 + cost, lowest, lowest + self.step * self.split.light_mass)

    def _divergence(self, y: np.ndarray) -> np.ndarray:
        return np.maximum(self.kappa * y / (1.0 + y) - np.log1p(y), 0.0)

    def _columns(self, index: np.ndarray, y: np.ndarray) -> Pool:
        counts = np.array(np.unravel_index(index, tuple(len(s) for s in self.shares))).T if self.shares else None
        counts = np.zeros((len(index), 0), dtype=np.int64) if counts is None else counts
        shares = counts / self.split.sizes if self.shares else np.zeros((len(index), 0))
        if self.pooled:
            light = np.clip((y / self.step - self.raised[index]) / self.split.light_mass, 0.0, 1.0)
            shares = np.column_stack([shares, light])
        low = 1.0 / (1.0 + y)
        lifts = low[:, None] * (1.0 + self.step * shares)
        recipes = [
            Recipe(
                low=float(low[n]),
                high=float(low[n] * (1.0 + self.step)),
                counts=counts[n],
                light=float(shares[n, -1]) if self.pooled else 0.0,
            )
            for n in range(len(index))
        ]
        return columns_of(lifts, self.split.mass, self._divergence(y), recipes)


class BoxPricer(AbstractPosteriorSet):
    """The vertices over the types of `split`, the pool divisible."""

    def __init__(self, split: Split, low: float, high: float):
        self.split, self.low, self.high = split, low, high
        self.ceiling = chord_at_one(low, high)
        self.pooled = len(split.light) > 0
        self.heavy = split.mass[: len(split.sizes)]
        # (type between the bounds or None, lift of the pool or None if it follows from the rest)
        self.cases: list[tuple[int | None, float | None]] = [(None, None)] if self.pooled else []
        ends = [low, high] if self.pooled else [0.0]
        self.cases += [(f, end) for f in range(len(split.sizes)) for end in ends]
        self.known = [self._solve(*case) for case in self.cases]

    def price(self, prices: np.ndarray, count: int) -> tuple[float, Pool]:
        """The maximum over all vertices, and the best `count` of them."""
        base = float(prices[-1]) if self.pooled else 0.0
        weights = prices[: len(self.heavy)] - base
        gains, places = [], []
        for (f, _), (index, between, loss, masses) in zip(self.cases, self.known, strict=True):
            if not len(index):
                continue
            cost = outer_sum([weight * mass for weight, mass in zip(weights, masses, strict=True)])[index]
            if f is not None:
                cost = cost + weights[f] * self.split.probabilities[f] * between
            gain = self.ceiling - base - loss - cost
            top = np.argpartition(-gain, min(count, len(gain)) - 1)[:count]
            gains.append(gain[top])
            places.append(top)
        flat = np.concatenate(gains)
        chosen = np.sort(np.argsort(-flat)[:count])
        columns, offset = [], 0
        filled = [n for n, known in enumerate(self.known) if len(known[0])]
        for case, top in zip(filled, places, strict=True):
            mine = chosen[(chosen >= offset) & (chosen < offset + len(top))] - offset
            offset += len(top)
            if len(mine):
                columns.append(self._columns(case, top[mine]))
        result = columns[0]
        for more in columns[1:]:
            result = result + more
        return float(flat.max()), result

    def _tables(self, f: int | None) -> list[np.ndarray]:
        """Mass of each heavy type as a function of how many members are raised (type f: one member left out)."""
        tables = []
        for g, (size, one) in enumerate(zip(self.split.sizes, self.split.probabilities, strict=True)):
            whole = int(size) - (g == f)
            raised = np.arange(whole + 1)
            tables.append(one * (self.low * (whole - raised) + self.high * raised))
        return tables

    def _solve(self, f: int | None, end: float | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
        """(feasible patterns, lift of the coordinate between the bounds or of the pool, loss, mass tables)."""
        masses = self._tables(f)
        rest = 1.0 - outer_sum(masses)
        if f is None:
            share = rest / self.split.light_mass
        else:
            share = (rest - (end or 0.0) * self.split.light_mass) / self.split.probabilities[f]
        tolerance = _ROUNDING * self.high
        index = np.flatnonzero((share >= self.low - tolerance) & (share <= self.high + tolerance))
        between = np.clip(share[index], self.low, self.high)
        loss = np.zeros(len(index)) if f is None else self.split.probabilities[f] * defect(between, self.low, self.high)
        return index, between, loss, masses

    def _columns(self, case: int, chosen: np.ndarray) -> Pool:
        f, end = self.cases[case]
        index, between, loss, masses = self.known[case]
        between, loss = between[chosen], loss[chosen]
        shape = tuple(len(table) for table in masses)
        counts = np.array(np.unravel_index(index[chosen], shape)).T if shape else np.zeros((len(chosen), 0), np.int64)
        lifts = np.column_stack([masses[g][counts[:, g]] / self.heavy[g] for g in range(len(shape))] or [between])
        if f is not None:
            lifts[:, f] += between / self.split.sizes[f]
        pool = np.zeros(len(chosen))
        if self.pooled:
            pool = between if f is None else np.full(len(chosen), end)
            lifts = np.column_stack([lifts, pool]) if shape else lifts
        width = self.high - self.low
        recipes = [
            Recipe(
                low=self.low,
                high=self.high,
                counts=counts[n],
                light=float((pool[n] - self.low) / width) if self.pooled else 0.0,
                between=f,
                lift=1.0 if f is None else float(between[n]),
                windowed=True,
            )
            for n in range(len(chosen))
        ]
        return columns_of(lifts, self.split.mass, self.ceiling - loss, recipes)


def chord_at_one(low: float, high: float) -> float:
    """The chord of t ln t over [low, high] at t = 1: no mechanism within the bounds discloses more."""
    at_low, at_high = excess(np.array([low, high]))
    # excess differs from t ln t by the affine 1 - t, which is 0 at 1.
    return float(((high - 1.0) * at_low + (1.0 - low) * at_high) / (high - low)) if math.isfinite(high) else math.inf


def defect(lift: np.ndarray, low: float, high: float) -> np.ndarray:
    """delta(t) = chord(t) - t ln t >= 0 for t in [low, high]."""
    at_low, at_high = excess(np.array([low, high]))  # t ln t less t - 1, which chords share
    return np.maximum(at_low + (at_high - at_low) * (lift - low) / (high - low) - excess(lift), 0.0)


# Exact pricing over real symbols by branch and bound, breadth first, the undecided symbols divisible.
#
# Symbols are decided from the most probable down. A node holds the mass and the price of what is raised; the rest may
# be raised in part, cheapest price per mass first, which bounds every completion from above. Nodes that cannot reach
# the target are dropped. Where too many stay open only those with the highest bounds are continued; the
# bounds of the others count in the result, which is then weaker, still proved.
#
# With few raised symbols (large eps) the tree is small; with many, the rare symbols at its end are so nearly divisible
# that the bounds meet the target before the last level.


# Nodes times undecided symbols looked at on one level.
_WORK = 1_000_000


@dataclass(frozen=True)
class Nodes:
    """Open nodes: raised mass and price, the symbol between the bounds (-1: none yet), and who is raised."""

    mass: np.ndarray
    paid: np.ndarray
    between: np.ndarray
    raised: np.ndarray

    def __getitem__(self, index: np.ndarray) -> "Nodes":
        return Nodes(self.mass[index], self.paid[index], self.between[index], self.raised[index])


@dataclass(frozen=True)
class Rest:
    """The undecided symbols, cheapest first: raising the first i of them has mass[i] and costs paid[i]."""

    mass: np.ndarray
    paid: np.ndarray
    prices: np.ndarray

    def cost(self, mass: np.ndarray) -> np.ndarray:
        """The least price of raising `mass` in all, symbols divisible."""
        return np.interp(mass, self.mass, self.paid)


class AbstractTree(ABC):
    """One kind of limit at given prices nu (X,) for `source` (X,)."""

    def __init__(self, source: np.ndarray, prices: np.ndarray):
        self.source, self.prices, self.cost = source, prices, prices * source

    @abstractmethod
    def bounds(self, nodes: Nodes, rest: Rest) -> np.ndarray:
        """An upper bound on D - nu.q over the completions of each node; -inf where there are none."""

    @abstractmethod
    def children(self, nodes: Nodes, symbol: int) -> Nodes:
        """Every node with `symbol` decided in every way."""

    @abstractmethod
    def lifts(self, nodes: Nodes) -> np.ndarray:
        """The posteriors (n, X) of nodes with every symbol decided."""

    def solve(self, target: float, clock: Clock = ENDLESS) -> tuple[float, np.ndarray]:
        """(h, lifts): D - nu.q <= h for every vertex, h >= target; vertices found above the target, (n, X).

        Once the clock has expired the bounds of the open nodes are h, and no vertex is found.
        """
        symbols = len(self.source)
        order = np.argsort(-self.source, kind="stable")
        one = np.zeros(1)
        nodes = Nodes(one, one, np.full(1, -1), np.zeros((1, symbols), dtype=bool))
        bounds, highest = np.full(1, np.inf), target
        for depth, symbol in enumerate(order):
            nodes = self.children(nodes, int(symbol))
            bounds = self.bounds(nodes, self._rest(order[depth + 1 :]))
            # The highest bound first: what is dropped beyond the limit raises the proved bound least.
            keep = np.argsort(-bounds)[: np.count_nonzero(bounds > target)]
            most = _WORK // (symbols - depth + 8)
            if len(keep) > most:
                highest = max(highest, float(bounds[keep[most]]))
                keep = keep[:most]
            nodes, bounds = nodes[keep], bounds[keep]
            if not len(keep):
                return highest, np.zeros((0, symbols))
            if clock.expired():
                return max(highest, float(bounds[0])), np.zeros((0, symbols))
        return max(highest, float(bounds[0])), self.lifts(nodes[np.arange(min(len(bounds), 2 * symbols))])

    def _rest(self, symbols: np.ndarray) -> Rest:
        cheapest = symbols[np.argsort(self.prices[symbols])]
        mass = np.append(0.0, np.cumsum(self.source[cheapest]))
        return Rest(mass, np.append(0.0, np.cumsum(self.cost[cheapest])), self.prices[cheapest])

    def _with(self, nodes: Nodes, symbol: int) -> Nodes:
        """The nodes with `symbol` raised."""
        raised = nodes.raised.copy()
        raised[:, symbol] = True
        return Nodes(nodes.mass + self.source[symbol], nodes.paid + self.cost[symbol], nodes.between, raised)


def _joined(*parts: Nodes) -> Nodes:
    return Nodes(
        np.concatenate([part.mass for part in parts]),
        np.concatenate([part.paid for part in parts]),
        np.concatenate([part.between for part in parts]),
        np.vstack([part.raised for part in parts]),
    )


class RatioTree(AbstractTree):
    """Staircase columns. Along one undecided symbol of price nu_i, D - nu.q = const - ln z - K/z: best at z = K."""

    def __init__(self, source: np.ndarray, prices: np.ndarray, eps: float):
        super().__init__(source, prices)
        self.step, self.kappa = math.expm1(eps), eps / -math.expm1(-eps)
        self.base = float(prices @ source)

    def bounds(self, nodes: Nodes, rest: Rest) -> np.ndarray:
        best = self._value(self.step * nodes.mass, self.base + self.step * nodes.paid)
        for i, price in enumerate(rest.prices):
            begin = self.step * (nodes.mass + rest.mass[i])
            paid = self.base + self.step * (nodes.paid + rest.paid[i])
            fixed = paid - price * begin  # what is paid is fixed + price * y on this piece
            y = np.clip(self.kappa - 1.0 + fixed - price, begin, self.step * (nodes.mass + rest.mass[i + 1]))
            best = np.maximum(best, self._value(y, fixed + price * y))
        return best

    def _value(self, y: np.ndarray, paid: np.ndarray) -> np.ndarray:
        return (self.kappa * y - paid) / (1.0 + y) - np.log1p(y)

    def children(self, nodes: Nodes, symbol: int) -> Nodes:
        return _joined(nodes, self._with(nodes, symbol))

    def lifts(self, nodes: Nodes) -> np.ndarray:
        columns = 1.0 + self.step * nodes.raised
        return columns / (columns @ self.source)[:, None]


class BoxTree(AbstractTree):
    """Lift bounds. With f decided, D - nu.q is convex along each undecided symbol: best where one ends."""

    def __init__(self, source: np.ndarray, prices: np.ndarray, low: float, high: float):
        super().__init__(source, prices)
        self.low, self.high, self.width = low, high, high - low
        self.capacity = (1.0 - low) / self.width
        self.base = chord_at_one(low, high) - low * float(prices @ source)

    def bounds(self, nodes: Nodes, rest: Rest) -> np.ndarray:
        left = self.capacity - nodes.mass
        slack = 1e-13  # sums of masses that are equal to the capacity miss it by rounding
        most = float(rest.mass[-1])
        best = np.full(len(left), -np.inf)
        none = np.flatnonzero((nodes.between < 0) & (left >= -slack) & (left <= most + slack))
        best[none] = self.base - self.width * (nodes.paid[none] + rest.cost(left[none]))
        some = np.flatnonzero(nodes.between >= 0)
        if not len(some):
            return best
        f, left, paid = nodes.between[some], left[some], nodes.paid[some]
        low, high = np.maximum(left - self.source[f], 0.0), np.minimum(left, most)
        able = low <= high + slack
        gain = np.full(len(some), -np.inf)
        for point in [low, high, *rest.mass]:
            raised = np.clip(point, low, np.maximum(high, low))
            share = np.clip((left - raised) / self.source[f], 0.0, 1.0)
            loss = self.source[f] * defect(self.low + self.width * share, self.low, self.high)
            cost = paid + rest.cost(raised) + self.prices[f] * (left - raised)
            gain = np.maximum(gain, self.base - loss - self.width * cost)
        best[some] = np.where(able, gain, -np.inf)
        return best

    def children(self, nodes: Nodes, symbol: int) -> Nodes:
        free = nodes[np.flatnonzero(nodes.between < 0)]
        taken = Nodes(free.mass, free.paid, np.full(len(free.mass), symbol), free.raised)
        return _joined(nodes, self._with(nodes, symbol), taken)

    def lifts(self, nodes: Nodes) -> np.ndarray:
        found = np.where(nodes.raised, self.high, self.low)
        left = np.clip(self.capacity - nodes.mass, 0.0, None)
        some = np.flatnonzero(nodes.between >= 0)
        f = nodes.between[some]
        found[some, f] = np.minimum(self.low + self.width * left[some] / self.source[f], self.high)
        return found
