"""The proof behind every convex result; nothing here knows a solver.

`tables` holds the method, for programs with any measures and a mechanism that is a table; `streamed` computes the same
numbers for operators, block by block; `information` has the rules of mutual information and the certificate of additive
noise. `verification` (the public `jaxpriv.certify`) reads a problem and a `Solution` of it and computes the certificate
that fits both.
"""

from jaxpriv.certificates._base import Certificate
from jaxpriv.certificates.information import average_leakage, certify_noise, valid_scores
from jaxpriv.certificates.statement import excess_of, interval_of, least_limit
from jaxpriv.certificates.streamed import certify_streamed
from jaxpriv.certificates.tables import certify_program, violation_of
from jaxpriv.certificates.verification import Verification

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
