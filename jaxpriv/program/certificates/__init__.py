"""The proof behind every convex result; nothing here imports a solver.

`program.certify` has the method, for programs with any measures and mechanisms that are tables; `streamed` the same
numbers for operators, block by block, and `noise` those of additive noise. `lagrangian` is the Lagrangian of a program
and `slopes` its slopes in the data. `verification` (the public `jaxpriv.certify`) takes a problem and a `Solution` of
it and computes the certificate that fits both, in the unit of its measure (`units`).
"""

from jaxpriv._runtime.importing import names_of
from jaxpriv.program.certificates.noise import average_leakage, certify_noise, valid_scores
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
