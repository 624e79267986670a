"""One Newton system of the interior-point method: factor once, solve for several right-hand sides.

Eliminating dX and then the scores leaves, for every output, G_y = J (X/Z) J' + diag(w_y/eta) on the
directions that keep the scores normalised, then a Schur complement of order |X| for the row sums,
then a border of the size of the number of limits.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from jaxpriv.problems.program import Form
from jaxpriv.solvers._interior_system import Data, Point, Residual, grouped
from jaxpriv.solvers._linear_algebra import inverse_factor, small_solve


class Factor(NamedTuple):
    """The factored Newton system."""

    k: Any  # (Y, T, T): G_y^-1 = k'k
    r: Any  # (Y, T, X): k J (X/Z)
    u: Any  # (Y, T, K): orthonormal basis of k w
    tri: Any  # (Y, K, K): k w = u tri
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
    rows = data.joint.shape[0]
    di = jnp.where(data.support, point.x / point.z, 0.0)
    scaled = data.joint[None] * di[:, None, :]
    diagonal = jnp.where(data.seen, r.w / r.spread, 1.0)
    g_matrix = jnp.einsum("ytx,ux->ytu", scaled, data.joint, precision="highest")
    index = jnp.arange(rows)
    g_matrix = g_matrix.at[:, index, index].add(diagonal)
    k = inverse_factor(g_matrix, jnp.matmul(di, (data.joint**2).T, precision="highest") + diagonal)
    big_r = jnp.matmul(k, scaled, precision="highest")
    width = rows // data.groups
    v = jnp.stack(
        [
            jnp.einsum("ytu,yu->yt", k[..., i : i + width], r.w[:, i : i + width], precision="highest")
            for i in range(0, rows, width)
        ],
        axis=2,
    )
    u, tri = _orthonormal(v)
    flat = big_r.reshape(outputs * rows, inputs)
    seen = jnp.einsum("ytk,ytx->ykx", u, big_r, precision="highest").reshape(-1, inputs)
    total = di.sum(axis=0)
    # A product of a stored transpose runs a third faster on CPU than one that transposes on the fly.
    stored = lax.optimization_barrier(flat.T)
    schur = jnp.diag(total) - jnp.matmul(stored, flat, precision="highest")
    schur = schur + jnp.matmul(seen.T, seen, precision="highest")
    return Factor(k, big_r, u, tri, inverse_factor(schur, total), di)


def _orthonormal(v: Any) -> tuple[Any, Any]:
    """Gram-Schmidt over the (few) groups: v = u tri with tri upper triangular."""
    groups = v.shape[-1]
    basis: list[Any] = []
    tri = jnp.zeros((v.shape[0], groups, groups), v.dtype)
    for k in range(groups):
        column = v[..., k]
        for i, b in enumerate(basis):
            part = (b * column).sum(axis=1)
            tri = tri.at[:, i, k].set(part)
            column = column - part[:, None] * b
        norm = jnp.sqrt((column**2).sum(axis=1))
        tri = tri.at[:, k, k].set(norm)
        basis.append(column / norm[:, None])
    return jnp.stack(basis, axis=-1), tri


def _forward(tri: Any, b: Any) -> Any:
    """tri' a = b for each output: tri (Y, K, K) upper, b (..., Y, K)."""
    parts: list[Any] = []
    for k in range(tri.shape[-1]):
        known = sum((tri[:, i, k] * parts[i] for i in range(k)), start=jnp.zeros_like(b[..., k]))
        parts.append((b[..., k] - known) / tri[:, k, k])
    return jnp.stack(parts, axis=-1)


def solve_newton(
    data: Data, r: Residual, f: Factor, start: Any, q: Any, level: Any, row: Any
) -> tuple[Any, Any, Any, Any]:
    """(dX, dZ, dg, dnu) for one right-hand side at fixed prices.

    start = k (J q + r_link), q = r_complementarity / Z, level = w'dg wanted, row = sum_y dX wanted.
    """
    wanted = _forward(f.tri, r.weights * level)  # (Y, K)

    def along(coordinates: Any) -> Any:
        return jnp.einsum("ytk,yk->yt", f.u, coordinates, precision="highest")

    def project(a: Any) -> Any:
        return a - along(jnp.einsum("ytk,yt->yk", f.u, a, precision="highest"))

    a = project(start) + along(wanted)
    flat = f.r.reshape(-1, f.r.shape[2])  # one matrix of rows (y, t): XLA copies it for anything less plain
    rhs = row - q.sum(axis=0) + jnp.matmul(a.reshape(-1), flat, precision="highest")
    e = jnp.matmul(jnp.matmul(f.schur, rhs, precision="highest"), f.schur, precision="highest")
    a = a + project(jnp.matmul(flat, e, precision="highest").reshape(a.shape))
    scores = jnp.einsum("yut,yu->yt", f.k, a, precision="highest")  # eta dg
    dz = jnp.matmul(scores, data.joint, precision="highest") - e
    dx = q - f.di * dz
    return dx, dz, scores / r.spread, e


def price_responses(r: Residual, f: Factor) -> tuple[list[Any], list[Any]]:
    """(start, q) of `solve_newton` for a unit change of each price: Z moves by the column of its limit."""
    starts = [-jnp.einsum("ytx,yx->yt", f.r, column, precision="highest") for column in r.columns]
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
