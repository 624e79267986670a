"""Runs a cell as a user would, and judges what came out from the data alone."""

import dataclasses
import functools
import math
import re
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxpriv as jp

from . import optimum
from .cells import (
    FIRST_ORDER,
    STREAMING,
    Cell,
    Data,
    budgeted,
    data_of,
    least_costs,
    least_support,
    problem_of,
    refusal,
    unreached,
    without_slack,
)
from .measures import MARGINALS, MEASURES, Reference, Rows

# What an InputError says beside the reason: what to do, what is taken, where it works.
ALTERNATIVE = re.compile(r"\b(use|pass|give|instead|outside of|inside|one of|known|call|set|needs?|takes?|only)\b")

# How far below a bound of linear programs a value may lie, and a bound above their optimum: their tolerances.
_SLACK = 2e-7


# Of central differences: their errors are f3 h^2/6 of a third derivative, J h/4 where the second one jumps by J within
# it (an active set changes), and e/h, e = 1e-10 of the cutting planes. J is 130 of a leakage budget of two joints
# (1.8e-5 from its point): 3e-3 at h = 1e-4, more than slopes are compared to, 3e-4 at 1e-5, where e/h is 1e-5.
_STEP = 1e-5


class Found(NamedTuple):
    """A solution in NumPy float64."""

    status: str
    value: float
    bound: float
    mechanism: np.ndarray | None  # None of a derivative
    tol: float
    rounding: float  # of the arithmetic that the certificate was computed in
    slope: float = 0.0  # of a derivative


# -- running ---------------------------------------------------------------------------------------


def tolerance(cell: Cell) -> float:
    """What a user asks of a solver: first-order methods are for small accuracies."""
    return 1e-3 if cell.solver in (*FIRST_ORDER, *STREAMING) else 1e-6


def run(cell: Cell) -> list[tuple[Data, Found]]:
    """The solutions of the cell (a sweep and a batch have several), each with its own data."""
    data = data_of(cell.form, cell.also, cell.measure, cell.structure, cell.level)
    return _RUNS[cell.transform](cell, data)


def _asked(cell: Cell) -> dict[str, Any]:
    return {"solver": cell.solver, "tol": tolerance(cell)}


def _found(solution: Any, tol: float, rounding: float = 1e-9) -> Found:
    mechanism = solution.mechanism
    if not isinstance(mechanism, (np.ndarray, jax.Array)):
        mechanism = mechanism.matrix()
    numbers = (float(solution.value), float(solution.lower_bound))
    return Found(str(solution.status), *numbers, np.asarray(mechanism, dtype=np.float64), tol, rounding)


def _solved(cell: Cell, data: Data, problem: Any) -> list[tuple[Data, Found]]:
    try:
        return [(data, _found(jp.solve(problem, **_asked(cell)), tolerance(cell)))]
    except jp.NotCertifiedError:
        if not unreached(cell):
            raise
        return []
    except jp.InfeasibleError:
        return [(data, Found("infeasible", math.inf, math.inf, None, tolerance(cell), 0.0))]


def _host(cell: Cell, data: Data) -> list[tuple[Data, Found]]:
    return _solved(cell, data, problem_of(cell, data))


def _float32(cell: Cell, _: Data) -> list[tuple[Data, Found]]:
    data = data_of(*cell[1:6], rounded=True)
    return _solved(cell, data, problem_of(cell, data, joint=data.given.astype(np.float32)))


def _traced_parts(cell: Cell, data: Data) -> tuple[Any, ...]:
    """(joint, target): what is traced. The pairs of a private input are found on the host."""
    return (None if cell.also == "private-input" else data.given), data.target


def _jit(cell: Cell, data: Data, single: bool = False) -> list[tuple[Data, Found]]:
    """In single precision at its default tolerance."""
    asked = {"solver": cell.solver} if single else _asked(cell)
    tol, rounding = (1e-3, 1e-5) if single else (tolerance(cell), 1e-9)
    solved = jax.jit(lambda joint, target: jp.solve(problem_of(cell, data, joint=joint, target=target), **asked))
    with jax.enable_x64(not single):
        parts = [None if part is None else jnp.asarray(part, float) for part in _traced_parts(cell, data)]
        return [(data, _found(solved(*parts), tol, rounding))]


def _two(data: Data) -> list[Data]:
    """The problem with two targets."""
    target = np.asarray(data.target)
    return [dataclasses.replace(data, target=one) for one in (target, target * 1.1 + 0.01)]


def _all_found(cell: Cell, given: list[Data], solutions: Any) -> list[tuple[Data, Found]]:
    return [(one, _found(solutions[i], tolerance(cell))) for i, one in enumerate(given)]


def _vmap(cell: Cell, data: Data) -> list[tuple[Data, Found]]:
    given = _two(data)
    solved = jax.vmap(lambda target: jp.solve(problem_of(cell, data, target=target), **_asked(cell)))
    return _all_found(cell, given, solved(jnp.stack([one.target for one in given])))


def _frontier(cell: Cell, data: Data) -> list[tuple[Data, Found]]:
    given = _two(data)
    targets = [getattr(problem_of(cell, one), data.name) for one in given]  # budgets of a marginal's outputs too
    sweep = {f"{data.name}s": np.stack(targets)}
    return _all_found(cell, given, jp.frontier(problem_of(cell, data), **sweep, **_asked(cell)).solutions)


def _grad(cell: Cell, data: Data) -> list[tuple[Data, Found]]:
    """The value through `optimal_value`, and its slope in one direction of everything that is traced."""
    tol = 1e-9 if tolerance(cell) <= 1e-6 else tolerance(cell)
    joint, target = _traced_parts(cell, data)
    paired = cell.also == "private-input"
    moves = _direction(data, paired)

    def value(step: Any) -> Any:
        at = _moved(data, moves, step, jnp)
        tables = None if cell.also == "private-input" else at.given_tables
        joints = None if joint is None else at.given
        problem = problem_of(cell, data, joint=joints, tables=tables, target=target + step * moves[2])
        return jp.optimal_value(problem, solver=cell.solver, tol=tol)

    try:
        found, slope = jax.value_and_grad(value)(jnp.zeros(()))
    except jp.InputError as error:  # outside of jit, where the derivative is NaN inside
        if "has no derivative here" not in str(error):
            raise
        found = slope = jnp.nan
    return [(data, Found("optimal", float(found), float(found) - tol, None, tol, 1e-9, float(slope)))]


def _direction(data: Data, paired: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How joint (in proportion, total kept), tables and target move; of a private input the target alone."""
    rng = np.random.default_rng(8)
    joint = data.given * rng.normal(size=data.given.shape)
    joint -= data.given * joint.sum(axis=(1, 2), keepdims=True)
    tables = data.given_tables * rng.normal(size=data.given_tables.shape)
    return (0.0 if paired else 1.0) * joint, (0.0 if paired else 1.0) * tables, np.ones(np.shape(data.target))


def _moved(data: Data, moves: tuple[np.ndarray, np.ndarray, np.ndarray], step: Any, xp: Any = np) -> Data:
    joint, tables = data.given + step * moves[0], data.given_tables + step * moves[1]
    target = data.target + step * moves[2]
    paired = data.joints.shape != data.given.shape or data.tables.shape != data.given_tables.shape
    if paired and xp is np:  # of pairs: they stay
        return dataclasses.replace(data, target=target)
    return dataclasses.replace(data, joints=joint, given=joint, tables=tables, given_tables=tables, target=target)


_RUNS = {
    "host": _host,
    "float32": _float32,
    "jit": _jit,
    "jit-float32": functools.partial(_jit, single=True),
    "vmap": _vmap,
    "grad": _grad,
    "frontier": _frontier,
}


# -- judging ---------------------------------------------------------------------------------------


def judge(cell: Cell, data: Data, found: Found) -> list[str]:
    """What is wrong with a solution; an empty list if nothing is."""
    reference = MEASURES[cell.measure]
    wrong: list[str] = []
    w, rounding = found.mechanism, found.rounding
    if found.status == "infeasible":
        proved = found.value == found.bound == math.inf and _always_infinite(cell, data)
        return [] if proved else ["infeasible, but a mechanism of finite leakage meets every limit"]
    if w is None:
        return _derivative(cell, data, found)
    if data.marginal is not None:  # outputs have parts, and inputs are followed by those that release a y
        inputs, outputs = data.tables.shape[1:]
        w = w[:inputs].reshape(inputs, -1, outputs).sum(axis=1)
    if w.shape != data.tables.shape[1:] or not np.isfinite(w).all():
        return [f"the mechanism is not a finite table of shape {data.tables.shape[1:]}"]
    if not (w.min() >= -rounding and abs(w.sum(axis=1) - 1.0).max() <= rounding):
        wrong.append(f"rows sum to 1 up to {abs(w.sum(axis=1) - 1.0).max():.1e}, least entry {w.min():.1e}")
    joints = [joint[joint.sum(axis=1) > 0] for joint in data.joints]
    leak = max(reference.of(joint, w) for joint in joints)
    spent = (data.costs * w).sum(axis=(2, 3)).max(axis=0)  # (M,)
    limits = [(MEASURES["max-lift"], bound) for _, _, bound in data.limits]
    value = leak
    if budgeted(cell.form):
        if (spent > data.target + rounding * (1.0 + abs(data.target))).any():
            wrong.append(f"the budget is exceeded by {(spent - data.target).max():.1e}")
        if not (beyond := _nearness(cell, data, w)[0]) <= rounding * (1.0 + data.within):
            wrong.append(f"the marginal is too far from its own by {beyond:.1e}")
    elif cell.form == "multiplier":
        value = leak + float(data.target @ spent)
    else:
        value = float(spent[0])
        limits.append((reference, float(data.target)))
    for measure, bound in limits:
        reached = max(measure.of(joint, w) for joint in joints)
        if not reached <= bound + (2e-10 + rounding) * (1.0 + abs(bound)):
            wrong.append(f"a limit is exceeded by {reached - bound:.1e}")
    allowed = rounding * (1.0 + abs(value) if math.isfinite(value) else 1.0)
    if found.status not in ("optimal", "not_certified"):
        wrong.append(f"status {found.status}")
    if not value <= found.value + allowed:
        wrong.append(f"the value {found.value!r} is below {value!r}, what the mechanism has")
    if found.status == "optimal" and not found.value <= value + found.tol + allowed:
        wrong.append(f"the value {found.value!r} is far above {value!r}, what the mechanism has")
    if not (found.bound <= found.value + allowed or found.bound == found.value):
        wrong.append(f"the bound {found.bound!r} is above the value {found.value!r}")
    if found.status == "optimal" and not found.value - found.bound <= found.tol * (1 + 1e-9) + allowed:
        wrong.append(f"optimal with a gap of {found.value - found.bound:.1e}")
    return wrong + _bounds(cell, data, found._replace(mechanism=w), value)


def _nearness(cell: Cell, data: Data, mechanism: np.ndarray) -> tuple[float, np.ndarray]:
    """By how much P_Y is farther than allowed under the joint where it is farthest, and the slope in the mechanism."""
    priors = data.joints.sum(axis=1)
    if data.marginal is None:
        return -math.inf, np.zeros(mechanism.shape)
    distance, slope, prior = max(
        ((*MARGINALS[cell.form](prior @ mechanism, data.marginal), prior) for prior in priors), key=lambda far: far[0]
    )
    return distance - data.within, np.outer(prior, slope)


def _always_infinite(cell: Cell, data: Data) -> bool:
    """Whether the measure is infinite under every mechanism within the budgets, which are the least distortions.

    An output is of use where its column is finite if all entries of least distortion tell it; each row needs one.
    """
    if not budgeted(cell.form) or (np.asarray(data.target) > least_costs(data.costs) * (1 + 1e-13) + 1e-15).any():
        return False
    reference, support = MEASURES[cell.measure], least_support(data.costs)
    useful = support.any(axis=0)
    for joint in data.joints:
        joint = joint[joint.sum(axis=1) > 0]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            columns = [reference.column(w, joint.sum(axis=1)) if w.any() else 0.0 for w in (joint @ support).T]
        useful &= np.isfinite(columns)
    nearness = functools.partial(_nearness, cell, data)
    return optimum.least(optimum.Question(0.0 * support, [], [], support & useful, nearness=nearness))[0] == math.inf


def _derivative(cell: Cell, data: Data, found: Found) -> list[str]:
    """An optimal value against the checker's optimum, and its slope against central differences of that."""
    if without_slack(cell) and math.isnan(found.value):
        return []
    reference = MEASURES[cell.measure]
    # A least leakage is in the measure's own units, the checker's optimum is the total behind it.
    outer = reference.outer if budgeted(cell.form) and not reference.worst else float
    least = outer(_reference_optimum(cell, data, None))
    slack = _SLACK * 5.0 * (1.0 + abs(least))
    if not least - slack <= found.value <= least + found.tol + slack:
        return [f"the optimal value {found.value!r} is not the optimum {least!r}"]
    if cell.level != "inside" or cell.structure == "equal":  # one-sided derivatives only, or several optima
        return []
    moves, step = _direction(data, cell.also == "private-input"), _STEP
    ends = [outer(_reference_optimum(cell, _moved(data, moves, side * step), None)) for side in (1.0, -1.0)]
    slope = (ends[0] - ends[1]) / (2.0 * step)
    if not abs(found.slope - slope) <= (1e-4 + 2.0 * found.tol**0.5) * (1.0 + abs(slope)):
        return [f"the slope {found.slope!r} is not that of central differences, {slope!r}"]
    return []


def _bounds(cell: Cell, data: Data, found: Found, value: float) -> list[str]:
    """The bound and the optimum against linear programs over tangents."""
    reference = MEASURES[cell.measure]
    if reference.worst and budgeted(cell.form):
        return _worst_bounds(cell, data, found)
    wrong = []
    inner = _reference_optimum(cell, data, found.mechanism)
    least = reference.outer(inner) if budgeted(cell.form) else inner
    slack = _SLACK * (1.0 + abs(least)) + 10.0 * found.rounding
    if cell.also == "limits" or cell.form != "budget":
        slack *= 5.0
    if math.isfinite(value) and not value >= least - slack:
        wrong.append(f"the checker's bound {least!r} is above the value {value!r}: one of the two is wrong")
    if not found.bound <= least + slack:
        wrong.append(f"the bound {found.bound!r} is above the optimum {least!r}")
    if found.status == "optimal" and not value - least <= found.tol + slack:
        wrong.append(f"optimal, {value - least:.1e} above the optimum {least!r}")
    return wrong


def _terms(cell: Cell, data: Data, bound: float | None) -> list[optimum.Limit]:
    """The measure under a limit, or in the objective (None), and further limits."""
    reference = MEASURES[cell.measure]
    asked = [(reference, bound)] + [(MEASURES["max-lift"], limit) for _, _, limit in data.limits]
    terms = []
    for measure, limit in asked:
        if limit == math.inf:
            continue
        for joint in data.joints:
            joint = joint[joint.sum(axis=1) > 0]
            if limit is None:
                terms.append(optimum.Limit(measure, joint, None))
                continue
            flat = measure.of(joint, np.full(data.tables.shape[1:], 1.0 / data.tables.shape[2]))
            if measure.apart is not None and limit <= flat + 1e-13:
                terms.append(optimum.Limit(zero(measure.apart), joint, 0.0))
            else:
                terms.append(optimum.Limit(measure, joint, limit if measure.worst else measure.inner(limit)))
    return terms


def zero(rows: Rows) -> Reference:
    """h.w = 0 for all rows h."""

    def cone(_: float, p: np.ndarray) -> np.ndarray:
        return np.concatenate([rows(p), -rows(p)])

    return Reference("zero", None, lambda w, p: float("nan"), cone=cone, worst=True)


def _question(cell: Cell, data: Data, bound: float | None) -> optimum.Question:
    costs = data.costs
    shape = costs.shape[2:]
    support, constraints, peaks = np.ones(shape, dtype=bool), [], ()
    cost = np.zeros(shape)
    if budgeted(cell.form):
        floor = least_costs(costs)
        if (np.asarray(data.target) <= floor * (1 + 1e-13) + 1e-15).all():
            support = least_support(costs)
        else:
            constraints = [(costs[k, m], data.target[m]) for k in range(len(costs)) for m in range(costs.shape[1])]
    elif cell.form == "multiplier":
        cost = np.tensordot(data.target, costs[0], axes=1)
    elif len(costs) > 1:
        peaks = tuple(costs[:, 0])
    else:
        cost = costs[0, 0]
    nearness = functools.partial(_nearness, cell, data)
    return optimum.Question(cost, constraints, _terms(cell, data, bound), support, peaks, nearness)


_KNOWN: dict[Any, float] = {}


def _reference_optimum(cell: Cell, data: Data, near: np.ndarray | None) -> float:
    """The least total (budget and multiplier form) or distortion, from below. Solvers and transforms share it."""
    target = np.asarray(data.target, dtype=np.float64)
    key = (*cell[1:6], target.tobytes(), data.joints.tobytes(), data.tables.tobytes())
    if key not in _KNOWN:
        bound = float(target) if cell.form == "leakage-budget" else None
        _KNOWN[key] = optimum.least(_question(cell, data, bound), near)[0]
    return _KNOWN[key]


def _worst_bounds(cell: Cell, data: Data, found: Found) -> list[str]:
    """No mechanism within the budgets keeps the measure to a limit just below the bound."""
    reference = MEASURES[cell.measure]
    joints = [joint[joint.sum(axis=1) > 0] for joint in data.joints]
    flat = max(reference.of(joint, np.full(found.mechanism.shape, 1.0 / found.mechanism.shape[1])) for joint in joints)
    below = found.bound - _SLACK * 10 * (1.0 + abs(found.bound)) - 10.0 * found.rounding
    if not below > flat:
        return []
    if below == math.inf:
        below = 40.0
    least, _ = optimum.least(_question(cell, data, below), found.mechanism)
    return [] if least == math.inf else [f"the bound {found.bound!r} is above a limit that a mechanism meets"]


# -- one cell --------------------------------------------------------------------------------------


def outcome(cell: Cell) -> str:
    """'' if the cell passes, otherwise what is wrong."""
    refused = refusal(cell)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            solutions = run(cell)
        except jp.InputError as error:
            if refused is None:
                return f"refused: {error}"
            return "" if ALTERNATIVE.search(str(error)) else f"the refusal names no alternative: {error}"
    if refused is not None:
        return f"answered ({', '.join(one.status for _, one in solutions)}), but {refused}"
    wrong = [text for data, one in solutions for text in judge(cell, data, one)]
    statuses = [one.status for _, one in solutions]
    if "not_certified" in statuses and not without_slack(cell) and not unreached(cell):
        gap = max(one.value - one.bound for _, one in solutions)
        wrong.append(f"{', '.join(statuses)}: gap {gap:.1e}")
    return "; ".join(wrong)
