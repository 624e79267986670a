"""The most useful release whose posteriors r_y = P(S|Y=y) all lie in a smooth convex set { r : phi(r) <= eps }.

phi is that of a worst-outcome measure: D(r || P_S) of relative entropy, H(S) - H(r) of maximum information. A release
is a measure over the posteriors q of X that are allowed, phi(Tq) <= eps, with mean p = P_X. At any prices nu

    I(X;Y) <= nu.p + max { g(q) : phi(Tq) <= eps },      g(q) = D(q || p) - nu.q .

The maximum is bounded by a search that lists no vertices and no faces. { q : Tq = r } is a polytope whose vertices have
at most |S| symbols, and g is convex: sets of |S| symbols are enough. The simplex of each set is divided into cells. In
a cell with the vertices u_i, q = sum_i a_i u_i, and for any point z, G the tangent plane of phi there,

    g(q) <= sum_i a_i g(u_i),        phi(Tq) >= sum_i a_i G.Tu_i ,

so the most of sum_i a_i g(u_i) with sum_i a_i (G.Tu_i - eps) <= 0, a linear program of one constraint, bounds g on the
cell. It is at one u_i or between two. z is where the program of the cell before the division had its optimum. A cell is
divided at the middle of an edge: the coordinates are dyadic, so the cells fill the simplex exactly, and what remains is
the rounding of g and G, which is added. Posteriors that the search finds above the bound are the next columns.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

from jaxpriv._runtime.clock import Clock
from jaxpriv.column_generation import MOST, MasterSolution, Pool
from jaxpriv.column_generation.rounds import generate_columns
from jaxpriv.errors import InputError, ResourceError
from jaxpriv.extremal.repair import mechanism_of
from jaxpriv.extremal.types import columns_of, proved_bound
from jaxpriv.extremal.utility import MaximumUtility, result_of
from jaxpriv.funnels.gains import curved_of
from jaxpriv.funnels.pricing._base import xlogx
from jaxpriv.leakage import AbstractLeakage
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.program.lower import terms_of

_EPS = float(np.finfo(np.float64).eps)
# Cells divided at a time, and those of them at which g itself is computed. Every so many divisions of a cell one is at
# its longest edge in place of that of the optimum.
_BATCH, _LOOKED, _LONGEST = 8192, 512, 5
# Where posteriors above the aim are known: a set of symbols is done with at this multiple of the best g found in it,
# and in a search over all sets at this share of the best of all; so many cells more are looked at then.
_DONE, _SHARE, _EXTRA = 1.05, 0.3, 150_000
# What a search over the sets that are known aims at, as a share of the tolerance and of what is missing to what is
# enough; a search over all sets aims at the second share of either.
_FINE, _COARSE = 0.03, 0.5
# Sets of symbols at most: as many cells wait at once. Columns of a round at most; rounds; bisections of a share,
# Newton's steps of an estimate of it, and how far beyond the limit one may be.
_SETS, _COLUMNS, _ROUNDS, _HALVED, _NEWTON, _MET = 300_000, 100, 300, 60, 6, 1e-12
# The least entry of z: all slopes are finite there. A symbol of less mass is on its way out of a posterior.
_LEAST, _TRACE = 1e-12, 1e-6


class _Cells(NamedTuple):
    """N cells: the set of each (N,), u (N, m, m) in its symbols, g(u) (N, m), Tu (N, m, S), z (N, S), the bound of the
    cell before and the number of divisions (N,).
    """

    owner: np.ndarray
    vertices: np.ndarray
    heights: np.ndarray
    shown: np.ndarray
    near: np.ndarray
    bound: np.ndarray
    depth: np.ndarray

    def take(self, index: np.ndarray) -> "_Cells":
        return _Cells(*(part[index] for part in self))

    def with_(self, other: "_Cells") -> "_Cells":
        return _Cells(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))

    def split(self) -> "list[_Cells]":
        """Parts of `_BATCH` cells at most, none of them empty."""
        begins = range(0, len(self.bound), _BATCH)
        return [_Cells(*(part[begin : begin + _BATCH] for part in self)) for begin in begins]


class CurvedSet:
    """The posteriors of the x with mass of `joint` (S, X) within a limit on `measure`, and columns known so far."""

    def __init__(self, joint: np.ndarray, measure: AbstractLeakage):
        self.masses = joint.sum(axis=0)
        joint, mass = joint[:, self.masses > 0], self.masses[self.masses > 0]
        (term,) = terms_of(measure, joint, Role.WORST, 0.0)
        curved = curved_of(term, mass)
        if curved is None:
            raise InputError(f"solver: {type(measure).__name__} is no smooth limit on every posterior")
        self.curved, self.source = curved, mass / mass.sum()
        self.prior = curved.conditional @ self.source
        self.least = float(term.offset[0] / mass[0])  # what the measure adds to phi
        useful = len(mass)
        if math.comb(useful, len(self.prior)) > _SETS:
            raise ResourceError(
                f"{math.comb(useful, len(self.prior))} sets of {len(self.prior)} useful symbols are more than {_SETS}: "
                "merge symbols of S or of X"
            )
        # All sets of |S| symbols, the numbers of those that had columns, and the columns of the last program.
        self.sets = np.array(list(itertools.combinations(range(useful), min(len(self.prior), useful))))
        self.known, self.posteriors = np.empty(0, dtype=int), np.eye(useful)

    def utility(
        self, limit: float, tol: float, clock: Clock, enough: float = np.inf, proof: bool = True
    ) -> MaximumUtility:
        """The most I(X;Y) within `limit` > 0, to `tol`, or as far as to tell whether it is `enough`.

        Without `proof` from the sets that are known.
        """
        level, source, upper = limit - self.least, self.source, np.inf
        target = enough + 1e-12 * (1.0 + enough)  # the value is rounded down in the end

        def columns(posteriors: np.ndarray) -> Pool:
            lifts = posteriors / source
            share = self._share(posteriors @ self.curved.conditional.T, level)[:, None]
            return columns_of(1.0 + share * (lifts - 1.0), source)

        def aim(plan: MasterSolution) -> float:
            missing = abs(target + plan.value)
            return max(tol, missing if np.isfinite(missing) else 0.0)

        def near(plan: MasterSolution, _: Pool) -> tuple[float, Pool]:
            return -np.inf, columns(self._search(plan.prices[0], level, _FINE * aim(plan), self.known, clock)[1])

        def anywhere(plan: MasterSolution, pool: Pool) -> tuple[float, Pool]:
            nonlocal upper
            if -plan.value >= target or not proof:
                return -upper, pool.take(np.arange(0))
            every = np.arange(len(self.sets))
            highest, posteriors, owners = self._search(plan.prices[0], level, _COARSE * aim(plan), every, clock)
            self.known = np.union1d(self.known, owners)
            upper = min(upper, proved_bound(plan.prices[0], source, highest))
            return -upper, columns(posteriors)

        def closed(plan: MasterSolution, bound: float) -> bool:
            return plan.value - bound <= tol or -bound < enough < np.inf

        generated = generate_columns(
            columns_of(np.ones((1, len(source))), source) + columns(np.vstack([np.eye(len(source)), self.posteriors])),
            MOST,
            (near, anywhere),
            closed=closed,
            worth=lambda plan: 0.5 * _FINE * aim(plan),
            rounds=_ROUNDS,
            clock=clock,
            report=lambda *_: None,
            always=1 + len(source),
            most=40 * len(source),
        )
        pool, weights = generated.used
        self.posteriors = pool.posteriors
        mechanism = mechanism_of(pool.lifts, weights)
        seen = (source[:, None] * mechanism / (source @ mechanism)).T @ self.curved.conditional.T
        leakage = float(self.curved.at(seen).max()) + self.least
        return result_of(self.masses, mechanism, (leakage,), upper, "cells of posteriors", tol, clock)

    def _share(self, seen: np.ndarray, level: float) -> np.ndarray:
        """The largest t of which P_S + t (r - P_S) is within the limit, for the rows r."""
        low, high = np.zeros(len(seen)), np.ones(len(seen))
        within = self.curved.at(seen) <= level
        for _ in range(_HALVED):
            middle = 0.5 * (low + high)
            inside = self.curved.at(self.prior + middle[:, None] * (seen - self.prior)) <= level
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        return np.where(within, 1.0, low)

    def _search(
        self, prices: np.ndarray, level: float, aim: float, numbers: np.ndarray, clock: Clock
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """(h, q (n, X), sets (n,)): g <= h for every q of the sets `numbers` within `level`; about where g > `aim`.

        One q at most for each set of symbols that a q has, and a set that it is of; q has still to be drawn towards p.
        h is `aim` where there is none.
        """
        sets, charge = self.sets[numbers], prices + np.log(self.source)
        every = len(numbers) == len(self.sets)
        count, size = sets.shape
        symbols = self.curved.conditional.T
        done, best, points = np.full(count, aim), np.full(count, aim), np.zeros((count, len(prices)))
        roots = _Cells(
            np.arange(count),
            np.broadcast_to(np.eye(size), (count, size, size)),
            -charge[sets],
            symbols[sets],
            symbols[sets].mean(axis=1),
            np.full(count, np.inf),
            np.zeros(count, dtype=int),
        )
        waiting, looked, enough, stuck = roots.split(), 0, np.inf, -np.inf
        while waiting and looked < enough and not clock.expired():
            waiting.sort(key=lambda part: part.bound.max())  # the highest bound is divided next
            now = waiting.pop()
            while waiting and len(now.bound) + len(waiting[-1].bound) <= _BATCH:
                now = now.with_(waiting.pop())
            looked += len(now.bound)
            cells, q, where, rounded = self._bounded(now, level, done)
            stuck = max(stuck, rounded)
            if not len(cells.bound):
                continue
            value = xlogx(q).sum(axis=1) - (q * charge[sets[cells.owner]]).sum(axis=1)
            top = np.argsort(best[cells.owner] - value, kind="stable")[:_LOOKED]
            owner = cells.owner[top]
            whole = np.zeros((len(top), len(prices)))
            np.put_along_axis(whole, sets[owner], q[top], axis=1)
            share, met = self._estimate(cells.near[top], level)
            drawn = self.source + share[:, None] * (whole - self.source)
            value = np.where(met, xlogx(drawn).sum(axis=1) - drawn @ charge, -np.inf)
            for row in np.argsort(value, kind="stable"):  # the best of each set is written last
                if value[row] > best[owner[row]]:
                    best[owner[row]], points[owner[row]] = value[row], whole[row]
            highest = float(best.max(initial=-np.inf))
            if highest > aim:
                done = np.maximum(done, np.where(best > aim, _DONE * best, _SHARE * highest if every else aim))
                enough = min(enough, looked + _EXTRA)
            open_ = cells.bound > done[cells.owner]
            exact, halves = self._divided(cells.take(open_), where[open_], charge[sets])
            stuck = max(stuck, float(cells.bound[open_][~exact].max(initial=-np.inf)))
            waiting += halves.split()
        bound = max(stuck, float(done.max(initial=-np.inf)), *(float(part.bound.max()) for part in waiting))
        slack = 64 * _EPS * (size + 8) * (2.0 + float(np.abs(charge).max()))
        promising = np.flatnonzero(best > aim)
        promising = promising[np.argsort(-best[promising], kind="stable")]
        # Many sets have the same few symbols of a q in them.
        _, first = np.unique(points[promising] > _TRACE, axis=0, return_index=True)
        promising = promising[np.sort(first)[:_COLUMNS]]
        return bound + slack, points[promising], numbers[promising]

    def _bounded(self, cells: _Cells, level: float, done: np.ndarray) -> tuple[_Cells, np.ndarray, np.ndarray, float]:
        """(the cells that are left with their bounds and new z, q of the optimum (N, m), its two vertices (N, 2), the
        bound of the cells without a point that is surely within the limit: halves would have none either).
        """
        slopes = self.curved.slopes(np.maximum(cells.near, _LEAST))
        error = 32 * _EPS * (len(self.prior) + 8) * (1.0 + np.abs(slopes).max(axis=1) + abs(level))
        over = (cells.shown @ slopes[:, :, None])[:, :, 0] - level - error[:, None]
        over = np.where(np.isfinite(over), over, -1.0)  # a plane that is no number cuts nothing off
        size, row = over.shape[1], np.arange(len(over))
        # All of the weight on an i with over_i <= 0, or on it and a j with over_j > 0.
        within, alone = over <= 0, np.eye(size, dtype=bool)
        span = np.where(alone, 1.0, over[:, None] - over[:, :, None])
        share = np.where(alone, 1.0, np.divide(over[:, None], span, out=np.ones_like(span), where=span > 0))
        values = share * cells.heights[:, :, None] + (1.0 - share) * cells.heights[:, None]
        usable = within[:, :, None] & (alone | ~within[:, None])
        values = np.where(usable, values, -np.inf).reshape(len(over), size * size)
        best = values.argmax(axis=1)
        bound = np.minimum(values[row, best], cells.bound)
        open_, sure = bound > done[cells.owner], (over < -2 * error[:, None]).any(axis=1)
        rounded = float(bound[open_ & ~sure].max(initial=-np.inf))
        left = np.flatnonzero(open_ & sure)
        first, second = np.divmod(best[left], size)
        part = share[left, first, second][:, None]

        def between(ends: np.ndarray) -> np.ndarray:
            return part * ends[left, first] + (1.0 - part) * ends[left, second]

        remaining = cells.take(left)._replace(bound=bound[left], near=between(cells.shown))
        return remaining, between(cells.vertices), np.stack([first, second], axis=1), rounded

    def _estimate(self, seen: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
        """(`_share` of the rows, whether it is that but for rounding): Newton's method from above."""
        away, share, over = seen - self.prior, np.ones(len(seen)), np.zeros(len(seen))
        for _ in range(_NEWTON):
            point = np.maximum(self.prior + share[:, None] * away, _LEAST)
            slopes = self.curved.slopes(point)
            over, rise = (slopes * point).sum(axis=1) - level, (slopes * away).sum(axis=1)
            share = np.where(over > 0, np.maximum(share - over / np.where(rise > 0, rise, np.inf), 0.0), share)
        return share, over <= _MET * (1.0 + abs(level))

    def _divided(self, cells: _Cells, optimum: np.ndarray, charge: np.ndarray) -> tuple[np.ndarray, _Cells]:
        """(whether the middle of the edge is exact (N,), both halves of those cells)."""
        row, size = np.arange(len(cells.bound)), cells.heights.shape[1]
        apart = np.abs(cells.vertices[:, :, None] - cells.vertices[:, None]).sum(axis=3)
        first, second = optimum.T
        second = np.where(first == second, apart[row, first].argmax(axis=1), second)
        longest = np.divmod(apart.reshape(len(row), size * size).argmax(axis=1), size)
        turn = cells.depth % _LONGEST == _LONGEST - 1
        first, second = np.where(turn, longest[0], first), np.where(turn, longest[1], second)
        ends = cells.vertices[row, first], cells.vertices[row, second]
        total = ends[0] + ends[1]
        exact = ((total - ends[0] == ends[1]) & (total - ends[1] == ends[0])).all(axis=1)
        middle, shown = 0.5 * total, 0.5 * (cells.shown[row, first] + cells.shown[row, second])
        height = xlogx(middle).sum(axis=1) - (middle * charge[cells.owner]).sum(axis=1)

        def half(end: np.ndarray) -> _Cells:
            vertices, heights, seen = (array.copy() for array in (cells.vertices, cells.heights, cells.shown))
            vertices[row, end], heights[row, end], seen[row, end] = middle, height, shown
            return cells._replace(vertices=vertices, heights=heights, shown=seen, depth=cells.depth + 1)

        return exact, half(first).take(exact).with_(half(second).take(exact))
