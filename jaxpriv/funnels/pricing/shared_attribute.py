"""Pricing with a shared attribute A: one search for each of its values, and a closed form over pi = P(A | Y = y).

With q = (pi_a q_a),

    psi(q) = -(1 - lambda) H(pi) + sum_a pi_a psi_a(q_a),     psi_a(q) = -H(T_a q) + lambda H(q).

With m_a the minimum (M_a the maximum) of psi_a(q_a) - nu_a.q_a,

    funnel:      min_pi -(1 - lambda) H(pi) + pi.m = -(1 - lambda) ln sum_a exp( -m_a/(1 - lambda) ),
                 at pi_a proportional to exp( -m_a/(1 - lambda) )
    bottleneck:  max_pi -(1 - lambda) H(pi) + pi.M = max_a M_a for lambda <= 1,
                 (lambda - 1) ln sum_a exp( M_a/(lambda - 1) ) beyond.

Both increase with m_a (M_a), so bounds for the parts give a bound for the whole.
"""

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv.funnels.pricing._base import AbstractPricer, Priced
from jaxpriv.funnels.pricing.components import Component

_EPS = float(np.finfo(np.float64).eps)


class BlockPricer(AbstractPricer):
    """The extreme of psi(q) - nu.q from pricers of the blocks; of a funnel for lambda < 1."""

    def __init__(self, blocks: tuple[Component, ...], pricers: tuple[AbstractPricer, ...], *, funnel: bool):
        self._blocks, self._pricers, self._sign = blocks, pricers, 1.0 if funnel else -1.0

    def price(
        self, prices: np.ndarray, lam: float, count: int, clock: Clock = ENDLESS, aim: float | None = None
    ) -> Priced:
        # The whole is at least the aim where every part is at least this.
        aims = [None if aim is None else aim - (1.0 - lam) * np.log(block.mass) for block in self._blocks]
        parts = [
            pricer.price(prices[block.useful], lam, count, clock, block_aim)
            for block, pricer, block_aim in zip(self._blocks, self._pricers, aims, strict=True)
        ]
        sign, extremes = self._sign, np.array([part.bound for part in parts])
        heat, atoms = sign * (1.0 - lam), []
        if heat > 0:
            tilted = -sign * extremes / heat
            total = float(np.logaddexp.reduce(tilted))
            bound = -sign * heat * total
            share = np.exp(tilted - total)
            # The best atom, and those with the k-th best part of every block.
            for number in range(max(len(part.posteriors) for part in parts)):
                chosen = [part.posteriors[min(number, len(part.posteriors) - 1)] for part in parts]
                atoms.append(self._whole(share / share.sum(), chosen))
        else:
            bound = float(extremes.max())
            for number in np.argsort(-extremes, kind="stable"):
                alone = np.eye(len(parts))[number]
                for posterior in parts[number].posteriors:
                    chosen = [part.posteriors[0] for part in parts]
                    chosen[number] = posterior
                    atoms.append(self._whole(alone, chosen))
        error = 16 * _EPS * (len(parts) * max(heat, 0.0) + float(np.abs(extremes).max()) + abs(bound))
        return Priced(bound - sign * error, all(part.exact for part in parts), np.array(atoms[:count]))

    def _whole(self, share: np.ndarray, parts: list[np.ndarray]) -> np.ndarray:
        """One posterior (X,) from those of the blocks and what each block has of it."""
        whole = np.zeros(sum(len(part) for part in parts))
        for block, weight, part in zip(self._blocks, share, parts, strict=True):
            whole[block.useful] = weight * part
        return whole
