"""Where the method starts: the independent release, or for some programs a few mirror steps from it; centred."""

import jax
import numpy as np

from jaxpriv import _arrays as xp
from jaxpriv._types import Arr, ScalarLike
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.solvers import _central_path
from jaxpriv.solvers.conic.candidate import largest_ratio
from jaxpriv.solvers.conic.mirror import (
    average_leaks,
    average_steps,
    averaged,
    limited_in_every_outcome,
    outcome_leaks,
    outcome_steps,
    uniform,
)
from jaxpriv.solvers.conic.sets import rule_at
from jaxpriv.solvers.conic.system import Data, Point, edges_of, measure_use, reduced_costs, row_prices

# After mirror steps the release is mixed with an independent one until no output is nearer to its limit than this
# share of it...
_INSIDE = 0.97
# ...with at least this share of it, and with as much of the uniform release, so that no entry is tiny.
_SPREAD = 0.02
# Smallest products at the start, as shares of those on the central path: of an entry and its reduced cost (those
# of entries that the mirror steps gave up are thousands of times too small, and cost Newton steps), and of a price
# and its slack (held much higher it would undo the prices found).
_LEAST_ENTRY = 0.3
_LEAST_PAIR = 0.01
# The least price of a budget after mirror steps.
_LEAST_PRICE = 1e-3
# A start under a peak to be minimised is a mixture with the anchor that leaves this share of the anchor's room in
# every budget, of no more than so much of the anchor; its peak is this many times its largest ratio.
_ROOM, _MOST_ANCHOR, _ABOVE = 0.5, 0.95, 1.1
# Where the products of a start near the solution are, as a share of its gap.
_NEAR = 0.3


def first_point(data: Data, attempt: ScalarLike, warm_steps: int) -> Point:
    """A strictly interior point, further inside on every further attempt.

    A smooth worst-outcome limit alone allows a start nearer to the boundary, while linear programs with small budgets
    need more.
    """
    program = data.program
    nearest = _NEAR if any(term.smooth and term.role is Role.WORST for term in program.terms) else 1.0
    targets, near = (nearest, 30.0, 1000.0), None
    if averaged(program):
        targets, near = (1.0, 1.0, 30.0), average_point
    elif limited_in_every_outcome(program):
        near = outcome_point
    point = independent_point(data, xp.choose(targets, attempt, data.a.dtype))
    if near is None:
        return point
    nearer = xp.cond(attempt == 0, lambda: near(data, warm_steps, _NEAR), lambda: point)
    # Steps that lost their way have a gap of many times what the uniform release has; those that left the range of
    # float32 have none. The budgets count at the prices found, which are steep where there is little room.
    costs, limits = data.cost, data.c.shape[0]
    if limits:
        costs = costs + xp.weigh(nearer.price[:limits], data.c)
    most = (1.0 + _gap(data, uniform(data), costs)) * (point.x * point.z).sum()
    found = (nearer.x * nearer.z).sum() <= most
    return jax.tree.map(lambda new, old: xp.where(found, new, old), nearer, point)


def average_point(data: Data, steps: ScalarLike, target: ScalarLike) -> Point:
    """A strictly interior point after mirror steps for averages; mu is `target` times its gap, shared out."""
    program, outputs = data.program, data.cost.shape[0]
    x, lam, weights = average_steps(data, steps)
    x = (1.0 - _SPREAD) * x + _SPREAD * uniform(data)
    lam = xp.maximum(lam, _LEAST_PRICE)
    weights = (1.0 - _SPREAD) * weights / weights.sum() + _SPREAD / len(weights)
    g, leaks = average_leaks(data, x)
    price = xp.concatenate([lam, weights]) if program.peaked else lam
    no_eta = xp.zeros((outputs, 0), like=x)
    k = g * row_prices(data, price, no_eta)
    costs = reduced_costs(data, k, no_eta, xp.zeros(data.cost.shape[1], like=x), price)
    mu = target * xp.maximum(_gap(data, x, costs), 1e-9) / outputs
    nu = _central_path.row_prices(data.support, data.h, costs, mu)
    z = xp.where(data.support, costs - nu, 1.0)
    x = xp.where(data.support, xp.sqrt(x * (mu * data.h / z)), 0.0)
    x = x / x.sum(axis=0)
    slack = xp.maximum(program.budgets - (data.c * x).sum(axis=(1, 2)), mu / lam)
    peak = xp.zeros((), like=x)
    if program.peaked:
        peak = leaks.max() + mu * len(leaks)
        slack = xp.concatenate([slack, xp.maximum(peak - leaks, mu / weights)])
    if data.equal is not None:
        slack = xp.where(data.equal, 0.0, slack)
    return Point(
        x=x,
        z=z,
        k=k,
        t=xp.zeros((outputs, len(data.terms)), like=x),
        s=xp.ones((outputs, 0), like=x),
        v=xp.zeros((outputs, 0), like=x),
        eta=no_eta,
        sigma=no_eta,
        nu=nu,
        price=price,
        slack=slack,
        peak=peak,
    )


def _gap(data: Data, x: Arr, costs: Arr) -> ScalarLike:
    """What a mechanism costs beyond the cheapest entries, (Y, X) each."""
    return xp.where(data.support, x * costs, 0.0).sum() - xp.where(data.support, costs, xp.inf).min(axis=0).sum()


def outcome_point(data: Data, steps: ScalarLike, target: ScalarLike) -> Point:
    """The same after mirror steps for a relative entropy that is limited in every outcome."""
    outputs = data.cost.shape[0]
    x, eta = outcome_steps(data, 2 * steps)
    independent = xp.broadcast_to((x @ data.program.mass)[:, None] / data.program.mass.sum(), x.shape)
    _, used, room = outcome_leaks(data, x)
    share = xp.clip(1.0 - _INSIDE / (used / room).max(), _SPREAD, 1.0)
    x = (1.0 - _SPREAD) * ((1.0 - share) * x + share * independent) + _SPREAD * uniform(data)
    x = xp.where(data.support, x, 0.0)
    x = x / x.sum(axis=0)

    g, used, room = outcome_leaks(data, x)
    no_prices = xp.zeros(data.cost.shape[1], like=x), xp.zeros(0, like=x)
    costs = reduced_costs(data, g * eta[:, None], eta[:, None], *no_prices)
    mu = target * xp.maximum(_gap(data, x, costs), 1e-9) / outputs
    sigma = xp.maximum(room - used, 1e-12)
    eta = xp.maximum(eta, _LEAST_PAIR * mu / sigma)
    sigma = xp.maximum(sigma, _LEAST_PAIR * mu / eta)
    k = g * eta[:, None]
    costs = reduced_costs(data, k, eta[:, None], *no_prices)
    nu = _central_path.row_prices(data.support, data.h, costs, mu)
    x = xp.where(data.support, xp.maximum(x, _LEAST_ENTRY * mu * data.h / (costs - nu)), 0.0)
    x = x / x.sum(axis=0)
    return Point(
        x=x,
        z=xp.where(data.support, costs - nu, 1.0),
        k=k,
        t=xp.zeros((outputs, 1), like=x),
        s=xp.ones((outputs, 0), like=x),
        v=xp.zeros((outputs, 0), like=x),
        eta=eta[:, None],
        sigma=sigma[:, None],
        nu=nu,
        price=no_prices[1],
        slack=no_prices[1],
        peak=xp.zeros((), like=x),
    )


def independent_point(data: Data, target: ScalarLike) -> Point:
    """A strictly interior point around the independent release. `target` scales the distance to the boundary."""
    outputs, inputs = data.cost.shape
    rows, a = data.rows, data.a
    limits = data.c.shape[0]
    support = data.support
    x = support.astype(a.dtype)
    x = x / x.sum(axis=0)
    mu = target / outputs
    peak = xp.zeros((), like=a)
    if data.program.minimax:
        # Budgets far exceeded at the start would still be when the products have fallen. Those of the prices of the
        # outputs sum to `target` times the peak.
        x = _within_budgets(data, x)
        peak = _ABOVE * largest_ratio(data, x)
        mu = mu * peak / len(data.rates)
    # Limits first: where they hold their price is on the central path, elsewhere it is one.
    used = (data.c * x).sum(axis=(1, 2))
    room = data.program.budgets - used
    slack = xp.maximum(room, mu)
    price, eta, sigma = mu / slack, [], []
    if data.equal is not None:
        slack = xp.where(data.equal[:limits], 0.0, slack)
    seen = data.see(x)
    prior = seen.sum(axis=0)
    g = xp.concatenate(
        [rule_at(term, prior[at.rows]) if term.smooth else xp.zeros_like(term.reference)
         for term, at in zip(data.terms, data.layout, strict=True)]
    )  # fmt: skip
    g = xp.broadcast_to(g, (outputs, rows))
    t = xp.zeros((outputs, len(data.terms)), like=a)
    v = xp.zeros((outputs, rows if data.any_linear else 0), like=a)
    sums, worst = measure_use(data, x, t, v, g, edges_of(data, g, xp.ones_like(g), 0.0), peak)
    peaks = [
        sums[place.limit] - term.bound
        for term, place in zip(data.terms, data.layout, strict=True)
        if term.role is Role.PEAK
    ]
    peaks += [xp.where(data.program.marks[i] > 0, -room[i], -xp.inf) for i in range(limits)]
    if data.program.peaked:
        peak = xp.stack(peaks).max() + mu
    sharing = xp.maximum(data.marks.sum(), 1.0)
    if data.program.peaked:
        price = xp.where(data.program.marks > 0, 1.0 / sharing, price)
        slack = xp.where(data.program.marks > 0, xp.maximum(room + peak, mu * sharing), slack)
    for term, place in zip(data.terms, data.layout, strict=True):
        if place.limit is not None:
            shared = term.role is Role.PEAK
            own = term.bound + (peak if shared else 0.0) - sums[place.limit]
            # An independent release holds a limit with all its room, however small: a slack of mu in its place
            # would put the first steps far outside, where the rules follow a leakage many times the limit.
            own = xp.maximum(own, mu) if shared else xp.where(own > 0.0, own, mu)
            price = xp.append(price, 1.0 / sharing if shared else mu / own)
            slack = xp.append(slack, own)
        if place.worst is not None:
            own = xp.maximum(-worst[:, place.worst], 1e-12)
            sigma.append(own)
            shared = mu / own if term.rate is None else xp.ones_like(own) / (data.rates.sum(axis=0) @ x.sum(axis=0))
            eta.append(shared)
    wide = (outputs, 0)
    sigma_array = xp.stack(sigma, axis=1) if sigma else xp.zeros(wide, like=a)
    eta_array = xp.stack(eta, axis=1) if eta else xp.zeros(wide, like=a)
    prices = row_prices(data, price, eta_array)
    k, s, weight = g * prices, xp.ones_like(v), mu * data.row_weight
    for j, (term, place) in enumerate(zip(data.terms, data.layout, strict=True)):
        if term.smooth:
            continue
        at = place.rows
        w, b = seen[:, at], term.reference
        one_price = prices[:, at.start]
        over = xp.zeros_like(w)
        if term.cap is not None:
            over = 2.0 * weight[at] / (term.cap * one_price[:, None])
        if term.normalised and term.role is not Role.WORST:
            level = (w / b).max(axis=1) + weight[at].sum() / one_price
            t = xp.put(t, np.s_[:, j], level)
        elif term.normalised:
            lower = xp.where(b > 0, w / xp.where(b > 0, b, 1.0), -xp.inf).max(axis=1)
            upper = xp.where(b < 0, w / xp.where(b < 0, b, 1.0), xp.inf).min(axis=1)
            t = xp.put(t, np.s_[:, j], 0.5 * (lower + upper))
        gap = b * t[:, j, None] + over - w
        own_k = weight[at] / gap
        if term.cap is not None:
            own_k = xp.minimum(own_k, 0.5 * term.cap * one_price[:, None])
            v = xp.put(v, np.s_[:, at], over)
        k, s = xp.put(k, np.s_[:, at], own_k), xp.put(s, np.s_[:, at], gap)
    costs = reduced_costs(data, k, eta_array, xp.zeros(inputs, like=a), price, peak)
    nu = _row_prices(data, costs, mu)
    z = xp.where(support, costs - nu, 1.0)
    return Point(x, z, k, t, s, v, eta_array, sigma_array, nu, price, slack, peak)


def _within_budgets(data: Data, x: Arr) -> Arr:
    """A mixture of x with the anchor that leaves a share of the anchor's room in every budget."""
    anchor, budgets = data.program.anchor.T, data.program.budgets
    used, held = ((data.c * one).sum(axis=(1, 2)) for one in (x, anchor))
    most = budgets - _ROOM * xp.maximum(budgets - held, 0.0)
    share = (used - most) / xp.where(used > held, used - held, 1.0)
    share = xp.where(used > most, xp.clip(share, 0.0, _MOST_ANCHOR), 0.0).max(initial=0.0)
    return (1.0 - share) * x + share * anchor


def _row_prices(data: Data, costs: Arr, mu: ScalarLike) -> Arr:
    """nu that puts the mean of x z / (mu h) of every row at one, x being uniform on the support."""
    count = data.support.astype(costs.dtype).sum(axis=0)
    inside = xp.where(data.support, costs, 0.0).sum(axis=0) / count
    lowest = xp.where(data.support, costs, xp.inf).min(axis=0)
    height = xp.where(data.support, data.h, 0.0).max(axis=0)
    return xp.minimum(inside - mu * height * count, lowest - 0.1 * mu * height * count)
