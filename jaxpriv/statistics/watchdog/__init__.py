"""The privacy watchdog of Hsu, Asoodeh and Calmon: release what leaks little about S, perturb the rest.

    found = watchdog(joint, target_leakage=0.5)        # or epsilon=..., or target_utility=...
    found.leakage, found.utility                       # exact on this joint
    found.bounds                                       # Proposition 2 and a tighter bound, beside it
    found.mechanism                                    # P(y|x)

The score of a symbol x is max_s |i(s,x)|, i(s,x) = ln P(s|x)/P(s) (`scores`). The watchdog releases
X_eps = { x : score <= eps } and perturbs the rest (`perturbation`); all thresholds at once are a
`staircase`. With scores that were estimated from samples the same numbers are estimates, in classes and
fields of their own. Logarithms are natural; everything runs on the host in float64.
"""

from jaxpriv._runtime.importing import names_of
from jaxpriv.statistics.watchdog.bounds import Bounds, proved_bounds
from jaxpriv.statistics.watchdog.causes import Cause, explain
from jaxpriv.statistics.watchdog.draw import BestDraw, best_draw
from jaxpriv.statistics.watchdog.estimated import (
    EstimatedStaircase,
    EstimatedWatchdog,
    estimated_staircase,
    estimated_watchdog,
)
from jaxpriv.statistics.watchdog.exact import Watchdog, compare, watchdog
from jaxpriv.statistics.watchdog.perturbation import CompleteMerging, Perturbation, RandomisedResponse, SubsetMerging
from jaxpriv.statistics.watchdog.scoring import log_lift, scores
from jaxpriv.statistics.watchdog.thresholds import Staircase, staircase

__all__ = [
    "BestDraw",
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
    "best_draw",
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
__dir__ = names_of(__name__)
