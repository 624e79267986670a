"""From posteriors over types back to posteriors over symbols, by rotation.

A recipe holds how many members of a type are raised. Put the members on a circle of length one and turn a window:
averaged over the rotation u every member is raised equally often, as the linear program over types assumed. Between
two breakpoints the raised set is constant, so a posterior of types becomes at most 2|X| posteriors of symbols, each
with its arc as weight.

Sets are raised in two ways. By membership: symbol i with phase phi_i is raised while u - phi_i lies in [0, share):
counts of a type stay exact. By coverage (lift bounds): symbol i is an arc as long as its mass, and its lift grows
with the part of the arc inside the window: the mass of the window stays exact, one symbol is between the bounds.
Coverage is linear in u between breakpoints, so its average over an arc is that of the two ends, where the posterior
is a vertex.
"""

from dataclasses import dataclass, field

import numpy as np

from jaxpriv.extremal.split import Split

# Points of the circle that are closer than this differ by rounding only.
_SAME = 1e-12


@dataclass(frozen=True)
class Recipe:
    """A posterior over types: lifts `low` and `high`, `counts[g]` raised members of each heavy type.

    Attributes:
        light: the share of the pool that is raised.
        lift: that of the member between the bounds, if there is one.
        between: its heavy type, or None.
        windowed: raise the pool by coverage instead of membership.
    """

    low: float
    high: float
    counts: np.ndarray = field(repr=False)
    light: float = 0.0
    lift: float = 1.0
    between: int | None = None
    windowed: bool = False


@dataclass(frozen=True)
class _Ring:
    """Symbols on the circle: where each begins, how long it is, and how long the window is."""

    symbols: np.ndarray
    start: np.ndarray
    length: np.ndarray
    window: float


def unroll(recipe: Recipe, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """(lifts (n, X), weights (n,) of total one up to rounding) for one recipe."""
    base = np.full(len(split.source), recipe.low)
    member, cover = [], []
    for g, symbols in enumerate(split.members):
        n, raised = len(symbols), float(recipe.counts[g])
        ring = _Ring(symbols, np.arange(n) / n, np.full(n, 1.0 / n), raised / n)
        if recipe.between == g:
            extra = (recipe.lift - recipe.low) / (recipe.high - recipe.low)
            cover.append(_Ring(symbols, ring.start, ring.length, (raised + extra) / n))
        elif 0 < raised < n:
            member.append(ring)
        elif raised == n:
            base[symbols] = recipe.high
    if len(split.light):
        symbols = split.light
        if recipe.light in (0.0, 1.0):
            base[symbols] = recipe.high if recipe.light else recipe.low
        else:
            length = split.source[symbols] / split.light_mass
            ring = _Ring(symbols, np.concatenate([[0.0], np.cumsum(length)[:-1]]), length, recipe.light)
            (cover if recipe.windowed else member).append(ring)
    rows, weights = _turn(base, recipe, member, cover)
    # The mass of the raised set varies as whole symbols come and go: each row is a posterior for itself.
    totals = rows @ split.source
    return rows / totals[:, None], weights * totals


def _turn(base: np.ndarray, recipe: Recipe, member: list[_Ring], cover: list[_Ring]) -> tuple[np.ndarray, np.ndarray]:
    """The posteriors over one full turn; membership and coverage turn apart and are then laid side by side.

    Any coupling of the two keeps both averages; this one has no more rows than both have together.
    """
    raised, arcs = _member_states(member)
    parts, shares = _cover_states(cover)
    cuts = np.unique(np.append(np.cumsum(arcs)[:-1], np.append(np.cumsum(shares)[:-1], [0.0, 1.0])))
    cuts = np.append(cuts[:-1][np.diff(cuts) > _SAME], 1.0)
    middle = 0.5 * (cuts[:-1] + cuts[1:])
    rows = np.tile(base, (len(middle), 1))
    width = recipe.high - recipe.low
    for rings, states, weights in ((member, raised, arcs), (cover, parts, shares)):
        state = np.searchsorted(np.cumsum(weights)[:-1], middle)
        for ring, table in zip(rings, states, strict=True):
            rows[:, ring.symbols] = recipe.low + width * table[state]
    return rows, np.diff(cuts)


def _arcs(breakpoints: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(begin, length) of the arcs between breakpoints; arcs that only rounding made are left out."""
    points = np.unique(np.concatenate([np.zeros(1), *breakpoints]) % 1.0)
    arcs = np.diff(np.append(points, 1.0))
    return points[arcs > _SAME], arcs[arcs > _SAME] / arcs[arcs > _SAME].sum()


def _member_states(rings: list[_Ring]) -> tuple[list[np.ndarray], np.ndarray]:
    """(for each ring which symbols are raised on each arc, the arcs)."""
    if not rings:
        return [], np.ones(1)
    points, arcs = _arcs([np.append(ring.start, ring.start + ring.window) for ring in rings])
    middle = points + 0.5 * arcs
    return [((middle[:, None] - ring.start) % 1.0 < ring.window).astype(np.float64) for ring in rings], arcs


def _cover_states(rings: list[_Ring]) -> tuple[list[np.ndarray], np.ndarray]:
    """(for each ring how far each symbol is raised at each breakpoint, half the arcs on both sides)."""
    if not rings:
        return [], np.ones(1)
    if all(len(ring.symbols) == 1 for ring in rings):  # nothing turns
        return [np.array([[ring.window]]) for ring in rings], np.ones(1)
    points, arcs = _arcs([np.append(ring.start, ring.start - ring.window) for ring in rings])
    return [_covered(points, ring) for ring in rings], 0.5 * (arcs + np.roll(arcs, 1))


def _covered(u: np.ndarray, ring: _Ring) -> np.ndarray:
    """The part of each symbol's arc inside the window [u, u + window), on the circle."""
    inside = np.zeros((len(u), len(ring.symbols)))
    for turn in (-1.0, 0.0, 1.0):
        begin = ring.start[None, :] + turn
        overlap = np.minimum(begin + ring.length, u[:, None] + ring.window) - np.maximum(begin, u[:, None])
        inside += np.maximum(overlap, 0.0)
    part = inside / ring.length
    # Ends of arcs and window meet at breakpoints up to rounding: a whole arc is raised, or none of it.
    part[part < _SAME] = 0.0
    return np.where(part > 1.0 - _SAME, 1.0, part)
