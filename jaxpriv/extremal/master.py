"""The linear program over posteriors, solved by column generation with a proved upper bound.

A mechanism is a measure m over posteriors q_n with lifts t_n = q_n/p, sum_n m_n q_n = p. With
D_n = D(q_n || p), its mutual information is sum_n m_n D_n, so the best one solves

    maximise sum_n m_n D_n   subject to   sum_n m_n t_n(g) = 1 for every g,  m >= 0

(g: symbols, or groups of symbols with the mean lift of the group; P_g their mass). For ANY prices nu

    optimum <= nu.P + max_q [ D(q || p) - nu.q ]

because sum_n m_n = 1. The maximum is what a pricer computes: exactly, or from above.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from jaxpriv._clock import ENDLESS, Clock

# Symbols of equal probability are interchangeable, and rare ones nearly divisible.
#
# Averaging a mechanism over the permutations that keep p changes neither its mutual information nor its limits, so
# symbols of the same probability form one type with n_g members, and a posterior is described by HOW MANY members are
# raised: n_g + 1 cases where subsets number 2^n_g.
#
# A split keeps the most probable types exact and pools the rest into one divisible "fluid". The fluid can do whatever
# the pooled symbols can, so its optimum is an upper bound; a rotation (`ratio_pricing`) turns its posteriors into ones
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
    kept, combinations = 0, 1
    for group in groups[:heavy]:
        combinations *= len(group) + 1
        if combinations > patterns:
            break
        kept += 1
    pooled = groups[kept:]
    light = np.concatenate(pooled) if pooled else np.zeros(0, dtype=np.int64)
    return Split(source, tuple(groups[:kept]), light)


def combinations_of(split: Split) -> int:
    """How many count patterns the heavy types have."""
    return math.prod(len(group) + 1 for group in split.members)


def outer_sum(tables: list[np.ndarray]) -> np.ndarray:
    """f_1[j_1] + f_2[j_2] + ... for all patterns (j_1, j_2, ...), the last index running fastest."""
    total = np.zeros(1)
    for table in tables:
        total = (total[:, None] + table[None, :]).ravel()
    return total


_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Columns:
    """Posteriors: `lifts` (n, G), `values` (n,) = D(q || p) or a bound above it, `keys` that identify them."""

    lifts: np.ndarray
    values: np.ndarray
    keys: tuple[Hashable, ...]

    def __add__(self, other: "Columns") -> "Columns":
        return Columns(
            np.vstack([self.lifts, other.lifts]),
            np.concatenate([self.values, other.values]),
            self.keys + other.keys,
        )

    def take(self, index: np.ndarray) -> "Columns":
        return Columns(self.lifts[index], self.values[index], tuple(self.keys[i] for i in index))


class AbstractPosteriorSet(ABC):
    """Knows all posteriors that are allowed."""

    @abstractmethod
    def price(self, prices: np.ndarray, count: int) -> tuple[float, Columns]:
        """(an upper bound on max_q D(q||p) - nu.q, at most `count` good posteriors), for nu = `prices` (G,)."""


@dataclass(frozen=True)
class PosteriorPlan:
    """A measure over posteriors and a proved bound: `columns` and `weights` > 0, `value` = weights . values."""

    columns: Columns
    weights: np.ndarray
    value: float
    upper_bound: float


def best_plan(columns: Columns, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """(weights, prices, value) of the program over the given columns only; `mass` (G,) is P_g.

    Raises ArithmeticError if the LP backend fails: `columns` are to average to one somewhere.
    """
    from scipy.optimize import linprog  # costs a third of a second: imported where needed

    scale = float(np.max(columns.values, initial=0.0)) or 1.0
    result = linprog(
        -columns.values / scale,
        A_eq=columns.lifts.T,
        b_eq=np.ones(len(mass)),
        bounds=(0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if result.status != 0:
        raise ArithmeticError(f"the linear program over posteriors failed: {result.message}")
    prices = -scale * result.eqlin.marginals / mass
    weights = np.asarray(result.x)
    basic = np.flatnonzero(weights > 1e-11)
    # The backend meets its equations to a tolerance only: solve the active ones once more, both ways.
    active = columns.lifts[basic]
    polished = np.linalg.lstsq(active.T, np.ones(len(mass)), rcond=None)[0]
    if polished.min(initial=0.0) > -1e-13 and np.abs(active.T @ polished - 1.0).max() < 1e-12:
        weights = np.zeros(len(weights))
        weights[basic] = np.maximum(polished, 0.0)
    prices = prices + np.linalg.lstsq(active * mass, columns.values[basic] - (active * mass) @ prices, rcond=None)[0]
    return weights, prices, float(weights @ columns.values)


def proved_bound(prices: np.ndarray, mass: np.ndarray, highest: float) -> float:
    """nu.P + max_q [D - nu.q], rounded up by more than what float64 sums of this size can lose."""
    spread = prices - prices.min()  # a constant in nu cancels, as sum P = sum q = 1
    rounding = (
        8.0 * (len(mass) + 8) * _EPS * (float(np.abs(spread) @ mass) + float(np.abs(prices).max()) + abs(highest))
    )
    return float(prices @ mass) + highest + rounding


def generate_columns(
    start: Columns,
    mass: np.ndarray,
    pricer: AbstractPosteriorSet,
    *,
    gap: float,
    rounds: int = 200,
    clock: Clock = ENDLESS,
) -> PosteriorPlan:
    """Column generation from `start` (which must admit a measure) until the bound is within `gap` of the value.

    Of a value below one nat, within that fraction of it.

    Each round prices the current duals and their mean with the best ones so far: the mean damps the
    swings that plain column generation is known for, and any prices give a valid bound.
    """
    columns, upper, centre, done = start, np.inf, None, 0
    while True:
        weights, prices, value = best_plan(columns, mass)
        found = []
        if clock.expired():
            used = np.flatnonzero(weights > 0)
            return PosteriorPlan(columns.take(used), weights[used], value, upper)
        for candidate in [prices] if centre is None else [prices, 0.5 * (prices + centre)]:
            highest, extra = pricer.price(candidate, 2 * len(mass))
            bound = proved_bound(candidate, mass, highest)
            if bound < upper:
                upper, centre = bound, candidate
            found.append(extra)
        done += 1
        clock.report("column-generation", done, value, upper)
        reduced = [extra.values - (extra.lifts * mass) @ prices for extra in found]
        tiny = 1e-12 * (1e-3 + abs(value))
        fresh = [
            extra.take(np.flatnonzero(gain > tiny))
            for extra, gain in zip(found, reduced, strict=True)
            if np.any(gain > tiny)
        ]
        if upper - value <= gap * min(1.0, upper) or done >= rounds or not fresh:
            used = np.flatnonzero(weights > 0)
            return PosteriorPlan(columns.take(used), weights[used], value, upper)
        for extra in fresh:
            columns = columns + extra
