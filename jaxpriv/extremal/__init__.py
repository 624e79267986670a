"""The most useful mechanism under a pointwise privacy limit: extremal mechanisms, certified.

    maximum_utility(source, (leakage.LocalDifferentialPrivacy(), 1.0))    a limit on X itself
    maximum_utility(joint, (leakage.MaxLift(), 1.0))                      a limit on S
    record_utility(prior, (2, 2, 2), leakage=0.2)                         limits on every record of X

A measure over the vertices of the polytope of allowed posteriors, found by a linear program; its dual
prices prove the upper bound. `utility` has the limits, those on S by the vertices of their polytope, and the repair
of a mechanism that exceeds a limit by rounding; `search` limits on X by column generation, with exchanges of symbols
and branch and bound over them where pools are too coarse; `types` types of symbols, pools and the map from pools to
symbols, and their program; `pricing` the vertex of least reduced cost over types under limits of ratios and of lift;
`envelope` the least distortion under a limit on a leakage envelope.
"""

from jaxpriv._runtime.importing import names_of
from jaxpriv.extremal.envelope import EnvelopeDesign, envelope_design
from jaxpriv.extremal.records import record_utility
from jaxpriv.extremal.utility import MaximumUtility, maximum_utility

__all__ = ["EnvelopeDesign", "MaximumUtility", "envelope_design", "maximum_utility", "record_utility"]
__dir__ = names_of(__name__)
