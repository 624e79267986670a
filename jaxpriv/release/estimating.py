"""What the table was, estimated from its release and the public design: counts of classes, with standard errors.

Of n records, n_x with the useful symbol x, the release has m_y with the output y. E m = n W for the counts n (X,), so
for every g (Y,) the sum of g(y) over the released records is an estimate of sum_x n_x (W g)(x). For the records of a
class, h(x) = 1 or 0, it is off by sum_x n_x d(x) on average, d = h - W g, and its variance over the draws is
sum_x n_x ((W g^2)(x) - (W g)(x)^2). The weights g are those of ridge regressions of h on the rows of W, with the
penalty at which n max |d| and the standard error together are smallest.

n max |d| bounds the systematic error of all tables. Most of them would not have been released as this one: each mean
(n W)_y is in the interval of Clopper and Pearson about m_y. That is for draws of equal probabilities; of different ones
a count has at most the same tails from 1 beyond its mean on (Hoeffding 1956), and nearer to it tails of at most about
their square more, which is nothing for those used here. So for every l (Y,)

    sum_x n_x d(x)  <=  n max_x (d - W l)(x)  +  sum_y max( l_y low_y, l_y high_y ) ,

and the duals of the linear program over such tables are the best l.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from jaxpriv._runtime.module import summary
from jaxpriv._runtime.validation import instance
from jaxpriv.release.grouped import GroupedMechanism
from jaxpriv.release.matching import released_symbols
from jaxpriv.release.mechanism import MADE_BY_FIT, Mechanism
from jaxpriv.statistics.confidence.intervals import clopper_pearson_together
from jaxpriv.statistics.tables.readers import Source

# Ridge penalties, as shares of the largest squared singular value: at the least one a fit is exact where one exists.
_PENALTIES = np.logspace(-14, 1, 61)
# Steps of expectation maximisation: they are for standard errors, which need few digits.
_STEPS = 500
# Singular values below this share of the largest one are rounding.
_RANK = 1e-13
# The probability that the means of the outputs are not all in their intervals: little beside the 5 in 100 of what is
# stated. Entries of W up to which a linear program takes half a second (of 350^2 it takes 3, of 500^2 12): of one with
# more, l = 0.
_OUTSIDE, _ENTRIES = 1e-3, 200**2
# Standard errors on either side of 95 of 100 estimates.
_SIDE = 2.0


@dataclass(frozen=True, eq=False)
class CountEstimate:
    """The records of each class of a useful column, estimated from a release.

    Attributes:
        labels: of the classes, (k,).
        count: (k,) float64, the estimates; they may be negative, and are not rounded.
        standard_error: (k,), of the draws: the table is held fixed.
        bias: (k,), the largest systematic error that a table which agrees with the release may have, or with more than
            200^2 pairs of symbols any table; 0 (rounding apart) where the design determines the count.
        low, high: (k,), the range in which the count of the original table lies in about 95 of 100 releases: the
            systematic errors on each side, and two standard errors.
    """

    labels: tuple[str, ...]
    count: np.ndarray
    standard_error: np.ndarray
    bias: np.ndarray
    low: np.ndarray
    high: np.ndarray

    __repr__ = summary

    @property
    def doubtful(self) -> bool:
        """Whether a class has fewer than no records, by more than its bias and five standard errors.

        A release of the design gives that about once in millions. The table is then another one: the original, say.
        """
        return bool((self.count + self.bias + 5.0 * self.standard_error < -1.0).any())


def estimate_counts(mechanism: Mechanism | GroupedMechanism, released: Source) -> Mapping[str, CountEstimate]:
    """How many records of the original table each class of each useful column had, from what was released.

    For the users of a release: it takes the public design and the released table, and no other file. A count of the
    released table itself is biased, as the draws move records between classes. The count of the original table lies
    between `low` and `high` in about 95 of 100 releases.

    Every record is an independent draw. With `unseen` a later table may have records that no class of the design
    holds; they were released as those of another symbol, and are counted there.

    Raises `InputError` for a table without the released columns, or with a combination that the design never releases.
    """
    instance(mechanism, "mechanism", Mechanism, GroupedMechanism, hint=MADE_BY_FIT)
    estimates = {}
    for part in mechanism.parts:
        counts = np.bincount(released_symbols(part, released), minlength=len(part.released))
        weights = _Weights(part.matrix(), counts)
        for place, name in enumerate(part.codebook.useful):
            labels = part.codebook.rules[name].labels
            classes = (part.useful[:, place, None] == np.arange(len(labels))).astype(np.float64)
            estimates[name] = CountEstimate(labels, *weights.estimates(classes))
    return estimates


def _likeliest(matrix: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Records of each useful symbol (X,) that make the released counts (Y,) likeliest, by expectation maximisation."""
    shares = np.full(len(matrix), counts.sum() / len(matrix))
    for _ in range(_STEPS):
        expected = shares @ matrix
        shares = shares * (matrix @ np.divide(counts, expected, out=np.zeros(len(counts)), where=expected > 0))
    return shares


class _Weights:
    """The singular values of W scaled by the spread of the outputs: they solve all ridge regressions on it."""

    def __init__(self, matrix: np.ndarray, counts: np.ndarray):
        self.matrix, self.counts = matrix, counts
        self.records = _likeliest(matrix, counts)
        # An output that was not drawn has a variance, too: that of half a draw.
        self.spread = np.sqrt((self.records @ matrix + 0.5) / (counts.sum() + 0.5 * len(counts)))
        self.left, values, self.right = np.linalg.svd(matrix / self.spread, full_matrices=False)
        determined = values > _RANK * values.max()
        self.left, self.values, self.right = self.left[:, determined], values[determined], self.right[determined]

    def estimates(self, classes: np.ndarray) -> tuple[np.ndarray, ...]:
        """The numbers of `CountEstimate`, each (k,), of classes (X, k)."""
        records = self.counts.sum()
        best, gaps = np.full((3, classes.shape[1]), np.inf), np.zeros_like(classes)
        for penalty in _PENALTIES * self.values[0] ** 2:
            weights, mean, spread = self._regressed(classes, penalty)
            # The likeliest records may have none of a symbol that makes most of the variance, which is itself
            # estimated from the release: one more record of that symbol and twice its own standard error are added.
            variance = self.records @ spread + spread.max(axis=0)
            _, _, added = self._regressed(spread, penalty)
            error = np.sqrt(variance + 2 * np.sqrt(self.records @ added))
            trial = np.array([self.counts @ weights, error, records * abs(classes - mean).max(axis=0)])
            better = trial[1:].sum(axis=0) < best[1:].sum(axis=0)
            best[:, better], gaps[:, better] = trial[:, better], (classes - mean)[:, better]
        count, error, _ = best
        above, below = ([self._largest(sign * gap) for gap in gaps.T] for sign in (1.0, -1.0))
        low, high = count - below - _SIDE * error, count + above + _SIDE * error
        return count, error, np.maximum(np.maximum(above, below), 0.0), np.maximum(low, 0.0), np.minimum(high, records)

    def _largest(self, gap: np.ndarray) -> float:
        """At least the largest sum_x n_x gap(x) over the tables n (X,) that agree with the release."""
        from scipy.optimize import linprog  # costs a third of a second: imported where needed

        records = self.counts.sum()
        whole = records * gap.max()
        if whole <= 0.5 or self.matrix.size > _ENTRIES:  # half a record is none
            return whole
        low, high = records * np.stack(clopper_pearson_together(self.counts, records, _OUTSIDE))
        sides, total = np.vstack([self.matrix.T, -self.matrix.T]), np.ones((1, len(gap)))
        result = linprog(-gap, sides, np.append(high, -low), total, [records], method="highs")
        if result.status != 0:  # no such table: it is none that the design released
            return whole
        below, above = result.ineqlin.marginals.reshape(2, -1)
        slopes = above - below
        proved = records * (gap - self.matrix @ slopes).max() + np.maximum(slopes * low, slopes * high).sum()
        return min(whole, proved)

    def _regressed(self, targets: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """g (Y, k), W g (X, k), and what a record of each symbol adds to the variance, W g^2 - (W g)^2."""
        along = (self.values / (self.values**2 + penalty))[:, None] * (self.left.T @ targets)
        weights = (self.right.T @ along) / self.spread[:, None]
        mean = self.matrix @ weights
        return weights, mean, (self.matrix @ weights**2 - mean**2).clip(0.0)
