"""One Newton system of the interior-point method: factor once, solve for several right-hand sides.

Eliminating dX and then the scores leaves, for every output, G_y = J (X/Z) J' + diag(w_y/eta) on the
directions that keep the scores normalised, then a Schur complement of order |X| for the row sums,
then a border of the size of the number of limits.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxpriv.problems.program import Form
from jaxpriv.solvers._factors import RowFactor, arrow_factor, dense_factor, dot, forward, orthonormal
from jaxpriv.solvers._interior_system import Data, Point, Residual, grouped
from jaxpriv.solvers._linear_algebra import inverse_factor, small_solve


class Factor(NamedTuple):
    """The factored Newton system: G_y^-1 = K_y'K_y, R_y = K_y J diag(X/Z)."""

    rows: RowFactor
    u: Any  # (Y, T, K): orthonormal basis of K_y w, one column for each group
    tri: Any  # (Y, K, K): K_y w = u tri
    schur: Any  # (X, X): the inverse of the Schur complement is schur'schur
    di: Any  # (Y, X): X/Z


class Move(NamedTuple):
    """A direction in every variable."""

    x: Any
    z: Any
    g: Any
    nu: Any
    price: Any
    slack: Any
    peak: Any


def factorise(data: Data, point: Point, r: Residual) -> Factor:
    outputs, inputs = data.cost.shape
    di = jnp.where(data.support, point.x / point.z, 0.0)
    build = arrow_factor if data.diagonal else dense_factor
    no_lines = jnp.zeros((outputs, 0, inputs), di.dtype)
    rows, schur = build(data.joint, no_lines, di, jnp.where(data.seen, r.w / r.spread, 1.0))
    w = grouped(data, r.w)
    own = [jnp.zeros_like(w).at[:, k].set(w[:, k]).reshape(r.w.shape) for k in range(data.groups)]
    u, tri = orthonormal(jnp.stack([rows.left(column) for column in own], axis=2))
    seen = rows.seen(u)
    schur = schur + jnp.matmul(seen.T, seen, precision="highest")
    return Factor(rows, u, tri, inverse_factor(schur, di.sum(axis=0)), di)


def solve_newton(
    data: Data, r: Residual, f: Factor, start: Any, q: Any, level: Any, row: Any
) -> tuple[Any, Any, Any, Any]:
    """(dX, dZ, dg, dnu) for one right-hand side at fixed prices.

    start = K (J q + r_link), q = r_complementarity / Z, level = w'dg wanted, row = sum_y dX wanted.
    """
    wanted = forward(f.tri, r.weights * level)  # (Y, K)

    def along(coordinates: Any) -> Any:
        return dot("ytk,yk->yt", f.u, coordinates)

    def project(a: Any) -> Any:
        return a - along(dot("ytk,yt->yk", f.u, a))

    a = project(start) + along(wanted)
    rhs = row - q.sum(axis=0) + f.rows.up(a)
    e = jnp.matmul(jnp.matmul(f.schur, rhs, precision="highest"), f.schur, precision="highest")
    a = a + project(f.rows.down(e))
    scores = f.rows.left_transposed(a)  # eta dg
    dz = data.tell(scores) - e
    dx = q - f.di * dz
    return dx, dz, scores / r.spread, e


def price_responses(r: Residual, f: Factor) -> tuple[list[Any], list[Any]]:
    """(start, q) of `solve_newton` for a unit change of each price: Z moves by the column of its limit."""
    starts = [-f.rows.down_each(column) for column in r.columns]
    return starts, [-f.di * column for column in r.columns]


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
    matrix = jnp.diag(point.slack / point.price) - use1
    rhs = pair / point.price - room[0] + use0
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
    dslack = (pair - point.slack * dprice) / point.price
    return Move(dx, dz, dg, dnu, dprice, dslack, dpeak)
