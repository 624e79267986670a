"""The convex program between a problem and its solvers.

`convex` has the one record that every `DistortionProblem` becomes and what a solver finds for it, `lower` makes it
(`finite_leakage` has the pairs that its support leaves out), `streamed` has that of operators, and `certify` computes
from a mechanism and dual scores what they prove about it. Nothing here imports a solver.
"""

from jaxpriv._runtime.importing import names_of
from jaxpriv.program.certify import Certificate, certify_program, violation_of
from jaxpriv.program.convex import Form, Program
from jaxpriv.program.lower import program_of

__all__ = ["Certificate", "Form", "Program", "certify_program", "program_of", "violation_of"]
__dir__ = names_of(__name__)
