"""Least leakage under the worst prior of an L1 ball: P(X|S) is known, the prior of S only nearly.

The priors are Pi = { pi : |pi - p|_1 <= r, pi_s = 0 where p_s = 0 } around p = P_S, the joints pi_s P(x|s). With
V = P(Y|S) = P(X|S) W the problem is

    minimise over W   max over pi in Pi of I_pi(S;Y)     subject to   E_pi d_k <= D_k for every pi in Pi .

I_pi is convex in W and concave in pi (V does not depend on pi), E_pi d is linear in both: a saddle point. Two
proofs meet:

* below: the certified optimum over ANY finite set of priors of the ball (a convex program, `solve`) is a
  lower bound, because the ball leaves the adversary more;
* above: I_pi(S;Y) <= sum_s pi_s D(V_s || q) for ANY distribution q of Y. The largest value of a linear function over
  the ball moves r/2 of mass from the cheapest symbols to the dearest: exact, in one sort.

Each round solves for the priors so far, finds the worst priors of that mechanism, and adds them. The budgets of the
finite programs are a hair tighter, so that finitely many priors keep them on the whole ball; what that hair is worth
(multipliers times hair, by weak duality) is taken off the lower bound.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import rel_entr

from jaxpriv._repr import summary
from jaxpriv._validation import is_traced, scalar
from jaxpriv.errors import InputError, NotCertifiedError
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.solve import solve

# The budgets of the finite programs are tighter by this part of the span of the distortion.
_HAIR = 1e-9
# What rounding may add to a mean distortion, relative to its scale.
_ROUNDING = 1e-13
# Priors nearer than this in L1 are one.
_SAME = 1e-9
# A prior whose leakage and budgets have less than this price took no part in the bound.
_IDLE = 1e-5
# Frank-Wolfe steps for the worst prior of one mechanism.
_MOST_STEPS = 20_000
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class RobustSolution:
    """A mechanism, what it leaks at worst over the ball, and what every mechanism must.

    Attributes:
        value: max over the ball of I(S;Y) at `mechanism`, nats: a proved upper bound on it, rounded up.
        lower_bound: a proved lower bound on the least such maximum, rounded down.
        mechanism: P(y|x), shape (X, Y); every budget holds under every prior of the ball.
        prior: the worst prior of `mechanism` that was found, shape (S,).
        priors: the priors of the last finite program, shape (K, S): with them the bound can be proved again.
        leakage: I(S;Y) under the centre of the ball, nats.
        distortion: the largest E d_k over the ball, shape (M,), rounded up.
        status: `optimal` if value - lower_bound <= tol, otherwise `not_certified`.
        rounds: finite programs solved.
    """

    value: float
    lower_bound: float
    mechanism: np.ndarray
    prior: np.ndarray
    priors: np.ndarray
    leakage: float
    distortion: np.ndarray
    status: Literal["optimal", "not_certified"]
    rounds: int

    __repr__ = summary

    @property
    def gap(self) -> float:
        """value - lower_bound: how far from the best the mechanism can be at most."""
        return self.value - self.lower_bound


def solve_prior_ball(
    problem: DistortionProblem, radius: Any, *, tol: Any = 1e-6, max_rounds: Any = 40
) -> RobustSolution:
    """The mechanism whose I(S;Y) is least under the worst prior within `radius` of the joint's own.

    P(x|s) is that of the joint; the ball is measured in L1, 0 <= radius <= 2 (twice the total variation): at
    0 this is `solve`, at 2 the prior is anything on the support of p. The mathematics is in the module's docstring.

    Args:
        problem: budget form, one stored joint, mutual information, any number of distortions.
        radius: r, a number in [0, 2]; with n people, `sqrt(2 ln((2^|S| - 2)/beta)/n)` holds the population's prior
            with probability 1 - beta (Weissman et al. 2003).
        tol: the largest value - lower_bound that counts as `optimal`, nats.
        max_rounds: most finite programs to solve; the result is valid whenever it stops.

    Raises:
        InputError: an argument is wrong, by name.
        InfeasibleError: no mechanism keeps the budgets under some finite set of priors of the ball, with the proof.
    """
    if not isinstance(problem, DistortionProblem) or problem.budget is None or problem.measured:
        raise InputError(
            "problem must be a DistortionProblem with a budget, on mutual information without further limits"
        )
    if problem.sizes[0] > 1:
        raise InputError("problem: a ball is drawn around one joint; a set of joints was given")
    if is_traced(problem, radius, tol):
        raise InputError("solve_prior_ball runs on the host, outside of jit, vmap and grad")
    radius = scalar(radius, "radius", low=0.0, high=2.0)
    tol = scalar(tol, "tol", low=0.0, open_low=True)
    if isinstance(max_rounds, bool) or not isinstance(max_rounds, int) or not max_rounds >= 1:
        raise InputError("max_rounds must be an integer >= 1")
    return _rounds(problem, radius, tol, max_rounds)


def _rounds(problem: DistortionProblem, radius: float, tol: float, max_rounds: int) -> RobustSolution:
    joint = problem.joints[0]
    prior = joint.sum(axis=1)
    seen = np.flatnonzero(prior > 0)
    given = joint[seen] / prior[seen, None]  # P(x|s)
    ball = _Ball(prior[seen], radius)
    tables = problem.tables()
    span = np.ptp(tables, axis=(1, 2))
    hair = (_HAIR if radius > 0 else 0.0) * span
    allowed = problem.budget + _ROUNDING * (span + np.abs(problem.budget))
    safe = _cheapest(tables, span)
    safest = ball.worst_means(given, tables, safe)[1]
    priors, bound = [prior[seen]], 0.0
    best = None
    for done in range(1, max_rounds + 1):
        joints = np.stack([given * one[:, None] for one in (_padded(priors) if radius > 0 else priors)])
        finite = solve(
            DistortionProblem(joints, list(problem.distortions), budget=problem.budget - hair), tol=0.25 * tol
        )
        prices = np.asarray(finite.multipliers).reshape(len(joints), -1)
        raised = float(finite.lower_bound - (prices @ hair).sum() * (1 + 8 * _EPS))
        if (
            raised > bound + tol
        ):  # priors without a price may go: the bound rises each time, so none comes back for ever
            use = np.asarray(finite.weights) + prices @ span
            priors = [one for k, one in enumerate(priors) if use[k :: len(priors)].max() > _IDLE]
        bound = max(bound, raised)
        mechanism = np.asarray(finite.mechanism)
        dearest, distortion = ball.worst_means(given, tables, mechanism)
        over = distortion > allowed
        fresh = [one for one, high in zip(dearest, distortion > problem.budget - 0.5 * hair, strict=True) if high]
        if over.any() and np.all(safest <= allowed):  # a blend with the cheapest release keeps the budgets already
            share = float(((distortion - problem.budget)[over] / (distortion - safest)[over]).max())
            mechanism = (1.0 - share) * mechanism + share * safe
            distortion = ball.worst_means(given, tables, mechanism)[1]
        worst, value = ball.worst_leakage(given @ mechanism, 0.25 * tol)
        if np.all(distortion <= allowed) and (best is None or value < best.value):
            best = RobustSolution(
                value=value,
                lower_bound=bound,
                mechanism=mechanism,
                prior=_everywhere(worst, seen, len(prior)),
                priors=np.stack([_everywhere(one, seen, len(prior)) for one in priors]),
                leakage=_information(prior[seen], given @ mechanism),
                distortion=distortion,
                status="not_certified",
                rounds=done,
            )
        if best is not None and best.value - bound <= tol:
            break
        fresh.append(worst)
        fresh = [pi for pi in fresh if min(np.abs(pi - one).sum() for one in priors) > _SAME]
        if not fresh:
            break
        priors += fresh
    if best is None:
        raise NotCertifiedError(
            f"max_rounds={max_rounds}: no mechanism found so far keeps the budgets on the whole ball; raise it"
        )
    proved = best.value - bound <= tol
    return replace(best, lower_bound=bound, status="optimal" if proved else "not_certified", rounds=done)


def _padded(priors: list[np.ndarray]) -> list[np.ndarray]:
    """Priors repeated up to a power of two: a program is compiled for each number of joints."""
    size = max(4, 1 << (len(priors) - 1).bit_length())
    return [priors[k % len(priors)] for k in range(size)]


def _cheapest(tables: np.ndarray, span: np.ndarray) -> np.ndarray:
    """For each x the output of least cost, distortions added up in units of their spans."""
    total = np.einsum("mxy,m->xy", tables, 1.0 / np.where(span > 0, span, 1.0))
    return np.eye(total.shape[1])[total.argmin(axis=1)]


def _everywhere(values: np.ndarray, seen: np.ndarray, size: int) -> np.ndarray:
    whole = np.zeros(size)
    whole[seen] = values
    return whole


def _information(prior: np.ndarray, channel: np.ndarray) -> float:
    """I(S;Y) in nats of P(y|s) = `channel` (S, Y) under `prior`."""
    return max(0.0, float(prior @ rel_entr(channel, prior @ channel).sum(axis=1)))


class _Ball:
    """The priors within `radius` of `centre` > 0 in L1."""

    def __init__(self, centre: np.ndarray, radius: float):
        self.centre, self.moved = centre / centre.sum(), 0.5 * radius

    def dearest(self, costs: np.ndarray) -> np.ndarray:
        """The prior of the largest mean cost: mass goes from the cheapest symbols to the dearest one."""
        order = np.argsort(costs, kind="stable")
        top = order[-1]
        moved = min(self.moved, 1.0 - self.centre[top])
        taken = np.minimum(
            self.centre[order], np.maximum(moved - (np.cumsum(self.centre[order]) - self.centre[order]), 0.0)
        )
        prior = self.centre.copy()
        prior[order] -= taken
        prior[top] = self.centre[top] + moved
        return prior / prior.sum()

    def worst_means(
        self, given: np.ndarray, tables: np.ndarray, mechanism: np.ndarray
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """For each distortion the prior under which its mean is largest, and that mean."""
        means = np.einsum("sx,mxy,xy->ms", given, tables, mechanism)
        priors = [self.dearest(row) for row in means]
        return priors, np.array([float(one @ row) for one, row in zip(priors, means, strict=True)])

    def worst_leakage(self, channel: np.ndarray, gap: float) -> tuple[np.ndarray, float]:
        """(a prior of large I(S;Y), a proved upper bound on every prior's), by Frank-Wolfe with pairwise steps.

        The gradient of I at pi is D(V_s || q) - 1 with q = pi V, so the linear oracle's value is the
        upper bound of the module's docstring at that q. Steps move weight from the worst vertex in use to the best.
        """
        vertices = [self.centre]
        weights = np.ones(1)
        upper = np.inf
        for _ in range(_MOST_STEPS):
            prior = weights @ np.stack(vertices)
            gains = rel_entr(channel, prior @ channel).sum(axis=1)
            best = self.dearest(gains)
            upper = min(upper, float(best @ gains))
            value = float(prior @ gains)
            if upper - value <= gap:
                break
            scores = np.stack(vertices) @ gains
            away = int(np.argmin(np.where(weights > 0, scores, np.inf)))
            same = [k for k, one in enumerate(vertices) if np.array_equal(one, best)]
            toward = same[0] if same else len(vertices)
            if not same:
                vertices.append(best)
                weights = np.append(weights, 0.0)
            step = _line_search(prior, vertices[toward] - vertices[away], channel, float(weights[away]))
            weights[toward] += step
            weights[away] -= step
            if weights[away] <= 0.0:
                kept = np.arange(len(vertices)) != away
                vertices, weights = [one for one, keep in zip(vertices, kept, strict=True) if keep], weights[kept]
            weights = weights / weights.sum()
        rounding = 8 * (channel.size + 8) * _EPS * (upper + 1.0)
        return prior, upper + rounding


def _line_search(prior: np.ndarray, direction: np.ndarray, channel: np.ndarray, most: float) -> float:
    """argmax over 0 <= t <= most of I at prior + t direction: the slope falls in t; bisection on its sign."""
    given = rel_entr(channel, 1.0).sum(axis=1)  # sum_y V ln V
    output, change = prior @ channel, direction @ channel

    def rising(t: float) -> bool:
        q = output + t * change
        moving = change != 0
        return (
            float(direction @ given) - float(change[moving] @ np.log(q[moving])) > 0 if np.all(q[moving] > 0) else False
        )

    if rising(most):
        return most
    low, high = 0.0, most
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rising(middle) else (low, middle)
    return low if low > 0 else high
