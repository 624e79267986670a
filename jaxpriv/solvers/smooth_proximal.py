"""Smooth averages to many digits by products alone: Newton steps to proximal points of mechanism and adversary.

With rules p_y that are free, and a multiplier m_y >= 0 of the boundary h(p_y) <= 0 of their set, a program of smooth
objectives and budgets is the saddle point

    min over W, m >= 0, lack >= 0   max over p, price
        <cost, W> + sum_y <p_y, A W_y> - sum_y m_y h(p_y) + price . (use(W) + lack - budgets),

because A W_y = m_y h'(p_y) at the optimum. About a centre the proximal point adds

    1/tau ( sum_x P(x) KL(W_x || W0_x) + |m - m0|^2 / (2 mu) + |lack - lack0|^2 phi / 2 ) - 1/(2 sigma) |p - p0|^2

(p and the prices in scaled variables, mu the mean of the first m), with tau = rho / omega and sigma = 30 rho omega.
For given p and prices the minimisers have a closed form: the mirror step, m = max(m0 + tau mu h(p), 0), lack likewise.
What is left is a smooth concave function of p and the prices (an augmented Lagrangian of the sets of rules), whose
negative is minimised by Newton steps. Outputs may empty: their rules are free variables and not functions of the
mechanism, and no step divides by their mass.

The matrix of a Newton step is that of least squares with one free number nu_x for every row of the mechanism,

    min over dp, dprice, nu   sum_y 1/2 <dp, N_y dp> + tau/2 |A'dp_y + dprice . c_y - nu|^2 weighted by W_y/P - slopes,

N_y the curvature of m_y h and of the proximal term. The rules of every output are eliminated by a factor of T x T
numbers, and conjugate gradients find nu and the moves of the prices, of two products with the rows each. As a
preconditioner they have the diagonal of the system (computed once a centre) and, of the moves that all outputs share
(nu = A'd, which change no row of the mechanism), the system itself. Along a Newton step the slope is known without
products.

The first centre is what some looks of `PrimalDualHybridGradient` came to: from the uniform mechanism the Newton steps
take more passes to there. No rate is claimed: a result has its certificate.
Sources: Rockafellar 1976 (proximal point, inexact; augmented Lagrangians); Censor and Zenios 1992 (entropic distances).
"""

from typing import NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax

from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.leakage.rule_sets import Boundary
from jaxpriv.program.convex import Candidate, Program
from jaxpriv.solvers._proximal_points import Lengths, along, conjugate_gradients, dot, step_length
from jaxpriv.solvers.hybrid_gradient import HybridState, PrimalDualHybridGradient
from jaxpriv.solvers.interior_point.candidate import best_prices, dual_bound, objective, repaired
from jaxpriv.solvers.interior_point.system import Data, rearrange

# The fewest and the most looks of the hybrid gradient before the first centre, and the gap that it comes to in them,
# relative to what the value is above the bound without leakage. Choices; 10 looks at least take as many passes.
_LOOKS, _MOST_LOOKS, _FALLEN = 6, 60, 1e-3
# The first rho, in lengths of the last step of the hybrid gradient: of 5, 20 and 80 the one with the fewest passes
# (690, 662 and 670 with six looks, the mean of 15 instances of mutual information, 64 symbols and 16 private ones).
_FIRST = 20.0
# The slope at which a point counts as the proximal one, relative to the way to the centre: of .1, .3 and .5 the one
# with the fewest passes (728, 662 and 653 there).
_NEAR = 0.5
# The share of the way to the end of the domain of rules that a step goes. A choice.
_INSIDE = 0.95
# The least logarithm of an entry: what has less comes back by later centres. A choice; e^-690 is above 0.
_LOWEST = -690.0
# The share of the prior's rule in the first rules, which keeps them inside of their domain. A choice.
_PRIOR = 1e-6
# What is added to the unit diagonals of the matrices of shared moves, whose last digits are rounding. A choice.
_ROUNDING = 1e-12
# What looks before the first centre. As steps of the method they can be interrupted.
_LOOKER = PrimalDualHybridGradient()


class Minimisers(NamedTuple):
    """The closed forms at a dual point."""

    logs: Arr  # (Y, X) of the mechanism
    m: Arr  # (Y, J)
    lack: Arr  # (R,)


class RulesAndPrices(NamedTuple):
    """The dual variables."""

    p: Arr  # (Y, T)
    price: Arr  # (R,)


class SmoothState(eqx.Module):
    """The centre, the dual point of the Newton steps about it, and the lengths."""

    centre: Minimisers
    dual_centre: RulesAndPrices
    dual: RulesAndPrices
    costs: Arr  # (Y, X) what the mechanism pays at `dual`
    unit: Arr  # (J,) the scale of m
    diagonal: Arr  # (X,) that of the first system about this centre
    lengths: Lengths
    newtons: Arr  # steps about this centre
    passes: Arr  # so far: one product with the rows and one with their transpose
    stale: Arr  # centres since the gap last fell by a tenth
    mark: Arr  # the gap when it last fell by a tenth
    hybrid: HybridState  # where the looks before the first centre came to
    least: Arr  # the bound without leakage
    best: Candidate


def first_state(program: Program, attempt: ScalarLike, best: Candidate) -> SmoothState:
    """The state before the first look of the hybrid gradient."""
    hybrid = cast("HybridState", _LOOKER.init(program, attempt, best))
    return _centred(program, hybrid, jnp.asarray(best.bound))


def _far(state: SmoothState) -> Arr:
    """Whether a further look comes before the first centre."""
    looks, best = state.hybrid.looks, state.hybrid.best
    open_still = best.gap > _FALLEN * (best.value - state.least)
    return (looks < _LOOKS) | (open_still & (looks < _MOST_LOOKS))


def _centred(program: Program, warm: HybridState, least: Arr) -> SmoothState:
    """What the hybrid gradient came to as the centre."""
    data = rearrange(program, dense=True)
    x = warm.best.mechanism.T
    prior = jnp.concatenate([term.prior_rule() for term in data.terms])
    dual = RulesAndPrices((1.0 - _PRIOR) * warm.best.k + _PRIOR * prior, jnp.maximum(warm.best.price, 0.0))
    m = jnp.stack([data.scale(j, x, edge) for j, edge in enumerate(_edges(data, dual.p))], axis=1)
    logs = jnp.where(data.support, jnp.log(jnp.maximum(x, jnp.exp(_LOWEST))), -jnp.inf)
    unit, number = jnp.ones_like(warm.eta), jnp.zeros_like(warm.looks)
    return SmoothState(
        centre=Minimisers(logs, m, jnp.maximum(program.budgets - data.use(x), 0.0)),
        dual_centre=dual,
        dual=dual,
        costs=data.cost + _change(data, dual),
        unit=m.mean(axis=0),
        diagonal=jnp.ones_like(program.mass),
        lengths=Lengths(_FIRST * warm.eta, warm.cycle.omega),
        newtons=number,
        passes=warm.looks.astype(unit.dtype) * (_LOOKER.inner + 2) + 0.5,
        stale=number,
        mark=jnp.inf * unit,
        hybrid=warm,
        least=least,
        best=warm.best,
    )


def next_state(program: Program, state: SmoothState, newtons: int) -> SmoothState:
    """A look of the hybrid gradient, or afterwards a Newton step, or the new centre."""

    def look(carry: tuple[Arr, SmoothState]) -> tuple[Arr, SmoothState]:
        warm = cast("HybridState", _LOOKER.step(program, carry[1].hybrid))
        return jnp.array(False), _centred(program, warm, state.least)

    def move(carry: tuple[Arr, SmoothState]) -> tuple[Arr, SmoothState]:
        return jnp.array(False), _moved(program, carry[1], newtons)

    # Under vmap a loop, unlike a branch, runs only where an instance asks for it.
    far = _far(state)
    _, state = lax.while_loop(lambda carry: carry[0], look, (far, state))
    return lax.while_loop(lambda carry: carry[0], move, (~far, state))[1]


def _moved(program: Program, state: SmoothState, newtons: int) -> SmoothState:
    """A Newton step, or the new centre where its point is near enough or after so many steps."""
    about = _About.of(program, state)
    data, phi, old = about.data, about.phi, state.centre
    edges = _edges(data, state.dual.p)
    point = about.minimisers(state.costs, state.dual, edges)
    x = jnp.exp(point.logs)
    slope = about.slope(state.dual, point, edges, RulesAndPrices(data.matvec(x), data.use(x)))
    relative = jnp.where(data.support, x * (point.logs - old.logs), 0.0)
    square = 2.0 * (program.mass * relative).sum() + ((point.m - old.m) ** 2 / state.unit).sum()
    way = jnp.sqrt(jnp.maximum(square + ((point.lack - old.lack) ** 2 * phi.price).sum(), 0.0))
    moved = jax.tree.map(jnp.subtract, state.dual, state.dual_centre)
    dual_way = jnp.sqrt(dot(moved, jax.tree.map(jnp.divide, moved, phi)))
    size = jnp.sqrt(dot(slope, jax.tree.map(jnp.multiply, slope, phi)))
    rho, omega = state.lengths
    reached = size * rho * omega <= _NEAR * jnp.sqrt((omega * way) ** 2 + dual_way**2)
    state = eqx.tree_at(lambda at: at.passes, state, state.passes + 0.5)
    return lax.cond(
        reached | (state.newtons >= newtons),
        lambda: _recentred(data, state, point, edges, reached, way, dual_way),
        lambda: _newton_step(about, state, point, edges, slope),
    )


def _edges(data: Data, p: Arr) -> list[Boundary]:
    return [term.boundary(p[:, place.rows], 0.0) for term, place in zip(data.terms, data.layout, strict=True)]


def _change(data: Data, dual: RulesAndPrices) -> Arr:
    """What dual variables add to the costs of the mechanism, (Y, X)."""
    return data.rmatvec(dual.p) + jnp.tensordot(dual.price, data.c, 1)


class _About(NamedTuple):
    """The function that the Newton steps about a centre minimise."""

    data: Data
    state: SmoothState
    inverse: Arr  # (X,) 1/P(x), 0 for a symbol without mass: its row does not move
    phi: RulesAndPrices  # squared scales

    @staticmethod
    def of(program: Program, state: SmoothState) -> "_About":
        data = rearrange(program, dense=True)
        massed = program.mass > np.finfo(program.mass.dtype).tiny
        inverse = jnp.where(massed, 1.0 / jnp.where(massed, program.mass, 1.0), 0.0)
        reach = abs(data.a.sum(axis=1))
        rules = len(data.cost) / jnp.where(reach > 0, reach, 1.0)
        used = (inverse * (data.c**2).max(axis=1)).sum(axis=1)
        return _About(data, state, inverse, RulesAndPrices(rules, 1.0 / jnp.where(used > 0, used, 1.0)))

    def minimisers(self, costs: Arr, dual: RulesAndPrices, edges: list[Boundary]) -> Minimisers:
        centre, tau = self.state.centre, self.state.lengths.tau
        logs = centre.logs - tau * self.inverse * costs
        logs = jnp.maximum(logs - jax.nn.logsumexp(logs, axis=0), _LOWEST)
        levels = jnp.stack([edge.level for edge in edges], axis=1)
        return Minimisers(
            jnp.where(self.data.support, logs, -jnp.inf),
            jnp.maximum(centre.m + tau * self.state.unit * levels, 0.0),
            jnp.maximum(centre.lack - tau / self.phi.price * dual.price, 0.0),
        )

    def slope(
        self, dual: RulesAndPrices, point: Minimisers, edges: list[Boundary], seen: RulesAndPrices
    ) -> RulesAndPrices:
        """At a dual point; `seen`: what the mechanism makes of the rows and uses of the budgets."""
        away = jax.tree.map(
            lambda new, old, f: (new - old) / (self.state.lengths.sigma * f), dual, self.state.dual_centre, self.phi
        )
        normals = [point.m[:, j, None] * edge.normal for j, edge in enumerate(edges)]
        slack = self.data.program.budgets - point.lack
        return RulesAndPrices(away.p + jnp.concatenate(normals, axis=1) - seen.p, away.price + slack - seen.price)


def _recentred(
    data: Data, state: SmoothState, point: Minimisers, edges: list[Boundary], reached: Arr, way: Arr, dual_way: Arr
) -> SmoothState:
    """The point and its dual as the centre, certified, with new lengths; the ways of both to it."""
    feasible = repaired(data, jnp.exp(point.logs))
    rules = [
        term.rule_set.normalised(term, state.dual.p[:, place.rows], edge.level)
        for term, place, edge in zip(data.terms, data.layout, edges, strict=True)
    ]
    k, eta = jnp.concatenate(rules, axis=1), state.best.eta
    price = best_prices(data, k, eta, jnp.maximum(state.dual.price, 0.0))
    best = state.best.with_primal(feasible.T, objective(data, feasible))
    best = best.with_dual(k, eta, price, dual_bound(data, k, eta, price))
    improved = best.gap < 0.9 * state.mark
    return SmoothState(
        centre=point,
        dual_centre=state.dual,
        dual=state.dual,
        costs=state.costs,
        unit=state.unit,
        diagonal=state.diagonal,
        lengths=state.lengths.after(reached, way, dual_way),
        newtons=jnp.zeros_like(state.newtons),
        passes=state.passes + 1.0,
        stale=jnp.where(improved, 0, state.stale + 1),
        mark=jnp.where(improved, best.gap, state.mark),
        hybrid=state.hybrid,
        least=state.least,
        best=best,
    )


class _Moves(NamedTuple):
    """The unknowns of a Newton system from which the moves of the rules follow."""

    nu: Arr  # (X,)
    price: Arr  # (R,)


class _ReducedSystem(NamedTuple):
    """The matrix of a Newton step."""

    data: Data
    weights: Arr  # (Y, X) tau W/P
    bent: Arr  # (Y, T, T) N
    factor: Arr  # (Y, T, T) the inverse of N + A weights A'
    slack: Arr  # (R,) the curvature in the prices of the slack and the proximal term

    @staticmethod
    def of(about: _About, point: Minimisers, edges: list[Boundary]) -> "_ReducedSystem":
        data, state, phi = about.data, about.state, about.phi
        tau, sigma = state.lengths.tau, state.lengths.sigma
        weights = tau * about.inverse * jnp.exp(point.logs)
        bent = jnp.broadcast_to(jnp.diag(1.0 / (sigma * phi.p)), (len(weights), len(phi.p), len(phi.p)))
        for j, (edge, place) in enumerate(zip(edges, data.layout, strict=True)):
            m, n = point.m[:, j, None, None], edge.normal
            curved = edge.curvature if edge.curvature.ndim > 2 else edge.curvature[:, None] * jnp.eye(n.shape[1])
            outer = jnp.where(m > 0, tau * state.unit[j], 0.0) * n[:, :, None] * n[:, None]
            bent = bent.at[:, place.rows, place.rows].add(m * curved + outer)
        factor = _inverses(bent + jnp.einsum("tx,yx,ux->ytu", data.a, weights, data.a))
        return _ReducedSystem(
            data, weights, bent, factor, (jnp.where(point.lack > 0, tau, 0.0) + 1.0 / sigma) / phi.price
        )

    def image(self, q: _Moves, right: Arr | float = 0.0) -> tuple[_Moves, Arr]:
        """The matrix times q less what the right-hand sides of the rules (Y, T) add, and the moves of the rules."""
        off = q.nu - jnp.tensordot(q.price, self.data.c, 1)
        p = jnp.einsum("ytu,yu->yt", self.factor, right + self.data.matvec(self.weights * off))
        left = self.weights * (off - self.data.rmatvec(p))
        return _Moves(left.sum(axis=0), self.slack * q.price - self.data.use(left)), p

    def diagonal(self) -> Arr:
        """Of the system in nu, (X,), but for rounding positive."""
        seen = jnp.einsum("ytu,ux->ytx", self.factor, self.data.a)
        share = 1.0 - self.weights * (self.data.a * seen).sum(axis=1)
        rounding = jnp.finfo(share.dtype).eps
        return (self.weights * jnp.maximum(share, rounding)).sum(axis=0)

    def preconditioned(self, diagonal: Arr, r: _Moves, shared: Arr) -> _Moves:
        """About the inverse of the matrix times r; `shared`: the inverse of the system in nu = A'd, (T, T)."""
        nu = r.nu * jnp.where(diagonal > 0, 1.0 / jnp.where(diagonal > 0, diagonal, 1.0), 0.0)
        nu = nu + self.data.rmatvec(shared @ self.data.matvec(r.nu))
        total = self.weights.sum(axis=0)
        mean = (self.weights * self.data.c).sum(axis=1) / jnp.where(total > 0, total, 1.0)
        spread = (self.weights * (self.data.c - mean[:, None]) ** 2).sum(axis=(1, 2))
        return _Moves(nu, r.price / (self.slack + spread))


def _inverses(matrices: Arr) -> Arr:
    """Of positive definite matrices (..., T, T), scaled to diagonals of ones."""
    root = jnp.sqrt(jnp.diagonal(matrices, axis1=-2, axis2=-1))
    scale = 1.0 / (root[..., :, None] * root[..., None, :])
    eye = jnp.eye(root.shape[-1], dtype=root.dtype)
    factors = jnp.linalg.cholesky(scale * matrices + _ROUNDING * eye)
    return scale * jsp.linalg.cho_solve((factors, True), jnp.broadcast_to(eye, matrices.shape))


def _newton_step(
    about: _About, state: SmoothState, point: Minimisers, edges: list[Boundary], slope: RulesAndPrices
) -> SmoothState:
    """A step along the Newton direction, so long that the slope at its end is at most half of the first one."""
    data, system = about.data, _ReducedSystem.of(about, point, edges)
    first = state.newtons == 0
    diagonal = lax.cond(first, system.diagonal, lambda: state.diagonal)
    shared = _inverses((system.bent - system.bent @ system.factor @ system.bent).sum(axis=0))
    none = _Moves(jnp.zeros_like(diagonal), jnp.zeros_like(slope.price))
    given, _ = system.image(none, -slope.p)
    q, count = conjugate_gradients(
        lambda q: system.image(q)[0],
        lambda r: system.preconditioned(diagonal, r, shared),
        _Moves(-given.nu, -slope.price - given.price),
        lambda rest, z: jnp.sqrt(dot(rest, z)),
    )
    d = RulesAndPrices(system.image(q, -slope.p)[1], q.price)
    change = _change(data, d)

    def rise(length: Arr, _: None) -> tuple[Arr, None]:
        dual = along(state.dual, length, d)
        edges = _edges(data, dual.p)
        at = about.minimisers(state.costs + length * change, dual, edges)
        rules = about.slope(dual, at, edges, jax.tree.map(jnp.zeros_like, dual))
        return dot(rules, d) - (jnp.exp(at.logs) * change).sum(), None

    length, _ = step_length(rise, dot(slope, d), _longest(data, state.dual.p, d.p), None)
    return eqx.tree_at(
        lambda at: (at.dual, at.costs, at.diagonal, at.newtons, at.passes),
        state,
        (
            along(state.dual, length, d),
            state.costs + length * change,
            diagonal,
            state.newtons + 1,
            state.passes + count + 1.5 + len(data.a) * jnp.where(first, 1.0, 0.5),
        ),
    )


def _longest(data: Data, p: Arr, d: Arr) -> Arr:
    """The longest step, at most 1, that stays inside of the domains of rules."""
    longest = jnp.ones((), p.dtype)
    for term, place in zip(data.terms, data.layout, strict=True):
        low, high = term.rule_set.domain(term)
        bounded = len(term.reference) - term.massed
        at, move = term.whole(p[:, place.rows])[:, :bounded], d[:, place.rows][:, :bounded]
        room = jnp.where(move < 0, at - low, high - at)
        share = jnp.where(move != 0, room / jnp.where(move != 0, abs(move), 1.0), jnp.inf)
        longest = jnp.minimum(longest, _INSIDE * share.min())
    return longest
