"""What a point is worth: a mechanism that meets every limit, its value, a rule in the sets, its bound.

`slope_of` and `consider` are for a solver of a user's own: the slope of a program, and what a mechanism is worth.
"""

import numpy as np
from jaxtyping import Float

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.types import Arr, BoolLike, ScalarLike
from jaxpriv.leakage.custom_loss import CENTRED
from jaxpriv.leakage.rule_sets import Role, Term
from jaxpriv.program.convex import Candidate, Program
from jaxpriv.reductions.faces import onto_equations
from jaxpriv.solvers.interior_point.system import (
    Data,
    Edges,
    Point,
    average_rules,
    rearrange,
)

# Newton steps to the root of a concave, piecewise linear function that falls: each but the first ends on a later piece.
_NEWTON_STEPS = 12
# Tangents of a search for the price of a budget after that at 0, the first at the price that is known. Of 3, 4 and 6
# the fewest with which mirror descent takes as many steps as with 6, up to 6 %.
_TANGENTS = 4
# An output that gets a share of others of mass m changes by m over its own mass, and is worth its own: it is left out
# with them below this share of the root of m. A choice.
_RARE = 0.1
# Roundings of the sums that the function consists of.
_ROUNDINGS = 64


def no_candidate(program: Program) -> Candidate:
    """The feasible point, or the start, and what an adversary who has learned nothing proves: the prior's rules."""
    data = rearrange(program)
    outputs, worst = data.cost.shape[0], sum(place.worst is not None for place in data.layout)
    price = data.marks / data.marks.sum() if program.peaked else xp.zeros_like(data.marks)
    rules = []
    for term, place in zip(data.terms, data.layout, strict=True):
        if term.role is Role.OBJECTIVE:
            rules.append(term.prior_rule())
        elif term.role is Role.PEAK:
            rules.append(price[place.limit] * term.prior_rule())
        else:
            rules.append(xp.zeros_like(term.reference))
    k = xp.broadcast_to(xp.concatenate(rules), (outputs, data.rows))
    eta = xp.zeros((outputs, worst), like=k)
    value = xp.full((), xp.inf, like=k)
    bound = -value if program.logarithmic else dual_bound(data, k, eta, price)
    best = Candidate(program.feasible_point, value, k, eta, price, bound)
    if program.start is None or program.minimax or program.equal is not None:
        return best
    within = xp.where(program.support, program.start, 0.0)
    total = within.sum(axis=1, keepdims=True)
    first = xp.where(total > 0, within / xp.where(total > 0, total, 1.0), program.feasible_point)
    return with_mechanism(program, best, first)


def improved(data: Data, point: Point, g: Arr, edges: Edges, best: Candidate) -> Candidate:
    """`best` with the better of its own and the point's mechanism, and of its own and the point's rules.

    `g`: the point's rules (Y, T), of which those of smooth terms are read; `edges`: those of these rules.
    """
    data = data.at(point.peak)
    k, price = _valid(data, point, g, edges)
    if data.program.minimax:
        feasible, value = _least_leaking(data, point)
        best_bound = xp.exp(best.bound) if data.program.logarithmic else xp.maximum(best.bound, 0.0)
        bound = least_ratio(data, k, point.eta, price, best_bound, point.peak)
        if data.program.logarithmic:
            value, bound = (xp.log(xp.maximum(ratio, 0.0)) for ratio in (value, bound))
    else:
        feasible = repaired(data, point.x)
        value = objective(data, feasible)
        bound = dual_bound(data, k, point.eta, price)
    return best.with_primal(feasible.T, value).with_dual(k, point.eta, price, bound)


def with_mechanism(program: Program, best: Candidate, mechanism: Arr) -> Candidate:
    """`best` with the better of its own mechanism and this one (X, Y), mixed with the feasible point if limits ask."""
    data = rearrange(program)
    feasible = repaired(data, mechanism.T)
    return best.with_primal(feasible.T, objective(data, feasible))


def _valid(data: Data, point: Point, g: Arr, edges: Edges) -> tuple[Arr, Arr]:
    """Rules inside their sets, and prices that share the peak."""
    price = point.price
    if data.program.peaked:
        price = price / xp.where(data.marks > 0, (data.marks * price).sum(), 1.0)
    parts = []
    for j, (term, place) in enumerate(zip(data.terms, data.layout, strict=True)):
        priced_rules = point.k[:, place.rows]
        scale = 1.0
        if place.limit is not None:
            scale = price[place.limit]
        if term.smooth:
            # The edges of a set with kinks are those of a smoothed one.
            edge = term.boundary(g[:, place.rows], CENTRED) if term.rule_set.coupled else edges[j]
            rule = term.rule_set.normalised(term, g[:, place.rows], edge.level)
            parts.append(rule * (point.eta[:, place.worst, None] if place.worst is not None else scale))
        elif not term.normalised:
            parts.append(priced_rules if term.cap is None else xp.clip(priced_rules, 0.0, term.cap * scale))
        elif term.role is Role.WORST:
            plus = (xp.maximum(term.reference, 0.0) * priced_rules).sum(axis=1, keepdims=True)
            minus = (xp.maximum(-term.reference, 0.0) * priced_rules).sum(axis=1, keepdims=True)
            parts.append(xp.where(term.reference > 0, priced_rules * (minus / plus), priced_rules))
        else:
            parts.append(scale * priced_rules / (priced_rules @ term.reference)[:, None])
    return xp.concatenate(parts, axis=1), price


def dual_bound(data: Data, k: Arr, eta: Arr, price: Arr) -> ScalarLike:
    """sum_x min_y Z(nu = 0) - price . bounds, at a peak of 0 in minimax programs."""
    total, spent = _costs(data, k, eta, price)
    return data.on_support(total, xp.inf).min(axis=0).sum() - spent


def best_prices(data: Data, k: Arr, eta: Arr, price: Arr) -> Arr:
    """The prices with those of the budgets, one after the other, that make `dual_bound` largest; all other prices, and
    those of budgets that share the peak, stay.
    """
    if data.program.shares:
        return price
    total, _ = _costs(data, k, eta, price)
    for number, (cost, budget) in enumerate(zip(data.c, data.program.budgets, strict=True)):
        rest = xp.where(data.support, total - price[number] * cost, xp.inf)
        best = _best_price(rest, cost, budget, price[number])
        price, total = xp.put(price, number, best), total + (best - price[number]) * cost
    return price


def _best_price(rest: Arr, cost: Arr, budget: Arr, start: Arr) -> Arr:
    """The p >= 0 of the largest sum_x min_y (rest + p cost) - p budget, tables (Y, X), which is concave and piecewise
    linear in p: the tangents at the nearest points on both sides of the maximum cross where the next point is. The
    first two points are 0 and `start`.
    """

    def narrowed(count: ScalarLike, state: tuple[Arr, ...]) -> tuple[Arr, ...]:
        p, best, most, height, rise, far_height, far_rise = state
        lines = rest + p * cost
        slope = xp.where(np.arange(len(cost))[:, None] == lines.argmin(axis=0), cost, 0.0).sum() - budget
        value = lines.min(axis=0).sum() - p * budget
        intercept, rises = value - slope * p, slope > 0
        best, most = xp.where(value > most, p, best), xp.maximum(value, most)
        height, rise = xp.where(rises, intercept, height), xp.where(rises, slope, rise)
        far_height, far_rise = xp.where(rises, far_height, intercept), xp.where(rises, far_rise, slope)
        bends = rise > far_rise
        crossing = (far_height - height) / xp.where(bends, rise - far_rise, 1.0)
        new = xp.where(bends, xp.maximum(crossing, 0.0), best)
        return xp.where(count == 0, start, new), best, most, height, rise, far_height, far_rise

    zero = xp.zeros_like(start)
    cheapest = xp.where(xp.isfinite(rest), cost, xp.inf).min(axis=0)
    far_height = xp.where(cost <= cheapest, rest, xp.inf).min(axis=0).sum()  # of the function at the largest prices
    state = zero, zero, zero - xp.inf, zero, zero - xp.inf, far_height, cheapest.sum() - budget
    return xp.fori_loop(0, 1 + _TANGENTS, narrowed, state)[1]


def _costs(data: Data, k: Arr, eta: Arr, price: Arr) -> tuple[Arr, ScalarLike]:
    """(Z (Y, X) at nu = 0, price . bounds)."""
    limits = data.c.shape[0]
    total = data.cost + data.rmatvec(k)
    spent = xp.zeros((), like=k)
    for term, place in zip(data.terms, data.layout, strict=True):
        if place.worst is not None:
            total = total + eta[:, place.worst, None] * term.offset
        if place.limit is not None:
            spent = spent + price[place.limit] * term.bound
    if limits:
        total = total + xp.weigh(price[:limits], data.c)
        spent = spent + price[:limits] @ data.program.budgets
    return total, spent


def least_ratio(data: Data, k: Arr, eta: Arr, price: Arr, start: ScalarLike, peak: ScalarLike = 1.0) -> ScalarLike:
    """The peak e of a minimax program up to which the rules and prices prove that no mechanism has it; -inf: none.
    A peak beyond 1/eps proves nothing: peaks are counted in that of the feasible point, which is one.

    D(e) = sum_x min_y [ Z(nu = 0) - e sum_j eta_j rate_j ] - price . bounds > 0 proves that the limits cannot be met
    at the peak e. It is concave, piecewise linear and falling, so that Newton's method comes down to its root on a
    tangent of the last piece, from the second step on.

    Rules of normalised linear rows balance at the `peak`: elsewhere those of the lower rows are as many times as much.
    """
    costs, spent = _costs(data.at(0.0), k, eta, price)
    fall = data.fall(k, eta)
    if data.turns is not None:
        lower = data.rmatvec(xp.where(_balanced(data), k, 0.0))
        costs, fall = costs - lower, fall - lower / peak
    costs = data.on_support(costs, xp.inf)

    def lowered(e: ScalarLike) -> tuple[ScalarLike, ScalarLike]:
        lines = costs - e * fall
        chosen = np.arange(fall.shape[0])[:, None] == lines.argmin(axis=0)
        return lines.min(axis=0).sum() - spent, xp.where(chosen, fall, 0.0).sum()

    def newton(_: ScalarLike, e: ScalarLike) -> ScalarLike:
        left, slope = lowered(e)
        return e + left / xp.maximum(slope, np.finfo(fall.dtype).tiny)

    e = xp.fori_loop(0, _NEWTON_STEPS, newton, start)
    size = abs(spent) + data.on_support(abs(costs), 0.0).max(axis=0).sum()
    eps = np.finfo(fall.dtype).eps
    return xp.where((lowered(e)[0] >= -_ROUNDINGS * eps * size) & (e < 1.0 / eps), e, -xp.inf)


def _balanced(data: Data) -> Arr:
    """Which linear rows have a reference whatever the peak of a minimax program is, (T,)."""
    parts = []
    for term in data.terms:
        mine = not term.smooth and term.normalised and term.rate is not None
        parts.append(term.rate == 0 if mine else np.zeros(len(term.rows), bool))
    return xp.concatenate(parts)


def _least_leaking(data: Data, point: Point) -> tuple[Arr, ScalarLike]:
    """(mechanism, its peak) of a minimax program: the point's own one, or that without outputs of more than its peak.
    Where equations are to be met none is left out.
    """
    plain = repaired(data, point.x)
    value = data.stated[0].largest_ratio(plain)
    if data.equal is not None:
        return plain, value
    left = _without_rare(data, point)
    # A useful symbol may have had no other output, and the others may cost more than the budgets allow.
    usable = (left.sum(axis=0) > 0.5).all() & _meets(data, left)
    other = xp.where(usable, data.stated[0].largest_ratio(left), xp.inf)
    return xp.where(value <= other, plain, left), xp.minimum(value, other)


def _without_rare(data: Data, point: Point) -> Arr:
    """The mechanism of a point, within the budgets, without outputs that exceed its peak by more than they have of
    all mass. What these had, the others get as each useful symbol has them.
    """
    program, x = data.program, point.x
    mass = x @ program.mass / program.mass.sum()
    rare = data.stated[0].ratios(x) > (1.0 + mass) * point.peak
    rare = rare | (mass < _RARE * xp.sqrt(xp.where(rare, mass, 0.0).sum()))

    def moved(mechanism: Arr, onto: Arr) -> Arr:
        common = xp.where(rare[:, None], 0.0, mechanism)
        return common + xp.where(rare[:, None], mechanism, 0.0).sum(axis=0) * onto

    onto = xp.where(rare[:, None], 0.0, x)
    onto = onto / xp.maximum(onto.sum(axis=0), np.finfo(x.dtype).tiny)
    x, feasible_point = moved(x, onto), moved(program.feasible_point.T, onto)
    if program.budgets.shape[0]:
        # Where that costs too much: what costs least at the prices, of one budget the least of all.
        costs = xp.where(rare[:, None] | ~data.support, xp.inf, xp.weigh(point.price[: len(data.c)], data.c))
        cheapest = xp.where(np.arange(len(x))[:, None] == costs.argmin(axis=0), 1.0, xp.zeros_like(x))
        feasible_point = xp.where(_meets(data, feasible_point), feasible_point, cheapest)
    return repaired(data, x, feasible_point)


def _meets(data: Data, x: Arr) -> BoolLike:
    """Whether a mechanism meets the budgets and the limits on averages, up to rounding: ()."""
    program, allowed = data.program, _ROUNDINGS * np.finfo(x.dtype).eps
    size = (abs(data.c) * x).sum(axis=(1, 2))
    met = ((data.use(x) <= program.budgets + allowed * size) | (program.marks > 0)).all()
    for term in data.terms:
        if term.role is Role.AVERAGE:
            w = data.matvec_of(term, x)
            value, size = term.support(w).sum(), abs(w).sum()
            met = met & (value <= term.bound + _rounding(term, x).sum() + allowed * size)
    return met


def objective(data: Data, x: Arr) -> ScalarLike:
    """The objective at a mechanism, outputs first."""
    total = (data.cost * x).sum()
    peaks: list[Arr] = []
    for term in data.terms:
        if term.role is Role.OBJECTIVE:
            total = total + term.support(data.matvec_of(term, x)).sum()
        elif term.role is Role.PEAK:
            peaks.append(term.support(data.matvec_of(term, x)).sum() - term.bound)
    if not data.program.peaked:
        return total
    used = data.use(x) - data.program.budgets
    peaks.extend(xp.where(data.program.marks[i] > 0, used[i], -xp.inf) for i in range(used.shape[0]))
    return total + xp.stack(peaks).max()


def repaired(data: Data, x: Arr, feasible_point: Arr | None = None) -> Arr:
    """The least mixture of x with an independent release, then with the feasible point, that meets every limit.

    Where pairs are forbidden it is one with the feasible point alone.

    Equations are met first. The limits of a minimax program that its peak relaxes are not asked for. `feasible_point`:
    another one than the program's, (Y, X).
    """
    program = data.program
    mass = program.mass
    if program.equal is not None:
        x = onto_equations(program, x.T).T
    limits = [term for term in data.terms if term.role is Role.WORST and term.rate is None]
    feasible_point = program.feasible_point.T if feasible_point is None else feasible_point
    if limits:
        x = _feasible_share(data, x, feasible_point) if program.forbids else _independent_share(data, x, mass)
    share = xp.zeros((), like=x)
    if program.budgets.shape[0]:
        used, at_feasible_point = data.use(x), data.use(feasible_point)
        # What rounding alone exceeds is met where the feasible point has no more slack than that: it repairs nothing.
        rounding = 2.0 * x.shape[1] * np.finfo(x.dtype).eps * (abs(program.budgets) + abs(at_feasible_point))
        spare = xp.where(program.budgets - at_feasible_point > rounding, 0.0, rounding)
        over = (used > program.budgets + spare) & (program.marks == 0)
        if program.equal is not None:
            over = over & ~program.equal
        drop = xp.where(over & (used > at_feasible_point), used - at_feasible_point, 1.0)
        share = xp.where(over, xp.clip((used - program.budgets) / drop, 0.0, 1.0), 0.0).max(initial=0.0)
    for term in data.terms:
        if term.role is Role.AVERAGE:
            # An infinite value, of a function f of a user, takes the whole share.
            both = (term.support(data.matvec_of(term, mechanism)).sum() for mechanism in (x, feasible_point))
            value, held = (xp.minimum(total, float(np.finfo(x.dtype).max)) for total in both)
            # What rounding alone exceeds is met, as in the certificate; a feasible point at the limit repairs nothing.
            rounding = 0.0 if term.smooth else _rounding(term, x).sum()
            above = (value > term.bound + rounding) & (held < term.bound)
            drop = xp.where(above & (value > held), value - held, 1.0)
            share = xp.maximum(share, xp.where(above, xp.clip((value - term.bound) / drop, 0.0, 1.0), 0.0))
    return (1.0 - share) * x + share * feasible_point


def _rounding(term: Term, x: Arr) -> Arr:
    """What the value of a limited linear term is known to at every output: (Y,).

    Sums of X products are known to X/2 eps of the sum of their sizes; the certificate's allowance is 8 (X + Y + T) eps.
    """
    size = xp.matmul(x, abs(term.rows).T)
    if term.normalised:
        size = size * xp.where(term.reference > 0, 1.0 / xp.where(term.reference > 0, term.reference, 1.0), 0.0)
    return 2.0 * x.shape[1] * np.finfo(x.dtype).eps * size.max(axis=1)


def _independent_share(data: Data, x: Arr, mass: Arr) -> Arr:
    """Outputs that exceed a worst-outcome limit are given a share of an independent release.

    With excess e_y and an independent release of law a_y, whose slack is a_y times `slack`, that of a release of one
    output, the mixture (1 - c) W + c a meets the limit at y when c a_y slack >= (1 - c) e_y.
    """
    need = xp.zeros(x.shape[0], like=x)
    for term in data.terms:
        if term.role is not Role.WORST or term.rate is not None:
            continue
        w, base = (data.matvec_of(term, mechanism) for mechanism in (x, xp.ones_like(mass)[None]))
        if term.smooth:
            excess = term.support(w) + x @ term.offset
            slack = -(term.support(base)[0] + term.offset.sum())
        else:
            # What rounding alone exceeds is met here too: a release without slack cannot repair it, and mixing with one
            # would lose the mechanism.
            excess, slack = term.support(w), -term.support(base)[0]
            excess = xp.where(excess > _rounding(term, x), excess, 0.0)
        # Without slack the share is one, as of a quotient that is large but finite.
        slack = xp.maximum(slack, np.finfo(x.dtype).tiny ** 0.5)
        need = xp.maximum(need, xp.maximum(excess, 0.0) / slack)
    total = need.sum()
    share = total / (1.0 + total)
    law = xp.where(total > 0, need / xp.where(total > 0, total, 1.0), 0.0)
    return (1.0 - share) * x + share * law[:, None]


def _feasible_share(data: Data, x: Arr, feasible_point: Arr) -> Arr:
    """Outputs that exceed a worst-outcome limit are left out where the feasible point has no slack; then it is mixed
    with that, and is that where it exceeds a limit still: the rows that lost an output have another weight in the rest.
    """
    excess, held = _excesses(data, x), _excesses(data, feasible_point)
    retained = (excess <= 0) | (held < 0)
    left = xp.where(retained[:, None], x, 0.0)
    x = left + (1.0 - left.sum(axis=0)) * feasible_point
    excess = _excesses(data, x)
    over = (excess > 0) & (held < 0)
    share = xp.where(over, excess / xp.where(over, excess - held, 1.0), 0.0).max()
    return xp.where(((excess > 0) & ~over).any(), feasible_point, (1.0 - share) * x + share * feasible_point)


def _excesses(data: Data, x: Arr) -> Arr:
    """By how much every output exceeds its worst-outcome limits, the largest; below 0 where it has slack: (Y,)."""
    excesses = []
    for term in data.terms:
        if term.role is Role.WORST and term.rate is None:
            value = term.support(data.matvec_of(term, x)) + x @ term.offset
            excesses.append(
                value if term.smooth else xp.where(value > _rounding(term, x), value, xp.minimum(value, 0.0))
            )
    return xp.stack(excesses).max(axis=0)


def by_rows(data: Data, weights: Arr) -> Arr:
    """Numbers of the terms (J,) for every row, (T,)."""
    parts = [xp.full(at.rows.stop - at.rows.start, weights[j], like=weights) for j, at in enumerate(data.layout)]
    return xp.concatenate(parts)


def with_rules(data: Data, best: Candidate, rules: Arr, weights: Arr, multipliers: Arr) -> Candidate:
    """`best` with the better of its own bound and that of rules (Y, T) of smooth averages, at the prices or shares
    (J,) of the terms and the prices (R,) of the budgets.
    """
    price = xp.concatenate(
        [multipliers, *(weights[j : j + 1] for j, at in enumerate(data.layout) if at.limit is not None)]
    )
    k = by_rows(data, weights) * rules
    price = best_prices(data, k, best.eta, price)
    return best.with_dual(k, best.eta, price, dual_bound(data, k, best.eta, price))


def _rules_of(program: Program, mechanism: Arr, weights: Arr | None) -> tuple[Data, Arr, Arr]:
    """(data, the rules (Y, T) about the outputs of a mechanism, the weights of the terms; ones by default)."""
    data = rearrange(program)
    if weights is None:
        weights = xp.ones(len(program.terms), like=program.cost)
    return data, average_rules(data, data.matvec(mechanism.T)), weights


def slope_of(program: Program, mechanism: Float[Arr, "x y"], weights: Arr | None = None) -> Float[Arr, "x y"]:
    """The gradient (X, Y) of <cost, W> + sum_j weights_j F_j(W) at a mechanism W > 0 on the support, F_j the smooth
    average measure of term j.

    Entry (x, y) is cost(x, y) + sum_j weights_j (A_j' g_jy)(x), g_jy the rule about output y; for mutual information
    sum_s P_k(s, x) ln( P_k(s|y)/P_k(s) ). It carries the mass of x. `weights` (J,): the price of leakage of a leakage
    budget, the weight of every joint of a set; none: ones.
    """
    data, rules, term_weights = _rules_of(program, mechanism, weights)
    return (data.cost + data.rmatvec(by_rows(data, term_weights) * rules)).T


def consider(
    program: Program,
    best: Candidate,
    mechanism: Float[Arr, "x y"],
    weights: Arr | None = None,
    multipliers: Arr | None = None,
) -> Candidate:
    """`best`, or what is better of a mechanism: itself, and the lower bound by the rules about its own outputs.

    The mechanism (X, Y) has rows that sum to one and no mass outside of the support; it is mixed with the feasible
    point as far as a limit needs it. `weights` (J,) as for `slope_of`, `multipliers` (R,) >= 0 the prices of the
    budgets (none: zeros). Any numbers give a bound that holds; those near the solution's give one near the
    optimum.
    """
    data, rules, term_weights = _rules_of(program, mechanism, weights)
    if program.peaked:
        term_weights = term_weights / term_weights.sum()
    if multipliers is None:
        multipliers = xp.zeros(program.budgets.shape[0], like=program.cost)
    return with_mechanism(program, with_rules(data, best, rules, term_weights, multipliers), mechanism)
