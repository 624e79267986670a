"""Slopes of the optimal value with any measures, from a mechanism and the rules and prices that prove its bound.

The envelope theorem: where primal and dual optima are unique, the derivative of the optimal value is that of the
Lagrangian at the fixed optimum. In units of the program's total (`statement.reading`), with w = J W:

    Lambda = objective + sum_i price_i ( total_i(J, W) - inner(b_i) ) + sum_y,i eta_yi ( phi_i(w_y) - e_i |w_y| )
             + sum_y,j <k_j(y), rows_j(w_y, e_j)> + sum_r price_r ( E d_r - D_r ).

A smooth measure is differentiated itself: where it has one gradient, that is the one of its rule. A piecewise linear
one has several where outputs tie, as at the optimum they do; there the rule of the dual decides, rows and weights
fixed (Danskin's theorem for the saddle point). With V = outer(total) the slopes are those of Lambda times outer'.

The least worst-outcome leakage is the root e of `distance(data, e) = 0`, so its slopes are those of the distance's
Lagrangian over minus the one in e (implicit function theorem).
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv import leakage as measures
from jaxpriv.errors import InputError
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.linear_rows import average_rows, without_output, worst_rows
from jaxpriv.problems.loss import Loss
from jaxpriv.problems.measured import MeasuredProgram, Role, Term
from jaxpriv.problems.statement import distance_scale, limits_of, measured_program, reading, worst_program
from jaxpriv.problems.terms import (
    different_rows,
    is_worst,
    largest_limit,
    linear,
    merged_index,
    on_support,
    scale_of,
    terms_of,
)


@dataclass(frozen=True, eq=False)
class Slopes:
    """Derivatives of the optimal value: in the joints (not centred), tables, budgets, multipliers and limits."""

    joint: np.ndarray  # (K, S, X)
    distortion: np.ndarray  # (M, X, Y)
    budget: np.ndarray  # (M,): of the budget form
    multiplier: np.ndarray  # (M,): of the multiplier form
    limits: np.ndarray  # of `limits_of`: the leakage budget first


@dataclass(frozen=True)
class _Part:
    """One term of the program, and whose it is."""

    term: Term
    measure: Any
    group: int  # which joint
    limit: int | None  # which limit, None: the objective
    rules: Any  # (Y, T)
    price: float
    eta: Any  # (Y,)


def slopes(problem: DistortionProblem, solution: Any) -> Slopes:
    """The slopes of a solution of a problem with any measures; raises InputError where it holds no prices."""
    search = problem.budget is not None and is_worst(problem.leakage)
    joints, tables = problem.joints, problem.tables()
    mechanism = np.asarray(solution.mechanism, dtype=np.float64)
    value = float(solution.value)
    asked = limits_of(problem)
    if search:
        asked = ((problem.leakage, value), *asked)
        program = worst_program(problem, value)
    else:
        program = measured_program(problem, asked)
    prices = np.maximum(np.asarray(solution.multipliers, dtype=np.float64), 0.0)
    parts = _parts(problem, asked, program, solution, prices)
    by_joint, by_limit = np.zeros(joints.shape), np.zeros(len(asked))
    for part in parts:
        gradient, slope = _of_part(part, joints[part.group], mechanism, asked)
        by_joint[part.group] += gradient
        if part.limit is not None:
            by_limit[part.limit] += slope
    rates = _rates(problem, prices, search)  # (K, M): of E d_m under joint k, in units of the total
    by_joint += np.einsum("km,mx->kx", rates, (tables * mechanism).sum(axis=2))[:, None, :]
    by_table = np.einsum("km,kx,xy->mxy", rates, joints.sum(axis=1), mechanism)
    used = np.einsum("x,mxy,xy->m", joints[0].sum(axis=0), tables, mechanism)
    if search:
        factor = 0.0 if value == 0 else _inverse(-by_limit[0])
        by_limit = by_limit[1:]
    else:
        scale, _ = reading(problem)
        factor = 1.0 / scale.slope(value)
    return Slopes(factor * by_joint, factor * by_table, -factor * rates.sum(axis=0), used, factor * by_limit)


def _inverse(rate: float) -> float:
    if not rate > 0:
        raise InputError(
            "solution: its rules prove no lower bound above 0, so they hold no slopes; solve to a certified gap"
        )
    return 1.0 / rate


def _rates(problem: DistortionProblem, prices: np.ndarray, search: bool) -> np.ndarray:
    groups, count = len(problem.joints), len(problem.distortions)
    if problem.budget is not None:
        rates = prices[: groups * count]
        if search:
            masses = problem.joints.sum(axis=1)
            weighted = (masses[:, None, :, None] * problem.tables()[None]).reshape(-1, *problem.shape)
            rates = rates / distance_scale(weighted)
        return rates.reshape(groups, count)
    if problem.multiplier is not None:
        return scale_of(problem.leakage, problem.sizes[1]).inner(1.0) * np.asarray(problem.multiplier)[None]
    if groups == 1:
        return np.ones((1, 1))
    return (prices[:groups] / prices[:groups].sum()).reshape(groups, 1)


def _parts(
    problem: DistortionProblem, asked: Any, program: MeasuredProgram, solution: Any, prices: np.ndarray
) -> list[_Part]:
    """The terms of the program in its order, each with its rules and prices."""
    k, eta = np.asarray(solution.scores)[0], np.asarray(solution.weights)
    owners: list[tuple[Any, int, int | None]] = []
    groups = range(len(problem.joints))
    if any(term.role in (Role.OBJECTIVE, Role.PEAK) for term in program.terms):
        owners = [(problem.leakage, group, None) for group in groups]
    for i, (measure, limit) in enumerate(asked):
        role = Role.WORST if is_worst(measure) else Role.AVERAGE
        if not np.isinf(limit):
            owners += [
                (measure, group, i) for group in groups for _ in terms_of(measure, problem.joints[group], role, limit)
            ]
    parts, start, worst, price = [], 0, 0, len(program.budgets)
    peaks = [
        len(program.budgets) + i for i, t in enumerate(t for t in program.terms if t.priced) if t.role is Role.PEAK
    ]
    for term, (measure, group, limit) in zip(program.terms, owners, strict=True):
        rules = np.maximum(k[:, start : start + len(term.rows)], 0.0)
        start += len(term.rows)
        own, column = 1.0, np.zeros(len(k))
        if term.priced:
            own = prices[price] / (prices[peaks].sum() if term.role is Role.PEAK else 1.0)
            price += 1
        elif term.smooth and term.role is Role.WORST:
            column = np.maximum(eta[:, worst], 0.0)
            worst += 1
        parts.append(_Part(term, measure, group, limit, rules, float(own), column))
    return parts


def _of_part(part: _Part, joint: np.ndarray, mechanism: np.ndarray, asked: Any) -> tuple[np.ndarray, float]:
    """(d/d joint, d/d limit) of what a term adds to the Lagrangian."""
    limit = 0.0 if part.limit is None else largest_limit(part.measure, float(asked[part.limit][1]))
    worst = part.term.role is Role.WORST
    if worst:
        function = _linear_worst if linear(part.measure) else _smooth_worst
    else:
        function = _linear_average if linear(part.measure) else _smooth_average
    seen = joint.sum(axis=1) > 0
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        added = function(part, joint, mechanism)
        by_seen, slope = jax.grad(added, argnums=(0, 1))(jnp.asarray(joint[seen]), jnp.asarray(limit))
    gradient = np.zeros(joint.shape)
    gradient[seen] = np.asarray(by_seen)
    if not worst and part.limit is not None:
        slope = -part.price * scale_of(part.measure, len(joint)).slope(limit)
    return gradient, float(slope)


def _smooth_average(part: _Part, joint: np.ndarray, mechanism: np.ndarray) -> Any:
    measure = _parameters_on_support(part.measure, joint)
    level = float(measure(jnp.asarray(joint[joint.sum(axis=1) > 0]), jnp.asarray(mechanism)))
    rate = part.price * scale_of(part.measure, len(joint)).slope(level)
    return lambda j, _: rate * measure(j, jnp.asarray(mechanism))


def _smooth_worst(part: _Part, joint: np.ndarray, mechanism: np.ndarray) -> Any:
    measure = _parameters_on_support(part.measure, joint)
    reduced, _ = on_support(part.measure, joint)
    size = reduced.cost.scale if isinstance(getattr(reduced, "cost", None), Loss) else 1.0

    def added(j: Any, limit: Any) -> Any:
        w = j @ mechanism
        columns = jax.vmap(measure.column, in_axes=(1, None))(w, j.sum(axis=1))
        return (part.eta * (columns - limit * w.sum(axis=0))).sum() / size

    return added


def _linear_average(part: _Part, joint: np.ndarray, mechanism: np.ndarray) -> Any:
    measure, reduced = on_support(part.measure, joint)
    first = merged_index(measure, reduced)
    _, reference, cap = average_rows(np, measure, reduced, reduced.sum(axis=1), reduced.sum(axis=0))
    weights = np.minimum(part.rules, part.price) if cap is not None else part.rules * reference[first]
    if cap is None:
        total = weights.sum(axis=1, keepdims=True)
        weights = part.price * np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1.0 / len(first))

    def added(j: Any, _: Any) -> Any:
        w, prior = j @ mechanism, j.sum(axis=1)
        rows, ratio, _ = average_rows(jnp, measure, w, prior, w.sum(axis=0))
        shown = rows if cap is not None else (rows / jnp.asarray(ratio)[:, None])[first]
        return (weights.T * shown).sum() + part.price * without_output(measure, prior)

    return added


def _linear_worst(part: _Part, joint: np.ndarray, mechanism: np.ndarray) -> Any:
    measure, reduced = on_support(part.measure, joint)
    kept = different_rows(measure, reduced)

    def added(j: Any, limit: Any) -> Any:
        w = j @ mechanism
        rows, reference = worst_rows(jnp, measure, w, j.sum(axis=1), w.sum(axis=0), limit, kept)
        reference = jnp.asarray(reference)
        # rows <= t reference with the t of the mechanism: rules have reference . k = 0, so any t serves.
        up = reference > 0
        ratio = jnp.where(up[:, None], rows / jnp.where(up, reference, 1.0)[:, None], -jnp.inf)
        t = jax.lax.stop_gradient(jnp.where(up.any(), ratio.max(axis=0), 0.0))
        return (part.rules.T * (rows - reference[:, None] * t)).sum()

    return added


def _parameters_on_support(measure: Any, joint: np.ndarray) -> Any:
    """The measure itself for the symbols with mass: a user's loss stays the user's."""
    if isinstance(getattr(measure, "cost", None), measures.CustomLoss):
        return measure
    return on_support(measure, joint)[0]
