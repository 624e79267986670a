"""Prices that bound every release of a funnel, from how much of a divergence the channel from X to S keeps.

T = P(S|X), a(q) = D(Tq || P_S), b(q) = D(q || P_X).

At most. a <= eta b, so that I(S;Y) <= eta I(X;Y) for S - X - Y, for the least eta that holds of all pairs of
distributions: the contraction coefficient (Ahlswede and Gacs 1976), which is that of chi-squared divergence (Choi,
Ruskai and Seneta 1994), eta = sup_{q,v} sum_s (Tv)_s^2/(Tq)_s / sum_x v_x^2/q_x, sum v = 0. Two symbols are enough
(Ordentlich and Polyanskiy 2020): v/q has the mean 0 under q, so q is a mixture of q_k with two symbols each and
v/q of mean 0 there; with v_k = (v/q) q_k the denominators average to sum_x v_x^2/q_x, and the numerators to at
least sum_s (Tv)_s^2/(Tq)_s because u^2/w is convex in (u, w). For the symbols of columns P and Q

    eta(P, Q) = max_{0<=t<=1} f(t),   f(t) = sum_s (P_s - Q_s)^2 / ( P_s/(1-t) + Q_s/t ),

and f is concave: each term is a multiple of the parallel sum of (1-t)/P_s and t/Q_s. Its tangents bound it. With
P = Q + (P - Q) the total variation distance max_x,x' TV(T_x, T_x') is at least eta (Dobrushin), and so is
1 - sum_s min_x T_sx (Doeblin). An erasure channel that loses x with probability e has eta = 1 - e by all of these.

At least. Let C be a function of X, and c the least over x of the probability that S has a value that only symbols
of the class of x can have. Such values tell C. So C erased with probability 1 - c is a function of S with more
randomness, and by data processing a >= c b_C, b_C(q) = D(q_C || P_C). Here C is the class of equal columns of T.

In any case a(q) <= i.q with i_x = D(T_x || P_S), because D is convex, and a(q) >= b_C(q) - k.q with
k_x = sum_s T_sx ln( 1/P(c(x)|s) ), because b_C <= D of (C, S) = a + sum_s (Tq)_s D( q_C|s || P_C|s ). Mixtures of the
two lines of each kind have any slope lambda in between:

    a - lambda b   <=  max(0, 1 - lambda/eta) i.q,              a - lambda b_C  >=  -max(0, (lambda - c)/(1 - c)) k.q.

These are prices, and with b = -H(q) - q.ln p, H(q) >= H(q_C) they are prices of psi. If S and X share an attribute,
each of its values has its own eta, c and classes, and prices of the parts give those of the whole
(`pricing.shared_attribute`).
"""

import functools

import numpy as np

from jaxpriv.funnels.pricing import blocks_of
from jaxpriv.funnels.pricing.equal_symbols import EqualSymbols
from jaxpriv.funnels.solution import Proof
from jaxpriv.leakage import MutualInformation, contraction_coefficient
from jaxpriv.problems.funnel import FunnelOrBottleneck

_EPS = float(np.finfo(np.float64).eps)


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
