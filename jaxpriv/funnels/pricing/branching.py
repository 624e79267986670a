"""The least value of f(q) = -H(Tq) + lambda H(q) - nu.q on faces of the simplex, by branch and bound.

A face is the set of distributions on k symbols; the minimum over the simplex is attained in the interior of one of its
faces. So faces are searched one size after the other, each for minima in its interior only, cell by cell. Let F be the
threshold (the best value known, less the tolerance). A cell with vertices v_j is done with as soon as one of these
shows f >= F on it, or that no interior minimum lies in it:

1. Tangent and vertices. For any distribution z on S, -H(r) >= sum_s r_s ln z_s; lambda H is concave. So
       f >= min_j [ sum_s (T v_j)_s ln z_s + lambda H(v_j) - nu.v_j ],     z = T times the centre.
2. The face below. Let q = (1 - t) q' + t e_i with q'_i = 0. With z = r' = Tq' the tangent gives
       f(q) >= (1 - t) f(q') + lambda h(t) - t (nu_i + c_i(r')),           c_i(r') = -sum_s T_si ln r'_s,
   and q' lies on a smaller face: if f >= F holds there, it holds at q where lambda h(t)/t >= F + nu_i + c_i(r').
   h(t)/t falls and c_i is convex: the largest t of the cell and its projected vertices decide. This is what disposes
   of the neighbourhood of a face, where lambda H is steep, and keeps one atom from being found in every face above it.
   (If only f >= B is known below, B <= F, then f(q) >= (1 - t) B + t F >= B: no error grows.)
3. A direction that curves downwards everywhere in the cell: no interior minimum.
4. f convex on the hull of the cell and a point z: f >= min_j g(z).v_j, tangent at z. With z from Newton's method this
   is the exact minimum: cells about a minimiser need not be halved until they vanish.

Other cells are halved. Rounding: see `Threshold`.
"""

from dataclasses import dataclass, field, fields

import numpy as np

from jaxpriv._clock import ENDLESS, Clock
from jaxpriv.funnels.pricing.branch_cells import DEPTH, EPS, distances, halves, xlogx
from jaxpriv.funnels.pricing.branch_curvature import gradient, stationary, surely_convex, surely_saddle

# Faces looked at together: what fits a fast memory.
_TOGETHER = 4096
# Cells that are tested together: some tenths of a second at most.
_AT_A_TIME = 16384
# Tangents tried on a cell.
_TANGENTS = 4
# So few cells cost no more than one: they are halved once more before they are looked at.
_FEW = 512


@dataclass
class Threshold:
    """What the search has to show, and what it found.

    Sums of m + k products with entropies of at most ln(m k) and prices of at most |nu|: an error of m + k + 10 eps of
    the sum of the absolute terms, and of DEPTH eps of it for vertices that are not where they should be (a relative
    change u of q changes q ln q by at most u (q |ln q| + q)). `slack` exceeds both.

    Attributes:
        tolerance: the search shows f >= value - tolerance - slack.
        budget: cells left to be looked at.
        value: the least f known, of a point.
        open: no cell that was given up has a value below.
        clock: once it has expired no cells are left to be looked at.
        best: r = Tq of the best point offered, (S,).
        points, values: what was offered, posteriors (n, X) and their f (n,).
    """

    tolerance: float
    budget: int
    slack: float
    value: float = np.inf
    open: float = np.inf
    clock: Clock = ENDLESS
    best: np.ndarray | None = None
    points: list[np.ndarray] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)

    @property
    def level(self) -> float:
        """F."""
        return self.value - self.tolerance

    @property
    def bound(self) -> float:
        """A lower bound on f."""
        return min(self.level, self.open) - self.slack

    def offer(self, symbols: np.ndarray, weights: np.ndarray, values: np.ndarray, mixed: np.ndarray, size: int) -> None:
        """Points with `weights` (n, k) on `symbols` (n, k) of `size` useful symbols; `mixed` is their r (n, S)."""
        known = np.isfinite(values)
        if not known.any():
            return
        symbols, weights, values, mixed = symbols[known], weights[known], values[known], mixed[known]
        posteriors = np.zeros((len(values), size))
        np.put_along_axis(posteriors, symbols, weights, axis=1)
        self.points.append(posteriors)
        self.values.append(values)
        if values.min() < self.value:
            self.value, self.best = float(values.min()), mixed[values.argmin()]


def threshold(
    prices: np.ndarray, lam: float, private: int, largest: int, tolerance: float, budget: int, clock: Clock = ENDLESS
) -> Threshold:
    """The start of a search over faces of at most `largest` symbols."""
    size = 2.0 + 2.0 * np.log(private * largest) + lam * np.log(largest) + float(np.abs(prices).max())
    return Threshold(tolerance, budget, slack=2 * DEPTH * EPS * size, clock=clock)


def search(conditional: np.ndarray, symbols: np.ndarray, prices: np.ndarray, lam: float, state: Threshold) -> None:
    """Search the faces over `symbols` (N, k) for T = `conditional` (S, X); all smaller faces were searched before."""
    if symbols.shape[1] == 1:
        only = symbols[:, 0]
        values = xlogx(conditional[:, only]).sum(axis=0) - prices[only]
        state.offer(symbols, np.ones((len(only), 1)), values, conditional.T[only], len(prices))
        return
    for start in range(0, len(symbols), _TOGETHER):
        part = symbols[start : start + _TOGETHER]
        size = part.shape[1]
        columns = conditional.T[part]
        cells = _Cells(part, columns, np.broadcast_to(np.eye(size), (len(part), size, size)), columns)
        for _ in range(DEPTH // 2):
            cells = _together(cells, prices, lam, state)
            if not len(cells.vertices):
                break
            cells = cells.halved(lam)
            if len(cells.vertices) < _FEW:
                cells = cells.halved(lam)
        else:
            state.budget = -1  # their bounds count as they are
            _together(cells, prices, lam, state)


@dataclass(frozen=True)
class _Cells:
    """Cells on faces: symbols (C, k), T of the symbols (C, k, S), vertices (C, k, k), T of the vertices (C, k, S)."""

    symbols: np.ndarray
    columns: np.ndarray
    vertices: np.ndarray
    mixed: np.ndarray

    def __getitem__(self, index: np.ndarray) -> "_Cells":
        return _Cells(self.symbols[index], self.columns[index], self.vertices[index], self.mixed[index])

    def halved(self, lam: float) -> "_Cells":
        vertices = halves(self.vertices, lam * distances(self.vertices) + distances(self.mixed))
        columns = np.concatenate([self.columns] * 2)
        return _Cells(np.concatenate([self.symbols] * 2), columns, vertices, vertices @ columns)


def _concave(cells: _Cells, prices: np.ndarray, lam: float) -> np.ndarray:
    """lambda H(v) - nu.v at the vertices, (C, k)."""
    return -lam * xlogx(cells.vertices).sum(axis=2) - (cells.vertices @ prices[cells.symbols][:, :, None])[:, :, 0]


def _tangent(cells: _Cells, at: np.ndarray) -> np.ndarray:
    """sum_s r_s ln z_s at the vertices, (C, k), for z = `at` (C or 1, S), positive where the cell has r_s > 0."""
    logs = np.log(np.where(at > 0, at, 1.0))
    return (cells.mixed @ logs[:, :, None])[:, :, 0]


def _together(cells: _Cells, prices: np.ndarray, lam: float, state: Threshold) -> _Cells:
    """`_undecided` of so many cells at a time that the clock is asked often enough."""
    if len(cells.vertices) <= _AT_A_TIME:
        return _undecided(cells, prices, lam, state)
    places = np.array_split(np.arange(len(cells.vertices)), -(-len(cells.vertices) // _AT_A_TIME))
    parts = [_undecided(cells[place], prices, lam, state) for place in places]
    return _Cells(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(_Cells)))


def _undecided(cells: _Cells, prices: np.ndarray, lam: float, state: Threshold) -> _Cells:
    """The cells that none of the four tests disposes of."""
    concave = _concave(cells, prices, lam)
    values = xlogx(cells.mixed).sum(axis=2) + concave
    state.value = min(state.value, float(values.min()))
    state.budget = -1 if state.clock.expired() else state.budget - len(values)
    bounds = (_tangent(cells, cells.mixed.mean(axis=1)) + concave).min(axis=1)
    if state.best is not None and (state.best > 0).all():  # minimisers often share one r
        bounds = np.maximum(bounds, (_tangent(cells, state.best[None]) + concave).min(axis=1))
    left = np.flatnonzero(~(bounds >= state.level))
    if state.budget < 0 and len(left):
        state.open = min(state.open, float(bounds.min()))
        left = left[:0]
    if len(left):
        left = left[_relaxed(cells[left], concave[left], state.level)]
    cells = cells[left]
    for test in (_near_face, _saddle, _convex):
        if not len(cells.vertices):
            break
        cells = cells[np.flatnonzero(~test(cells, prices, lam, state))]
    return cells


def _relaxed(cells: _Cells, concave: np.ndarray, level: float) -> np.ndarray:
    """Which cells test 1 leaves when z goes towards where it is weakest: the minimiser of the relaxed problem."""
    share = np.full(concave.shape, 1.0 / concave.shape[1])
    left = np.arange(len(concave))
    for _ in range(_TANGENTS):
        mixed = (share[left][:, None, :] @ cells.mixed[left])[:, 0]
        at_vertices = _tangent(cells[left], mixed) + concave[left]
        lowest = at_vertices.min(axis=1)
        width = at_vertices.max(axis=1) - lowest
        hold = ~(lowest >= level)
        left, at_vertices = left[hold], at_vertices[hold]
        if not len(left):
            break
        steps = np.exp(-2.0 * (at_vertices - lowest[hold, None]) / (width[hold, None] + EPS))
        share[left] *= steps
        share[left] /= share[left].sum(axis=1, keepdims=True)
    return left


def _near_face(cells: _Cells, prices: np.ndarray, lam: float, state: Threshold) -> np.ndarray:
    """Test 2, for every symbol of the face at once."""
    size = cells.vertices.shape[1]
    share = cells.vertices.max(axis=1)  # (C, i), the largest t
    others = cells.vertices[:, None] * (1.0 - np.eye(size))[:, None, :]  # (C, i, j, k)
    left = others.sum(axis=3)
    below = (others @ cells.columns[:, None]) / np.where(left > 0, left, 1.0)[..., None]
    with np.errstate(divide="ignore"):
        logs = np.log(below)
    column = cells.columns[:, :, None]
    cost = np.where(column > 0, -column * np.where(column > 0, logs, 0.0), 0.0).sum(axis=3).max(axis=2)
    able = (share > 0) & (share < 1)
    t = np.where(able, share, 0.5)
    gain = lam * (-np.log(t) - (1 - t) * np.log1p(-t) / t)
    price = prices[cells.symbols]
    margin = 64 * EPS * (gain + cost + np.abs(price) + abs(state.level))
    return (able & (gain >= state.level + price + cost + margin)).any(axis=1)


def _saddle(cells: _Cells, _prices: np.ndarray, lam: float, _state: Threshold) -> np.ndarray:
    """Test 3."""
    if lam == 0:
        return np.zeros(len(cells.vertices), dtype=bool)
    return surely_saddle(cells.columns, cells.mixed.min(axis=1), cells.vertices.max(axis=1), lam)


def _convex(cells: _Cells, prices: np.ndarray, lam: float, state: Threshold) -> np.ndarray:
    """Test 4."""
    done = np.zeros(len(cells.vertices), dtype=bool)
    least, most = cells.vertices.min(axis=1), cells.mixed.max(axis=1)
    able = np.flatnonzero(surely_convex(cells.columns, most, least, lam))
    if not len(able):
        return done
    few, nu = cells[able], prices[cells.symbols[able]]
    centre = few.vertices.mean(axis=1)
    slope, _ = gradient(few.columns, centre, nu, lam)
    bounds = (few.vertices @ slope[:, :, None])[:, :, 0].min(axis=1)
    done[able] = bounds >= state.level
    open_ = ~(bounds >= state.level)
    able = able[open_]
    if not len(able):
        return done
    few, nu, centre = cells[able], prices[cells.symbols[able]], centre[open_]
    point = stationary(few.columns, centre, nu, lam)
    slope, mixed = gradient(few.columns, point, nu, lam)
    sure = surely_convex(few.columns, np.maximum(most[able], mixed), np.minimum(least[able], point), lam)
    values = (slope * point).sum(axis=1)
    state.offer(few.symbols, point, values, mixed, len(prices))
    bounds = (few.vertices @ slope[:, :, None])[:, :, 0].min(axis=1)
    done[able] = sure & (bounds >= state.level)
    return done
