"""Log-lift from samples: i(s, x) = ln P(s|x)/P(s) for a private S with few values and any X.

    samples = from_features(private, numeric)           # or from_symbols, for a finite alphabet
    lift = donsker_varadhan().fit(key, samples)         # lift(x): (n, S) scores in nats
    report = estimate(donsker_varadhan(), key, samples) # I(S;X) on test rows, over 20 splits

Everything here is an estimate. An `Estimate` has a standard error and never shares a field with a
number that is proved. `estimate` and `self_test` are what an estimator achieves on rows it was not fitted on, and on
tasks with known answers.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import jax
import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, ndtr, ndtri, rel_entr

from jaxpriv._runtime.counts import failure
from jaxpriv._runtime.importing import names_of
from jaxpriv._runtime.validation import instance, scalar, whole
from jaxpriv.errors import InputError
from jaxpriv.statistics.lift._base import (
    MADE_FROM,
    AbstractLiftEstimator,
    Estimate,
    LogLift,
    Samples,
    average,
    checked_key,
    checked_prior,
    encode,
    from_features,
    from_symbols,
    generator,
    split,
)
from jaxpriv.statistics.lift.estimators import (
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


@dataclass(frozen=True, eq=False)
class LiftReport:
    """Everything on TEST rows only.

    Attributes:
        information: mean over the splits of the mean of i(s, x) over a split's test rows: an estimate of a lower
            bound of I(S;X). Of trimmed scores, the mean of i - sum_s p_s e^i + 1, which bounds it in the same way.
        per_split: `(R,)` those means.
        marginal: `(S,)` estimates of E e^{i(s,X)}, which is 1 for the true log-lift (sum over x of p_x e^i = 1). The
            projection imposes the other identity, not this one: a departure means a poor fit for that s.
        largest: `(S,)` the largest i(s, x) over all splits and test rows; at most -ln p_s.
        scores: `(n, S)` per row, ln of the mean of e^i over the splits that tested it; NaN in a row that none did.
        lifts: the R fits.
        test: `(R, b)` the test rows.
        doubts: sentences, each given as an `EstimateWarning` too: the value is more than two standard errors below 0
            (I(S;X) is not negative), or a split is more than five standard errors (the median over the splits) from
            the median split. The estimate is not to be used then.
    """

    information: Estimate
    per_split: np.ndarray
    marginal: tuple[Estimate, ...]
    largest: np.ndarray
    scores: np.ndarray
    lifts: tuple[LogLift, ...]
    test: np.ndarray
    doubts: tuple[str, ...]


class EstimateWarning(UserWarning):
    """An estimate that its own splits contradict: see `LiftReport.doubts`."""


# Standard errors below 0, and between a split and the median split, from which on an estimate is doubted.
_BELOW, _APART = 2.0, 5.0


def estimate(
    estimator: AbstractLiftEstimator,
    key: jax.Array,
    samples: Samples,
    *,
    splits: int = 20,
    test: float = 0.3,
    validation: float = 0.2,
    prior: ArrayLike | None = None,
) -> LiftReport:
    """Fit on `splits` random splits, all at once, and measure on the test rows of each.

    A share `test` of the rows is kept apart; of the others a share `validation` decides when to stop. Every private
    value is divided in proportion. `prior` (S,) is P(s) where it is known; else the shares among all rows.

    The standard error is the root mean square over the splits of sd(i)/sqrt(n_test): the mean over splits varies no
    more than one of them does, so it is conservative for several splits.

    Raises `InputError` for samples that do not suit the estimator, `DivergedError` if the training of any split did
    not stay finite: then there is no number. Warns (`EstimateWarning`) of the `doubts` of the report.
    """
    instance(estimator, "estimator", AbstractLiftEstimator, hint="; `named` makes one")
    instance(samples, "samples", Samples, hint=MADE_FROM)
    count, key = whole(splits, "splits", low=1.0), checked_key(key)
    test, validation = failure(test, "test"), failure(validation, "validation")
    everything = np.arange(samples.size)
    keys = jax.random.split(key, count)
    parts = []
    for split_key in keys:
        rng = generator(split_key)
        rest, tested = split(rng, samples.private, everything, test)
        parts.append((*split(rng, samples.private, rest, validation), tested))
    train, held, tested = (np.stack(rows) for rows in zip(*parts, strict=True))
    lifts = estimator.fit_rows(keys, samples, train, held, checked_prior(prior, samples))
    report = _report(estimator.name, samples, lifts, tested)
    for doubt in report.doubts:
        warnings.warn(doubt, EstimateWarning, stacklevel=2)
    return report


def _report(name: str, samples: Samples, lifts: Sequence[LogLift], tested: np.ndarray) -> LiftReport:
    scores = np.stack([lift(samples.useful[rows]) for lift, rows in zip(lifts, tested, strict=True)])
    gains = _own(scores, samples.private[tested])
    prior = lifts[0].prior
    if np.isfinite(lifts[0].limit):  # trimmed
        gains = gains - np.sum(prior * np.expm1(scores), axis=2)
    marginal = tuple(
        over_splits(np.exp(scores[:, :, s]), name, f"E e^i({s}, X)", "ratio") for s in range(samples.private_size)
    )
    every = np.full((len(lifts), samples.size, samples.private_size), -np.inf)
    every[np.arange(len(lifts))[:, None], tested] = scores
    times = np.bincount(tested.ravel(), minlength=samples.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = logsumexp(every, axis=0) - np.log(times)[:, None]
    information = over_splits(gains, name, "I(S;X)", "nats")
    return LiftReport(
        information=information,
        per_split=gains.mean(axis=1),
        marginal=marginal,
        largest=scores.max(axis=(0, 1)),
        scores=np.where(times[:, None] > 0, mean, np.nan),
        lifts=tuple(lifts),
        test=tested,
        doubts=_doubts(information, gains),
    )


def _own(values: np.ndarray, private: np.ndarray) -> np.ndarray:
    """The entries (R, b) of `values` (R, b, S) for each row's own s."""
    return np.take_along_axis(values, private[:, :, None], axis=2)[:, :, 0]


def _doubts(information: Estimate, gains: np.ndarray) -> tuple[str, ...]:
    """What contradicts the estimate; `gains` (R, b) are the terms of each split's mean."""
    means = gains.mean(axis=1)
    contradictions = []
    if information.value < -_BELOW * information.standard_error:
        contradictions.append(f"the value is more than {_BELOW:g} standard errors below 0")
    apart = np.flatnonzero(np.abs(means - np.median(means)) > _APART * np.median(_errors(gains)))
    if apart.size:
        contradictions.append(
            f"split {apart[0]} is more than {_APART:g} standard errors from the median split ({apart.size} such splits)"
        )
    return tuple(
        f"{information.quantity} by {information.method}: {what}; take another estimator, or more rows"
        for what in contradictions
    )


def _errors(terms: np.ndarray) -> np.ndarray:
    """The standard errors (R,) of the means of terms (R, b)."""
    splits, rows = terms.shape
    return terms.std(axis=1, ddof=1) / np.sqrt(rows) if rows > 1 else np.full(splits, np.inf)


def over_splits(terms: np.ndarray, method: str, quantity: str, unit: str) -> Estimate:
    """The mean over splits of the mean of each split's terms (R, b), one for each test row."""
    means = terms.mean(axis=1)
    return Estimate(
        value=float(means.mean()),
        standard_error=float(np.sqrt(np.mean(_errors(terms) ** 2))),
        n=terms.shape[1],
        method=method,
        quantity=quantity,
        unit=unit,
        splits=len(terms),
        spread=float(means.std(ddof=1)) if len(means) > 1 else float("nan"),
    )


def e_gamma(report: LiftReport, samples: Samples, gamma: float) -> Estimate:
    """E_gamma(P_{SX} || P_S P_X) = sup_A P(A) - gamma Q(A), gamma >= 1, from the set A = { i > ln gamma }.

    The set is learnt on other rows, so the mean is, for a known prior, an unbiased estimate of a lower bound of
    E_gamma. Only whether i exceeds ln gamma matters: scores trimmed at or beyond it serve as well as any.
    Raises `InputError` for a gamma beyond e^limit of trimmed scores: nothing exceeds it.
    """
    instance(report, "report", LiftReport, hint="; `estimate` makes one")
    instance(samples, "samples", Samples, hint=MADE_FROM)
    level = np.log(scalar(gamma, "gamma", low=1.0))
    limit = report.lifts[0].limit
    if not level < limit:
        raise InputError(f"gamma must be below e^limit = {np.exp(limit):g}, where the scores are trimmed")
    inside = np.stack(
        [lift(samples.useful[rows]) > level for lift, rows in zip(report.lifts, report.test, strict=True)]
    )
    terms = _own(inside, samples.private[report.test]) - gamma * np.sum(report.lifts[0].prior * inside, axis=2)
    return over_splits(terms, report.information.method, f"E_{gamma:g}(S;X)", "probability")


# Tasks whose mutual information is known: an estimator is checked on these first.


# Integration over a standard normal X: beyond 10 deviations there is less mass than rounding.
_GRID = np.linspace(-10.0, 10.0, 20_001)
# Weights of the integral: the density at the points of the grid, which sum to 1.
_MASS = np.exp(-0.5 * _GRID**2) / np.exp(-0.5 * _GRID**2).sum()


@dataclass(frozen=True)
class KnownTask:
    """A population with known I(S;X).

    Attributes:
        name: what it is.
        information: I(S;X) in nats, by a closed form or by integration to about 1e-9.
        prior: `(S,)` P(s).
        draw: `draw(rng, n)` gives n rows: (private codes, features or symbols).
        symbols: |X| of a finite alphabet, None for features.
        lift: the true log-lift `(n, S)` of rows.
    """

    name: str
    information: float
    prior: np.ndarray
    draw: Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
    symbols: int | None
    lift: Callable[[np.ndarray], np.ndarray]

    def samples(self, seed: int, n: int) -> Samples:
        """n rows drawn with a seed."""
        private, useful = self.draw(np.random.default_rng(seed), n)
        if self.symbols is None:
            return from_features(private, useful, private_size=len(self.prior))
        return from_symbols(private, useful, useful_size=self.symbols, private_size=len(self.prior))


@dataclass(frozen=True)
class Agreement:
    """One known answer beside its estimate."""

    task: str
    truth: float
    estimate: Estimate

    @property
    def errors(self) -> float:
        """The error in standard errors."""
        return (self.estimate.value - self.truth) / self.estimate.standard_error

    @property
    def agrees(self) -> bool:
        """Within two standard errors."""
        return self.estimate.agrees(self.truth)


def self_test(
    estimator: AbstractLiftEstimator,
    key: jax.Array,
    *,
    n: int = 6000,
    splits: int = 5,
    tasks: tuple[KnownTask, ...] | None = None,
) -> tuple[Agreement, ...]:
    """The estimator on tasks with known answers (default: all of `known_tasks`), n rows each.

    An estimator that fails here with the sample size at hand cannot be relied on for data. A few agreements out of
    many may fail by chance: two standard errors cover 95 %. For `PlugIn` pass the tasks with symbols.
    """
    agreements = []
    for number, task in enumerate(known_tasks() if tasks is None else tasks):
        report = estimate(estimator, jax.random.fold_in(key, number), task.samples(number, n), splits=splits)
        agreements.append(Agreement(task.name, task.information, report.information))
    return tuple(agreements)


def _information(mass: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, float]:
    """(prior, I(S;X)) of masses `(m,)` of X and P(s|x) `(m, S)`."""
    prior = mass @ shares
    return prior, float(mass @ rel_entr(shares, prior).sum(axis=1))


def _gaussian(
    name: str,
    rho: float,
    bins: int,
    unseen: Callable[[np.ndarray], np.ndarray] = lambda x: x[:, 0],
    seen: Callable[[np.ndarray], np.ndarray] = lambda hidden: hidden,
    width: int = 1,
) -> KnownTask:
    """S = the quantile bin (of `bins`) of Z; (Z, G) standard normal with correlation rho; X = seen(G, noise).

    P(s|g) is a difference of normal distribution functions. X is a one-to-one function of (G, noise), which
    `unseen` inverts for G.
    """
    edges = ndtri(np.arange(bins + 1) / bins)

    def shares(g: np.ndarray) -> np.ndarray:
        return np.diff(ndtr((edges - rho * g[:, None]) / math.sqrt(1.0 - rho**2)), axis=1)

    prior, information = _information(_MASS, shares(_GRID))

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        hidden = rng.normal(size=(n, width))
        z = rho * hidden[:, 0] + math.sqrt(1.0 - rho**2) * rng.normal(size=n)
        return np.clip(np.searchsorted(edges, z) - 1, 0, bins - 1), seen(hidden)

    def lift(x: np.ndarray) -> np.ndarray:
        return np.log(shares(unseen(x))) - np.log(prior)

    return KnownTask(name, information, prior, draw, None, lift)


def _mixture(name: str, prior: np.ndarray, centres: np.ndarray) -> KnownTask:
    """X|S=s an even mixture of unit Gaussians in the plane around `centres[s]` (S, k, 2), integrated on a grid."""

    def shares(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        far = ((x[:, None, None, :] - centres) ** 2).sum(axis=-1)
        densities = prior * np.exp(-0.5 * far).mean(axis=2) / (2.0 * np.pi)
        total = densities.sum(axis=1)
        return total, densities / total[:, None]

    side = np.linspace(-8.0, 8.0, 321)  # the trapezoidal rule is spectrally accurate for analytic integrands
    plane = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    total, posterior = shares(plane)
    _, information = _information(total / total.sum(), posterior)

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        s = rng.choice(len(prior), size=n, p=prior)
        return s, centres[s, rng.integers(centres.shape[1], size=n)] + rng.normal(size=(n, 2))

    return KnownTask(name, information, prior, draw, None, lambda x: np.log(shares(x)[1] / prior))


def _channel(name: str, joint: np.ndarray) -> KnownTask:
    """A table P(s, x)."""
    mass = joint.sum(axis=0)
    prior, information = _information(mass, (joint / mass).T)

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        cells = rng.choice(joint.size, size=n, p=joint.ravel())
        return cells // joint.shape[1], cells % joint.shape[1]

    table = np.log(joint / mass).T - np.log(prior)
    return KnownTask(name, information, prior, draw, joint.shape[1], lambda x: table[x])


@cache
def known_tasks() -> tuple[KnownTask, ...]:
    """Gaussian pairs, a heavy tail, many features, mixtures, a discrete channel, weak and no dependence."""
    angle = np.random.default_rng(7).normal(size=(10, 10))
    rotation = np.linalg.qr(angle)[0]
    weights = np.array([[8, 6, 4, 2, 1, 1, 2, 4], [2, 2, 4, 6, 8, 6, 4, 2], [1, 2, 2, 3, 4, 8, 9, 9]], dtype=float)
    weights *= np.array([[0.5], [0.3], [0.2]]) / weights.sum(axis=1, keepdims=True)
    three = np.array([[[0.0, 0.0]], [[2.0, 0.0]], [[0.0, 2.5]]])
    crossed = 1.5 * np.array([[[1.0, 1.0], [-1.0, -1.0]], [[1.0, -1.0], [-1.0, 1.0]]])
    return (
        _gaussian("Gaussian pair, sign", 0.75, 2),
        _gaussian("Gaussian pair, four bins", 0.75, 4),
        _gaussian("heavy tail", 0.6, 2, lambda x: np.arcsinh(x[:, 0]) / 2.0, lambda h: np.sinh(2.0 * h)),
        _gaussian("ten features", 0.6, 2, lambda x: x @ rotation[:, 0], lambda h: h @ rotation.T, width=10),
        _channel("channel, 3 x 8", weights),
        _mixture("three clusters", np.array([0.6, 0.3, 0.1]), three),
        _mixture("crossed clusters", np.array([0.5, 0.5]), crossed),
        _gaussian("weak dependence", 0.15, 2),
        _gaussian("independent", 0.0, 2, width=3),
    )
