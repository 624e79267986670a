"""The linear program over the columns that are known.

With block masses P(A = a) and weights y of columns inside each block (sum y = 1 there),

    minimise sum_a P(a) sum_k y_ak cost(q_ak)
    subject to sum_k y_ak q_ak(x)/P(x|a) = 1 for all x in a,  sum_a P(a) sum_k y_ak side(q_ak) <= limit.

A shared attribute costs nothing here: P(a) sum_k y_ak q_ak is all that its outputs need (`funnels.atoms`).
"""

import itertools
from dataclasses import dataclass

import numpy as np

from jaxpriv.column_generation.objective import Objective
from jaxpriv.column_generation.pool import Pool

# Weights below this are the backend's tolerance.
_WEIGHT = 1e-11
# Limits below this are scaled up to it: the backend's tolerances are absolute.
_SMALL = 1e-3
# The largest error of the equations: `funnels.release` and `extremal.utility` repair it.
_ERROR = 1e-7
# The options of the backend, in order: the next ones where it fails. There is little to presolve, and postsolve may
# fail at tight tolerances.
_ATTEMPTS = (("highs-ds", 1e-10, False), ("highs-ds", 1e-9, True), ("highs-ipm", 1e-9, True), ("highs-ds", 1e-7, False))


@dataclass(frozen=True, eq=False)
class MasterSolution:
    """A solution of the program over some columns.

    Attributes:
        weights: y of every block's columns.
        value: sum of P(a) y cost.
        prices: of a - lambda b, for every block (X_a,).
        lam: lambda.
    """

    weights: tuple[np.ndarray, ...]
    value: float
    prices: tuple[np.ndarray, ...]
    lam: float


def best_plan(pools: tuple[Pool, ...], objective: Objective) -> MasterSolution:
    """The best weights on the columns of `pools`, a basic solution.

    Raises ArithmeticError if the backend fails (the target is to be reachable on these columns).
    """
    from scipy.optimize import linprog  # costs a third of a second: imported where needed
    from scipy.sparse import block_diag, csc_matrix, csr_matrix

    lifts = [pool.lifts for pool in pools]
    size = np.concatenate([lift.max(axis=1) for lift in lifts])  # of a column: rare symbols have large lifts
    mass = np.concatenate([np.full(len(pool.a), pool.mass) for pool in pools])
    a, b = np.concatenate([pool.a for pool in pools]), np.concatenate([pool.b for pool in pools])
    # The equations for the mean, (all symbols, all columns), each column divided by its size.
    rows = block_diag([csc_matrix((lift / lift.max(axis=1, keepdims=True)).T) for lift in lifts], format="csc")
    cost = mass * objective.cost(a, b) / size
    limit = objective.limit
    side = None if limit is None else mass * objective.side(a, b) / size
    scale = float(np.abs(cost).max()) or 1.0
    # A small limit is resolved relative to itself, or as it is where the backend cannot.
    units = [1.0] if limit is None or not 0 < abs(limit) < _SMALL else [abs(limit) / _SMALL, 1.0]
    for unit, (method, tolerance, presolve) in itertools.product(units, _ATTEMPTS):
        options = {
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": tolerance,
            "presolve": presolve,
        }
        result = linprog(
            cost / scale,
            A_ub=None if side is None else csr_matrix(side[None] / unit),
            b_ub=None if limit is None else [limit / unit],
            A_eq=rows,
            b_eq=np.ones(sum(lift.shape[1] for lift in lifts)),
            bounds=(0, None),
            method=method,
            options=options,
        )
        if result.status == 0:
            weights, error = _polished(np.asarray(result.x), rows, side, limit, 1e-8 * unit)
            if error <= _ERROR:
                break
    else:
        raise ArithmeticError(f"the linear program over posteriors failed: {result.message}")
    weights = weights / size
    mu = 0.0 if limit is None else -scale / unit * float(result.ineqlin.marginals[0])
    ends = np.cumsum([len(pool.a) for pool in pools])[:-1]
    duals = np.split(scale * result.eqlin.marginals, np.cumsum([len(pool.source) for pool in pools])[:-1])
    nus = [dual / (pool.mass * pool.source) for dual, pool in zip(duals, pools, strict=True)]
    prices = tuple(objective.duals(nu, mu)[0] for nu in nus)
    _, lam = objective.duals(nus[0], mu)
    return MasterSolution(tuple(np.split(weights, ends)), float(cost @ (weights * size)), prices, lam)


def _polished(
    weights: np.ndarray, rows, side: np.ndarray | None, limit: float | None, near: float
) -> tuple[np.ndarray, float]:
    """(weights, error). The backend meets its equations to a tolerance: the active columns are solved once more.

    With a limit that is met up to `near` as one of the equations.
    """
    from scipy.optimize import nnls

    basic = np.flatnonzero(weights > _WEIGHT)
    active, right = rows[:, basic].toarray(), np.ones(rows.shape[0])
    if side is not None and limit is not None and abs(float(side @ weights) - limit) <= near:
        heft = 1e-8 / near  # as heavy as in the program
        active, right = np.vstack([active, heft * side[basic]]), np.append(right, heft * limit)
    solved = np.linalg.lstsq(active, right, rcond=None)[0]
    if solved.min(initial=0.0) < -1e-13 or np.abs(active @ solved - right).max() > 1e-12:
        try:  # nearly parallel columns
            solved = nnls(active, right)[0]
        except RuntimeError:  # out of iterations: the backend's own weights, whose error is reported
            solved = weights[basic]
    polished = np.zeros(len(weights))
    polished[basic] = np.maximum(solved, 0.0)
    error = float(np.abs(rows @ polished - 1.0).max())
    if side is not None and limit is not None:
        error = max(error, float(side @ polished) - limit)
    return polished, error
