"""Log-lift from samples: i(s, x) = ln P(s|x)/P(s) for a private S with few values and any X.

    samples = from_features(private, numeric)           # or from_symbols, for a finite alphabet
    lift = donsker_varadhan().fit(key, samples)         # lift(x): (n, S) scores in nats
    report = estimate(donsker_varadhan(), key, samples) # I(S;X) on test rows, over 20 splits

Everything here is an estimate. An `Estimate` has a standard error and never shares a field with a
number that is proved.
"""

from jaxpriv.estimation.lift._base import (
    AbstractLiftEstimator,
    Estimate,
    LogLift,
    Samples,
    average,
    encode,
    from_features,
    from_symbols,
)
from jaxpriv.estimation.lift.estimators import (
    NAMES,
    CalibratedClassifier,
    NeuralLift,
    PlugIn,
    donsker_varadhan,
    f_divergence,
    named,
    trimmed,
    watchdog_paper,
)
from jaxpriv.estimation.lift.evaluation import (
    Agreement,
    EstimateWarning,
    KnownTask,
    LiftReport,
    e_gamma,
    estimate,
    known_tasks,
    self_test,
)
from jaxpriv.estimation.lift.objectives import (
    AbstractForm,
    AbstractObjective,
    ChiSquaredForm,
    DonskerVaradhan,
    JensenShannonForm,
    ReverseKullbackLeiblerForm,
    SquaredHellingerForm,
    Trimmed,
)
from jaxpriv.estimation.lift.training import Network, Training

__all__ = [
    "NAMES",
    "AbstractForm",
    "AbstractLiftEstimator",
    "AbstractObjective",
    "Agreement",
    "CalibratedClassifier",
    "ChiSquaredForm",
    "DonskerVaradhan",
    "Estimate",
    "EstimateWarning",
    "JensenShannonForm",
    "KnownTask",
    "LiftReport",
    "LogLift",
    "Network",
    "NeuralLift",
    "PlugIn",
    "ReverseKullbackLeiblerForm",
    "Samples",
    "SquaredHellingerForm",
    "Training",
    "Trimmed",
    "average",
    "donsker_varadhan",
    "e_gamma",
    "encode",
    "estimate",
    "f_divergence",
    "from_features",
    "from_symbols",
    "known_tasks",
    "named",
    "self_test",
    "trimmed",
    "watchdog_paper",
]
