"""Corollary 2 of Calmon and Fawaz 2012: the worst outcome for X = f(S), without the alphabet of S.

Where X is a function of S (a query of a database S) and S - X - Y,

    max_y H(S) - H(S|Y=y) = constant + max_y D( P(X|Y=y) || zeta )
    zeta(x) = e^{H(S|X=x)} / sum_x' e^{H(S|X=x')},      constant = H(S) - ln sum_x e^{H(S|X=x)}

in nats. P_X and H(S|X=x) are all that is needed: |S| = 2^n never appears.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, xlogy

from jaxpriv._runtime.validation import finite, host_only, index, mechanism_array, nonnegative, real_array, scalar
from jaxpriv.errors import InputError
from jaxpriv.models.databases.counting import log_binomial
from jaxpriv.models.databases.universe import distribution


@dataclass(frozen=True)
class DeterministicQuery:
    """What a solver or a measure needs of X = f(S).

    Attributes:
        prior: P_X, (x,).
        log_zeta: ln zeta(x), (x,); -inf where P_X(x) = 0.
        constant: H(S) - ln sum_x e^{H(S|X=x)}, nats, <= 0; 0 exactly where P_X = zeta, as for uniform S.
        entropy: H(S) in nats.
    """

    prior: np.ndarray
    log_zeta: np.ndarray
    constant: float
    entropy: float

    @property
    def hidden(self) -> np.ndarray:
        """H(S|X=x) in nats, (x,), 0 where x cannot be: `hidden` of `leakage.MaxInformation` for joint diag(P_X)."""
        residual = self.log_zeta + (self.entropy - self.constant)
        return np.where(self.prior > 0, residual, 0.0)

    def clamped(self, first: int, last: int) -> "DeterministicQuery":
        """The query min(max(X, first), last), as a query of its own: results beyond an end are one result.

        H(S|cell) = sum_x w_x ( H(S|X=x) - ln w_x ), w the law of X in the cell. A mechanism for it releases
        the same for all results of a cell; the mass of the tails bounds what that costs. Raises `InputError`
        unless 0 <= first <= last < |X|.
        """
        first, last = index(first, "first", low=0), index(last, "last", low=0)
        if not first <= last < self.prior.size:
            raise InputError(f"first and last must satisfy first <= last < {self.prior.size}")
        prior, hidden = self.prior, self.hidden
        inner = slice(first, last + 1)
        merged, residual = prior[inner].copy(), hidden[inner].copy()
        # Where there is one result alone, both tails are in it.
        lower, upper = (slice(None),) * 2 if first == last else (slice(0, first + 1), slice(last, None))
        for end, cell in ((0, lower), (-1, upper)):
            mass = float(prior[cell].sum())
            share = prior[cell] / mass if mass > 0 else prior[cell]
            merged[end] = mass
            residual[end] = float(share @ hidden[cell] + entr(share).sum())
        return _query(merged, np.where(merged > 0, residual, -np.inf), self.entropy)

    @host_only
    def outcomes(self, mechanism: ArrayLike) -> np.ndarray:
        """H(S) - H(S|Y=y) in nats for every output of `mechanism` (x, y); NaN for outputs without mass."""
        array = mechanism_array(mechanism)
        if array.shape[0] != self.prior.size:
            raise InputError(
                f"mechanism has {array.shape[0]} rows (axis x), but the query has {self.prior.size} results"
            )
        joint = self.prior[:, None] * array
        masses = joint.sum(axis=0)
        posterior = joint / np.where(masses > 0, masses, 1.0)
        log_zeta = np.where(self.prior > 0, self.log_zeta, 0.0)[:, None]
        divergence = np.sum(xlogy(posterior, posterior) - posterior * log_zeta, axis=0)
        return np.where(masses > 0, self.constant + divergence, np.nan)

    def max_information(self, mechanism: ArrayLike) -> float:
        """max_y H(S) - H(S|Y=y) in nats (Definition 4), `mechanism` (x, y); outputs without mass are left out."""
        return max(float(np.nanmax(self.outcomes(mechanism))), 0.0)


@host_only
def deterministic_query(prior: ArrayLike, residual: ArrayLike) -> DeterministicQuery:
    """From P_X, (x,), and H(S|X=x) in nats, (x,): `residual[x]` is ignored where P_X(x) = 0.

    Raises `InputError` naming argument and position for a prior that is not one and residuals that are negative
    or not finite. Calmon and Fawaz 2012, Corollary 2.
    """
    prior = distribution(prior, "prior")
    residual = nonnegative(finite(real_array(residual, "residual", ndim=1), "residual"), "residual")
    if residual.size != prior.size:
        raise InputError(f"residual has {residual.size} entries, prior {prior.size}")
    return _query(prior, np.where(prior > 0, residual, -np.inf), float(entr(prior).sum() + prior @ residual))


def _query(prior: np.ndarray, exponent: np.ndarray, entropy: float) -> DeterministicQuery:
    """`exponent` is H(S|X=x), -inf where x cannot be."""
    total = float(np.logaddexp.reduce(exponent))
    # H(S) <= ln sum e^H(S|X=x), with equality where P_X = zeta: rounding may leave a little above 0.
    return DeterministicQuery(prior, exponent - total, min(entropy - total, 0.0), entropy)


# Of one record, nats: that of so many records is still a float64.
_MOST_ENTROPY = 1e290


@host_only
def counting_query(
    records: int, probability: float, *, inside: float = 0.0, outside: float = 0.0
) -> DeterministicQuery:
    """X = how many of n i.i.d. records have a property, each with probability p: X ~ Bin(n, p).

        H(S|X=x) = ln C(n, x) + x h_in + (n - x) h_out

    with h_in, h_out (`inside`, `outside`, nats) the entropy of a record that has the property and of one that
    has not: 0 and 0 for binary records, where zeta(x) is proportional to C(n, x) (Calmon and Fawaz 2012,
    Examples 1 and 2). C(n, x) stays a logarithm, and zeta covers counts whose probability underflows in `prior`.

    Raises `InputError` for n < 1, p outside [0, 1], negative entropies, NaN and infinities.
    """
    records = index(records, "records", low=1)
    probability = float(scalar(probability, "probability", low=0.0, high=1.0))
    inside = float(scalar(inside, "inside", low=0.0, high=_MOST_ENTROPY))
    outside = float(scalar(outside, "outside", low=0.0, high=_MOST_ENTROPY))
    log_prior = log_binomial(records, probability)
    x = np.arange(records + 1)
    prior = np.exp(log_prior)
    residual = log_binomial(records, 0.5) + records * np.log(2.0) + x * inside + (records - x) * outside
    per_record = entr(probability) + entr(1.0 - probability) + probability * inside + (1.0 - probability) * outside
    return _query(prior / prior.sum(), np.where(log_prior > -np.inf, residual, -np.inf), float(records * per_record))
