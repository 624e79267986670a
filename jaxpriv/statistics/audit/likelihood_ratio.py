"""Upper bounds on I(S;Y) and chi-squared from a likelihood ratio: they adapt to how little leaks (`populations`: the
same for a known mechanism).

Counts (S, Y) of n pairs, T = n I^ of the frequencies, V = P(y|s), Q a product of margins, r = P(s,y)/Q(s,y) under Q,
D_f = E_Q f(r), f(r) = r ln r - r + 1 for I, (r-1)^2 for chi-squared. All logarithms natural.

Given S.        Q = p^ x m with m = p^ V. For 0 <= eta <= 1 the backward channel b(s|y) = p^_s (1 + eta(r-1)) sums to
                one, so T >= sum_j ln(1 + eta(r_j - 1)) (Barber and Agakov 2003). By Markov and the inequality of means
                Pr[T <= t] <= e^(lambda t) (E_Q g)^n,   g(r) = r (1 + eta(r-1))^-lambda.
Unconditional.  The same with Q = P_S x P_Y and T + n D(p^_S || P_S) in place of T.
Inversion.      E_Q g = 1 - E_Q k with k(r) = 1 + (1 - lambda eta)(r-1) - g(r), as E_Q r = 1: unless an event of
                probability beta happened, E_Q k <= e := 1 - exp(-(lambda T + ln 1/beta)/n), for the best (lambda, eta):
                for each population the best pair makes a threshold in T, so the minimum over them costs nothing.
Divergence.     a D_f <= e + sup E_Q(a f - k) for a > 0: with sup = 0 for a = inf k/f over the possible r, or with r in
                intervals of every cell.
Prior.          I_P(V) <= sum_s P_s D(V_s || m), with sum p^_s D_s <= U, D_s <= ln 1/p^_s and intervals of P_s; and
                chi2_P(V) <= max_s(p^_s/P_s) sum_s P_s chi2(V_s || m), as the mean minimises squares.
Which route.    A population with D_f <= tau is tested given S, another one unconditionally; tau depends on n only. With
                two private symbols and I below a smaller tau it is tested by `binary_information`.

Two moments.    L = ln(1 + eta u), u = r - 1. The L(r_j) have means of E_Q phi, phi = r L - eta u, on average, second
                moments of E_Q r L^2, and are above their means less b. `intercept` bounds the tail of their sum by
                those: unless an event of probability beta happened, E_Q (phi - g r L^2/b) <= (T + b I(g))/n for g > 0.
Two symbols s.  r - 1 of the two rows are u and -c u, c = p^_1/p^_2, so the suprema are over one u for each y, and the
                bound is on sum_s P_s D_s at once.

Infima and suprema over r are certified: between two points of a grid a function lies within M h^2/8 of its chord, M a
bound on its second derivative, and near r = 1, where k and f both vanish, k/f is at least the infimum of k''/f''.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from scipy.special import entr, xlogy

from jaxpriv.statistics.audit import binary_information
from jaxpriv.statistics.audit._information import mutual_information
from jaxpriv.statistics.audit.bounds import others
from jaxpriv.statistics.audit.tails import intercept
from jaxpriv.statistics.confidence.intervals import clopper_pearson, clopper_pearson_together
from jaxpriv.statistics.confidence.radii import divergence_radius
from jaxpriv.statistics.confidence.sets import fill

# Grids of lambda, and of a as shares of the largest that curvature at r = 1 allows. Every pair gives a bound that
# holds: finer grids make it tighter only.
_LAMBDAS = (0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4, 0.55, 0.75, 1.0, 1.4, 2.0, 2.8, 4.0, 6.0, 10.0, 20.0)
_SLOPES = np.array([0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.94, 0.97, 0.99, 1.0])  # of a
# Half the width of the interval around 1 in which second derivatives are compared.
NEAR = 2e-3
# Ratios r up to which inf k/f is computed; for larger ones there is no bound of this kind.
_LARGEST = 1e5
# Rounding of k and f: both are sums of a few terms of the size of r.
ROUND = 1e-14
# Slopes eta of the second moments.
_ETAS = (0.2, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9)
# Tilts g b of the second moments, 1e-3 to 2: a fixed grid, so that `intercept` computes few of them.
_TILTS = 1e-3 * 1.3 ** np.arange(30)
# The parts of beta: intervals of cells, of P_s, the radius of p^_S.
_CELLS, _PRIOR, _RADIUS = 0.02, 0.02, 0.1
# Points of a cell, and how many numbers the cells of a table may take.
_POINTS, _MOST = 49, 2**24


@dataclass(frozen=True)
class Divergence:
    """A generator f with f(1) = f'(1) = 0."""

    value: Callable[[np.ndarray], np.ndarray]
    scale: float  # f''(1)
    bend: float  # the largest f'' within NEAR of 1
    most: Callable[[np.ndarray], np.ndarray]  # p^_s times the largest divergence of a row from the mean of the rows
    range: Callable[[float], float]  # the largest value with so many private or released symbols


# f'' is 1/r.
KL = Divergence(lambda r: xlogy(r, r) - r + 1, 1.0, 1 / (1 - NEAR), entr, math.log)
# f'' is 2.
CHI_SQUARED = Divergence(lambda r: (r - 1) ** 2, 2.0, 2.0, lambda prior: 1 - prior, lambda symbols: symbols - 1.0)


def _k(r: np.ndarray, lam: float, eta: float) -> np.ndarray:
    # 1 + eta (r-1), not 0 of a small r. eta = 1 only with lambda < 1, so g is continuous at 0.
    base = np.where(r > 0, (1 - eta) + eta * r, 1.0)
    return 1 + (1 - lam * eta) * (r - 1) - np.where(r > 0, r * base**-lam, 0.0)


def _bends(low: np.ndarray, high: np.ndarray, lam: float, eta: float) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest k'' between low and high: k'' = lam eta b^-(lam+2) (2(1-eta) + (1-lam) eta r)."""
    r = np.stack([low, high])
    factors = 2 * (1 - eta) + (1 - lam) * eta * r
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        powers = (1 + eta * (r - 1)) ** (-lam - 2)
        least = lam * eta * (factors.min(axis=0) * powers).min(axis=0)
        most = lam * eta * (factors.max(axis=0) * powers).max(axis=0)
    return np.where(np.isnan(least), 0.0, least), np.where(np.isnan(most), np.inf, most)


def sides() -> tuple[np.ndarray, np.ndarray]:
    """Grids of [0, 1 - near] and [1 + near, largest], finer where k and f are small."""
    steps = NEAR * 1.03 ** np.arange(600)
    below = np.concatenate([[0.0], np.geomspace(1e-6, 0.05, 80), 1 - steps[steps < 0.95][::-1]])
    above = 1 + steps
    return below, above[above < _LARGEST]


@lru_cache(maxsize=256)
def _least_ratios(lam: float, eta: float, divergence: Divergence) -> tuple[np.ndarray, np.ndarray]:
    """(right ends of cells above 1, a lower bound of inf k/f over 0 <= r <= right end)."""
    flat = _bends(np.array([1 - NEAR]), np.array([1 + NEAR]), lam, eta)[0][0]
    middle = flat / divergence.bend if flat > 0 else -np.inf
    below, above = sides()
    left = _cells(below, lam, eta, divergence).min()
    right = _cells(above, lam, eta, divergence)
    return above[1:], np.minimum(np.minimum.accumulate(right), min(middle, left))


def _cells(grid: np.ndarray, lam: float, eta: float, divergence: Divergence) -> np.ndarray:
    low, high = grid[:-1], grid[1:]
    slack = ROUND * (1 + grid)
    k, f = _k(grid, lam, eta) - slack, divergence.value(grid) + slack
    bent = np.maximum(_bends(low, high, lam, eta)[1], 0) * (high - low) ** 2 / 8
    with np.errstate(invalid="ignore"):
        chords = np.minimum((k[:-1] - bent) / f[:-1], (k[1:] - bent) / f[1:])
    # Where k is convex on [0, 1] it decreases there, as f does.
    convex = (high <= 1) & (2 * (1 - eta) + min(0.0, (1 - lam) * eta) >= 0)
    monotone = np.where(convex, k[1:] / f[:-1], -np.inf)
    return np.fmax(chords, monotone)


def least_ratio(lam: float, eta: float, top: float, divergence: Divergence = KL) -> float:
    """A lower bound of inf k(r)/f(r) over 0 <= r <= top; 0 where none is known."""
    ends, values = _least_ratios(lam, eta, divergence)
    place = int(np.searchsorted(ends, top))
    return max(0.0, float(values[place])) if place < len(values) else 0.0


def global_bound(total: float, n: int, log_beta: float, top: float, divergence: Divergence = KL) -> float:
    """The bound on E_Q f(r) from r <= top alone."""
    best = np.inf
    for lam in _LAMBDAS:
        for eta in (1 / (1 + lam), min(0.99, 1.5 / (1 + lam)), *((1.0,) if lam < 1 else ())):
            ratio = least_ratio(lam, eta, top, divergence)
            if ratio > 0:
                best = min(best, -np.expm1(-(lam * total + log_beta) / n) / ratio)
    return best * (1 + 1e-12)


@dataclass(frozen=True)
class _Boxes:
    """Intervals of r cell by cell (S, Y), of P_s (equal ends: given S), and the largest P(y)."""

    low: np.ndarray
    high: np.ndarray
    prior_low: np.ndarray
    prior_high: np.ndarray
    output_high: np.ndarray


@dataclass(frozen=True)
class _Trial:
    """E_Q k(r) <= excess for every population that is not rejected; k''(1), and bounds of k and k'' between points.

    `convex`: whether k is convex and decreasing on [0, 1].
    """

    excess: float
    value: Callable[[np.ndarray], np.ndarray]
    bends: Callable[[np.ndarray, np.ndarray], np.ndarray]
    curvature: float
    convex: bool


def _chernoff(total: float, n: int, log_beta: float) -> Iterator[_Trial]:
    for lam in _LAMBDAS:
        excess = -np.expm1(-(lam * total + log_beta) / n)
        if excess > 0.9:
            continue
        for eta in (1 / (1 + lam), *((1.0,) if lam < 1 else ())):
            yield _Trial(
                excess,
                partial(_k, lam=lam, eta=eta),
                lambda low, high, lam=lam, eta=eta: _bends(low, high, lam, eta)[1],
                lam * eta * (2 - (lam + 1) * eta),
                2 * (1 - eta) + min(0.0, (1 - lam) * eta) >= 0,
            )


def _second_moments(total: float, n: int, beta: float, least: float, row: float, near: float) -> Iterator[_Trial]:
    """Given S, r >= `least` and D(V_s || m) <= `row`: k = phi - g r L^2/b (see the head of this file).

    Any g is valid; those are tried that suit a divergence of `near`, whose second moments are about 2 eta^2 `near`.
    """
    for eta in _ETAS:
        b = row - np.log1p(eta * (least - 1))
        best = b / (eta * np.sqrt(2 * n * near))
        if not 0 < best < np.inf:
            continue
        for slope in _TILTS[np.abs(np.log(_TILTS / best)) < 0.8]:
            g = float(slope) / b
            curvature = eta * (2 - eta) - 2 * g * eta**2
            if curvature > 0:
                yield _Trial(
                    (total + b * intercept(float(slope), beta)) / n,
                    partial(_tilted, eta=eta, g=g),
                    partial(_tilted_bends, eta=eta, g=g),
                    curvature,
                    convex=False,
                )


def _tilted(r: np.ndarray, eta: float, g: float) -> np.ndarray:
    logs = np.log1p(eta * (r - 1))
    return r * logs * (1 - g * logs) - eta * (r - 1)


def _tilted_bends(low: np.ndarray, high: np.ndarray, eta: float, g: float) -> np.ndarray:
    """The largest second derivative of `_tilted` between low and high.

    phi'' = eta (2 - eta + eta u)/(1 + eta u)^2 decreases, and (r L^2)'' = 4 L L' + 2 r L'^2 (1 - L) is bounded factor
    by factor.
    """
    logs = np.log1p(eta * (np.stack([low, high]) - 1))
    steep = eta * np.exp(-logs)  # L' = eta/(1 + eta u)
    most = eta * (2 - eta + eta * (low - 1)) * np.exp(-2 * logs[0])
    first = 4 * (logs[0] * steep).min(axis=0)
    rest = 1 - logs[1]
    second = 2 * rest * np.where(rest >= 0, low * steep[1] ** 2, high * steep[0] ** 2)
    return most - g * (first + second)


def _local(trials: Iterable[_Trial], boxes: _Boxes, divergence: Divergence) -> float:
    """The bound on E_Q f(r) with r in intervals of every cell."""
    best = np.inf
    points = min(_POINTS, _MOST // max(boxes.low.size * len(_SLOPES), 1))
    if points < 9:
        return best
    r = boxes.low[..., None] + (boxes.high - boxes.low)[..., None] * np.linspace(0, 1, points) ** 1.5
    f = divergence.value(r)
    low, high = r[..., :-1], r[..., 1:]
    width = (high - low) ** 2 / 8
    top_f = np.maximum(f[..., :-1], f[..., 1:])
    for trial in trials:
        k = trial.value(r)
        bent = np.maximum(trial.bends(low, high), 0) * width
        least_k = np.where(trial.convex & (high <= 1), np.minimum(k[..., :-1], k[..., 1:]), -np.inf)
        largest = trial.curvature / divergence.scale
        for a in largest * _SLOPES if largest > 0 else ():
            values = a * f - k
            chord = np.maximum(values[..., :-1], values[..., 1:]) + bent
            cells = np.fmin(chord, a * top_f - least_k).max(axis=-1) + ROUND * (1 + boxes.high)
            by_output = _largest_mean(boxes.prior_low, boxes.prior_high, cells.T)
            over = _largest_mean(np.zeros_like(boxes.output_high), boxes.output_high, by_output[None])[0]
            best = min(best, (trial.excess + over) / a)
    return best * (1 + 1e-12)


def _binary(trials: Iterable[_Trial], boxes: _Boxes, ends: tuple[float, float], divergence: Divergence) -> float:
    """The bound on sum_s P_s D_s, two private symbols, P_1 between `ends`: r - 1 is u and -c u, c = p^_1/p^_2."""
    first = float(boxes.prior_low[0])
    c = first / (1 - first)
    lower = np.maximum(boxes.low[0] - 1, (1 - boxes.high[1]) / c)
    upper = np.maximum(np.minimum(boxes.high[0] - 1, (1 - boxes.low[1]) / c), lower)
    sides = np.geomspace(1.0, 1e-3, 24)
    steps = np.concatenate([-sides, [0.0], sides[::-1]])
    u = np.where(steps < 0, -np.minimum(lower, 0.0)[:, None] * steps, np.maximum(upper, 0.0)[:, None] * steps)
    rows = np.maximum(np.stack([1 + u, 1 - c * u]), 0.0)
    shares, scales = np.array([[first, 1 - first], [first, (1 - first) * c**2]])[..., None, None]
    f, width = divergence.value(rows), np.diff(u) ** 2 / 8
    ends_of_r = rows[..., :-1], rows[..., 1:]
    low, high = np.minimum(*ends_of_r), np.maximum(*ends_of_r)
    best = np.inf
    for trial in trials:
        k = (shares * trial.value(rows)).sum(axis=0)
        bent = (scales * np.maximum(trial.bends(low, high), 0.0)).sum(axis=0)
        largest = trial.curvature / divergence.scale
        for a in largest * _SLOPES if largest > 0 else ():
            over = 0.0
            for p in ends:
                values = a * (p * f[0] + (1 - p) * f[1]) - k
                cells = (np.maximum(values[:, :-1], values[:, 1:]) + bent * width).max(axis=1)
                cells = cells + ROUND * (1 + rows.max(axis=2).sum(axis=0))
                over = max(over, _largest_mean(np.zeros_like(boxes.output_high), boxes.output_high, cells[None])[0])
            best = min(best, (trial.excess + over) / a)
    return best * (1 + 1e-12)


def _largest_mean(low: np.ndarray, high: np.ndarray, values: np.ndarray) -> np.ndarray:
    """max of values . p over the distributions p of a box; values (m, k), inf included."""
    order = np.argsort(-values, axis=-1)
    return fill(low[order], high[order], np.take_along_axis(values, order, axis=-1))


def of_prior(bound: float, frequencies: np.ndarray, low: np.ndarray, high: np.ndarray, divergence: Divergence) -> float:
    """From sum p^_s D_s <= bound to the same for the P_s in [low, high]."""
    ratio = high / frequencies
    total, left = 0.0, bound
    for s in np.argsort(-ratio):
        part = min(float(divergence.most(frequencies)[s]), left)
        total, left = total + part * float(ratio[s]), left - part
    return total if divergence is KL else total * _shift(frequencies, low)


def _shift(frequencies: np.ndarray, low: np.ndarray) -> float:
    """max_s p^_s/P_s at most."""
    return float((frequencies / low).max()) if low.min() > 0 else np.inf


def from_pairs(counts: np.ndarray, beta: float, divergence: Divergence = KL) -> float:
    """An upper bound on D_f of the population from counts (S, Y) of pairs, with probability 1 - beta."""
    private, released = counts.shape
    n, by_private = int(counts.sum()), counts.sum(axis=1)
    cap = divergence.range(min(private, released))
    if n == 0 or by_private.min() == 0:
        return cap
    frequencies = by_private / n
    total = n * float(mutual_information(counts / n)) * (1 + 1e-12)
    low, high = clopper_pearson(counts, by_private[:, None], _CELLS * beta / (2 * counts.size))
    prior_low, prior_high = clopper_pearson_together(by_private, n, _PRIOR * beta)
    given = _boxes(low, high, frequencies, frequencies)
    alone = (1 - _CELLS - _PRIOR) * beta
    upper = global_bound(total, n, -np.log(alone), 1 / frequencies.min(), divergence)
    given_s = of_prior(upper, frequencies, prior_low, prior_high, divergence)
    trials = list(_chernoff(total, n, -np.log(alone)))
    if divergence is KL:
        row = float(np.minimum(upper / frequencies, -np.log(frequencies)).max())
        trials += _second_moments(total, n, alone, float(given.low.min()), row, upper)
    if private == 2:
        moved = _binary(trials, given, (float(prior_low[0]), float(prior_high[0])), divergence)
        given_s = min(given_s, moved * (1.0 if divergence is KL else _shift(frequencies, prior_low)))
    else:
        upper = min(upper, _local(trials, given, divergence))
        given_s = of_prior(upper, frequencies, prior_low, prior_high, divergence)
    joint = cap
    if prior_low.min() > 0:
        moved = total + n * divergence_radius(private, n, _RADIUS * beta)
        boxes, left = _boxes(low, high, prior_low, prior_high), alone - _RADIUS * beta
        joint = min(
            global_bound(moved, n, -np.log(left), 1 / prior_low.min(), divergence),
            _local(_chernoff(moved, n, -np.log(left)), boxes, divergence),
        )
    threshold = (0.03 + 30 / n) * divergence.scale
    bound = min(given_s, threshold) if joint <= threshold else joint
    if divergence is KL and private == 2:
        nearest = min(binary_information.reach(n, released, beta), threshold)
        if bound <= nearest:
            bound = min(binary_information.information(counts, total, beta), nearest)
    return min(cap, bound)


def _boxes(low: np.ndarray, high: np.ndarray, prior_low: np.ndarray, prior_high: np.ndarray) -> _Boxes:
    """Intervals of V/(P_S V) from those of V."""
    masses_low, masses_high = prior_low[:, None] * low, prior_high[:, None] * high
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.where(high > 0, high / (prior_low[:, None] * high + others(masses_low, 0)), 0.0)
        least = np.where(low > 0, low / (prior_high[:, None] * low + others(masses_high, 0)), 0.0)
    most = np.minimum(most, 1 / prior_low[:, None]) * (1 + 1e-12)
    output = np.minimum(masses_high.sum(axis=0) * (1 + 1e-12), 1.0)
    return _Boxes(np.minimum(least * (1 - 1e-12), most), most, prior_low, prior_high, output)
