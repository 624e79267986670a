"""Leakage limit zero: S and Y independent, a linear program.

At limit 0 the leakage constraint has no interior and no multiplier; it says that every column
J W_y is proportional to the prior, which is linear: sum_x (J(s,x) - p(s) P(x)) W(x,y) = 0.
"""

from typing import Any

import numpy as np

from jaxpriv.problems.program import Program

# A finite price stands for the infinite one. Scores g = -duals/price lose about price * g^2, so the price
# grows with the square of the duals: then the loss does not depend on the units of the cost.
_PRICE = 1e9


def perfect_privacy(program: Program) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mechanism, scores, weights): least cost with I(S;Y) = 0, and the rule that proves it.

    Raises ArithmeticError if the LP backend fails: the program is feasible and bounded.
    """
    from scipy.optimize import linprog  # costs a third of a second: imported where needed
    from scipy.sparse import coo_array, eye_array, kron, vstack

    joint = np.asarray(program.joints[0])
    inputs, outputs = program.cost.shape
    deviation = joint - np.outer(joint.sum(axis=1), joint.sum(axis=0))
    # Outputs outermost, so that the independence rows are one block for each output.
    equations = outputs * len(joint)
    independence = kron(eye_array(outputs), coo_array(deviation / abs(deviation).max(initial=1e-300)))
    rows = kron(np.ones((1, outputs)), eye_array(inputs))
    system = vstack([independence, rows], format="csr")
    rhs = np.concatenate([np.zeros(equations), np.ones(inputs)])
    result = linprog(np.asarray(program.cost).T.ravel(), A_eq=system, b_eq=rhs, bounds=(0, None), method="highs")
    if result.status != 0:
        raise ArithmeticError(f"the perfect-privacy LP failed: {result.message}")
    mechanism = _exact(system, rhs, result.x).reshape(outputs, inputs).T
    duals = result.eqlin.marginals[:equations].reshape(outputs, -1)
    # cost - duals.deviation >= row price, so the scores are -duals, small against the price.
    slopes = duals / abs(deviation).max(initial=1e-300)
    price = _PRICE * max(1.0, float(abs(slopes).max()) ** 2)
    return mechanism, -slopes[None] / price, np.array([price])


def _exact(system: Any, rhs: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Basic variables solved for once more: the backend meets its equations to 1e-7 only."""
    basic = np.flatnonzero(x > 1e-9)
    columns = system[:, basic].toarray()
    polished = np.zeros_like(x)
    polished[basic] = np.maximum(np.linalg.lstsq(columns, rhs, rcond=None)[0], 0.0)
    return polished
