"""Mutual information of a table and the rules that bound it, and with them the certificate of additive noise.

For ANY scores g_y(s) of the adversary (how much output y speaks for s),

    I(S;Y) >= sum_{s,y} P(s, y) g_y(s)   whenever  sum_s p(s) exp g_y(s) <= 1  (Gibbs / Donsker-Varadhan).

No dual feasibility is assumed: scores are first moved into that set, which costs tightness and never validity.
"""

import numpy as np

from jaxpriv._types import Arr, ScalarLike
from jaxpriv.certificates._base import Certificate, nonnegative
from jaxpriv.leakage.shannon import average_leakage
from jaxpriv.problems.noise import NoiseProblem

# A score below this carries no weight in float64 (e^-700) and would only poison the bound.
_LOWEST_SCORE = -700.0
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
    room = problem.budget - float(problem.distortion.min())
    chain = mechanism.size + problem.joint.shape[0] + 8
    size = np.einsum("ysz,ys->z", columns, abs(rule)).max() + abs(level).max()
    size = size + price * (excess.max() + abs(room))
    bound = (gain + price * excess).min() - price * room - chain * _UNIT * size
    value = leakage * (1 + slop) + slop
    return Certificate(value, max(bound, 0.0), np.array([leakage]), np.array([used]), violation)
