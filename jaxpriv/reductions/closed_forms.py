"""What needs no iteration: whether the budgets can be met at all, releases that leak nothing, the repair of rounding.

For weights a >= 0 on the constraints, every mechanism has

    sum_r a_r <constraints_r, W> >= sum_x min_y sum_r a_r constraints_r(x, y) =: bound(a),

so bound(a) > a . budgets proves that no mechanism exists. Conversely the largest excess of bound(a) over a . budgets on
the simplex is attained (linear programming duality) by a feasible W whenever it is <= 0.

A release that ignores the data and meets the budgets is the least leakage, and the rules of the prior prove it. A
mechanism that exceeds a limit by rounding meets it once a little of one that has slack is mixed in.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import PyTree

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.numerics import unit_of
from jaxpriv._runtime.types import Arr, BoolLike, ScalarLike
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.program.certificates import Certificate, certify_program, violation_of
from jaxpriv.program.convex import Program
from jaxpriv.program.lower import distance_scale

# Budgets closer than this (relative) to the least attainable value are taken as equal to it.
BOUNDARY = 1e-12
# No mechanism spends more than one of a budget in units of its scale. HiGHS takes 1e20 and more for infinite.
_ALWAYS_MET = 1e3
# Roundings by which a sum may exceed a budget that is the same sum in another order. Certificates allow 2000.
_ROUNDINGS = 8
# The tolerance of linear programs, whose entries are 0, or 1 and more.
LINEAR = 1e-10
# Mixing weights of a release that meets the limits, tried to restore feasibility after rounding.
ROUNDING_SHARES = (1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7)
# The largest one that brings a mechanism within its budgets: what needs more was not solved (a choice).
_MOST_OF_BUDGETS = 1e-3
# Below which entries of a mechanism are left out where budgets have no slack (methods end at their tolerance of 1e-6
# and beside it at 1e-10), how often it is then corrected, and what is added to the diagonal of the systems, of their
# largest: budgets on the shares of all outputs sum to one. Choices.
LEFT_OUT, CORRECTIONS, _RIDGE = (1e-8, 1e-6, 1e-4), 4, 1e-10
# Shares of the mass of which outputs are left out.
_RARE = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6)


@dataclass(frozen=True)
class Feasibility:
    """How the budgets stand to what is attainable.

    Attributes:
        mechanism: meets every budget if `excess <= 0`, as far inside as the LP found.
        weights: a in the simplex, the proof.
        bound: bound(a).
        allowed: a . budgets.
        boundary: the budgets have no slack: every feasible mechanism attains bound(a), so its
            support lies where the weighted cost is least.
        equal: what slack there is may be the rounding of the sums.
    """

    mechanism: np.ndarray
    weights: np.ndarray
    bound: float
    allowed: float
    feasible: bool
    boundary: bool
    equal: bool


def cheapest(costs: Arr, support: BoolLike = True) -> Arr:
    """The deterministic mechanism that releases argmin_y costs[x, y] on the support (ties: the first)."""
    chosen = xp.where(support, costs, np.inf).argmin(axis=1)
    return (np.arange(costs.shape[1]) == chosen[:, None]).astype(costs.dtype)


def check(program: Program) -> Feasibility:
    """Decide feasibility of the budgets (not of a leakage limit) for a host program."""
    c, budgets = np.asarray(program.constraints), np.asarray(program.budgets)
    count = len(budgets)
    if count == 0:
        support = np.asarray(program.support)
        uniform = support / support.sum(axis=1, keepdims=True)
        return Feasibility(uniform, np.zeros(0), 0.0, 0.0, feasible=True, boundary=False, equal=False)
    scales = abs(c).max(axis=2).sum(axis=1)
    scales = np.where(scales > 0, scales, 1.0)
    if count == 1:
        weights, mechanism = np.ones(1), np.asarray(cheapest(c[0], program.support))
    else:
        above, slack, units = above_floors(c, budgets)
        weights, mechanism = largest_slack(above, np.minimum(slack, _ALWAYS_MET), program.support)
        weights = weights / units
        weights = weights / weights.sum()
    combined = np.where(program.support, (weights[:, None, None] * c).sum(axis=0), np.inf)
    bound, allowed = float(combined.min(axis=1).sum()), float(weights @ budgets)
    scale = float((weights * scales).sum()) + abs(allowed)
    # As strict as the certificate (which allows for the rounding of its sums) when the weights are
    # exact; the weights of several budgets come from an LP and are good to about BOUNDARY.
    size = abs(allowed) + float(abs(combined.min(axis=1)).sum())
    rounding = 8 * sum(c.shape) * np.finfo(float).eps * size if count == 1 else BOUNDARY * scale
    return Feasibility(
        mechanism,
        weights,
        bound,
        allowed,
        feasible=bool(allowed >= bound - rounding),
        boundary=abs(allowed - bound) <= BOUNDARY * scale,
        equal=abs(allowed - bound) <= rounding,
    )


def above_floors(c: np.ndarray, budgets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(c, budgets) above the cheapest output of every row, of size one, and the sizes (R,).

    Every mechanism spends the part of a cost that does not depend on the output. So the size is that of the
    differences, and costs whose relative differences are 1e-9 are distinguished. Where there are no differences, the
    budget above the cheapest outputs is a rounding error.
    """
    floors = c.min(axis=2)
    size = (c.max(axis=2) - floors).sum(axis=1)
    size = np.where(size > 0, size, 1.0)
    return (c - floors[:, :, None]) / size[:, None, None], (budgets - floors.sum(axis=1)) / size, size


def largest_slack(c: np.ndarray, budgets: np.ndarray, support: Arr) -> tuple[np.ndarray, np.ndarray]:
    """max r s.t. <c_k, W> + r <= budgets_k: the multipliers (summing to one) and W on the support, by HiGHS."""
    every = np.ones(len(budgets), dtype=bool)
    solved = widest_slack(c, budgets, np.asarray(support), every, ~every, spread=False)
    if solved is None:  # bounded and feasible by construction, so this is a failure of the backend
        raise ArithmeticError("the feasibility LP failed: HiGHS found no optimum")
    _, mechanism, weights = solved
    return weights, mechanism


def independent(program: Program) -> Arr | None:
    """A release that ignores the data and meets every budget up to rounding (leakage 0), cheapest first, or None."""
    c, budgets = np.asarray(program.constraints), np.asarray(program.budgets)
    open_to_all = np.asarray(program.support).all(axis=0)  # (Y,)
    per_output, linear = c.sum(axis=1), np.where(open_to_all, program.cost.sum(axis=0), np.inf)
    chosen = np.zeros(c.shape[2])
    # A budget may be the cost of such a release, summed in another order.
    rounding = _ROUNDINGS * np.finfo(np.float64).eps * (abs(budgets)[:, None] + abs(c).sum(axis=1))
    meets = np.all(per_output <= budgets[:, None] + rounding, axis=0) & open_to_all
    if meets.any():
        chosen[np.where(meets, linear, np.inf).argmin()] = 1.0
    elif len(budgets) > 1 and open_to_all.any():
        from scipy.optimize import linprog

        allowed = np.flatnonzero(open_to_all)
        rows, least = per_output[:, allowed], linear[allowed] - linear[allowed].min()
        # The tolerances of the backend are absolute.
        sizes, size = unit_of(rows, axis=1), unit_of(least)
        equal = np.ones((1, len(allowed)))
        result = linprog(least / size, rows / sizes[:, None], budgets / sizes, equal, [1.0], method="highs")
        if result.status != 0:
            return None
        chosen[allowed] = np.maximum(result.x, 0.0)
        chosen /= chosen.sum()
        # HiGHS meets its rows to 1e-7 only, and of budgets that are equations together, as on a marginal, rounding
        # leaves none met: they are spent exactly.
        of_outputs, exact = replace(program, constraints=per_output[:, None]), chosen[None]
        for _ in range(CORRECTIONS):
            exact = np.asarray(spending_exactly(of_outputs, exact, LEFT_OUT[0]))
        most = budgets + rounding.min(axis=1)
        met = [law for law in (chosen, exact[0]) if np.all(law >= 0.0) and np.all(per_output @ law <= most)]
        if not met:
            return None  # the solver then does better
        chosen = met[0]
    else:
        return None
    return np.tile(chosen, (c.shape[1], 1))


def widest_slack(
    c: np.ndarray, slack: np.ndarray, support: np.ndarray, free: np.ndarray, equal: np.ndarray, spread: bool = True
) -> tuple[float, np.ndarray, np.ndarray] | None:
    """max r s.t. <c, W> + r <= slack where free, <c, W> = slack where equal, and if `spread` every entry of the support
    is at least r times what the rows c >= 0 allow it one by one: (r, W, weights of c), by HiGHS.

    None where the backend has no answer: budgets that no mechanism meets but for rounding, which the certificate of the
    result judges.
    """
    from scipy.optimize import linprog  # costs a third of a second: imported where needed
    from scipy.sparse import coo_array, csr_array, eye_array, hstack, kron, vstack

    inputs, outputs = support.shape
    at = np.flatnonzero(support.ravel())
    # What the rows allow an entry.
    most = 1.0 / np.maximum(c[slack >= 1.0].max(axis=0, initial=0.0), 1.0).ravel()[at]
    ones = lambda count: coo_array(np.ones((count, 1)))  # noqa: E731
    flat = c.reshape(len(c), -1)[:, at] * most
    upper = [hstack([-eye_array(len(at)), ones(len(at))])] if spread else []
    above = len(at) if spread else 0
    if free.any():
        upper.append(hstack([coo_array(flat[free]), ones(int(free.sum()))]))
    sums = csr_array(csr_array(kron(eye_array(inputs), np.ones((1, outputs))))[:, at] * most)
    equations = [hstack([sums, coo_array((inputs, 1))])]
    if equal.any():
        equations.append(hstack([coo_array(flat[equal]), coo_array((int(equal.sum()), 1))]))
    objective = np.zeros(len(at) + 1)
    objective[-1] = -1.0
    options = {"primal_feasibility_tolerance": LINEAR, "dual_feasibility_tolerance": LINEAR}
    result = linprog(
        objective,
        vstack(upper),
        np.concatenate([np.zeros(above), slack[free]]),
        vstack(equations),
        np.concatenate([np.ones(inputs), slack[equal]]),
        [(0, None)] * len(at) + [(None, None)],
        method="highs",
        options=options,
    )
    if result.status != 0:
        return None
    inside = np.zeros(support.size)
    inside[at] = np.maximum(result.x[:-1], 0.0) * most
    inside = inside.reshape(support.shape)
    weights = np.zeros(len(c))
    weights[free] = np.maximum(-result.ineqlin.marginals[above:], 0.0)
    weights[equal] = -result.eqlin.marginals[inputs:]
    return float(-result.fun), inside / inside.sum(axis=1, keepdims=True), weights


def closed_form_of(program: Program, excess: Callable[[np.ndarray], float]) -> tuple[PyTree, ...] | None:
    """(mechanism, k, eta, price) where no iteration is needed."""
    valued = [term for term in program.terms if term.role in (Role.OBJECTIVE, Role.PEAK)]
    if valued and not program.cost.any():
        mechanism = independent(program)
        return None if mechanism is None else (mechanism, *_proof_of_nothing(program))
    # A term whose rows are 0, of a joint whose useful symbols all have one posterior, adds nothing to any value.
    if any(term.role is Role.PEAK or term.rows.any() for term in valued):
        return None
    costs, (k, eta, price) = program.cost, no_rules(program)
    if program.shares:
        if len(program.budgets) > 1:
            if program.terms or not program.marks.all():
                return None
            size = abs(program.constraints).max() or 1.0
            price, mechanism = largest_slack(
                np.asarray(program.constraints / size), np.asarray(program.budgets / size), program.support
            )
            return mechanism, k, eta, price
        costs, price = program.constraints[0], price.copy()
        price[0] = 1.0
    elif len(program.budgets):
        return None
    mechanism = np.asarray(cheapest(costs, program.support))
    met = not program.terms or violation_of(program, mechanism) == 0
    return (mechanism, k, eta, price) if met and excess(mechanism) == 0 else None


def _proof_of_nothing(program: Program) -> tuple[Arr, Arr, Arr]:
    """The rules and prices that prove the value of a release that leaks nothing: of several joints the one whose prior
    leaks most has all the weight.
    """
    k, eta, price = no_rules(program)
    peaks, place = [], len(program.budgets)
    for term in program.terms:
        if term.role is Role.PEAK:
            prior = term.rows.sum(axis=1)
            peaks.append((float(term.rule_set.columns(term, prior[:, None])[0] - term.bound), place))
        place += term.priced
    if not peaks:
        return k, eta, price
    price = price.copy()
    price[max(peaks)[1]] = 1.0
    return np.tile(prior_rules(program, np.asarray(price)), (len(k), 1)), eta, price


def cheapest_release(program: Program) -> Arr:
    """For every useful symbol the output with the least sum of the budgets' shares: of one budget it is the least
    distortion.
    """
    shares = (program.constraints / distance_scale(program.constraints)[:, None, None]).sum(axis=0)
    return cheapest(shares, program.support)


def independent_release(program: Program) -> Arr:
    """The cheapest release of one and the same symbol: it leaks nothing."""
    if program.shares:
        over = program.constraints.sum(axis=1) - program.budgets[:, None]
        chosen = xp.where(program.marks[:, None] > 0, over, -np.inf).max(axis=0).argmin()
    else:
        chosen = program.cost.sum(axis=0).argmin()
    symbol = (np.arange(program.cost.shape[1]) == chosen).astype(program.cost.dtype)
    return xp.broadcast_to(symbol, program.cost.shape)


def constant_releases(program: Program) -> np.ndarray:
    """The mechanisms whose output is always the same, (Y, X, Y)."""
    outputs = program.cost.shape[1]
    return np.broadcast_to(np.eye(outputs)[:, None], (outputs, *program.cost.shape))


def no_rules(program: Program) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(k, eta, price) of an adversary who uses the prior alone, and limits without a price."""
    worst = sum(term.smooth and term.role is Role.WORST for term in program.terms)
    price = np.zeros(len(program.budgets) + sum(term.priced for term in program.terms))
    outputs = program.cost.shape[1]
    return np.tile(prior_rules(program, price), (outputs, 1)), np.zeros((outputs, worst)), price


def prior_rules(program: Program, price: np.ndarray) -> np.ndarray:
    """The rules k (T,) about an output that is independent of S, at the prices of the limits on sums (B,)."""
    rules = [np.zeros(0)]
    for term, at in zip(program.terms, program.layout, strict=True):
        weight = price[at.limit] if term.priced else float(term.role is Role.OBJECTIVE)
        rules.append(weight * np.asarray(term.prior_rule()) if weight else np.zeros(len(term.rows)))
    return np.concatenate(rules)


def mixtures(program: Program, mechanism: np.ndarray, feasible_point: np.ndarray) -> Iterator[np.ndarray]:
    """The mechanism, then mixtures with releases that have more slack in the limits, at growing shares.

    A release of which half leaks nothing repairs limits on leakage; where budgets are next to the least distortion, a
    share of what leaks nothing costs more than the budget, and the feasible point alone repairs them. Where pairs are
    forbidden an output may owe its ratio to what it lost there: then those of next to no mass are left out.
    """
    yield mechanism
    if program.forbids:
        for left in without_rare(program, mechanism):
            total = left.sum(axis=1, keepdims=True)
            yield np.where(total > 0, left / np.where(total > 0, total, 1.0), mechanism)
    marginal = np.broadcast_to(program.mass @ mechanism / program.mass.sum(), mechanism.shape)
    for share in (*ROUNDING_SHARES, *_share_of_budgets(program, mechanism, feasible_point)):
        for safe in (0.5 * (marginal + feasible_point), feasible_point):
            yield (1.0 - share) * mechanism + share * safe


def _share_of_budgets(program: Program, mechanism: np.ndarray, feasible_point: np.ndarray) -> list[float]:
    """The share of the feasible point with which the budgets are met, where it is larger than what rounding asks for.

    Symbols of next to no mass, which are not iterated on, may use more than a budget that is as small.
    """
    if program.shares:
        return []
    used, least = ((program.constraints * table).sum(axis=(1, 2)) for table in (mechanism, feasible_point))
    over = (used > program.budgets) & (used > least)
    share = (1.0 + 1e-6) * float(((used - program.budgets)[over] / (used - least)[over]).max(initial=0.0))
    return [share] if ROUNDING_SHARES[-1] < share <= _MOST_OF_BUDGETS else []


def spending_exactly(program: Program, mechanism: Arr, least: ScalarLike) -> Arr:
    """The mechanism without its entries below `least`, changed so that budgets within as much of what it spends are
    spent exactly up to the ridge, after `CORRECTIONS` calls to rounding: by factors 1 + <a, c(x,y) - E c(x,Y)>, which
    keep the sums of its rows, c(x,y) the costs by budget.
    """
    lib = xp.of(mechanism)
    mechanism = lib.where(mechanism > least, mechanism, 0.0)
    mechanism = mechanism / mechanism.sum(axis=1, keepdims=True)
    means = (program.constraints * mechanism).sum(axis=2)
    left = program.budgets - means.sum(axis=1)
    active = (left < least * abs(program.constraints).max(axis=2).sum(axis=1)).astype(left.dtype)
    apart = active[:, None, None] * (program.constraints - means[:, :, None])  # (B, X, Y)
    system = ((apart * mechanism)[:, None] * apart).sum(axis=(2, 3))
    largest = lib.diagonal(system).max()
    ridge = lib.where(largest > 0, _RIDGE * largest, 1.0) * lib.eye(len(left), dtype=left.dtype)
    return mechanism * (1.0 + lib.tensordot(lib.linalg.solve(system + ridge, active * left), apart, 1))


def without_rare(program: Program, mechanism: np.ndarray) -> Iterator[np.ndarray]:
    """What is left of a mechanism without the outputs of less mass than growing shares."""
    mass = program.mass @ mechanism / program.mass.sum()
    return (np.where(mass > share, mechanism, 0.0) for share in _RARE)


def best_mixture(
    program: Program, excess: Callable[[np.ndarray], float], mechanism: np.ndarray, *duals: np.ndarray
) -> tuple[np.ndarray, Certificate, float]:
    """(mechanism, certificate, excess): the mechanism, or the least of a few mixtures with releases that leak
    nothing and with the feasible point; what the solver and the certificate compute of a limit differs by
    rounding.
    """
    tried = mixtures(program, mechanism, np.asarray(program.feasible_point))
    examined = ((mixture, certify_program(program, mixture, *duals), excess(mixture)) for mixture in tried)
    unmixed = next(examined)
    return next(
        (trial for trial in itertools.chain([unmixed], examined) if trial[1].violation == 0 and trial[2] == 0), unmixed
    )
