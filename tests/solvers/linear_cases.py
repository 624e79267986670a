"""Small linear programs of every role, built term by term."""

import jax.numpy as jnp
import numpy as np

from jaxpriv.leakage.rule_sets import LINEAR, Role, Term
from jaxpriv.program.convex import Program


def joint(seed, private, inputs):
    return np.random.default_rng(seed).dirichlet(np.ones(private * inputs)).reshape(private, inputs)


def distance(inputs, outputs):
    return abs(np.subtract.outer(np.linspace(0.0, 1.0, inputs), np.linspace(0.0, 1.0, outputs)))


def linear(rows, role, reference=None, cap=None, bound=0.0):
    """A LINEAR term: rows (T, X), normalised where it has a reference."""
    zeros = np.zeros(len(rows))
    return Term(
        rows=jnp.asarray(rows),
        reference=jnp.asarray(zeros if reference is None else reference),
        cap=None if cap is None else jnp.asarray(cap),
        offset=jnp.zeros(rows.shape[1]),
        bound=jnp.asarray(float(bound)),
        parameter=jnp.asarray(0.0),
        rule_set=LINEAR,
        role=role,
        normalised=reference is not None,
    )


def program(terms, law, cost=None, outputs=None, budgets=(), constraints=(), marks=None, feasible_point=None):
    """The feasible point is the best independent release, or the one given."""
    inputs = law.shape[1]
    outputs = outputs or inputs
    mass = law.sum(axis=0)
    cost = np.zeros((inputs, outputs)) if cost is None else mass[:, None] * cost
    if feasible_point is None:
        feasible_point = np.eye(outputs)[np.full(inputs, cost.sum(axis=0).argmin())]
    return Program(
        terms=tuple(terms),
        mass=jnp.asarray(mass),
        cost=jnp.asarray(cost),
        constraints=jnp.asarray(np.array([mass[:, None] * c for c in constraints]).reshape(-1, inputs, outputs)),
        budgets=jnp.asarray(np.asarray(budgets, float)),
        marks=jnp.asarray(np.zeros(len(budgets)) if marks is None else np.asarray(marks, float)),
        support=jnp.ones((inputs, outputs), bool),
        feasible_point=jnp.asarray(np.asarray(feasible_point, float)),
    )


def closest(d):
    """Every input to the output at the least distance: the feasible point of a program with a budget."""
    return np.eye(d.shape[1])[d.argmin(axis=1)]


def max_lift(law, eps, outputs=None):
    p = law.sum(axis=1)
    rows = law / p[:, None] - np.exp(eps) * law.sum(axis=0)
    d = distance(law.shape[1], outputs or law.shape[1])
    return program([linear(rows, Role.WORST)], law, d, outputs)


def lift(law, eps):
    p, mass = law.sum(axis=1), law.sum(axis=0)
    t = law / p[:, None]
    rows = np.concatenate([t - np.exp(eps) * mass, np.exp(-eps) * mass - t])
    return program([linear(rows, Role.WORST)], law, distance(law.shape[1], law.shape[1]))


def local_privacy(law, eps, cost=None):
    t = law / law.sum(axis=1, keepdims=True)
    ones = np.ones(len(law))
    term = linear(np.concatenate([t, -t]), Role.WORST, np.concatenate([np.exp(eps) * ones, -ones]))
    return program([term], law, distance(law.shape[1], law.shape[1]) if cost is None else cost)


def maximal_leakage(law, role, bound=0.0):
    """Rows J, reference p: phi = max_s w_s / p_s."""
    return linear(law, role, law.sum(axis=1), bound=bound)


def leakage_at_budget(law, budget):
    d = distance(law.shape[1], law.shape[1])
    term = maximal_leakage(law, Role.OBJECTIVE)
    return program([term], law, budgets=[budget], constraints=[d], feasible_point=closest(d))


def distortion_at_leakage(law, bound, d=None):
    """Least E d with sum_y max_s P(y|s) <= bound."""
    d = distance(law.shape[1], law.shape[1]) if d is None else d
    return program([maximal_leakage(law, Role.AVERAGE, bound)], law, d)


def guessing(law, budget):
    """The probability of a correct guess of S."""
    d = distance(law.shape[1], law.shape[1])
    term = linear(law, Role.OBJECTIVE, np.ones(len(law)))
    return program([term], law, budgets=[budget], constraints=[d], feasible_point=closest(d))


def _deviation(law):
    return law - np.outer(law.sum(axis=1), law.sum(axis=0))


def variation(law, budget):
    d = distance(law.shape[1], law.shape[1])
    term = linear(_deviation(law), Role.OBJECTIVE, cap=np.ones(len(law)))
    return program([term], law, budgets=[budget], constraints=[d], feasible_point=closest(d))


def distortion_at_variation(law, bound):
    term = linear(_deviation(law), Role.AVERAGE, cap=np.ones(len(law)), bound=bound)
    return program([term], law, distance(law.shape[1], law.shape[1]))


def two_joints(law, other, budget):
    """The larger maximal leakage under two joints of the same P(x)."""
    other = other * (law.sum(axis=0) / other.sum(axis=0))
    d = distance(law.shape[1], law.shape[1])
    terms = [maximal_leakage(law, Role.PEAK), maximal_leakage(other, Role.PEAK)]
    return program(terms, law, budgets=[budget], constraints=[d], feasible_point=closest(d))
