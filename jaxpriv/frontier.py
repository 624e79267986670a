"""Curves: one problem at many budgets, in one batched call, every point with its own certificate."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from jaxpriv._validation import finite, is_traced, real_array, scalar
from jaxpriv.errors import InfeasibleError, InputError
from jaxpriv.problems.distortion import DistortionProblem, replace_form
from jaxpriv.problems.program import Form, Program
from jaxpriv.solution import Solution
from jaxpriv.solvers import Goal, iterate
from jaxpriv.solving.choice import STREAMING, dense_solver, pick_measured, pick_solver, step_limit
from jaxpriv.solving.dense import (
    Answer,
    Prepared,
    expand,
    finish,
    infeasible,
    inner_goal,
    own_goal,
    prepare,
    solve_prepared,
)
from jaxpriv.solving.execution import device_errors, on_host, own_settings
from jaxpriv.solving.measured import sweep_measured

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
    progress: Callable[[int, int], None] | None = None,
) -> Frontier:
    """Solve `problem` at many budgets (or multipliers, or leakage budgets) at once.

    The problem's own budget is replaced. Points run in batches of one compiled program, nearby
    points together because a batch waits for its slowest member; the data is prepared once.

    Args:
        problem: supplies the joints and the distortions.
        budgets: shape (B,) for one distortion, (B, M) for several.
        multipliers: likewise.
        leakage_budgets: shape (B,), nats.
        solver, tol, rtol, max_steps: as for `solve`.
        throw: raise at the first infeasible point instead of marking it `infeasible`.
        progress: called with (points done, points in all) after every batch.

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
        raise InputError("leakage_budgets must be finite; a point without limit is solve(...) with leakage_budget=inf")
    finite(points, f"{name}s")
    if name != "leakage_budget" and points.ndim == 1:
        points = points[:, None]
    goal = Goal(scalar(tol, "tol", low=0.0, open_low=True), scalar(rtol, "rtol", low=0.0))
    begun = time.perf_counter()
    with own_settings(), device_errors():
        solutions, label, compiling = _sweep(problem, name, points, solver, goal, max_steps, throw, progress)
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
    progress: Callable[[int, int], None] | None,
) -> tuple[list[Solution], str, float]:
    """The solutions in the order of `points`, the name of the solver, and the seconds spent compiling."""
    asked = [replace_form(problem, **{name: point}) for point in points]
    goal = own_goal(asked[0], goal)
    if problem.measured:
        label, method = pick_measured(solver, asked[0])
        limit = step_limit(method, max_steps)
        found, compiling = sweep_measured(asked, label, method, goal, limit, throw, _BATCH, progress)
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
        if prepared.batches:
            waiting.append((i, prepared))
        else:
            answer, spent = solve_prepared(prepared, label, chosen, goal, limit)
            compiling += spent
            results[i] = finish(one, prepared.program, answer, goal, None)
    done = len(points) - len(waiting)
    if progress and done:
        progress(done, len(points))
    waiting.sort(key=lambda item: tuple(points[item[0]].ravel()))
    for start in range(0, len(waiting), _BATCH):
        chunk = waiting[start : start + _BATCH]
        answers, spent = _run_batch(chunk, label, chosen, goal, limit)
        compiling += spent
        for (i, prepared), answer in zip(chunk, answers, strict=True):
            results[i] = finish(asked[i], prepared.program, answer, goal, None)
        done += len(chunk)
        if progress:
            progress(done, len(points))
    return [result for result in results if result is not None], label, compiling


def _run_batch(
    chunk: list[tuple[int, Prepared]], label: str, solver: Any, goal: Goal, limit: int
) -> tuple[list[Answer], float]:
    """One compiled call on up to `_BATCH` points, and the seconds spent compiling.

    A short last batch is padded with its last point.
    """
    prepared = [p for _, p in chunk]
    padded = prepared + [prepared[-1]] * (_BATCH - len(prepared))
    programs = [p.reduced for p in padded]
    varying = jax.tree.map(lambda *leaves: np.stack(leaves), *[_varying(p) for p in programs])
    goals = jax.tree.map(lambda *leaves: np.stack(leaves), *[inner_goal(p, goal) for p in padded])
    result, compiling = on_host(_batched, solver, programs[0], (varying, goals), np.asarray(limit))
    answers = [
        expand(p, jax.tree.map(lambda leaf, k=k: leaf[k], result.best), int(result.steps[k]), label)
        for k, p in enumerate(prepared)
    ]
    return answers, compiling


def _varying(program: Program) -> Any:
    """What differs between the points of a sweep: budgets, or costs, or the limit, and the anchor."""
    cost = program.cost if program.form is not Form.LIMIT and np.any(program.cost) else None
    return program.budgets, program.limit, program.anchor, cost


def _batched(solver: Any, shared: Program, varying: Any, limit: Any) -> Any:
    def one(lane: Any) -> Any:
        (budgets, bound, anchor, cost), goal = lane
        program = dataclasses.replace(shared, budgets=budgets, limit=bound, anchor=anchor)
        if cost is not None:
            program = dataclasses.replace(program, cost=cost)
        return iterate(solver, program, goal, limit)

    return jax.vmap(one)(varying)
