"""The interior-point method for programs with any leakage measures."""

from jaxpriv.solvers.interior_point.candidate import no_candidate
from jaxpriv.solvers.interior_point.method import InteriorPoint
from jaxpriv.solvers.interior_point.newton import path_tangent

__all__ = ["InteriorPoint", "no_candidate", "path_tangent"]
