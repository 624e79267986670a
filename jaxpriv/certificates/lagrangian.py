"""The Lagrangian of a program with any measures, as a function of everything that the program is made of.

At a mechanism W, with rules k_j(y), prices of the limits and prices eta of worst outcomes,

    Lambda = <cost, W> + sum_j price_j ( sum_y phi_j(A_j W_y) - bound_j )
             + sum_y,j eta_yj ( phi_j(A_j W_y) + offset_j . W_y ) + sum_r price_r ( <constraints_r, W> - budgets_r ),

price_j = 1 in role OBJECTIVE. By the envelope theorem (Danskin 1967; Milgrom and Segal 2002, Theorem 5) the derivative
of the least value is that of Lambda at the fixed optimum, where primal and dual optima are unique. A smooth phi is
differentiated itself: where it has one gradient, that is the one of its rule. A piecewise linear one has several where
outputs tie, as at the optimum they do; there the rule of the dual decides, rows and weights fixed.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from jaxpriv._types import Arr, ScalarLike
from jaxpriv.certificates._base import nonnegative
from jaxpriv.certificates.tables import column_values, shared_prices
from jaxpriv.leakage.rule_sets import Role, Term
from jaxpriv.problems.program import Program


def lagrangian(program: Program, mechanism: Arr, k: Arr, eta: Arr, price: Arr) -> Arr:
    """Lambda; differentiate it in the arrays of `program`."""
    limits = len(program.budgets)
    eta, price = nonnegative(jnp, jnp.asarray(eta)), nonnegative(jnp, jnp.asarray(price))
    if program.peaked:
        price = shared_prices(jnp, program, price)
    used = (program.constraints * mechanism).sum(axis=(1, 2))
    total = (program.cost * mechanism).sum() + price[:limits] @ (used - program.budgets)
    start, worst, limit = 0, 0, limits
    for term in program.terms:
        own = k[:, start : start + len(term.rows)]
        start += len(term.rows)
        w = jnp.matmul(term.rows, mechanism, precision="highest")
        if term.role is Role.WORST:
            if term.smooth:
                total = total + (eta[:, worst] * (column_values(term, w) + term.offset @ mechanism)).sum()
                worst += 1
            else:
                total = total + _claimed_above(term, own, w)
            continue
        weight = 1.0
        if term.priced:
            weight = price[limit]
            total = total - weight * term.bound
            limit += 1
        total = total + (weight * column_values(term, w).sum() if term.smooth else _claimed(term, own, weight, w))
    return total


def _claimed(term: Term, k: Arr, price: ScalarLike, w: Arr) -> Arr:
    """What rules claim of the outputs w (T, Y) where the set of a piecewise linear average is multiplied by a price."""
    k = jnp.maximum(k, 0.0).T
    if term.cap is not None:
        return (jnp.minimum(k, term.cap[:, None] * price) * w).sum()
    reference = term.reference[:, None]
    shares = k * jax.lax.stop_gradient(reference)
    whole = shares.sum(axis=0)
    shares = jnp.where(whole > 0, shares / jnp.where(whole > 0, whole, 1.0), 1.0 / len(k))
    return price * (shares * w / reference).sum()


def _claimed_above(term: Term, k: Arr, w: Arr) -> Arr:
    """The same of a worst outcome: w <= t reference, t that of the mechanism; with k . reference = 0 any would do."""
    k = jnp.maximum(k, 0.0).T
    if not term.normalised:
        return (k * w).sum()
    reference = term.reference[:, None]
    up = reference > 0
    t = jnp.where(up, w / jnp.where(up, reference, 1.0), -jnp.inf).max(axis=0)
    return (k * (w - reference * jax.lax.stop_gradient(t))).sum()


def along(program: Program, change: Program, *at: Arr) -> Arr:
    """The derivative of the Lagrangian as the arrays of the program change, at a fixed (mechanism, k, eta, price)."""
    return jax.jvp(lambda parts: lagrangian(_with_parts(program, parts), *at), (_parts(program),), (_parts(change),))[1]


def _parts(program: Program) -> PyTree:
    """The arrays that the Lagrangian depends on."""
    terms = [(term.rows, term.reference, term.cap, term.offset, term.bound) for term in program.terms]
    return terms, program.cost, program.constraints, program.budgets


def _with_parts(program: Program, parts: PyTree) -> Program:
    terms, cost, constraints, budgets = parts
    names = ("rows", "reference", "cap", "offset", "bound")
    changed = [
        dataclasses.replace(term, **dict(zip(names, own, strict=True)))
        for term, own in zip(program.terms, terms, strict=True)
    ]
    return dataclasses.replace(program, terms=tuple(changed), cost=cost, constraints=constraints, budgets=budgets)
