"""The log-lift by the frequencies of symbols, and all estimators by their names."""

from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import jax
import numpy as np

from jaxpriv._runtime.validation import listed, scalar
from jaxpriv.errors import InputError
from jaxpriv.statistics.lift._base import AbstractLiftEstimator
from jaxpriv.statistics.lift.classifiers import CalibratedClassifier
from jaxpriv.statistics.lift.log_lift import AbstractScorer, LogLift
from jaxpriv.statistics.lift.neural import donsker_varadhan, f_divergence, trimmed, watchdog_paper
from jaxpriv.statistics.lift.objectives import (
    ChiSquaredForm,
    JensenShannonForm,
    ReverseKullbackLeiblerForm,
    SquaredHellingerForm,
)
from jaxpriv.statistics.lift.samples import Samples

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
