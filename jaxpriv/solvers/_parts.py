"""Pieces that several solvers compute: column leakages, scores, costs of scores, the dual bound, mirror
steps within budgets, precision."""

from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import numpy as np
from numpy.typing import DTypeLike

from jaxpriv import _arrays as xp
from jaxpriv._lanes import has_lanes
from jaxpriv._types import Arr, ScalarLike
from jaxpriv.program.convex import Form, Program
from jaxpriv.solvers._newton_system import small_solve

T = TypeVar("T")


class Leak(NamedTuple):
    """The output joints of a mechanism and its leakages."""

    columns: Arr  # (K, Y, S): w_{k,y}(s) = P_k(S=s, Y=y)
    values: Arr  # (K,): I(S;Y) under each joint


def output_columns(program: Program, mechanism: Arr) -> Arr:
    """w_{k,y}(s) = P_k(S=s, Y=y), shape (K, Y, S)."""
    if program.diagonal:
        return (mechanism.T * xp.diagonal(program.joints[0]))[None]
    return xp.einsum("xy,ksx->kys", mechanism, program.joints)


def leak_of(program: Program, mechanism: Arr) -> Leak:
    """Output joints and leakages of a mechanism (X, Y)."""
    columns = output_columns(program, mechanism)
    values = xp.stack([term.rule_set.columns(term, w.T).sum() for term, w in zip(program.terms, columns, strict=True)])
    return Leak(columns, values)


def posterior_scores(program: Program, columns: Arr) -> Arr:
    """g_y(s) = ln P(s|y)/P(s), shape (K, Y, S): the adversary's best rule, finite by a tiny floor."""
    tiny = np.finfo(columns.dtype).tiny  # times 1e8: a ratio that stays normal when XLA rounds it
    mass = xp.maximum(columns.sum(axis=2, keepdims=True), tiny)
    ratio = xp.maximum(columns, tiny * 1e8) / mass
    prior = program.priors[:, None, :]
    return xp.where(prior > 0, xp.log(ratio) - xp.log(xp.where(prior > 0, prior, 1.0)), 0.0)


def score_costs(program: Program, scores: Arr, weights: Arr) -> Arr:
    """sum_k eta_k sum_s J_k(s, x) g_{k,y}(s), shape (X, Y)."""
    if program.diagonal:
        return (weights[0] * scores[0] * xp.diagonal(program.joints[0])).T
    return xp.einsum("kys,ksx->xy", weights[:, None, None] * scores, program.joints)


def bound_of_scores(program: Program, scores: Arr, weights: Arr, multipliers: Arr) -> Arr:
    """The bound of `certificates`, without its rounding allowance, on the support, at working precision."""
    prior = program.priors[:, None, :]
    top = scores.max(axis=2, keepdims=True)
    level = top + xp.log((prior * xp.exp(scores - top)).sum(axis=2, keepdims=True))
    total = program.cost + score_costs(program, scores - level, weights)
    total = total + xp.weigh(multipliers, program.constraints)
    least = xp.where(program.support, total, xp.inf).min(axis=1).sum()
    bound = least - (multipliers * program.budgets).sum()
    return bound - weights.sum() * program.limit if program.form is Form.LIMIT else bound


def in_precision(tree: T, dtype: DTypeLike) -> T:
    """Every array of real numbers of a tree in another precision."""

    def real(leaf: object) -> bool:
        return eqx.is_inexact_array(leaf) or (has_lanes(leaf) and leaf.dtype.kind == "f")

    return jax.tree.map(lambda leaf: leaf.astype(dtype) if real(leaf) else leaf, tree)


def normalised(logits: Arr) -> tuple[Arr, Arr]:
    """Logs of the softmax over outputs, and the softmax: one exponential of every entry."""
    top = logits.max(axis=1, keepdims=True)
    e = xp.exp(logits - top)
    total = e.sum(axis=1, keepdims=True)
    return logits - (top + xp.log(total)), e / total


def meet_budgets(
    constraints: Arr, budgets: Arr, base: Arr, tilt: Arr, multipliers: Arr, dual_steps: int
) -> tuple[Arr, Arr]:
    """(logits, multipliers): projected Newton on the dual of a mirror step with tilt step/m_x (X, 1),

    h(lambda) = -sum_x m_x ln sum_y exp(base - tilt lambda.c) - step lambda.D.
    """
    # Budgets that are equivalent, under joints that are nearly equal, leave a matrix that is singular to rounding: some
    # units of rounding of its largest entry, 1e-9 in float64, which changes a step by as much.
    relative = max(1e-9, 64.0 * float(np.finfo(base.dtype).eps))
    tilted = constraints * tilt[None]

    def logits_at(lam: Arr) -> Arr:
        return base - tilt * xp.weigh(lam, constraints)

    def newton(_: ScalarLike, lam: Arr) -> Arr:
        _, w = normalised(logits_at(lam))
        used = (constraints * w[None]).sum(axis=2)  # (R, X)
        over = used.sum(axis=1) - budgets
        curvature = xp.einsum("rxy,qxy->rq", tilted * w, constraints) - xp.einsum("rx,qx->rq", used * tilt[:, 0], used)
        # The absolute part keeps a matrix of zeros (a mechanism without choice) regular; moves are clipped anyway.
        ridge = 1e-12 + relative * xp.diagonal(curvature).max()
        free = (lam > 0) | (over > 0)
        matrix = xp.where(free[:, None] & free[None, :], curvature, 0.0) + xp.diag(xp.where(free, ridge, 1.0))
        move = small_solve(matrix, xp.where(free, over, 0.0))
        # Doubling and halving at most keeps Newton inside the region where its model holds.
        return xp.clip(lam + move, 0.5 * lam, 2.0 * lam + 1.0)

    multipliers = xp.fori_loop(0, dual_steps, newton, multipliers)
    return logits_at(multipliers), multipliers
