"""The interior-point method for programs with any leakage measures."""

from jaxpriv.solvers.conic.candidate import no_candidate
from jaxpriv.solvers.conic.method import InteriorPoint
from jaxpriv.solvers.conic.newton import path_tangent

__all__ = ["InteriorPoint", "no_candidate", "path_tangent"]
