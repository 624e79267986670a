"""Linear programs by a first-order method: restarted Halpern primal-dual hybrid gradient, matrix-free.

With z = (primal, dual) and T one step of the primal-dual hybrid gradient method, at step lengths
tau = eta / omega and sigma = eta omega, eta |K| < 1 in the scaled variables,

    z_{n+1} = (n+1)/(n+2) (2 T z_n - z_n) + 1/(n+2) z_0

drives |z - T z| to zero at the rate 1/n; from a restart at T z once it has fallen far enough the method is
linear. omega, the weight between primal and dual, is moved at restarts until both travel equally far.
An iteration costs two products with A: 4 T |X| |Y| operations.
Sources: Chambolle and Pock 2011; Applegate et al. 2021 (PDLP); Lu and Yang 2024 (r2HPDHG);
Chen et al. 2024 (HPR-LP); Lu et al. 2025 (cuPDLPx).
"""

import dataclasses
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.program.convex import Candidate, Program
from jaxpriv.solvers._base import AbstractSolver
from jaxpriv.solvers.interior_point.candidate import no_candidate
from jaxpriv.solvers.interior_point.mirror_start import first_mechanism
from jaxpriv.solvers.interior_point.system import rearrange
from jaxpriv.solvers.linear_program import improved_linear
from jaxpriv.solvers.scaled_saddle import Dual, Primal, Saddle, Scales, dual_step, gradient, primal_step, saddle


class _Iterate(NamedTuple):
    """z, where it started, and what the next step needs."""

    u: Primal
    p: Dual
    u0: Primal
    p0: Dual
    level: Arr  # (X,) last shifts of the projection
    count: Arr  # since the restart


class HalpernState(eqx.Module):
    """An iterate, the scales of its variables, and the history of its residual |z - T z|."""

    scales: Scales
    z: _Iterate
    eta: Arr  # common step length
    omega: Arr
    first: Arr  # residual of the first step after the restart
    last: Arr  # residual at the last look
    total: Arr
    rounding: Arr  # whether the residual is that of rounded numbers
    best: Candidate


class RestartedHalpern(AbstractSolver):
    """First-order method for a `Program` whose terms are all LINEAR (`PrimalDualHybridGradient` calls it).

    One step is `inner` iterations, then a look: restart or not, and the certificate.

    Args:
        sufficient: a restart when the residual has fallen to this fraction.
        necessary: a restart when it has fallen to this fraction and rises.
        artificial: a restart after this fraction of all iterations.
        gain: share of the way to the balanced weight, on a logarithmic scale, that a restart goes.
        inner: iterations in one step. Of 25, 50 and 100 the one with the fewest products on random programs.

    `PrimalDualHybridGradient` gives the values: by default those of cuPDLP.jl (Lu and Yang 2023), but for `inner`.
    """

    sufficient: float = eqx.field(static=True)
    necessary: float = eqx.field(static=True)
    artificial: float = eqx.field(static=True)
    gain: float = eqx.field(static=True)
    inner: int = eqx.field(static=True)
    attempts: ClassVar[int] = 1

    def blank(self, program: Program) -> Candidate:
        return no_candidate(program)

    def init(self, program: Program, attempt: ScalarLike, best: Candidate) -> HalpernState:
        """The uniform release, or one near the caller's, and no prices."""
        data = rearrange(program, dense=True)
        s = saddle(data)
        dtype = data.a.dtype
        x = first_mechanism(data)
        u = Primal(
            x, jnp.zeros((x.shape[0], len(data.terms)), dtype), jnp.zeros_like(x @ data.a.T), jnp.zeros((), dtype)
        )
        p = Dual(jnp.zeros_like(u.v), jnp.zeros_like(data.marks))
        zero, far = jnp.array(0), jnp.array(jnp.inf, dtype)
        z = _Iterate(u, p, u, p, jnp.full(x.shape[1], jnp.inf, dtype), zero)
        weight = scaled_size(gradient(s, p), s.scales.theta, inverse=False) / scaled_size(u, s.scales.theta)
        return HalpernState(
            scales=s.scales,
            z=z,
            eta=0.99 / spectral_norm(s),  # below 1: the step contracts in exact arithmetic, and the norm is rounded
            omega=jnp.where(weight > 0, weight, 1.0),
            first=far,
            last=far,
            total=zero,
            rounding=jnp.array(False),
            best=improved_linear(data, u.w, p.k, p.price, best),
        )

    def step(self, program: Program, state: HalpernState) -> HalpernState:
        """`inner` iterations; restart where the residual says so; certify."""
        s = saddle(rearrange(program, dense=True), state.scales)
        z, eta, omega = state.z, state.eta, state.omega
        ahead, behind, _ = _plain(s, z, eta, omega)
        first = jnp.where(z.count == 0, _residual(s, z, ahead, behind, eta, omega), state.first)
        z = lax.fori_loop(0, self.inner, lambda _, z: _halpern(s, z, eta, omega), z)
        u, p, level = _plain(s, z, eta, omega)
        residual = _residual(s, z, u, p, eta, omega)
        best = improved_linear(s.data, u.w, p.k, p.price, state.best)
        total = state.total + self.inner
        restart = (
            (residual <= self.sufficient * first)
            | ((residual <= self.necessary * first) & (residual > state.last))
            | (z.count.astype(residual.dtype) >= self.artificial * total.astype(residual.dtype))
        )
        choose = lambda new, old: jnp.where(restart, new, old)  # noqa: E731
        pick = lambda new, old: jax.tree.map(choose, new, old)  # noqa: E731
        size = jnp.sqrt(omega * scaled_size(u, s.scales.theta) ** 2 + scaled_size(p, s.scales.phi) ** 2 / omega)
        return HalpernState(
            scales=s.scales,
            z=_Iterate(pick(u, z.u), pick(p, z.p), pick(u, z.u0), pick(p, z.p0), level, choose(jnp.array(0), z.count)),
            eta=eta,
            omega=choose(self._balanced(s, state, u, p), omega),
            first=first,
            last=choose(jnp.array(jnp.inf, residual.dtype), residual),
            total=total,
            rounding=~(residual > 8.0 * jnp.finfo(residual.dtype).eps * size) | jnp.isinf(residual),
            best=best,
        )

    def moved(self, program: Program, first: HalpernState, last: HalpernState) -> HalpernState:
        """Both sides and the weight between them as they were."""
        del program
        z = first.z._replace(u=last.z.u, p=last.z.p, u0=last.z.u, p0=last.z.p)
        return dataclasses.replace(first, z=z, omega=last.omega, total=last.total)

    def terminate(self, program: Program, state: HalpernState) -> Arr:
        """Where the iterate moves by rounding alone, or its numbers have left their range."""
        del program
        return state.rounding

    def _balanced(self, s: Saddle, state: HalpernState, u: Primal, p: Dual) -> Arr:
        """omega, moved towards the ratio of the ways that dual and primal have gone since the restart."""
        primal = scaled_size(jax.tree.map(jnp.subtract, u, state.z.u0), s.scales.theta)
        dual = scaled_size(jax.tree.map(jnp.subtract, p, state.z.p0), s.scales.phi)
        both_moved = (primal > 0) & (dual > 0)
        error = jnp.where(both_moved, jnp.log(jnp.where(both_moved, dual / primal, 1.0)) - jnp.log(state.omega), 0.0)
        return state.omega * jnp.exp(self.gain * error)


def _plain(s: Saddle, z: _Iterate, eta: Arr, omega: Arr) -> tuple[Primal, Dual, Arr]:
    """T z."""
    u, level = primal_step(s, z.u, gradient(s, z.p), eta / omega, z.level)
    beyond = jax.tree.map(lambda new, old: 2.0 * new - old, u, z.u)
    return u, dual_step(s, z.p, beyond, eta * omega), level


def _halpern(s: Saddle, z: _Iterate, eta: Arr, omega: Arr) -> _Iterate:
    u, p, level = _plain(s, z, eta, omega)
    n = z.count.astype(u.w.dtype)
    far, near = (n + 1.0) / (n + 2.0), 1.0 / (n + 2.0)
    move = lambda new, old, start: far * (2.0 * new - old) + near * start  # noqa: E731
    return z._replace(
        u=jax.tree.map(move, u, z.u, z.u0), p=jax.tree.map(move, p, z.p, z.p0), level=level, count=z.count + 1
    )


def scaled_size(vector: Primal | Dual, scale: Primal | Dual, inverse: bool = True) -> Arr:
    """The norm of a primal or dual vector in the scaled variables, u / sqrt(theta); of a gradient otherwise."""
    parts = jax.tree.map(lambda u, f: (u * u / f if inverse else u * u * f).sum(), vector, scale)
    return jnp.sqrt(sum(jax.tree.leaves(parts)))


def _residual(s: Saddle, z: _Iterate, u: Primal, p: Dual, eta: Arr, omega: Arr) -> Arr:
    """|z - T z| in the norm in which T is firmly non-expansive."""
    du = jax.tree.map(jnp.subtract, u, z.u)
    dp = jax.tree.map(jnp.subtract, p, z.p)
    across = sum(jax.tree.leaves(jax.tree.map(lambda a, b: (a * b).sum(), s.map.forward(du), dp)))
    square = (
        omega * scaled_size(du, s.scales.theta) ** 2 + scaled_size(dp, s.scales.phi) ** 2 / omega - 2.0 * eta * across
    )
    return jnp.sqrt(jnp.maximum(square, 0.0))


def spectral_norm(s: Saddle) -> Arr:
    """The norm of the scaled map, by the power method, a little above; at most one by the scaling."""

    def once(_: ScalarLike, u: Primal) -> Primal:
        size = scaled_size(u, s.scales.theta)
        image = jax.tree.map(jnp.multiply, s.map.forward(jax.tree.map(lambda a: a / size, u)), s.scales.phi)
        return jax.tree.map(jnp.multiply, s.map.backward(image), s.scales.theta)

    outputs, inputs = s.data.cost.shape
    wave = jnp.sin(1.0 + jnp.arange(outputs * inputs, dtype=s.data.a.dtype)).reshape(outputs, inputs)
    u = s.map.each(1.0 + 0.5 * wave, 1.0, abs(s.map.excess), 1.0)
    # 60 iterations from below: 2 % above what they reach. A norm that is still too small lets the steps diverge, which
    # the certificate shows; a choice.
    return jnp.minimum(1.0, 1.02 * jnp.sqrt(scaled_size(lax.fori_loop(0, 60, once, u), s.scales.theta)))
