"""The exceptions of jaxpriv. A message names the argument and the position, never a data value."""

from collections.abc import Mapping

from jaxpriv._runtime.importing import names_of

__dir__ = names_of(__name__)


class JaxprivError(Exception):
    """Base of every error that jaxpriv raises on purpose."""


class InputError(JaxprivError, ValueError):
    """An argument breaks a stated rule; nothing was computed and nothing was written."""


class InfeasibleError(JaxprivError):
    """No mechanism meets the constraints, or none attains the optimum. `proof` holds the numbers that show it.

    For constraints weak duality is the proof: for the weights `multipliers >= 0`, every mechanism has
    `sum_k multipliers[k] * E d_k >= bound`, while the budgets allow at most
    `sum_k multipliers[k] * budget[k] = allowed < bound`.
    """

    proof: Mapping[str, object]

    def __init__(self, message: str, proof: Mapping[str, object]):
        super().__init__(message)
        self.proof = dict(proof)


class NotCertifiedError(JaxprivError):
    """A result exists, but its certified gap is above the tolerance that was asked for."""


class IntegrityError(JaxprivError):
    """A file is not what it claims to be: truncated, altered, or of an unsafe kind."""


class ResourceError(JaxprivError):
    """The work needs more memory, disk or device than there is; refused before it began."""


class DivergedError(JaxprivError):
    """Training did not stay finite; what it ended with is not returned."""


class EntropyError(JaxprivError):
    """The operating system gave no randomness; there is no fallback."""
