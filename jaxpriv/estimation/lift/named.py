"""The estimators by name."""

from jaxpriv.errors import InputError
from jaxpriv.estimation.lift._base import AbstractLiftEstimator
from jaxpriv.estimation.lift.classifier import CalibratedClassifier
from jaxpriv.estimation.lift.neural import donsker_varadhan, f_divergence, trimmed, watchdog_paper
from jaxpriv.estimation.lift.objectives import (
    ChiSquaredForm,
    JensenShannonForm,
    ReverseKullbackLeiblerForm,
    SquaredHellingerForm,
)
from jaxpriv.estimation.lift.plug_in import PlugIn

_NAMED = {
    "donsker-varadhan": donsker_varadhan,
    "donsker-varadhan-paper": watchdog_paper,
    "reverse-kullback-leibler": lambda: f_divergence(ReverseKullbackLeiblerForm()),
    "chi-squared": lambda: f_divergence(ChiSquaredForm()),
    "jensen-shannon": lambda: f_divergence(JensenShannonForm()),
    "squared-hellinger": lambda: f_divergence(SquaredHellingerForm()),
    "trimmed": trimmed,
    "classifier": CalibratedClassifier,
    "plug-in": PlugIn,
}
NAMES = tuple(_NAMED)


def named(name: str) -> AbstractLiftEstimator:
    """The estimator of that name with its default hyper-parameters; `InputError` lists the names."""
    if name not in _NAMED:
        raise InputError(f"estimator must be one of {', '.join(NAMES)}")
    return _NAMED[name]()
