"""The least prior probability of a symbol, given its posterior probability and the adversary's entropy.

For a record i, a symbol a and an output r: f(x) = M(r|x), G = {x : x_i = a}, H the other sequences, and

    c(z) = min { P(G) : (1-z) A >= z B,  H(P) >= b },   A = sum_G P f,  B = sum_H P f,

a convex program; A >= z (A + B) means that the posterior probability of a is at least z. Lagrange duality: for all l,
t >= 0

    c(z) >= D(z) = t b - t ln sum_x e^(-w_x/t),   w = 1 - l (1-z) f on G,   l z f on H.

Its solutions are Gibbs: P proportional to e^(k (1-z) f) on G, e^(-k z f) on H, k = l/t, and the posterior z fixes
P(G). Along k > 0 with t > 0 the entropy falls, so one number is searched.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import entr, expit

from jaxpriv._runtime.validation import scalar
from jaxpriv.errors import InputError

# Rounding of a dual value, relative to its terms: taken off every bound.
_ROUNDING = 16 * float(np.finfo(float).eps)
# A bound is exact to second order in its multipliers, so the search for them may be short.
_PRECISION = 1e-10
# Where to stop looking for a finite multiplier; 1/t smaller than this is 0.
_LARGEST, _FLATTEST = 1e280, 1e-12


def binary_entropy(c: float) -> float:
    """-c ln c - (1-c) ln(1-c)."""
    return float(entr(c) + entr(1.0 - c))


class Multipliers(NamedTuple):
    """l of the posterior and t of the entropy."""

    posterior: float
    entropy: float


class _Levels:
    """The distinct values of f on a set, and how often each occurs: all that the programs depend on."""

    def __init__(self, values: np.ndarray):
        self.values, occurrences = np.unique(values, return_counts=True)
        self.log_counts = np.log(occurrences)
        self.log_size = math.log(values.size)
        with np.errstate(divide="ignore"):
            self.log_values = np.log(self.values)

    def gibbs(self, slope: float) -> tuple[float, float, float]:
        """P proportional to e^(slope f): ln of its normaliser, ln E f, entropy."""
        logits = slope * self.values + self.log_counts
        log_total = _log_sum(logits)
        weights = np.exp(logits - log_total)
        log_mean = _log_sum(logits + self.log_values) - log_total
        # Not log_total - slope E f, which cancels for a large slope.
        return log_total, log_mean, float(weights @ (log_total - slope * self.values))


def _log_sum(logits: np.ndarray) -> float:
    largest = float(logits.max())
    return largest if math.isinf(largest) else largest + math.log(np.exp(logits - largest).sum())


class _GibbsPrior(NamedTuple):
    """The Gibbs prior of one k: P(G), its entropy, 1/t, and ln normalisers on G and H."""

    mass: float
    entropy: float
    inverse: float
    log_in: float
    log_out: float


class LeastPrior:
    """The programs of one `place` (i, a, r) for all z; f is scaled to a maximum of 1 on G, where it must not vanish."""

    def __init__(self, column: np.ndarray, group: np.ndarray, entropy: float, place: tuple[int, int, int] = (0, 0, 0)):
        self.place = place
        self.f = column / column[group].max()
        self.group, self.bound = group, entropy
        self.inside, self.outside = _Levels(self.f[group]), _Levels(self.f[~group])
        self.lowest = float(self.outside.values[0])
        self.log_total = math.log(column.size)

    @property
    def key(self) -> tuple[bytes, ...]:
        """Equal for places whose programs are the same: records and outputs that a symmetry exchanges."""
        parts = (self.inside.values, self.inside.log_counts, self.outside.values, self.outside.log_counts)
        return tuple(part.tobytes() for part in parts)

    def log_ratio(self, prior: np.ndarray) -> float:
        """ln P(r|x_i=a)/P(r)."""
        weighted = prior * self.f
        with np.errstate(invalid="ignore"):  # NaN of a prior whose mass of the group is no float64
            return math.log(weighted[self.group].sum() / prior[self.group].sum() / weighted.sum())

    @property
    def unbounded(self) -> bool:
        """Whether the adversary's prior may hold sequences outside G that exclude r, and in no others: c/z -> 0."""
        return self.lowest == 0 and self.bound <= float(self.outside.log_counts[0])

    @property
    def cap(self) -> float:
        """A crude upper bound on ln z/c(z) for all z, which keeps its relative precision where D has none left.

        min f outside G if that is positive. Otherwise, for any c0: either c >= c0, and z/c <= 1/c0; or the entropy
        given H is at least e0 = b - h2(c0) - c0 ln|G|, which needs some share of P on H where f is positive.
        """
        if self.lowest > 0:
            return -math.log(self.lowest)
        zeros = float(self.outside.log_counts[0])
        caps = [math.inf]
        for c0 in np.exp(-(np.sqrt(2.0) ** np.arange(-1, 19))).tolist():
            least = self._entropy_outside(c0)
            if least > self.outside.log_size:
                caps.append(-math.log(c0))
            elif least > zeros:
                rest = math.log(math.exp(self.outside.log_size) - math.exp(zeros))
                share = least_share(rest, zeros, least)[0]
                caps.append(max(-math.log(c0), -math.log(share) - self.outside.log_values[1]))
        return float(min(caps))

    def _entropy_outside(self, mass: float) -> float:
        """e0 for P(G) <= `mass` <= 1/2, rounded down."""
        return self.bound - binary_entropy(mass) - mass * self.inside.log_size - _ROUNDING * (self.bound + 1.0)

    def ruling_out(self, mass: float) -> np.ndarray:
        """P(G) = `mass` on the largest f, the rest spread over the sequences outside G with the smallest."""
        prior = np.zeros(self.f.size)
        for members, level, share in ((self.group, 1.0, mass), (~self.group, self.lowest, 1.0 - mass)):
            chosen = members & (self.f == level)
            prior[chosen] = share / chosen.sum()
        return prior

    def dual(self, z: float, multipliers: Multipliers) -> float:
        """D(z), rounded down. Concave in z."""
        price, t = multipliers
        on_group = 1.0 - price * (1.0 - z) * self.inside.values
        on_rest = price * z * self.outside.values
        if t == 0:
            return min(float(on_group.min()), float(on_rest.min())) - _ROUNDING * (1.0 + price)
        logits = np.concatenate([self.inside.log_counts - on_group / t, self.outside.log_counts - on_rest / t])
        margin = _ROUNDING * (t * (self.bound + self.log_total + 1.0) + 1.0 + price)
        return t * self.bound - t * _log_sum(logits) - margin

    def log_ratio_bound(self, low: float, high: float, multipliers: Multipliers) -> float:
        """An upper bound on ln z/c(z) for low <= z <= high: z/D(z) is quasi-convex, so its ends decide."""
        ends = [(z, self.dual(z, multipliers)) for z in (low, high)]
        if not all(value > 0 for _, value in ends):
            return math.inf
        return max(math.log(z / value) if z > 0 else -math.inf for z, value in ends)

    def small_posterior_bound(self, high: float, floor: float) -> float:
        """An upper bound on ln z/c(z) for all z <= high where that exceeds `floor`.

        There c <= c0 = high e^-floor, so the entropy of P given H is at least e0 = b - h2(c0) - c0 ln|G|, and the
        ratio at most 1/min E f under that entropy, by duality >= t e0 - t ln sum_H e^(-f/t) for any t.
        """
        mass = high * math.exp(-floor)
        if mass > 0.5:
            return math.inf
        least = self._entropy_outside(mass)
        if least > self.outside.log_size:
            return -math.inf
        mean = self.lowest
        if least > self.outside.log_counts[0]:
            slope = _search(lambda k: self.outside.gibbs(-k)[2] > least)[1]
            t = 1.0 / slope
            dual = t * (least - self.outside.gibbs(-slope)[0]) - _ROUNDING * (t * (self.log_total + 1.0) + 1.0)
            mean = max(mean, dual)
        return max(-math.log(mean), 0.0) if mean > 0 else math.inf

    def solve(self, z: float) -> tuple[Multipliers, np.ndarray]:
        """Multipliers for D near z and a prior that nearly attains c(z); neither has to be exact to be valid."""
        if self.lowest > 0:
            least = z * self.lowest / (1.0 - z + z * self.lowest)
            prior = self.ruling_out(least)
            ties = self.inside.log_counts[-1], self.outside.log_counts[0]
            if binary_entropy(least) + least * ties[0] + (1.0 - least) * ties[1] >= self.bound:
                return Multipliers(1.0 / (1.0 - z + z * self.lowest), 0.0), prior
        start = self._point(z, 0.0)
        if start.inverse > 0 and start.entropy <= self.bound:
            return self._without_output()
        below, above = _search(lambda k: self._too_small(z, k))
        t = 1.0 / max(self._point(z, above).inverse, _FLATTEST)
        return Multipliers(above * t, t), self._gibbs_prior(z, below)

    def _point(self, z: float, k: float) -> _GibbsPrior:
        log_in, mean_in, entropy_in = self.inside.gibbs(k * (1.0 - z))
        log_out, mean_out, entropy_out = self.outside.gibbs(-k * z)
        log_odds = math.log(z) - math.log1p(-z) + mean_out - mean_in
        mass = float(expit(log_odds))
        entropy = binary_entropy(mass) + mass * entropy_in + (1.0 - mass) * entropy_out
        return _GibbsPrior(mass, entropy, log_in - log_out - log_odds, log_in, log_out)

    def _too_small(self, z: float, k: float) -> bool:
        point = self._point(z, k)
        return point.inverse <= 0 or point.entropy > self.bound

    def _gibbs_prior(self, z: float, k: float) -> np.ndarray:
        point = self._point(z, k)
        exponent = np.where(self.group, k * (1.0 - z) * self.f - point.log_in, -k * z * self.f - point.log_out)
        return np.exp(exponent) * np.where(self.group, point.mass, 1.0 - point.mass)

    def _without_output(self) -> tuple[Multipliers, np.ndarray]:
        """The entropy alone keeps P(G) up: P is uniform on G and on H, whatever z."""
        sizes = self.inside.log_size, self.outside.log_size
        below, above = least_share(*sizes, self.bound)
        inverse = math.log1p(-below) - math.log(below) + sizes[0] - sizes[1]
        prior = np.where(self.group, above / math.exp(sizes[0]), (1.0 - above) / math.exp(sizes[1]))
        return Multipliers(0.0, 1.0 / max(inverse, _FLATTEST)), prior


# A bound b this close to ln N, relatively, is the rounded value of ln N: the uniform prior only.
UNIFORM = 4 * float(np.finfo(float).eps)


def entropy_bound(entropy: float, total: int) -> float:
    """The checked b of priors over so many sequences."""
    bound = float(scalar(entropy, "entropy", low=0.0))
    if bound > math.log(total) * (1.0 + UNIFORM):
        raise InputError(f"entropy is above ln {total}, the largest of a prior over {total} sequences")
    return bound


def with_entropy(prior: np.ndarray, least: float) -> np.ndarray:
    """`prior`, mixed with as much of the uniform one as an entropy of `least` needs."""
    uniform = np.full(len(prior), 1.0 / len(prior))
    for share in (0.0, *np.logspace(-15, 0, 46)[:-1]):
        mixed = (1.0 - share) * prior + share * uniform
        mixed /= mixed.sum()
        if float(entr(mixed).sum()) >= least:
            return mixed
    return uniform


def least_share(log_size: float, log_rest: float, entropy: float) -> tuple[float, float]:
    """(below, above) the least probability of a set that leaves this entropy; both sizes as logarithms."""
    uniform = float(expit(log_size - log_rest))

    def too_small(c: float) -> bool:
        return binary_entropy(c) + c * log_size + (1.0 - c) * log_rest < entropy

    return _search(too_small, start=uniform, largest=uniform)


def _search(too_small: Callable[[float], bool], start: float = 1.0, largest: float = _LARGEST) -> tuple[float, float]:
    """(below, above), a narrow bracket of where `too_small` turns false; below may be 0."""
    above = start
    while above < largest and too_small(above):
        above *= 16.0
    below = above / 16.0
    while below > 1.0 / _LARGEST and not too_small(below):
        above, below = below, below / 16.0
    while above > below * (1.0 + _PRECISION):
        middle = math.sqrt(below) * math.sqrt(above)
        below, above = (middle, above) if too_small(middle) else (below, middle)
    return below, above
