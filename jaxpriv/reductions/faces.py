"""Budgets without slack: the face of the mechanisms on which all that meet them live.

Where no mechanism meets every budget with something to spare, weights a >= 0 exist with

    sum_r a_r <constraints_r, W> >= sum_x min_y sum_r a_r constraints_r(x, y) = a . budgets    for every W,

so that a feasible W uses only outputs at which the weighted cost of its row is least, and meets every budget of
positive weight with equality. The same may happen again among those mechanisms (now with weights of either sign on
what already holds with equality): facial reduction, one linear program a round, until some mechanism is positive
wherever the face allows it and has slack in every other budget. Interior-point methods have a path to follow there.

The bound of a certificate holds for all mechanisms. With the last weights, `escape`, raised along until no output
outside the face is the cheapest of its row, it is the bound that was proved on the face: on the face the weighted
cost is constant. Source: Borwein and Wolkowicz 1981 (facial reduction); the combination of rounds: own derivation.

Where a pair that the budgets allow is of no use, for every mechanism that uses it has an infinite leakage
(`program.finite_leakage`), they may allow fewer without it, and so on, until all are of use or no mechanism is left.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.types import Arr
from jaxpriv.errors import NotCertifiedError
from jaxpriv.leakage import AbstractLeakage
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.program.convex import Program
from jaxpriv.program.finite_leakage import infinite, useless
from jaxpriv.reductions.closed_forms import (
    BOUNDARY,
    LINEAR,
    above_floors,
    check,
    prior_rules,
    widest_slack,
    without_rare,
)

# Costs of a row that differ by no more than this share of the spread of their parts are a tie: some thousand units of
# rounding. Which entries tie changes the program that is solved; the certificate is that of the whole one.
_TIE = 1e-12
# The same for weights that a linear program found: its tolerance.
_LINEAR_TIE = LINEAR
_NOTHING = 10 * LINEAR  # slacks and weights below are none
# Constraints on the face that are combinations of others up to this are dropped.
_DEPENDENT = 1e-9
# The weighted cost outside of an earlier face is at least this many times what the next weights need there.
_AMPLE = 2.0
# Newton steps that put a mechanism onto equations: they converge quadratically.
_CORRECTIONS = 5
# What equations may be missed by afterwards, relative to their size: the rounding of sums of some thousand terms.
_MET = 1e-12
# What the weight of a rule costs that does not cost the entries of a face anything: of several the smallest are taken.
_LEAST_PRICE = 1e-6


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
    """The face of budgets without slack; `weights` prove that there is none (`closed_forms.check`)."""
    c, budgets = np.asarray(program.constraints), np.asarray(program.budgets)
    above, slack, scale = above_floors(c, budgets)
    constant = ~above.any(axis=(1, 2))
    slack = np.where(constant, 0.0, slack)
    escape = np.where(constant, 0.0, np.asarray(weights, dtype=np.float64) * scale)
    escape = escape / escape.sum() if escape.any() else constant / constant.sum()
    tie = _TIE if len(budgets) == 1 else _LINEAR_TIE
    # In units of what they allow above the cheapest outputs: a limit of 1e-11 on P(y) is no limit of 0.
    unit = np.where(slack > BOUNDARY, slack, 1.0)
    escape = np.where(escape > _NOTHING, escape, 0.0) * unit
    above, slack, scale = above / unit[:, None, None], slack / unit, scale * unit
    allowed = np.asarray(program.support)
    support = _tied(escape, above, allowed, tie)
    held = constant | (escape > 0)
    # A budget of 0 is missed by the rounding of what the others leave.
    errors = np.maximum(abs(budgets) / scale, np.finfo(float).eps)
    while True:  # ends: every round takes an entry or a budget away
        equal = np.zeros(len(budgets), bool)
        equal[np.flatnonzero(held)] = _independent(above[held], support, errors[held])
        # Without either, whatever keeps to the support meets every budget.
        widest = widest_slack(above, slack, support, ~held, equal) if equal.any() or not held.all() else None
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


def _independent(rows: np.ndarray, support: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """(H,) bool: constraints that are neither constant on the support nor combinations of others.

    Of those that depend on each other the one is left out that may be missed by the largest of the `errors`: what all
    others are missed by adds up in it.
    """
    means = np.where(support, rows, 0.0).sum(axis=2, keepdims=True) / support.sum(axis=1)[:, None]
    left = np.where(support, rows - means, 0.0).reshape(len(rows), -1)
    chosen = np.zeros(len(rows), bool)
    for _ in range(len(rows)):
        sizes = np.where(chosen, 0.0, abs(left).max(axis=1, initial=0.0))
        best = int(np.where(sizes > _DEPENDENT, sizes / errors, 0.0).argmax())
        if not sizes[best] > _DEPENDENT:
            break
        chosen[best] = True
        unit = left[best] / np.linalg.norm(left[best])
        left = left - np.outer(left @ unit, unit)
    return chosen


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


def onto_equations(program: Program, mechanism: Arr) -> Arr:
    """A mechanism near `mechanism` that meets the constraints in `program.equal`, NaN if none was found.

    Entries move in proportion to themselves, W (1 + sum_r t_r c_r) with c_r above its mean in every row under W:
    Newton's method in t, whose every step squares what is left.
    """
    assert program.equal is not None
    mine = program.equal[:, None, None]
    c = xp.where(mine, program.constraints, 0.0)
    for _ in range(_CORRECTIONS):
        missing = xp.where(program.equal, program.budgets - (c * mechanism).sum(axis=(1, 2)), 0.0)
        above = c - (c * mechanism).sum(axis=2, keepdims=True)
        gram = xp.einsum("rxy,sxy->rs", above * mechanism, above)
        gram = xp.where(xp.isfinite(gram), gram, 0.0)  # NumPy's decomposition raises an error of its own
        steps = (xp.of(gram).linalg.pinv(gram) * missing).sum(axis=1)
        mechanism = xp.maximum(mechanism * (1.0 + (steps[:, None, None] * above).sum(axis=0)), 0.0)
        mechanism = mechanism / mechanism.sum(axis=1, keepdims=True)
    missing = xp.where(program.equal, program.budgets - (c * mechanism).sum(axis=(1, 2)), 0.0)
    met = abs(missing) <= _MET * (abs(program.budgets) + (abs(c) * mechanism).sum(axis=(1, 2)))
    return xp.where(met.all(), mechanism, np.nan)


def finite_on(program: Program, face: Face, joints: Arr, measures: Sequence[AbstractLeakage]) -> np.ndarray | None:
    """A mechanism on the face under which all measures are finite for all joints (K, S, X), positive wherever one of
    these is; None if there is none. Raises `NotCertifiedError` where no measure says which entries are of no use.
    """
    while any(infinite(joints, measures, face.inside)):
        support = face.support & ~useless(joints, measures, face.inside)
        if (support == face.support).all():
            raise NotCertifiedError(
                "whether any mechanism on the allowed pairs has a finite leakage is not certified: one that uses all "
                "pairs has an infinite one, although no output excludes a private symbol that another one needs"
            )
        narrower = dataclasses.replace(program, support=support)
        if not support.any(axis=1).all() or not (least := check(narrower)).feasible:
            return None
        tight = least.boundary and len(program.budgets)
        face = face_of(narrower, least.weights) if tight else whole_face(narrower, least.mechanism)
    return face.inside


def entry_costs(program: Program, k: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """What every entry costs, (X, Y), beside the prices of the budgets."""
    costs = np.array(program.cost, dtype=np.float64)
    for term, at in zip(program.terms, program.layout, strict=True):
        costs += (k[:, at.rows] @ term.rows).T
        if at.worst is not None:
            costs += np.outer(term.offset, eta[:, at.worst])
    return costs


def excluding_rules(program: Program, face: Face, costs: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The rules k (Y, T) with more of those of limits on ratios, until no entry that these exclude from the face is the
    cheapest of its row; `costs` (X, Y): what every entry costs at k.

    No multiple of an entry that is excluded meets the limits A w <= 0 of its output: by Farkas' lemma some rules k >= 0
    have A'k >= 1 there, and A'k >= 0 wherever the output is allowed. A linear program finds those that cost the entries
    of the face least.
    """
    from scipy.linalg import block_diag  # costs a third of a second, as the next one: imported where needed
    from scipy.optimize import linprog

    ratios = [
        (term, np.arange(at.rows.start, at.rows.stop))
        for term, at in zip(program.terms, program.layout, strict=True)
        if not term.smooth and term.role is Role.WORST
    ]
    least = np.where(face.support, costs, np.inf).min(axis=1, keepdims=True)
    short = np.where(program.support & ~face.support, least - costs, 0.0)
    if not ratios or not (short > 0).any():
        return k
    at = np.concatenate([places for _, places in ratios])
    rows = np.concatenate([np.asarray(term.rows) for term, _ in ratios])
    size = abs(rows).max(axis=1)
    size = np.where(size > 0, size, 1.0)
    rows = rows / size[:, None]
    # The weights of a set of rows with a reference are in balance.
    references = block_diag(*(np.asarray(term.reference)[None] for term, _ in ratios)) / size
    k = k.copy()
    for y in np.flatnonzero((short > 0).any(axis=0)):
        used, allowed = face.support[:, y], program.support[:, y]
        result = linprog(
            rows @ used + _LEAST_PRICE,
            -rows[:, allowed].T,
            -np.where(used, 0.0, 1.0)[allowed],
            references,
            np.zeros(len(references)),
            method="highs",
            options={"primal_feasibility_tolerance": LINEAR, "dual_feasibility_tolerance": LINEAR},
        )
        if result.status == 0:  # other limits or budgets may exclude the entry
            # A little more than what is short: the linear program holds up to its tolerance.
            k[y, at] += (1 + 1e-6) * short[:, y].max() * result.x / size
    return k


def moved_onto(face: Face, program: Program, mechanism: np.ndarray) -> Iterator[np.ndarray]:
    """The mechanisms on a face that one near it may stand for.

    Outputs of next to no mass may owe their ratios to entries outside the face: they are left out as well.
    """
    return (face.onto(program, near) for near in (mechanism, *without_rare(program, mechanism)))


def off_face(
    program: Program, face: Face, mechanism: np.ndarray, k: np.ndarray, eta: np.ndarray, price: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(mechanism, k, eta, price) of the program itself, from those on the face of its budgets."""
    used, count = face.used[:, None], len(program.budgets)
    k, eta = np.where(used, k, prior_rules(program, price)), np.where(used, eta, 0.0)
    if program.forbids:
        spent = np.tensordot(price[:count], program.constraints, 1)
        k = excluding_rules(program, face, entry_costs(program, k, eta) + spent, k)
    prices = face.prices(program, entry_costs(program, k, eta), price[:count])
    return face.onto(program, face.merged(mechanism)), k, eta, np.concatenate([prices, price[count:]])
