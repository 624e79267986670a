"""The privacy funnel and the information bottleneck: releases as measures over posteriors, with proved bounds.

`found` defines a solver and its result, `bounds` the bounds that duals prove, `solution` the result of `solve`; `atoms`
is the linear program over posteriors, `pricing` the search for its next columns.
"""

from jaxpriv.funnels.bounds import elementary_bound, proved_line, proved_value
from jaxpriv.funnels.found import AbstractFunnelSolver, FunnelGoal, PosteriorMeasure, Proof, measure_of
from jaxpriv.funnels.solution import FunnelSolution

__all__ = [
    "AbstractFunnelSolver",
    "FunnelGoal",
    "FunnelSolution",
    "PosteriorMeasure",
    "Proof",
    "elementary_bound",
    "measure_of",
    "proved_line",
    "proved_value",
]
