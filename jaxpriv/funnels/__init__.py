"""The privacy funnel and the information bottleneck: releases as measures over posteriors, with proved bounds.

`found` says what a solver is, `bounds` what prices prove, `solution` what the user gets; `atoms` is the linear
program over posteriors, `pricing` its search for new ones.
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
