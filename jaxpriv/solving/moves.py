"""How the optimum of a program moves with what the program is made of, inside of jit and grad."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from jaxpriv._types import Arr
from jaxpriv.problems.program import Program
from jaxpriv.solvers import Candidate, Goal, path_tangent
from jaxpriv.solvers.conic.system import Point
from jaxpriv.solving.reduction import Reduced


def as_they_are(*optimum: Arr) -> tuple[Arr, ...]:
    """(mechanism, k, eta, price) in units of the program."""
    return optimum


def moves(
    program_of: Callable[[PyTree], Program],
    parts: PyTree,
    change: PyTree,
    point: Point,
    counted: Callable[..., tuple[Arr, ...]] = as_they_are,
) -> tuple[Arr, ...]:
    """The moves of (mechanism, k, eta, price) of `program_of(parts)` as the parts move by `change`.

    `point`: where the interior-point method ended on the reduced program. The anchor does not move the optimum, and
    private symbols without mass stay without. `counted`: (mechanism, k, eta, price) in units of the caller's own.
    """

    def small(parts: PyTree) -> Reduced:
        program = program_of(parts)
        anchor = jax.lax.stop_gradient(program.anchor)
        return Reduced.of(dataclasses.replace(_mass_kept(program), anchor=anchor), Goal(1.0))

    def arrays(parts: PyTree) -> Program:
        return eqx.filter(small(parts).program, eqx.is_inexact_array)

    def read(parts: PyTree, x: Array, k: Array, eta: Array, price: Array) -> tuple[Arr, ...]:
        nothing = jnp.zeros((), x.dtype)
        return counted(*small(parts).expanded(Candidate(x.T, nothing, k, eta, price, nothing)))

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
