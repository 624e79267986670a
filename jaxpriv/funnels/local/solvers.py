"""The local methods as solvers of funnel and bottleneck problems.

They find; they prove nothing. A result is `stationary` where the first-order conditions hold within the tolerance,
and `optimal` only where the elementary bounds happen to prove it (`funnels.release` decides).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import numpy as np

from jaxpriv._clock import Clock
from jaxpriv._types import Arr
from jaxpriv._validation import scalar
from jaxpriv.errors import InputError
from jaxpriv.funnels.bounds import elementary_bound
from jaxpriv.funnels.hull import Crossing
from jaxpriv.funnels.local.alternating import alternate, squeeze
from jaxpriv.funnels.local.chords import ReleasePool, Target, chase, disclosing, random_starts, widened
from jaxpriv.funnels.local.descent import Channel, Landing, channel, descend, survey
from jaxpriv.funnels.solution import AbstractFunnelSolver, FunnelGoal, PosteriorMeasure, measure_of
from jaxpriv.leakage import AbstractAverageLeakage, AbstractMeanLeakage, MutualInformation
from jaxpriv.problems.funnel import BottleneckProblem, FunnelProblem

# A mechanism with the outputs that it needs: without negligible ones, and with equal ones merged.
#
# Outputs of one posterior are equivalent. Merging outputs of mass m whose posteriors are eps apart loses of the order
# of m eps^2 nats, so that what is merged here is lost in rounding.


# An output that every symbol chooses with at most this probability is left out.
_NEGLIGIBLE = 1e-13
# Posteriors closer than this in total variation are one.
_EQUAL = 1e-8


def tidy(mechanism: np.ndarray, source: np.ndarray) -> np.ndarray:
    """The mechanism (X, Y) with fewer outputs; rows sum to one."""
    kept = mechanism[:, mechanism.max(axis=0) > _NEGLIGIBLE]
    masses = source @ kept
    kept = kept[:, np.argsort(-masses, kind="stable")]
    merged: list[np.ndarray] = []
    for column in kept.T:
        posterior = source * column / (source @ column)
        for i, other in enumerate(merged):
            if np.abs(posterior - source * other / (source @ other)).sum() <= 2 * _EQUAL:
                merged[i] = other + column
                break
        else:
            merged.append(column)
    result = np.stack(merged, axis=1)
    return result / result.sum(axis=1, keepdims=True)


# Prices of disclosure beyond this are not tried: mutual information has none above one.
_STEEPEST = 1e6
# Starts where none are asked for: entries of a batch, and what limits their number on either side.
_ENTRIES, _FEWEST, _MOST = 30_000, 8, 48
# Entries of a mechanism that a step looks at in a second (most machines do more), the seconds that a batch may take at
# most to be one call, and those that a portion of its steps aims at.
_SPEED, _SHORT, _PORTION = 2e6, 1.0, 0.2


def _whole_number(value: object, name: str, low: int) -> None:
    number = scalar(value, name, low=float(low))
    if number != int(number):
        raise InputError(f"{name} must be a whole number")


@dataclass(frozen=True)
class DifferenceOfConvex(AbstractFunnelSolver):
    """Mirror descent with difference-of-convex steps (`descent`) from many starts, and the hull of what they find.

    Takes funnel problems with any target and any average measure.

    Args:
        starts: how many in one batch; 48, and fewer for large alphabets, if not given.
        outputs: symbols of Y in every start; |X| + 1 if not given.
        rounds: batches at most, each at the price that the hull of the earlier ones gives.
        max_steps: steps of one start in one batch (`max_steps` of the call goes first).
        seed: of the random starts.

    Raises:
        InputError: an argument out of its range (when made), a bottleneck problem (when used).
    """

    starts: int | None = None
    outputs: int | None = None
    rounds: int = 8
    max_steps: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self)

    def find(self, problem: FunnelProblem | BottleneckProblem, goal: FunnelGoal) -> PosteriorMeasure:
        """The time sharing of the two best local optima at the target."""
        if not isinstance(problem, FunnelProblem):
            raise InputError("difference-of-convex takes a FunnelProblem; use bottleneck-iteration for a bottleneck")
        measure = problem.leakage
        whole = problem.form == "multiplier" and not isinstance(measure, AbstractMeanLeakage)
        target = {
            "disclosure": lambda: Target("disclosure", problem.target),
            "leakage_budget": lambda: Target("cost", float(measure.outer_inverse(np.asarray(problem.target)))),
            "multiplier": lambda: Target("price", problem.target),
        }[problem.form]()
        steepest = 1.0 if isinstance(measure, MutualInformation) and not whole else _STEEPEST

        def solve(given: Channel, prices: np.ndarray, starts: np.ndarray, tol: float, most: int) -> Landing:
            return descend(given, measure, prices, starts, np.asarray(tol), np.asarray(most), whole=whole)

        return _along_the_hull(self, problem, goal, target, solve, measure, 1.0, steepest, whole)


@dataclass(frozen=True)
class BottleneckIteration(AbstractFunnelSolver):
    """The alternating iteration of Tishby, Pereira and Bialek from many starts, and the hull of its points.

    Takes bottleneck problems with any target.

    Args:
        starts: how many in one batch; 48, and fewer for large alphabets, if not given.
        outputs: symbols of Y in every start; |X| + 1 if not given.
        rounds: batches at most, each at the price that the hull of the earlier ones gives.
        max_steps: steps of one start in one batch (`max_steps` of the call goes first).
        seed: of the random starts.

    Raises:
        InputError: an argument out of its range (when made), a funnel problem (when used).
    """

    starts: int | None = None
    outputs: int | None = None
    rounds: int = 8
    max_steps: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self)

    def find(self, problem: FunnelProblem | BottleneckProblem, goal: FunnelGoal) -> PosteriorMeasure:
        """The time sharing of the two best fixed points at the target."""
        if not isinstance(problem, BottleneckProblem):
            raise InputError("bottleneck-iteration takes a BottleneckProblem; use difference-of-convex for a funnel")
        target = {
            "disclosure": lambda: Target("disclosure", problem.target),
            "relevance": lambda: Target("cost", -problem.target, rising=False),
            "multiplier": lambda: Target("price", -problem.target),
        }[problem.form]()

        def solve(given: Channel, prices: np.ndarray, starts: np.ndarray, tol: float, most: int) -> Landing:
            return squeeze(given, prices, starts, np.asarray(tol), np.asarray(most))

        return _along_the_hull(self, problem, goal, target, solve, MutualInformation(), -1.0, 1.0, False)


@dataclass(frozen=True)
class Alternating(AbstractFunnelSolver):
    """The EM-relaxed alternating method (`alternating`) at the disclosure asked for, from many starts.

    Takes funnel problems for mutual information with a disclosure.

    Args:
        starts: how many in the one batch; 48, and fewer for large alphabets, if not given.
        outputs: symbols of Y in every start, at least |X|; |X| + 1 if not given.
        max_steps: steps of one start (`max_steps` of the call goes first).
        seed: of the random starts.

    Raises:
        InputError: an argument out of its range (when made), another kind of problem (when used).
    """

    starts: int | None = None
    outputs: int | None = None
    max_steps: int = 3000
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self)

    def find(self, problem: FunnelProblem | BottleneckProblem, goal: FunnelGoal) -> PosteriorMeasure:
        """The best of the mechanisms reached."""
        fits = isinstance(problem, FunnelProblem) and problem.form == "disclosure"
        if not (fits and isinstance(problem.leakage, MutualInformation)):
            raise InputError("alternating takes a FunnelProblem for mutual information with a disclosure")
        source = problem.reduction.source
        symbols = len(source)
        outputs = self.outputs or symbols + 1
        if outputs < symbols:
            raise InputError(f"outputs must be at least the {symbols} useful symbols with mass for alternating")
        given = channel(problem.core)
        count = _batch(self.starts, symbols, outputs)
        random = random_starts(jax.random.key(self.seed), count, symbols, outputs)
        starts = disclosing(source, random, problem.target)
        targets = np.full(count, problem.target)

        def run(starts: Arr, most: int) -> Landing:
            return alternate(given, targets, starts, np.asarray(goal.tol), np.asarray(most))

        begun = time.perf_counter()
        jax.block_until_ready(run(starts, 0))  # compiles
        compiling = time.perf_counter() - begun
        landing = _in_portions(goal.clock, run, starts, self.max_steps if goal.max_steps is None else goal.max_steps)
        leaks, disclosures = np.asarray(landing.leak), np.asarray(landing.disclosure)
        # What misses the target is made up by releasing X itself a part of the time, which costs at most its worth.
        missing = np.maximum(problem.target - disclosures, 0.0)
        ranked = np.where(np.isfinite(leaks), leaks + missing, np.inf)
        best = int(np.argmin(ranked))
        residual = float(landing.residual[best])
        mechanism = tidy(np.exp(np.asarray(landing.log_mechanism[best])), source)
        return PosteriorMeasure(
            *measure_of(mechanism, source),
            steps=int(np.max(np.asarray(landing.steps))),
            stationary=bool(residual <= goal.tol and missing[best] <= goal.tol),
            notes=(f"best of {count} starts; residual of the first-order conditions {residual:.1e}",),
            compiling=compiling,
        )


def _batch(starts: int | None, symbols: int, outputs: int) -> int:
    """The number of starts: as asked, or as many as keep a batch to some tens of thousands of entries."""
    return starts or int(np.clip(_ENTRIES // (symbols * outputs), _FEWEST, _MOST))


def _check(solver: "DifferenceOfConvex | BottleneckIteration | Alternating") -> None:
    """The ranges of the hyper-parameters."""
    if solver.starts is not None:
        _whole_number(solver.starts, "starts", 1)
    _whole_number(solver.max_steps, "max_steps", 1)
    _whole_number(solver.seed, "seed", 0)
    _whole_number(getattr(solver, "rounds", 1), "rounds", 1)
    if solver.outputs is not None:
        _whole_number(solver.outputs, "outputs", 1)


def _in_portions(clock: Clock, run: Callable[[Arr, int], Landing], starts: np.ndarray, most: int) -> Landing:
    """`run(starts, most)` in one call where that is short, otherwise in portions of steps, while the clock allows it.

    A portion goes on from the mechanisms of the one before and finds the lengths of its steps anew.
    """
    step = starts.size / _SPEED
    if not clock.watched and step * most <= _SHORT:
        return run(starts, most)
    landing, used, portion = run(starts, 0), np.zeros(len(starts), dtype=np.int64), max(1, int(_PORTION / step))
    done = 0
    while done < most and not clock.expired():
        allowed = min(portion, most - done)
        begun = time.perf_counter()
        with clock.held():
            new = jax.block_until_ready(run(landing.log_mechanism, allowed))
            landing, used = new, used + np.asarray(new.steps)
        done += allowed
        if not (np.asarray(landing.steps) >= allowed).any():
            break
        spent = max(time.perf_counter() - begun, 1e-6)
        portion = max(1, min(2 * portion, int(portion * _PORTION / spent)))
    return eqx.tree_at(lambda one: one.steps, landing, used)


def _along_the_hull(
    solver: DifferenceOfConvex | BottleneckIteration,
    problem: FunnelProblem | BottleneckProblem,
    goal: FunnelGoal,
    target: Target,
    solve: Callable[..., Landing],
    measure: AbstractAverageLeakage,
    sign: float,
    steepest: float,
    whole: bool,
) -> PosteriorMeasure:
    """Chase the target from "nothing" and X itself; `whole`: costs are values of the measure, not sums."""
    source = problem.reduction.source
    symbols = len(source)
    shape = symbols, solver.outputs or symbols + 1
    count = _batch(solver.starts, *shape)
    given = channel(problem.core)
    width = max(symbols, 2 * shape[1])  # of X itself, and of a time sharing

    def surveyed(mechanism: np.ndarray, slope: float) -> tuple[float, float, float]:
        with np.errstate(divide="ignore"):
            logs = np.log(widened(mechanism, width))
        found = survey(given, measure, logs, np.asarray(slope), np.asarray(sign), whole)
        disclosure, leak, residual = (float(number) for number in found)
        return disclosure, sign * leak, residual

    begun = time.perf_counter()
    pool = ReleasePool()
    for mechanism in (np.ones((symbols, 1)), np.eye(symbols)):
        pool.append(*surveyed(mechanism, 0.0)[:2], mechanism)

    def report(steps: int, crossing: Crossing) -> None:
        cost = pool.height(crossing, 0.0)
        disclosure = pool.height(crossing, -1.0) - cost
        value = {"disclosure": sign * cost, "cost": disclosure, "price": sign * (cost - target.value * disclosure)}
        goal.clock.report(type(solver).__name__, steps, value[target.form], elementary_bound(problem))

    most = solver.max_steps if goal.max_steps is None else goal.max_steps
    key = jax.random.key(solver.seed)
    blank = random_starts(key, count, *shape)
    # What is compiled is compiled by a run of no steps, so that the seconds of solving are those of steps.
    jax.block_until_ready(solve(given, np.zeros(count), blank, goal.tol, 0))
    compiling = time.perf_counter() - begun
    crossing, steps = chase(
        pool,
        target,
        lambda prices, starts: _in_portions(
            goal.clock, lambda logs, steps: solve(given, prices, logs, 0.1 * goal.tol, steps), starts, most
        ),
        key=key,
        shape=shape,
        starts=count,
        rounds=solver.rounds,
        tol=0.1 * goal.tol,
        sign=sign,
        steepest=steepest,
        clock=goal.clock,
        report=report,
    )
    mechanism = tidy(pool.shared(crossing), source)
    _, _, residual = surveyed(mechanism, crossing.slope)
    return PosteriorMeasure(
        *measure_of(mechanism, source),
        steps=steps,
        stationary=residual <= goal.tol,
        notes=(f"{len(pool.costs)} releases from {count} starts a round; residual {residual:.1e}",),
        compiling=compiling,
    )
