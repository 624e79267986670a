"""What a log-lift estimator achieves on rows it was not fitted on, over several splits."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from jaxpriv._validation import scalar, whole
from jaxpriv.errors import InputError
from jaxpriv.estimation.lift._base import (
    AbstractLiftEstimator,
    Estimate,
    LogLift,
    checked_prior,
    generator,
    share,
    split,
)
from jaxpriv.estimation.lift.samples import Samples


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
    count = whole(splits, "splits", low=1.0)
    test, validation = share(test, "test"), share(validation, "validation")
    everything = np.arange(samples.size)
    keys = jax.random.split(key, count)
    parts = []
    for one in keys:
        rng = generator(one)
        rest, tested = split(rng, samples.private, everything, test)
        parts.append((*split(rng, samples.private, rest, validation), tested))
    train, held, tested = (np.stack(rows) for rows in zip(*parts, strict=True))
    lifts = estimator.fit_rows(keys, samples, train, held, checked_prior(prior, samples))
    report = _report(estimator.name, samples, lifts, tested)
    for doubt in report.doubts:
        warnings.warn(doubt, EstimateWarning, stacklevel=2)
    return report


def _report(name: str, samples: Samples, lifts: Sequence[LogLift], tested: np.ndarray) -> LiftReport:
    lift = [part(samples.useful[rows]) for part, rows in zip(lifts, tested, strict=True)]
    prior, trimmed = lifts[0].prior, np.isfinite(lifts[0].limit)
    gains = []
    for scores, rows in zip(lift, tested, strict=True):
        own = scores[np.arange(len(rows)), samples.private[rows]]
        gains.append(own - np.sum(prior * np.expm1(scores), axis=1) if trimmed else own)
    marginal = tuple(
        over_splits([np.exp(scores[:, s]) for scores in lift], name, f"E e^i({s}, X)", "ratio")
        for s in range(samples.private_size)
    )
    shape = (len(lifts), samples.size, samples.private_size)
    every = np.full(shape, -np.inf)
    for r, (scores, rows) in enumerate(zip(lift, tested, strict=True)):
        every[r, rows] = scores
    times = np.bincount(tested.ravel(), minlength=samples.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = logsumexp(every, axis=0) - np.log(times)[:, None]
    information = over_splits(gains, name, "I(S;X)", "nats")
    return LiftReport(
        information=information,
        per_split=np.array([gain.mean() for gain in gains]),
        marginal=marginal,
        largest=np.max([scores.max(axis=0) for scores in lift], axis=0),
        scores=np.where(times[:, None] > 0, mean, np.nan),
        lifts=tuple(lifts),
        test=tested,
        doubts=_doubts(information, gains),
    )


def _doubts(information: Estimate, gains: Sequence[np.ndarray]) -> tuple[str, ...]:
    """What contradicts the estimate; `gains` are the terms of each split's mean."""
    means, errors = np.array([part.mean() for part in gains]), np.array([_error(part) for part in gains])
    found = []
    if information.value < -_BELOW * information.standard_error:
        found.append(f"the value is more than {_BELOW:g} standard errors below 0")
    apart = np.flatnonzero(np.abs(means - np.median(means)) > _APART * np.median(errors))
    if apart.size:
        found.append(
            f"split {apart[0]} is more than {_APART:g} standard errors from the median split ({apart.size} such splits)"
        )
    return tuple(
        f"{information.quantity} by {information.method}: {what}; take another estimator, or more rows"
        for what in found
    )


def _error(terms: np.ndarray) -> float:
    """The standard error of a mean of terms."""
    return float(terms.std(ddof=1) / np.sqrt(len(terms))) if len(terms) > 1 else np.inf


def over_splits(terms: Sequence[np.ndarray], method: str, quantity: str, unit: str) -> Estimate:
    """The mean over splits of the mean of each split's terms (one per test row)."""
    means = np.array([part.mean() for part in terms])
    errors = np.array([_error(part) for part in terms])
    return Estimate(
        value=float(means.mean()),
        standard_error=float(np.sqrt(np.mean(errors**2))),
        n=len(terms[0]),
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
    level = np.log(scalar(gamma, "gamma", low=1.0))
    limit = report.lifts[0].limit
    if not level < limit:
        raise InputError(f"gamma must be below e^limit = {np.exp(limit):g}, where the scores are trimmed")
    terms = []
    for lift, rows in zip(report.lifts, report.test, strict=True):
        inside = lift(samples.useful[rows]) > level
        own = inside[np.arange(len(rows)), samples.private[rows]]
        terms.append(own - gamma * np.sum(lift.prior * inside, axis=1))
    return over_splits(terms, lifts_name(report), f"E_{gamma:g}(S;X)", "probability")


def lifts_name(report: LiftReport) -> str:
    """The estimator that a report is of."""
    return report.information.method
