"""How problems are solved: one file for each algorithm, hyper-parameters as fields."""

from jaxpriv.solvers._base import (
    AbstractSolver,
    Candidate,
    Course,
    Goal,
    Run,
    advance,
    begin,
    iterate,
    last_state,
    resume,
)
from jaxpriv.solvers._interior_tangent import path_tangent
from jaxpriv.solvers.accelerated import AcceleratedGradient
from jaxpriv.solvers.conic import ConicInteriorPoint
from jaxpriv.solvers.first_order_lp import PrimalDualHybridGradient
from jaxpriv.solvers.interior_point import InteriorPoint
from jaxpriv.solvers.linear_program import LinearProgram
from jaxpriv.solvers.mirror_descent import MirrorDescent
from jaxpriv.solvers.two_grid import TwoGrid

__all__ = [
    "AbstractSolver",
    "AcceleratedGradient",
    "Candidate",
    "ConicInteriorPoint",
    "Course",
    "Goal",
    "InteriorPoint",
    "LinearProgram",
    "MirrorDescent",
    "PrimalDualHybridGradient",
    "Run",
    "TwoGrid",
    "advance",
    "begin",
    "iterate",
    "last_state",
    "path_tangent",
    "resume",
]
