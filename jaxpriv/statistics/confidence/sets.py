"""Sets in which a distribution lies, given counts of it, by the extremes of linear functions over them.

A set of distributions P on k symbols is known by its support function: `upper(c)` is the largest and `lower(c)` the
smallest sum_i c_i P_i in it. Everything is batched: B sets at once, and m functionals c that are common to all of them,
(m, k), or each set's own, (B, m, k); the result is (B, m). Symbols that are not `possible` have no mass in any
distribution of the set. Results are rounded outwards.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.special import xlogy

from jaxpriv._runtime.validation import truth_array
from jaxpriv.errors import InputError


def possible_array(value: object, counts: np.ndarray) -> np.ndarray:
    """`(s, x)` bool: which pairs the population can have at all; None: every pair.

    Raises `InputError` if the shape differs from that of the counts, entries are no truth values, a private
    symbol has no possible pair, or a pair that was counted is declared impossible.
    """
    shape = counts.shape[-2:]
    if value is None:
        return np.ones(shape, bool)
    array = truth_array(value, "possible")
    if array.shape != shape:
        raise InputError(f"possible has shape {array.shape}, but the counts have shape {shape}")
    if not array.any(axis=1).all():
        raise InputError(f"possible: row {int(np.argmin(array.any(axis=1)))} has no possible pair")
    seen = (counts > 0).any(axis=tuple(range(counts.ndim - 2)))
    contradictions = np.argwhere(seen & ~array).tolist()
    if contradictions:
        s, x = contradictions[0]
        raise InputError(f"possible[{s}, {x}] means that the pair cannot occur, but counts[{s}, {x}] is positive")
    return array


# The lower and the upper ends of intervals.
Interval: TypeAlias = tuple[np.ndarray, np.ndarray]


# Numbers in one intermediate array.
_BLOCK = 2**22
# Of a bisection in ln u over about 22: the bound is flat at its optimum, so 3e-4 in ln u is 1e-7 of the width.
_STEPS = 16
# Outward rounding of sums of products of probabilities, relative to the largest factor: 900 units of 1.1e-16. A plain
# sum of nonnegative terms errs by a unit of the total for each term at most; sums along the last axis of an array are
# pairwise, with an error that grows with the logarithm of their number.
ROUND = 1e-13


class AbstractConfidenceSet(ABC):
    """B sets of distributions on k symbols."""

    possible: np.ndarray  # (B, k) bool

    def upper(self, weights: np.ndarray) -> np.ndarray:
        """max over the set of sum_i weights_i P_i, (B, m)."""
        weights = weights.reshape(-1, *weights.shape[-2:])  # those that are common to all sets on an axis of length 1
        step = max(1, _BLOCK // self.possible.size)
        parts = (weights[:, start : start + step] for start in range(0, weights.shape[1], step))
        values = [np.minimum(self._upper(part) + ROUND * np.abs(part).max(axis=-1), self.top(part)) for part in parts]
        return np.concatenate(values, axis=1)

    def lower(self, weights: np.ndarray) -> np.ndarray:
        """min over the set of sum_i weights_i P_i, (B, m)."""
        return -self.upper(-weights)

    def top(self, weights: np.ndarray) -> np.ndarray:
        """The largest weight of a possible symbol, (B, m): what no distribution exceeds."""
        return np.where(self.possible[:, None], weights, -np.inf).max(axis=-1)

    @property
    @abstractmethod
    def variation(self) -> np.ndarray:
        """The largest total variation between the frequencies and a distribution in the set, (B,)."""

    @abstractmethod
    def _upper(self, weights: np.ndarray) -> np.ndarray:
        """`upper` for a few functionals, (1, m, k) or (B, m, k), before rounding."""


def _sorted(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """`values` (B, k) in each functional's order, (B, m, k)."""
    return np.take_along_axis(values[:, None], order, axis=-1)


@dataclass(frozen=True, eq=False)
class L1Ball(AbstractConfidenceSet):
    """{ P : sum_i |P_i - centre_i| <= radius }: mass radius/2 moves from the smallest weights to the largest."""

    centre: np.ndarray  # (B, k)
    radius: np.ndarray  # (B,)
    possible: np.ndarray

    @property
    def variation(self) -> np.ndarray:
        return 0.5 * self.radius

    def _upper(self, weights: np.ndarray) -> np.ndarray:
        order = np.argsort(weights, axis=-1)
        mass, value = _sorted(self.centre, order), np.take_along_axis(weights, order, axis=-1)
        before = np.cumsum(mass, axis=-1) - mass
        moved = np.clip(0.5 * self.radius[:, None, None] - before, 0.0, mass)
        return ((mass - moved) * value).sum(axis=-1) + moved.sum(axis=-1) * self.top(weights)


@dataclass(frozen=True, eq=False)
class DivergenceBall(AbstractConfidenceSet):
    """{ P : D(centre || P) <= radius }.

    For any level v >= max_i c_i and any P in the ball, by the inequality of the arithmetic and the geometric mean,

        v - c.P >= sum_i centre_i (P_i/centre_i)(v - c_i) >= e^-D(centre||P) prod_i (v - c_i)^centre_i,

    so c.P <= v - e^-radius prod_i (v - c_i)^centre_i for every v, convex in v and attained at the best one. The
    search for v is a bisection; wherever it stops the bound holds.
    """

    centre: np.ndarray
    radius: np.ndarray
    possible: np.ndarray

    @property
    def variation(self) -> np.ndarray:
        """Pinsker's inequality."""
        return np.minimum(np.sqrt(0.5 * self.radius), 1.0)

    def _upper(self, weights: np.ndarray) -> np.ndarray:
        top = self.top(weights)
        below = np.maximum(top[..., None] - weights, 0.0)  # (B, m, k)
        centre = self.centre[:, None, :]
        factor = np.exp(-self.radius)[:, None]
        if not factor.any():  # every distribution is in the ball
            return top
        counted = np.where(centre > 0, below, 0.0)
        span = counted.max(axis=-1)
        scale = np.where(span > 0, span, 1.0)
        relative = counted / scale[..., None]  # in units of the span: inverses of tiny weights would overflow

        def product(log_u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            u = np.exp(log_u)
            level = u[..., None] + relative
            return u, np.exp((centre * np.log(level)).sum(axis=-1)), (centre / level).sum(axis=-1)

        # Beyond u = scale/(2 sqrt(r)) the bound increases: the ratio of the arithmetic mean of the levels to the
        # harmonic one is at most 1 + scale^2/(4u^2) (Kantorovich), below e^r.
        radius = np.maximum(self.radius, 1e-30)[:, None]
        low = np.full(top.shape, -20.0)
        high = np.broadcast_to(np.log(0.5 / np.sqrt(radius) + 1.0), top.shape)
        for _ in range(_STEPS):
            middle = 0.5 * (low + high)
            _, geometric, inverse = product(middle)
            falling = factor * geometric * inverse > 1
            low, high = np.where(falling, middle, low), np.where(falling, high, middle)
        u, geometric, _ = product(high)
        best = top + scale * (u - factor * geometric + ROUND * u)
        # For the level v = max_i c_i: the bound is max_i c_i itself if that symbol was seen.
        return np.minimum(best, top - factor * np.exp(xlogy(centre, below).sum(axis=-1)))


@dataclass(frozen=True, eq=False)
class Box(AbstractConfidenceSet):
    """{ P : least_i <= P_i <= most_i }: the mass that is free goes to the largest weights first."""

    least: np.ndarray  # (B, k)
    most: np.ndarray  # (B, k)
    possible: np.ndarray

    @property
    def variation(self) -> np.ndarray:
        return np.ones(len(self.least))

    def _upper(self, weights: np.ndarray) -> np.ndarray:
        order = np.argsort(-weights, axis=-1)
        least, most = _sorted(self.least, order), _sorted(self.most, order)
        value = np.take_along_axis(weights, order, axis=-1)
        return fill(least, most, value)


def fill(least: np.ndarray, most: np.ndarray, value: np.ndarray) -> np.ndarray:
    """sum_i value_i P_i with least <= P <= most, sum P = 1, filled in the order given, along the last axis.

    Where the limits leave mass over (they contradict each other: the event of probability beta) it goes to the first.
    An infinite value counts only with a positive share.
    """
    width = np.maximum(most - least, 0.0)
    free = np.maximum(1.0 - least.sum(axis=-1, keepdims=True), 0.0)
    taken = np.clip(free - (np.cumsum(width, axis=-1) - width), 0.0, width)
    shares = least + taken
    shares[..., 0] += np.maximum(free[..., 0] - taken.sum(axis=-1), 0.0)
    return (shares * np.where(shares > 0, value, 0.0)).sum(axis=-1)


def chord_sum(least: np.ndarray, most: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """A bound on sup sum_i f_i(P_i) over a box of distributions, along the last axis, for convex f_i.

    `function` has the values f_i of an array: each f_i lies below its chord between the ends, and the largest sum of
    the chords is exact. The error is of second order in the widths.
    """
    width, at_least, at_most = most - least, function(least), function(most)
    slope = np.where(width > 0, (at_most - at_least) / np.where(width > 0, width, 1.0), 0.0)
    order = np.argsort(-slope, axis=-1)
    least, most, slope, start = (np.take_along_axis(v, order, axis=-1) for v in (least, most, slope, at_least))
    value = fill(least, most, slope) + (start - least * slope).sum(axis=-1)
    return value + ROUND * (1 + np.abs(at_least).max(axis=-1) + np.abs(at_most).max(axis=-1))


@dataclass(frozen=True, eq=False)
class Intersection(AbstractConfidenceSet):
    """Distributions that lie in every one of the sets; bounded by the tightest of their bounds."""

    sets: tuple[AbstractConfidenceSet, ...]

    @property
    def possible(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.sets[0].possible

    @property
    def variation(self) -> np.ndarray:
        return np.minimum.reduce([confidence_set.variation for confidence_set in self.sets])

    def _upper(self, weights: np.ndarray) -> np.ndarray:
        return np.minimum.reduce([confidence_set.upper(weights) for confidence_set in self.sets])
