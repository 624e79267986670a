"""Self-normalisation: the nearest valid log-lift of any critic.

A log-lift i(s, x) = ln P(s|x)/P(s) satisfies, for every x,

    sum_s p_s e^{i(s,x)} = sum_s P(s|x) = 1,                                   (1)

so p_s e^{i(s,x)} <= 1 and i(s, x) <= -ln p_s for every s and x, whatever the data. A critic g is projected onto (1)
by

    i(s, x) = g(s, x) - ln Z(x),    Z(x) = sum_s p_s e^{g(s,x)}.

What it does to the Donsker-Varadhan value DV(g) = E g(S,X) - ln E Z(X): the logarithm vanishes, because Z = 1 after
it, and

    DV(i) = E g - E ln Z(X)  >=  E g - ln E Z(X) = DV(g)                        (Jensen),

so the population value never falls. Without its logarithm a mean over held-out rows is an unbiased estimate of DV(i)
<= I(S;X) for the prior that (1) was imposed with; with a prior counted from n rows the bias is of the order of (|S| -
1)/(2 n).
"""

from abc import abstractmethod
from collections.abc import Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from jaxpriv._runtime.types import Arr
from jaxpriv._runtime.validation import instance, listed
from jaxpriv.errors import InputError
from jaxpriv.statistics.lift.samples import Rows


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
