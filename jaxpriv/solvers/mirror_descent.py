"""Mirror descent on the simplex; with a unit step and S = X it is the Blahut-Arimoto iteration.

The leakage F(W) = I(S;Y) is 1-smooth relative to the negative entropy of W weighted by P(x): the
Bregman divergence of F between W and V is sum_y D(J W_y || J V_y) minus a non-negative term, and data
processing bounds it by sum_x P(x) D(W_x || V_x). So the step

    W[x, y] <- W[x, y] exp( -t ( sum_s P(s|x) g_y(s) + lambda . d(x, y) ) ) / Z_x,   g_y = ln P(s|y)/P(s)

never increases the objective for t <= 1, and any longer step that passes the same inequality on
its own iterates may be taken (`adaptive`). The budgets are met inside the step: lambda >= 0
maximises the concave dual of the step's own minimisation, by projected Newton with a test of every move.
Sources: Blahut 1972, Arimoto 1972; relative smoothness: Bauschke, Bolte, Teboulle 2017.
"""

from typing import ClassVar

import equinox as eqx
import numpy as np

from jaxpriv import _arrays as xp
from jaxpriv._types import Arr, ScalarLike
from jaxpriv.program.convex import Form, Program
from jaxpriv.solvers._base import (
    AbstractSolver,
    Candidate,
    Leak,
    bound_of_scores,
    leak_of,
    meet_budgets,
    normalised,
    posterior_scores,
    score_costs,
)
from jaxpriv.solvers.interior_point.candidate import no_candidate, with_mechanism
from jaxpriv.solvers.interior_point.start import interior

# Steps that are as long end at a vertex, and nothing is gained by longer ones, whose numbers would leave their range.
_LONGEST = 1e6


class MirrorState(eqx.Module):
    """An iterate in the log domain (a mass that underflowed would stay 0)."""

    log_mechanism: Arr  # (X, Y)
    weights: Arr  # (K,)
    multipliers: Arr  # (R,)
    step_size: Arr
    mean_scores: Arr  # (K, Y, S): running mean of the scores, itself a valid rule
    total_step: Arr
    stalled: Arr
    best: Candidate

    @property
    def length(self) -> Arr:
        return self.step_size


class MirrorDescent(AbstractSolver):
    """Mirror descent / Blahut-Arimoto. Sublinear: for quick looks and for tables too large to factor.

    Args:
        adaptive: try steps longer than one, halving on failure of the descent inequality.
        dual_steps: most evaluations of the dual of one iteration, whose Newton steps end once the budgets are met.
    """

    adaptive: bool = eqx.field(static=True, default=True)
    dual_steps: int = eqx.field(static=True, default=100)
    attempts: int = eqx.field(static=True, default=1)
    takes_start: ClassVar[bool] = True

    def blank(self, program: Program) -> Candidate:
        return no_candidate(program)

    def init(self, program: Program, attempt: ScalarLike, best: Candidate) -> MirrorState:
        """Start from the uniform mechanism on the support, or near the caller's."""
        del attempt
        groups, private, _ = program.joints.shape
        outputs, joints = program.cost.shape[1], program.joints
        support = program.support
        first = xp.where(support, -xp.log(support.sum(axis=1, keepdims=True).astype(joints.dtype)), -xp.inf)
        if program.start is not None:
            mixed = interior(support.T, program.start.T).T
            first = xp.where(support, xp.log(xp.where(support, mixed, 1.0)), -xp.inf)
        return MirrorState(
            log_mechanism=first,
            weights=first_weights(program),
            multipliers=xp.zeros(program.budgets.shape[0], like=joints),
            step_size=xp.ones((), like=joints),
            mean_scores=xp.zeros((groups, outputs, private), like=joints),
            total_step=xp.zeros((), like=joints),
            stalled=np.array(False),
            best=best,
        )

    def step(self, program: Program, state: MirrorState) -> MirrorState:
        """One mirror step, its bound, and its repaired mechanism."""
        mechanism = xp.exp(state.log_mechanism)
        now = leak_of(program, mechanism)
        scores = posterior_scores(program, now.columns)
        weights = next_weights(program, state.weights, now.values)

        t = state.step_size
        log_new, new, multipliers = mirror_step(
            program, state.log_mechanism, scores, weights, state.multipliers, t, self.dual_steps
        )
        after = leak_of(program, new)
        if self.adaptive and program.form is not Form.WORST:  # moving weights would fool the step test
            # f(new) <= f(now) + <g, new - now> + KL / t, summed over the groups with their weights.
            linear = (weights[:, None, None] * scores * (after.columns - now.columns)).sum()
            mass = weights @ program.masses
            kept = xp.where(program.support, log_new - state.log_mechanism, 0.0)
            divergence = (mass[:, None] * new * kept).sum()
            # 1e-14: the rounding of two leakages of order one, below which the test would refuse for ever.
            accepted = weights @ (after.values - now.values) <= linear + divergence / t + 1e-14
            unit = t <= 1.0
            take = accepted | unit
            log_new = xp.where(take, log_new, state.log_mechanism)
            multipliers = xp.where(take, multipliers, state.multipliers)
            new, after = xp.where(take, new, mechanism), _pick(take, after, now)
            # Longer by 30 % after an accepted step, half after a refused one (choices): a refused step for every
            # 2.6 accepted ones, as 1.3^2.6 = 2.
            step_size = xp.where(accepted, xp.minimum(t * 1.3, _LONGEST), xp.maximum(t * 0.5, 1.0))
        else:
            take, step_size = np.array(True), t

        gained = xp.where(take, t, 0.0)
        total = state.total_step + gained
        mean = state.mean_scores + (gained / xp.maximum(total, 1.0)) * (scores - state.mean_scores)
        best = state.best
        for rule in (scores, mean):  # the last rule wins early, the averaged one in the long run
            bound = bound_of_scores(program, rule, weights, multipliers)
            k, price = program.stacked(rule, weights, multipliers)
            best = best.with_dual(k, best.eta, price, bound)
        best = with_mechanism(program, best, new)
        finite = xp.isfinite(weights @ after.values)
        return MirrorState(log_new, weights, multipliers, step_size, mean, total, ~finite, best)


def _pick(take: Arr, a: Leak, b: Leak) -> Leak:
    return Leak(*(xp.where(take, x, y) for x, y in zip(a, b, strict=True)))


def first_weights(program: Program) -> Arr:
    groups = program.joints.shape[0]
    if program.form is Form.LIMIT:
        # At first one unit of leakage is worth the whole range of the cost.
        span = xp.where(program.support, program.cost, 0.0).max(axis=1).sum()
        least = np.finfo(program.cost.dtype).tiny
        return xp.full(groups, xp.maximum(span, least), like=program.joints)
    return xp.full(groups, 1.0 / groups, like=program.joints)


def next_weights(program: Program, weights: Arr, leakages: Arr) -> Arr:
    """Move the price of leakage towards the limit, or the adversary's prior towards the worst."""
    if program.form is Form.OBJECTIVE:
        return weights
    if program.form is Form.LIMIT:
        # 1e-12 keeps the ratio finite at a limit of 0. The price moves by the square root of the ratio, by at
        # most 0.7 and 1.4. Choices.
        factor = xp.sqrt((leakages + 1e-12) / (program.limit + 1e-12))
        return weights * xp.clip(factor, 0.7, 1.4)
    tilted = weights * xp.exp(xp.clip(leakages - leakages.max(), -1.0, 0.0))
    return tilted / tilted.sum()


def mirror_step(
    program: Program, log_mechanism: Arr, scores: Arr, weights: Arr, multipliers: Arr, step: Arr, dual_steps: int
) -> tuple[Arr, Arr, Arr]:
    """argmin_W step (<a, W> + constraints) + sum_x P(x) D(W_x || old): its logs, itself, and its multipliers."""
    mass = (weights @ program.masses)[:, None]
    # A symbol without mass has no costs, and keeps its row.
    massed = mass > np.finfo(log_mechanism.dtype).tiny
    tilt = xp.where(massed, step / xp.where(massed, mass, 1.0), 0.0)
    base = log_mechanism - tilt * (program.cost + score_costs(program, scores, weights))
    if program.budgets.shape[0] == 0:
        logits = base
    else:
        logits, multipliers = meet_budgets(program.constraints, program.budgets, base, tilt, multipliers, dual_steps)
    return *normalised(logits), multipliers
