"""Curves: one problem at many targets, small ones side by side in NumPy, every point with its own certificate."""

import dataclasses
import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike

from jaxpriv._runtime.clock import ProgressLike, clock_of
from jaxpriv._runtime.compilation import device_errors, own_settings
from jaxpriv._runtime.lanes import with_lanes
from jaxpriv._runtime.validation import finite, is_traced, joint_array, real_array, scalar
from jaxpriv.errors import InfeasibleError, InputError, NotCertifiedError
from jaxpriv.leakage import exact_values
from jaxpriv.problems.distortion import DistortionProblem, replace_form
from jaxpriv.problems.forms import FORMS
from jaxpriv.problems.funnel import whole_entropy
from jaxpriv.program.certificates import certify_program, least_limit
from jaxpriv.program.certify import violation_of
from jaxpriv.program.convex import CertifiedCandidate
from jaxpriv.program.frontiers import AbstractFrontier, need_memory_of_points
from jaxpriv.program.lower import least_value, proved_program
from jaxpriv.program.solution import Solution, Status
from jaxpriv.reductions.reduction import Reduced
from jaxpriv.solvers import Goal, Run
from jaxpriv.solving.choice import (
    BY_DISTANCES,
    SOLVERS,
    STREAMING,
    Request,
    Solver,
    pick_solver,
    step_limit,
    table_solver,
)
from jaxpriv.solving.fallback import with_next_method
from jaxpriv.solving.kinds import STEPS_OF_LANES, Kind, kind_of
from jaxpriv.solving.least_worst import least_worst_leakage
from jaxpriv.solving.loops import Ahead, iterate_lanes, report_points
from jaxpriv.solving.stages import Lowered, Stages, none_of, units_of

# Of a measure that is computed to the nearest number.
_ROUNDING = 1e-11


class Frontier(eqx.Module, AbstractFrontier):
    """Optimal values of one problem over a swept target: a `FunnelFrontier` has the same attributes.

    Attributes:
        form: the keyword of the target that was swept.
        targets: the swept values, shape (B,), or (B, M) for M distortions.
        solutions: a batched `Solution`, leading axis B, in the order of `targets`; its `solver` is the
            one that iterates (some points need no iteration) and its `seconds` are of the whole sweep.
        problem: the problem whose target was swept.
    """

    form: str = eqx.field(static=True)
    targets: np.ndarray
    solutions: Solution
    problem: DistortionProblem

    spent: ClassVar[str] = "distortion"

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> Solution:
        return self.solutions[index]

    def _column(self, name: str) -> np.ndarray:
        return np.asarray(getattr(self.solutions, "value" if name == "upper_bound" else name))

    @property
    def distortion(self) -> np.ndarray:
        """E d_k at every mechanism, (B, M)."""
        return self.solutions.distortion

    def band(self, at: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper): what is proved about the optimal value BETWEEN the points too.

        For a swept scalar budget or leakage budget. Let T be the value of an average measure before its outer
        function: a sum over the outputs, equal to the value itself for mutual information, f-information and gains,
        and e^(k value) up to its sign for maximal leakage (k = 1) and for Sibson's and Arimoto's orders a
        (k = (a - 1)/a). Appending to Y a coin that chooses between two mechanisms averages T, the distortions and
        every limit. So the least T is convex in the budget, and the least distortion convex in the T of its
        leakage budget: chords of upper values are attained, and the price of every point gives a line that lies
        below the whole curve. Both are drawn in T and read in the unit of the measure. Below the swept range
        the upper end is inf, above it that of the last point.

        For a measure of the worst outcome such a coin gives the larger of the two leakages, not their average. Without
        the coin the mixture of two neighbouring mechanisms is one that meets the budget and every limit between them:
        what it leaks, computed again, is the upper end. The lower end is that of a larger budget, in steps. Under
        leakage budgets both ends are steps; so they are under leakage budgets of a set of joints.

        Raises:
            InputError: a curve over multipliers, over several distortions, or without a feasible point; `at` is wrong.
        """
        form = FORMS[self.form]
        if form.prices_distortion or np.ndim(self.targets) == 2:
            raise InputError("band needs a curve over one budget or over leakage budgets")
        at = np.atleast_1d(finite(real_array(at, "at", ndim=(0, 1)), "at"))
        x = np.asarray(self.targets)
        solved = np.isfinite(self.value)
        if not solved.any():
            raise InputError("band needs a curve with a feasible point; every point of this one is infeasible")
        order = np.argsort(x[solved])
        x, value = x[solved][order], np.asarray(self.value)[solved][order]
        bound = np.asarray(self.lower_bound)[solved][order]
        if self._monotone:
            upper = np.where(x[None, :] <= at[:, None], value, np.inf).min(axis=1)
            lower = np.where(x[None, :] >= at[:, None], bound, -np.inf).max(axis=1)
            if form.limits_distortion:
                mechanisms = np.asarray(self.solutions.mechanism)[solved][order]
                upper = np.minimum(upper, [self._mixture(x, mechanisms, float(target)) for target in at])
            return lower, upper
        scale, swept = self.problem.leakage.scale_for(self.problem.sizes[1]), form.limits_distortion
        inner, outer = (np.vectorize(function, otypes=[float]) for function in (scale.inner, scale.outer))
        # With several joints every joint has a budget of its own, which all move together.
        prices = self.problem.sizes[0] if swept else 1
        slope = -np.asarray(self.solutions.multipliers)[solved][order][:, :prices].sum(axis=1)
        # A bound that a release which ignores the data proves holds at every target: its line is level.
        slope = np.where(bound <= self._least(), 0.0, slope)
        place, there = (x, at) if swept else (inner(x), inner(at))
        reached, proved = (inner(value), inner(bound)) if swept else (value, bound)
        # A larger budget never hurts, so the running minimum is an upper bound as well.
        upper = np.interp(there, place, np.minimum.accumulate(reached))
        lines = proved[None, :] + slope[None, :] * (there[:, None] - place[None, :])
        lower = lines.max(axis=1)
        if swept:
            # The least bound of the points holds up to the largest budget among them.
            lower = np.maximum(outer(lower), np.where(at <= x[-1], bound.min(), self._least()))
            upper = outer(upper)
        upper = np.where(at > x[-1], value.min(), np.where(at < x[0], np.inf, upper))
        return lower, upper

    @property
    def _monotone(self) -> bool:
        """Whether the curve is known to be monotone only, not to be convex in any transform."""
        several = self.problem.sizes[0] > 1
        return self.problem.leakage.worst_outcome or (several and FORMS[self.form].limits_leakage)

    def _least(self) -> float:
        """The value of a release that ignores the data (budgets), or of the cheapest outputs (leakage budgets)."""
        if FORMS[self.form].limits_distortion:
            return float(least_value(self.problem, self.problem.leakage))
        cheapest = self.problem.tables()[0].min(axis=1)
        return float(max(joint.sum(axis=0) @ cheapest for joint in self.problem.joints))

    def _mixture(self, x: np.ndarray, mechanisms: np.ndarray, at: float) -> float:
        """What the mixture of the two neighbouring mechanisms leaks, rounded up; inf at and beyond the points."""
        right = int(np.searchsorted(x, at))
        if right == 0 or right == len(x) or x[right] == at:
            return np.inf
        share = (at - x[right - 1]) / (x[right] - x[right - 1])
        mixed = (1.0 - share) * mechanisms[right - 1] + share * mechanisms[right]
        leaks = [exact_values((self.problem.leakage,), joint, mixed)[0] for joint in self.problem.joints]
        return float(max(leaks)) * (1 + _ROUNDING) + _ROUNDING


def frontier(
    problem: DistortionProblem,
    *,
    budgets: ArrayLike | None = None,
    multipliers: ArrayLike | None = None,
    leakage_budgets: ArrayLike | None = None,
    solver: str | Solver = "auto",
    tol: float = 1e-6,
    rtol: float = 0.0,
    max_steps: int | None = None,
    throw: bool = False,
    time_limit: float | None = None,
    progress: ProgressLike = None,
) -> Frontier:
    """Solve `problem` at many budgets (or multipliers, or leakage budgets) at once.

    The problem's own budget is replaced. Points of small problems are computed side by side, by a kernel or by NumPy,
    as those of `solve_many` are, but every point has the reductions of a single solve; what is left without a proof,
    and points of larger problems, run one after another, compiled where the points that are left are worth it. `auto`
    begins with one method on tables for all points, and goes on to the next method at those where it stalls, as `solve`
    does.

    A time limit or Ctrl-C works as in `solve`. All points are returned: one that was not reached has the status
    `best_known`, with the best of its neighbours' mechanisms and mixtures of them (what a smaller budget allows, a
    larger one does) and the best bound that their multipliers prove for it, both certified for the point itself.

    Args:
        problem: supplies the joints and the distortions.
        budgets: shape (B,) for one distortion, (B, M) for several.
        multipliers: likewise.
        leakage_budgets: shape (B,), nats.
        solver, tol, rtol, max_steps: as for `solve`.
        throw: raise at the first point that is infeasible, or whose limits and budgets are not certified to be met by
            any mechanism, instead of marking it `infeasible` or `not_certified`.
        time_limit: seconds for the whole sweep, compiling included, as for `solve`.
        progress: as for `solve`; the record's `done` and `total` count the points. Its numbers are those of the present
            point, or of the one with the largest gap of those that were just done.

    Raises:
        InputError: exactly one sweep must be given, finite, of the right shape.
    """
    goal = Goal(scalar(tol, "tol", low=0.0, open_low=True), scalar(rtol, "rtol", low=0.0))
    sweeps = dict(zip(FORMS, (budgets, multipliers, leakage_budgets), strict=True))
    with clock_of(time_limit, progress) as clock:
        return frontier_within(problem, sweeps, Request(clock, goal, solver, max_steps, throw))


def frontier_within(problem: object, sweeps: Mapping[str, ArrayLike | None], request: Request) -> Frontier:
    """`frontier` as a part of other work, which has a clock of its own; `sweeps` are targets by their form."""
    goal, solver = request.goal, request.solver
    if not isinstance(problem, DistortionProblem):
        raise InputError(f"problem must be a DistortionProblem, not {type(problem).__name__}")
    given = [name for name, values in sweeps.items() if values is not None]
    if len(given) != 1:
        raise InputError("give exactly one of budgets, multipliers and leakage_budgets")
    name = given[0]
    if is_traced(problem, sweeps[name], goal):
        raise InputError("frontier runs outside of jit and vmap only; inside, vmap `solve` over the budgets")
    points = FORMS[name].points(sweeps[name])
    need_memory_of_points(len(points), problem.sizes[2])
    begun = time.perf_counter()
    asked = [replace_form(problem, **{name: point}) for point in points]
    label, chosen, automatic = pick_solver(solver, asked[0], goal)
    if isinstance(chosen, STREAMING) and automatic:  # notes: it was `auto` that chose
        label, chosen = table_solver(problem)
    if isinstance(chosen, STREAMING):
        raise InputError(f"solver: {label} solves one point at a time; call solve at every budget")
    with own_settings(), device_errors():
        solutions, compiling = sweep(asked, points, label, chosen, request)
        if solver == "auto":
            solutions = [
                with_next_method(point, solution, request) if solution.lower_bound > -np.inf else solution
                for point, solution in zip(asked, solutions, strict=True)
            ]
    seconds = {"compile": compiling, "solve": time.perf_counter() - begun - compiling}
    # Static fields must agree before stacking: some points name another "solver", and what it went on from.
    solutions = [
        dataclasses.replace(solution, solver=label, seconds=seconds, notes=(), units=units_of(problem))
        for solution in solutions
    ]
    curve = jax.tree.map(lambda *leaves: np.stack(leaves), *solutions)
    targets = points[:, 0] if points.ndim == 2 and points.shape[1] == 1 else points
    return Frontier(name, targets, curve, problem)


def spread_targets(joint: ArrayLike, distortion: ArrayLike | None, count: int) -> np.ndarray:
    """`count` targets of a frontier between what nothing costs and what everything does, (count,).

    Budgets of a `distortion` (X, Y) lie closer together where the curve is steep, up to the distortion of the best
    constant release. Without one they are disclosures up to H(X), evenly spaced. `joint` is (S, X), or of a set
    (K, S, X), whose first one counts.
    """
    table = np.asarray(joint)
    first = np.asarray(joint_array(table[0] if table.ndim == 3 else table))
    need_memory_of_points(count, first.shape[1])
    shares = np.linspace(0, 1, count + 1)[1:]
    if distortion is None:
        return shares * whole_entropy(first)
    costs, mass = np.asarray(real_array(distortion, "distortion", ndim=2)), first.sum(axis=0)
    least, constant = mass @ costs.min(axis=1), (mass @ costs).min()
    return np.asarray(least + (constant - least) * shares**1.5)


@dataclass(frozen=True)
class _Waiting:
    """A point that is to be iterated on."""

    place: int
    lowered: Lowered
    reduced: Reduced


def sweep(
    asked: list[DistortionProblem], points: np.ndarray, name: str, solver: Solver, request: Request
) -> tuple[list[Solution], float]:
    """The solutions of one problem asked at `points`, in their order; and the seconds spent compiling.

    The least worst-outcome leakage at a budget, a face of tight budgets and a linear program are solves of their own.
    """
    ahead, goal, clock = Ahead(len(asked)), request.goal, request.clock
    limit = step_limit(solver, request.max_steps)
    each_stages = [Stages(problem, name, solver, goal, limit, clock, ahead=ahead) for problem in asked]
    kind = kind_of(asked[0], name if name in SOLVERS else solver, goal)
    results: dict[int, Solution] = {}
    waiting: list[_Waiting] = []
    for i, stages in enumerate(each_stages):
        ahead.done = i
        try:
            if stages.problem.form.minimax:
                results[i] = least_worst_leakage(stages)
                continue
            lowered = stages.lower()
            answer = stages.on_tight_limits(lowered) or stages.closed_form(lowered)
            if answer is None:
                lowered = stages.with_feasible_point(lowered)
            if answer is None and (isinstance(solver, BY_DISTANCES) or lowered.face is not None):
                answer = stages.run(lowered)
        except (InfeasibleError, NotCertifiedError) as error:
            if request.throw:
                raise
            results[i] = none_of(stages.problem, error)
            continue
        if answer is None:
            waiting.append(_Waiting(i, lowered, Reduced.of(lowered.program, lowered.goal)))
        else:
            results[i] = stages.conclude(lowered, answer)
    report_points(clock, name, list(results.values()), len(results), len(asked))
    waiting.sort(key=lambda point: tuple(points[point.place].ravel()))
    for alike in _of_one_shape(waiting):
        width = 0 if kind is None else min(kind.width_uncompiled(len(alike)), _WATCHED if clock.watched else _MOST)
        for start in range(0, len(alike), width or 1):
            chunk = alike[start : start + (width or 1)]
            runs: list[Run | None] = [None] * len(chunk)
            if kind is not None and width and not clock.expired():
                runs = _together(kind, chunk, limit)
            for point, run in zip(chunk, runs, strict=True):
                ahead.done, stages = len(results), each_stages[point.place]
                results[point.place] = stages.conclude(point.lowered, _answer(stages, point, run))
            report_points(clock, name, [results[point.place] for point in chunk], len(results), len(asked))
    ordered = [results[i] for i in range(len(asked))]
    late = [i for i, solution in enumerate(ordered) if solution.status == "best_known"]
    reached = [i for i, solution in enumerate(ordered) if np.isfinite(solution.value) and solution.solver != "none"]
    better = {i: _from_neighbours(i, each_stages[i], points, ordered, np.array(reached, int)) for i in late}
    compiling = sum(stages.compiling for stages in each_stages)
    return [better.get(i, solution) for i, solution in enumerate(ordered)], compiling


def _of_one_shape(waiting: list[_Waiting]) -> list[list[_Waiting]]:
    """The points by which symbols are put together: a price of 0 makes symbols alike that differ at other prices."""
    groups: dict[Hashable, list[_Waiting]] = {}
    for point in waiting:
        leaves, structure = jax.tree.flatten(point.reduced.program)
        key = structure, tuple(leaf.shape for leaf in leaves), point.reduced.symbols.useful.tobytes()
        groups.setdefault(key, []).append(point)
    return list(groups.values())


# Points side by side at most: more share little more, and take seconds to interrupt. Under a time limit, and where
# progress is reported, so many take about a tenth of a second at 24 symbols.
_MOST, _WATCHED = 64, 8


def _together(kind: Kind, chunk: list[_Waiting], limit: int) -> list[Run | None]:
    """The runs of programs of one shape, side by side: what all have in common is stored once."""

    def stack(*leaves: np.ndarray) -> np.ndarray:
        alike = all(np.array_equal(leaf, leaves[0]) for leaf in leaves[1:])
        return leaves[0] if alike else with_lanes(np.stack(leaves))

    program = jax.tree.map(stack, *(point.reduced.program for point in chunk))
    goals = jax.tree.map(lambda *leaves: with_lanes(np.stack(leaves)), *(point.reduced.goal for point in chunk))
    best, steps = iterate_lanes(kind.solver, program, goals, min(limit, STEPS_OF_LANES))
    return [Run(jax.tree.map(lambda leaf, k=k: leaf[k], best), steps[k]) for k in range(len(chunk))]


def _answer(stages: Stages, point: _Waiting, run: Run | None) -> CertifiedCandidate:
    """What the run of a point proves; without one, or where it misses the goal, what a run by itself does."""
    lowered = point.lowered
    if run is not None:
        parts = point.reduced.expanded(run.best)
        stages.steps += int(run.steps)
        answer = stages.certified(lowered, stages.name, *parts)
        # A lane that has used all steps that are allowed has no second run.
        if lowered.goal.proved(answer) or stages.limit <= STEPS_OF_LANES or stages.clock.expired():
            return answer
    return stages.run(lowered)


# A mechanism that exceeds a limit by a larger part of it is not brought within it by mixtures, which mend rounding.
_MENDED = 1e-3


def _from_neighbours(
    i: int, stages: Stages, points: np.ndarray, solutions: list[Solution], reached: np.ndarray
) -> Solution:
    """Point i, which was not reached, with the best that other points prove."""
    if stages.problem.form.minimax:
        return _of_other_budgets(i, points, solutions, stages)
    place = points.reshape(len(points), -1)
    others = reached[reached != i]
    moves = place[others] - place[i]
    order = np.argsort(np.abs(moves).sum(axis=1), kind="stable")
    near = others[order].tolist()
    sides = [others[order][(sign * moves[order] >= 0).all(axis=1)][:1].tolist() for sign in (1.0, -1.0)]
    chosen = [solutions[j] for j in dict.fromkeys([*near[:2], *sides[0], *sides[1]])]
    solution = solutions[i]
    mechanisms = [neighbour.mechanism for neighbour in chosen]
    if sides[0] and sides[1]:  # the mixture of the two nearest that gives this point's budgets
        above, below = sides[0][0], sides[1][0]
        width = float((place[above] - place[below]).sum())
        share = float((place[i] - place[below]).sum()) / width if width > 0 else 0.0
        mechanisms.append((1.0 - share) * solutions[below].mechanism + share * solutions[above].mechanism)
    program = proved_program(stages.problem, solution.scores, 0.0)[0]
    meeting = [mechanism for mechanism in mechanisms if violation_of(program, np.asarray(mechanism)) <= _MENDED]
    # Measured and proved in this point's own program: nothing is concluded from another one's numbers.
    candidates = [solution, *(stages.combined(mechanism, solution) for mechanism in meeting)]
    met = [candidate for candidate in candidates if candidate.status in ("optimal", "best_known")]
    best = min(met, key=lambda candidate: candidate.value, default=solution)

    def bound(neighbour: Solution) -> float:
        duals = neighbour.scores[0], neighbour.weights, neighbour.multipliers
        return float(certify_program(program, solution.mechanism, *duals).lower_bound)

    proof = max([solution, *chosen], key=bound)
    return stages.combined(best.mechanism, proof)


def _of_other_budgets(i: int, points: np.ndarray, solutions: list[Solution], stages: Stages) -> Solution:
    """A mechanism for budgets that are no larger meets these too, and no mechanism for budgets that are no smaller does
    better than theirs. The rules of either may prove more within these budgets.
    """
    met = [j for j, point in enumerate(solutions) if point.status in ("optimal", "best_known")]
    smaller = [solutions[j] for j in met if (points[j] <= points[i]).all()]
    larger = [solutions[j] for j in met if (points[j] >= points[i]).all()]
    best = min(smaller, key=lambda point: point.value)
    least = max(larger, key=lambda point: point.lower_bound)

    def proved(point: Solution) -> float:
        duals = point.scores[0], point.weights, point.multipliers
        return least_limit(stages.problem, *duals, float(least.lower_bound), float(best.value))

    proof = max((least, best), key=proved)
    names = ("mechanism", "value", "leakage", "distortion")
    joined = dataclasses.replace(
        solutions[i],
        lower_bound=np.float64(proved(proof)),
        scores=proof.scores,
        weights=proof.weights,
        multipliers=proof.multipliers,
        **{name: getattr(best, name) for name in names},
    )
    return dataclasses.replace(joined, code=np.int32(Status.OPTIMAL)) if stages.goal.met(joined) else joined
