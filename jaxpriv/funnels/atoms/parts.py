"""Blocks of a joint, one for each value of a shared attribute: their columns and how they are priced."""

from dataclasses import dataclass

import numpy as np

from jaxpriv._runtime.divergences import divergence
from jaxpriv.column_generation import Pool, cleaned
from jaxpriv.funnels.pricing import AbstractPricer, Component
from jaxpriv.funnels.pricing.local import LocalPricer


@dataclass(frozen=True, eq=False)
class Part:
    """A block, how it is priced, and a change of prices: a - lambda b = psi - (turn_s - lambda turn_x).q.

    Attributes:
        block: the joint of this value of the attribute.
        quick: a pricer that finds atoms, proving nothing; None where `sure` is quick enough.
        sure: a pricer that proves its bound; None where there is none.
    """

    block: Component
    quick: LocalPricer | None
    sure: AbstractPricer | None

    def turned(self, prices: np.ndarray, lam: float) -> np.ndarray:
        """Prices of psi = -H(Tq) + lambda H(q) from prices of a - lambda b."""
        block = self.block
        return prices + np.log(block.prior) @ block.conditional - lam * np.log(block.source)


def pool_of(block: Component, posteriors: np.ndarray) -> Pool:
    """The atoms `posteriors` (K, X_a), with a(q) = D(Tq || P_S) and b(q) = D(q || P_X)."""
    source, prior = block.source, block.prior
    clean = cleaned(posteriors, source)
    a = divergence((clean @ block.conditional.T) / prior, prior)
    return Pool(source, clean, a, divergence(clean / source, source), block.mass)


def first_atoms(block: Component) -> np.ndarray:
    """Every symbol alone, and P_X itself: any mean and any target is reachable from them."""
    size = len(block.source)
    return np.vstack([np.eye(size), block.source[None]]) if size > 1 else np.eye(1)


def parts_of(blocks: tuple[Component, ...], posteriors: np.ndarray) -> list[np.ndarray]:
    """The conditionals of `posteriors` (K, X) inside every block, where they have mass."""
    conditionals = []
    for block in blocks:
        inside = posteriors[:, block.useful]
        mass = inside.sum(axis=1)
        conditionals.append(inside[mass > 1e-9] / mass[mass > 1e-9, None])
    return conditionals
