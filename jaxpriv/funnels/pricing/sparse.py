"""Exact funnel pricing for a small S: only posteriors on few useful symbols need to be looked at.

With r = Tq held fixed, lambda H(q) - nu.q is concave on the polytope { q >= 0 : Tq = r }, so its minimum is at a
vertex: the columns of T on the support of q are linearly independent. So the minimum over the simplex is the minimum
over the faces with independent columns, of at most rank(T) <= |S| symbols each (Witsenhausen and Wyner 1975 in the
posterior view of Makhdoumi et al. 2014).
"""

import itertools
from math import comb

import numpy as np

from jaxpriv._clock import ENDLESS, Clock
from jaxpriv.funnels.pricing._base import AbstractPricer, Priced
from jaxpriv.funnels.pricing.branching import search, threshold

# Columns with |T u| <= d = this for a unit vector u are taken as dependent: q moves along u to a smaller face without
# raising the concave part, r moves by at most 2 d, so -H(r) by at most 8 S d ln(e/d); at most once for each size.
_DEPENDENT = 1e-14
# Less than this of a symbol does not tell one offered posterior from another.
_PRESENT = 1e-3


def number_of_faces(useful: int, largest: int) -> int:
    """How many sets of at most `largest` of `useful` symbols there are."""
    return sum(comb(useful, size) for size in range(1, largest + 1))


class SparseFunnelPricer(AbstractPricer):
    """min_q -H(Tq) + lambda H(q) - nu.q for T = `conditional` (S, X), lambda >= 0.

    Args:
        conditional: T = P(S|X), columns sum to one.
        tolerance: the bound is at most this far below the minimum (nats), unless `budget` ran out (`exact` is then
            False and the bound still valid).
        budget: cells looked at in one search.
    """

    def __init__(self, conditional: np.ndarray, tolerance: float = 1e-10, budget: int = 2_000_000):
        self._conditional, self._tolerance, self._budget = conditional, tolerance, budget
        private, useful = conditional.shape
        self._faces: list[np.ndarray] = []
        self._moved = 0.0
        for size in range(1, min(private, useful) + 1):
            symbols = np.array(list(itertools.combinations(range(useful), size)), dtype=int)
            least = np.linalg.svd(conditional.T[symbols], compute_uv=False)[:, -1]
            independent = least > _DEPENDENT
            if not independent.all():
                self._moved += 8 * private * _DEPENDENT * np.log(np.e / _DEPENDENT)
            if not independent.any():
                break
            self._faces.append(symbols[independent])

    def price(
        self, prices: np.ndarray, lam: float, count: int, clock: Clock = ENDLESS, aim: float | None = None
    ) -> Priced:
        if not (lam >= 0 and np.isfinite(prices).all()):
            raise ValueError("lambda must be >= 0 and prices finite")
        private = self._conditional.shape[0]
        state = threshold(prices, lam, private, len(self._faces), self._tolerance, self._budget, clock)
        for symbols in self._faces:
            search(self._conditional, symbols, prices, lam, state)
        exact = bool(state.open >= state.level)
        return Priced(float(state.bound - self._moved), exact, _distinct(state.points, state.values, count))


def _distinct(points: list[np.ndarray], values: list[np.ndarray], count: int) -> np.ndarray:
    """The best one of `points` on each set of symbols, at most `count`, best first."""
    posteriors, merit = np.concatenate(points), np.concatenate(values)
    posteriors = posteriors[np.argsort(merit, kind="stable")]
    _, first = np.unique(posteriors > _PRESENT, axis=0, return_index=True)
    return posteriors[np.sort(first)[:count]]
