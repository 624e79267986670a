"""Does a release come from the design? A Monte Carlo test of exact level on the pairs (x, y) of its records.

Given how often each x occurs, the pairs of a release are independent draws from the rows of W. The same number of
draws is made `tables` times; on the release and on each of those:

    g          sum N ln(N / n_x W): any departure,
    identity   sum N ln(1 - a + a E/W), E the release of x itself, a = 0.05: a share was released as it is,
    merge      sum N ln(1 - a + a V/W), V the mean of the rows: a share was released independently of x,
    swap       the largest log-likelihood ratio of two rows in each other's place, of the pairs of rows that records
               tell apart best,
    residual   the largest N ln(N / n_x W) - N + n_x W of a pair that occurs: a single pair.

Each score is standardised by its mean and deviation over all tables, the release among them, and a table is as strange
as its largest score. The rank of the release by that is its p-value: under the claim every order of the tables is
equally likely (Besag and Clifford 1989), so Pr[p <= a] <= a. The rank of its g from below is another one: counts that
are nearer to n_x W than those of draws. Each p is computed with few tables at first; if it is at most 0.1, again with
more tables of their own, and if that is at most 0.01, with still more: Pr[p <= a] <= a stays true. For a > 0.1 the
first one was at most a, for a > 0.01 the second one, and for a <= 0.01 the last one.

A further test is about records that were released unchanged alone, so that its power can be stated for every number of
records. Its e-value is prod (1 - a + a 1[y = x]/W(x, x)) over all records, of expectation 1 under the claim, so that
Pr[it is 1/level or more] <= level. If a share a of the records or more is released unchanged, it is that large with
probability 0.9 for the a that `_detectable` finds, by Chernoff's bound on its lower tail.
"""

import math
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, combinations
from operator import mul, sub

from jaxpriv.verifier.claims import ONE, Matrix
from jaxpriv.verifier.symbols import SUPPRESSED

# Tables of the first two rounds with the p-values above which they are the last, and of a third one: p-values down to
# 1/3500.
_ROUNDS, TABLES = ((99, 0.1), (999, 0.01)), 3499
# The level for which `detectable` is stated where no other one is given, and its power.
_LEVEL, _POWER = 0.001, 0.9
# The share a of the alternatives in the head of this file.
_MIXED = 0.05
# Additions for the swaps of one table, at most; the logarithm of a probability of 0 there.
_SWAPS, _NEVER = 4000, math.log(1e-12)
# Draws for each of the weights, up to which drawing them one by one takes less time than binomial variables do.
_FEW = 40
# The t of Chernoff's bound that are tried; each of them gives a bound.
_CHERNOFF = tuple(step / 20 for step in range(1, 20))


@dataclass(frozen=True)
class ConformityResult:
    """`p_value` of the claim "released by this design", 0 if a pair is impossible (`impossible` rows, from 0).

    `regular`: that of counts which are nearer to their expectations than those of draws. `unchanged`: that of the test
    against a share of records that were released as they are. `detectable`: the least share that this test finds in
    nine of ten cases at its level with this many records; infinite if it does not find all of them. Both are None where
    what is released has other columns.
    """

    p_value: float
    regular: float
    tables: int
    impossible: tuple[int, ...]
    unchanged: float | None
    detectable: float | None


def conformity(
    rows: Matrix,
    symbols: Sequence[int],
    outputs: Sequence[int],
    identity: Sequence[int] | None,
    tables: int = TABLES,
    level: float = _LEVEL,
) -> ConformityResult:
    """Test pairs (x, y), equally many of each, against the integer table `rows`.

    `identity`: the output that is x itself, for every x (-1 where there is none); None if outputs are of another kind.
    `level`: of the test against records that were released unchanged.
    """
    weights = weights_of(rows, symbols)
    counts = {x: [0] * len(rows[0]) for x in weights}
    impossible = []
    for row, (x, y) in enumerate(zip(symbols, outputs, strict=True)):
        counts[x][y] += 1
        if weights[x][y] == 0.0:
            impossible.append(row)
    unchanged = None if identity is None else {x: -1 if x == SUPPRESSED else identity[x] for x in weights}
    test = conformity_of_counts(weights, counts, unchanged, tables, _generator(), level)
    return replace(test, impossible=tuple(impossible[:10]))


def of_all(tests: Sequence[ConformityResult]) -> ConformityResult:
    """One result of those of several groups of columns: the least p-values, times the number of groups.

    A share of records that were released unchanged was so in every group: the one that finds the least share counts.
    """

    def least(values: Sequence[float]) -> float:
        return min(1.0, len(tests) * min(values))

    unchanged = [test.unchanged for test in tests if test.unchanged is not None]
    detectable = [test.detectable for test in tests if test.detectable is not None]
    return ConformityResult(
        least([test.p_value for test in tests]),
        least([test.regular for test in tests]),
        max(test.tables for test in tests),
        tuple(sorted({row for test in tests for row in test.impossible})),
        least(unchanged) if unchanged else None,
        min(detectable, default=None),
    )


def _generator() -> random.Random:
    return random.Random(random.SystemRandom().getrandbits(256))


def conformity_of_counts(
    weights: Mapping[int, list[float]],
    counts: Mapping[int, list[int]],
    identity: Mapping[int, int] | None,
    tables: int,
    generator: random.Random,
    level: float = _LEVEL,
) -> ConformityResult:
    """The test of counts: for each x that occurs its row of W, how often each y was released, and the y that is x.

    `impossible` is left empty.
    """
    totals = {x: sum(row) for x, row in counts.items()}
    unchanged, share = (None, None) if identity is None else _unchanged(weights, counts, identity, level)
    if any(n and not w for x, row in counts.items() for n, w in zip(row, weights[x], strict=True)):
        return ConformityResult(0.0, 1.0, 0, (), unchanged, share)
    places = dict.fromkeys(weights, -1) if identity is None else identity
    alternatives = _alternatives(weights, totals)
    drawn = _drawing(weights, totals, generator)
    seen = _scores(weights, counts, places, alternatives)
    p, regular, size = _p_values(seen, lambda: _scores(weights, drawn(), places, alternatives), tables)
    return ConformityResult(p, regular, size, (), unchanged, share)


def conformity_of_totals(
    rows: Matrix, symbols: Sequence[int], outputs: Sequence[int], identity: Sequence[int] | None, tables: int = TABLES
) -> ConformityResult:
    """The same claim where it is unknown which record a released row is of: only how often each y occurs.

    The totals N have the mean E = sum n_x W. Scores: g = sum N ln(N / E), identity = sum N ln(1 - a + a I/E) where I is
    how many records are y themselves, and residual, of N against E. `impossible` rows are released for no record at
    all. Arguments as for `conformity`.
    """
    weights, totals = weights_of(rows, symbols), Counter(symbols)
    size = len(rows[0])
    expected = [math.fsum(n * weights[x][y] for x, n in totals.items()) for y in range(size)]
    unchanged = [0] * size
    for x, n in totals.items():
        if identity is not None and x != SUPPRESSED and identity[x] >= 0:
            unchanged[identity[x]] += n
    impossible = [row for row, y in enumerate(outputs) if not expected[y]]
    if impossible:
        return ConformityResult(0.0, 1.0, 0, tuple(impossible[:10]), None, None)

    def scores(counts: Sequence[int]) -> tuple[float, ...]:
        ratios = [(n, n * math.log(n / e), e, i) for n, e, i in zip(counts, expected, unchanged, strict=True) if n]
        return (
            sum(term for _, term, _, _ in ratios),
            sum(n * math.log1p(_MIXED * (i / e - 1.0)) for n, _, e, i in ratios),
            max(term - n + e for n, term, e, _ in ratios),
        )

    drawn = _drawing(weights, totals, _generator())
    seen = Counter(outputs)
    p, regular, made = _p_values(
        scores([seen[y] for y in range(size)]),
        lambda: scores([sum(column) for column in zip(*drawn().values(), strict=True)]),
        tables,
    )
    return ConformityResult(p, regular, made, (), None, None)


def chance_of_order(rows: Matrix, symbols: Sequence[int], outputs: Sequence[int]) -> float:
    """A bound on the chance that released rows in a random order agree as well with the records as they stand.

    T = sum a(x, y) over records and the rows in the same place, a = W(y|x) / max_x W(y|x). In a random order it has
    the mean M of all pairs, and Pr[T - M >= t] <= 2 exp(-t^2 / (4 M + 2 t)) (Chatterjee 2007, proposition 1.1).
    """
    weights, pairs = weights_of(rows, symbols), Counter(zip(symbols, outputs, strict=True))
    largest = [max(column) for column in zip(*weights.values(), strict=True)]
    records, released = Counter(symbols), Counter(outputs)

    def agreement(x: int, y: int) -> float:
        return weights[x][y] / largest[y] if largest[y] else 0.0

    seen = math.fsum(n * agreement(x, y) for (x, y), n in pairs.items())
    mean = math.fsum(n * m * agreement(x, y) for x, n in records.items() for y, m in released.items()) / len(symbols)
    beyond = seen - mean
    return min(2.0 * math.exp(-(beyond**2) / (4.0 * mean + 2.0 * beyond)), 1.0) if beyond > 0 else 1.0


def _drawing(
    weights: Mapping[int, list[float]], totals: Mapping[int, int], generator: random.Random
) -> Callable[[], dict[int, list[int]]]:
    """Draws tables of counts under the claim: for each x as many outputs from its row of W as the release has."""
    running = {x: list(accumulate(row)) for x, row in weights.items()}
    return lambda: {x: _multinomial(totals[x], row, running[x], generator) for x, row in weights.items()}


def _p_values(seen: tuple[float, ...], drawn: Callable[[], tuple[float, ...]], tables: int) -> tuple[float, float, int]:
    """The rank of the scores `seen` among those `drawn` under the claim, that of g from below, and how many were drawn.

    g is the first of the scores.
    """
    p_values, last, size = (0.0, 0.0), 1.0, 0
    rounds = [(min(size, tables), least) for size, least in _ROUNDS] + [(tables, 0.0)] * (tables > _ROUNDS[-1][0])
    for size, least in rounds:
        scores = [seen, *(drawn() for _ in range(size))]
        strange = [max(row) for row in zip(*map(_standardised, zip(*scores, strict=True)), strict=True)]
        beyond = (
            sum(score >= strange[0] for score in strange),
            sum(round(score[0], 9) <= round(seen[0], 9) for score in scores),
        )
        p_values = tuple(n / len(scores) if p <= last else p for n, p in zip(beyond, p_values, strict=True))
        last = least
        if min(p_values) > least:
            break
    p, regular = p_values
    return p, regular, size


def weights_of(rows: Matrix, symbols: Sequence[int]) -> dict[int, list[float]]:
    """W of every x that occurs; of a suppressed record the mean of all rows."""
    used = set(symbols)
    weights = {x: [entry / ONE for entry in rows[x]] for x in used if x != SUPPRESSED}
    if SUPPRESSED in used:
        weights[SUPPRESSED] = [sum(column) / (len(rows) * ONE) for column in zip(*rows, strict=True)]
    return weights


@dataclass(frozen=True)
class _Alternatives:
    """ln(1 - a + a V/W) for every x, V the mean row; pairs of rows with the logarithms of their ratios."""

    merge: dict[int, list[float]]
    swaps: list[tuple[int, int, list[float]]]


def _alternatives(weights: Mapping[int, list[float]], totals: Mapping[int, int]) -> _Alternatives:
    records = sum(totals.values())
    size = len(next(iter(weights.values())))
    mean = [sum(totals[x] * row[y] for x, row in weights.items()) / max(records, 1) for y in range(size)]
    merge = {
        x: [math.log1p(_MIXED * (v / w - 1.0)) if w else 0.0 for v, w in zip(mean, row, strict=True)]
        for x, row in weights.items()
    }
    logs = {x: [math.log(w) if w else _NEVER for w in row] for x, row in weights.items()}
    used = sorted(weights, key=lambda x: -totals[x])[: int(math.sqrt(2 * _SWAPS)) + 1]

    def separation(pair: tuple[int, int]) -> float:
        first, second = (weights[x] for x in pair)
        apart = sum((a - b) ** 2 / (a + b) for a, b in zip(first, second, strict=True) if a + b)
        return apart * min(totals[pair[0]], totals[pair[1]])

    pairs = sorted(combinations(used, 2), key=separation, reverse=True)[: max(1, _SWAPS // size)]
    swaps = [(a, b, [v - u for u, v in zip(logs[a], logs[b], strict=True)]) for a, b in pairs]
    return _Alternatives(merge, swaps)


def _scores(
    weights: Mapping[int, list[float]],
    counts: Mapping[int, list[int]],
    identity_of: Mapping[int, int],
    alternatives: _Alternatives,
) -> tuple[float, ...]:
    g = identity = residual = merge = 0.0
    for x, row in counts.items():
        total, mass = sum(row), weights[x]
        for seen, weight in zip(row, mass, strict=True):
            if seen:
                expected = total * weight
                term = seen * math.log(seen / expected)
                g += term
                residual = max(residual, term - seen + expected)
        if identity_of[x] >= 0 and mass[identity_of[x]]:
            identity += row[identity_of[x]] * math.log1p(_MIXED / (1 - _MIXED) / mass[identity_of[x]])
        merge += sum(map(mul, alternatives.merge[x], row))
    swap = max(
        (sum(map(mul, map(sub, counts[a], counts[b]), ratios)) for a, b, ratios in alternatives.swaps),
        default=0.0,
    )
    return g, identity, merge, swap, residual


def _standardised(values: Sequence[float]) -> list[float]:
    """Less the mean, over the deviation; equal values are 0. Rounded, so that ties stay ties."""
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return [round((value - mean) / deviation, 9) if deviation > 0 else 0.0 for value in values]


def _unchanged(
    weights: Mapping[int, list[float]], counts: Mapping[int, list[int]], identity: Mapping[int, int], level: float
) -> tuple[float | None, float | None]:
    """(the p-value of the test against records that were released as they are, the share that it finds)."""
    cells = [
        (sum(row), row[identity[x]], weights[x][identity[x]])
        for x, row in counts.items()
        if identity[x] >= 0 and weights[x][identity[x]]
    ]
    if all(weight == 1.0 for _, _, weight in cells):
        return None, None
    share = _detectable([(n, weight) for n, _, weight in cells], level)
    evidence = unchanged_evidence(cells, 0.5 if math.isinf(share) else share)
    return math.exp(-max(evidence, 0.0)), share


def unchanged_evidence(cells: Sequence[tuple[int, int, float]], share: float) -> float:
    """The logarithm of the e-value against a `share` of records that were released as they are.

    `cells` has for each x how often it occurs, how often it was released as it is, and W(x, x).
    """
    return math.fsum(
        same * math.log1p(share * (1 / weight - 1)) + (n - same) * math.log1p(-share) for n, same, weight in cells
    )


def _detectable(cells: Sequence[tuple[int, float]], level: float) -> float:
    """The least share a, to three digits, whose e-value is at least 1/level with probability 0.9 where a is released.

    `cells`: for each x how often it occurs, n, and w = W(x, x). With e the e-value and 0 < t < 1, by Chernoff,

        Pr[e < 1/level] <= level^-t E[e^-t] = level^-t prod_x ((w + a (1-w))^(1-t) w^t + (1-w) (1-a)^(1-t))^n.

    It decreases as a grows: what a smaller share gives is that of a larger one with some records drawn again.
    """

    def missed(share: float, t: float) -> float:
        moments = (
            n * math.log((w + share * (1 - w)) ** (1 - t) * w**t + (1 - w) * (1 - share) ** (1 - t)) for n, w in cells
        )
        return math.fsum(moments) - t * math.log(level)

    def detectable(share: float) -> bool:
        return any(missed(share, t) <= math.log(1 - _POWER) for t in _CHERNOFF)

    low, high = 0.0, 0.999
    if not detectable(high):
        return math.inf
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if detectable(middle) else (middle, high)
    digits = 10.0 ** (2 - math.floor(math.log10(high)))
    return min(math.ceil(high * digits) / digits, 0.999)


def _multinomial(count: int, weights: list[float], running: list[float], generator: random.Random) -> list[int]:
    """How often each of the weights is drawn, of which `running` has the running sums."""
    if count < _FEW * len(weights):
        draws = sorted([generator.random() * running[-1] for _ in range(count)])
        places = [0, *(bisect_left(draws, end) for end in running[:-1]), count]
        return list(map(sub, places[1:], places))
    seen = [0] * len(weights)
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
    successes = 0
    while count > 32:
        half = (count + 1) // 2
        split = generator.betavariate(half, count + 1 - half)
        if split <= chance:
            successes += half
            count -= half
            chance = (chance - split) / (1.0 - split)
        else:
            count = half - 1
            chance /= split
    return successes + sum(generator.random() < chance for _ in range(count))
