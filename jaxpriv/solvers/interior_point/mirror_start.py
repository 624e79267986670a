"""Mirror steps towards the solution, for a start near it: a few matrix products each save half of the Newton steps.

Two kinds of programs have them. Where smooth measures are averages, as objective or shared peak, under budgets,

    W[x, y] <- W[x, y] exp( -( cost + sum_j weight_j <g_jy, A_j> + lambda . c ) / P(x) ) / Z_x,   g = rule at W,

lambda from the budgets and the weights of a peak from what each measure leaks. For relative entropies every step
descends (see `mirror_descent`); other smooth measures are like them near independence.

Where one relative entropy is limited in every outcome (Calmon and Fawaz 2012, Theorem 2), the Lagrangian

    <cost, W> + sum_y eta_y (phi(W_y) + offset . W_y)

lies below its linearisation plus max(eta) KL(W', W), weighted by the mass of x: a mirror step of that length
decreases it. The prices grow where the limit is exceeded and shrink where there is slack.

The steps are taken in float32 (but for a user's function, which may have constants of its own precision): the first
Newton step brings the digits that they lack.
"""

import numpy as np

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.leakage.rule_sets import ENTROPIC, Role
from jaxpriv.program.convex import Program
from jaxpriv.solvers._base import approach_budgets, normalised
from jaxpriv.solvers.interior_point.candidate import by_rows
from jaxpriv.solvers.interior_point.system import (
    Data,
    average_rules,
    leaks_of,
)

# A price changes by the fourth root of what its output leaks over the limit. A choice, as the next two are.
_DAMPING = 0.25
# It changes by no more than this factor a step.
_FASTEST = 0.85
# It is at most so many times the mean price: the steps of all outputs are divided by the largest price.
_HIGHEST = 3.0
# Share of the uniform mechanism in a start of the caller's. A choice.
_UNIFORM = 1e-3
# What no output shows of a private symbol counts as this share of what it shows of another.
LEAST_SHARE = 1e-12


def averaged(program: Program) -> bool:
    """Whether smooth averages are minimised, alone or as a shared peak, under nothing but budgets."""
    roles = (Role.OBJECTIVE, Role.PEAK)
    smooth = all(term.smooth and not term.rule_set.coupled and term.role in roles for term in program.terms)
    return smooth and bool(program.terms) and not program.shares


def limited_in_every_outcome(program: Program) -> bool:
    """Whether the one limit of the program is a relative entropy in every outcome."""
    if len(program.terms) != 1 or program.budgets.shape[0] or program.peaked:
        return False
    (term,) = program.terms
    return term.rule_set == ENTROPIC and term.role is Role.WORST


def uniform(data: Data) -> Arr:
    """The mechanism that releases every output that it may equally often, (Y, X)."""
    weights = data.support.astype(data.cost.dtype)
    return weights / weights.sum(axis=0)


def first_mechanism(data: Data) -> Arr:
    """Where steps begin, (Y, X): the uniform mechanism, or the caller's start with a share of it.

    What has no mass would never have any.
    """
    even, start = uniform(data), data.program.start
    return even if start is None else as_mechanism(data, (1.0 - _UNIFORM) * start.T + _UNIFORM * even)


def as_mechanism(data: Data, x: Arr) -> Arr:
    """Numbers (Y, X) as a mechanism on the support."""
    x = data.on_support(x, 0.0)
    return x / x.sum(axis=0)


def outcome_leaks(data: Data, x: Arr) -> tuple[Arr, Arr, Arr]:
    """(rules; what every output leaks, and may leak, beyond an independent release of its mass), for programs with a
    relative entropy limited in every outcome.
    """
    (term,) = data.terms
    tiny = np.finfo(x.dtype).tiny
    w = xp.maximum(data.matvec(x), tiny)
    g = term.rule_at(w)
    prior = term.rows.sum(axis=1)
    allowed = -(term.rule_at(prior) @ prior + term.offset.sum()) / prior.sum() * w.sum(axis=1)
    return g, (g * w).sum(axis=1) + x @ term.offset + allowed, xp.maximum(allowed, tiny)


def average_steps(data: Data, steps: ScalarLike) -> tuple[Arr, Arr, Arr]:
    """(mechanism (Y, X), prices of the budgets, weights of the terms) after steps from the first mechanism."""
    program = data.program
    tilt = 1.0 / xp.maximum(program.mass, np.finfo(data.cost.dtype).tiny)[:, None]

    def step(_: ScalarLike, carry: tuple[Arr, Arr, Arr, Arr]) -> tuple[Arr, Arr, Arr, Arr]:
        logs, mechanism, multipliers, weights = carry
        ax = data.matvec(mechanism.T)
        rules = average_rules(data, ax, LEAST_SHARE)
        if program.peaked:
            leaks = leaks_of(data, rules, ax)
            weights = weights * xp.exp(xp.clip(leaks - leaks.max(), -1.0, 0.0))
            weights = weights / weights.sum()
            rules = rules * by_rows(data, weights)
        logits = logs - tilt * (data.cost + data.rmatvec(rules)).T
        if program.budgets.shape[0]:
            logits, multipliers = approach_budgets(program.constraints, program.budgets, logits, tilt, multipliers)
        return *normalised(logits), multipliers, weights

    first, count = first_mechanism(data).T, len(data.terms)
    weights = xp.full(count, 1.0 / count if program.peaked else 1.0, like=data.cost)
    start = xp.log(first), first, xp.zeros_like(program.budgets), weights
    _, mechanism, multipliers, weights = xp.fori_loop(0, steps, step, start)
    return mechanism.T, multipliers, weights


def outcome_steps(data: Data, steps: ScalarLike) -> tuple[Arr, Arr]:
    """(mechanism (Y, X), prices (Y,)) after steps from the first mechanism and the price of the whole distortion."""
    (term,) = data.terms
    outside = xp.where(data.support, 0.0, -xp.inf)
    span = data.on_support(data.cost, 0.0).max(axis=0).sum()

    def step(_: ScalarLike, carry: tuple[Arr, Arr, Arr]) -> tuple[Arr, Arr, Arr]:
        log_x, x, eta = carry
        g, used, allowed = outcome_leaks(data, x)
        excess = (xp.maximum(used, 0.0) / allowed) ** _DAMPING
        eta = eta * xp.clip(excess, _FASTEST, 1.0 / _FASTEST)
        eta = xp.minimum(eta, _HIGHEST * eta.mean())
        gradient = data.cost + data.rmatvec(eta[:, None] * g) + eta[:, None] * term.offset
        log_x = log_x - gradient / (data.program.mass * eta.max()) + outside
        log_x = log_x - log_x.max(axis=0)
        x = xp.exp(log_x)
        return log_x, x / x.sum(axis=0), eta

    first = first_mechanism(data)
    start = xp.log(first), first, xp.full(data.cost.shape[0], span, like=data.cost)
    _, x, eta = xp.fori_loop(0, steps, step, start)
    return x, eta
