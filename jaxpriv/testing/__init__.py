"""Problems with known answers, and random and degenerate instances, to test solvers and certificates with.

For tests and experiments; nothing else in the library imports it. All values in nats.
"""

from jaxpriv.testing.instances import DEGENERATE, degenerate, random_joint, random_mechanisms
from jaxpriv.testing.known import KnownProblem, binary_entropy, known_problems

__all__ = [
    "DEGENERATE",
    "KnownProblem",
    "binary_entropy",
    "degenerate",
    "known_problems",
    "random_joint",
    "random_mechanisms",
]
