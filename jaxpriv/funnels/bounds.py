"""Bounds on the optimum: the elementary ones, and those that prices prove.

Funnel. With I = I(S;X), h = H(X|S) = H(X) - I:

    max(0, R - h) <= PF(R) <= I R/H(X),

because I(X;Y) - I(S;Y) = I(X;Y|S) <= h, and because X itself may be released a part of the time. Bottleneck:
I R/H(X) <= IB(R) <= min(R, I). For prices nu and any lambda, every release satisfies (sum m_k q_k = P_X)

    I(S;Y) - lambda I(X;Y) = H(S) - lambda H(X) + nu.P_X + sum_k m_k [ psi(q_k) - nu.q_k ],

so a bound on psi(q) - nu.q over the simplex is a bound on the left side, and with it on every form of the problem.
"""

import math

import numpy as np

from jaxpriv._divergence import entropy, information_interval
from jaxpriv.funnels.found import Proof
from jaxpriv.leakage import MutualInformation
from jaxpriv.problems.funnel import BottleneckProblem, FunnelProblem

_EPS = float(np.finfo(np.float64).eps)


def elementary_bound(problem: FunnelProblem | BottleneckProblem) -> float:
    """The end of the interval that holds the optimum without any proof by prices, rounded outwards.

    A lower bound where the problem minimises, an upper bound where it maximises.
    """
    core, target = problem.reduction, problem.target
    size = core.joint.shape[1]
    whole = entropy(core.source) * (1 + size * _EPS) + size * _EPS
    low, _, high = information_interval(core.joint, np.eye(size))
    high += core.lost
    if isinstance(problem, BottleneckProblem):
        if problem.form == "disclosure":
            return min(target, high)
        return target if problem.form == "relevance" else max(0.0, 1.0 - target) * high
    hidden = whole - low  # at least H(X|S)
    if not isinstance(problem.leakage, MutualInformation):
        return {"disclosure": 0.0, "leakage_budget": whole, "multiplier": -target * whole}[problem.form]
    if problem.form == "disclosure":
        return max(0.0, target - hidden)
    if problem.form == "leakage_budget":
        return min(whole, target + hidden)
    # The line max(0, R - h) - l R is least at R = h, or at H(X) for l >= 1.
    return -target * hidden if target <= 1 else low - target * whole


def proved_value(problem: FunnelProblem | BottleneckProblem, proof: Proof) -> float:
    """What `proof` says about the optimum of `problem`, rounded outwards: a lower bound where it minimises.

    Infinite (no information) where the multiplier is zero and the disclosure is what is bounded. Proofs are about
    mutual information.
    """
    sign = 1.0 if problem.minimises_leakage else -1.0
    line = proved_line(problem, proof)
    if not np.isfinite(line):
        return (sign if problem.form in ("leakage_budget", "relevance") else -sign) * math.inf
    price, target = proof.multiplier, problem.target
    if problem.form == "disclosure":  # L >= line + lambda R; I(S;Y) <= line + lambda R
        return _outwards(line + price * target, abs(line) + price * target, -sign)
    if problem.form == "multiplier":
        most = entropy(problem.reduction.source)
        turned = sign * min(0.0, sign * (price - target) * most)
        return _outwards(line + turned, abs(line) + abs(turned), -sign)
    if not price > 0:  # I <= (D - line)/lambda; I(X;Y) >= (D - line)/lambda
        return sign * math.inf
    value = (target - line) / price
    return _outwards(value, (abs(target) + abs(line)) / price + abs(value), sign)


def proved_line(problem: FunnelProblem | BottleneckProblem, proof: Proof) -> float:
    """c = H(S) - lambda H(X) + nu.P_X + bound, rounded outwards: I(S;Y) >= c + lambda I(X;Y) for every release.

    For a bottleneck proof I(S;Y) <= c + lambda I(X;Y).
    """
    core, sign = problem.reduction, 1.0 if problem.minimises_leakage else -1.0
    source, prior, price = core.source, core.prior, proof.multiplier
    parts = [entropy(prior), -price * entropy(source), float(proof.prices @ source), proof.bound]
    size = entropy(prior) + price * entropy(source) + float(np.abs(proof.prices) @ source) + abs(proof.bound)
    lost = core.lost if sign < 0 else 0.0
    rounding = 4.0 * (len(source) + len(prior) + 8) * _EPS * size
    return math.fsum(parts) + lost - sign * rounding


def _outwards(value: float, size: float, direction: float) -> float:
    return value + direction * 8.0 * _EPS * size
