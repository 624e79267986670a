"""How a point of the central path moves with the program: the implicit function theorem.

With the products (X Z, slack price, ...) held fixed, the optimality system is F(point, program) = 0, so that
d(point) = -F_point^-1 F_program d(program). F_point is the matrix that every step of the method factors;
F_program d(program) and what a move leaves of F are directional derivatives of the residuals, by JAX. So nothing here
depends on a measure.

Fixed products instead of vanishing ones cost an error of order mu where the optimum is unique and strictly
complementary (Fiacco 1976, sensitivity analysis by penalty methods). Everything is linear in d(program), so that JAX
transposes it for reverse mode.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import PyTree

from jaxpriv.problems.program import Program
from jaxpriv.solvers.conic.method import predictor
from jaxpriv.solvers.conic.newton import Sides, directions, factorise, responses, with_prices
from jaxpriv.solvers.conic.system import Data, Point, rearrange, reduced_costs, residuals

# One solve loses about eps/mu of the answer: where X > 0 the columns of dX come out of 1/mu times a
# difference that vanishes. Each further one, for what the equations still ask, gains that factor again:
# from 1e-3 at mu = 1e-12 (mu = 1e-14: 5e-2) to what the point itself is worth.
_SOLVES = 4


def path_tangent(program: Program, change: Program, point: Point) -> Point:
    """The move of `point`, on the central path of `program`, when the program moves by `change`.

    The support, the anchor and which limits are equations do not move.
    """
    moving, still = eqx.partition(program, eqx.is_inexact_array)
    moved = eqx.filter(change, jax.tree.map(eqx.is_inexact_array, program))

    def data_of(parts: PyTree) -> Data:
        return rearrange(eqx.combine(parts, still), dense=True)

    def missing(parts: PyTree, at: Point) -> Sides:
        """The right-hand side of a Newton step to products of zero: minus the products, and what the equations miss."""
        data = data_of(parts)
        z = reduced_costs(data, at.k, at.eta, at.nu, at.price, at.peak)
        return predictor(data, at._replace(z=z), residuals(data, at))

    data = data_of(moving)
    r = residuals(data, point)
    f = factorise(data, point, r, transposable=True)
    response = responses(data, point, r, f) if point.price.shape[0] else point

    def refine(move: Point, _: None) -> tuple[Point, None]:
        """Add the move that the equations still ask for."""
        asked = jax.jvp(missing, (moving, point), (moved, move))[1]
        own = directions(data, point, r, f, Sides(*(leaf[None] for leaf in asked)))
        more = with_prices(data, point, r, Point(*(leaf[0] for leaf in own)), response, asked)
        return jax.tree.map(jnp.add, move, more), None

    found = lax.scan(refine, jax.tree.map(jnp.zeros_like, point), None, length=_SOLVES)[0]
    # Rows of a mechanism sum to one however it moves: what the solves leave of that goes where the mass is.
    return found._replace(x=found.x - point.x * found.x.sum(axis=0))
