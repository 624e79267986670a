"""The lower convex hull of points (disclosure, cost): what time sharing between releases reaches.

A switch, shown with the output, chooses between two mechanisms. I(X;Y) and every sum_y phi(w_y) are then the means of
the two, so every point of the hull can be reached. The cost is the leakage for a funnel and minus I(S;Y) for a
bottleneck.
"""

from dataclasses import dataclass

import numpy as np


def lower_hull(disclosures: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Indices of the vertices by increasing disclosure (Andrew's chain); the lowest cost of one disclosure counts."""
    kept: list[int] = []
    for i in np.lexsort((costs, disclosures)):
        if kept and disclosures[i] == disclosures[kept[-1]]:
            continue
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            run, rise = disclosures[b] - disclosures[a], costs[b] - costs[a]
            if rise * (disclosures[i] - disclosures[b]) < (costs[i] - costs[b]) * run:
                break
            kept.pop()
        kept.append(int(i))
    return np.array(kept)


# Where the hull of points (I(X;Y), cost) meets a target: the two releases to share time between.


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


def at_disclosure(disclosures: np.ndarray, costs: np.ndarray, target: float) -> Crossing:
    """The hull at I(X;Y) = target (at its end where it does not reach so far)."""
    hull = lower_hull(disclosures, costs)
    right = int(np.clip(np.searchsorted(disclosures[hull], target), 1, len(hull) - 1))
    return _between(disclosures, costs, hull, right, target, disclosures)


def at_cost(disclosures: np.ndarray, costs: np.ndarray, target: float, *, rising: bool) -> Crossing:
    """The hull where its cost is `target`: the most disclosure on a rising hull, the least on a falling one."""
    hull = lower_hull(disclosures, costs)
    # A funnel's hull may dip before it rises (and a bottleneck's rise after it fell): only the monotone part counts.
    lowest = int(np.argmin(costs[hull]))
    part = hull[lowest:] if rising else hull[: lowest + 1]
    if len(part) == 1:
        return Crossing(int(part[0]), int(part[0]), 0.0, 0.0, (0.0, 0.0))
    order = costs[part] if rising else -costs[part]
    right = int(np.clip(np.searchsorted(order, target if rising else -target), 1, len(part) - 1))
    return _between(disclosures, costs, part, right, target, costs)


def _between(
    disclosures: np.ndarray, costs: np.ndarray, hull: np.ndarray, right: int, target: float, scale: np.ndarray
) -> Crossing:
    first, second = int(hull[right - 1]), int(hull[right])
    run = float(scale[second] - scale[first])  # 0 where both ends of an edge cost the same
    share = min(max(float(target - scale[first]) / run, 0.0), 1.0) if run != 0 else 1.0
    slopes = np.diff(costs[hull]) / np.diff(disclosures[hull])
    slope = float(slopes[right - 1])
    before = float(slopes[right - 2]) if right > 1 else slope - 0.5 * abs(slope)
    after = float(slopes[right]) if right < len(slopes) else slope + abs(slope)
    return Crossing(first, second, share, slope, (before, after))
