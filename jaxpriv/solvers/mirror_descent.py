"""Mirror descent on the simplex, of every smooth average measure; with unit steps and S = X it is Blahut-Arimoto.

A smooth average measure is F(W) = sum_y phi(A W_y), phi the support function of a set of rules, and the rule of an
output is g_y, the gradient of phi at A W_y. A step, in the geometry of relative entropies weighted by P(x), is

    W[x, y] <- W[x, y] exp( -(t / P(x)) ( cost + A' g + lambda . c )[x, y] ) / Z_x .

F is L-smooth relative to sum_x P(x) D(W_x || .), so that no step of length t <= 1/L increases the objective. For
I(S;Y) is L = 1: its Bregman divergence between W and V is sum_y D(J W_y || J V_y) minus a non-negative term, and
data processing bounds that by sum_x P(x) D(W_x || V_x). For an f-information L is the largest t f''(t) of the
lifts t = P(s|x)/P(s) (chi-squared: twice the largest one; squared Hellinger: 1/(2 sqrt t) of the least one;
Jensen-Shannon: 1/2). An adaptive step needs no L: it is taken where the same inequality holds for it,

    sum_y < g(W+_y) - g(W_y), A W+_y >  <=  (1/t) sum_x P(x) D(W+_x || W_x),

the left side being the Bregman divergence of F, as phi(w) = <g, w>. The budgets are met inside the step: lambda >= 0
maximises the concave dual of the step's own minimisation. A limit on an average measure has a price that follows the
excess, and a set of joints weights that follow the worst one.

Rules of any step, and their averages, are rules of the sets, and prove a bound. The rate is sublinear: see
`hybrid_gradient` for the method that converges linearly.
Sources: Blahut 1972, Arimoto 1972; relative smoothness: Bauschke, Bolte, Teboulle 2017; constants of f-informations:
own derivation.
"""

import math
from collections.abc import Callable
from typing import ClassVar, Literal, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.importing import renamed
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv._runtime.validation import COUNT, COUNT_OR_ZERO, check_fields, scalar
from jaxpriv.errors import InputError
from jaxpriv.leakage.rule_sets import Role
from jaxpriv.program.convex import Candidate, Program
from jaxpriv.solvers._base import (
    AbstractSolver,
    Measures,
    approach_budgets,
    check_single,
    meet_budgets,
    normalised,
)
from jaxpriv.solvers.interior_point.candidate import by_rows, no_candidate, with_mechanism, with_rules
from jaxpriv.solvers.interior_point.mirror_start import first_mechanism
from jaxpriv.solvers.interior_point.system import Data, average_rules, leaks_of, rearrange

# Steps that are as long end at a vertex, and nothing is gained by longer ones, whose numbers would leave their range.
_LONGEST = 1e6
# Shorter steps change nothing that float64 shows. A choice.
_SHORTEST = 1e-9
# Longer by 30 % after an accepted step, half after a refused one (choices): a refused step for every 2.6 accepted ones,
# as 1.3^2.6 = 2.
_LONGER, _SHORTER = 1.3, 0.5
# What rounding makes of a divergence of rules of order one.
_ROUNDINGS = 64.0
# A price of a limit moves by the root of the ratio of both leakages, by these factors at most. Choices.
_LEAST_FACTOR, _MOST_FACTOR = 0.7, 1.4
# What keeps that ratio finite at a limit that allows nothing.
_NOTHING = 1e-12


class MirrorState(eqx.Module):
    """An iterate in the log domain (a mass that underflowed would stay 0)."""

    log_mechanism: Arr  # (X, Y)
    seen: Arr  # (Y, T): A W
    rules: Arr  # (Y, T): about the outputs
    weights: Arr  # (J,) of the terms: 1, a price, or the share of a joint
    multipliers: Arr  # (R,)
    length: Arr
    mean_rules: Arr  # (Y, T): by the lengths of the steps
    total_length: Arr
    count: Arr
    best: Candidate


# "adaptive": a step is refused where the objective may increase, and the next length follows from that.
StepRule: TypeAlias = Literal["adaptive"] | float | Callable[[Arr], ScalarLike]


class AbstractMirrorDescent(AbstractSolver):
    """The iteration; subclasses have a rule for the lengths of its steps."""

    rule: eqx.AbstractVar[StepRule]
    dual_steps: eqx.AbstractVar[int]  # most evaluations of the dual of one iteration, which ends once budgets are met
    unrolled: eqx.AbstractVar[int]  # steps that the mechanism's derivative goes through; 0: it is the implicit one
    takes_start: ClassVar[bool] = True
    attempts: ClassVar[int] = 1

    def __check_init__(self) -> None:
        check_fields(self, COUNT, "dual_steps")
        check_fields(self, COUNT_OR_ZERO, "unrolled")
        check_single(self)

    def _length(self, state: MirrorState) -> Arr:
        """The length of the next step."""
        if self.rule == "adaptive":
            return state.length
        length = self.rule(jnp.asarray(state.count)) if callable(self.rule) else self.rule
        return jnp.asarray(scalar(length, "MirrorDescent: step(n)", low=0.0, open_low=True), state.length.dtype)

    def blank(self, program: Program) -> Candidate:
        return no_candidate(program)

    def init(self, program: Program, attempt: ScalarLike, best: Candidate) -> MirrorState:
        """Start from the uniform mechanism on the support, or near the caller's."""
        del attempt
        data = rearrange(program)
        first = first_mechanism(data).T
        seen = data.matvec(first.T)
        rules = average_rules(data, seen)
        return MirrorState(
            log_mechanism=xp.where(program.support, xp.log(xp.where(program.support, first, 1.0)), -xp.inf),
            seen=seen,
            rules=rules,
            weights=_first_weights(program),
            multipliers=xp.zeros(program.budgets.shape[0], like=first),
            length=xp.ones((), like=first),
            mean_rules=xp.zeros_like(rules),
            total_length=xp.zeros((), like=first),
            count=np.array(0),
            best=best,
        )

    def step(self, program: Program, state: MirrorState) -> MirrorState:
        """One mirror step, its bound, and its repaired mechanism."""
        data = rearrange(program)
        rules, best = state.rules, state.best
        weights = _next_weights(data, state)
        rows, mass = by_rows(data, weights), weights @ _masses(data)

        t = self._length(state)
        # A symbol without mass has no costs, and keeps its row.
        massed = mass > np.finfo(mass.dtype).tiny
        tilt = xp.where(massed, t / xp.where(massed, mass, 1.0), 0.0)[:, None]
        logits = state.log_mechanism - tilt * (data.cost + data.rmatvec(rows * rules)).T
        multipliers = state.multipliers
        if len(multipliers):
            log_new, new, multipliers = meet_budgets(
                program.constraints, program.budgets, logits, tilt, multipliers, self.dual_steps
            )
        else:
            log_new, new = normalised(logits)
        seen_new = data.matvec(new.T)
        rules_new = average_rules(data, seen_new)

        take, length = np.array(True), state.length
        if self.rule == "adaptive":
            divergence = (rows * (rules_new - rules) * seen_new).sum()
            moved = xp.where(program.support, log_new - state.log_mechanism, 0.0)
            allowed = (mass[:, None] * new * moved).sum() / t
            accepted = divergence <= allowed + _ROUNDINGS * float(np.finfo(mass.dtype).eps) * weights.sum()
            # Steps of the relative smoothness need no test, which rounding could fail for ever.
            least = max(_SHORTEST, min(1.0 / term.rule_set.smoothness for term in data.terms))
            take = accepted | (t <= least)
            # Of a set of joints the weights move with the steps: longer ones would go around the saddle point.
            most = 1.0 if program.peaked else _LONGEST
            length = xp.where(accepted, xp.minimum(_LONGER * t, most), xp.maximum(_SHORTER * t, least))

        gained = xp.where(take, t, 0.0)
        total = state.total_length + gained
        share = xp.where(total > 0, gained / xp.where(total > 0, total, 1.0), 0.0)
        mean = state.mean_rules + share * (rules - state.mean_rules)
        for candidate_rules in (rules, mean):  # the last rules win early, the averaged ones in the long run
            best = with_rules(data, best, candidate_rules, weights, multipliers)
        best = with_mechanism(program, best, new)
        return MirrorState(
            log_mechanism=xp.where(take, log_new, state.log_mechanism),
            seen=xp.where(take, seen_new, state.seen),
            rules=xp.where(take, rules_new, rules),
            weights=weights,
            multipliers=xp.where(take, multipliers, state.multipliers),
            length=length,
            mean_rules=mean,
            total_length=total,
            count=state.count + 1,
            best=best,
        )

    def after(self, program: Program, mechanism: Arr, prices: Arr) -> Arr:
        """The mechanism (X, Y) after `unrolled` steps from one near the optimum, whose derivative stands for its own.

        Prices of budgets take a Newton step each time: at the root its derivative is that of the root.
        """
        data = rearrange(program)
        length = self.rule if isinstance(self.rule, float) else 1.0
        tilt = jnp.where(program.mass > 0, length / jnp.where(program.mass > 0, program.mass, 1.0), 0.0)[:, None]
        used = mechanism > np.finfo(mechanism.dtype).tiny

        def once(_: ScalarLike, carry: tuple[Arr, Arr]) -> tuple[Arr, Arr]:
            logs, prices = carry
            rules = average_rules(data, data.matvec(jnp.exp(logs).T))
            base = logs - tilt * (data.cost + data.rmatvec(rules)).T
            if len(prices):
                base, prices = approach_budgets(program.constraints, program.budgets, base, tilt, prices)
            return normalised(base)[0], prices

        logs = jnp.where(used, jnp.log(jnp.where(used, mechanism, 1.0)), -jnp.inf)
        return jnp.exp(lax.fori_loop(0, self.unrolled, once, (logs, prices))[0])

    def terminate(self, program: Program, state: MirrorState) -> Arr:
        """Where numbers have left their range."""
        del program
        return ~xp.isfinite(state.log_mechanism.max() + state.length)


class BlahutArimoto(AbstractMirrorDescent):
    """The Blahut-Arimoto iteration: mirror steps of unit length, of mutual information.

    With S = X and a multiplier it is W(y|x) proportional to q(y) exp(-multiplier d(x, y)), q(y) = sum_x p(x) W(y|x),
    as Blahut 1972 has it. No step increases the objective.

    Args:
        dual_steps: most evaluations of the dual of one iteration, whose Newton steps end once the budgets are met.
        unrolled, single: as for `MirrorDescent`.
    """

    dual_steps: int = eqx.field(static=True, default=100)
    unrolled: int = eqx.field(static=True, default=0)
    single: bool | None = eqx.field(static=True, default=False)  # pyright: ignore[reportIncompatibleVariableOverride]
    rule: ClassVar[float] = 1.0


class MirrorDescent(AbstractMirrorDescent):
    """Mirror descent, of every smooth average measure. Sublinear: for quick looks and for tables too large to factor.

    Args:
        step: the length t of the steps. "adaptive": longer after a step that passed the test of descent, half as long
            after one that did not, so that no step increases the objective. A number: all steps are as long; the
            objective falls where it is at most 1/L, L the relative smoothness of the measure (1 for mutual
            information, 1/2 for the Jensen-Shannon divergence, twice the largest lift for chi-squared). A function of
            the number of steps before, a traced integer: what it returns (a schedule of optax is one). Bounds hold
            whatever the lengths are.
        dual_steps: most evaluations of the dual of one iteration, whose Newton steps end once the budgets are met.
        unrolled: inside of jit the derivative of the mechanism is that of so many further steps, one after another, of
            the length `step` where that is a number and 1 otherwise: it takes their memory, and where optima are not
            unique it is that of the one found, to which the steps return. 0: the implicit derivative at the optimum.
        single: as for `PrimalDualHybridGradient`; the steps in float32 are half of `max_steps` at most.
        adaptive: deprecated. False is `BlahutArimoto()`, True is `step="adaptive"`.

    Raises:
        InputError: `step` is none of these, or a number that is not positive and finite.
    """

    rule: StepRule = eqx.field(static=True)
    dual_steps: int = eqx.field(static=True)
    unrolled: int = eqx.field(static=True)
    single: bool | None = eqx.field(static=True)  # pyright: ignore[reportIncompatibleVariableOverride]
    measures: ClassVar[Measures] = "smooth"

    # The field has another name than its argument: a field `step` would take the place of the method.
    def __init__(
        self,
        step: StepRule = "adaptive",
        *,
        dual_steps: int = 100,
        unrolled: int = 0,
        single: bool | None = False,
        adaptive: bool | None = None,
    ) -> None:
        if adaptive is not None:
            renamed(f"MirrorDescent(adaptive={adaptive})", "MirrorDescent()" if adaptive else "BlahutArimoto()")
            step = step if adaptive else 1.0
        if isinstance(step, (int, float)) and not isinstance(step, bool):
            step = float(step)
        if isinstance(step, float) and 0.0 < step < math.inf:
            self.rule = step
        elif isinstance(step, str) and step == "adaptive":
            self.rule = "adaptive"
        elif callable(step):
            self.rule = step
        else:
            raise InputError(
                "MirrorDescent: step must be 'adaptive', a positive number or a function of the count of steps"
            )
        self.dual_steps = dual_steps
        self.unrolled = unrolled
        self.single = single


def _first_weights(program: Program) -> Arr:
    """Of a limit the price at which a unit of leakage is worth the whole range of the cost; of joints equal shares."""
    span = xp.where(program.support, program.cost, 0.0).max(axis=1).sum()
    priced = xp.maximum(span, np.finfo(program.cost.dtype).tiny)
    joints = max(sum(term.role is Role.PEAK for term in program.terms), 1)
    first = {Role.OBJECTIVE: xp.ones_like(priced), Role.AVERAGE: priced, Role.PEAK: xp.ones_like(priced) / joints}
    return xp.stack([first[term.role] for term in program.terms])


def _masses(data: Data) -> Arr:
    """P(x) under the joint of every term, (J, X), in the units of its rows."""
    each = zip(data.terms, data.sums, strict=True)
    return xp.stack([term.rows[-1] if term.massed else total for term, total in each])


def _next_weights(data: Data, state: MirrorState) -> Arr:
    """Move the prices of limits towards what meets them, and the weights of joints towards the worst."""
    priced = np.array([term.role is Role.AVERAGE for term in data.terms])
    peaks = np.array([term.role is Role.PEAK for term in data.terms])
    weights, over = state.weights, leaks_of(data, state.rules, state.seen)
    if priced.any():
        # Of what an independent release leaks nothing can be avoided.
        blank = data.matvec(xp.ones_like(data.cost[:1]))
        free = [term.support(blank[:, at.rows])[0] for term, at in zip(data.terms, data.layout, strict=True)]
        slack = xp.stack([term.bound - least for term, least in zip(data.terms, free, strict=True)])
        ratio = xp.maximum(over + slack + _NOTHING, 0.0) / (slack + _NOTHING)
        weights = xp.where(priced, weights * xp.clip(xp.sqrt(ratio), _LEAST_FACTOR, _MOST_FACTOR), weights)
    if peaks.any():
        worst = xp.where(peaks, over, -xp.inf).max()
        tilted = xp.where(peaks, weights * xp.exp(xp.clip(over - worst, -1.0, 0.0)), 0.0)
        weights = xp.where(peaks, tilted / tilted.sum(), weights)
    return weights
