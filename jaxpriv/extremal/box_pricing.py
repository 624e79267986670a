"""Exact pricing for lift bounds low <= q/p <= high (PML: low = 0), the pooled symbols divisible.

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

import numpy as np

from jaxpriv._divergence import excess
from jaxpriv.extremal.master import AbstractPosteriorSet, Columns
from jaxpriv.extremal.symbols import Split, outer_sum
from jaxpriv.extremal.unroll import Recipe

# Coordinates that leave their range by no more than rounding are in it.
_ROUNDING = 1e-12


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

    def price(self, prices: np.ndarray, count: int) -> tuple[float, Columns]:
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

    def _columns(self, case: int, chosen: np.ndarray) -> Columns:
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
        recipes = tuple(
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
        )
        return Columns(lifts, self.ceiling - loss, recipes)


def chord_at_one(low: float, high: float) -> float:
    """The chord of t ln t over [low, high] at t = 1: no mechanism within the bounds tells more."""
    at_low, at_high = excess(np.array([low, high]))
    # excess differs from t ln t by the affine 1 - t, which is 0 at 1.
    return float(((high - 1.0) * at_low + (1.0 - low) * at_high) / (high - low)) if math.isfinite(high) else math.inf


def defect(lift: np.ndarray, low: float, high: float) -> np.ndarray:
    """delta(t) = chord(t) - t ln t >= 0 for t in [low, high]."""
    at_low, at_high = excess(np.array([low, high]))  # t ln t less t - 1, which chords share
    return np.maximum(at_low + (at_high - at_low) * (lift - low) / (high - low) - excess(lift), 0.0)
