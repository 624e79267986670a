"""One Newton system of the interior-point method: factor once, solve for several right-hand sides.

What is left of dX and the scores of an output, on the directions that keep the scores normalised, and a Schur
complement of order |X| for the row sums are in `_newton_system`; here are a border of the size of the number of limits
and what becomes of the scores.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

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
    di = jnp.where(data.support, point.x / point.z, 0.0)
    no_lines = jnp.zeros((outputs, 0, inputs), di.dtype)
    w = grouped(data, r.w)
    own = [jnp.zeros_like(w).at[:, k].set(w[:, k]).reshape(r.w.shape) for k in range(data.groups)]
    d = jnp.where(data.seen, r.w / r.spread, 1.0)
    system = newton_system(
        data.joint, no_lines, di, d, jnp.stack(own, axis=1), diagonal=data.diagonal, transposable=transposable
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
        nothing = jnp.zeros_like(point.price)
        return Move(dx, dz, dg, dnu, nothing, nothing, jnp.zeros_like(point.peak))
    rx, rz, rg, rnu = response
    use0 = (r.normals * dx).sum(axis=(1, 2))
    use1 = jnp.einsum("iyx,jyx->ij", r.normals, rx, precision="highest")
    if free:
        use0 = use0.at[limits:].add((grouped(data, r.link * dg)).sum(axis=(0, 2)))
        use1 = use1.at[limits:, :].add((grouped(data, r.link * rg)).sum(axis=(1, 3)).T)
    price = data.open(point.price, 1.0)  # of an equation it may be zero, and neither slack nor pair are asked for
    matrix = jnp.diag(point.slack / price) - use1
    rhs = pair / price - room[0] + use0
    dpeak = jnp.zeros_like(point.peak)
    if data.form is Form.WORST:
        mark = jnp.concatenate([jnp.zeros(limits, rhs.dtype), jnp.ones(free, rhs.dtype)])
        matrix = jnp.block([[matrix, mark[:, None]], [mark[None, :], jnp.zeros((1, 1), rhs.dtype)]])
        solved = jnp.linalg.solve(matrix, jnp.concatenate([rhs, room[1][None]]))
        dprice, dpeak = solved[:-1], solved[-1]
    else:
        dprice = small_solve(matrix, rhs)
    dx = dx + jnp.tensordot(dprice, rx, 1)
    dg = dg + jnp.tensordot(dprice, rg, 1)
    dz = dz + jnp.tensordot(dprice, rz + r.columns, 1)
    dnu = dnu + dprice @ rnu
    dslack = (pair - point.slack * dprice) / price
    return Move(dx, dz, dg, dnu, dprice, dslack, dpeak)
