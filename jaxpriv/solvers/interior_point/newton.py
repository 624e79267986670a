"""One Newton system: factor once, solve for several right-hand sides, add the moves of the prices.

How a point of the central path moves with the program (`path_tangent`) is the implicit function theorem. With the
products (X Z, slack price, ...) held fixed, the optimality system is F(point, program) = 0, so that
d(point) = -F_point^-1 F_program d(program). F_point is the matrix that every step of the method factors;
F_program d(program) and what a move leaves of F are directional derivatives of the residuals, by JAX. So nothing here
depends on a measure. Fixed products instead of vanishing ones cost an error of order mu where the optimum is unique and
strictly complementary (Fiacco 1976, sensitivity analysis by penalty methods). Everything is linear in d(program), so
that JAX transposes it for reverse mode.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import PyTree

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.types import Arr, BoolLike, ScalarLike
from jaxpriv.leakage.rule_sets import ENTROPIC, Role
from jaxpriv.program.convex import Program
from jaxpriv.solvers._inverse_factors import small_solve
from jaxpriv.solvers._newton_system import NewtonSystem, newton_system
from jaxpriv.solvers.interior_point.system import (
    Data,
    Point,
    Residual,
    rearrange,
    reduced_costs,
    residuals,
    smoothing_of,
    use_rates,
)

# Solutions are refined until every output's limit is met to this share of its own terms, or so many times.
_ACCURATE, _MOST_REFINEMENTS = 1e-3, 3


class Factor(NamedTuple):
    """The factored system.

    Coupled rows A with D = L L' are rows L^-1 A of every output with D = 1, behind the others; in the place of
    their own they leave rows of zeros.
    """

    system: NewtonSystem
    roots: tuple[Arr, ...]  # L (Y, t, t) of every coupled term
    equations: "Equations | None"  # what the system was made of, where its solutions are refined


class Sides(NamedTuple):
    """A right-hand side: what the products, rows, normalisations and row sums are to change by."""

    xz: Arr  # (Y, X) of x z
    ks: Arr  # (Y, T) of k s
    rv: Arr  # (Y, T) of (cap - k) v
    link: Arr  # (Y, T + W) of the rows, without what ks and rv contribute
    level: Arr  # (Y, N)
    row: Arr  # (X,)
    pair: Arr  # (B,) of slack price
    worst: Arr  # (Y, W) of sigma eta
    limits: Arr  # (B,) of the limits
    balance: Arr  # () of the prices that share the peak, or of `Data.share` of a minimax program


def factorise(data: Data, point: Point, r: Residual, *, transposable: bool = False) -> Factor:
    """`transposable`: see `newton_system`."""
    di = data.on_support(point.x / point.z, 0.0)
    roots = tuple(xp.cholesky(block) for block in r.blocks)
    a, extra, normals, d = data.a, r.extra, r.normals, r.d
    for at, root in zip(data.coupled, roots, strict=True):
        rows = xp.broadcast_to(data.a[at], (*root.shape[:2], data.a.shape[1]))
        a = xp.put(a, at, 0.0)
        extra = xp.concatenate([extra, xp.solve_lower(root, rows)], axis=1)
        normals = _behind(normals, at, xp.solve_lower(root, normals[:, at]), axis=1)
        d = xp.concatenate([d, xp.ones(root.shape[:2], like=d)], axis=1)
    flat = any(term.massed for term in data.terms)  # the last row of these has no curvature
    kind = {"diagonal": data.diagonal, "flat": flat, "transposable": transposable}
    system = newton_system(a, extra, di, d, xp.swapaxes(normals, 1, 2), **kind)
    limits = slice(data.rows, data.rows + r.extra.shape[1])
    if not r.extra.shape[1] and any(term.rule_set == ENTROPIC and term.role is Role.AVERAGE for term in data.terms):
        limits = slice(0, data.rows)
    refined = limits.stop > limits.start and not transposable
    return Factor(system, roots, Equations(a, extra, di, d, normals, limits) if refined else None)


class Equations(NamedTuple):
    """The arrays of `newton_system`, for iterative refinement.

    A small limit in every outcome makes the Schur complement of the row sums ill-conditioned: moves of the mechanism
    that change A x of the limited rows cost that much more than the others. The solution misses the row sums, and with
    them the limits, by its condition number times the rounding; once that is as much as the limits themselves, the
    iteration cannot follow them. A small limit on the sum does the same to the rows of its term.
    """

    a: Arr  # (T, X), or its diagonal (X,)
    extra: Arr  # (Y, W, X)
    di: Arr  # (Y, X)
    d: Arr  # (Y, N)
    normals: Arr  # (Y, N, G)
    limits: slice  # of N: the worst-outcome limits, or the rows of relative entropies that are limited on average

    def refined(self, system: NewtonSystem, *sides: Arr) -> tuple[Arr, ...]:
        """`system.solve` of the sides and, added to it, of what that solution misses."""
        solution = system.solve(*sides)
        wanted = self._size(sides[1]) + self._size(self.d * solution[0])

        def unfinished(carry: tuple[tuple[Arr, ...], tuple[Arr, ...], ScalarLike]) -> BoolLike:
            _, left, count = carry
            return (self._size(left[1]) > _ACCURATE * wanted).any() & (count < _MOST_REFINEMENTS)

        def refine(
            carry: tuple[tuple[Arr, ...], tuple[Arr, ...], ScalarLike],
        ) -> tuple[tuple[Arr, ...], tuple[Arr, ...], ScalarLike]:
            refined, left, count = carry
            refined = tuple(part + more for part, more in zip(refined, system.solve(*left), strict=True))
            return refined, self._missed(refined, sides), count + 1

        start = solution, self._missed(solution, sides), np.array(0)
        return xp.while_loop(unfinished, refine, start)[0]

    def _size(self, link: Arr) -> Arr:
        """The largest entry of the limits, for every right-hand side."""
        return abs(link[..., self.limits]).max(axis=(1, 2))

    def _missed(self, solution: tuple[Arr, ...], sides: tuple[Arr, ...]) -> tuple[Arr, ...]:
        """The sides less what a solution gives; of the rows without multiples of the normals, which are free."""
        kappa, dx, dz, _ = solution
        rho, link, level, row = sides
        top = dx * self.a if self.a.ndim == 1 else xp.matmul(dx, self.a.T)
        ax = xp.concatenate([top, xp.einsum("ywx,myx->myw", self.extra, dx)], axis=-1)
        link = link - self.d * kappa + ax
        sizes = (self.normals**2).sum(axis=1)
        along = xp.einsum("yng,myn->myg", self.normals, link) / xp.where(sizes > 0, sizes, 1.0)
        link = link - xp.einsum("yng,myg->myn", self.normals, along)
        inside = self.di > 0
        rho = xp.where(inside, rho - dx / xp.where(inside, self.di, 1.0) - dz, 0.0)
        return rho, link, level - xp.einsum("yng,myn->myg", self.normals, kappa), row - dx.sum(axis=1)


def _behind(values: Arr, at: slice, moved: Arr, axis: int) -> Arr:
    """Rows `at` of `values` along an axis set to zero, and `moved` behind all."""
    place = (slice(None),) * axis + (at,)
    return xp.concatenate([xp.put(values, place, 0.0), moved], axis=axis)


def _solve(data: Data, f: Factor, rho: Arr, link: Arr, level: Arr, row: Arr) -> tuple[Arr, ...]:
    """(dX, dZ, d rules and worst prices, dnu) of a stack of sides at fixed prices; rho is d(x z) / x."""
    row_count = link.shape[-1]
    for at, root in zip(data.coupled, f.roots, strict=True):
        lower = xp.broadcast_to(root, (len(link), *root.shape))
        link = _behind(link, at, xp.solve_lower(lower, link[..., at, None])[..., 0], axis=2)
    solve = f.system.solve if f.equations is None else partial(f.equations.refined, f.system)
    kappa, dx, dz, e = solve(rho, link, level, row)
    kappa, behind = kappa[..., :row_count], kappa[..., row_count:]
    for at, root in zip(data.coupled, f.roots, strict=True):
        size = root.shape[1]
        lower = xp.broadcast_to(root, (len(link), *root.shape))
        moved = xp.solve_lower(lower, behind[..., :size, None], transposed=True)[..., 0]
        kappa, behind = xp.put(kappa, np.s_[..., at], moved), behind[..., size:]
    return dx, dz, kappa, e


def _linear_moves(
    data: Data, point: Point, r: Residual, dx: Arr, dk: Arr, by_price: Arr, ks: Arr, rv: Arr, link: Arr
) -> tuple[Arr, ...]:
    """(ds, dv, dt) of the linear rows, from k ds + s dk = ks, (cap - k) dv + v d(cap - k) = rv."""
    if not data.any_linear:
        lead = dx.shape[:-2]
        return tuple(xp.zeros((*lead, *part.shape), like=dx) for part in (point.s, point.v, point.t))
    cap_slack = data.cap_slack(point.k, r.prices)
    cap = xp.where(data.capped > 0, data.cap, 0.0)
    ds = xp.where(data.linear > 0, (ks - point.s * dk) / point.k, 0.0)
    dv = xp.where(data.capped > 0, (rv + point.v * (dk - cap * by_price)) / cap_slack, 0.0)
    ax = data.matvec(dx)
    dt = []
    for term, place in zip(data.terms, data.layout, strict=True):
        if term.smooth or not term.normalised:
            dt.append(xp.zeros_like(dx[..., 0]))
            continue
        lifted = (ds - dv + ax + link)[..., place.rows]
        dt.append(lifted @ term.reference / (term.reference @ term.reference))
    return ds, dv, xp.stack(dt, axis=-1)


def _as_move(data: Data, point: Point, r: Residual, solved: tuple[Arr, ...], sides: Sides, price: Arr) -> Point:
    """Full directions, given what was solved for, with a leading axis, and the moves of the prices, (B,) each."""
    dx, dz, kappa, dnu = solved
    rows = data.rows
    deta, lead = kappa[..., rows:], dx.shape[:-1]
    nothing = xp.zeros((*lead, 1), like=dx)
    by_limit = xp.broadcast_to(price[..., None, :], (*lead, price.shape[-1]))
    by_price = xp.concatenate([by_limit, deta, nothing], axis=-1)[..., data.priced]  # of the row's set
    dk = kappa[..., :rows] + r.rules * by_price
    ds, dv, dt = _linear_moves(data, point, r, dx, dk, by_price, sides.ks, sides.rv, sides.link[..., :rows])
    dsigma = (sides.worst - point.sigma * deta) / point.eta
    dslack = (sides.pair - point.slack * price) / data.open(point.price, 1.0)
    return Point(dx, dz, dk, dt, ds, dv, deta, dsigma, dnu, price, dslack, xp.zeros(lead[:-1], like=dx))


def _full_link(data: Data, point: Point, r: Residual, sides: Sides) -> Arr:
    """Right-hand side of the rows: that of the links and what the products contribute."""
    link = sides.link
    if data.any_linear:
        products = sides.ks / point.k - sides.rv / data.cap_slack(point.k, r.prices)
        link = xp.add_at(link, np.s_[..., : data.rows], xp.where(data.linear > 0, products, 0.0))
    return xp.add_at(link, np.s_[..., data.rows :], sides.worst / point.eta) if point.eta.size else link


def _plain(data: Data, point: Point, r: Residual, asked: Sides) -> tuple[Arr, ...]:
    """A stack of right-hand sides (leading axis) as `_solve` takes them."""
    rho = data.on_support(asked.xz / data.on_support(point.x, 1.0), 0.0)
    return rho, _full_link(data, point, r, asked), asked.level, asked.row


def directions(data: Data, point: Point, r: Residual, f: Factor, asked: Sides) -> Point:
    """Solve for a stack of right-hand sides (leading axis) without the moves of the prices.

    Returns the directions (a batch of `Point`) at fixed prices.
    """
    solved = _solve(data, f, *_plain(data, point, r, asked))
    return _as_move(data, point, r, solved, asked, xp.zeros_like(asked.pair))


class Responses(NamedTuple):
    """Directions for a unit change of each price, then of the peak of a minimax program."""

    moves: Point  # a batch
    slopes: Arr  # [j, i]: d use_i / d price_j


def with_responses(data: Data, point: Point, r: Residual, f: Factor, asked: Sides) -> tuple[Responses | None, Point]:
    """(the responses, the same for every right-hand side of a step; None without prices, `directions`), all of them
    solved for together.
    """
    count = len(r.columns)
    if not count:
        return None, directions(data, point, r, f, asked)
    rows = xp.zeros((count, *r.row.shape), like=r.row)
    priced = -r.columns, r.cap_response, r.responses, rows
    solved = _solve(data, f, *map(xp.concatenate, zip(priced, _plain(data, point, r, asked), strict=True)))
    moves = _as_move(data, point, r, tuple(part[count:] for part in solved), asked, xp.zeros_like(asked.pair))
    return _as_responses(data, point, r, *(part[:count] for part in solved)), moves


def _as_responses(data: Data, point: Point, r: Residual, dx: Arr, dz: Arr, kappa: Arr, e: Arr) -> Responses:
    """What was solved for unit changes of the prices."""
    nothing = no_sides(point, r)
    unit = xp.eye(len(r.columns), like=point.x)[:, : point.price.shape[0]]
    if data.program.minimax:  # what the peak takes off the linear rows asks for moves of their slacks and of t
        link = xp.zeros_like(r.cap_response)
        nothing = nothing._replace(link=xp.put(link, np.s_[-1], r.cap_response[-1]))
    moves = _as_move(data, point, r, (dx, dz + r.columns, kappa, e), nothing, unit)
    moves = moves._replace(slack=xp.zeros_like(unit))
    return Responses(moves, use_rates(data, point, r, moves))


def no_sides(point: Point, r: Residual) -> Sides:
    """A right-hand side of zeros."""
    zero = xp.zeros_like
    return Sides(
        zero(point.x), zero(point.s), zero(point.v), zero(r.d), zero(r.level), zero(r.row),
        zero(point.price), zero(point.eta), zero(point.price), zero(point.peak),
    )  # fmt: skip


def with_prices(data: Data, point: Point, r: Residual, move: Point, given: Responses | None, sides: Sides) -> Point:
    """Add the moves of the prices to a stack of directions, those of `sides`: a system of the size of the number of
    limits. Without limits nothing is `given`.
    """
    count = point.price.shape[0]
    if given is None:
        return move
    response, slopes = given
    at = data.open(point.price, 1.0)  # of an equation it may be zero, and its slack and pair are not used
    matrix = xp.diag(point.slack / at) - slopes[:count].T
    rhs = sides.pair / at - sides.limits + use_rates(data, point, r, move)
    balance, peak = sides.balance, move.peak
    if data.program.peaked:
        mark = data.marks
        matrix = xp.concatenate([xp.concatenate([matrix, mark[None]]), xp.append(mark, 0.0)[:, None]], axis=1)
    elif data.program.minimax:
        share = lambda direction: data.share(direction, point) + data.share(point, direction)  # noqa: E731
        matrix = xp.concatenate([matrix, -slopes[count:].T], axis=1)
        matrix = xp.concatenate([matrix, xp.each(share, response)[None]])
        balance = balance - xp.each(share, move)
    if data.program.peaked or data.program.minimax:
        solved = xp.solve(matrix, xp.concatenate([rhs, balance[:, None]], axis=1).T).T
        price, peak = solved[:, :-1], solved[:, -1]
    else:
        price = small_solve(matrix, rhs.T).T
    along = solved if data.program.minimax else price
    # Parts that a program does not have are empty.
    moved = Point(*(part + xp.weigh(along, by) if part.size else part for part, by in zip(move, response, strict=True)))
    slack = (sides.pair - point.slack * price) / at
    return moved._replace(price=price, slack=slack, peak=peak)


def plus(point: Point, move: Point, a: ScalarLike) -> Point:
    """`point` and `a` times a move, or two moves."""
    # Parts that a program does not have are empty.
    return Point(*(p + a * m if p.size else p for p, m in zip(point, move, strict=True)))


# Beyond 1.5 times the farthest that the peak can be from the optimum where the barrier is self-concordant the path of a
# minimax program is followed by its peak, which falls by half of that. Choices: points are not on the path.
_FARTHEST, _FALL = 1.5, 0.5


def followed(
    data: Data, point: Point, r: Residual, predict: Point, centre: Point, given: Responses
) -> tuple[Point, Point, Point]:
    """(predictor, centring move) of a minimax program that lower its peak where the path turns back, and the move along
    the path by a unit of the peak; elsewhere as they are, and zeros.

    Let F(e) be the least of the barrier of the limits at a peak e. It has one path of minimisers, and -F' grows
    as e falls to the optimum. The scale of the prices, in which a unit of the peak is worth one, labels its points with
    mu = -1/F', which falls with e as long as F'' > 0 only. The limits are bilinear in e and the mechanism, so that F
    need not be convex: where prices of budgets rise faster than mu falls, it is not, and steps towards mu = 0 raise the
    peak. On the path, the centring move at mu raises it by -F'/F'', which a self-concordant barrier of that many pairs
    bounds by pairs mu. Where it is negative or much more, steps lower the peak by a share of that, at prices of any
    scale, and correctors leave it.
    """
    fall = _FALL * data.pairs

    def along_the_path(_: tuple[Point, Point, Point]) -> tuple[Point, Point, Point]:
        along = _path_move(data, point, given)
        lower = plus(predict, along, -fall * r.mu - predict.peak)
        return lower, plus(centre, along, fall - centre.peak), along

    turned = ~((centre.peak > 0.0) & (centre.peak <= _FARTHEST * data.pairs))
    return xp.where_needed(turned, along_the_path, (predict, centre, Point(*map(xp.zeros_like, predict))))


def _path_move(data: Data, point: Point, given: Responses) -> Point:
    """The move of a minimax program that raises its peak by one and leaves what the equations miss, and the products,
    as they are.
    """
    response, slopes = given
    at = data.open(point.price, 1.0)
    matrix = xp.diag(point.slack / at) - slopes[:-1].T
    price = small_solve(matrix, slopes[-1]) if len(at) else point.price
    along = xp.append(price, 1.0)
    moved = Point(*(xp.weigh(along, by) if by.size else part for part, by in zip(point, response, strict=True)))
    return moved._replace(price=price, slack=-point.slack * price / at, peak=xp.ones_like(point.peak))


def price_move(data: Data, move: Point, j: int) -> Arr:
    """The move of the price of term j's set, (Y, 1) or ()."""
    place = data.layout[j]
    if place.limit is not None:
        return move.price[place.limit]
    if place.worst is not None:
        return move.eta[:, place.worst, None]
    return xp.zeros((), like=move.x)


def predictor(data: Data, point: Point, r: Residual) -> Sides:
    """The right-hand side of a step to products of zero: minus the products, and what the equations miss."""
    link, level = _unsmoothed(data, point, r)
    balance = xp.zeros_like(point.peak)
    if data.program.peaked:
        balance = 1.0 - (data.marks * point.price).sum()
    if data.program.minimax:
        balance = 1.0 - data.share(point, point)
    return Sides(
        xz=data.on_support(-point.x * point.z, 0.0),
        ks=-data.linear * point.k * point.s if data.any_linear else xp.zeros_like(point.s),
        rv=-data.capped * data.cap_slack(point.k, r.prices) * point.v if data.any_linear else xp.zeros_like(point.v),
        link=r.link + link,
        level=r.level + level,
        row=r.row,
        pair=-point.slack * point.price,
        worst=-point.eta * point.sigma,
        limits=r.bounds - r.use - point.slack,
        balance=balance,
    )


def _unsmoothed(data: Data, point: Point, r: Residual) -> tuple[Arr, Arr]:
    """What the links and the normalisations miss besides where the products, and so the smoothing, end at zero."""
    link, level = xp.zeros_like(r.d), xp.zeros_like(r.level)
    for n, j in enumerate(data.normed):
        edge, at = r.edges.get(j), data.layout[j].rows
        if edge is not None and edge.normal_drift is not None and edge.level_drift is not None:
            price = r.prices[:, at.start]
            spread, t = smoothing_of(price, r.mu), data.scale(j, point.x, edge)
            link = xp.put(link, np.s_[:, at], (t * spread)[:, None] * edge.normal_drift)
            level = xp.put(level, np.s_[:, n], price * t * spread * edge.level_drift)
    return link, level


def centring(data: Data, point: Point, r: Residual) -> Sides:
    weight = xp.broadcast_to(data.row_weight, point.k.shape)
    link, level = _unsmoothed(data, point, r)
    return no_sides(point, r)._replace(
        xz=data.h * xp.ones_like(point.x),
        ks=data.linear * weight if data.any_linear else xp.zeros_like(point.s),
        rv=data.capped * weight if data.any_linear else xp.zeros_like(point.v),
        link=-link / r.mu,
        level=-level / r.mu,
        pair=data.open(xp.ones_like(point.price), 0.0),
        worst=xp.ones_like(point.eta),
    )


# One solve loses about eps/mu of the answer: where X > 0 the columns of dX come out of 1/mu times a
# difference that vanishes. Each further one, for what the equations still ask, gains that factor again:
# from 1e-3 at mu = 1e-12 (mu = 1e-14: 5e-2) to what the point itself is worth.
_SOLVES = 4


def path_tangent(program: Program, change: Program, point: Point) -> tuple[Point, ScalarLike]:
    """(the move of `point`, on the central path of `program`, when the program moves by `change`; the share of the mass
    that moves when costs change by what is left of the products, which vanishes where one mechanism is optimal).

    The support, the feasible point and which limits are equations do not move.
    """
    moving, still = eqx.partition(program, eqx.is_inexact_array)
    moved = eqx.filter(change, jax.tree.map(eqx.is_inexact_array, program))

    def data_of(parts: PyTree) -> Data:
        return rearrange(eqx.combine(parts, still), dense=True)

    def missing(parts: PyTree, at: Point) -> Sides:
        """The right-hand side of a Newton step to products of zero: minus the products, and what the equations miss."""
        data = data_of(parts)
        z = reduced_costs(data, at.k, at.eta, at.nu, at.price, at.peak)
        return predictor(data, at._replace(z=z), residuals(data, at))

    data = data_of(moving).at(point.peak)
    r = residuals(data, point)
    f = factorise(data, point, r, transposable=True)
    stacked = lambda sides: type(sides)(*(leaf[None] for leaf in sides))  # noqa: E731
    # Costs that differ from pair to pair.
    mass = data.program.mass / data.program.mass.sum()
    costs = (point.x * point.z).sum() * mass * jnp.cos(jnp.arange(point.x.size)).reshape(point.x.shape)
    told_apart = stacked(no_sides(point, r)._replace(xz=data.on_support(-point.x * costs, 0.0)))
    response, moved_apart = with_responses(data, point, r, f, told_apart)
    shift = abs(mass * with_prices(data, point, r, moved_apart, response, told_apart).x).sum()

    def refine(move: Point, _: None) -> tuple[Point, None]:
        """Add the move that the equations still ask for."""
        asked = jax.jvp(missing, (moving, point), (moved, move))[1]
        asked = stacked(asked)
        more = with_prices(data, point, r, directions(data, point, r, f, asked), response, asked)
        return Point(*(part + further[0] for part, further in zip(move, more, strict=True))), None

    tangent = lax.scan(refine, jax.tree.map(jnp.zeros_like, point), None, length=_SOLVES)[0]
    # Rows of a mechanism sum to one however it moves: what the solves leave of that goes where the mass is.
    return tangent._replace(x=tangent.x - point.x * tangent.x.sum(axis=0)), shift
