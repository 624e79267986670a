"""Greedy merging of outputs: Algorithms 1 and 2 of Makhdoumi et al. (2014), whole curves, and time sharing.

    run = greedy(joint, disclosure=1.5)                   # run.labels, run.mechanism, run.leakage, run.ties
    runs = greedy_curve(joint, disclosures=targets)       # every target, the pair table made once
    posteriors, masses = share(joint, runs, disclosure=1.5)

`merging` has the decreases of a merge and the algorithm, `curves` the functions of users and the solvers of `solve`.
The algorithms are deterministic and local: their releases are measured, without a lower bound.
"""

from jaxpriv.funnels.greedy.curves import Greedy, GreedyBottleneck, clusters, greedy, greedy_curve, share
from jaxpriv.funnels.greedy.merging import Merging

__all__ = ["Greedy", "GreedyBottleneck", "Merging", "clusters", "greedy", "greedy_curve", "share"]
