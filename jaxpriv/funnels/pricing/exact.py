"""The exact pricer of a joint distribution, if it has one: by its components, and the structure of each.

The components are those of the support of P(S,X). If S = (A, S') and X = (A, X') share an attribute A, the joint is
block diagonal after sorting; A is found as the component of the bipartite graph that joins s and x where P(s,x) > 0.
Write q = (pi_a q_a). Then

    psi(q) = -(1 - lambda) H(pi) + sum_a pi_a psi_a(q_a),     psi_a(q) = -H(T_a q) + lambda H(q)
"""

from dataclasses import dataclass

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv.funnels.pricing._base import AbstractPricer, Priced, softmax
from jaxpriv.funnels.pricing.binary import BinaryBottleneckPricer, BinaryFunnelPricer
from jaxpriv.funnels.pricing.bottleneck import BottleneckPricer
from jaxpriv.funnels.pricing.boxes import BoxFunnelPricer


@dataclass(frozen=True, eq=False)
class Component:
    """One value of the shared attribute.

    Attributes:
        private, useful: which symbols of the whole joint it has.
        mass: P(A = a).
        joint: P(S,X | A = a), shape (S_a, X_a).
    """

    private: np.ndarray
    useful: np.ndarray
    mass: float
    joint: np.ndarray

    @property
    def source(self) -> np.ndarray:
        """P(X | A = a), shape (X_a,)."""
        return self.joint.sum(axis=0)

    @property
    def prior(self) -> np.ndarray:
        """P(S | A = a), shape (S_a,)."""
        return self.joint.sum(axis=1)

    @property
    def conditional(self) -> np.ndarray:
        """T_a = P(S | X), shape (S_a, X_a)."""
        return self.joint / self.source


def blocks_of(joint: np.ndarray) -> tuple[Component, ...]:
    """The components of `joint` (S, X), whose every row and column has mass, in the order of their useful symbols."""
    from scipy.sparse import bmat, csr_matrix  # costs a tenth of a second: imported where needed
    from scipy.sparse.csgraph import connected_components

    edges = csr_matrix(joint > 0)
    count, label = connected_components(bmat([[None, edges], [edges.T, None]]), directed=False)
    rows, columns = label[: joint.shape[0]], label[joint.shape[0] :]
    components = []
    for number in range(count):
        private, useful = np.flatnonzero(rows == number), np.flatnonzero(columns == number)
        part = joint[np.ix_(private, useful)]
        mass = float(part.sum())
        components.append(Component(private, useful, mass, part / mass))
    return tuple(sorted(components, key=lambda block: int(block.useful[0])))


def whole_block(joint: np.ndarray) -> Component:
    """All of `joint` (S, X), total one, as if it had no shared attribute."""
    return Component(np.arange(len(joint)), np.arange(joint.shape[1]), 1.0, joint)


# Pricing with a shared attribute A: one search for each of its values, and a closed form over pi = P(A | Y = y).
#
# With m_a the minimum (M_a the maximum) of psi_a(q_a) - nu_a.q_a,
#
#     funnel:      min_pi -(1 - lambda) H(pi) + pi.m = -(1 - lambda) ln sum_a exp( -m_a/(1 - lambda) ),
#                  at pi_a proportional to exp( -m_a/(1 - lambda) )
#     bottleneck:  max_pi -(1 - lambda) H(pi) + pi.M = max_a M_a for lambda <= 1,
#                  (lambda - 1) ln sum_a exp( M_a/(lambda - 1) ) beyond.
#
# Both increase with m_a (M_a), so bounds for the parts give a bound for the whole.


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


# Pricing where S is known: H(Tq) = 0, and lambda H(q) - nu.q is concave.


class SingleFunnelPricer(AbstractPricer):
    """min_q lambda H(q) - nu.q: a symbol alone, that of the largest price."""

    def price(
        self, prices: np.ndarray, lam: float, count: int, clock: Clock = ENDLESS, aim: float | None = None
    ) -> Priced:
        if not lam >= 0:
            raise ValueError("lambda must be >= 0")
        order = np.argsort(-prices, kind="stable")[:count]
        return Priced(-float(prices[order[0]]), True, np.eye(len(prices))[order])


class SingleBottleneckPricer(AbstractPricer):
    """max_q lambda H(q) - nu.q = lambda ln sum_x exp(-nu_x/lambda), at q proportional to exp(-nu/lambda)."""

    def price(
        self, prices: np.ndarray, lam: float, count: int, clock: Clock = ENDLESS, aim: float | None = None
    ) -> Priced:
        if not lam >= 0:
            raise ValueError("lambda must be >= 0")
        low = abs(float(prices.min()))
        scale = max(lam, _EPS * (1.0 + low))  # a larger lambda is on the safe side: H(q) >= 0
        bound, weights = softmax(-prices, scale)
        return Priced(float(bound) + 16 * _EPS * (len(prices) * scale + low), True, weights[None])


# Pairs that the funnel pricer for a binary S holds at once: about a gigabyte.
_MOST_SYMBOLS = 4000
# Entries of T up to which boxes are divided: a box costs their number of operations many times.
_MOST_ENTRIES = 20_000
# Coordinates of r = Tq that one search for the bottleneck may have.
_MOST_PRIVATE = 5


def exact_pricer(joint: np.ndarray, *, funnel: bool) -> AbstractPricer | None:
    """A pricer for `joint` (S, X), every row and column with mass, that finds AND proves the optimum; or None."""
    blocks = blocks_of(joint)
    pricers = [connected_pricer(block.joint, funnel=funnel) for block in blocks]
    available = tuple(pricer for pricer in pricers if pricer is not None)
    if len(available) < len(pricers):
        return None
    if len(blocks) == 1:
        return available[0]
    return BlockPricer(blocks, available, funnel=funnel)


def connected_pricer(joint: np.ndarray, *, funnel: bool) -> AbstractPricer | None:
    """The same for a joint without a shared attribute."""
    private, useful = joint.shape
    conditional = joint / joint.sum(axis=0)
    if private == 1:
        return SingleFunnelPricer() if funnel else SingleBottleneckPricer()
    if private == 2 and not funnel:
        return BinaryBottleneckPricer(conditional)
    if private == 2 and useful <= _MOST_SYMBOLS:
        return BinaryFunnelPricer(conditional)
    if funnel and private * useful <= _MOST_ENTRIES:
        return BoxFunnelPricer(conditional)
    if not funnel and min(private, useful) <= _MOST_PRIVATE:
        return BottleneckPricer(conditional)
    return None
