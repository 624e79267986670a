"""Derivatives of optimal values and optimal mechanisms with respect to everything a problem is made of.

Write V for the optimal value of a `DistortionProblem`, W for the mechanism and L for the Lagrangian of its program
(`certificates/lagrangian.py`), costs plus leakage at the rules and prices of the dual.

* The VALUE by the envelope theorem (Danskin 1967; Milgrom and Segal 2002, Theorem 5 for saddle points):
  where primal and dual optima are unique, V is differentiable and its derivative is that of L at fixed
  mechanism, rules and prices. Any solver's solution will do: nothing is solved again.
* The MECHANISM by the implicit function theorem at the end of the central path (`solvers/interior_point/newton.py`):
  the one matrix that a step of the interior-point method factors, and a few products with it.

Probabilities live on a simplex, where a gradient is defined up to a constant. Here the joint is
divided by its total before anything else, so gradients in it are centred: <gradient, joint> = 0, and
entry (s, x) is the slope of V when mass moves to the cell (s, x) from all cells in proportion,
d/dh V((1 - h) J + h e_{s,x}): the influence function of V.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxpriv._module import summary
from jaxpriv._types import ScalarLike
from jaxpriv._validation import is_traced, scalar
from jaxpriv.certificates.lagrangian import DistortionSlopes, along, slopes
from jaxpriv.errors import InputError, NotCertifiedError
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.convex import Program
from jaxpriv.solution import Solution, Status
from jaxpriv.solvers import AbstractSolver, Goal, InteriorPoint
from jaxpriv.solving.choice import check_double, pick_solver, step_limit
from jaxpriv.solving.solve import solve
from jaxpriv.solving.stages import own_goal
from jaxpriv.solving.traced import (
    LeastWorst,
    Posed,
    TracedResult,
    optimum,
    optimum_and_moves,
    undifferentiated_optimum,
)


def optimal_value(
    problem: DistortionProblem,
    *,
    solver: str | AbstractSolver = "auto",
    tol: float = 1e-9,
    max_steps: int | None = None,
) -> Array:
    """The optimal value of `problem`, differentiable in its joint, distortions, and budgets or multipliers.

    The number is `solve(problem).value`, in units of the objective (nats; of the distortion in the
    leakage-budget form). Build the problem inside the function that is differentiated:

        jax.grad(lambda d: optimal_value(DistortionProblem(joint, d, budget=0.3)))(d)

    Forward and reverse mode, jit and vmap work in any order, for every form, measure and limit and every solver that
    runs there (a function f or loss of one's own, and a traced order of Sibson or Arimoto, raise InputError); the
    gradient is that of the Lagrangian (module docstring) and costs little more than the solve. Second derivatives come
    from the derivative of the optimum, by the interior-point method, where every measure is smooth; of piecewise linear
    measures and of the least worst outcome they are refused.

    Where the optimum is not unique the result is the slope for the solution that was found. In a
    budget it is still a subgradient up to the gap (V is convex there): V(D') >= V(D) - lambda (D' - D)
    - tol for every D'. Otherwise its error is of the order of the distance to the optimum: of tol for
    the interior-point method, of sqrt(tol) for mirror descent.

    Zero mass: derivatives hold along directions that keep the zeros of the joint. In a cell (s, x)
    without mass the terms with P(s, y) = 0 are left out of the gradient (0 ln 0 has slope -inf), and
    symbols without mass contribute no leakage term at all.

    Args:
        problem: a `DistortionProblem`; float64 where it is traced (enable x64, or wrap the call in
            `jax.enable_x64(True)`).
        solver: as for `solve`.
        tol: the largest certified gap, in units of the objective; a plain number.
        max_steps: as for `solve`.

    Returns:
        A scalar. Inside jax transformations it is NaN, with NaN derivatives, where the gap is above
        `tol` or no mechanism meets the limits (a number that is not certified is not returned); outside
        of them the same cases raise.

    Raises:
        InputError: an argument is wrong, by name.
        InfeasibleError, NotCertifiedError: outside of jax transformations.
    """
    tol = _plain(tol)
    if not _differentiable(problem):
        return _certified(problem, solver, tol, max_steps).value
    with jax.numpy_rank_promotion("allow"):
        problem = _normalised(problem)
        _, chosen, _ = pick_solver("interior-point" if solver == "auto" else solver, problem, Goal(tol))
        value, proved, _ = _optimum_of(problem, chosen, tol, step_limit(chosen, max_steps), _value_of, False)
        return value * proved


def optimal_mechanism(problem: DistortionProblem, *, tol: float = 1e-10, max_steps: int | None = None) -> Array:
    """The optimal mechanism of `problem`, shape (X, Y), differentiable like `optimal_value`.

    By the interior-point method, for every form, measure and limit that `optimal_value` takes. Its
    derivative solves the linearised optimality conditions of the central path at its end, every product X Z
    held fixed; for a unique, strictly complementary optimum the error is of the order of tol (some 1e-7
    relative at the default on random problems, more where a probability or its price is nearly zero). Below
    about 1e-12 rounding takes over. Where several mechanisms are optimal (a budget with slack; equal
    symbols) there is no derivative to find, and the result is that of the analytic centre, of no use. In a
    set of joints the same holds for weights of joints that are not determined.

    Private symbols without mass stay without in every direction; the row of a useful symbol without
    mass is arbitrary.

    Args, results and errors as for `optimal_value`; NaN entries where that is NaN.
    """
    tol = _plain(tol)
    if not _differentiable(problem):
        return _certified(problem, "interior-point", tol, max_steps).mechanism
    with jax.numpy_rank_promotion("allow"):
        problem, chosen = _normalised(problem), InteriorPoint()
        pick_solver(chosen, problem, Goal(tol))
        steps = step_limit(chosen, max_steps)
        _, proved, mechanism = _optimum_of(problem, chosen, tol, steps, _optimum, True)
        return mechanism * proved


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Gradients of the optimal value, NumPy float64; None for what the problem does not have.

    Attributes:
        joint: (K, S, X), centred: `(joint * problem.joints).sum() == 0` for each joint. Entry (s, x) is
            the change of the optimal value per unit of mass that moves to the cell (s, x) from all
            cells in proportion. A direction dJ with total 0 has slope `(joint * dJ).sum()`.
        distortion: (M, X, Y): per unit of d_m(x, y). Where the solution's mechanism is an operator this is one too
            (`shape`, `rows(index)`): no table of that size is made unless it is converted to an array.
        budget: (M,): minus the price of each budget.
        multiplier: (M,): E d_m at the optimum.
        leakage_budget: (): minus the price of leakage.
        limits: one entry for each of the problem's further limits: minus its price, 0 where it is not active.
    """

    joint: np.ndarray
    distortion: np.ndarray | DistortionSlopes
    budget: np.ndarray | None = None
    multiplier: np.ndarray | None = None
    leakage_budget: np.ndarray | None = None
    limits: np.ndarray | None = None

    __repr__ = summary


def sensitivity(problem: DistortionProblem, solution: Solution) -> Sensitivity:
    """How the optimal value of `problem` changes with its data, from a solution of any solver.

    With g_{k,y}(s) = ln P_k(s|y)/P_k(s) at the solution's mechanism W, weights eta and prices lambda
    (in the multiplier form the multipliers themselves, in the leakage-budget form 1):

        d/dJ_k(s, x)   = eta_k sum_y W(x, y) g_{k,y}(s) + sum_{m,y} lambda_{k,m} d_m(x, y) W(x, y),  centred
        d/dd_m(x, y)   = sum_k lambda_{k,m} P_k(x) W(x, y)
        d/dD_m         = - sum_k lambda_{k,m};      d/dl_m = E d_m(X,Y);      d/deps = - eta

    the derivative of the Lagrangian (module docstring). Other measures and limits: the same theorem with their own
    terms (`certificates/lagrangian.py`); where a measure is a logarithm or the largest of its outputs this is the
    slope of that value, not the price of the convex program that `solution.multipliers` holds. Units: of the
    objective per unit of mass, of distortion, of the budget. It is exact where primal and dual optima are unique.
    Where they are not, V has one-sided derivatives only and this is the slope at one optimal pair: an upper bound on
    the slope in a direction if only W is free, an element of the sub- or superdifferential where V is convex
    (budget, leakage budget) or concave (multiplier, distortion of the multiplier form). A budget equal to the least
    distortion, or a leakage budget of 0, has no finite price in general: the numbers then prove the bound of the
    solution and are no derivative.

    The error is that of W and of the prices: of the order of `solution.gap` for the interior-point
    method, of its square root for mirror descent and the streaming solvers. Zero mass: as for
    `optimal_value`; the row of a useful
    symbol without mass is the solution's.

    Raises:
        InputError: the solution is a batch, is not of this problem's shape, or is `infeasible`.
    """
    _distortion_problem(problem)
    if is_traced(problem, solution):
        raise InputError("sensitivity runs outside of jit and grad; inside, differentiate optimal_value")
    if np.ndim(solution.value) != 0:
        raise InputError("solution is a batch; pass one of its elements, solution[i]")
    if not np.isfinite(solution.value):
        raise InputError("solution has no mechanism: its status is `infeasible`")
    if np.shape(solution.mechanism) != problem.shape:
        raise InputError(f"solution has a mechanism of shape {np.shape(solution.mechanism)}, not {problem.shape}")
    found = slopes(problem, solution)
    gradient = found.joint - (found.joint * problem.joints).sum(axis=(1, 2), keepdims=True)
    limits = found.limits
    by_form: dict[str, np.ndarray] = {}
    if problem.budget is not None:
        by_form["budget"] = found.level
    elif problem.multiplier is not None:
        by_form["multiplier"] = found.level
    else:
        by_form["leakage_budget"], limits = np.asarray(limits[0]), limits[1:]
    if problem.limits:
        by_form["limits"] = limits
    return Sensitivity(gradient, found.distortion, **by_form)


# ------------------------------------------------------------------------------ arguments


def _plain(tol: float) -> float:
    if is_traced(tol):
        raise InputError("tol must be a plain number, not a tracer")
    return scalar(tol, "tol", low=0.0, open_low=True)


def _distortion_problem(problem: object) -> None:
    if not isinstance(problem, DistortionProblem):
        raise InputError(f"problem must be a DistortionProblem, not {type(problem).__name__}")


def _differentiable(problem: DistortionProblem) -> bool:
    """Whether the problem holds tracers; they must be float64."""
    _distortion_problem(problem)
    check_double(problem)
    return is_traced(problem)


def _certified(problem: DistortionProblem, solver: str | AbstractSolver, tol: float, max_steps: int | None) -> Solution:
    """The host's solution, or the exception with the reason why there is none."""
    solution = solve(problem, solver, tol=tol, max_steps=max_steps)
    if solution.code != Status.OPTIMAL:
        raise NotCertifiedError(f"the certified gap is {float(solution.gap):.3g}, above tol = {tol:g}")
    return solution


def _normalised(problem: DistortionProblem) -> DistortionProblem:
    joints = problem.joints
    if not is_traced(joints):  # host joints are normalised already
        return problem
    return eqx.tree_at(lambda p: p.data, problem, joints / joints.sum(axis=(1, 2), keepdims=True))


# ------------------------------------------------------------------------------ the optimum


def _optimum_of(
    problem: DistortionProblem,
    solver: PyTree,
    tol: float,
    max_steps: int,
    of_program: Callable[..., PyTree],
    whole: bool,
) -> tuple[PyTree, PyTree, PyTree]:
    """(value, 1 where it is proved and NaN elsewhere, mechanism): a factor, so that it reaches the derivatives.

    `of_program`, and `whole` of the least worst outcome, say what has a derivative.
    """
    if problem.least_worst:
        asked = LeastWorst.of(problem, solver, Goal(tol), max_steps)
        found = _least_worst(asked, whole)
        value, bound, violation = found.value, found.bound, found.violation
    else:
        posed = Posed.of(problem)
        goal = posed.inner(own_goal(problem, Goal(tol)))
        found = of_program(solver, posed.program, posed.away, goal, max_steps)
        value, bound, violation = posed.certified(found)
    proved = jnp.where((value - bound <= tol) & (violation == 0), 1.0, jnp.nan)
    return value, proved, found.mechanism


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _value_of(
    solver: AbstractSolver, program: Program, away: Program | None, goal: Goal, max_steps: ScalarLike
) -> TracedResult:
    """The optimum of a program; its value alone has a derivative."""
    return optimum(solver, program, away, goal, max_steps)


@_value_of.defjvp
def _value_of_jvp(solver: AbstractSolver, primals: PyTree, tangents: PyTree) -> PyTree:
    program, away, goal, max_steps = primals
    with jax.numpy_rank_promotion("allow"):  # a rule may run long after `optimal_value` has returned
        # Differentiated once more, `found` moves too: by `_optimum_jvp`. The Lagrangian holds what a piecewise linear
        # measure claims at fixed rows, which is right once only.
        smooth = all(term.smooth for term in program.terms)
        found = (_optimum if smooth else undifferentiated_optimum)(solver, program, away, goal, max_steps)
        slope = along(program, tangents[0], found.mechanism, found.k, found.eta, found.price)
        return found, jax.tree.map(_no_tangent, found)._replace(value=slope)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _optimum(
    solver: AbstractSolver, program: Program, away: Program | None, goal: Goal, max_steps: ScalarLike
) -> TracedResult:
    """The optimum of a program: value, mechanism, rules and prices have derivatives."""
    return optimum(solver, program, away, goal, max_steps)


@_optimum.defjvp
def _optimum_jvp(solver: AbstractSolver, primals: PyTree, tangents: PyTree) -> PyTree:
    program, away, goal, max_steps = primals
    if not isinstance(solver, InteriorPoint):
        raise InputError(
            f"solver: second derivatives of the optimal value need solver='interior-point', not {type(solver).__name__}"
        )
    with jax.numpy_rank_promotion("allow"):
        program = jax.tree.map(jnp.asarray, program)
        change = eqx.filter(tangents[0], jax.tree.map(eqx.is_inexact_array, program))
        found, moves = optimum_and_moves(solver, program, away, goal, max_steps, change)
        slope = along(program, tangents[0], found.mechanism, found.k, found.eta, found.price)
        mechanism, k, eta, price = moves
        still = jax.tree.map(_no_tangent, found)
        return found, still._replace(mechanism=mechanism, k=k, eta=eta, price=price, value=slope)


def _no_tangent(primal: PyTree) -> PyTree:
    dtype = primal.dtype if jnp.issubdtype(primal.dtype, jnp.floating) else jax.dtypes.float0
    return np.zeros(primal.shape, dtype)


def _least_worst(asked: LeastWorst, whole: bool) -> TracedResult:
    """The least worst outcome: its value has a derivative, and if `whole` its mechanism."""

    @jax.custom_jvp
    def found(parts: PyTree) -> TracedResult:
        return asked.found(parts)

    @found.defjvp
    def _jvp(primals: PyTree, tangents: PyTree) -> PyTree:
        (parts,), (change,) = primals, tangents
        if whole:
            best, mechanism, slope = asked.found_and_moves(parts, change)
            moved = {"mechanism": mechanism, "value": slope}
        else:
            best = asked.found(parts)  # refuses to be differentiated once more
            with jax.numpy_rank_promotion("allow"):
                moved = {"value": asked.slope(parts, change, best)}
        return best, jax.tree.map(_no_tangent, best)._replace(**moved)

    return found(asked.parts)
