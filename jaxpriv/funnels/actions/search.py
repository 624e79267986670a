"""The least value of f(q) = phi(q) + lambda H(q) - nu.q over posteriors of X, proved, for phi of finitely many actions.

A search over cells l <= q <= u of the simplex shows that no q has f(q) < F, best cell first. What it uses:

* Relaxation. phi(q) >= mu.Cq for weights mu of the actions (which add up to 1, or lie in [0, 1] where each action is
  taken on its own), and H lies above its chords over [l, u]. What is left is linear in q, with a knapsack for its least
  value: a bound for any mu. Subgradient steps look for a good mu, with the lengths of Polyak for the level F; where
  they end close to F on either side, a linear program has the best one.
* Stationarity. At a global minimiser of value m some mu of the best actions satisfies
  lambda ln q_x = mu.C_x - nu_x - m on its support. So with m < F a symbol is absent or

      q_x > exp( (least mu.C_x - nu_x - F)/lambda )

  over the mu that the cell leaves, and q_x < exp( (largest mu.C_x - nu_x - m0)/lambda ) with m0 the bound of the root.
* Vertices. Some global minimiser is a vertex of a region (`vertices`): it has no more symbols than actions that are as
  good as the best (each on its own: one more than actions that gain nothing).
* Reduced costs. A symbol of reduced cost c has q_x <= l_x + (F - bound)/c.

A cell is divided at the symbol whose chord loses most: into q_x = 0 and q_x at least that bound, or in two.
"""

from dataclasses import dataclass, fields

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv.funnels.actions.faces import least_on_faces
from jaxpriv.funnels.actions.vertices import least_linear
from jaxpriv.funnels.gains import best
from jaxpriv.funnels.pricing._base import xlogx
from jaxpriv.funnels.pricing.box_steps import knapsack

_EPS = float(np.finfo(np.float64).eps)
# Cells divided at a time.
_BATCH = 256
# Rounds of tightening of a cell; subgradient steps of a relaxation, and those of the root.
_ROUNDS, _STEPS, _ROOT = 2, 20, 400
# A step aims at F and this share of |F| more; of its length later steps take this part; the mean of the minimisers
# forgets at this rate.
_ABOVE, _SHORTER, _FORGET = 0.3, 0.7, 0.9
# A cut is at least this share of the width away from both ends.
_INSIDE = 0.1
# Sums and gains are compared with this allowance: more than the rounding of sums of some thousand numbers up to 1.
_ALLOWANCE = 1e-12
# Weights that are not allowed are taken to be this far below the others.
_OUT = 1e6
# Exponents beyond this bound no probability.
_FAR = 60.0
# Cells with no more symbols are disposed of by all their vertices.
_FEW = 4
# Cells looked at after a posterior below F was found, at least; posteriors kept.
_EXTRA, _KEPT = 2000, 40


@dataclass(frozen=True, eq=False)
class CellBatch:
    """N cells.

    Attributes:
        low, high: (N, X) l and u; a symbol with l = 0 may be absent.
        mu: (N, A) the best weights so far.
        bound: (N,) f is at least this in the cell.
        point: (N, X) about where the relaxation is least.
        least: (N, X) what q_x is at least where it is not 0.
        lost: (N, X) what the chords lose there.
    """

    low: np.ndarray
    high: np.ndarray
    mu: np.ndarray
    bound: np.ndarray
    point: np.ndarray
    least: np.ndarray
    lost: np.ndarray

    def take(self, index: np.ndarray) -> "CellBatch":
        return CellBatch(*(getattr(self, field.name)[index] for field in fields(self)))

    def __add__(self, other: "CellBatch") -> "CellBatch":
        return CellBatch(
            *(np.concatenate([getattr(self, field.name), getattr(other, field.name)]) for field in fields(self))
        )


@dataclass(frozen=True, eq=False)
class Searched:
    """Attributes:
    bound: rigorous, rounding included: f(q) >= bound for every posterior.
    closed: whether the whole simplex was looked at: the bound is then F but for rounding.
    points: (n, X) posteriors with f < F, best first.
    cells: how many were looked at.
    """

    bound: float
    closed: bool
    points: np.ndarray
    cells: int


class ActionSearch:
    """One search.

    Args:
        table: C, shape (A, X), entries of about 1 at most.
        single: whether one action is chosen; otherwise each on its own.
        prices, lam: nu, shape (X,), and lambda >= 0.
        level: F < 0.
    """

    def __init__(self, table: np.ndarray, single: bool, prices: np.ndarray, lam: float, level: float):
        self._symbols = _classes(table, prices)
        self._size = len(prices)
        self._table, self._single = np.ascontiguousarray(table[:, self._symbols]), single
        self._prices, self._lam, self._level = prices[self._symbols], lam, level
        actions, useful = self._table.shape
        size = 2.0 + float(np.abs(table).max()) * (1 if single else actions) + float(np.abs(prices).max())
        self._slack = 8 * _EPS * (actions + useful + 16) * (size + lam * (2.0 + np.log(useful)))
        if useful < self._size:
            self._slack += 2 * _EQUAL * (1 if single else actions)
        # Equations whose sides are compared: every two actions, or every action and none.
        pairs = self._table[:, None] - self._table if single else self._table[:, None]
        self._order = np.argsort(-pairs, axis=2, kind="stable")
        self._falling = np.take_along_axis(pairs, self._order, axis=2)
        self._root, self._listed = -np.inf, np.inf
        self._points: list[np.ndarray] = []
        self._values: list[np.ndarray] = []

    def go(self, budget: int, clock: Clock) -> Searched:
        """Look at about `budget` cells at most."""
        actions, useful = self._table.shape
        low, high = np.zeros((1, useful)), np.ones((1, useful))
        weights = np.zeros((1, actions)), np.ones((1, actions))
        start = np.full((1, actions), 1.0 / actions if self._single else 0.5)
        self._root = float(self._relaxed(low, high, start, weights, _ROOT)[0][0]) - self._slack
        self._note(np.eye(useful))
        waiting, done = self._tightened(low, high, start), 1
        enough = budget
        while len(waiting.bound) and done < enough and not clock.expired():
            order = np.argsort(waiting.bound, kind="stable")
            chosen, waiting = waiting.take(order[:_BATCH]), waiting.take(order[_BATCH:])
            waiting = waiting + self._tightened(*self._divided(chosen))
            done += 2 * len(chosen.bound)
            if self._points:
                enough = min(enough, max(2 * done, done + _EXTRA)) if enough == budget else enough
        bound = min(self._level, self._listed, float(waiting.bound.min(initial=np.inf))) - self._slack
        return Searched(bound, not len(waiting.bound), self._best(), done)

    def _best(self) -> np.ndarray:
        if not self._points:
            return np.empty((0, self._size))
        points, values = np.vstack(self._points), np.concatenate(self._values)
        points = points[np.argsort(values, kind="stable")[:_KEPT]]
        whole = np.zeros((len(points), self._size))
        whole[:, self._symbols] = points
        return whole

    def _note(self, points: np.ndarray) -> None:
        """Keep those below the level."""
        values = self._phi(points) - self._lam * xlogx(points).sum(axis=1) - points @ self._prices
        below = values < self._level
        if below.any():
            self._points.append(points[below])
            self._values.append(values[below])

    def _phi(self, points: np.ndarray) -> np.ndarray:
        return best(points @ self._table.T, self._single)

    def _divided(self, cells: CellBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(low, high, mu) of the two halves of every cell."""
        row = np.arange(len(cells.bound))
        symbol = np.argmax(np.where(cells.high > cells.low, cells.lost, -1.0), axis=1)
        low, high, least = (array[row, symbol] for array in (cells.low, cells.high, cells.least))
        margin = _INSIDE * (high - low)
        cut = np.clip(cells.point[row, symbol], low + margin, high - margin)
        present = (low == 0) & (least > 0)
        upper, lower = cells.high.copy(), cells.low.copy()
        upper[row, symbol] = np.where(present, 0.0, cut)
        lower[row, symbol] = np.where(present, np.minimum(least, high), cut)
        return np.vstack([cells.low, lower]), np.vstack([upper, cells.high]), np.vstack([cells.mu, cells.mu])

    def _tightened(self, low: np.ndarray, high: np.ndarray, mu: np.ndarray) -> CellBatch:
        """The cells that may hold a posterior below the level, smaller."""
        point, least, lost = np.zeros_like(low), np.zeros_like(low), np.zeros_like(low)
        cells = CellBatch(low, high, mu, np.full(len(low), -np.inf), point, least, lost)
        for _ in range(_ROUNDS):
            cells = cells.take(self._summed(cells))
            if not len(cells.bound):
                break
            cells, tied, weights = self._stationary(cells)
            remaining = self._summed(cells)
            remaining = remaining[self._unlisted(cells.take(remaining), tied[remaining])]
            cells, weights = cells.take(remaining), (weights[0][remaining], weights[1][remaining])
            if not len(cells.bound):
                break
            bound, mu, point, costs, slope, base = self._relaxed(cells.low, cells.high, cells.mu, weights, _STEPS)
            self._note(point)
            lost = -xlogx(point) - (slope * point + base)
            cells = CellBatch(cells.low, cells.high, mu, bound, point, cells.least, lost)
            left = bound < self._level
            cells, costs = cells.take(np.flatnonzero(left)), costs[left]
            missing = (self._level - cells.bound + 2 * self._slack)[:, None]
            low, high = cells.low, cells.high
            positive, cheap = costs > 0, (costs < 0) & (low > 0)
            cells.high[positive] = np.minimum(
                high, low + missing / np.where(positive, costs, 1.0) * (1 + 8 * _EPS) + 2 * _EPS
            )[positive]
            cells.low[cheap] = np.maximum(
                low, high - missing / np.where(cheap, -costs, 1.0) * (1 + 8 * _EPS) - 2 * _EPS
            )[cheap]
        return cells

    def _summed(self, cells: CellBatch) -> np.ndarray:
        """Tighten by sum q = 1, in place; which cells are not empty."""
        low, high = cells.low, cells.high
        for _ in range(2):
            np.minimum(high, 1.0 + _ALLOWANCE - (low.sum(axis=1, keepdims=True) - low), out=high)
            needed = 1.0 - _ALLOWANCE - (high.sum(axis=1, keepdims=True) - high)
            np.maximum(low, np.where(needed > 0, needed, 0.0), out=low)
        full = (low.sum(axis=1) <= 1.0 + _ALLOWANCE) & (high.sum(axis=1) >= 1.0 - _ALLOWANCE)
        return np.flatnonzero(full & (low <= high + _ALLOWANCE).all(axis=1))

    def _unlisted(self, cells: CellBatch, tied: np.ndarray) -> np.ndarray:
        """Which cells have more than a few symbols; the vertices of the others are all looked at."""
        possible = cells.high > 0
        count, rest = possible.sum(axis=1), np.ones(len(possible), dtype=bool)
        for size in range(1, _FEW + 1):
            rows = np.flatnonzero(count == size)
            if not len(rows):
                continue
            symbols = np.nonzero(possible[rows])[1].reshape(-1, size)
            table = self._table[:, symbols].transpose(1, 0, 2)
            faces = least_on_faces(table, self._single, -self._prices[symbols], self._lam, tied[rows])
            rest[rows[faces.sure]] = False
            points = np.zeros((len(rows), cells.low.shape[1]))
            np.put_along_axis(points, symbols, faces.points, axis=1)
            self._note(points[faces.sure])
            self._listed = min(self._listed, float(faces.values[faces.sure].min(initial=np.inf)))
        return np.flatnonzero(rest)

    def _stationary(self, cells: CellBatch) -> tuple[CellBatch, np.ndarray, tuple[np.ndarray, np.ndarray]]:
        """Tightened cells, which actions may be tied in them, and the least and the largest weights of the actions."""
        tied, least, most = self._weights(cells)
        present = (cells.low > 0).sum(axis=1)
        room = tied.sum(axis=1) + (0 if self._single else 1) - present
        remaining = np.flatnonzero((room >= 0) & (most.any(axis=1) if self._single else True))
        cells, tied, least, most, room = (
            cells.take(remaining),
            tied[remaining],
            least[remaining],
            most[remaining],
            room[remaining],
        )
        table = self._table
        if self._single:
            allowed = most[:, :, None] > 0
            worst, top = np.where(allowed, table, np.inf).min(axis=1), np.where(allowed, table, -np.inf).max(axis=1)
        else:
            rise, fall = np.maximum(table, 0.0), np.minimum(table, 0.0)
            worst, top = least @ rise + most @ fall, most @ rise + least @ fall
        lam = max(self._lam, 1e-300)
        # What rounding may change of an exponent.
        error = self._slack / lam
        floor = np.clip((worst - self._prices - self._level) / lam - error, -_FAR, _FAR)
        ceiling = np.clip((top - self._prices - self._root) / lam + error, -_FAR, _FAR)
        floor, ceiling = np.exp(floor) * (1 - 4 * _EPS), np.exp(ceiling) * (1 + 4 * _EPS)
        floor[floor <= 2 * np.exp(-_FAR)] = 0.0
        seen = cells.low > 0
        low = np.where(seen, np.maximum(cells.low, floor), cells.low)
        absent = ~seen & ((floor > cells.high + _ALLOWANCE) | (room == 0)[:, None])
        high = np.where(absent, 0.0, np.minimum(cells.high, np.maximum(ceiling, 2 * np.exp(-_FAR))))
        return CellBatch(low, high, cells.mu, cells.bound, cells.point, floor, cells.lost), tied, (least, most)

    def _weights(self, cells: CellBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(whether an action may be one of the tied ones (N, A), its least and its largest weight)."""
        actions = len(self._table)
        tied = np.ones((len(cells.bound), actions), dtype=bool)
        if self._single:
            for action in range(actions):
                for other in range(actions):
                    rows = np.flatnonzero(tied[:, action])
                    if other == action or not len(rows):
                        continue
                    tied[rows, action] = self._extreme(cells, rows, action, other, 1.0) >= -_ALLOWANCE
            return tied, np.zeros(tied.shape), tied.astype(float)
        rows, sure, none = np.arange(len(tied)), np.zeros(tied.shape, bool), np.zeros(tied.shape, bool)
        for action in range(actions):
            none[:, action] = self._extreme(cells, rows, action, 0, 1.0) < -_ALLOWANCE
            sure[:, action] = self._extreme(cells, rows, action, 0, -1.0) > _ALLOWANCE
        return ~(sure | none), sure.astype(float), (~none).astype(float)

    def _extreme(self, cells: CellBatch, rows: np.ndarray, action: int, other: int, sign: float) -> np.ndarray:
        """The largest (sign -1: least) value of a difference of gains over cells."""
        way = slice(None, None, int(sign))
        order, gains = self._order[action, other, way], self._falling[action, other, way]
        low = cells.low[rows][:, order]
        room = cells.high[rows][:, order] - low
        ends = np.cumsum(room, axis=1)
        rest = 1.0 - low.sum(axis=1, keepdims=True)
        return (low + np.clip(rest - (ends - room), 0.0, room)) @ gains

    def _relaxed(
        self,
        low: np.ndarray,
        high: np.ndarray,
        mu: np.ndarray,
        weights: tuple[np.ndarray, np.ndarray],
        steps: int,
    ) -> tuple[np.ndarray, ...]:
        """(bound (N,), its mu, a point, reduced costs (N, X), slopes and constants of the chords (N, X)).

        A cell is left alone where its bound has reached F or a point shows that no bound of the relaxation does.
        """
        width = high - low
        wide = width > 0
        slope = np.where(wide, (xlogx(low) - xlogx(high)) / np.where(wide, width, 1.0), 0.0)
        base = -xlogx(low) - slope * low
        linear, constant = self._lam * slope - self._prices, self._lam * base.sum(axis=1)
        count, level = len(low), self._level
        mu = self._projected(mu, *weights)
        bound, best_mu, costs = np.full(count, -np.inf), mu.copy(), np.zeros_like(low)
        value, point = np.full(count, np.inf), np.zeros_like(low)
        mean, heft = np.zeros_like(low), np.zeros((count, 1))
        live = np.arange(count)
        for step in range(steps):
            reduced = mu @ self._table + linear[live]
            q, cut, _ = knapsack(reduced, low[live], high[live])
            dual = (reduced * q).sum(axis=1) + constant[live]
            better = dual > bound[live]
            at = live[better]
            bound[at], best_mu[at], costs[at] = dual[better], mu[better], (reduced - cut[:, None])[better]
            share = 1.0 if step >= 3 else 1e-3
            mean[live], heft[live] = _FORGET * mean[live] + share * q, _FORGET * heft[live] + share
            middle = mean[live] / heft[live]
            primal = self._phi(middle) + (linear[live] * middle).sum(axis=1) + constant[live]
            better = primal < value[live]
            value[live[better]], point[live[better]] = primal[better], middle[better]
            going = (bound[live] < level) & ((value[live] >= level) | (2 * step < steps))
            if not going.any():
                return bound, best_mu, point, costs, slope, base
            gains = q @ self._table.T
            least, most = weights[0][live], weights[1][live]
            if self._single:
                free = (most > 0) & ~((mu <= 0) & (gains < (gains * mu).sum(axis=1, keepdims=True)))
                mid = (gains * free).sum(axis=1, keepdims=True) / np.maximum(free.sum(axis=1, keepdims=True), 1)
                move = np.where(free, gains - mid, 0.0)
            else:
                move = np.where(((mu >= most) & (gains > 0)) | ((mu <= least) & (gains < 0)), 0.0, gains)
            length = np.maximum(level * (1 - _ABOVE) - dual, 0.0) / np.maximum((move**2).sum(axis=1), 1e-18)
            if 2 * step >= steps:
                length *= _SHORTER
            moved = mu + length[:, None] * move
            live = live[going]
            mu = self._projected(moved[going], least[going], most[going])
        for cell in live:  # close to F on either side
            seen = np.flatnonzero(high[cell] > 0)
            ends = low[cell, seen], np.maximum(low, high)[cell, seen]
            solved = least_linear(self._table[:, seen], self._single, linear[cell, seen], *ends)
            if solved is None:
                continue
            ends = weights[0][cell : cell + 1], weights[1][cell : cell + 1]
            mu = self._projected(solved[0][None], *ends)
            reduced = mu @ self._table + linear[cell]
            q, cut, _ = knapsack(reduced, low[cell : cell + 1], high[cell : cell + 1])
            dual = float((reduced * q).sum() + constant[cell])
            point[cell] = 0.0
            point[cell, seen] = solved[1]
            if dual > bound[cell]:
                bound[cell], best_mu[cell], costs[cell] = dual, mu[0], (reduced - cut)[0]
        return bound, best_mu, point, costs, slope, base

    def _projected(self, mu: np.ndarray, least: np.ndarray, most: np.ndarray) -> np.ndarray:
        """The nearest weights that are allowed."""
        if not self._single:
            return np.clip(mu, least, most)
        falling = -np.sort(-np.where(most > 0, mu, -_OUT), axis=1)
        excess = np.cumsum(falling, axis=1) - 1.0
        count = np.arange(1, mu.shape[1] + 1)
        used = np.maximum((falling - excess / count > 0).sum(axis=1), 1)
        level = excess[np.arange(len(mu)), used - 1] / used
        weights = np.where(most > 0, np.maximum(mu - level[:, None], 0.0), 0.0)
        return weights / weights.sum(axis=1, keepdims=True)


# Columns that agree to this are one symbol; phi changes by no more.
_EQUAL = 1e-13


def _classes(table: np.ndarray, prices: np.ndarray) -> np.ndarray:
    """One symbol for each column of `table`, the one of the highest price.

    f is concave along the exchange of two symbols of one column: some minimiser has all of it on the better one.
    """
    order = np.argsort(-prices, kind="stable")
    _, first = np.unique(np.round(table[:, order] / _EQUAL), axis=1, return_index=True)
    return np.sort(order[first])
