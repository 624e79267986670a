"""The privacy watchdog of Hsu, Asoodeh and Calmon: release what leaks little about S, perturb the rest.

    found = watchdog(joint, target_leakage=0.5)        # or epsilon=..., or target_utility=...
    found.leakage, found.utility                       # exact on this joint
    found.bounds                                       # Proposition 2 and a tighter bound, beside it
    found.mechanism()                                  # P(y|x)

The score of a symbol x is max_s |i(s,x)|, i(s,x) = ln P(s|x)/P(s) (`scores`). The watchdog releases
X_eps = { x : score <= eps } and perturbs the rest (`perturbation`); all thresholds at once are a
`staircase`. With scores that were estimated from samples the same numbers are estimates, in classes and
fields of their own. Logarithms are natural; everything runs on the host in float64.
"""

from jaxpriv.watchdog.design import Cause, Watchdog, compare, explain, watchdog
from jaxpriv.watchdog.perturbation import CompleteMerging, Perturbation, RandomisedResponse, SubsetMerging
from jaxpriv.watchdog.staircase import (
    Bounds,
    EstimatedStaircase,
    EstimatedWatchdog,
    Staircase,
    estimated_staircase,
    estimated_watchdog,
    log_lift,
    proved_bounds,
    scores,
    staircase,
)

__all__ = [
    "Bounds",
    "Cause",
    "CompleteMerging",
    "EstimatedStaircase",
    "EstimatedWatchdog",
    "Perturbation",
    "RandomisedResponse",
    "Staircase",
    "SubsetMerging",
    "Watchdog",
    "compare",
    "estimated_staircase",
    "estimated_watchdog",
    "explain",
    "log_lift",
    "proved_bounds",
    "scores",
    "staircase",
    "watchdog",
]
