"""jaxpriv: design, measure and certify information-theoretic privacy mappings in JAX.

Importing this package starts no JAX backend and changes no JAX setting. Natural logarithms (nats)
everywhere; bits only where a `units` argument asks for them.
"""

# First: it hears Ctrl-C while the rest is imported.
from jaxpriv import _command as _command

# isort: split

from jaxpriv import baselines, channel, databases, distortion, extremal, gaussian, joints, leakage, probability
from jaxpriv._clock import Progress
from jaxpriv.certificates import Certificate, Verification
from jaxpriv.certificates.verification import certify
from jaxpriv.derivatives import Sensitivity, optimal_mechanism, optimal_value, sensitivity
from jaxpriv.errors import (
    DivergedError,
    EntropyError,
    InfeasibleError,
    InputError,
    IntegrityError,
    JaxprivError,
    NotCertifiedError,
    ResourceError,
)
from jaxpriv.extremal import MaximumUtility, maximum_utility
from jaxpriv.frontier import Frontier, frontier
from jaxpriv.funnels import FunnelSolution
from jaxpriv.problems import (
    BottleneckProblem,
    DistortionProblem,
    FunnelProblem,
    NoiseProblem,
    max_entropy_noise,
    private_pairs,
    rate_distortion,
    with_private_input,
)
from jaxpriv.robust import RobustSolution, solve_prior_ball
from jaxpriv.solution import Solution, Status
from jaxpriv.solve import solve
from jaxpriv.solvers import (
    AcceleratedGradient,
    ConicInteriorPoint,
    InteriorPoint,
    LinearProgram,
    MirrorDescent,
    PrimalDualHybridGradient,
    TwoGrid,
)
from jaxpriv.solving.funnel_frontier import FunnelFrontier, funnel_frontier

__version__ = "0.1.0"

__all__ = [
    "AcceleratedGradient",
    "BottleneckProblem",
    "Certificate",
    "ConicInteriorPoint",
    "DistortionProblem",
    "DivergedError",
    "EntropyError",
    "Frontier",
    "FunnelFrontier",
    "FunnelProblem",
    "FunnelSolution",
    "InfeasibleError",
    "InputError",
    "IntegrityError",
    "InteriorPoint",
    "JaxprivError",
    "LinearProgram",
    "MaximumUtility",
    "MirrorDescent",
    "NoiseProblem",
    "NotCertifiedError",
    "PrimalDualHybridGradient",
    "Progress",
    "ResourceError",
    "RobustSolution",
    "Sensitivity",
    "Solution",
    "Status",
    "TwoGrid",
    "Verification",
    "baselines",
    "certify",
    "channel",
    "databases",
    "distortion",
    "extremal",
    "frontier",
    "funnel_frontier",
    "gaussian",
    "joints",
    "leakage",
    "max_entropy_noise",
    "maximum_utility",
    "optimal_mechanism",
    "optimal_value",
    "private_pairs",
    "probability",
    "rate_distortion",
    "sensitivity",
    "solve",
    "solve_prior_ball",
    "with_private_input",
]
