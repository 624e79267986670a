"""The convex relaxation of boxes of posteriors, in NumPy: bounds below f for `box_steps`.

Over l <= q <= u with chords of lambda H instead of lambda H, the least value of -H(Tq) + s.q + constants by a fully
corrective Frank-Wolfe iteration: a knapsack for each vertex, the best weights of the vertices after it.
"""

from dataclasses import dataclass

import numpy as np

# The constants of `_native/boxes.c`: choices that change the tightness of a bound, not its validity. Vertices of the
# inner approximation of one relaxation, linear programs in it at most, and after each of them steps of mirror descent
# of the weights, then of Newton's method.
VERTICES, ORACLES, MIRROR, WEIGHTS = 24, 60, 8, 12
# A relaxation ends at this share of what is left to be shown; of weights before mirror steps, so that a vertex that was
# dropped may come back; added to the diagonal of Newton's matrix, as a share of its trace.
SHARE, FLOOR, RIDGE = 0.15, 1e-8, 1e-10
# Above four roundings of float64, and those of a logarithm.
ERROR = 4e-16


@dataclass(frozen=True, eq=False)
class Search:
    """One search.

    Attributes:
        symbols: T' = P(S|X), shape (X, S), C-contiguous.
        prices: nu, shape (X,).
        lam: lambda >= 0.
        level: F.
        close: relaxations are solved to this at the finest.
    """

    symbols: np.ndarray
    prices: np.ndarray
    lam: float
    level: float
    close: float


def xlogx(x: np.ndarray) -> np.ndarray:
    """x ln x, 0 at 0."""
    return x * np.log(np.where(x > 0, x, 1.0))


@dataclass(frozen=True, eq=False)
class Relaxed:
    """Bounds (N,), relaxed minimisers q (N, X); of the bounds z (N, S), c (N, X), mu and the error of c - mu (N,)."""

    bounds: np.ndarray
    q: np.ndarray
    z: np.ndarray
    costs: np.ndarray
    level: np.ndarray
    error: np.ndarray

    def of(self, index: np.ndarray) -> "Relaxed":
        return Relaxed(
            self.bounds[index], self.q[index], self.z[index], self.costs[index], self.level[index], self.error[index]
        )


def relaxed(search: Search, low: np.ndarray, high: np.ndarray, start: np.ndarray) -> Relaxed:
    """Bounds for the boxes l = `low`, u = `high` (N, X), beginning at the points `start` (N, X)."""
    symbols, prices, lam = search.symbols, search.prices, search.lam
    count, (size, private) = len(low), symbols.shape
    active, free = high > 0, high > low
    ends = -xlogx(low), -xlogx(high)
    slope = np.where(free, (ends[1] - ends[0]) / np.where(free, high - low, 1.0), 0.0)
    under = lam * np.minimum(ends[0] - slope * low, ends[1] - slope * high)
    own = np.where(active, lam * slope - prices, 0.0)
    fixed = np.where(active, under, 0.0).sum(axis=1)
    absolute = np.abs(under) + lam * (np.abs(ends[0]) + np.abs(ends[1]) + np.abs(slope) * (low + high))
    sizes = np.where(active, absolute, 0.0).sum(axis=1)
    steep = np.where(active, lam * np.abs(slope) + np.abs(prices), 0.0).max(axis=1)

    point = np.minimum(np.maximum(start, low), high)
    total = point.sum(axis=1)
    shrink = (total > 1)[:, None]
    slack = np.where(shrink, point - low, high - point)
    width = slack.sum(axis=1)
    point = point + (np.where(width > 0, (1 - total) / np.where(width > 0, width, 1.0), 0.0))[:, None] * slack

    q = np.zeros((count, VERTICES, size))
    mixed, cost, weight = np.zeros((count, VERTICES, private)), np.zeros((count, VERTICES)), np.zeros((count, VERTICES))
    best = np.full(count, -np.inf)
    z, costs, level, error = np.zeros((count, private)), np.zeros((count, size)), np.zeros(count), np.zeros(count)
    todo, known = np.arange(count), 0
    for _ in range(ORACLES):
        row = np.arange(len(todo))
        if known < VERTICES:
            slot = np.full(len(todo), known)
            known += 1
        else:
            slot = weight[todo].argmin(axis=1)
            weight[todo, slot] = 0.0
            weight[todo] /= weight[todo].sum(axis=1, keepdims=True)
        q[todo, slot], mixed[todo, slot] = point, point @ symbols
        cost[todo, slot] = (point * own[todo]).sum(axis=1)
        w = weight[todo] * (0.8 if known > 1 else 0.0)
        w[row, slot] = 0.2 if known > 1 else 1.0
        w, r, plain = _weighted(w[:, :known], mixed[todo, :known], cost[todo, :known], search.close)
        weight[todo, :known] = w
        seen = np.maximum(r, 1e-12)
        total = seen.sum(axis=1)
        logs = np.log(seen)
        c = np.where(active[todo], own[todo] + logs @ symbols.T, 0.0)
        point, mu, full = _knapsack(c, low[todo], high[todo])
        d = np.where(active[todo], c - mu[:, None], 0.0)
        terms = np.where(d > 0, d * low[todo], d * high[todo])
        bound = mu + terms.sum(axis=1) + fixed[todo] - np.log(total)
        scale = np.abs(mu) + np.abs(np.log(total)) + sizes[todo] + np.abs(terms).sum(axis=1)
        marginal = ERROR * (private + 8) * (steep[todo] + np.abs(logs).max(axis=1) + 1.0)
        bound -= ERROR * (active[todo].sum(axis=1) + private + 10) * (scale + 1.0) + marginal
        bound = np.where(full, bound, np.inf)
        better = bound > best[todo]
        at = todo[better]
        best[at], level[at], error[at] = bound[better], mu[better], marginal[better]
        costs[at], z[at] = c[better], (seen / total[:, None])[better]
        left = plain + fixed[todo] - best[todo]
        solved = (left < search.close) | (left < SHARE * (search.level - best[todo]) + search.close)
        hold = ~(solved | (best[todo] > search.level))
        todo, point = todo[hold], point[hold]
        if not len(todo):
            break
    return Relaxed(best, (weight[:, None, :] @ q)[:, 0], z, costs, level, error)


def _weighted(
    w: np.ndarray, mixed: np.ndarray, cost: np.ndarray, close: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(w (N, K), r (N, S), value (N,)): the best weights w of sum_s r_s ln r_s + w.cost, r = w'mixed.

    Some steps of mirror descent, then Newton's method on the positive weights.
    """

    def at(weights: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r = (weights[:, None, :] @ mixed[which])[:, 0]
        return r, xlogx(r).sum(axis=1) + (weights * cost[which]).sum(axis=1)

    w = np.maximum(w, FLOOR)
    w /= w.sum(axis=1, keepdims=True)
    todo = np.arange(len(w))
    r, value = at(w, todo)
    if w.shape[1] == 1:
        return w, r, value
    length = np.ones(len(w))
    for step in range(MIRROR + WEIGHTS):
        slope = cost[todo] + (mixed[todo] @ np.log(np.maximum(r[todo], 1e-300))[:, :, None])[:, :, 0]
        lowest, mean = slope.min(axis=1), (w[todo] * slope).sum(axis=1)
        hold = mean - lowest >= 0.3 * close
        todo, slope, lowest, mean = todo[hold], slope[hold], lowest[hold], mean[hold]
        if not len(todo):
            break
        if step < MIRROR:
            trial = w[todo] * np.exp(-length[todo, None] * (slope - lowest[:, None]))
            trial /= trial.sum(axis=1, keepdims=True)
            r2, value2 = at(trial, todo)
            tried = length[todo] >= 1e-3
            better = tried & (value2 <= value[todo])
            length[todo] *= np.where(better, 2.0, np.where(tried, 0.25, 1.0))
        else:
            trial, r2, value2 = _newton(w[todo], r[todo], value[todo], slope - mean[:, None], mixed[todo], cost[todo])
            better = value2 <= value[todo]
        here = todo[better]
        w[here], r[here], value[here] = trial[better], r2[better], value2[better]
        if step >= MIRROR:
            todo = here
    return w, r, value


def _newton(
    w: np.ndarray, r: np.ndarray, value: np.ndarray, slope: np.ndarray, mixed: np.ndarray, cost: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(w, r, value) after a step that is shortened until the value does not rise, or has been eight times."""
    used, places = w > 0, np.arange(w.shape[1])
    inverse = np.where(r > 0, 1.0 / np.where(r > 0, r, 1.0), 0.0)
    matrix = (mixed * inverse[:, None, :]) @ mixed.transpose(0, 2, 1) * (used[:, :, None] & used[:, None, :])
    trace = np.trace(matrix, axis1=1, axis2=2)
    matrix[:, places, places] += np.where(used, RIDGE * trace[:, None], 1.0)
    sides = np.stack([np.where(used, slope, 0.0), used.astype(float)], axis=2)
    solved = np.linalg.solve(matrix, sides) * used[:, :, None]
    up, down = solved.sum(axis=1).T
    direction = (up / down)[:, None] * solved[:, :, 1] - solved[:, :, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.where(used & (direction < 0), -w / direction, np.inf)
    last, reach = ends.argmin(axis=1), np.minimum(1.0, ends.min(axis=1))
    best, best_r, best_value = w.copy(), r.copy(), np.full(len(w), np.inf)
    todo = np.arange(len(w))
    for tries in range(8):
        trial = np.maximum(0.0, w[todo] + reach[todo, None] * direction[todo])
        if not tries:
            trial[todo, last] = np.where(ends.min(axis=1) < 1, 0.0, trial[todo, last])
        mean = (trial[:, None, :] @ mixed[todo])[:, 0]
        here = xlogx(mean).sum(axis=1) + (trial * cost[todo]).sum(axis=1)
        best[todo], best_r[todo], best_value[todo] = trial, mean, here
        todo = todo[~(here <= value[todo])]
        reach[todo] *= 0.3
        if not len(todo):
            break
    return best, best_r, best_value


def _knapsack(c: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(q (N, X), marginal cost (N,), whether the box reaches the simplex (N,)) of min c.q, l <= q <= u, sum q = 1."""
    width = high - low
    order = np.argsort(np.where(width > 0, c, np.inf), axis=1, kind="stable")
    wide = np.take_along_axis(width, order, 1)
    rest = (1 - low.sum(axis=1))[:, None]
    before = np.cumsum(wide, axis=1) - wide
    taken = np.clip(rest - before, 0.0, wide)
    q = low.copy()
    np.put_along_axis(q, order, np.take_along_axis(low, order, 1) + taken, 1)
    free = (width > 0).sum(axis=1)
    last = np.clip((before < rest).sum(axis=1) - 1, 0, np.maximum(free - 1, 0))
    mu = np.where(free > 0, np.take_along_axis(c, np.take_along_axis(order, last[:, None], 1), 1)[:, 0], 0.0)
    return q, mu, rest[:, 0] - width.sum(axis=1) <= 1e-9
