"""Where a distribution is, given counts of it: intervals of single probabilities and means, and sets of distributions.

Intervals of means of bounded functions of the draws, which were fixed before the draws were seen. f(X_1), ..., f(X_n)
independent in [low, high] with mean m and observed mean m^. Scaled to [0, 1]:

Chernoff.  Pr[ m^ <= m and n kl(m^, m) >= z ] <= e^-z with kl the binary divergence (Hoeffding 1963, Theorem 1,
           eq. 2.1): never wider than sqrt(z/(2n)), which is its relaxation by Pinsker's inequality, and
           much tighter where the mean is near an end.
Bernstein. m <= m^ + sqrt( 2 V ln(2/d)/n ) + 7 ln(2/d)/(3(n-1)) with probability 1 - d, V the sample variance with
           denominator n - 1 (Maurer and Pontil 2009, Theorem 4): tighter where the function hardly varies.

Each side of each is a statement of its own. Everything is about counts: the draws are given by how often each
symbol of a finite alphabet occurred.

A set of distributions P on k symbols is known by its support function: `upper(c)` is the largest and `lower(c)` the
smallest sum_i c_i P_i in it. Everything is batched: B sets at once, and m functionals c that are common to all of them,
(m, k), or each set's own, (B, m, k); the result is (B, m). Symbols that are not `possible` have no mass in any
distribution of the set. Results are rounded outwards.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv, rel_entr, xlogy

from jaxpriv._runtime.counts import UP, count_array, failure
from jaxpriv._runtime.validation import real_array, truth_array, whole
from jaxpriv.errors import InputError


def possible_array(value: object, counts: np.ndarray) -> np.ndarray:
    """`(s, x)` bool: which pairs the population can have at all; None: every pair.

    Raises `InputError` if the shape differs from that of the counts, entries are no truth values, a private
    symbol has no possible pair, or a pair that was counted is declared impossible.
    """
    shape = counts.shape[-2:]
    if value is None:
        return np.ones(shape, bool)
    array = truth_array(value, "possible")
    if array.shape != shape:
        raise InputError(f"possible has shape {array.shape}, but the counts have shape {shape}")
    if not array.any(axis=1).all():
        raise InputError(f"possible: row {int(np.argmin(array.any(axis=1)))} has no possible pair")
    seen = (counts > 0).any(axis=tuple(range(counts.ndim - 2)))
    contradictions = np.argwhere(seen & ~array).tolist()
    if contradictions:
        s, x = contradictions[0]
        raise InputError(f"possible[{s}, {x}] means that the pair cannot occur, but counts[{s}, {x}] is positive")
    return array


# The lower and the upper ends of intervals.
Interval: TypeAlias = tuple[np.ndarray, np.ndarray]


# Exact intervals of a probability from whole counts (Clopper and Pearson 1934).


# Halvings of an interval of at most 1: 2^-60 is below a rounding of its end. The outer end is returned.
_HALVINGS = 60
# Numbers of axes of counts.
_ANY = tuple(range(5))
# The inverse incomplete beta function is good to about 1e-14; intervals are widened by more than that.
_SLACK = 1e-12


def clopper_pearson(hits: ArrayLike, draws: ArrayLike, beta: ArrayLike) -> Interval:
    """(lower, upper): each holds with probability 1 - beta by itself, both with 1 - 2 beta.

    lower is the probability p at which `hits` or more of `draws` have probability beta, upper the p at which
    `hits` or fewer have. 0 hits give lower 0, all hits give upper 1, no draws (0, 1). `beta` may be an array.
    Whole counts go in: a count that is recovered from a proportion can be off by one, in the wrong direction.

    Raises `InputError` for other counts, more hits than draws, shapes that do not match, and a beta outside (0, 1).
    """
    counts = [count_array(value, name, ndim=_ANY) for name, value in (("hits", hits), ("draws", draws))]
    levels = real_array(beta, "beta", ndim=_ANY)
    if not ((levels > 0) & (levels < 1)).all():
        raise InputError("beta must be > 0 and < 1")
    try:
        hits, draws, levels = np.broadcast_arrays(*counts, levels)
    except ValueError:
        raise InputError("hits, draws and beta have shapes that do not match") from None
    misses = draws - hits
    if not (misses >= 0).all():
        raise InputError("hits is above draws")
    some, not_all = hits > 0, misses > 0
    low = betaincinv(np.where(some, hits, 1), misses + 1, levels)
    high = betainccinv(hits + 1, np.where(not_all, misses, 1), levels)
    lower = np.where(some, low * (1 - _SLACK), 0.0)
    return lower, np.where(not_all, np.minimum(1.0, high + _SLACK * np.minimum(high, 1 - high) + 1e-16), 1.0)


def clopper_pearson_together(hits: np.ndarray, draws: ArrayLike, beta: float) -> Interval:
    """(lower, upper) (k, ...) of k probabilities with total 1 from their `hits`, all of them with probability 1 - beta.

    Of two probabilities the interval of one is that of the other.
    """
    if len(hits) != 2:
        return clopper_pearson(hits, draws, beta / (2 * len(hits)))
    low, high = clopper_pearson(hits[0], draws, beta / 2)
    return np.array([low, 1 - high]), np.array([high, 1 - low])


def coins(x: ArrayLike, p: ArrayLike) -> np.ndarray:
    """d(x || p), the relative entropy of two biased coins."""
    return rel_entr(x, p) + rel_entr(1 - np.asarray(x), 1 - np.asarray(p))


def relative_entropy_limit(share: ArrayLike, radius: ArrayLike) -> np.ndarray:
    """A number >= the largest q with d(share || q) <= radius, d the relative entropy of two biased coins.

    For a mean of n independent numbers in [0, 1] and radius ln(1/beta)/n it is above the expected mean with probability
    1 - beta (Chernoff; Hoeffding 1963, Theorem 1).
    """
    p = np.asarray(share, dtype=float)
    low, high = p.copy(), np.ones_like(p)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        inside = coins(p, middle) <= radius
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.minimum(1.0, high * (1 + _SLACK) + 1e-16)


# Outward rounding of limits and means, relative to their size: 9,000 units of 1.1e-16, more than a plain sum of so many
# nonnegative terms, and the few logarithms and roots after it, can err by.
MEAN_ROUND = 1e-12


def chernoff_interval(mean: np.ndarray, draws: np.ndarray, beta: float) -> Interval:
    """(lower, upper) for functions in [0, 1]: each side with probability 1 - beta; `draws` 0 gives (0, 1)."""
    beta = failure(beta)
    mean, draws = np.broadcast_arrays(np.asarray(mean, float), np.asarray(draws, float))
    # A divergence that is too large by rounding would end the search too early.
    allowed = -np.log(beta) / np.maximum(draws, 1e-300) * (1 + MEAN_ROUND) + 1e-15

    # The lower limit is the upper one of 1 - f; taken from 1 it keeps absolute accuracy only, so add the rounding.
    lower = np.maximum(0.0, 1.0 - relative_entropy_limit(1.0 - mean, allowed) - MEAN_ROUND)
    return lower, relative_entropy_limit(mean, allowed)


def bernstein_interval(mean: np.ndarray, variance: np.ndarray, draws: np.ndarray, beta: float) -> Interval:
    """(lower, upper) for functions in [0, 1] with sample variance `variance`: each side with probability 1 - beta.

    Fewer than two draws give (0, 1).
    """
    logarithm = np.log(2 / failure(beta))
    mean, variance, draws = np.broadcast_arrays(mean, variance, np.asarray(draws, float))
    many = draws >= 2
    n = np.where(many, draws, 2.0)
    width = np.sqrt(2 * np.maximum(variance, 0.0) * logarithm / n) + 7 * logarithm / (3 * (n - 1))
    width = width * (1 + MEAN_ROUND) + MEAN_ROUND
    return np.where(many, np.maximum(0.0, mean - width), 0.0), np.where(many, np.minimum(1.0, mean + width), 1.0)


def mean_interval(counts: np.ndarray, functions: np.ndarray, beta: float) -> Interval:
    """(lower, upper) of E f_j for each function `functions[j]` (m, k) and sample `counts[b]` (B, k): (B, m).

    For each sample its m intervals hold together with probability 1 - beta (four statements each). The functions
    must not depend on these counts.
    """
    low, high = functions.min(axis=-1), functions.max(axis=-1)
    width = np.where(high > low, high - low, 1.0)
    scaled = (functions - low[:, None]) / width[:, None]
    n = counts.sum(axis=-1)[:, None]
    divisor = np.maximum(n, 1)
    mean = np.where(n > 0, np.clip(counts @ scaled.T / divisor, 0.0, 1.0), 0.5)
    second = np.where(n > 0, counts @ (scaled**2).T / divisor, 0.5)
    variance = np.maximum(second - mean**2 + MEAN_ROUND, 0.0) * divisor / np.maximum(n - 1, 1)
    share = failure(beta) / (4 * len(functions))
    lower, upper = zip(chernoff_interval(mean, n, share), bernstein_interval(mean, variance, n, share), strict=True)
    return low + width * np.maximum(*lower), np.minimum(low + width * np.minimum(*upper), high)


# Numbers in one intermediate array.
_BLOCK = 2**22
# Of a bisection in ln u over about 22: the bound is flat at its optimum, so 3e-4 in ln u is 1e-7 of the width.
_STEPS = 16
# Outward rounding of sums of products of probabilities, relative to the largest factor: 900 units of 1.1e-16. A plain
# sum of nonnegative terms errs by a unit of the total for each term at most; sums along the last axis of an array are
# pairwise, with an error that grows with the logarithm of their number.
ROUND = 1e-13


class AbstractConfidenceSet(ABC):
    """B sets of distributions on k symbols."""

    possible: np.ndarray  # (B, k) bool

    def upper(self, weights: np.ndarray) -> np.ndarray:
        """max over the set of sum_i weights_i P_i, (B, m)."""
        weights = weights.reshape(-1, *weights.shape[-2:])  # those that are common to all sets on an axis of length 1
        step = max(1, _BLOCK // self.possible.size)
        parts = (weights[:, start : start + step] for start in range(0, weights.shape[1], step))
        values = [np.minimum(self._upper(part) + ROUND * np.abs(part).max(axis=-1), self.top(part)) for part in parts]
        return np.concatenate(values, axis=1)

    def lower(self, weights: np.ndarray) -> np.ndarray:
        """min over the set of sum_i weights_i P_i, (B, m)."""
        return -self.upper(-weights)

    def top(self, weights: np.ndarray) -> np.ndarray:
        """The largest weight of a possible symbol, (B, m): what no distribution exceeds."""
        return np.where(self.possible[:, None], weights, -np.inf).max(axis=-1)

    @property
    @abstractmethod
    def variation(self) -> np.ndarray:
        """The largest total variation between the frequencies and a distribution in the set, (B,)."""

    @abstractmethod
    def _upper(self, weights: np.ndarray) -> np.ndarray:
        """`upper` for a few functionals, (1, m, k) or (B, m, k), before rounding."""


def _sorted(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """`values` (B, k) in each functional's order, (B, m, k)."""
    return np.take_along_axis(values[:, None], order, axis=-1)


@dataclass(frozen=True, eq=False)
class L1Ball(AbstractConfidenceSet):
    """{ P : sum_i |P_i - centre_i| <= radius }: mass radius/2 moves from the smallest weights to the largest."""

    centre: np.ndarray  # (B, k)
    radius: np.ndarray  # (B,)
    possible: np.ndarray

    @property
    def variation(self) -> np.ndarray:
        return 0.5 * self.radius

    def _upper(self, weights: np.ndarray) -> np.ndarray:
        order = np.argsort(weights, axis=-1)
        mass, value = _sorted(self.centre, order), np.take_along_axis(weights, order, axis=-1)
        before = np.cumsum(mass, axis=-1) - mass
        moved = np.clip(0.5 * self.radius[:, None, None] - before, 0.0, mass)
        return ((mass - moved) * value).sum(axis=-1) + moved.sum(axis=-1) * self.top(weights)


@dataclass(frozen=True, eq=False)
class DivergenceBall(AbstractConfidenceSet):
    """{ P : D(centre || P) <= radius }.

    For any level v >= max_i c_i and any P in the ball, by the inequality of the arithmetic and the geometric mean,

        v - c.P >= sum_i centre_i (P_i/centre_i)(v - c_i) >= e^-D(centre||P) prod_i (v - c_i)^centre_i,

    so c.P <= v - e^-radius prod_i (v - c_i)^centre_i for every v, convex in v and attained at the best one. The
    search for v is a bisection; wherever it stops the bound holds.
    """

    centre: np.ndarray
    radius: np.ndarray
    possible: np.ndarray

    @property
    def variation(self) -> np.ndarray:
        """Pinsker's inequality."""
        return np.minimum(np.sqrt(0.5 * self.radius), 1.0)

    def _upper(self, weights: np.ndarray) -> np.ndarray:
        top = self.top(weights)
        below = np.maximum(top[..., None] - weights, 0.0)  # (B, m, k)
        centre = self.centre[:, None, :]
        factor = np.exp(-self.radius)[:, None]
        if not factor.any():  # every distribution is in the ball
            return top
        counted = np.where(centre > 0, below, 0.0)
        span = counted.max(axis=-1)
        scale = np.where(span > 0, span, 1.0)
        relative = counted / scale[..., None]  # in units of the span: inverses of tiny weights would overflow

        def product(log_u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            u = np.exp(log_u)
            level = u[..., None] + relative
            return u, np.exp((centre * np.log(level)).sum(axis=-1)), (centre / level).sum(axis=-1)

        # Beyond u = scale/(2 sqrt(r)) the bound increases: the ratio of the arithmetic mean of the levels to the
        # harmonic one is at most 1 + scale^2/(4u^2) (Kantorovich), below e^r.
        radius = np.maximum(self.radius, 1e-30)[:, None]
        low = np.full(top.shape, -20.0)
        high = np.broadcast_to(np.log(0.5 / np.sqrt(radius) + 1.0), top.shape)
        for _ in range(_STEPS):
            middle = 0.5 * (low + high)
            _, geometric, inverse = product(middle)
            falling = factor * geometric * inverse > 1
            low, high = np.where(falling, middle, low), np.where(falling, high, middle)
        u, geometric, _ = product(high)
        best = top + scale * (u - factor * geometric + ROUND * u)
        # For the level v = max_i c_i: the bound is max_i c_i itself if that symbol was seen.
        return np.minimum(best, top - factor * np.exp(xlogy(centre, below).sum(axis=-1)))


@dataclass(frozen=True, eq=False)
class Box(AbstractConfidenceSet):
    """{ P : least_i <= P_i <= most_i }: the mass that is free goes to the largest weights first."""

    least: np.ndarray  # (B, k)
    most: np.ndarray  # (B, k)
    possible: np.ndarray

    @property
    def variation(self) -> np.ndarray:
        return np.ones(len(self.least))

    def _upper(self, weights: np.ndarray) -> np.ndarray:
        order = np.argsort(-weights, axis=-1)
        least, most = _sorted(self.least, order), _sorted(self.most, order)
        value = np.take_along_axis(weights, order, axis=-1)
        return fill(least, most, value)


def fill(least: np.ndarray, most: np.ndarray, value: np.ndarray) -> np.ndarray:
    """sum_i value_i P_i with least <= P <= most, sum P = 1, filled in the order given, along the last axis.

    Where the limits leave mass over (they contradict each other: the event of probability beta) it goes to the first.
    An infinite value counts only with a positive share.
    """
    width = np.maximum(most - least, 0.0)
    free = np.maximum(1.0 - least.sum(axis=-1, keepdims=True), 0.0)
    taken = np.clip(free - (np.cumsum(width, axis=-1) - width), 0.0, width)
    shares = least + taken
    shares[..., 0] += np.maximum(free[..., 0] - taken.sum(axis=-1), 0.0)
    return (shares * np.where(shares > 0, value, 0.0)).sum(axis=-1)


def chord_sum(least: np.ndarray, most: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """A bound on sup sum_i f_i(P_i) over a box of distributions, along the last axis, for convex f_i.

    `function` has the values f_i of an array: each f_i lies below its chord between the ends, and the largest sum of
    the chords is exact. The error is of second order in the widths.
    """
    width, at_least, at_most = most - least, function(least), function(most)
    slope = np.where(width > 0, (at_most - at_least) / np.where(width > 0, width, 1.0), 0.0)
    order = np.argsort(-slope, axis=-1)
    least, most, slope, start = (np.take_along_axis(v, order, axis=-1) for v in (least, most, slope, at_least))
    value = fill(least, most, slope) + (start - least * slope).sum(axis=-1)
    return value + ROUND * (1 + np.abs(at_least).max(axis=-1) + np.abs(at_most).max(axis=-1))


@dataclass(frozen=True, eq=False)
class Intersection(AbstractConfidenceSet):
    """Distributions that lie in every one of the sets; bounded by the tightest of their bounds."""

    sets: tuple[AbstractConfidenceSet, ...]

    @property
    def possible(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.sets[0].possible

    @property
    def variation(self) -> np.ndarray:
        return np.minimum.reduce([confidence_set.variation for confidence_set in self.sets])

    def _upper(self, weights: np.ndarray) -> np.ndarray:
        return np.minimum.reduce([confidence_set.upper(weights) for confidence_set in self.sets])


# How far a distribution can be from the counts of a sample of it: radii that hold with probability 1 - beta.
#
# n independent draws from P on k symbols, P^ their frequencies.
#
# Weissman.   |P^ - P|_1 = 2 max_A (P^(A) - P(A)) over the 2^k - 2 proper subsets A; each difference exceeds t with
#             probability at most e^(-2nt^2) (Hoeffding), so |P^ - P|_1 <= sqrt( (2/n) ln((2^k - 2)/beta) ).
# McDiarmid.  E |P^ - P|_1 <= sum_i sqrt(p_i(1-p_i)/n) <= sqrt((k-1)/n), and one draw changes the norm by at most
#             2/n: |P^ - P|_1 <= sqrt((k-1)/n) + sqrt(2 ln(1/beta)/n).
# Empirical.  Half the norm is at most 2R + 3 sqrt(ln(2/beta)/(2n)) with R the Rademacher average of the subsets,
#             and 2R <= sum_i sqrt(p^_i/n): small where few symbols carry the mass, whatever k is
#             (Cohen, Kontorovich and Wolfer 2020, arXiv:2004.12680).
# Divergence. E e^(t n D(P^||P)) <= (1-t)^-(k-1) for 0 <= t < 1, hence Pr[ D(P^||P) >= r ] <= e^-z (e z/(k-1))^(k-1)
#             for z = nr > k-1 (Agrawal 2020, arXiv:1904.02291); for k = 2 Chernoff's 2 e^-z as well.
#
# The first two and the last depend on k, n and beta only, so the smaller of the first two may be taken. n = 0 gives the
# radius of the whole simplex, k = 1 gives 0. All are rounded up.


def empirical_radius(counts: np.ndarray, beta: ArrayLike) -> np.ndarray:
    """|P^ - P|_1 <= radius with probability 1 - beta, from the counts (..., k) themselves; radius (...)."""
    beta = failure(beta)
    n = counts.sum(axis=-1)
    divisor = np.maximum(n, 1)
    half = np.sqrt(counts).sum(axis=-1) / divisor + 3 * np.sqrt(math.log(2 / beta) / (2 * divisor))
    return np.where(n > 0, np.minimum(2.0, 2 * half * UP), 2.0)


def divergence_radius(cells: ArrayLike, draws: ArrayLike, beta: ArrayLike) -> float:
    """D(P^||P) <= radius with probability 1 - beta."""
    k, n, beta = whole(cells, "cells", low=1.0), whole(draws, "draws", low=0.0), failure(beta)
    if k == 1:
        return 0.0
    if n == 0:
        return math.inf
    z = divergence_quantile(k - 1, beta)
    if k == 2:
        z = min(z, math.log(2 / beta))
    return z / n * UP


@lru_cache(maxsize=4096)
def divergence_quantile(freedom: int, beta: float) -> float:
    """The z > freedom with e^-z (e z/freedom)^freedom = beta, rounded up; `freedom` sums over independent samples."""
    # v = z/freedom - 1 > 0 solves v - ln(1 + v) = target; (sqrt target + sqrt 2)^2 is beyond it.
    target = -math.log(beta) / freedom
    low, high = 0.0, target + 2 * math.sqrt(2 * target)
    while high - low > 1e-14 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle - math.log1p(middle) < target else (low, middle)
    return freedom * (1 + high) * UP


def divergence_tail(freedom: int, z: float) -> float:
    """The bound on Pr[ sum n D(P^||P) >= z ]; 1 for z <= freedom."""
    if not z > freedom:
        return 1.0
    if freedom == 0 or math.isinf(z):
        return 0.0
    return min(1.0, math.exp(-z + freedom * (1 + math.log(z / freedom))) * UP)
