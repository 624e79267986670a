"""Prices other than the duals of a basic solution: between all columns.

Any prices prove a bound. Those of a basic solution are a corner of the dual, which jumps from round to round.
"""

import numpy as np

from jaxpriv.column_generation.objective import Objective
from jaxpriv.column_generation.pool import Pool

# Central prices: the share of value - bound that the logarithms of the slacks may cost the dual value; steps of
# Newton's method at most, and the decrement at which they end. A step is no longer than this share of the way to the
# nearest slack of 0, nor than this many times what is safe in theory, 1/(1 + decrement).
_BARRIER, _STEPS, _CENTRED, _TO_END, _LONG = 0.3, 40, 0.3, 0.9, 4.0
# Slacks that the prices to begin with leave at least, as a share of value - bound; added to a diagonal scaled to 1.
_INSIDE, _RIDGE = 1e-3, 1e-13


def central_prices(
    pools: tuple[Pool, ...], objective: Objective, prices: tuple, lam: float, gap: float
) -> tuple[tuple[np.ndarray, ...], float]:
    """(prices, lambda) inside of the dual of the program over `pools`, where value - bound is about `gap`.

    The maximum of (dual value) + t sum of the logarithms of the slacks over all atoms, with t the share `_BARRIER` of
    `gap` for each. The prices of a basic solution are a corner that changes with every atom, and these are between
    all atoms that are nearly good enough (Gondzio, Gonzalez-Brevis and Munari 2013). Newton's method, from `prices` and
    `lam` lowered until no atom violates them.
    """
    from scipy.sparse import block_diag, csr_matrix, hstack

    # Slacks cost + mu side - nu.q, with mu lambda or 1/lambda; a program without a limit has no mu.
    a, b = np.concatenate([pool.a for pool in pools]), np.concatenate([pool.b for pool in pools])
    mu, limit = max(lam, _INSIDE * gap), objective.limit
    if objective.form == "side":
        mu = 1.0 / mu
    scale = objective.sign * (mu if objective.form == "side" else 1.0)
    rows = block_diag([csr_matrix(pool.posteriors) for pool in pools], format="csr")
    aim = np.concatenate([pool.mass * pool.source for pool in pools])
    point = np.concatenate([scale * nu for nu in prices])
    cost, ends = objective.cost(a, b), np.cumsum([len(nu) for nu in prices])
    if limit is not None:
        rows = hstack([rows, csr_matrix(-objective.side(a, b)[:, None])], format="csr")
        aim, point = np.append(aim, -limit), np.append(point, mu)
    slacks = np.split(cost - rows @ point, np.cumsum([len(pool.a) for pool in pools])[:-1])
    for end, nu, slack in zip(ends, prices, slacks, strict=True):
        point[end - len(nu) : end] -= max(0.0, -float(slack.min())) + _INSIDE * gap
    mass = np.concatenate([np.full(len(pool.a), pool.mass) for pool in pools])
    weight = _BARRIER * gap * mass / mass.sum()
    for _ in range(_STEPS):
        slack = cost - rows @ point
        force = weight / slack
        slope = aim - rows.T @ force
        matrix = (rows.multiply((force / slack)[:, None]).T @ rows).toarray()
        if limit is not None:  # mu > 0, too
            slope[-1] += weight.mean() / point[-1]
            matrix[-1, -1] += weight.mean() / point[-1] ** 2
        size = np.sqrt(matrix.diagonal())
        matrix /= size[:, None] * size
        matrix[np.diag_indices_from(matrix)] += _RIDGE
        step = np.linalg.solve(matrix, slope / size) / size
        decrement = float(np.sqrt(max(slope @ step, 0.0) / weight.mean()))
        nearest = float((rows @ step / slack).max())
        if limit is not None:
            nearest = max(nearest, -float(step[-1] / point[-1]))
        point = point + min(1.0, _TO_END / max(nearest, _TO_END), _LONG / (1.0 + decrement)) * step
        if decrement < _CENTRED:
            break
    if limit is not None:
        mu = float(point[-1])
    priced = [objective.duals(nu, mu) for nu in np.split(point[: ends[-1]], ends[:-1])]
    return tuple(nu for nu, _ in priced), priced[0][1]
