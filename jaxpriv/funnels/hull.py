"""Where the hull of points (I(X;Y), cost) meets a target: the two releases to share time between."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jaxpriv.funnels.bounds import lower_hull


@dataclass(frozen=True)
class Crossing:
    """The hull at a target: 1 - `share` of point `first`, `share` of point `second`.

    `slope` is the slope of that edge, `beside` those of the edges before and after it (the edge's own, halved or
    doubled, where it is the last): a better release there has its price between these.
    """

    first: int
    second: int
    share: float
    slope: float
    beside: tuple[float, float]


class Target(NamedTuple):
    """Where on the hull a release is: form `disclosure`, `cost` (on a rising or a falling hull) or `price`."""

    form: str
    value: float
    rising: bool = True


def crossing_at(disclosures: np.ndarray, costs: np.ndarray, target: Target) -> Crossing:
    """The edge of the hull at the target; at a price the best point, twice.

    At I(X;Y) = target, or at its end where it does not reach so far; at a cost the most disclosure on a rising hull,
    the least on a falling one.
    """
    form, value, rising = target
    if form == "price":
        best = int(np.argmin(costs - value * disclosures))
        return Crossing(best, best, 0.0, value, (value, value))
    hull, scale = lower_hull(disclosures, costs), disclosures
    if form == "cost":
        # A funnel's hull may dip before it rises (and a bottleneck's rise after it fell): only the monotone part
        # counts.
        lowest = int(np.argmin(costs[hull]))
        hull = hull[lowest:] if rising else hull[: lowest + 1]
        scale, value = (costs, value) if rising else (-costs, -value)
    if len(hull) == 1:
        return Crossing(int(hull[0]), int(hull[0]), 0.0, 0.0, (0.0, 0.0))
    right = int(np.clip(np.searchsorted(scale[hull], value), 1, len(hull) - 1))
    first, second = int(hull[right - 1]), int(hull[right])
    run = float(scale[second] - scale[first])  # 0 where both ends of an edge cost the same
    share = min(max(float(value - scale[first]) / run, 0.0), 1.0) if run != 0 else 1.0
    slopes = np.diff(costs[hull]) / np.diff(disclosures[hull])
    slope = float(slopes[right - 1])
    before = float(slopes[right - 2]) if right > 1 else slope - 0.5 * abs(slope)
    after = float(slopes[right]) if right < len(slopes) else slope + abs(slope)
    return Crossing(first, second, share, slope, (before, after))
