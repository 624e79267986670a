"""Local methods for the funnel and the bottleneck: monotone steps from many starts, and the hull of their points.

`descent` has the disclosure and leakage of a mechanism with gradients, and the steps by a difference of convex
functions; `alternating` the steps at a given disclosure (relaxed EM) and those of the bottleneck (Tishby et al.);
`chords` the starts, and the multipliers for a prescribed target; `solvers` the solvers that `solve` runs.
"""

from jaxpriv.funnels.local.solvers import Alternating, BottleneckIteration, DifferenceOfConvex

__all__ = ["Alternating", "BottleneckIteration", "DifferenceOfConvex"]
