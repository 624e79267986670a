"""What a point is worth: a mechanism that meets every limit, its value, a rule in the sets, its bound."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from jaxpriv.problems.measured import MeasuredProgram, Role, Term
from jaxpriv.problems.program import onto_equations
from jaxpriv.solvers.conic.sets import boundary, normalised, support
from jaxpriv.solvers.conic.system import Data, Point, rules


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Offer:
    """The best mechanism and the best rules so far, with the solver's own view of their gap."""

    mechanism: Any  # (X, Y)
    value: Any
    k: Any  # (Y, T) rules times prices
    eta: Any  # (Y, W)
    price: Any  # (B,)
    bound: Any

    @property
    def gap(self) -> Any:
        return self.value - self.bound


def no_offer(program: MeasuredProgram) -> Offer:
    dtype = program.cost.dtype
    outputs = program.cost.shape[1]
    rows = sum(term.rows.shape[0] for term in program.terms)
    worst = sum(term.smooth and term.role is Role.WORST for term in program.terms)
    limits = program.budgets.shape[0] + sum(term.priced for term in program.terms)
    return Offer(
        program.anchor,
        jnp.array(jnp.inf, dtype),
        jnp.zeros((outputs, rows), dtype),
        jnp.zeros((outputs, worst), dtype),
        jnp.zeros(limits, dtype),
        jnp.array(-jnp.inf, dtype),
    )


def offered(data: Data, point: Point, best: Offer) -> Offer:
    """`best` with the better of its own and the point's mechanism, and of its own and the point's rules."""
    feasible = repaired(data, point.x)
    value = objective(data, feasible)
    k, price = _valid(data, point)
    bound = dual_bound(data, k, point.eta, price)
    ok_p = value < best.value
    ok_d = bound > best.bound
    return Offer(
        mechanism=jnp.where(ok_p, feasible.T, best.mechanism),
        value=jnp.where(ok_p, value, best.value),
        k=jnp.where(ok_d, k, best.k),
        eta=jnp.where(ok_d, point.eta, best.eta),
        price=jnp.where(ok_d, price, best.price),
        bound=jnp.where(ok_d, bound, best.bound),
    )


def _valid(data: Data, point: Point) -> tuple[Any, Any]:
    """Rules inside their sets, and prices that share the peak."""
    price = point.price
    if data.program.peaked:
        price = price / jnp.where(data.marks > 0, (data.marks * price).sum(), 1.0)
    g = rules(data, point.k, point.price, point.eta)
    parts = []
    for term, place in zip(data.terms, data.layout, strict=True):
        own = point.k[:, place.rows]
        scale = 1.0
        if place.limit is not None:
            scale = price[place.limit]
        if term.smooth:
            rule = normalised(term, g[:, place.rows], boundary(term, g[:, place.rows]).level)
            parts.append(rule * (point.eta[:, place.worst, None] if place.worst is not None else scale))
        elif not term.normalised:
            parts.append(own if term.cap is None else jnp.clip(own, 0.0, term.cap * scale))
        elif term.role is Role.WORST:
            plus = (jnp.maximum(term.reference, 0.0) * own).sum(axis=1, keepdims=True)
            minus = (jnp.maximum(-term.reference, 0.0) * own).sum(axis=1, keepdims=True)
            parts.append(jnp.where(term.reference > 0, own * (minus / plus), own))
        else:
            parts.append(scale * own / (own @ term.reference)[:, None])
    return jnp.concatenate(parts, axis=1), price


def dual_bound(data: Data, k: Any, eta: Any, price: Any) -> Any:
    """sum_x min_y Z(nu = 0) - price . bounds."""
    limits = data.c.shape[0]
    total = data.cost + data.tell(k)
    spent = jnp.zeros((), k.dtype)
    for term, place in zip(data.terms, data.layout, strict=True):
        if place.worst is not None:
            total = total + eta[:, place.worst, None] * term.offset
        if place.limit is not None:
            spent = spent + price[place.limit] * term.bound
    if limits:
        total = total + jnp.tensordot(price[:limits], data.c, 1)
        spent = spent + price[:limits] @ data.program.budgets
    return jnp.where(data.support, total, jnp.inf).min(axis=0).sum() - spent


def objective(data: Data, x: Any) -> Any:
    """The objective at a mechanism, outputs first."""
    seen = data.see(x)
    total = (data.cost * x).sum()
    peaks: list[Any] = []
    for term, place in zip(data.terms, data.layout, strict=True):
        if term.role is Role.OBJECTIVE:
            total = total + support(term, seen[:, place.rows]).sum()
        elif term.role is Role.PEAK:
            peaks.append(support(term, seen[:, place.rows]).sum() - term.bound)
    used = (data.c * x).sum(axis=(1, 2)) - data.program.budgets
    peaks.extend(jnp.where(data.program.marks[i] > 0, used[i], -jnp.inf) for i in range(used.shape[0]))
    return total + jnp.max(jnp.stack(peaks)) if data.program.peaked else total


def repaired(data: Data, x: Any) -> Any:
    """The least mixture of x with an independent release, then with the anchor, that meets every limit.

    Equations are met first.
    """
    program = data.program
    mass = program.mass
    if program.equal is not None:
        x = onto_equations(jnp, program, x.T).T
    limits = [term for term in data.terms if term.role is Role.WORST]
    if limits:
        x = _independent_share(data, x, mass)
    anchor = program.anchor.T
    share = jnp.zeros((), x.dtype)
    if program.budgets.shape[0]:
        used, anchored = (data.c * x).sum(axis=(1, 2)), (data.c * anchor).sum(axis=(1, 2))
        over = (used > program.budgets) & (program.marks == 0)
        if program.equal is not None:
            over = over & ~program.equal
        room = jnp.where(over & (used > anchored), used - anchored, 1.0)
        share = jnp.where(over, jnp.clip((used - program.budgets) / room, 0.0, 1.0), 0.0).max(initial=0.0)
    seen, seen_anchor = (data.see(one) for one in (x, anchor))
    for term, place in zip(data.terms, data.layout, strict=True):
        if term.role is Role.AVERAGE:
            value = support(term, seen[:, place.rows]).sum()
            held = support(term, seen_anchor[:, place.rows]).sum()
            # What rounding alone exceeds is met, as the certificate has it; an anchor at the limit mends nothing.
            known = 0.0 if term.smooth else _rounding(term, x).sum()
            above = (value > term.bound + known) & (held < term.bound)
            room = jnp.where(above & (value > held), value - held, 1.0)
            share = jnp.maximum(share, jnp.where(above, jnp.clip((value - term.bound) / room, 0.0, 1.0), 0.0))
    return (1.0 - share) * x + share * anchor


def _rounding(term: Term, x: Any) -> Any:
    """What the value of a limited linear term is known to at every output: (Y,).

    Sums of X products are known to X/2 eps of the sum of their sizes; the certificate's allowance is 8 (X + Y + T) eps.
    """
    size = jnp.matmul(x, abs(term.rows).T, precision="highest")
    if term.normalised:
        size = size * jnp.where(term.reference > 0, 1.0 / jnp.where(term.reference > 0, term.reference, 1.0), 0.0)
    return 2.0 * x.shape[1] * jnp.finfo(x.dtype).eps * size.max(axis=1)


def _independent_share(data: Data, x: Any, mass: Any) -> Any:
    """Outputs that exceed a worst-outcome limit are given a share of an independent release.

    With excess e_y and an independent release of law a_y, whose slack is a_y times `own`, the mixture
    (1 - c) W + c a meets the limit at y when c a_y own >= (1 - c) e_y.
    """
    seen = data.see(x)
    prior = data.see(jnp.ones_like(mass)[None])
    need = jnp.zeros(x.shape[0], x.dtype)
    for term, place in zip(data.terms, data.layout, strict=True):
        if term.role is not Role.WORST:
            continue
        w, base = seen[:, place.rows], prior[:, place.rows]
        if term.smooth:
            excess = support(term, w) + x @ term.offset
            own = -(support(term, base)[0] + term.offset.sum())
        else:
            # What rounding alone exceeds is met here too: a release without room cannot mend it, and mixing with one
            # would lose the mechanism.
            excess, own = support(term, w), -support(term, base)[0]
            excess = jnp.where(excess > _rounding(term, x), excess, 0.0)
            own = jnp.where(own > 0, own, jnp.finfo(x.dtype).tiny)
        need = jnp.maximum(need, jnp.maximum(excess, 0.0) / own)
    total = need.sum()
    share = total / (1.0 + total)
    law = jnp.where(total > 0, need / jnp.where(total > 0, total, 1.0), 0.0)
    return (1.0 - share) * x + share * law[:, None]
