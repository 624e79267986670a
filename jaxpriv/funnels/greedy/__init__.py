"""Greedy merging of outputs: Algorithms 1 and 2 of Makhdoumi et al. (2014), whole curves, and time sharing.

    run = greedy(joint, disclosure=1.5)                   # run.labels, run.mechanism, run.leakage, run.ties
    runs = greedy_curve(joint, disclosures=targets)       # every target, the pair table made once
    posteriors, masses = share(joint, runs, disclosure=1.5)

`decreases` says what a merge loses, `merging` is the algorithm, `curves` what users call, `solvers` what `solve` calls.
The algorithms are deterministic and local: nothing is proved about their releases but what is measured.
"""

from jaxpriv.funnels.greedy.curves import greedy, greedy_curve, share
from jaxpriv.funnels.greedy.merging import Merging
from jaxpriv.funnels.greedy.solvers import Greedy, GreedyBottleneck, clusters

__all__ = ["Greedy", "GreedyBottleneck", "Merging", "clusters", "greedy", "greedy_curve", "share"]
