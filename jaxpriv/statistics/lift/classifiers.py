"""The baseline that any critic must meet: a calibrated classifier, i(s, x) = ln P(s|x)/P(s)."""

import inspect
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import numpy as np

from jaxpriv.errors import InputError, ResourceError
from jaxpriv.statistics.lift._base import AbstractLiftEstimator
from jaxpriv.statistics.lift.log_lift import AbstractScorer, LogLift, project
from jaxpriv.statistics.lift.objectives import (
    DonskerVaradhan,
)
from jaxpriv.statistics.lift.samples import Samples
from jaxpriv.statistics.lift.splits import generator
from jaxpriv.statistics.lift.training import Network, Training, train

# A classifier may give a class probability 0; one sample is no evidence for a log-lift of minus infinity.
_LEAST = 1e-9


@runtime_checkable
class ProbabilityClassifier(Protocol):
    """What is used of a scikit-learn classifier."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> object: ...

    def predict_proba(self, X: np.ndarray) -> np.ndarray: ...

    def set_params(self, **parameters: object) -> object: ...


class CalibratedClassifier(AbstractLiftEstimator):
    """P(s|x) by a classifier, its temperature chosen on the validation rows.

    With the log-lift i of the classifier, the scores are T i - ln sum_s p_s e^{T i}: T = 1 leaves it as it is, T -> 0
    is independence. The mean of ln P(s|x) over the validation rows is concave in T and its maximum is taken, so an
    overconfident classifier is toned down (Guo et al. 2017, with T for 1/T).

    `classifier` is None for a network trained by log-loss (`network`, `training`), or an unfitted scikit-learn
    classifier with `predict_proba`, cloned for each split and given the features (for symbols: a column of codes).
    Its `random_state` is set from the key where it has one.
    """

    classifier: ProbabilityClassifier | None = None
    network: Network = Network()
    training: Training = Training()

    @property
    def name(self) -> str:
        return f"calibrated {'network' if self.classifier is None else type(self.classifier).__name__}"

    def fit_rows(
        self, keys: jax.Array, samples: Samples, train_rows: np.ndarray, validation: np.ndarray, prior: np.ndarray
    ) -> tuple[LogLift, ...]:
        if self.classifier is None:
            parts: tuple[AbstractScorer, ...] = train(
                DonskerVaradhan(), self.network, self.training, keys, samples, train_rows, validation, prior
            )
        else:
            parts = tuple(
                _fitted(self.classifier, key, samples, rows, prior) for key, rows in zip(keys, train_rows, strict=True)
            )
        lifts = []
        for part, rows in zip(parts, validation, strict=True):
            raw = project(part(samples.useful[rows]), prior)
            scorer = _Tempered(part, temperature(raw, samples.private[rows], prior))
            lifts.append(LogLift(scorer, samples.rows, prior, np.inf, self.name))
        return tuple(lifts)


def temperature(lift: np.ndarray, private: np.ndarray, prior: np.ndarray) -> float:
    """The T in [0, 10] that maximises the mean of T i(s, x) - ln sum_s p_s e^{T i(s,x)}; 0 means independence.

    `lift` (n, S), `private` (n,). The derivative falls with T (the mean is concave), so it is bisected.
    """
    at_private = lift[np.arange(len(lift)), private]

    def slope(factor: float) -> float:
        weight = prior * np.exp(project(factor * lift, prior))
        return float(np.mean(at_private - np.sum(weight * lift, axis=1)))

    low, high = 0.0, 10.0
    if not slope(low) > 0:
        return low
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return low


class _Tempered(AbstractScorer):
    part: AbstractScorer
    factor: float

    def __call__(self, useful: np.ndarray) -> np.ndarray:
        return self.factor * self.part(useful)


class _Probabilities(AbstractScorer):
    """ln P(s|x)/P(s) of a scikit-learn classifier."""

    model: ProbabilityClassifier = eqx.field(static=True)
    prior: np.ndarray

    def __call__(self, useful: np.ndarray) -> np.ndarray:
        shares = np.asarray(self.model.predict_proba(_columns(useful)), dtype=np.float64)
        return np.log(np.maximum(shares, _LEAST)) - np.log(self.prior)


def _columns(useful: np.ndarray) -> np.ndarray:
    return useful[:, None] if useful.ndim == 1 else useful


def _fitted(
    classifier: object, key: jax.Array, samples: Samples, rows: np.ndarray, prior: np.ndarray
) -> AbstractScorer:
    if not isinstance(classifier, ProbabilityClassifier):
        raise InputError(
            "classifier has no method predict_proba, fit or set_params; a scikit-learn classifier is needed"
        )
    try:
        from sklearn.base import clone  # an extra
    except ImportError as error:
        raise ResourceError("a scikit-learn classifier needs it: pip install 'jaxpriv[estimation]'") from error
    model = clone(classifier)
    assert isinstance(model, ProbabilityClassifier)
    if "random_state" in inspect.signature(type(model).__init__).parameters:
        model.set_params(random_state=int(generator(key).integers(2**31)))
    model.fit(_columns(samples.useful[rows]), samples.private[rows])
    return _Probabilities(model, prior)
