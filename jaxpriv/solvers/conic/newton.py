"""One Newton system: factor once, solve for several right-hand sides, add the moves of the prices."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxpriv.solvers._factors import RowFactor, arrow_factor, dense_factor, dot, forward, orthonormal
from jaxpriv.solvers._linear_algebra import inverse_factor, small_solve
from jaxpriv.solvers.conic.system import Data, Point, Residual, linear_moves, use_rate


class Factor(NamedTuple):
    """The factored system."""

    rows: RowFactor
    u: Any  # (Y, T + W, N): orthonormal basis of K normals
    tri: Any  # (Y, N, N): K normals = u tri
    schur: Any  # (X, X): the inverse of the Schur complement is schur'schur
    di: Any  # (Y, X): X/Z


class Sides(NamedTuple):
    """A right-hand side: what the products, rows, normalisations and row sums are to change by."""

    xz: Any  # (Y, X) of x z
    ks: Any  # (Y, T) of k s
    rv: Any  # (Y, T) of (cap - k) v
    link: Any  # (Y, T + W) of the rows, without what ks and rv contribute
    level: Any  # (Y, N)
    row: Any  # (X,)
    pair: Any  # (B,) of slack price
    worst: Any  # (Y, W) of sigma eta
    room: Any  # (B,) of the limits
    balance: Any  # () of the prices that share the peak


def factorise(data: Data, point: Point, r: Residual) -> Factor:
    di = jnp.where(data.support, point.x / point.z, 0.0)
    build = arrow_factor if data.diagonal else dense_factor
    rows, schur = build(data.a, r.extra, di, r.d)
    columns = [rows.left(r.normals[:, :, n]) for n in range(r.normals.shape[2])]
    u, tri = orthonormal(jnp.stack(columns, axis=2) if columns else r.normals)
    if columns:
        seen = rows.seen(u)
        schur = schur + jnp.matmul(seen.T, seen, precision="highest")
    return Factor(rows, u, tri, inverse_factor(schur, di.sum(axis=0)), di)


def _solve(data: Data, r: Residual, f: Factor, q: Any, link: Any, level: Any, row: Any) -> tuple[Any, ...]:
    """(dX, dZ, d rules and worst prices, dnu) at fixed prices; q = the change of x z over z."""
    seen = data.see(q)
    if r.extra.shape[1]:
        seen = jnp.concatenate([seen, dot("ywx,yx->yw", r.extra, q)], axis=1)
    start = f.rows.left(seen + link)
    along = lambda coordinates: dot("ytn,yn->yt", f.u, coordinates)  # noqa: E731
    project = lambda a: a - along(dot("ytn,yt->yn", f.u, a))  # noqa: E731
    a = project(start) + along(forward(f.tri, level))
    rhs = row - q.sum(axis=0) + f.rows.up(a)
    e = jnp.matmul(jnp.matmul(f.schur, rhs, precision="highest"), f.schur, precision="highest")
    a = a + project(f.rows.down(e))
    kappa = f.rows.left_transposed(a)
    dz = data.tell(kappa[:, : data.rows]) - e
    if r.extra.shape[1]:
        dz = dz + dot("yw,ywx->yx", kappa[:, data.rows :], r.extra)
    return q - f.di * dz, dz, kappa, e


def _as_move(data: Data, point: Point, r: Residual, solved: tuple[Any, ...], sides: Sides, price: Any) -> Point:
    """A full direction, given what was solved for and the moves of the prices, (B,)."""
    dx, dz, kappa, dnu = solved
    rows = data.rows
    deta = kappa[:, rows:]
    parts = []  # d (price of the row's set)
    for term, place in zip(data.terms, data.layout, strict=True):
        size = term.rows.shape[0]
        if place.limit is not None:
            parts.append(jnp.full((point.x.shape[0], size), 1.0, dx.dtype) * price[place.limit])
        elif place.worst is not None:
            parts.append(jnp.broadcast_to(deta[:, place.worst, None], (point.x.shape[0], size)))
        else:
            parts.append(jnp.zeros((point.x.shape[0], size), dx.dtype))
    by_price = jnp.concatenate(parts, axis=1)
    g = jnp.where(data.linear > 0, 0.0, point.k / r.prices)
    dk = kappa[:, :rows] + g * by_price
    ds, dv, dt = linear_moves(data, point, r, dx, dk, by_price, sides.ks, sides.rv, sides.link[:, :rows])
    dsigma = (sides.worst - point.sigma * deta) / point.eta
    dslack = (sides.pair - point.slack * price) / point.price
    return Point(dx, dz, dk, dt, ds, dv, deta, dsigma, dnu, price, dslack, jnp.zeros_like(point.peak))


def _full_link(data: Data, point: Point, r: Residual, sides: Sides) -> Any:
    """Right-hand side of the rows: what is asked of the links and what the products contribute."""
    room = jnp.where(data.capped > 0, data.cap * r.prices - point.k, 1.0)
    products = jnp.where(data.linear > 0, sides.ks / point.k - sides.rv / room, 0.0)
    prices = sides.worst / point.eta
    return sides.link + jnp.concatenate([products, prices], axis=1) if prices.shape[1] else sides.link + products


def directions(data: Data, point: Point, r: Residual, f: Factor, asked: Sides) -> Point:
    """Solve for a stack of right-hand sides (leading axis) without the moves of the prices.

    Returns the directions (a batch of `Point`) at fixed prices.
    """

    def one(sides: Sides) -> Point:
        q = jnp.where(data.support, sides.xz / point.z, 0.0)
        solved = _solve(data, r, f, q, _full_link(data, point, r, sides), sides.level, sides.row)
        return _as_move(data, point, r, solved, sides, jnp.zeros_like(point.price))

    return jax.vmap(one)(asked)


def responses(data: Data, point: Point, r: Residual, f: Factor) -> Point:
    """Directions for a unit change of each price, a batch of `Point`."""
    nothing = no_sides(data, point, r)

    def one(column: Any, level: Any, link: Any, price: Any) -> Point:
        dx, dz, kappa, e = _solve(data, r, f, -f.di * column, link, level, nothing.row)
        move = _as_move(data, point, r, (dx, dz + column, kappa, e), nothing, price)
        return move._replace(slack=jnp.zeros_like(point.slack))

    eye = jnp.eye(point.price.shape[0], dtype=point.x.dtype)
    return jax.vmap(one)(r.columns, r.responses, r.cap_response, eye)


def no_sides(data: Data, point: Point, r: Residual) -> Sides:
    """A right-hand side of zeros."""
    zero = jnp.zeros_like
    return Sides(
        zero(point.x), zero(point.k), zero(point.k), zero(r.d), zero(r.level), zero(r.row),
        zero(point.price), zero(point.eta), zero(point.price), zero(point.peak),
    )  # fmt: skip


def with_prices(data: Data, point: Point, r: Residual, move: Point, response: Point, sides: Sides) -> Point:
    """Add the moves of the prices: a system of the size of the number of limits."""
    count = point.price.shape[0]
    if count == 0:
        return move
    base = use_rate(data, point, r, move)
    slopes = jax.vmap(lambda one: use_rate(data, point, r, one))(response)  # [j, i]: d use_i / d price_j
    matrix = jnp.diag(point.slack / point.price) - slopes.T
    rhs = sides.pair / point.price - sides.room + base
    peak = jnp.zeros_like(point.peak)
    if data.program.peaked:
        mark = data.marks
        matrix = jnp.block([[matrix, mark[:, None]], [mark[None, :], jnp.zeros((1, 1), rhs.dtype)]])
        solved = jnp.linalg.solve(matrix, jnp.concatenate([rhs, sides.balance[None]]))
        price, peak = solved[:-1], solved[-1]
    else:
        price = small_solve(matrix, rhs)
    moved = jax.tree.map(lambda base, slopes: base + jnp.tensordot(price, slopes, 1), move, response)
    slack = (sides.pair - point.slack * price) / point.price
    return moved._replace(price=price, slack=slack, peak=peak)
