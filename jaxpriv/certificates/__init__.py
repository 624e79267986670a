"""The proof behind every convex result; nothing here knows a solver.

`dense` holds the method and the certificate of a mechanism that is a table; `streamed` computes the
same numbers for operators, block by block.
"""

from jaxpriv.certificates.dense import Certificate, average_leakage, certify, certify_noise, valid_scores
from jaxpriv.certificates.streamed import certify_streamed

__all__ = ["Certificate", "average_leakage", "certify", "certify_noise", "certify_streamed", "valid_scores"]
