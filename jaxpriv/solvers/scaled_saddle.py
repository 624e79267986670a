"""A linear program as a saddle point, its scaling, and one primal-dual step.

    min over W in simplices, t, v >= 0, peak    max over 0 <= k <= cap, price >= 0
        <cost, W> + sum_OBJECTIVE t + peak + <k, W A' - t reference' - v>
        + price . (use(W, t, v) - bounds - marks peak)

with use = <constraints_r, W> of a budget and sum_y (t_jy + cap . v_jy) of a limit on a sum. A row of W stays in its
simplex and k of a capped objective in its box, by projection, so neither has a multiplier; the only products are with
A (T, X). The linear map of (W, t, v, peak) into the dual space is K.

As t is free it may be measured from any a . W_y: t = t~ + a . W_y turns A into A - reference a', and the sum over y
of what was added is the constant sum_x a_x. Where S and Y depend on each other weakly the rows of A are nearly one
direction, which alone would set the length of the steps; the best a takes it out.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from jaxpriv._runtime.types import Arr, ArrLike, ScalarLike
from jaxpriv.leakage.rule_sets import Role, Term
from jaxpriv.solvers.interior_point.system import Data


class Primal(NamedTuple):
    """Outputs first."""

    w: Arr  # (Y, X)
    t: Arr  # (Y, J), one column for every term, unused where a term is not normalised
    v: Arr  # (Y, T), zero on rows that need no excess
    peak: Arr  # ()


class Dual(NamedTuple):
    k: Arr  # (Y, T)
    price: Arr  # (B,)


class LinearMap(NamedTuple):
    """K: what the primal variables make of the rows of the dual ones."""

    a: Array  # (T, X) with its part along the references taken out
    reference: Array  # (T, J), negative
    excess: Array  # (T,) -1 where v exists
    c: Arr  # (R, Y, X)
    sums: Array  # (B, J) t of a limit
    over: Array  # (B, T) cap of a limit
    marks: Arr  # (B,), negative

    def forward(self, u: Primal) -> Dual:
        """K u."""
        seen = jnp.matmul(u.w, self.a.T, precision="highest")
        k = seen + jnp.matmul(u.t, self.reference.T, precision="highest") + self.excess * u.v
        use = self.sums @ u.t.sum(axis=0) + self.over @ u.v.sum(axis=0) + self.marks * u.peak
        if budgets := len(self.c):
            use = use.at[:budgets].add(jnp.tensordot(self.c, u.w, 2, precision="highest"))
        return Dual(k, use)

    def backward(self, p: Dual) -> Primal:
        """K' p."""
        return jax.linear_transpose(self.forward, self.each(1.0, 1.0, 1.0, 1.0))(p)[0]

    def each(self, w: ArrLike, t: ArrLike, v: ArrLike, peak: ArrLike) -> Primal:
        """Numbers of the variables of one output as those of all outputs."""
        outputs, dtype = self.c.shape[1], self.a.dtype
        sizes = self.a.shape[1], self.reference.shape[1], self.a.shape[0]
        w, t, v = (
            jnp.broadcast_to(jnp.asarray(part, dtype), (outputs, n)) for part, n in zip((w, t, v), sizes, strict=True)
        )
        return Primal(w, t, v, jnp.asarray(peak, dtype))


class Scales(NamedTuple):
    """Squared scales of the variables."""

    theta: Primal  # w (X,), t (J,), v (T,), peak ()
    phi: Dual  # k (T,), price (B,)


class Saddle(NamedTuple):
    """The parts of the program that the step uses."""

    data: Data
    map: LinearMap
    charge: Array  # (J,) 1 for an objective
    top: Array  # (T,) the largest k
    bounds: Array  # (B,)
    scales: Scales


def saddle(data: Data, scales: Scales | None = None) -> Saddle:
    """The program as the steps need it; `scales` are computed where they are not given."""
    terms, dtype = data.terms, data.a.dtype
    limits, rows = data.marks.shape[0], data.a.shape[0]
    reference = jnp.zeros((rows, len(terms)), dtype)
    charge = jnp.zeros(len(terms), dtype)
    sums, over = jnp.zeros((limits, len(terms)), dtype), jnp.zeros((limits, rows), dtype)
    excess, top = jnp.zeros(rows, dtype), jnp.full(rows, jnp.inf, dtype)
    bounds = [data.program.budgets]
    parts = []
    for j, (term, place) in enumerate(zip(terms, data.layout, strict=True)):
        rows_j, shift = _without_reference(term)
        parts.append(rows_j)
        if term.normalised:
            reference = reference.at[place.rows, j].set(-term.reference)
            charge = charge.at[j].set(float(term.role is Role.OBJECTIVE))
        if place.limit is not None:
            bounds.append((term.bound - shift.sum())[None])
            sums = sums.at[place.limit, j].set(float(term.normalised))
            if term.cap is not None:
                over = over.at[place.limit, place.rows].set(term.cap)
                excess = excess.at[place.rows].set(-1.0)
        elif term.cap is not None:
            top = top.at[place.rows].set(term.cap)
    linear = LinearMap(jnp.concatenate(parts), reference, excess, data.c, sums, over, -data.marks)
    return Saddle(data, linear, charge, top, jnp.concatenate(bounds), _scales(linear) if scales is None else scales)


def _without_reference(term: Term) -> tuple[Arr, Arr]:
    """(A - reference a', a), with a the least squares fit to rows of length one; a = 0 if not normalised."""
    if not term.normalised:
        return term.rows, jnp.zeros_like(term.rows[0])
    length = (term.rows**2).sum(axis=1)
    weight = jnp.where(length > 0, 1.0 / jnp.where(length > 0, length, 1.0), 0.0) * term.reference
    size = (weight * term.reference).sum()
    shift = (weight[:, None] * term.rows).sum(axis=0) / jnp.where(size > 0, size, 1.0)
    return term.rows - term.reference[:, None] * shift, shift


def gradient(s: Saddle, p: Dual) -> Primal:
    """Of the Lagrangian in the primal variables."""
    g = s.map.backward(p)
    return Primal(g.w + s.data.cost, g.t + s.charge, g.v, g.peak + float(s.data.program.peaked))


def primal_step(s: Saddle, u: Primal, g: Primal, tau: ScalarLike, level: Arr) -> tuple[Primal, Arr]:
    """u - tau theta g, projected; `level` (X,) is a guess at the shifts of the rows, returned with their values."""
    theta = s.scales.theta
    w, level = onto_simplices(u.w - tau * theta.w * g.w, s.data.support, level)
    return (
        Primal(
            w,
            u.t - tau * theta.t * g.t,
            abs(s.map.excess) * jnp.maximum(u.v - tau * theta.v * g.v, 0.0),
            u.peak - tau * theta.peak * g.peak,
        ),
        level,
    )


def dual_step(s: Saddle, p: Dual, u: Primal, sigma: ScalarLike) -> Dual:
    """p + sigma phi (K u - bounds), projected."""
    slope, phi = s.map.forward(u), s.scales.phi
    k = jnp.clip(p.k + sigma * phi.k * slope.k, 0.0, s.top)
    return Dual(k, jnp.maximum(p.price + sigma * phi.price * (slope.price - s.bounds), 0.0))


def onto_simplices(w: Arr, support: Arr, level: Arr) -> tuple[Arr, Arr]:
    """The nearest points with columns in the simplex: max(w - level, 0), and the levels.

    Newton's method for the level: the sum is convex and decreasing in it, so that after one step the level is
    too low and then only rises, through finitely many pieces.
    """
    w = jnp.where(support, w, -jnp.inf)
    highest = w.max(axis=0)

    def refine(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        level, _, count = carry
        above = w > level
        number = jnp.maximum(above.sum(axis=0), 1).astype(w.dtype)
        new = level + (jnp.where(above, w - level, 0.0).sum(axis=0) - 1.0) / number
        return new, (abs(new - level) > 2.0 * jnp.finfo(w.dtype).eps * (1.0 + abs(new))).any(), count + 1

    # A guess above every entry has no slope.
    start = (jnp.where(level < highest, level, highest - 1.0), jnp.array(True), jnp.array(0))
    level, _, _ = lax.while_loop(lambda carry: carry[1] & (carry[2] < 60), refine, start)
    projected = jnp.maximum(w - level, 0.0)
    return projected / projected.sum(axis=0), level


# Rounds of the scaling by norms of columns and rows, and the order of these norms, in which the largest entries count
# nearly alone. Choices.
_ROUNDS, _ORDER = 10, 8


def _scales(linear: LinearMap) -> Scales:
    """Squared scales: columns and rows are divided by their norms, so many times, then by the sums of their entries,
    which leaves a map of norm one at most (Pock and Chambolle 2011).

    The variables of all outputs have one scale, that of the largest size: the projection on the simplex stays the
    Euclidean one.
    """

    def divided(count: Arr, scales: Scales) -> Scales:
        order = jnp.where(count < _ROUNDS, _ORDER, 1.0).astype(linear.a.dtype)
        sizes = jax.tree.map(lambda part: abs(part) ** order, linear)
        roots = jax.tree.map(lambda scale: scale ** (0.5 * order), scales)
        rows = sizes.forward(sizes.each(*roots.theta))
        columns = sizes.backward(Dual(jnp.broadcast_to(roots.phi.k, rows.k.shape), roots.phi.price))
        w, t, v = (part.max(axis=0) for part in (columns.w, columns.t, columns.v))
        largest = Scales(Primal(w, t, v, columns.peak), Dual(rows.k[0], rows.price))

        def divide(scale: Arr, root: Arr, size: Arr) -> Arr:
            return scale / jnp.where(size > 0, (root * size) ** (1.0 / order), 1.0)

        return jax.tree.map(divide, scales, roots, largest)

    a, unit = linear.a, jnp.ones((), linear.a.dtype)
    theta = Primal(jnp.ones_like(a[0]), jnp.ones_like(linear.reference[0]), jnp.ones_like(a[:, 0]), unit)
    first = Scales(theta, Dual(jnp.ones_like(a[:, 0]), jnp.ones_like(linear.marks)))
    return lax.fori_loop(0, _ROUNDS + 1, divided, first)
