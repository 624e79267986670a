"""Limits without slack: linear programs, whose multipliers are read as rules near the rule of the prior.

A limit without slack is the least value that a measure has under any release. A strictly convex measure is there only
where S and Y are independent, A_i W_y = a_i P(Y=y) for every row: linear, with no interior for an interior-point
method and no finite multiplier. The linear program has both; its multipliers are read as rules near the rule of
the prior, at the price that proves most.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from jaxpriv._runtime.numerics import unit_of
from jaxpriv._runtime.types import Arr
from jaxpriv.leakage import MutualInformation
from jaxpriv.leakage.rule_sets import LINEAR, Role, Term
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.certificates import certify_program, violation_of
from jaxpriv.program.convex import Program
from jaxpriv.program.lower import Limits, finite_limits, flags_of, least_value, terms_of_limit
from jaxpriv.solvers.linear_program import highs

# Limits above the least value by less than this have next to no slack.
_NEARLY_LEAST = 1e-6
# A finite price stands for the infinite one: rules lose about slope^2/price, and cancellation sets in later.
_PRICES = 10.0 ** np.arange(2, 17)
# Prices between that of these which proves most and its neighbours: what is lost may be 1.7 times the least otherwise.
_BETWEEN = 10.0 ** (np.array([-2.0, -1.0, 1.0, 2.0]) / 3.0)
# The largest price is taken of those that prove the same to this: the true one has no bound.
_AS_GOOD = 1e-11
# Directions whose correlation is so much smaller than the largest show less than the rounding of what that one shows
# (2^-53 is 1.1e-16, the square of this), and of so small a correlation they are rounding themselves.
_NEGLIGIBLE, _ROUNDING = 1e-8, 1e-15
# Sums of the rows agree with the mass up to rounding of so many symbols as a table has.
_ROUNDED = 1e-12
# Entries of a vertex above this are its variables; rows that are missed by no more than the second number are met.
_BASIC, _MET = 1e-9, 1e-15


def solve_without_slack(
    program: Program, tight: tuple[bool, ...], others: bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """(mechanism, k, eta, price) where the terms flagged `tight` have no slack; None if that is no linear program.

    Smooth objectives are at their least too where a smooth limit is tight: they are left out. Without `others` every
    smooth term that is not flagged is: the mechanism may then exceed such a limit, the bound holds.
    """
    independent = any(flag and term.smooth for flag, term in zip(tight, program.terms, strict=True))
    parts: list[Term | None] = []
    for flag, term in zip(tight, program.terms, strict=True):
        if not term.smooth:
            parts.append(term)
        elif flag:
            parts.append(_independence(term))
        elif independent or not others:
            parts.append(None)  # any other smooth measure holds where S and Y are independent
        else:
            return None
    # In units of the objective's own size: the prices below are absolute.
    free = all(term.role in (Role.AVERAGE, Role.WORST) for term in program.terms)
    shared = np.asarray(program.marks) > 0
    costs = np.concatenate([program.cost[None], program.constraints[shared]])
    unit = float(unit_of(costs - costs.min(axis=2, keepdims=True))) if free else 1.0
    units = np.where(shared, unit, 1.0)
    program = dataclasses.replace(
        program,
        cost=program.cost / unit,
        constraints=program.constraints / units[:, None, None],
        budgets=program.budgets / units,
    )
    chosen = tuple(part for part in parts if part is not None)
    solved = highs(dataclasses.replace(program, terms=chosen, diagonal=False))
    if solved is None:
        return None
    mechanism = np.asarray(solved.candidate.mechanism)
    if shared.all() and all(_vanishes(part) for part in chosen):
        # Mixing into limits without slack loses the vertex: its equations are solved for once more instead.
        mechanism = _exact(np.asarray(solved.vertex), [np.asarray(part.rows) for part in chosen])
    k, prices = np.asarray(solved.candidate.k), np.asarray(solved.candidate.price)

    def proved(price: float) -> tuple[float, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        duals = _duals(program, parts, k, prices, price)
        return float(certify_program(program, mechanism, *duals).lower_bound), duals

    high, best = _PRICES[0], proved(_PRICES[0])
    if independent:
        for price in _PRICES[1:]:
            trial = proved(price)
            if trial[0] > best[0] - _AS_GOOD * (1.0 + abs(best[0])):
                high, best = price, (max(trial[0], best[0]), trial[1])
        best = max([best, *(proved(high * factor) for factor in _BETWEEN)], key=lambda trial: trial[0])
    k, eta, prices = best[1]
    back = np.full(len(prices), unit)
    back[: len(shared)][shared] = 1.0
    return mechanism, k * unit, eta * unit, prices * back


def _vanishes(part: Term) -> bool:
    """Whether every row comes with its negative, and without a reference: A x of an output is 0."""
    rows, reference = np.asarray(part.rows), np.asarray(part.reference)
    opposite = (rows[:, None] == -rows[None]).all(axis=2).any(axis=1)
    return part.role is Role.WORST and not part.normalised and not reference.any() and bool(opposite.all())


def _exact(vertex: np.ndarray, equations: list[np.ndarray]) -> np.ndarray:
    """A mechanism on the entries that a vertex uses, on which rows (T, X) vanish at every output: the backend meets its
    equations to its tolerance only.
    """
    rows = np.concatenate(equations)
    if abs(rows @ vertex).max() <= _MET:
        return vertex
    inputs, outputs = vertex.shape
    x, y = np.nonzero(vertex > _BASIC)
    system = np.zeros((outputs * len(rows) + inputs, len(x)))
    for place, (i, j) in enumerate(zip(x, y, strict=True)):
        system[j * len(rows) : (j + 1) * len(rows), place] = rows[:, i]
        system[outputs * len(rows) + i, place] = 1.0
    sums = np.append(np.zeros(outputs * len(rows)), np.ones(inputs))
    exact = np.zeros_like(vertex)
    basic = vertex[x, y]
    exact[x, y] = np.maximum(basic + np.linalg.lstsq(system, sums - system @ basic)[0], 0.0)
    total = exact.sum(axis=1, keepdims=True)
    return np.where(total > 0, exact / np.where(total > 0, total, 1.0), vertex)


def _own_rows(term: Term) -> np.ndarray:
    """The rows that are equal in proportion at the least value: without the mass, where that is their sum."""
    rows = np.asarray(term.rows)
    return rows[:-1] if term.massed and np.allclose(rows[:-1].sum(axis=0), rows[-1], rtol=_ROUNDED, atol=0.0) else rows


def _correlations(term: Term) -> tuple[np.ndarray, np.ndarray]:
    """(rows (r, X) that vanish at an output exactly if it is independent of S, the rules (r, T) that they are).

    With rows R of sums p and P, the matrix (R - p P')/sqrt(p P') has the maximal correlations of S and X as its
    singular values. An output is independent of S exactly if sqrt(P) times its column is at right angles to the right
    singular vectors. The chi-squared information that a direction of singular value c can show is at most c^2, so
    directions below 1e-8 of the largest are left out: all of them show less than the rounding of what X shows. Columns
    of X that differ by as little are equal to the backend too, which would call the equations of both infeasible.
    """
    rows = _own_rows(term)
    private, mass = rows.sum(axis=1), rows.sum(axis=0)
    left, right = np.sqrt(private), np.sqrt(mass)
    scale = np.outer(left, right)
    matrix = (rows - np.outer(private, mass) / private.sum()) / np.where(scale > 0, scale, 1.0)
    # Sums of nearly equal numbers are what rounding left of them, and so are products of singular vectors with the
    # sums, divided by a small singular value: both are 0, so that a constant release meets every equation.
    total = private.sum()
    matrix -= np.outer(left, left @ matrix) / total
    matrix -= np.outer(matrix @ right, right) / total
    u, correlation, v = np.linalg.svd(matrix, full_matrices=False)
    shown = correlation > max(_NEGLIGIBLE * correlation[0], _ROUNDING)
    if not shown.any():  # X tells nothing of S: an equation that every output meets
        return np.zeros((1, mass.size)), np.zeros((1, private.size))
    u, v = u.T[shown], v[shown]
    equations = (v - np.outer(v @ right, right) / total) * right
    size = abs(equations).max(axis=1, keepdims=True)
    rules = (u - np.outer(u @ left, left) / total) / (correlation[shown, None] * size) / np.where(left > 0, left, 1.0)
    return equations / size, rules


def _independence(term: Term) -> Term:
    """P(Y=y | s) = P(Y=y) for every s, under the term's own joint: of a set each has its own law of Y."""
    equations, _ = _correlations(term)
    both = np.vstack([equations, -equations])
    return dataclasses.replace(
        term,
        rows=both,
        reference=np.zeros(len(both)),
        cap=None,
        offset=np.zeros(both.shape[1]),
        rule_set=LINEAR,
        role=Role.WORST,
        normalised=False,
    )


def _duals(
    program: Program, parts: list[Term | None], k: np.ndarray, prices: np.ndarray, high: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rules of the original terms: those of linear terms as they are, slopes near the neutral rule for smooth ones."""
    outputs = program.cost.shape[1]
    start, place = 0, len(program.budgets)
    rules: list[Arr] = []
    etas: list[np.ndarray] = []
    price = list(prices[: len(program.budgets)])
    for term, part in zip(program.terms, parts, strict=True):
        size = 0 if part is None else len(part.rows)
        weights = k[:, start : start + size]
        start += size
        if part is not None and not term.smooth:
            rules.append(weights)
            if term.priced:
                price.append(prices[place])
                place += 1
            continue
        weight = 1.0 if term.role is Role.OBJECTIVE else 0.0 if part is None else high
        neutral = weight * np.tile(np.asarray(term.prior_rule()), (outputs, 1))
        if part is not None:
            _, of_equations = _correlations(term)
            count = len(of_equations)
            neutral[:, : of_equations.shape[1]] += (weights[:, :count] - weights[:, count:]) @ of_equations
        rules.append(neutral)
        if term.role is Role.WORST:
            etas.append(np.full(outputs, weight))
        elif term.priced:
            price.append(weight)
    eta = np.stack(etas, axis=1) if etas else np.zeros((outputs, 0))
    return np.concatenate(rules, axis=1), eta, np.array(price)


def feasible_at_least(program: Program, problem: DistortionProblem, limits: Limits) -> Program:
    """The program; where limits have next to no slack, with the best mechanism that leaves none as its feasible point.

    Rounding alone exceeds such a limit; a mixture with the feasible point repairs that, and is as good as that point.
    """
    near = tuple(value - least_value(problem, measure) <= _NEARLY_LEAST for measure, value in finite_limits(limits))
    flags = flags_of(program, problem, limits, near)
    if not any(flags):
        return program
    mechanisms = [solved[0]] if (solved := solve_without_slack(program, flags)) is not None else []
    if problem.form.limits_leakage:
        # Of limits below the backend's tolerance: where Y is independent of S every measure is at its least.
        exact = independent_vertex(program, problem)
        mechanisms += [] if exact is None else [exact]
    mechanisms = [mechanism for mechanism in mechanisms if violation_of(program, mechanism) == 0]
    best = min(
        mechanisms, key=lambda mechanism: float((program.cost * mechanism).sum()), default=program.feasible_point
    )
    return dataclasses.replace(program, feasible_point=best)


# How a problem and limits become a program.
StatedProgram = Callable[[DistortionProblem, Limits], Program]


def at_least_value(
    program: Program, problem: DistortionProblem, limits: Limits, stated: StatedProgram
) -> tuple[list[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]] | None:
    """(mechanisms, (k, eta, price)) of the problem whose limits with next to no slack are at their least values.

    None where there are no such limits, or no linear program. The rules and prices fit `program`, whose limits allow
    a little more: they prove less by that much times the prices. `stated` made `program` of the problem and its limits.
    """
    finite = finite_limits(limits)
    least = [least_value(problem, measure) for measure, _ in finite]
    near = tuple(value - low <= _NEARLY_LEAST for (_, value), low in zip(finite, least, strict=True))
    flags = flags_of(program, problem, limits, near)
    if not any(flags):
        return None
    lowered = tuple(
        (measure, low if flag else value) for (measure, value), low, flag in zip(finite, least, near, strict=True)
    )
    there = dataclasses.replace(stated(problem, lowered), feasible_point=program.feasible_point)
    if len(there.terms) != len(program.terms) or not (solved := solve_without_slack(there, flags, others=False)):
        return None
    exact = independent_vertex(there, problem)
    return [solved[0]] if exact is None else [solved[0], exact], solved[1:]


def independent_vertex(program: Program, problem: DistortionProblem) -> np.ndarray | None:
    """The best mechanism with Y independent of S, which replaces the terms of the program; None where there is none."""
    terms = tuple(terms_of_limit(problem.joints, MutualInformation(), 0.0))
    solved = solve_without_slack(dataclasses.replace(program, terms=terms), (True,) * len(terms))
    return None if solved is None else solved[0]
