"""Differential privacy bounds no leakage: Theorem 4 of Calmon and Fawaz 2012, exactly.

The count X of n records is uniform on the multiples 0, k, 2k, .., n of k (records that come in groups of k), so P(X =
jk) = 1/(1 + n/k), and Y = X + N with symmetric noise of rate eps: eps-differentially private whatever the prior. For
n/k and k eps large the adversary reads X off Y, and I(X;Y) = I(S;Y) tends to ln(1 + n/k).

With a = e^-(k eps) the density of Y between two neighbouring multiples, at the fraction t of the way, is

    p(Y) = c (A_l a^t + B_l a^(1-t)) / (1 + n/k),   A_l = (1 - a^(l+1))/(1 - a),   B_l = (1 - a^(n/k - l))/(1 - a)

(c the density of N at 0), so H(Y) - H(N) costs O(n) for geometric and O(n/k) for Laplace noise; no channel is built.
All values are in nats, exact to about 1e-12 of rounding.
"""

import numpy as np
from scipy.special import xlogy

from jaxpriv._runtime.resources import need_memory
from jaxpriv._runtime.validation import host_only, index
from jaxpriv.errors import InputError
from jaxpriv.models.databases.universe import privacy_parameter


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
