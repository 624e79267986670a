"""Bounds on the optimum, the elementary ones and those that prices prove; and the hull that time sharing reaches.

Funnel. With I = I(S;X), h = H(X|S) = H(X) - I:

    max(0, R - h) <= PF(R) <= I R/H(X),

because I(X;Y) - I(S;Y) = I(X;Y|S) <= h, and because X itself may be released a part of the time. Bottleneck:
I R/H(X) <= IB(R) <= min(R, I). Without leakage every posterior q has Tq = P_S, so q_x T_sx <= P_s for all s and

    I(X;Y) <= H(X) - sum_x p_x max_s ln( T_sx/P_s ),

which is below H(X|S): the mean over s in place of the maximum gives that. For prices nu and any lambda, every release
satisfies (sum m_k q_k = P_X)

    I(S;Y) - lambda I(X;Y) = H(S) - lambda H(X) + nu.P_X + sum_k m_k [ psi(q_k) - nu.q_k ],

so a bound on psi(q) - nu.q over the simplex is a bound on the left side, and with it on every form of the problem.

Some prices are known without a search: those of the lines I(S;Y) = eta I(X;Y) and c I(X;Y), where the channel from X to
S keeps at most eta and at least c of a divergence (`contraction`).

A measure of finitely many actions (`gains`) is outer( sum_k m_k phi(q_k) + shift ), outer increasing. With
psi(q) = phi(q) + lambda H(q) the same holds of the sum, without H(S).

The lower convex hull of points (disclosure, cost) is reached by a switch, shown with the output, that chooses between
two mechanisms: I(X;Y) and every sum_y phi(w_y) are then the means of the two. The cost is the leakage for a funnel and
minus I(S;Y) for a bottleneck.
"""

import math

import numpy as np

from jaxpriv._runtime.divergences import entropy, information_interval
from jaxpriv.funnels.gains import elementary, gains_of
from jaxpriv.funnels.solution import Proof
from jaxpriv.leakage import MutualInformation
from jaxpriv.problems.funnel import BottleneckProblem, FunnelOrBottleneck, whole_entropy

_EPS = float(np.finfo(np.float64).eps)


def elementary_bound(problem: FunnelOrBottleneck) -> float:
    """The end of the interval that holds the optimum without any proof by prices, rounded outwards.

    A lower bound where the problem minimises, an upper bound where it maximises.
    """
    target, size = problem.target, problem.joint.shape[1]
    whole = whole_entropy(problem.joint) * (1 + size * _EPS) + size * _EPS
    low, _, high = information_interval(problem.joint, np.eye(size))
    if isinstance(problem, BottleneckProblem):
        if problem.form == "disclosure":
            return min(target, high)
        return target if problem.form == "relevance" else max(0.0, 1.0 - target) * high
    hidden = whole - low  # at least H(X|S)
    if not isinstance(problem.leakage, MutualInformation):
        gains = gains_of(problem)
        strict = problem.leakage.worst_outcome or (gains is not None and gains.strict)
        if strict and problem.limits_leakage and target == 0:  # Y is independent of S
            return min(whole, hidden, silent_bound(problem.joint))
        if gains is not None:
            return elementary(gains, problem, whole)
        if problem.limits_leakage:
            return whole
        return 0.0 if problem.form == "disclosure" else -target * whole
    if problem.form == "disclosure":
        return max(0.0, target - hidden)
    if problem.limits_leakage:
        return min(whole, target + hidden) if target > 0 else min(whole, hidden, silent_bound(problem.joint))
    # The line max(0, R - h) - l R is least at R = h, or at H(X) for l >= 1.
    return -target * hidden if target <= 1 else low - target * whole


def silent_bound(joint: np.ndarray) -> float:
    """At most this many nats of X are disclosed where Y is independent of S, rounded up; `joint` is P(S,X)."""
    source = joint.sum(axis=0)
    joint, source = joint[:, source > 0], source[source > 0]
    prior = joint.sum(axis=1)
    lifts = (joint[prior > 0] / prior[prior > 0, None] / source).max(axis=0)
    disclosed = -float(source @ np.log(source)) - float(source @ np.log(np.maximum(lifts, 1.0)))
    size = float(source @ (np.abs(np.log(source)) + np.log(np.maximum(lifts, 1.0)))) + 1.0
    return max(0.0, disclosed) + 4.0 * (sum(joint.shape) + 8) * _EPS * size


def proved_value(problem: FunnelOrBottleneck, proof: Proof) -> float:
    """The bound of `proof` on the optimum of `problem`, rounded outwards: a lower bound where it minimises.

    Infinite (no information) where the multiplier is zero and the disclosure is what is bounded. Proofs are about
    mutual information and measures of finitely many actions.
    """
    sign = 1.0 if problem.minimises_leakage else -1.0
    line = proved_line(problem, proof)
    if not np.isfinite(line):
        return (sign if problem.limits_leakage else -sign) * math.inf
    gains = gains_of(problem)
    price, target = proof.multiplier, problem.target
    if problem.form == "disclosure":  # L >= line + lambda R; I(S;Y) <= line + lambda R
        value = _outwards(line + price * target, abs(line) + price * target, -sign)
        return value if gains is None else gains.below(value)
    if problem.form == "multiplier":
        if gains is not None:
            if not gains.scale.proportional:  # rate (line + lambda I + shift) - l I
                return -math.inf
            line, price = gains.rate * (line + gains.shift), gains.rate * price
        most = whole_entropy(problem.joint)
        turned = sign * min(0.0, sign * (price - target) * most)
        return _outwards(line + turned, abs(line) + abs(turned) + abs(price - target) * most, -sign)
    if not price > 0:  # I <= (D - line)/lambda; I(X;Y) >= (D - line)/lambda
        return sign * math.inf
    if gains is not None:
        target = gains.above(target)
    value = (target - line) / price
    return _outwards(value, (abs(target) + abs(line)) / price + abs(value), sign)


def proved_line(problem: FunnelOrBottleneck, proof: Proof) -> float:
    """c = H(S) - lambda H(X) + nu.P_X + bound, rounded outwards: I(S;Y) >= c + lambda I(X;Y) for every release.

    For a bottleneck proof I(S;Y) <= c + lambda I(X;Y); for a measure of finitely many actions without H(S), and with
    the sum over the outputs in place of I(S;Y).
    """
    core, sign, gains = problem.reduction, 1.0 if problem.minimises_leakage else -1.0, gains_of(problem)
    if gains is not None and gains.curved is not None and core.rare > 0:
        return -math.inf  # what rare symbols change of a smooth measure is not bounded
    source, prior = core.everything.sum(axis=0), core.everything.sum(axis=1)
    price, floor = proof.multiplier, entropy(prior) if gains is None else 0.0
    most = whole_entropy(core.everything)
    parts = [floor, -price * most, float(proof.prices @ source[core.useful]), proof.bound]
    size = floor + price * most + float(np.abs(proof.prices) @ source[core.useful]) + abs(proof.bound)
    if len(core.useful) < len(source):
        # Rare symbols get a price -N (bottleneck: N). For q = (1 - e) q' + e r, r rare, H(q) and H(Tq) lie between
        # the mean of both and that plus h(e), and max_e h(e) - e c = ln(1 + exp(-c)).
        spread = np.log(core.everything.shape[0]) + price * np.log(len(source))
        far = 40.0 * (1.0 + price) + spread + abs(proof.bound) + (0.0 if gains is None else gains.largest)
        parts += [-sign * far * core.rare, -sign * 2.0 * np.log1p(np.exp(-40.0)) * (1.0 + price)]
        size += far * core.rare
    lost = core.lost if sign < 0 else 0.0
    rounding = 4.0 * (len(source) + len(prior) + 8) * _EPS * size
    return math.fsum(parts) + lost - sign * rounding


def _outwards(value: float, size: float, direction: float) -> float:
    return value + direction * 8.0 * _EPS * size


def lower_hull(disclosures: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Indices of the vertices by increasing disclosure (Andrew's chain); the lowest cost of one disclosure counts."""
    vertices: list[int] = []
    for i in np.lexsort((costs, disclosures)):
        if vertices and disclosures[i] == disclosures[vertices[-1]]:
            continue
        while len(vertices) > 1:
            a, b = vertices[-2], vertices[-1]
            run, rise = disclosures[b] - disclosures[a], costs[b] - costs[a]
            if rise * (disclosures[i] - disclosures[b]) < (costs[i] - costs[b]) * run:
                break
            vertices.pop()
        vertices.append(int(i))
    return np.array(vertices)
