"""Local methods for the funnel and the bottleneck: monotone steps from many starts, and the hull of their points.

`steps` has the disclosure and leakage of a mechanism with gradients, and the steps: those by a difference of convex
functions, those at a given disclosure (relaxed EM) and those of the bottleneck (Tishby et al.); `solvers` the starts,
the multipliers for a prescribed target, and the solvers that `solve` runs.
"""

from jaxpriv.funnels.local.solvers import Alternating, BottleneckIteration, DifferenceOfConvex

__all__ = ["Alternating", "BottleneckIteration", "DifferenceOfConvex"]
