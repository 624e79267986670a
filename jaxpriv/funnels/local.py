"""The local methods as solvers of funnel and bottleneck problems, and the chord method that leads them to a target.

They find; they prove nothing. A result is `stationary` where the first-order conditions hold within the tolerance,
and `optimal` only where the elementary bounds happen to prove it (`funnels.release` decides).

A prescribed target by local solves at prices: every release is a point (I(X;Y), cost). Where the hull of the points
known meets the target there is an edge; its slope is the price at which a local solve can find a point below that edge,
which then replaces it. This is bisection on the price with the price computed from the hull, and it ends when no start
finds anything below the edge. The release is the edge's time sharing of its two ends. All starts of a round run in one
batch. Where the leakage is a mean, a linear program over the posteriors of a round and of the release that it chose
before adds the next release, and later starts are near it.

A funnel of another measure begins with the releases of least mutual information, which column generation certifies:
what leaks little by one measure leaks little by others. The compiler of the local steps cannot be interrupted, so under
a time limit that may be too short for it these releases are the result.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._runtime.clock import Clock, Stop
from jaxpriv._runtime.types import Arr
from jaxpriv._runtime.validation import COUNT, COUNT_OR_ZERO, check_fields
from jaxpriv.column_generation import Objective, best_plan
from jaxpriv.errors import InputError
from jaxpriv.funnels.alternating_steps import alternate
from jaxpriv.funnels.atoms.column_generation import BlockProgram
from jaxpriv.funnels.atoms.parts import pool_of
from jaxpriv.funnels.balance import Channel, channel, survey
from jaxpriv.funnels.bounds import elementary_bound
from jaxpriv.funnels.hull import Crossing, Target, crossing_at
from jaxpriv.funnels.local_steps import Landing, descend
from jaxpriv.funnels.pricing import whole_block
from jaxpriv.funnels.solution import AbstractFunnelSolver, FunnelGoal, PosteriorMeasure, measure_of
from jaxpriv.funnels.starts import blended, disclosed, disclosing, random_starts, widened
from jaxpriv.funnels.tidying import tidy
from jaxpriv.leakage import AbstractAverageLeakage, AbstractMeanLeakage, MutualInformation
from jaxpriv.leakage.evaluation import exact_values
from jaxpriv.problems.funnel import BottleneckProblem, FunnelOrBottleneck, FunnelProblem, whole_entropy

# Prices of the first round, as multiples of the mean slope of the curve.
_FIRST_PRICES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.1, 1.4, 1.8, 2.5)
# Rounds in a row that lower nothing, after which the search ends.
_PATIENCE = 2
# Where X itself leaks without limit, shares of a draw that has nothing to do with X, in its place.
_HIDDEN = (1e-15, 1e-12, 1e-8, 1e-4, 1e-2)
# Steps after which the starts of a round are releases, too: where all of them converge to one, the linear program has
# the posteriors on the way to choose from.
_EARLY = 10
# Prices that a round tries between those of the neighbouring edges; odd, so that the middle is one of them.
_SPREAD = 9


@dataclass
class ReleasePool:
    """Every release found, as a point and a mechanism."""

    disclosures: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    mechanisms: list[np.ndarray] = field(default_factory=list)

    def add(self, landing: Landing, sign: float) -> None:
        """The finite results of a batch; the cost is `sign` times the leakage."""
        points = np.asarray(landing.disclosure), sign * np.asarray(landing.leak)
        logs = np.asarray(landing.log_mechanism)
        for i in np.flatnonzero(np.isfinite(points).all(axis=0)):
            self.append(points[0][i], points[1][i], np.exp(logs[i]))

    def append(self, disclosure: float, cost: float, mechanism: np.ndarray) -> None:
        """One release."""
        self.disclosures.append(float(disclosure))
        self.costs.append(float(cost))
        self.mechanisms.append(mechanism)

    def crossing(self, target: Target) -> Crossing:
        """The edge of the hull at the target; at a price the best point, twice."""
        return crossing_at(np.array(self.disclosures), np.array(self.costs), target)

    def shared(self, crossing: Crossing) -> np.ndarray:
        """The time sharing of the two ends as one mechanism (X, Y)."""
        first, second = self.mechanisms[crossing.first], self.mechanisms[crossing.second]
        parts = [(1.0 - crossing.share) * first, crossing.share * second]
        used = [part for part, share in zip(parts, (1.0 - crossing.share, crossing.share), strict=True) if share > 0]
        return np.hstack(used)

    def height(self, crossing: Crossing, slope: float) -> float:
        """Cost - slope I(X;Y) of the crossing."""
        ends = [(1.0 - crossing.share, crossing.first), (crossing.share, crossing.second)]
        return sum(share * (self.costs[i] - slope * self.disclosures[i]) for share, i in ends)


def _planned(problem: FunnelOrBottleneck, mechanisms: list[np.ndarray]) -> np.ndarray:
    """The mechanism (X', Y) that the linear program over the posteriors of `mechanisms` chooses for the target."""
    source, measure, whole = problem.reduction.source, problem.leakage, whole_block(problem.core)
    pool = pool_of(whole, np.vstack([measure_of(mechanism, source)[0] for mechanism in mechanisms]))
    if not isinstance(measure, MutualInformation):
        leaks = np.asarray(measure.outcomes(whole.conditional @ pool.posteriors.T, whole.prior))
        pool = replace(pool, a=leaks).take(np.flatnonzero(np.isfinite(leaks)))
    form = "side" if problem.limits_leakage else problem.form
    objective = Objective(problem.minimises_leakage, form, problem.target)
    weights = best_plan((pool,), objective).weights[0]
    joint = (pool.posteriors.T * weights)[:, weights > 0]
    return joint / joint.sum(axis=1, keepdims=True)


# What multiplies the logarithms of starts near the best release, and the mass that is added to every entry at most.
SPREADS, LIFTS = (0.3, 1.0, 2.0, 4.0), (0.0, 0.02, 0.06)


def _restart_near_best(logarithms: np.ndarray, pool: ReleasePool, slope: float, random: np.random.Generator) -> int:
    """Put the best releases at this price in place of the first starts, a quarter of them at most; how many were put.

    So the best of the short descents are continued by long ones. The two best are given once more with every entry
    positive: what has become zero may have to return. All other starts are put near the best one.
    """
    count, _, outputs = logarithms.shape
    heights = np.array(pool.costs) - slope * np.array(pool.disclosures)
    fitting = [i for i in np.argsort(heights) if pool.mechanisms[i].shape[1] <= outputs]
    best = [widened(pool.mechanisms[i], outputs) for i in fitting[: count // 2]]
    with np.errstate(divide="ignore"):
        given = [blended(mechanism) for mechanism in best[:2]] + [np.log(mechanism) for mechanism in best]
    given = given[: count // 4]
    # The others: entries of the best one times log-normal numbers, plus some mass anywhere.
    count -= len(given)
    scale, lift = (np.resize(each, count)[:, None, None] for each in (SPREADS, LIFTS))
    shape = (count, *best[0].shape)
    near = best[0] * np.exp(scale * random.normal(size=shape)) + lift * random.random(shape) + np.finfo(float).tiny
    given += list(np.log(near / near.sum(axis=2, keepdims=True)))
    for i, logs in enumerate(given):
        logarithms[i] = logs
    return len(given)


# Prices of disclosure beyond this are not tried: mutual information has none above one.
_STEEPEST = 1e6
# Starts where the caller gives no number: entries of a batch, and what limits their number on either side.
_ENTRIES, _FEWEST, _MOST = 30_000, 8, 48
# Entries of a mechanism that a step computes in a second (most machines do more), the seconds that a batch may take at
# most to be one call, and those that a portion of its steps aims at.
_SPEED, _SHORT, _PORTION = 2e6, 1.0, 0.2


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
    return eqx.tree_at(lambda tree: tree.steps, landing, used)


# Processor seconds that compiling the steps, and what measures their residual, takes at most (4 to 9, and 2 to 4, for
# measures of the library).
_COMPILING, _SURVEYING = 12.0, 5.0
# Disclosures, as shares of H(X), of the releases of least mutual information where the target is none; so often the
# edge of their hull at the target is halved. Their share of a time limit.
_SPREAD_OUT, _REFINED, _FOR_INFORMATION = (0.2, 0.4, 0.6, 0.8, 0.95), 6, 0.5


def least_information(problem: FunnelProblem, goal: FunnelGoal) -> Callable[[float], np.ndarray]:
    """A function from a disclosure to the mechanism (X', Y) of least mutual information that has it."""

    def problem_at(disclosure: float) -> FunnelProblem:
        return FunnelProblem(problem.joint, disclosure=min(disclosure, whole_entropy(problem.joint)))

    program = BlockProgram(problem_at(0.0))

    def at(disclosure: float) -> np.ndarray:
        candidate = program.solve(problem_at(disclosure), FunnelGoal(goal.tol, None, goal.clock))
        mechanism = candidate.posteriors.T * candidate.masses
        return mechanism / mechanism.sum(axis=1, keepdims=True)

    return at


@dataclass(frozen=True)
class _FromStarts(AbstractFunnelSolver):
    """A local method from many random starts.

    Args:
        starts: how many in one batch; 48, and fewer for large alphabets, if not given.
        outputs: symbols of Y in every start; |X| + 1 if not given.

    Raises InputError for an argument that is no whole number in its range.
    """

    takes_start: ClassVar[bool] = True
    starts: int | None = None
    outputs: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not getattr(type(self), name):  # the default
                check_fields(self, COUNT_OR_ZERO if name == "seed" else COUNT, name)

    def batch(self, symbols: int, outputs: int) -> int:
        """The number of starts: as asked, or as many as keep a batch to some tens of thousands of entries."""
        return self.starts or int(np.clip(_ENTRIES // (symbols * outputs), _FEWEST, _MOST))


@dataclass(frozen=True)
class AlongTheHull(_FromStarts):
    """A method whose local optima at prices are points of a hull.

    Args:
        rounds: batches at most, each at the price that the hull of the earlier ones gives (at a price: at that one).
        max_steps: steps of one start in one batch (`max_steps` of the call goes first).
        seed: of the random starts.
    """

    rounds: int = 8
    max_steps: int = 1000
    seed: int = 0

    kind: ClassVar[type]
    other: ClassVar[str]  # what takes the problems of the other kind

    def steps(self, problem: FunnelOrBottleneck) -> Callable[..., Landing]:
        """A function of (data, prices (B,), starts (B, X, Y), tolerance, steps); prices are without their sign.

        Raises InputError for a problem of the other kind.
        """
        measure, whole, bottleneck = problem.leakage, _of_value(problem), not problem.minimises_leakage
        if not isinstance(problem, self.kind):
            raise InputError(f"{type(self).__name__} takes a {self.kind.__name__}; use {self.other}")
        assert isinstance(measure, AbstractAverageLeakage)  # `pick_funnel_solver` asked

        def solve(given: Channel, prices: Arr, starts: Arr, tol: float, most: int) -> Landing:
            limits = jnp.asarray(tol), jnp.asarray(most)
            return descend(given, measure, prices, starts, *limits, whole=whole, bottleneck=bottleneck)

        return solve

    def find(self, problem: FunnelOrBottleneck, goal: FunnelGoal) -> PosteriorMeasure:
        """The time sharing of the two best local optima at the target, from "nothing" and X itself.

        A cost is the leakage, of a bottleneck with the other sign: the value of the measure where the price is one of
        that, and the sum elsewhere. A round that lowers the edge by less than a tenth of the tolerance is idle.
        """
        solve, whole = self.steps(problem), _of_value(problem)
        measure, sign = problem.leakage, 1.0 if problem.minimises_leakage else -1.0
        assert isinstance(measure, AbstractAverageLeakage)  # `pick_funnel_solver` asked
        if problem.form == "disclosure":
            target = Target("disclosure", problem.target)
        elif problem.form == "multiplier":
            target = Target("price", sign * problem.target)
        else:
            target = Target("cost", sign * float(measure.outer_inverse(np.asarray(problem.target))), rising=sign > 0)
        steepest = 1.0 if isinstance(measure, MutualInformation) and not whole else _STEEPEST
        source = problem.reduction.source
        symbols = len(source)
        shape = symbols, self.outputs or symbols + 1
        count = self.batch(*shape)
        pool = ReleasePool()

        def add(mechanism: np.ndarray) -> None:
            value = np.asarray(exact_values((measure,), problem.core, mechanism)[0])
            leak = float(value if whole else measure.outer_inverse(value))
            if np.isfinite(leak):
                pool.append(float(disclosed(source, mechanism)), sign * leak, mechanism)

        for mechanism in (np.ones((symbols, 1)), np.eye(symbols)):
            add(mechanism)
        if len(pool.costs) == 1:  # X itself leaks without limit
            for share in _HIDDEN:
                add((1.0 - share) * np.eye(symbols) + share * source)
        if goal.start is not None:
            add(goal.start)
        crossing = pool.crossing(target)
        if isinstance(problem, FunnelProblem) and not isinstance(measure, MutualInformation):
            at = least_information(problem, goal)
            direct = target.form == "disclosure"
            wanted = [target.value] if direct else [share * pool.disclosures[1] for share in _SPREAD_OUT]
            part = _FOR_INFORMATION if goal.clock.left > _COMPILING else 1.0  # nothing else follows
            with goal.clock.share(part), goal.clock.quiet():
                for disclosure in wanted:
                    add(at(disclosure))
                for _ in range(0 if direct else _REFINED):
                    ends = pool.crossing(target)
                    if goal.clock.expired() or ends.first == ends.second:
                        break
                    add(at(0.5 * (pool.disclosures[ends.first] + pool.disclosures[ends.second])))
        seeded, crossing = len(pool.costs) > 2, pool.crossing(target)
        given = channel(problem.core)

        most = self.max_steps if goal.max_steps is None else goal.max_steps
        leaves, structure = jax.tree.flatten(measure)
        fixed = tuple(leaf for leaf in leaves if not eqx.is_array_like(leaf))  # functions of the caller's
        kind = type(self), structure, fixed, problem.core.shape, whole
        searching = goal.clock.allows(_COMPILING, (*kind, count, shape))
        if not searching and goal.clock.stop is Stop.NONE:
            goal.clock.stop = Stop.TIME_LIMIT
        begun, key = time.perf_counter(), jax.random.key(self.seed)
        if searching:
            # What is compiled is compiled by a run of no steps, so that the seconds of solving are those of steps.
            jax.block_until_ready(solve(given, np.zeros(count), random_starts(key, count, *shape), goal.tol, 0))
        compiling = time.perf_counter() - begun
        mean = abs(pool.costs[1] - pool.costs[0]) / max(pool.disclosures[1] - pool.disclosures[0], 1e-300)
        steps, idle, tol = 0, 0, 0.1 * goal.tol
        linear, planned = isinstance(measure, AbstractMeanLeakage), 0
        bound = elementary_bound(problem)
        for number in range(self.rounds if searching else 0):
            if goal.clock.expired() or idle == _PATIENCE:
                break
            starts = np.array(random_starts(jax.random.fold_in(key, number), count, *shape))
            slope = crossing.slope
            prices = np.full(count, abs(slope))
            if number == 0 and target.form != "price":
                prices = np.resize(_FIRST_PRICES, count) * mean
            if number > 0 or seeded:
                promising = _restart_near_best(starts, pool, slope, np.random.default_rng((self.seed, number)))
                # They spread over the prices that a better release may have, the random ones are at the edge's own.
                prices[:promising] = np.abs(np.resize(np.linspace(*crossing.beside, _SPREAD), promising))
            before = pool.height(crossing, slope)
            prices = np.minimum(prices, steepest)
            run = partial(solve, given, prices)
            for allowed in (min(_EARLY, most), most):
                landing = _in_portions(goal.clock, lambda logs, steps, run=run: run(logs, tol, steps), starts, allowed)
                pool.add(landing, sign)
                steps, starts = steps + int(np.max(np.asarray(landing.steps))), np.asarray(landing.log_mechanism)
            if linear:
                with contextlib.suppress(ArithmeticError):  # of finite leakage the posteriors may not reach the target
                    add(_planned(problem, pool.mechanisms[planned:]))
                    planned = len(pool.mechanisms) - 1
            crossing = pool.crossing(target)
            cost = pool.height(crossing, 0.0)
            disclosure = pool.height(crossing, -1.0) - cost
            value = {"disclosure": sign * cost, "cost": disclosure, "price": sign * (cost - target.value * disclosure)}
            goal.clock.report(type(self).__name__, steps, value[target.form], bound)
            idle = 0 if pool.height(crossing, slope) < before - tol else idle + 1
        mechanism = tidy(pool.shared(crossing), source)
        notes, residual = (f"{len(pool.costs)} releases from {count} starts a round",), np.inf
        if not searching:
            notes = ("the releases of least mutual information; the time limit is too short to compile a local search",)
        width = max(symbols, 2 * shape[1])  # of X itself, and of a time sharing
        if searching and goal.clock.allows(_SURVEYING, (*kind, width)):
            begun = time.perf_counter()
            with np.errstate(divide="ignore"):
                logs = np.log(widened(mechanism, width))
            surveyed = survey(given, measure, logs, np.asarray(crossing.slope), np.asarray(sign), whole)
            residual = float(surveyed[2])
            notes = (f"{notes[0]}; residual {residual:.1e}",)
            compiling += time.perf_counter() - begun
        return PosteriorMeasure(
            *measure_of(mechanism, source),
            steps=steps,
            stationary=residual <= goal.tol,
            notes=notes,
            compiling=compiling,
        )


def _of_value(problem: FunnelOrBottleneck) -> bool:
    """Whether the price is one of the measure's value, and that is not the sum over outputs itself."""
    return problem.form == "multiplier" and not isinstance(problem.leakage, AbstractMeanLeakage)


@dataclass(frozen=True)
class DifferenceOfConvex(AlongTheHull):
    """Mirror descent with difference-of-convex steps from many starts, and the hull of what they find.

    Takes funnel problems with any target and any average measure.

    Args:
        starts: how many in one batch; 48, and fewer for large alphabets, if not given.
        outputs: symbols of Y in every start; |X| + 1 if not given.
        rounds: batches at most, each at the price that the hull of the earlier ones gives (at a price: at that one).
        max_steps: steps of one start in one batch (`max_steps` of the call goes first).
        seed: of the random starts.

    Raises:
        InputError: an argument out of its range (when made), a bottleneck problem (when used).
    """

    kind: ClassVar[type] = FunnelProblem
    other: ClassVar[str] = "bottleneck-iteration for a bottleneck"


@dataclass(frozen=True)
class BottleneckIteration(AlongTheHull):
    """The alternating iteration of Tishby, Pereira and Bialek from many starts, and the hull of its points.

    Takes bottleneck problems with any target.

    Args: as for `DifferenceOfConvex`.

    Raises:
        InputError: an argument out of its range (when made), a funnel problem (when used).
    """

    kind: ClassVar[type] = BottleneckProblem
    other: ClassVar[str] = "difference-of-convex for a funnel"


@dataclass(frozen=True)
class Alternating(_FromStarts):
    """The EM-relaxed alternating method at the disclosure asked for, from many starts.

    Takes funnel problems for mutual information with a disclosure.

    Args:
        starts: how many in the one batch; 48, and fewer for large alphabets, if not given.
        outputs: symbols of Y in every start, at least |X|; |X| + 1 if not given.
        max_steps: steps of one start (`max_steps` of the call goes first).
        seed: of the random starts.

    Raises:
        InputError: an argument out of its range (when made), another kind of problem (when used).
    """

    max_steps: int = 3000
    seed: int = 0

    def find(self, problem: FunnelOrBottleneck, goal: FunnelGoal) -> PosteriorMeasure:
        """The best of the mechanisms reached."""
        fits = isinstance(problem, FunnelProblem) and problem.form == "disclosure"
        if not (fits and isinstance(problem.leakage, MutualInformation)):
            raise InputError("solver: alternating takes the funnel of mutual information with a `disclosure`")
        source = problem.reduction.source
        symbols = len(source)
        outputs = self.outputs or symbols + 1
        if goal.start is not None:
            outputs = max(outputs, goal.start.shape[1])
        if outputs < symbols:
            raise InputError(f"outputs must be at least the {symbols} useful symbols with mass for alternating")
        given = channel(problem.core)
        count = self.batch(symbols, outputs)
        random = np.array(random_starts(jax.random.key(self.seed), count, symbols, outputs))
        if goal.start is not None:
            random[0] = blended(widened(goal.start, outputs))
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
