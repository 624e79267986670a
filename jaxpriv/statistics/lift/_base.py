"""What a log-lift estimator is: hyper-parameters, and a method that fits several splits of samples."""

from abc import abstractmethod

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.counts import failure
from jaxpriv._runtime.validation import finite, instance, real_array
from jaxpriv.errors import InputError
from jaxpriv.statistics.lift.log_lift import LogLift
from jaxpriv.statistics.lift.samples import Samples
from jaxpriv.statistics.lift.splits import MADE_FROM, checked_key, generator, split


class AbstractLiftEstimator(eqx.Module):
    """A way to estimate i(s, x) from samples. Subclasses are final and hold hyper-parameters only."""

    @property
    @abstractmethod
    def name(self) -> str:
        """In words, for reports."""

    @abstractmethod
    def fit_rows(
        self, keys: jax.Array, samples: Samples, train: np.ndarray, validation: np.ndarray, prior: np.ndarray
    ) -> tuple[LogLift, ...]:
        """One log-lift for each of R splits: rows `train` (R, a) and `validation` (R, b) of `samples`.

        `keys` (R,) decide all randomness, split by split: the same key and rows give the same fit alone or beside
        others, up to rounding. No other row of `samples` is used, except that `prior` (S,) may be counted from all.

        Raises `InputError` where the samples do not suit the estimator, `DivergedError` naming the splits whose
        training did not stay finite.
        """

    def fit(
        self, key: jax.Array, samples: Samples, *, validation: float = 0.2, prior: ArrayLike | None = None
    ) -> LogLift:
        """The log-lift fitted on all rows, a `validation` share of them held back to decide when to stop.

        `prior` (S,) is P(s) where it is known; otherwise the shares among the rows are taken. Nothing here states how
        good the fit is: `estimate` does, on rows kept apart.
        """
        instance(samples, "samples", Samples, hint=MADE_FROM)
        rng, part = generator(checked_key(key)), failure(validation, "validation")
        train, held = split(rng, samples.private, np.arange(samples.size), part)
        keys = jax.random.split(key, 1)
        return self.fit_rows(keys, samples, train[None], held[None], checked_prior(prior, samples))[0]


def checked_prior(prior: ArrayLike | None, samples: Samples) -> np.ndarray:
    """`prior` as positive shares (S,) with total one; counted from the samples if it is None."""
    if prior is None:
        return samples.prior
    array = finite(real_array(prior, "prior", ndim=1), "prior")
    if len(array) != samples.private_size:
        raise InputError(f"prior has {len(array)} entries; the samples have {samples.private_size} private values")
    if not (np.all(array > 0) and abs(array.sum() - 1.0) <= 1e-9):
        raise InputError("prior must be positive and sum to 1")
    return array / array.sum()
