"""The counting query: how many records have a property; noise on each record, or on the count.

`counts` maps sequences to counts; a channel K over counts, (n + 1, r), becomes the mechanism `K[counts(...)]`
over sequences. The output of K depends on a sequence through its count alone (Calmon and Fawaz 2012,
Corollary 1), so sizes of thousands of records stay small.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, expit, gammaln, xlog1py, xlogy

from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.validation import finite, host_only, index, mechanism_array, nonnegative, real_array, scalar
from jaxpriv.errors import InputError
from jaxpriv.models.baselines import geometric, randomized_response
from jaxpriv.models.databases.universe import FEWER, distribution, privacy_parameter, sequences, universe_sizes


def counts(sizes: int | Sequence[int], symbol: int = 1) -> np.ndarray:
    """The number of records equal to `symbol` in every sequence: integers (N,).

    Raises `InputError` if some universe lacks the symbol.
    """
    sizes = universe_sizes(sizes)
    symbol = index(symbol, "symbol", low=0, high=min(sizes) - 1)
    return (sequences(sizes) == symbol).sum(axis=1)


@host_only
def perturbed_records(sizes: int | Sequence[int], eps: float) -> np.ndarray:
    """Input perturbation: every record through randomised response on its own, (N, N) over sequences.

        M(r|x) = prod_i e^{eps [r_i = x_i]}/(e^eps + |X_i| - 1)

    eps-differentially private for one record and exactly k eps for k of them (records that differ in every
    place). Raises `InputError` for eps <= 0 or not finite.
    """
    sizes = universe_sizes(sizes)
    eps = privacy_parameter(eps)
    need_memory(8.0 * float(np.prod([float(size) for size in sizes])) ** 2, "a channel of sequences", FEWER)
    return reduce(np.kron, [randomized_response(m, eps) for m in sizes])


def log_binomial(trials: int, probability: float) -> np.ndarray:
    """ln P(B = b), b = 0 .. trials, of a binomial variable; -inf where it cannot be."""
    need_memory(64.0 * trials, "a distribution of counts", "use fewer records")
    b = np.arange(trials + 1)
    choose = gammaln(trials + 1) - gammaln(b + 1) - gammaln(trials - b + 1)
    return choose + xlogy(b, probability) + xlog1py(trials - b, -probability)


@host_only
def perturbed_count(records: int, eps: float) -> np.ndarray:
    """Input perturbation seen through the count: P(noisy count | count), (n + 1, n + 1), n = `records`.

    Every binary record is kept with probability e^eps/(1 + e^eps), flipped otherwise, and the count of the
    results is released: Bin(c, keep) + Bin(n - c, flip). The channel of counts of `perturbed_records((2,)*n, eps)`.
    O(n^3) work. At most eps-differentially private: releasing the sum is post-processing.
    """
    records = index(records, "records", low=1)
    flip = float(expit(-privacy_parameter(eps)))
    return count_channel(records, flip, flip)


def count_channel(records: int, lost: float, gained: float) -> np.ndarray:
    """P(count after | count before), (n + 1, n + 1), of records that become 0 or 1 with these probabilities."""
    need_memory(16.0 * (records + 1) ** 2, "a channel of counts", "use fewer records")
    # Kept records are those not lost, read backwards: 1 - lost would forget a probability below 1e-16.
    rows = [
        np.convolve(np.exp(log_binomial(c, lost))[::-1], np.exp(log_binomial(records - c, gained)))
        for c in range(records + 1)
    ]
    return np.array(rows) / np.sum(rows, axis=1, keepdims=True)


@host_only
def geometric_count(records: int, eps: float) -> np.ndarray:
    """Output perturbation: the count plus two-sided geometric noise, clamped to 0 .. n: (n + 1, n + 1).

        P(N = k) = (1 - a)/(1 + a) a^|k|,  a = e^-eps;  the mass below 0 goes to 0, that above n to n.

    eps-differentially private. Clamping loses nothing: all results below 0 have the same posterior as the
    result 0. Laplace noise of scale 1/eps has the same ratio for neighbouring counts at every result.
    """
    records = index(records, "records", low=1)
    return geometric(records + 1, privacy_parameter(eps))


# Corollary 2 of Calmon and Fawaz 2012: the worst outcome for X = f(S), without the alphabet of S.
#
# Where X is a function of S (a query of a database S) and S - X - Y,
#
#     max_y H(S) - H(S|Y=y) = constant + max_y D( P(X|Y=y) || zeta )
#     zeta(x) = e^{H(S|X=x)} / sum_x' e^{H(S|X=x')},      constant = H(S) - ln sum_x e^{H(S|X=x)}
#
# in nats. P_X and H(S|X=x) are all that is needed: |S| = 2^n never appears.


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


# Differential privacy bounds no leakage: Theorem 4 of Calmon and Fawaz 2012, exactly.
#
# The count X of n records is uniform on the multiples 0, k, 2k, .., n of k (records that come in groups of k), so P(X =
# jk) = 1/(1 + n/k), and Y = X + N with symmetric noise of rate eps: eps-differentially private whatever the prior. For
# n/k and k eps large the adversary reads X off Y, and I(X;Y) = I(S;Y) tends to ln(1 + n/k).
#
# With a = e^-(k eps) the density of Y between two neighbouring multiples, at the fraction t of the way, is
#
#     p(Y) = c (A_l a^t + B_l a^(1-t)) / (1 + n/k),   A_l = (1 - a^(l+1))/(1 - a),   B_l = (1 - a^(n/k - l))/(1 - a)
#
# (c the density of N at 0), so H(Y) - H(N) costs O(n) for geometric and O(n/k) for Laplace noise; no channel is built.
# All values are in nats, exact to about 1e-12 of rounding.


@host_only
def sparse_count_leakage(records: int, spacing: int, eps: float, noise: str = "laplace") -> float:
    """I(X;Y) in nats for X uniform on the multiples of k = `spacing` up to n = `records`, Y = X + noise.

    `noise="laplace"`: density (eps/2) e^-(eps |z|) on the reals, as in the paper. `noise="geometric"`: mass
    proportional to e^-(eps |z|) on the integers; clamping the result to 0 .. n changes nothing. Both are
    eps-differentially private, and the leakage is at least `sparse_count_bound`.

    Raises `InputError` if k does not divide n, for eps <= 0, infinite or NaN, and other noise.
    """
    groups, spacing, eps = _checked(records, spacing, eps)
    discrete = _known(noise) == "geometric"
    need_memory(64.0 * groups * (spacing if discrete else 1), "a distribution of counts", "use fewer records")
    value = _geometric(groups, spacing, eps) if discrete else _laplace(groups, spacing * eps)
    return min(max(value, 0.0), float(np.log1p(groups)))


@host_only
def sparse_count_bound(records: int, spacing: int, eps: float) -> float:
    """(1 - e^(-k eps/2)) ln(1 + n/k) - ln 2, a lower bound on `sparse_count_leakage` in nats; may be negative.

    The nearest multiple of k to Y is wrong with probability at most e^(-k eps/2): exactly that for Laplace noise
    away from the ends, less at the ends, and no more for geometric noise (2 sqrt(a) <= 1 + a). The rest is
    Fano's inequality, which also spares the paper's proof its neglected edges: given that the guess is right, X
    is not exactly uniform. Errors as in `sparse_count_leakage`.

    Calmon and Fawaz 2012, Theorem 4 and eq. (46), where logarithms are in bits.
    """
    groups, spacing, eps = _checked(records, spacing, eps)
    return float(-np.expm1(-spacing * eps / 2.0) * np.log1p(groups) - np.log(2.0))


@host_only
def sparse_count_recovery(records: int, spacing: int, eps: float, noise: str = "laplace") -> float:
    """The probability that an adversary learns ALL of S from Y, for ordered records: S_1 = .. = S_X = 1, the others 0.

        1 - (n/k)/(1 + n/k) e^(-k eps/2)

    for Laplace noise, X and Y as in `sparse_count_leakage`: S is then a function of X, and the guess the nearest
    multiple of k, wrong by half of e^(-k eps/2) on each side where there is a neighbour. It tends to 1 as k eps
    grows, though Y is eps-differentially private. For geometric noise the same for an even k (one of the two nearest is
    guessed half-way), and 2 e^(-(k+1) eps/2)/(1 + e^-eps) in place of the exponential for an odd one. Errors as in
    `sparse_count_leakage`.

    Calmon and Fawaz 2012, after Theorem 4.
    """
    groups, spacing, eps = _checked(records, spacing, eps)
    wrong = np.exp(-spacing * eps / 2.0)
    if _known(noise) == "geometric" and spacing % 2:
        wrong *= 1.0 / np.cosh(eps / 2.0)
    return float(1.0 - groups / (groups + 1.0) * wrong)


def _known(noise: str) -> str:
    if not isinstance(noise, str) or noise not in ("geometric", "laplace"):
        raise InputError("noise must be 'geometric' or 'laplace'")
    return noise


# From here on e^-eps is 0, and eps times the number of records must stay a float64.
_NOISELESS = 1e4


def _checked(records: int, spacing: int, eps: float) -> tuple[int, int, float]:
    """(n/k, k, eps)."""
    records = index(records, "records", low=1)
    spacing = index(spacing, "spacing", low=1, high=records)
    if records % spacing:
        raise InputError("spacing must divide records")
    return records // spacing, spacing, min(privacy_parameter(eps), _NOISELESS)


def _sides(groups: int, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """(A_l, B_l) of every gap l = 0 .. n/k - 1; `rate` = k eps."""
    ends = np.expm1(-rate * np.arange(1, groups + 1)) / np.expm1(-rate)
    return ends, ends[::-1]


def _geometric(groups: int, spacing: int, eps: float) -> float:
    below, above = _sides(groups, spacing * eps)
    ratio, gap = np.exp(-eps), -np.expm1(-eps)
    peak = gap / (1.0 + ratio)
    t = np.arange(spacing)
    inner = below[:, None] * np.exp(-eps * t) + above[:, None] * np.exp(-eps * (spacing - t))
    inner *= peak / (groups + 1)
    # From n upwards, and from -1 downwards, the mass is tail a^s, s = 0, 1, .. and s = 1, 2, ..
    tail = peak / (groups + 1) * np.expm1(-eps * spacing * (groups + 1)) / np.expm1(-eps * spacing)
    tails = tail * (np.log(tail) * (1.0 + ratio) / gap - 2.0 * eps * ratio / gap**2)
    noise = -np.log(peak) + 2.0 * eps * ratio / (gap * (1.0 + ratio))
    return float(-np.sum(xlogy(inner, inner)) - tails - noise)


def _laplace(groups: int, rate: float) -> float:
    """The spacing as unit of length: noise of density (rate/2) e^-(rate |z|)."""
    below, above = _sides(groups, rate)
    scale = rate / (2.0 * (groups + 1))
    end = np.exp(-rate)

    def integral(near: np.ndarray, far: np.ndarray) -> np.ndarray:
        """Of ln(near u + far e^-rate / u) over u = e^(-rate t) from e^-rate to 1."""
        root = np.exp(-rate / 2.0) * np.sqrt(far / near)
        upper = np.log(near + far * end) - 1.0 + 2.0 * root * np.arctan2(1.0, root)
        # At u = e^-rate the second term is `far`, even where e^-rate is 0.
        lower = end * (np.log(near * end + far) - 1.0) + 2.0 * root * np.arctan2(end, root)
        return upper - lower

    # Integral of p ln(p/scale) over the gaps, each side of p in turn; then of p ln p over the two tails.
    inner = np.sum(below * integral(below, above)) + np.sum(above * integral(above, below))
    mass = float(2.0 * np.sum(below) * -np.expm1(-rate)) * scale / rate
    tail = scale * np.expm1(-rate * (groups + 1)) / np.expm1(-rate)
    total = scale * inner / rate + mass * np.log(scale) + 2.0 * tail / rate * (np.log(tail) - 1.0)
    return float(-total - (1.0 + np.log(2.0 / rate)))
