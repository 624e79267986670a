"""The certificate of additive noise: a bound on mutual information from any scores of the adversary.

For ANY scores g_y(s) of the adversary (how much output y is evidence for s),

    I(S;Y) >= sum_{s,y} P(s, y) g_y(s)   whenever  sum_s p(s) exp g_y(s) <= 1  (Gibbs / Donsker-Varadhan).

No dual feasibility is assumed: scores are first moved into that set, which costs tightness and never validity.
"""

import numpy as np

from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.leakage.rule_sets import entropic_rules
from jaxpriv.leakage.shannon import average_leakage
from jaxpriv.problems.distortion import NoiseProblem
from jaxpriv.program.certify import Certificate, most_excess, nonnegative

# The unit of rounding: a correctly rounded operation is off by at most this share.
UNIT = float(np.finfo(np.float64).eps) / 2


def valid_scores(prior: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores moved into G = { g : sum_s p(s) e^{g(s)} <= 1 } by subtracting their log-mean-exp, and that level.

    `prior` (S,), `scores` (Y, S), the level (Y,) is <= 0 (above the largest score). Symbols without
    mass are irrelevant and get score 0. The level is accurate RELATIVE to itself: a steep price of
    leakage (a limit near 0) multiplies scores close to 0, and an error of rounding in e^g would show.
    """
    rule = np.asarray(entropic_rules(prior, np.where(np.isnan(scores), 0.0, scores)))
    return rule, -np.where(prior > 0, rule, -np.inf).max(axis=1)


def certify_noise(problem: NoiseProblem, noise: Arr, scores: Arr, multiplier: ScalarLike) -> Certificate:
    """The certificate of additive noise, where all rows share one law: the minimum is over z, not over W.

        OPT >= min_z [ sum_{y,s} P(S=s, X+z=y) g_y(s) + lambda d(z) ] - lambda D

    `noise` (Z,), `scores` (1, Y, S), `multiplier` (): any numbers.
    """
    mechanism = problem.mechanism(np.asarray(noise, dtype=np.float64))
    leakage = average_leakage(problem.joint, mechanism)
    used = float(problem.distortion @ noise)
    slop = 4 * (sum(mechanism.shape) + problem.joint.shape[0]) * UNIT
    scale = abs(problem.budget) + float(abs(problem.distortion) @ noise)
    violation = max((used - problem.budget) / (scale or 1.0) - 0.5 * most_excess(np.float64), 0.0)

    rule, level = valid_scores(problem.joint.sum(axis=1), np.asarray(scores, dtype=np.float64)[0])
    price = nonnegative(np, np.asarray(multiplier, dtype=np.float64))
    columns = problem.columns()
    gain = np.einsum("ysz,ys->z", columns, rule)
    excess = problem.distortion - problem.distortion.min()
    slack = problem.budget - float(problem.distortion.min())
    chain = mechanism.size + problem.joint.shape[0] + 8
    size = np.einsum("ysz,ys->z", columns, abs(rule)).max() + abs(level).max()
    size = size + price * (excess.max() + abs(slack))
    bound = (gain + price * excess).min() - price * slack - chain * UNIT * size
    value = leakage * (1 + slop) + slop
    return Certificate(value, max(bound, 0.0), np.array([leakage]), np.array([used]), violation)
