"""Better atoms from a whole plan near its stationary point: all of them together, where pricing moves one at a time.

The linear program over given atoms cannot move them, and pricing moves one at prices that belong to the old ones. The
funnel's are moved by a joint descent, each on the support that it has (the bottleneck's: `bottleneck_prices`).

A support can also be widened first: every symbol then moves some of its mass to outputs chosen at random, and the
descent removes what does not help. For one block let W[x,y] be the mechanism of a plan, m_y = P(y), r_y = P(S|y),
q_y = P(X|y), and

    c[x,y] = sum_s T_sx ln( r_y(s)/P_s ),
    F = I(S;Y) - lambda I(X;Y) = sum_xy p_x W[x,y] ( c[x,y] - lambda ln( q_y(x)/p_x ) ).

With the concave part of F linearised and the convex part bounded by the log-sum inequality, the step

    ln W'[x,y] = ( ln W[x,y] - lambda ln m_y - c[x,y] )/(1 - lambda) + a constant of x

never raises F (`first_atoms` has such descents). It is short along a fibre { q : Tq = r } where lambda is small: it is
lengthened as long as that lowers F. Zeros stay.
"""

from dataclasses import dataclass

import numpy as np

from jaxpriv._runtime.clock import ENDLESS, Clock
from jaxpriv.funnels.pricing import Component

# Entries of W below the first and outputs of less mass than the second are left out.
_TRACE, EMPTY = 1e-14, 1e-12
# Steps are lengthened up to this.
_LONGEST = 1e3
# They end when so many have lowered F by less than this (nats).
_WATCHED, _IDLE = 25, 1e-9
# The iteration works on logarithms, from here up.
_DEEP = -300.0
# A wider support: outputs that every symbol gets, the share of its mass that they get, and the shape of the gamma
# weights that divide it.
_OUTPUTS, _SHARE, _SHAPE = 10, 0.3, 0.3


def moved(
    block: Component, atoms: np.ndarray, weights: np.ndarray, lam: float, steps: int, clock: Clock = ENDLESS
) -> np.ndarray:
    """Atoms (K', X_a) after `steps` from `atoms` (K, X_a) with `weights` (K,) > 0.

    0 <= lambda < 1. The atoms are to average to P(X | A = a), but for rounding.
    """
    support = _support_of(block, atoms, weights)
    mass = (atoms * (weights / weights.sum())[:, None])[support.output, support.symbol]
    here = support.at(np.log(mass / block.source[support.symbol]), lam)
    length, last = 1.5, here.value
    for step in range(steps):
        plain = support.at((here.logs - lam * here.masses - here.slope) / (1.0 - lam), lam)
        longer = support.at(here.logs + length * (plain.logs - here.logs), lam)
        ahead = longer.value <= plain.value
        here = longer if ahead else plain
        length = min(2.0 * length, _LONGEST) if ahead else 1.5
        if step % _WATCHED == _WATCHED - 1:
            if last - here.value <= _IDLE or clock.expired():
                break
            last = here.value
    return support.atoms(here)


def widened(
    block: Component, atoms: np.ndarray, weights: np.ndarray, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(atoms (K, X_a), weights (K,)): the same outputs after every symbol has moved a share of its mass at random.

    `atoms` (K, X_a) with `weights` (K,) > 0 average to P(X | A = a), and so do those returned.
    """
    size, count = len(block.source), len(weights)
    joint = atoms * (weights / weights.sum())[:, None]
    outputs = random.integers(0, count, (size, _OUTPUTS))
    heft = (random.gamma(_SHAPE, size=outputs.shape) + _SHARE * 1e-3) * weights[outputs]
    heft *= _SHARE * joint.sum(axis=0)[:, None] / heft.sum(axis=1, keepdims=True)
    joint = (1 - _SHARE) * joint
    np.add.at(joint, (outputs, np.arange(size)[:, None]), heft)
    masses = joint.sum(axis=1)
    return joint / masses[:, None], masses


@dataclass(frozen=True, eq=False)
class _Point:
    """ln W, ln m_y and c of every entry, and F."""

    logs: np.ndarray
    masses: np.ndarray
    slope: np.ndarray
    value: float


@dataclass(frozen=True, eq=False)
class _Support:
    """The entries (x, y) of W that are not zero, by outputs; `begins`: where each output with entries begins."""

    block: Component
    symbol: np.ndarray
    output: np.ndarray
    begins: np.ndarray

    def at(self, logs: np.ndarray, lam: float) -> _Point:
        """W proportional to exp(logs) in every row."""
        block, size = self.block, len(self.block.source)
        top = np.full(size, -np.inf)
        np.maximum.at(top, self.symbol, logs)
        logs = np.maximum(logs - top[self.symbol], _DEEP)
        logs = logs - np.log(np.bincount(self.symbol, np.exp(logs), size))[self.symbol]
        mass = np.exp(logs) * block.source[self.symbol]
        columns = block.conditional[:, self.symbol]
        masses = np.add.reduceat(mass, self.begins)
        lifts = np.add.reduceat(columns * mass, self.begins, axis=1) / (masses * block.prior[:, None])
        each = np.repeat(np.arange(len(self.begins)), np.diff(self.begins, append=len(mass)))
        slope = (columns * np.log(np.maximum(lifts, 1e-300))[:, each]).sum(axis=0)
        of_output = np.log(masses)[each]
        return _Point(logs, of_output, slope, float(mass @ (slope - lam * (logs - of_output))))

    def atoms(self, point: _Point) -> np.ndarray:
        """The posteriors of the outputs."""
        whole = np.zeros((int(self.output[-1]) + 1, len(self.block.source)))
        whole[self.output, self.symbol] = np.exp(point.logs) * self.block.source[self.symbol]
        mass = whole.sum(axis=1)
        return whole[mass > EMPTY] / mass[mass > EMPTY, None]


def _support_of(block: Component, atoms: np.ndarray, weights: np.ndarray) -> _Support:
    output, symbol = np.nonzero(atoms * weights[:, None] > _TRACE * block.source)
    return _Support(block, symbol, output, np.flatnonzero(np.diff(output, prepend=-1)))
