"""Upper bounds on I(S;Y) and chi-squared from a likelihood ratio: they adapt to how little leaks.

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
Which route.    A population with D_f <= tau is tested given S, another one unconditionally; tau depends on n only.

Held-out counts (S, X) and a mechanism W: T = n I(p^ W) is at least sum_j E[ ln(1 + eta(r-1)) | s_j, x_j ], and Jensen's
inequality gives the same bounds. The part of W that does not depend on x carries no noise: with
W = kappa c + (1-kappa) W', w = kappa c/m, l = lambda(1-kappa), u = r - 1,

    ln E e^(-lambda T) <= n E_Q H,   H = (1+u-w)((1+eta u)^-l - 1)/(1-kappa) - lambda w ln(1+eta u).

Infima and suprema over r are certified: between two points of a grid a function lies within M h^2/8 of its chord, M a
bound on its second derivative, and near r = 1, where k and f both vanish, k/f is at least the infimum of k''/f''.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import xlogy

from jaxpriv.estimation.audit._information import mutual_information
from jaxpriv.estimation.confidence.binomial import clopper_pearson, relative_entropy_limit
from jaxpriv.estimation.confidence.radii import divergence_radius

_LAMBDAS = (0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4, 0.55, 0.75, 1.0, 1.4, 2.0, 2.8, 4.0, 6.0, 10.0, 20.0)
_SLOPES = np.array([0.2, 0.4, 0.6, 0.75, 0.85, 0.92, 0.96, 0.98, 0.99, 1.0])
# Half the width of the interval around 1 in which second derivatives are compared.
_NEAR = 2e-3
_LARGEST = 1e5
# Rounding of k and f: both are sums of a few terms of the size of r.
_ROUND = 1e-14
# Points of a cell, and how many numbers the cells of a table may take.
_POINTS, _MOST = 49, 2**24


@dataclass(frozen=True)
class Divergence:
    """A generator f with f(1) = f'(1) = 0: f, bounds of f'' between two points, the largest D_s at a p^_s."""

    name: str
    value: Callable[[np.ndarray], np.ndarray]
    second: Callable[[np.ndarray], np.ndarray]
    scale: float  # f''(1)

    def most(self, prior: np.ndarray) -> np.ndarray:
        """p^_s times the largest divergence of a row from the mean of the rows."""
        return -xlogy(prior, prior) if self.name == "kl" else 1 - prior

    def range(self, symbols: int) -> float:
        """The largest value with so many private or released symbols."""
        return float(np.log(symbols)) if self.name == "kl" else symbols - 1.0


KL = Divergence("kl", lambda r: xlogy(r, r) - r + 1, lambda r: 1 / r, 1.0)
CHI_SQUARED = Divergence("chi-squared", lambda r: (r - 1) ** 2, lambda r: np.full_like(r, 2.0), 2.0)


def _k(r: np.ndarray, lam: float, eta: float) -> np.ndarray:
    base = np.where(r > 0, 1 + eta * (r - 1), 1.0)  # eta = 1 only with lambda < 1, so g is continuous at 0
    return 1 + (1 - lam * eta) * (r - 1) - np.where(r > 0, r * base**-lam, 0.0)


def _bends(low: np.ndarray, high: np.ndarray, lam: float, eta: float) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest k'' between low and high: k'' = lam eta b^-(lam+2) (2(1-eta) + (1-lam) eta r)."""
    with np.errstate(divide="ignore", over="ignore"):
        ends = [(1 + eta * (r - 1)) ** (-lam - 2) for r in (high, low)]  # decreasing in r
    factors = [2 * (1 - eta) + (1 - lam) * eta * r for r in (low, high)]
    small, large = np.minimum(*factors), np.maximum(*factors)
    with np.errstate(invalid="ignore"):
        least = lam * eta * np.minimum(small * ends[0], small * ends[1])
        most = lam * eta * np.maximum(large * ends[0], large * ends[1])
    return np.where(np.isnan(least), 0.0, least), np.where(np.isnan(most), np.inf, most)


def _parameters() -> list[tuple[float, float]]:
    return [
        (lam, eta)
        for lam in _LAMBDAS
        for eta in (1 / (1 + lam), min(0.99, 1.5 / (1 + lam)), *((1.0,) if lam < 1 else ()))
    ]


def _sides() -> tuple[np.ndarray, np.ndarray]:
    """Grids of [0, 1 - near] and [1 + near, largest], finer where k and f are small."""
    steps = _NEAR * 1.03 ** np.arange(600)
    below = np.concatenate([[0.0], np.geomspace(1e-6, 0.05, 80), 1 - steps[steps < 0.95][::-1]])
    above = 1 + steps
    return below, above[above < _LARGEST]


@lru_cache(maxsize=256)
def _least_ratios(lam: float, eta: float, divergence: Divergence) -> tuple[np.ndarray, np.ndarray]:
    """(right ends of cells above 1, a lower bound of inf k/f over 0 <= r <= right end)."""
    near = np.array([1 - _NEAR]), np.array([1 + _NEAR])
    flat = _bends(*near, lam, eta)[0][0]
    curve = divergence.second(near[0])[0]  # f'' does not increase in r
    middle = flat / curve if flat > 0 else -np.inf
    below, above = _sides()
    left = _cells(below, lam, eta, divergence).min()
    right = _cells(above, lam, eta, divergence)
    return above[1:], np.minimum(np.minimum.accumulate(right), min(middle, left))


def _cells(grid: np.ndarray, lam: float, eta: float, divergence: Divergence) -> np.ndarray:
    low, high = grid[:-1], grid[1:]
    slack = _ROUND * (1 + grid)
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


def _global(total: float, n: int, log_beta: float, top: float, divergence: Divergence = KL) -> float:
    """The bound on E_Q f(r) from r <= top alone."""
    best = np.inf
    for lam, eta in _parameters():
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


def _local(total: float, n: int, log_beta: float, boxes: _Boxes, divergence: Divergence) -> float:
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
    for lam in _LAMBDAS:
        excess = -np.expm1(-(lam * total + log_beta) / n)
        if excess > 0.9:
            continue
        for eta in (1 / (1 + lam), *((1.0,) if lam < 1 else ())):
            k = _k(r, lam, eta)
            bent = np.maximum(_bends(low, high, lam, eta)[1], 0) * width
            convex = (high <= 1) & (2 * (1 - eta) + min(0.0, (1 - lam) * eta) >= 0)
            least_k = np.where(convex, np.minimum(k[..., :-1], k[..., 1:]), -np.inf)
            largest = lam * eta * (2 - (lam + 1) * eta) / divergence.scale
            for a in largest * _SLOPES if largest > 0 else ():
                values = a * f - k
                chord = np.maximum(values[..., :-1], values[..., 1:]) + bent
                cells = np.fmin(chord, a * top_f - least_k).max(axis=-1) + _ROUND * (1 + boxes.high)
                by_output = _largest_mean(boxes.prior_low, boxes.prior_high, cells.T)
                over = _largest_mean(np.zeros_like(boxes.output_high), boxes.output_high, by_output[None])[0]
                best = min(best, (excess + over) / a)
    return best * (1 + 1e-12)


def _largest_mean(low: np.ndarray, high: np.ndarray, values: np.ndarray) -> np.ndarray:
    """max of values . p over the distributions p of a box; values (m, k), inf included."""
    order = np.argsort(-values, axis=-1)
    room, least = (high - low)[order], low[order]
    free = 1 - low.sum()
    added = np.clip(free - (np.cumsum(room, axis=-1) - room), 0, room)
    shares, ordered = least + added, np.take_along_axis(values, order, axis=-1)
    # A cell whose supremum is unknown (inf) counts only with a positive share.
    return np.where(shares > 0, np.where(shares > 0, ordered, 0.0) * shares, 0.0).sum(axis=-1)


def _of_prior(
    bound: float, frequencies: np.ndarray, low: np.ndarray, high: np.ndarray, divergence: Divergence
) -> float:
    """From sum p^_s D_s <= bound to the same for the P_s in [low, high]."""
    ratio = high / frequencies
    total, left = 0.0, bound
    for s in np.argsort(-ratio):
        part = min(float(divergence.most(frequencies)[s]), left)
        total, left = total + part * float(ratio[s]), left - part
    if divergence.name == "kl":
        return total
    return total * float((frequencies / low).max()) if low.min() > 0 else np.inf


def from_pairs(counts: np.ndarray, beta: float, divergence: Divergence = KL) -> float:
    """An upper bound on D_f of the population from counts (S, Y) of pairs, with probability 1 - beta."""
    private, released = counts.shape
    n, by_private = int(counts.sum()), counts.sum(axis=1)
    cap = divergence.range(min(private, released))
    if n == 0 or by_private.min() == 0:
        return cap
    frequencies = by_private / n
    total = n * float(mutual_information(counts / n)) * (1 + 1e-12)
    log_beta = -np.log(0.65 * beta)
    low, high = clopper_pearson(counts, by_private[:, None], 0.15 * beta / (2 * counts.size))
    prior_low, prior_high = clopper_pearson(by_private, n, 0.1 * beta / (2 * private))
    given = _boxes(low, high, frequencies, frequencies)
    upper = min(
        _global(total, n, log_beta, 1 / frequencies.min(), divergence),
        _local(total, n, log_beta, given, divergence),
    )
    given_s = _of_prior(upper, frequencies, prior_low, prior_high, divergence)
    joint = cap
    if prior_low.min() > 0:
        moved = total + n * divergence_radius(private, n, 0.1 * beta)
        boxes = _boxes(low, high, prior_low, prior_high)
        joint = min(
            _global(moved, n, log_beta, 1 / prior_low.min(), divergence),
            _local(moved, n, log_beta, boxes, divergence),
        )
    threshold = (0.03 + 30 / n) * divergence.scale
    return min(cap, min(given_s, threshold) if joint <= threshold else joint)


def _boxes(low: np.ndarray, high: np.ndarray, prior_low: np.ndarray, prior_high: np.ndarray) -> _Boxes:
    """Intervals of V/(P_S V) from those of V."""
    others_low = (prior_low[:, None] * low).sum(axis=0) - prior_low[:, None] * low
    others_high = (prior_high[:, None] * high).sum(axis=0) - prior_high[:, None] * high
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.where(high > 0, high / (prior_low[:, None] * high + np.maximum(others_low, 0)), 0.0)
        least = np.where(low > 0, low / (prior_high[:, None] * low + others_high), 0.0)
    most = np.minimum(most, 1 / prior_low[:, None]) * (1 + 1e-12)
    output = np.minimum((prior_high[:, None] * high).sum(axis=0) * (1 + 1e-12), 1.0)
    return _Boxes(np.minimum(least * (1 - 1e-12), most), most, prior_low, prior_high, output)


def held_out_information(counts: np.ndarray, mechanism: np.ndarray, beta: float) -> float:
    """An upper bound on I(S;Y) from counts (S, X) that the mechanism (X, Y) does not depend on."""
    private = len(counts)
    mechanism = mechanism[:, mechanism.max(axis=0) > 0]
    n, by_private = int(counts.sum()), counts.sum(axis=1)
    cap = float(np.log(min(private, mechanism.shape[1])))
    if n == 0 or by_private.min() == 0:
        return cap
    frequencies = by_private / n
    total = n * float(mutual_information(counts / n @ mechanism)) * (1 + 1e-12)
    low, high = mechanism.min(axis=0), mechanism.max(axis=0)
    log_beta = -np.log(0.75 * beta)
    prior_low, prior_high = clopper_pearson(by_private, n, 0.1 * beta / (2 * private))

    def top(prior: np.ndarray) -> float:
        ratios = high / (prior[:, None] * high + (1 - prior[:, None]) * low)
        return min(1 / float(prior.min()), float(ratios.max())) * (1 + 1e-12)

    # P(y) given the private symbols is a mean of independent numbers in [low, high] (Chernoff, Hoeffding).
    share = np.clip((counts.sum(axis=0) / n @ mechanism - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    output_high = low + (high - low) * relative_entropy_limit(share, np.log(len(low) / (0.05 * beta)) / n)
    upper = min(
        _global(total, n, log_beta, top(frequencies)),
        _contracted(total, n, log_beta, top(frequencies), low, output_high),
    )
    given_s = _of_prior(upper, frequencies, prior_low, prior_high, KL)
    joint = cap
    if prior_low.min() > 0:
        joint = _global(total + n * divergence_radius(private, n, 0.1 * beta), n, log_beta, top(prior_low))
    threshold = 0.03 + 40 * (private - 1) / n
    return min(cap, min(given_s, threshold) if joint <= threshold else joint)


def _contracted(total: float, n: int, log_beta: float, top: float, low: np.ndarray, output_high: np.ndarray) -> float:
    """The bound on E_Q f(r), f that of I, with the constant part of the mechanism taken out of the noise.

    With K(u, w) = -H - lambda eta u, E_Q u = 0: E_Q K <= (lambda T + ln 1/beta)/n, and K >= a f where that holds at
    both ends of w, as K is linear in w: w_0 and min(1, r).
    """
    kept = float(low.sum())
    if not 0.02 <= kept < 1 - 1e-9:
        return np.inf
    least = float((low / np.maximum(output_high, 1e-300)).min()) * (1 - 1e-12)
    best = np.inf
    for lam in np.geomspace(0.05, 400, 40):
        power = lam * (1 - kept)
        for eta in (1 / (1 + lam * (1 - least) * (1 - kept)), 1 / (1 + lam)):
            ratio = _contracted_ratio(float(lam), min(eta, 0.98), power, 1 - kept, least, top)
            if ratio > 0:
                best = min(best, (lam * total + log_beta) / n / ratio)
    return best * (1 + 1e-12)


def _contracted_ratio(lam: float, eta: float, power: float, rest: float, least: float, top: float) -> float:
    """A lower bound of inf K/f over least <= r <= top and both ends of w."""

    def value(r: np.ndarray, w: np.ndarray | float) -> np.ndarray:
        u = r - 1
        logs = np.log1p(eta * u)
        return -(r - w) * np.expm1(-power * logs) / rest + lam * w * logs - lam * eta * u

    below, above = _sides()
    inside = below[below > least]
    sides = [np.concatenate([[min(least, 1 - _NEAR)], inside]), above[: np.searchsorted(above, top) + 1]]
    if above[-1] < top:
        return 0.0
    found = [_near_one(lam, eta, power, w) for w in (least, 1.0)]
    for grid, ends in ((sides[0], (least, sides[0])), (sides[1], (least, 1.0))):
        if len(grid) < 2:
            continue
        base = 1 + eta * (grid[:-1] - 1)
        f = KL.value(grid) + _ROUND * (1 + grid)
        for w in ends:
            # K'' <= 2 lam eta b^-(l+1) for a fixed w, and 2 lam eta/b for w = r.
            follows = not np.isscalar(w)
            bent = 2 * lam * eta * (1 / base if follows else base ** (-power - 1)) * np.diff(grid) ** 2 / 8
            k = value(grid, w) - _ROUND * (1 + grid) * (1 + lam / rest)
            found.append(float(np.minimum((k[:-1] - bent) / f[:-1], (k[1:] - bent) / f[1:]).min()))
    return min(found)


def _near_one(lam: float, eta: float, power: float, w: float) -> float:
    """A lower bound of K''/f'' within _NEAR of 1.

    K'' = lam eta ( b^-(l+2) (2b - (l+1) eta (r-w)) - w eta/b^2 ), for w = r below 1 it is lam eta (2/b - r eta/b^2):
    each factor at the end that makes it least.
    """
    small, large = 1 - eta * _NEAR, 1 + eta * _NEAR
    fixed = 2 * large ** (-power - 1) - (power + 1) * eta * max(1 + _NEAR - w, 0.0) * small ** (-power - 2)
    fixed -= w * eta * small**-2
    follows = 2 / large - eta / small**2
    return lam * eta * min(fixed, follows if w == 1.0 else fixed) * (1 - _NEAR)
