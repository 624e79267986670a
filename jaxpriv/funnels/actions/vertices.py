"""The posteriors that a funnel of finitely many actions needs: vertices of the regions where the same actions are best.

phi is linear on each region and -lambda b is concave, so a least value of phi(q) - lambda b(q) - nu.q is at a vertex: a
posterior of k symbols at which k - 1 equations hold, C_a.q = C_a'.q for the best actions (of actions that are taken
each on its own: C_a.q = 0). There are up to binomial(|X| + A, A) of them. `neighbours` has those that differ from known
ones in one symbol or one action, `rounded` goes from any posterior to a vertex that is no worse, and `faces`
lists those of a few symbols.
"""

import numpy as np

from jaxpriv.funnels.gains import Worth

# Entries of a posterior below this are zero, and actions this close to the best one are as good.
_TRACE, _TIED = 1e-10, 1e-8
# An action that is better than those of a vertex by more than this shows that it lies in another region.
_OUTSIDE = 1e-10
# Systems solved in one call; with more symbols than that allows a random part of the neighbours is taken.
_SYSTEMS = 150_000
# Linear programs on the way from a posterior to a vertex: each is no worse than the one before, and few are needed.
_PROGRAMS = 6
# The slope of q ln q where q is 0, in place of minus infinity: a symbol of this mass is as good as absent.
_ABSENT = 1e-9


def neighbours(worth: Worth, posteriors: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Vertices (N, X) that share all but one symbol or action with one of `posteriors`, which are vertices, too."""
    symbols, actions = np.arange(worth.table.shape[1]), np.arange(len(worth.table))
    systems: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
    each = max(1, _SYSTEMS // max(1, len(posteriors)))
    for q in posteriors:
        support, tied = _set_of(worth, q)
        if len(tied) < len(support) - (not worth.single):
            continue
        tied = tied[: len(support) - (not worth.single)]
        others, idle = np.setdiff1d(symbols, support), np.setdiff1d(actions, tied)
        most = max(1, each // (len(support) + len(idle) + 1))
        if len(others) > most:
            others = random.choice(others, most, replace=False)
        for part in (
            _product(_swapped(support, others), tied[None]),
            _product(support[None], _swapped(tied, idle)),
            _product(_without(support), _without(tied)),
            _product(_with(support, others), _with(tied, idle)),
        ):
            if len(part[0]):
                systems.setdefault(part[0].shape[1], []).append(part)
    vertices = [np.empty((0, len(symbols)))]
    for parts in systems.values():
        supports, ties = (np.vstack(arrays) for arrays in zip(*parts, strict=True))
        vertices.append(_solved(worth, supports, ties))
    return np.vstack(vertices)


def _set_of(worth: Worth, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(symbols, actions) of a vertex: what is possible, and what is as good as the best (or nothing)."""
    gains = worth.table @ q
    return np.flatnonzero(q > _TRACE), np.flatnonzero(np.abs(gains - (gains.max() if worth.single else 0.0)) <= _TIED)


def _swapped(chosen: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Each one of `chosen` exchanged for each one of `others`."""
    rows = np.tile(chosen, (len(chosen), len(others), 1))
    for place in range(len(chosen)):
        rows[place, :, place] = others
    return rows.reshape(len(chosen) * len(others), len(chosen))


def _without(chosen: np.ndarray) -> np.ndarray:
    """Each one of `chosen` left out."""
    remaining = ~np.eye(len(chosen), dtype=bool)
    return np.broadcast_to(chosen, remaining.shape)[remaining].reshape(len(chosen), max(0, len(chosen) - 1))


def _with(chosen: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Each one of `others` added."""
    return np.column_stack([np.tile(chosen, (len(others), 1)), others])


def _product(supports: np.ndarray, ties: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of a row of each, where supports of at least one symbol are left."""
    if not supports.shape[1]:
        return supports[:0], ties[:0]
    return np.repeat(supports, len(ties), axis=0), np.tile(ties, (len(supports), 1))


def _solved(worth: Worth, supports: np.ndarray, ties: np.ndarray) -> np.ndarray:
    """The posteriors of the `supports` (N, k) at which the actions `ties` are as good as each other, if there are any.

    The table has to have as many equations as a vertex needs; systems without one solution have no vertex.
    """
    count, size = supports.shape
    matrix = np.ones((count, size, size))
    gains = worth.table[ties[:, :, None], supports[:, None, :]]
    matrix[:, : size - 1] = gains[:, 1:] - gains[:, :1] if worth.single else gains
    right = np.zeros((size, 1))
    right[-1] = 1.0
    regular = np.linalg.det(matrix) != 0
    supports, ties, matrix = supports[regular], ties[regular], matrix[regular]
    entries = np.linalg.solve(matrix, np.broadcast_to(right, (len(matrix), size, 1)))[..., 0]
    inside = np.isfinite(entries).all(axis=1) & (entries > _TRACE).all(axis=1)
    posteriors = np.zeros((int(inside.sum()), worth.table.shape[1]))
    np.put_along_axis(posteriors, supports[inside], entries[inside], axis=1)
    posteriors /= posteriors.sum(axis=1, keepdims=True)
    if worth.single and len(posteriors):
        gains = posteriors @ worth.table.T
        level = np.take_along_axis(gains, ties[inside][:, :1], axis=1)[:, 0]
        posteriors = posteriors[gains.max(axis=1) <= level + _OUTSIDE]
    return posteriors


def rounded(worth: Worth, prices: np.ndarray, lam: float, q: np.ndarray) -> np.ndarray:
    """A vertex at which phi(q) + lambda H(q) - prices.q is no larger than at q.

    H lies below its tangents: the least value of phi plus the tangent at the last posterior, a linear program, is at a
    vertex that is no worse than that posterior.
    """
    free = np.zeros(len(q)), np.full(len(q), np.inf)
    for _ in range(_PROGRAMS):
        slope = -lam * np.log(np.maximum(q, _ABSENT)) - prices
        solved = least_linear(worth.table, worth.single, slope, *free)
        if solved is None:
            break
        new = np.where(solved[1] > _TRACE, solved[1], 0.0)
        new /= new.sum()
        if np.abs(new - q).max() <= _TRACE:
            break
        q = new
    return q


def least_linear(
    table: np.ndarray, single: bool, slope: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """(the weights mu of the actions, q) of the least phi(q) + slope.q over low <= q <= high, sum q = 1.

    None where the backend fails.
    """
    from scipy.optimize import linprog  # costs a third of a second: imported where needed

    actions, size = table.shape
    # One number that is at least every gain, or one for each action that is at least its gain and 0.
    tops = 1 if single else actions
    above = np.hstack([table, -np.ones((actions, 1)) if single else -np.eye(actions)])
    ends = np.tile([-np.inf if single else 0.0, np.inf], (tops, 1))
    bounds = np.vstack([np.column_stack([low, high]), ends])
    whole = np.append(np.ones(size), np.zeros(tops))[None]
    cost = np.append(slope, np.ones(tops))
    result = linprog(cost, above, np.zeros(actions), whole, [1.0], bounds, method="highs-ds")
    return (-result.ineqlin.marginals, result.x[:size]) if result.status == 0 else None
