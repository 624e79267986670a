"""The proof behind every convex result: a value and a lower bound from the mechanism and a rule alone.

Nothing here knows a solver. Given a program, ANY mechanism W, ANY scores g_{k,y}(s) of the adversary
(how much output y speaks for s under joint k), ANY weights eta_k >= 0 and ANY multipliers lambda_r >= 0:

    F_k(W) = I_k(S;Y) >= <g, J_k W>   whenever  sum_s p_k(s) exp g_{k,y}(s) <= 1  (Gibbs / Donsker-Varadhan)

so that, with a(x, y) = cost + sum_k eta_k sum_s J_k(s, x) g_{k,y}(s) + sum_r lambda_r constraints_r(x, y),

    OPT >= sum_x min_y a(x, y) - sum_r lambda_r budgets_r - sum_k eta_k limit,

eta = 1 in form OBJECTIVE, in the simplex in form WORST, >= 0 in form LIMIT. No dual feasibility is
assumed: whatever a solver hands over is first projected onto the sets above, which costs tightness
and never validity. Float64 on the host; the bound is rounded down and the value up by an a-priori
bound on the rounding of the sums, so that the interval holds for the stated numbers.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._repr import summary
from jaxpriv._validation import is_traced
from jaxpriv.problems.noise import NoiseProblem
from jaxpriv.problems.program import Form, Program

# A score below this carries no weight in float64 (e^-700) and would only poison the bound.
_LOWEST_SCORE = -700.0


@dataclass(frozen=True)
class Certificate:
    """What is proved about one mechanism. `optimum` lies in `[lower_bound, value]` if `violation` is 0.

    Attributes:
        value: the program's objective at the mechanism (an upper bound on the optimum if feasible).
        lower_bound: no feasible mechanism has a smaller objective.
        leakages: I(S;Y) under each joint, nats, shape (K,).
        constraint_values: <constraints_r, W>, shape (R,).
        violation: largest excess over a budget or over the leakage limit, relative to the scale of
            that constraint, or error of a row sum, or negative entry, beyond rounding; 0 for a
            feasible mechanism.
    """

    value: Any
    lower_bound: Any
    leakages: Any
    constraint_values: Any
    violation: Any

    __repr__ = summary

    @property
    def gap(self) -> Any:
        """value - lower_bound >= 0."""
        return self.value - self.lower_bound


jax.tree_util.register_dataclass(Certificate)


def certify(program: Program, mechanism: Any, scores: Any, weights: Any, multipliers: Any) -> Certificate:
    """Value and lower bound of `mechanism`, proved by the adversary's `scores`.

    Args:
        program: the program, as the user's problem states it (not a solver's reduced copy).
        mechanism: W, shape (X, Y), rows summing to one.
        scores: g, shape (K, Y, S); any numbers (NaN counts as 0, -inf as no weight).
        weights: eta, shape (K,).
        multipliers: lambda, shape (R,).
    """
    xp = jnp if is_traced(program, mechanism, scores, weights, multipliers) else np
    if xp is np:
        mechanism = np.asarray(mechanism, dtype=np.float64)
    with jax.numpy_rank_promotion("allow"):
        value, leakages, used, violation = _primal(xp, program, mechanism)
        bound = _dual(xp, program, scores, weights, multipliers)
    # The two are rounded outwards, so a crossing is impossible for a feasible mechanism; an
    # infeasible one may lie below the optimum, and then the pair is no interval.
    return Certificate(value, bound, leakages, used, violation)


def certify_noise(problem: NoiseProblem, noise: Any, scores: Any, multiplier: Any) -> Certificate:
    """The same for additive noise, where all rows share one law: the minimum is over z, not over W.

        OPT >= min_z [ sum_{y,s} P(S=s, X+z=y) g_y(s) + lambda d(z) ] - lambda D

    `noise` (Z,), `scores` (1, Y, S), `multiplier` (): any numbers.
    """
    mechanism = problem.mechanism(np.asarray(noise, dtype=np.float64))
    leakage = average_leakage(np, problem.joint, mechanism)
    used = float(problem.distortion @ noise)
    slop = 4 * (sum(mechanism.shape) + problem.joint.shape[0]) * _unit_roundoff(mechanism)
    scale = abs(problem.budget) + float(abs(problem.distortion) @ noise)
    violation = max((used - problem.budget) / (scale or 1.0) - 4 * slop, 0.0)

    scores, level = valid_scores(np, problem.joint.sum(axis=1)[None], np.asarray(scores, dtype=np.float64))
    price = nonnegative(np, np.asarray(multiplier, dtype=np.float64))
    columns = problem.columns()
    gain = np.einsum("ysz,ys->z", columns, scores[0])
    excess = problem.distortion - problem.distortion.min()
    room = problem.budget - float(problem.distortion.min())
    chain = mechanism.size + problem.joint.shape[0] + 8
    size = np.einsum("ysz,ys->z", columns, abs(scores[0])).max() + abs(level).max()
    size = size + price * (excess.max() + abs(room))
    bound = (gain + price * excess).min() - price * room - chain * _unit_roundoff(mechanism) * size
    value = leakage * (1 + slop) + slop
    return Certificate(value, max(bound, 0.0), np.array([leakage]), np.array([used]), violation)


def _unit_roundoff(array: Any) -> float:
    return float(np.finfo(array.dtype).eps) / 2


def _matmul(xp: Any, a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, precision="highest") if xp is jnp else a @ b


def average_leakage(xp: Any, joint: Any, mechanism: Any) -> Any:
    """I(S;Y) = sum_{s,y} w ln( w / (p_s |w_y|) ), summed as terms >= 0 so that small values keep their digits."""
    w = _matmul(xp, joint, mechanism)
    product = w.sum(axis=1, keepdims=True) * w.sum(axis=0, keepdims=True)
    present = product > np.finfo(w.dtype).tiny
    ratio = xp.where(present, w, 1.0) / xp.where(present, product, 1.0)
    log_ratio = xp.log(xp.where(ratio > 0, ratio, 1.0))
    # r ln r - r + 1 >= 0 term by term; the extra parts sum to sum(w) - sum(product) = 0.
    return xp.where(present, product * (ratio * log_ratio - ratio + 1.0), 0.0).sum()


def _primal(xp: Any, program: Program, mechanism: Any) -> tuple[Any, Any, Any, Any]:
    leakages = xp.stack([average_leakage(xp, joint, mechanism) for joint in program.joints])
    used = (program.constraints * mechanism).sum(axis=(1, 2))
    linear = (program.cost * mechanism).sum()
    outputs = mechanism.shape[0] + mechanism.shape[1] + program.joints.shape[1]
    slop = 4 * outputs * _unit_roundoff(mechanism)
    value = linear + slop * (abs(program.cost) * mechanism).sum()
    excess = used - program.budgets
    scale = abs(program.budgets) + (abs(program.constraints) * mechanism).sum(axis=(1, 2))
    violation = xp.maximum(excess / xp.where(scale > 0, scale, 1.0) - 4 * slop, 0.0).max(initial=0.0)
    if program.form is Form.LIMIT:
        over = (leakages[0] - program.limit) / (1.0 + program.limit)
        violation = xp.maximum(violation, xp.maximum(over - 4 * slop, 0.0))
    else:
        value = value + leakages.max() * (1 + slop) + slop
    outside = xp.maximum(abs(mechanism.sum(axis=1) - 1.0).max() - 4 * slop, -mechanism.min())
    violation = xp.maximum(violation, xp.maximum(outside, 0.0))
    return value, leakages, used, violation


def valid_scores(xp: Any, priors: Any, scores: Any) -> tuple[Any, Any]:
    """Scores moved into G = { g : sum_s p(s) e^{g(s)} <= 1 } by subtracting their log-mean-exp, and that level.

    `priors` (K, S), `scores` (K, Y, S), the level (K, Y) is <= 0 (above the largest score). Symbols without
    mass are irrelevant and get score 0. The level is accurate RELATIVE to itself: a steep price of
    leakage (a limit near 0) multiplies scores close to 0, and an error of rounding in e^g would show.
    """
    scores = xp.where(xp.isnan(scores), 0.0, scores)
    scores = xp.clip(scores, _LOWEST_SCORE, -_LOWEST_SCORE)
    mass = priors[:, None, :]
    # Divide by the total prior: it is 1 only up to rounding.
    total = mass.sum(axis=2, keepdims=True)
    scores = scores - xp.where(mass > 0, scores, -np.inf).max(axis=2, keepdims=True)
    scores = xp.where(mass > 0, scores, 0.0)
    mean = (mass * xp.exp(scores)).sum(axis=2, keepdims=True) / total
    short = (mass * xp.expm1(scores)).sum(axis=2, keepdims=True) / total
    near = mean > 0.5
    level = xp.where(near, xp.log1p(xp.where(near, short, 0.0)), xp.log(mean))
    return xp.where(mass > 0, scores - level, 0.0), level[..., 0]


def nonnegative(xp: Any, prices: Any) -> Any:
    """Any numbers as prices: >= 0, 0 where there is none, and small enough for sums of products to be finite."""
    largest = np.cbrt(np.finfo(prices.dtype).max)
    return xp.where(xp.isfinite(prices), xp.clip(prices, 0.0, largest), 0.0)


def _valid_weights(xp: Any, form: Form, weights: Any) -> Any:
    weights = nonnegative(xp, weights)
    if form is Form.OBJECTIVE:
        return xp.ones_like(weights)
    if form is Form.LIMIT:
        return weights
    total = weights.sum()
    return xp.where(total > 0, weights / xp.where(total > 0, total, 1.0), 1.0 / weights.shape[0])


def _dual(xp: Any, program: Program, scores: Any, weights: Any, multipliers: Any) -> Any:
    dtype = program.joints.dtype
    scores, level = valid_scores(xp, program.priors, xp.asarray(scores, dtype=dtype))
    weights = _valid_weights(xp, program.form, xp.asarray(weights, dtype=dtype))
    multipliers = nonnegative(xp, xp.asarray(multipliers, dtype=dtype))
    gain = sum(
        weight * _matmul(xp, g, joint).T for weight, g, joint in zip(weights, scores, program.joints, strict=True)
    )
    # Both the constraint and its budget are taken above the cheapest output of each row: with a
    # steep multiplier (a budget near the least distortion) two huge numbers would cancel otherwise.
    floors = program.constraints.min(axis=2, keepdims=True)
    penalty = (multipliers[:, None, None] * (program.constraints - floors)).sum(axis=0)
    slack = program.budgets - floors.sum(axis=(1, 2))
    least = (program.cost + gain + penalty).min(axis=1)
    total = least.sum() - (multipliers * slack).sum() - weights.sum() * program.limit
    # |fl(sum) - sum| <= n u sum|terms|, n the longest chain of additions; a level is such a sum over a
    # prior, which is one itself, and an error in it moves the whole rule.
    chain = 2 * (program.joints.shape[1] + least.shape[0]) + program.constraints.shape[0] + 8
    size = (
        abs(least).sum()
        + sum(
            w * (_matmul(xp, abs(g), j).max(axis=0).sum() + abs(peak).max())
            for w, g, peak, j in zip(weights, scores, level, program.joints, strict=True)
        )
        + abs(program.cost).max(axis=1).sum()
        + (multipliers * (abs(slack) + abs(floors).sum(axis=(1, 2)))).sum()
        + weights.sum() * abs(program.limit)
    )
    # Leakage is never negative, so the cheapest outputs alone bound the objective too.
    cheapest = program.cost.min(axis=1)
    floor = cheapest.sum() - cheapest.shape[0] * _unit_roundoff(total) * abs(cheapest).sum()
    return xp.maximum(total - chain * _unit_roundoff(total) * size, floor)
