"""Primal-dual interior point with dual scaling, for any leakage measures as objective and as limits.

The method of `interior_point` (mutual information) in general form: the rules of the adversary are
variables of their own, Z is exactly linear in them times their prices, and a Newton step costs
|Y| (T |X|^2 + min(T^2 |X| + T^3, |X|^3)) + |X|^3 for T stacked rows. See `system` for the equations.
Sources: Mehrotra 1992; Gondzio 1996; Calmon and Fawaz 2012, Theorem 2, for the worst-outcome program.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from jaxpriv.problems.measured import Kind, MeasuredProgram, Role
from jaxpriv.solvers._base import AbstractSolver
from jaxpriv.solvers.conic.newton import Sides, directions, factorise, no_sides, responses, with_prices
from jaxpriv.solvers.conic.offer import Offer, no_offer, offered
from jaxpriv.solvers.conic.sets import Boundary, domain
from jaxpriv.solvers.conic.start import first_point
from jaxpriv.solvers.conic.system import (
    Data,
    Point,
    Residual,
    edges_of,
    measure_use,
    rearrange,
    reduced_costs,
    residuals,
    row_prices,
    rules,
    smoothing_of,
    use_rate,
)
from jaxpriv.solvers.conic.warm import has_warm_start, warm_point

# A step that leaves the neighbourhood is shortened by this factor until it does not.
_BACK = 0.85
# What rules outside the set of a user's loss may be worth: its boundary turns within what it is smoothed by, which
# falls with the products, so that its rules are always as far outside as the products say.
_STRAY_OF_LOSSES = 0.5


class ConicState(eqx.Module):
    """A point, its history of step lengths, and the best candidate."""

    point: Point
    residual: Residual
    count: Any
    short: Any
    stalled: Any
    best: Offer


class ConicInteriorPoint(AbstractSolver):
    """Interior-point method for `MeasuredProgram`.

    Args:
        warm_steps: mirror steps before the first attempt, where the program has a warm start.
        correctors: most Gondzio correctors in one step.
        long_enough: steps of this length are not corrected any more.
        boundary: fraction of the way to the boundary that a step may go.
        neighbourhood: smallest allowed ratio of a complementarity product to the mean.
        stray: what rules outside their sets may be worth, as a share of the complementarity products.
        score_change: largest change of a rule in one step.
    """

    warm_steps: int = eqx.field(static=True, default=100)
    correctors: int = eqx.field(static=True, default=3)
    long_enough: float = eqx.field(static=True, default=0.9)
    boundary: float = eqx.field(static=True, default=0.95)
    neighbourhood: float = eqx.field(static=True, default=0.02)
    stray: float = eqx.field(static=True, default=0.03)
    score_change: float = eqx.field(static=True, default=1.5)
    attempts: int = eqx.field(static=True, default=3)

    def blank(self, program: MeasuredProgram) -> Offer:
        return no_offer(program)

    def init(self, program: MeasuredProgram, attempt: Any, best: Offer) -> ConicState:
        """The independent release, further inside on every further attempt; for Theorem 2 first a warm start.

        A smooth worst-outcome limit alone allows a start nearer to the boundary, while linear programs with
        small budgets need more.
        """
        data = rearrange(program)
        nearest = 0.3 if any(term.smooth and term.role is Role.WORST for term in program.terms) else 1.0
        target = jnp.array([nearest, 30.0, 1000.0], data.a.dtype)[attempt]
        if has_warm_start(program):
            point = lax.cond(
                attempt == 0, lambda: warm_point(data, self.warm_steps, target), lambda: first_point(data, target)
            )
        else:
            point = first_point(data, target)
        best = offered(data, point, best)
        return ConicState(point, residuals(data, point), jnp.array(0), jnp.array(0), jnp.array(False), best)

    def step(self, program: MeasuredProgram, state: ConicState) -> ConicState:
        """Factor, predict, correct, move; then certify."""
        data = rearrange(program)
        point, length = _advance(self, data, state.point, state.residual)
        residual = residuals(data, point)
        best = offered(data, point, state.best)
        short = jnp.where(length < 0.1, state.short + 1, 0)
        broken = ~jnp.isfinite(point.x.sum() + point.z.sum() + point.k.sum() + point.price.sum() + residual.mu)
        stalled = broken | (short >= 6) | ((state.count >= 30) & (length < 0.02))
        return ConicState(point, residual, state.count + 1, short, stalled, best)


def _plus(point: Point, move: Point, a: Any) -> Point:
    return jax.tree.map(lambda p, m: p + a * m, point, move)


def _products(data: Data, point: Point, move: Point, a: Any) -> tuple[Any, Any, Any]:
    """(smallest product relative to its weight, mean product, all products) after a step a."""
    after = _plus(point, move, a)
    xz, worst, pair = after.x * after.z, after.eta * after.sigma, after.slack * after.price
    total = jnp.where(data.support, xz, 0.0).sum() + worst.sum() + pair.sum()
    least = jnp.where(data.support, xz / jnp.where(data.support, data.h, 1.0), jnp.inf).min()
    least = jnp.minimum(least, jnp.minimum(worst.min(initial=jnp.inf), data.open(pair, jnp.inf).min(initial=jnp.inf)))
    ks = rv = jnp.zeros_like(after.s)
    if data.any_linear:
        ks = after.k * after.s
        rv = data.room(after.k, row_prices(data, after.price, after.eta)) * after.v
        total = total + (data.linear * ks + data.capped * rv).sum()
        least = jnp.minimum(least, jnp.where(data.linear > 0, ks / data.row_weight, jnp.inf).min())
        least = jnp.minimum(least, jnp.where(data.capped > 0, rv / data.row_weight, jnp.inf).min())
    return least, total / data.pairs, (xz, ks, rv, worst, pair)


def _ratio(v: Any, dv: Any) -> Any:
    """Largest step in [0, 1] that keeps v + a dv >= 0."""
    if v.size == 0:
        return jnp.ones((), v.dtype)
    return jnp.minimum(1.0, 1.0 / jnp.maximum((-dv / v).max(), jnp.finfo(v.dtype).tiny))


def _reach(solver: ConicInteriorPoint, data: Data, g: Any) -> tuple[Any, Any]:
    """How far the rules may rise and fall in one step, (Y, T) each."""
    up, down = [], []
    for term, place in zip(data.terms, data.layout, strict=True):
        own = term.whole(g[:, place.rows])
        if not term.smooth:
            up.append(jnp.full_like(own, jnp.inf))
            down.append(jnp.full_like(own, jnp.inf))
            continue
        lowest, highest = domain(term)
        size = solver.score_change * (abs(own) if term.kind is Kind.POWER else jnp.ones_like(own))
        # The last row of an f kind holds the normalisation: free.
        free = jnp.zeros(own.shape[1], bool)
        if term.massed:
            free = free.at[-1].set(True)
        rise = jnp.minimum(size, highest - own) if highest < jnp.inf else size
        fall = jnp.minimum(size, own - lowest) if lowest > -jnp.inf else size
        up.append(jnp.where(free, jnp.inf, rise))
        down.append(jnp.where(free, jnp.inf, fall))
    return jnp.concatenate(up, axis=1), jnp.concatenate(down, axis=1)


def _largest(solver: ConicInteriorPoint, data: Data, point: Point, r: Residual, move: Point) -> Any:
    inside = data.support
    step = _ratio(jnp.where(inside, point.x, 1.0), jnp.where(inside, move.x, 0.0))
    step = jnp.minimum(step, _ratio(point.z, jnp.where(inside, move.z, 0.0)))
    moved_prices = row_prices(data, point.price + move.price, point.eta + move.eta) - r.prices
    if data.any_linear:
        linear, capped = data.linear > 0, data.capped > 0
        step = jnp.minimum(step, _ratio(jnp.where(linear, point.k, 1.0), jnp.where(linear, move.k, 0.0)))
        step = jnp.minimum(step, _ratio(jnp.where(linear, point.s, 1.0), jnp.where(linear, move.s, 0.0)))
        step = jnp.minimum(step, _ratio(jnp.where(capped, point.v, 1.0), jnp.where(capped, move.v, 0.0)))
        droom = jnp.where(capped, jnp.where(capped, data.cap, 0.0) * moved_prices - move.k, 0.0)
        step = jnp.minimum(step, _ratio(data.room(point.k, r.prices), droom))
    for v, dv in (
        (point.eta, move.eta),
        (point.sigma, move.sigma),
        (data.open(point.price, 1.0), data.open(move.price, 0.0)),
        (data.open(point.slack, 1.0), move.slack),
    ):
        step = jnp.minimum(step, _ratio(v, dv))
    # g changes by a u/(price + a dprice), u = dk - g dprice: at most `up`, at least -`down`.
    g = rules(data, point.k, point.price, point.eta)
    up, down = _reach(solver, data, g)
    u = move.k - g * moved_prices
    smooth = data.linear == 0
    rising = jnp.where(smooth & (u > 0), (u - jnp.where(jnp.isinf(up), 0.0, up) * moved_prices) / (up * r.prices), 0.0)
    falling = jnp.where(
        smooth & (u < 0), (-u - jnp.where(jnp.isinf(down), 0.0, down) * moved_prices) / (down * r.prices), 0.0
    )
    worst = jnp.maximum(jnp.max(rising, initial=0.0), jnp.max(falling, initial=0.0))
    return jnp.minimum(step, 1.0 / jnp.maximum(worst, 1e-30))


def _strayed(data: Data, point: Point, edges: tuple[Any, ...]) -> tuple[Any, Any]:
    """(price, t |level|) of every output and smooth term, (Y, J): what rules outside their sets claim.

    The certificate takes the sum of the products back.
    """
    prices = row_prices(data, point.price, point.eta)
    price, claim = [], []
    for j, (term, place) in enumerate(zip(data.terms, data.layout, strict=True)):
        if term.smooth:
            edge = edges[j]
            t = data.scale(j, point.x, edge)
            price.append(prices[:, place.rows.start])
            claim.append(t * abs(edge.level))
    if not claim:
        nothing = jnp.zeros((point.x.shape[0], 0), point.x.dtype)
        return nothing, nothing
    return jnp.stack(price, axis=1), jnp.stack(claim, axis=1)


def _edges_at(data: Data, point: Point, mu: Any) -> tuple[Any, ...]:
    g = rules(data, point.k, point.price, point.eta)
    return edges_of(data, g, row_prices(data, point.price, point.eta), mu)


class _Origin(NamedTuple):
    """Where a step begins: how near it may come to the boundary, and what its rules claim outside their sets."""

    share: Any
    claim: Any  # (Y, J)


def _origin(solver: ConicInteriorPoint, data: Data, point: Point, r: Residual) -> _Origin:
    least, mean, _ = _products(data, point, point, 0.0)
    _, claim = _strayed(data, point, r.edges)
    return _Origin(jnp.minimum(solver.neighbourhood, 0.9 * least / mean), claim)


def _into_neighbourhood(
    solver: ConicInteriorPoint, data: Data, point: Point, r: Residual, origin: _Origin, move: Point
) -> tuple[Any, Any]:
    """(step, mean product after it): back from the boundary until every product is a fair share of the mean.

    The products see neither the curvature of the sets nor how high its price is: where a limit is tiny a change
    of 1e-2 in a rule, harmless elsewhere, is worth more than all products. So the rules must also stay in their
    sets up to a share of the products, or come nearer to them.
    """

    stray = _STRAY_OF_LOSSES if data.coupled else solver.stray

    def held(a: Any, mean: Any) -> Any:
        # At the prices after the step: a price that doubles, as that of a small limit does at first, would hide
        # that its rules come nearer.
        after = _plus(point, move, a)
        price, claim = _strayed(data, after, _edges_at(data, after, mean))
        allowed = jnp.maximum(stray * data.pairs * mean, (1.0 - 0.5 * a) * (price * origin.claim).sum())
        return (price * claim).sum() <= allowed

    def outside(carry: tuple[Any, Any, Any, Any]) -> Any:
        _, _, good, count = carry
        return ~good & (count < 30)

    def shorten(carry: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        a, _, _, count = carry
        a = jnp.where(count == 0, a, a * _BACK)
        least, mean, _ = _products(data, point, move, a)
        return a, mean, (mean > 0) & (least >= origin.share * mean) & held(a, mean), count + 1

    a = solver.boundary * _largest(solver, data, point, r, move)
    a, mean, _, _ = lax.while_loop(outside, shorten, (a, r.mu, jnp.array(False), jnp.array(0)))
    return a, mean


def _predictor(data: Data, point: Point, r: Residual) -> Sides:
    link, level = _unsmoothed(data, point, r)
    balance = jnp.zeros_like(point.peak)
    if data.program.peaked:
        balance = 1.0 - (data.marks * point.price).sum()
    return Sides(
        xz=jnp.where(data.support, -point.x * point.z, 0.0),
        ks=-data.linear * point.k * point.s if data.any_linear else jnp.zeros_like(point.s),
        rv=-data.capped * data.room(point.k, r.prices) * point.v if data.any_linear else jnp.zeros_like(point.v),
        link=r.link + link,
        level=r.level + level,
        row=r.row,
        pair=-point.slack * point.price,
        worst=-point.eta * point.sigma,
        room=r.bounds - r.use - point.slack,
        balance=balance,
    )


def _unsmoothed(data: Data, point: Point, r: Residual) -> tuple[Any, Any]:
    """What the links and the normalisations miss besides where the products, and so the smoothing, end at zero."""
    link, level = jnp.zeros_like(r.d), jnp.zeros_like(r.level)
    for n, j in enumerate(data.normed):
        edge, at = r.edges[j], data.layout[j].rows
        if edge is not None and edge.normal_drift is not None:
            price = r.prices[:, at.start]
            spread, t = smoothing_of(price, r.mu), data.scale(j, point.x, edge)
            link = link.at[:, at].set((t * spread)[:, None] * edge.normal_drift)
            level = level.at[:, n].set(price * t * spread * edge.level_drift)
    return link, level


def _centring(data: Data, point: Point, r: Residual) -> Sides:
    weight = jnp.broadcast_to(data.row_weight, point.k.shape)
    link, level = _unsmoothed(data, point, r)
    return no_sides(data, point, r)._replace(
        xz=data.h * jnp.ones_like(point.x),
        ks=data.linear * weight if data.any_linear else jnp.zeros_like(point.s),
        rv=data.capped * weight if data.any_linear else jnp.zeros_like(point.v),
        link=-link / r.mu,
        level=-level / r.mu,
        pair=data.open(jnp.ones_like(point.price), 0.0),
        worst=jnp.ones_like(point.eta),
    )


def _advance(solver: ConicInteriorPoint, data: Data, point: Point, r: Residual) -> tuple[Point, Any]:
    """One predictor-corrector step."""
    f = factorise(data, point, r)
    response = responses(data, point, r, f) if point.price.shape[0] else point
    asked = (_predictor(data, point, r), _centring(data, point, r))
    both = directions(data, point, r, f, jax.tree.map(lambda *leaves: jnp.stack(leaves), *asked))
    predict, centre = (
        with_prices(data, point, r, jax.tree.map(lambda leaf, i=i: leaf[i], both), response, asked[i]) for i in range(2)
    )
    reach = _largest(solver, data, point, r, predict)
    origin = _origin(solver, data, point, r)
    sigma = jnp.clip((1.0 - reach) ** 5, 1e-3, 0.9)
    move = _plus(predict, centre, sigma * r.mu)
    length, mean = _into_neighbourhood(solver, data, point, r, origin, move)

    def centred() -> tuple[Point, Any, Any, Any]:
        careful = _plus(predict, centre, r.mu)
        return careful, *_into_neighbourhood(solver, data, point, r, origin, careful), jnp.ones_like(sigma)

    move, length, mean, sigma = lax.cond(length < 0.1, centred, lambda: (move, length, mean, sigma))

    def improving(carry: tuple[Any, ...]) -> Any:
        _, length, _, count, better = carry
        return better & (count < solver.correctors) & (length < solver.long_enough)

    def correct(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        move, length, mean, count, _ = carry
        sides = _corrections(data, point, r, move, length, sigma)
        own = directions(data, point, r, f, jax.tree.map(lambda leaf: leaf[None], sides))
        own = jax.tree.map(lambda leaf: leaf[0], own)
        trial = _plus(move, with_prices(data, point, r, own, response, sides), 1.0)
        trial_length, trial_mean = _into_neighbourhood(solver, data, point, r, origin, trial)
        better = (trial_mean < 0.98 * mean) | (trial_length > 1.1 * length)
        choose = lambda p, q: jnp.where(better, p, q)  # noqa: E731
        return (
            jax.tree.map(choose, trial, move),
            choose(trial_length, length),
            choose(trial_mean, mean),
            count + 1,
            better,
        )

    start = (move, length, mean, jnp.array(0), jnp.array(True))
    move, length, _, _, _ = lax.while_loop(improving, correct, start)
    return _moved(data, point, r, move, length), length


def _corrections(data: Data, point: Point, r: Residual, move: Point, length: Any, sigma: Any) -> Sides:
    """Gondzio's corrector: what the linear model misses at a somewhat longer step."""
    a = jnp.minimum(1.0, length + 0.3)
    _, _, (xz, ks, rv, worst, pair) = _products(data, point, move, a)
    goal = ((1.0 - a) + a * sigma) * r.mu

    def towards(product: Any, aim: Any) -> Any:
        return jnp.maximum(jnp.clip(product, 0.1 * aim, 10.0 * aim) - product, -10.0 * aim)

    sides = no_sides(data, point, r)
    after = _plus(point, move, a)
    # A step beyond the boundary has no rules: correct the products only, there.
    usable = (data.open(after.price, 1.0) > 0).all() & (after.eta > 0).all()
    ahead = ((1.0 - a) + a * sigma) * r.mu
    g = rules(data, after.k, jnp.maximum(after.price, 1e-3 * point.price), jnp.maximum(after.eta, 1e-3 * point.eta))
    before = rules(data, point.k, point.price, point.eta)
    edges = edges_of(data, g, r.prices, ahead)
    gone = -a * (1.0 - sigma)  # the change of the smoothing, as a share of it
    link, level = jnp.zeros_like(sides.link), jnp.zeros_like(sides.level)
    for n, j in enumerate(data.normed):
        term, place = data.terms[j], data.layout[j]
        if not term.smooth:
            continue
        at = place.rows
        lowest, highest = domain(term)
        own = term.whole(g[:, at])
        if term.massed:
            own = own[:, :-1]
        if term.massed or term.kind is Kind.POWER:
            usable = usable & (own < highest).all() & (own > lowest).all()
        edge, new = r.edges[j], edges[j]
        t, t_new = data.scale(j, point.x, edge), data.scale(j, after.x, new)
        price = r.prices[:, at]
        kappa = move.k[:, at] - before[:, at] * _price_move(data, move, j)
        linear = t[:, None] * (edge.normal + a * _bent(edge, kappa / price))
        expected = edge.level + a * (edge.normal * kappa).sum(axis=1) / price[:, 0]
        if edge.normal_drift is not None:
            spread = gone * smoothing_of(price[:, 0], r.mu)
            linear = linear + (t * spread)[:, None] * edge.normal_drift
            expected = expected + spread * edge.level_drift
        link = link.at[:, at].set(linear - t_new[:, None] * new.normal)
        level = level.at[:, n].set(-price[:, 0] * t * (new.level - expected))
    sums, limits = measure_use(data, after.x, after.t, after.v, g, edges)
    room = r.use + a * use_rate(data, point, r, move) - sums
    if limits.shape[1]:
        rate = jnp.einsum("ywx,yx->yw", r.extra, move.x, precision="highest")
        link = link.at[:, data.rows :].set(limits - r.excess - a * rate)
    keep = lambda value: jnp.where(usable & jnp.isfinite(value), value, 0.0)  # noqa: E731
    if data.any_linear:
        aim = jnp.broadcast_to(goal * data.row_weight, ks.shape)
        ks = data.linear * towards(ks, aim)
        rv = jnp.where(data.capped > 0, towards(rv, aim), 0.0)
    return sides._replace(
        xz=jnp.where(data.support, towards(xz, goal * data.h), 0.0),
        ks=ks,
        rv=rv,
        link=keep(link),
        level=keep(level),
        pair=data.open(towards(pair, goal), 0.0),
        worst=towards(worst, goal),
        room=keep(room),
    )


def _bent(edge: Boundary, dg: Any) -> Any:
    """The Hessian of h along dg."""
    if edge.curvature.ndim == dg.ndim:
        return edge.curvature * dg
    return jnp.einsum("yij,yj->yi", edge.curvature, dg, precision="highest")


def _price_move(data: Data, move: Point, j: int) -> Any:
    """The move of the price of term j's set, (Y, 1) or ()."""
    place = data.layout[j]
    if place.limit is not None:
        return move.price[place.limit]
    if place.worst is not None:
        return move.eta[:, place.worst, None]
    return jnp.zeros((), move.x.dtype)


def _moved(data: Data, point: Point, r: Residual, move: Point, a: Any) -> Point:
    new = _plus(point, move, a)
    x = jnp.where(data.support, new.x, 0.0)
    x = x / x.sum(axis=0)
    z = reduced_costs(data, new.k, new.eta, new.nu, new.price)
    floor = 1e-3 * r.mu * data.h / jnp.where(data.support, x, 1.0)
    z = jnp.where(data.support, jnp.where(z > 0, z, floor), 1.0)
    return new._replace(x=x, z=z)
