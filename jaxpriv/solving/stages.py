"""One problem whose tables fit into memory, outside of jit: lowered, reduced, iterated on, certified.

Minimum distortion under limits and minimum leakage under budgets are one convex program each. The least
worst outcome within budgets is not (`least_worst`).
"""

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from jaxpriv._runtime import arrays as xp
from jaxpriv._runtime.clock import Clock
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv._runtime.validation import is_traced
from jaxpriv.errors import InfeasibleError, InputError, JaxprivError
from jaxpriv.leakage import AbstractLeakage, exact_values
from jaxpriv.leakage._base import Scale
from jaxpriv.leakage.rule_sets import ENTROPIC, Role
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.certify import excess_of
from jaxpriv.program.convex import CertifiedCandidate, Program
from jaxpriv.program.lower import (
    Limits,
    ProblemStack,
    distance_program,
    equals_least,
    finite_limits,
    flags_of,
    interval_of,
    least_value,
    limits_of,
    measured_program,
    proved_program,
    proving_program,
    scale_and_shift,
    without_budgets,
)
from jaxpriv.program.solution import DOUBLE_TOLERANCE, Solution, Status, no_solution, within_limits
from jaxpriv.reductions.closed_forms import (
    CORRECTIONS,
    LEFT_OUT,
    best_mixture,
    cheapest_release,
    check,
    closed_form_of,
    constant_releases,
    independent_release,
    no_rules,
    spending_exactly,
)
from jaxpriv.reductions.faces import Face
from jaxpriv.reductions.reduction import Reduced
from jaxpriv.solvers import Candidate, Goal, MirrorDescent, PrimalDualHybridGradient
from jaxpriv.solvers._base import before_double, in_precision
from jaxpriv.solvers.linear_program import LinearProgram, highs
from jaxpriv.solving.choice import Solver
from jaxpriv.solving.feasible_points import feasible_with_limits
from jaxpriv.solving.loops import Ahead, LastState, RunResult, run
from jaxpriv.solving.tight_limits import (
    StatedProgram,
    at_least_value,
    feasible_at_least,
    independent_vertex,
    solve_without_slack,
)
from jaxpriv.verifier.logarithms import upper

# How near a mechanism inside the limits is looked for, or to 30 % of its distance: it repairs candidates, so that any
# will do, and one further inside costs more steps. A choice.
AWAY = Goal(1e-9, 0.3)


@dataclass(frozen=True)
class Lowered:
    """A convex program and how near to its optimum an answer has to be.

    Attributes:
        limits: what its terms state.
        goal: in units of its total.
        face: where to iterate, if its budgets have no slack or pairs are forbidden.
        tight: which terms have a limit without slack.
        whole: whether its value reads as that of the problem: its progress is reported.
    """

    program: Program
    limits: Limits
    goal: Goal
    face: Face | None = None
    tight: tuple[bool, ...] = ()
    whole: bool = False


@dataclass
class Stages:
    """One call: the problem, the solver, the goal in the unit of the objective, what was used so far.

    lower -> limits without slack -> feasible point -> presolve, iterate, expand, certify -> solution. Each stage is a
    method.
    """

    problem: DistortionProblem
    name: str
    solver: Solver
    goal: Goal
    limit: int
    clock: Clock
    steps: int = 0
    compiling: float = 0.0
    # The last mechanism and what it leaks, by the identity of the measure (the problem keeps its measures alive).
    leaks_of_last: tuple[object, dict[int, float]] = field(default_factory=lambda: (None, {}))
    ahead: Ahead | None = None  # the sweep that the call is part of
    start: Arr | None = None  # the caller's mechanism to begin with
    last: LastState | None = None  # where the run before ended, of several near each other
    vertices: bool = False  # whether the simplex method takes the place of NumPy's steps on linear programs

    def __post_init__(self) -> None:
        self.begun = time.perf_counter()
        self.single = getattr(self.solver, "single", False)
        self.goal = own_goal(self.problem, self.goal)

    @cached_property
    def further(self) -> Limits:
        """The limits beside that of a search for the least one."""
        return limits_of(self.problem)

    @cached_property
    def scale_and_shift(self) -> tuple[Scale, Any]:
        """How the value of the program reads as one of the measure."""
        return scale_and_shift(self.problem)

    def solved(self) -> Solution:
        """The least distortion under limits, or the least average leakage within budgets: one convex program."""
        lowered = self.lower()
        answer = self.on_tight_limits(lowered)
        if answer is None:
            lowered = self.with_feasible_point(lowered)
            answer = self.run(lowered)
        return self.conclude(lowered, self.or_at_least_value(lowered, answer))

    def or_at_least_value(
        self, lowered: Lowered, answer: CertifiedCandidate, stated: StatedProgram = measured_program
    ) -> CertifiedCandidate:
        """The answer; where limits have next to no slack and it misses the goal, with what solves the problem at their
        least values: its rules prove nearly as much here, and its mechanism costs next to nothing more. The program is
        the one that `stated` makes of the problem and the limits.
        """
        if not lowered.limits or lowered.goal.proved(answer) or self.clock.expired():
            return answer
        at_least = at_least_value(lowered.program, self.problem, lowered.limits, stated)
        if at_least is None:
            return answer
        mechanisms, duals = at_least
        offered = [answer.mechanism, np.asarray(lowered.program.feasible_point), *mechanisms]
        certified = [self.certified(lowered, answer.solver, mechanism, *duals) for mechanism in offered]
        best = min(
            (candidate for candidate in certified if candidate.violation <= 0),
            key=lambda candidate: candidate.value,
            default=answer,
        )
        duals = answer.duals if answer.bound > certified[0].bound else duals
        other = self.certified(lowered, answer.solver, best.mechanism, *duals)
        return min(answer, other, key=_missed)

    def on_tight_limits(self, lowered: Lowered) -> CertifiedCandidate | None:
        """The answer where a limit has no slack."""
        if not any(lowered.tight):
            return None
        exact = self.closed_form(lowered)
        vertex = None if exact is not None else solve_without_slack(lowered.program, lowered.tight)
        if vertex is None:
            return exact
        answer = self.certified(lowered, "linear-program", *vertex)
        if answer.violation > 0:  # what rounding missed was repaired with a feasible point that ignores the budgets
            lowered = self.with_feasible_point(lowered)
            vertex = solve_without_slack(lowered.program, lowered.tight) or vertex
            answer = self.certified(lowered, "linear-program", *vertex)
        if lowered.goal.proved(answer) or not _above_least(lowered):
            return answer
        return min(answer, self.run(lowered), key=lambda candidate: (candidate.violation, candidate.gap))

    def lower(self) -> Lowered:
        """The program of the problem's own form, with its feasible point."""
        problem, limits = self.problem, self.further
        without_slack = check_limits(problem, limits)
        program = measured_program(problem, limits)
        tight = flags_of(program, problem, limits, without_slack)
        without_interior = _needs_no_interior(program, tight)
        feasible_point, face = (
            (independent_release(program), None) if without_interior else self.feasible_point(program)
        )
        program = dataclasses.replace(program, feasible_point=feasible_point, start=self.start)
        if not problem.form.limits_distortion and not any(tight):
            program = feasible_at_least(program, problem, limits)
        goal = inner_goal(self.goal, *self.scale_and_shift, problem)
        return Lowered(program, limits, goal, face, tight, whole=True)

    def with_feasible_point(self, lowered: Lowered) -> Lowered:
        """The program with a feasible point that meets the budgets, also if limits have no slack (not in `lower`)."""
        program = lowered.program
        if not _needs_no_interior(program, lowered.tight):
            return lowered
        feasible_point, face = self.feasible_point(program)
        program = dataclasses.replace(program, feasible_point=feasible_point)
        return dataclasses.replace(lowered, program=program, face=face)

    def conclude(self, lowered: Lowered, answer: CertifiedCandidate) -> Solution:
        """The solution that an answer to the program of the problem is; where it exceeds a limit, the best release that
        is known without an iteration takes its place.
        """
        program = lowered.program
        if answer.violation > 0:
            offered = [program.feasible_point, *constant_releases(program)]
            if len(program.budgets):
                offered.append(cheapest_release(program))
            certified = [
                self.certified(lowered, answer.solver, np.asarray(mechanism), *answer.duals) for mechanism in offered
            ]
            answer = min(certified, key=lambda candidate: (candidate.violation, candidate.value))
        return self.finish(answer, *interval_of(self.problem, *self.scale_and_shift, answer.value, answer.bound))

    def combined(self, mechanism: np.ndarray, proof: Solution) -> Solution:
        """The solution that a mechanism and the rules and prices of another one are together, certified anew."""
        program = dataclasses.replace(proved_program(self.problem, proof.scores, 0.0)[0], feasible_point=mechanism)
        lowered = Lowered(program, self.further, self.goal)
        duals = proof.scores[0], proof.weights, proof.multipliers
        return self.conclude(lowered, self.certified(lowered, self.name, mechanism, *duals))

    def run(self, lowered: Lowered) -> CertifiedCandidate:
        """Closed form or iteration, and the certificate on the program itself."""
        exact = self.closed_form(lowered)
        if exact is not None:
            return exact
        if self.clock.expired():
            return self.without_steps(lowered)
        reduced = Reduced.of(lowered.program, lowered.goal, lowered.face)
        if isinstance(self.solver, LinearProgram):
            solved = highs(reduced.program, self.clock.left)
            if solved is None:  # also what its tolerance does not distinguish from infeasible
                return self.without_steps(lowered)
            answer = self.certified(lowered, self.name, *reduced.expanded(solved.candidate))
            if len(lowered.program.budgets) > 1 and not lowered.goal.proved(answer):
                # Budgets without slack, as those on a marginal: no mixture with a mechanism that has some meets them.
                vertex = reduced.expanded(dataclasses.replace(solved.candidate, mechanism=solved.vertex))[0]
                exact = np.asarray(vertex)
                for _ in range(CORRECTIONS):
                    exact = np.asarray(spending_exactly(lowered.program, exact, LEFT_OUT[0]))
                other = self.certified(lowered, self.name, exact, *answer.duals)
                answer = other if other.violation == 0 and other.value < answer.value else answer
            return self.or_feasible_point(lowered, answer)

        def report(best: Candidate, steps: Arr, length: float | None) -> None:
            if lowered.whole and self.clock.reports:
                scale, shift = self.scale_and_shift  # of totals of the reduced program
                shift = float(reduced.goal.shift) * reduced.factor + shift - lowered.goal.shift
                value, bound = (
                    float(scale.outer(float(total) * reduced.factor + shift)) for total in (best.value, best.bound)
                )
                self.show(reduced, best, (steps, value, bound, length))

        ran, parts = self.iterated(reduced, report)
        if parts is None:
            return self.without_steps(lowered)
        at_vertex = self.vertices and int(ran.steps) == 0  # without a step
        answer = self.certified(lowered, "linear-program" if at_vertex else self.name, *parts)
        if self.single is None and not (lowered.goal.proved(answer) or self.clock.expired()):
            self.single, self.limit = False, self.limit - int(ran.steps)
            program = dataclasses.replace(lowered.program, start=answer.mechanism)
            return min(answer, self.run(dataclasses.replace(lowered, program=program)), key=_missed)
        if self.vertices and not lowered.goal.proved(answer):
            self.vertices = False
            return self.run(lowered)
        return self.or_feasible_point(lowered, answer)

    def show(self, reduced: Reduced, best: Candidate, numbers: tuple[Arr, float, float, float | None]) -> None:
        """Report a candidate of the reduced program, with the mechanism that it stands for; `numbers`: steps, value,
        bound and the length of the last step.
        """
        steps, value, bound, length = numbers
        mechanism = reduced.mechanism(best)
        used = np.asarray(distortion_of(self.problem, mechanism))
        points = (0, 1) if self.ahead is None else (self.ahead.done, self.ahead.total)
        self.clock.report(self.name, steps, value, bound, *points, used, length, mechanism)

    def or_feasible_point(self, lowered: Lowered, answer: CertifiedCandidate) -> CertifiedCandidate:
        """The answer, with the feasible point for its mechanism where that is better and the goal is not met."""
        if lowered.goal.proved(answer):
            return answer
        other = self.certified(lowered, answer.solver, np.asarray(lowered.program.feasible_point), *answer.duals)
        return other if other.violation == 0 and other.value < answer.value else answer

    def iterated(
        self, reduced: Reduced, report: Callable[[Candidate, Arr, float | None], None]
    ) -> tuple[RunResult, tuple[np.ndarray, ...] | None]:
        """The iteration on the reduced program, and the (mechanism, k, eta, price) of the original one that it gives;
        None: the clock ended it before the first portion.
        """
        vertices = self.vertices and not reduced.program.minimax and not any(t.smooth for t in reduced.program.terms)
        # Mirror steps meet budgets and have no prices for distances to them.
        to_budgets = reduced.program.shares and isinstance(self.solver, MirrorDescent)
        solver = PrimalDualHybridGradient() if to_budgets else self.solver
        program, goal, limit = reduced.program, reduced.goal, self.limit
        if self.single is None:
            (solver, goal), limit = before_double(solver, goal), limit // 2
        if self.single is not False:
            program, goal = in_precision((program, goal), np.float32)
        ran = run(self.clock, solver, program, goal, limit, report, self.ahead, vertices, self.last)
        self.compiling += ran.compiling
        if ran.best is None:
            return ran, None
        self.steps += int(ran.steps)
        best = ran.best if self.single is False else in_precision(ran.best, np.float64)
        return ran, reduced.expanded(best)

    def without_steps(self, lowered: Lowered) -> CertifiedCandidate:
        """The mechanism that meets every limit, and the bound that an adversary who has learned nothing proves."""
        program = lowered.program
        return self.certified(lowered, "none", np.asarray(program.feasible_point), *no_rules(program))

    def closed_form(self, lowered: Lowered) -> CertifiedCandidate | None:
        """The certified answer where no iteration is needed."""
        parts = closed_form_of(lowered.program, partial(self.excess, limits=lowered.limits))
        return None if parts is None else self.certified(lowered, "closed-form", *parts)

    def certified(
        self, lowered: Lowered, name: str, mechanism: np.ndarray, k: np.ndarray, eta: np.ndarray, price: np.ndarray
    ) -> CertifiedCandidate:
        """What a mechanism and dual objects, found by the method `name`, prove about a program."""
        program, duals = lowered.program, (k, eta, price)
        mechanism, certificate, over = best_mixture(
            program, partial(self.excess, limits=lowered.limits), mechanism, *duals
        )
        # Of mutual information every term is that under one joint; elsewhere those of the objective are the measure.
        leaks = [
            float(total) - (float(term.bound) if term.role is Role.PEAK else 0.0)
            for term, total in zip(program.terms, certificate.leakages, strict=True)
            if term.role in (Role.OBJECTIVE, Role.PEAK) or self.problem.of_information
        ]
        if len(leaks) == len(self.problem.joints):
            scale, shift = self.scale_and_shift
            if self.leaks_of_last[0] is not mechanism:
                self.leaks_of_last = (mechanism, {})
            self.leaks_of_last[1][id(self.problem.leakage)] = max(float(scale.outer(max(leaks) + shift)), 0.0)
        value, bound = float(certificate.value), float(certificate.lower_bound)
        return CertifiedCandidate(mechanism, duals, value, bound, max(float(certificate.violation), over), name)

    def feasible_point(self, program: Program) -> tuple[np.ndarray, Face | None]:
        """(a mechanism that meets every limit, the face of the budgets if they have no slack, or of the pairs that are
        allowed if some are forbidden).
        """
        free = not len(program.budgets) or program.shares
        if free and not program.forbids:
            return np.asarray(independent_release(program)), None
        within = without_budgets(program) if free else program
        least = check(within)
        if least.feasible and not (least.boundary or program.forbids or self.further):
            return least.mechanism, None
        return feasible_with_limits(self, program, within, least)

    def nearest(self, away: Program, limits: Limits, face: Face | None = None) -> CertifiedCandidate:
        """The mechanism nearest to the budgets under the limits: a vertex where a limit has no slack."""
        tight = flags_of(away, self.problem, limits, check_limits(self.problem, limits))
        lowered = Lowered(away, limits, AWAY, face, tight)
        vertex = solve_without_slack(away, tight) if any(tight) else None
        if vertex is None:
            answer = self.or_at_least_value(lowered, self.run(lowered), distance_program)
            # Ratios of entries that are all forbidden leave an interior-point method no interior.
            vertex = None if lowered.goal.proved(answer) else solve_without_slack(away, tight)
            if vertex is None:
                return answer
            other = self.certified(lowered, "linear-program", *vertex)
            return min(answer, other, key=_missed)
        nearest = self.certified(lowered, "linear-program", *vertex)
        if nearest.value > 0 >= nearest.bound:
            # A vertex meets ratios of small probabilities to the backend's tolerance only. Where Y is independent of S
            # every measure is at its least, and such a vertex is exact.
            exact = independent_vertex(away, self.problem)
            if exact is not None:
                other = self.certified(lowered, "linear-program", exact, *vertex[1:])
                nearest = other if other.violation == 0 and other.value < nearest.value else nearest
        return nearest

    def excess(self, mechanism: np.ndarray, limits: Limits | None = None) -> float:
        """By how much the measures themselves exceed their limits (None: those of the problem), 0 up to rounding."""
        finite = finite_limits(self.further if limits is None else limits)
        if not finite:
            return 0.0
        return float(excess_of(self.leaks(tuple(measure for measure, _ in finite), mechanism), finite))

    def leak(self, mechanism: np.ndarray) -> float:
        return self.leaks((self.problem.leakage,), mechanism)[0]

    def leaks(self, measures: tuple[AbstractLeakage, ...], mechanism: np.ndarray) -> list[float]:
        """The largest of every measure over the joints. Those of limits are needed again in the solution."""
        if self.leaks_of_last[0] is not mechanism:
            self.leaks_of_last = (mechanism, {})
        leaks = self.leaks_of_last[1]
        missing = tuple(measure for measure in measures if id(measure) not in leaks)
        if missing:
            largest = zip(*(exact_values(missing, joint, mechanism) for joint in self.problem.joints), strict=True)
            leaks.update((id(measure), float(np.max(values))) for measure, values in zip(missing, largest, strict=True))
        return [leaks[id(measure)] for measure in measures]

    def finish(self, answer: CertifiedCandidate, value: float, bound: float) -> Solution:
        """The solution that an answer is whose value and bound read as these in the unit of the problem."""
        leak, (k, eta, price) = self.leak(answer.mechanism), answer.duals
        proved = self.goal.proved(dataclasses.replace(answer, value=value, bound=bound))
        if proved:  # a limit that is exceeded by rounding may make the value less than the optimum, by rounding too
            bound = min(bound, value)
        stop = self.clock.stop
        code = Status.BEST_KNOWN if stop and answer.violation == 0 else Status.NOT_CERTIFIED
        solution = Solution(
            value=np.float64(value),
            lower_bound=np.float64(bound),
            mechanism=answer.mechanism,
            leakage=np.float64(leak),
            distortion=distortion_of(self.problem, answer.mechanism),
            scores=k[None],
            weights=eta,
            multipliers=price,
            code=np.int32(Status.OPTIMAL if proved else code),
            steps=np.int32(self.steps),
            solver=answer.solver,
            seconds={"compile": self.compiling, "solve": time.perf_counter() - self.begun - self.compiling},
            stopped=np.int32(stop),
            units=units_of(self.problem),
        )
        return within_limits(solution, answer.violation)


def solve_dense(stages: Stages, throw: bool, solved: Callable[[Stages], Solution] = Stages.solved) -> Solution:
    """Solve a problem by a solver that works on tables, and in the way `solved`; `throw`: raise if there is no
    mechanism.
    """
    try:
        return solved(stages)
    except InfeasibleError as error:
        if throw:
            raise
        return none_of(stages.problem, error)


def none_of(problem: DistortionProblem, error: JaxprivError) -> Solution:
    """The solution without a mechanism, in the shapes of the others of a frontier: infeasible, or of any other error
    not certified, which proves nothing.
    """
    k, eta, price = no_rules(proving_program(problem, 0.0))
    nothing = no_solution(problem.shape, k.shape[1], eta.shape[1], len(price), len(problem.distortions))
    if isinstance(error, InfeasibleError):
        return nothing
    return dataclasses.replace(nothing, lower_bound=np.float64(-np.inf), code=np.int32(Status.NOT_CERTIFIED))


def units_of(problem: DistortionProblem) -> tuple[str, str]:
    """What the numbers of a value and of a leakage mean, in words: `Solution.units`."""
    (unit, measured), form = problem.leakage.named_unit, problem.form
    if form.limits_leakage:
        return "(E d(X,Y))", measured
    return f"{unit} (leakage and priced E d(X,Y))" if form.prices_distortion else unit, measured


def distortion_of(problem: DistortionProblem, mechanism: Arr) -> Arr:
    """E d_k(X,Y) for every distortion, the largest over the joints, shape (M,)."""
    each = (problem.tables() * mechanism).sum(axis=2)  # (M, X)
    return (each @ problem.joints.sum(axis=1).T).max(axis=1)


def own_goal(problem: DistortionProblem, goal: Goal) -> Goal:
    """The goal in units of the objective.

    In the leakage-budget form these are the distortion's, and where no release costs as much as one unit more than
    another an absolute tolerance would be met by any mechanism: it is then at most its share (and one of 1e-6 or less
    at most 1e-6) of the largest difference. A tolerance that is smaller than that already stays as it was written.
    """
    if not problem.form.limits_leakage:
        return goal
    (table,) = problem.tables()
    present = problem.joints.sum(axis=(0, 1)) > 0
    largest = xp.where(present, table.max(axis=1) - table.min(axis=1), 0.0).max()
    unit = xp.where(largest > 0, xp.minimum(largest, 1.0), 1.0)
    share = xp.maximum(goal.tol * unit, DOUBLE_TOLERANCE * unit)
    return dataclasses.replace(goal, tol=xp.minimum(goal.tol, share))


def inner_goal(goal: Goal, scale: Scale, shift: ScalarLike, problem: DistortionProblem | ProblemStack) -> Goal:
    """Tolerances of the total that give those of the value V = outer(total).

    An absolute one is divided by the largest slope of `outer`, at one end of the values that can be. For a relative one
    r, totals are counted from that of the value 0. Where `inner` is convex, inner(V) - inner((1 - r) V) is at least
    r (inner(V) - inner(0)); where it is concave, at least that times the ratio of its slopes at the largest value and
    at 0.
    """
    if scale.proportional:
        return Goal(scale.inner(goal.tol), goal.rtol, shift)
    most = math.log(min(problem.sizes[1], problem.shape[1])) if min(problem.sizes[1], problem.shape[1]) > 1 else 0.0
    step = 1e-6 * (1.0 + most)  # of the range: half of the digits of float64 are left in the slope

    def slope_at(value: float) -> float:
        return step / abs(float(scale.inner(value + step) - scale.inner(value)))

    slope, share = slope_at(0.0), 1.0
    # Slopes of orders below 1 grow without end: no mechanism leaks more than X itself.
    if slope_at(most) > slope:
        if isinstance(problem, DistortionProblem) and not is_traced(problem):
            whole = np.eye(problem.shape[0])
            most = min(most, max(float(problem.leakage(joint, whole)) for joint in problem.joints))
        slope, share = slope_at(most), slope / slope_at(most)
    # A slope of 0 (rounding) gives a goal that is met at once by 1e-12: the value is certified against `goal`
    # afterwards.
    return Goal(goal.tol / max(slope, 1e-12), share * goal.rtol, shift - scale.inner(0.0))


def _needs_no_interior(program: Program, tight: tuple[bool, ...]) -> bool:
    """Whether no feasible point has slack, and the answer is a vertex as a rule, for which none is needed."""
    return any(tight) and bool(len(program.budgets)) and not program.shares and not program.forbids


def _missed(candidate: CertifiedCandidate) -> tuple[bool, float]:
    """How far a candidate is from the optimum: one that exceeds a limit further than any other."""
    return candidate.violation > 0, candidate.gap


def _above_least(lowered: Lowered) -> bool:
    """Whether the one limit is not 0, and on a relative entropy, whose values keep their digits near 0.

    Where S and X are nearly independent prices are so high that a limit of 1e-16 differs from 0.
    """
    if len(lowered.limits) != 1 or len(lowered.program.terms) != 1:
        return False
    ((_, value),), (term,) = lowered.limits, lowered.program.terms
    return value > 0 and term.rule_set == ENTROPIC and term.role is Role.AVERAGE


def check_limits(problem: DistortionProblem, limits: Limits) -> tuple[bool, ...]:
    """Refuse limits below what a release that ignores the data leaks; which finite ones are at it."""
    tight = []
    for i, (measure, value) in enumerate(limits):
        form = problem.form
        asked = i == 0 and form.limits_leakage
        name = form.name if asked else f"limits[{i - form.limits_leakage}]"
        with np.errstate(over="ignore"):
            total = measure.scale_for(problem.sizes[1]).inner(value)
        if math.isinf(total) and not math.isinf(value):
            raise InputError(
                f"{name} {value:.9g} on {measure.label} is beyond what float64 holds of its sum over the outputs: give "
                "a smaller one, or inf, which limits nothing"
            )
        least = least_value(problem, measure)
        at_least = equals_least(value, least)
        if value < least and not at_least:
            stated = upper(least, 9)  # rounded down it would be refused as well
            raise InfeasibleError(
                f"{name} {value:.9g} on {type(measure).__name__} is below {stated}, "
                "which is what a release that ignores the data leaks: write "
                f"{f'{name}={stated}' if asked else 'that'} or more",
                {"bound": least, "allowed": value, "multipliers": []},
            )
        if not math.isinf(value):
            tight.append(at_least)
    return tuple(tight)
