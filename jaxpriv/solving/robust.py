"""Least leakage under the worst prior of an L1 ball: P(X|S) is known, the prior of S only nearly.

The priors are Pi = { pi : |pi - p|_1 <= r, pi_s = 0 where p_s = 0 } around p = P_S, the joints pi_s P(x|s). With
V = P(Y|S) = P(X|S) W the problem is

    minimise over W   max over pi in Pi of I_pi(S;Y)     subject to   E_pi d_k <= D_k for every pi in Pi .

I_pi is convex in W and concave in pi (V does not depend on pi), E_pi d is linear in both: a saddle point. Two
proofs meet:

* below: the certified optimum over ANY finite set of priors of the ball (a convex program, `solve`) is a
  lower bound, because the ball leaves the adversary more;
* above: I_pi(S;Y) <= sum_s pi_s D(V_s || q) for ANY distribution q of Y. The largest value of a linear function over
  the ball moves r/2 of mass from the cheapest symbols to the costliest: exact, in one sort.

At the saddle point few priors suffice: with pibar the worst one for the leakage and sigma_k the one for the budget k,
no mechanism has less than the value under {pibar, sigma_1, ..} alone. Aggregating never weakens a bound: if priors pi_j
prove theirs with the weights eta_j of the leakage and the prices l_jk of the budgets, then so do sum_j eta_j pi_j and
sum_j l_jk pi_j / sum_j l_jk, as I_pi is concave and E_pi d linear in pi. `solvers.prior_saddle` looks for the saddle
point, which proves nothing, and the two proofs are made with its mechanism and its 1 + M priors. Where that leaves a
gap, rounds follow: each adds the worst priors of the mechanisms of the last one and solves again.

The budgets of the finite programs are slightly tighter, so that finitely many priors keep them on the whole ball; what
the tightening is worth (multipliers times tightening, by weak duality) is taken off the lower bound.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import rel_entr

from jaxpriv._runtime.clock import Clock, ProgressLike, clock_of
from jaxpriv._runtime.module import summary
from jaxpriv._runtime.validation import host_only, index, scalar
from jaxpriv.errors import InfeasibleError, InputError, NotCertifiedError, ResourceError
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.solution import SearchResult, Solution
from jaxpriv.solvers import Goal
from jaxpriv.solvers.prior_saddle import saddle_point
from jaxpriv.solving.choice import Request
from jaxpriv.solving.solve import solve_within

# The budgets of the finite programs are tighter by this part of the span of the distortion.
_TIGHTENING = 1e-9
# They are tighter by this part of `tol` at most: the bound loses the tightening times a multiplier.
_TIGHTENING_OF_TOL = 1e-2
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
class RobustSolution(SearchResult):
    """A mechanism, what it leaks at worst over the ball, and what every mechanism must.

    Attributes:
        value: max over the ball of I(S;Y) at `mechanism`, nats: a proved upper bound on it, rounded up.
        lower_bound: a proved lower bound on the least such maximum, rounded down.
        mechanism: P(y|x), shape (X, Y); every budget holds under every prior of the ball.
        prior: the worst prior of `mechanism` that was found, shape (S,).
        priors: the priors of the finite program that proved the bound, shape (K, S): it can be proved again.
        leakage: I(S;Y) under the centre of the ball, nats.
        distortion: the largest E d_k over the ball, shape (M,), rounded up.
        status: `optimal` if value - lower_bound <= tol, `best_known` where a time limit or an interrupt came first,
            otherwise `not_certified`.
        rounds: finite programs solved.
        stopped: why it ended before its goal: 0 it did not, 1 the time limit, 2 an interrupt.
    """

    value: float
    lower_bound: float
    mechanism: np.ndarray
    prior: np.ndarray
    priors: np.ndarray
    leakage: float
    distortion: np.ndarray
    status: Literal["optimal", "not_certified", "best_known"]
    rounds: int
    stopped: int = 0

    __repr__ = summary

    @property
    def gap(self) -> float:
        """value - lower_bound: how far from the best the mechanism can be at most."""
        return self.value - self.lower_bound


@host_only
def solve_prior_ball(
    problem: DistortionProblem,
    radius: float,
    *,
    tol: float = 1e-6,
    max_rounds: int = 40,
    time_limit: float | None = None,
    progress: ProgressLike = None,
) -> RobustSolution:
    """The mechanism whose I(S;Y) is least under the worst prior within `radius` of the joint's own.

    P(x|s) is that of the joint; the ball is measured in L1, 0 <= radius <= 2 (twice the total variation): at
    0 this is `solve`, at 2 the prior is anything on the support of p. The mathematics is in the module's docstring.

    Args:
        problem: budget form, one stored joint, mutual information, any number of distortions.
        radius: r, a number in [0, 2]; with n people, `sqrt(2 ln((2^|S| - 2)/beta)/n)` holds the population's prior
            with probability 1 - beta (Weissman et al. 2003). That needs every private symbol that can occur in the
            support of p: the ball gives none to a symbol without mass, of which P(x|s) is not known either.
        tol: the largest value - lower_bound that counts as `optimal`, nats.
        max_rounds: most finite programs to solve; the result is valid whenever it stops.
        time_limit, progress: as for `solve`; a step of the record is a finite program.

    Raises:
        InputError: an argument is wrong, by name.
        InfeasibleError: no mechanism keeps the budgets under some finite set of priors of the ball, with the proof.
        NotCertifiedError: no mechanism that was found keeps the budgets on the whole ball.
        ResourceError: a finite program would need more memory than there is.
    """
    if not isinstance(problem, DistortionProblem) or problem.budget is None or not problem.of_information:
        raise InputError(
            "problem must be a DistortionProblem with a budget, on mutual information without further limits"
        )
    if problem.sizes[0] > 1:
        raise InputError("problem: a ball is drawn around one joint; a set of joints was given")
    if problem.forbids:
        raise InputError("distortion: solve_prior_ball takes finite costs; inf, which forbids a pair, is for `solve`")
    radius = scalar(radius, "radius", low=0.0, high=2.0)
    tol = scalar(tol, "tol", low=0.0, open_low=True)
    max_rounds = index(max_rounds, "max_rounds", low=1)
    with clock_of(time_limit, progress) as clock:
        return _rounds(problem, radius, tol, max_rounds, clock)


def _rounds(problem: DistortionProblem, radius: float, tol: float, max_rounds: int, clock: Clock) -> RobustSolution:
    joint = np.asarray(problem.joints[0])
    prior = joint.sum(axis=1)
    seen = np.flatnonzero(prior > 0)
    given = joint[seen] / prior[seen, None]  # P(x|s)
    ball = _Ball(prior[seen], radius)
    tables = np.asarray(problem.tables())
    span = np.ptp(tables, axis=(1, 2))
    tightening = (min(_TIGHTENING, _TIGHTENING_OF_TOL * tol) if radius > 0 else 0.0) * span
    worst_case = _WorstCase(ball, given, tables, problem.budget, 0.25 * tol, clock)
    priors, offers = [ball.centre], []
    if radius > 0 and not clock.expired():
        try:
            start, worst = saddle_point(
                given, ball.centre, radius, tables, problem.budget - tightening, 0.1 * tol, clock
            )
        except ResourceError:
            pass  # the rounds do without it
        else:
            priors, offers = _others([ball.drawn_in(prior) for prior in worst], []), [start]
    best, bound, proof, proved = None, 0.0, priors, False
    done = 0
    while done < max_rounds and not proved and not clock.expired():
        done += 1
        joints = np.stack([given * prior[:, None] for prior in _padded(priors)])
        try:
            finite = _finite(problem, joints, tightening, tol, clock)
        except InfeasibleError:
            if not tightening.any():
                raise
            tightening = np.zeros_like(tightening)  # the budgets have no slack for it; without it they may be feasible
            finite = _finite(problem, joints, tightening, tol, clock)
        weights, prices = _weights_and_prices(finite, len(joints))
        raised = float(finite.lower_bound - (prices @ tightening).sum() * (1 + 8 * _EPS))
        active = priors
        if raised > bound + tol:
            # Priors without a price may go: the bound rises each time, so none is added and removed for ever.
            use = weights + prices @ span
            active = [prior for k, prior in enumerate(priors) if use[k :: len(priors)].max() > _IDLE]
        if raised > bound:
            bound, proof = raised, priors
        fresh = []
        for mechanism in [*offers, np.asarray(finite.mechanism)]:
            candidate, worst = worst_case.of(mechanism, tightening)
            fresh += worst
            if candidate is not None and (best is None or candidate.value < best.value):
                best = candidate
            proved = best is not None and best.value - bound <= tol
            if proved:
                break
        if best is not None:
            clock.report("prior-ball", done, best.value, bound)
        fresh, offers = _others(fresh, active), []
        if not fresh:
            break
        priors = active + fresh
    if best is None:
        best, _ = worst_case.of(worst_case.safe, tightening)
    if best is None:
        advice = "raise max_rounds" if done == max_rounds else "more rounds would not help: raise the budget a little"
        advice = "raise time_limit" if clock.stop else advice
        raise NotCertifiedError(f"no mechanism of {done} rounds keeps the budgets on the whole ball; {advice}")
    return RobustSolution(
        value=best.value,
        lower_bound=bound,
        mechanism=best.mechanism,
        prior=_everywhere(best.prior, seen, len(prior)),
        priors=np.stack([_everywhere(weighted, seen, len(prior)) for weighted in proof]),
        leakage=_information(ball.centre, given @ best.mechanism),
        distortion=best.distortion,
        status="optimal" if proved else "best_known" if clock.stop else "not_certified",
        rounds=done,
        stopped=int(clock.stop),
    )


@dataclass(frozen=True)
class _Evaluated:
    """A mechanism that keeps the budgets on the ball, its worst prior, and the proved bound on the leakage under it."""

    mechanism: np.ndarray
    prior: np.ndarray
    value: float
    distortion: np.ndarray


class _WorstCase:
    """What a mechanism is worth on the whole ball; `gap` is how far its worst leakage may be from the bound on it."""

    def __init__(
        self, ball: "_Ball", given: np.ndarray, tables: np.ndarray, budget: np.ndarray, gap: float, clock: Clock
    ):
        self.ball, self.given, self.tables, self.budget, self.gap = ball, given, tables, budget, gap
        self.clock = clock
        span = np.ptp(tables, axis=(1, 2))
        self.allowed = budget + _ROUNDING * (span + np.abs(budget))
        self.safe = _cheapest(tables, span)
        self.safest = ball.worst_means(given, tables, self.safe)[1]

    def of(self, mechanism: np.ndarray, tightening: np.ndarray) -> tuple[_Evaluated | None, list[np.ndarray]]:
        """(the mechanism, made to keep the budgets if that can be, the priors that are worst for it)."""
        costliest, distortion = self.ball.worst_means(self.given, self.tables, mechanism)
        over = distortion > self.allowed
        worst = [
            costly for costly, high in zip(costliest, distortion > self.budget - 0.5 * tightening, strict=True) if high
        ]
        if over.any() and np.all(self.safest <= self.allowed):  # a blend with the cheapest release keeps them already
            share = float(((distortion - self.budget)[over] / (distortion - self.safest)[over]).max())
            mechanism = (1.0 - share) * mechanism + share * self.safe
            distortion = self.ball.worst_means(self.given, self.tables, mechanism)[1]
        prior, value = self.ball.worst_leakage(self.given @ mechanism, self.gap, self.clock)
        within = bool(np.all(distortion <= self.allowed))
        return _Evaluated(mechanism, prior, value, distortion) if within else None, [*worst, prior]


def _weights_and_prices(finite: Solution, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The weights (K,) of the joints of a finite program and the prices (K, M) of their budgets."""
    multipliers = np.asarray(finite.multipliers)
    if count == 1:
        return np.ones(1), multipliers[None]
    return multipliers[-count:], multipliers[:-count].reshape(count, -1)


def _others(priors: list[np.ndarray], present: list[np.ndarray]) -> list[np.ndarray]:
    """Those of `priors` that are neither among the known ones nor twice among themselves."""
    new: list[np.ndarray] = []
    for prior in priors:
        if all(np.abs(prior - other).sum() > _SAME for other in [*present, *new]):
            new.append(prior)
    return new


def _finite(
    problem: DistortionProblem, joints: np.ndarray, tightening: np.ndarray, tol: float, clock: Clock
) -> Solution:
    """The certified optimum over `joints`, with budgets tighter by `tightening`."""
    finite = DistortionProblem(joints, list(problem.distortions), budget=problem.budget - tightening)
    with clock.quiet():
        return solve_within(finite, Request(clock, Goal(0.25 * tol, 0.0)))


def _padded(priors: list[np.ndarray]) -> list[np.ndarray]:
    """Priors repeated up to a power of two: a program is compiled for each number of joints."""
    size = 1 << (len(priors) - 1).bit_length()
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

    def drawn_in(self, prior: np.ndarray) -> np.ndarray:
        """`prior` drawn towards the centre as far as it takes to lie in the ball."""
        away = prior - self.centre
        return self.centre + min(1.0, 2.0 * self.moved / max(float(np.abs(away).sum()), _EPS)) * away

    def costliest(self, costs: np.ndarray) -> np.ndarray:
        """The prior of the largest mean cost: mass goes from the cheapest symbols to the costliest one."""
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
        priors = [self.costliest(row) for row in means]
        return priors, np.array([float(vertex @ row) for vertex, row in zip(priors, means, strict=True)])

    def worst_leakage(self, channel: np.ndarray, gap: float, clock: Clock) -> tuple[np.ndarray, float]:
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
            best = self.costliest(gains)
            upper = min(upper, float(best @ gains))
            value = float(prior @ gains)
            if upper - value <= gap or clock.expired():
                break
            scores = np.stack(vertices) @ gains
            away = int(np.argmin(np.where(weights > 0, scores, np.inf)))
            same = [k for k, vertex in enumerate(vertices) if np.array_equal(vertex, best)]
            toward = same[0] if same else len(vertices)
            if not same:
                vertices.append(best)
                weights = np.append(weights, 0.0)
            step = _line_search(prior, vertices[toward] - vertices[away], channel, float(weights[away]))
            weights[toward] += step
            weights[away] -= step
            if weights[away] <= 0.0:
                remaining = np.arange(len(vertices)) != away
                vertices, weights = (
                    [vertex for vertex, keep in zip(vertices, remaining, strict=True) if keep],
                    weights[remaining],
                )
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
