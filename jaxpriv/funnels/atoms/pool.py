"""Atoms of one value of the shared attribute: their posteriors and what they cost."""

from dataclasses import dataclass

import numpy as np

from jaxpriv._divergence import divergence
from jaxpriv.funnels.pricing import AbstractPricer, Component

# Entries below this fraction of P_X(x) are zero: they come from searches in logarithms.
_TRACE = 1e-12
# Atoms that agree to this many decimals are one: their values differ by less than the square of that.
_DECIMALS = 9


@dataclass(frozen=True, eq=False)
class Part:
    """A block, how it is priced, and a change of prices: a - lambda b = psi - (turn_s - lambda turn_x).q.

    Attributes:
        block: the joint of this value of the attribute.
        quick: a pricer that finds atoms, proving nothing; None where `sure` is quick enough.
        sure: a pricer that proves its bound; None where there is none.
    """

    block: Component
    quick: AbstractPricer | None
    sure: AbstractPricer | None

    def turned(self, prices: np.ndarray, lam: float) -> np.ndarray:
        """Prices of psi = -H(Tq) + lambda H(q) from prices of a - lambda b."""
        block = self.block
        return prices + np.log(block.prior) @ block.conditional - lam * np.log(block.source)


@dataclass(frozen=True, eq=False)
class Pool:
    """Posteriors (K, X_a) with a(q) = D(Tq || P_S) and b(q) = D(q || P_X), shape (K,)."""

    posteriors: np.ndarray
    a: np.ndarray
    b: np.ndarray

    def take(self, index: np.ndarray) -> "Pool":
        return Pool(self.posteriors[index], self.a[index], self.b[index])

    def __add__(self, other: "Pool") -> "Pool":
        """Both, without those of `other` that are here already."""
        seen = {row.tobytes() for row in _keys(self.posteriors)}
        fresh = [k for k, row in enumerate(_keys(other.posteriors)) if row.tobytes() not in seen]
        new = other.take(np.array(fresh, dtype=int))
        return Pool(
            np.vstack([self.posteriors, new.posteriors]),
            np.concatenate([self.a, new.a]),
            np.concatenate([self.b, new.b]),
        )


def pool_of(block: Component, posteriors: np.ndarray) -> Pool:
    """The atoms `posteriors` (K, X_a), cleaned of traces and of duplicates."""
    clean = np.where(posteriors > _TRACE * block.source, posteriors, 0.0)
    clean /= clean.sum(axis=1, keepdims=True)
    _, first = np.unique(_keys(clean), axis=0, return_index=True)
    clean = clean[np.sort(first)]
    seen = (clean @ block.conditional.T) / block.prior
    return Pool(clean, divergence(seen, block.prior), divergence(clean / block.source, block.source))


def first_atoms(block: Component) -> np.ndarray:
    """Every symbol alone, and P_X itself: any mean and any target is reachable from them."""
    size = len(block.source)
    return np.vstack([np.eye(size), block.source[None]]) if size > 1 else np.eye(1)


def parts_of(blocks: tuple[Component, ...], posteriors: np.ndarray) -> list[np.ndarray]:
    """The conditionals of `posteriors` (K, X) inside every block, where they have mass."""
    found = []
    for block in blocks:
        inside = posteriors[:, block.useful]
        mass = inside.sum(axis=1)
        found.append(inside[mass > 1e-9] / mass[mass > 1e-9, None])
    return found


def _keys(posteriors: np.ndarray) -> np.ndarray:
    return np.round(posteriors, _DECIMALS) + 0.0  # + 0.0: no negative zeros
