"""Curves: one problem at many budgets, in one batched call, every point with its own certificate."""

import dataclasses
import time
from typing import Any

import equinox as eqx
import jax
import numpy as np

from jaxpriv._clock import clock_of
from jaxpriv._validation import finite, is_traced, real_array, scalar
from jaxpriv.errors import InputError
from jaxpriv.problems.distortion import DistortionProblem, replace_form
from jaxpriv.solution import Solution
from jaxpriv.solvers import Goal
from jaxpriv.solving.choice import STREAMING, pick_solver, step_limit, table_solver
from jaxpriv.solving.execution import device_errors, own_settings
from jaxpriv.solving.sweep import sweep


class Frontier(eqx.Module):
    """The curve of optimal values over a swept parameter.

    Attributes:
        parameter: `budget`, `multiplier` or `leakage_budget`.
        points: the swept values, shape (B, M) ((B,) for `leakage_budget`).
        solution: a batched `Solution`, leading axis B, in the order of `points`; its `solver` is the
            one that iterates (some points need no iteration) and its `seconds` are of the whole sweep.
        monotone: the curve is known to be monotone, not to be convex.
        joints: of how many joints.
    """

    parameter: str = eqx.field(static=True)
    points: Any
    solution: Solution
    monotone: bool = eqx.field(static=True, default=False)
    joints: int = eqx.field(static=True, default=1)

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
        # With several joints every joint has a budget of its own, which all move together; the weights of the joints
        # come after them.
        budgets = self.joints if self.parameter == "budget" else 1
        slope = -np.asarray(solution.multipliers)[known][order][:, :budgets].sum(axis=1)
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
    asked = [replace_form(problem, **{name: point}) for point in points]
    label, chosen, automatic = pick_solver(solver, asked[0], goal)
    if isinstance(chosen, STREAMING) and automatic:  # notes: it was `auto` that chose
        label, chosen = table_solver(problem)
    if isinstance(chosen, STREAMING):
        raise InputError(f"solver: {label} solves one point at a time; call solve at every budget")
    limit = step_limit(chosen, max_steps)
    with clock_of(time_limit, progress) as clock, own_settings(), device_errors():
        solutions, compiling = sweep(asked, points, label, chosen, goal, limit, throw, clock)
    seconds = {"compile": compiling, "solve": time.perf_counter() - begun - compiling}
    # Static fields must agree before stacking: points answered in closed form name another "solver".
    solutions = [dataclasses.replace(one, solver=label, seconds=seconds) for one in solutions]
    curve = jax.tree.map(lambda *leaves: np.stack(leaves), *solutions)
    return Frontier(name, points, curve, not problem.of_information, problem.sizes[0])
