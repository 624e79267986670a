"""Derivatives of optimal values and optimal mechanisms with respect to everything a problem is made of.

Write V for the optimal value of a `DistortionProblem`, and for multipliers lambda, a price eta of leakage

    L = <cost, W> + sum_k eta_k I_k(S;Y) + sum_k,m lambda_{k,m} ( E_k d_m(X,Y) - D_m ) - eta eps

for the Lagrangian at the mechanism W (budget form: cost = 0, eta = 1, or the worst joints' weights;
multiplier form: cost = sum_m l_m p(x) d_m and no lambda; leakage-budget form: cost = p(x) d).

* The VALUE by the envelope theorem (Danskin 1967; Milgrom and Segal 2002, Theorem 5 for saddle points):
  where primal and dual optima are unique, V is differentiable and its derivative is that of L at fixed
  W, lambda, eta. Any solver's solution will do: nothing is solved again.
* The MECHANISM by the implicit function theorem at the end of the central path (`_interior_tangent`):
  the one matrix that a step of the interior-point method factors, and a few products with it.

Probabilities live on a simplex, where a gradient is defined up to a constant. Here the joint is
divided by its total before anything else, so gradients in it are centred: <gradient, joint> = 0, and
entry (s, x) is the slope of V when mass moves to the cell (s, x) from all cells in proportion,
d/dh V((1 - h) J + h e_{s,x}): the influence function of V.
"""

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._repr import summary
from jaxpriv._validation import is_traced, mechanism_array, scalar
from jaxpriv.certificates import certify
from jaxpriv.certificates.lagrangian import along
from jaxpriv.certificates.slopes import slopes
from jaxpriv.errors import InputError, NotCertifiedError
from jaxpriv.probability import mutual_information
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.program import Form, Program
from jaxpriv.solution import Solution, Status
from jaxpriv.solvers import AbstractSolver, Goal, InteriorPoint, last_state, path_tangent
from jaxpriv.solving.choice import STREAMING, check_double, pick_measured, pick_solver, step_limit
from jaxpriv.solving.dense import MARGIN, own_goal
from jaxpriv.solving.measured.traced import Found, LeastWorst, Posed, optimum, undifferentiated_optimum
from jaxpriv.solving.solve import solve
from jaxpriv.solving.traced import traced_program


def optimal_value(
    problem: DistortionProblem, *, solver: str | AbstractSolver = "auto", tol: Any = 1e-9, max_steps: Any = None
) -> Any:
    """The optimal value of `problem`, differentiable in its joint, distortions, and budgets or multipliers.

    The number is `solve(problem).value`, in units of the objective (nats; of the distortion in the
    leakage-budget form). Build the problem inside the function that is differentiated:

        jax.grad(lambda d: optimal_value(DistortionProblem(joint, d, budget=0.3)))(d)

    Forward and reverse mode, jit and vmap work in any order, for every form, measure and limit and every solver that
    runs there (a function f or loss of one's own, and a traced order of Sibson or Arimoto, raise InputError); the
    gradient is that of the Lagrangian (module docstring; other measures: `certificates/lagrangian.py`) and costs little
    more than the solve. Second derivatives come from the derivative of the mechanism: for mutual information without
    further limits, by the interior-point method.

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
        if problem.measured:
            _, method = pick_measured(solver, problem)
            return _measured_value(problem, method, tol, step_limit(method, max_steps))
        program = traced_program(problem)
        name, chosen, _ = pick_solver("interior-point" if solver == "auto" else solver, problem, Goal(tol))
        if isinstance(chosen, STREAMING):
            raise InputError(f"solver: {name} runs outside of transformations only; `sensitivity` takes its result")
        return _value(chosen, tol, step_limit(chosen, max_steps), program)


def optimal_mechanism(problem: DistortionProblem, *, tol: Any = 1e-10, max_steps: Any = None) -> Any:
    """The optimal mechanism of `problem`, shape (X, Y), differentiable like `optimal_value`.

    Of mutual information without further limits where it is differentiated. By the interior-point method. Its
    derivative solves the linearised optimality conditions of the central path at its end, every product X Z
    held fixed; for a unique, strictly complementary optimum the error is of the order of tol (some 1e-7
    relative at the default on random problems, more where a probability or its price is nearly zero). Below
    about 1e-12 rounding takes over. Where several mechanisms are optimal (a budget with room to spare; equal
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
        chosen = InteriorPoint()
        return _optimum(chosen, tol, step_limit(chosen, max_steps), traced_program(_normalised(problem))).mechanism


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Gradients of the optimal value, NumPy float64; None for what the problem does not have.

    Attributes:
        joint: (K, S, X), centred: `(joint * problem.joints).sum() == 0` for each joint. Entry (s, x) is
            the change of the optimal value per unit of mass that moves to the cell (s, x) from all
            cells in proportion. A direction dJ with total 0 has slope `(joint * dJ).sum()`.
        distortion: (M, X, Y): per unit of d_m(x, y).
        budget: (M,): minus the price of each budget.
        multiplier: (M,): E d_m at the optimum.
        leakage_budget: (): minus the price of leakage.
        limits: one entry for each of the problem's further limits: minus its price, 0 where it is not active.
    """

    joint: np.ndarray
    distortion: np.ndarray
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
    terms (`certificates/slopes.py`); where a measure is a logarithm or the largest of its outputs this is the slope of
    that value, not the price of the convex program that `solution.multipliers` holds. Units: of the objective per unit
    of mass, of distortion, of the budget. It is exact where primal and dual optima are unique. Where they are not, V
    has one-sided derivatives only and this is what one optimal pair says: an upper bound on the
    slope in a direction if only W is free, an element of the sub- or superdifferential where V is convex
    (budget, leakage budget) or concave (multiplier, distortion of the multiplier form). A budget equal
    to the least distortion, or a leakage budget of 0, has no finite price in general: the
    numbers then prove the bound of the solution and are no derivative.

    The error is that of W and of the prices: of the order of `solution.gap` for the interior-point
    method, of its square root for mirror descent and the streaming solvers. Zero mass: as for
    `optimal_value`; the row of a useful
    symbol without mass is the solution's.

    Raises:
        InputError: the solution is a batch, is not of this problem's shape, or says infeasible.
    """
    _distortion_problem(problem)
    if is_traced(problem, solution):
        raise InputError("sensitivity runs outside of jit and grad; inside, differentiate optimal_value")
    if np.ndim(solution.value) != 0:
        raise InputError("solution is a batch; pass one of its elements, solution[i]")
    if not np.isfinite(solution.value):
        raise InputError("solution has no mechanism: it says infeasible")
    if np.shape(solution.mechanism) != problem.shape:
        raise InputError(f"solution has a mechanism of shape {np.shape(solution.mechanism)}, not {problem.shape}")
    if problem.measured:
        return _of_measures(problem, solution)
    joints, tables = problem.joints, problem.tables()
    groups, count = joints.shape[0], len(tables)
    mechanism = mechanism_array(solution.mechanism, "solution.mechanism")
    by_form: dict[str, np.ndarray] = {}
    weights = np.ones(1)
    if problem.budget is not None:
        # Prices of budgets, one for each joint and distortion; weights that sum to one.
        prices = np.asarray(solution.multipliers, dtype=np.float64).reshape(groups, count)
        weights = weights if groups == 1 else np.asarray(solution.weights) / np.sum(solution.weights)
        by_form["budget"] = -prices.sum(axis=0)
    elif problem.multiplier is not None:
        prices = problem.multiplier[None]
        by_form["multiplier"] = np.einsum("x,mxy,xy->m", joints[0].sum(axis=0), tables, mechanism)
    else:
        prices, weights = np.ones((1, 1)), np.asarray(solution.weights, dtype=np.float64)
        by_form["leakage_budget"] = np.asarray(-weights[0])
    lifts = np.stack([_log_lift(joint, mechanism) for joint in joints])
    gradient = weights[:, None, None] * (lifts @ mechanism.T)
    gradient = gradient + (prices @ (tables * mechanism).sum(axis=2))[:, None, :]
    gradient = gradient - (gradient * joints).sum(axis=(1, 2), keepdims=True)
    by_table = np.einsum("km,kx,xy->mxy", prices, joints.sum(axis=1), mechanism)
    return Sensitivity(gradient, by_table, **by_form)


def _of_measures(problem: DistortionProblem, solution: Solution) -> Sensitivity:
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


def _log_lift(joint: np.ndarray, mechanism: np.ndarray) -> np.ndarray:
    """ln P(s|y)/P(s), shape (S, Y); 0 where P(s, y) = 0."""
    w = joint @ mechanism
    product = w.sum(axis=1, keepdims=True) * w.sum(axis=0)
    present = np.minimum(w, product) >= np.finfo(np.float64).tiny
    return np.log(np.where(present, w, 1.0) / np.where(present, product, 1.0))


# ------------------------------------------------------------------------------ arguments


def _plain(tol: Any) -> float:
    if is_traced(tol):
        raise InputError("tol must be a plain number, not a tracer")
    return scalar(tol, "tol", low=0.0, open_low=True)


def _distortion_problem(problem: Any) -> None:
    if not isinstance(problem, DistortionProblem):
        raise InputError(f"problem must be a DistortionProblem, not {type(problem).__name__}")


def _differentiable(problem: DistortionProblem) -> bool:
    """Whether the problem holds tracers; they must be float64."""
    _distortion_problem(problem)
    check_double(problem)
    return is_traced(problem)


def _certified(problem: DistortionProblem, solver: str | AbstractSolver, tol: float, max_steps: Any) -> Solution:
    """The host's solution, or the exception that says why there is none."""
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


class _Optimum(NamedTuple):
    """What the Lagrangian is made of, NaN throughout where it is not certified."""

    value: Any
    mechanism: Any  # (X, Y)
    weights: Any  # (K,)
    multipliers: Any  # (R,)


@partial(jax.jit, static_argnums=0)
def _search(solver: AbstractSolver, tol: Any, max_steps: Any, program: Program) -> tuple[_Optimum, Any]:
    """The certified optimum, and the state in which the solver ended."""
    state, _ = last_state(solver, program, Goal(MARGIN * tol), max_steps)
    best = state.best
    scores, weights, multipliers = program.unstacked(best.k, best.price)
    certificate = certify(program, best.mechanism, scores, weights, multipliers)
    proved = (certificate.gap <= tol) & (certificate.violation == 0)
    found = _Optimum(certificate.value, best.mechanism, weights, multipliers)
    return jax.tree.map(lambda leaf: jnp.where(proved, leaf, jnp.nan), found), state


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _optimum(solver: AbstractSolver, tol: float, max_steps: int, program: Program) -> _Optimum:
    return _search(solver, tol, max_steps, program)[0]


@_optimum.defjvp
def _optimum_jvp(solver: AbstractSolver, tol: float, max_steps: int, primals: Any, tangents: Any) -> Any:
    (program,), (change,) = primals, tangents
    if not isinstance(solver, InteriorPoint):
        raise InputError(
            f"solver: second derivatives of the optimal value need solver='interior-point', not {type(solver).__name__}"
        )
    with jax.numpy_rank_promotion("allow"):  # a rule may run long after `optimal_value` has returned
        found, state = _search(solver, tol, max_steps, program)
        # Symbols without mass stay without. Support and anchor do not move the optimum, and the tangent of the support
        # is of no dtype that jit would take.
        joints = jnp.where(program.priors[..., None] > 0, change.joints, 0.0)
        change = dataclasses.replace(change, joints=joints, support=program.support, anchor=program.anchor)
        move = _path_tangent(program, change, state.point)
        limits = program.budgets.shape[0]
        weights = jnp.zeros_like(found.weights) if program.form is Form.OBJECTIVE else move.price[limits:]
        # A factor, so that it reaches both modes.
        known = jnp.where(jnp.isnan(found.value), jnp.nan, 1.0)
        parts = _Optimum(_envelope(program, change, found), move.x.T, weights, move.price[:limits])
        return found, jax.tree.map(lambda part: known * part, parts)


_path_tangent = jax.jit(path_tangent)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _value(solver: AbstractSolver, tol: float, max_steps: int, program: Program) -> Any:
    return _optimum(solver, tol, max_steps, program).value


@_value.defjvp
def _value_jvp(solver: AbstractSolver, tol: float, max_steps: int, primals: Any, tangents: Any) -> Any:
    (program,), (change,) = primals, tangents
    with jax.numpy_rank_promotion("allow"):
        # Differentiated once more, `found` moves too: by `_optimum_jvp`.
        found = _optimum(solver, tol, max_steps, program)
        return found.value, _envelope(program, change, found)


def _envelope(program: Program, change: Program, at: _Optimum) -> Any:
    """The derivative of the Lagrangian at a fixed primal and dual optimum."""
    moving = lambda p: (p.joints, p.cost, p.constraints, p.budgets, p.limit)  # noqa: E731

    def lagrangian(parts: Any) -> Any:
        joints, cost, constraints, budgets, limit = parts
        w = jnp.matmul(joints, at.mechanism, precision="highest")
        leaked = at.weights @ jnp.stack([mutual_information(one) for one in w])
        total = (cost * at.mechanism).sum() + leaked
        if program.form is Form.LIMIT:
            total = total - at.weights.sum() * limit
        return total + at.multipliers @ ((constraints * at.mechanism).sum(axis=(1, 2)) - budgets)

    return jax.jvp(lagrangian, (moving(program),), (moving(change),))[1]


# ------------------------------------------------------------------------------ any measures


def _measured_value(problem: DistortionProblem, solver: Any, tol: float, max_steps: Any) -> Any:
    """The optimal value with any measures: a function of the value of the program's total, which has a derivative."""
    if problem.budget is not None and problem.leakage.worst_outcome:
        value, bound, violation = _least_worst(LeastWorst.of(problem, solver, Goal(tol), max_steps))
    else:
        posed = Posed.of(problem)
        found = _total(solver, posed.program, posed.away, posed.inner(own_goal(problem, Goal(tol))), max_steps)
        value, bound, violation = posed.certified(found)
    proved = (value - bound <= tol) & (violation == 0)
    return value * jnp.where(proved, 1.0, jnp.nan)  # a factor, so that it reaches the derivative


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _total(solver: InteriorPoint, program: Any, away: Any, goal: Goal, max_steps: Any) -> Found:
    """The optimum of a program; its value alone has a derivative."""
    return optimum(solver, program, away, goal, max_steps)


@_total.defjvp
def _total_jvp(solver: InteriorPoint, primals: Any, tangents: Any) -> Any:
    program, away, goal, max_steps = primals
    with jax.numpy_rank_promotion("allow"):  # a rule may run long after `optimal_value` has returned
        found = undifferentiated_optimum(solver, program, away, goal, max_steps)
        slope = along(program, tangents[0], found.mechanism, found.k, found.eta, found.price)
        still = jax.tree.map(_no_tangent, found)
        return found, still._replace(value=slope)


def _no_tangent(primal: Any) -> Any:
    dtype = primal.dtype if jnp.issubdtype(primal.dtype, jnp.floating) else jax.dtypes.float0
    return np.zeros(primal.shape, dtype)


def _least_worst(asked: LeastWorst) -> tuple[Any, Any, Any]:
    """(value, lower bound, violation) of the least worst outcome; its value alone has a derivative."""

    @jax.custom_jvp
    def found(parts: Any) -> Found:
        return asked.found(parts)

    @found.defjvp
    def _jvp(primals: Any, tangents: Any) -> Any:
        (parts,), (change,) = primals, tangents
        best = asked.found(parts)
        with jax.numpy_rank_promotion("allow"):
            slope = asked.slope(parts, change, best)
        return best, jax.tree.map(_no_tangent, best)._replace(value=slope)

    best = found(asked.parts)
    return best.value, best.bound, best.violation
