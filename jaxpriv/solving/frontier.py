"""Curves: one problem at many budgets, in one batched call, every point with its own certificate."""

import dataclasses
import time
from typing import Any

import equinox as eqx
import jax
import numpy as np

from jaxpriv._clock import Clock, Stop, clock_of
from jaxpriv._validation import finite, is_traced, real_array, scalar
from jaxpriv.certificates import average_leakage, certify
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.problems.distortion import DistortionProblem, replace_form
from jaxpriv.problems.program import Form, Program, repair
from jaxpriv.solution import Solution
from jaxpriv.solvers import Goal, begin, iterate, resume
from jaxpriv.solving.choice import STREAMING, dense_solver, pick_measured, pick_solver, step_limit
from jaxpriv.solving.dense import (
    Answer,
    Prepared,
    expand,
    finish,
    in_units,
    infeasible,
    inner_goal,
    own_goal,
    prepare,
    solve_prepared,
    without_steps,
)
from jaxpriv.solving.execution import device_errors, own_settings
from jaxpriv.solving.measured import sweep_measured
from jaxpriv.solving.portions import Loop, report_points, run, seconds_of

# Points that run side by side: enough to share what a step costs beside its arithmetic, few enough that a batch
# seldom waits long for its slowest member.
_BATCH = 8


class Frontier(eqx.Module):
    """The curve of optimal values over a swept parameter.

    Attributes:
        parameter: `budget`, `multiplier` or `leakage_budget`.
        points: the swept values, shape (B, M) ((B,) for `leakage_budget`).
        solution: a batched `Solution`, leading axis B, in the order of `points`; its `solver` is the
            one that iterates (some points need no iteration) and its `seconds` are of the whole sweep.
        monotone: the curve is known to be monotone, not to be convex.
    """

    parameter: str = eqx.field(static=True)
    points: Any
    solution: Solution
    monotone: bool = eqx.field(static=True, default=False)

    def band(self, at: Any) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper): what is proved about the optimal value BETWEEN the points too.

        For a swept scalar budget or leakage budget. The optimal value is convex in the budget, so
        chords of the upper values are attained (time sharing: append the coin to Y); every point's
        multiplier gives a line below the whole curve. Outside the swept range the upper end is inf.
        With measures other than mutual information (`monotone`) only what a larger budget allows is
        used: steps between the points.
        """
        if self.parameter == "multiplier" or (np.ndim(self.points) == 2 and self.points.shape[1] != 1):
            raise InputError("band needs a curve over one budget or over leakage budgets")
        at = np.atleast_1d(finite(real_array(at, "at", ndim=(0, 1)), "at"))
        x = np.asarray(self.points).reshape(-1)
        solution = self.solution
        known = np.isfinite(solution.value)
        if not known.any():
            raise InputError("band needs a curve with a feasible point; every point of this one is infeasible")
        order = np.argsort(x[known])
        x, value = x[known][order], np.asarray(solution.value)[known][order]
        bound = np.asarray(solution.lower_bound)[known][order]
        if self.monotone:
            upper = np.where(x[None, :] <= at[:, None], value, np.inf).min(axis=1)
            lower = np.where(x[None, :] >= at[:, None], bound, -np.inf).max(axis=1)
            return lower, upper
        prices = solution.multipliers if self.parameter == "budget" else solution.weights
        # With several joints every joint has its own budget row; they all move together.
        slope = -np.asarray(prices)[known][order].sum(axis=1)
        # A larger budget never hurts, so the running minimum is an upper bound as well.
        upper = np.interp(at, x, np.minimum.accumulate(value), left=np.inf)
        upper = np.where(at > x[-1], value.min(), upper)
        lower = (bound[None, :] + slope[None, :] * (at[:, None] - x[None, :])).max(axis=1)
        return lower, upper


def frontier(
    problem: DistortionProblem,
    *,
    budgets: Any = None,
    multipliers: Any = None,
    leakage_budgets: Any = None,
    solver: Any = "auto",
    tol: Any = 1e-6,
    rtol: Any = 0.0,
    max_steps: Any = None,
    throw: bool = False,
    time_limit: Any = None,
    progress: Any = None,
) -> Frontier:
    """Solve `problem` at many budgets (or multipliers, or leakage budgets) at once.

    The problem's own budget is replaced. Points run in batches of one compiled program, nearby
    points together because a batch waits for its slowest member; the data is prepared once. `auto` is one method on
    tables here, the same for all points: where it stalls the point says `not_certified` with its gap, and `solve` at
    that target goes on to the next method.

    A time limit or Ctrl-C works as in `solve`. All points are returned: one that was not reached has the status
    `best_known`, with the best of its neighbours' mechanisms and mixtures of them (what a smaller budget allows, a
    larger one does) and the best bound that their multipliers prove for it, both certified for the point itself.

    Args:
        problem: supplies the joints and the distortions.
        budgets: shape (B,) for one distortion, (B, M) for several.
        multipliers: likewise.
        leakage_budgets: shape (B,), nats.
        solver, tol, rtol, max_steps: as for `solve`.
        throw: raise at the first infeasible point instead of marking it `infeasible`.
        time_limit: seconds for the whole sweep, compiling included, as for `solve`.
        progress: as for `solve`; the record's `done` and `total` count the points, its numbers are those of the point
            of the present batch with the largest gap.

    Raises:
        InputError: exactly one sweep must be given, finite, of the right shape.
    """
    if not isinstance(problem, DistortionProblem):
        raise InputError(f"problem must be a DistortionProblem, not {type(problem).__name__}")
    sweeps = {"budget": budgets, "multiplier": multipliers, "leakage_budget": leakage_budgets}
    given = [name for name, values in sweeps.items() if values is not None]
    if len(given) != 1:
        raise InputError("give exactly one of budgets, multipliers and leakage_budgets")
    name = given[0]
    if is_traced(problem, sweeps[name], tol):
        raise InputError("frontier runs outside of jit and vmap only; inside, vmap `solve` over the budgets")
    points = real_array(sweeps[name], f"{name}s", ndim=1 if name == "leakage_budget" else (1, 2))
    if name == "leakage_budget" and np.isinf(points).any():
        raise InputError("leakage_budgets must be finite; for a point without limit call solve with leakage_budget=inf")
    finite(points, f"{name}s")
    if name != "leakage_budget" and points.ndim == 1:
        points = points[:, None]
    goal = Goal(scalar(tol, "tol", low=0.0, open_low=True), scalar(rtol, "rtol", low=0.0))
    begun = time.perf_counter()
    with clock_of(time_limit, progress) as clock, own_settings(), device_errors():
        solutions, label, compiling = _sweep(problem, name, points, solver, goal, max_steps, throw, clock)
    seconds = {"compile": compiling, "solve": time.perf_counter() - begun - compiling}
    # Static fields must agree before stacking: points answered in closed form name another "solver".
    solutions = [dataclasses.replace(one, solver=label, seconds=seconds) for one in solutions]
    return Frontier(name, points, jax.tree.map(lambda *leaves: np.stack(leaves), *solutions), problem.measured)


def _sweep(
    problem: DistortionProblem,
    name: str,
    points: np.ndarray,
    solver: Any,
    goal: Goal,
    max_steps: Any,
    throw: bool,
    clock: Clock,
) -> tuple[list[Solution], str, float]:
    """The solutions in the order of `points`, the name of the solver, and the seconds spent compiling."""
    asked = [replace_form(problem, **{name: point}) for point in points]
    goal = own_goal(asked[0], goal)
    if problem.measured:
        label, method = pick_measured(solver, asked[0])
        limit = step_limit(method, max_steps)
        found, compiling = sweep_measured(asked, label, method, goal, limit, throw, _BATCH, clock)
        return found, label, compiling
    program = asked[0].program()
    label, chosen, automatic = pick_solver(solver, problem, goal)
    if isinstance(chosen, STREAMING) and automatic:  # notes: it was `auto` that chose
        label, chosen = dense_solver(problem)
    if isinstance(chosen, STREAMING):
        raise InputError(f"solver: {label} solves one point at a time; call solve at every budget")
    limit = step_limit(chosen, max_steps)
    results: list[Solution | None] = [None] * len(points)
    waiting: list[tuple[int, Prepared]] = []
    programs: dict[int, Program] = {}
    compiling = 0.0
    for i, one in enumerate(asked):
        at = program if i == 0 else one.at_point(program)
        try:
            prepared = prepare(at, None if not waiting else waiting[0][1])
        except InfeasibleError:
            if throw:
                raise
            results[i] = infeasible(one, at)
            continue
        programs[i] = prepared.program
        if prepared.batches:
            waiting.append((i, prepared))
        else:
            answer, spent = solve_prepared(prepared, label, chosen, goal, limit, clock)
            compiling += spent
            results[i] = finish(one, prepared.program, answer, goal, None)
    done = len(points) - len(waiting)
    report_points(clock, label, [one for one in results if one is not None], done, len(points))
    waiting.sort(key=lambda item: tuple(points[item[0]].ravel()))
    for start in range(0, len(waiting), _BATCH):
        chunk = waiting[start : start + _BATCH]
        if clock.expired():
            answers = [without_steps(prepared, clock.stop) for _, prepared in chunk]
        else:
            answers, spent = _run_batch(chunk, label, chosen, goal, limit, clock, done, len(points))
            compiling += spent
        fresh = [
            finish(asked[i], one.program, answer, goal, None) for (i, one), answer in zip(chunk, answers, strict=True)
        ]
        for (i, _), one in zip(chunk, fresh, strict=True):
            results[i] = one
        done += len(chunk)
        report_points(clock, label, fresh, done, len(points))
    found = [result for result in results if result is not None]
    for i, one in enumerate(found):
        if one.status == "best_known":
            results[i] = _from_neighbours(asked[i], programs[i], i, points, found, goal)
    return [result for result in results if result is not None], label, compiling


def _from_neighbours(
    problem: DistortionProblem, program: Program, i: int, points: np.ndarray, found: list[Solution], goal: Goal
) -> Solution:
    """Point i, which was not reached, with the best that the points near it prove.

    Their mechanisms, and the mixture of the two nearest that gives this point's budgets, are measured in its own
    program; their scores and prices prove a bound there as any do. Nothing is concluded from a neighbour's own numbers.
    """
    place = points.reshape(len(points), -1)
    known = [j for j, one in enumerate(found) if np.isfinite(one.value) and one.solver != "none" and j != i]
    near = sorted(known, key=lambda j: float(np.abs(place[j] - place[i]).sum()))
    sides = [[j for j in near if (sign * (place[j] - place[i]) >= 0).all()][:1] for sign in (1.0, -1.0)]
    chosen = [found[j] for j in dict.fromkeys([*near[:2], *sides[0], *sides[1]])]
    own = found[i]
    mechanisms = [own.mechanism, *(one.mechanism for one in chosen)]
    if sides[0] and sides[1]:
        above, below = sides[0][0], sides[1][0]
        width = float((place[above] - place[below]).sum())
        share = float((place[i] - place[below]).sum()) / width if width > 0 else 0.0
        mixed = (1.0 - share) * found[below].mechanism + share * found[above].mechanism
        leak = average_leakage(np, program.joints[0], mixed) if program.form is Form.LIMIT else 0.0
        mechanisms.append(repair(program, mixed, leak))
    best, proved = own, own
    value, bound = own.value, own.lower_bound
    for mechanism in mechanisms[1:]:
        certificate = certify(program, mechanism, own.scores, own.weights, own.multipliers)
        if certificate.violation == 0 and certificate.value < value:
            value, best = certificate.value, dataclasses.replace(own, mechanism=mechanism)
    for one in chosen:
        certificate = certify(program, own.mechanism, one.scores, one.weights, one.multipliers)
        if certificate.lower_bound > bound:
            bound, proved = certificate.lower_bound, one
    answer = Answer(
        best.mechanism,
        proved.scores,
        proved.weights,
        proved.multipliers,
        int(own.steps),
        own.solver,
        Stop(int(own.stopped)),
    )
    return finish(problem, program, answer, goal, None)


def _run_batch(
    chunk: list[tuple[int, Prepared]],
    label: str,
    solver: Any,
    goal: Goal,
    limit: int,
    clock: Clock,
    done: int,
    total: int,
) -> tuple[list[Answer], float]:
    """One loop on up to `_BATCH` points, and the seconds spent compiling; `done` of `total` came before.

    A short last batch is padded with its last point.
    """
    prepared = [p for _, p in chunk]
    padded = prepared + [prepared[-1]] * (_BATCH - len(prepared))
    programs = [p.reduced for p in padded]
    varying = jax.tree.map(lambda *leaves: np.stack(leaves), *[_varying(p) for p in programs])
    goals = jax.tree.map(lambda *leaves: np.stack(leaves), *[inner_goal(p, goal) for p in padded])

    def lane(best: Any, k: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[k], best)

    def report(best: Any, steps: Any) -> None:
        worst = int(np.argmax(best.gap[: len(chunk)]))
        clock.report(label, steps.max(), *in_units(prepared[worst], lane(best, worst)), done, total)

    step = _BATCH * seconds_of(solver, programs[0])
    padding = _BATCH - len(chunk)
    ran = run(clock, _BATCHED, solver, (programs[0], (varying, goals)), goals, limit, step, report, padding)
    if ran.best is None:
        return [without_steps(one, clock.stop) for one in prepared], ran.compiling
    stops = np.where(goals.met(ran.best), Stop.NONE, clock.stop)
    answers = [expand(one, lane(ran.best, k), int(ran.steps[k]), label) for k, one in enumerate(prepared)]
    answers = [dataclasses.replace(one, stop=Stop(int(stop))) for one, stop in zip(answers, stops, strict=False)]
    return answers, ran.compiling


def _varying(program: Program) -> Any:
    """What differs between the points of a sweep: budgets, or costs, or the limit, and the anchor."""
    cost = program.cost if program.form is not Form.LIMIT and np.any(program.cost) else None
    return program.budgets, program.limit, program.anchor, cost


def _at(shared: Program, lane: Any) -> tuple[Program, Goal]:
    """The program of one point, and its goal."""
    (budgets, bound, anchor, cost), goal = lane
    program = dataclasses.replace(shared, budgets=budgets, limit=bound, anchor=anchor)
    return (program if cost is None else dataclasses.replace(program, cost=cost)), goal


def _iterate_batch(solver: Any, shared: Program, varying: Any, limit: Any) -> Any:
    return jax.vmap(lambda lane: iterate(solver, *_at(shared, lane), limit))(varying)


def _begin_batch(solver: Any, shared: Program, varying: Any) -> Any:
    return jax.vmap(lambda lane: begin(solver, _at(shared, lane)[0]))(varying)


def _resume_batch(solver: Any, shared: Program, varying: Any, course: Any, until: Any) -> Any:
    return jax.vmap(lambda lane, course: resume(solver, *_at(shared, lane), course, until))(varying, course)


def _points(shared: Program, varying: Any) -> list[tuple[Program, Goal]]:
    return [_at(shared, jax.tree.map(lambda leaf, k=k: leaf[k], varying)) for k in range(_BATCH)]


_BATCHED = Loop(_iterate_batch, _begin_batch, _resume_batch, _points)
