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
    from jaxpriv import (
        data as data,
        errors as errors,
        extremal as extremal,
        funnels as funnels,
        leakage as leakage,
        models as models,
        plotting as plotting,
        problems as problems,
        program as program,
        release as release,
        simplex as simplex,
        solvers as solvers,
        statistics as statistics,
        testing as testing,
        verifier as verifier,
    )
    from jaxpriv._runtime.progress import History as History, Progress as Progress
    from jaxpriv.data import (
        channel as channel,
        datasets as datasets,
        distortion as distortion,
        joints as joints,
        probability as probability,
    )
    from jaxpriv.errors import (
        DivergedError as DivergedError,
        EntropyError as EntropyError,
        InfeasibleError as InfeasibleError,
        InputError as InputError,
        IntegrityError as IntegrityError,
        JaxprivError as JaxprivError,
        NotCertifiedError as NotCertifiedError,
        ResourceError as ResourceError,
    )
    from jaxpriv.extremal import MaximumUtility as MaximumUtility, maximum_utility as maximum_utility
    from jaxpriv.funnels import FunnelSolution as FunnelSolution
    from jaxpriv.funnels.frontier import FunnelFrontier as FunnelFrontier, funnel_frontier as funnel_frontier
    from jaxpriv.models import baselines as baselines, databases as databases, gaussian as gaussian
    from jaxpriv.problems import (
        BottleneckProblem as BottleneckProblem,
        DistortionProblem as DistortionProblem,
        FunnelProblem as FunnelProblem,
        LexicographicProblem as LexicographicProblem,
        NoiseProblem as NoiseProblem,
        max_entropy_noise as max_entropy_noise,
        private_pairs as private_pairs,
        rate_distortion as rate_distortion,
        sequential_release as sequential_release,
        with_marginal as with_marginal,
        with_maximal_alpha as with_maximal_alpha,
        with_private_input as with_private_input,
    )
    from jaxpriv.program import certificates as certificates
    from jaxpriv.program.certificates import Certificate as Certificate
    from jaxpriv.program.certificates.verification import Verification as Verification, certify as certify
    from jaxpriv.program.solution import Solution as Solution, Status as Status
    from jaxpriv.release import Mechanism as Mechanism, report as report
    from jaxpriv.release.coalitions import coalition_release as coalition_release
    from jaxpriv.solvers import (
        AcceleratedGradient as AcceleratedGradient,
        AcceleratedMirrorDescent as AcceleratedMirrorDescent,
        AugmentedLagrangian as AugmentedLagrangian,
        BlahutArimoto as BlahutArimoto,
        InteriorPoint as InteriorPoint,
        LinearProgram as LinearProgram,
        MirrorDescent as MirrorDescent,
        PrimalDualHybridGradient as PrimalDualHybridGradient,
        TwoGrid as TwoGrid,
    )
    from jaxpriv.solving import sweeps as sweeps
    from jaxpriv.solving.derivatives import (
        Sensitivity as Sensitivity,
        optimal_mechanism as optimal_mechanism,
        optimal_value as optimal_value,
        sensitivity as sensitivity,
    )
    from jaxpriv.solving.frontier import Frontier as Frontier, frontier as frontier
    from jaxpriv.solving.many import solve_many as solve_many
    from jaxpriv.solving.robust import RobustSolution as RobustSolution, solve_prior_ball as solve_prior_ball
    from jaxpriv.solving.solve import solve as solve
    from jaxpriv.solving.sweeps.running import sweep as sweep
    from jaxpriv.statistics import watchdog as watchdog
else:
    __getattr__, __dir__, __all__ = attach(__name__)
