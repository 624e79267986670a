"""Problems: objectives, constraints and data; no algorithm."""

from jaxpriv._runtime.importing import names_of
from jaxpriv.problems.distortion import (
    DistortionProblem,
    MaxEntropyNoise,
    NoiseProblem,
    max_entropy_noise,
    private_pairs,
    rate_distortion,
    replace_form,
    with_marginal,
    with_private_input,
)
from jaxpriv.problems.funnel import BottleneckProblem, FunnelProblem
from jaxpriv.problems.lexicographic import LexicographicProblem
from jaxpriv.problems.maximal_alpha import with_maximal_alpha
from jaxpriv.problems.sequential import sequential_release

__all__ = [
    "BottleneckProblem",
    "DistortionProblem",
    "FunnelProblem",
    "LexicographicProblem",
    "MaxEntropyNoise",
    "NoiseProblem",
    "max_entropy_noise",
    "private_pairs",
    "rate_distortion",
    "replace_form",
    "sequential_release",
    "with_marginal",
    "with_maximal_alpha",
    "with_private_input",
]
__dir__ = names_of(__name__)
