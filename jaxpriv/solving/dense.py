"""Problems whose tables fit into memory, outside of jit: prepare, iterate, certify on the host.

`prepare` answers what needs no iteration and reduces the rest; `expand` reads a solver's candidate as an
answer to the original program; `finish` certifies it there, in NumPy float64.
"""

import dataclasses
import time
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxpriv._clock import Clock, Stop
from jaxpriv._validation import is_traced
from jaxpriv.certificates import average_leakage, certify
from jaxpriv.errors import InfeasibleError
from jaxpriv.problems import feasibility
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.faces import Face, face_of
from jaxpriv.problems.program import Form, Program, repair
from jaxpriv.problems.reduction import Reduction, reduce
from jaxpriv.solution import Solution, Status, no_solution
from jaxpriv.solvers import AbstractSolver, Goal
from jaxpriv.solvers.perfect_privacy import perfect_privacy
from jaxpriv.solving.portions import ONE, run, seconds_of

# The device's view of the gap and the certificate differ by rounding; stop a little below.
MARGIN = 0.8
# Leakage limits below this are close to none at all: repair towards the best mechanism that leaks nothing.
_TINY_LIMIT = 1e-6


@dataclass(frozen=True)
class Answer:
    """A mechanism and a dual object, in the terms of the original program."""

    mechanism: Any
    scores: Any
    weights: Any
    multipliers: Any
    steps: int = 0
    solver: str = "closed-form"
    stop: Stop = Stop.NONE


@dataclass(frozen=True)
class Prepared:
    """A host program: answered in closed form, or reduced and ready to be iterated on."""

    program: Program  # original, with its anchor
    answer: Answer | None
    reduction: Reduction | None
    face: Face | None  # of the budgets, if they leave no room

    @property
    def batches(self) -> bool:
        """Whether it can be iterated together with the other points of its sweep."""
        return self.answer is None and self.face is None

    @property
    def reduced(self) -> Program:
        """The program to iterate on."""
        assert self.reduction is not None
        return self.reduction.program


def prepare(program: Program, neighbour: Prepared | None = None) -> Prepared:
    """Decide what needs no iteration, find the anchor, restrict to the face of a budget without room.

    `neighbour` is the same problem at another point of a sweep, whose reduction serves again.
    Raises InfeasibleError.
    """
    if program.form is Form.LIMIT and not program.limit >= 0:
        raise InfeasibleError(
            f"leakage_budget {float(program.limit):.6g} is negative, and leakage is never below 0: "
            "write leakage_budget=0 for a release that tells nothing",
            {"bound": 0.0, "allowed": float(program.limit), "multipliers": []},
        )
    room = feasibility.check(program)
    if not room.feasible:
        raise InfeasibleError(
            f"budget: no mechanism meets it. The least weighted distortion is {room.bound!r}, "
            f"the budgets allow {room.allowed!r} (weights {np.round(room.weights, 6).tolist()})",
            {"bound": room.bound, "allowed": room.allowed, "multipliers": room.weights.tolist()},
        )
    independent = feasibility.independent(program)
    anchor = room.mechanism
    if program.form is Form.LIMIT:
        tiny = 0 < program.limit < _TINY_LIMIT
        anchor = perfect_privacy(program)[0] if tiny else independent
    program = dataclasses.replace(program, anchor=anchor)
    answer = _closed_form(program, independent)
    if answer is not None:
        return Prepared(program, answer, None, None)
    if room.boundary and len(program.budgets):
        face = face_of(program, room.weights)
        return Prepared(program, None, reduce(face.filled(face.restricted(program))), face)
    return Prepared(program, None, reduce(program, None if neighbour is None else neighbour.reduction), None)


def _closed_form(program: Program, independent: Any | None) -> Answer | None:
    groups, private, _ = program.joints.shape
    outputs = program.cost.shape[1]
    nothing = np.zeros((groups, outputs, private))
    idle = np.zeros(len(program.budgets))
    if program.form is Form.LIMIT:
        cheapest = feasibility.cheapest(program.cost)
        if average_leakage(np, program.joints[0], cheapest) <= program.limit:
            return Answer(cheapest, nothing, np.zeros(1), idle)
        if program.limit == 0:
            return Answer(*perfect_privacy(program), idle, solver="linear-program")
        return None
    if not np.any(program.cost) and independent is not None:
        return Answer(independent, nothing, np.full(groups, 1.0 / groups), idle)
    return None


def _leave_face(program: Program, face: Face, answer: Answer) -> Answer:
    """The answer with multipliers that hold for all mechanisms, not for those on the face alone."""
    gain = sum(w * (g @ j).T for w, g, j in zip(answer.weights, answer.scores, program.joints, strict=True))
    return dataclasses.replace(answer, multipliers=face.prices(program, program.cost + gain, answer.multipliers))


def expand(prepared: Prepared, best: Any, steps: int, name: str) -> Answer:
    """A solver's candidate for the reduced program as an answer to the original one."""
    reduction = prepared.reduction
    assert reduction is not None
    mechanism = np.asarray(best.mechanism, dtype=np.float64)
    mechanism = np.maximum(mechanism, 0.0)
    mechanism = mechanism / mechanism.sum(axis=1, keepdims=True)
    masses = reduction.program.joints.sum(axis=(0, 1))
    program = prepared.program
    mechanism = reduction.mechanism(mechanism, masses)
    scores, weights, multipliers = reduction.program.unstacked(np.asarray(best.k), np.asarray(best.price))
    scores, face = reduction.scores(scores), prepared.face
    if face is not None:
        mechanism = face.onto(program, face.merged(mechanism))
        # Who sees an output that no symbol may use on the face has learned nothing from it.
        scores = np.where(face.used[:, None], scores, 0.0)
    if program.form is Form.LIMIT:
        leakage = average_leakage(np, program.joints[0], mechanism)
    else:
        leakage = 0.0
    mechanism = repair(program if face is None else face.restricted(program), mechanism, leakage)
    if program.form is Form.LIMIT and (program.cost * (program.anchor - mechanism)).sum() < 0:
        mechanism = program.anchor
    answer = Answer(
        mechanism,
        scores,
        reduction.weights(weights),
        reduction.multipliers(multipliers),
        steps,
        name,
    )
    return answer if face is None else _leave_face(program, face, answer)


def finish(problem: DistortionProblem, program: Program, answer: Answer, goal: Goal, seconds: Any) -> Solution:
    """Certify an answer on the original program and call it what it is."""
    certificate = certify(program, answer.mechanism, answer.scores, answer.weights, answer.multipliers)
    proved = goal.proved(certificate)
    code = (
        Status.OPTIMAL
        if proved
        else Status.BEST_KNOWN
        if answer.stop and certificate.violation == 0
        else Status.NOT_CERTIFIED
    )
    if problem.budget is not None:  # the constraints are the distortions, joint by joint
        distortion = certificate.constraint_values.reshape(len(program.joints), -1).max(axis=0)
    else:
        distortion = distortion_of(np, problem, answer.mechanism)
    return Solution(
        value=np.float64(certificate.value),
        lower_bound=np.float64(certificate.lower_bound),
        mechanism=answer.mechanism,
        leakage=np.float64(certificate.leakages.max()),
        distortion=distortion,
        scores=answer.scores,
        weights=answer.weights,
        multipliers=answer.multipliers,
        code=np.int32(code),
        steps=np.int32(answer.steps),
        solver=answer.solver,
        seconds=seconds,
        stopped=np.int32(answer.stop),
    )


def distortion_of(xp: Any, problem: DistortionProblem, mechanism: Any) -> Any:
    """E d_k(X,Y) for every distortion, the largest over the joints, shape (M,)."""
    tables = problem.tables()
    each = (tables * mechanism).sum(axis=2)  # (M, X)
    return xp.matmul(each, problem.joints.sum(axis=1).T).max(axis=1)


def infeasible(problem: DistortionProblem, program: Program) -> Solution:
    """A solution that says that there is none: infinite value and bound."""
    groups, private, _ = program.joints.shape
    return no_solution(problem.shape, groups, private, len(program.budgets), len(problem.distortions))


def solve_dense(
    problem: DistortionProblem, name: str, solver: AbstractSolver, goal: Goal, limit: int, throw: bool, clock: Clock
) -> Solution:
    """Solve with a solver that works on tables."""
    begun = time.perf_counter()
    goal = own_goal(problem, goal)
    program = problem.program()
    try:
        prepared = prepare(program)
    except InfeasibleError:
        if throw:
            raise
        return infeasible(problem, program)
    answer, compiling = solve_prepared(prepared, name, solver, goal, limit, clock)
    seconds = {"compile": compiling, "solve": time.perf_counter() - begun - compiling}
    return finish(problem, prepared.program, answer, goal, seconds)


def solve_prepared(
    prepared: Prepared, name: str, solver: AbstractSolver, goal: Goal, limit: int, clock: Clock
) -> tuple[Answer, float]:
    """Iterate, unless there is an answer already; also the seconds spent compiling."""
    if prepared.answer is not None:
        return prepared.answer, 0.0
    if clock.expired():
        return without_steps(prepared, clock.stop), 0.0
    program, inner = prepared.reduced, inner_goal(prepared, goal)

    def report(best: Any, steps: Any) -> None:
        clock.report(name, steps, *in_units(prepared, best))

    ran = run(clock, ONE, solver, (program, inner), inner, limit, seconds_of(solver, program), report)
    if ran.best is None:
        return without_steps(prepared, clock.stop), ran.compiling
    answer = expand(prepared, ran.best, int(ran.steps), name)
    return dataclasses.replace(answer, stop=clock.stop), ran.compiling


def without_steps(prepared: Prepared, stop: Stop) -> Answer:
    """The mechanism that meets every limit, and the bound that leakage >= 0 gives."""
    program = prepared.program
    groups, private, _ = program.joints.shape
    outputs = program.cost.shape[1]
    weights = np.zeros(1) if program.form is Form.LIMIT else np.full(groups, 1.0 / groups)
    return Answer(
        program.anchor,
        np.zeros((groups, outputs, private)),
        weights,
        np.zeros(len(program.budgets)),
        solver="none",
        stop=stop,
    )


def in_units(prepared: Prepared, best: Any) -> tuple[float, float]:
    """(value, bound) of a candidate in the units of the result."""
    assert prepared.reduction is not None
    scale, shift = prepared.reduction.cost_scale, prepared.reduction.cost_shift
    return float(best.value) * scale + shift, float(best.bound) * scale + shift


def own_goal(problem: DistortionProblem, goal: Goal) -> Goal:
    """The goal in units of the objective.

    In the leakage-budget form these are the distortion's, and where no release costs as much as one unit more than
    another an absolute tolerance would be met by any mechanism: it is then at most its share (and one of 1e-6 or less
    at most 1e-6) of the largest difference. A tolerance that is smaller than that already stays as it was written.
    """
    if problem.leakage_budget is None:
        return goal
    xp = jnp if is_traced(problem) else np
    (table,) = problem.tables()
    present = problem.joints.sum(axis=(0, 1)) > 0
    largest = xp.where(present, table.max(axis=1) - table.min(axis=1), 0.0).max()
    share = xp.maximum(goal.tol, 1e-6) * xp.where(largest > 0, xp.minimum(largest, 1.0), 1.0)
    return dataclasses.replace(goal, tol=xp.minimum(goal.tol, share))


def inner_goal(prepared: Prepared, goal: Goal) -> Goal:
    """When the iteration stops, in units of the reduced objective."""
    assert prepared.reduction is not None
    scale, shift = prepared.reduction.cost_scale, prepared.reduction.cost_shift
    return Goal(np.asarray(MARGIN * goal.tol / scale), np.asarray(MARGIN * goal.rtol), np.asarray(shift / scale))
