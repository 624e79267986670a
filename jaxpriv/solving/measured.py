"""Problems with measures other than mutual information, or with further limits, outside of jit.

Minimum distortion under limits and minimum leakage under budgets are one convex program each. The least
worst-outcome leakage within a budget is quasi-convex in the limit (Calmon and Fawaz 2012, Theorem 2): a
search over limits, whose ends are proved: at the upper end a mechanism meets the budgets, at the lower
end the certified distance to the budgets is positive.
"""

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np

from jaxpriv.certificates import certify_measured
from jaxpriv.errors import InfeasibleError, NotCertifiedError
from jaxpriv.leakage import AbstractLeakage, evaluate_all
from jaxpriv.problems import feasibility
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.measured import Kind, MeasuredProgram, Role, Term
from jaxpriv.problems.statement import distance_program, measured_program
from jaxpriv.problems.terms import Scale, is_worst, scale_of, shift_of
from jaxpriv.solution import Solution, Status, no_solution
from jaxpriv.solvers import Goal, iterate
from jaxpriv.solvers.conic import ConicInteriorPoint
from jaxpriv.solvers.conic.sets import rule_at
from jaxpriv.solving.dense import MARGIN, distortion_of
from jaxpriv.solving.execution import compiled

Limits = tuple[tuple[AbstractLeakage, float], ...]

# Probes of the search over limits: a secant needs about ten, bisection from 1 to 1e-9 thirty.
_MOST_PROBES = 60
# Symbols of no more mass than this in all are not iterated on; the certificate counts them.
_NEGLIGIBLE = 1e-13
# A private symbol that no kept symbol shows takes e^-40 of the set.
_UNSEEN = -40.0
# What a measure may exceed its limit by, relative to 1 + limit: rounding of the measure.
_ROUNDING = 1e-10
# Shares of an innocent release that mend what rounding broke.
_ROUNDING_SHARES = (1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9)


@dataclass(frozen=True)
class Answer:
    """A mechanism and its dual objects for a `MeasuredProgram`, with the certified pair of totals."""

    mechanism: np.ndarray
    k: np.ndarray
    eta: np.ndarray
    price: np.ndarray
    value: float
    bound: float
    violation: float
    solver: str


@dataclass(frozen=True)
class _Stated:
    """A convex program and how its value reads as one of the measure."""

    program: MeasuredProgram
    limits: Limits
    goal: Goal
    scale: Scale
    shift: float


def solve_measured(
    problem: DistortionProblem, name: str, solver: ConicInteriorPoint, goal: Goal, limit: int, throw: bool
) -> Solution:
    """Solve a problem with any measures."""
    begun = time.perf_counter()
    solve = _Solve(problem, name, solver, limit)
    try:
        if problem.budget is not None and is_worst(problem.leakage):
            return solve.least_worst_leakage(goal, begun)
        return solve.program_form(goal, begun)
    except InfeasibleError:
        if throw:
            raise
        return no_measured_solution(problem)


@dataclass
class _Solve:
    """One call: the problem, the solver, what was used so far."""

    problem: DistortionProblem
    name: str
    solver: ConicInteriorPoint
    limit: int
    steps: int = 0
    compiling: float = 0.0

    def program_form(self, goal: Goal, begun: float) -> Solution:
        """One convex program: the least distortion, or the least average leakage."""
        stated = self.state(goal)
        return self.conclude(stated, self.run(stated.program, stated.limits, stated.goal), goal, begun)

    def state(self, goal: Goal) -> "_Stated":
        """The program of the problem's own form, with its anchor."""
        problem = self.problem
        limits = problem.limits
        scale, shift = Scale(float, float), 0.0
        if problem.leakage_budget is not None:
            limits = ((problem.leakage, float(problem.leakage_budget)), *limits)
        else:
            scale = scale_of(problem.leakage)
            if problem.sizes[0] == 1:  # with several joints the shifts are part of the program
                shift = shift_of(problem.leakage, problem.joints[0])
        _check_limits(problem, limits)
        program = measured_program(problem, limits)
        program = eqx.tree_at(lambda p: p.anchor, program, self._anchor(program, limits))
        return _Stated(program, limits, _inner(goal, scale, problem), scale, shift)

    def conclude(self, stated: "_Stated", answer: Answer, goal: Goal, begun: float) -> Solution:
        """The solution that an answer to the stated program is."""
        outer, shift = stated.scale.outer, stated.shift
        value, bound = outer(answer.value + shift), outer(answer.bound + shift)
        if self.problem.budget is not None:  # no release leaks less than one that ignores the data
            bound = max(bound, self._leak(np.full(self.problem.shape, 1.0 / self.problem.shape[1])) * (1 - 1e-12))
        return self._finish(answer, value, bound, goal, begun)

    def run(self, program: MeasuredProgram, limits: Limits, goal: Goal) -> Answer:
        """Closed form or iteration, and the certificate on `program` (whose terms state the `limits`) itself."""
        known = self.closed_form(program, limits)
        if known is not None:
            return known
        reduced = _Reduced.of(program, goal)
        run, seconds = compiled(iterate, self.solver, reduced.program, reduced.goal, np.asarray(self.limit))
        result = jax.device_get(run())
        self.compiling += seconds
        return self.certified(program, limits, *reduced.expanded(result.best), int(result.steps), self.name)

    def closed_form(self, program: MeasuredProgram, limits: Limits) -> Answer | None:
        """The certified answer where no iteration is needed."""
        found = _closed_form(program, partial(self._excess, limits))
        return None if found is None else self.certified(program, limits, *found, 0, "closed-form")

    def certified(
        self,
        program: MeasuredProgram,
        limits: Limits,
        mechanism: Any,
        k: Any,
        eta: Any,
        price: Any,
        steps: int,
        name: str,
    ) -> Answer:
        """What a mechanism and dual objects prove about `program`."""
        excess = partial(self._excess, limits)
        mechanism = _inside(program, excess, mechanism, k, eta, price)
        certificate = certify_measured(program, mechanism, k, eta, price)
        violation = max(float(certificate.violation), excess(mechanism))
        self.steps += steps
        return Answer(
            mechanism, k, eta, price, float(certificate.value), float(certificate.lower_bound), violation, name
        )

    def _anchor(self, program: MeasuredProgram, limits: Limits) -> np.ndarray:
        """A mechanism that meets every limit."""
        if not len(program.budgets) or program.shares:
            return _independent(program)
        plain = feasibility.check(program)
        if not plain.feasible:
            raise InfeasibleError(
                f"budget: no mechanism meets it. The least weighted distortion is {plain.bound!r}, "
                f"the budgets allow {plain.allowed!r} (weights {np.round(plain.weights, 6).tolist()})",
                {"bound": plain.bound, "allowed": plain.allowed, "multipliers": plain.weights.tolist()},
            )
        if not limits:
            return plain.mechanism
        # Limits on leakage and budgets together: how near to the budgets can one come under the limits?
        away = distance_program(self.problem, limits)
        away = eqx.tree_at(lambda p: p.anchor, away, _independent(away))
        found = self.run(away, limits, Goal(1e-9, 0.3))
        if found.bound > 0:
            raise InfeasibleError(
                "limits and budget contradict each other: under the limits the budgets are exceeded by at least "
                f"{found.bound!r} of their range",
                {"bound": found.bound, "allowed": 0.0, "multipliers": found.price.tolist()},
            )
        if found.value > 0:
            raise NotCertifiedError(
                "limits and budget: whether they can be met together is not certified; the distance to the budgets "
                f"lies in [{found.bound!r}, {found.value!r}] of their range"
            )
        return found.mechanism

    def least_worst_leakage(self, goal: Goal, begun: float) -> Solution:
        """Search over the limit e of a worst-outcome measure for the least one that the budgets allow."""
        problem = self.problem
        _check_limits(problem, problem.limits)
        loose = distance_program(problem, ())
        independent = feasibility.independent(_plain(loose))
        if independent is not None:
            k, eta, price = _no_rules(loose)
            return self._finish(Answer(independent, k, eta, price, 0.0, 0.0, 0.0, "closed-form"), 0.0, 0.0, goal, begun)
        start = self._anchor(_plain(loose), problem.limits)
        low, high = 0.0, self._leak(start)
        f_low, f_high = math.nan, math.nan
        k, eta, price = _no_rules(loose)
        best = Answer(start, k, eta, price, 0.0, 0.0, 0.0, self.name)
        e, last = min(1.0, 0.5 * high), 0
        for _ in range(_MOST_PROBES):
            if high - low <= max(goal.tol, goal.rtol * high):
                break
            found = self._distance(e)
            if found.bound > 0:
                low, f_low, last = e, found.bound, -1
            elif found.value <= 0 and found.violation == 0:
                leak = min(e, self._leak(found.mechanism))
                high, f_high, best, last = leak, found.value, found, 1
            else:
                break  # the interval of the distance holds 0: no sharper answer at this accuracy
            e = _between(low, high, f_low, f_high, last, goal.tol)
        return self._finish(best, high, low, goal, begun)

    def _distance(self, e: float) -> Answer:
        limits = ((self.problem.leakage, e), *self.problem.limits)
        program = distance_program(self.problem, limits)
        program = eqx.tree_at(lambda p: p.anchor, program, _independent(program))
        return self.run(program, limits, Goal(1e-10, 0.1))

    def _excess(self, limits: Limits, mechanism: np.ndarray) -> float:
        """By how much the measures themselves exceed their limits, 0 up to rounding.

        The terms of a limit e on a log-ratio see e^-e: from 30 nats on that is below their own rounding, and a
        release that excludes a symbol (an infinite ratio) would pass.
        """
        measures = tuple(measure for measure, value in limits if not math.isinf(value))
        values = [value for _, value in limits if not math.isinf(value)]
        worst = 0.0
        for joint in self.problem.joints if measures else ():
            for found, value in zip(evaluate_all(measures, joint, mechanism), values, strict=True):
                worst = max(worst, (found.value - value) / (1.0 + value))
        return worst if worst > _ROUNDING else 0.0

    def _leak(self, mechanism: np.ndarray) -> float:
        return max(evaluate_all((self.problem.leakage,), joint, mechanism)[0].value for joint in self.problem.joints)

    def _finish(self, answer: Answer, value: float, bound: float, goal: Goal, begun: float) -> Solution:
        problem = self.problem
        leak = self._leak(answer.mechanism)
        gap = value - bound
        proved = gap <= max(goal.tol, goal.rtol * abs(value)) and answer.violation == 0
        return Solution(
            value=np.float64(value),
            lower_bound=np.float64(bound),
            mechanism=answer.mechanism,
            leakage=np.float64(leak),
            distortion=distortion_of(np, problem, answer.mechanism),
            scores=answer.k[None],
            weights=answer.eta,
            multipliers=answer.price,
            code=np.int32(Status.OPTIMAL if proved else Status.NOT_CERTIFIED),
            steps=np.int32(self.steps),
            solver=answer.solver,
            seconds={"compile": self.compiling, "solve": time.perf_counter() - begun - self.compiling},
        )


@dataclass(frozen=True)
class _Kept:
    """The symbols that are iterated on: the mass of the others would be lost in rounding."""

    inputs: np.ndarray  # (X,) bool
    rows: tuple[np.ndarray, ...]  # (T,) bool for every term

    @staticmethod
    def of(program: MeasuredProgram) -> "_Kept":
        mass = np.asarray(program.mass)
        order = np.argsort(mass)
        inputs = np.ones(len(mass), dtype=bool)
        inputs[order] = np.cumsum(mass[order]) > _NEGLIGIBLE * mass.sum()
        rows = tuple(abs(term.rows[:, inputs]).max(axis=1) > 0 for term in program.terms)
        return _Kept(inputs, rows)

    def program(self, program: MeasuredProgram) -> MeasuredProgram:
        """The program of the kept symbols."""
        if self.inputs.all():
            return program
        x = self.inputs
        terms = []
        for term, rows in zip(program.terms, self.rows, strict=True):
            cap = None if term.cap is None else term.cap[rows]
            parts = {"rows": term.rows[rows][:, x], "reference": term.reference[rows], "offset": term.offset[x]}
            terms.append(dataclasses.replace(term, cap=cap, **parts))
        return dataclasses.replace(
            program,
            terms=tuple(terms),
            mass=program.mass[x],
            cost=program.cost[x],
            constraints=program.constraints[:, x],
            support=program.support[x],
            anchor=program.anchor[x],
        )

    def mechanism(self, program: MeasuredProgram, mechanism: np.ndarray) -> np.ndarray:
        """Rows of the kept symbols; the others release the marginal of Y."""
        mechanism = np.maximum(mechanism, 0.0)
        mechanism = mechanism / mechanism.sum(axis=1, keepdims=True)
        if self.inputs.all():
            return mechanism
        full = np.empty(program.cost.shape)
        full[self.inputs] = mechanism
        full[~self.inputs] = program.mass[self.inputs] @ mechanism / program.mass[self.inputs].sum()
        return full

    def rules(self, program: MeasuredProgram, k: np.ndarray, eta: np.ndarray, price: np.ndarray) -> np.ndarray:
        """Rules on all rows: those that no kept symbol shows get one that costs the set next to nothing."""
        if self.inputs.all():
            return k
        outputs, start, worst, limit = len(k), 0, 0, len(program.budgets)
        parts = []
        for term, rows in zip(program.terms, self.rows, strict=True):
            weight = np.ones(outputs)
            if term.priced:
                weight, limit = np.full(outputs, price[limit]), limit + 1
            elif term.smooth and term.role is Role.WORST:
                weight, worst = eta[:, worst], worst + 1
            own = np.zeros((outputs, len(rows)))
            if term.smooth:
                low = np.full(len(rows), -1e3 if term.negative else 0.0)
                if term.kind is Kind.ENTROPIC:
                    low = _UNSEEN - np.log(term.reference)
                own[:] = low * weight[:, None]
            own[:, rows] = k[:, start : start + rows.sum()]
            start += int(rows.sum())
            parts.append(own)
        return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class _Reduced:
    """A program to iterate on, and the way back."""

    original: MeasuredProgram
    kept: _Kept
    program: MeasuredProgram
    factor: float
    goal: Goal

    @staticmethod
    def of(program: MeasuredProgram, goal: Goal) -> "_Reduced":
        kept = _Kept.of(program)
        scaled, factor, shift = _scaled(kept.program(program))
        inner = Goal(np.asarray(MARGIN * goal.tol / factor), np.asarray(MARGIN * goal.rtol), np.asarray(shift / factor))
        return _Reduced(program, kept, scaled, factor, inner)

    def expanded(self, best: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(mechanism, k, eta, price) of the original program."""
        price = _unscaled_prices(self.kept.program(self.original), np.asarray(best.price), self.factor)
        eta = np.asarray(best.eta) * self.factor
        k = self.kept.rules(self.original, np.asarray(best.k) * self.factor, eta, price)
        return self.kept.mechanism(self.original, np.asarray(best.mechanism, dtype=np.float64)), k, eta, price


def sweep_measured(
    asked: list[DistortionProblem],
    name: str,
    solver: ConicInteriorPoint,
    goal: Goal,
    limit: int,
    throw: bool,
    batch: int,
    progress: Callable[[int, int], None] | None,
) -> tuple[list[Solution], float]:
    """The same problem at many points, in batches of one compiled program; and the seconds spent compiling.

    The least worst-outcome leakage at a budget is a search of its own at every point.
    """
    solves = [_Solve(one, name, solver, limit) for one in asked]
    results: dict[int, Solution] = {}
    waiting: list[tuple[int, _Stated, _Reduced]] = []
    begun = time.perf_counter()
    for i, solve in enumerate(solves):
        problem = solve.problem
        try:
            if problem.budget is not None and is_worst(problem.leakage):
                results[i] = solve.least_worst_leakage(goal, begun)
                continue
            stated = solve.state(goal)
        except InfeasibleError:
            if throw:
                raise
            results[i] = no_measured_solution(problem)
            continue
        known = solve.closed_form(stated.program, stated.limits)
        if known is None:
            waiting.append((i, stated, _Reduced.of(stated.program, stated.goal)))
        else:
            results[i] = solve.conclude(stated, known, goal, begun)
    if progress and results:
        progress(len(results), len(asked))
    compiling = sum(solve.compiling for solve in solves)
    for start in range(0, len(waiting), batch):
        chunk = waiting[start : start + batch]
        padded = [reduced for _, _, reduced in chunk] + [chunk[-1][2]] * (batch - len(chunk))
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *[(one.program, one.goal) for one in padded])
        run, seconds = compiled(_iterate_all, solver, *stacked, np.asarray(limit))
        found = jax.device_get(run())
        compiling += seconds
        for lane, (i, stated, reduced) in enumerate(chunk):
            best = jax.tree.map(lambda leaf, lane=lane: leaf[lane], found.best)
            parts = reduced.expanded(best)
            answer = solves[i].certified(stated.program, stated.limits, *parts, int(found.steps[lane]), name)
            results[i] = solves[i].conclude(stated, answer, goal, begun)
        if progress:
            progress(len(results), len(asked))
    return [results[i] for i in range(len(asked))], compiling


def _iterate_all(solver: ConicInteriorPoint, programs: MeasuredProgram, goals: Goal, limit: Any) -> Any:
    return jax.vmap(lambda program, goal: iterate(solver, program, goal, limit))(programs, goals)


def no_measured_solution(problem: DistortionProblem) -> Solution:
    """The solution that says that there is none, in the shapes of the others of a sweep."""
    limits = [] if problem.leakage_budget is None else [(problem.leakage, float(problem.leakage_budget))]
    program = measured_program(problem, (*limits, *problem.limits))
    k, eta, price = _no_rules(program)
    nothing = no_solution(problem.shape, 1, k.shape[1], len(price), len(problem.distortions))
    return dataclasses.replace(nothing, weights=eta)


def _inside(
    program: MeasuredProgram, excess: Callable[[np.ndarray], float], mechanism: np.ndarray, *duals: np.ndarray
) -> np.ndarray:
    """The mechanism, or the least of a few mixtures with releases that leak nothing and with the anchor that meets
    every limit: the device's view of a limit and the certificate's differ by rounding.
    """
    marginal = np.broadcast_to(program.mass @ mechanism / program.mass.sum(), mechanism.shape)
    safe = 0.5 * (marginal + program.anchor)
    for share in (0.0, *_ROUNDING_SHARES):
        mixed = (1.0 - share) * mechanism + share * safe
        if certify_measured(program, mixed, *duals).violation == 0 and excess(mixed) == 0:
            return mixed
    return mechanism


def _plain(program: MeasuredProgram) -> MeasuredProgram:
    """Its budgets as they are meant, not as distances."""
    return dataclasses.replace(program, marks=np.zeros_like(program.marks), shares=False)


def _between(low: float, high: float, f_low: float, f_high: float, last: int, tol: float) -> float:
    """The next limit to try inside (low, high), where the distance falls from f_low > 0 to f_high <= 0.

    The root of the secant, moved a little to the side that did not move last, so that both ends close in.
    """
    if not math.isfinite(high):
        return 4.0 * max(low, 0.25)
    width = high - low
    if not (math.isfinite(f_low) and math.isfinite(f_high)) or f_low == f_high:
        return low + 0.5 * width
    root = low + width * f_low / (f_low - f_high)
    root = root + (0.3 * tol if last < 0 else -0.3 * tol)
    return min(max(root, low + 0.02 * width), high - 0.02 * width)


def _independent(program: MeasuredProgram) -> np.ndarray:
    """The cheapest release of one and the same symbol: it leaks nothing."""
    if program.shares:
        chosen = (program.constraints.sum(axis=1) - program.budgets[:, None])[program.marks > 0].max(axis=0).argmin()
    else:
        chosen = program.cost.sum(axis=0).argmin()
    mechanism = np.zeros(program.cost.shape)
    mechanism[:, chosen] = 1.0
    return mechanism


def _no_rules(program: MeasuredProgram) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(k, eta, price) of an adversary who has learned nothing and limits without a price."""
    outputs = program.cost.shape[1]
    rows = [np.asarray(_natural(term)) for term in program.terms]
    k = np.concatenate(rows) if rows else np.zeros(0)
    worst = sum(term.smooth and term.role is Role.WORST for term in program.terms)
    limits = len(program.budgets) + sum(term.priced for term in program.terms)
    return np.tile(k, (outputs, 1)), np.zeros((outputs, worst)), np.zeros(limits)


def _natural(term: Term) -> Any:
    """The rule of the prior, times its price: 1 in the objective, 0 for a limit."""
    if term.role is not Role.OBJECTIVE:
        return np.zeros(len(term.rows))
    prior = term.rows.sum(axis=1)
    if term.smooth:
        return rule_at(term, prior)
    if term.cap is not None:
        return np.where(prior > 0, term.cap, 0.0)
    rule = np.zeros(len(prior))
    best = int(np.argmax(prior / term.reference))
    rule[best] = 1.0 / term.reference[best]
    return rule


def _closed_form(program: MeasuredProgram, excess: Callable[[np.ndarray], float]) -> tuple[Any, ...] | None:
    """(mechanism, k, eta, price) where no iteration is needed."""
    k, eta, price = _no_rules(program)
    if any(term.role is Role.PEAK for term in program.terms):
        return None
    if any(term.role is Role.OBJECTIVE for term in program.terms):
        mechanism = None if program.cost.any() else feasibility.independent(program)
        return None if mechanism is None else (mechanism, k, eta, price)
    costs = program.cost
    if program.shares:
        if len(program.budgets) > 1:
            return None
        costs, price = program.constraints[0], price.copy()
        price[0] = 1.0
    elif len(program.budgets):
        return None
    mechanism = feasibility.cheapest(costs)
    met = not program.terms or certify_measured(program, mechanism, k, eta, price).violation == 0
    return (mechanism, k, eta, price) if met and excess(mechanism) == 0 else None


def _scaled(program: MeasuredProgram) -> tuple[MeasuredProgram, float, float]:
    """(program with costs above the cheapest output of each row and of size one, factor, shift)."""
    floors = program.constraints.min(axis=2)
    constraints = program.constraints - floors[:, :, None]
    budgets = program.budgets - floors.sum(axis=1)
    lowest = program.cost.min(axis=1, keepdims=True)
    cost = program.cost - lowest
    free = all(term.role in (Role.AVERAGE, Role.WORST) for term in program.terms)
    sizes = constraints.sum(axis=1).max(axis=1, initial=0.0)
    shared = program.marks > 0
    factor = 1.0
    if free:
        factor = float(sizes[shared].max()) if shared.any() else float(cost.sum(axis=0).max())
        factor = factor if factor > 0 else 1.0
    scale = np.where(shared, factor, np.where(sizes > 0, sizes, 1.0))
    scaled = eqx.tree_at(
        lambda p: (p.cost, p.constraints, p.budgets),
        program,
        (cost / factor, constraints / scale[:, None, None], budgets / scale),
    )
    return scaled, factor, float(lowest.sum())


def _unscaled_prices(program: MeasuredProgram, price: np.ndarray, factor: float) -> np.ndarray:
    """Prices of the unscaled limits."""
    floors = program.constraints.min(axis=2)
    sizes = (program.constraints - floors[:, :, None]).sum(axis=1).max(axis=1, initial=0.0)
    count = len(program.budgets)
    own = np.where(program.marks > 0, 1.0, factor / np.where(sizes > 0, sizes, 1.0))
    priced = [1.0 if term.role is Role.PEAK else factor for term in program.terms if term.priced]
    return price * np.concatenate([own[:count], priced])


def _inner(goal: Goal, scale: Scale, problem: DistortionProblem) -> Goal:
    """The tolerance of the total that gives the tolerance of the value: `outer` is concave, so its slope is
    largest where the total is least in modulus.
    """
    if problem.leakage_budget is not None:
        return goal
    most = math.log(min(problem.sizes[1], problem.shape[1])) if min(problem.sizes[1], problem.shape[1]) > 1 else 0.0
    slope = 0.0
    for value in (0.0, most):
        step = 1e-6 * (1.0 + most)
        slope = max(slope, 1e-6 * (1.0 + most) / abs(scale.inner(value + step) - scale.inner(value)))
    return Goal(goal.tol / max(slope, 1e-12), goal.rtol if slope == 1.0 else 0.0)


def _check_limits(problem: DistortionProblem, limits: Limits) -> None:
    """Refuse limits below what a release that ignores the data leaks."""
    uniform = np.full(problem.shape, 1.0 / problem.shape[1])
    for measure, value in limits:
        least = max(evaluate_all((measure,), joint, uniform)[0].value for joint in problem.joints)
        if value < least * (1 - 1e-12):
            raise InfeasibleError(
                f"limit {value:.6g} on {type(measure).__name__} is below {least:.6g}, "
                "which is what a release that ignores the data leaks",
                {"bound": least, "allowed": value, "multipliers": []},
            )
