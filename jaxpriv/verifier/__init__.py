"""Check a design, its audit and what was released with it, with Python's standard library alone.

    jaxpriv verify DESIGN.zip --private AUDIT.zip

Nothing of NumPy or JAX is imported, and nothing of the rest of jaxpriv but its exceptions. Numbers are whole numbers
and fractions; logarithms are enclosed and rounded outwards. What a file states is never used, only compared with what
was computed. `docs/how-to/release.md` lists what is proved and what is not.
"""

from jaxpriv.verifier.designs import Audit, DesignFile, read_audit, read_design
from jaxpriv.verifier.findings import Findings, verify
from jaxpriv.verifier.releases import Receipt, read_receipt

__all__ = ["Audit", "DesignFile", "Findings", "Receipt", "read_audit", "read_design", "read_receipt", "verify"]
