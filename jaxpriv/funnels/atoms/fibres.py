"""The vertices of a fibre { q >= 0 : Tq = r }: posteriors of X that all show the same posterior r of S."""

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from jaxpriv.column_generation import Pool
from jaxpriv.funnels.pricing import Component

# Vertices taken into the linear program at once.
AT_ONCE = 3000


def disclosing(source: np.ndarray, posteriors: np.ndarray, values: np.ndarray) -> Pool:
    """Columns without leakage: what is maximised is b, here a of the program."""
    return Pool(source, posteriors, values, np.zeros(len(values)))


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
# Vertices that agree to this many decimals are one; the difference is part of the errors that the bound has.
_DECIMALS = 11


@dataclass(frozen=True, eq=False)
class Vertices:
    """All vertices of { q : Tq = P_S } of one block.

    Attributes:
        symbols, shares: q is the mixture of these symbols, each shape (N, k); a share may be 0.
        values: b(q) = D(q || P_X), shape (N,).
        errors: what rounding of T and P_S may move an entry of each by, shape (N,).
        sure: whether none can be missing.
        first: the numbers of those that a best release is likely to use.
    """

    symbols: np.ndarray
    shares: np.ndarray
    values: np.ndarray
    errors: np.ndarray
    sure: bool
    first: np.ndarray

    def scores(self, prices: np.ndarray) -> np.ndarray:
        """prices.q of every vertex, shape (N,)."""
        return (self.shares * prices[self.symbols]).sum(axis=1)

    def pool(self, source: np.ndarray, index: np.ndarray) -> Pool:
        """The vertices `index` as columns."""
        posteriors = np.zeros((len(index), len(source)))
        np.add.at(posteriors, (np.arange(len(index))[:, None], self.symbols[index]), self.shares[index])
        return disclosing(source, posteriors, self.values[index])


def _values(source: np.ndarray, symbols: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """D(q || P_X) of mixtures of symbols, shape (N,)."""
    lifts = shares / source[symbols]
    return np.maximum((shares * np.log(np.where(lifts > 0, lifts, 1.0))).sum(axis=1), 0.0)


def _pairs(block: Component) -> Vertices:
    """Binary S, s the rarer value: a symbol below P(s) mixed with one above it, and the symbols that show P_S alone.

    Symbols that show P_S but for rounding are taken to show it: with others of that kind every mixture of them is
    between them, with a symbol that differs from P_S by d the rounding over d is the share that it may have.

    A release is a transport of p_x |T_x - P(s)| from the symbols below to those above. A flow f between differences
    1/u and 1/v has mass f (u + v) and lowers I(X;Y) by f k(u, v), k = (u + v) ln(u + v) - u ln u - v ln v; since
    d2k/du dv = 1/(u + v) > 0 the best one is monotone: the greatest difference below goes with the least one above.
    """
    source, rarer = block.source, int(block.prior.argmin())
    level = block.prior[rarer]
    apart = block.conditional[rarer] - level
    rounding = _ROUNDED * level
    apart[np.abs(apart) <= rounding] = 0.0
    low, high, alone = np.flatnonzero(apart < 0), np.flatnonzero(apart > 0), np.flatnonzero(apart == 0)
    pairs = np.column_stack([np.repeat(low, len(high)), np.tile(high, len(low))])
    symbols = np.vstack([pairs, np.column_stack([alone, alone])])
    below, above = -apart[symbols[:, 0]], apart[symbols[:, 1]]
    total, nearest = above + below, np.abs(apart[apart != 0]).min(initial=np.inf)
    errors = rounding / np.where(total > 0, total, nearest)
    share = np.where(total > 0, below / np.where(total > 0, total, 1.0), 0.0)
    shares = np.column_stack([1.0 - share, share])
    begin, end = _staircase(-apart[low] * source[low], apart[high] * source[high], apart[low], apart[high])
    first = np.concatenate([begin * len(high) + end, np.arange(len(pairs), len(symbols))])
    sure = bool((errors <= _POOR).all())
    return Vertices(symbols, shares, _values(source, symbols, shares), errors, sure, first)


def _listed(block: Component) -> Vertices:
    """Any S, few symbols: every set of rank(T) independent columns."""
    conditional, prior, useful = block.conditional, block.prior, len(block.source)
    left, sizes, _ = np.linalg.svd(conditional, full_matrices=False)
    rank = int((sizes > _SINGULAR * sizes[0]).sum())
    # The equations in the coordinates of the column space: independent ones only.
    table, right = left[:, :rank].T @ conditional, left[:, :rank].T @ prior
    sets = np.array(list(combinations(range(useful), rank)), dtype=int)
    systems = table[:, sets].transpose(1, 0, 2)
    smallest = np.linalg.svd(systems, compute_uv=False)[:, -1]
    regular = smallest > _SINGULAR
    errors = _ROUNDED * (len(conditional) + rank) / smallest[regular]
    solved = np.linalg.solve(systems[regular], np.broadcast_to(right[:, None], (int(regular.sum()), rank, 1)))[..., 0]
    feasible = solved.min(axis=1) >= -_TRACE - errors
    symbols, shares = sets[regular][feasible], np.where(solved[feasible] > _TRACE, solved[feasible], 0.0)
    whole = np.zeros((len(shares), useful))
    np.put_along_axis(whole, symbols, shares, axis=1)
    _, distinct = np.unique(np.round(whole, _DECIMALS) + 0.0, axis=0, return_index=True)
    distinct = np.sort(distinct)
    symbols, shares = symbols[distinct], shares[distinct] / shares[distinct].sum(axis=1, keepdims=True)
    values = _values(block.source, symbols, shares)
    first = np.argsort(-values, kind="stable")[: min(AT_ONCE, 6 * useful)]
    moved = errors[feasible][distinct] + 10.0**-_DECIMALS  # of the one that stands for its equals
    return Vertices(symbols, shares, values, moved, bool((errors <= _POOR).all()), first)


def vertices_of(block: Component) -> Vertices | None:
    """All vertices of { q : Tq = P_S }; None where there are too many to list."""
    private, useful = block.joint.shape
    if private == 2:
        return _pairs(block)
    return _listed(block) if math.comb(useful, min(private, useful)) <= _MOST_BASES else None


def _staircase(
    supply: np.ndarray, demand: np.ndarray, of_supply: np.ndarray, of_demand: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(i, j) of the pairs that a transport uses which serves both sides in the order of their keys."""
    rows, columns = np.argsort(of_supply, kind="stable"), np.argsort(of_demand, kind="stable")
    ends = np.cumsum(supply[rows])[:-1], np.cumsum(demand[columns])[:-1]
    # Every end of one side is a step in it: the pair before and the pair behind.
    cuts = np.concatenate([[0.0], np.sort(np.concatenate(ends))])
    return rows[np.searchsorted(ends[0], cuts, side="right")], columns[np.searchsorted(ends[1], cuts, side="right")]
