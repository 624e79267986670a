"""The privacy funnel and the information bottleneck: releases as measures over posteriors, with proved bounds.

`solution` defines a solver and what it and `solve` return, `bounds` the bounds that duals prove and the hull that time
sharing reaches; `atoms` has the rounds of column generation, `pricing` the search for the next columns, `actions` both
for the measures of `gains`: of finitely many actions, and smooth. `worst` has funnels of pointwise measures. `greedy`
and `local` find without a proof.
"""

from jaxpriv._runtime.importing import names_of
from jaxpriv.funnels.bounds import elementary_bound, proved_line, proved_value
from jaxpriv.funnels.solution import (
    AbstractFunnelSolver,
    FunnelGoal,
    FunnelSolution,
    PosteriorMeasure,
    Proof,
    measure_of,
)

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
__dir__ = names_of(__name__)
