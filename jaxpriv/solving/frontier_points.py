"""The same problem at many points, in batches of one compiled program."""

import dataclasses
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from jaxpriv._clock import Clock
from jaxpriv._types import Arr
from jaxpriv.certificates import certify_program
from jaxpriv.errors import InfeasibleError
from jaxpriv.presolve.reduction import Reduced
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.convex import Program
from jaxpriv.program.lower import proved_program
from jaxpriv.solution import Solution, Status
from jaxpriv.solvers import AbstractSolver, Course, Goal, Run, begin, iterate, resume
from jaxpriv.solving.choice import LINEAR, Solver
from jaxpriv.solving.dense import least_worst_leakage, none_of
from jaxpriv.solving.loops import Loop, report_points, run, seconds_of
from jaxpriv.solving.stages import Lowered, Stages, in_units, own_goal

# Points that run side by side: enough to share what a step costs beside its arithmetic, few enough that a batch
# seldom waits long for its slowest member.
_BATCH = 8


@dataclass(frozen=True)
class _Waiting:
    """A point that is to be iterated on."""

    place: int
    lowered: Lowered
    reduced: Reduced


def sweep(
    asked: list[DistortionProblem],
    points: np.ndarray,
    name: str,
    solver: Solver,
    goal: Goal,
    limit: int,
    throw: bool,
    clock: Clock,
) -> tuple[list[Solution], float]:
    """The solutions of one problem asked at `points`, in their order; and the seconds spent compiling.

    The least worst-outcome leakage at a budget, a face of tight budgets and a linear program are solves of their own.
    """
    each_stages = [Stages(one, name, solver, limit, clock) for one in asked]
    goal = own_goal(asked[0], goal)
    results: dict[int, Solution] = {}
    waiting: list[_Waiting] = []
    begun = time.perf_counter()
    for i, stages in enumerate(each_stages):
        try:
            if stages.problem.least_worst:
                results[i] = least_worst_leakage(stages, goal, begun)
                continue
            lowered = stages.lower(goal)
        except InfeasibleError:
            if throw:
                raise
            results[i] = none_of(stages.problem)
            continue
        known = stages.on_tight_limits(lowered) or stages.closed_form(lowered.program, lowered.limits)
        if known is None:
            lowered = stages.with_feasible_point(lowered)
        if known is None and (isinstance(solver, LINEAR) or lowered.face is not None):
            known = stages.run(lowered.program, lowered.limits, lowered.goal, lowered.face)
        if known is None:
            waiting.append(_Waiting(i, lowered, Reduced.of(lowered.program, lowered.goal)))
        else:
            results[i] = stages.conclude(lowered, known, goal, begun)
    report_points(clock, name, list(results.values()), len(results), len(asked))
    compiling = sum(stages.compiling for stages in each_stages)
    waiting.sort(key=lambda one: tuple(points[one.place].ravel()))
    for alike in _of_one_shape(waiting):
        shared, varying = _split([one.reduced.program for one in alike])
        for start in range(0, len(alike), _BATCH):
            chunk = alike[start : start + _BATCH]
            places = [min(start + k, len(alike) - 1) for k in range(_BATCH)]
            lanes = jax.tree.map(lambda leaf, places=places: leaf[places], varying)
            goals = jax.tree.map(lambda *leaves: np.stack(leaves), *(alike[k].reduced.goal for k in places))
            done = len(results)

            def report(best: PyTree, steps: Arr, chunk: Sequence[_Waiting] = chunk, done: int = done) -> None:
                worst = int(np.argmax(best.gap[: len(chunk)]))
                value, bound = in_units(
                    chunk[worst].lowered, chunk[worst].reduced, best.value[worst], best.bound[worst]
                )
                clock.report(name, steps.max(), value, bound, done, len(asked))

            ran = None
            if not clock.expired():
                step = _BATCH * seconds_of(solver, chunk[0].reduced.program)
                data = shared, (lanes, goals)
                ran = run(clock, _ALL, solver, data, goals, limit, step, report, _BATCH - len(chunk))
                compiling += ran.compiling
            for lane, one in enumerate(chunk):
                stages, lowered = each_stages[one.place], one.lowered
                if ran is None or ran.best is None:
                    answer = stages.without_steps(lowered.program, lowered.limits)
                else:
                    parts = one.reduced.expanded(jax.tree.map(lambda leaf, lane=lane: leaf[lane], ran.best))
                    answer = stages.certified(lowered.program, lowered.limits, *parts, int(ran.steps[lane]), name)
                results[one.place] = stages.conclude(lowered, answer, goal, begun)
            report_points(clock, name, [results[one.place] for one in chunk], len(results), len(asked))
    ordered = [results[i] for i in range(len(asked))]
    late = [i for i, one in enumerate(ordered) if one.status == "best_known"]
    better = {i: _from_neighbours(i, each_stages, points, ordered, goal, begun) for i in late}
    return [better.get(i, one) for i, one in enumerate(ordered)], compiling


# ------------------------------------------------------------------------------ batches


def _of_one_shape(waiting: list[_Waiting]) -> list[list[_Waiting]]:
    """The points by which symbols are put together: a price of 0 makes symbols alike that differ at other prices."""
    groups: dict[Hashable, list[_Waiting]] = {}
    for one in waiting:
        leaves, structure = jax.tree.flatten(one.reduced.program)
        key = structure, tuple(leaf.shape for leaf in leaves), one.reduced.kept.useful.tobytes()
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def _split(programs: list[Program]) -> tuple[Program, Program]:
    """(what all programs have in common, stacks of what differs), with None in the other one's places."""

    def same(*leaves: np.ndarray) -> bool:
        return all(np.array_equal(leaf, leaves[0]) for leaf in leaves[1:])

    common = jax.tree.map(same, *programs)
    shared = jax.tree.map(lambda alike, leaf: leaf if alike else None, common, programs[0])
    varying = jax.tree.map(lambda alike, *leaves: None if alike else np.stack(leaves), common, *programs)
    return shared, varying


def _iterate_all(solver: AbstractSolver, shared: Program, varying: PyTree, limit: Array) -> Run:
    return jax.vmap(lambda lane: iterate(solver, eqx.combine(lane[0], shared), lane[1], limit))(varying)


def _begin_all(solver: AbstractSolver, shared: Program, varying: PyTree) -> Course:
    return jax.vmap(lambda lane: begin(solver, eqx.combine(lane[0], shared)))(varying)


def _resume_all(solver: AbstractSolver, shared: Program, varying: PyTree, course: Course, until: Array) -> Course:
    def one(lane: PyTree, course: Course) -> Course:
        return resume(solver, eqx.combine(lane[0], shared), lane[1], course, until)

    return jax.vmap(one)(varying, course)


def _each(shared: Program, varying: PyTree) -> list[tuple[Program, Goal]]:
    lanes = [jax.tree.map(lambda leaf, k=k: leaf[k], varying) for k in range(_BATCH)]
    return [(eqx.combine(program, shared), goal) for program, goal in lanes]


# A batch takes about twice as long to compile as one program: 9 to 12 s in place of 6 to 9 of processor time, loaded.
_ALL = Loop(_iterate_all, _begin_all, _resume_all, _each, compiling=2.0)


# ------------------------------------------------------------------------------ points that were not reached


def _from_neighbours(
    i: int, each_stages: list[Stages], points: np.ndarray, found: list[Solution], goal: Goal, begun: float
) -> Solution:
    """Point i, which was not reached, with the best that other points prove."""
    if each_stages[i].problem.least_worst:
        return _of_other_budgets(i, points, found, goal)
    place = points.reshape(len(points), -1)
    known = [j for j, one in enumerate(found) if np.isfinite(one.value) and one.solver != "none" and j != i]
    near = sorted(known, key=lambda j: float(np.abs(place[j] - place[i]).sum()))
    sides = [[j for j in near if (sign * (place[j] - place[i]) >= 0).all()][:1] for sign in (1.0, -1.0)]
    chosen = [found[j] for j in dict.fromkeys([*near[:2], *sides[0], *sides[1]])]
    own, stages = found[i], each_stages[i]
    mechanisms = [one.mechanism for one in chosen]
    if sides[0] and sides[1]:  # the mixture of the two nearest that gives this point's budgets
        above, below = sides[0][0], sides[1][0]
        width = float((place[above] - place[below]).sum())
        share = float((place[i] - place[below]).sum()) / width if width > 0 else 0.0
        mechanisms.append((1.0 - share) * found[below].mechanism + share * found[above].mechanism)
    # Measured and proved in this point's own program: nothing is concluded from another one's numbers.
    candidates = [own, *(stages.joined(one, own, own.solver, goal, begun) for one in mechanisms)]
    met = [one for one in candidates if one.status in ("optimal", "best_known")]
    best = min(met, key=lambda one: one.value, default=own)
    program = proved_program(stages.problem, own.scores, 0.0)[0]

    def bound(one: Solution) -> float:
        duals = one.scores[0], one.weights, one.multipliers
        return float(certify_program(program, own.mechanism, *duals).lower_bound)

    proof = max([own, *chosen], key=bound)
    return stages.joined(best.mechanism, proof, own.solver, goal, begun)


def _of_other_budgets(i: int, points: np.ndarray, found: list[Solution], goal: Goal) -> Solution:
    """A mechanism for budgets that are no larger meets these too, and no mechanism for budgets that are no smaller does
    better than theirs.
    """
    own = found[i]
    met = [j for j, one in enumerate(found) if one.status in ("optimal", "best_known")]
    smaller = [found[j] for j in met if (points[j] <= points[i]).all()]
    larger = [found[j] for j in met if (points[j] >= points[i]).all()]
    best = min(smaller, key=lambda one: one.value)
    proof = max(larger, key=lambda one: one.lower_bound)
    names = ("mechanism", "value", "leakage", "distortion")
    joined = dataclasses.replace(
        own,
        lower_bound=proof.lower_bound,
        scores=proof.scores,
        weights=proof.weights,
        multipliers=proof.multipliers,
        **{name: getattr(best, name) for name in names},
    )
    return dataclasses.replace(joined, code=np.int32(Status.OPTIMAL)) if goal.met(joined) else joined
