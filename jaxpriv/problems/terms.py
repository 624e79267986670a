"""From measures to the terms of a convex program: what a measure says of itself, in a role, with equal rows merged.

The value of an average is `outer( sum_y phi(w_y) + shift )`; a worst-outcome measure is the smallest eps with
phi(w_y) <= eps |w_y| for all y. Private symbols without mass are left out; rows that say the same are merged.

The arrays may be tracers. Shapes must not depend on their values then, so every symbol keeps its rows (`whole`): one
without mass has rows of zeros and reference 0 in a smooth set, and rows that the others imply in a linear one.
"""

import dataclasses

import numpy as np

from jaxpriv._types import Arr, ScalarLike
from jaxpriv._validation import is_traced
from jaxpriv.leakage import AbstractLeakage
from jaxpriv.leakage.rule_sets import LINEAR, Role, Rules, Term, View


def terms_of(
    measure: AbstractLeakage, joint: Arr, role: Role, value: ScalarLike = 0.0, whole: bool = False
) -> tuple[Term, ...]:
    """The terms of `measure` under one joint in a role; `value` is its limit in roles AVERAGE and WORST.

    In role AVERAGE or PEAK the shift of the measure is in `bound`; in role OBJECTIVE it is `shift_of`. `whole`: no row
    is left out or merged, as it must be where an argument is traced.
    """
    seen_part, view = _viewed(measure, joint, value, whole)
    rules = seen_part.rules(view)
    if rules is None:
        return ()
    bound = 0.0
    if role is Role.AVERAGE:
        bound = measure.scale_for(len(joint)).inner(value) - seen_part.shift(view.prior)
    elif role is Role.PEAK:
        bound = -seen_part.shift(view.prior)
    term = _term(rules, role, view, bound)
    limits = role in (Role.AVERAGE, Role.WORST) and rules.rule_set.strict
    # Strictly convex measures are 0 where S and Y are independent, and nowhere else.
    return (dataclasses.replace(term, independent=True) if limits and not is_traced(value) and value <= 0 else term,)


def shift_of(measure: AbstractLeakage, joint: Arr, whole: bool = False) -> ScalarLike:
    """What is added to the sum of the columns of an average measure."""
    seen_part, view = _viewed(measure, joint, 0.0, whole)
    return seen_part.shift(view.prior)


def _viewed(measure: AbstractLeakage, joint: Arr, value: ScalarLike, whole: bool) -> tuple[AbstractLeakage, View]:
    """The measure and the joint without private symbols of no mass; `whole`: with them."""
    prior = joint.sum(axis=1)
    seen = np.ones(len(joint), dtype=bool) if whole else np.asarray(prior > 0)
    kept = joint if whole else joint[seen]
    return measure.among(prior, seen), View(kept, kept.sum(axis=1), joint.sum(axis=0), value, whole)


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
        offset=np.zeros(len(mass)) if rules.offset is None else rules.offset,
        bound=bound if is_traced(bound) else np.float64(bound),
        parameter=np.float64(rules.parameter),
        rule_set=rules.rule_set,
        role=role,
        normalised=not rules.rule_set.smooth and _refers(rules.reference),
    )


def _refers(reference: Arr) -> bool:
    """Whether linear rows are compared with multiples of a reference: none that is 0 depends on what is traced."""
    return is_traced(reference) or bool(np.any(reference != 0))
