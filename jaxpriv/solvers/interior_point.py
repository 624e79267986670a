"""Primal-dual interior point with dual scaling: certified 1e-6 in about ten Newton steps.

Write X_y for column y of the mechanism, J for the stacked joints, q = softmax(g + ln p) for the
posterior that a score vector g stands for, t = |w_y| for the mass of an output. The optimality
conditions are

    Z = cost + eta J'g + lambda.c - nu >= 0,   X >= 0,   X Z = 0          (the adversary's bound is tight)
    J X_y = t_y q_y,   ln sum_s p_s e^{g_y(s)} = 0                        (g_y is the posterior's score)
    sum_y X_y = 1,   slack = budget - <c, X> >= 0,   slack * lambda = 0   (likewise for a leakage limit)

The scores g are variables of their own. Eliminating them through the posterior would turn an O(1)
error in the DIRECTION of a column of vanishing mass into an O(1) error of the bound; as
independent dual variables they make Z exactly linear, and the Hessian is scaled by the dual's own
columns t q instead of J X.

One Newton step: for every output an inverse factor of order |S| or |X| (`_newton_system`), then one
Schur complement of order |X| for the row sums, then a border of the size of the number of limits.
Everything is batched over outputs and nothing branches on data, so the same program runs under
jit and vmap on any device. Cost: |Y| (|S| |X|^2 + min(|S|^2 |X| + |S|^3, |X|^3)) + |X|^3;
where S = X (`Program.diagonal`) the systems of the outputs are diagonal, and it is |Y| |X|^2 + |X|^3.

The central path is X Z = mu h with h = (mass + 1/|X|)/2: with h = mass alone, symbols x of tiny
mass leave the neighbourhood. Mehrotra's predictor and Gondzio's correctors choose the step.
Sources: Mehrotra 1992; Gondzio 1996; primal-dual scaling for the log-sum-exp cone: own derivation.
"""

from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from jaxpriv import _arrays as xp
from jaxpriv.problems.program import Form, Program, repair
from jaxpriv.solvers._base import AbstractSolver, Candidate, no_candidate
from jaxpriv.solvers._interior_newton import Move, factorise, solve_newton, with_border
from jaxpriv.solvers._interior_start import centred_point, warm_start
from jaxpriv.solvers._interior_system import (
    Data,
    Point,
    Residual,
    grouped,
    leak_use,
    leakage_weights,
    leakages,
    rearrange,
    reduced_costs,
    residuals,
    softmax,
    spread_weights,
)
from jaxpriv.solvers.mirror_descent import MirrorDescent


class InteriorState(NamedTuple):
    """A point, its history of step lengths, and the best candidate."""

    point: Point
    residual: Residual  # at the point
    count: Any
    short: Any  # short steps in a row
    stalled: Any
    best: Candidate


class InteriorPoint(AbstractSolver):
    """Primal-dual interior-point method with dual scaling.

    Args:
        warm_steps: mirror-descent steps before the first attempt.
        correctors: most Gondzio correctors in one step.
        long_enough: steps of this length are not corrected any more: the next one gains more than they would.
        boundary: fraction of the way to the boundary that a step may go.
        neighbourhood: smallest allowed ratio of a complementarity product to the mean.
        stray: under a limit on leakage, what scores outside their set may be worth, as a share of the
            complementarity products.
        score_change: largest change of a score in one step.
    """

    warm_steps: int = eqx.field(static=True, default=50)
    correctors: int = eqx.field(static=True, default=3)
    long_enough: float = eqx.field(static=True, default=0.9)
    boundary: float = eqx.field(static=True, default=0.95)
    neighbourhood: float = eqx.field(static=True, default=0.02)
    stray: float = eqx.field(static=True, default=0.03)
    score_change: float = eqx.field(static=True, default=3.0)
    attempts: int = eqx.field(static=True, default=3)

    def uncompiled(self, program: Program) -> bool:
        return True

    def blank(self, program: Program) -> Candidate:
        return no_candidate(program)

    def init(self, program: Program, attempt: Any, best: Candidate) -> InteriorState:
        """Mirror-descent start, milder on every further attempt, moved to a centred point.

        Form LIMIT starts cold, from the independent release: there the limit holds with all its
        room, whatever its size, while a warm start may be far outside a small limit.
        """
        data = rearrange(program)
        if program.form is Form.LIMIT:
            target = xp.choose((1.0, 10.0, 100.0), attempt, data.joint.dtype)
            start, blend, best = MirrorDescent().init(program, 0, best), xp.zeros((), like=data.joint), best
        else:
            steps = xp.choose((self.warm_steps, 5, 2), attempt)
            blend = xp.choose((0.02, 0.2, 0.6), attempt, data.joint.dtype)
            target = xp.choose((0.3, 1.0, 1.0), attempt, data.joint.dtype)
            start = warm_start(program, best, steps)
        point = centred_point(program, data, start, blend, target)
        residual = residuals(data, point)
        best = _record(program, data, point, residual, start.best)
        return InteriorState(point, residual, np.array(0), np.array(0), np.array(False), best)

    def step(self, program: Program, state: InteriorState) -> InteriorState:
        """Factor, predict, correct, move; then certify, so that a last step is never taken in vain."""
        data = rearrange(program)
        point, length = _advance(self, data, state.point, state.residual)
        residual = residuals(data, point)
        best = _record(program, data, point, residual, state.best)
        short = xp.where(length < 0.1, state.short + 1, 0)
        broken = ~xp.isfinite(point.x.sum() + point.z.sum() + point.g.sum() + point.price.sum())
        stalled = broken | (short >= 4) | ((state.count >= 15) & (length < 0.02))
        return InteriorState(point, residual, state.count + 1, short, stalled, best)


def _record(program: Program, data: Data, point: Point, r: Residual, best: Candidate) -> Candidate:
    """Offer the repaired mechanism and the normalised scores of this point."""
    outputs, limits = data.cost.shape[0], data.budgets.shape[0]
    lam, weights = point.price[:limits], r.weights
    if data.form is Form.WORST:
        weights = weights / weights.sum()
    normal = (grouped(data, point.g) - r.level[..., None]).reshape(outputs, -1)
    total = reduced_costs(data, normal, xp.zeros_like(point.nu), point.price, weights)
    bound = xp.where(data.support, total, xp.inf).min(axis=0).sum() - (lam * data.budgets).sum()
    if data.form is Form.LIMIT:
        bound = bound - weights.sum() * data.limit
    scores = xp.moveaxis(grouped(data, normal), 1, 0)
    best = best.with_dual(scores, weights, lam, bound)

    feasible = repair(xp.of(point.x), program, point.x.T, leakages(data, r.w_primal).max())
    leaked = leakages(data, data.see(feasible.T)).max()
    linear = (program.cost * feasible).sum()
    value = linear if data.form is Form.LIMIT else linear + leaked
    return best.with_primal(feasible, value)


def _ratio(v: Any, dv: Any) -> Any:
    """Largest step in [0, 1] that keeps v + a dv >= 0."""
    if v.size == 0:
        return xp.ones((), like=v)
    return xp.minimum(1.0, 1.0 / xp.maximum((-dv / v).max(), 1e-300 if v.dtype == np.float64 else 1e-30))


def _scores_after(data: Data, point: Point, move: Move, a: Any) -> Any:
    """Scores after a step a.

    With a price eta on the leakage the PRODUCT eta g moves along a line, so that Z is exactly linear
    however far eta goes. In form WORST a falling eta may vanish (a joint that is not the worst one),
    and the product would be divided by it: there g itself moves along a line, and Z has the small
    second-order part of `_cross`.
    """
    if data.form is Form.OBJECTIVE:
        return point.g + a * move.g
    limits = data.budgets.shape[0]
    eta, change = point.price[limits:], move.price[limits:]
    if data.form is Form.WORST:
        change = xp.maximum(change, 0.0)
    return point.g + a * spread_weights(data, eta / (eta + a * change)) * move.g


def _cross(data: Data, point: Point, move: Move) -> Any:
    """The coefficient of a^2 in Z: falling prices times changing scores, (Y, X)."""
    if data.form is not Form.WORST:
        return xp.zeros_like(point.z)
    falling = xp.minimum(move.price[data.budgets.shape[0] :], 0.0)
    return data.tell(move.g * spread_weights(data, falling))


def _largest(solver: InteriorPoint, data: Data, point: Point, move: Move) -> Any:
    safe_x = xp.where(data.support, point.x, 1.0)
    change = abs(move.g).max()
    if data.form is Form.LIMIT:
        # The scores really change by a eta/(eta + a deta) dg (`_scores_after`), more when eta falls:
        # |change| <= limit, solved for a, has this in place of |dg|.
        eta, falling = point.price[-1], xp.minimum(move.price[-1], 0.0)
        change = change - falling / eta * solver.score_change / solver.boundary
    step = xp.minimum(
        _ratio(safe_x, xp.where(data.support, move.x, 0.0)), _ratio(point.z, xp.where(data.support, move.z, 0.0))
    )
    prices = _ratio(data.open(point.price, 1.0), data.open(move.price, 0.0))
    step = xp.minimum(step, xp.minimum(prices, _ratio(data.open(point.slack, 1.0), move.slack)))
    return xp.minimum(step, solver.score_change / solver.boundary / xp.maximum(change, 1e-30))


def _products(data: Data, point: Point, move: Move, cross: Any, a: Any) -> tuple[Any, Any, Any]:
    """Complementarity products after a step a, and their weighted mean."""
    xz = (point.x + a * move.x) * (point.z + a * move.z + a * a * cross)
    pair = (point.slack + a * move.slack) * (point.price + a * move.price)
    mean = (xp.where(data.support, xz, 0.0).sum() + pair.sum()) / data.pairs
    return xz, pair, mean


def _strayed(data: Data, x: Any, g: Any, weights: Any) -> Any:
    """What scores outside their set claim: eta t |level|, summed. The certificate takes it back."""
    _, level = softmax(data, g)
    return (weights * abs(x @ data.mass.T * level)).sum()


def _into_neighbourhood(solver: InteriorPoint, data: Data, point: Point, r: Residual, move: Move) -> tuple[Any, Any]:
    """(step, mu after it): back from the boundary until every product is a fair share of the mean.

    Under a limit on leakage that is not enough. The products see neither the curvature of the set of scores nor
    its price eta: where that is high, a change of 1e-2 in a score may be worth more than all products. So the scores
    must also stay in their set up to the share `stray` of the products, or come nearer to it.
    """
    h, cross = xp.where(data.support, data.h, 1.0), _cross(data, point, move)

    def worst(xz: Any, pair: Any) -> Any:
        pair = data.open(pair, xp.inf)
        return xp.minimum(xp.where(data.support, xz / h, xp.inf).min(), pair.min(initial=xp.inf))

    share = xp.minimum(solver.neighbourhood, 0.9 * worst(point.x * point.z, point.slack * point.price) / r.mu)

    limits = data.budgets.shape[0]

    def held(a: Any, mean: Any) -> Any:
        """Whether the scores are near enough to their set after a step a."""
        if data.form is not Form.LIMIT:
            return True
        weights = r.weights + a * move.price[limits:]
        after = _strayed(data, point.x + a * move.x, _scores_after(data, point, move, a), weights)
        # At the price after the step: one that doubles would hide that its scores come nearer.
        allowed = xp.maximum(solver.stray * data.pairs * mean, (1.0 - 0.5 * a) * (weights * abs(r.t * r.level)).sum())
        return after <= allowed

    def outside(carry: tuple[Any, Any, Any, Any]) -> Any:
        _, _, good, count = carry
        return ~good & (count < 30)

    def shorten(carry: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        a, _, _, count = carry
        a = xp.where(count == 0, a, a * 0.93)
        xz, pair, mean = _products(data, point, move, cross, a)
        return a, mean, (mean > 0) & (worst(xz, pair) >= share * mean) & held(a, mean), count + 1

    a = solver.boundary * _largest(solver, data, point, move)
    a, mean, _, _ = xp.while_loop(outside, shorten, (a, r.mu, np.array(False), np.array(0)))
    return a, mean


def _combine(a: Move, b: Move, factor: Any = 1.0) -> Move:
    return Move(*(p + factor * q for p, q in zip(a, b, strict=True)))


def _advance(solver: InteriorPoint, data: Data, point: Point, r: Residual) -> tuple[Point, Any]:
    """One predictor-corrector step."""
    f = factorise(data, point, r)
    limits = r.columns.shape[0]
    zero = xp.zeros((), like=point.x)
    no_row = xp.zeros_like(r.row)

    # Predictor (remove everything), centring (raise every product to h), response to each price (Z moves by the
    # column of its limit).
    ratio = xp.where(data.support, data.h / xp.where(data.support, point.x, 1.0), 0.0)
    rho = xp.concatenate([xp.stack([-xp.where(data.support, point.z, 0.0), ratio]), -r.columns])
    link = xp.put(xp.zeros((2 + limits, *r.w.shape), like=point.x), 0, r.link)
    level = xp.put(xp.zeros((2 + limits, *r.level.shape), like=point.x), 0, -r.t * r.level)
    row = xp.put(xp.zeros((2 + limits, *r.row.shape), like=point.x), 0, r.row)
    dx, dz, dg, dnu = solve_newton(r, f, rho, link, level, row)

    def part(i: Any) -> tuple[Any, ...]:
        return dx[i], dz[i], dg[i], dnu[i]

    response = part(slice(2, None))
    weight_gap = 1.0 - r.weights.sum() if data.form is Form.WORST else zero
    nothing = (xp.zeros_like(point.price), zero)
    missing = (r.bounds - r.use - point.slack, weight_gap)
    predict = with_border(data, point, r, part(0), response, -point.slack * point.price, missing)
    ones = data.open(xp.ones_like(point.price), 0.0)
    centre = with_border(data, point, r, part(1), response, ones, nothing)

    reach = _largest(solver, data, point, predict)
    sigma = xp.clip((1.0 - reach) ** 5, 1e-3, 0.9)
    move = _combine(predict, centre, sigma * r.mu)
    length, mean = _into_neighbourhood(solver, data, point, r, move)

    def centred() -> tuple[Move, Any, Any, Any]:
        careful = _combine(predict, centre, r.mu)
        return careful, *_into_neighbourhood(solver, data, point, r, careful), xp.ones_like(sigma)

    def kept() -> tuple[Move, Any, Any, Any]:
        return move, length, mean, sigma

    move, length, mean, sigma = xp.cond(length < 0.1, centred, kept)

    def improving(carry: tuple[Any, ...]) -> Any:
        return carry[-1] & (carry[-2] < solver.correctors) & (carry[1] < solver.long_enough)

    def correct(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        move, length, mean, count, _ = carry
        rc, pair, link, lev, use = _corrections(data, point, r, move, length, sigma)
        ratio = xp.where(data.support, rc / xp.where(data.support, point.x, 1.0), 0.0)
        asked = (ratio, link, lev, no_row)
        solved = tuple(part[0] for part in solve_newton(r, f, *(side[None] for side in asked)))
        extra = with_border(data, point, r, solved, response, pair, (use, zero))
        trial = _combine(move, extra)
        trial_length, trial_mean = _into_neighbourhood(solver, data, point, r, trial)
        better = (trial_mean < 0.98 * mean) | (trial_length > 1.1 * length)
        choose = lambda p, q: xp.where(better, p, q)  # noqa: E731
        return (
            Move(*map(choose, trial, move)),
            choose(trial_length, length),
            choose(trial_mean, mean),
            count + 1,
            better,
        )

    start = (move, length, mean, np.array(0), np.array(True))
    move, length, _, _, _ = xp.while_loop(improving, correct, start)
    return _moved(data, point, r, move, length), length


def _corrections(
    data: Data, point: Point, r: Residual, move: Move, length: Any, sigma: Any
) -> tuple[Any, Any, Any, Any, Any]:
    """Gondzio's corrector: what the linear model misses at a somewhat longer step.

    Returns right-hand sides for the products, the pairs, the link, the normalisation and the limits.
    """
    a = xp.minimum(1.0, length + 0.3)
    xz, pair, _ = _products(data, point, move, _cross(data, point, move), a)
    goal = ((1.0 - a) + a * sigma) * r.mu

    def towards(product: Any, aim: Any) -> Any:
        return xp.maximum(xp.clip(product, 0.1 * aim, 10.0 * aim) - product, -10.0 * aim)

    rc = xp.where(data.support, towards(xz, goal * data.h), 0.0)
    # Exact remainders of the link, of the normalisation and of the leakage limits.
    after = _scores_after(data, point, move, a)
    dt, dg = move.x @ data.mass.T, grouped(data, move.g)
    w = grouped(data, r.w)
    drift = (w * dg).sum(axis=2) / r.t  # q'dg
    q_after, level_after = softmax(data, after)
    linear = w + a * (w * (dt / r.t - drift)[..., None] + w * dg)
    link = linear - (r.t + a * dt)[..., None] * q_after
    lev = -r.t * (level_after - r.level - a * drift)
    use = xp.zeros_like(point.price)
    if data.form is not Form.OBJECTIVE:
        limits = data.budgets.shape[0]
        rate = (r.normals * move.x).sum(axis=(1, 2))[limits:] + grouped(data, r.link * move.g).sum(axis=(0, 2))
        actual = leak_use(data, point.x + a * move.x, after)
        use = xp.put(use, np.s_[limits:], r.use[limits:] + a * rate - actual)
    return rc, data.open(towards(pair, goal), 0.0), link.reshape(r.w.shape), lev, use


def _moved(data: Data, point: Point, r: Residual, move: Move, a: Any) -> Point:
    x = point.x + a * move.x
    x = xp.where(data.support, x, 0.0)
    x = x / x.sum(axis=0)
    g, nu = _scores_after(data, point, move, a), point.nu + a * move.nu
    price, slack = point.price + a * move.price, point.slack + a * move.slack
    new = Point(x, point.z, g, nu, price, slack, point.peak + a * move.peak)
    z = reduced_costs(data, g, nu, price, leakage_weights(data, new))
    floor = 1e-3 * r.mu * data.h / xp.where(data.support, x, 1.0)
    z = xp.where(data.support, xp.where(z > 0, z, floor), 1.0)
    return new._replace(z=z)
