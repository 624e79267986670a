"""Programs of mutual information, and the duals of any program as textbooks have them: scores, weights, multipliers."""

from typing import Any

import numpy as np
from scipy.special import xlogy

from jaxpriv import Certificate
from jaxpriv.leakage.rule_sets import ENTROPIC, Role, Term
from jaxpriv.program import Form, Program
from jaxpriv.program.certificates import certify_program

ROLES = {Form.OBJECTIVE: Role.OBJECTIVE, Form.WORST: Role.PEAK, Form.LIMIT: Role.AVERAGE}


def information(joint: Any) -> float:
    """I(A;B) from three entropies: another formula than the library's."""

    def entropy(mass: Any) -> float:
        mass = mass[mass > 0]
        return float(-(mass * np.log(mass)).sum())

    return entropy(joint.sum(axis=0)) + entropy(joint.sum(axis=1)) - entropy(joint)


def divergence(lifts: np.ndarray, source: np.ndarray) -> np.ndarray:
    """D(q || p) in nats of every row q/p of `lifts` (n, X)."""
    return xlogy(lifts, lifts) @ source


def program_on(joints: Any, cost: Any, constraints: Any, budgets: Any, form: Form, limit: float = 0.0) -> Program:
    """The program of joints (K, S, X), cost (X, Y), constraints (R, X, Y) and budgets (R,)."""
    terms = tuple(
        Term(
            rows=joint,
            reference=joint.sum(axis=1),
            cap=None,
            offset=np.zeros(joint.shape[1]),
            bound=np.float64(limit),
            parameter=np.float64(0.0),
            rule_set=ENTROPIC,
            role=ROLES[form],
            normalised=False,
        )
        for joint in joints
    )
    return Program(
        terms=terms,
        mass=joints.sum(axis=1).mean(axis=0),
        cost=cost,
        constraints=constraints,
        budgets=budgets,
        marks=np.zeros(len(budgets)),
        support=np.ones(cost.shape, dtype=bool),
        feasible_point=np.zeros(cost.shape),
    )


def duals(program: Program, scores: Any, weights: Any, multipliers: Any) -> list[np.ndarray]:
    """[k, eta, price] of scores (K, Y, S), weights (K,) of the joints and multipliers (R,) of the budgets."""
    k, price = program.stacked(np.asarray(scores), np.asarray(weights), np.asarray(multipliers))
    return [k, np.zeros((len(k), 0)), price]


def certify(program: Program, mechanism: Any, scores: Any, weights: Any, multipliers: Any) -> Certificate:
    """The certificate of a mechanism for scores, weights and multipliers."""
    return certify_program(program, mechanism, *duals(program, scores, weights, multipliers))
