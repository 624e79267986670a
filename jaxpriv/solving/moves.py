"""How the optimum of a program moves with what the program is made of, inside of jit and grad."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from jaxpriv._runtime.types import Arr
from jaxpriv.program.candidate import Candidate, Goal
from jaxpriv.program.convex import Program
from jaxpriv.reductions.reduction import Reduced
from jaxpriv.solvers import path_tangent
from jaxpriv.solvers.interior_point.system import Point


def moves(program_of: Callable[[PyTree], Program], parts: PyTree, change: PyTree, point: Point) -> tuple[Arr, ...]:
    """The moves of (mechanism, k, eta, price) of `program_of(parts)` as the parts move by `change`.

    `point`: where the interior-point method ended on the reduced program. The feasible point does not move the
    optimum, and private symbols without mass stay without.
    """

    def small(parts: PyTree) -> Reduced:
        program = program_of(parts)
        feasible_point = jax.lax.stop_gradient(program.feasible_point)
        return Reduced.of(dataclasses.replace(_mass_kept(program), feasible_point=feasible_point), Goal(1.0))

    def arrays(parts: PyTree) -> Program:
        return eqx.filter(small(parts).program, eqx.is_inexact_array)

    def read(parts: PyTree, x: Array, k: Array, eta: Array, price: Array) -> tuple[Arr, ...]:
        nothing = jnp.zeros((), x.dtype)
        return small(parts).expanded(Candidate(x.T, nothing, k, eta, price, nothing))

    moved = jax.jvp(arrays, (parts,), (change,))[1]
    along = path_tangent(small(parts).program, moved, point)
    at = point.x, point.k, point.eta, point.price
    return jax.jvp(read, (parts, *at), (change, along.x, along.k, along.eta, along.price))[1]


def _mass_kept(program: Program) -> Program:
    """The program, with rows of zeros that stay zeros whatever moves."""
    terms = []
    for term in program.terms:
        seen = (term.rows != 0).any(axis=1)
        rows = jnp.where(seen[:, None], term.rows, 0.0)
        terms.append(dataclasses.replace(term, rows=rows))
    return dataclasses.replace(program, terms=tuple(terms))
