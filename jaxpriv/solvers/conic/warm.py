"""A start near the solution where one relative entropy is limited in every outcome (Calmon-Fawaz Theorem 2).

With a price eta_y on the limit of every output, phi(W_y) + offset . W_y <= 0, the Lagrangian

    <cost, W> + sum_y eta_y (phi(W_y) + offset . W_y)

lies below its linearisation plus max(eta) KL(W', W), weighted by the mass of x: a mirror step of that length
decreases it. Alternating with prices that grow where the limit is exceeded and shrink where there is room, a
hundred such steps, a few matrix products each, save half of the Newton steps.
"""

from typing import Any

import numpy as np

from jaxpriv import _arrays as xp
from jaxpriv.problems.measured import Kind, MeasuredProgram, Role
from jaxpriv.solvers._central_path import row_prices
from jaxpriv.solvers._parts import in_precision
from jaxpriv.solvers.conic.sets import rule_at
from jaxpriv.solvers.conic.system import Data, Point, reduced_costs

# A price changes by the fourth root of what its output leaks over the limit, by no more than this factor a step,
# and is at most so many times the mean price: one that ran away would shorten the steps of all.
_DAMPING = 0.25
_FASTEST = 0.85
_HIGHEST = 3.0
# The release is mixed with an independent one until no output is nearer to its limit than this share of it...
_INSIDE = 0.97
# ...with at least this share of it, and with as much of the uniform release, so that no entry is tiny.
_SPREAD = 0.02
# Smallest products at the start, as shares of those on the central path: of an entry and its reduced cost (those
# of entries that the mirror steps gave up are thousands of times too small, and cost Newton steps), and of a price
# and its slack (held much higher it would undo the prices found).
_LEAST_ENTRY = 0.3
_LEAST_PAIR = 0.01


def has_warm_start(program: MeasuredProgram) -> bool:
    """Whether the one limit of the program is a relative entropy in every outcome."""
    if len(program.terms) != 1 or program.budgets.shape[0] or program.peaked:
        return False
    (term,) = program.terms
    return term.kind is Kind.ENTROPIC and term.role is Role.WORST


def warm_point(data: Data, steps: int, target: Any) -> Point:
    """A strictly interior point after mirror steps in float32; mu is `target` times its gap, shared out."""
    outputs = data.cost.shape[0]
    x, eta = in_precision(_mirror_steps(in_precision(data, np.float32), steps), data.cost.dtype)
    independent = xp.broadcast_to((x @ data.program.mass)[:, None] / data.program.mass.sum(), x.shape)
    _, used, room = _leak(data, x)
    share = xp.clip(1.0 - _INSIDE / (used / room).max(), _SPREAD, 1.0)
    x = (1.0 - _SPREAD) * ((1.0 - share) * x + share * independent) + _SPREAD * _uniform(data)
    x = xp.where(data.support, x, 0.0)
    x = x / x.sum(axis=0)

    g, used, room = _leak(data, x)
    no_prices = xp.zeros(data.cost.shape[1], like=x), xp.zeros(0, like=x)
    costs = reduced_costs(data, g * eta[:, None], eta[:, None], *no_prices)
    gap = (x * costs).sum() - xp.where(data.support, costs, xp.inf).min(axis=0).sum()
    mu = target * xp.maximum(gap, 1e-9) / outputs
    sigma = xp.maximum(room - used, 1e-12)
    eta = xp.maximum(eta, _LEAST_PAIR * mu / sigma)
    sigma = xp.maximum(sigma, _LEAST_PAIR * mu / eta)
    k = g * eta[:, None]
    costs = reduced_costs(data, k, eta[:, None], *no_prices)
    nu = row_prices(data.support, data.h, costs, mu)
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


def _leak(data: Data, x: Any) -> tuple[Any, Any, Any]:
    """(g, the rules; what every output leaks, and may leak, beyond an independent release of its mass)."""
    (term,) = data.terms
    tiny = np.finfo(x.dtype).tiny
    w = xp.maximum(data.see(x), tiny)
    g = xp.each(lambda seen: rule_at(term, seen), w)
    prior = term.rows.sum(axis=1)
    room = -(rule_at(term, prior) @ prior + term.offset.sum()) / prior.sum() * w.sum(axis=1)
    return g, (g * w).sum(axis=1) + x @ term.offset + room, xp.maximum(room, tiny)


def _mirror_steps(data: Data, steps: int) -> tuple[Any, Any]:
    """(mechanism, prices) after mirror steps from the uniform mechanism and the price of the whole distortion."""
    (term,) = data.terms
    outside = xp.where(data.support, 0.0, -xp.inf)
    span = xp.where(data.support, data.cost, 0.0).max(axis=0).sum()

    def step(_: Any, carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        log_x, x, eta = carry
        g, used, room = _leak(data, x)
        excess = (xp.maximum(used, 0.0) / room) ** _DAMPING
        eta = eta * xp.clip(excess, _FASTEST, 1.0 / _FASTEST)
        eta = xp.minimum(eta, _HIGHEST * eta.mean())
        gradient = data.cost + data.tell(eta[:, None] * g) + eta[:, None] * term.offset
        log_x = log_x - gradient / (data.program.mass * eta.max()) + outside
        log_x = log_x - log_x.max(axis=0)
        x = xp.exp(log_x)
        return log_x, x / x.sum(axis=0), eta

    uniform = _uniform(data)
    start = xp.log(uniform), uniform, xp.full(data.cost.shape[0], span, like=data.cost)
    _, x, eta = xp.fori_loop(0, steps, step, start)
    return x, eta


def _uniform(data: Data) -> Any:
    weights = data.support.astype(data.cost.dtype)
    return weights / weights.sum(axis=0)
