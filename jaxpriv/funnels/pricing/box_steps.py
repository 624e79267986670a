"""Boxes of posteriors, tightened and bounded from below: one step of the branch and bound of `boxes`, in NumPy.

This is what the kernel `_runtime/native/boxes.c` computes too, where there is one, with the same constants.

Let f(q) = -H(Tq) + lambda H(q) - nu.q, r = Tq, and let q be a minimiser over the whole simplex with f(q) = m <= F. In
a box l <= q <= u with r between `low` and `high`:

1. Relaxation. lambda H is replaced by its chords over [l_x, u_x], of slope g_x. For any distribution z on S,
   -H(r) >= r.ln z, so f >= the least c.q over the box, c = T'ln z + lambda g - nu, plus constants (a knapsack, bounded
   by its dual at any mu). z = Tq for q from a fully corrective Frank-Wolfe iteration: a knapsack for each vertex, the
   best weights of the vertices after it.
2. Divergence. -H(r) = r.ln z + D(r || z) exactly, so D(r || z) <= F - (that bound), and the binary
   divergence of each coordinate of r is no larger.
3. Stationarity. On its support lambda ln q_x = T_x.ln r - nu_x - m: the multiplier is m itself. So q_x = 0, or

       lambda ln q_x - sum_s T_sx ln max( low_s, a_s + b_s q_x ) + nu_x + F >= 0,

   concave in ln q_x, with a + b q_x what the other symbols and x contribute to r at least: Newton's method from an
   infeasible end never passes a root. From a lower bound on m, q_x <= exp( (T_x.ln high - nu_x - m)/lambda ).
4. Curvature. Along e_x - q: lambda (1/q_x - 1) <= sum_s T_sx^2/r_s - 1. Along e_x - e_y, both in the support:
   lambda (1/q_x + 1/q_y) <= sum_s (T_sx - T_sy)^2/r_s. So q_x = 0, or q_x is at least some number; and symbols that
   have nearly the same P(s|x) are not in one support.
5. Reduced costs. q_x <= l_x + (F - bound)/(c_x - mu) where c_x > mu, and likewise from above.

All of it is rounded outwards: sums of k terms by more than k eps of their absolute sum, ends of intervals by `OUTWARD`.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from jaxpriv.funnels.pricing._base import xlogx
from jaxpriv.funnels.pricing.shapes import AbstractShape, Entropy, Lagrangian

Three: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]

# The constants of `_runtime/native/boxes.c`: choices that change the tightness of a bound, not its validity. Vertices
# of the inner approximation of one relaxation, linear programs in it at most, and after each of them steps of mirror
# descent of the weights, then of Newton's method.
VERTICES, ORACLES, MIRROR, WEIGHTS = 24, 60, 8, 12
# A relaxation ends at this share of what is left to be shown; of weights before mirror steps, so that a vertex that was
# dropped may be added again; added to the diagonal of Newton's matrix, as a share of its trace.
SHARE, FLOOR, RIDGE = 0.15, 1e-8, 1e-10
# Above four roundings of float64, and those of a logarithm; of sums of larger terms than their value.
ERROR, ROUGH = 4e-16, 1e-13


@dataclass(frozen=True, eq=False)
class Search:
    """One search."""

    lagrangian: Lagrangian  # f
    level: float  # F
    close: float  # relaxations are solved to this at the finest


class Relaxed(NamedTuple):
    """Bounds (N,), relaxed minimisers q (N, X); of the bounds z (N, S), c (N, X), mu and the error of c - mu (N,)."""

    bounds: np.ndarray
    q: np.ndarray
    z: np.ndarray
    costs: np.ndarray
    level: np.ndarray
    error: np.ndarray

    def of(self, index: np.ndarray) -> "Relaxed":
        return Relaxed(*(part[index] for part in self))


def relaxed(search: Search, low: np.ndarray, high: np.ndarray, start: np.ndarray) -> Relaxed:
    """Bounds for the boxes l = `low`, u = `high` (N, X), beginning at the points `start` (N, X)."""
    shape, symbols, prices, lam = search.lagrangian
    count, (size, private) = len(low), symbols.shape
    active, free = high > 0, high > low
    ends = -xlogx(low), -xlogx(high)
    slope = np.where(free, (ends[1] - ends[0]) / np.where(free, high - low, 1.0), 0.0)
    under = lam * np.minimum(ends[0] - slope * low, ends[1] - slope * high)
    linear = np.where(active, lam * slope - prices, 0.0)
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
    todo, filled = np.arange(count), 0
    for _ in range(ORACLES):
        row = np.arange(len(todo))
        if filled < VERTICES:
            slot = np.full(len(todo), filled)
            filled += 1
        else:
            slot = weight[todo].argmin(axis=1)
            weight[todo, slot] = 0.0
            weight[todo] /= weight[todo].sum(axis=1, keepdims=True)
        q[todo, slot], mixed[todo, slot] = point, point @ symbols
        cost[todo, slot] = (point * linear[todo]).sum(axis=1)
        w = weight[todo] * (0.8 if filled > 1 else 0.0)
        w[row, slot] = 0.2 if filled > 1 else 1.0
        w, r, plain = _weighted(shape, w[:, :filled], mixed[todo, :filled], cost[todo, :filled], search.close)
        weight[todo, :filled] = w
        seen = np.maximum(r, 1e-12)
        plane, steepness = shape.gradient(seen)
        c = np.where(active[todo], linear[todo] + plane @ symbols.T, 0.0)
        point, mu, full = knapsack(c, low[todo], high[todo])
        d = np.where(active[todo], c - mu[:, None], 0.0)
        terms = np.where(d > 0, d * low[todo], d * high[todo])
        bound = mu + terms.sum(axis=1) + fixed[todo]
        scale = np.abs(mu) + sizes[todo] + np.abs(terms).sum(axis=1)
        marginal = ERROR * (private + 8) * (steep[todo] + steepness + 1.0)
        bound -= ERROR * (active[todo].sum(axis=1) + private + 10) * (scale + 1.0) + marginal
        bound = np.where(full, bound, np.inf)
        better = bound > best[todo]
        at = todo[better]
        best[at], level[at], error[at] = bound[better], mu[better], marginal[better]
        costs[at], z[at] = c[better], (seen / seen.sum(axis=1, keepdims=True))[better]
        left = plain + fixed[todo] - best[todo]
        solved = (left < search.close) | (left < SHARE * (search.level - best[todo]) + search.close)
        hold = ~(solved | (best[todo] > search.level))
        todo, point = todo[hold], point[hold]
        if not len(todo):
            break
    return Relaxed(best, (weight[:, None, :] @ q)[:, 0], z, costs, level, error)


def _weighted(shape: AbstractShape, w: np.ndarray, mixed: np.ndarray, cost: np.ndarray, close: float) -> Three:
    """(w (N, K), r (N, S), value (N,)): the best weights w of phi(r) + w.cost, r = w'mixed.

    Some steps of mirror descent, then Newton's method on the positive weights.
    """

    def at(weights: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r = (weights[:, None, :] @ mixed[which])[:, 0]
        return r, shape.value(r) + (weights * cost[which]).sum(axis=1)

    w = np.maximum(w, FLOOR)
    w /= w.sum(axis=1, keepdims=True)
    todo = np.arange(len(w))
    r, value = at(w, todo)
    if w.shape[1] == 1:
        return w, r, value
    length = np.ones(len(w))
    for step in range(MIRROR + WEIGHTS):
        slope = cost[todo] + (mixed[todo] @ shape.gradient(np.maximum(r[todo], 1e-300))[0][:, :, None])[:, :, 0]
        lowest, mean = slope.min(axis=1), (w[todo] * slope).sum(axis=1)
        hold = mean - lowest >= 0.3 * close
        todo, slope, lowest, mean = todo[hold], slope[hold], lowest[hold], mean[hold]
        if not len(todo):
            break
        if step < MIRROR:
            trial = w[todo] * np.exp(-length[todo, None] * (slope - lowest[:, None]))
            with np.errstate(invalid="ignore"):  # where all weights underflow the value is NaN, which is not better
                trial /= trial.sum(axis=1, keepdims=True)
            r2, value2 = at(trial, todo)
            tried = length[todo] >= 1e-3
            better = tried & (value2 <= value[todo])
            length[todo] *= np.where(better, 2.0, np.where(tried, 0.25, 1.0))
        else:
            here = (array[todo] for array in (w, r, value, mixed, cost))
            trial, r2, value2 = _newton(shape, slope - mean[:, None], *here)
            better = value2 <= value[todo]
        here = todo[better]
        w[here], r[here], value[here] = trial[better], r2[better], value2[better]
        if step >= MIRROR:
            todo = here
    return w, r, value


def _newton(
    shape: AbstractShape,
    slope: np.ndarray,
    w: np.ndarray,
    r: np.ndarray,
    value: np.ndarray,
    mixed: np.ndarray,
    cost: np.ndarray,
) -> Three:
    """(w, r, value) after a step that is shortened until the value does not rise, or has been eight times."""
    used, places = w > 0, np.arange(w.shape[1])
    matrix = (mixed * shape.curvature(r)[:, None, :]) @ mixed.transpose(0, 2, 1) * (used[:, :, None] & used[:, None, :])
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
        here = shape.value(mean) + (trial * cost[todo]).sum(axis=1)
        best[todo], best_r[todo], best_value[todo] = trial, mean, here
        todo = todo[~(here <= value[todo])]
        reach[todo] *= 0.3
        if not len(todo):
            break
    return best, best_r, best_value


def knapsack(c: np.ndarray, low: np.ndarray, high: np.ndarray) -> Three:
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


# The constants of `_runtime/native/boxes.c`. Steps towards an end of an interval, tightenings before a relaxation, and
# relaxations of one box: more of them would make boxes smaller, and fewer.
NEWTON, PASSES, ROUNDS = 6, 2, 4
# A box is relaxed again if its intervals lost this much together; cuts stay this share of a width inside, and lie
# between the relaxed minimiser and, by this share, the middle; coordinates of z further than this from 1 are used by
# the divergence test. Choices: any cut, and any test that is left out, is valid.
LOSS, INSET, TO_MIDDLE = 0.2, 0.15, 0.6
# Outward rounding of ends of intervals, relative and absolute: 9,000 units of 1.1e-16, for sums over that many symbols.
OUTWARD = 1e-12
# What a difference of two sums of masses, at most 1 each, may have lost: 900 units of 1.1e-16.
_CANCELLED = 1e-13


@dataclass(frozen=True, eq=False)
class Boxes:
    """N boxes."""

    rows: np.ndarray  # l, u, q (X each), low, high (S each), shape (N, 3 X + 2 S); q is the relaxed minimiser
    bounds: np.ndarray  # on m for minimisers in the box, shape (N,); infinite where it holds none with m <= F
    values: np.ndarray  # f(q), shape (N,)
    symbol: np.ndarray  # the one whose interval is to be divided, shape (N,); -1 where no division helps
    cut: np.ndarray  # where the lower part ends, shape (N,)
    gap: np.ndarray  # where the upper one begins, shape (N,)


def stepped(search: Search, rows: np.ndarray, bounds: np.ndarray) -> Boxes:
    """`rows` tightened (a copy), with the better of `bounds` and what is proved now."""
    size, private = search.lagrangian.symbols.shape
    rows, bounds = rows.copy(), bounds.copy()
    values, gap = np.full(len(rows), np.inf), np.zeros((len(rows), size))
    left = np.arange(len(rows))
    ends = (slice(0, size), slice(size, 2 * size), slice(2 * size, 3 * size))
    spans = (slice(3 * size, 3 * size + private), slice(3 * size + private, None))
    for _ in range(ROUNDS):
        for _ in range(PASSES):
            low, high = rows[left][:, ends[0]], rows[left][:, ends[1]]
            span = rows[left][:, spans[0]], rows[left][:, spans[1]]
            alive, low, high, gaps = _tightened(search, low, high, *span, bounds[left])
            rows[left, ends[0]], rows[left, ends[1]], gap[left] = low, high, gaps
            bounds[left[~alive]] = np.inf
            left = left[alive]
        if not len(left):
            break
        low, high, start = (rows[left][:, end] for end in ends)
        relaxation = relaxed(search, low, high, start)
        rows[left, ends[2]] = relaxation.q
        bounds[left] = np.maximum(bounds[left], relaxation.bounds)
        alive = bounds[left] <= search.level
        bounds[left[~alive]] = np.inf
        left, relaxation = left[alive], relaxation.of(alive)
        values[left] = np.minimum(values[left], _values(search, relaxation.q))
        margin = search.level - relaxation.bounds
        rows[left, spans[0]], rows[left, spans[1]] = search.lagrangian.shape.ball(
            margin, relaxation.z, rows[left][:, spans[0]], rows[left][:, spans[1]]
        )
        low, high, lost = _reduced(margin, relaxation, rows[left][:, ends[0]], rows[left][:, ends[1]])
        rows[left, ends[0]], rows[left, ends[1]] = low, high
        left = left[lost >= LOSS]
        if not len(left):
            break
    return Boxes(rows, bounds, values, *_divided(search, rows, gap, bounds))


def _tightened(
    search: Search, low: np.ndarray, high: np.ndarray, from_: np.ndarray, to: np.ndarray, bounds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(whether anything is left (N,), l, u, gap (N, X)): q_x is 0, or at least gap_x."""
    (shape, symbols, prices, lam), level = search.lagrangian, search.level
    private, entropy = symbols.shape[1], isinstance(shape, Entropy)
    below, above = low.sum(axis=1), high.sum(axis=1)
    alive = (below <= 1 + 1e-10) & (above >= 1 - 1e-10)
    free = high > low
    base = low @ symbols
    rest, sure = np.maximum(0.0, 1 - below) + OUTWARD, np.maximum(0.0, 1 - below - OUTWARD)
    least = np.where(free[:, :, None], symbols, 1.0).min(axis=1)
    most = np.where(free[:, :, None], symbols, 0.0).max(axis=1)
    rlo = np.maximum(from_, (base + sure[:, None] * least) * (1 - OUTWARD))
    rlo = np.where(rlo > 1e-300, rlo, 0.0)
    rhi = np.minimum(to, (base + rest[:, None] * most) * (1 + OUTWARD) + OUTWARD)
    alive &= ~(rlo > rhi + 1e-12).any(axis=1)
    rhi = np.maximum(rhi, rlo)
    present = high > 0

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        caps = (rhi[:, None] - base[:, None] + _CANCELLED) / symbols * (1 + OUTWARD) + low[:, :, None]
    cap = np.minimum(1 - (below[:, None] - low) + OUTWARD, np.where(symbols > 1e-6, caps, np.inf).min(axis=2))
    new_low = np.where(present, np.maximum(low, 1 - (above[:, None] - high) - OUTWARD), low)
    new_high = np.where(present, np.minimum(high, cap), high)
    alive &= ~(present & (new_high < new_low)).any(axis=1)
    gap, dead = np.zeros_like(low), np.zeros_like(present)
    if lam > 1e-12:
        least_slope, most_slope = shape.slopes(symbols, rlo, rhi)
        size = np.abs(prices) + abs(level) + np.abs(bounds)[:, None] + 1.0
        for slope in (least_slope, most_slope):
            size = size + np.where(np.isfinite(slope), np.abs(slope), 0.0)
        error = (ERROR if entropy else ROUGH) * (private + 8) * size
        with np.errstate(over="ignore"):
            end = (most_slope - prices - bounds[:, None] + error) / lam
            new_high = np.where(end < 0, np.minimum(new_high, np.exp(np.minimum(end, 0.0)) * (1 + OUTWARD)), new_high)
            end = (least_slope - prices - level - error) / lam
        dead |= end > 0
        gap = np.exp(np.minimum(end, 0.0)) * (1 - OUTWARD)
        dead |= gap > new_high
        terms = low[:, :, None] * symbols
        others = np.maximum(0.0, base[:, None] - terms - _CANCELLED) * (1 - OUTWARD)
        if entropy:
            freely = free & (sure > 0)[:, None]
            spread = np.where(freely[:, :, None], (sure[:, None] + low)[:, :, None] * least[:, None], 0.0)
            rho = np.maximum(0.0, base[:, None] - terms - _CANCELLED + spread) * (1 - OUTWARD)
            ask = present & ~dead & (new_high > 0) & (rho + new_high[:, :, None] * symbols > rlo[:, None]).any(axis=2)
            node, x = np.nonzero(ask)
            if len(node):
                slope_of = symbols[x] - np.where(freely[node, x][:, None], least[node], 0.0)
                log_lo = np.log(np.maximum(rlo, np.finfo(float).tiny))
                line = _Line(search, x, rho[node, x], slope_of, rlo[node], log_lo[node])
                h, g, d = line.narrowed(new_low[node, x], new_high[node, x], gap[node, x])
                new_high[node, x], gap[node, x], dead[node, x] = h, g, d
            ratio = _summed(symbols**2, shape.bend(np.maximum(rlo[:, None], others + gap[:, :, None] * symbols), rhi))
            with np.errstate(invalid="ignore"):
                curved = lam / (lam + np.maximum(ratio * (1 + 1e-11) - 1.0, 0.0)) * (1 - 1e-10)
            gap = np.where(present & ~dead & (ratio < 1e12), np.maximum(gap, curved), gap)
        for y in np.flatnonzero((low > 0).any(axis=0)):
            rows = np.flatnonzero(low[:, y] > 0)
            todo = present[rows] & ~dead[rows]
            todo[:, y] = False
            apart = np.abs(symbols - symbols[y]) + 1e-15 * np.maximum(symbols, symbols[y])
            both = (low[rows, y][:, None] * symbols[y])[:, None] + gap[rows][:, :, None] * symbols
            bend = shape.bend(np.maximum(rlo[rows][:, None], both * (1 - OUTWARD)), rhi[rows][:, None])
            distance = _summed(apart**2, bend)
            inverse = distance * (1 + 1e-11) / lam - (1 / high[rows, y] * (1 - 1e-11))[:, None]
            dead[rows] |= todo & (inverse < 1)
            with np.errstate(divide="ignore"):
                raised = np.maximum(gap[rows], (1 - 1e-10) / inverse)
            gap[rows] = np.where(todo & (inverse >= 1) & (inverse < 1e12), raised, gap[rows])
        dead |= gap > new_high
    dead &= present
    alive &= ~(dead & (new_low > 0)).any(axis=1)
    new_high = np.where(dead, 0.0, new_high)
    gap = np.where(dead | ~present, 0.0, gap)
    new_low = np.where(~dead & (new_low > 0), np.maximum(new_low, gap), new_low)
    return alive, new_low, new_high, gap


def _summed(squares: np.ndarray, bend: np.ndarray) -> np.ndarray:
    """sum_s of the products over the last axis; 0 times infinity is 0."""
    with np.errstate(invalid="ignore"):
        return np.where(squares > 0, squares * bend, 0.0).sum(axis=-1)


@dataclass(frozen=True, eq=False)
class _Line:
    """The condition 3 for single symbols x (N,) as functions of y = ln q_x: `rho` and `slope` are a and b, (N, S)."""

    search: Search
    x: np.ndarray
    rho: np.ndarray
    slope: np.ndarray
    low: np.ndarray
    log_low: np.ndarray

    def at(self, q: np.ndarray, which: np.ndarray) -> Three:
        """(value, derivative in y, rounding error) at `q` (M,) for the functions `which` (M,)."""
        search, x = self.search, self.x[which]
        _, symbols, price, lam = search.lagrangian
        symbols, price = symbols[x], price[x]
        z = self.rho[which] + q[:, None] * self.slope[which]
        flat = z < self.low[which]
        with np.errstate(divide="ignore"):
            terms = symbols * np.where(flat, self.log_low[which], np.log(np.where(symbols > 0, z, 1.0)))
        with np.errstate(divide="ignore", invalid="ignore"):
            falls = np.where((symbols > 0) & ~flat, symbols * q[:, None] * self.slope[which] / z, 0.0)
        log_term = lam * np.log(q)
        value = log_term + price + search.level - terms.sum(axis=1)
        size = np.abs(log_term) + np.abs(price) + abs(search.level) + np.abs(terms).sum(axis=1)
        return value, lam - falls.sum(axis=1), ERROR * (symbols.shape[1] + 8) * (size + 1.0)

    def narrowed(self, low: np.ndarray, high: np.ndarray, gap: np.ndarray) -> Three:
        """(u, gap, whether q_x = 0), all (N,), from `low` <= q_x <= `high`."""
        high, gap, dead = high.copy(), gap.copy(), np.zeros(len(low), dtype=bool)
        y, moved = np.log(high), np.zeros(len(low), dtype=bool)
        todo, q = np.arange(len(low)), high
        for _ in range(NEWTON):
            value, slope, error = self.at(q[todo], todo)
            short = value + error < 0
            dead[todo[short & (slope - 1e-13 >= 0)]] = True
            hold = short & (slope + 1e-13 < 0)
            todo = todo[hold]
            y[todo] -= ((value + error) / (slope - 1e-13) * (1 - 1e-12))[hold]
            moved[todo] = True
            todo = todo[y[todo] >= -690]
            q = np.exp(y)
        high = np.where(moved & ~dead, np.minimum(high, np.exp(y) * (1 + OUTWARD)), high)
        floor = np.maximum(gap, low)
        begin = np.maximum(floor, 1e-10)
        y, moved = np.log(begin), np.zeros(len(low), dtype=bool)
        todo, q = np.flatnonzero(~dead & (begin <= high)), begin
        for _ in range(NEWTON):
            value, slope, error = self.at(q[todo], todo)
            short = value + error < 0
            falling = short & (slope + 1e-13 <= 0)
            dead[todo[falling & (moved[todo] | (begin[todo] <= floor[todo]))]] = True
            cut = todo[falling & ~moved[todo]]
            high[cut] = np.maximum(np.minimum(high[cut], begin[cut]), low[cut])
            hold = short & (slope - 1e-13 > 0)
            todo = todo[hold]
            y[todo] -= ((value + error) / (slope + 1e-13) * (1 - 1e-12))[hold]
            moved[todo] = True
            dead[todo[y[todo] > 0]] = True
            todo = todo[y[todo] <= 0]
            q = np.exp(np.minimum(y, 0.0))
        gap = np.where(moved & ~dead, np.maximum(gap, np.exp(np.minimum(y, 0.0)) * (1 - OUTWARD)), gap)
        return high, gap, dead


def _values(search: Search, q: np.ndarray) -> np.ndarray:
    return np.where(np.abs(q.sum(axis=1) - 1) < 1e-9, search.lagrangian.at(q), np.inf)


def _reduced(margin: np.ndarray, relaxation: Relaxed, low: np.ndarray, high: np.ndarray) -> Three:
    """(l, u (N, X), width lost (N,)): step 5."""
    d, error = relaxation.costs - relaxation.level[:, None], relaxation.error[:, None]
    free, margin = high > low, margin[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        top = (low + margin / (d - 2 * error)) * (1 + OUTWARD)
        end = (high - margin / (-d - 2 * error)) * (1 - OUTWARD) - OUTWARD
    down, up = free & (d > 4 * error) & (top < high), free & (d < -4 * error) & (end > low)
    lost = np.where(down, high - top, 0.0).sum(axis=1) + np.where(up, end - low, 0.0).sum(axis=1)
    return np.where(up, end, low), np.where(down, top, high), lost


def _divided(search: Search, rows: np.ndarray, gap: np.ndarray, bounds: np.ndarray) -> Three:
    """(symbol, cut, gap) where lambda H loses most by its chord."""
    _, _, prices, lam = search.lagrangian
    size = len(prices)
    low, high, q = rows[:, :size], rows[:, size : 2 * size], rows[:, 2 * size : 3 * size]
    free = high > low
    at = np.minimum(np.maximum(q, low), high)
    ends = -xlogx(low), -xlogx(high)
    chord = ends[0] + (ends[1] - ends[0]) / np.where(free, high - low, 1.0) * (at - low)
    above = np.where(free, -xlogx(at) - chord, 0.0)
    x, row = above.argmax(axis=1), np.arange(len(rows))
    helps = (bounds <= search.level) & (lam * above[row, x] >= 1e-14)
    begin, wide, inner = low[row, x], (high - low)[row, x], q[row, x]
    cut = inner + TO_MIDDLE * (begin + 0.5 * wide - inner)
    cut = np.minimum(np.maximum(cut, begin + INSET * wide), high[row, x] - INSET * wide)
    apart = (begin <= 0) & (cut < gap[row, x])
    upper = np.where(apart, np.minimum(gap[row, x], high[row, x]), cut)
    return np.where(helps, x, -1), np.where(helps & ~apart, cut, 0.0), np.where(helps, upper, 0.0)
