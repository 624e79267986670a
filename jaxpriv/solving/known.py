"""What needs no iteration: releases that leak nothing, rules that have learned nothing, and rounding."""

import itertools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxpriv._types import Arr
from jaxpriv._validation import is_traced
from jaxpriv.certificates import Certificate, certify_program, violation_of
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.problems import feasibility
from jaxpriv.problems.program import Program
from jaxpriv.solvers.conic.system import prior_rule

# Shares of an innocent release that mend what rounding broke.
ROUNDING_SHARES = (1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9)


def known_answer(program: Program, excess: Callable[[np.ndarray], float]) -> tuple[Any, ...] | None:
    """(mechanism, k, eta, price) where no iteration is needed."""
    k, eta, price = no_rules(program)
    valued = [term for term in program.terms if term.role in (Role.OBJECTIVE, Role.PEAK)]
    if valued and not program.cost.any():
        mechanism = feasibility.independent(program)
        return None if mechanism is None else (mechanism, *_proof_of_nothing(program, k, eta, price))
    # A term whose rows are 0, of a joint whose useful symbols all have one posterior, adds nothing to any value.
    if any(term.role is Role.PEAK or term.rows.any() for term in valued):
        return None
    costs = program.cost
    if program.shares:
        if len(program.budgets) > 1:
            if program.terms or not program.marks.all():
                return None
            size = abs(program.constraints).max() or 1.0
            price, mechanism = feasibility.most_room(
                np.asarray(program.constraints / size), np.asarray(program.budgets / size)
            )
            return mechanism, k, eta, price
        costs, price = program.constraints[0], price.copy()
        price[0] = 1.0
    elif len(program.budgets):
        return None
    mechanism = feasibility.cheapest(costs)
    met = not program.terms or violation_of(program, mechanism) == 0
    return (mechanism, k, eta, price) if met and excess(mechanism) == 0 else None


def _proof_of_nothing(program: Program, k: Arr, eta: Arr, price: Arr) -> tuple[Arr, Arr, Arr]:
    """The rules and prices that prove the value of a release that leaks nothing: of several joints the one whose prior
    leaks most has all the weight.
    """
    peaks, place = [], len(program.budgets)
    for term in program.terms:
        if term.role is Role.PEAK:
            prior = term.rows.sum(axis=1)
            peaks.append((float(term.rule_set.columns(term, prior[:, None])[0] - term.bound), place))
        place += term.priced
    if not peaks:
        return k, eta, price
    price = price.copy()
    price[max(peaks)[1]] = 1.0
    return np.tile(prior_rules(program, np.asarray(price)), (len(k), 1)), eta, price


def independent_release(program: Program) -> Arr:
    """The cheapest release of one and the same symbol: it leaks nothing."""
    xp = jnp if is_traced(program) else np
    if program.shares:
        over = program.constraints.sum(axis=1) - program.budgets[:, None]
        chosen = xp.where(program.marks[:, None] > 0, over, -np.inf).max(axis=0).argmin()
    else:
        chosen = program.cost.sum(axis=0).argmin()
    symbol = (np.arange(program.cost.shape[1]) == chosen).astype(program.cost.dtype)
    return xp.broadcast_to(symbol, program.cost.shape) + xp.zeros_like(program.cost)


def no_rules(program: Program) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(k, eta, price) of an adversary who has learned nothing and limits without a price."""
    worst = sum(term.smooth and term.role is Role.WORST for term in program.terms)
    price = np.zeros(len(program.budgets) + sum(term.priced for term in program.terms))
    outputs = program.cost.shape[1]
    return np.tile(prior_rules(program, price), (outputs, 1)), np.zeros((outputs, worst)), price


def prior_rules(program: Program, price: np.ndarray) -> np.ndarray:
    """The rules k (T,) about an output that tells nothing, at the prices of the limits on sums (B,)."""
    limit = len(program.budgets)
    rules = [np.zeros(0)]
    for term in program.terms:
        weight = float(term.role is Role.OBJECTIVE)
        if term.priced:
            weight, limit = price[limit], limit + 1
        rules.append(weight * np.asarray(prior_rule(term)) if weight else np.zeros(len(term.rows)))
    return np.concatenate(rules)


def entry_costs(program: Program, k: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """What every entry costs, (X, Y), beside the prices of the budgets."""
    costs = np.array(program.cost, dtype=np.float64)
    start, worst = 0, 0
    for term in program.terms:
        costs += (k[:, start : start + len(term.rows)] @ term.rows).T
        start += len(term.rows)
        if term.smooth and term.role is Role.WORST:
            costs += np.outer(term.offset, eta[:, worst])
            worst += 1
    return costs


def inside(
    program: Program, excess: Callable[[np.ndarray], float], mechanism: np.ndarray, *duals: np.ndarray
) -> tuple[np.ndarray, Certificate, float]:
    """(mechanism, certificate, excess): the mechanism, or the least of a few mixtures with releases that leak
    nothing and with the anchor that meets every limit; the device's view of a limit and the certificate's differ by
    rounding.
    """
    marginal = np.broadcast_to(program.mass @ mechanism / program.mass.sum(), mechanism.shape)
    safe = 0.5 * (marginal + program.anchor)

    def examined(share: float) -> tuple[np.ndarray, Certificate, float]:
        mixed = (1.0 - share) * mechanism + share * safe
        return mixed, certify_program(program, mixed, *duals), excess(mixed)

    unmixed = examined(0.0)
    mixtures = (examined(share) for share in ROUNDING_SHARES)
    return next((one for one in itertools.chain([unmixed], mixtures) if one[1].violation == 0 and one[2] == 0), unmixed)
