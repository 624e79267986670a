"""Can the budgets be met at all? The least distortion, a mechanism that attains it, and the proof if not.

For weights a >= 0 on the constraints, every mechanism has

    sum_r a_r <constraints_r, W> >= sum_x min_y sum_r a_r constraints_r(x, y) =: bound(a),

so bound(a) > a . budgets proves that no mechanism exists. Conversely the largest excess of
bound(a) over a . budgets on the simplex is attained (linear programming duality) by a feasible W
whenever it is <= 0.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from jaxpriv._runtime.numerics import unit_of
from jaxpriv._runtime.types import Arr, BoolLike
from jaxpriv.program.convex import Program, onto_equations

# Budgets closer than this (relative) to the least attainable value are taken as equal to it.
BOUNDARY = 1e-12
# No mechanism spends more than one of a budget in units of its scale. HiGHS takes 1e20 and more for infinite.
_ALWAYS_MET = 1e3
# Roundings by which a sum may exceed a budget that is the same sum in another order. Certificates allow 2000.
_ROUNDINGS = 8


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


def cheapest(costs: Arr, support: BoolLike = True) -> np.ndarray:
    """The deterministic mechanism that releases argmin_y costs[x, y] on the support (ties: the first)."""
    mechanism = np.zeros(costs.shape)
    mechanism[np.arange(len(costs)), np.where(support, costs, np.inf).argmin(axis=1)] = 1.0
    return mechanism


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
        weights, mechanism = np.ones(1), cheapest(c[0], program.support)
    else:
        above, slack, units = _above_floors(c, budgets)
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


def _above_floors(c: np.ndarray, budgets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
    solved = _widest(c, budgets, np.asarray(support), np.zeros(len(budgets), dtype=bool), spread=False)
    if solved is None:  # bounded and feasible by construction, so this is a failure of the backend
        raise ArithmeticError("the feasibility LP failed: HiGHS found no optimum")
    _, mechanism, weights = solved
    return weights, mechanism


def independent(program: Program) -> Arr | None:
    """A release that ignores the data and meets every budget up to rounding (leakage 0), cheapest first, or None."""
    c, budgets = np.asarray(program.constraints), np.asarray(program.budgets)
    per_output = np.where(program.support.all(axis=0), c.sum(axis=1), np.inf)  # (R, Y)
    linear = np.where(program.support.all(axis=0), program.cost.sum(axis=0), np.inf)
    outputs = c.shape[2]
    if not np.isfinite(linear).any():
        return None
    # A budget may be the cost of such a release, summed in another order.
    rounding = _ROUNDINGS * np.finfo(np.float64).eps * (abs(budgets)[:, None] + abs(c).sum(axis=1))
    meets = np.all(per_output <= budgets[:, None] + rounding, axis=0) & np.isfinite(linear)
    if meets.any():
        best = int(np.where(meets, linear, np.inf).argmin())
        chosen = np.zeros(outputs)
        chosen[best] = 1.0
    elif len(budgets) > 1:
        from scipy.optimize import linprog

        allowed = np.flatnonzero(np.isfinite(linear))
        rows, least = per_output[:, allowed], linear[allowed] - linear[allowed].min()
        # The tolerances of the backend are absolute.
        sizes, size = unit_of(rows, axis=1), unit_of(least)
        equal = np.ones((1, len(allowed)))
        result = linprog(least / size, rows / sizes[:, None], budgets / sizes, equal, [1.0], method="highs")
        if result.status != 0:
            return None
        chosen = np.zeros(outputs)
        chosen[allowed] = np.maximum(result.x, 0.0)
        chosen /= chosen.sum()
        if not np.all(per_output[:, allowed] @ chosen[allowed] <= budgets):
            return None  # HiGHS meets its rows to 1e-7 only; the solver then does better
    else:
        return None
    return np.tile(chosen, (c.shape[1], 1))


# Budgets without slack: the face of the mechanisms on which all that meet them live.
#
# Where no mechanism meets every budget with something to spare, weights a >= 0 exist with
#
#     sum_r a_r <constraints_r, W> >= sum_x min_y sum_r a_r constraints_r(x, y) = a . budgets    for every W,
#
# so that a feasible W uses only outputs at which the weighted cost of its row is least, and meets every budget of
# positive weight with equality. The same may happen again among those mechanisms (now with weights of either sign on
# what already holds with equality): facial reduction, one linear program a round, until some mechanism is positive
# wherever the face allows it and has slack in every other budget. Interior-point methods have a path to follow there.
#
# The bound of a certificate holds for all mechanisms. With the last weights, `escape`, raised along until no output
# outside the face is the cheapest of its row, it is the bound that was proved on the face: on the face the weighted
# cost is constant. Source: Borwein and Wolkowicz 1981 (facial reduction); the combination of rounds: own derivation.


# Costs of a row that differ by no more than this share of the spread of their parts are a tie: some thousand units of
# rounding. Which entries tie changes the program that is solved; the certificate is that of the whole one.
_TIE = 1e-12
# The same for weights that a linear program found, and its tolerance: slacks and weights below are none.
_LINEAR_TIE, _LINEAR = 1e-10, 1e-10
_NOTHING = 1e-9  # ten times the tolerance of the linear program
# Constraints on the face that are combinations of others up to this are dropped.
_DEPENDENT = 1e-9
# The weighted cost outside of an earlier face is at least this many times what the next weights need there.
_AMPLE = 2.0


@dataclass(frozen=True)
class Face:
    """Where every mechanism lives that meets budgets without slack.

    Attributes:
        support: (X, Y) bool, the entries that some feasible mechanism uses.
        held: (R,) bool, the constraints that hold with equality on the whole face.
        equal: (R,) bool, those of them that the support does not imply and that are no combination of others.
        escape: (R,) >= 0, sum 1: the weighted constraints are least, in every row, on the support alone.
        inside: (X, Y) a mechanism that is positive on the support and has slack in every other budget.
        source: (Y,) for every output itself, or where no symbol with mass may use it another one in its place.
    """

    support: np.ndarray
    held: np.ndarray
    equal: np.ndarray
    escape: np.ndarray
    inside: np.ndarray
    source: np.ndarray

    @property
    def used(self) -> np.ndarray:
        """(Y,) bool: the outputs that some symbol with mass may use."""
        return self.source == np.arange(len(self.source))

    def restricted(self, program: Program) -> Program:
        """The program on the face: constraints that hold by themselves ask for nothing."""
        idle = self.held & ~self.equal
        return dataclasses.replace(
            program,
            support=program.support & self.support,
            constraints=np.where(idle[:, None, None], 0.0, program.constraints),
            budgets=np.where(idle, 1.0, program.budgets),
            equal=self.equal if self.equal.any() else None,
        )

    def filled(self, program: Program) -> Program:
        """The program with copies of other outputs in the place of those that no symbol with mass may use.

        The optimum is the same, because one output may be split into several of equal posterior; so are the shapes.
        """
        at, share = self.source, 1.0 / np.bincount(self.source, minlength=len(self.source))[self.source]
        return dataclasses.replace(
            program,
            support=program.support[:, at],
            cost=program.cost[:, at],
            constraints=program.constraints[:, :, at],
            feasible_point=program.feasible_point[:, at] * share,
            start=None if program.start is None else program.start[:, at] * share,
        )

    def merged(self, mechanism: np.ndarray) -> np.ndarray:
        """A mechanism of the filled program as one of the face: copies of an output are the output."""
        folded = np.zeros_like(mechanism)
        np.add.at(folded.T, self.source, mechanism.T)
        return folded

    def onto(self, program: Program, mechanism: np.ndarray) -> np.ndarray:
        """The mechanism moved onto the face of `program`: other entries dropped, then its equations met."""
        moved = np.where(self.support, np.maximum(mechanism, 0.0), 0.0)
        total = moved.sum(axis=1, keepdims=True)
        moved = np.where(total > 0, moved / np.where(total > 0, total, 1.0), self.inside)
        if not self.equal.any():
            return moved
        met = np.asarray(onto_equations(dataclasses.replace(program, equal=self.equal), moved))
        return self.inside if np.isnan(met).any() else met

    def prices(self, program: Program, costs: np.ndarray, prices: np.ndarray) -> np.ndarray:
        """Prices >= 0 of the budgets under which no entry outside the face is the cheapest of its row.

        `costs` (X, Y): what every entry costs beside them; `prices`: those found on the face, of any sign where a
        budget is an equation.
        """
        prices = np.where(self.held & ~self.equal, 0.0, prices)
        total = costs + np.tensordot(prices, program.constraints, 1)
        excess = _above_least(np.tensordot(self.escape, program.constraints, 1), self.support)
        least = np.where(self.support, total, np.inf).min(axis=1, keepdims=True)
        outside = program.support & ~self.support & (excess > 0)
        short = np.where(outside, (least - total) / np.where(outside, excess, 1.0), 0.0)
        weighted = self.escape > 0
        negative = np.where(weighted, -prices / np.where(weighted, self.escape, 1.0), 0.0)
        # A billionth more than is needed: rounding of the quotients. A larger price still gives a bound that holds.
        raised = max(float(short.max()), float(negative.max(initial=0.0)), 0.0) * (1 + 1e-9)
        return np.maximum(prices + raised * self.escape, 0.0)


def face_of(program: Program, weights: np.ndarray) -> Face:
    """The face of budgets without slack; `weights` prove that there is none (`feasibility.check`)."""
    c, budgets = np.asarray(program.constraints), np.asarray(program.budgets)
    above, slack, scale = _above_floors(c, budgets)
    constant = ~above.any(axis=(1, 2))
    slack = np.where(constant, 0.0, slack)
    escape = np.where(constant, 0.0, np.asarray(weights, dtype=np.float64) * scale)
    escape = escape / escape.sum() if escape.any() else constant / constant.sum()
    tie = _TIE if len(budgets) == 1 else _LINEAR_TIE
    escape = np.where(escape > _NOTHING, escape, 0.0)
    allowed = np.asarray(program.support)
    support = _tied(escape, above, allowed, tie)
    held = constant | (escape > 0)
    while not held.all() or _independent(above[held], support).any():
        # Ends: every round takes an entry or a budget away.
        widest = _widest(above, slack, support, held)
        if widest is None:
            inside = support / support.sum(axis=1, keepdims=True)
            break
        width, inside, more = widest
        if width > _NOTHING:
            break
        more = np.where(held | (more > _NOTHING), more, 0.0)
        narrower = _tied(more, above, support, _LINEAR_TIE)
        joined = held | (more > 0)
        if (narrower == support).all() and (joined == held).all():
            break
        escape = _combined(escape, more, above, support, allowed & ~support)
        support, held = narrower, joined
    else:  # whatever keeps to the support meets every budget
        inside = support / support.sum(axis=1, keepdims=True)
    equal = np.zeros(len(budgets), bool)
    equal[np.flatnonzero(held)] = _independent(above[held], support)
    escape = escape / scale
    if equal.any():  # the linear program met its equations to its tolerance only
        met = np.asarray(onto_equations(dataclasses.replace(program, equal=equal), inside))
        inside = inside if np.isnan(met).any() else met
    return Face(support, held, equal, escape / escape.sum(), inside, _source(program, support))


def _source(program: Program, support: np.ndarray) -> np.ndarray:
    # Costs without mass rule nothing out: such rows may allow every output.
    used = support[np.asarray(program.mass) > 0].any(axis=0)
    live = np.flatnonzero(used)
    return np.where(used, np.arange(len(used)), live[np.cumsum(~used) % len(live)])


def without_budgets(program: Program) -> Program:
    """The program with limits on leakage alone, and without its costs."""
    return dataclasses.replace(
        program,
        cost=np.zeros_like(program.cost),
        constraints=program.constraints[:0],
        budgets=program.budgets[:0],
        marks=program.marks[:0],
        shares=False,
    )


def whole_face(program: Program, feasible_point: np.ndarray) -> Face:
    """The support of a program, where its budgets leave some slack, as the face that all of its mechanisms live on.

    `feasible_point`: a mechanism with slack in every budget, towards which the uniform one is moved as far as it takes.
    """
    support, none = np.asarray(program.support), np.zeros(len(program.budgets), dtype=bool)
    uniform = support / support.sum(axis=1, keepdims=True)
    used, least = ((program.constraints * mechanism).sum(axis=(1, 2)) for mechanism in (uniform, feasible_point))
    over = (used > program.budgets) & (program.marks == 0)
    room = np.where(over, (program.budgets - least) / np.where(over, used - least, 1.0), 1.0).min(initial=1.0)
    share = 0.5 * max(float(room), 0.0)
    inside = share * uniform + (1.0 - share) * feasible_point
    return Face(support, none, none, np.zeros(len(none)), inside, _source(program, support))


def _above_least(combined: np.ndarray, support: np.ndarray) -> np.ndarray:
    return combined - np.where(support, combined, np.inf).min(axis=1, keepdims=True)


def _tied(weights: np.ndarray, above: np.ndarray, support: np.ndarray, tie: float) -> np.ndarray:
    """The entries of the support at which the weighted costs are least in their rows, up to rounding.

    The share `tie` is of what the weighted costs differ by one by one, not of what their sum does: where a row's sum is
    constant, as that of P(y) over all outputs, all that it differs by is the error of the weights.
    """
    combined = np.tensordot(weights, above, 1)
    differences = np.where(support, above, -np.inf).max(axis=2) - np.where(support, above, np.inf).min(axis=2)
    near = tie * (abs(weights) @ differences) + 16 * np.finfo(float).eps * abs(combined).max(axis=1)
    return support & (_above_least(combined, support) <= near[:, None])


def _independent(rows: np.ndarray, support: np.ndarray) -> np.ndarray:
    """(H,) bool: constraints that are neither constant on the support nor combinations of others."""
    means = np.where(support, rows, 0.0).sum(axis=2, keepdims=True) / support.sum(axis=1)[:, None]
    left = np.where(support, rows - means, 0.0).reshape(len(rows), -1)
    chosen = np.zeros(len(rows), bool)
    for _ in range(len(rows)):
        sizes = np.where(chosen, 0.0, abs(left).max(axis=1, initial=0.0))
        best = int(sizes.argmax())
        if not sizes[best] > _DEPENDENT:
            break
        chosen[best] = True
        unit = left[best] / np.linalg.norm(left[best])
        left = left - np.outer(left @ unit, unit)
    return chosen


def _widest(
    c: np.ndarray, slack: np.ndarray, support: np.ndarray, held: np.ndarray, spread: bool = True
) -> tuple[float, np.ndarray, np.ndarray] | None:
    """max r s.t. <c, W> + r <= slack, <c, W> = slack where held, W >= r on the support if `spread`: (r, W, weights of
    c), by HiGHS.

    None where the backend has no answer: budgets that no mechanism meets but for rounding, which the certificate of the
    result judges.
    """
    from scipy.optimize import linprog  # costs a third of a second: imported where needed
    from scipy.sparse import coo_array, csr_array, eye_array, hstack, kron, vstack

    inputs, outputs = support.shape
    at = np.flatnonzero(support.ravel())
    ones = lambda count: coo_array(np.ones((count, 1)))  # noqa: E731
    flat = c.reshape(len(c), -1)[:, at]
    free = ~held
    upper = [hstack([-eye_array(len(at)), ones(len(at))])] if spread else []
    above = len(at) if spread else 0
    if free.any():
        upper.append(hstack([coo_array(flat[free]), ones(int(free.sum()))]))
    sums = csr_array(kron(eye_array(inputs), np.ones((1, outputs))))[:, at]
    equal = [hstack([sums, coo_array((inputs, 1))])]
    if held.any():
        equal.append(hstack([coo_array(flat[held]), coo_array((int(held.sum()), 1))]))
    objective = np.zeros(len(at) + 1)
    objective[-1] = -1.0
    options = {"primal_feasibility_tolerance": _LINEAR, "dual_feasibility_tolerance": _LINEAR}
    result = linprog(
        objective,
        vstack(upper),
        np.concatenate([np.zeros(above), slack[free]]),
        vstack(equal),
        np.concatenate([np.ones(inputs), slack[held]]),
        [(0, None)] * len(at) + [(None, None)],
        method="highs",
        options=options,
    )
    if result.status != 0:
        return None
    inside = np.zeros(support.size)
    inside[at] = np.maximum(result.x[:-1], 0.0)
    inside = inside.reshape(support.shape)
    weights = np.zeros(len(c))
    weights[free] = np.maximum(-result.ineqlin.marginals[above:], 0.0)
    weights[held] = -result.eqlin.marginals[inputs:]
    return float(-result.fun), inside / inside.sum(axis=1, keepdims=True), weights


def _combined(
    first: np.ndarray, then: np.ndarray, above: np.ndarray, support: np.ndarray, outside: np.ndarray
) -> np.ndarray:
    """Weights >= 0 that are least where `then` is least on the face of `first`: enough of `first`, and `then`.

    `outside`: the allowed entries that are not on that face.
    """
    away = _above_least(np.tensordot(first, above, 1), support)
    needed = np.where(outside, -_above_least(np.tensordot(then, above, 1), support) / np.where(outside, away, 1.0), 0.0)
    weighted = first > 0
    needed = max(float(needed.max()), float(np.where(weighted, -then / np.where(weighted, first, 1.0), 0.0).max()), 0.0)
    result = np.maximum(_AMPLE * max(needed, 1.0) * first + then, 0.0)
    return result / result.sum()
