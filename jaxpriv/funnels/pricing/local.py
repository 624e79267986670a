"""Pricing from many starts in one batched call: good atoms for any joint, and no bound.

Funnel. With the concave part lambda H(q) linearised at q and the convex part -H(Tq) bounded by the log-sum inequality,

    q <- q^{1 + lambda} exp( nu - T' ln(Tq) ), normalised,

never raises psi(q) - nu.q. It keeps zeros, so starts are positive. Bottleneck. With the convex part linearised,

    q <- exp( (T' ln(Tq) - nu)/lambda ), normalised,

never lowers it (for the atoms of Tishby, Pereira and Bialek's iteration). Both crawl along a fibre { Tq = r } where
lambda is small: steps are lengthened as long as that pays. Every start takes some steps; the best ones go on.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxpriv._clock import ENDLESS, Clock
from jaxpriv.funnels.pricing._base import AbstractPricer, Priced

# Starts in all, steps of every start, and of the best ones.
_STARTS, _SCOUT, _FINISH = 512, 60, 240
# Steps are lengthened up to this.
_LONGEST = 1e4
# What a start keeps of every symbol, and of an atom that was good for other prices.
_FLOOR = 1e-3
# Weights below this are on their way to zero.
_TRACE = 1e-9
# The iteration works on logarithms, from here up.
_DEEP = -300.0
# Results that agree to this many decimals are one.
_DECIMALS = 7


class LocalPricer(AbstractPricer):
    """Stationary points of psi(q) - nu.q for T = `conditional` (S, X), best first. Remembers what was good."""

    def __init__(self, conditional: np.ndarray, *, funnel: bool):
        self._conditional, self._funnel = conditional, funnel
        size = conditional.shape[1]
        self._starts = _starts(size, _STARTS)
        self._kept = min(64 + 4 * size, len(self._starts))
        self._memory = self._starts[: self._kept]

    def price(self, prices: np.ndarray, lam: float, count: int, clock: Clock = ENDLESS) -> Priced:
        memory = (1 - _FLOOR) * self._memory + _FLOOR / len(prices)
        starts = np.log(np.vstack([self._starts, memory]))
        with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
            arguments = (jnp.asarray(v) for v in (self._conditional, prices, max(lam, 1e-6), starts))
            found = np.asarray(_search(*arguments, funnel=self._funnel, kept=self._kept))
        found = np.where(found > _TRACE, found, 0.0)
        found /= found.sum(axis=1, keepdims=True)
        found = np.vstack([found, np.eye(len(prices))])
        mixed = found @ self._conditional.T
        values = _xlogx(mixed).sum(axis=1) - lam * _xlogx(found).sum(axis=1) - found @ prices
        order = np.argsort(values if self._funnel else -values, kind="stable")
        found = found[order]
        _, first = np.unique(np.round(found, _DECIMALS) + 0.0, axis=0, return_index=True)
        found = found[np.sort(first)]
        keep = found[: self._kept]
        self._memory = np.vstack([keep, self._memory])[: self._kept]
        return Priced(-np.inf if self._funnel else np.inf, False, found[:count])


@partial(jax.jit, static_argnames=("funnel", "kept"))
def _search(conditional: Any, prices: Any, lam: Any, starts: Any, *, funnel: bool, kept: int) -> Any:
    """The `kept` best of the stationary points reached from `starts` (N, X), given as logarithms."""

    def seen(logs: Any) -> Any:
        return jnp.log(jnp.matmul(jnp.exp(logs), conditional.T, precision="highest"))

    def value(logs: Any) -> Any:
        atoms, mixed = jnp.exp(logs), seen(logs)
        total = jnp.sum(jnp.exp(mixed) * mixed, axis=1) - lam * jnp.sum(atoms * logs, axis=1) - atoms @ prices
        return total if funnel else -total

    def normal(logs: Any) -> Any:
        return jnp.maximum(jax.nn.log_softmax(logs, axis=1), _DEEP)

    def step(_: Any, carry: Any) -> Any:
        """The step, and the same direction further on where that is better still."""
        logs, length = carry
        slope = jnp.matmul(seen(logs), conditional, precision="highest")
        plain = normal((1 + lam) * logs + prices - slope if funnel else (slope - prices) / lam)
        longer = normal(logs + length[:, None] * (plain - logs))
        ahead = value(longer) <= value(plain)
        following = jnp.where(ahead[:, None], longer, plain)
        return following, jnp.where(ahead, jnp.minimum(2.0 * length, _LONGEST), 1.5)

    def run(logs: Any, steps: int) -> Any:
        return lax.fori_loop(0, steps, step, (logs, jnp.full(logs.shape[0], 1.5)))[0]

    logs = run(normal(starts), _SCOUT)
    _, best = lax.top_k(-value(logs), kept)
    return jnp.exp(run(logs[best], _FINISH))


def _starts(size: int, count: int) -> np.ndarray:
    """Symbols alone, pairs, triples and random mixtures, all a little blurred; deterministic."""
    rng = np.random.default_rng(0)
    sets = [np.eye(size)]
    for parts in (2, 3):
        chosen = rng.integers(0, size, size=(count // 4, parts))
        sets.append(np.eye(size)[chosen].mean(axis=1))
    rest = count - sum(len(one) for one in sets)
    sets.append(rng.dirichlet(np.full(size, 0.3), max(rest, count // 4)))
    blurred = (1 - _FLOOR) * np.vstack(sets) + _FLOOR / size
    return blurred / blurred.sum(axis=1, keepdims=True)


def _xlogx(x: np.ndarray) -> np.ndarray:
    return x * np.log(np.where(x > 0, x, 1.0))
