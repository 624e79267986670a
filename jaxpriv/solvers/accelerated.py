"""Accelerated Bregman proximal gradient in a streaming form: memory 6 |Y||S|, one pass over (x, y) a step.

A smooth average measure is sum_y phi(B w_y) with w_y(s) = P(S=s, Y=y) (`program.streamed.StreamedProgram`). Mutual
information is 1-smooth relative to the negative entropy of W weighted by p(x) (see mirror_descent); other measures are
with a constant that depends on the lifts that mechanisms reach, which the gain G finds. With z the proximal (mirror)
sequence, x its weighted average and 0 < theta <= 1,

    y = (1 - theta) x + theta z,                g_y = gradient of phi at B w_y of y, a rule of the adversary
    z+ = argmin_W  sum_y <g_y, B w_y> + sum_k l_k E d_k + G theta sum_x p_x KL(W_x || z_x)
    x+ = (1 - theta) x + theta z+

converges like 1/k^2 while the gain passes  f(x+) <= f(y) + <g, x+ - y> + G theta^2 KL(z+ || z)  and theta is at least
as large as (1 - theta) / (G theta^2) = 1 / (G theta^2) of the last step makes it. With (1 - theta)^(2/3) on the left
theta is about 3/k in place of 2/k: x, at which the rules are taken, forgets the first steps sooner.

Why it streams: the measure depends on a mechanism only through w, so x and y are held as output joints (Y, S), and z
has Gibbs form softmax( -P(.|x).B'A - t.d ) whatever happens, A the sum of the rules times their steps. A pass over
blocks of x gives its output joint, its distortion, and, as a by-product, sum_x p_x max_y of its logits. That is the
certificate: A/T, T the sum of the steps, is a convex combination of valid rules and therefore valid, and stays so when
every output's rule is moved to the boundary of its set. Of mutual information, where that raises the scores until
sum_s p_s e^g = 1, it about halves the gap. With z settled, A is T g* and an array that stays: the bound of A/T falls
short by 1/T. An average of the newest rules, with weight of step k about k^5, has no such part; one further pass, every
few steps, gives its bound.

Budgets are met inside the proximal step: t rises by the multipliers of that step's own small problem,
a concave maximisation by Newton's method that takes about two passes. The iteration then is the same
method on the smaller set of mechanisms that meet the budgets, with the same rate.
Sources: Hanzely, Richtarik, Xiao 2021 (ABPG, adaptive gain); the streaming form and the free
certificate: own derivation. Larger theta: Chambolle and Dossal 2015, for Euclidean distances.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jaxtyping import Array, PyTree

from jaxpriv._runtime.importing import renamed
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv._runtime.validation import COUNT, check_fields
from jaxpriv.data.channel import Gibbs
from jaxpriv.data.distortion import Matrix
from jaxpriv.data.joints import Stored
from jaxpriv.data.streaming import Pass, check_mesh, gibbs_pass
from jaxpriv.program.convex import Candidate, Program
from jaxpriv.program.streamed import StreamedProgram
from jaxpriv.solvers._base import AbstractSolver, Measures, check_single, newton_prices
from jaxpriv.solvers.interior_point.candidate import no_candidate, with_mechanism, with_rules
from jaxpriv.solvers.interior_point.system import rearrange

# All numbers here are choices that change steps and time only: values and bounds are computed again in float64.
#
# What the descent test forgives of rounding, and the gain G at which it is not asked any more: sums of float32 passes
# are good to some units of rounding (6e-8) of a leakage of order one, those of float64 to 1e-13. A constant of the
# measure is a gain that always passes in exact arithmetic; the cap, relative to it, ends a search that rounding fools.
_SINGLE, _DOUBLE = (3e-7, 20.0), (1e-13, 1e3)
# Each of the first steps, and one of so many later ones, tries a gain this factor below the last one. A step raises it
# by the square of the factor until the test passes, so often at most; no gain is below the least. Lowered in every
# step, the gain fails every second test, which costs a third of all passes.
_UP, _LEAST_GAIN, _MOST_TRIES = 1.2, 1e-3, 40
# Six steps reach a gain of a third. Once in ten steps takes up to 8 % fewer passes at 64 symbols than once in six.
_FIRST_STEPS, _HELD = 6, 10
# The weight of the rules of step k among the latest ones is about k to this power, and their bound is computed once in
# so many steps. Choices: powers of 2 to 8, and 10 steps, take fewer passes on some instances and more on others.
_POWER, _LATE = 5, 20
# The cap where no constant of the measure is known.
_MOST_GAIN = 1e6
# The leakage that an error in the budgets may be worth: this share of the first leakage, then of the estimated gap.
_FIRST_ALLOWANCE, _ALLOWANCE = 1e-3, 0.1
# Passes that meeting the budgets may take, at the start and in a step.
_FIRST_PASSES, _PASSES = 60, 6
# Relative misses between these two limits are allowed: below the smaller one they are rounding of float32 passes, above
# the larger one the average is far from the budgets.
_LEAST_MISS, _MOST_MISS = 1e-9, 1e-3


class StreamedCandidate(eqx.Module):
    """The best mechanism and the best rules so far, both as rules (Y, T) and prices (M,)."""

    gibbs: Arr  # A of the best Gibbs mechanism
    prices: Arr  # t
    value: Arr
    rule: Arr  # the adversary's
    multipliers: Arr
    bound: Arr

    @property
    def gap(self) -> Arr:
        return self.value - self.bound


class Problem(eqx.Module):
    """What the iteration needs: the program, its low-precision copy for the passes, and what a repair costs."""

    program: StreamedProgram  # float64
    operators: StreamedProgram  # in the precision of the passes
    at_feasible_point: Arr  # (M,) E d_k of the mechanism that repairs a violated budget
    feasible_leakage: Arr  # ()
    scales: Arr  # (M,) a typical size of each distortion
    portable: bool = eqx.field(static=True, default=False)  # whether passes leave the kernel of the CPU alone

    @staticmethod
    def of(program: "Problem | Program") -> "Problem":
        """That of a program of one smooth average under budgets, or with a cost. The sum of its rows at x weighs the
        relative entropies, and costs are counted in times of it.
        """
        if isinstance(program, Problem):
            return program
        (term,) = program.terms
        priced = not len(program.budgets)
        mass = term.rows.sum(axis=0)[:, None]
        costs = jnp.where(mass > 0, program.cost[None] if priced else program.constraints, 0.0)
        tables = tuple(Matrix(cost) for cost in costs / jnp.where(mass > 0, mass, 1.0))
        target = (jnp.ones(1, mass.dtype), None) if priced else (None, program.budgets)
        prior, point = term.rows.sum(axis=1), program.feasible_point
        stated = StreamedProgram(Stored(term.rows), tables, prior, term, None, term.support(prior[None])[0], *target)
        leakage = stated.leakage(jnp.matmul(point.T, term.rows.T))
        used, scales = (costs * point).sum(axis=(1, 2)), costs.sum(axis=1).min(axis=1)
        return Problem(stated, stated, used, leakage, jnp.maximum(scales, jnp.finfo(mass.dtype).tiny), portable=True)


class AcceleratedState(eqx.Module):
    """The Gibbs state z, the average x as an output joint, and the step's control."""

    rules: Arr  # (Y, T) A
    prices: Arr  # (M,) t
    total: Arr  # () T, the sum of the steps
    now: Pass  # of z
    average: Arr  # (Y, S) output joint of x
    control: Arr  # () G theta^2 of the last step; inf at the start
    gain: Arr  # () G
    rates: Arr  # (M,) multipliers of the last step: the guess for the next one
    count: Arr  # () steps so far
    late: Arr  # (Y, T) average of the rules of the latest steps
    late_prices: Arr  # (M,) of their multipliers
    allowance: Arr  # () leakage that an error in the budgets may be worth
    since: Arr  # () steps since the gap last fell by a tenth
    mark: Arr  # () the gap then
    best: StreamedCandidate


class AcceleratedMirrorDescent(AbstractSolver):
    """Streaming accelerated Bregman proximal gradient, for every smooth average measure (the `accelerated` solver).

    Args:
        single: passes in float32 (sums and tests in float64), good to a relative gap of about 1e-3; None:
            float32 until that gets no further, then float64.
        patience: steps without the gap falling by a tenth after which it ends.
        mesh: devices that share the blocks of x; None: one.
    """

    single: bool | None = eqx.field(static=True, default=None)  # pyright: ignore[reportIncompatibleVariableOverride]
    patience: int = eqx.field(static=True, default=200)
    mesh: Mesh | None = eqx.field(static=True, default=None)
    attempts: ClassVar[int] = 1
    measures: ClassVar[Measures] = "smooth"

    def __check_init__(self) -> None:
        check_single(self)
        check_fields(self, COUNT, "patience")
        check_mesh(self.mesh, "AcceleratedMirrorDescent")

    def blank(self, problem: Problem | Program) -> StreamedCandidate:
        """No mechanism yet, and the bound that leakage >= 0 gives."""
        program = Problem.of(problem).program
        none = jnp.zeros((), program.prior.dtype)
        rules = jnp.zeros((program.shape[1], len(program.term.reference)), none.dtype)
        prices = jnp.zeros(len(program.distortions), none.dtype)
        return StreamedCandidate(rules, prices, none + jnp.inf, rules, prices, none - jnp.inf)

    def init(self, problem: Problem | Program, attempt: ScalarLike, best: StreamedCandidate) -> AcceleratedState:
        """From the release that is uniform, or as near to it as the budgets allow."""
        del attempt
        problem = Problem.of(problem)
        blank = self.blank(problem)
        zero, none = jnp.zeros_like(blank.value), jnp.zeros_like(blank.prices)
        prices, now = self._meet(problem, blank.rule, zero, none, none, zero, _FIRST_PASSES)
        return AcceleratedState(
            rules=blank.rule,
            prices=prices,
            total=zero,
            now=now,
            average=now.columns,
            control=blank.value,
            gain=jnp.ones_like(zero),
            rates=prices,
            count=jnp.array(0),
            late=blank.rule,
            late_prices=none,
            allowance=_FIRST_ALLOWANCE * (problem.program.leakage(now.columns) - problem.program.least),
            since=jnp.array(0),
            mark=blank.value,
            best=best,
        )

    def resume(self, problem: Problem, state: AcceleratedState) -> AcceleratedState:
        """Go on from `state` with passes in another precision; what the old ones claimed is forgotten."""
        now = self._pass(problem, state.rules, state.prices, state.total)
        fresh = (now, jnp.minimum(state.gain, 1.0), jnp.array(0), jnp.array(jnp.inf), self.blank(problem))
        return eqx.tree_at(lambda s: (s.now, s.gain, s.since, s.mark, s.best), state, fresh)

    def step(self, problem: Problem | Program, state: AcceleratedState) -> AcceleratedState:
        """One accelerated step; the gain is raised until its test passes (it mostly does at once)."""
        problem = Problem.of(problem)
        program = problem.program
        slack, cap = _SINGLE if problem.operators.prior.dtype == np.float32 else _DOUBLE
        cap = min(cap * program.term.rule_set.smoothness, _MOST_GAIN)

        def attempt(carry: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
            gain, tries = carry[0], carry[1]
            # theta^3 = r (1 - theta), r = (control / gain)^(3/2), by Cardano's formula
            r = (state.control / gain) ** 1.5
            u = jnp.cbrt(0.5 * r + jnp.sqrt(0.25 * r * r + r**3 / 27.0))
            theta = jnp.where(jnp.isinf(state.control), 1.0, u - r / (3.0 * u))
            middle = (1.0 - theta) * state.average + theta * state.now.columns
            rules = program.rules(middle)
            g = program.scores(rules)
            step = 1.0 / (theta * gain)
            rules, total = state.rules + step * rules, state.total + step
            if program.prices is not None:
                prices = total * program.prices
                new = self._pass(problem, rules, prices, total)
            else:
                guess = state.prices + step * state.rates
                prices, new = self._meet(problem, rules, total, guess, state.prices, state.allowance, _PASSES)
            average = (1.0 - theta) * state.average + theta * new.columns
            moved = ((average - middle) * g).sum()
            rise = program.leakage(average) - program.leakage(middle) - moved
            divergence = -step * (new.columns * g).sum() - (prices - state.prices) @ new.distortions
            divergence = divergence - (new.log_mass - state.now.log_mass)
            good = (rise <= gain * theta**2 * jnp.maximum(divergence, 0.0) + slack) | (gain >= cap)
            result = (rules, prices, total, new, average, gain * theta**2, gain, (prices - state.prices) / step)
            return jnp.where(good, gain, gain * _UP**2), tries + 1, good, result

        count = state.count + 1
        lower = (count <= _FIRST_STEPS) | (count % _HELD == 0)
        gain = jnp.where(lower, jnp.maximum(state.gain / _UP, _LEAST_GAIN), state.gain)
        first = (gain, jnp.array(0), jnp.array(False))
        none = (
            state.rules,
            state.prices,
            state.total,
            state.now,
            state.average,
            state.control,
            state.gain,
            state.rates,
        )
        _, _, _, result = lax.while_loop(lambda c: ~c[2] & (c[1] < _MOST_TRIES), attempt, (*first, none))
        rules, prices, total, now, average, control, gain, rates = result

        share = (_POWER + 1) / (count + _POWER)
        late = state.late + share * ((rules - state.rules) / (total - state.total) - state.late)
        late_prices = state.late_prices + share * (rates - state.late_prices)
        best, believed = self._record(problem, rules, prices, total, now, state.best)
        best = self._tightened(problem, late, late_prices, jnp.asarray(count % _LATE == 0), best)
        fell = best.gap < 0.9 * state.mark  # by a tenth: see `patience`
        since = jnp.where(fell, 0, state.since + 1)
        return AcceleratedState(
            rules=rules,
            prices=prices,
            total=total,
            now=now,
            average=average,
            control=control,
            gain=gain,
            rates=jnp.maximum(rates, 0.0),
            count=count,
            late=late,
            late_prices=late_prices,
            allowance=_ALLOWANCE * believed,
            since=since,
            mark=jnp.where(fell, best.gap, state.mark),
            best=best,
        )

    def terminate(self, problem: Problem | Program, state: AcceleratedState) -> Arr:
        """After `patience` steps without progress, or where numbers have left their range."""
        del problem
        return (state.since >= self.patience) | ~jnp.isfinite(state.allowance)

    def candidate(self, program: Program, state: AcceleratedState) -> Candidate:
        """The Gibbs mechanism as a table, and the best rules at the prices that are best for them."""
        best, stated = state.best, Problem.of(program).program
        gibbs = Gibbs(stated.joint, stated.distortions, stated.prior, stated.scores(best.gibbs), best.prices)
        candidate = with_mechanism(program, no_candidate(program), gibbs.weights(jnp.arange(program.cost.shape[0])))
        prices = best.multipliers if stated.prices is None else best.multipliers[:0]
        return with_rules(rearrange(program), candidate, best.rule, jnp.ones_like(best.value)[None], prices)

    def _pass(self, problem: Problem, rules: Arr, prices: Arr, total: Arr) -> Pass:
        low, program = problem.operators, problem.program
        spread, scores = program.budgets is not None, program.scores(rules)
        slack = program.slack(rules / jnp.maximum(total, jnp.finfo(total.dtype).tiny))
        levels = -jnp.where(total > 0, total * slack, 0.0)  # no rule yet: outside of some sets
        operators = low.joint, low.distortions, low.prior
        how = {"spread": spread, "mesh": self.mesh, "portable": problem.portable}
        return gibbs_pass(*operators, scores, prices, levels, **how)

    def _meet(
        self, problem: Problem, rules: Arr, total: Arr, guess: Arr, least: Arr, allowance: Arr, passes: int
    ) -> tuple[Arr, Pass]:
        """Prices t >= `least` with E d <= D and (t - least)(E d - D) = 0, to `allowance` of leakage."""
        budgets = problem.program.budgets
        if budgets is None:
            return guess, self._pass(problem, rules, guess, total)
        zero, square = jnp.zeros_like(total), jnp.eye(len(guess), dtype=total.dtype)
        columns = jnp.zeros((len(rules), len(problem.program.prior)), total.dtype)
        blank = Pass(columns, jnp.zeros_like(guess), square, zero, zero)
        slack = jnp.maximum(budgets - problem.at_feasible_point, jnp.finfo(budgets.dtype).tiny)
        unit = 1.0 / problem.scales

        def off(prices: Arr, now: Pass) -> Arr:
            """How much leakage the misses are worth: by the price below a budget, by the repair above it."""
            over = now.distortions - budgets
            below = jnp.where(prices > least, jnp.maximum(-over, 0.0) / slack, 0.0)
            return jnp.maximum(jnp.maximum(over, 0.0) / slack, below).max()

        worth = jnp.maximum(problem.feasible_leakage - problem.program.least, jnp.finfo(total.dtype).tiny)
        floor = jnp.maximum(allowance / worth, _LEAST_MISS)
        floor = jnp.minimum(floor, _MOST_MISS)

        def missing(carry: tuple[Arr, Pass, Array]) -> Arr:
            prices, now, count = carry
            return (count == 0) | ((off(prices, now) > floor) & (count < passes))

        def newton(carry: tuple[Arr, Pass, Array]) -> tuple[Arr, Pass, Array]:
            prices, now, count = carry
            over = now.distortions - budgets
            # A hundred times below what the relative misses allow: it keeps equal budgets from a singular matrix.
            ridge = 1e-12 * jnp.diagonal(now.spread) + jnp.finfo(over.dtype).tiny
            moved = newton_prices(prices, least, now.spread, over, ridge, unit)
            prices = jnp.where(count == 0, guess, moved)  # the first pass is at the guess: one copy of the code
            return prices, self._pass(problem, rules, prices, total), count + 1

        prices, now, _ = lax.while_loop(missing, newton, (guess, blank, jnp.array(0)))
        return prices, now

    def _record(
        self, problem: Problem, rules: Arr, prices: Arr, total: Arr, now: Pass, best: StreamedCandidate
    ) -> tuple[StreamedCandidate, Arr]:
        """Keep the better value and the better bound; also the gap as if the budgets were met exactly."""
        program = problem.program
        leaked = program.leakage(now.columns)
        multipliers = prices / total
        bound = -now.hard / total
        if program.prices is not None:
            value = believed = leaked + program.prices @ now.distortions
        else:
            bound = bound - multipliers @ program.budgets
            over = now.distortions - program.budgets
            drop = jnp.maximum(now.distortions - problem.at_feasible_point, jnp.finfo(over.dtype).tiny)
            share = jnp.clip(jnp.where(over > 0, over / drop, 0.0), 0.0, 1.0).max()
            value = (1.0 - share) * leaked + share * problem.feasible_leakage
            believed = leaked + multipliers @ over
        better, tighter = value < best.value, bound > best.bound
        pick = lambda flag, new, old: jnp.where(flag, new, old)  # noqa: E731
        best = StreamedCandidate(
            gibbs=pick(better, rules, best.gibbs),
            prices=pick(better, prices, best.prices),
            value=pick(better, value, best.value),
            rule=pick(tighter, rules / total, best.rule),
            multipliers=pick(tighter, multipliers, best.multipliers),
            bound=pick(tighter, bound, best.bound),
        )
        return best, jnp.maximum(believed - best.bound, 0.0)

    def _tightened(
        self, problem: Problem, rules: Arr, multipliers: Arr, due: Array, best: StreamedCandidate
    ) -> StreamedCandidate:
        """`best` with the bound of `rules`, if that is `due` and tighter."""
        program, unit = problem.program, jnp.ones_like(best.bound)
        multipliers = multipliers if program.prices is None else program.prices * unit
        least = 0.0 if program.budgets is None else multipliers @ program.budgets

        def look(carry: tuple[Array, StreamedCandidate]) -> tuple[Array, StreamedCandidate]:
            best = carry[1]
            bound = -self._pass(problem, rules, multipliers, unit).hard - least
            new = eqx.tree_at(lambda b: (b.rule, b.multipliers, b.bound), best, (rules, multipliers, bound))
            return jnp.array(False), jax.tree.map(lambda a, b: jnp.where(bound > best.bound, a, b), new, best)

        # Under vmap a loop, unlike a branch, takes the pass only where it is due.
        return lax.while_loop(lambda carry: carry[0], look, (due, best))[1]


def AcceleratedGradient(single: bool | None = None, patience: int = 200, mesh: Mesh | None = None) -> AbstractSolver:
    """`AcceleratedMirrorDescent`, by its name of before version 0.2."""
    renamed("AcceleratedGradient", "AcceleratedMirrorDescent")
    return AcceleratedMirrorDescent(single=single, patience=patience, mesh=mesh)
