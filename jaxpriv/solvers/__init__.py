"""How problems are solved: one file for each algorithm, hyper-parameters as fields."""

from jaxpriv.solvers._base import AbstractSolver, Candidate, Run, iterate, last_state
from jaxpriv.solvers._interior_tangent import path_tangent
from jaxpriv.solvers.interior_point import InteriorPoint
from jaxpriv.solvers.mirror_descent import MirrorDescent

__all__ = [
    "AbstractSolver",
    "Candidate",
    "InteriorPoint",
    "MirrorDescent",
    "Run",
    "iterate",
    "last_state",
    "path_tangent",
]
