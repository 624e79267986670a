"""Where the method starts: the independent release, centred."""

from typing import Any

import numpy as np

from jaxpriv import _arrays as xp
from jaxpriv.problems.measured import Role
from jaxpriv.solvers.conic.sets import rule_at
from jaxpriv.solvers.conic.system import Data, Point, edges_of, measure_use, reduced_costs, row_prices


def first_point(data: Data, target: Any) -> Point:
    """A strictly interior point around the independent release. `target` scales the distance to the boundary."""
    outputs, inputs = data.cost.shape
    rows, a = data.rows, data.a
    limits = data.c.shape[0]
    support = data.support
    x = support.astype(a.dtype)
    x = x / x.sum(axis=0)
    mu = target / outputs
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
    sums, worst = measure_use(data, x, t, v, g, edges_of(data, g, xp.ones_like(g), 0.0))
    peaks = [
        sums[place.limit] - term.bound
        for term, place in zip(data.terms, data.layout, strict=True)
        if term.role is Role.PEAK
    ]
    peaks += [xp.where(data.program.marks[i] > 0, -room[i], -xp.inf) for i in range(limits)]
    peak = xp.stack(peaks).max() + mu if data.program.peaked else xp.zeros((), like=a)
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
            eta.append(mu / own)
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
    costs = reduced_costs(data, k, eta_array, xp.zeros(inputs, like=a), price)
    nu = _row_prices(data, costs, mu)
    z = xp.where(support, costs - nu, 1.0)
    return Point(x, z, k, t, s, v, eta_array, sigma_array, nu, price, slack, peak)


def _row_prices(data: Data, costs: Any, mu: Any) -> Any:
    """nu that puts the mean of x z / (mu h) of every row at one, x being uniform on the support."""
    count = data.support.astype(costs.dtype).sum(axis=0)
    inside = xp.where(data.support, costs, 0.0).sum(axis=0) / count
    lowest = xp.where(data.support, costs, xp.inf).min(axis=0)
    height = xp.where(data.support, data.h, 0.0).max(axis=0)
    return xp.minimum(inside - mu * height * count, lowest - 0.1 * mu * height * count)
