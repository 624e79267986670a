"""The linear program over posteriors, solved by column generation with a proved upper bound.

A mechanism is a measure m over posteriors q_n with lifts t_n = q_n/p, sum_n m_n q_n = p. With
D_n = D(q_n || p), its mutual information is sum_n m_n D_n, so the best one solves

    maximise sum_n m_n D_n   subject to   sum_n m_n t_n(g) = 1 for every g,  m >= 0

(g: symbols, or groups of symbols with the mean lift of the group; P_g their mass). For ANY prices nu

    optimum <= nu.P + max_q [ D(q || p) - nu.q ]

because sum_n m_n = 1. The maximum is what a pricer computes: exactly, or from above.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxpriv._clock import ENDLESS, Clock

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Columns:
    """Posteriors: `lifts` (n, G), `values` (n,) = D(q || p) or a bound above it, `keys` that say what they are."""

    lifts: np.ndarray
    values: np.ndarray
    keys: tuple[Any, ...]

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
    count: int | None = None,
    clock: Clock = ENDLESS,
) -> PosteriorPlan:
    """Column generation from `start` (which must admit a measure) until the bound is within `gap` of the value.

    Of a value below one nat, within that fraction of it.

    Each round prices the current duals and their mean with the best ones so far: the mean damps the
    swings that plain column generation is known for, and any prices give a valid bound.
    """
    count = count or 2 * len(mass)
    columns, upper, centre, done = start, np.inf, None, 0
    while True:
        weights, prices, value = best_plan(columns, mass)
        found = []
        if clock.expired():
            used = np.flatnonzero(weights > 0)
            return PosteriorPlan(columns.take(used), weights[used], value, upper)
        for candidate in [prices] if centre is None else [prices, 0.5 * (prices + centre)]:
            highest, extra = pricer.price(candidate, count)
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
