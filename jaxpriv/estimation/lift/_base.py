"""What a log-lift estimator is (hyper-parameters and a method that fits several splits), and the log-lift it gives."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from jaxpriv._validation import finite, real_array
from jaxpriv.errors import InputError
from jaxpriv.estimation.confidence.means import failure
from jaxpriv.estimation.lift.samples import Rows, Samples

# Self-normalisation: the nearest valid log-lift of any critic.
#
# A log-lift i(s, x) = ln P(s|x)/P(s) satisfies, for every x,
#
#     sum_s p_s e^{i(s,x)} = sum_s P(s|x) = 1,                                   (1)
#
# so p_s e^{i(s,x)} <= 1 and i(s, x) <= -ln p_s for every s and x, whatever the data. A critic g is projected onto (1)
# by
#
#     i(s, x) = g(s, x) - ln Z(x),    Z(x) = sum_s p_s e^{g(s,x)}.
#
# What it does to the Donsker-Varadhan value DV(g) = E g(S,X) - ln E Z(X): the logarithm vanishes, because Z = 1 after
# it, and
#
#     DV(i) = E g - E ln Z(X)  >=  E g - ln E Z(X) = DV(g)                        (Jensen),
#
# so the population value never falls. Without its logarithm a mean over held-out rows is an unbiased estimate of DV(i)
# <= I(S;X) for the prior that (1) was imposed with; with a prior counted from n rows the bias is of the order of (|S| -
# 1)/(2 n).


def project(critic: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """`(n, S)` critic values -> log-lift with sum_s p_s e^i = 1 in each row; float64 on the host."""
    return critic - logsumexp(critic + np.log(prior), axis=1, keepdims=True)


def projected(critic: Float[Array, "n s"], log_prior: Float[Array, " s"]) -> Float[Array, "n s"]:
    """The same inside a compiled function."""
    return critic - jax.nn.logsumexp(critic + log_prior[None, :], axis=1, keepdims=True)


def ceilings(prior: np.ndarray) -> np.ndarray:
    """`(S,)` -ln p_s: no log-lift is above it."""
    return -np.log(prior)


class AbstractScorer(eqx.Module):
    """Raw critic values of checked rows."""

    @abstractmethod
    def __call__(self, useful: np.ndarray) -> np.ndarray:
        """`(n, S)` float64; unnormalised."""


class LogLift(eqx.Module):
    """i(s, x) = ln P(s|x)/P(s) as fitted, in nats.

    Attributes:
        scorer: the fitted critic.
        rows: what a row of X looks like.
        prior: `(S,)` the P(s) that it is normalised for.
        limit: scores are trimmed to [-limit, limit]; infinite if they are not.
        method: the estimator, in words.
    """

    scorer: AbstractScorer
    rows: Rows
    prior: np.ndarray
    limit: float = eqx.field(static=True)
    method: str = eqx.field(static=True)

    def __call__(self, useful: ArrayLike) -> np.ndarray:
        """`(n, S)` float64 scores of rows of X (features, or symbols, as in the samples it was fitted on).

        Untrimmed scores satisfy sum_s p_s e^i = 1 in every row, so no score is above -ln p_s, trimmed or not.
        Raises `InputError` for rows of another kind, and where the score of a row is not finite.
        """
        raw = self.scorer(self.rows.checked(useful))
        bad = ~np.all(np.isfinite(raw), axis=1)
        if np.any(bad):
            raise InputError(
                f"useful[{np.flatnonzero(bad)[0]}] has a score that is not finite: it is far outside the data"
            )
        return np.clip(np.minimum(project(raw, self.prior), self.ceilings), -self.limit, self.limit)

    @property
    def ceilings(self) -> np.ndarray:
        """`(S,)` what no score exceeds: -ln p_s, or the limit."""
        return np.minimum(ceilings(self.prior), self.limit)


class _Mean(AbstractScorer):
    """ln of the mean of e^i over several log-lifts: the mean of their P(s|x), in units of P(s)."""

    parts: tuple[LogLift, ...]

    def __call__(self, useful: np.ndarray) -> np.ndarray:
        return logsumexp([part(useful) for part in self.parts], axis=0) - np.log(len(self.parts))


def average(lifts: Sequence[LogLift]) -> LogLift:
    """One log-lift from those of several splits: their lifts' mean, which is normalised where they are.

    Raises `InputError` if there is none.
    """
    if not len(lifts):
        raise InputError("lifts is empty")
    first = lifts[0]
    return LogLift(
        _Mean(tuple(lifts)), first.rows, first.prior, first.limit, f"mean of {len(lifts)} fits: {first.method}"
    )


# Training, validation and test rows, in the same proportions of every private value.


def generator(key: jax.Array) -> np.random.Generator:
    """A NumPy generator that a JAX key decides."""
    words = jax.random.key_data(key) if key.dtype != np.uint32 else key  # new-style keys, and raw ones
    return np.random.default_rng(np.asarray(words, dtype=np.uint32))


def split(
    rng: np.random.Generator, private: np.ndarray, rows: np.ndarray, part: float
) -> tuple[np.ndarray, np.ndarray]:
    """`rows` -> (the rest, `part` of them), both shuffled, each private value in proportion.

    Every private value has a row on either side, and the sizes depend on the counts alone: splits can be stacked.
    Raises `InputError` if a private value has fewer than two of the rows.
    """
    rest, taken = [], []
    for code in range(private.max() + 1):
        own = rng.permutation(rows[private[rows] == code])
        if len(own) < 2:
            raise InputError(
                f"private: code {code} has too few rows for training, validation and test (three are needed); "
                "merge rare values"
            )
        count = min(max(round(part * len(own)), 1), len(own) - 1)
        taken.append(own[:count])
        rest.append(own[count:])
    return rng.permutation(np.concatenate(rest)), rng.permutation(np.concatenate(taken))


# A number estimated from samples. It is no bound and no certificate: its type is different.


@dataclass(frozen=True)
class Estimate:
    """An estimate with its standard error; never placed in a field of a certified number.

    Attributes:
        value: in `unit`.
        standard_error: of `value`, from the rows it was computed on, given what was learnt from the others. It does
            not cover what a fitted log-lift misses (its mean is below I(S;X) by the mean relative entropy between the
            true and the fitted P(s|x)).
        n: rows of one test set.
        method: the estimator, in words.
        quantity: what is estimated.
        unit: "nats", unless stated.
        splits: how many splits `value` is the mean of.
        spread: standard deviation of the splits' values (NaN for one split). Splits share rows: this is not the
            standard error of their mean.
    """

    value: float
    standard_error: float
    n: int
    method: str
    quantity: str
    unit: str = "nats"
    splits: int = 1
    spread: float = math.nan

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and math.isfinite(self.standard_error)):
            raise InputError(
                f"the estimate of {self.quantity} by {self.method} is not finite: scores are infinite or NaN"
            )

    def agrees(self, truth: float, errors: float = 2.0) -> bool:
        """Whether `truth` lies within `errors` standard errors."""
        return bool(abs(self.value - truth) <= errors * self.standard_error)

    def __str__(self) -> str:
        return (
            f"{self.quantity} = {self.value:.4f} +- {self.standard_error:.4f} {self.unit} ({self.method}, n = {self.n})"
        )


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
        rng = generator(key)
        part = failure(validation, "validation")
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
