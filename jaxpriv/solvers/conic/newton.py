"""One Newton system: factor once, solve for several right-hand sides, add the moves of the prices."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from jaxpriv.solvers._linear_algebra import small_solve
from jaxpriv.solvers._newton_system import NewtonSystem, newton_system
from jaxpriv.solvers.conic.system import Data, Point, Residual, linear_moves, rules, use_rate


class Factor(NamedTuple):
    """The factored system.

    Coupled rows A with D = L L' are rows L^-1 A of every output with D = 1, behind the others; in the place of
    their own they leave rows of zeros.
    """

    system: NewtonSystem
    roots: tuple[Any, ...]  # L (Y, t, t) of every coupled term


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
    roots = tuple(jnp.linalg.cholesky(block) for block in r.blocks)
    a, extra, normals, d = data.a, r.extra, r.normals, r.d
    for at, root in zip(data.coupled, roots, strict=True):
        rows = jnp.broadcast_to(data.a[at], (*root.shape[:2], data.a.shape[1]))
        a = a.at[at].set(0.0)
        extra = jnp.concatenate([extra, solve_triangular(root, rows, lower=True)], axis=1)
        normals = _behind(normals, at, solve_triangular(root, normals[:, at], lower=True), axis=1)
        d = jnp.concatenate([d, jnp.ones(root.shape[:2], d.dtype)], axis=1)
    flat = any(term.massed for term in data.terms)  # the last row of these has no curvature
    system = newton_system(a, extra, di, d, jnp.swapaxes(normals, 1, 2), diagonal=data.diagonal, flat=flat)
    return Factor(system, roots)


def _behind(values: Any, at: slice, moved: Any, axis: int) -> Any:
    """Rows `at` of `values` along an axis set to zero, and `moved` behind all."""
    place = (slice(None),) * axis + (at,)
    return jnp.concatenate([values.at[place].set(0.0), moved], axis=axis)


def _solve(data: Data, f: Factor, rho: Any, link: Any, level: Any, row: Any) -> tuple[Any, ...]:
    """(dX, dZ, d rules and worst prices, dnu) of a stack of sides at fixed prices; rho is d(x z) / x."""
    own = link.shape[-1]
    for at, root in zip(data.coupled, f.roots, strict=True):
        lower = jnp.broadcast_to(root, (len(link), *root.shape))
        link = _behind(link, at, solve_triangular(lower, link[..., at, None], lower=True)[..., 0], axis=2)
    kappa, dx, dz, e = f.system.solve(rho, link, level, row)
    kappa, behind = kappa[..., :own], kappa[..., own:]
    for at, root in zip(data.coupled, f.roots, strict=True):
        size = root.shape[1]
        lower = jnp.broadcast_to(root, (len(link), *root.shape))
        moved = solve_triangular(lower, behind[..., :size, None], lower=True, trans=1)[..., 0]
        kappa, behind = kappa.at[..., at].set(moved), behind[..., size:]
    return dx, dz, kappa, e


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
    g = rules(data, point.k, point.price, point.eta)
    dk = kappa[:, :rows] + g * by_price
    ds, dv, dt = linear_moves(data, point, r, dx, dk, by_price, sides.ks, sides.rv, sides.link[:, :rows])
    dsigma = (sides.worst - point.sigma * deta) / point.eta
    dslack = (sides.pair - point.slack * price) / data.open(point.price, 1.0)
    return Point(dx, dz, dk, dt, ds, dv, deta, dsigma, dnu, price, dslack, jnp.zeros_like(point.peak))


def _full_link(data: Data, point: Point, r: Residual, sides: Sides) -> Any:
    """Right-hand side of the rows: what is asked of the links and what the products contribute."""
    link = sides.link
    if data.any_linear:
        products = sides.ks / point.k - sides.rv / data.room(point.k, r.prices)
        link = link.at[:, : data.rows].add(jnp.where(data.linear > 0, products, 0.0))
    return link.at[:, data.rows :].add(sides.worst / point.eta)


def directions(data: Data, point: Point, r: Residual, f: Factor, asked: Sides) -> Point:
    """Solve for a stack of right-hand sides (leading axis) without the moves of the prices.

    Returns the directions (a batch of `Point`) at fixed prices.
    """

    rho = jnp.where(data.support, asked.xz / jnp.where(data.support, point.x, 1.0), 0.0)
    link = jax.vmap(lambda sides: _full_link(data, point, r, sides))(asked)
    solved = _solve(data, f, rho, link, asked.level, asked.row)
    still = jnp.zeros_like(point.price)
    return jax.vmap(lambda parts, sides: _as_move(data, point, r, parts, sides, still))(solved, asked)


def responses(data: Data, point: Point, r: Residual, f: Factor) -> Point:
    """Directions for a unit change of each price, a batch of `Point`."""
    nothing = no_sides(data, point, r)
    row = jnp.broadcast_to(nothing.row, (len(r.columns), *nothing.row.shape))
    solved = _solve(data, f, -r.columns, r.cap_response, r.responses, row)

    def one(parts: tuple[Any, ...], column: Any, price: Any) -> Point:
        dx, dz, kappa, e = parts
        move = _as_move(data, point, r, (dx, dz + column, kappa, e), nothing, price)
        return move._replace(slack=jnp.zeros_like(point.slack))

    eye = jnp.eye(point.price.shape[0], dtype=point.x.dtype)
    return jax.vmap(one)(solved, r.columns, eye)


def no_sides(data: Data, point: Point, r: Residual) -> Sides:
    """A right-hand side of zeros."""
    zero = jnp.zeros_like
    return Sides(
        zero(point.x), zero(point.s), zero(point.v), zero(r.d), zero(r.level), zero(r.row),
        zero(point.price), zero(point.eta), zero(point.price), zero(point.peak),
    )  # fmt: skip


def with_prices(data: Data, point: Point, r: Residual, move: Point, response: Point, sides: Sides) -> Point:
    """Add the moves of the prices: a system of the size of the number of limits."""
    count = point.price.shape[0]
    if count == 0:
        return move
    base = use_rate(data, point, r, move)
    slopes = jax.vmap(lambda one: use_rate(data, point, r, one))(response)  # [j, i]: d use_i / d price_j
    at = data.open(point.price, 1.0)  # of an equation it may be zero, and neither slack nor pair are asked for
    matrix = jnp.diag(point.slack / at) - slopes.T
    rhs = sides.pair / at - sides.room + base
    peak = jnp.zeros_like(point.peak)
    if data.program.peaked:
        mark = data.marks
        matrix = jnp.block([[matrix, mark[:, None]], [mark[None, :], jnp.zeros((1, 1), rhs.dtype)]])
        solved = jnp.linalg.solve(matrix, jnp.concatenate([rhs, sides.balance[None]]))
        price, peak = solved[:-1], solved[-1]
    else:
        price = small_solve(matrix, rhs)
    moved = jax.tree.map(lambda base, slopes: base + jnp.tensordot(price, slopes, 1), move, response)
    slack = (sides.pair - point.slack * price) / at
    return moved._replace(price=price, slack=slack, peak=peak)
