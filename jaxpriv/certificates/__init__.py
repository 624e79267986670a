"""The proof behind every convex result; nothing here knows a solver.

`dense` holds the method and the certificate of mutual information for a mechanism that is a table;
`streamed` computes the same numbers for operators, block by block; `measured` does it for any measures.
`verification` (the public `jaxpriv.certify`) reads a problem and a `Solution` of it and computes the certificate that
fits both.
"""

from jaxpriv.certificates.dense import (
    Certificate,
    average_leakage,
    certify,
    certify_noise,
    leakage_of_outputs,
    valid_scores,
)
from jaxpriv.certificates.measured import certify_measured, violation_of
from jaxpriv.certificates.statement import excess_of, interval_of, least_limit
from jaxpriv.certificates.streamed import certify_streamed
from jaxpriv.certificates.verification import Verification

__all__ = [
    "Certificate",
    "Verification",
    "average_leakage",
    "certify",
    "certify_measured",
    "certify_noise",
    "certify_streamed",
    "excess_of",
    "interval_of",
    "leakage_of_outputs",
    "least_limit",
    "valid_scores",
    "violation_of",
]
