"""Vertices of small faces, with what rounding may change: a part of the proof of `search`."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from jaxpriv.funnels.gains import best

# A posterior that rounding may move by more than this proves nothing.
_POOR = 1e-4


@dataclass(frozen=True, eq=False)
class Faces:
    """The least value of phi(q) + lambda H(q) - nu.q on faces of the simplex, shape (N,) and (N, n).

    Attributes:
        values: no q of the face, with no other best actions than those allowed, has less; rounding included.
        sure: whether that is known.
        points: where it is.
    """

    values: np.ndarray
    sure: np.ndarray
    points: np.ndarray


def least_on_faces(table: np.ndarray, single: bool, costs: np.ndarray, lam: float, tied: np.ndarray) -> Faces:
    """All vertices of N faces of n symbols each.

    Args:
        table: the gains of every face, (N, A, n).
        single: as in `Gains`.
        costs: -nu, (N, n).
        lam: lambda.
        tied: which actions may be as good as each other (each on its own: gain nothing), (N, A).
    """
    count, actions, size = table.shape
    values, points = np.full(count, np.inf), np.zeros((count, size))
    sure = np.ones(count, dtype=bool)
    for chosen in range(1, size + 1):
        parts = np.array(list(combinations(range(size), chosen)))
        width = chosen if single else chosen - 1
        # Of one symbol nothing is tied.
        sets = list(combinations(range(actions), width)) if chosen > 1 else [(0,) * width]
        ties = np.array(sets, dtype=int).reshape(len(sets), width)
        allowed = tied[:, ties].all(axis=2) | (chosen == 1)
        face, tie = np.nonzero(allowed)
        for part in parts:
            part_table = table[face][:, :, part]
            equal = np.take_along_axis(part_table, ties[tie][:, :, None], axis=1)
            q, error, settled = _sure_solutions(equal[:, 1:] - equal[:, :1] if single else equal)
            sure[face[~settled]] = False
            inside = settled & (q >= -error[:, None]).all(axis=1)
            q, error, part_table, at = np.maximum(q[inside], 0.0), error[inside], part_table[inside], face[inside]
            q /= q.sum(axis=1, keepdims=True)
            cost = costs[at][:, part]
            gains = best((part_table @ q[:, :, None])[..., 0], single)
            value = gains + (cost * q).sum(axis=1) - lam * (q * np.log(np.where(q > 0, q, 1.0))).sum(axis=1)
            # An entry moved by e moves -q ln q by at most e ( ln(1/e) + 1 ); renormalised, by twice as much.
            steep = np.abs(part_table).sum(axis=1).max(axis=1) + np.abs(cost).max(axis=1)
            value -= 2 * chosen * error * (steep + lam * (1.0 - np.log(np.maximum(error, 1e-300))))
            order = np.argsort(-value, kind="stable")  # the least of each face is written last
            at, value, q = at[order], value[order], q[order]
            less = value < values[at]
            values[at[less]] = value[less]
            whole = np.zeros((int(less.sum()), size))
            whole[:, part] = q[less]
            points[at[less]] = whole
    return Faces(values, sure, points)


def _sure_solutions(equations: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(q (N, k) with equations.q = 0 and sum 1, what each entry may miss, whether that is known) of (N, k - 1, k).

    Equations that are the same or none, and equal columns, have no vertex: those are known and outside of the simplex.
    """
    count, _, size = equations.shape
    matrix = np.concatenate([equations, np.ones((count, 1, size))], axis=1)
    none = (matrix == 0).all(axis=2).any(axis=1)
    for first, second in combinations(range(size), 2):
        none |= (matrix[:, first] == matrix[:, second]).all(axis=1) | (matrix[:, :, first] == matrix[:, :, second]).all(
            axis=1
        )
    solved = ~none & (np.linalg.det(matrix) != 0)
    q, error = np.full((count, size), -1.0), np.zeros(count)
    inverse = np.linalg.inv(matrix[solved])
    solution = inverse[:, :, -1]
    far = np.abs(inverse).sum(axis=2).max(axis=1)
    left = np.abs(np.eye(size) - inverse @ matrix[solved]).sum(axis=2).max(axis=1)
    rest = (matrix[solved] @ solution[:, :, None])[..., 0]
    rest[:, -1] -= 1.0
    largest = np.abs(matrix[solved]).max(axis=(1, 2)) * np.maximum(np.abs(solution).max(axis=1), 1.0)
    rounding = 8 * (size + 2) ** 2 * float(np.finfo(np.float64).eps)
    missed = far * (np.abs(rest).max(axis=1) + rounding * largest) / np.maximum(1.0 - left, 0.5)
    good = (left < 0.25) & (missed <= _POOR) & np.isfinite(missed)
    q[solved], error[solved] = solution, missed
    solved[solved] = good
    return q, error, solved | none
