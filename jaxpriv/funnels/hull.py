"""The lower convex hull of points (disclosure, cost): what time sharing between releases reaches.

A switch, shown with the output, chooses between two mechanisms. I(X;Y) and every sum_y phi(w_y) are then the means of
the two, so every point of the hull can be reached. The cost is the leakage for a funnel and minus I(S;Y) for a
bottleneck.
"""

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
