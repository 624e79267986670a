"""What a pricer is: the best posterior for given prices, with a proof.

    psi(q) = -H(Tq) + lambda H(q),   T = P(S|X), q a distribution over X

The funnel is the lower convex envelope of psi at P_X, the bottleneck its upper concave envelope: the linear program
over posteriors needs the minimum (maximum) of psi(q) - nu.q over the simplex.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv._runtime.resources import processors


@dataclass(frozen=True, eq=False)
class Priced:
    """Attributes:
    bound: rigorous, rounding included: a lower bound on min_q psi(q) - nu.q for a funnel pricer, an upper bound
        on max_q psi(q) - nu.q for a bottleneck pricer. Infinite (-inf, +inf) where the pricer proves nothing.
    exact: whether `bound` is meant to reach the optimum (and not just to be valid).
    posteriors: (n, X) the best ones found, distinct, best first.
    work: how much was done for it, in entries of T looked at; 0 where that is not counted.
    """

    bound: float
    exact: bool
    posteriors: np.ndarray
    work: int = 0


class AbstractPricer(ABC):
    """Prices posteriors of one joint distribution."""

    @abstractmethod
    def price(
        self, prices: np.ndarray, lam: float, count: int, clock: Clock = ENDLESS, aim: float | None = None
    ) -> Priced:
        """Bound and at most `count` good posteriors for nu = `prices` (X,) and lambda = `lam` >= 0.

        A search that the clock ends gives a weaker bound, with `exact` False. A search may end, too, where
        it has shown that the minimum is at least `aim`, or found some posteriors below; pricers that are quick enough
        without an aim pay no attention to it.
        """


# Posteriors that agree to this many decimals count as one: columns of a linear program that are nearer to each other
# make it ill-conditioned, and add next to nothing.
_DECIMALS = 7


def distinct(posteriors: np.ndarray) -> np.ndarray:
    """The rows of (n, X) that no earlier row agrees with to seven decimals, in their order."""
    _, first = np.unique(np.round(posteriors, _DECIMALS) + 0.0, axis=0, return_index=True)
    return posteriors[np.sort(first)]


def xlogx(x: np.ndarray) -> np.ndarray:
    """x ln x, 0 at 0."""
    return x * np.log(np.where(x > 0, x, 1.0))


def softmax(values: np.ndarray, heat: float | np.ndarray = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """(heat ln sum exp(values/heat), the shares of its terms) over the last axis; an array `heat` has 1 there."""
    top = values.max(axis=-1, keepdims=True)
    weights = np.exp((values - top) / heat)
    total = weights.sum(axis=-1, keepdims=True)
    return (top + heat * np.log(total))[..., 0], weights / total


Part = TypeVar("Part")
Result = TypeVar("Result")


def on_all_cores(function: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """`function` of every part, in the order of `parts`, by as many threads as there are cores."""
    threads = min(processors(), len(parts))
    if threads <= 1:
        return [function(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, parts))
