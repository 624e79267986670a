"""The columns of a linear program over posteriors that are known so far."""

from dataclasses import dataclass, replace

import numpy as np

# Entries below this fraction of p are zero: they come from searches in logarithms.
_TRACE = 1e-12
# Columns that agree to this many decimals are one: their values differ by less than the square of that.
_DECIMALS = 9


@dataclass(frozen=True, eq=False)
class Pool:
    """Posteriors of one block of a program, each with what it leaks and discloses.

    A block belongs to one value of an attribute that all releases show or none does.

    Attributes:
        source: p, the mean of every plan, shape (X,).
        posteriors: q, shape (K, X).
        a, b: what a column leaks and discloses, shape (K,).
        mass: the probability of the block.
        origins: how each column is made, shape (K,) of objects, where one posterior stands for several of them, of
            several values.
    """

    source: np.ndarray
    posteriors: np.ndarray
    a: np.ndarray
    b: np.ndarray
    mass: float = 1.0
    origins: np.ndarray | None = None

    @property
    def lifts(self) -> np.ndarray:
        """q/p, shape (K, X)."""
        return self.posteriors / self.source

    @property
    def _keys(self) -> np.ndarray:
        """Rows that are equal where columns are."""
        return _keys(self.posteriors if self.origins is None else np.column_stack([self.posteriors, self.a]))

    def reduced(self, prices: np.ndarray, lam: float) -> np.ndarray:
        """a - lambda b - nu.q of every column, for nu = `prices` (X,)."""
        return self.a - lam * self.b - self.posteriors @ prices

    def take(self, index: np.ndarray) -> "Pool":
        origins = None if self.origins is None else self.origins[index]
        return replace(self, posteriors=self.posteriors[index], a=self.a[index], b=self.b[index], origins=origins)

    def __add__(self, other: "Pool") -> "Pool":
        """Both, without those of `other` that are here already."""
        seen = {row.tobytes() for row in self._keys}
        fresh = [k for k, row in enumerate(other._keys) if row.tobytes() not in seen]
        new = other.take(np.array(fresh, dtype=int))
        return replace(
            self,
            posteriors=np.vstack([self.posteriors, new.posteriors]),
            a=np.concatenate([self.a, new.a]),
            b=np.concatenate([self.b, new.b]),
            origins=None if self.origins is None else np.concatenate([self.origins, new.origins]),
        )

    def trimmed(self, cost: np.ndarray, needed: np.ndarray, most: int) -> "Pool":
        """All columns, or once there are more than `most` half as many: of least `cost`, beside those `needed`."""
        if len(self.a) <= most:
            return self
        order = np.argsort(np.where(needed, -np.inf, cost), kind="stable")
        return self.take(np.sort(order[: most // 2 + int(needed.sum())]))


def cleaned(posteriors: np.ndarray, source: np.ndarray) -> np.ndarray:
    """`posteriors` (K, X) without traces and without duplicates."""
    clean = np.where(posteriors > _TRACE * source, posteriors, 0.0)
    clean /= clean.sum(axis=1, keepdims=True)
    if len(clean) > 1:
        _, first = np.unique(_keys(clean), axis=0, return_index=True)
        clean = clean[np.sort(first)]
    return clean


def _keys(posteriors: np.ndarray) -> np.ndarray:
    return np.round(posteriors, _DECIMALS) + 0.0  # + 0.0: no negative zeros
