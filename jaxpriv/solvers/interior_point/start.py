"""Where the method starts: the independent release, or for some programs a few mirror steps from it; centred."""

import numpy as np

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.types import Arr, BoolLike, ScalarLike
from jaxpriv.leakage.rule_sets import Role, Term
from jaxpriv.solvers._base import in_precision
from jaxpriv.solvers.interior_point.mirror_start import (
    LEAST_SHARE,
    as_mechanism,
    average_steps,
    averaged,
    limited_in_every_outcome,
    outcome_leaks,
    outcome_steps,
    uniform,
)
from jaxpriv.solvers.interior_point.system import (
    Data,
    Point,
    average_rules,
    edges_of,
    leaks_of,
    measure_use,
    reduced_costs,
    row_prices,
)

# Points of the central path, once the reduced costs without the multipliers of the rows are known.


def on_the_path(data: Data, costs: Arr, mu: ScalarLike) -> tuple[Arr, Arr, Arr]:
    """(nu (X,), reduced costs (Y, X), mechanism) with sum_y mu h / (costs - nu) = 1 in every row: Newton on the
    reciprocal, monotone from below. `costs` (Y, X) are without the multipliers nu of the rows.
    """
    h = data.h
    # Row sums are 1 to 1e-10 where float64 allows it: `_moved` normalises them, and the first Newton step corrects
    # what is left of the row's price. At most 80 of Newton's steps. A price stays below its pole, where the sum is
    # infinite, by what one entry of the row is worth less 1e-6 of it.
    inside, height = data.on_support(costs, xp.inf), mu * h.max(axis=0)
    lowest = inside.min(axis=0)

    def unfinished(carry: tuple[Arr, ScalarLike, ScalarLike]) -> BoolLike:
        _, error, count = carry
        return (error > 1e-10) & (count < 80)

    def newton(carry: tuple[Arr, ScalarLike, ScalarLike]) -> tuple[Arr, ScalarLike, ScalarLike]:
        nu, _, count = carry
        q = data.on_support(mu * h / (inside - nu), 0.0)
        f = q.sum(axis=0)
        slope = data.on_support(q / (inside - nu), 0.0).sum(axis=0)
        new = xp.minimum(nu - (f - 1.0) * f / slope, lowest - 0.999999 * height)
        return new, abs(f - 1.0).max(), count + 1

    nu, _, _ = xp.while_loop(unfinished, newton, (lowest - height, xp.full((), xp.inf, like=lowest), np.array(0)))
    z = data.on_support(costs - nu, 1.0)
    return nu, z, mu * h / z


# After mirror steps the release is mixed with an independent one until no output is nearer to its limit than this
# share of it...
_INSIDE = 0.97
# ...with at least this share of it, and with as much of the uniform release, so that no entry is tiny.
_SPREAD = 0.02
# Smallest product of an entry and its reduced cost at the start, as a share of that on the central path: those of
# entries that the mirror steps reduced to nearly 0 are thousands of times too small, and cost Newton steps.
_LEAST_ENTRY = 0.3
# The same of a price and its slack: a much larger share would undo the prices found.
_LEAST_PAIR = 0.01
# The least gap of a start: mu, in whose units all products are, must not vanish where mirror steps end at the optimum.
_LEAST_GAP = 1e-9
# The least slack of an output under a worst-outcome limit, in the scaled program's units (masses of one): from there
# the price is mu / slack. Where pairs are forbidden the start is not independent of S, and may exceed limits: slacks
# are then as large as what they are exceeded by (of linear rows, as this share of their entries), and the steps make up
# for it.
_LEAST_OF_OUTPUT, _BEYOND = 1e-12, 0.3
# Where the products are as multiples of the gap on the second and third attempt: further inside on each. A program
# without mirror steps has a start that is not near the solution, so that its later attempts go further. Where a peak is
# minimised, budgets are missed by what the products are: the second attempt misses them by less. Choices.
_ATTEMPTS, _ATTEMPTS_AFTER_MIRROR_STEPS, _ATTEMPTS_AT_A_PEAK = (30.0, 1000.0), (1.0, 30.0), (0.1, 30.0)
# The least price of a budget after mirror steps.
_LEAST_PRICE = 1e-3
# A start under a peak to be minimised is a mixture with the feasible point that keeps this share of the feasible
# point's slack in every budget, with at most this weight on it; its peak is this many times its largest ratio.
_SLACK, _MOST_FEASIBLE, _ABOVE = 0.1, 0.95, 1.3
# Where the products of a start near the solution are, as a share of its gap.
_NEAR = 0.3


def first_point(data: Data, attempt: ScalarLike, warm_steps: int) -> Point:
    """A strictly interior point, another one on every attempt.

    A smooth worst-outcome limit alone allows a start nearer to the boundary, while linear programs with small budgets
    need more.
    """
    program = data.program
    nearest = _NEAR if any(term.smooth and term.role is Role.WORST for term in program.terms) else 1.0
    targets, near = (nearest, *(_ATTEMPTS_AT_A_PEAK if program.minimax else _ATTEMPTS)), None
    if averaged(program):
        targets, near = (1.0, *_ATTEMPTS_AFTER_MIRROR_STEPS), average_point
    elif limited_in_every_outcome(program):
        near = outcome_point
    point = independent_point(data, xp.choose(targets, attempt, data.a.dtype))
    if near is None:
        return point
    nearer = xp.cond(attempt == 0, lambda: near(data, warm_steps, _NEAR), lambda: point)
    # Steps that diverged have a gap of many times what the uniform release has; those that left the range of float32
    # have none. The budgets count at the prices found, which are steep where there is little slack.
    costs, limits = data.cost, data.c.shape[0]
    if limits:
        costs = costs + xp.weigh(nearer.price[:limits], data.c)
    most = (1.0 + _gap(data, uniform(data), costs)) * (point.x * point.z).sum()
    usable = (nearer.x * nearer.z).sum() <= most
    return xp.chosen(usable, nearer, point)


def _blank(data: Data) -> Point:
    """A point of zeros without prices, for programs whose terms are smooth."""
    outputs, inputs = data.cost.shape
    zeros = lambda *shape: xp.zeros(shape, like=data.cost)  # noqa: E731
    none, table = zeros(outputs, 0), zeros(outputs, inputs)
    return Point(
        x=table, z=table, k=zeros(outputs, data.rows), t=zeros(outputs, len(data.terms)), s=none, v=none,
        eta=none, sigma=none, nu=zeros(inputs), price=zeros(0), slack=zeros(0), peak=zeros(),
    )  # fmt: skip


def average_point(data: Data, steps: ScalarLike, target: ScalarLike) -> Point:
    """A strictly interior point after mirror steps for averages; mu is `target` times its gap, shared out."""
    program, blank = data.program, _blank(data)
    has_user_rules = any(term.rule_set.users for term in data.terms)
    coarse = data if has_user_rules else in_precision(data, np.float32)
    x, lam, weights = in_precision(average_steps(coarse, steps), data.cost.dtype)
    spread = _SPREAD if program.start is None else 0.0
    x = (1.0 - spread) * x + spread * uniform(data)
    lam = xp.maximum(lam, _LEAST_PRICE)
    weights = (1.0 - _SPREAD) * weights / weights.sum() + _SPREAD / len(weights)
    ax = data.matvec(x)
    g = average_rules(data, ax, LEAST_SHARE)
    leaks = leaks_of(data, g, ax)
    price = xp.concatenate([lam, weights]) if program.peaked else lam
    k = g * row_prices(data, price, blank.eta)
    costs = reduced_costs(data, k, blank.eta, blank.nu, price)
    mu = target * xp.maximum(_gap(data, x, costs), _LEAST_GAP) / len(x)
    nu, z, on_path = on_the_path(data, costs, mu)
    # The optimum as a start is not moved: only its entries near 0 are.
    x = as_mechanism(data, xp.sqrt(x * on_path) if program.start is None else xp.maximum(x, _LEAST_ENTRY * on_path))
    slack, peak = xp.maximum(program.budgets - data.use(x), mu / lam), blank.peak
    if program.peaked:
        peak = leaks.max() + mu * len(leaks)
        slack = xp.concatenate([slack, xp.maximum(peak - leaks, mu / weights)])
    return blank._replace(x=x, z=z, k=k, nu=nu, price=price, slack=data.open(slack, 0.0), peak=peak)


def _gap(data: Data, x: Arr, costs: Arr) -> ScalarLike:
    """What a mechanism costs beyond the cheapest entries, (Y, X) each."""
    return data.on_support(x * costs, 0.0).sum() - data.on_support(costs, xp.inf).min(axis=0).sum()


def outcome_point(data: Data, steps: ScalarLike, target: ScalarLike) -> Point:
    """The same after mirror steps for a relative entropy that is limited in every outcome."""
    blank = _blank(data)
    x, eta = in_precision(outcome_steps(in_precision(data, np.float32), 2 * steps), data.cost.dtype)
    independent = xp.broadcast_to((x @ data.program.mass)[:, None] / data.program.mass.sum(), x.shape)
    _, used, allowed = outcome_leaks(data, x)
    share = xp.clip(1.0 - _INSIDE / (used / allowed).max(), _SPREAD, 1.0)
    x = as_mechanism(data, (1.0 - _SPREAD) * ((1.0 - share) * x + share * independent) + _SPREAD * uniform(data))

    def costs_at(eta: Arr) -> Arr:
        return reduced_costs(data, g * eta[:, None], eta[:, None], blank.nu, blank.price)

    g, used, allowed = outcome_leaks(data, x)
    mu = target * xp.maximum(_gap(data, x, costs_at(eta)), _LEAST_GAP) / len(x)
    sigma = xp.maximum(allowed - used, _LEAST_OF_OUTPUT)
    eta = xp.maximum(eta, _LEAST_PAIR * mu / sigma)
    sigma = xp.maximum(sigma, _LEAST_PAIR * mu / eta)
    nu, z, on_path = on_the_path(data, costs_at(eta), mu)
    x = as_mechanism(data, xp.maximum(x, _LEAST_ENTRY * on_path))
    return blank._replace(x=x, z=z, k=g * eta[:, None], eta=eta[:, None], sigma=sigma[:, None], nu=nu)


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
        peak = peak + _ABOVE * data.program.largest_ratio(x)
        data = data.at(peak)
        mu = mu / _share(data, x) if data.linear_at_peak else mu * peak / len(data.rates)
    # Limits first: where they hold their price is on the central path, elsewhere it is one.
    left = data.program.budgets - data.use(x)
    slack = xp.maximum(left, mu)
    price, eta, sigma = mu / slack, [], []
    if data.equal is not None:
        slack = xp.where(data.equal[:limits], 0.0, slack)
    ax = data.matvec(x)
    prior = ax.sum(axis=0)
    g = xp.concatenate(
        [term.rule_at(prior[at.rows]) if term.smooth else xp.zeros_like(term.reference)
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
    peaks += [xp.where(data.program.marks[i] > 0, -left[i], -xp.inf) for i in range(limits)]
    if data.program.peaked:
        peak = xp.stack(peaks).max() + mu
    sharing = xp.maximum(data.marks.sum(), 1.0)
    if data.program.peaked:
        price = xp.where(data.program.marks > 0, 1.0 / sharing, price)
        slack = xp.where(data.program.marks > 0, xp.maximum(left + peak, mu * sharing), slack)
    for term, place in zip(data.terms, data.layout, strict=True):
        if place.limit is not None:
            shared = term.role is Role.PEAK
            limit_slack = term.bound + (peak if shared else 0.0) - sums[place.limit]
            # An independent release has all of the slack of a limit, however small: a slack of mu in its place
            # would put the first steps far outside, where the rules follow a leakage many times the limit.
            limit_slack = xp.maximum(limit_slack, mu) if shared else xp.where(limit_slack > 0.0, limit_slack, mu)
            price = xp.append(price, 1.0 / sharing if shared else mu / limit_slack)
            slack = xp.append(slack, limit_slack)
        if place.worst is not None:
            worst_slack = xp.maximum(abs(worst[:, place.worst]), _LEAST_OF_OUTPUT)
            sigma.append(worst_slack)
            shared = (
                mu / worst_slack
                if term.rate is None
                else xp.ones_like(worst_slack) / (data.rates.sum(axis=0) @ x.sum(axis=0))
            )
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
        w, b = ax[:, at], term.reference
        one_price = prices[:, at.start]
        over = xp.zeros_like(w)
        if term.cap is not None:
            over = 2.0 * weight[at] / (term.cap * one_price[:, None])
        if term.normalised and term.role is not Role.WORST:
            level = (w / b).max(axis=1) + weight[at].sum() / one_price
            t = xp.put(t, np.s_[:, j], level)
        elif term.normalised:
            t = xp.put(t, np.s_[:, j], _middle(term, w))
        gap, size = b * t[:, j, None] + over - w, xp.matmul(x, abs(term.rows).T)
        gap = xp.where(gap > _LEAST_OF_OUTPUT * size, gap, _BEYOND * size)
        own_k = weight[at] / gap
        if term.cap is not None:
            own_k = xp.minimum(own_k, 0.5 * term.cap * one_price[:, None])
            v = xp.put(v, np.s_[:, at], over)
        k, s = xp.put(k, np.s_[:, at], own_k), xp.put(s, np.s_[:, at], gap)
    costs = reduced_costs(data, k, eta_array, xp.zeros(inputs, like=a), price, peak)
    nu = _row_prices(data, costs, mu)
    z = data.on_support(costs - nu, 1.0)
    return Point(x, z, k, t, s, v, eta_array, sigma_array, nu, price, slack, peak)


def _gaps(data: Data, ax: Arr, t: Arr) -> Arr:
    """reference t - A x of every row, (Y, T)."""
    reference = xp.concatenate([term.reference for term in data.terms])
    return data.of_rows(t) * reference - ax


def _share(data: Data, x: Arr) -> ScalarLike:
    """What a unit of the peak allows at the prices of linear rows whose products are their weights."""
    ax, t = data.matvec(x), xp.zeros((len(x), len(data.terms)), like=x)
    for j, (term, place) in enumerate(zip(data.terms, data.layout, strict=True)):
        if term.normalised:
            t = xp.put(t, np.s_[:, j], _middle(term, ax[:, place.rows]))
    held = data.held(x, t)[:, : data.rows]
    gaps = xp.where(held > 0, _gaps(data, ax, t), 1.0)
    return (data.row_weight * held / gaps).sum() / len(x)


def _middle(term: Term, w: Arr) -> Arr:
    """The middle of the t with w <= t reference, (Y,)."""
    b = term.reference
    lower = xp.where(b > 0, w / xp.where(b > 0, b, 1.0), -xp.inf).max(axis=1)
    upper = xp.where(b < 0, w / xp.where(b < 0, b, 1.0), xp.inf).min(axis=1)
    return 0.5 * (lower + upper)


def _within_budgets(data: Data, x: Arr) -> Arr:
    """A mixture of x with the feasible point that leaves a share of the feasible point's slack in every budget."""
    feasible_point, budgets = data.program.feasible_point.T, data.program.budgets
    used, held = data.use(x), data.use(feasible_point)
    most = budgets - _SLACK * xp.maximum(budgets - held, 0.0)
    share = (used - most) / xp.where(used > held, used - held, 1.0)
    share = xp.where(used > most, xp.clip(share, 0.0, _MOST_FEASIBLE), 0.0).max(initial=0.0)
    return (1.0 - share) * x + share * feasible_point


def _row_prices(data: Data, costs: Arr, mu: ScalarLike) -> Arr:
    """nu that puts the mean of x z / (mu h) of every row at one, x being uniform on the support."""
    count = data.support.astype(costs.dtype).sum(axis=0)
    inside = data.on_support(costs, 0.0).sum(axis=0) / count
    lowest = data.on_support(costs, xp.inf).min(axis=0)
    height = data.on_support(data.h, 0.0).max(axis=0)
    # At most a tenth of an entry's share from the pole: no reduced cost is smaller than that, whatever the mean asks
    # for.
    return xp.minimum(inside - mu * height * count, lowest - 0.1 * mu * height * count)
