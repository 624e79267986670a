"""What a merge of two outputs takes away: from I(X;Y), and from the leakage.

Clusters are columns w_i[s] = P(S=s, Y=i) of mass m_i. Merging i and j touches these two only (Makhdoumi et al. 2014,
Proposition 1). Let B be the one of the two that a merged output came from, and

    g(a, b) = a ln((a+b)/a) + b ln((a+b)/b) >= 0,     g(a, 0) = 0.

For a deterministic map I(X;Y) = H(Y), so the decrease of I(X;Y) is H(B, merged) = g(m_i, m_j), and that of I(S;Y) is
I(B;S, merged) = H(B) - H(B|S):

    g(m_i, m_j) - sum_s g(w_i[s], w_j[s]).

Both are symmetric in i and j to the last bit, and a merge of columns with disjoint supports takes the same from both
to the last bit. The rounding error is a few eps times g(m_i, m_j), so a ratio of the two is accurate also for
clusters of tiny mass. Any other average measure, outer(sum_y column(w_y)), loses column(w_i) + column(w_j) -
column(w_i + w_j) of its total.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from jaxpriv._runtime.types import Arr
from jaxpriv.errors import InputError
from jaxpriv.leakage import AbstractAverageLeakage


@contextmanager
def _own_settings() -> Iterator[None]:
    """Float64 and NumPy's broadcasting rules, whatever the caller's JAX is set to."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        yield


Columns = Float[np.ndarray, "n s"]
Column = Float[np.ndarray, " s"]
Vector = Float[np.ndarray, " n"]

_TINY = float(np.finfo(np.float64).tiny)
_EPS = float(np.finfo(np.float64).eps)


def mixed_entropy(a: np.ndarray, b: np.ndarray | float) -> np.ndarray:
    """g(a, b) of an array a and whatever broadcasts to it; no term is negative, so nothing cancels."""
    high, low = np.maximum(a, b), np.minimum(a, b)
    share = low / np.maximum(high, _TINY)
    total = high + low
    total *= np.log1p(share)
    np.maximum(share, _TINY, out=share)  # 0 ln 0 = 0
    np.log(share, out=share)
    share *= low
    total -= share
    return total


@dataclass
class Clusters:
    """The outputs so far; a cluster that was merged into another one is a row of zeros.

    `columns` (n, S), `masses` (n,) and `totals` (n,) = column(w) of each.
    """

    columns: Columns
    masses: Vector
    totals: Vector

    def copy(self) -> "Clusters":
        return Clusters(self.columns.copy(), self.masses.copy(), self.totals.copy())


class AbstractDecrease(ABC):
    """The sum of column(w) over the clusters, as a merge criterion.

    Attributes:
        noise: two decreases that differ by no more are one number to float64.
    """

    noise: float

    @abstractmethod
    def totals(self, columns: Columns) -> Vector:
        """column(w) of each cluster; clusters are rows."""

    @abstractmethod
    def of_merging(self, clusters: Clusters, index: int, start: int) -> Vector:
        """What the sum loses when cluster `index` is merged with clusters start, start + 1, ..."""


class InformationDecrease(AbstractDecrease):
    """I(S;Y) on the host: nothing to compile, and accurate to a few eps."""

    noise = 32 * _EPS

    def __init__(self, prior: Column):
        self._prior = prior

    def totals(self, columns: Columns) -> Vector:
        """|w| D(w/|w| || p)."""
        masses = np.maximum(columns.sum(axis=1), _TINY)
        lift = columns / masses[:, None] / self._prior
        return (columns * np.log(np.where(lift > 0, lift, 1.0))).sum(axis=1)

    def of_merging(self, clusters: Clusters, index: int, start: int) -> Vector:
        mixing = mixed_entropy(clusters.masses[start:], clusters.masses[index])
        return mixing - mixed_entropy(clusters.columns[start:], clusters.columns[index]).sum(axis=1)


@eqx.filter_jit
def _columns(measure: AbstractAverageLeakage, columns: Arr, prior: Arr) -> Arr:
    return jax.vmap(measure.column, in_axes=(0, None))(columns, prior)


class MeasuredDecrease(AbstractDecrease):
    """Any average measure by its compiled column function, in float64 on JAX's default device.

    A call evaluates one cluster against all the others, a row of the pair table: O(n |S|) work in one program.

    Raises InputError if the measure is infinite when X itself is released.
    """

    def __init__(self, measure: AbstractAverageLeakage, columns: Columns, prior: Column):
        self._measure, self._prior = measure, prior
        totals = self.totals(columns)
        if not np.all(np.isfinite(totals)):
            raise InputError("leakage is infinite when X itself is released, so merges have no finite decrease")
        self.noise = 32 * _EPS * max(1.0, float(np.abs(totals).sum()))

    def totals(self, columns: Columns) -> Vector:
        with _own_settings():
            return np.array(_columns(self._measure, columns, self._prior))

    def of_merging(self, clusters: Clusters, index: int, start: int) -> Vector:
        merged = self.totals(clusters.columns + clusters.columns[index])  # of all: one shape is compiled once
        return clusters.totals[start:] + clusters.totals[index] - merged[start:]


def leakages_of(measure: AbstractAverageLeakage, totals: Vector) -> Vector:
    """The values of `measure` at these sums of column(w)."""
    with _own_settings():
        return np.maximum([float(measure.outer(np.asarray(total))) for total in totals], 0.0)


def total_at(measure: AbstractAverageLeakage, value: float) -> float:
    """The sum of column(w) at which `measure` has this value."""
    with _own_settings():
        return float(measure.outer_inverse(np.asarray(value)))
