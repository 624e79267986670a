"""The vertices of a fibre { q >= 0 : Tq = r }: posteriors of X that all show the same posterior r of S."""

import math
from abc import ABC, abstractmethod
from itertools import combinations

import numpy as np

from jaxpriv._divergence import divergence
from jaxpriv.funnels.pricing import Block

# Bases that are listed at most; each is a small linear system.
_MOST_BASES = 200_000
# A basis with a smallest singular value below this is singular: its vertices belong to other bases.
_SINGULAR = 1e-13
# Between the two a vertex is not known to enough digits for a proof.
_POOR = 1e-8
# Entries of a vertex above minus this are zero.
_TRACE = 1e-12
_DECIMALS = 11


class AbstractVertices(ABC):
    """All vertices of { q : Tq = P_S } of one block, with b(q) = D(q || P_X).

    Attributes:
        values: b, shape (N,).
        sure: whether none can be missing.
    """

    values: np.ndarray
    sure: bool

    @abstractmethod
    def scores(self, prices: np.ndarray) -> np.ndarray:
        """prices.q of every vertex, shape (N,)."""

    @abstractmethod
    def rows(self, index: np.ndarray) -> np.ndarray:
        """The vertices `index` as posteriors, shape (k, X)."""


class PairVertices(AbstractVertices):
    """Binary S: a symbol below P(s) mixed with one above it, and the symbols that show P_S alone."""

    sure = True

    def __init__(self, block: Block):
        one, level = block.conditional[1], block.prior[1]
        apart = one - level
        apart[np.abs(apart) <= 4 * np.finfo(float).eps * level] = 0.0
        low, high, alone = np.flatnonzero(apart < 0), np.flatnonzero(apart > 0), np.flatnonzero(apart == 0)
        self._first = np.concatenate([np.repeat(low, len(high)), alone])
        self._second = np.concatenate([np.tile(high, len(low)), alone])
        below, above = -apart[self._first], apart[self._second]
        self._weight = np.where(above + below > 0, below / np.where(above + below > 0, above + below, 1.0), 0.0)
        self._size = len(one)
        rest, source = 1.0 - self._weight, block.source
        lifts = rest / source[self._first], self._weight / source[self._second]
        pair = self._first != self._second
        logs = rest * np.log(lifts[0]) + np.where(pair, self._weight * _log(lifts[1]), 0.0)
        self.values = np.maximum(logs, 0.0)

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

    def __init__(self, block: Block):
        conditional, prior = block.conditional, block.prior
        left, sizes, _ = np.linalg.svd(conditional, full_matrices=False)
        rank = int((sizes > _SINGULAR * sizes[0]).sum())
        # The equations in the coordinates of the column space: independent ones only.
        table, right = left[:, :rank].T @ conditional, left[:, :rank].T @ prior
        sets = np.array(list(combinations(range(conditional.shape[1]), rank)), dtype=int)
        systems = table[:, sets].transpose(1, 0, 2)
        smallest = np.linalg.svd(systems, compute_uv=False)[:, -1]
        regular = smallest > _SINGULAR
        self.sure = bool((smallest[regular] > _POOR).all())
        solved = np.linalg.solve(systems[regular], np.broadcast_to(right[:, None], (int(regular.sum()), rank, 1)))
        kept = solved[..., 0].min(axis=1) >= -_TRACE
        found = np.zeros((int(kept.sum()), conditional.shape[1]))
        entries = np.where(solved[kept, :, 0] > _TRACE, solved[kept, :, 0], 0.0)
        np.put_along_axis(found, sets[regular][kept], entries, axis=1)
        _, first = np.unique(np.round(found, _DECIMALS) + 0.0, axis=0, return_index=True)
        self._posteriors = found[np.sort(first)] / found[np.sort(first)].sum(axis=1, keepdims=True)
        self.values = divergence(self._posteriors / block.source, block.source)

    def scores(self, prices: np.ndarray) -> np.ndarray:
        return self._posteriors @ prices

    def rows(self, index: np.ndarray) -> np.ndarray:
        return self._posteriors[index]


def vertices_of(block: Block) -> AbstractVertices | None:
    """All vertices of { q : Tq = P_S }; None where there are too many to list."""
    private, useful = block.joint.shape
    if private == 2:
        return PairVertices(block)
    if math.comb(useful, min(private, useful)) <= _MOST_BASES:
        return ListedVertices(block)
    return None


def _log(x: np.ndarray) -> np.ndarray:
    return np.log(np.where(x > 0, x, 1.0))
