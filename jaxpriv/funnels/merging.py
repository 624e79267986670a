"""Greedy merging of outputs, from Y = X on: Algorithms 1 and 2 of Makhdoumi et al. (2014), and a ratio rule.

    privacy     the largest decrease of the leakage            among pairs that keep I(X;Y) >= R       (Algorithm 1)
    ratio       the largest decrease of leakage per I(X;Y)     among the same pairs
    relevance   the largest decrease of I(X;Y)                 among pairs that keep L(S->Y) >= D      (Algorithm 2)

until no pair is left. A target is met if it is missed by at most 1e-12. Among pairs of the same decrease (to
float64: see `noise`) the first i < j in the current list is merged; the merged output stays at i, j is deleted. So a
cluster stands where its first member stood, and the list is always in the order of first members.

The decreases of all pairs are kept: a merge changes one row and one column, O(n |S|) work, O(n^2 |S|) in all. A pair
that was not merged keeps its decrease, and one that breaks the target breaks it for ever (what is left above the
target only shrinks), so the best of a row, once found, is an upper bound until the row is looked at again: only rows
whose bound is the largest are, which makes choosing a pair O(n) in practice.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from jaxpriv._runtime.module import summary
from jaxpriv._runtime.resources import need_memory
from jaxpriv.funnels.merge_losses import (
    AbstractDecrease,
    Clusters,
    InformationDecrease,
    MeasuredDecrease,
    leakages_of,
    mixed_entropy,
    total_at,
)
from jaxpriv.leakage import AbstractAverageLeakage, MutualInformation
from jaxpriv.problems.funnel import core_of

# A target counts as met if it is missed by no more (nats).
TOLERANCE = 1e-12
# Ratios that differ by no more are one number: the noise of a decrease over that of I(X;Y), for rare symbols.
_SAME_RATIO = 1e-10


class Rule(Enum):
    """What is gained and what is paid by a merge."""

    PRIVACY = "privacy"
    RATIO = "ratio"
    RELEVANCE = "relevance"


@dataclass(frozen=True, eq=False)
class Merging:
    """One run: the deterministic release at its end, and the way there.

    Attributes:
        useful: (X',) the useful symbols that have mass, in order; the others are given the first output.
        labels: (X,) the output of each useful symbol, numbered 0, 1, ... in the order of the list.
        symbols: the number of outputs.
        disclosure: I(X;Y) = H(Y), nats.
        leakage: L(S->Y).
        merges: (K, 2) what was merged, i < j, by first members (numbers of useful symbols); in order.
        disclosures, totals, leakages: (K + 1,) I(X;Y), sum of column(w), and L before and after each merge.
        nothing: the sum of column(w) where all symbols are one output (a release that discloses nothing).
        ties: the number of merges that were decided by the order of the list.
        margin: the smallest lead of a chosen pair on the next best, over all other merges (inf: there was no other
            pair); in nats, or in leakage per disclosure for the ratio rule.
    """

    useful: np.ndarray
    labels: np.ndarray
    disclosures: np.ndarray
    totals: np.ndarray
    leakages: np.ndarray
    merges: np.ndarray
    nothing: float
    ties: int
    margin: float

    __repr__ = summary

    @property
    def symbols(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def disclosure(self) -> float:
        return float(self.disclosures[-1])

    @property
    def leakage(self) -> float:
        return float(self.leakages[-1])

    @property
    def mechanism(self) -> np.ndarray:
        """P(y|x), shape (X, Y): zeros and ones."""
        return (self.labels[:, None] == np.arange(self.symbols)).astype(np.float64)

    def after(self, merges: int) -> np.ndarray:
        """`labels` after that many merges."""
        return _labels(len(self.labels), self.useful, self.merges[:merges])


def _labels(size: int, useful: np.ndarray, merges: np.ndarray) -> np.ndarray:
    """The output of each of `size` symbols after `merges` (K, 2)."""
    first = np.full(size, useful[0])  # that one is the first member of its cluster for ever
    first[useful] = useful
    for i, j in merges[::-1]:  # where i itself is merged into another one later, that is known already
        first[j] = first[i]
    return np.unique(first, return_inverse=True)[1]


class PairTable:
    """The decreases of all pairs of useful symbols; runs start from copies of it.

    `joint` (S, X) may have symbols without mass.
    """

    def __init__(self, joint: np.ndarray, leakage: AbstractAverageLeakage):
        core = core_of(joint, merge=False)
        joint, self.useful, self.symbols = core.joint, core.useful, joint.shape[1]
        size = joint.shape[1]
        need_memory(3.0 * 8 * size * size, "the table of all pairs of useful symbols", "group rare symbols first")
        prior, columns = joint.sum(axis=1), np.ascontiguousarray(joint.T)
        self.measure = leakage
        self.decrease: AbstractDecrease = (
            InformationDecrease(prior)
            if isinstance(leakage, MutualInformation)
            else MeasuredDecrease(leakage, columns, prior)
        )
        self.clusters = Clusters(columns, joint.sum(axis=0), self.decrease.totals(columns))
        self.nothing = float(self.decrease.totals(prior[None])[0])
        self.most_leakage = float(leakages_of(leakage, self.clusters.totals.sum(keepdims=True))[0])
        self.leaks = np.full((size, size), -np.inf)  # above the diagonal only
        for i in range(size - 1):
            self.leaks[i, i + 1 :] = self.decrease.of_merging(self.clusters, i, i + 1)

    def run(self, rule: Rule, target: float) -> Merging:
        """Merge until no pair is left. `target` is R, or D for the relevance rule; the target of X itself is met."""
        return _MergingRun(self, rule, target).merged()


class _MergingRun:
    """The state of one run. Row k of the table holds the pairs (k, j), j > k."""

    def __init__(self, table: PairTable, rule: Rule, target: float):
        self.table, self.rule, self.decrease = table, rule, table.decrease
        self.clusters, self.leaks = table.clusters.copy(), table.leaks.copy()
        size = len(self.leaks)
        self.same = _SAME_RATIO if rule is Rule.RATIO else self.decrease.noise
        least = target - TOLERANCE
        self.least = total_at(table.measure, least) if rule is Rule.RELEVANCE else least
        self.active = np.ones(size, dtype=bool)
        self.disclosures, self.totals = [], []
        self._record()
        # Of each row: at least the best gain, the column that had it, its price, and whether it must be looked for.
        self.best, self.column = np.full(size, -np.inf), np.zeros(size, dtype=np.int64)
        self.price, self.stale = np.zeros(size), np.zeros(size, dtype=bool)
        for row in range(size):
            self._scan(row)

    def _record(self) -> None:
        masses = self.clusters.masses[self.active]
        self.disclosures.append(max(0.0, -float(masses @ np.log(masses))))
        self.totals.append(float(self.clusters.totals.sum()))
        remaining = self.totals[-1] if self.rule is Rule.RELEVANCE else self.disclosures[-1]
        self.slack = remaining - self.least

    def _gains(self, leak: np.ndarray, mixing: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(gain, price) of pairs from their decreases of leakage and of disclosure; -inf for those not allowed."""
        if self.rule is Rule.RELEVANCE:
            gain, price = mixing, leak
        elif self.rule is Rule.PRIVACY:
            gain, price = leak, mixing
        else:
            gain, price = np.divide(leak, mixing, out=np.full_like(leak, -np.inf), where=mixing > 0), mixing
        return np.where(active & (price <= self.slack), gain, -np.inf), price

    def _row(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """(gains, prices) of the pairs (row, j), j > row."""
        masses = self.clusters.masses
        mixing = mixed_entropy(masses[row + 1 :], masses[row])
        return self._gains(self.leaks[row, row + 1 :], mixing, self.active[row + 1 :])

    def _scan(self, row: int) -> None:
        """Find the best pair of a row."""
        self.stale[row] = False
        self.best[row] = -np.inf
        if self.active[row] and row + 1 < len(self.best):
            gains, prices = self._row(row)
            at = int(gains.argmax())
            self.best[row], self.column[row], self.price[row] = gains[at], row + 1 + at, prices[at]

    def _settle(self, rows: np.ndarray) -> bool:
        """Look again at those of the rows whose best is a bound only; whether there were any."""
        doubtful = rows[self.stale[rows] | (self.price[rows] > self.slack) & (self.best[rows] > -np.inf)]
        for row in doubtful.tolist():
            self._scan(row)
        return len(doubtful) > 0

    def _choose(self) -> tuple[int, int, float] | None:
        """The pair to merge, and its lead on the next best one (0: the order of the list decided)."""
        while True:
            top = self.best.max()
            if top == -np.inf:
                return None
            rows = np.flatnonzero(self.best >= top - self.same)
            if not self._settle(rows):
                break
        first = int(rows[0])
        gains, _ = self._row(first)
        columns = np.flatnonzero(gains >= top - self.same)
        chosen = first, first + 1 + int(columns[0])
        if len(rows) > 1 or len(columns) > 1:
            return *chosen, 0.0
        gains[columns[0]] = -np.inf
        others = self.best.copy()
        others[first] = gains.max()
        while True:
            row = int(others.argmax())
            if row == first or not self._settle(np.array([row])):
                return *chosen, float(top - others[row])
            others[row] = self.best[row]

    def _merge(self, i: int, j: int) -> None:
        clusters, before = self.clusters, slice(0, i)
        clusters.columns[i] += clusters.columns[j]
        clusters.masses[i] += clusters.masses[j]
        clusters.columns[j], clusters.masses[j], clusters.totals[j] = 0.0, 0.0, 0.0
        self.active[j], self.best[j], self.stale[j] = False, -np.inf, False
        clusters.totals[i] = self.decrease.totals(clusters.columns[i : i + 1])[0]
        self._record()
        leak = self.decrease.of_merging(clusters, i, 0)
        self.leaks[before, i], self.leaks[i, i + 1 :] = leak[before], leak[i + 1 :]
        mixing = mixed_entropy(clusters.masses[before], clusters.masses[i])
        gains, prices = self._gains(leak[before], mixing, self.active[before])
        better = (gains >= self.best[before]) & (gains > -np.inf)
        changed = (self.column == i) | (self.column == j)
        self.stale |= changed & self.active
        self.best[before] = np.where(better, gains, self.best[before])
        self.column[before] = np.where(better, i, self.column[before])
        self.price[before] = np.where(better, prices, self.price[before])
        self.stale[before] &= ~better
        self._scan(i)

    def merged(self) -> Merging:
        merges: list[tuple[int, int]] = []
        ties, margin = 0, np.inf
        while (choice := self._choose()) is not None:
            i, j, lead = choice
            if lead > 0:
                margin = min(margin, lead)
            else:
                ties += 1
            merges.append((i, j))
            self._merge(i, j)
        useful = self.table.useful
        pairs = useful[np.array(merges, dtype=np.int64).reshape(-1, 2)]
        totals = np.array(self.totals)
        return Merging(
            useful,
            _labels(self.table.symbols, useful, pairs),
            np.array(self.disclosures),
            totals,
            leakages_of(self.table.measure, totals),
            pairs,
            self.table.nothing,
            ties,
            float(margin),
        )
