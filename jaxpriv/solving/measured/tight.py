"""Limits without room: the least value that a measure has under any release.

A strictly convex measure is at its least only where S and Y are independent, A_i W_y = a_i P(Y=y) for every row:
linear, with no interior for an interior-point method and no finite multiplier. The linear program has both; its
multipliers are read as rules near the one that has learned nothing, at the price that proves most.
"""

import dataclasses
from typing import Any

import numpy as np

from jaxpriv._numerics import unit_of
from jaxpriv.certificates import certify_measured
from jaxpriv.leakage.rule_sets import LINEAR, Role, Term
from jaxpriv.problems.measured import MeasuredProgram
from jaxpriv.solvers.conic.sets import rule_at
from jaxpriv.solvers.linear_program import Outcome, highs

# A finite price stands for the infinite one: rules lose about slope^2/price, cancellation about 1e-14 price.
_PRICES = 10.0 ** np.arange(2, 13)


def solve_tight(program: MeasuredProgram, tight: tuple[bool, ...]) -> tuple[np.ndarray, ...] | None:
    """(mechanism, k, eta, price) where the terms flagged `tight` leave no room; None if that is no linear program.

    Smooth objectives are at their least too where a smooth limit is tight: they are left out.
    """
    independent = any(flag and term.smooth for flag, term in zip(tight, program.terms, strict=True))
    parts: list[Term | None] = []
    for flag, term in zip(tight, program.terms, strict=True):
        if not term.smooth:
            parts.append(term)
        elif flag:
            parts.append(_independence(term))
        elif independent:
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
    if solved.outcome is not Outcome.OPTIMAL:
        return None
    mechanism = np.asarray(solved.offer.mechanism)
    best = None
    for price in _PRICES:
        duals = _duals(program, parts, np.asarray(solved.offer.k), np.asarray(solved.offer.price), price)
        bound = certify_measured(program, mechanism, *duals).lower_bound
        if best is None or bound > best[0]:
            best = (bound, duals)
        if not independent:
            break
    assert best is not None
    k, eta, prices = best[1]
    back = np.full(len(prices), unit)
    back[: len(shared)][shared] = 1.0
    return mechanism, k * unit, eta * unit, prices * back


def _own_rows(term: Term) -> np.ndarray:
    """The rows that speak of S: without the mass."""
    return term.rows[:-1] if term.massed else term.rows


def _independence(term: Term) -> Term:
    """P(Y=y | s) = P(Y=y) for every s, under the term's own joint: of a set each has its own law of Y."""
    rows = _own_rows(term)
    mass = rows.sum(axis=0)
    deviation = rows / rows.sum(axis=1, keepdims=True) - mass / mass.sum()
    both = np.vstack([deviation, -deviation])
    return dataclasses.replace(
        term,
        rows=both,
        reference=np.zeros(len(both)),
        cap=None,
        offset=np.zeros_like(mass),
        rule_set=LINEAR,
        role=Role.WORST,
        normalised=False,
    )


def _duals(
    program: MeasuredProgram, parts: list[Term | None], k: np.ndarray, prices: np.ndarray, high: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rules of the original terms: those of linear terms as they are, slopes near the neutral rule for smooth ones."""
    outputs = program.cost.shape[1]
    start, place = 0, len(program.budgets)
    rules: list[Any] = []
    etas: list[np.ndarray] = []
    price = list(prices[: len(program.budgets)])
    for term, part in zip(program.terms, parts, strict=True):
        size = 0 if part is None else len(part.rows)
        own = k[:, start : start + size]
        start += size
        if part is not None and not term.smooth:
            rules.append(own)
            if term.priced:
                price.append(prices[place])
                place += 1
            continue
        weight = 1.0 if term.role is Role.OBJECTIVE else 0.0 if part is None else high
        neutral = weight * np.tile(np.asarray(rule_at(term, term.rows.sum(axis=1))), (outputs, 1))
        if part is not None:
            sums = _own_rows(term).sum(axis=1)
            count = len(sums)
            slope = (own[:, :count] - own[:, count:]) / sums
            neutral[:, :count] += slope - (slope @ sums)[:, None] / sums.sum()
        rules.append(neutral)
        if term.role is Role.WORST:
            etas.append(np.full(outputs, weight))
        elif term.priced:
            price.append(weight)
    eta = np.stack(etas, axis=1) if etas else np.zeros((outputs, 0))
    return np.concatenate(rules, axis=1), eta, np.array(price)
