"""Problems with any measures on the host: stated, reduced, iterated on, certified.

`one` solves a problem, `sweep` many of one kind; `reduction` and `known` are what both share.
"""

from jaxpriv.solving.measured.one import solve_measured
from jaxpriv.solving.measured.sweep import sweep_measured

__all__ = ["solve_measured", "sweep_measured"]
