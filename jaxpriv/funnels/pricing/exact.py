"""The exact pricer of a joint distribution, if it has one: by its components, and the structure of each."""

import numpy as np

from jaxpriv.funnels.pricing._base import AbstractPricer
from jaxpriv.funnels.pricing.binary_bottleneck import BinaryBottleneckPricer
from jaxpriv.funnels.pricing.binary_funnel import BinaryFunnelPricer
from jaxpriv.funnels.pricing.bottleneck import BottleneckPricer
from jaxpriv.funnels.pricing.boxes import BoxFunnelPricer
from jaxpriv.funnels.pricing.components import blocks_of
from jaxpriv.funnels.pricing.known_private import SingleBottleneckPricer, SingleFunnelPricer
from jaxpriv.funnels.pricing.shared_attribute import BlockPricer

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
