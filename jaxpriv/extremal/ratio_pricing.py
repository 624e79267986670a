"""Exact pricing for LDP: all staircase columns at once, the pooled symbols in closed form.

Vertices of the LDP cone are c in {1, r}^X, r = e^eps (Kairouz, Oh and Viswanath 2016, Theorem 2). With
a = p(A) the mass of the raised set, z = 1 + (r-1) a and the posterior q = p c / z,

    D(q || p) = kappa (1 - 1/z) - ln z,      kappa = r eps/(r-1),

a function of a alone. For prices nu (one lambda for the pool) nu.q = lambda + R/z with
R = sum over the heavy types of (nu_g - lambda) P_g c_g, hence

    D - nu.q = kappa - lambda - ln z - (kappa + R)/z,

which rises up to z = kappa + R and falls after it: with a divisible pool the best z is kappa + R cut
to what the pool can reach. Nothing is searched, so the maximum over all columns is exact.
"""

import math

import numpy as np

from jaxpriv.extremal.master import AbstractPosteriorSet, Columns
from jaxpriv.extremal.symbols import Split, combinations_of, outer_sum
from jaxpriv.extremal.unroll import Recipe


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

    def price(self, prices: np.ndarray, count: int) -> tuple[float, Columns]:
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

    def all_columns(self) -> Columns:
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

    def _columns(self, index: np.ndarray, y: np.ndarray) -> Columns:
        counts = np.array(np.unravel_index(index, tuple(len(s) for s in self.shares))).T if self.shares else None
        counts = np.zeros((len(index), 0), dtype=np.int64) if counts is None else counts
        shares = counts / self.split.sizes if self.shares else np.zeros((len(index), 0))
        if self.pooled:
            light = np.clip((y / self.step - self.raised[index]) / self.split.light_mass, 0.0, 1.0)
            shares = np.column_stack([shares, light])
        low = 1.0 / (1.0 + y)
        lifts = low[:, None] * (1.0 + self.step * shares)
        recipes = tuple(
            Recipe(
                low=float(low[n]),
                high=float(low[n] * (1.0 + self.step)),
                counts=counts[n],
                light=float(shares[n, -1]) if self.pooled else 0.0,
            )
            for n in range(len(index))
        )
        return Columns(lifts, self._divergence(y), recipes)
