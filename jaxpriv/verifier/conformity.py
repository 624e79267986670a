"""Does a release come from the design? A Monte Carlo test of exact level on the pairs (x, y) of its records.

Given how often each x occurs, the pairs of a release are independent draws from the rows of W. The same number of
draws is made `tables` times; on the release and on each of those:

    g          sum N ln(N / n_x W): any departure,
    identity   sum N (E - W) / W, E the release of x itself: a share of the records was released as it is,
    residual   the largest (N - n_x W)^2 / (n_x W) of a pair that occurs: a single pair.

Tables are ordered by the least of their three ranks, then by the next one; the rank of a release in that order, its
own table included, is its p-value: under the claim every order of the tables is equally likely (Besag and Clifford
1989), so Pr[p <= a] <= a. If a first round of few tables gives p > 0.1 that is the result, otherwise that of a second
round with tables of its own: Pr[p <= a] <= a stays true, for a <= 0.1 by the second round, and above it because p <= a
there means that the first one gave at most a. Standard library only.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist

from jaxpriv.verifier.claims import ONE, Matrix
from jaxpriv.verifier.records import SUPPRESSED

_FIRST, _LARGE, _TABLES = 99, 0.1, 999
_LEVEL, _POWER = 0.001, 0.9


@dataclass(frozen=True)
class ConformityResult:
    """`p_value` of the claim "released by this design", 0 if a pair is impossible (`impossible` rows, from 0).

    `detectable`: the share of records, released as they are, that the identity test finds in nine of ten cases at level
    0.001 with this many records; None where what is released has other columns.
    """

    p_value: float
    tables: int
    impossible: tuple[int, ...]
    detectable: float | None


def conformity(
    rows: Matrix, symbols: Sequence[int], outputs: Sequence[int], identity: Sequence[int] | None, tables: int = _TABLES
) -> ConformityResult:
    """Test pairs (x, y), equally many of each, against the integer table `rows`.

    `identity`: the output that is x itself, for every x (-1 where there is none); None if outputs are of another kind.
    """
    weights = _weights(rows, set(symbols))
    counts = {x: [0] * len(rows[0]) for x in weights}
    impossible = []
    for row, (x, y) in enumerate(zip(symbols, outputs, strict=True)):
        counts[x][y] += 1
        if weights[x][y] == 0.0:
            impossible.append(row)
    own = {x: -1 if identity is None or x == SUPPRESSED else identity[x] for x in weights}
    leak = _detectable(weights, {x: sum(row) for x, row in counts.items()}, own) if identity is not None else None
    if impossible:
        return ConformityResult(0.0, 0, tuple(impossible[:10]), leak)
    generator = random.Random(random.SystemRandom().getrandbits(256))
    totals = {x: sum(row) for x, row in counts.items()}
    running = {x: list(accumulate(row)) for x, row in weights.items()}
    seen, p = _scores(weights, counts, own), 1.0
    for size in (_FIRST, tables):
        scores = [seen]
        for _ in range(size):
            drawn = {x: _multinomial(totals[x], weights[x], running[x], generator) for x in weights}
            scores.append(_scores(weights, drawn, own))
        ranks = [_ranks([one[k] for one in scores]) for k in range(len(seen))]
        order = [sorted(own_ranks) for own_ranks in zip(*ranks, strict=True)]
        p = sum(one <= order[0] for one in order) / len(order)
        if p > _LARGE:
            return ConformityResult(p, size, (), leak)
    return ConformityResult(p, tables, (), leak)


def _weights(rows: Matrix, used: set[int]) -> dict[int, list[float]]:
    """W of every x that occurs; of a suppressed record the mean of all rows."""
    weights = {x: [entry / ONE for entry in rows[x]] for x in used if x != SUPPRESSED}
    if SUPPRESSED in used:
        weights[SUPPRESSED] = [sum(column) / (len(rows) * ONE) for column in zip(*rows, strict=True)]
    return weights


def _scores(
    weights: dict[int, list[float]], counts: dict[int, list[int]], own: dict[int, int]
) -> tuple[float, float, float]:
    g = identity = residual = 0.0
    for x, row in counts.items():
        total, mass = sum(row), weights[x]
        for seen, weight in zip(row, mass, strict=True):
            if seen:
                expected = total * weight
                g += seen * math.log(seen / expected)
                residual = max(residual, (seen - expected) ** 2 / expected)
        if own[x] >= 0 and mass[own[x]]:
            identity += row[own[x]] / mass[own[x]] - total
    return g, identity, residual


def _ranks(values: list[float]) -> list[int]:
    """For each value how many are at least as large."""
    ordered = sorted(values, reverse=True)
    last: dict[float, int] = {value: place + 1 for place, value in enumerate(ordered)}
    return [last[value] for value in values]


def _detectable(weights: dict[int, list[float]], totals: dict[int, int], own: dict[int, int]) -> float | None:
    information = sum(totals[x] * (1 / mass[own[x]] - 1) for x, mass in weights.items() if own[x] >= 0 and mass[own[x]])
    if not information:
        return None
    normal = NormalDist()
    return min((normal.inv_cdf(1 - _LEVEL / 3) + normal.inv_cdf(_POWER)) / math.sqrt(information), 1.0)


def _multinomial(count: int, weights: list[float], running: list[float], generator: random.Random) -> list[int]:
    seen = [0] * len(weights)
    if count < 20 * len(weights):
        for y in generator.choices(range(len(weights)), cum_weights=running, k=count):
            seen[y] += 1
        return seen
    left, mass = count, 1.0
    for y, weight in enumerate(weights):
        if not left:
            break
        if weight:
            seen[y] = left if weight >= mass else _binomial(left, weight / mass, generator)
        left, mass = left - seen[y], mass - weight
    if left:  # the rest of a mass that rounding left over
        seen[max(range(len(weights)), key=weights.__getitem__)] += left
    return seen


def _binomial(count: int, chance: float, generator: random.Random) -> int:
    """By order statistics: a beta variable splits the count in halves (Devroye 1986, section X.4.4)."""
    found = 0
    while count > 32:
        half = (count + 1) // 2
        split = generator.betavariate(half, count + 1 - half)
        if split <= chance:
            found += half
            count -= half
            chance = (chance - split) / (1.0 - split)
        else:
            count = half - 1
            chance /= split
    return found + sum(generator.random() < chance for _ in range(count))
