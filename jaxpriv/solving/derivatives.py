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

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jaxpriv._runtime.module import summary
from jaxpriv._runtime.types import Arr
from jaxpriv._runtime.validation import is_traced, scalar
from jaxpriv.errors import InputError, NotCertifiedError
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.program.certificates.slopes import DistortionSlopes, slopes
from jaxpriv.program.solution import Solution, Status
from jaxpriv.solvers import AbstractSolver, Goal
from jaxpriv.solving.choice import check_double, pick_solver, step_limit
from jaxpriv.solving.solve import solve
from jaxpriv.solving.traced import proved_optimum


def optimal_value(
    problem: DistortionProblem,
    *,
    solver: str | AbstractSolver = "auto",
    tol: float = 1e-9,
    max_steps: int | None = None,
) -> Arr:
    """The optimal value of `problem`, differentiable in its joint, distortions, and budgets or multipliers.

    The number is `solve(problem, tol=tol).value`, which has the same derivatives, in units of the objective (nats; of
    the distortion in the leakage-budget form). Here the tolerance is one that suits derivatives, and a number that is
    not certified is not returned. Build the problem inside the function that is differentiated:

        jax.grad(lambda d: optimal_value(DistortionProblem(joint, d, budget=0.3)))(d)

    Forward and reverse mode, jit and vmap work in any order, for every form, measure and limit and every solver that
    runs there (a function f or loss of one's own, and a traced order of Sibson or Arimoto, raise InputError); the
    gradient is that of the Lagrangian (module docstring) and costs little more than the solve. Second derivatives come
    from the derivative of the optimum, by the interior-point method, where every measure is smooth; of piecewise linear
    measures and of the least worst outcome they are refused.

    Where the optimum is not unique the result is the slope for the solution that was found. In a
    budget it is still a subgradient up to the gap (V is convex there): V(D') >= V(D) - lambda (D' - D)
    - tol for every D'. Otherwise its error is of the order of the distance to the optimum: of tol for
    the interior-point method; other methods: `sensitivity`.

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
        `tol` or no mechanism meets the limits; outside of them, and under `grad` outside of jit, the same cases raise.

    Raises:
        InputError: an argument is wrong, by name; outside of jit, the derivative of an optimum that is not certified.
        InfeasibleError, NotCertifiedError: outside of jax transformations.
    """
    return _optimum(problem, solver, tol, max_steps, whole=False)[0]


def optimal_mechanism(problem: DistortionProblem, *, tol: float = 1e-10, max_steps: int | None = None) -> Arr:
    """The optimal mechanism of `problem`, shape (X, Y): `solve(problem, tol=tol).mechanism`, as `optimal_value`.

    By the interior-point method, for every form, measure and limit that `optimal_value` takes. Its
    derivative solves the linearised optimality conditions of the central path at its end, every product X Z
    held fixed; for a unique, strictly complementary optimum the error is of the order of tol (some 1e-7
    relative at the default on random problems, more where a probability or its price is nearly zero). Below
    about 1e-12 rounding takes over. Where several mechanisms are optimal (a budget with slack; equal
    symbols) the derivative is NaN; a choice of less than 1e-5 of the mass is not seen. In a
    set of joints the same holds for weights of joints that are not determined. Derivatives of derivatives are NaN.

    Private symbols without mass stay without in every direction; the row of a useful symbol without
    mass is arbitrary.

    Args, results and errors as for `optimal_value`; NaN entries where that is NaN.
    """
    return _optimum(problem, "interior-point", tol, max_steps, whole=True)[1]


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

    The error is that of W and of the prices, of the order of `solution.gap` for the interior-point method. For other
    methods the gap bounds what is released on average: that of mutual information is at least
    sum_y P(y) KL(P(.|y) || q_y), q_y = P(s) e^{g_y} normalised, g the rules of an optimum, so that posteriors are
    within sqrt(2 gap) of q_y in the mean of their l1 distances. Single entries, which a useful symbol of little mass
    may move, have no such bound. Zero mass: as for `optimal_value`; the row of a useful symbol without mass is the
    solution's.

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
    derivatives = slopes(problem, solution)
    gradient = derivatives.joint - (derivatives.joint * problem.joints).sum(axis=(1, 2), keepdims=True)
    further = {"limits": derivatives.limits} if problem.limits else {}
    return Sensitivity(gradient, derivatives.distortion, **{problem.form.name: derivatives.target}, **further)


# ------------------------------------------------------------------------------ arguments


def _optimum(
    problem: DistortionProblem, solver: str | AbstractSolver, tol: float, max_steps: int | None, whole: bool
) -> tuple[Arr, Arr]:
    """(value, mechanism): NaN inside of transformations and an error outside of them where they are not certified."""
    if is_traced(tol):
        raise InputError("tol must be a plain number, not a tracer")
    _distortion_problem(problem)
    check_double(problem)
    if is_traced(problem):
        goal = Goal(scalar(tol, "tol", low=0.0, open_low=True))
        _, chosen, _ = pick_solver("interior-point" if solver == "auto" else solver, problem, goal)
        with jax.numpy_rank_promotion("allow"):
            _, optimum, proved = proved_optimum(problem, chosen, goal, step_limit(chosen, max_steps), whole)
            certain = jnp.where(proved, 1.0, jnp.nan)
            return jnp.asarray(optimum.value * certain), jnp.asarray(optimum.released * certain)
    solution = solve(problem, solver, tol=tol, max_steps=max_steps)
    if solution.code != Status.OPTIMAL:
        raise NotCertifiedError(f"the certified gap is {float(solution.gap):.3g}, above tol = {tol:g}")
    return solution.value, solution.mechanism


def _distortion_problem(problem: object) -> None:
    if not isinstance(problem, DistortionProblem):
        raise InputError(f"problem must be a DistortionProblem, not {type(problem).__name__}")
