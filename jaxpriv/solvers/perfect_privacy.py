"""Leakage limit zero: S and Y independent, a linear program.

At limit 0 the leakage constraint has no interior and no multiplier; it says that every column
J W_y is proportional to the prior, which is linear: sum_x (J(s,x) - p(s) P(x)) W(x,y) = 0.
"""

from typing import Any

import numpy as np

from jaxpriv._numerics import unit_of
from jaxpriv.problems.program import Program

# A finite price stands for the infinite one. Scores g = -duals/price lose about price * g^2, so the price
# grows with the square of the duals.
_PRICE = 1e9
# Rows so much smaller than the largest are rounding.
_ROUNDING = 1e-14


def perfect_privacy(program: Program) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mechanism, scores, weights): least cost with I(S;Y) = 0, and the rule that proves it.

    Where the LP backend fails, on joints whose masses differ by many orders of magnitude: the cheapest release of
    one symbol, with a rule that proves no more than that leakage is not negative.
    """
    from scipy.optimize import linprog  # costs a third of a second: imported where needed
    from scipy.sparse import coo_array, eye_array, kron, vstack

    joint = np.asarray(program.joints[0])
    inputs, outputs = program.cost.shape
    # In units of its own size: the tolerances of the backend and the price below are absolute.
    cost = np.asarray(program.cost)
    cost = cost - cost.min(axis=1, keepdims=True)
    unit = float(unit_of(cost))
    cost = cost / unit
    deviation, scale = _equations(joint)
    equations = outputs * len(deviation)
    # Outputs outermost, so that the independence rows are one block for each output.
    independence = kron(eye_array(outputs), coo_array(deviation))
    rows = kron(np.ones((1, outputs)), eye_array(inputs))
    system = vstack([independence, rows], format="csr")
    rhs = np.concatenate([np.zeros(equations), np.ones(inputs)])
    for presolve in (False, True):  # HiGHS's presolve calls a tenth of badly scaled programs infeasible
        options = {"presolve": presolve}
        result = linprog(cost.T.ravel(), A_eq=system, b_eq=rhs, bounds=(0, None), method="highs", options=options)
        if result.status == 0:
            mechanism = _exact(system, rhs, result.x).reshape(outputs, inputs).T
            mechanism = mechanism / mechanism.sum(axis=1, keepdims=True)
            duals = result.eqlin.marginals[:equations].reshape(outputs, -1)
            # cost - duals.deviation >= row price, so the scores are -duals, small against the price.
            slopes = np.zeros((outputs, len(joint)))
            slopes[:, scale > 0] = duals / scale[scale > 0]
            # What a finite price loses is unit / price: with costs above 1, no more than with costs of 1.
            price = _PRICE * max(1.0, float(abs(slopes).max()) ** 2) * max(1.0, unit)
            return mechanism, -slopes[None] / price, np.array([price * unit])
    constant = np.zeros_like(cost)
    constant[:, program.cost.sum(axis=0).argmin()] = 1.0
    return constant, np.zeros((1, outputs, len(joint))), np.zeros(1)


def _equations(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows with a largest entry of 1, the scale of each private symbol, 0 where it has no row).

    J - p P' with rows and columns that sum to zero to the last digits of its own entries: where J is nearly a
    product these sums are what rounding left, and equations that miss by so much have no solution. All rows
    together sum to zero, so that of the most frequent symbol says nothing new.
    """
    private, mass = joint.sum(axis=1), joint.sum(axis=0)
    deviation = joint - np.outer(private, mass)
    deviation -= np.outer(deviation.sum(axis=1), mass / mass.sum())
    deviation -= np.outer(private / private.sum(), deviation.sum(axis=0))
    scale = abs(deviation).max(axis=1)
    scale[private.argmax()] = 0.0
    scale[scale <= _ROUNDING * scale.max()] = 0.0
    return deviation[scale > 0] / scale[scale > 0, None], scale


def _exact(system: Any, rhs: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Basic variables solved for once more: the backend meets its equations to 1e-7 only."""
    basic = np.flatnonzero(x > 1e-9)
    columns = system[:, basic].toarray()
    polished = np.zeros_like(x)
    polished[basic] = np.maximum(np.linalg.lstsq(columns, rhs, rcond=None)[0], 0.0)
    return polished
