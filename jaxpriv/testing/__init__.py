"""Problems with known answers, and random and degenerate instances, to test solvers and certificates with.

For tests and experiments; nothing else in the library imports it. All values in nats.
"""

from jaxpriv.testing.instances import (
    DEGENERATE,
    BinaryFunnel,
    KnownProblem,
    binary_bottleneck,
    binary_entropy,
    binary_funnel,
    binary_funnel_at,
    degenerate,
    gaussian_bottleneck,
    gaussian_funnel,
    heart_disease,
    known_problems,
    random_joint,
    random_mechanisms,
)

__all__ = [
    "DEGENERATE",
    "BinaryFunnel",
    "KnownProblem",
    "binary_bottleneck",
    "binary_entropy",
    "binary_funnel",
    "binary_funnel_at",
    "degenerate",
    "gaussian_bottleneck",
    "gaussian_funnel",
    "heart_disease",
    "known_problems",
    "random_joint",
    "random_mechanisms",
]
