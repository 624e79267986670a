"""Distortion under a limit on leakage, for cvxpy.

Every formulation writes the limit for all outputs at once. For maximum information leakage
(sum_s w_s ln(w_s/|w|) <= (eps - H(S)) |w| for every output):

`scaled`       relative entropies of the rows P(y|s) as expressions, weighted by the prior
`rows`         the same with variables for P(y|s) and for the mass, tied by equations
`expression`   relative entropies of w = J W against the mass of each output, both as expressions
`auxiliary`    the same with variables for w and for the mass
`divergences`  cp.kl_div of w against prior x mass: small where the leakage is small

Written out as vectorised cp.ExpCone on the expressions, the problem is that of `expression`: Clarabel, ECOS and SCS
took the same numbers of iterations to the same digits, so it is not a formulation of its own.

The linear limits (max-lift, local differential privacy, maximal leakage) have the first four, on P(y|s), on w
or on variables for either; differential privacy takes a variable for the least P(y|s) of every output and maximal
leakage one for the largest, so that no limit needs more than |S| |Y| rows twice.
"""

import math
from typing import Any

import numpy as np

from benchmarks.limits import Limit, MaxInformation

LINEAR_FORMULATIONS = ("scaled", "rows", "expression", "auxiliary")
WORST_FORMULATIONS = (*LINEAR_FORMULATIONS, "divergences")
# Those written in P(y|s) instead of P(s,y).
_SCALED = ("scaled", "rows")


def formulate_limit(joint: np.ndarray, table: Any, limit: Limit, formulation: str) -> tuple[Any, Any]:
    """(cvxpy problem, its variable W of shape (X, Y))."""
    import cvxpy as cp

    mass = joint.sum(axis=0)
    w = cp.Variable(table.shape, nonneg=True)
    distortion = cp.sum(cp.multiply(mass[:, None] * table, w))
    write = _max_information if isinstance(limit, MaxInformation) else _linear
    limits = [cp.sum(w, axis=1) == 1, *write(cp, limit, mass, w, formulation)]
    return cp.Problem(cp.Minimize(distortion), limits), w


def _columns(cp: Any, limit: Limit, mass: np.ndarray, w: Any, formulation: str) -> tuple[Any, Any, list[Any]]:
    """(rows of what is limited, masses of the outputs, equations that tie them to W)."""
    rows = limit.rows if formulation in _SCALED else limit.joint[limit.seen]
    if formulation in ("scaled", "expression", "divergences"):
        return rows @ w, mass[None, :] @ w, []
    masses = cp.Variable((1, w.shape[1]))
    seen = cp.Variable((len(rows), w.shape[1]))
    weight = limit.prior[limit.seen] if formulation in _SCALED else np.ones(len(rows))
    return seen, masses, [seen == rows @ w, masses == weight[None, :] @ seen]


def _max_information(cp: Any, limit: MaxInformation, mass: np.ndarray, w: Any, formulation: str) -> list[Any]:
    prior = limit.prior[limit.seen]
    columns, masses, ties = _columns(cp, limit, mass, w, formulation)
    ones = np.ones((len(prior), 1))
    if formulation in _SCALED:
        total = prior @ cp.rel_entr(columns, ones @ masses) + (prior * np.log(prior)) @ columns
    elif formulation == "divergences":
        expected = prior[:, None] @ masses
        total = cp.sum(cp.kl_div(columns, expected), axis=0) + np.log(prior) @ (columns - expected)
        return [*ties, total <= limit.value * masses[0]]
    else:
        total = cp.sum(cp.rel_entr(columns, ones @ masses), axis=0)
    return [*ties, total <= limit.spare * masses[0]]


def _linear(cp: Any, limit: Limit, mass: np.ndarray, w: Any, formulation: str) -> list[Any]:
    columns, masses, ties = _columns(cp, limit, mass, w, formulation)
    factor = math.exp(limit.value)
    weight = np.ones((len(limit.rows), 1)) if formulation in _SCALED else limit.prior[limit.seen, None]
    if limit.name == "max-lift":
        return [*ties, columns <= factor * (weight @ masses)]
    level = cp.Variable((1, w.shape[1]))
    if limit.name == "local-dp":
        return [*ties, weight @ level <= columns, columns <= factor * (weight @ level)]
    return [*ties, columns <= weight @ level, cp.sum(level) <= factor]
