"""Symbols of equal probability and pools of rare ones: posteriors over types, and the way back to symbols by rotation.

A mechanism is a measure m over posteriors q_n with lifts t_n = q_n/p, sum_n m_n q_n = p. With D_n = D(q_n || p), its
mutual information is sum_n m_n D_n, so the best one solves

    maximise sum_n m_n D_n   subject to   sum_n m_n t_n(g) = 1 for every g,  m >= 0

(g: symbols, or groups of symbols with the mean lift of the group; P_g their mass). For ANY prices nu

    optimum <= nu.P + max_q [ D(q || p) - nu.q ]

because sum_n m_n = 1. The maximum is what a pricer computes: exactly, or from above.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv._runtime.divergences import divergence
from jaxpriv.column_generation import MOST, MasterSolution, Pool
from jaxpriv.column_generation.rounds import GeneratedColumns, generate_columns

# Symbols of equal probability are interchangeable, and rare ones nearly divisible.
#
# Averaging a mechanism over the permutations that keep p changes neither its mutual information nor its limits, so
# symbols of the same probability form one type with n_g members, and a posterior is described by HOW MANY members are
# raised: n_g + 1 cases where subsets number 2^n_g.
#
# A split keeps the most probable types exact and pools the rest into one divisible "fluid". The fluid can do whatever
# the pooled symbols can, so its optimum is an upper bound; a rotation (`unroll`) turns its posteriors into ones
# of real symbols.


@dataclass(frozen=True)
class Split:
    """Heavy types, from the most probable down, and the pooled light symbols.

    Attributes:
        source: p (X,), all positive.
        members: for each heavy type the symbols (indices into p), all of one probability.
        light: the pooled symbols; empty if every type is kept.
    """

    source: np.ndarray
    members: tuple[np.ndarray, ...]
    light: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """n_g of the heavy types."""
        return np.array([len(group) for group in self.members], dtype=np.int64)

    @property
    def probabilities(self) -> np.ndarray:
        """p_x of one member of each heavy type."""
        return np.array([self.source[group[0]] for group in self.members], dtype=np.float64)

    @property
    def light_mass(self) -> float:
        return float(self.source[self.light].sum())

    @property
    def mass(self) -> np.ndarray:
        """P_g of the heavy types, then of the pool if there is one: the rows of the linear program."""
        heavy = self.sizes * self.probabilities
        return np.append(heavy, self.light_mass) if len(self.light) else heavy


def types_of(source: np.ndarray) -> list[np.ndarray]:
    """The symbols of each distinct probability, from the most probable down."""
    order = np.argsort(-source, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(source[order])) + 1)


def split_at(source: np.ndarray, patterns: int, heavy: int | None = None) -> Split:
    """Keep the most probable types while their counts have at most `patterns` combinations (and at most `heavy`)."""
    groups = types_of(source)
    separate, combinations = 0, 1
    for group in groups[:heavy]:
        combinations *= len(group) + 1
        if combinations > patterns:
            break
        separate += 1
    pooled = groups[separate:]
    light = np.concatenate(pooled) if pooled else np.zeros(0, dtype=np.int64)
    return Split(source, tuple(groups[:separate]), light)


def combinations_of(split: Split) -> int:
    """How many count patterns the heavy types have."""
    return math.prod(len(group) + 1 for group in split.members)


def outer_sum(tables: list[np.ndarray]) -> np.ndarray:
    """f_1[j_1] + f_2[j_2] + ... for all patterns (j_1, j_2, ...), the last index running fastest."""
    total = np.zeros(1)
    for table in tables:
        total = (total[:, None] + table[None, :]).ravel()
    return total


# From posteriors over types back to posteriors over symbols, by rotation.
#
# A recipe holds how many members of a type are raised. Put the members on a circle of length one and turn a window:
# averaged over the rotation u every member is raised equally often, as the linear program over types assumed. Between
# two breakpoints the raised set is constant, so a posterior of types becomes at most 2|X| posteriors of symbols, each
# with its arc as weight.
#
# Sets are raised in two ways. By membership: symbol i with phase phi_i is raised while u - phi_i lies in [0, share):
# counts of a type stay exact. By coverage (lift bounds): symbol i is an arc as long as its mass, and its lift grows
# with the part of the arc inside the window: the mass of the window stays exact, one symbol is between the bounds.
# Coverage is linear in u between breakpoints, so its average over an arc is that of the two ends, where the posterior
# is a vertex.


# Points of the circle that are closer than this differ by rounding only.
_SAME = 1e-12


@dataclass(frozen=True)
class Recipe:
    """A posterior over types: lifts `low` and `high`, `counts[g]` raised members of each heavy type.

    Attributes:
        light: the share of the pool that is raised.
        lift: that of the member between the bounds, if there is one.
        between: its heavy type, or None.
        windowed: raise the pool by coverage instead of membership.
    """

    low: float
    high: float
    counts: np.ndarray = field(repr=False)
    light: float = 0.0
    lift: float = 1.0
    between: int | None = None
    windowed: bool = False


@dataclass(frozen=True)
class _Ring:
    """Symbols on the circle: where each begins, how long it is, and how long the window is."""

    symbols: np.ndarray
    start: np.ndarray
    length: np.ndarray
    window: float


def unroll(recipe: Recipe, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """(lifts (n, X), weights (n,) of total one up to rounding) for one recipe."""
    base = np.full(len(split.source), recipe.low)
    member, cover = [], []
    for g, symbols in enumerate(split.members):
        n, raised = len(symbols), float(recipe.counts[g])
        ring = _Ring(symbols, np.arange(n) / n, np.full(n, 1.0 / n), raised / n)
        if recipe.between == g:
            extra = (recipe.lift - recipe.low) / (recipe.high - recipe.low)
            cover.append(_Ring(symbols, ring.start, ring.length, (raised + extra) / n))
        elif 0 < raised < n:
            member.append(ring)
        elif raised == n:
            base[symbols] = recipe.high
    if len(split.light):
        symbols = split.light
        if recipe.light in (0.0, 1.0):
            base[symbols] = recipe.high if recipe.light else recipe.low
        else:
            length = split.source[symbols] / split.light_mass
            ring = _Ring(symbols, np.concatenate([[0.0], np.cumsum(length)[:-1]]), length, recipe.light)
            (cover if recipe.windowed else member).append(ring)
    rows, weights = _turn(base, recipe, member, cover)
    # The mass of the raised set varies as whole symbols come and go: each row is a posterior for itself.
    totals = rows @ split.source
    return rows / totals[:, None], weights * totals


def _turn(base: np.ndarray, recipe: Recipe, member: list[_Ring], cover: list[_Ring]) -> tuple[np.ndarray, np.ndarray]:
    """The posteriors over one full turn; membership and coverage turn apart and are then laid side by side.

    Any coupling of the two keeps both averages; this one has no more rows than both have together.
    """
    raised, arcs = _member_states(member)
    parts, shares = _cover_states(cover)
    cuts = np.unique(np.append(np.cumsum(arcs)[:-1], np.append(np.cumsum(shares)[:-1], [0.0, 1.0])))
    cuts = np.append(cuts[:-1][np.diff(cuts) > _SAME], 1.0)
    middle = 0.5 * (cuts[:-1] + cuts[1:])
    rows = np.tile(base, (len(middle), 1))
    width = recipe.high - recipe.low
    for rings, states, weights in ((member, raised, arcs), (cover, parts, shares)):
        state = np.searchsorted(np.cumsum(weights)[:-1], middle)
        for ring, table in zip(rings, states, strict=True):
            rows[:, ring.symbols] = recipe.low + width * table[state]
    return rows, np.diff(cuts)


def _arcs(breakpoints: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(begin, length) of the arcs between breakpoints; arcs that only rounding made are left out."""
    points = np.unique(np.concatenate([np.zeros(1), *breakpoints]) % 1.0)
    arcs = np.diff(np.append(points, 1.0))
    return points[arcs > _SAME], arcs[arcs > _SAME] / arcs[arcs > _SAME].sum()


def _member_states(rings: list[_Ring]) -> tuple[list[np.ndarray], np.ndarray]:
    """(for each ring which symbols are raised on each arc, the arcs)."""
    if not rings:
        return [], np.ones(1)
    points, arcs = _arcs([np.append(ring.start, ring.start + ring.window) for ring in rings])
    middle = points + 0.5 * arcs
    return [((middle[:, None] - ring.start) % 1.0 < ring.window).astype(np.float64) for ring in rings], arcs


def _cover_states(rings: list[_Ring]) -> tuple[list[np.ndarray], np.ndarray]:
    """(for each ring how far each symbol is raised at each breakpoint, half the arcs on both sides)."""
    if not rings:
        return [], np.ones(1)
    if all(len(ring.symbols) == 1 for ring in rings):  # nothing turns
        return [np.array([[ring.window]]) for ring in rings], np.ones(1)
    points, arcs = _arcs([np.append(ring.start, ring.start - ring.window) for ring in rings])
    return [_covered(points, ring) for ring in rings], 0.5 * (arcs + np.roll(arcs, 1))


def _covered(u: np.ndarray, ring: _Ring) -> np.ndarray:
    """The part of each symbol's arc inside the window [u, u + window), on the circle."""
    inside = np.zeros((len(u), len(ring.symbols)))
    for turn in (-1.0, 0.0, 1.0):
        begin = ring.start[None, :] + turn
        overlap = np.minimum(begin + ring.length, u[:, None] + ring.window) - np.maximum(begin, u[:, None])
        inside += np.maximum(overlap, 0.0)
    part = inside / ring.length
    # Ends of arcs and window meet at breakpoints up to rounding: a whole arc is raised, or none of it.
    part[part < _SAME] = 0.0
    return np.where(part > 1.0 - _SAME, 1.0, part)


# The program over posteriors, and its rounds with a pricer: a = D(q || p), the most of which is looked for, and b = 0.

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
