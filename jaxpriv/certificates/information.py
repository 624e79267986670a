"""Mutual information of a table and the rules that bound it, and with them the certificate of additive noise.

For ANY scores g_y(s) of the adversary (how much output y is evidence for s),

    I(S;Y) >= sum_{s,y} P(s, y) g_y(s)   whenever  sum_s p(s) exp g_y(s) <= 1  (Gibbs / Donsker-Varadhan).

No dual feasibility is assumed: scores are first moved into that set, which costs tightness and never validity.
"""

import jax
import numpy as np
from jax.sharding import Mesh

from jaxpriv._types import Arr, ScalarLike
from jaxpriv.channel import AbstractChannel, push
from jaxpriv.leakage.shannon import average_leakage
from jaxpriv.problems.noise import NoiseProblem
from jaxpriv.program.certify import Certificate, nonnegative
from jaxpriv.program.convex import StreamedProgram
from jaxpriv.streaming import cheapest, leakage

# A score below this carries no weight in float64: e^-700 = 1e-304, near the smallest normal number (e^-708).
_LOWEST_SCORE = -700.0
# The unit of rounding: a correctly rounded operation is off by at most this share.
_UNIT = float(np.finfo(np.float64).eps) / 2


def valid_scores(prior: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores moved into G = { g : sum_s p(s) e^{g(s)} <= 1 } by subtracting their log-mean-exp, and that level.

    `prior` (S,), `scores` (Y, S), the level (Y,) is <= 0 (above the largest score). Symbols without
    mass are irrelevant and get score 0. The level is accurate RELATIVE to itself: a steep price of
    leakage (a limit near 0) multiplies scores close to 0, and an error of rounding in e^g would show.
    """
    scores = np.clip(np.where(np.isnan(scores), 0.0, scores), _LOWEST_SCORE, -_LOWEST_SCORE)
    # Divide by the total prior: it is 1 only up to rounding.
    total = prior.sum()
    scores = scores - np.where(prior > 0, scores, -np.inf).max(axis=1, keepdims=True)
    scores = np.where(prior > 0, scores, 0.0)
    mean = (prior * np.exp(scores)).sum(axis=1, keepdims=True) / total
    short = (prior * np.expm1(scores)).sum(axis=1, keepdims=True) / total
    near = mean > 0.5
    level = np.where(near, np.log1p(np.where(near, short, 0.0)), np.log(mean))
    return np.where(prior > 0, scores - level, 0.0), level[:, 0]


def certify_noise(problem: NoiseProblem, noise: Arr, scores: Arr, multiplier: ScalarLike) -> Certificate:
    """The certificate of additive noise, where all rows share one law: the minimum is over z, not over W.

        OPT >= min_z [ sum_{y,s} P(S=s, X+z=y) g_y(s) + lambda d(z) ] - lambda D

    `noise` (Z,), `scores` (1, Y, S), `multiplier` (): any numbers.
    """
    mechanism = problem.mechanism(np.asarray(noise, dtype=np.float64))
    leakage = average_leakage(problem.joint, mechanism)
    used = float(problem.distortion @ noise)
    slop = 4 * (sum(mechanism.shape) + problem.joint.shape[0]) * _UNIT
    scale = abs(problem.budget) + float(abs(problem.distortion) @ noise)
    violation = max((used - problem.budget) / (scale or 1.0) - 4 * slop, 0.0)

    rule, level = valid_scores(problem.joint.sum(axis=1), np.asarray(scores, dtype=np.float64)[0])
    price = nonnegative(np, np.asarray(multiplier, dtype=np.float64))
    columns = problem.columns()
    gain = np.einsum("ysz,ys->z", columns, rule)
    excess = problem.distortion - problem.distortion.min()
    slack = problem.budget - float(problem.distortion.min())
    chain = mechanism.size + problem.joint.shape[0] + 8
    size = np.einsum("ysz,ys->z", columns, abs(rule)).max() + abs(level).max()
    size = size + price * (excess.max() + abs(slack))
    bound = (gain + price * excess).min() - price * slack - chain * _UNIT * size
    value = leakage * (1 + slop) + slop
    return Certificate(value, max(bound, 0.0), np.array([leakage]), np.array([used]), violation)


# The certificate of mutual information for operators: the numbers of `program.certify` from sums over blocks, float64.


_leakage = jax.jit(leakage)
_cheapest = jax.jit(cheapest, static_argnames="mesh")


def certify_streamed(
    program: StreamedProgram, mechanism: AbstractChannel, scores: Arr, multipliers: Arr, mesh: Mesh | None = None
) -> Certificate:
    """Value and lower bound of `mechanism`, proved by the adversary's `scores`.

        OPT >= sum_x p_x min_y [ sum_s P(s|x) g_y(s) + sum_k l_k d_k(x, y) ] - sum_k l_k D_k

    with l = `multipliers` (the program's own prices in multiplier form, where there is no last term).

    Args:
        program: operators in float64.
        mechanism: evaluated in float64; its output joint is its own sum over x.
        scores: g, shape (Y, S); any numbers.
        multipliers: l, shape (M,); any numbers, taken as 0 where they are not prices. Ignored in
            multiplier form.
        mesh: devices that share the blocks.
    """
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        value, leaked, used, violation = _value(program, mechanism, mesh)
        bound = _bound(program, np.asarray(scores, dtype=np.float64), np.asarray(multipliers, dtype=np.float64), mesh)
    return Certificate(value, bound, np.array([leaked]), used, violation)


def _value(
    program: StreamedProgram, mechanism: AbstractChannel, mesh: Mesh | None
) -> tuple[Arr, float, np.ndarray, float]:
    pushed = push(mechanism, program.joint, program.distortions, mesh)
    columns, used = np.asarray(pushed.columns), np.asarray(pushed.distortions)
    leaked = float(_leakage(columns, columns.sum(axis=0)))
    # As `program.certify`, and every W[x, y] may be off by a relative `rounding`: with sum w |ln(w/(p|w|))| <= I + 2/e
    # this moves I by no more than rounding (I + 1), and E d by rounding times itself.
    slop = 4 * (sum(mechanism.shape) + columns.shape[1]) * _UNIT + float(pushed.rounding)
    # No information about S exceeds H(S), whatever rounding may do.
    prior = columns.sum(axis=0)
    most = -float((prior * np.log(np.where(prior > 0, prior, 1.0))).sum()) * (1 + slop) + slop
    value = min(leaked * (1 + slop) + slop, most)
    if program.prices is not None:
        return value + float(program.prices @ used) * (1 + slop), leaked, used, 0.0
    scale = np.where(abs(program.budgets) + abs(used) > 0, abs(program.budgets) + abs(used), 1.0)
    violation = np.maximum((used - program.budgets) / scale - 4 * slop, 0.0).max()
    return value, leaked, used, float(violation)


def _bound(program: StreamedProgram, scores: np.ndarray, multipliers: np.ndarray, mesh: Mesh | None) -> float:
    prior = np.asarray(program.prior)
    if program.prices is not None:
        prices, spent = np.asarray(program.prices), 0.0
    else:
        prices = nonnegative(np, multipliers)
        spent = float(prices @ program.budgets)
    rule, level = valid_scores(prior, scores)
    total, size = _cheapest(program.joint, program.distortions, prior, rule, prices, mesh=mesh)
    # |fl(sum) - sum| <= n u sum|terms|: chains over s inside a row, then over x. At the cheapest y the price
    # of the distortion is at most |least| plus the largest score.
    chain = 2 * (len(prior) + program.shape[0]) + len(prices) + 8
    size = float(size) + 2 * float(abs(rule).max() + abs(level).max()) + abs(spent)
    bound = float(total) - spent - chain * _UNIT * size
    return max(bound, 0.0)  # d >= 0 and leakage is never negative
