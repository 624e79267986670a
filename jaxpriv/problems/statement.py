"""From a problem with any measures to its convex program."""

import dataclasses
import math
from typing import Any

import numpy as np

from jaxpriv.leakage import AbstractLeakage, exact_values
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.measured import Kind, MeasuredProgram, Role, Term
from jaxpriv.problems.terms import PLAIN, Scale, is_worst, scale_of, shift_of, terms_of

# What a limit and the least value of its measure may differ by and still be called equal, and relative to that value.
_ROUNDING, _RELATIVE = 1e-13, 1e-12


def limits_of(problem: DistortionProblem) -> tuple[tuple[AbstractLeakage, float], ...]:
    """All limits on leakage that hold: the leakage budget, where the problem has one, then the further limits.

    A limit that lies below the least value of its measure by rounding alone is that value: no mechanism meets the
    number as it was written, and prices of 1e12 would make a false bound of the difference.
    """
    limits = problem.limits
    if problem.leakage_budget is not None:
        limits = ((problem.leakage, float(problem.leakage_budget)), *limits)
    raised = []
    for measure, value in limits:
        least = least_value(problem, measure)
        raised.append((measure, max(value, least) if equals_least(value, least) else value))
    return tuple(raised)


def least_value(problem: DistortionProblem, measure: AbstractLeakage) -> float:
    """What a release that ignores the data leaks, the largest over the joints: no release leaks less."""
    uniform = np.full(problem.shape, 1.0 / problem.shape[1])
    least = max(exact_values((measure,), joint, uniform)[0] for joint in problem.joints)
    return least if abs(least) > _ROUNDING else 0.0


def equals_least(value: float, least: float) -> bool:
    """Whether a limit is at the least value of its measure, up to rounding."""
    return abs(value - least) <= _RELATIVE * abs(least) + _ROUNDING


def reading(problem: DistortionProblem) -> tuple[Scale, float]:
    """(scale, shift): the value of the problem is scale.outer(value of `measured_program` + shift).

    With several joints the shifts are part of the program; the leakage-budget form minimises E d itself.
    """
    if problem.leakage_budget is not None:
        return PLAIN, 0.0
    shift = shift_of(problem.leakage, problem.joints[0]) if problem.sizes[0] == 1 else 0.0
    return scale_of(problem.leakage, problem.sizes[1]), shift


def worst_program(problem: DistortionProblem, e: float) -> MeasuredProgram:
    """How far from its budgets a problem must stay while its worst-outcome measure is at most e: one step of the
    search for the least e. Its shapes are the same for every e.
    """
    return distance_program(problem, ((problem.leakage, e), *limits_of(problem)))


def measured_program(problem: DistortionProblem, limits: tuple[tuple[AbstractLeakage, float], ...]) -> MeasuredProgram:
    """The program of `problem` in its own form under `limits` (measure, value), without an anchor.

    * leakage budget: minimise E d (the largest over the joints) under the limits;
    * budget, average measure: minimise the sum of its columns (the largest over the joints);
    * multiplier, average measure: that plus the priced distortions.
    """
    joints, tables = problem.joints, problem.tables()
    masses = joints.sum(axis=1)
    weighted = masses[:, None, :, None] * tables[None]  # (K, M, X, Y)
    shape = problem.shape
    terms = _limit_terms(joints, limits)
    cost, constraints = np.zeros(shape), np.zeros((0, *shape))
    budgets, marks = np.zeros(0), np.zeros(0)
    several = len(joints) > 1
    if problem.leakage_budget is not None:
        if several:
            constraints, budgets, marks = weighted[:, 0], np.zeros(len(joints)), np.ones(len(joints))
        else:
            cost = weighted[0, 0]
    else:
        role = Role.PEAK if several else Role.OBJECTIVE
        terms = [term for joint in joints for term in terms_of(problem.leakage, joint, role)] + terms
        if problem.multiplier is not None:
            unit = scale_of(problem.leakage, joints.shape[1]).inner(1.0)
            cost = unit * (problem.multiplier[:, None, None] * weighted[0]).sum(axis=0)
        else:
            constraints = weighted.reshape(-1, *shape)
            budgets = np.tile(problem.budget, len(joints))
            marks = np.zeros(len(budgets))
    return _program(terms, masses, cost, constraints, budgets, marks)


def distance_program(problem: DistortionProblem, limits: tuple[tuple[AbstractLeakage, float], ...]) -> MeasuredProgram:
    """How far from its budgets a problem under `limits` must stay: minimise max_r (E d_r - D_r) / scale_r."""
    joints, tables = problem.joints, problem.tables()
    masses = joints.sum(axis=1)
    constraints = (masses[:, None, :, None] * tables[None]).reshape(-1, *problem.shape)
    budgets = np.tile(problem.budget, len(joints))
    scale = distance_scale(constraints)
    terms = _limit_terms(joints, limits)
    constraints, budgets = constraints / scale[:, None, None], budgets / scale
    return _program(terms, masses, np.zeros(problem.shape), constraints, budgets, np.ones(len(budgets)))


def distance_scale(constraints: np.ndarray) -> np.ndarray:
    """The range of every budget: what distances to it are relative to."""
    scale = constraints.sum(axis=1).max(axis=1) - constraints.min(axis=2).sum(axis=1)
    return np.where(scale > 0, scale, 1.0)


def as_budgets(program: MeasuredProgram) -> MeasuredProgram:
    """The budgets of a `distance_program` as they are meant, not as distances."""
    return dataclasses.replace(program, marks=np.zeros_like(program.marks), shares=False)


def terms_of_limit(joints: Any, measure: AbstractLeakage, value: float) -> list[Term]:
    """The terms of one finite limit, under every joint: none where it limits nothing (no neighbours)."""
    role = Role.WORST if is_worst(measure) else Role.AVERAGE
    return [term for joint in joints for term in terms_of(measure, joint, role, value)]


def _limit_terms(joints: Any, limits: tuple[tuple[AbstractLeakage, float], ...]) -> list[Term]:
    """The terms of finite limits, under every joint."""
    finite = [(measure, value) for measure, value in limits if not math.isinf(value)]
    return [term for measure, value in finite for term in terms_of_limit(joints, measure, value)]


def _program(terms: list[Term], masses: Any, cost: Any, constraints: Any, budgets: Any, marks: Any) -> MeasuredProgram:
    return MeasuredProgram(
        terms=tuple(terms),
        mass=masses.mean(axis=0),
        cost=cost,
        constraints=constraints,
        budgets=np.asarray(budgets, dtype=np.float64),
        marks=marks,
        support=np.ones(cost.shape, dtype=bool),
        anchor=np.zeros(cost.shape),
        shares=bool(marks.any()),
        diagonal=_is_diagonal(terms, cost.shape[0]),
    )


def _is_diagonal(terms: list[Term], inputs: int) -> bool:
    if len(terms) != 1 or terms[0].rows.shape != (inputs, inputs) or terms[0].kind is Kind.LOSS:
        return False
    rows = terms[0].rows
    return bool(np.all(rows[~np.eye(inputs, dtype=bool)] == 0))
