"""Funnel pricing for any S, proved: the least value of f(q) = -H(Tq) + lambda H(q) - nu.q, by boxes of posteriors.

The search shows that no minimiser has f <= F, best box first, or ends with the least bound of the boxes left. `F` is
what is aimed at, or a little below the least value known. Each box is tightened by what holds at a global minimiser
(`box_steps`: its stationarity is what disposes of most of the simplex) and halved in the symbol whose chord loses most,
or divided into q_x = 0 and q_x >= gap.

Columns of T that are equal but for rounding are one symbol: f is concave along the exchange of two of them, so some
minimiser has all of it on the one of the higher price.
"""

import ctypes
import heapq
from itertools import pairwise

import numpy as np

from jaxpriv._runtime import native
from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv._runtime.resources import processors
from jaxpriv.funnels.pricing._base import AbstractPricer, Priced, distinct, on_all_cores
from jaxpriv.funnels.pricing.box_steps import Boxes, Search, stepped
from jaxpriv.funnels.pricing.equal_symbols import classes
from jaxpriv.funnels.pricing.shapes import AbstractShape, Entropy, Lagrangian

_EPS = float(np.finfo(np.float64).eps)
# Boxes divided at a time, and numbers (boxes times symbols times S) below which one thread does them all.
_BATCH, _SHARED = 64, 20_000
# Bytes of boxes that wait at most; then those closest to being closed go first, which adds few.
_MEMORY = 600_000_000
# Columns that agree to this (relative) are one symbol; -H(Tq) changes by less than twice that times 1 + ln S.
_EQUAL = 1e-13
# Where a violator of the aim is known, so many boxes more are divided for others, and for a bound: as many again as
# before it, at least this number.
_EXTRA = 4000
# F is below the least value known by this share of what that is below the aim.
_BELOW = 0.25
# Rounding is not much less than this.
_FINEST = 1e-12
# Points kept for the descents at the end, steps of these, and the mass that a descent has lost.
_POINTS, _STEPS, _TRACE = 256, 60, 1e-12
# A relaxation ends at a share of what is left to F, and F falls with the values found: relaxed so often at most.
_AGAIN = 10


class BoxFunnelPricer(AbstractPricer):
    """min_q phi(Tq) + lambda H(q) - nu.q for T = `conditional` (S, X), lambda >= 0; phi(r) = -H(r) if not given.

    Args:
        conditional: T = P(S|X), columns sum to one.
        tolerance: without an aim the bound is at most this far below the minimum (nats), unless `budget` ran out.
        budget: boxes looked at in one search, times the entries of T.
        shape: phi.
    """

    def __init__(
        self,
        conditional: np.ndarray,
        tolerance: float = 1e-8,
        budget: int = 200_000_000,
        shape: AbstractShape | None = None,
    ):
        self._conditional, self._tolerance = conditional, tolerance
        self._budget = max(1000, budget // conditional.size)
        self._shape = Entropy(len(conditional)) if shape is None else shape
        # What columns that are not quite equal change of phi is known of the entropy.
        self._classes = classes(conditional, _EQUAL if shape is None else 0.0)

    def price(
        self, prices: np.ndarray, lam: float, count: int, clock: Clock = ENDLESS, aim: float | None = None
    ) -> Priced:
        if not (lam >= 0 and np.isfinite(prices).all()):
            raise ValueError("lambda must be >= 0 and prices finite")
        best = np.array([group[np.argmax(prices[group])] for group in self._classes])
        symbols = np.ascontiguousarray(self._conditional.T[best])
        lagrangian = Lagrangian(self._shape, symbols, prices[best], lam)
        run = _BoxSearch(lagrangian, self._tolerance, aim)
        run.go(self._budget, clock)
        private = symbols.shape[1]
        size = 3.0 + abs(self._shape.least) + lam * np.log(len(prices)) + float(np.abs(prices).max())
        slack = 8 * _EPS * (sum(symbols.shape) + 16) * size
        if len(best) < len(prices):
            slack += 4 * _EQUAL * (1 + np.log(private))
        points = descended(lagrangian, run.points())
        posteriors = np.zeros((len(points), len(prices)))
        posteriors[:, best] = points
        return Priced(run.bound - slack, not run.left, posteriors[:count], run.done * symbols.size)


class _BoxSearch:
    """One search: boxes that wait, the least value known, and what is proved."""

    def __init__(self, lagrangian: Lagrangian, tolerance: float, aim: float | None):
        shape, symbols, prices, _ = lagrangian
        size, private = symbols.shape
        self._lagrangian, self._size = lagrangian, size
        self._points, self._values = [np.eye(size)], [lagrangian.at(np.eye(size))]
        self.value = float(self._values[0].min())
        if aim is not None:
            tolerance = max(_FINEST, min(tolerance, _BELOW * abs(aim)))
        self._tolerance, self._aim = tolerance, np.inf if aim is None else aim
        self._close = 0.1 * tolerance
        self.left, self._stuck = False, np.inf
        self._heap: list[tuple[float, int]] = []
        width = 3 * size + 2 * private
        self._most = max(4 * _BATCH, _MEMORY // (8 * width))
        self._boxes = Boxes(
            np.empty((0, width)), np.empty(0), np.empty(0), np.empty(0, dtype=np.int64), np.empty(0), np.empty(0)
        )
        self._free: list[int] = []
        root = np.zeros((1, width))
        root[0, size : 2 * size], root[0, 2 * size : 3 * size] = 1.0, 1.0 / size
        root[0, 3 * size + private :] = 1.0
        self._add(root, np.array([shape.least - float(prices.max()) - 1e-9]))
        self.done = 1

    @property
    def level(self) -> float:
        """F."""
        if self.value >= self._aim:
            return self._aim
        missed = self._aim - self.value
        return self.value - max(self._tolerance, _BELOW * missed if np.isfinite(missed) else 0.0)

    @property
    def bound(self) -> float:
        """No q has a smaller f."""
        least = min((bound for bound, _ in self._heap), default=np.inf)
        return min(self.level, self._stuck, least)

    def go(self, budget: int, clock: Clock) -> None:
        """Divide boxes until none is left; `left` is True where some are."""
        size, enough = self._size, budget
        while self._heap:
            if self.done > enough or clock.expired():
                self.left = True
                break
            numbers, bounds = self._taken()
            if not len(numbers):
                continue
            rows, row = self._boxes.rows[np.concatenate([numbers, numbers])], np.arange(len(numbers))
            symbol = self._boxes.symbol[numbers]
            rows[row, size + symbol] = self._boxes.cut[numbers]
            rows[len(numbers) + row, symbol] = self._boxes.gap[numbers]
            self._add(rows, np.concatenate([bounds, bounds]))
            self.done += len(rows)
            if self.value < self._aim < np.inf:
                enough = min(enough, self.done + max(_EXTRA, self.done))
        self.left |= self._stuck < self.level - 2 * self._close

    def points(self) -> np.ndarray:
        """The best points seen, (n, X)."""
        points, values = np.vstack(self._points), np.concatenate(self._values)
        return points[np.argsort(values, kind="stable")[:_POINTS]]

    def _taken(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and bounds of the boxes that are divided next; those that are closed by now are dropped."""
        level, numbers, bounds = self.level, [], []
        if len(self._heap) > self._most:
            last = sorted(self._heap)
            self._heap, chosen = last[:-_BATCH], last[-_BATCH:]
        else:
            chosen = [heapq.heappop(self._heap) for _ in range(min(_BATCH, len(self._heap)))]
        for bound, number in chosen:
            self._free.append(number)
            if bound <= level:
                numbers.append(number)
                bounds.append(bound)
        return np.array(numbers, dtype=int), np.array(bounds)

    def _add(self, rows: np.ndarray, bounds: np.ndarray, again: int = _AGAIN) -> None:
        """Step the boxes `rows`, those that cannot be divided `again` times, and keep what is left."""
        size, search = self._size, Search(self._lagrangian, self.level, self._close)
        boxes = _stepped(search, rows, bounds)
        good = np.flatnonzero(boxes.values <= min(self.value, self._aim) + 10 * self._close)
        if len(good):
            q = boxes.rows[good, 2 * size : 3 * size]
            self._points.append(q / q.sum(axis=1, keepdims=True))
            self._values.append(boxes.values[good])
            self.value = min(self.value, float(boxes.values[good].min()))
            if sum(map(len, self._values)) > 8 * _POINTS:
                points, values = np.vstack(self._points), np.concatenate(self._values)
                best = np.argsort(values, kind="stable")[:_POINTS]
                self._points, self._values = [points[best]], [values[best]]
        open_ = boxes.bounds <= self.level
        final = np.flatnonzero(open_ & (boxes.symbol < 0))
        if len(final) and again:  # F may have fallen to what was found in them
            self._add(boxes.rows[final], boxes.bounds[final], again - 1)
        elif len(final):
            self._stuck = min(self._stuck, float(boxes.bounds[final].min()))
        keep = np.flatnonzero(open_ & (boxes.symbol >= 0))
        if len(self._free) < len(keep):
            self._grow(len(keep))
        numbers = [self._free.pop() for _ in keep]
        for name in ("rows", "symbol", "cut", "gap"):
            getattr(self._boxes, name)[numbers] = getattr(boxes, name)[keep]
        for bound, number in zip(boxes.bounds[keep].tolist(), numbers, strict=True):
            heapq.heappush(self._heap, (bound, number))

    def _grow(self, more: int) -> None:
        boxes, capacity = self._boxes, len(self._boxes.rows)
        extra = max(more, capacity, 256)

        def longer(array: np.ndarray) -> np.ndarray:
            return np.concatenate([array, np.empty((extra, *array.shape[1:]), dtype=array.dtype)])

        self._boxes = Boxes(
            longer(boxes.rows), boxes.bounds, boxes.values, longer(boxes.symbol), longer(boxes.cut), longer(boxes.gap)
        )
        self._free += range(capacity, capacity + extra)


def _stepped(search: Search, rows: np.ndarray, bounds: np.ndarray) -> Boxes:
    """`stepped`, by the kernel where there is one: `rows` and `bounds` are then overwritten."""
    shape, symbols, prices, lam = search.lagrangian
    kernel = native.on_host("jaxpriv_boxes") if isinstance(shape, Entropy) else None
    if kernel is None:
        return stepped(search, rows, bounds)
    count = len(rows)
    boxes = Boxes(rows, bounds, np.empty(count), np.empty(count, dtype=np.int64), np.empty(count), np.empty(count))
    prices = np.ascontiguousarray(prices)

    def part(ends: tuple[int, int]) -> int:
        begin, end = ends
        arrays = (rows, bounds, boxes.values, boxes.symbol, boxes.cut, boxes.gap)
        return kernel(
            *(ctypes.c_long(number) for number in (end - begin, *symbols.shape)),
            *(ctypes.c_void_p(array.ctypes.data) for array in (symbols, prices)),
            *(ctypes.c_double(number) for number in (lam, search.level, search.close)),
            *(ctypes.c_void_p(array[begin:].ctypes.data) for array in arrays),
        )

    pieces = min(processors(), count) if count * symbols.size >= _SHARED else 1
    ends = np.linspace(0, count, pieces + 1).astype(int).tolist()
    done = on_all_cores(part, list(pairwise(ends)))
    if not all(done):
        raise MemoryError("no memory for one box")
    return boxes


def descended(lagrangian: Lagrangian, points: np.ndarray) -> np.ndarray:
    """Distinct points below `points` (n, X), best first, by the steps q <- q exp( -t (df/dq) ).

    For the entropy t = 1 never raises f; where a step does, t is halved.
    """
    shape, symbols, prices, lam = lagrangian
    with np.errstate(divide="ignore"):
        logs = np.log(points)
    length = np.ones(len(points))[:, None]
    best = lagrangian.at(points)
    for _ in range(_STEPS):
        plane = shape.gradient(np.maximum(points @ symbols, 1e-300))[0]
        with np.errstate(over="ignore", invalid="ignore"):  # a step that is no number lowers nothing
            trial = (1 + lam * length) * logs + length * (prices - plane @ symbols.T)
            trial -= trial.max(axis=1, keepdims=True)
            trial -= np.log(np.exp(trial).sum(axis=1, keepdims=True))
            value = lagrangian.at(np.exp(trial))
        lower = (value <= best)[:, None]
        logs, best = np.where(lower, trial, logs), np.minimum(value, best)
        points, length = np.exp(logs), np.where(lower, length, 0.5 * length)
    posteriors = np.where(points > _TRACE, points, 0.0)
    posteriors /= posteriors.sum(axis=1, keepdims=True)
    return distinct(posteriors[np.argsort(lagrangian.at(posteriors), kind="stable")])
