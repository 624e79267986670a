"""The most useful mechanism under a pointwise privacy limit: extremal mechanisms, certified.

    maximum_utility(source, (leakage.LocalDifferentialPrivacy(), 1.0))    a limit on X itself
    maximum_utility(joint, (leakage.MaxLift(), 1.0))                      a limit on S

A measure over the vertices of the polytope of allowed posteriors, found by a linear program; its dual
prices prove the upper bound. How, from the top: `utility` (front door), `design` (limits on X), `master` (the
linear program), `ratio_pricing` and `box_pricing` (the best vertex for given prices), `symbols` and
`unroll` (types, pools and the way back), `search` and `branching` (real symbols where pools are too
coarse), `vertices` (limits on S), `repair` (limits met exactly).
"""

from jaxpriv.extremal.utility import MaximumUtility, maximum_utility

__all__ = ["MaximumUtility", "maximum_utility"]
