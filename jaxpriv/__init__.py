"""jaxpriv: design, measure and certify information-theoretic privacy mappings in JAX.

Importing this package starts no JAX backend and changes no JAX setting; what its names stand for is imported when they
are first used. Natural logarithms (nats) everywhere; bits only where a `units` argument asks for them.
"""

# First: it handles Ctrl-C while the rest is imported.
from jaxpriv._runtime.importing import attach

# isort: split

from typing import TYPE_CHECKING

__version__ = "0.3.0"

if TYPE_CHECKING:  # what `attach` reads, and type checkers and editors
    from jaxpriv import data as data
    from jaxpriv import errors as errors
    from jaxpriv import extremal as extremal
    from jaxpriv import funnels as funnels
    from jaxpriv import leakage as leakage
    from jaxpriv import models as models
    from jaxpriv import plotting as plotting
    from jaxpriv import problems as problems
    from jaxpriv import program as program
    from jaxpriv import release as release
    from jaxpriv import simplex as simplex
    from jaxpriv import solvers as solvers
    from jaxpriv import statistics as statistics
    from jaxpriv import testing as testing
    from jaxpriv import verifier as verifier
    from jaxpriv._runtime.progress import History as History
    from jaxpriv._runtime.progress import Progress as Progress
    from jaxpriv.data import channel as channel
    from jaxpriv.data import datasets as datasets
    from jaxpriv.data import distortion as distortion
    from jaxpriv.data import joints as joints
    from jaxpriv.data import probability as probability
    from jaxpriv.errors import DivergedError as DivergedError
    from jaxpriv.errors import EntropyError as EntropyError
    from jaxpriv.errors import InfeasibleError as InfeasibleError
    from jaxpriv.errors import InputError as InputError
    from jaxpriv.errors import IntegrityError as IntegrityError
    from jaxpriv.errors import JaxprivError as JaxprivError
    from jaxpriv.errors import NotCertifiedError as NotCertifiedError
    from jaxpriv.errors import ResourceError as ResourceError
    from jaxpriv.extremal import MaximumUtility as MaximumUtility
    from jaxpriv.extremal import maximum_utility as maximum_utility
    from jaxpriv.funnels import FunnelSolution as FunnelSolution
    from jaxpriv.funnels.solve import FunnelFrontier as FunnelFrontier
    from jaxpriv.funnels.solve import funnel_frontier as funnel_frontier
    from jaxpriv.models import baselines as baselines
    from jaxpriv.models import databases as databases
    from jaxpriv.models import gaussian as gaussian
    from jaxpriv.problems import BottleneckProblem as BottleneckProblem
    from jaxpriv.problems import DistortionProblem as DistortionProblem
    from jaxpriv.problems import FunnelProblem as FunnelProblem
    from jaxpriv.problems import LexicographicProblem as LexicographicProblem
    from jaxpriv.problems import NoiseProblem as NoiseProblem
    from jaxpriv.problems import max_entropy_noise as max_entropy_noise
    from jaxpriv.problems import private_pairs as private_pairs
    from jaxpriv.problems import rate_distortion as rate_distortion
    from jaxpriv.problems import sequential_release as sequential_release
    from jaxpriv.problems import with_marginal as with_marginal
    from jaxpriv.problems import with_maximal_alpha as with_maximal_alpha
    from jaxpriv.problems import with_private_input as with_private_input
    from jaxpriv.program import certificates as certificates
    from jaxpriv.program.certificates import Certificate as Certificate
    from jaxpriv.program.certificates.verification import Verification as Verification
    from jaxpriv.program.certificates.verification import certify as certify
    from jaxpriv.program.solution import Solution as Solution
    from jaxpriv.program.solution import Status as Status
    from jaxpriv.release import Mechanism as Mechanism
    from jaxpriv.release import report as report
    from jaxpriv.release.coalitions import coalition_release as coalition_release
    from jaxpriv.solvers import AcceleratedGradient as AcceleratedGradient
    from jaxpriv.solvers import AcceleratedMirrorDescent as AcceleratedMirrorDescent
    from jaxpriv.solvers import BlahutArimoto as BlahutArimoto
    from jaxpriv.solvers import InteriorPoint as InteriorPoint
    from jaxpriv.solvers import LinearProgram as LinearProgram
    from jaxpriv.solvers import MirrorDescent as MirrorDescent
    from jaxpriv.solvers import PrimalDualHybridGradient as PrimalDualHybridGradient
    from jaxpriv.solvers import TwoGrid as TwoGrid
    from jaxpriv.solving import sweeps as sweeps
    from jaxpriv.solving.derivatives import Sensitivity as Sensitivity
    from jaxpriv.solving.derivatives import optimal_mechanism as optimal_mechanism
    from jaxpriv.solving.derivatives import optimal_value as optimal_value
    from jaxpriv.solving.derivatives import sensitivity as sensitivity
    from jaxpriv.solving.frontier import Frontier as Frontier
    from jaxpriv.solving.frontier import frontier as frontier
    from jaxpriv.solving.many import solve_many as solve_many
    from jaxpriv.solving.robust import RobustSolution as RobustSolution
    from jaxpriv.solving.robust import solve_prior_ball as solve_prior_ball
    from jaxpriv.solving.solve import solve as solve
    from jaxpriv.solving.sweeps.running import sweep as sweep
    from jaxpriv.statistics import watchdog as watchdog
else:
    __getattr__, __dir__, __all__ = attach(__name__)
