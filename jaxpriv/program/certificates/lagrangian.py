"""The Lagrangian of a program, whose slope at an optimum is that of the least value.

At a mechanism W, with rules k_j(y), prices of the limits and prices eta of worst outcomes,

    Lambda = <cost, W> + sum_j price_j ( sum_y phi_j(A_j W_y) - bound_j )
             + sum_y,j eta_yj ( phi_j(A_j W_y) + offset_j . W_y ) + sum_r price_r ( <constraints_r, W> - budgets_r ),

price_j = 1 in role OBJECTIVE. By the envelope theorem (Danskin 1967; Milgrom and Segal 2002, Theorem 5) the derivative
of the least value is that of Lambda at the fixed optimum, where primal and dual optima are unique. A smooth phi is
differentiated itself: where it has one gradient, that is the one of its rule. A piecewise linear one has several where
outputs tie, as at the optimum they do; there the rule of the dual decides, moved into its set as in the certificate.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxpriv._runtime.types import Arr
from jaxpriv._runtime.validation import is_traced
from jaxpriv.program.certify import column_values, into_set, nonnegative, shared_prices
from jaxpriv.program.convex import Program


def lagrangian(program: Program, mechanism: Arr, k: Arr, eta: Arr, price: Arr) -> Arr:
    """The Lagrangian Lambda of the program; its gradient in the arrays of `program` is the slope of the optimum."""
    xp = jnp if is_traced(program, mechanism, k, eta, price) else np
    limits = len(program.budgets)
    eta, price = nonnegative(xp, xp.asarray(eta)), nonnegative(xp, xp.asarray(price))
    if program.peaked:
        price = shared_prices(xp, program, price)
    used = (program.constraints * mechanism).sum(axis=(1, 2))
    total = (program.cost * mechanism).sum() + price[:limits] @ (used - program.budgets)
    for term, at in zip(program.terms, program.layout, strict=True):
        weight = xp.ones_like(k[:, 0])
        if term.priced:
            weight = price[at.limit] * weight
            total = total - price[at.limit] * term.bound
        elif at.worst is not None:
            weight = eta[:, at.worst]
            total = total + weight @ (term.offset @ mechanism)
        w = jnp.matmul(term.rows, mechanism, precision="highest") if xp is jnp else term.rows @ mechanism
        claimed = column_values(term, w) * weight if term.smooth else into_set(xp, term, k[:, at.rows], weight) * w.T
        total = total + claimed.sum()
    return total


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
        dataclasses.replace(term, **dict(zip(names, numbers, strict=True)))
        for term, numbers in zip(program.terms, terms, strict=True)
    ]
    return dataclasses.replace(program, terms=tuple(changed), cost=cost, constraints=constraints, budgets=budgets)
