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

import functools
import itertools
import math
import operator

import numpy as np

from jaxpriv._runtime.numerics import kl_excess
from jaxpriv.column_generation import Pool
from jaxpriv.extremal.rotation import Recipe
from jaxpriv.extremal.split import Split, outer_sum
from jaxpriv.extremal.types import AbstractTypesPricer, columns_of

# Coordinates that leave their range by no more than rounding are in it.
_ROUNDING = 1e-12


class RatioPricer(AbstractTypesPricer):
    """The columns c in {1, e^eps} over the types of `split`, the pool divisible."""

    def __init__(self, split: Split, eps: float):
        super().__init__(split)
        self.step = math.expm1(eps)  # r - 1
        self.kappa = eps / -math.expm1(-eps)
        self.shares = [np.arange(n + 1) / n for n in split.sizes]  # of the members that are raised
        self.raised = outer_sum([mass * share for mass, share in zip(self.heavy, self.shares, strict=True)])

    def price(self, prices: np.ndarray, count: int) -> tuple[float, Pool]:
        """The maximum over all columns, and the best `count` of them."""
        base, above = self.over_pool(prices)
        cost = outer_sum(
            [
                extra * mass * (1.0 + self.step * share)  # (nu - lambda) P c
                for extra, mass, share in zip(above, self.heavy, self.shares, strict=True)
            ]
        )
        y = self._level(cost)
        gain = self._divergence(y) - base - cost / (1.0 + y)
        top = np.argpartition(-gain, min(count, len(gain)) - 1)[:count]
        return float(gain.max()), self._columns(top, y[top])

    def _level(self, cost: np.ndarray) -> np.ndarray:
        """z - 1 for each pattern."""
        lowest = self.step * self.raised
        if not self.pooled:
            return lowest
        return np.clip(self.kappa - 1.0 + cost, lowest, lowest + self.step * self.split.light_mass)

    def _divergence(self, y: np.ndarray) -> np.ndarray:
        return np.maximum(self.kappa * y / (1.0 + y) - np.log1p(y), 0.0)

    def _columns(self, index: np.ndarray, y: np.ndarray) -> Pool:
        counts = patterns(index, [len(share) for share in self.shares])
        shares, light = counts / self.split.sizes, np.zeros(len(index))
        if self.pooled:
            light = np.clip((y / self.step - self.raised[index]) / self.split.light_mass, 0.0, 1.0)
            shares = np.column_stack([shares, light])
        low = 1.0 / (1.0 + y)
        high = low * (1.0 + self.step)
        lifts = low[:, None] * (1.0 + self.step * shares)
        recipes = [Recipe(*each) for each in zip(low.tolist(), high.tolist(), counts, light.tolist(), strict=True)]
        return columns_of(lifts, self.split.mass, self._divergence(y), recipes)


class BoxPricer(AbstractTypesPricer):
    """The vertices over the types of `split`, the pool divisible."""

    def __init__(self, split: Split, low: float, high: float):
        super().__init__(split)
        self.low, self.high = low, high
        self.ceiling = chord_at_one(low, high)
        # (type between the bounds or None, lift of the pool or None if it follows from the rest)
        self.cases: list[tuple[int | None, float | None]] = [(None, None)] if self.pooled else []
        ends = [low, high] if self.pooled else [0.0]
        self.cases += [(f, end) for f in range(len(split.sizes)) for end in ends]
        self.known = [self._solve(*case) for case in self.cases]

    def price(self, prices: np.ndarray, count: int) -> tuple[float, Pool]:
        """The maximum over all vertices, and the best `count` of them."""
        base, above = self.over_pool(prices)
        gains = []
        for (f, _), (index, between, loss, masses) in zip(self.cases, self.known, strict=True):
            cost = outer_sum([extra * mass for extra, mass in zip(above, masses, strict=True)])[index]
            if f is not None:
                cost = cost + above[f] * self.split.probabilities[f] * between
            gains.append(self.ceiling - base - loss - cost)
        flat = np.concatenate(gains)
        top = np.sort(np.argpartition(-flat, min(count, len(flat)) - 1)[:count])
        begins = np.cumsum([0, *map(len, gains)])
        parts = [top[(top >= begin) & (top < end)] - begin for begin, end in itertools.pairwise(begins)]
        columns = [self._columns(case, part) for case, part in enumerate(parts) if len(part)]
        return float(flat.max()), functools.reduce(operator.add, columns)

    def _solve(self, f: int | None, end: float | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
        """(feasible patterns, lift of the coordinate between the bounds or of the pool, loss, mass tables).

        A table has the mass of a heavy type as a function of how many members are raised, of type f one left out.
        """
        split, masses = self.split, []
        for g, (size, probability) in enumerate(zip(split.sizes, split.probabilities, strict=True)):
            raised = np.arange(int(size) - (g == f) + 1)
            masses.append(probability * (self.low * raised[::-1] + self.high * raised))
        rest = 1.0 - outer_sum(masses)
        if f is None:
            share = rest / split.light_mass
        else:
            share = (rest - (end or 0.0) * split.light_mass) / split.probabilities[f]
        tolerance = _ROUNDING * self.high
        index = np.flatnonzero((share >= self.low - tolerance) & (share <= self.high + tolerance))
        between = np.clip(share[index], self.low, self.high)
        loss = np.zeros(len(index)) if f is None else split.probabilities[f] * defect(between, self.low, self.high)
        return index, between, loss, masses

    def _columns(self, case: int, chosen: np.ndarray) -> Pool:
        f, end = self.cases[case]
        index, between, loss, masses = self.known[case]
        between, loss = between[chosen], loss[chosen]
        counts = patterns(index[chosen], [len(table) for table in masses])
        lifts = np.empty(counts.shape)
        for g, table in enumerate(masses):
            lifts[:, g] = table[counts[:, g]] / self.heavy[g]
        light, lift = np.zeros(len(chosen)), np.ones(len(chosen))
        if f is not None:
            lift = between
            lifts[:, f] += between / self.split.sizes[f]
        if self.pooled:
            pool = between if f is None else np.full(len(chosen), end)
            lifts, light = np.column_stack([lifts, pool]), (pool - self.low) / (self.high - self.low)
        recipes = [
            Recipe(self.low, self.high, *each, between=f, windowed=True)
            for each in zip(counts, light.tolist(), lift.tolist(), strict=True)
        ]
        return columns_of(lifts, self.split.mass, self.ceiling - loss, recipes)


def patterns(index: np.ndarray, sizes: list[int]) -> np.ndarray:
    """The counts (n, G) of the patterns `index` (n,) in the order of `outer_sum`."""
    if not sizes:
        return np.zeros((len(index), 0), dtype=np.int64)
    return np.stack(np.unravel_index(index, sizes), axis=1)


def chord_at_one(low: float, high: float) -> float:
    """The chord of t ln t over [low, high] at t = 1: no mechanism within the bounds discloses more."""
    at_low, at_high = kl_excess(np.array([low, high]))
    # kl_excess differs from t ln t by the affine 1 - t, which is 0 at 1.
    return float(((high - 1.0) * at_low + (1.0 - low) * at_high) / (high - low)) if math.isfinite(high) else math.inf


def defect(lift: np.ndarray, low: float, high: float) -> np.ndarray:
    """delta(t) = chord(t) - t ln t >= 0 for t in [low, high]."""
    at_low, at_high = kl_excess(np.array([low, high]))  # t ln t less t - 1, which chords share
    return np.maximum(at_low + (at_high - at_low) * (lift - low) / (high - low) - kl_excess(lift), 0.0)
