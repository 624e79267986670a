"""Pricing where S is known: H(Tq) = 0, and lambda H(q) - nu.q is concave."""

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv.funnels.pricing._base import AbstractPricer, Priced, softmax

_EPS = float(np.finfo(np.float64).eps)


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
