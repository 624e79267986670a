"""Samples of (S, X), what a log-lift estimator is (hyper-parameters and a method that fits several splits), and the
log-lift it gives."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from jaxpriv._runtime.counts import failure
from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.types import Arr
from jaxpriv._runtime.validation import finite, instance, listed, real_array, whole
from jaxpriv.errors import InputError


class Rows(eqx.Module):
    """What a row of X looks like: `inputs` features (`symbols` None), or one of `symbols` = `inputs` symbols."""

    inputs: int = eqx.field(static=True)
    symbols: int | None = eqx.field(static=True)

    def checked(self, useful: object) -> np.ndarray:
        """`useful` as float64 features `(n, inputs)` or int64 symbols `(n,)`; `InputError` if it is neither."""
        if self.symbols is not None:
            return codes(useful, "useful", self.symbols)
        array = finite(real_array(useful, "useful", ndim=2), "useful")
        if array.shape[1] != self.inputs:
            raise InputError(f"useful has {array.shape[1]} columns; the samples have {self.inputs}")
        return array


class Samples(eqx.Module):
    """n rows of (s, x) on the host; built by `from_features` and `from_symbols`, which check them.

    Attributes:
        private: `(n,)` int64 codes, 0 .. private_size - 1, each of which occurs.
        useful: `(n, d)` float64 features, or `(n,)` int64 symbols of a finite alphabet.
        numeric: `(d,)` bool, the features that are numeric; the others are indicators, as symbols become.
        private_size: |S|, at least 2.
        rows: what a row of X looks like.
    """

    private: np.ndarray
    useful: np.ndarray
    numeric: np.ndarray
    private_size: int = eqx.field(static=True)
    rows: Rows

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.private)

    @property
    def prior(self) -> np.ndarray:
        """`(S,)` the shares of the private values among all rows; all positive."""
        return np.bincount(self.private, minlength=self.private_size) / self.size


def codes(value: object, name: str, size: int) -> np.ndarray:
    """`value` as int64 codes `(n,)` in 0 .. size - 1."""
    array = finite(real_array(value, name, ndim=1), name)
    bad = ~((array >= 0) & (array < size) & (array == np.floor(array)))
    if np.any(bad):
        raise InputError(f"{name}[{np.flatnonzero(bad)[0]}] is not a whole number in 0 .. {size - 1}")
    return array.astype(np.int64)


def _private(value: object, size: int | None) -> tuple[np.ndarray, int]:
    array = finite(real_array(value, "private", ndim=1), "private")
    if size is None:
        size = int(np.clip(array.max(), 0, len(array))) + 1  # a code beyond the number of rows is refused below
    size = whole(size, "private_size", low=1.0)
    array = codes(array, "private", size)
    present = np.unique(array)
    if len(present) < 2:
        raise InputError("private has a single value: there is nothing to learn about it")
    if len(present) < size:
        missing = np.argmax(np.append(present, -1) != np.arange(len(present) + 1))
        raise InputError(f"private: no row has code {missing}; use consecutive codes of the values that occur")
    return array, size


def _same_rows(array: np.ndarray, name: str, other: np.ndarray, other_name: str = "private") -> None:
    if len(array) != len(other):
        raise InputError(f"{name} has {len(array)} rows; {other_name} has {len(other)}")


def one_hot(columns: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """`(n, sum(sizes))` float64 indicators of the `(n, c)` codes, column after column."""
    need_memory(8.0 * len(columns) * sum(sizes), "indicators of every category", "merge rare categories")
    table = np.zeros((len(columns), sum(sizes)))
    first = np.cumsum([0, *sizes[:-1]])
    table[np.arange(len(columns))[:, None], first + columns] = 1.0
    return table


def encode(
    numeric: ArrayLike | None = None, *, categories: ArrayLike | None = None, sizes: Sequence[int] | None = None
) -> np.ndarray:
    """`(n, d)` rows of X as estimators get them: `numeric`, then the indicators of each category in turn.

    Arguments and errors as for `from_features`; give `sizes` for rows that are to be scored later, so that a category
    that does not occur among them keeps its place.

    Raises `InputError` if neither `numeric` nor `categories` is given, or `sizes` has not one entry for each column.
    """
    blocks: list[np.ndarray] = []
    if numeric is not None:
        blocks.append(finite(real_array(numeric, "numeric", ndim=2), "numeric"))
    if categories is not None:
        array = finite(real_array(categories, "categories", ndim=2), "categories")
        if blocks:
            _same_rows(array, "categories", blocks[0], "numeric")
        if sizes is None:
            sizes = [int(top) + 1 for top in np.clip(array.max(axis=0), 0, len(array))]
        sizes = listed(sizes, "sizes")
        if len(sizes) != array.shape[1]:
            raise InputError(f"sizes has {len(sizes)} entries; categories has {array.shape[1]} columns")
        sizes = [whole(value, f"sizes[{k}]", low=1.0) for k, value in enumerate(sizes)]
        columns = [codes(array[:, k], f"categories[:, {k}]", size) for k, size in enumerate(sizes)]
        blocks.append(one_hot(np.stack(columns, axis=1), sizes))
    if not blocks:
        raise InputError("numeric or categories is needed")
    return np.concatenate(blocks, axis=1)


def from_features(
    private: ArrayLike,
    numeric: ArrayLike | None = None,
    *,
    categories: ArrayLike | None = None,
    sizes: Sequence[int] | None = None,
    private_size: int | None = None,
) -> Samples:
    """Samples with numeric features, categories, or both.

    Args:
        private: `(n,)` codes 0, 1, ... of S.
        numeric: `(n, d)` real features, scaled when an estimator is fitted (by its training rows).
        categories: `(n, c)` codes of categorical features; each becomes a group of indicators.
        sizes: how many values each category has (default: the largest code plus one).
        private_size: |S| (default: the largest code plus one).

    Raises `InputError` naming argument and row: a single private value, a code that never occurs, features that
    are not finite, an unknown category, no features, different lengths.
    """
    labels, size = _private(private, private_size)
    useful = encode(numeric, categories=categories, sizes=sizes)
    _same_rows(useful, "categories" if numeric is None else "numeric", labels)
    count = 0 if numeric is None else np.shape(numeric)[1]
    return Samples(labels, useful, np.arange(useful.shape[1]) < count, size, Rows(useful.shape[1], None))


def from_symbols(
    private: ArrayLike, useful: ArrayLike, *, useful_size: int | None = None, private_size: int | None = None
) -> Samples:
    """Samples whose X is a symbol of a finite alphabet: codes `(n,)` in 0 .. useful_size - 1.

    Raises `InputError` as `from_features` does, and where the alphabet has more symbols than there are rows: most
    symbols would then be scored without having been seen.
    """
    labels, size = _private(private, private_size)
    array = finite(real_array(useful, "useful", ndim=1), "useful")
    _same_rows(array, "useful", labels)
    if useful_size is None:
        useful_size = int(np.clip(array.max(), 0, len(array))) + 1
    useful_size = whole(useful_size, "useful_size", low=1.0)
    if useful_size > len(array):
        raise InputError(f"useful has {useful_size} symbols and {len(array)} rows; merge symbols, or give features")
    array = codes(array, "useful", useful_size)
    return Samples(labels, array, np.zeros(useful_size, dtype=bool), size, Rows(useful_size, useful_size))


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


def projected(critic: Float[Arr, "n s"], log_prior: Float[Arr, " s"]) -> Float[Arr, "n s"]:
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
    lifts = listed(lifts, "lifts")
    if not lifts:
        raise InputError("lifts is empty")
    for place, lift in enumerate(lifts):
        instance(lift, f"lifts[{place}]", LogLift)
    first = lifts[0]
    return LogLift(
        _Mean(tuple(lifts)), first.rows, first.prior, first.limit, f"mean of {len(lifts)} fits: {first.method}"
    )


# Training, validation and test rows, in the same proportions of every private value.


# How samples are made, where something else was given.
MADE_FROM = "; `from_features` and `from_symbols` make them"


def checked_key(key: jax.Array) -> jax.Array:
    """A JAX key, new-style or raw; `InputError` for anything else."""
    array = isinstance(key, (jax.Array, np.ndarray))
    new = array and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if not (array and (key.ndim == 0 if new else key.dtype == np.uint32 and key.ndim == 1)):
        raise InputError("key must be a JAX key: jax.random.key(0) is one")
    return key


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
        class_rows = rng.permutation(rows[private[rows] == code])
        if len(class_rows) < 2:
            raise InputError(
                f"private: code {code} has too few rows for training, validation and test (three are needed); "
                "merge rare values"
            )
        count = min(max(round(part * len(class_rows)), 1), len(class_rows) - 1)
        taken.append(class_rows[:count])
        rest.append(class_rows[count:])
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
