"""One Newton system of the interior-point method: factor once, solve for several right-hand sides.

What is left of dX and the scores of an output, on the directions that keep the scores normalised, and a Schur
complement of order |X| for the row sums are in `_newton_system`; here are a border of the size of the number of limits
and what becomes of the scores.
"""

from typing import Any, NamedTuple

import numpy as np

from jaxpriv import _arrays as xp
from jaxpriv.problems.program import Form
from jaxpriv.solvers._interior_system import Data, Point, Residual, grouped
from jaxpriv.solvers._linear_algebra import small_solve
from jaxpriv.solvers._newton_system import NewtonSystem, newton_system


class Factor(NamedTuple):
    """The factored Newton system."""

    system: NewtonSystem  # the rows are the joint's, the normals w


class Move(NamedTuple):
    """A direction in every variable."""

    x: Any
    z: Any
    g: Any
    nu: Any
    price: Any
    slack: Any
    peak: Any


def factorise(data: Data, point: Point, r: Residual, *, transposable: bool = False) -> Factor:
    """`transposable`: see `newton_system`."""
    outputs, inputs = data.cost.shape
    di = xp.where(data.support, point.x / point.z, 0.0)
    no_lines = xp.zeros((outputs, 0, inputs), like=di)
    w = grouped(data, r.w)
    own = [xp.put(xp.zeros_like(w), np.s_[:, k], w[:, k]).reshape(r.w.shape) for k in range(data.groups)]
    d = xp.where(data.seen, r.w / r.spread, 1.0)
    system = newton_system(
        data.joint, no_lines, di, d, xp.stack(own, axis=1), diagonal=data.diagonal, transposable=transposable
    )
    return Factor(system)


def solve_newton(r: Residual, f: Factor, rho: Any, link: Any, level: Any, row: Any) -> tuple[Any, Any, Any, Any]:
    """(dX, dZ, dg, dnu) for a stack of right-hand sides at fixed prices, a leading axis of everything.

    rho = d(x z) / x, level = w'dg wanted, row = sum_y dX wanted.
    """
    scores, dx, dz, e = f.system.solve(rho, link, r.weights * level, row)  # scores: eta dg
    return dx, dz, scores / r.spread, e


def with_border(
    data: Data, point: Point, r: Residual, base: tuple[Any, ...], response: tuple[Any, ...], pair: Any, room: Any
) -> Move:
    """Add the moves of the prices: a system of the size of the number of limits.

    `pair` = wanted slack * dprice + price * dslack, `room` = whether the residuals of the limits
    are to be removed too (the predictor) or not (centring, correctors); an array (B,) of offsets.
    """
    dx, dz, dg, dnu = base
    limits, free = data.budgets.shape[0], r.columns.shape[0] - data.budgets.shape[0]
    if limits + free == 0:
        nothing = xp.zeros_like(point.price)
        return Move(dx, dz, dg, dnu, nothing, nothing, xp.zeros_like(point.peak))
    rx, rz, rg, rnu = response
    use0 = (r.normals * dx).sum(axis=(1, 2))
    use1 = xp.einsum("iyx,jyx->ij", r.normals, rx)
    if free:
        use0 = xp.add_at(use0, np.s_[limits:], (grouped(data, r.link * dg)).sum(axis=(0, 2)))
        use1 = xp.add_at(use1, np.s_[limits:, :], (grouped(data, r.link * rg)).sum(axis=(1, 3)).T)
    price = data.open(point.price, 1.0)  # of an equation it may be zero, and neither slack nor pair are asked for
    matrix = xp.diag(point.slack / price) - use1
    rhs = pair / price - room[0] + use0
    dpeak = xp.zeros_like(point.peak)
    if data.form is Form.WORST:
        mark = xp.concatenate([xp.zeros(limits, like=rhs), xp.ones(free, like=rhs)])
        matrix = xp.concatenate([xp.concatenate([matrix, mark[None]]), xp.append(mark, 0.0)[:, None]], axis=1)
        solved = xp.solve(matrix, xp.concatenate([rhs, room[1][None]]))
        dprice, dpeak = solved[:-1], solved[-1]
    else:
        dprice = small_solve(matrix, rhs)
    dx = dx + xp.weigh(dprice, rx)
    dg = dg + xp.weigh(dprice, rg)
    dz = dz + xp.weigh(dprice, rz + r.columns)
    dnu = dnu + dprice @ rnu
    dslack = (pair - point.slack * dprice) / price
    return Move(dx, dz, dg, dnu, dprice, dslack, dpeak)
