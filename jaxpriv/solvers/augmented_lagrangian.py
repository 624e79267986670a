"""Linear programs to many digits by products alone: an inexact proximal augmented Lagrangian method.

The program is the saddle point of `first_order_lp`. Every row becomes an equation, K u + lack - over = bounds with
lack >= 0 and, at the cost of the largest rule, over >= 0, so that its multiplier p is free. About a centre (u0, p0) the
proximal point is the optimum of

    min over u, lack, over  max over p   L(u, lack, over, p) + |u - u0|^2 / (2 tau) - |p - p0|^2 / (2 sigma)

(the norms are those of the scaled variables, lack and over are centred too), with tau = rho / omega and
sigma = 30 rho omega. For a given p the minimisers have a closed form: a projection on simplices for the mechanism,
maxima with 0 for the rest. What is left is a concave function of p with a piecewise linear slope; its negative is
minimised by semismooth Newton steps, whose systems

    ( tau K P K' + tau P_slack + 1/sigma ) d = slope,       P: projections on the faces of the minimisers

are solved by conjugate gradients, of two products with the rows each. The preconditioner has the block of every output
without the projections; where there are many rows it is the diagonal. Along a Newton step the slope is known without
products, so that the step ends where its slope has halved. Once the slope is small beside the way to the centre, the
proximal point is the new centre and rho doubles; after `newtons` steps without that the last point is the centre, and
rho is halved. omega moves towards the ratio of the ways of both sides.

Near the optimum the faces no longer change, rho grows, and every centre multiplies the digits: the gap falls from 1e-5
to 1e-9 in a few centres, where `PrimalDualHybridGradient` is linear at best. Far from it, on a joint without structure
and with many private symbols, it takes more products. No rate is claimed: a result has its certificate.
Sources: Rockafellar 1976 (proximal point, inexact); Li, Sun and Toh 2020 (semismooth Newton steps for linear programs).
"""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax import lax

from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv._runtime.validation import COUNT, check_fields
from jaxpriv.program.convex import Candidate, Program
from jaxpriv.solvers._base import AbstractSolver, Measures
from jaxpriv.solvers._proximal_points import Lengths, along, conjugate_gradients, dot, step_length
from jaxpriv.solvers.first_order_lp import scaled_size
from jaxpriv.solvers.interior_point.candidate import no_candidate
from jaxpriv.solvers.interior_point.mirror_start import first_mechanism
from jaxpriv.solvers.interior_point.system import rearrange
from jaxpriv.solvers.linear_program import improved_linear
from jaxpriv.solvers.scaled_saddle import Dual, Primal, Saddle, Scales, gradient, primal_step, saddle
from jaxpriv.solvers.smooth_proximal import SmoothState, first_state, next_state

# The slope at which a point counts as the proximal one, relative to the way to the centre: of .1 and .3 the one with
# the fewest products.
_NEAR = 0.1
# Rows of rules up to which the preconditioner has a block for every output, which costs half as many products as rows.
_BLOCK = 64


class SlackedPoint(NamedTuple):
    """The primal variables, and those that make equations of the rows."""

    u: Primal
    lack: Dual  # >= 0
    over: Arr  # (Y, T) >= 0


class AugmentedState(eqx.Module):
    """The centre, the dual point of the Newton steps about it, and the lengths."""

    scales: Scales
    centre: SlackedPoint
    dual_centre: Dual
    dual: Dual
    gradient: Primal  # of the Lagrangian at `dual`
    level: Arr  # (X,) last shifts of the projection
    lengths: Lengths
    newtons: Arr  # steps about this centre
    passes: Arr  # so far: one product with the rows and one with their transpose
    stale: Arr  # centres since the gap last fell by a tenth
    mark: Arr  # the gap when it last fell by a tenth
    best: Candidate


class AugmentedLagrangian(AbstractSolver):
    """Inexact proximal augmented Lagrangian method (the `augmented-lagrangian` solver): semismooth Newton steps for
    piecewise linear measures, Newton steps for smooth averages of one joint with budgets or multipliers
    (`smooth_proximal`), of which it holds six T x T matrices for each output, T the rows of the measure.

    A step is a Newton step, or a move of the centre with a look at the gap; of smooth averages the first ones, 60 at
    most, are those of `PrimalDualHybridGradient`.

    Args:
        newtons: most Newton steps about a centre.
        patience: centres without the gap falling by a tenth after which it ends.
    """

    newtons: int = eqx.field(static=True, default=12)
    patience: int = eqx.field(static=True, default=40)
    attempts: ClassVar[int] = 1
    takes_start: ClassVar[bool] = True
    measures: ClassVar[Measures] = "separate"

    def __check_init__(self) -> None:
        check_fields(self, COUNT, "newtons", "patience")

    def blank(self, program: Program) -> Candidate:
        return no_candidate(program)

    def init(self, program: Program, attempt: ScalarLike, best: Candidate) -> AugmentedState | SmoothState:
        """The uniform release, or one near the caller's, and no prices."""
        if _smooth(program):
            return first_state(program, attempt, best)
        data = rearrange(program, dense=True)
        s = saddle(data)
        u = s.map.each(0.0, 0.0, 0.0, 0.0)._replace(w=first_mechanism(data))
        rows = s.map.forward(u)
        dual = jax.tree.map(jnp.zeros_like, rows)
        lack = Dual(jnp.maximum(-rows.k, 0.0), jnp.maximum(s.bounds - rows.price, 0.0))
        slope = gradient(s, dual)
        weight = scaled_size(slope, s.scales.theta, inverse=False) / scaled_size(u, s.scales.theta)
        unit, number = jnp.ones_like(weight), jnp.array(0)
        return AugmentedState(
            scales=s.scales,
            centre=SlackedPoint(u, lack, dual.k),
            dual_centre=dual,
            dual=dual,
            gradient=slope,
            level=jnp.full_like(u.w[0], jnp.inf),
            lengths=Lengths(unit, jnp.where(weight > 0, weight, 1.0)),
            newtons=number,
            passes=unit,
            stale=number,
            mark=jnp.inf * unit,
            best=improved_linear(data, u.w, dual.k, dual.price, best),
        )

    def step(self, program: Program, state: AugmentedState | SmoothState) -> AugmentedState | SmoothState:
        """A Newton step, or the new centre where its point is near enough; of smooth measures first some looks of the
        hybrid gradient.
        """
        if isinstance(state, SmoothState):
            return next_state(program, state, self.newtons)
        s = saddle(rearrange(program, dense=True), state.scales)
        point, level = _minimisers(s, state, state.dual, state.gradient, state.level)
        slope = _slope(s, state, point)
        theta, phi = s.scales
        moved = jax.tree.map(jnp.subtract, point, state.centre)
        slack = scaled_size(moved.lack, phi, inverse=False) ** 2 + (moved.over**2 * phi.k).sum()
        way = scaled_size(moved.u, theta)
        dual_way = scaled_size(jax.tree.map(jnp.subtract, state.dual, state.dual_centre), phi)
        rho, omega = state.lengths
        both = jnp.sqrt(omega**2 * (way**2 + slack) + dual_way**2)
        reached = scaled_size(slope, phi, inverse=False) * rho * omega <= _NEAR * both
        here = eqx.tree_at(lambda at: (at.level, at.passes), state, (level, state.passes + 0.5))
        return lax.cond(
            reached | (state.newtons >= self.newtons),
            lambda: _recentred(s, here, point, reached, way, dual_way),
            lambda: _newton_step(s, here, point, slope),
        )

    def terminate(self, program: Program, state: AugmentedState | SmoothState) -> Arr:
        """After `patience` centres without progress, or where numbers have left their range."""
        del program
        return (state.stale >= self.patience) | ~jnp.isfinite(dot(state.dual, state.dual))


def _smooth(program: Program) -> bool:
    return any(term.smooth for term in program.terms)


def _minimisers(s: Saddle, state: AugmentedState, dual: Dual, slope: Primal, level: Arr) -> tuple[SlackedPoint, Arr]:
    """What minimises about the centre at a dual point, whose `slope` is the gradient of the Lagrangian; levels."""
    tau, centre, phi = state.lengths.tau, state.centre, s.scales.phi
    u, level = primal_step(s, centre.u, slope, tau, level)
    lack = jax.tree.map(lambda old, p, f: jnp.maximum(old - tau / f * p, 0.0), centre.lack, dual, phi)
    over = jnp.maximum(centre.over - tau / phi.k * (s.top - dual.k), 0.0)
    return SlackedPoint(u, lack, over), level


def _pull(s: Saddle, state: AugmentedState, dual: Dual) -> Dual:
    """The gradient of |dual - p0|^2 / (2 sigma)."""
    sigma = state.lengths.sigma
    return jax.tree.map(lambda p, old, f: (p - old) / (sigma * f), dual, state.dual_centre, s.scales.phi)


def _slope(s: Saddle, state: AugmentedState, point: SlackedPoint) -> Dual:
    """Of the function that the Newton steps minimise, at `state.dual`, whose minimisers are `point`."""
    rows, away = s.map.forward(point.u), _pull(s, state, state.dual)
    return Dual(away.k - (rows.k + point.lack.k - point.over), away.price - (rows.price + point.lack.price - s.bounds))


def _recentred(
    s: Saddle, state: AugmentedState, point: SlackedPoint, reached: Arr, way: Arr, dual_way: Arr
) -> AugmentedState:
    """The point and its dual as the centre, certified, with new lengths; the ways of both to it."""
    price = jnp.maximum(state.dual.price, 0.0)
    best = improved_linear(s.data, point.u.w, jnp.clip(state.dual.k, 0.0, s.top), price, state.best)
    improved = best.gap < 0.9 * state.mark
    return AugmentedState(
        scales=state.scales,
        centre=point,
        dual_centre=state.dual,
        dual=state.dual,
        gradient=state.gradient,
        level=state.level,
        lengths=state.lengths.after(reached, way, dual_way),
        newtons=jnp.zeros_like(state.newtons),
        passes=state.passes + 1.0,
        stale=jnp.where(improved, 0, state.stale + 1),
        mark=jnp.where(improved, best.gap, state.mark),
        best=best,
    )


class _Face(NamedTuple):
    """The faces of the minimisers, and the curvature on them."""

    active: Arr  # (Y, X) entries of the mechanism that are not 0
    count: Arr  # (X,) how many
    excess: Arr  # (Y, T) 1 where v > 0
    diagonal: Dual  # of lack, over and the proximal term

    @staticmethod
    def of(s: Saddle, state: AugmentedState, point: SlackedPoint) -> "_Face":
        tau, sigma, phi = state.lengths.tau, state.lengths.sigma, s.scales.phi
        ones = lambda part: (part > 0).astype(tau.dtype)  # noqa: E731
        active = point.u.w > 0
        slack = Dual(ones(point.lack.k) + ones(point.over), ones(point.lack.price))
        diagonal = jax.tree.map(lambda part, f: (tau * part + 1.0 / sigma) / f, slack, phi)
        return _Face(active, jnp.maximum(active.sum(axis=0), 1).astype(tau.dtype), ones(point.u.v), diagonal)

    def projected(self, w: Arr) -> Arr:
        """Moves (Y, X) of the mechanism on the face."""
        return jnp.where(self.active, w - jnp.where(self.active, w, 0.0).sum(axis=0) / self.count, 0.0)

    def curvature(self, s: Saddle, tau: Arr, d: Dual) -> Dual:
        """The matrix of the Newton system times d."""
        theta, back = s.scales.theta, s.map.backward(d)
        u = Primal(
            theta.w * self.projected(back.w), theta.t * back.t, theta.v * self.excess * back.v, theta.peak * back.peak
        )
        return jax.tree.map(lambda rows, slack, part: tau * rows + slack * part, s.map.forward(u), self.diagonal, d)

    def preconditioner(self, s: Saddle, tau: Arr) -> tuple[Callable[[Dual], Dual], float]:
        """About the inverse of that matrix, and the passes that it costs."""
        (theta, phi), a, reference = s.scales, s.map.a, s.map.reference
        weights = theta.w * jnp.where(self.active, 1.0 - 1.0 / self.count, 0.0)
        excess = theta.v * self.excess
        limits = (s.map.sums**2 @ theta.t) * len(weights) + s.map.over**2 @ excess.sum(axis=0)
        prices = limits + s.map.marks**2 * theta.peak
        if budgets := len(s.map.c):
            faced = jax.vmap(self.projected)(s.map.c)
            prices = prices.at[:budgets].add((theta.w * faced**2).sum(axis=(1, 2)))
        prices = tau * prices + self.diagonal.price
        diagonal = self.diagonal.k + tau * excess * s.map.excess**2
        if len(a) > _BLOCK:
            whole = diagonal + tau * (weights @ (a**2).T + reference**2 @ theta.t)
            return lambda r: Dual(r.k / whole, r.price / prices), 0.0
        root = jnp.sqrt(phi.k)
        scale, eye = root[:, None] * root, jnp.eye(len(root), dtype=root.dtype)
        blocks = tau * (jnp.einsum("tx,yx,ux->ytu", a, weights, a) + (reference * theta.t) @ reference.T)
        rounding = 4.0 * jnp.finfo(root.dtype).eps * jnp.trace(scale * blocks, axis1=1, axis2=2)
        factors = jnp.linalg.cholesky(scale * blocks + (phi.k * diagonal + rounding[:, None])[:, :, None] * eye)
        inverse = scale * jsp.linalg.cho_solve((factors, True), jnp.broadcast_to(eye, factors.shape))
        return lambda r: Dual(jnp.einsum("ytu,yu->yt", inverse, r.k), r.price / prices), len(root) / 2.0


def _newton_step(s: Saddle, state: AugmentedState, point: SlackedPoint, slope: Dual) -> AugmentedState:
    """A step along the Newton direction, so long that the slope at its end is at most half of the first one."""
    tau, phi = state.lengths.tau, s.scales.phi
    face = _Face.of(s, state, point)
    inverse, passes = face.preconditioner(s, tau)
    down = jax.tree.map(jnp.negative, slope)
    size = lambda rest, _: scaled_size(rest, phi, inverse=False)  # noqa: E731
    d, count = conjugate_gradients(lambda vector: face.curvature(s, tau, vector), inverse, down, size)
    change = s.map.backward(d)

    def rise(length: Arr, level: Arr) -> tuple[Arr, Arr]:
        dual = along(state.dual, length, d)
        at, level = _minimisers(s, state, dual, along(state.gradient, length, change), level)
        rows = dot(at.u, change) + dot(at.lack, d) - (at.over * d.k).sum() - d.price @ s.bounds
        return dot(_pull(s, state, dual), d) - rows, level

    length, level = step_length(rise, dot(slope, d), jnp.ones_like(tau), state.level)
    return eqx.tree_at(
        lambda at: (at.dual, at.gradient, at.level, at.newtons, at.passes),
        state,
        (
            along(state.dual, length, d),
            along(state.gradient, length, change),
            level,
            state.newtons + 1,
            state.passes + count + 0.5 + passes,
        ),
    )
