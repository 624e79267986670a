"""The optimality system of the interior-point method: a program rearranged, a point, its residuals."""

from typing import Any, NamedTuple

import numpy as np

from jaxpriv import _arrays as xp
from jaxpriv.problems.program import Form, Program


class Point(NamedTuple):
    """Primal and dual variables; X, Z, and costs are held outputs-first, (Y, X)."""

    x: Any  # (Y, X) the mechanism
    z: Any  # (Y, X) reduced costs
    g: Any  # (Y, T) scores, T = K |S|
    nu: Any  # (X,) prices of the row sums
    price: Any  # (B,) multipliers of the budgets, then of the leakage limits
    slack: Any  # (B,)
    peak: Any  # () the largest leakage (form WORST)


class Data(NamedTuple):
    """A program rearranged for the iteration."""

    joint: Any  # (T, X) stacked joints, or the diagonal (X,) of a single one
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
    diagonal: bool
    equal: Any  # (B,) bool: limits that are equations, without slack, or None

    def open(self, values: Any, blank: Any) -> Any:
        """Numbers of the limits that are inequalities, (..., B); `blank` in the place of equations."""
        return values if self.equal is None else xp.where(self.equal, blank, values)

    def see(self, x: Any) -> Any:
        """J x of every output: (Y, X) -> (Y, T)."""
        return x * self.joint if self.diagonal else xp.matmul(x, self.joint.T)

    def tell(self, g: Any) -> Any:
        """J' g of every output: (Y, T) -> (Y, X)."""
        return g * self.joint if self.diagonal else xp.matmul(g, self.joint)


def rearrange(program: Program, *, dense: bool = False) -> Data:
    """The program as the method sees it; `dense`: the joint as a matrix even where it is diagonal."""
    groups, private, inputs = program.joints.shape
    joint = program.joints.reshape(groups * private, inputs)
    prior = joint.sum(axis=1)
    support = program.support.T
    mass = program.masses
    h = 0.5 * mass.mean(axis=0) + 0.5 / inputs
    h = xp.where(support, h, 0.0)
    c = xp.swapaxes(program.constraints, 1, 2)
    free = groups if program.form is not Form.OBJECTIVE else 0
    diagonal = program.diagonal and not dense
    equal = program.equal
    closed = 0
    if equal is not None:
        closed = equal.sum(dtype=h.dtype)
        equal = xp.concatenate([equal, np.zeros(free, bool)])
    return Data(
        joint=xp.diagonal(joint) if diagonal else joint,
        log_prior=xp.where(prior > 0, xp.log(xp.where(prior > 0, prior, 1.0)), -xp.inf),
        seen=prior > 0,
        mass=mass,
        cost=program.cost.T,
        c=c,
        budgets=program.budgets,
        limit=program.limit,
        support=support,
        h=h,
        pairs=h.sum() + c.shape[0] + free - closed,
        groups=groups,
        form=program.form,
        diagonal=diagonal,
        equal=equal,
    )


def grouped(data: Data, array: Any) -> Any:
    """(..., T) seen as (..., K, S)."""
    return array.reshape(*array.shape[:-1], data.groups, -1)


def leakage_weights(data: Data, point: Point) -> Any:
    """eta_k: the price of leakage under each joint."""
    if data.form is Form.OBJECTIVE:
        return xp.ones(data.groups, like=data.joint)
    return point.price[data.budgets.shape[0] :]


def spread_weights(data: Data, weights: Any) -> Any:
    """eta_k on every row of the stacked joint, (T,)."""
    return xp.repeat(weights, data.log_prior.shape[0] // data.groups)


def reduced_costs(data: Data, g: Any, nu: Any, price: Any, weights: Any) -> Any:
    limits = data.budgets.shape[0]
    z = data.cost + data.tell(g * spread_weights(data, weights)) - nu
    return z + xp.weigh(price[:limits], data.c) if limits else z


class Residual(NamedTuple):
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


def softmax(data: Data, g: Any) -> tuple[Any, Any]:
    """(q, level): posterior and ln sum p e^g of every output and group, (Y, K, S) and (Y, K)."""
    tilted = grouped(data, g + data.log_prior)
    top = tilted.max(axis=2, keepdims=True)
    e = xp.exp(tilted - top)
    total = e.sum(axis=2, keepdims=True)
    return e / total, (top + xp.log(total))[..., 0]


def leak_use(data: Data, x: Any, g: Any) -> Any:
    """sum_y ( <g, J X_y> - t level ): each group's leakage as the scores see it, (K,)."""
    _, level = softmax(data, g)
    t = x @ data.mass.T
    return (grouped(data, g) * grouped(data, data.see(x))).sum(axis=(0, 2)) - (t * level).sum(axis=0)


def residuals(data: Data, point: Point) -> Residual:
    weights = leakage_weights(data, point)
    q, level = softmax(data, point.g)
    t = point.x @ data.mass.T
    w_primal = data.see(point.x)
    w = (t[..., None] * q).reshape(w_primal.shape)
    columns, normals = data.c, data.c
    use, bounds = (data.c * point.x).sum(axis=(1, 2)), data.budgets
    if data.form is not Form.OBJECTIVE:
        seen = _told_by_group(data, point.g)
        columns = xp.concatenate([columns, seen])
        normals = xp.concatenate([normals, seen - level.T[:, :, None] * data.mass[:, None, :]])
        use = xp.concatenate([use, leak_use(data, point.x, point.g)])
        limit = xp.broadcast_to(point.peak if data.form is Form.WORST else data.limit, (data.groups,))
        bounds = xp.concatenate([bounds, limit])
    return Residual(
        weights=weights,
        spread=spread_weights(data, weights),
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
        mu=(xp.where(data.support, point.x * point.z, 0.0).sum() + (point.slack * point.price).sum()) / data.pairs,
    )


def _told_by_group(data: Data, g: Any) -> Any:
    """J_k' g_k of every group and output, (K, Y, X)."""
    if data.diagonal:
        return data.tell(g)[None]
    stacked = data.joint.reshape(data.groups, -1, data.joint.shape[1])
    return xp.einsum("yks,ksx->kyx", grouped(data, g), stacked)


def leakages(data: Data, w: Any) -> Any:
    """I(S;Y) of output joints (Y, T), per group."""
    parts = grouped(data, w)
    mass = parts.sum(axis=2, keepdims=True)
    tiny = np.finfo(w.dtype).tiny
    ratio = xp.log(xp.maximum(parts, tiny)) - xp.log(xp.maximum(mass, tiny))
    prior = grouped(data, xp.where(data.seen, data.log_prior, 0.0))
    return (parts * (ratio - prior)).sum(axis=(0, 2))
