"""Log-lift estimators that train a critic, and their presets."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv.statistics.lift._base import AbstractLiftEstimator
from jaxpriv.statistics.lift.log_lift import LogLift
from jaxpriv.statistics.lift.objectives import (
    AbstractForm,
    AbstractObjective,
    DonskerVaradhan,
    Trimmed,
)
from jaxpriv.statistics.lift.samples import Samples
from jaxpriv.statistics.lift.training import Network, Training, train

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
