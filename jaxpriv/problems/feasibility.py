"""Can the budgets be met at all? The least distortion, a mechanism that attains it, and the proof if not.

For weights a >= 0 on the constraints, every mechanism has

    sum_r a_r <constraints_r, W> >= sum_x min_y sum_r a_r constraints_r(x, y) =: bound(a),

so bound(a) > a . budgets proves that no mechanism exists. Conversely the largest excess of
bound(a) over a . budgets on the simplex is attained (linear programming duality) by a feasible W
whenever it is <= 0.
"""

from dataclasses import dataclass

import numpy as np

from jaxpriv._numerics import unit_of
from jaxpriv._types import Arr
from jaxpriv.problems.program import Program

# Budgets closer than this (relative) to the least attainable value are taken as equal to it.
BOUNDARY = 1e-12


@dataclass(frozen=True)
class Feasibility:
    """How the budgets stand to what is attainable.

    Attributes:
        mechanism: meets every budget if `excess <= 0`, as far inside as the LP found.
        weights: a in the simplex, the proof.
        bound: bound(a).
        allowed: a . budgets.
        boundary: the budgets leave no room: every feasible mechanism attains bound(a), so its
            support lies where the weighted cost is least.
    """

    mechanism: np.ndarray
    weights: np.ndarray
    bound: float
    allowed: float
    feasible: bool
    boundary: bool


def cheapest(costs: Arr) -> np.ndarray:
    """The deterministic mechanism that releases argmin_y costs[x, y] (ties: the first)."""
    mechanism = np.zeros(costs.shape)
    mechanism[np.arange(len(costs)), costs.argmin(axis=1)] = 1.0
    return mechanism


def check(program: Program) -> Feasibility:
    """Decide feasibility of the budgets (not of a leakage limit) for a host program."""
    c, budgets = np.asarray(program.constraints), np.asarray(program.budgets)
    count = len(budgets)
    if count == 0:
        uniform = np.full(c.shape[1:], 1.0 / c.shape[2])
        return Feasibility(uniform, np.zeros(0), 0.0, 0.0, feasible=True, boundary=False)
    scales = np.maximum(abs(c).max(axis=2).sum(axis=1), np.finfo(float).tiny)
    if count == 1:
        weights, mechanism = np.ones(1), cheapest(c[0])
    else:
        weights, mechanism = most_room(c / scales[:, None, None], budgets / scales)
        weights = weights / scales
        weights = weights / weights.sum()
    combined = (weights[:, None, None] * c).sum(axis=0)
    bound, allowed = float(combined.min(axis=1).sum()), float(weights @ budgets)
    scale = float((weights * scales).sum()) + abs(allowed)
    # As strict as the certificate (which allows for the rounding of its sums) when the weights are
    # exact; the weights of several budgets come from an LP and are good to about BOUNDARY.
    own = abs(allowed) + float(abs(combined.min(axis=1)).sum())
    rounding = 8 * sum(c.shape) * np.finfo(float).eps * own if count == 1 else BOUNDARY * scale
    return Feasibility(
        mechanism,
        weights,
        bound,
        allowed,
        feasible=bool(allowed >= bound - rounding),
        boundary=abs(allowed - bound) <= BOUNDARY * scale,
    )


def most_room(c: np.ndarray, budgets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """max r s.t. <c_k, W> + r <= budgets_k: the multipliers (summing to one) and W, by HiGHS."""
    from scipy.optimize import linprog  # costs a third of a second: imported where needed
    from scipy.sparse import coo_array, eye_array, hstack, kron

    count, inputs, outputs = c.shape
    cells = inputs * outputs
    room = coo_array(np.ones((count, 1)))
    limits = hstack([coo_array(c.reshape(count, cells)), room], format="csr")
    rows = hstack([kron(eye_array(inputs), np.ones((1, outputs))), coo_array((inputs, 1))], format="csr")
    objective = np.zeros(cells + 1)
    objective[-1] = -1.0
    bounds = [(0, None)] * cells + [(None, None)]
    result = linprog(objective, limits, budgets, rows, np.ones(inputs), bounds, method="highs")
    if result.status != 0:  # bounded and feasible by construction, so this is a failure of the backend
        raise ArithmeticError(f"the feasibility LP failed: {result.message}")
    mechanism = np.maximum(result.x[:-1].reshape(inputs, outputs), 0.0)
    return np.maximum(-result.ineqlin.marginals, 0.0), mechanism / mechanism.sum(axis=1, keepdims=True)


def independent(program: Program) -> Arr | None:
    """A release that ignores the data and meets every budget (leakage 0), cheapest first, or None."""
    c, budgets = np.asarray(program.constraints), np.asarray(program.budgets)
    per_output = np.where(program.support.all(axis=0), c.sum(axis=1), np.inf)  # (R, Y)
    linear = np.where(program.support.all(axis=0), program.cost.sum(axis=0), np.inf)
    outputs = c.shape[2]
    if not np.isfinite(linear).any():
        return None
    meets = np.all(per_output <= budgets[:, None], axis=0)
    if meets.any():
        best = int(np.where(meets, linear, np.inf).argmin())
        chosen = np.zeros(outputs)
        chosen[best] = 1.0
    elif len(budgets) > 1:
        from scipy.optimize import linprog

        allowed = np.flatnonzero(np.isfinite(linear))
        rows, least = per_output[:, allowed], linear[allowed] - linear[allowed].min()
        # The tolerances of the backend are absolute.
        sizes, size = unit_of(rows, axis=1), unit_of(least)
        equal = np.ones((1, len(allowed)))
        result = linprog(least / size, rows / sizes[:, None], budgets / sizes, equal, [1.0], method="highs")
        if result.status != 0:
            return None
        chosen = np.zeros(outputs)
        chosen[allowed] = np.maximum(result.x, 0.0)
        chosen /= chosen.sum()
        if not np.all(per_output[:, allowed] @ chosen[allowed] <= budgets):
            return None  # HiGHS meets its rows to 1e-7 only; the solver then does better
    else:
        return None
    return np.tile(chosen, (c.shape[1], 1))
