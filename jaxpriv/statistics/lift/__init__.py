"""Log-lift from samples: i(s, x) = ln P(s|x)/P(s) for a private S with few values and any X.

    samples = from_features(private, numeric)           # or from_symbols, for a finite alphabet
    lift = donsker_varadhan().fit(key, samples)         # lift(x): (n, S) scores in nats
    report = estimate(donsker_varadhan(), key, samples) # I(S;X) on test rows, over 20 splits

Everything here is an estimate. An `Estimate` has a standard error and never shares a field with a
number that is proved. `estimate` and `self_test` are what an estimator achieves on rows it was not fitted on, and on
tasks with known answers.
"""

from jaxpriv._runtime.importing import names_of
from jaxpriv.statistics.lift._base import AbstractLiftEstimator
from jaxpriv.statistics.lift.classifiers import CalibratedClassifier
from jaxpriv.statistics.lift.estimated_number import Estimate
from jaxpriv.statistics.lift.estimating import EstimateWarning, LiftReport, e_gamma, estimate
from jaxpriv.statistics.lift.estimators import NAMES, PlugIn, named
from jaxpriv.statistics.lift.known_answers import Agreement, KnownTask, known_tasks, self_test
from jaxpriv.statistics.lift.log_lift import LogLift, average
from jaxpriv.statistics.lift.neural import NeuralLift, donsker_varadhan, f_divergence, trimmed, watchdog_paper
from jaxpriv.statistics.lift.objectives import (
    AbstractForm,
    AbstractObjective,
    ChiSquaredForm,
    DonskerVaradhan,
    JensenShannonForm,
    ReverseKullbackLeiblerForm,
    SquaredHellingerForm,
    Trimmed,
)
from jaxpriv.statistics.lift.samples import Samples, encode, from_features, from_symbols
from jaxpriv.statistics.lift.training import Network, Training

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
__dir__ = names_of(__name__)
