"""What is measured: every leakage measure as an Equinox Module over column functions.

    measure = MutualInformation()
    measure(joint, mechanism)             # a scalar array; jit, vmap and grad work
    evaluate(measure, joint, mechanism)   # checked input, float, unit and witness
    by_name("sibson", order=2.0)          # by command-line name
    report(joint, mechanism)              # all of them
    adversary(CorrectGuess(), joint, mechanism)  # its best action after each output

`jaxpriv.leakage._base` defines what a measure is and how zeros and infinities are treated; `docs/how-to/own-measure.md`
writes one. What the modules of measures list in their own `__all__` is public here: a new measure among them needs no
further line.
"""

# isort: off
# In the order in which measures are listed by name.
from typing import TYPE_CHECKING

from jaxpriv._runtime.importing import attach
from jaxpriv.leakage import shannon, renyi, f_rules, cost, custom_loss, user_divergence, pointwise
from jaxpriv.leakage.shannon import *
from jaxpriv.leakage.renyi import *
from jaxpriv.leakage.f_rules import *
from jaxpriv.leakage.cost import *
from jaxpriv.leakage.custom_loss import *
from jaxpriv.leakage.user_divergence import *
from jaxpriv.leakage.pointwise import *

# isort: on
from jaxpriv.leakage._base import (
    AbstractAverageLeakage,
    AbstractExponentialMeanLeakage,
    AbstractLeakage,
    AbstractMeanLeakage,
    AbstractWorstOutcomeLeakage,
    Traits,
    lift_of,
    posterior_of,
)
from jaxpriv.leakage.all_measures import Report, Row, prior_free_cap, report
from jaxpriv.leakage.cost import CostGainBounds, cost_gain_bound, cost_gain_bounds
from jaxpriv.leakage.evaluation import Evaluation, Witness, evaluate, evaluate_all, exact_values
from jaxpriv.leakage.registry import NAMES, by_name, forms_of, named, parameters_of

if TYPE_CHECKING:  # what few programs use, imported when it is
    from jaxpriv.leakage.actions import Adversary as Adversary, adversary as adversary
    from jaxpriv.leakage.blackwell import (
        BlackwellOrder as BlackwellOrder,
        Garbling as Garbling,
        blackwell_order as blackwell_order,
    )
    from jaxpriv.leakage.capacities import Capacity as Capacity, capacity as capacity
    from jaxpriv.leakage.envelope import HockeyStick as HockeyStick, LeakageEnvelope as LeakageEnvelope
    from jaxpriv.leakage.hyper import (
        HyperDistribution as HyperDistribution,
        contraction_coefficient as contraction_coefficient,
        guesswork as guesswork,
        hyper_distribution as hyper_distribution,
        maximal_correlation as maximal_correlation,
    )
    from jaxpriv.leakage.metric import MetricPrivacy as MetricPrivacy, SymbolMaxLift as SymbolMaxLift
    from jaxpriv.leakage.renyi_divergence import RenyiDivergence as RenyiDivergence
    from jaxpriv.leakage.sampled import SampledLift as SampledLift, from_samples as from_samples
else:
    __getattr__, __dir__, _ = attach(__name__)

__all__ = [
    "NAMES",
    "AbstractAverageLeakage",
    "AbstractExponentialMeanLeakage",
    "AbstractLeakage",
    "AbstractMeanLeakage",
    "AbstractWorstOutcomeLeakage",
    "Adversary",
    "BlackwellOrder",
    "Capacity",
    "CostGainBounds",
    "Evaluation",
    "Garbling",
    "HockeyStick",
    "HyperDistribution",
    "LeakageEnvelope",
    "MetricPrivacy",
    "RenyiDivergence",
    "Report",
    "Row",
    "SampledLift",
    "SymbolMaxLift",
    "Traits",
    "Witness",
    "adversary",
    "blackwell_order",
    "by_name",
    "capacity",
    "contraction_coefficient",
    "cost_gain_bound",
    "cost_gain_bounds",
    "evaluate",
    "evaluate_all",
    "exact_values",
    "forms_of",
    "from_samples",
    "guesswork",
    "hyper_distribution",
    "lift_of",
    "maximal_correlation",
    "named",
    "parameters_of",
    "posterior_of",
    "prior_free_cap",
    "report",
]
__all__ += shannon.__all__
__all__ += renyi.__all__
__all__ += f_rules.__all__
__all__ += cost.__all__
__all__ += custom_loss.__all__
__all__ += user_divergence.__all__
__all__ += pointwise.__all__
