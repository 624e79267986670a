"""Local methods for the funnel and the bottleneck: monotone steps from many starts, and the hull of what they find.

`balance` (what a mechanism discloses and leaks, with gradients), the steps `descent` (difference of convex functions),
`alternating` (EM relaxed, at a given disclosure) and `tishby` (bottleneck); `starts`, `hull` (time sharing) and
`chords` (prices for a prescribed target) around them; `solvers` is what the front door calls.
"""

from jaxpriv.funnels.local.solvers import Alternating, BottleneckIteration, DifferenceOfConvex

__all__ = ["Alternating", "BottleneckIteration", "DifferenceOfConvex"]
