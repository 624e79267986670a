"""From a problem to its convex program (`program.Program`), on the host and from tracers.

A program is `whole` where every private symbol keeps its rows: one whose shapes depend on no value of the data. So is
one of mutual information, whose rules are then the log-lifts of all private symbols. A `ProblemStack` (problems of
equal sizes along a leading axis) is stated as one program, which has that axis too.
"""

import dataclasses
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.types import Arr, BoolLike, Result, ScalarLike
from jaxpriv._runtime.validation import is_traced
from jaxpriv.data.distortion import Absolute, AbstractDistortion, Pairwise, Squared
from jaxpriv.data.joints import AbstractJoint
from jaxpriv.leakage import AbstractLeakage, AbstractPointwiseLeakage, exact_values
from jaxpriv.leakage._base import PLAIN, Scale
from jaxpriv.leakage.rule_sets import LINEAR, Role, Rules, Term, View
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.forms import AbstractProblemForm
from jaxpriv.program.convex import Program
from jaxpriv.program.finite_leakage import pairs_of_finite_leakage
from jaxpriv.program.streamed import StreamedProgram


def tables_of(problems: Sequence[DistortionProblem]) -> np.ndarray:
    """`tables()` of every problem, (N, M, X, Y). Distortions of the same rule and features are computed once."""
    computed: dict[Hashable, np.ndarray] = {}
    tables = []
    for problem in problems:
        key = tuple(_same(distortion) for distortion in problem.distortions)
        if key not in computed:
            computed[key] = np.asarray(problem.tables())
        tables.append(computed[key])
    return np.stack(tables)


def _same(distortion: AbstractDistortion) -> Hashable:
    """What decides the costs; at least which object it is, while the problems that hold it exist."""
    if isinstance(distortion, Pairwise) and type(distortion.rule) in (Absolute, Squared):
        features = distortion.x_features, distortion.y_features
        if all(isinstance(feature, np.ndarray) for feature in features):
            return (
                type(distortion),
                type(distortion.rule),
                *((feature.shape, feature.dtype, feature.tobytes()) for feature in features),
            )
    return id(distortion)


def stacked(problems: Sequence[DistortionProblem]) -> AbstractProblemForm:
    """The form that all problems have, with their targets along a leading axis."""
    targets = [np.asarray(problem.form.target, dtype=np.float64) for problem in problems]
    return type(problems[0].form)(np.stack(targets))


@dataclass(frozen=True, eq=False)
class ProblemStack:
    """What the statement of a `DistortionProblem` reads, for N problems with one measure and no further limits.

    All have as many joints and distortions, of equal sizes, and the same form.
    """

    joints: np.ndarray  # (N, K, S, X)
    distortions: np.ndarray  # (N, M, X, Y)
    leakage: AbstractLeakage
    form: AbstractProblemForm  # its target is (N, M), or (N,) of a limit on the leakage

    @staticmethod
    def of(problems: Sequence[DistortionProblem]) -> "ProblemStack":
        """The problems along a leading axis; the measure is that of the first."""
        first = problems[0]
        joints = np.stack([problem.joints for problem in problems])
        tables = tables_of(problems)
        return ProblemStack(joints, tables, first.leakage, stacked(problems))

    def __getitem__(self, lanes: np.ndarray) -> "ProblemStack":
        """Those of some lanes."""
        form = jax.tree.map(lambda target: target[lanes], self.form)
        return ProblemStack(self.joints[lanes], self.distortions[lanes], self.leakage, form)

    @property
    def limits(self) -> tuple[()]:
        """None."""
        return ()

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (X, Y) of a mechanism."""
        inputs, outputs = self.distortions.shape[-2:]
        return inputs, outputs

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """(K, |S|, |X|, |Y|)."""
        groups, private, inputs = self.joints.shape[-3:]
        return groups, private, inputs, self.shape[1]

    def costs(self) -> tuple[np.ndarray, np.ndarray]:
        """(the distortions (N, M, X, Y), the allowed pairs (X, Y)): a stack forbids none."""
        return self.distortions, np.ones(self.shape, dtype=bool)


# From measures to the terms of a convex program: the terms of a measure in a role, with equal rows merged.
#
# The value of an average is `outer( sum_y phi(w_y) + shift )`; a worst-outcome measure is the smallest eps with
# phi(w_y) <= eps |w_y| for all y. Private symbols without mass are left out; rows of equal ratios are merged.
#
# The arrays may be tracers. Shapes must not depend on their values then, so every symbol keeps its rows (`whole`): one
# without mass has rows of zeros and reference 0 in a smooth set, and rows that the others imply in a linear one.


def terms_of(
    measure: AbstractLeakage, joint: Arr, role: Role, value: ScalarLike = 0.0, whole: bool = False
) -> tuple[Term, ...]:
    """The terms of `measure` under one joint in a role; `value` is its limit in roles AVERAGE and WORST.

    In role AVERAGE or PEAK the shift of the measure is in `bound`; in role OBJECTIVE it is `shift_of`. `whole`: no row
    is left out or merged, as it must be where an argument is traced, and where `joint` has a leading axis, that of a
    batch, which the terms and `value` have then; no limit of a batch is 0.
    """
    if np.ndim(joint) > 2 and not measure.stacks:
        values = np.broadcast_to(value, joint.shape[:1])
        each = [terms_of(measure, table, role, bound, whole) for table, bound in zip(joint, values, strict=True)]
        if not all(term.independent for terms in each for term in terms):  # one flag for all of a batch
            each = [tuple(dataclasses.replace(term, independent=False) for term in terms) for terms in each]
        return jax.tree.map(lambda *parts: np.stack(parts), *each)
    seen_part, view = _viewed(measure, joint, value, whole)
    rules = seen_part.rules(view)
    if rules is None:
        return ()
    bound = 0.0
    if role in (Role.AVERAGE, Role.PEAK) and not measure.stacks:
        bound = -seen_part.shift(view.prior)
    if role is Role.AVERAGE:
        bound = measure.scale_for(joint.shape[-2]).inner(value) + bound
    term = _term(rules, role, view, bound)
    limits = role in (Role.AVERAGE, Role.WORST) and rules.rule_set.strict
    # Strictly convex measures are 0 where S and Y are independent, and nowhere else.
    nothing = limits and not isinstance(value, Tracer) and bool(np.all(value <= 0))
    return (dataclasses.replace(term, independent=True) if nothing else term,)


def shift_of(measure: AbstractLeakage, joint: Arr, whole: bool = False) -> ScalarLike:
    """What is added to the sum of the columns of an average measure; (N,) of a batch of joints (N, S, X)."""
    if np.ndim(joint) > 2:
        return np.array([0.0 if measure.stacks else shift_of(measure, table, whole) for table in joint])
    seen_part, view = _viewed(measure, joint, 0.0, whole)
    return seen_part.shift(view.prior)


def _viewed(measure: AbstractLeakage, joint: Arr, value: ScalarLike, whole: bool) -> tuple[AbstractLeakage, View]:
    """The measure and the joint without private symbols of no mass; `whole`: with them."""
    prior = joint.sum(axis=-1)
    seen = np.ones(joint.shape[-2], dtype=bool) if whole else np.asarray(prior > 0)
    present = joint if whole else joint[seen]
    view = View(present, present.sum(axis=-1), joint.sum(axis=-2), value, whole)
    # A measure that takes a batch has no parameters for each private symbol.
    return (measure if joint.ndim > 2 else measure.among(prior, seen)), view


def linear_limit(rows: Arr, reference: Arr, mass: Arr) -> Term:
    """A worst-outcome limit by linear rows, as they are."""
    return _made(Rules(LINEAR, rows, reference), Role.WORST, mass, 0.0)


def _term(rules: Rules, role: Role, view: View, bound: ScalarLike) -> Term:
    # The rows of a linear limit in every outcome were compared before its value came in.
    if view.whole or (role is Role.WORST and not rules.rule_set.smooth):
        return _made(rules, role, view.mass, bound)
    rows, reference, cap = rules.rule_set.merged(rules.rows, rules.reference, rules.cap)
    merged = Rules(rules.rule_set, rows, reference, cap, rules.parameter, rules.offset)
    return _made(merged, role, view.mass, bound)


def _made(rules: Rules, role: Role, mass: Arr, bound: ScalarLike) -> Term:
    return Term(
        rows=rules.rows,
        reference=rules.reference,
        cap=rules.cap,
        offset=np.zeros(mass.shape) if rules.offset is None else rules.offset,
        bound=bound if isinstance(bound, Tracer) or np.ndim(bound) else np.float64(bound),
        parameter=np.float64(rules.parameter),
        rule_set=rules.rule_set,
        role=role,
        rate=rules.rate,
        normalised=not rules.rule_set.smooth and _refers(rules.reference),
    )


def _refers(reference: Arr) -> bool:
    """Whether linear rows are compared with multiples of a reference: none that is 0 depends on what is traced."""
    return isinstance(reference, Tracer) or bool(np.any(reference != 0))


# What a limit and the least value of its measure may differ by and still be called equal, and relative to that value.
_ROUNDING, _RELATIVE = 1e-13, 1e-12

# A limit that is traced has terms whatever it is: an infinite one stands so far above every measure.
_NO_LIMIT = 1e9

# (measure, the value that it may have at most), and so on: a float on the host, a tracer in a trace.
Limits: TypeAlias = tuple[tuple[AbstractLeakage, Any], ...]


def limits_of(problem: DistortionProblem) -> Limits:
    """All limits on leakage that hold: the leakage budget, where the problem has one, then the further limits.

    A limit that lies below the least value of its measure by rounding alone is that value: no mechanism meets the
    number as it was written, and prices of 1e12 would make a false bound of the difference.
    """
    raised = []
    for measure, value in (*own_limit(problem), *problem.limits):
        least = least_value(problem, measure)
        near = xp.where(equals_least(value, least), xp.maximum(value, least), value)
        if isinstance(value, Tracer):
            near = jnp.minimum(near, _NO_LIMIT)
        elif not isinstance(least, Tracer):
            near = float(near)
        raised.append((measure, near))
    return tuple(raised)


def own_limit(problem: DistortionProblem | ProblemStack) -> Limits:
    """The limit on leakage that is the target of the problem, if it is one."""
    return ((problem.leakage, problem.form.target),) if problem.form.limits_leakage else ()


def finite_limits(limits: Limits) -> list[tuple[AbstractLeakage, Any]]:
    """The limits that limit something, as far as is known: what is traced counts as finite."""
    return [(measure, value) for measure, value in limits if isinstance(value, Tracer) or np.isfinite(value).all()]


def flags_of(
    program: Program, problem: DistortionProblem, limits: Limits, without_slack: tuple[bool, ...]
) -> tuple[bool, ...]:
    """`without_slack` of the finite limits, for every term of the program: theirs follow the objective's."""
    if not any(without_slack):
        return (False,) * len(program.terms)
    finite = finite_limits(limits)
    flags = [
        flag
        for (measure, value), flag in zip(finite, without_slack, strict=True)
        for _ in terms_of_limit(problem.joints, measure, value)
    ]
    return (*(False,) * (len(program.terms) - len(flags)), *flags)


def least_value(problem: DistortionProblem | ProblemStack, measure: AbstractLeakage) -> ScalarLike:
    """What a release that ignores the data leaks, the largest over the joints: no release leaks less."""
    if (least := measure.least) is not None:
        return least
    uniform = np.full(problem.shape, 1.0 / problem.shape[1], problem.joints.dtype)
    if isinstance(problem, ProblemStack):
        each = [[exact_values((measure,), joint, uniform)[0] for joint in joints] for joints in problem.joints]
        leasts = np.max(each, axis=1)
        return np.where(abs(leasts) > _ROUNDING, leasts, 0.0)
    if is_traced(problem):
        least = measured_values(measure, problem.joints, uniform).max()
        return jnp.where(abs(least) > _ROUNDING, least, 0.0)
    least = max(exact_values((measure,), joint, uniform)[0] for joint in problem.joints)
    return least if abs(least) > _ROUNDING else 0.0


def measured_values(measure: AbstractLeakage, joints: Arr, mechanism: Arr) -> Arr:
    """The measure under every joint, where an argument is traced: (K,)."""
    joints, mechanism = jnp.asarray(joints), jnp.asarray(mechanism)
    return jnp.stack([measure(joint / joint.sum(), mechanism) for joint in joints])


def equals_least(value: ScalarLike, least: ScalarLike) -> BoolLike:
    """Whether a limit is at the least value of its measure, up to rounding."""
    return abs(value - least) <= _RELATIVE * abs(least) + _ROUNDING


def scale_and_shift(problem: DistortionProblem | ProblemStack) -> tuple[Scale, Any]:
    """(scale, shift): the value of the problem is scale.outer(value of `measured_program` + shift).

    With several joints the shifts are part of the program; the leakage-budget form minimises E d itself.
    """
    if problem.form.limits_leakage:
        return PLAIN, 0.0
    groups, private, _, _ = problem.sizes
    scale = problem.leakage.scale_for(private)
    if groups > 1 or problem.leakage.stacks:
        return scale, 0.0
    whole = isinstance(problem, ProblemStack) or is_traced(problem)
    return scale, shift_of(problem.leakage, problem.joints[..., 0, :, :], whole)


def average_leakage(problem: DistortionProblem | ProblemStack, totals: Arr) -> Arr:
    """An average measure, the largest over the joints, from the sums (..., K) of its columns under each of them."""
    measure, joints = problem.leakage, problem.joints
    each = [totals[..., i] + shift_of(measure, joints[..., i, :, :], True) for i in range(problem.sizes[0])]
    return xp.maximum(measure.scale_for(problem.sizes[1]).outer(xp.stack(each).max(axis=0)), 0.0)


def interval_of(
    problem: DistortionProblem | ProblemStack, scale: Scale, shift: ScalarLike, value: ScalarLike, bound: ScalarLike
) -> tuple[Result, Result]:
    """(value, lower bound) in the unit of the problem, from those of its program's total (`scale_and_shift`)."""
    if isinstance(bound, Tracer):  # of any precision: outwards, by what the shift, its sum, and a logarithm are rounded
        unit = float(np.finfo(bound.dtype).eps)
        slop = (problem.sizes[1] + 16) * unit * (1.0 + abs(shift)) if isinstance(shift, Tracer) else 0.0
        value, bound = scale.outer(value + (shift + slop)), scale.outer(bound + (shift - slop))
        value, bound = value + 4.0 * unit * abs(value), bound - 4.0 * unit * abs(bound)
    else:
        value, bound = scale.outer(value + shift), scale.outer(bound + shift)
    if problem.form.limits_distortion:  # no release leaks less than one that ignores the data
        # Less 9,000 units of rounding: more than sums of as many nonnegative masses, in any order, are rounded by.
        least = least_value(problem, problem.leakage) * (1 - 1e-12)
        if isinstance(bound, Tracer) or isinstance(least, Tracer):
            return value, jnp.maximum(bound, least)
        bound = np.maximum(bound, least) if np.ndim(bound) else max(bound, least)
    return value, bound


def streamed_program(
    problem: DistortionProblem, joint: AbstractJoint, distortions: tuple[AbstractDistortion, ...], prior: Arr
) -> tuple[StreamedProgram, Scale, float]:
    """(program, scale, shift) of a streamed problem, over operators: like `scale_and_shift`, from the prior (S,)."""
    prior = np.asarray(prior)
    measure, alone = problem.leakage, prior[:, None]
    (term,) = terms_of(measure, alone, Role.OBJECTIVE, whole=True)
    transfer = None
    if term.rows is not alone:
        (each,) = terms_of(measure, np.diag(prior), Role.OBJECTIVE, whole=True)
        transfer = np.divide(each.rows, prior, out=np.zeros(each.rows.shape), where=prior > 0)
    scale, shift = measure.scale_for(len(prior)), float(shift_of(measure, alone, whole=True))
    least = measure.least
    if least is None:
        (least,) = exact_values((measure,), alone, np.ones((1, 1)))
        least = least * (1 - 1e-12) if abs(least) > _ROUNDING else 0.0
    target = np.asarray(problem.form.target, dtype=np.float64)
    either = (scale.inner(1.0) * target, None) if problem.form.prices_distortion else (None, target)
    least = np.float64(scale.inner(least) - shift)
    return StreamedProgram(joint, distortions, prior, term, transfer, least, *either), scale, shift


def program_of(problem: DistortionProblem) -> Program:
    """The convex program that states `problem`, in float64 (or the dtype of its tracers), without a feasible point.

    Its value is that of the problem up to the unit of the measure (`scale_and_shift`).
    """
    return least_worst_program(problem) if problem.form.minimax else measured_program(problem, limits_of(problem))


def worst_program(problem: DistortionProblem | ProblemStack, e: ScalarLike, whole: bool = False) -> Program:
    """How far from its budgets a problem must stay while its worst-outcome measure is at most e: positive where
    no mechanism within them has that limit. Its shapes are the same for every e.
    """
    further = () if isinstance(problem, ProblemStack) else limits_of(problem)
    return distance_program(problem, ((problem.leakage, e), *further), whole)


def least_worst_program(problem: DistortionProblem | ProblemStack, whole: bool = False) -> Program:
    """The least worst-outcome leakage within the budgets as one minimax program.

    Its rules and prices are laid out as those of `worst_program`, which proves them at a limit of one's own. The
    offset of a smooth worst-outcome term is affine in its limit: the change in it is what the peak is multiplied by.
    The rows of a measure that is `linear` are affine in the exponential of its limit, which is the peak then.
    """
    measure, joints = problem.leakage, problem.joints
    whole = whole or isinstance(problem, ProblemStack) or is_traced(problem)
    nothing = as_budgets(worst_program(problem, 0.0, whole))
    groups = joints.shape[-3]
    if isinstance(measure, AbstractPointwiseLeakage):
        each = [_at_peak(measure, joints[..., k, :, :], whole) for k in range(groups)]
        terms = [term for term in each if term is not None]
        terms = (*terms, *nothing.terms[len(terms) :])
        return dataclasses.replace(nothing, terms=terms, logarithmic=True)
    unit = worst_program(problem, 1.0, whole)
    terms = [
        dataclasses.replace(
            term,
            rate=term.offset - other.offset if term.smooth else term.rows - other.rows,
            independent=False,
        )
        for term, other in zip(nothing.terms[:groups], unit.terms, strict=False)
    ]  # its terms come first, one for every joint
    return dataclasses.replace(nothing, terms=(*terms, *nothing.terms[groups:]))


def _at_peak(measure: AbstractPointwiseLeakage, joint: Arr, whole: bool) -> Term | None:
    viewed, view = _viewed(measure, joint, 0.0, whole)
    rules = viewed.rules_at_peak(view)
    return None if rules is None else _made(rules, Role.WORST, view.mass, 0.0)


def of_distance(
    least: Program, worst: Program, low: ScalarLike, high: ScalarLike, k: Arr, eta: Arr, price: Arr
) -> tuple[Arr, Arr, Arr]:
    """The duals of a minimax program as those of `worst`, the distance to its budgets at the limit `low`: prices of
    these that sum to one. They are as good up to the limit `high`.
    """
    total = price[: len(least.budgets)].sum()
    total = xp.where(total > 0, total, 1.0)
    k = _rules_at_limit(least, worst, low, high, k) if least.logarithmic else k
    return k / total, eta / total, price / total


def _rules_at_limit(least: Program, worst: Program, low: ScalarLike, high: ScalarLike, k: Arr) -> Arr:
    """Rules on the rows of log-ratios at a limit, of which those of a minimax program are multiples.

    Where they are normalised, `reference . k = 0` at `high`: a certificate at a lower limit takes from the lower rows
    what is too much, and leaves the others.
    """
    parts, start, peak = [], 0, xp.exp(high)
    for term, at in zip(least.terms, worst.terms, strict=True):
        rules = k[:, start : start + len(term.rows)]
        start += len(term.rows)
        if term.rate is not None and term.normalised:
            upper, lower = (rules * term.rate).sum(axis=1), -(rules * term.reference).sum(axis=1)
            factor = xp.where(lower > 0, peak * upper / xp.where(lower > 0, lower, 1.0), 1.0)
            rules = rules * xp.where(term.reference < 0, factor[:, None], 1.0)
        elif term.rate is not None:
            rows = term.rows - xp.exp(low) * term.rate
            size, along = (rows * rows).sum(axis=1), (rows * at.rows).sum(axis=1)
            rules = rules * xp.where(along > 0, size / xp.where(along > 0, along, 1.0), 1.0)
        parts.append(rules)
    return xp.concatenate(parts, axis=1)


def measured_program(problem: DistortionProblem | ProblemStack, limits: Limits, whole: bool = False) -> Program:
    """The program of `problem` in its own form under `limits` (measure, value), without a feasible point.

    That of a stack is `whole`, and all its arrays have the leading axis.

    * leakage budget: minimise E d (the largest over the joints) under the limits;
    * budget, average measure: minimise the sum of its columns (the largest over the joints);
    * multiplier, average measure: that plus the priced distortions.
    """
    whole = whole or isinstance(problem, ProblemStack) or problem.of_information or is_traced(problem)
    joints, (tables, support) = problem.joints, problem.costs()
    masses = joints.sum(axis=-2)
    weighted = masses[..., :, None, :, None] * tables[..., None, :, :, :]  # (K, M, X, Y)
    shape, lead = support.shape, joints.shape[:-3]
    terms = limit_terms(joints, limits, whole)
    cost, constraints = np.zeros((*lead, *shape)), np.zeros((*lead, 0, *shape))
    budgets, marks = np.zeros((*lead, 0)), np.zeros((*lead, 0))
    groups = joints.shape[-3]
    several = groups > 1
    if problem.form.limits_leakage:
        if several:
            constraints = weighted[..., 0, :, :]
            budgets, marks = np.zeros((*lead, groups)), np.ones((*lead, groups))
        else:
            cost = weighted[..., 0, 0, :, :]
    else:
        role = Role.PEAK if several else Role.OBJECTIVE
        each = [joints[..., k, :, :] for k in range(groups)]
        objective = [term for joint in each for term in terms_of(problem.leakage, joint, role, whole=whole)]
        terms = objective + terms
        if problem.form.prices_distortion:
            unit = problem.leakage.scale_for(joints.shape[-2]).inner(1.0)
            cost = unit * (problem.form.target[..., None, None] * weighted[..., 0, :, :, :]).sum(axis=-3)
        else:
            constraints = weighted.reshape(*lead, -1, *shape)
            budgets = _for_each(problem.form.target, groups)
            marks = np.zeros(budgets.shape)
    return _program(problem, terms, masses, cost, constraints, budgets, marks, support)


def proving_program(problem: DistortionProblem, e: ScalarLike, whole: bool = False) -> Program:
    """The program on whose rows the rules of solutions are; of the least limit that of the distance at the limit e."""
    if problem.form.minimax:
        return worst_program(problem, e, whole)
    return measured_program(problem, limits_of(problem), whole)


def proved_program(problem: DistortionProblem, scores: Arr, e: ScalarLike) -> tuple[Program, bool]:
    """The `proving_program` whose rules the `scores` of a solution are, and whether it is the whole one: that of a
    solution from a compiled function, which left out and merged nothing.
    """
    reduced = proving_program(problem, e)
    rows = np.shape(scores)[-1]
    if rows == sum(len(term.rows) for term in reduced.terms):
        return reduced, False
    every = proving_program(problem, e, True)
    return (every, True) if rows == sum(len(term.rows) for term in every.terms) else (reduced, False)


def distance_program(problem: DistortionProblem | ProblemStack, limits: Limits, whole: bool = False) -> Program:
    """How far from its budgets a problem under `limits` must stay: minimise max_r (E d_r - D_r) / scale_r."""
    whole = (
        whole
        or isinstance(problem, ProblemStack)
        or is_traced(problem)
        or any(isinstance(value, Tracer) for _, value in limits)
    )
    joints, (tables, support) = problem.joints, problem.costs()
    lead, shape = joints.shape[:-3], problem.shape
    masses = joints.sum(axis=-2)
    constraints = (masses[..., :, None, :, None] * tables[..., None, :, :, :]).reshape(*lead, -1, *shape)
    budgets = _for_each(problem.form.target, joints.shape[-3])
    scale = distance_scale(constraints)
    terms = limit_terms(joints, limits, whole)
    constraints, budgets = constraints / scale[..., None, None], budgets / scale
    cost, marks = np.zeros((*lead, *shape)), np.ones(budgets.shape)
    return _program(problem, terms, masses, cost, constraints, budgets, marks, support)


def _for_each(budget: Arr, joints: int) -> Arr:
    """The budgets (..., M), once for every joint."""
    return (jnp if isinstance(budget, Tracer) else np).tile(budget, joints)


def distance_scale(constraints: Arr) -> Arr:
    """The range of every budget: what distances to it are relative to."""
    scale = constraints.sum(axis=-2).max(axis=-1) - constraints.min(axis=-1).sum(axis=-1)
    return xp.where(scale > 0, scale, 1.0)


def as_budgets(program: Program) -> Program:
    """The budgets of a `distance_program` as they are meant, not as distances."""
    return dataclasses.replace(program, marks=np.zeros_like(program.marks), shares=False)


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


def terms_of_limit(joints: Arr, measure: AbstractLeakage, value: ScalarLike, whole: bool = False) -> list[Term]:
    """The terms of one finite limit, under every joint: none where it limits nothing (no neighbours)."""
    role = Role.WORST if measure.worst_outcome else Role.AVERAGE
    each = [joints[..., k, :, :] for k in range(joints.shape[-3])]
    return [term for joint in each for term in terms_of(measure, joint, role, value, whole)]


def limit_terms(joints: Arr, limits: Limits, whole: bool = False) -> list[Term]:
    """The terms of finite limits, under every joint."""
    return [term for limit in finite_limits(limits) for term in terms_of_limit(joints, *limit, whole)]


def _program(
    problem: DistortionProblem | ProblemStack,
    terms: list[Term],
    masses: Arr,
    cost: Arr,
    constraints: Arr,
    budgets: Arr,
    marks: np.ndarray,
    support: Arr,
) -> Program:
    mass, forbids = masses.mean(axis=-2), not np.all(support)
    if forbids and isinstance(problem, DistortionProblem) and not is_traced(problem):
        asked = () if problem.form.limits_leakage else ((problem.leakage, 0.0),)
        measures = [measure for measure, _ in (*asked, *finite_limits((*own_limit(problem), *problem.limits)))]
        support = pairs_of_finite_leakage(problem.joints, measures, np.asarray(support))
    if any(measure.traits.of_inputs for measure, _ in problem.limits):  # symbols without mass are not left out
        mass = xp.where(mass > 0, mass, 1.0 / mass.shape[-1])
    return Program(
        terms=tuple(terms),
        mass=mass,
        cost=cost,
        constraints=constraints,
        budgets=budgets if isinstance(budgets, Tracer) else np.asarray(budgets, dtype=np.float64),
        marks=marks,
        support=np.ones(cost.shape, dtype=bool) & support,
        feasible_point=np.zeros(cost.shape),
        shares=bool(marks.any()),
        forbids=forbids,
    )
