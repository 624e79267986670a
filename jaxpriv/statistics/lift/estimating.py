"""What an estimator achieves on rows that it was not fitted on: the report of `estimate`, over several splits."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from jaxpriv._runtime.counts import failure
from jaxpriv._runtime.validation import instance, scalar, whole
from jaxpriv.errors import InputError
from jaxpriv.statistics.lift._base import AbstractLiftEstimator, checked_prior
from jaxpriv.statistics.lift.estimated_number import Estimate
from jaxpriv.statistics.lift.log_lift import LogLift
from jaxpriv.statistics.lift.samples import Samples
from jaxpriv.statistics.lift.splits import MADE_FROM, checked_key, generator, split


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
