"""How problems are solved: one file for each algorithm, hyper-parameters as fields.

A solver of one's own is an `AbstractSolver` whose candidates come from `no_candidate` and `consider`; `Program` says
what it is given. docs/how-to/own-solver.md writes one.
"""

from jaxpriv._runtime.importing import names_of
from jaxpriv.program.convex import Candidate, Form, Gapped, Goal, Program
from jaxpriv.solvers._base import (
    AbstractSolver,
    Course,
    Run,
    advance,
    begin,
    begin_again,
    iterate,
    last_state,
    resume,
)
from jaxpriv.solvers.accelerated import AcceleratedGradient, AcceleratedMirrorDescent
from jaxpriv.solvers.augmented_lagrangian import AugmentedLagrangian
from jaxpriv.solvers.hybrid_gradient import PrimalDualHybridGradient
from jaxpriv.solvers.interior_point import InteriorPoint, no_candidate, path_tangent
from jaxpriv.solvers.interior_point.candidate import consider, slope_of
from jaxpriv.solvers.linear_program import LinearProgram
from jaxpriv.solvers.mirror_descent import BlahutArimoto, MirrorDescent
from jaxpriv.solvers.two_grid import TwoGrid

__all__ = [
    "AbstractSolver",
    "AcceleratedGradient",
    "AcceleratedMirrorDescent",
    "AugmentedLagrangian",
    "BlahutArimoto",
    "Candidate",
    "Course",
    "Form",
    "Gapped",
    "Goal",
    "InteriorPoint",
    "LinearProgram",
    "MirrorDescent",
    "PrimalDualHybridGradient",
    "Program",
    "Run",
    "TwoGrid",
    "advance",
    "begin",
    "begin_again",
    "consider",
    "iterate",
    "last_state",
    "no_candidate",
    "path_tangent",
    "resume",
    "slope_of",
]
__dir__ = names_of(__name__)
