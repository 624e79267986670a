"""The proof behind every convex result; nothing here knows a solver.

`dense` holds the method and the certificate of mutual information for a mechanism that is a table;
`streamed` computes the same numbers for operators, block by block; `measured` does it for any measures.
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
from jaxpriv.certificates.streamed import certify_streamed

__all__ = [
    "Certificate",
    "average_leakage",
    "certify",
    "certify_measured",
    "certify_noise",
    "certify_streamed",
    "leakage_of_outputs",
    "valid_scores",
    "violation_of",
]
