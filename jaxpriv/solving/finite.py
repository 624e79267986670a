"""Budgets without room under a measure that is infinite where an output excludes a private symbol.

Such a measure is finite exactly if it is for every output by itself. Outputs that exclude a symbol although every entry
that the budgets allow is used are of no use; without them the budgets may allow fewer entries, and so on, until all
outputs are of use or no mechanism is left.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from jaxpriv.problems.feasibility import Face
from jaxpriv.problems.program import Program

# The tolerance of the linear program, whose entries are 0, or 1 and more.
_LINEAR = 1e-10


def finite_on(program: Program, face: Face, leak: Callable[[np.ndarray], float]) -> np.ndarray | None:
    """A mechanism on the face whose `leak` is finite, positive wherever one of these is; None if all are infinite."""
    mechanism: np.ndarray | None = face.inside
    on_face = face.restricted(program)
    support = on_face.support
    while mechanism is not None and math.isinf(leak(mechanism)):
        useless = [y for y, column in enumerate(mechanism.T) if math.isinf(leak(_beside_the_rest(column)))]
        support = support.copy()
        support[:, useless] = False
        mechanism = _most_positive(dataclasses.replace(on_face, support=support))
        if mechanism is not None:
            mechanism = face.onto(program, mechanism)
    return mechanism


def _beside_the_rest(column: np.ndarray) -> np.ndarray:
    """The mechanism with half of this output's column, and all the rest of the mass in a second output."""
    return np.stack([0.5 * column, 1.0 - 0.5 * column], axis=1)


def _most_positive(program: Program) -> np.ndarray | None:
    """The mechanism within the budgets that is positive wherever one is on the support; None if there is none.

    max sum min(V, 1) over multiples V of mechanisms: where a mechanism may be positive, a large enough multiple is
    above 1.
    """
    from scipy.optimize import linprog  # costs a third of a second: imported where needed
    from scipy.sparse import coo_array, eye_array, hstack, kron, vstack

    inputs, outputs = program.support.shape
    at = np.flatnonzero(program.support.ravel())
    count, none = len(at), coo_array((inputs, len(at)))
    sums = kron(eye_array(inputs), np.ones((1, outputs)), format="csr")[:, at]
    equal = [hstack([sums, none, coo_array(-np.ones((inputs, 1)))])]
    upper = [hstack([-eye_array(count), eye_array(count), coo_array((count, 1))])]
    floors = program.constraints.min(axis=2)
    above = program.constraints - floors[:, :, None]
    sizes = above.max(axis=2).sum(axis=1)
    for r, size in enumerate(np.where(sizes > 0, sizes, 1.0)):
        room = program.budgets[r] - floors[r].sum()
        row = np.concatenate([above[r].ravel()[at], np.zeros(count), [-room]]) / size
        held = program.equal is not None and bool(program.equal[r])
        (equal if held else upper).append(coo_array(row[None]))
    result = linprog(
        np.concatenate([np.zeros(count), -np.ones(count), [0.0]]),
        vstack(upper),
        np.zeros(count + len(upper) - 1),
        vstack(equal),
        np.zeros(inputs + len(equal) - 1),
        [(0, None)] * count + [(0, 1)] * count + [(1, None)],
        method="highs",
        options={"primal_feasibility_tolerance": _LINEAR, "dual_feasibility_tolerance": _LINEAR},
    )
    if result.status == 2:
        return None
    if result.status != 0:  # bounded, so this is a failure of the backend
        raise ArithmeticError(f"the linear program of the face's finite mechanisms failed: {result.message}")
    mechanism = np.zeros(program.support.size)
    mechanism[at] = np.where(result.x[count:-1] > 0.5, np.maximum(result.x[:count], 0.0), 0.0)
    mechanism = mechanism.reshape(program.support.shape)
    return mechanism / mechanism.sum(axis=1, keepdims=True)
