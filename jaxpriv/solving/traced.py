"""Problems inside jit, vmap or grad: the same iteration on the program as it is."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxpriv.certificates import certify
from jaxpriv.errors import InputError
from jaxpriv.problems.distortion import DistortionProblem
from jaxpriv.problems.program import Form, Program
from jaxpriv.solution import Solution, Status
from jaxpriv.solvers import AbstractSolver, Goal, iterate
from jaxpriv.solving.dense import MARGIN, distortion_of, own_goal
from jaxpriv.solving.measured.traced import NO_DERIVATIVE


def traced_program(problem: DistortionProblem) -> Program:
    """The program of a problem that holds tracers, with its anchor."""
    # NumPy float64 beside tracers, with x64 off, would warn wherever its dtype is asked for.
    program = jax.tree.map(jnp.asarray, problem.program())
    outputs = program.cost.shape[1]
    if program.form is Form.LIMIT:
        best = program.cost.sum(axis=0).argmin()
        anchor = jnp.broadcast_to(jax.nn.one_hot(best, outputs, dtype=program.cost.dtype), program.cost.shape)
    else:
        anchor = jax.nn.one_hot(program.constraints.sum(axis=0).argmin(axis=1), outputs, dtype=program.cost.dtype)
    return dataclasses.replace(program, anchor=anchor)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _iterate(solver: AbstractSolver, program: Program, goal: Goal, max_steps: Any) -> Any:
    return iterate(solver, program, goal, max_steps)


@_iterate.defjvp
def _no_derivative(solver: AbstractSolver, primals: Any, tangents: Any) -> Any:
    raise InputError(NO_DERIVATIVE)


def solve_traced(problem: DistortionProblem, name: str, solver: AbstractSolver, goal: Goal, max_steps: Any) -> Solution:
    """Solve and certify within one trace, without the host's validation and reduction."""
    goal = own_goal(problem, goal)
    program = traced_program(problem)
    run = _iterate(solver, program, Goal(MARGIN * goal.tol, MARGIN * goal.rtol), max_steps)
    best = run.best
    scores, weights, multipliers = program.unstacked(best.k, best.price)
    certificate = certify(program, best.mechanism, scores, weights, multipliers)
    proved = goal.proved(certificate)
    return Solution(
        value=certificate.value,
        lower_bound=certificate.lower_bound,
        mechanism=best.mechanism,
        leakage=certificate.leakages.max(),
        distortion=distortion_of(jnp, problem, best.mechanism),
        scores=scores,
        weights=weights,
        multipliers=multipliers,
        code=jnp.where(proved, Status.OPTIMAL.value, Status.NOT_CERTIFIED.value),
        steps=run.steps,
        solver=name,
    )
