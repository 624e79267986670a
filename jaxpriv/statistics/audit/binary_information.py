"""An upper bound on I(S;Y) from pairs where S has two symbols, with the exact moments of binomial laws.

Of n pairs c_y have the symbol y, and a_y of those S = 1. p = P(S=1), q_y = P(S=1|y), m = P_Y, d(x||p) the relative
entropy of two coins, T = n I^ of the frequencies, p^ = sum a_y/n. For every p' in (0, 1)

    T = sum_y c_y d(a_y/c_y || p') - n d(p^ || p').

Columns.    Given the c_y, the a_y are independent and binomial. For lambda > 0, a real s and x = a/c,

                E exp( s(a - c p') - lambda c d(x || p') ) = G(q)^c alpha(c, x*),

            G(q) = (w_1^nu + w_0^nu)^(1/nu), nu = 1/(1 + lambda), w_1 = q e^(s(1-p')) p'^lambda,
            w_0 = (1-q) e^(-s p') (1-p')^lambda, x* = w_1^nu/(w_1^nu + w_0^nu), and alpha(c, x) =
            E exp(-lambda c d(A/c || x)) with A binomial of c draws with probability x: multiply out, and collect the
            powers of a/c.
Lemma.      alpha(c, x) <= (1+lambda)^(-1/2) exp( SLACK + ln(1+lambda)/2 (1 - 3 c x(1-x))_+ ) for 3 <= c <= `LARGEST`
            and the lambda of `MULTIPLIERS`: computed for every c, between two points of x by convexity in ln(x/(1-x))
            (tests/statistics/test_two_private_symbols.py). This is e^(-lambda z^2/2) averaged over a normal z, the
            factor that Chernoff's bound leaves out.
Margin.     e^((lambda + zeta) n d(p^ || p')) <= C sum_i v_i e^(s_i n (p^ - p')) for every p^ within `_WINDOW`
            deviations of p': the v_i are those of Laplace's integral, C is the largest ratio over all numbers n p^ of
            the window.
Test.       The statistic lambda T - zeta n d(p^ || p') + (number of y with least <= c_y <= `LARGEST`) ln A, A =
            (1+lambda)^(-1/2) e^SLACK, is at most tau with a probability of at most (Markov) e^tau C sum_i v_i (sum_y
            m_y G_i(q_y) e^(eta(q_y)))^n, where eta = ln(1+lambda)/2 (1/least - 3 x*(1-x*))_+ is the most that the
            lemma allows for one record. zeta = `_AWAY` > 0 rejects a p far from p^ sooner.
Divergence. 1 - G e^eta >= a d(q || p') + b(q - p') + c_0 for all q. With sum m q = p and sum m d(q || p) = I the mean
            over m is at most 1 - a(I + d(p || p')) - b(p - p') - c_0, whose n-th power without d(p || p') is convex
            in p: the ends of an interval of p are enough.
Inversion.  The populations are divided by p (cells around p', fixed by n) and by n I (lambda, fixed by the number of
            symbols and beta), and each is tested by one statistic. p is in the interval of Clopper and Pearson with
            the part `_PRIOR` of beta. The bound is the largest I of a population that is not rejected.

The constants c_0 are certified: G is concave and d convex, so on a cell of q the difference is at least a linear
function.
"""

from functools import lru_cache

import numpy as np
from scipy.special import expit

from jaxpriv.statistics.confidence.intervals import clopper_pearson, coins

# The largest number of pairs of one symbol for which the lemma was computed.
LARGEST = 4000
# What the lemma allows in ln alpha beyond the normal factor: with it the lemma holds for the lambda below, as
# computed in the tests for every c up to `LARGEST`.
SLACK = 0.004
# The lambda that are used. A denser grid would be tighter, and cost the tests more.
MULTIPLIERS = (3.2, 2.5, 2.0, 1.8, 1.6, 1.4, 1.25, 1.12, 1.0, 0.85, 0.7, 0.6, 0.5)
# The part of beta that the interval of p takes; fixed before the data, so that any would be valid.
_PRIOR = 0.04
# Half the width of a cell of arcsin(sqrt(p)), and how far p^ may be from p', both in standard deviations.
_HALF, _WINDOW = 0.2, 3.9
# Nodes of Laplace's integral, evenly spaced between so many deviations on both sides, beyond the window. C is the
# largest ratio with these nodes: they change its size, not its validity.
_TILTS, _FAR = 31, 4.8
# zeta. Any zeta > 0 is valid.
_AWAY = 0.12
# Slopes a as parts of lambda/(1 + lambda).
_SLOPES = np.array([0.7, 0.76, 0.8, 0.83, 0.86, 0.89, 0.92, 0.95, 0.98])
# Halvings of an interval of I: 2^-40 of its width is left. The upper end is returned.
_BISECTIONS = 40


def least_count(n: int, released: int) -> int:
    """The count from which a symbol y has the factor A."""
    return max(6, n // (8 * released))


def _targets(released: int, beta: float) -> tuple[list[float], np.ndarray]:
    """(multipliers in decreasing order, ends of the intervals of n I in which each is used).

    For normal deviations lambda is best at this n I; any choice that the data do not enter is valid.
    """
    log_beta, half = -np.log((1 - _PRIOR) * beta), 0.5 * (released - 1)
    best = {lam: (log_beta + half * (lam / (1 + lam) - np.log1p(lam))) * ((1 + lam) / lam) ** 2 for lam in MULTIPLIERS}
    multipliers = [lam for lam, value in best.items() if value > 0]
    values = np.maximum.accumulate([best[lam] for lam in multipliers])
    return multipliers, np.concatenate([[0.0], np.sqrt(values[:-1] * values[1:]), values[-1:]])


def reach(n: int, released: int, beta: float) -> float:
    """The largest I(S;Y) that is tested here; 0 where nothing is.

    Up to n = `LARGEST` |Y|/2 fewer than half of the symbols can have more than `LARGEST` pairs, for which the lemma was
    not computed and no factor is used.
    """
    return float(_targets(released, beta)[1][-1]) / n if 0 < n <= LARGEST * released // 2 else 0.0


def information(counts: np.ndarray, total: float, beta: float) -> float:
    """The bound from counts (2, Y) with T = `total`: populations with I(S;Y) between it and `reach` are rejected.

    It holds with probability 1 - beta; inf where a population at `reach` is not rejected.
    """
    n, released = int(counts.sum()), counts.shape[1]
    ones = int(counts[0].sum())
    low, high = clopper_pearson(ones, n, _PRIOR * beta / 2)
    multipliers, ends = _targets(released, beta)
    columns = counts.sum(axis=0)
    full = int(((columns >= least_count(n, released)) & (columns <= LARGEST)).sum())
    lam = np.array(multipliers)
    shift = lam * total + full * (SLACK - 0.5 * np.log1p(lam)) - np.log((1 - _PRIOR) * beta)
    width = _HALF / np.sqrt(n)  # 2 _HALF deviations of 1/(2 sqrt n)
    first, last = (int(np.round(np.arcsin(np.sqrt(float(end))) / width)) for end in (low, high))
    worst = 0.0
    for index in range(first, last + 1):
        worst = max(worst, _largest(ones, n, released, index, width, tuple(multipliers), shift, ends / n))
    return worst


def _largest(
    ones: int,
    n: int,
    released: int,
    index: int,
    width: float,
    multipliers: tuple[float, ...],
    shift: np.ndarray,
    ends: np.ndarray,
) -> float:
    """The largest I of a population with p in the cell `index` that is not rejected."""
    edges = [float(np.sin(np.clip((index + side) * width, 0.0, np.pi / 2)) ** 2) for side in (-0.5, 0.5)]
    centre = float(np.sin(index * width) ** 2)
    if not 0 < index * width < np.pi / 2 or abs(ones / n - centre) > _window(centre, n):
        return np.inf
    shift = shift - _AWAY * n * float(coins(np.array(ones / n), centre))
    parts = [_prepared(n, centre, lam, least_count(n, released)) for lam in multipliers]
    weights, slopes, tangents, constants = (np.stack(part) for part in zip(*parts, strict=True))
    ends_of_p = (np.array(edges) - centre) * (1 + 1e-12)
    linear = constants[..., None] + tangents[:, None, :, None] * ends_of_p  # (lambda, slope, tilt, end)

    def rejected(information: np.ndarray) -> np.ndarray:
        inside = 1 - slopes[..., None, None] * information[:, None, None, None] - linear
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # an overflow rejects nothing
            means = (weights[:, None, :, None] * np.maximum(inside, 0.0) ** n).sum(axis=2).max(axis=-1).min(axis=1)
            return np.log(means) + 1e-9 * n + shift < 0

    low, high = ends[:-1].copy(), ends[1:].copy()
    none, beyond = rejected(low), ~rejected(high)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        over = rejected(middle)
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    if beyond[-1]:
        return np.inf
    return float(np.where(none, 0.0, np.where(beyond, ends[1:], high)).max())


def _window(centre: float, n: int) -> float:
    return _WINDOW * np.sqrt(centre * (1 - centre) / n) + 1 / n


@lru_cache(maxsize=1024)
def _prepared(n: int, centre: float, lam: float, least: int) -> tuple[np.ndarray, ...]:
    """(C v_i, slopes a, tangents b_i, constants c_0 of every slope and tilt) for one p' and lambda."""
    deviation = np.sqrt(centre * (1 - centre) / n)
    theta = np.linspace(-_FAR, _FAR, _TILTS) * deviation / (centre * (1 - centre))
    tilts = (lam + _AWAY) * theta
    weights = np.exp(-(lam + _AWAY) * n * (np.log1p(centre * np.expm1(theta)) - theta * centre))
    window = _window(centre, n)
    numbers = np.arange(max(np.ceil(n * (centre - window)), 0.0), min(np.floor(n * (centre + window)), n) + 1)
    with np.errstate(divide="ignore"):  # of a weight that is 0
        mixed = np.logaddexp.reduce(np.log(weights)[:, None] + tilts[:, None] * (numbers - n * centre), axis=0)
    ratio = float(((lam + _AWAY) * n * coins(numbers / n, centre) - mixed).max())
    slopes = _SLOPES * lam / (1 + lam)
    with np.errstate(over="ignore", invalid="ignore"):  # of few records: an overflow rejects nothing
        tangents, constants = _certified(centre, lam, least, tilts, slopes, 101 + int(24 * np.sqrt(n)))
    return weights * np.exp(ratio + 1e-9), slopes, tangents, constants


def _certified(
    centre: float, lam: float, least: int, tilts: np.ndarray, slopes: np.ndarray, number: int
) -> tuple[np.ndarray, np.ndarray]:
    """b (tilts) and c_0 (slopes, tilts), from `number` cells of q."""
    points = np.concatenate([[0.0], expit(np.linspace(-9.0, 9.0, number)), [1.0]])
    nu, left, right = 1 / (1 + lam), points[:-1], points[1:]
    middle = 0.5 * (left + right)
    one = (np.exp(tilts * (1 - centre)) * centre**lam)[:, None] ** nu
    zero = (np.exp(-tilts * centre) * (1 - centre) ** lam)[:, None] ** nu

    def parts(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return one * q**nu, zero * (1 - q) ** nu

    def value_and_slope(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, second = parts(q)
        power = (first + second) ** lam
        return (first + second) * power, power * (first / q - second / (1 - q))

    value, steep = value_and_slope(middle)
    ends = [value + steep * (side - middle) for side in (left, right)]  # above G, which is concave
    first, second = parts(points)
    share = first / (first + second)
    eta = 0.5 * np.log1p(lam) * np.maximum(1 / least - 3 * share * (1 - share), 0.0)
    grown = np.exp(np.maximum(eta[:, :-1], eta[:, 1:]))  # x(1-x) is concave: least at an end of the cell
    tangents = -value_and_slope(np.array([centre]))[1][:, 0]
    distances = coins(points, centre)
    constants = np.full((len(slopes), len(tilts)), np.inf)
    for end, q, distance in zip(ends, (left, right), (distances[:-1], distances[1:]), strict=True):
        rest = 1 - grown * end - tangents[:, None] * (q - centre)
        constants = np.minimum(constants, [(rest - slope * distance).min(axis=-1) for slope in slopes])
    return tangents, constants - 1e-13
