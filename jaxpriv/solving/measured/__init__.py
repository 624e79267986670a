"""Problems with any measures: stated, reduced, iterated on, certified.

On the host `one` solves a program, `worst_outcome` finds the least worst outcome, `sweep` solves many of one kind;
`traced` solves inside of jit, vmap and grad. `reduction` and `known` are what they share.
"""

from jaxpriv.solving.measured.host import solve_measured
from jaxpriv.solving.measured.sweep import sweep_measured
from jaxpriv.solving.measured.traced import solve_measured_traced

__all__ = ["solve_measured", "solve_measured_traced", "sweep_measured"]
