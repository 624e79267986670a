"""The vertices of a fibre { q >= 0 : Tq = r }: posteriors of X that all show the same posterior r of S."""

import math
from abc import ABC, abstractmethod
from itertools import combinations

import numpy as np

from jaxpriv._divergence import divergence
from jaxpriv.funnels.pricing import Component

# Bases that are listed at most; each is a small linear system.
_MOST_BASES = 200_000
# A basis with a smallest singular value below this is singular: its vertices belong to other bases.
_SINGULAR = 1e-13
# A vertex whose entries may be wrong by more than this is not known to enough digits for a proof.
_POOR = 1e-7
# Entries of a vertex above minus this are zero.
_TRACE = 1e-12
# Columns of T and P_S are known to this.
_ROUNDED = 16 * float(np.finfo(np.float64).eps)
_DECIMALS = 11


class AbstractVertices(ABC):
    """All vertices of { q : Tq = P_S } of one block, with b(q) = D(q || P_X).

    Attributes:
        values: b, shape (N,).
        errors: what rounding of T and P_S may move an entry of each by, shape (N,).
        entries: most non-zero entries of one.
        sure: whether none can be missing.
    """

    values: np.ndarray
    errors: np.ndarray
    entries: int
    sure: bool

    @abstractmethod
    def first(self, count: int) -> np.ndarray:
        """Vertices to begin with, a few times `count` at most: those that a best release is likely to use."""

    @abstractmethod
    def scores(self, prices: np.ndarray) -> np.ndarray:
        """prices.q of every vertex, shape (N,)."""

    @abstractmethod
    def rows(self, index: np.ndarray) -> np.ndarray:
        """The vertices `index` as posteriors, shape (k, X)."""


class PairVertices(AbstractVertices):
    """Binary S: a symbol below P(s) mixed with one above it, and the symbols that show P_S alone.

    Symbols that show P_S but for rounding are taken to show it: with others of that kind every mixture of them is
    between them, with a symbol that differs from P_S by d the rounding over d is the share that it may have.

    A release is a transport of p_x |T_x - P(s)| from the symbols below to those above. A flow f between differences
    1/u and 1/v has mass f (u + v) and lowers I(X;Y) by f k(u, v), k = (u + v) ln(u + v) - u ln u - v ln v; since
    d2k/du dv = 1/(u + v) > 0 the best one is monotone: the greatest difference below goes with the least one above.
    """

    entries = 2

    def __init__(self, block: Component):
        one, level = block.conditional[1], block.prior[1]
        apart = one - level
        rounding = _ROUNDED * level
        apart[np.abs(apart) <= rounding] = 0.0
        low, high, alone = np.flatnonzero(apart < 0), np.flatnonzero(apart > 0), np.flatnonzero(apart == 0)
        self._first = np.concatenate([np.repeat(low, len(high)), alone])
        self._second = np.concatenate([np.tile(high, len(low)), alone])
        below, above = -apart[self._first], apart[self._second]
        nearest = np.abs(apart[apart != 0]).min(initial=np.inf)
        self.errors = rounding / np.where(above + below > 0, above + below, nearest)
        self.sure = bool((self.errors <= _POOR).all())
        self._weight = np.where(above + below > 0, below / np.where(above + below > 0, above + below, 1.0), 0.0)
        self._size = len(one)
        pairs = _staircase(-apart[low] * block.source[low], apart[high] * block.source[high], apart[low], apart[high])
        self._monotone = pairs[0] * len(high) + pairs[1]
        rest, source = 1.0 - self._weight, block.source
        lifts = rest / source[self._first], self._weight / source[self._second]
        pair = self._first != self._second
        logs = rest * np.log(lifts[0]) + np.where(pair, self._weight * _log(lifts[1]), 0.0)
        self.values = np.maximum(logs, 0.0)

    def first(self, count: int) -> np.ndarray:
        del count
        alone = np.flatnonzero(self._first == self._second)
        return np.concatenate([self._monotone, alone])

    def scores(self, prices: np.ndarray) -> np.ndarray:
        return (1.0 - self._weight) * prices[self._first] + self._weight * prices[self._second]

    def rows(self, index: np.ndarray) -> np.ndarray:
        found = np.zeros((len(index), self._size))
        row = np.arange(len(index))
        np.add.at(found, (row, self._first[index]), 1.0 - self._weight[index])
        np.add.at(found, (row, self._second[index]), self._weight[index])
        return found


class ListedVertices(AbstractVertices):
    """Any S, few symbols: every set of rank(T) independent columns."""

    def __init__(self, block: Component):
        conditional, prior = block.conditional, block.prior
        left, sizes, _ = np.linalg.svd(conditional, full_matrices=False)
        rank = int((sizes > _SINGULAR * sizes[0]).sum())
        # The equations in the coordinates of the column space: independent ones only.
        table, right = left[:, :rank].T @ conditional, left[:, :rank].T @ prior
        sets = np.array(list(combinations(range(conditional.shape[1]), rank)), dtype=int)
        systems = table[:, sets].transpose(1, 0, 2)
        smallest = np.linalg.svd(systems, compute_uv=False)[:, -1]
        regular = smallest > _SINGULAR
        errors = _ROUNDED * (len(conditional) + rank) / smallest[regular]
        self.entries, self.sure = rank, bool((errors <= _POOR).all())
        solved = np.linalg.solve(systems[regular], np.broadcast_to(right[:, None], (int(regular.sum()), rank, 1)))
        kept = solved[..., 0].min(axis=1) >= -_TRACE - errors
        found = np.zeros((int(kept.sum()), conditional.shape[1]))
        entries = np.where(solved[kept, :, 0] > _TRACE, solved[kept, :, 0], 0.0)
        np.put_along_axis(found, sets[regular][kept], entries, axis=1)
        _, first = np.unique(np.round(found, _DECIMALS) + 0.0, axis=0, return_index=True)
        first = np.sort(first)
        self.errors = errors[kept][first] + 10.0**-_DECIMALS  # of the one that stands for its equals
        self._posteriors = found[first] / found[first].sum(axis=1, keepdims=True)
        self.values = divergence(self._posteriors / block.source, block.source)

    def first(self, count: int) -> np.ndarray:
        return np.argsort(-self.values, kind="stable")[:count]

    def scores(self, prices: np.ndarray) -> np.ndarray:
        return self._posteriors @ prices

    def rows(self, index: np.ndarray) -> np.ndarray:
        return self._posteriors[index]


def vertices_of(block: Component) -> AbstractVertices | None:
    """All vertices of { q : Tq = P_S }; None where there are too many to list."""
    private, useful = block.joint.shape
    if private == 2:
        return PairVertices(block)
    if math.comb(useful, min(private, useful)) <= _MOST_BASES:
        return ListedVertices(block)
    return None


def _staircase(
    supply: np.ndarray, demand: np.ndarray, of_supply: np.ndarray, of_demand: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(i, j) of the pairs that a transport uses which serves both sides in the order of their keys."""
    rows, columns = np.argsort(of_supply, kind="stable"), np.argsort(of_demand, kind="stable")
    ends = np.cumsum(supply[rows])[:-1], np.cumsum(demand[columns])[:-1]
    # Every end of one side is a step in it: the pair before and the pair behind.
    cuts = np.concatenate([[0.0], np.sort(np.concatenate(ends))])
    return rows[np.searchsorted(ends[0], cuts, side="right")], columns[np.searchsorted(ends[1], cuts, side="right")]


def _log(x: np.ndarray) -> np.ndarray:
    return np.log(np.where(x > 0, x, 1.0))
