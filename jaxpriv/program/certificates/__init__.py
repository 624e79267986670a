"""The proof behind every convex result; nothing here imports a solver.

`program.certify` has the method, for programs with any measures and mechanisms that are tables; `lagrangian` the
Lagrangian of a program and its slopes in the data, and what follows from it for mutual information in closed form: the
certificates of additive noise and of operators, block by block. `verification` (the public `jaxpriv.certify`) takes
a problem and a `Solution` of it and computes the certificate that fits both.
"""

from jaxpriv._runtime.importing import names_of
from jaxpriv.program.certificates.lagrangian import average_leakage, certify_noise, valid_scores
from jaxpriv.program.certificates.streamed import certify_streamed
from jaxpriv.program.certificates.units import least_limit
from jaxpriv.program.certificates.verification import Verification
from jaxpriv.program.certify import Certificate, certify_program, excess_of, violation_of
from jaxpriv.program.lower import interval_of

__all__ = [
    "Certificate",
    "Verification",
    "average_leakage",
    "certify_noise",
    "certify_program",
    "certify_streamed",
    "excess_of",
    "interval_of",
    "least_limit",
    "valid_scores",
    "violation_of",
]
__dir__ = names_of(__name__)
