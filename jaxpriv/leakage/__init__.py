"""What is measured: every leakage measure as an Equinox Module over column functions.

    measure = MutualInformation()
    measure(joint, mechanism)             # a scalar array; jit, vmap and grad work
    evaluate(measure, joint, mechanism)   # checked input, float, unit and witness
    by_name("sibson", order=2.0)          # by command-line name
    report(joint, mechanism)              # all of them

`jaxpriv.leakage._base` says what a measure is and how zeros and infinities are treated.
"""

from jaxpriv.leakage._base import (
    AbstractAverageLeakage,
    AbstractExponentialMeanLeakage,
    AbstractLeakage,
    AbstractMeanLeakage,
    AbstractWorstOutcomeLeakage,
)
from jaxpriv.leakage.cost import (
    AbstractCost,
    AverageCostGain,
    BrierLoss,
    LogLoss,
    LossMatrix,
    MaxCostGain,
    ZeroOneLoss,
)
from jaxpriv.leakage.cost_bounds import CostGainBounds, cost_gain_bound, cost_gain_bounds
from jaxpriv.leakage.custom_loss import CustomLoss
from jaxpriv.leakage.evaluation import Evaluation, Witness, evaluate, evaluate_all, exact_values
from jaxpriv.leakage.f_information import (
    AbstractDivergence,
    ChiSquared,
    EGamma,
    FInformation,
    JensenShannon,
    KullbackLeibler,
    ReverseKullbackLeibler,
    SquaredHellinger,
    TotalVariation,
)
from jaxpriv.leakage.guessing import CorrectGuess, GainLeakage, MinEntropyLeakage
from jaxpriv.leakage.pointwise import (
    AbstractPointwiseLeakage,
    InferentialPrivacy,
    Lift,
    LocalDifferentialPrivacy,
    MaxLift,
    MinLift,
    ldp_of_channel,
)
from jaxpriv.leakage.registry import DIVERGENCES, NAMES, by_name, forms_of
from jaxpriv.leakage.renyi import Arimoto, MaximalLeakage, Sibson
from jaxpriv.leakage.reporting import Report, Row, prior_free_cap, report
from jaxpriv.leakage.shannon import MaxInformation, MutualInformation, RelativeEntropyPrivacy
from jaxpriv.leakage.user_divergence import UserDivergence

__all__ = [
    "DIVERGENCES",
    "NAMES",
    "AbstractAverageLeakage",
    "AbstractCost",
    "AbstractDivergence",
    "AbstractExponentialMeanLeakage",
    "AbstractLeakage",
    "AbstractMeanLeakage",
    "AbstractPointwiseLeakage",
    "AbstractWorstOutcomeLeakage",
    "Arimoto",
    "AverageCostGain",
    "BrierLoss",
    "ChiSquared",
    "CorrectGuess",
    "CostGainBounds",
    "CustomLoss",
    "EGamma",
    "Evaluation",
    "FInformation",
    "GainLeakage",
    "InferentialPrivacy",
    "JensenShannon",
    "KullbackLeibler",
    "Lift",
    "LocalDifferentialPrivacy",
    "LogLoss",
    "LossMatrix",
    "MaxCostGain",
    "MaxInformation",
    "MaxLift",
    "MaximalLeakage",
    "MinEntropyLeakage",
    "MinLift",
    "MutualInformation",
    "RelativeEntropyPrivacy",
    "Report",
    "ReverseKullbackLeibler",
    "Row",
    "Sibson",
    "SquaredHellinger",
    "TotalVariation",
    "UserDivergence",
    "Witness",
    "ZeroOneLoss",
    "by_name",
    "cost_gain_bound",
    "cost_gain_bounds",
    "evaluate",
    "evaluate_all",
    "exact_values",
    "forms_of",
    "ldp_of_channel",
    "prior_free_cap",
    "report",
]
