"""Bounds of optimal values by cutting planes: a linear program over mechanisms and tangents of the measures.

Every tangent lies below its convex column function, so each linear program bounds the optimum from below; the tangents
are taken where the last program's columns lie, until the program overestimates by nothing that matters.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linprog

from .measures import Reference

# The share of the prior in the point of a tangent: a slope at a column with zeros may be infinite.
_INSIDE, _INSIDE_SINGULAR = 1e-10, 1e-2
_ROUNDS = 60
_CLOSED = 1e-10


@dataclass
class Limit:
    """A measure under one joint: `bound` of a limit, None in the objective."""

    reference: Reference
    joint: np.ndarray  # (S, X), every row with mass
    bound: float | None

    def __post_init__(self) -> None:
        self.prior = self.joint.sum(axis=1)


@dataclass
class Question:
    """min cost.W + sum of the columns of the objective's measures, W stochastic, within budgets and limits.

    Several objective terms (one for each joint): the largest of them; likewise the largest <table, W> of `peaks`.
    `support`: where W may be positive. `nearness`: a convex function of W and its slope; at most 0 is asked for.
    """

    cost: np.ndarray  # (X, Y)
    constraints: list[tuple[np.ndarray, float]]
    terms: list[Limit]
    support: np.ndarray
    peaks: tuple[np.ndarray, ...] = ()
    nearness: Callable[[np.ndarray], tuple[float, np.ndarray]] | None = None
    pools: dict[int, list[np.ndarray]] = field(default_factory=dict)


def simplex_grid(symbols: int) -> np.ndarray:
    """Distributions over `symbols` symbols with entries that are multiples of 1/6."""
    steps = 6
    return np.array([c for c in itertools.product(range(steps + 1), repeat=symbols) if sum(c) == steps]) / steps


def tangents(limit: Limit, columns: np.ndarray) -> np.ndarray:
    """Tangents at columns (N, S), moved a little to the prior."""
    reference, prior = limit.reference, limit.prior
    assert reference.tangent is not None
    found = []
    for w in columns:
        q = w / w.sum()
        share = _INSIDE_SINGULAR if reference.singular and (q < 1e-3 * prior).any() else _INSIDE
        found.append(reference.tangent((1.0 - share) * q + share * prior, prior))
    return np.array(found)


def least(question: Question, seeds: np.ndarray | None = None) -> tuple[float, np.ndarray | None]:
    """(lower bound, mechanism of the last program), inf and None where a program proves that there is none.

    `seeds`: mechanisms near whose columns the optimum is looked for; the bound holds whatever they are.
    """
    for i, term in enumerate(question.terms):
        reference = term.reference
        if reference.facets is not None:
            question.pools[i] = list(reference.facets(term.prior))
        elif reference.cone is None:
            points = [*simplex_grid(len(term.prior)), term.prior]
            points += [] if seeds is None else [w for w in (term.joint @ seeds).T if w.sum() > 1e-12]
            question.pools[i] = list(tangents(term, np.array(points)))
    bound, mechanism = -np.inf, None
    for _ in range(_ROUNDS):
        solved = _program(question)
        if solved is None:
            return np.inf, None
        bound, mechanism, sums = solved
        missed = [_refine(question, i, mechanism, sums[i]) for i in range(len(question.terms))]
        if question.nearness is not None:
            value, slope = question.nearness(mechanism)
            if value > 0:
                question.constraints.append((slope, float((slope * mechanism).sum()) - value))
            missed.append(value)
        if max(missed, default=0.0) <= _CLOSED:
            break
    return bound, mechanism


def _refine(question: Question, i: int, mechanism: np.ndarray, estimate: np.ndarray) -> float:
    """Add tangents at the columns; by how much the program underestimated the term."""
    term = question.terms[i]
    if term.reference.linear:
        return 0.0
    columns = (term.joint @ mechanism).T
    used = columns.sum(axis=1) > 1e-13
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        values = np.array([term.reference.column(w, term.prior) for w in columns[used]])
    question.pools[i] += list(tangents(term, columns[used]))
    if term.reference.worst:
        assert term.bound is not None
        return float((values - term.bound * columns[used].sum(axis=1)).max())
    return float(abs(values.sum() - estimate[used].sum()))


def _program(question: Question) -> tuple[float, np.ndarray, list[np.ndarray]] | None:
    inputs, outputs = question.cost.shape
    cells = inputs * outputs
    averages = [i for i, term in enumerate(question.terms) if not term.reference.worst]
    place = {i: cells + outputs * k for k, i in enumerate(averages)}
    peak = cells + outputs * len(averages)
    width = peak + 1
    rows: list[np.ndarray] = []
    right: list[float] = []

    def add(block: np.ndarray, bound: float) -> None:
        rows.append(block)
        right.extend([bound] * len(block))

    for table, budget in question.constraints:
        row = np.zeros((1, width))
        row[0, :cells] = table.ravel()
        add(row, budget)
    for table in question.peaks:
        row = np.zeros((1, width))
        row[0, :cells], row[0, peak] = table.ravel(), -1.0
        add(row, 0.0)
    for i, term in enumerate(question.terms):
        worst, cone = term.reference.worst, term.reference.cone
        if cone is not None:
            pool = cone(term.bound, term.prior)
        elif worst:
            pool = np.array(question.pools[i]) - term.bound
        else:
            pool = np.array(question.pools[i])
        seen = pool @ term.joint  # (N, X)
        for y in range(outputs):
            block = np.zeros((len(pool), width))
            block[:, np.arange(inputs) * outputs + y] = seen
            if not worst:
                block[:, place[i] + y] = -1.0
            add(block, 0.0)
        if not worst:
            total = np.zeros((1, width))
            total[0, place[i] : place[i] + outputs] = 1.0
            if term.bound is None:
                total[0, peak] = -1.0
            add(total, 0.0 if term.bound is None else term.bound)
    objective = np.zeros(width)
    objective[:cells] = question.cost.ravel()
    objective[peak] = float(bool(question.peaks) or any(term.bound is None for term in question.terms))
    stochastic = np.zeros((inputs, width))
    for x in range(inputs):
        stochastic[x, x * outputs : (x + 1) * outputs] = 1.0
    open_above = [(0.0, None if allowed else 0.0) for allowed in question.support.ravel()]
    free = [(None, None)] * (width - cells - 1)
    last = (None, None) if objective[peak] else (0.0, 0.0)
    solved = linprog(
        objective,
        A_ub=np.concatenate(rows) if rows else None,
        b_ub=np.array(right) if rows else None,
        A_eq=stochastic,
        b_eq=np.ones(inputs),
        bounds=[*open_above, *free, last],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solved.status == 2:
        return None
    assert solved.status == 0, solved.message
    mechanism = np.maximum(solved.x[:cells].reshape(inputs, outputs), 0.0)
    mechanism /= mechanism.sum(axis=1, keepdims=True)
    empty = np.zeros(outputs)
    sums = [solved.x[place[i] : place[i] + outputs] if i in place else empty for i in range(len(question.terms))]
    return float(solved.fun), mechanism, sums
