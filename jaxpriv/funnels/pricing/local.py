"""Pricing from many starts in one batched call: good atoms for any joint, and no bound.

Funnel. With the concave part lambda H(q) linearised at q and the convex part -H(Tq) bounded by the log-sum inequality,

    q <- q^{1 + lambda} exp( nu - T' ln(Tq) ), normalised,

never raises psi(q) - nu.q. It keeps zeros, so starts are positive. Bottleneck. With the convex part linearised,

    q <- exp( (T' ln(Tq) - nu)/lambda ), normalised,

never lowers it (for the atoms of Tishby, Pereira and Bialek's iteration). Both crawl along a fibre { Tq = r } where
lambda is small: steps are lengthened as long as the value improves. Every start takes some steps; the best ones go on.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv._runtime.types import Arr, ScalarLike
from jaxpriv.funnels.pricing._base import AbstractPricer, Priced, distinct, on_all_cores
from jaxpriv.funnels.pricing.shapes import Entropy, Lagrangian

# Processor seconds that compiling the searches takes at most.
_COMPILING = 4.0
# Starts in all, steps of every start, and of the best ones.
_STARTS, _SCOUT, _FINISH = 512, 60, 240
# Steps are lengthened up to this.
_LONGEST = 1e4
# What a start keeps of every symbol, and of an atom that was good for other prices.
_FLOOR = 1e-3
# Useful symbols above which neighbours of good atoms are searched, and the last steps are taken within the largest
# entries of a start.
_MANY = 32
# So many of these entries at least, and so many for each private symbol: some best atom has no more than |S|.
_WITHIN, _TIMES = 16, 2
# So many neighbours for each symbol, and at most; their steps; their symbols from the atom, and others.
_EACH, _NEIGHBOURS, _STEPS, _OLD, _NEW = 40, 8192, 60, 5, 8
# Starts that one call descends: they stay in a core's own memory, and the cores share the calls.
_AT_ONCE = 512
# The others take a share of the mass in this range, divided by a Dirichlet distribution of this parameter.
_MIXED, _SPARSE = (0.05, 0.6), 0.5
# Weights below this are on their way to zero.
_TRACE = 1e-9
# Of the atoms of a funnel with the same symbols above this mass the best one is kept: the others mostly converge to it.
# The number of atoms is limited, and copies would exclude those that are found from other starts.
_SUPPORT = 1e-2
# The iteration works on logarithms, from here up.
_DEEP = -300.0


class LocalPricer(AbstractPricer):
    """Stationary points of psi(q) - nu.q for T = `conditional` (S, X), best first. Good ones are starts of later calls.

    Every call draws new starts: which minima a given list of starts leads to is the same for prices that are nearly
    the same, so that a search that finds nothing with them might be due to the list instead of the prices.
    """

    def __init__(self, conditional: np.ndarray, *, funnel: bool):
        self._conditional, self._funnel = conditional, funnel
        self._random = np.random.default_rng(0)
        size = conditional.shape[1]
        self._starts = _starts(size, self._random)
        self._most_kept = min(64 + 4 * size, _STARTS)
        self._memory = self._starts[: self._most_kept]

    def keep(self, atoms: np.ndarray) -> None:
        """Search near `atoms` (n, X), too: those of the current plan, stationary at other prices or at none."""
        self._memory = np.vstack([atoms, self._memory])[: self._most_kept]

    def price(
        self, prices: np.ndarray, lam: float, count: int, clock: Clock = ENDLESS, aim: float | None = None
    ) -> Priced:
        # Without the time to compile the searches the symbols alone are what is found.
        searched = clock.allows(_COMPILING, (type(self), self._conditional.shape, self._funnel))
        posteriors = self._searched(prices, lam, clock) if searched else np.eye(len(prices))
        values = Lagrangian(Entropy(len(self._conditional)), self._conditional.T, prices, lam).at(posteriors)
        order = np.argsort(values if self._funnel else -values, kind="stable")
        posteriors = _one_of_each_support(posteriors[order]) if self._funnel else distinct(posteriors[order])
        keep = posteriors[: self._most_kept]
        self._memory = np.vstack([keep, self._memory])[: self._most_kept]
        return Priced(-np.inf if self._funnel else np.inf, False, posteriors[:count])

    def _searched(self, prices: np.ndarray, lam: float, clock: Clock) -> np.ndarray:
        """Posteriors (n, X) that descents end at, and the symbols alone."""
        lam = max(lam, 1e-6)
        memory = (1 - _FLOOR) * self._memory + _FLOOR / len(prices)
        starts = np.log(np.vstack([_starts(len(prices), self._random), memory]))
        logs, values = self._descended(prices, lam, starts, _SCOUT)
        logs = logs[np.argsort(values, kind="stable")[: self._most_kept]]
        if self._funnel and len(prices) > _MANY:
            posteriors = np.exp(logs) if clock.expired() else self._finished(prices, lam, logs)
        else:
            posteriors = np.exp(logs if clock.expired() else self._descended(prices, lam, logs, _FINISH)[0])
        posteriors = np.where(posteriors > _TRACE, posteriors, 0.0)
        posteriors /= posteriors.sum(axis=1, keepdims=True)
        posteriors = np.vstack([posteriors, np.eye(len(prices))])
        if self._funnel and len(prices) > _MANY and not clock.expired():
            posteriors = np.vstack([posteriors, self._neighbours(prices, lam)])
        return posteriors

    def _descended(
        self, prices: np.ndarray, lam: float, starts: np.ndarray, steps: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """(logarithms (n, X), values (n,)) after `steps` from the logarithms `starts` (n, X); n is even."""

        def part(half: np.ndarray) -> tuple[Array, Array]:
            return _descended(self._conditional, prices[:, None], np.asarray(lam), half.T, steps, funnel=self._funnel)

        return _on_parts(part, np.split(starts, 2))

    def _neighbours(self, prices: np.ndarray, lam: float) -> np.ndarray:
        """The best of what is reached from atoms of the memory with some other symbols, shape (n, X)."""
        random, size, memory = self._random, len(prices), self._memory
        count = min(math.ceil(_EACH * size / _AT_ONCE) * _AT_ONCE, _NEIGHBOURS)
        atoms = memory[random.integers(0, len(memory), count)]
        rows = np.arange(count)[:, None]
        old = np.argpartition(-atoms, min(_OLD, size - 1), axis=1)[:, :_OLD]
        symbols = np.hstack([old, random.integers(0, size, (count, _NEW))])
        share = random.uniform(*_MIXED, size=(count, 1))
        fresh = np.maximum(random.dirichlet(np.full(_NEW, _SPARSE), count), _FLOOR)
        weights = np.hstack([(1 - share) * np.maximum(atoms[rows, old], _FLOOR**2), share * fresh])
        logs, values = self._within(prices, lam, symbols, np.log(weights), _STEPS)
        best = np.argsort(values, kind="stable")
        posteriors = np.zeros((len(best), size))
        np.add.at(posteriors, (np.arange(len(best))[:, None], symbols[best]), np.exp(logs[best]))
        posteriors = _one_of_each_support(np.where(posteriors > _TRACE, posteriors, 0.0))[: self._most_kept]
        return posteriors / posteriors.sum(axis=1, keepdims=True)

    def _finished(self, prices: np.ndarray, lam: float, starts: np.ndarray) -> np.ndarray:
        """What is reached from the logarithms `starts` (n, X) on the largest entries of each, shape (n, X)."""
        size = len(prices)
        count = min(size, max(_WITHIN, _TIMES * len(self._conditional)))
        symbols = np.argpartition(-starts, count - 1, axis=1)[:, :count]
        rows = np.arange(len(starts))[:, None]
        logs, _ = self._within(prices, lam, symbols, starts[rows, symbols], _FINISH)
        posteriors = np.zeros(starts.shape)
        posteriors[rows, symbols] = np.exp(logs)
        return posteriors

    def _within(
        self, prices: np.ndarray, lam: float, symbols: np.ndarray, starts: np.ndarray, steps: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """(logarithms (n, k), values (n,)) after `steps` from `starts` (n, k), each on its own `symbols` (n, k)."""

        def part(begin: int) -> tuple[Array, Array]:
            of, begun = (table[begin : begin + _AT_ONCE].T for table in (symbols, starts))
            return _descended(self._conditional[:, of], prices[of], np.asarray(lam), begun, steps)

        return _on_parts(part, range(0, len(starts), _AT_ONCE))


def _on_parts(part: Callable[..., tuple[Array, Array]], parts: Sequence) -> tuple[np.ndarray, np.ndarray]:
    """The results of a compiled function of all parts, one after the other, in float64."""

    def in_double(which: object) -> tuple[np.ndarray, np.ndarray]:
        with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
            logs, values = part(which)
            return np.asarray(logs), np.asarray(values)

    logs, values = zip(*on_all_cores(in_double, parts), strict=True)
    return np.vstack(logs), np.concatenate(values)


@partial(jax.jit, static_argnames="funnel")
def _descended(
    columns: Array, prices: Array, lam: ScalarLike, starts: Array, steps: int, *, funnel: bool = True
) -> tuple[Arr, Arr]:
    """(logarithms (N, k), values (N,)) after `steps` from `starts` (k, N), given as logarithms; less is better.

    Starts are the last axis, so that every operation works on vectors of them. `columns` (S, k) and `prices` (k, 1) are
    those of all starts, or (S, k, N) and (k, N) of each start's own symbols.
    """
    per_start = columns.ndim == 3

    def at(raw: Array) -> tuple[Array, Array, Array]:
        """(logarithms, slopes of -H(Tq), value) of the distributions proportional to exp(raw)."""
        raw = jnp.maximum(raw - jnp.max(raw, axis=0), _DEEP)
        atoms = jnp.exp(raw)
        total = jnp.sum(atoms, axis=0)
        logs, atoms = raw - jnp.log(total), atoms / total
        mixed = jnp.sum(atoms * columns, axis=1) if per_start else jnp.matmul(columns, atoms, precision="highest")
        seen = jnp.log(mixed)
        slope = (
            jnp.sum(columns * seen[:, None], axis=0) if per_start else jnp.matmul(columns.T, seen, precision="highest")
        )
        value = jnp.sum(mixed * seen, axis=0) - jnp.sum(atoms * (lam * logs + prices), axis=0)
        return logs, slope, value if funnel else -value

    def step(_: ScalarLike, carry: PyTree) -> PyTree:
        """To the next point, and further on where that is better still."""
        (logs, slope, _value), length = carry
        plain = at((1 + lam) * logs + prices - slope if funnel else (slope - prices) / lam)
        longer = at(logs + length * (plain[0] - logs))
        ahead = longer[2] <= plain[2]
        better = jax.tree.map(lambda a, b: jnp.where(ahead, a, b), longer, plain)
        return better, jnp.where(ahead, jnp.minimum(2.0 * length, _LONGEST), 1.5)

    lengths = jnp.full(starts.shape[1], 1.5)
    (logs, _, value), _ = lax.fori_loop(0, steps, step, (at(starts), lengths))
    return logs.T, value


def _starts(size: int, random: np.random.Generator) -> np.ndarray:
    """Pairs, triples and random mixtures, all a little blurred."""
    sets = []
    for parts in (2, 3):
        chosen = random.integers(0, size, size=(_STARTS // 8, parts))
        sets.append(np.eye(size)[chosen].mean(axis=1))
    sets += [random.dirichlet(np.full(size, shape), _STARTS // 4) for shape in (0.1, 0.3, 1.0)]
    blurred = (1 - _FLOOR) * np.vstack(sets) + _FLOOR / size
    return blurred / blurred.sum(axis=1, keepdims=True)


def _one_of_each_support(atoms: np.ndarray) -> np.ndarray:
    """The rows of (n, X) whose symbols of more than `_SUPPORT` are those of no earlier row, in their order."""
    _, first = np.unique(np.packbits(atoms > _SUPPORT, axis=1), axis=0, return_index=True)
    return atoms[np.sort(first)]
