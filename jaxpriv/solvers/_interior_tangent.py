"""How a point of the central path moves with the program: the implicit function theorem.

With the products X Z and slack * price held fixed, the optimality system of `interior_point` is
F(point, program) = 0, so d(point) = -F_point^-1 F_program d(program). F_point is the matrix that every
step of the method factors. F_program d(program) is, with p the prior, t = |w_y| and w_y = t q,

    Z = ...               dcost + eta dJ'g + lambda.dc
    J X_y - t q = 0       dJ X_y - q |dJ X_y| - w dp/p
    level = 0             w'(dp/p), in units of w'dg
    use - bound           <dc, X> - d budget, and likewise for the leakage limits

Fixed products instead of vanishing ones cost an error of order mu where the optimum is unique and
strictly complementary (Fiacco 1976, sensitivity analysis by penalty methods). Everything is linear in
d(program), so that JAX transposes it for reverse mode.
"""

import jax
import jax.numpy as jnp
from jax import lax

from jaxpriv.problems.program import Form, Program
from jaxpriv.solvers._interior_newton import Move, factorise, solve_newton, with_border
from jaxpriv.solvers._interior_system import Point, grouped, rearrange, residuals

# One solve loses about eps/mu of the answer: where X > 0 the columns of dX come out of 1/mu times a
# difference that vanishes. Each further one, for what the equations still ask, gains that factor again:
# from 1e-3 at mu = 1e-12 (mu = 1e-14: 5e-2) to what the point itself is worth.
_SOLVES = 4


def path_tangent(program: Program, change: Program, point: Point) -> Move:
    """The move of `point`, on the central path of `program`, when the program moves by `change`.

    Private symbols without mass stay without: their part of `change` is left out. The anchor and the
    support do not move. The result's `z` lacks what the program changes by itself.
    """
    data = rearrange(program, dense=True)  # a change of the joint may have entries anywhere
    r = residuals(data, point)
    f = factorise(data, point, r, transposable=True)
    joint = jnp.where(data.seen[:, None], change.joints.reshape(data.joint.shape), 0.0)
    mass = joint.reshape(data.groups, -1, joint.shape[1]).sum(axis=1)
    c = jnp.swapaxes(change.constraints, 1, 2)
    limits = data.budgets.shape[0]

    # The right-hand sides: what is left of the optimality system when only the program moves.
    direct = change.cost.T + jnp.matmul(point.g * r.spread, joint, precision="highest")
    direct = direct + jnp.tensordot(point.price[:limits], c, 1)
    columns = jnp.matmul(point.x, joint.T, precision="highest")  # dJ X_y
    masses = point.x @ mass.T
    prior = jnp.where(data.seen, jnp.exp(data.log_prior), 1.0)
    drift = r.w * (joint.sum(axis=1) / prior)  # w dp/p
    posterior = grouped(data, r.w) / r.t[..., None]
    link = columns - (masses[..., None] * posterior).reshape(columns.shape) - drift
    level = -grouped(data, drift).sum(axis=2)
    room = change.budgets - (c * point.x).sum(axis=(1, 2))
    if data.form is not Form.OBJECTIVE:
        used = (grouped(data, point.g) * grouped(data, columns)).sum(axis=(0, 2)) - (masses * r.level).sum(axis=0)
        used = used + level.sum(axis=0)
        limit = jnp.zeros_like(used) if data.form is Form.WORST else jnp.broadcast_to(change.limit, used.shape)
        room = jnp.concatenate([room, limit - used])

    still = [jnp.zeros((len(r.columns), *part.shape), part.dtype) for part in (link, level, r.row)]
    response = solve_newton(r, f, -r.columns, *still)

    safe_x = jnp.where(data.support, point.x, 1.0)

    def refine(move: Move, _: None) -> tuple[Move, None]:
        """Add the move that the equations still ask for."""
        scores = move.g * r.spread
        costs = direct + data.tell(scores) - move.nu
        costs = costs + jnp.tensordot(move.price, r.columns, 1)
        ratio = -costs - jnp.where(data.support, move.x * point.z / safe_x, 0.0)
        moved = data.see(move.x)
        spread = (grouped(data, moved).sum(axis=2, keepdims=True) * posterior).reshape(moved.shape)
        off = link + moved - spread - r.w * move.g
        short = level - grouped(data, r.w * move.g).sum(axis=2)
        asked = (ratio, off, short, -move.x.sum(axis=0))
        base = tuple(part[0] for part in solve_newton(r, f, *(side[None] for side in asked)))
        used = (r.normals * move.x).sum(axis=(1, 2)) + move.slack
        if data.form is not Form.OBJECTIVE:
            used = used.at[limits:].add(grouped(data, r.link * move.g).sum(axis=(0, 2)) - move.peak)
        pair = -(point.slack * move.price + point.price * move.slack)
        missing = (room - used, -move.price[limits:].sum())
        more = with_border(data, point, r, base, response, pair, missing)
        return jax.tree.map(jnp.add, move, more), None

    nothing = jax.tree.map(jnp.zeros_like, Move(*point))
    found = lax.scan(refine, nothing, None, length=_SOLVES)[0]
    # Rows of a mechanism sum to one however it moves: what the solves leave of that goes where the mass is.
    return found._replace(x=found.x - point.x * found.x.sum(axis=0))
