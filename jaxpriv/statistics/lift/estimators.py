"""Estimators of the log-lift by frequencies of symbols, a calibrated classifier or neural networks; all by name."""

import inspect
from collections.abc import Sequence
from typing import ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._runtime.validation import listed, scalar
from jaxpriv.errors import InputError, ResourceError
from jaxpriv.statistics.lift._base import AbstractLiftEstimator, AbstractScorer, LogLift, Samples, generator, project
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
from jaxpriv.statistics.lift.training import Network, Training, train

# Fewer rows than this for each cell (s, x), and the table is far from the population:
# at n = |S||X| the bias of the plug-in mutual information is about half a nat whatever the truth.
_LEAST_ROWS = 5


class PlugIn(AbstractLiftEstimator):
    """P(s|x) = (n(s,x) + c p_s)/(n(x) + c): the counts of the training rows and c imaginary rows with P(s|x) = p_s.

    A positive c keeps every score finite, and the scores are normalised for any c. The c that is best on the
    validation rows is taken from `concentrations`.

    Raises `InputError` for features (discretise them first), and where there are fewer than five training rows for
    each of the |S||X| cells.
    """

    concentrations: Sequence[float] = eqx.field(static=True, default=(0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0))

    def __check_init__(self) -> None:
        if not listed(self.concentrations, "concentrations"):
            raise InputError("concentrations is empty")
        for k, value in enumerate(self.concentrations):
            scalar(value, f"concentrations[{k}]", low=0.0, open_low=True)

    name: ClassVar[str] = "plug-in"

    def fit_rows(
        self, keys: jax.Array, samples: Samples, train_rows: np.ndarray, validation: np.ndarray, prior: np.ndarray
    ) -> tuple[LogLift, ...]:
        del keys  # nothing here is random
        symbols = samples.rows.symbols
        if symbols is None:
            raise InputError("the plug-in estimator counts symbols of a finite alphabet; the samples have features")
        least = _LEAST_ROWS * samples.private_size * symbols
        if train_rows.shape[1] < least:
            raise InputError(
                f"undersampled: {train_rows.shape[1]} training rows for {samples.private_size} x {symbols} cells, "
                f"at least {least} are needed; merge symbols, or use an estimator that generalises between rows"
            )
        lifts = []
        for rows, held in zip(train_rows, validation, strict=True):
            counts = np.zeros((symbols, samples.private_size))
            np.add.at(counts, (samples.useful[rows], samples.private[rows]), 1.0)
            tables = [_table(counts, c, prior) for c in self.concentrations]
            means = [table[samples.useful[held], samples.private[held]].mean() for table in tables]
            lifts.append(LogLift(_Table(tables[int(np.argmax(means))]), samples.rows, prior, np.inf, self.name))
        return tuple(lifts)


def _table(counts: np.ndarray, c: float, prior: np.ndarray) -> np.ndarray:
    """`(X, S)` log-lift."""
    return np.log(counts / prior + c) - np.log(counts.sum(axis=1, keepdims=True) + c)


class _Table(AbstractScorer):
    values: np.ndarray

    def __call__(self, useful: np.ndarray) -> np.ndarray:
        return self.values[useful]


# The baseline that any critic must meet: a calibrated classifier, i(s, x) = ln P(s|x)/P(s).


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


# Log-lift estimators that train a critic, and their presets.


# The defaults of every preset.
_NETWORK, _TRAINING = Network(), Training()


class NeuralLift(AbstractLiftEstimator):
    """A critic trained by a variational objective, projected onto valid log-lifts.

    `label`: what reports call it; None: the name of the objective.
    """

    objective: AbstractObjective = DonskerVaradhan()
    network: Network = _NETWORK
    training: Training = _TRAINING
    label: str | None = eqx.field(static=True, default=None)

    @property
    def name(self) -> str:
        return self.objective.name if self.label is None else self.label

    def fit_rows(
        self, keys: jax.Array, samples: Samples, train_rows: np.ndarray, validation: np.ndarray, prior: np.ndarray
    ) -> tuple[LogLift, ...]:
        scorers = train(self.objective, self.network, self.training, keys, samples, train_rows, validation, prior)
        limit = float(self.objective.limit) if isinstance(self.objective, Trimmed) else np.inf
        return tuple(LogLift(scorer, samples.rows, prior, limit, self.name) for scorer in scorers)


def donsker_varadhan(network: Network = _NETWORK, training: Training = _TRAINING) -> NeuralLift:
    """The default: the Donsker-Varadhan form of a normalised critic, with early stopping."""
    return NeuralLift(DonskerVaradhan(), network, training)


def watchdog_paper(epochs: int = 3000) -> NeuralLift:
    """For comparison with the paper, not for use: one step on all rows an epoch ends far from the maximum. In one
    comparison it took 419 s and its value was a tenth of that of the other estimators.

    The network of Hsu 2019, appendix E: two hidden layers of 128 tanh neurons on (s, x), Adagrad at 0.001, 3000
    passes over the whole training set, no early stopping; trained on the raw form (13) and projected afterwards.

    The paper does not say how features are scaled, nor how the expectation under P_S P_X is formed: features are
    standardised here, and the sum over s is exact. Rows held back for validation are not used.
    """
    network = Network(128, 2, jnp.tanh, private_input=True, zero_readout=False, scaling="none")
    training = Training("adagrad", 1e-3, 0.0, batch=None, epochs=epochs, patience=None)
    label = f"Donsker-Varadhan, {epochs} full-batch steps of Hsu 2019 (for comparison: stops far from the maximum)"
    return NeuralLift(DonskerVaradhan(normalise=False), network, training, label)


def f_divergence(form: AbstractForm, network: Network = _NETWORK, training: Training = _TRAINING) -> NeuralLift:
    """The log-lift from the optimal critic of an f-divergence."""
    return NeuralLift(form, network, training)


def trimmed(limit: float = 1.0, network: Network = _NETWORK, training: Training = _TRAINING) -> NeuralLift:
    """clip(i, -limit, limit): all that a watchdog with a threshold below `limit` needs. `limit` > 0, in nats."""
    return NeuralLift(Trimmed(limit), network, training)


# The estimators by name.


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
    if not isinstance(name, str) or name not in _NAMED:
        raise InputError(f"estimator must be one of {', '.join(NAMES)}")
    return _NAMED[name]()
