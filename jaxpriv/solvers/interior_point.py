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

One Newton step: for every output an inverse factor of G_y = J (X/Z) J' + diag(w_y/eta), then one
Schur complement of order |X| for the row sums, then a border of the size of the number of limits.
Everything is batched over outputs and nothing branches on data, so the same program runs under
jit and vmap on any device. Cost: |Y| (|S|^2 |X| + |S| |X|^2 + |S|^3) + |X|^3.

The central path is X Z = mu h with h = (mass + 1/|X|)/2: with h = mass alone, symbols x of tiny
mass leave the neighbourhood. Mehrotra's predictor and Gondzio's correctors choose the step.
Sources: Mehrotra 1992; Gondzio 1996; primal-dual scaling for the log-sum-exp cone: own derivation.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from jaxpriv.problems.program import Form, Program, repair
from jaxpriv.solvers._base import AbstractSolver, Candidate
from jaxpriv.solvers._linear_algebra import inverse_factor, small_solve
from jaxpriv.solvers._parts import leak_of, output_columns, posterior_scores
from jaxpriv.solvers.mirror_descent import MirrorDescent, MirrorState, mirror_step, next_weights


class Point(NamedTuple):
    """Primal and dual variables; X, Z, and costs are held outputs-first, (Y, X)."""

    x: Any  # (Y, X) the mechanism
    z: Any  # (Y, X) reduced costs
    g: Any  # (Y, T) scores, T = K |S|
    nu: Any  # (X,) prices of the row sums
    price: Any  # (B,) multipliers of the budgets, then of the leakage limits
    slack: Any  # (B,)
    peak: Any  # () the largest leakage (form WORST)


class InteriorState(eqx.Module):
    """A point, its history of step lengths, and the best candidate."""

    point: Point
    count: Any
    short: Any  # short steps in a row
    stalled: Any
    best: Candidate


class _Data(NamedTuple):
    """A program rearranged for the iteration."""

    joint: Any  # (T, X) stacked joints
    log_prior: Any  # (T,)
    seen: Any  # (T,) bool: prior > 0
    mass: Any  # (K, X)
    cost: Any  # (Y, X)
    c: Any  # (R, Y, X)
    budgets: Any  # (R,)
    limit: Any
    support: Any  # (Y, X)
    h: Any  # (Y, X) weights of the central path, 0 outside the support
    pairs: Any  # () number of complementary pairs, weighted
    groups: int
    form: Form


class InteriorPoint(AbstractSolver):
    """Primal-dual interior-point method with dual scaling.

    Args:
        warm_steps: mirror-descent steps before the first attempt.
        correctors: most Gondzio correctors in one step.
        boundary: fraction of the way to the boundary that a step may go.
        neighbourhood: smallest allowed ratio of a complementarity product to the mean.
        score_change: largest change of a score in one step.
    """

    warm_steps: int = eqx.field(static=True, default=50)
    correctors: int = eqx.field(static=True, default=3)
    boundary: float = eqx.field(static=True, default=0.95)
    neighbourhood: float = eqx.field(static=True, default=0.02)
    score_change: float = eqx.field(static=True, default=3.0)
    attempts: int = eqx.field(static=True, default=3)

    def init(self, program: Program, attempt: Any, best: Candidate) -> InteriorState:
        """Mirror-descent start, milder on every further attempt, moved to a centred point.

        Form LIMIT starts cold, from the independent release: there the limit holds with all its
        room, whatever its size, while a warm start may be far outside a small limit.
        """
        data = _rearrange(program)
        if program.form is Form.LIMIT:
            target = jnp.array([1.0, 10.0, 100.0], data.joint.dtype)[attempt]
            start, blend, best = MirrorDescent().init(program, 0, best), jnp.zeros((), data.joint.dtype), best
        else:
            steps = jnp.array([self.warm_steps, 5, 2])[attempt]
            blend = jnp.array([0.02, 0.2, 0.6], data.joint.dtype)[attempt]
            target = jnp.array([0.3, 1.0, 1.0], data.joint.dtype)[attempt]
            start = _warm_start(program, best, steps)
        point = _centred(program, data, start, blend, target)
        return InteriorState(point, jnp.array(0), jnp.array(0), jnp.array(False), start.best)

    def step(self, program: Program, state: InteriorState) -> InteriorState:
        """Certify, factor, predict, correct, move."""
        data, point = _rearrange(program), state.point
        residual = _residuals(data, point)
        best = _record(program, data, point, residual, state.best)
        point, length = _advance(self, data, point, residual)
        short = jnp.where(length < 0.1, state.short + 1, 0)
        broken = ~jnp.isfinite(point.x.sum() + point.z.sum() + point.g.sum() + point.price.sum())
        stalled = broken | (short >= 4) | ((state.count >= 15) & (length < 0.02))
        return InteriorState(point, state.count + 1, short, stalled, best)


def _rearrange(program: Program) -> _Data:
    groups, private, inputs = program.joints.shape
    joint = program.joints.reshape(groups * private, inputs)
    prior = joint.sum(axis=1)
    support = program.support.T
    mass = program.masses
    h = 0.5 * mass.mean(axis=0) + 0.5 / inputs
    h = jnp.where(support, h, 0.0)
    c = jnp.swapaxes(program.constraints, 1, 2)
    free = groups if program.form is not Form.OBJECTIVE else 0
    return _Data(
        joint=joint,
        log_prior=jnp.where(prior > 0, jnp.log(jnp.where(prior > 0, prior, 1.0)), -jnp.inf),
        seen=prior > 0,
        mass=mass,
        cost=program.cost.T,
        c=c,
        budgets=program.budgets,
        limit=program.limit,
        support=support,
        h=h,
        pairs=h.sum() + c.shape[0] + free,
        groups=groups,
        form=program.form,
    )


def _grouped(data: _Data, array: Any) -> Any:
    """(..., T) seen as (..., K, S)."""
    return array.reshape(*array.shape[:-1], data.groups, -1)


def _weights(data: _Data, point: Point) -> Any:
    """eta_k: the price of leakage under each joint."""
    if data.form is Form.OBJECTIVE:
        return jnp.ones(data.groups, data.joint.dtype)
    return point.price[data.budgets.shape[0] :]


def _spread(data: _Data, weights: Any) -> Any:
    """eta_k on every row of the stacked joint, (T,)."""
    return jnp.repeat(weights, data.joint.shape[0] // data.groups)


def _reduced_costs(data: _Data, g: Any, nu: Any, price: Any, weights: Any) -> Any:
    limits = data.budgets.shape[0]
    z = data.cost + (g * _spread(data, weights)) @ data.joint - nu
    return z + jnp.tensordot(price[:limits], data.c, 1) if limits else z


# --------------------------------------------------------------------------------- start


def _warm_start(program: Program, best: Candidate, steps: Any) -> MirrorState:
    """Unit mirror steps from the uniform mechanism, without their certificates."""
    start = MirrorDescent().init(program, 0, best)

    def step(_: Any, carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        log_mechanism, weights, multipliers = carry
        columns = output_columns(program, jnp.exp(log_mechanism))
        scores = posterior_scores(program, columns)
        if program.form is Form.WORST:
            weights = next_weights(program, weights, (columns * scores).sum(axis=(1, 2)))
        log_mechanism, multipliers = mirror_step(program, log_mechanism, scores, weights, multipliers, 1.0, 1)
        return log_mechanism, weights, multipliers

    first = (start.log_mechanism, start.weights, start.multipliers)
    log_mechanism, weights, multipliers = lax.fori_loop(0, steps, step, first)
    return eqx.tree_at(
        lambda s: (s.log_mechanism, s.weights, s.multipliers), start, (log_mechanism, weights, multipliers)
    )


def _centred(program: Program, data: _Data, warm: MirrorState, blend: Any, target: Any) -> Point:
    """A strictly interior point near the warm start, on the central path of a mu read off its gap."""
    outputs = data.cost.shape[0]
    weights = warm.weights
    spread = program.support.astype(data.joint.dtype)
    uniform = spread / spread.sum(axis=1, keepdims=True)
    mechanism = (1.0 - blend) * jnp.exp(warm.log_mechanism) + blend * uniform
    leak = leak_of(program, mechanism)
    scores = posterior_scores(program, leak.columns)
    if data.form is Form.LIMIT:  # priced on the central path below, once mu is known
        scores, weights = jnp.zeros_like(scores), jnp.zeros_like(weights)
    g = jnp.moveaxis(scores, 0, 1).reshape(outputs, -1)
    lam = jnp.maximum(warm.multipliers, 1e-3)
    x = mechanism.T
    no_price = jnp.zeros_like(data.mass[0])
    costs = _reduced_costs(data, g, no_price, lam, weights)
    inside = jnp.where(data.support, costs, jnp.inf)
    gap = (jnp.where(data.support, x * costs, 0.0)).sum() - inside.min(axis=0).sum()
    mu = target * jnp.maximum(gap, 1e-9) / outputs
    nu = _row_prices(data, costs, mu)
    z = jnp.where(data.support, costs - nu, 1.0)
    x = jnp.where(data.support, jnp.sqrt(x * (mu * data.h / z)), 0.0)
    x = x / x.sum(axis=0)
    slack = jnp.maximum(data.budgets - (data.c * x).sum(axis=(1, 2)), mu / lam)
    peak = jnp.zeros((), x.dtype)
    if data.form is Form.OBJECTIVE:
        return Point(x, z, g, nu, lam, slack, peak)
    if data.form is Form.LIMIT:
        room = jnp.broadcast_to(data.limit, weights.shape)
        weights = mu / room
    else:
        peak = leak.values.max() + mu * data.groups
        room = jnp.maximum(peak - leak.values, mu / weights)
    price, slack = jnp.concatenate([lam, weights]), jnp.concatenate([slack, room])
    return Point(x, z, g, nu, price, slack, peak)


def _row_prices(data: _Data, costs: Any, mu: Any) -> Any:
    """nu with sum_y mu h / (costs - nu) = 1 in every row: Newton on the reciprocal, monotone from below."""
    inside = jnp.where(data.support, costs, jnp.inf)
    top = inside.min(axis=0)
    nu = top - mu * data.h.max(axis=0)

    def unfinished(carry: tuple[Any, Any, Any]) -> Any:
        _, error, count = carry
        return (error > 1e-10) & (count < 80)

    def newton(carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        nu, _, count = carry
        q = jnp.where(data.support, mu * data.h / (inside - nu), 0.0)
        f = q.sum(axis=0)
        slope = jnp.where(data.support, q / (inside - nu), 0.0).sum(axis=0)
        new = jnp.minimum(nu - (f - 1.0) * f / slope, top - mu * data.h.max(axis=0) * 0.999999)
        return new, jnp.abs(f - 1.0).max(), count + 1

    nu, _, _ = lax.while_loop(unfinished, newton, (nu, jnp.array(jnp.inf, nu.dtype), jnp.array(0)))
    return nu


# ----------------------------------------------------------------------------- residuals


class _Residual(NamedTuple):
    """Everything that depends on the point alone."""

    weights: Any  # (K,)
    spread: Any  # (T,)
    w_primal: Any  # (Y, T) J X_y
    t: Any  # (Y, K)
    w: Any  # (Y, T) t q: the dual's columns
    link: Any  # (Y, T) J X_y - w
    level: Any  # (Y, K) ln sum p e^g
    row: Any  # (X,) 1 - sum_y X_y
    columns: Any  # (B, Y, X): d Z / d price
    normals: Any  # (B, Y, X): d (use of the limit) / d X
    use: Any  # (B,) left-hand sides of the limits
    bounds: Any  # (B,) right-hand sides
    mu: Any


def _softmax(data: _Data, g: Any) -> tuple[Any, Any]:
    """(q, level): posterior and ln sum p e^g of every output and group, (Y, K, S) and (Y, K)."""
    tilted = _grouped(data, g + data.log_prior)
    top = tilted.max(axis=2, keepdims=True)
    e = jnp.exp(tilted - top)
    total = e.sum(axis=2, keepdims=True)
    return e / total, (top + jnp.log(total))[..., 0]


def _leak_use(data: _Data, x: Any, g: Any) -> Any:
    """sum_y ( <g, J X_y> - t level ): each group's leakage as the scores see it, (K,)."""
    _, level = _softmax(data, g)
    t = x @ data.mass.T
    return (_grouped(data, g) * _grouped(data, x @ data.joint.T)).sum(axis=(0, 2)) - (t * level).sum(axis=0)


def _residuals(data: _Data, point: Point) -> _Residual:
    weights = _weights(data, point)
    q, level = _softmax(data, point.g)
    t = point.x @ data.mass.T
    w_primal = point.x @ data.joint.T
    w = (t[..., None] * q).reshape(w_primal.shape)
    columns, normals = data.c, data.c
    use, bounds = (data.c * point.x).sum(axis=(1, 2)), data.budgets
    if data.form is not Form.OBJECTIVE:
        stacked = data.joint.reshape(data.groups, -1, data.joint.shape[1])
        seen = jnp.einsum("yks,ksx->kyx", _grouped(data, point.g), stacked, precision="highest")
        columns = jnp.concatenate([columns, seen])
        normals = jnp.concatenate([normals, seen - level.T[:, :, None] * data.mass[:, None, :]])
        use = jnp.concatenate([use, _leak_use(data, point.x, point.g)])
        limit = jnp.broadcast_to(point.peak if data.form is Form.WORST else data.limit, (data.groups,))
        bounds = jnp.concatenate([bounds, limit])
    return _Residual(
        weights=weights,
        spread=_spread(data, weights),
        w_primal=w_primal,
        t=t,
        w=w,
        link=w_primal - w,
        level=level,
        row=1.0 - point.x.sum(axis=0),
        columns=columns,
        normals=normals,
        use=use,
        bounds=bounds,
        mu=(jnp.where(data.support, point.x * point.z, 0.0).sum() + (point.slack * point.price).sum()) / data.pairs,
    )


def _record(program: Program, data: _Data, point: Point, r: _Residual, best: Candidate) -> Candidate:
    """Offer the repaired mechanism and the normalised scores of this point."""
    outputs, limits = data.cost.shape[0], data.budgets.shape[0]
    lam, weights = point.price[:limits], r.weights
    if data.form is Form.WORST:
        weights = weights / weights.sum()
    normal = (_grouped(data, point.g) - r.level[..., None]).reshape(outputs, -1)
    total = _reduced_costs(data, normal, jnp.zeros_like(point.nu), point.price, weights)
    bound = jnp.where(data.support, total, jnp.inf).min(axis=0).sum() - (lam * data.budgets).sum()
    if data.form is Form.LIMIT:
        bound = bound - weights.sum() * data.limit
    scores = jnp.moveaxis(_grouped(data, normal), 1, 0)
    best = best.with_dual(scores, weights, lam, bound)

    feasible = repair(jnp, program, point.x.T, _leakages(data, r.w_primal).max())
    leakages = _leakages(data, feasible.T @ data.joint.T)
    linear = (program.cost * feasible).sum()
    value = linear if data.form is Form.LIMIT else linear + leakages.max()
    return best.with_primal(feasible, value)


def _leakages(data: _Data, w: Any) -> Any:
    """I(S;Y) of output joints (Y, T), per group."""
    parts = _grouped(data, w)
    mass = parts.sum(axis=2, keepdims=True)
    tiny = jnp.finfo(w.dtype).tiny
    ratio = jnp.log(jnp.maximum(parts, tiny)) - jnp.log(jnp.maximum(mass, tiny))
    prior = _grouped(data, jnp.where(data.seen, data.log_prior, 0.0))
    return (parts * (ratio - prior)).sum(axis=(0, 2))


# --------------------------------------------------------------------------- linear algebra


class _Factor(NamedTuple):
    """The factored Newton system."""

    k: Any  # (Y, T, T): G_y^-1 = k'k
    r: Any  # (Y, T, X): k J (X/Z)
    u: Any  # (Y, T, K): orthonormal basis of k w
    tri: Any  # (Y, K, K): k w = u tri
    schur: Any  # (X, X): the inverse of the Schur complement is schur'schur
    di: Any  # (Y, X): X/Z


class _Move(NamedTuple):
    """A direction in every variable."""

    x: Any
    z: Any
    g: Any
    nu: Any
    price: Any
    slack: Any
    peak: Any


def _factorise(data: _Data, point: Point, r: _Residual) -> _Factor:
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
    return _Factor(k, big_r, u, tri, inverse_factor(schur, total), di)


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


def _solve(
    data: _Data, r: _Residual, f: _Factor, start: Any, q: Any, level: Any, row: Any
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


def _with_border(
    data: _Data, point: Point, r: _Residual, base: tuple[Any, ...], response: tuple[Any, ...], pair: Any, room: Any
) -> _Move:
    """Add the moves of the prices: a system of the size of the number of limits.

    `pair` = wanted slack * dprice + price * dslack, `room` = whether the residuals of the limits
    are to be removed too (the predictor) or not (centring, correctors); an array (B,) of offsets.
    """
    dx, dz, dg, dnu = base
    limits, free = data.budgets.shape[0], r.columns.shape[0] - data.budgets.shape[0]
    if limits + free == 0:
        nothing = jnp.zeros_like(point.price)
        return _Move(dx, dz, dg, dnu, nothing, nothing, jnp.zeros_like(point.peak))
    rx, rz, rg, rnu = response
    use0 = (r.normals * dx).sum(axis=(1, 2))
    use1 = jnp.einsum("iyx,jyx->ij", r.normals, rx, precision="highest")
    if free:
        use0 = use0.at[limits:].add((_grouped(data, r.link * dg)).sum(axis=(0, 2)))
        use1 = use1.at[limits:, :].add((_grouped(data, r.link * rg)).sum(axis=(1, 3)).T)
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
    return _Move(dx, dz, dg, dnu, dprice, dslack, dpeak)


# ------------------------------------------------------------------------------------ steps


def _ratio(v: Any, dv: Any) -> Any:
    """Largest step in [0, 1] that keeps v + a dv >= 0."""
    if v.size == 0:
        return jnp.ones((), v.dtype)
    return jnp.minimum(1.0, 1.0 / jnp.maximum((-dv / v).max(), 1e-300 if v.dtype == jnp.float64 else 1e-30))


def _scores_after(data: _Data, point: Point, move: _Move, a: Any) -> Any:
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
        change = jnp.maximum(change, 0.0)
    return point.g + a * _spread(data, eta / (eta + a * change)) * move.g


def _cross(data: _Data, point: Point, move: _Move) -> Any:
    """The coefficient of a^2 in Z: falling prices times changing scores, (Y, X)."""
    if data.form is not Form.WORST:
        return jnp.zeros_like(point.z)
    falling = jnp.minimum(move.price[data.budgets.shape[0] :], 0.0)
    return jnp.matmul(move.g * _spread(data, falling), data.joint, precision="highest")


def _largest(solver: InteriorPoint, data: _Data, point: Point, move: _Move) -> Any:
    safe_x = jnp.where(data.support, point.x, 1.0)
    change = jnp.abs(move.g).max()
    step = jnp.minimum(
        _ratio(safe_x, jnp.where(data.support, move.x, 0.0)), _ratio(point.z, jnp.where(data.support, move.z, 0.0))
    )
    step = jnp.minimum(step, jnp.minimum(_ratio(point.price, move.price), _ratio(point.slack, move.slack)))
    return jnp.minimum(step, solver.score_change / solver.boundary / jnp.maximum(change, 1e-30))


def _products(data: _Data, point: Point, move: _Move, cross: Any, a: Any) -> tuple[Any, Any, Any]:
    """Complementarity products after a step a, and their weighted mean."""
    xz = (point.x + a * move.x) * (point.z + a * move.z + a * a * cross)
    pair = (point.slack + a * move.slack) * (point.price + a * move.price)
    mean = (jnp.where(data.support, xz, 0.0).sum() + pair.sum()) / data.pairs
    return xz, pair, mean


def _into_neighbourhood(solver: InteriorPoint, data: _Data, point: Point, r: _Residual, move: _Move) -> tuple[Any, Any]:
    """(step, mu after it): back from the boundary until every product is a fair share of the mean."""
    h, cross = jnp.where(data.support, data.h, 1.0), _cross(data, point, move)

    def worst(xz: Any, pair: Any) -> Any:
        return jnp.minimum(jnp.where(data.support, xz / h, jnp.inf).min(), pair.min(initial=jnp.inf))

    share = jnp.minimum(solver.neighbourhood, 0.9 * worst(point.x * point.z, point.slack * point.price) / r.mu)

    def outside(carry: tuple[Any, Any, Any, Any]) -> Any:
        _, _, good, count = carry
        return ~good & (count < 30)

    def shorten(carry: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        a, _, _, count = carry
        a = jnp.where(count == 0, a, a * 0.85)
        xz, pair, mean = _products(data, point, move, cross, a)
        return a, mean, (mean > 0) & (worst(xz, pair) >= share * mean), count + 1

    a = solver.boundary * _largest(solver, data, point, move)
    a, mean, _, _ = lax.while_loop(outside, shorten, (a, r.mu, jnp.array(False), jnp.array(0)))
    return a, mean


def _combine(a: _Move, b: _Move, factor: Any = 1.0) -> _Move:
    return jax.tree.map(lambda p, q: p + factor * q, a, b)


def _advance(solver: InteriorPoint, data: _Data, point: Point, r: _Residual) -> tuple[Point, Any]:
    """One predictor-corrector step."""
    f = _factorise(data, point, r)
    limits = r.columns.shape[0]
    dtype = point.x.dtype
    no_level, no_row = jnp.zeros_like(r.level), jnp.zeros_like(r.row)

    # Predictor (remove everything), centring (raise every product to h), response to each price.
    # k (J q + link) needs no further solve: q = -X gives -w, and q = (X/Z) rho gives R rho.
    centring_q = jnp.where(data.support, data.h / point.z, 0.0)
    ratio = jnp.where(data.support, data.h / jnp.where(data.support, point.x, 1.0), 0.0)
    starts = [-jnp.einsum("ytk,ykl->yt", f.u, f.tri, precision="highest")]
    starts.append(jnp.einsum("ytx,yx->yt", f.r, ratio, precision="highest"))
    qs = [-point.x, centring_q]
    for k in range(limits):
        starts.append(-jnp.einsum("ytx,yx->yt", f.r, r.columns[k], precision="highest"))
        qs.append(-f.di * r.columns[k])
    level = jnp.stack([-r.t * r.level] + [no_level] * (1 + limits))
    row = jnp.stack([r.row] + [no_row] * (1 + limits))
    stacked = (jnp.stack(starts), jnp.stack(qs), level, row)
    dx, dz, dg, dnu = jax.vmap(partial(_solve, data, r, f))(*stacked)

    def part(i: Any) -> tuple[Any, ...]:
        return dx[i], dz[i], dg[i], dnu[i]

    response = part(slice(2, None))
    weight_gap = 1.0 - r.weights.sum() if data.form is Form.WORST else jnp.zeros((), dtype)
    nothing = (jnp.zeros_like(point.price), jnp.zeros((), dtype))
    missing = (r.bounds - r.use - point.slack, weight_gap)
    predict = _with_border(data, point, r, part(0), response, -point.slack * point.price, missing)
    centre = _with_border(data, point, r, part(1), response, jnp.ones_like(point.price), nothing)

    reach = _largest(solver, data, point, predict)
    sigma = jnp.clip((1.0 - reach) ** 5, 1e-3, 0.9)
    move = _combine(predict, centre, sigma * r.mu)
    length, mean = _into_neighbourhood(solver, data, point, r, move)

    def centred() -> tuple[_Move, Any, Any, Any]:
        careful = _combine(predict, centre, r.mu)
        return careful, *_into_neighbourhood(solver, data, point, r, careful), jnp.ones_like(sigma)

    def kept() -> tuple[_Move, Any, Any, Any]:
        return move, length, mean, sigma

    move, length, mean, sigma = lax.cond(length < 0.1, centred, kept)

    def improving(carry: tuple[Any, ...]) -> Any:
        return carry[-1] & (carry[-2] < solver.correctors)

    def correct(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        move, length, mean, count, _ = carry
        rc, pair, link, lev, use = _corrections(data, point, r, move, length, sigma)
        q = jnp.where(data.support, rc / point.z, 0.0)
        ratio = jnp.where(data.support, rc / jnp.where(data.support, point.x, 1.0), 0.0)
        start = jnp.einsum("ytx,yx->yt", f.r, ratio, precision="highest")
        start = start + jnp.einsum("ytu,yu->yt", f.k, link, precision="highest")
        solved = _solve(data, r, f, start, q, lev, no_row)
        extra = _with_border(data, point, r, solved, response, pair, (use, jnp.zeros((), dtype)))
        trial = _combine(move, extra)
        trial_length, trial_mean = _into_neighbourhood(solver, data, point, r, trial)
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


def _corrections(
    data: _Data, point: Point, r: _Residual, move: _Move, length: Any, sigma: Any
) -> tuple[Any, Any, Any, Any, Any]:
    """Gondzio's corrector: what the linear model misses at a somewhat longer step.

    Returns right-hand sides for the products, the pairs, the link, the normalisation and the limits.
    """
    a = jnp.minimum(1.0, length + 0.3)
    xz, pair, _ = _products(data, point, move, _cross(data, point, move), a)
    goal = ((1.0 - a) + a * sigma) * r.mu

    def towards(product: Any, aim: Any) -> Any:
        return jnp.maximum(jnp.clip(product, 0.1 * aim, 10.0 * aim) - product, -10.0 * aim)

    rc = jnp.where(data.support, towards(xz, goal * data.h), 0.0)
    # Exact remainders of the link, of the normalisation and of the leakage limits.
    after = _scores_after(data, point, move, a)
    dt, dg = move.x @ data.mass.T, _grouped(data, move.g)
    w = _grouped(data, r.w)
    drift = (w * dg).sum(axis=2) / r.t  # q'dg
    q_after, level_after = _softmax(data, after)
    linear = w + a * (w * (dt / r.t - drift)[..., None] + w * dg)
    link = linear - (r.t + a * dt)[..., None] * q_after
    lev = -r.t * (level_after - r.level - a * drift)
    use = jnp.zeros_like(point.price)
    if data.form is not Form.OBJECTIVE:
        limits = data.budgets.shape[0]
        rate = (r.normals * move.x).sum(axis=(1, 2))[limits:] + _grouped(data, r.link * move.g).sum(axis=(0, 2))
        actual = _leak_use(data, point.x + a * move.x, after)
        use = use.at[limits:].set(r.use[limits:] + a * rate - actual)
    return rc, towards(pair, goal), link.reshape(r.w.shape), lev, use


def _moved(data: _Data, point: Point, r: _Residual, move: _Move, a: Any) -> Point:
    x = point.x + a * move.x
    x = jnp.where(data.support, x, 0.0)
    x = x / x.sum(axis=0)
    g, nu = _scores_after(data, point, move, a), point.nu + a * move.nu
    price, slack = point.price + a * move.price, point.slack + a * move.slack
    new = Point(x, point.z, g, nu, price, slack, point.peak + a * move.peak)
    z = _reduced_costs(data, g, nu, price, _weights(data, new))
    floor = 1e-3 * r.mu * data.h / jnp.where(data.support, x, 1.0)
    z = jnp.where(data.support, jnp.where(z > 0, z, floor), 1.0)
    return new._replace(z=z)
