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
S keeps at most eta and at least c of a divergence (`contraction_proofs`).

A measure of finitely many actions (`gains`) is outer( sum_k m_k phi(q_k) + shift ), outer increasing. With
psi(q) = phi(q) + lambda H(q) the same holds of the sum, without H(S).

The lower convex hull of points (disclosure, cost) is reached by a switch, shown with the output, that chooses between
two mechanisms: I(X;Y) and every sum_y phi(w_y) are then the means of the two. The cost is the leakage for a funnel and
minus I(S;Y) for a bottleneck.
"""

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jaxpriv._runtime.numerics import entropy, information_interval
from jaxpriv.funnels.gains import elementary, gains_of
from jaxpriv.funnels.pricing import blocks_of
from jaxpriv.funnels.pricing._base import EqualSymbols
from jaxpriv.funnels.solution import Proof
from jaxpriv.leakage import MutualInformation, contraction_coefficient
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


# What the channel from X to S keeps of a divergence: T = P(S|X), a(q) = D(Tq || P_S), b(q) = D(q || P_X).
#
# At most. a <= eta b, so that I(S;Y) <= eta I(X;Y) for S - X - Y, for the least eta that holds of all pairs of
# distributions: the contraction coefficient (Ahlswede and Gacs 1976), which is that of chi-squared divergence (Choi,
# Ruskai and Seneta 1994), eta = sup_{q,v} sum_s (Tv)_s^2/(Tq)_s / sum_x v_x^2/q_x, sum v = 0. Two symbols are enough
# (Ordentlich and Polyanskiy 2020): v/q has the mean 0 under q, so q is a mixture of q_k with two symbols each and
# v/q of mean 0 there; with v_k = (v/q) q_k the denominators average to sum_x v_x^2/q_x, and the numerators to at
# least sum_s (Tv)_s^2/(Tq)_s because u^2/w is convex in (u, w). For the symbols of columns P and Q
#
#     eta(P, Q) = max_{0<=t<=1} f(t),   f(t) = sum_s (P_s - Q_s)^2 / ( P_s/(1-t) + Q_s/t ),
#
# and f is concave: each term is a multiple of the parallel sum of (1-t)/P_s and t/Q_s. Its tangents bound it. With
# P = Q + (P - Q) the total variation distance max_x,x' TV(T_x, T_x') is at least eta (Dobrushin), and so is
# 1 - sum_s min_x T_sx (Doeblin). An erasure channel that loses x with probability e has eta = 1 - e by all of these.
#
# At least. Let C be a function of X, and c the least over x of the probability that S has a value that only symbols
# of the class of x can have. Such values tell C. So C erased with probability 1 - c is a function of S with more
# randomness, and by data processing a >= c b_C, b_C(q) = D(q_C || P_C). Here C is the class of equal columns of T.
#
# In any case a(q) <= i.q with i_x = D(T_x || P_S), because D is convex, and a(q) >= b_C(q) - k.q with
# k_x = sum_s T_sx ln( 1/P(c(x)|s) ), because b_C <= D of (C, S) = a + sum_s (Tq)_s D( q_C|s || P_C|s ). Mixtures of the
# two lines of each kind have any slope lambda in between:
#
#     a - lambda b   <=  max(0, 1 - lambda/eta) i.q,              a - lambda b_C  >=  -max(0, (lambda - c)/(1 - c)) k.q.
#
# These are prices, and with b = -H(q) - q.ln p, H(q) >= H(q_C) they are prices of psi. If S and X share an attribute,
# each of its values has its own eta, c and classes, and prices of the parts give those of the whole (`pricing.exact`).


def contraction_proofs(problem: FunnelOrBottleneck) -> tuple[Proof, ...]:
    """Prices of the lines that the channel from X to S proves for a funnel (c > 0) or bottleneck (eta < 1) of I(S;Y).

    One for the slope c or eta of every value of a shared attribute; of a problem with a multiplier one of that slope.
    """
    if not isinstance(problem.leakage, MutualInformation):
        return ()
    funnel, core = problem.minimises_leakage, problem.core
    rates, charges, fixed, source, block = _retained(core.tobytes(), len(core), funnel)
    slopes = np.unique(rates[(rates > 0) & (rates < 1)])
    if problem.form == "multiplier" and len(slopes):
        slopes = np.array([problem.target] if problem.target < 1 else [])
    proofs = []
    for lam in slopes.tolist():
        if funnel:
            weight = -np.divide(lam - rates, 1 - rates, out=np.zeros_like(rates), where=rates < min(lam, 1.0))
        else:
            weight = 1.0 - np.divide(lam, rates, out=np.ones_like(rates), where=rates > lam)
        prices = weight * charges + fixed - lam * source + ((1 - lam) * block if funnel else 0.0)
        slack = 32 * (sum(core.shape) + 8) * _EPS * (2.0 + float(np.abs(prices).max()))
        proofs.append(Proof(prices, lam, -slack if funnel else slack))
    return tuple(proofs)


# The points of a curve have one joint.
@functools.lru_cache(maxsize=8)
def _retained(core: bytes, private: int, funnel: bool) -> tuple[np.ndarray, ...]:
    """What `contraction_proofs` needs of every useful symbol, (X',) each.

    c (bottleneck: eta) of its block, k_x (i_x), (T' ln P_S)_x, and the logarithms of P(c(x)) (p_x) and of P(A = a).
    """
    joint = np.frombuffer(core).reshape(private, -1)
    retained = tuple(np.empty(joint.shape[1]) for _ in range(5))
    for block in blocks_of(joint):
        conditional, prior, classes = block.conditional, block.prior, block.joint
        if funnel:
            equal = EqualSymbols(block.joint)
            rate, classes = _told(block.joint, equal.joint), equal.joint[:, equal.number]
            shown = prior[:, None] / np.where(classes > 0, classes, 1.0)
        else:
            rate, shown = contraction_coefficient(conditional.T), conditional / prior[:, None]
        charge = (conditional * np.log(np.where(conditional > 0, shown, 1.0))).sum(axis=0)
        tilt, masses = np.log(prior) @ conditional, np.log(classes.sum(axis=0))
        for whole, part in zip(retained, (rate, charge, tilt, masses, np.log(block.mass)), strict=True):
            whole[block.useful] = part
    return retained


def _told(joint: np.ndarray, classes: np.ndarray) -> float:
    """c of P(S,X) = `joint` and P(S,C) = `classes`, rounded down."""
    telling = (classes > 0).sum(axis=1) == 1
    least = float((joint[telling].sum(axis=0) / joint.sum(axis=0)).min())
    return max(0.0, least - 8 * (len(joint) + 8) * _EPS)


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


# Where the hull of points (I(X;Y), cost) meets a target: the two releases to share time between.


@dataclass(frozen=True)
class Crossing:
    """The hull at a target: 1 - `share` of point `first`, `share` of point `second`.

    `slope` is the slope of that edge, `beside` those of the edges before and after it (the edge's own, halved or
    doubled, where it is the last): a better release there has its price between these.
    """

    first: int
    second: int
    share: float
    slope: float
    beside: tuple[float, float]


class Target(NamedTuple):
    """Where on the hull a release is: form `disclosure`, `cost` (on a rising or a falling hull) or `price`."""

    form: str
    value: float
    rising: bool = True


def crossing_at(disclosures: np.ndarray, costs: np.ndarray, target: Target) -> Crossing:
    """The edge of the hull at the target; at a price the best point, twice.

    At I(X;Y) = target, or at its end where it does not reach so far; at a cost the most disclosure on a rising hull,
    the least on a falling one.
    """
    form, value, rising = target
    if form == "price":
        best = int(np.argmin(costs - value * disclosures))
        return Crossing(best, best, 0.0, value, (value, value))
    hull, scale = lower_hull(disclosures, costs), disclosures
    if form == "cost":
        # A funnel's hull may dip before it rises (and a bottleneck's rise after it fell): only the monotone part
        # counts.
        lowest = int(np.argmin(costs[hull]))
        hull = hull[lowest:] if rising else hull[: lowest + 1]
        scale, value = (costs, value) if rising else (-costs, -value)
    if len(hull) == 1:
        return Crossing(int(hull[0]), int(hull[0]), 0.0, 0.0, (0.0, 0.0))
    right = int(np.clip(np.searchsorted(scale[hull], value), 1, len(hull) - 1))
    first, second = int(hull[right - 1]), int(hull[right])
    run = float(scale[second] - scale[first])  # 0 where both ends of an edge cost the same
    share = min(max(float(value - scale[first]) / run, 0.0), 1.0) if run != 0 else 1.0
    slopes = np.diff(costs[hull]) / np.diff(disclosures[hull])
    slope = float(slopes[right - 1])
    before = float(slopes[right - 2]) if right > 1 else slope - 0.5 * abs(slope)
    after = float(slopes[right]) if right < len(slopes) else slope + abs(slope)
    return Crossing(first, second, share, slope, (before, after))
