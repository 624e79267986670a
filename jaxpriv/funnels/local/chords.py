"""A prescribed target by local solves at prices: the chord method on the convex hull of all releases found.

Every release is a point (I(X;Y), cost). Where the hull of the points known meets the target there is an edge; its
slope is the price at which a local solve can find a point below that edge, which then replaces it. This is
bisection on the price with the price computed from the hull, and it ends when no start finds anything below the edge.
The release is the edge's time sharing of its two ends. All starts of a round run in one batch.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from jaxpriv._clock import Clock
from jaxpriv.funnels.hull import Crossing, at_cost, at_disclosure
from jaxpriv.funnels.local.descent import Landing

# Where local methods start: random mechanisms of many degrees of randomness, strictly positive.
#
# A multiplicative step never leaves a face of the simplex, so every start has all entries positive.


# Gumbel noise times these: from rows near uniform to rows near deterministic maps, in turn.
_SHARPNESS = (0.5, 1.0, 2.0, 4.0, 8.0)
# What a start given from outside is blended with, so that no entry is stuck at zero.
_BLEND = 1e-3


def random_starts(key: Array, count: int, symbols: int, outputs: int) -> np.ndarray:
    """Logarithms of `count` random mechanisms, shape (count, symbols, outputs)."""
    noise = np.asarray(jax.random.gumbel(key, (count, symbols, outputs), dtype="float64"))
    logits = noise * np.resize(_SHARPNESS, count)[:, None, None]
    top = logits.max(axis=2, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(axis=2, keepdims=True))


def blended(mechanisms: np.ndarray) -> np.ndarray:
    """Mechanisms (..., X, Y) with zeros, as strictly positive logarithms."""
    return np.log((1.0 - _BLEND) * mechanisms + _BLEND / mechanisms.shape[-1])


def widened(mechanism: np.ndarray, outputs: int) -> np.ndarray:
    """A mechanism (X, Y) with unused outputs appended until there are `outputs` of them."""
    return np.pad(mechanism, ((0, 0), (0, outputs - mechanism.shape[1])))


def disclosed(source: np.ndarray, mechanisms: np.ndarray) -> np.ndarray:
    """I(X;Y) in nats of mechanisms (..., X, Y)."""
    masses = np.einsum("x,...xy->...y", source, mechanisms)[..., None, :]
    ratio = np.divide(mechanisms, masses, out=np.ones_like(mechanisms), where=mechanisms > 0)
    return np.einsum("x,...xy->...", source, mechanisms * np.log(ratio))


def disclosing(source: np.ndarray, logarithms: np.ndarray, target: float) -> np.ndarray:
    """The starts (B, X, Y) mixed with X itself (Y >= X outputs) or with nothing until I(X;Y) is `target`, in (0, H(X)).

    I(X;Y) is convex in the mixture and ends on the other side of the target: there is one crossing.
    """
    mechanisms = np.exp(logarithms)
    short = disclosed(source, mechanisms) < target
    nothing = np.full(mechanisms.shape[1:], 1.0 / mechanisms.shape[2])
    whole = np.broadcast_to(widened(np.eye(len(source)), mechanisms.shape[2]), mechanisms.shape)
    other = np.where(short[:, None, None], whole, nothing)
    low, high = np.zeros(len(mechanisms)), np.ones(len(mechanisms))
    for _ in range(50):
        share = 0.5 * (low + high)
        mixed = mechanisms + share[:, None, None] * (other - mechanisms)
        before = (disclosed(source, mixed) < target) == short
        low, high = np.where(before, share, low), np.where(before, high, share)
    return np.log(mechanisms + low[:, None, None] * (other - mechanisms))


# Prices of the first round, as multiples of the mean slope of the curve.
_FIRST_PRICES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.1, 1.4, 1.8, 2.5)
# Rounds in a row that lower nothing, after which the search ends.
_PATIENCE = 2
# Prices that a round tries between those of the neighbouring edges; odd, so that the middle is one of them.
_SPREAD = 9


class Target(NamedTuple):
    """Where on the hull the release is: form `disclosure`, `cost` (on a rising or a falling hull) or `price`."""

    form: str
    value: float
    rising: bool = True


@dataclass
class ReleasePool:
    """Every release found, as a point and a mechanism."""

    disclosures: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    mechanisms: list[np.ndarray] = field(default_factory=list)

    def add(self, landing: Landing, sign: float) -> None:
        """The finite results of a batch; the cost is `sign` times the leakage."""
        points = np.asarray(landing.disclosure), sign * np.asarray(landing.leak)
        for i in np.flatnonzero(np.isfinite(points).all(axis=0)):
            self.append(points[0][i], points[1][i], np.exp(np.asarray(landing.log_mechanism[i])))

    def append(self, disclosure: float, cost: float, mechanism: np.ndarray) -> None:
        """One release."""
        self.disclosures.append(float(disclosure))
        self.costs.append(float(cost))
        self.mechanisms.append(mechanism)

    def crossing(self, target: Target) -> Crossing:
        """The edge of the hull at the target; at a price the best point, twice."""
        points = np.array(self.disclosures), np.array(self.costs)
        if target.form == "disclosure":
            return at_disclosure(*points, target.value)
        if target.form == "cost":
            return at_cost(*points, target.value, rising=target.rising)
        best = int(np.argmin(points[1] - target.value * points[0]))
        return Crossing(best, best, 0.0, target.value, (target.value, target.value))

    def shared(self, crossing: Crossing) -> np.ndarray:
        """The time sharing of the two ends as one mechanism (X, Y)."""
        first, second = self.mechanisms[crossing.first], self.mechanisms[crossing.second]
        parts = [(1.0 - crossing.share) * first, crossing.share * second]
        kept = [part for part, share in zip(parts, (1.0 - crossing.share, crossing.share), strict=True) if share > 0]
        return np.hstack(kept)

    def height(self, crossing: Crossing, slope: float) -> float:
        """Cost - slope I(X;Y) of the crossing."""
        ends = [(1.0 - crossing.share, crossing.first), (crossing.share, crossing.second)]
        return sum(share * (self.costs[i] - slope * self.disclosures[i]) for share, i in ends)


def chase(
    pool: ReleasePool,
    target: Target,
    solve: Callable[[np.ndarray, np.ndarray], Landing],
    *,
    key: Array,
    shape: tuple[int, int],
    starts: int,
    rounds: int,
    tol: float,
    sign: float,
    steepest: float,
    clock: Clock,
    report: Callable[[int, Crossing], None],
) -> tuple[Crossing, int]:
    """Improve `pool` at `target`; the last crossing, and the steps of the longest run of every round, summed.

    Args:
        pool: two points at least, "nothing" first and X itself second.
        solve: (prices (B,), starts (B, X, Y)) -> Landing; prices are slopes of the hull without their sign.
        key: of the random starts.
        shape: (X, Y) of the starts.
        starts: size B of every batch.
        rounds: at most so many batches.
        tol: a round that lowers the edge by less is idle; two in a row end the search.
        sign: cost = sign * leak.
        steepest: no price is above this.
        clock: may end the search between two rounds.
        report: called with the steps so far and the crossing after every round.
    """
    mean = abs(pool.costs[1] - pool.costs[0]) / max(pool.disclosures[1] - pool.disclosures[0], 1e-300)
    steps, idle = 0, 0
    crossing = pool.crossing(target)
    for number in range(rounds):
        if clock.expired():
            break
        logarithms = random_starts(jax.random.fold_in(key, number), starts, *shape)
        slope = crossing.slope
        prices = np.full(starts, abs(slope))
        if number == 0 and target.form != "price":
            prices = np.resize(_FIRST_PRICES, starts) * mean
        if number > 0:
            given = _give(logarithms, pool, slope)
            # The promising spread over the prices that a better release may have, the random ones at the edge's own.
            prices[:given] = np.abs(np.resize(np.linspace(*crossing.beside, _SPREAD), given))
        before = pool.height(crossing, slope)
        landing = solve(np.minimum(prices, steepest), logarithms)
        pool.add(landing, sign)
        steps += int(np.max(np.asarray(landing.steps)))
        crossing = pool.crossing(target)
        report(steps, crossing)
        idle = 0 if pool.height(crossing, slope) < before - tol else idle + 1
        if idle == _PATIENCE:
            break
    return crossing, steps


def _give(logarithms: np.ndarray, pool: ReleasePool, slope: float) -> int:
    """Put the best releases at this price in place of the first starts, half of them at most; how many.

    So the promising have a long descent. The two best are given once more with every entry positive: what has
    become zero may have to return.
    """
    count, _, outputs = logarithms.shape
    heights = np.array(pool.costs) - slope * np.array(pool.disclosures)
    fitting = [i for i in np.argsort(heights) if pool.mechanisms[i].shape[1] <= outputs]
    best = [widened(pool.mechanisms[i], outputs) for i in fitting[: count // 2]]
    with np.errstate(divide="ignore"):
        given = [blended(mechanism) for mechanism in best[:2]] + [np.log(mechanism) for mechanism in best]
    given = given[: count // 2]
    for i, logs in enumerate(given):
        logarithms[i] = logs
    return len(given)
