"""Which exact pricer a joint distribution has, if any."""

import numpy as np

from jaxpriv._clock import ENDLESS, Clock
from jaxpriv.funnels.pricing._base import AbstractPricer, Priced
from jaxpriv.funnels.pricing.binary import BinaryBottleneckPricer, BinaryFunnelPricer
from jaxpriv.funnels.pricing.bottleneck import BottleneckPricer
from jaxpriv.funnels.pricing.boxes import BoxFunnelPricer
from jaxpriv.funnels.pricing.components import BlockBottleneckPricer, BlockFunnelPricer, blocks_of

# Pricing where S is known: H(Tq) = 0, and lambda H(q) - nu.q is concave.


_EPS = float(np.finfo(np.float64).eps)


class SingleFunnelPricer(AbstractPricer):
    """min_q lambda H(q) - nu.q: a symbol alone, the dearest one."""

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
        low = float(prices.min())
        scale = max(lam, _EPS * (1.0 + abs(low)))  # a larger lambda is on the safe side: H(q) >= 0
        weights = np.exp(-(prices - low) / scale)
        total = float(weights.sum())
        bound = scale * np.log(total) - low
        bound += 16 * _EPS * (len(prices) * scale + abs(low))
        return Priced(float(bound), True, (weights / total)[None])


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
    known = tuple(pricer for pricer in pricers if pricer is not None)
    if len(known) < len(pricers):
        return None
    if len(blocks) == 1:
        return known[0]
    return BlockFunnelPricer(blocks, known) if funnel else BlockBottleneckPricer(blocks, known)


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
